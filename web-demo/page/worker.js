// Runs the model, so that the page never waits. Every message { id, call, args } is answered with { id, value } or
// { id, error: { kind, message } }; { progress } comes while a model is loaded: { part, loaded, total } of a file, or
// { stage } of what comes after.

import { Dla, DlaError } from "./pkg/index.js";

/** The model, the same with other settings, the text's session, and what goes on with it: `{ tokens, options }`. */
let dla, changed, session, writing;

/** The model under the settings in force. */
const current = () => changed ?? dla;

async function renew() {
    await stopWriting();
    session?.free();
    session = await current().session();
    return current().info;
}

/** The session belongs to a text that is being written until that ends. */
async function stopWriting() {
    const ending = writing?.tokens.return();
    writing = undefined;
    await ending;
}

/** What a model says after `text`, as many bytes as `answer` has, and the bits that each byte of `answer` costs it. */
async function reading(model, text, answer) {
    const reader = await model.session();
    try {
        await reader.feed(text);
        const asked = await reader.save();
        let said = "";
        for await (const token of reader.generate({ maxTokens: answer.length, temperature: 0 })) said += token.text;
        await reader.restore(asked);
        const { bits } = await reader.feed(answer, { bits: true });
        return { said, bits };
    } finally {
        reader.free();
    }
}

const progress = value => postMessage({ progress: value });

/** The module, counted as it comes; what goes wrong is told where it is compiled. */
async function module() {
    const response = await fetch(new URL("./pkg/dla_web_bg.wasm", import.meta.url));
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    const encoded = response.headers.get("content-encoding"), total = encoded ? 0 : Number(response.headers.get("content-length")) || 0;
    let loaded = 0;
    const counted = new TransformStream({
        transform(part, out) {
            loaded += part.length;
            progress({ part: "module", loaded, total: total && Math.max(loaded, total) });
            out.enqueue(part);
        },
    });
    return new Response(response.body.pipeThrough(counted), { headers: { "content-type": "application/wasm" } });
}

const CALLS = {
    async load({ url, files }, backend) {
        // The module is counted apart, so these bytes are the weights'.
        const onProgress = ({ stage, loaded, total }) => {
            progress({ part: "weights", loaded, total });
            if (stage === "prepare") progress({ stage: "model" });
        };
        dla = await Dla.load(url, { backend, files, onProgress, module: module() });
        const info = await renew();
        if (info.backend !== "gpu") return info;
        // A first token has the passes compiled.
        progress({ stage: "shaders" });
        await session.feed(Uint8Array.of(32));
        await session.reset();
        return info;
    },

    /** Another memory for the same weights; null for the trained one. */
    async change(settings) {
        const next = settings ? await dla.withSettings(settings) : undefined;
        changed?.free();
        changed = next;
        return renew();
    },

    async feed(bytes) {
        await stopWriting();
        return session.feed(bytes, { lambda: true });
    },

    /** At most `count` tokens; fewer, or none, where the text ends. The seed counts where writing begins or its options change. */
    async write(count, { seed, ...options }) {
        const same = JSON.stringify(options) === JSON.stringify(writing?.options);
        if (!same) {
            await stopWriting();
            writing = { tokens: session.generate({ ...options, seed, lambda: true }), options };
        }
        const tokens = [];
        try {
            while (tokens.length < count) {
                const { done, value } = await writing.tokens.next();
                if (done) {
                    writing = undefined;
                    break;
                }
                tokens.push(value);
            }
        } catch (error) {
            writing = undefined;
            // What was written before is told first; a fault that stays is told at the next call.
            if (!tokens.length) throw error;
        }
        return tokens;
    },

    stop: stopWriting,

    async reset() {
        await stopWriting();
        await session.reset();
    },

    async save() {
        await stopWriting();
        return session.save();
    },

    async restore(bytes) {
        await stopWriting();
        await session.restore(bytes);
        return session.states();
    },

    /** How the trained model, and its twin or itself with a single state, answer after `text`. */
    async compare(text, answer, place) {
        const backend = dla.info.backend;
        const twin = place ? await Dla.load(place.url, { backend, files: place.files }) : await dla.withSettings({ schedule: "single" });
        try {
            return [await reading(dla, text, answer), await reading(twin, text, answer)];
        } finally {
            twin.free();
        }
    },
};

/** One call after the other, in the order they came. */
let last = Promise.resolve();
onmessage = ({ data: { id, call, args } }) => {
    last = last.then(async () => {
        try {
            postMessage({ id, value: await CALLS[call](...args) });
        } catch (error) {
            const kind = error instanceof DlaError ? error.kind : "device";
            postMessage({ id, error: { kind, message: error.message } });
        }
    });
};
