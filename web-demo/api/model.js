// A model in the thread that loads it.

import { Model } from "./dla_web.js";
import { guarded, refused, whole } from "./error.js";
import { start } from "./module.js";
import { Session } from "./session.js";
import { Progress, read } from "./source.js";

/** What auto means here, and why if it is not the GPU. */
async function choice() {
    if (!globalThis.navigator?.gpu) return ["cpu", "there is no WebGPU here: the CPU runs the model"];
    const options = { powerPreference: "high-performance" };
    const adapter = await navigator.gpu.requestAdapter(options).catch(() => null);
    if (!adapter) return ["cpu", "WebGPU finds no GPU here: the CPU runs the model"];
    if (adapter.info?.isFallbackAdapter ?? adapter.isFallbackAdapter) {
        return ["cpu", "WebGPU has a software adapter only: the CPU runs the model"];
    }
    return ["auto", null];
}

/** A loaded model, and why the CPU runs it although a GPU was looked for. */
export function opened(source, { backend = "auto", tokenizer, files, onProgress, signal, module } = {}) {
    return guarded(async () => {
        const progress = new Progress(onProgress);
        await start(module, onProgress && progress);
        const [chosen, note] = backend === "auto" ? await choice() : [backend, null];
        if (backend === "gpu" && !globalThis.navigator?.gpu) {
            throw refused("unsupported", "load, backend", "WebGPU, for the GPU", "none here");
        }
        const [config, weights] = await read(source, { tokenizer, files, signal }, progress);
        progress.done();
        return [await Model.load(config, weights, chosen), note];
    }, signal);
}

/** A model in this thread. */
export class LocalDla {
    #model;
    #note;

    constructor(model, note) {
        this.#model = model;
        this.#note = note;
    }

    /** What the model is and what runs it. */
    get info() {
        const info = this.#alive().info();
        return { ...info, note: this.#note ?? info.note };
    }

    /** The same weights with another memory; what is not given stays as it was trained. */
    withSettings({ tauOffset, capacity, schedule } = {}) {
        return guarded(async () => {
            if (capacity !== undefined) whole("load, capacity", capacity, 1);
            return new this.constructor(await this.#alive().withSettings(tauOffset, capacity, schedule), this.#note);
        });
    }

    /** A sequence before its first token. */
    session() {
        return guarded(async () => {
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
