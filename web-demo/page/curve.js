// The scores of the last tokens, in their states' colours, against the threshold.

import { plain } from "./colours.js";

const BAR = 6, TOP = 10, FOOT = 22;

/** The scores of one head, drawn on a canvas. */
export class Curve {
    #canvas;
    #size = { width: 0, height: 0 };
    #color = variables();

    /** Draws again by `again()` where the canvas gets another size. */
    constructor(canvas, again) {
        this.#canvas = canvas;
        // Asking a canvas for its size would have the page laid out on the spot.
        new ResizeObserver(([{ contentRect: { width, height } }]) => {
            this.#size = { width, height };
            again();
        }).observe(canvas);
    }

    /** Asks for the page's colours again. */
    repaint() { this.#color = variables(); }

    draw(story, index) { drawScores(prepared(this.#canvas, this.#size), this.#color, story, index); }
}

function drawScores({ canvas, context, width, height }, color, story, index) {
    const bottom = height - FOOT;
    const count = Math.max(1, Math.floor(width / BAR)), first = Math.max(0, story.tokens - count);
    const states = story.states(index), paints = story.paints(index), tau = story.tau(index);
    let most = Math.max((tau ?? 0) * 1.2, 1e-6);
    for (let token = first; token < story.tokens; token++) most = Math.max(most, story.score(token, index) || 0);
    const tall = score => (score / most) * (bottom - TOP);
    let state = states.findIndex(({ start, n }) => start + n > first);
    context.font = "12px ui-serif, Georgia, serif";
    context.textAlign = "center";
    for (let token = first; token < story.tokens; token++) {
        while (states[state] && states[state].start + states[state].n <= token) state++;
        const x = (token - first) * BAR, score = story.score(token, index), paint = paints[state];
        context.fillStyle = color(paint?.fill ?? "var(--line)");
        context.fillRect(x, bottom + 1, BAR + .5, 6);
        const known = Number.isFinite(score), bar = known ? Math.max(1, tall(Math.max(0, score))) : 1;
        context.fillStyle = color(known ? paint?.ink ?? "var(--line)" : "var(--line)");
        if (tau !== undefined) context.fillRect(x + 1, bottom - bar, BAR - 2, bar);
        if (states[state]?.start === token) {
            context.fillStyle = color("var(--fg)");
            context.fillRect(x, bottom + 1, 1, 10);
        }
    }
    if (tau !== undefined && Number.isFinite(tau)) threshold(context, color, width, bottom - tall(tau), tau);
    context.fillStyle = color("var(--faint)");
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "left";
    if (story.tokens) context.fillText(`token ${first}`, 0, height - 1);
    context.textAlign = "right";
    if (story.tokens > first + 16) context.fillText(String(story.tokens - 1), Math.min(width, (story.tokens - first) * BAR), height - 1);
    const last = story.tokens - 1;
    canvas.setAttribute("aria-label", last < 0 ? "No scores yet" : `Scores of tokens ${first} to ${last}; the last is ${story.score(last, index).toFixed(2)}${tau === undefined ? "" : `, τ is ${tau.toFixed(2)}`}`);
}

function threshold(context, color, width, y, tau) {
    context.strokeStyle = color("var(--fg)");
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(0, y);
    context.lineTo(width, y);
    context.stroke();
    context.setLineDash([]);
    const label = `τ = ${tau.toFixed(2)}`;
    context.font = "600 12px system-ui, sans-serif";
    context.textAlign = "left";
    const wide = context.measureText(label).width;
    context.fillStyle = color("var(--panel)");
    context.fillRect(0, y - 8, wide + 8, 16);
    context.fillStyle = color("var(--fg)");
    context.fillText(label, 3, y + 4);
}

/** What a canvas takes for the page's colours, each read once. */
function variables() {
    const style = getComputedStyle(document.documentElement), known = new Map();
    return word => {
        if (!known.has(word)) known.set(word, plain(word, name => style.getPropertyValue(name).trim()));
        return known.get(word);
    };
}

/** A canvas sized for the screen's pixels; drawn by the CPU, so that no frame waits for a GPU that runs the model. */
function prepared(canvas, { width, height }) {
    const ratio = window.devicePixelRatio || 1;
    const [wide, tall] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== wide || canvas.height !== tall) Object.assign(canvas, { width: wide, height: tall });
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    return { canvas, context, width, height };
}
