// Where a model comes from.

import { Incoming, Model } from "./dla_web.js";
import { refused } from "./error.js";
import { address, checkNode, lies, open, text } from "./file.js";

/** The most tokens that a model of bytes has. */
export const BYTES = 256;

const ADVICE = "run it with the dla command, or load its config and weights as bytes and feed token ids";

/** Counts the bytes of all files. */
export class Progress {
    #call;
    #loaded = 0;
    #total = 0;

    constructor(call) {
        this.#call = call;
    }

    /** So many bytes have come, and so many more are known of. */
    add(bytes, known) {
        this.#loaded += bytes;
        this.#total += known;
        this.#say("download");
    }

    /** All are there. */
    done() {
        this.#total = this.#loaded;
        this.#say("prepare");
    }

    #say(stage) {
        this.#call?.({ stage, loaded: this.#loaded, total: Math.max(this.#loaded, this.#total) });
    }
}

/** Refuses a model whose tokens are not bytes: this package has no other tokenizer. */
function bytesOnly(config, { tokenizer, files, found }) {
    const refuse = got => { throw refused("unsupported", "load, tokenizer.json", `a model whose tokens are the ${BYTES} bytes`, `${got}; ${ADVICE}`); };
    const vocabulary = Model.vocabularyOf(config);
    if (vocabulary > BYTES) refuse(`a vocabulary of ${vocabulary}`);
    if (tokenizer === "bytes") return;
    if (files?.includes("tokenizer.json") ?? found) refuse("one with that file");
    const { tokenizer_class: name } = JSON.parse(config);
    if (name && !files) refuse(`one whose config.json names ${name}`);
}

/** The text of config.json and the bytes of the weights, which lie in the module's memory and nowhere else. */
export async function read(source, { tokenizer, files, signal }, progress) {
    if (typeof source === "string" || source instanceof URL) return directory(source, { tokenizer, files, signal }, progress);
    const { config, weights } = source ?? {};
    const bytes = weights instanceof ArrayBuffer ? new Uint8Array(weights) : weights;
    if (config === undefined || !(bytes instanceof Uint8Array)) {
        throw refused("input", "load, source", "the URL of a model directory, or { config, weights }", typeof source);
    }
    const incoming = new Incoming(bytes.length);
    incoming.push(bytes);
    progress.add(bytes.length, bytes.length);
    return [typeof config === "string" ? config : JSON.stringify(config), incoming];
}

async function directory(source, { tokenizer, files, signal }, progress) {
    const folder = address(source, "load, source");
    if (folder.protocol === "file:") checkNode(`load, ${folder}`);
    folder.pathname = `${folder.pathname.replace(/\/+$/, "")}/`;
    const file = name => new URL(name, folder);
    const config = await text(file("config.json"), signal);
    bytesOnly(config, { tokenizer, files, found: lies(file("tokenizer.json")) });
    const weights = await open(file("model.safetensors"), signal);
    const incoming = new Incoming(weights.total);
    progress.add(0, weights.total);
    try {
        for await (const piece of weights.pieces()) {
            signal?.throwIfAborted();
            incoming.push(piece);
            progress.add(piece.length, weights.total ? 0 : piece.length);
        }
    } catch (error) {
        incoming.free();
        throw error;
    }
    return [config, incoming];
}
