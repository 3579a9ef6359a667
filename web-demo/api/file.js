// Files from the network, and in Node from the disk.

import { refused } from "./error.js";

/** Bytes that are read from a disk at once. */
const BLOCK = 1 << 20;

/** A module that Node brings; undefined in a browser. */
export const builtin = name => globalThis.process?.getBuiltinModule?.(`node:${name}`);

/** The version of a Node that is too old to hand its modules over; otherwise undefined. */
const oldNode = () => (globalThis.process?.getBuiltinModule ? undefined : globalThis.process?.versions?.node);

/** Refuses an old Node, which finds no file. */
export function checkNode(what) {
    const version = oldNode();
    if (version) throw refused("unsupported", what, "Node 20.16 or later", `${version}; update Node, or pass the bytes`);
}

/** The address of what a person calls `place`: a URL, in Node a path too. */
export function address(place, what) {
    const text = String(place);
    // A letter and a colon are a drive of Windows.
    const path = !(place instanceof URL) && builtin("url") && !/^[a-z][a-z\d+.-]+:/i.test(text);
    if (path) return builtin("url").pathToFileURL(builtin("path").resolve(text));
    try {
        return new URL(text, globalThis.location?.href);
    } catch {
        checkNode(what);
        throw refused("input", what, "a URL", text);
    }
}

/** What people call an address: a path where it is one. */
export function named(url) {
    const local = url.protocol === "file:" && builtin("url");
    return local ? local.fileURLToPath(url) : url.href;
}

/** Whether a file lies there, where that can be seen without asking a server; otherwise undefined. */
export function lies(url) {
    return url.protocol === "file:" ? builtin("fs")?.existsSync(url) : undefined;
}

/**
 * A file to be read: `total` bytes, 0 if that is not known; `pieces` gives them once, `response` is the server's answer if
 * there is one.
 */
export function open(url, signal) {
    return url.protocol === "file:" && builtin("fs") ? fromDisk(url) : fromNetwork(url, signal);
}

/** The text of a file. */
export async function text(url, signal) {
    const decoder = new TextDecoder();
    let text = "";
    for await (const piece of (await open(url, signal)).pieces()) text += decoder.decode(piece, { stream: true });
    return text + decoder.decode();
}

async function fromDisk(url) {
    const fs = builtin("fs");
    const fail = error => { throw refused("file", `load, ${named(url)}`, "a file that can be read", error.message); };
    const { size } = await fs.promises.stat(url).catch(fail);
    async function* pieces() {
        try {
            yield* fs.createReadStream(url, { highWaterMark: BLOCK });
        } catch (error) {
            fail(error);
        }
    }
    return { total: size, pieces };
}

async function fromNetwork(url, signal) {
    let response;
    try {
        response = await fetch(url, { signal });
    } catch (error) {
        const advice = url.protocol === "file:" ? "; a browser reads files from a server only: serve the folder over HTTP" : "";
        throw refused("file", `load, ${url}`, "a file that can be fetched", `${error.message}${advice}`);
    }
    if (!response.ok) throw refused("file", `load, ${url}`, "a file", `HTTP ${response.status}`);
    const encoded = response.headers.get("content-encoding");
    async function* pieces() {
        const reader = response.body.getReader();
        let loaded = 0;
        for (;;) {
            const { done, value } = await reader.read().catch(error => {
                throw refused("file", `load, ${url}`, "the whole file", `${loaded} bytes, then: ${error.message}`);
            });
            if (done) return;
            loaded += value.length;
            yield value;
        }
    }
    // The length of an encoded file is another than that of what comes out.
    return { total: encoded ? 0 : Number(response.headers.get("content-length")) || 0, pieces, response };
}
