// What has been read: bytes, scores, and the book of states of every head.

import { Book } from "./pkg/book.js";

const HUES = 6;

/** The lightness and hue of each state, oldest first: a state keeps its hue unless its neighbour has the same. */
export function colours(states) {
    let last = HUES;
    return states.map(({ id }, i) => {
        const own = id % HUES;
        last = own === last ? (own + 1) % HUES : own;
        return { fill: `var(--c${i % 2}${last})`, ink: `var(--i${last})`, hue: last };
    });
}

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
            see(index, token, event);
        });
    }

    /** Goes on from a saved session. */
    restore(bytes, written, states) {
        this.clear();
        for (const byte of bytes) this.#add(byte);
        this.written = written;
        this.scoredFrom = bytes.length;
        this.book.restore(states);
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
