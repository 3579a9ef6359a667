// A model in a worker, behind the same API: what worker.js answers.

import { Busy } from "./busy.js";
import { DlaError, guarded, refused } from "./error.js";
import { address, builtin } from "./file.js";

/** The worker of this package. */
function create() {
    const here = import.meta.url, threads = builtin("worker_threads");
    try {
        if (threads) return new threads.Worker(new URL("./worker.js", here));
        // Bundlers look for this form.
        return new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    } catch (error) {
        throw refused("unsupported", "worker", "one that may be started here", `${error.message}; make it yourself and pass it as the option worker`);
    }
}

/** The page's end of a worker. */
class Link {
    #worker;
    #waiting = new Map();
    #next = 1;
    /** Why no call can be answered any more. */
    #ended;
    /** Frees what the page has lost. */
    #lost = new FinalizationRegistry(id => this.free(id));

    constructor(worker) {
        this.#worker = worker;
        const failed = event => this.end(refused("device", "worker", "one that runs", event?.message || "one that could not start"), event);
        // Node's workers have listeners of another kind.
        if (worker.on) worker.on("message", data => this.#take(data)).on("error", failed).on("exit", () => failed({ message: "one that has ended" })).unref();
        else Object.assign(worker, { onmessage: ({ data }) => this.#take(data), onerror: failed, onmessageerror: failed });
    }

    #take({ id, event, value, error }) {
        const call = this.#waiting.get(id);
        if (!call) return;
        if (event) return call.event(event);
        this.#done(id);
        if (error) call.reject(new DlaError(error.kind, error.message));
        else call.resolve(value);
    }

    #done(id) {
        this.#waiting.delete(id);
        if (!this.#waiting.size) this.#worker.unref?.();
    }

    #post(message, transfer) {
        if (!this.#ended) this.#worker.postMessage(message, transfer);
    }

    /** A number for a call and for what it makes. */
    number() {
        return this.#next++;
    }

    /**
     * Calls what the call `of` made. `onEvent` gets what comes before the answer, `signal` aborts the call; once it is aborted
     * the call fails with its reason.
     */
    call(of, call, args = [], { id = this.number(), onEvent, signal, transfer = [] } = {}) {
        let thrown;
        const abort = () => this.abort(id);
        const event = value => {
            try {
                if (!thrown) onEvent?.(value);
            } catch (error) {
                thrown = { error };
                abort();
            }
        };
        return guarded(async () => {
            if (this.#ended) throw this.#ended;
            const answer = new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject, event }));
            this.#worker.ref?.();
            signal?.addEventListener("abort", abort);
            try {
                this.#post({ id, of, call, args }, transfer);
                const value = await answer;
                if (thrown) throw thrown.error;
                return value;
            } catch (error) {
                throw thrown ? thrown.error : error;
            } finally {
                this.#done(id);
                signal?.removeEventListener("abort", abort);
            }
        }, signal);
    }

    /** Aborts a call, or the generation that it began. */
    abort(id) {
        this.#post({ abort: id });
    }

    /** Has `object` freed with the call's number `id` once the page has lost it. */
    watch(object, id) {
        this.#lost.register(object, id, object);
        return object;
    }

    free(id, object) {
        if (object) this.#lost.unregister(object);
        this.#post({ free: id });
    }

    /** Ends the worker: every call fails with `error` from now on. */
    end(error, event) {
        event?.preventDefault?.();
        if (this.#ended) return;
        this.#ended = error;
        for (const { reject } of this.#waiting.values()) reject(error);
        this.#worker.terminate();
    }
}

/** A model in a worker. */
export class WorkerDla {
    #link;
    #id;
    #info;

    constructor(link, id, info) {
        this.#link = link.watch(this, id) && link;
        this.#id = id;
        this.#info = info;
    }

    static async load(source, { worker, onProgress, signal, module, transfer, ...options }) {
        const [there, moved] = [await module, []];
        const asked = { ...options };
        if (there !== undefined) asked.module = await posted(there, moved);
        const place = typeof source === "string" || source instanceof URL ? address(source, "load, source").href : source;
        const { weights } = Object(source);
        if (transfer && weights) moved.push(weights.buffer ?? weights);
        const link = new Link(worker ?? create()), id = link.number();
        try {
            const info = await link.call(0, "load", [place, asked], { id, onEvent: onProgress, signal, transfer: moved });
            return new WorkerDla(link, id, info);
        } catch (error) {
            link.end(error);
            throw error;
        }
    }

    get info() {
        this.#alive();
        return { ...this.#info };
    }

    withSettings(settings) {
        return guarded(async () => {
            const id = this.#link.number();
            return new WorkerDla(this.#link, id, await this.#link.call(this.#alive(), "withSettings", [settings], { id }));
        });
    }

    session() {
        return guarded(async () => {
            const id = this.#link.number();
            await this.#link.call(this.#alive(), "session", [], { id });
            return new WorkerSession(this.#link, id);
        });
    }

    free() {
        if (this.#id !== undefined) this.#link.free(this.#id, this);
        this.#id = undefined;
    }

    /** Ends the worker, with the models and sessions in it. */
    terminate() {
        this.#link.end(refused("input", "worker", "one that has not been terminated", "a terminated one"));
    }

    #alive() {
        if (this.#id === undefined) throw refused("input", "model", "one that has not been freed", "a freed one");
        return this.#id;
    }
}

/** A module as a worker can get it. */
async function posted(module, moved) {
    if (typeof module === "string" || module instanceof URL) return address(module, "load, module").href;
    if (!(module instanceof Response)) return module;
    const bytes = await module.arrayBuffer();
    moved.push(bytes);
    return bytes;
}

/** A sequence of a model in a worker. */
class WorkerSession {
    #link;
    #id;
    #busy = new Busy();

    constructor(link, id) {
        this.#link = link.watch(this, id) && link;
        this.#id = id;
    }

    feed(text, { onStates, signal, ...options } = {}) {
        return this.#alone("feed", [text, { ...options, onStates: Boolean(onStates) }], { onEvent: onStates, signal });
    }

    async *generate({ signal, ...options } = {}) {
        const release = this.#busy.hold(), link = this.#link, id = link.number(), abort = () => link.abort(id);
        signal?.addEventListener("abort", abort);
        try {
            await guarded(() => link.call(this.#alive(), "generate", [options], { id }), signal);
            for (;;) {
                const { done, value } = await guarded(() => link.call(id, "next"), signal);
                if (done) return;
                yield value;
            }
        } finally {
            signal?.removeEventListener("abort", abort);
            await link.call(id, "return").catch(() => {});
            release();
        }
    }

    states() {
        return this.#alone("states");
    }

    position() {
        return this.#alone("position");
    }

    save() {
        return this.#alone("save");
    }

    restore(bytes, { transfer = false } = {}) {
        return this.#alone("restore", [bytes], { transfer: transfer ? [bytes.buffer ?? bytes] : [] });
    }

    reset() {
        return this.#alone("reset");
    }

    free() {
        if (this.#id !== undefined) this.#link.free(this.#id, this);
        this.#id = undefined;
    }

    #alive() {
        if (this.#id === undefined) throw refused("input", "session", "one that has not been freed", "a freed one");
        return this.#id;
    }

    #alone(call, args, tools) {
        return this.#busy.alone(() => this.#link.call(this.#alive(), call, args, tools), tools?.signal);
    }
}
