// What the panels show under each schedule of the memory, in words.

const READ = "λ, beside it and as the lower bar, is how strongly the last token's query reads the state.";
const READ_ALONE = "λ, beside it and as the bar, is how strongly the last token's query reads the state.";

/** Memory in words. */
export function size(bytes) {
    const kibibytes = bytes / 1024;
    return kibibytes < 1024 ? `${kibibytes.toFixed(0)} KiB` : `${(kibibytes / 1024).toFixed(1)} MiB`;
}

const CAPTIONS = {
    dynamic: {
        memory: `Oldest first. The number counts a state's tokens; the upper bar is its information per token, Ī\u200a/\u200an: where it is least in two neighbours, they merge. ${READ}`,
        curve: ["How new is each token?", "score I against the threshold τ; a bar that reaches the line opens a state"],
        room: (live, slots) => `${live} of ${slots} states`,
    },
    one: {
        memory: `K is 1, so the one state takes in every token, however new. The number counts them. ${READ_ALONE}`,
        curve: ["How new is each token?", "score I against the threshold τ; with K = 1 no bar opens a state"],
        room: () => "1 state",
    },
    fenwick: {
        memory: `Oldest first. Positions alone decide: every token opens a state, and states merge so that each but the newest holds a power of two of tokens. The number counts them. ${READ_ALONE}`,
        curve: ["Which state holds each token?", "no score is measured: log-linear attention goes by positions alone"],
        room: (live, slots) => `${live} of ${slots} levels`,
    },
    fixed: {
        memory: `Oldest first. A state opens every so many tokens; the oldest ones merge to make room. The number counts a state's tokens. ${READ_ALONE}`,
        curve: ["Which state holds each token?", "no score is measured: states open at fixed distances"],
        room: (live, slots) => `${live} of ${slots} states`,
    },
    single: {
        memory: `The one state takes in every token; nothing opens and nothing merges. The number counts them. ${READ_ALONE}`,
        curve: ["Which state holds each token?", "no score is measured: the only state takes in every token"],
        room: () => "1 state",
    },
};

/** The captions for a model's settings: `{ memory, curve, room(live) }`. */
export function captions({ schedule, capacity, stateBytes }) {
    const own = CAPTIONS[schedule === "dynamic" && capacity === 1 ? "one" : schedule] ?? CAPTIONS.dynamic;
    return { ...own, room: live => `${own.room(live, capacity)} · ${size(stateBytes)} for all heads` };
}
