// What is done: a head and a token are chosen, and everything follows.

const $ = (id) => document.getElementById(id);
const percent = (rate) => `${(100 * rate).toFixed(rate > 0 && rate < .0995 ? 1 : 0)}%`;
const count = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
const now = { story: new Story(data.chosen), token: TOKENS - 1, states: [], near: null, playing: 0 };

/** Stretches of the text that are coloured when they come into view: whole lines where lines are short. */
const blocks = (() => {
  const out = [];
  for (let from = 0; from < PIECES;) {
    let to = Math.min(PIECES, from + 1200);
    if (to < PIECES) {
      const line = text.lastIndexOf("\n", pieceText[to]), blank = text.lastIndexOf(" ", pieceText[to]);
      const cut = line > pieceText[from] ? line + 1 : blank > pieceText[from] ? blank + 1 : pieceText[to];
      to = above(pieceText, cut - 1, PIECES);
    }
    const div = $("text").appendChild(document.createElement("div"));
    div.textContent = text.slice(pieceText[from], pieceText[to]);
    out.push({ div, from, to, seen: false });
    from = to;
  }
  return out;
})();

function fill(block) {
  block.div.replaceChildren(textOf(now.story, now.states, now.token, block.from, block.to));
}

const watcher = new IntersectionObserver((changes) => {
  for (const { target, isIntersecting } of changes) {
    const block = blocks.find(({ div }) => div === target);
    block.seen = isIntersecting;
    if (isIntersecting) fill(block);
  }
}, { rootMargin: "50%" });
blocks.forEach(({ div }) => watcher.observe(div));

function draw() {
  const { story, states, token } = now;
  drawWhole($("whole").firstElementChild, story, states, token);
  now.near = drawNear($("near"), story, states, token);
}

function chooseToken(token) {
  now.token = Math.max(0, Math.min(TOKENS - 1, token));
  now.states = now.story.cache(now.token);
  const told = now.story.told(now.token);
  $("told").textContent = told;
  $("whole").setAttribute("aria-valuenow", now.token);
  $("whole").setAttribute("aria-valuetext", told);
  $("cached").textContent = `The cache after token ${now.token}: ${count(now.states.length, "state")}`;
  drawStates($("states").tBodies[0], now.states);
  blocks.filter(({ seen }) => seen).forEach(fill);
  draw();
}

function chooseHead(index) {
  now.story = new Story(index);
  const { story } = now;
  $("layer").value = story.layer;
  $("head").value = story.headNumber;
  $("story").textContent = `Layer ${story.layer}, head ${story.headNumber}`;
  const facts = [count(story.openings.length, "boundary").replace("boundarys", "boundaries"), count(story.mergeToken.length, "merge"), `${percent(story.rate)} of tokens open a state`];
  if (story.scale > 0) facts.push(`mean score ${story.mean.toFixed(3)}`);
  facts.push(story.tau === null ? "no threshold" : `τ = ${Number(story.tau.toPrecision(3))}`);
  $("facts").textContent = facts.join(" · ");
  for (const button of $("overview").querySelectorAll("button")) {
    const pressed = Number(button.dataset.index) === index;
    button.setAttribute("aria-pressed", pressed);
    button.tabIndex = pressed ? 0 : -1;
  }
  chooseToken(now.token);
}

function cell(index) {
  const { rate, states } = data.stories[index];
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.index = index;
  button.style.setProperty("--rate", Math.sqrt(rate));
  button.textContent = percent(rate);
  const name = `Layer ${Math.floor(index / data.heads)}, head ${index % data.heads}: ${percent(rate)} of tokens open a state, ${count(states, "state")} at the end`;
  button.setAttribute("aria-label", name);
  button.title = name;
  return button;
}

function overview() {
  const table = $("overview"), head = table.createTHead().insertRow();
  const label = (row, words, scope) => {
    const th = row.appendChild(document.createElement("th"));
    th.scope = scope;
    th.textContent = words;
  };
  head.appendChild(document.createElement("td"));
  for (let h = 0; h < data.heads; h++) label(head, `head ${h}`, "col");
  const body = table.createTBody();
  for (let l = 0; l < data.layers; l++) {
    const row = body.insertRow();
    label(row, `layer ${l}`, "row");
    for (let h = 0; h < data.heads; h++) row.insertCell().append(cell(l * data.heads + h));
  }
  table.addEventListener("click", ({ target }) => {
    if (target.dataset.index) chooseHead(Number(target.dataset.index));
  });
  table.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -data.heads, ArrowDown: data.heads }[event.key];
    const next = now.story.index + (step ?? 0);
    if (!step || next < 0 || next >= data.stories.length) return;
    event.preventDefault();
    chooseHead(next);
    table.querySelector('[aria-pressed="true"]').focus();
  });
}

