// A sequence of a model.

import { Busy } from "./busy.js";
import { Generation } from "./dla_web.js";
import { guarded, refused, whole } from "./error.js";
import { BYTES } from "./source.js";

/** Tokens that are taken in before other work of the thread gets its turn. */
const PIECE = 64;
/** Milliseconds of generating before it does. */
const HOLD = 8;
const TEXT = new TextEncoder();

/** A sequence of a model. Calls that overlap are refused with kind "busy". */
export class Session {
    #session;
    #vocabulary;
    #busy = new Busy();

    constructor(session, vocabulary) {
        this.#session = session;
        this.#vocabulary = vocabulary;
    }

    /**
     * Takes text in, a string or any bytes, or token ids as a Uint32Array; resolves to what every layer and head did with
     * it. `onStates` gets the same in pieces as they are done; `bits` asks for the bits that each token was worth to the
     * model beforehand, `lambda` for how the last token read the states.
     */
    feed(text, { onStates, bits = false, lambda = false, signal } = {}) {
        return this.#alone(async session => {
            const ids = this.#ids(text);
            const pieces = [];
            for (let at = 0; at < ids.length || at === 0; at += PIECE) {
                if (at > 0) await turn();
                signal?.throwIfAborted();
                const piece = await session.feed(ids.subarray(at, at + PIECE), bits, lambda);
                onStates?.(piece);
                pieces.push(piece);
            }
            return joined(pieces);
        }, signal);
    }

    /**
     * Goes on with the text: an async iterator of `{ id, text, states, stop }`. Other work of the thread gets its turn
     * every few milliseconds.
     */
    async *generate({ maxTokens = Infinity, temperature = 1, topK = 0, topP = 1, seed = 0, stop = [], lambda = false, signal } = {}) {
        const release = this.#busy.hold();
        let generation;
        try {
            generation = await guarded(() => {
                if (maxTokens !== Infinity) whole("generate, maxTokens", maxTokens, 0);
                whole("generate, topK", topK, 0);
                whole("generate, seed", seed, 0);
                return new Generation(temperature, topK, topP, seed, [stop].flat());
            }, signal);
            let held = performance.now();
            for (let count = 1; count <= maxTokens; count++) {
                if (performance.now() - held > HOLD) {
                    await turn();
                    held = performance.now();
                }
                const token = await guarded(() => this.#alive().next(generation, lambda), signal);
                const last = token.stop !== null || token.end || count === maxTokens;
                if (last && token.stop === null) token.text += generation.finish();
                yield token;
                if (last) return;
            }
        } finally {
            generation?.free();
            release();
        }
    }

    /** The live states: an array of layers of heads of states, oldest first. */
    states() {
        return this.#alone(session => session.states());
    }

    /** Tokens taken in. */
    position() {
        return this.#alone(session => session.position());
    }

    /** Everything that later tokens depend on, as bytes. */
    save() {
        return this.#alone(session => session.save());
    }

    /** Goes on where `save` was called. A refusal changes nothing. */
    restore(bytes) {
        return this.#alone(session => {
            const saved = bytes instanceof ArrayBuffer ? new Uint8Array(bytes) : bytes;
            if (!(saved instanceof Uint8Array)) throw refused("input", "restore, bytes", "a Uint8Array", typeof bytes);
            return session.restore(saved);
        });
    }

    /** Forgets the text. */
    reset() {
        return this.#alone(session => session.reset());
    }

    /** Gives the memory back, once a call in progress has ended. */
    free() {
        this.#session?.free();
        this.#session = undefined;
    }

    /** The ids of a text; ids are their own. */
    #ids(text) {
        if (text instanceof Uint32Array) return text;
        const bytes = typeof text === "string" ? TEXT.encode(text) : text;
        if (!(bytes instanceof Uint8Array)) throw refused("input", "feed, text", "a string, a Uint8Array or token ids as a Uint32Array", typeof text);
        if (this.#vocabulary > BYTES) throw refused("unsupported", "feed, text", `token ids as a Uint32Array for a vocabulary of ${this.#vocabulary}`, "text; its tokenizer.json is not part of this package");
        return Uint32Array.from(bytes);
    }

    #alive() {
        if (!this.#session) throw refused("input", "session", "one that has not been freed", "a freed one");
        return this.#session;
    }

    #alone(call, signal) {
        return this.#busy.alone(() => call(this.#alive()), signal);
    }
}

/** Lets the thread's other work have its turn. */
function turn() {
    return new Promise(resolve => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => { port1.close(); resolve(); };
        port2.postMessage(null);
    });
}

/** Pieces that follow each other as one. */
function joined(pieces) {
    if (pieces.length === 1) return pieces[0];
    const [{ first, layers, heads }] = pieces;
    const tokens = pieces.reduce((sum, piece) => sum + piece.tokens, 0);
    const { lambda } = pieces.at(-1);
    const whole = { first, tokens, layers, heads, ...(lambda && { lambda }) };
    for (const name of ["ids", "scores", "events", "bits"].filter(name => name in pieces[0])) {
        const length = pieces.reduce((sum, piece) => sum + piece[name].length, 0);
        whole[name] = new pieces[0][name].constructor(length);
        let at = 0;
        for (const piece of pieces) {
            whole[name].set(piece[name], at);
            at += piece[name].length;
        }
    }
    return whole;
}
