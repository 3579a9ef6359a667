// The page's end of the worker.

/** Calls the worker by name: `await link.feed(bytes)`. Failures are errors with a `kind`. */
export class Link {
    #worker;
    #onProgress;
    #waiting = new Map();
    #next = 0;
    /** Why the worker could not start. */
    #failure;

    constructor(onProgress) {
        this.#onProgress = onProgress;
        this.#start();
    }

    #start() {
        const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
        this.#worker = worker;
        worker.onmessage = ({ data }) => {
            if (worker !== this.#worker) return;
            if (data.progress) return this.#onProgress(data.progress);
            const { resolve, reject } = this.#waiting.get(data.id) ?? {};
            if (!this.#waiting.delete(data.id)) return;
            if (data.error) reject(Object.assign(new Error(data.error.message), data.error));
            else resolve(data.value);
        };
        worker.onerror = event => {
            event.preventDefault();
            this.#failure = Object.assign(new Error(event.message ?? "the worker could not start"), { kind: "device" });
            this.#refuse(this.#failure);
        };
    }

    #refuse(error) {
        for (const { reject } of this.#waiting.values()) reject(error);
        this.#waiting.clear();
    }

    /** Another worker in place of this one; calls that wait fail with kind "ended". */
    restart() {
        this.#worker.terminate();
        this.#failure = undefined;
        this.#start();
        this.#refuse(Object.assign(new Error("the worker was replaced"), { kind: "ended" }));
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