function selects() {
  const options = (select, n) => { for (let i = 0; i < n; i++) select.add(new Option(i, i)); };
  options($("layer"), data.layers);
  options($("head"), data.heads);
  const chosen = () => chooseHead(Number($("layer").value) * data.heads + Number($("head").value));
  $("layer").addEventListener("change", chosen);
  $("head").addEventListener("change", chosen);
}

/** The boundary before (−1) or after (1) the chosen token. */
function boundary(direction) {
  const { openings } = now.story;
  const at = direction > 0 ? above(openings, now.token) : above(openings, now.token - 1) - 1;
  return openings[at] ?? (direction > 0 ? TOKENS - 1 : 0);
}

function curve() {
  const whole = $("whole");
  whole.setAttribute("aria-valuemax", TOKENS - 1);
  const follow = ({ clientX }) => {
    const { left, width } = whole.getBoundingClientRect();
    chooseToken(Math.floor(((clientX - left) / width) * TOKENS));
  };
  whole.addEventListener("pointerdown", (event) => { whole.setPointerCapture(event.pointerId); follow(event); });
  whole.addEventListener("pointermove", (event) => { if (event.buttons) follow(event); });
  whole.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.round(TOKENS / 20));
    const next = {
      ArrowLeft: now.token - 1, ArrowRight: now.token + 1, ArrowDown: now.token - 1, ArrowUp: now.token + 1,
      PageDown: now.token - page, PageUp: now.token + page, Home: 0, End: TOKENS - 1,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    chooseToken(next);
  });
  $("near").addEventListener("click", ({ offsetX }) => chooseToken(now.near.first + Math.floor(offsetX / now.near.step)));
  $("back").addEventListener("click", () => chooseToken(boundary(-1)));
  $("on").addEventListener("click", () => chooseToken(boundary(1)));
}

/** Reads the text from the chosen token on, in about twenty seconds. */
function play() {
  const stop = () => { cancelAnimationFrame(now.playing); now.playing = 0; $("play").textContent = "Play"; $("told").ariaLive = "polite"; };
  $("play").addEventListener("click", () => {
    if (now.playing) return stop();
    const from = now.token >= TOKENS - 1 ? 0 : now.token, start = performance.now();
    const speed = Math.max(15, TOKENS / 20) / 1000;
    const frame = (time) => {
      const token = from + Math.floor((time - start) * speed);
      if (token !== now.token) chooseToken(token);
      if (token >= TOKENS - 1) return stop();
      now.playing = requestAnimationFrame(frame);
    };
    $("play").textContent = "Stop";
    $("told").ariaLive = "off";
    now.playing = requestAnimationFrame(frame);
  });
}

/** The node and offset under a point, as browsers old and new tell them. */
function caretAt(x, y) {
  const position = document.caretPositionFromPoint?.(x, y);
  if (position) return [position.offsetNode, position.offset];
  const range = document.caretRangeFromPoint?.(x, y);
  return range ? [range.startContainer, range.startOffset] : [null, 0];
}

/** A click in the text chooses the character under it. */
function clicks() {
  $("text").addEventListener("click", (event) => {
    const span = event.target.closest("[data-piece]");
    const [node, offset] = caretAt(event.clientX, event.clientY);
    if (!span) return;
    let piece = Number(span.dataset.piece), at = 0;
    if (node && span.contains(node)) {
      const before = document.createRange();
      before.setStart(span, 0);
      before.setEnd(node, offset);
      const words = before.cloneContents();
      words.querySelectorAll(".sign").forEach((sign) => sign.remove());
      at = words.textContent.length;
    }
    piece = Math.max(piece, above(pieceText, pieceText[piece] + at, PIECES) - 1);
    chooseToken(pieceToken[piece]);
  });
}

$("about").textContent = `${count(TOKENS, "token")}, ${count(data.layers, "layer")} of ${count(data.heads, "head")}, at most ${count(data.capacity, "state")} in each, ${data.schedule} schedule.`;
overview();
selects();
curve();
play();
clicks();
chooseHead(data.chosen);
new ResizeObserver(draw).observe($("whole"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
