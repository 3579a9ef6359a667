// The page's end of the worker.

/** Calls the worker by name: `await link.feed(bytes)`. Failures are errors with a `kind`. */
export class Link {
    #worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    #waiting = new Map();
    #next = 0;
    /** Why the worker could not start. */
    #failure;

    constructor(onProgress) {
        this.#worker.onmessage = ({ data }) => {
            if (data.progress) return onProgress(data.progress);
            const { resolve, reject } = this.#waiting.get(data.id) ?? {};
            if (!this.#waiting.delete(data.id)) return;
            if (data.error) reject(Object.assign(new Error(data.error.message), data.error));
            else resolve(data.value);
        };
        this.#worker.onerror = event => {
            event.preventDefault();
            this.#failure = Object.assign(new Error(event.message ?? "the worker could not start"), { kind: "device" });
            for (const { reject } of this.#waiting.values()) reject(this.#failure);
            this.#waiting.clear();
        };
    }

    call(call, ...args) {
        return new Promise((resolve, reject) => {
            if (this.#failure) throw this.#failure;
            const id = this.#next++;
            this.#waiting.set(id, { resolve, reject });
            this.#worker.postMessage({ id, call, args });
        });
    }
}
