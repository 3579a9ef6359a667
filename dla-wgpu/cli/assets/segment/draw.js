// What is drawn: score curves on canvases, the text in spans, the cache as a table.

const style = () => {
  const computed = getComputedStyle(document.documentElement);
  const read = (name) => computed.getPropertyValue(name).trim();
  return (word) => (word.startsWith("--") ? read(word) : plain(word, read));
};

/** A canvas sized for the screen's pixels. */
function prepared(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { width, height } = canvas.getBoundingClientRect();
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return { context, width, height };
}

const stateOf = (states, token) => states[above(states.map((s) => s.start), token) - 1];

/** The height of the score axis. */
const most = (story) => Math.max(story.scale * 1.04, (story.tau ?? 0) * 1.18, 1e-9);

function drawTau(context, story, color, width, top, bottom) {
  if (story.tau === null) return;
  const y = bottom - (story.tau / most(story)) * (bottom - top);
  context.strokeStyle = color("--fg");
  context.lineWidth = 1;
  context.setLineDash([5, 4]);
  context.beginPath();
  context.moveTo(0, y);
  context.lineTo(width, y);
  context.stroke();
  context.setLineDash([]);
  const label = `τ = ${Number(story.tau.toPrecision(3))}`;
  context.font = "12px system-ui, sans-serif";
  context.textAlign = "left";
  context.globalAlpha = .85;
  context.fillStyle = color("--panel");
  context.fillRect(0, y - 17, context.measureText(label).width + 8, 16);
  context.globalAlpha = 1;
  context.fillStyle = color("--fg");
  context.fillText(label, 4, y - 5);
}

/** All tokens: the highest score of each column, the states below, a tick for columns with merges. */
function drawWhole(canvas, story, states, chosen) {
  const { context, width, height } = prepared(canvas);
  const color = style(), columns = Math.max(1, Math.min(TOKENS, Math.floor(width)));
  const step = width / columns, bottom = height - 40, top = 8;
  const starts = states.map((s) => s.start);
  for (let column = 0; column < columns; column++) {
    const from = Math.floor((column * TOKENS) / columns), to = Math.max(from + 1, Math.floor(((column + 1) * TOKENS) / columns));
    let highest = 0, bad = false, merged = false;
    for (let t = from; t < to; t++) {
      if (story.scores[t] > highest) highest = story.scores[t];
      bad ||= !Number.isFinite(story.scores[t]);
    }
    const next = above(story.mergeToken, from - 1);
    merged = next < story.mergeToken.length && story.mergeToken[next] < to;
    const state = from <= chosen ? states[above(starts, from) - 1] : undefined;
    const x = column * step, wide = step > 3 ? step - 1 : step;
    context.fillStyle = bad ? color("--bad") : color(state ? state.ink : "--line");
    const tall = bad ? bottom - top : (highest / most(story)) * (bottom - top);
    context.fillRect(x, bottom - tall, wide, tall);
    context.fillStyle = color(state ? state.fill : "--line");
    context.fillRect(x, bottom + 4, step + .5, 12);
    if (merged) {
      context.fillStyle = color("--fg");
      context.fillRect(x, bottom + 19, Math.max(1, wide), 4);
    }
  }
  states.slice(1).forEach((s) => {
    context.fillStyle = color("--panel");
    context.fillRect((s.start / TOKENS) * width - .5, bottom + 4, 1, 12);
  });
  drawTau(context, story, color, width, top, bottom);
  const x = ((chosen + .5) / TOKENS) * width;
  context.fillStyle = color("--fg");
  context.fillRect(x - 1, 0, 2, bottom + 16);
  context.font = "12px system-ui, sans-serif";
  context.fillStyle = color("--faint");
  context.textAlign = "left";
  context.fillText("0", 0, height - 2);
  context.textAlign = "center";
  if (width > 480) context.fillText("score above states; marks are merges", width / 2, height - 2);
  context.textAlign = "right";
  context.fillText(`token ${TOKENS - 1}`, width, height - 2);
}

/** The tokens around the chosen one, each with its characters. Gives the first one and the width of one. */
function drawNear(canvas, story, states, chosen) {
  const { context, width, height } = prepared(canvas);
  const color = style(), count = Math.min(TOKENS, Math.max(8, Math.floor(width / 15)));
  const first = Math.max(0, Math.min(TOKENS - count, chosen - (count >> 1)));
  const step = width / count, top = 8, bottom = height - 36;
  context.textAlign = "center";
  for (let i = 0; i < count; i++) {
    const token = first + i, score = story.scores[token];
    const state = token <= chosen ? stateOf(states, token) : undefined;
    const bad = !Number.isFinite(score);
    const tall = Math.max(1, ((bad ? most(story) : score) / most(story)) * (bottom - top));
    context.fillStyle = bad ? color("--bad") : color(state ? state.ink : "--line");
    context.fillRect(i * step + 1, bottom - tall, step - 2, tall);
    context.fillStyle = color(state ? state.fill : "--panel");
    context.fillRect(i * step, bottom + 3, step + .5, 20);
    const piece = pieceOf(token), shown = text.slice(pieceText[piece], pieceText[piece + 1]);
    context.fillStyle = color(state ? "--fg" : "--faint");
    context.font = "14px ui-serif, Georgia, serif";
    if (pieceToken[piece] === token) context.fillText(SIGNS[shown] ?? shown, (i + .5) * step, bottom + 18, step);
    if (story.mergesAt(token).length) {
      context.fillStyle = color("--fg");
      context.beginPath();
      context.moveTo((i + .5) * step, bottom + 25);
      context.lineTo((i + .5) * step + 4, bottom + 32);
      context.lineTo((i + .5) * step - 4, bottom + 32);
      context.fill();
    }
    if (token === chosen) {
      context.strokeStyle = color("--fg");
      context.lineWidth = 2;
      context.strokeRect(i * step + 1, bottom + 3, step - 2, 20);
    }
  }
  drawTau(context, story, color, width, top, bottom);
  return { first, step, count };
}

