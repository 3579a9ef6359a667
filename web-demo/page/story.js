// What has been read: bytes, scores, and the book of states of every head.

import { blended, opened, paint } from "./colours.js";
import { Book } from "./pkg/book.js";

/** A growing array of floats. */
class Floats {
    length = 0;
    #values = new Float32Array(1024);

    push(values) {
        if (this.length + values.length > this.#values.length) {
            const larger = new Float32Array(2 * (this.length + values.length));
            larger.set(this.#values);
            this.#values = larger;
        }
        this.#values.set(values, this.length);
        this.length += values.length;
    }

    at(index) { return this.#values[index]; }
}

/** The text so far and what the model made of it. */
export class Story {
    constructor(info) {
        this.info = info;
        this.heads = info.layers * info.heads;
        this.book = new Book(info);
        this.clear();
    }

    clear() {
        this.book.clear();
        this.bytes = [];
        /** The text that became certain with each token. */
        this.pieces = [];
        /** The first token that the model wrote itself, of each stretch, and its end. */
        this.written = [];
        this.boundaries = new Uint32Array(this.heads);
        this.merges = new Uint32Array(this.heads);
        /** The colour of each live state, by head and id. */
        this.colours = Array.from({ length: this.heads }, () => new Map());
        /** Tokens before it were read in an earlier visit: their scores are not known. */
        this.scoredFrom = 0;
        this.scores = new Floats();
        /** What the last token did, by head. */
        this.newest = new Map();
        /** λ of the last token, [heads, capacity] by rank; not known before a token. */
        this.lambda = null;
        this.decoder = new TextDecoder();
    }

    get tokens() { return this.bytes.length; }

    /** Takes a piece in; `see(index, token, event)` gets every head's events. */
    take(piece, own, see) {
        const from = this.tokens;
        for (const id of piece.ids) this.#add(id);
        if (own) this.#mark(from);
        this.scores.push(piece.scores);
        this.lambda = piece.lambda ?? null;
        this.newest.clear();
        this.book.take(piece, (index, token, event) => {
            if (token === this.tokens - 1) this.newest.set(index, [...(this.newest.get(index) ?? []), event]);
            if (event.what === "opened") this.boundaries[index]++;
            else this.merges[index]++;
            this.#colour(index, event);
            see(index, token, event);
        });
    }

    /** Colours the state that opened, or the one that two became; no other. */
    #colour(index, { what, id, at, older, newer }) {
        const known = this.colours[index], live = this.states(index), colour = at => known.get(live[at]?.id);
        if (what === "opened") {
            known.set(id, opened(id, colour(live.length - 2), colour(live.length - 3)));
            return;
        }
        const neighbours = [colour(at - 1), colour(at + 1)].filter(Boolean);
        known.set(older.id, blended(known.get(older.id), known.get(newer.id), [older.n, newer.n], neighbours));
        known.delete(newer.id);
    }

    /** Goes on from a saved session; `colours` are those of each head's states, where they were kept. */
    restore(bytes, written, states, colours) {
        this.clear();
        for (const byte of bytes) this.#add(byte);
        this.written = written;
        this.scoredFrom = bytes.length;
        this.book.restore(states);
        this.book.live.forEach((live, index) => {
            const given = colours?.[index]?.length === live.length ? colours[index] : null, known = this.colours[index];
            live.forEach(({ id }, i) => {
                const [last, before] = [1, 2].map(back => known.get(live[i - back]?.id));
                known.set(id, given ? { hue: given[i][0], level: given[i][1] } : opened(id, last, before));
            });
        });
    }

    #add(byte) {
        this.bytes.push(byte);
        this.pieces.push(byte < 256 ? this.decoder.decode(Uint8Array.of(byte), { stream: true }) : "");
    }

    #mark(from) {
        const last = this.written.at(-1);
        if (last && last[1] === from) last[1] = this.tokens;
        else this.written.push([from, this.tokens]);
    }

    /** The score of a token; NaN where it is not known. */
    score(token, index) {
        return token < this.scoredFrom ? NaN : this.scores.at((token - this.scoredFrom) * this.heads + index);
    }

    /** The text of some tokens. */
    said(from, to) { return this.pieces.slice(from, to).join(""); }

    /** Whether the model wrote the token itself. */
    own(token) { return this.written.some(([from, to]) => token >= from && token < to); }

    states(index) { return this.book.live[index]; }

    /** How the states of a head look, oldest first. */
    paints(index) { return this.states(index).map(({ id }) => paint(this.colours[index].get(id))); }

    /** The colours of every head's states as numbers, for {@link restore}. */
    keptColours() {
        return this.colours.map((known, index) => this.states(index).map(({ id }) => [known.get(id).hue, known.get(id).level]));
    }

    /** The events of the last token in a head. */
    deeds(index) { return this.newest.get(index) ?? []; }

    /** How the last token reads each state of a head, oldest first; NaN where it is not known. */
    reads(index) {
        const { capacity } = this.info, count = this.states(index).length;
        const lambda = i => this.lambda?.[index * capacity + count - 1 - i] ?? NaN;
        return Array.from({ length: count }, (_, i) => lambda(i));
    }

    /** τ of a head; undefined where the schedule has none. */
    tau(index) { return this.info.schedule === "dynamic" ? this.info.tau[index] : undefined; }
}
