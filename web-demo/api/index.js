// Dynamic Linear Attention language models in a page, a worker or Node.
//
//   import { Dla } from "dla-web";
//   const dla = await Dla.load("models/dla-tiny");
//   const session = await dla.session();
//   await session.feed("In the beginning");
//   for await (const { text } of session.generate({ maxTokens: 100 })) console.log(text);

import { guarded } from "./error.js";
import { LocalDla, opened } from "./model.js";
import { WorkerDla } from "./remote.js";

export { Book } from "./book.js";
export { DlaError } from "./error.js";
export { Operator } from "./operator.js";
export { Session } from "./session.js";

/** A model. */
export class Dla extends LocalDla {
    /**
     * Loads a model: `source` is the URL of a directory with config.json and model.safetensors (in Node a path too), or
     * both as `{ config, weights }`. The file is streamed and lies in memory once. A model whose tokens are not bytes is
     * refused: `files` names what the directory holds, and `tokenizer: "bytes"` says that its tokens are bytes; no server
     * is asked for a file that may not be there.
     */
    static async load(source, options = {}) {
        return new Dla(...await opened(source, options));
    }

    /**
     * Loads a model in a worker of its own, so that the page never waits: the same arguments, the same API, and
     * `terminate()`, which ends the worker with everything in it. `worker` is a worker that runs `dla-web/worker`, where a
     * page makes its own.
     */
    static worker(source, options = {}) {
        return guarded(() => WorkerDla.load(source, options), options.signal);
    }
}