/** Pieces of one state without a mark between them are one span. */
function textOf(story, states, chosen, from, to) {
  const fragment = document.createDocumentFragment();
  const starts = states.map((s) => s.start);
  let run = null;
  for (let piece = from; piece < to; piece++) {
    const first = pieceToken[piece], end = pieceToken[piece + 1];
    const index = first <= chosen ? above(starts, first) - 1 : -1;
    const marks = marksOf(story, starts, chosen, first, end);
    const split = index >= 0 && above(starts, end - 1) - 1 !== index;
    if (!run || run.index !== index || marks.length || run.alone || split) {
      const span = fragment.appendChild(document.createElement("span"));
      span.dataset.piece = piece;
      run = { span, index, alone: split || marks.length > 0 };
      if (marks.length) span.classList.add(...marks);
      if (index < 0) span.classList.add("later");
      else paintSpan(span, states, first, end, split);
      if (marks.includes("merge")) span.title = titleOf(story, first, end);
    }
    const shown = text.slice(pieceText[piece], pieceText[piece + 1]);
    if (shown === "\n" && marks.length) {
      const sign = run.span.appendChild(document.createElement("span"));
      sign.className = "sign";
      sign.setAttribute("aria-hidden", "true");
      sign.textContent = "↵";
    }
    run.span.append(shown);
  }
  return fragment;
}

function marksOf(story, starts, chosen, first, end) {
  const marks = [];
  if (chosen >= first && chosen < end) marks.push("here");
  if (first > chosen) return marks;
  const opening = above(story.openings, first - 1);
  if (opening < story.openings.length && story.openings[opening] < end && story.openings[opening] <= chosen) {
    const live = above(starts, first - 1);
    marks.push(live < starts.length && starts[live] < end ? "open" : "gone");
  }
  const merge = above(story.mergeToken, first - 1);
  if (merge < story.mergeToken.length && story.mergeToken[merge] < end && story.mergeToken[merge] <= chosen) marks.push("merge");
  return marks;
}

/** A character whose tokens lie in several states is painted in shares. */
function paintSpan(span, states, first, end, split) {
  const state = stateOf(states, first);
  span.style.setProperty("--ink", state.ink);
  if (!split) {
    span.style.background = state.fill;
    return;
  }
  const stops = [];
  for (let token = first; token < end; token++) {
    const share = (x) => `${((100 * (x - first)) / (end - first)).toFixed(1)}%`;
    stops.push(`${stateOf(states, token).fill} ${share(token)} ${share(token + 1)}`);
  }
  span.style.background = `linear-gradient(90deg, ${stops.join(",")})`;
}

function titleOf(story, first, end) {
  const told = [];
  for (let token = first; token < end; token++) told.push(...story.mergesAt(token).map(mergeTold));
  return `Token ${first}: ${told.join("; ")}`;
}

function drawStates(body, states) {
  const largest = Math.max(...states.map((s) => s.n));
  body.replaceChildren(...states.map((state, i) => {
    const row = document.createElement("tr");
    row.innerHTML = '<th scope="row"><span class="chip"></span></th><td class="said"><span></span><small></small><div class="share"></div></td><td class="num"></td><td class="num"></td>';
    const [label, words, n, density] = row.children;
    label.firstChild.textContent = i + 1;
    label.firstChild.style.background = state.fill;
    words.children[0].textContent = excerpt(state);
    words.children[1].textContent = state.n > 1 ? `${state.start} to ${state.end - 1}` : `${state.start}`;
    words.children[2].style.cssText = `width:${(100 * state.n) / largest}%;background:${state.ink}`;
    n.textContent = state.n;
    density.textContent = state.density.toFixed(3);
    return row;
  }));
}

/** How a state's text begins and ends. */
function excerpt(state) {
  const flat = (words) => words.replace(/\s+/g, " ");
  const ends = 18;
  if (state.n <= 2 * ends + 3) return flat(said(state.start, state.end));
  return `${flat(said(state.start, state.start + ends))} … ${flat(said(state.end - ends, state.end))}`;
}
