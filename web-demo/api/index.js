// Dynamic Linear Attention language models in a page.
//
//   import { Dla } from "dla-web";
//   const dla = await Dla.load("models/dla-tiny");
//   const session = await dla.session();
//   await session.feed("In the beginning");
//   for await (const { text } of session.generate({ maxTokens: 100 })) console.log(text);

import init, { Generation, Incoming, Model, Operator as Bare, Sizes } from "./dla_web.js";
export { Book } from "./book.js";

/** Tokens that are taken in before other work of the thread gets its turn. */
const PIECE = 64;
/** Milliseconds of generating before it does. */
const HOLD = 8;

/** What every call of this package fails with. `kind` is "input", "file", "unsupported", "diverged", "device" or "busy". */
export class DlaError extends Error {
    constructor(kind, message, options) {
        super(message, options);
        this.name = "DlaError";
        this.kind = kind;
    }

    static from(error) {
        if (error instanceof DlaError) return error;
        if (typeof error?.kind === "string") return new DlaError(error.kind, error.message);
        const trapped = error instanceof WebAssembly.RuntimeError;
        const message = trapped ? `the module has failed; reload the page or the worker: ${error.message}` : String(error?.message ?? error);
        return new DlaError(trapped ? "device" : "input", message, { cause: error });
    }
}

/** Runs `call`, so that whatever fails is a DlaError; once `signal` is aborted, the signal's reason. */
async function told(call, signal) {
    try {
        signal?.throwIfAborted();
        return await call();
    } catch (error) {
        signal?.throwIfAborted();
        throw DlaError.from(error);
    }
}

/** Refuses what is not a whole number from `least` on. */
function whole(what, value, least) {
    if (!Number.isSafeInteger(value) || value < least) throw refused("input", what, `a whole number from ${least} on`, value);
}

const refused = (kind, what, expected, got) => new DlaError(kind, `${what}: expected ${expected}, got ${got}`);

let ready;
/** Loads the module once; after a failure the next call tries again. */
function start(module) {
    ready ??= init(module === undefined ? undefined : { module_or_path: module }).catch(error => {
        ready = undefined;
        throw refused("file", "load, dla_web_bg.wasm", "the module beside index.js", error.message ?? error);
    });
    return ready;
}

/** A file from the network, or a refusal that names it. */
async function fetched(url, signal) {
    let response;
    try {
        response = await fetch(url, { signal });
    } catch (error) {
        throw refused("file", `load, ${url}`, "a file that can be fetched", error.message);
    }
    if (!response.ok) throw refused("file", `load, ${url}`, "a file", `HTTP ${response.status}`);
    return response;
}

/** The bytes of a response, in the module's memory and nowhere else. */
async function streamed(response, url, onProgress) {
    const total = Number(response.headers.get("content-length")) || 0;
    const encoded = response.headers.get("content-encoding");
    const incoming = new Incoming(encoded ? 0 : total);
    const reader = response.body.getReader();
    let loaded = 0;
    try {
        for (;;) {
            const { done, value } = await reader.read().catch(error => {
                throw refused("file", `load, ${url}`, "the whole file", `${loaded} bytes, then: ${error.message}`);
            });
            if (done) return incoming;
            incoming.push(value);
            loaded += value.length;
            onProgress?.({ loaded, total: Math.max(loaded, total) });
        }
    } catch (error) {
        incoming.free();
        throw error;
    }
}

/** The most tokens that a model of bytes has. */
const BYTES = 256;

const ADVICE = "run it with the dla command, or load its config and weights as bytes and feed token ids";

/** Refuses a directory whose tokens are not bytes: this package has no other tokenizer. */
async function bytesOnly(config, tokenizer, signal) {
    const vocabulary = Model.vocabularyOf(config);
    if (vocabulary > BYTES) throw refused("unsupported", "load, tokenizer.json", `a model whose tokens are the ${BYTES} bytes`, `a vocabulary of ${vocabulary}; ${ADVICE}`);
    if (tokenizer === undefined) return;
    const there = await fetch(tokenizer, { method: "HEAD", signal }).catch(() => signal?.throwIfAborted());
    // Some hosts answer with their front page what they do not have.
    const page = there?.headers.get("content-type")?.includes("text/html");
    if (there?.ok && !page) throw refused("unsupported", "load, tokenizer.json", "a model whose tokens are bytes, without that file", `one; ${ADVICE}`);
}

/** The texts and bytes that a source means. */
async function read(source, { tokenizer, onProgress, signal }) {
    if (typeof source === "string" || source instanceof URL) {
        const base = `${String(source).replace(/\/+$/, "")}/`;
        const folder = new URL(base, globalThis.location?.href);
        const file = name => new URL(name, folder).href;
        const config = await (await fetched(file("config.json"), signal)).text();
        await bytesOnly(config, tokenizer === "bytes" ? undefined : file("tokenizer.json"), signal);
        const weights = file("model.safetensors");
        return [config, await streamed(await fetched(weights, signal), weights, onProgress)];
    }
    const { config, weights } = source ?? {};
    const bytes = weights instanceof ArrayBuffer ? new Uint8Array(weights) : weights;
    if (config === undefined || !(bytes instanceof Uint8Array)) {
        throw refused("input", "load, source", "the URL of a model directory, or { config, weights }", typeof source);
    }
    const incoming = new Incoming(bytes.length);
    incoming.push(bytes);
    onProgress?.({ loaded: bytes.length, total: bytes.length });
    return [typeof config === "string" ? config : JSON.stringify(config), incoming];
}

