// The text: one element for each live state of the chosen head, so that a merge joins two elements.

/** Bytes that come, faint, behind what has been read. */
const AHEAD = 600;

/** Lines as programs have them, and hardly any other text. */
const CODE = /[{}]\s*$|\)[;:]\s*$|^\s*(#include|#!|import |from \S+ import |export |def |class \S+[:({]|fn |pub |let |const |var |static |int |return\b|@\w|<\/?\w+.*>\s*$)|^\s*\/[/*]|^\s*"[^"]+":/;

/** Whether a text is code: a third of its lines look so. */
export function isCode(text) {
    const lines = text.split("\n").filter(line => line.trim());
    return lines.length > 2 && lines.filter(line => CODE.test(line)).length > lines.length / 3;
}

/** The text by the states of one head. */
export class TextView {
    #story;
    #index = 0;
    #spans = new Map();
    #box;
    #ahead = document.createElement("span");

    constructor(box) {
        this.#box = box;
        this.#ahead.className = "ahead";
    }

    /** Draws everything anew, for another head or another text. */
    show(story, index) {
        this.#story = story;
        this.#index = index;
        this.#spans.clear();
        this.#box.replaceChildren(this.#ahead);
        for (const state of story.states(index)) {
            const span = this.#open(state.id);
            const end = state.start + state.n;
            for (let from = state.start; from < end;) {
                const own = story.own(from);
                let to = from + 1;
                while (to < end && story.own(to) === own) to++;
                this.#append(span, story.said(from, to), own);
                from = to;
            }
        }
        this.paint();
    }

    #open(id) {
        const span = document.createElement("span");
        span.dataset.id = id;
        this.#spans.set(id, span);
        this.#box.insertBefore(span, this.#ahead);
        return span;
    }

    #append(span, text, own) {
        if (!text) return;
        const last = span.lastChild;
        const mark = own ? "I" : "#text";
        if (last?.nodeName === mark) (own ? last.firstChild : last).appendData(text);
        else if (own) span.appendChild(document.createElement("i")).append(text);
        else span.append(text);
    }

    /** Follows the tokens from `from` on; `events` are those of the chosen head, by token. */
    follow(from, events) {
        const story = this.#story;
        let next = 0;
        for (let token = from; token < story.tokens; token++) {
            for (; next < events.length && events[next].token === token; next++) {
                if (events[next].what === "opened") this.#open(events[next].id);
                else this.#merge(events[next]);
            }
            this.#append(this.#ahead.previousSibling, story.pieces[token], story.own(token));
        }
        this.paint();
    }

    #merge({ older, newer }) {
        const [kept, gone] = [this.#spans.get(older.id), this.#spans.get(newer.id)];
        for (const node of gone.childNodes) this.#append(kept, node.textContent, node.nodeName !== "#text");
        gone.remove();
        this.#spans.delete(newer.id);
    }

    /** What is still to come, in bytes. */
    ahead(bytes) {
        // The bytes that end a character belong to the token before.
        const first = bytes.findIndex(byte => (byte & 0xc0) !== 0x80);
        const shown = first < 0 ? "" : new TextDecoder().decode(bytes.subarray(first, first + AHEAD), { stream: true });
        if (this.#ahead.textContent !== shown) this.#ahead.textContent = shown;
    }

    paint() {
        const states = this.#story.states(this.#index);
        this.#story.paints(this.#index).forEach(({ fill, ink }, i) => {
            const { style } = this.#spans.get(states[i].id);
            if (style.getPropertyValue("--fill") !== fill) style.setProperty("--fill", fill);
            if (style.getPropertyValue("--ink") !== ink) style.setProperty("--ink", ink);
        });
    }

    /** Points at a state, or at none. */
    point(id) {
        for (const [own, span] of this.#spans) span.classList.toggle("pointed", own === id);
    }

    /** Brings a state into view. */
    reveal(id) { this.#scroll(this.#spans.get(id)); }

    /** Keeps the newest token in view. */
    followEnd() {
        const { bottom } = this.#ahead.getBoundingClientRect(), box = this.#box.getBoundingClientRect();
        const end = this.#ahead.textContent ? this.#ahead.getClientRects()[0]?.bottom ?? bottom : bottom;
        if (end > box.bottom - 40) this.#box.scrollTop += end - box.bottom + 80;
    }

    #scroll(span) {
        if (!span) return;
        this.#box.scrollTop += span.getBoundingClientRect().top - this.#box.getBoundingClientRect().top - 30;
    }
}
