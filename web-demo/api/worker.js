// Runs models for a page, which calls it through remote.js. A message { id, of, call, args } is answered with { id, value }
// or { id, error: { kind, message } }; { id, event } comes before that. What a call makes is kept under the call's id, until
// { free: id }. { abort: id } aborts a call, or the generation that it began.

import { DlaError } from "./error.js";
import { builtin } from "./file.js";
import { LocalDla, opened } from "./model.js";

const port = builtin("worker_threads")?.parentPort ?? globalThis;
/** Models, sessions and generations by id. */
const kept = new Map();
/** What aborts calls, and what they made as long as it is kept, by id. */
const aborts = new Map();

const CALLS = {
    async load(_, [source, options], { keep, ...tools }) {
        const model = await opened(source, { ...options, onProgress: tools.event, signal: tools.signal });
        return keep(new LocalDla(...model)).info;
    },

    withSettings: async (dla, [settings], { keep }) => keep(await dla.withSettings(settings)).info,

    async session(dla, _, { keep }) {
        keep(await dla.session());
    },

    feed: (session, [text, options], { event, signal }) => session.feed(text, { ...options, onStates: options.onStates ? event : undefined, signal }),

    generate(session, [options], { keep, signal }) {
        keep(session.generate({ ...options, signal }));
    },

    next: generation => generation.next(),

    async return(generation, _, { of }) {
        await generation.return();
        forget(of);
    },

    states: session => session.states(),
    position: session => session.position(),
    save: session => session.save(),
    restore: (session, [bytes]) => session.restore(bytes),
    reset: session => session.reset(),
};

function forget(id) {
    kept.delete(id);
    aborts.delete(id);
}

/** The buffers of an answer: nobody here needs them again. */
function buffers(value) {
    if (ArrayBuffer.isView(value)) return [value.buffer];
    const piece = value?.value?.states ?? value;
    return "scores" in Object(piece) ? Object.values(piece).filter(ArrayBuffer.isView).map(({ buffer }) => buffer) : [];
}

async function answer({ id, of, call, args }) {
    const abort = new AbortController();
    aborts.set(id, abort);
    const keep = made => {
        kept.set(id, made);
        return made;
    };
    const event = value => port.postMessage({ id, event: value });
    try {
        const value = await CALLS[call](kept.get(of), args, { keep, event, of, signal: abort.signal });
        port.postMessage({ id, value }, buffers(value));
    } catch (error) {
        const { kind, message } = DlaError.from(error);
        port.postMessage({ id, error: { kind, message } });
    }
    if (!kept.has(id)) aborts.delete(id);
}

port.onmessage = ({ data }) => {
    if ("abort" in data) aborts.get(data.abort)?.abort();
    else if ("free" in data) {
        kept.get(data.free)?.free();
        forget(data.free);
    } else answer(data);
};