/** What auto means here, and why if it is not the GPU. */
async function choice() {
    if (!globalThis.navigator?.gpu) return ["cpu", "this browser has no WebGPU: the CPU runs the model"];
    const options = { powerPreference: "high-performance" };
    const adapter = await navigator.gpu.requestAdapter(options).catch(() => null);
    if (!adapter) return ["cpu", "WebGPU finds no GPU here: the CPU runs the model"];
    if (adapter.info?.isFallbackAdapter ?? adapter.isFallbackAdapter) {
        return ["cpu", "WebGPU has a software adapter only: the CPU runs the model"];
    }
    return ["auto", null];
}

/** A model. */
export class Dla {
    #model;
    #note;

    constructor(model, note) {
        this.#model = model;
        this.#note = note;
    }

    /**
     * Loads a model: `source` is the URL of a directory with config.json and model.safetensors, or both as
     * `{ config, weights }`. The file is streamed and lies in memory once. A directory with a tokenizer.json is refused;
     * `tokenizer: "bytes"` says that there is none, so that nothing is asked for in vain.
     */
    static load(source, { backend = "auto", tokenizer, onProgress, signal, module } = {}) {
        return told(async () => {
            await start(module);
            const [chosen, note] = backend === "auto" ? await choice() : [backend, null];
            if (backend === "gpu" && !globalThis.navigator?.gpu) {
                throw refused("unsupported", "load, backend", "a browser with WebGPU", "none");
            }
            const [config, weights] = await read(source, { tokenizer, onProgress, signal });
            return new Dla(await Model.load(config, weights, chosen), note);
        }, signal);
    }

    /** What the model is and what runs it. */
    get info() {
        const info = this.#alive().info();
        return { ...info, note: this.#note ?? info.note };
    }

    /** The same weights with another memory; what is not given stays as it was trained. */
    withSettings({ tauOffset, capacity, schedule } = {}) {
        return told(async () => {
            if (capacity !== undefined) whole("load, capacity", capacity, 1);
            return new Dla(await this.#alive().withSettings(tauOffset, capacity, schedule), this.#note);
        });
    }

    /** A sequence before its first token. */
    session() {
        return told(async () => {
            const model = this.#alive();
            return new Session(await model.session(), model.info().vocabulary);
        });
    }

    /** Gives the memory back. Sessions go on. */
    free() {
        this.#model?.free();
        this.#model = undefined;
    }

    #alive() {
        if (!this.#model) throw refused("input", "model", "one that has not been freed", "a freed one");
        return this.#model;
    }
}

const TEXT = new TextEncoder();

/** A sequence of a model. Calls that overlap are refused with kind "busy". */
export class Session {
    #session;
    #vocabulary;
    #busy = false;

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
        const release = this.#hold();
        let generation;
        try {
            generation = await told(() => {
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
                const token = await told(() => this.#alive().next(generation, lambda), signal);
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

    #hold() {
        if (this.#busy) throw refused("busy", "session", "one call at a time", "another before its end; wait for the first");
        this.#busy = true;
        return () => { this.#busy = false; };
    }

    #alone(call, signal) {
        return told(async () => {
            const release = this.#hold();
            try {
                return await call(this.#alive());
            } finally {
                release();
            }
        }, signal);
    }
}

/** One sequence of the bare operator on the CPU, fed in pieces. */
export class Operator {
    #operator;

    constructor(operator) {
        this.#operator = operator;
    }

    /** A sequence before its first token: `backbone` is plain, decay or delta, `tau` the threshold of each head. */
    static create(backbone, { heads, groups, keyDim, valueDim, capacity }, tau, { module } = {}) {
        return told(async () => {
            const sizes = { heads, groups, keyDim, valueDim, capacity };
            for (const [name, value] of Object.entries(sizes)) whole(`operator, ${name}`, value, 1);
            await start(module);
            const all = new Sizes(...Object.values(sizes));
            try {
                return new Operator(new Bare(backbone, all, tau));
            } finally {
                all.free();
            }
        });
    }

    /**
     * Takes in T tokens: `q`, `k` [T, groups, key], `v` [T, heads, value], `lambda` [T, heads, states], and `g`, `beta`
     * [T, heads] where the backbone has them. Gives `o` [T, heads, value] and `score`, `boundary`, `mergeAt`, `count`
     * [T, heads].
     */
    feed({ q, k, v, lambda, g, beta }) {
        return this.#told(operator => {
            const step = operator.feed(q, k, v, lambda, g, beta), { o, score, boundary, mergeAt, count } = step;
            step.free();
            return { o, score, boundary, mergeAt, count };
        });
    }

    /** The sequence as bytes, the same as on every other backend. */
    save() {
        return this.#told(operator => operator.save());
    }

    /** Goes on where `save` was called. A refusal changes nothing. */
    restore(bytes) {
        return this.#told(operator => operator.restore(bytes));
    }

    /** Forgets the sequence. */
    reset() {
        return this.#told(operator => operator.reset());
    }

    /** Gives the memory back. */
    free() {
        this.#operator?.free();
        this.#operator = undefined;
    }

    #told(call) {
        if (!this.#operator) throw refused("input", "operator", "one that has not been freed", "a freed one");
        try {
            return call(this.#operator);
        } catch (error) {
            throw DlaError.from(error);
        }
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
