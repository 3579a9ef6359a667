// What is read: the text's pieces, and each head's events followed to its states.

const data = JSON.parse(document.getElementById("data").textContent);

/** Run lengths (count, value, …) to the running sums before each entry and after the last. */
function sums(runs) {
  const length = runs.reduce((sum, x, i) => (i % 2 ? sum : sum + x), 0);
  const out = new Uint32Array(length + 1);
  let at = 0;
  for (let i = 0; i < runs.length; i += 2) {
    for (let j = 0; j < runs[i]; j++, at++) out[at + 1] = out[at] + runs[i + 1];
  }
  return out;
}

/** The first index from which the rising `values` are above `x`. */
function above(values, x, length = values.length) {
  let low = 0, high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > x) high = middle; else low = middle + 1;
  }
  return low;
}

const text = data.text;
const pieceText = sums(data.lengths);   // where each piece starts in the text
const pieceToken = sums(data.tokens);   // and among the tokens
const PIECES = pieceText.length - 1;
const TOKENS = pieceToken[PIECES];
const pieceOf = (token) => above(pieceToken, token, PIECES) - 1;
const said = (from, to) => {
  const first = pieceOf(from), last = pieceOf(Math.max(from, to - 1));
  return text.slice(pieceText[first], pieceText[last + 1]);
};

const bytesOf = (word) => Uint8Array.from(atob(word), (c) => c.charCodeAt(0));

/** Differences in 7-bit groups to rising numbers; with `behind`, a byte follows each. */
function rising(bytes, behind) {
  const values = [], extra = [];
  let value = 0;
  for (let i = 0; i < bytes.length;) {
    let shift = 1, byte;
    do { byte = bytes[i++]; value += (byte & 127) * shift; shift *= 128; } while (byte > 127);
    values.push(value);
    if (behind) extra.push(bytes[i++]);
  }
  return [values, extra];
}

/** A head's scores and events. */
class Story {
  constructor(index) {
    Object.assign(this, data.stories[index]);
    this.index = index;
    this.layer = Math.floor(index / data.heads);
    this.headNumber = index % data.heads;
    this.scores = this.decodeScores();
    this.sum = new Float64Array(TOKENS + 1);
    for (let t = 0; t < TOKENS; t++) this.sum[t + 1] = this.sum[t] + (Number.isFinite(this.scores[t]) ? this.scores[t] : 0);
    [this.openings] = rising(bytesOf(this.opened), false);
    [this.mergeToken, this.mergeAt] = rising(bytesOf(this.merged), true);
    this.merges = [];
    this.follow(Infinity, (merge) => this.merges.push(merge));
  }

  decodeScores() {
    const out = new Float32Array(TOKENS), bytes = bytesOf(this.score);
    for (let t = 0; 2 * t < bytes.length; t++) {
      const code = bytes[2 * t] | (bytes[2 * t + 1] << 8);
      out[t] = code === 65535 ? NaN : (code / 65534) * this.scale;
    }
    return out;
  }

  /** The states after token `token`, oldest first; `see` gets each merge on the way. */
  follow(token, see) {
    const states = [];
    let open = 0, merge = 0;
    for (;;) {
      const nextOpen = open < this.openings.length ? this.openings[open] : Infinity;
      const nextMerge = merge < this.mergeToken.length ? this.mergeToken[merge] : Infinity;
      if (Math.min(nextOpen, nextMerge) > token || (nextOpen === Infinity && nextMerge === Infinity)) break;
      if (nextMerge <= nextOpen) {
        const at = this.mergeAt[merge++];
        const [older, newer] = states.slice(at, at + 2);
        const end = at + 2 < states.length ? states[at + 2].start : nextMerge;
        const neighbours = [states[at - 1], states[at + 2]].filter(Boolean).map(({ colour }) => colour);
        older.colour = blended(older.colour, newer.colour, [newer.start - older.start, end - newer.start], neighbours);
        if (see) see({ token: nextMerge, at, n: [newer.start - older.start, end - newer.start], density: this.density(older.start, end) });
        states.splice(at + 1, 1);
      } else {
        states.push({ id: open, start: nextOpen, colour: opened(open, states.at(-1)?.colour, states.at(-2)?.colour) });
        open++;
      }
    }
    return states;
  }

  density(from, to) { return (this.sum[to] - this.sum[from]) / (to - from); }

  /** The cache after token `token`: states with tokens, density and colour. */
  cache(token) {
    const states = this.follow(token);
    states.forEach((state, i) => {
      state.end = i + 1 < states.length ? states[i + 1].start : token + 1;
      state.n = state.end - state.start;
      state.density = this.density(state.start, state.end);
      Object.assign(state, paint(state.colour));
    });
    return states;
  }

  /** The merges at token `token`. */
  mergesAt(token) {
    const out = [];
    for (let i = above(this.mergeToken, token - 1); this.mergeToken[i] === token; i++) out.push(this.merges[i]);
    return out;
  }

  /** What happened at a token, in words. */
  told(token) {
    const score = this.scores[token];
    const opens = this.openings[above(this.openings, token) - 1] === token;
    const deeds = this.mergesAt(token).map(mergeTold);
    if (opens) deeds.push(token === 0 ? "opens the first state" : "opens a state");
    else deeds.push("joins the open state");
    const measured = this.scale > 0 ? `, score ${Number.isFinite(score) ? score.toFixed(3) : "not finite"}` : "";
    return `Token ${token} ${quoted(token)}${measured}: ${deeds.join("; ")}.`;
  }
}

const mergeTold = ({ at, n, density }) =>
  `states ${at + 1} and ${at + 2} merge (n = ${n[0]} + ${n[1]}, density ${density.toFixed(3)})`;

const SIGNS = { "\n": "↵", "\t": "⇥", " ": "␣" };
const quoted = (token) => `“${SIGNS[said(token, token + 1)] ?? said(token, token + 1)}”`;
