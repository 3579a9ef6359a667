// The WebAssembly module, loaded once.

import init from "./dla_web.js";
import { refused } from "./error.js";
import { address, builtin, checkNode, named, open } from "./file.js";

/** Where the module lies. Bundlers look for this form. */
const HERE = new URL("./dla_web_bg.wasm", import.meta.url);

let ready;
/** Loads the module once; after a failure the next call tries again. `progress` counts its bytes. */
export function start(module = HERE, progress) {
    ready ??= source(module, progress).then(source => init({ module_or_path: source })).catch(error => {
        ready = undefined;
        if (error.kind === "unsupported") throw error;
        throw refused("file", "load, dla_web_bg.wasm", "the module beside index.js", error.message ?? error);
    });
    return ready;
}

/** What the generated code takes. */
async function source(module, progress) {
    if (typeof module !== "string" && !(module instanceof URL)) return module;
    const url = address(module, "load, module");
    if (url.protocol === "file:") checkNode("load, dla_web_bg.wasm");
    if (url.protocol === "file:" && builtin("fs")) {
        const bytes = await builtin("fs").promises.readFile(url).catch(error => { throw new Error(`${named(url)}: ${error.message}`); });
        progress?.add(bytes.length, bytes.length);
        return bytes;
    }
    const { total, pieces, response } = await open(url);
    if (!progress) return response;
    progress.add(0, total);
    const counted = async function* () {
        for await (const piece of pieces()) {
            progress.add(piece.length, total ? 0 : piece.length);
            yield piece;
        }
    }();
    const pull = async controller => {
        const { done, value } = await counted.next();
        if (done) controller.close();
        else controller.enqueue(value);
    };
    return new Response(new ReadableStream({ pull }), { headers: { "content-type": "application/wasm" } });
}
