// The page: what is chosen, what is shown, who is asked.

import { CacheView } from "./cache.js";
import { captions, size } from "./captions.js";
import { drawComparison } from "./compare.js";
import { $, Settings, download, picked, slider, speedTold } from "./controls.js";
import { Curve } from "./curve.js";
import { Frames } from "./frames.js";
import { Link } from "./link.js";
import { Loading } from "./loading.js";
import { models, place } from "./models.js";
import { Notices } from "./notices.js";
import { Overview } from "./overview.js";
import { Player, speedAt } from "./player.js";
import { SAMPLES } from "./samples.js";
import { pack, unpack } from "./saved.js";
import { Story } from "./story.js";
import { TextView, isCode } from "./text.js";

/** Speeds at which single changes can still be followed with the eyes. */
const FOLLOWED = 40;
/** What would not be seen between quotation marks; a piece of a character has no text. */
const SIGNS = { "\n": "↵", "\t": "⇥", " ": "␣", "": "…" };
/** Tokens a second below which a GPU is slow enough to offer the CPU, which manages hundreds. */
const SLOW = 30;
/** Seconds of one call after which it is said. */
const LONG = 2;
/** What the comparison's button says. */
const COMPARE = "Ask both models";
/** Milliseconds between two looks at every head. */
const OVERVIEW = 250;

const query = new URLSearchParams(location.search);
const BYTES = new TextEncoder();
/** Leaves the page while its answer is shown. */
const asking = $("compare-run");
const loading = new Loading(() => link.restart());
const link = new Link(progress => loading.progress(progress));
const notices = new Notices($("notice"));
const text = new TextView($("text"));
const cache = new CacheView($("cache"), { onPoint: id => text.point(id), onChoose: id => text.reveal(id) });
const curve = new Curve($("curve"), () => { now.dirty = true; });
const overview = new Overview($("overview"), choose);
const player = new Player(link, { onPiece, onMode, onError, onWait, options });
const settings = new Settings(value => asked(change, $("schedule"))(value));
const frames = new Frames(picture);

/** The models, the one shown, its story, the memory's settings, the chosen head, the text's name and bytes, what is being read again under other settings,
 *  what happened since the last drawing, the last thing that was asked for, its number and that of the one that runs. */
const now = { models: [], info: null, story: null, settings: null, index: 0, sample: "scenes", source: new Uint8Array(), again: null, events: [], from: 0, dirty: true, looked: 0, last: Promise.resolve(), asked: 0, running: 0 };

const temperature = slider("temperature", value => (value === 0 ? "greedy" : value.toFixed(2)));
const topK = slider("top-k", value => (value === 0 ? "all" : value));
slider("speed", speedTold, place => {
    player.speed = speedAt(place);
    now.dirty = true;
});
player.speed = speedAt(Number($("speed").value));

function options() {
    return { temperature: temperature.value, topK: topK.value, seed: Math.floor(Math.random() * 2 ** 32) };
}

/** Tells what failed, `near` the control that was used where there was one. */
function onError(error, near = null) {
    if (error.kind === "ended") return;
    if (player.mode) player.pause();
    const advice = error.kind === "device" || $("stage").hidden ? " Reload the page to start again." : "";
    notices.show(`${error.message}.${advice}`, error.kind ?? "device", near);
}

/** Runs what a person asked for by a control in a panel, one thing after the other, a reading again no longer than until the
 *  next; what fails is told there. */
const asked = (call, near = null) => (...args) => {
    const number = ++now.asked;
    const run = async () => {
        now.running = number;
        notices.hide();
        if (call !== change) now.again = null;
        await call(...args);
    };
    now.last = now.last.then(run).catch(error => onError(error, near));
    return now.last;
};

// A GPU that takes long.

function onWait(seconds, tokens) {
    if (now.info?.backend !== "gpu") return;
    if (seconds === null) {
        if (player.rate >= SLOW) $("slow").hidden = true;
        else if (player.rate) slow(`${gpu()} reads ${player.rate.toFixed(1)} tokens/s.`);
    } else if (seconds >= LONG) {
        slow(`${gpu()} has worked on ${tokens === 1 ? "one token" : `${tokens} tokens`} for ${seconds} s. The first ones have its shaders compiled.`);
    }
}

const gpu = () => `WebGPU${now.info.device ? ` (${now.info.device})` : ""}`;

function slow(words) {
    $("slow").firstElementChild.textContent = words;
    $("slow").hidden = false;
}

/** The CPU takes over: the same text from its start, as far as it was read, whatever the GPU was doing. */
function toCpu() {
    const again = now.again ?? { mode: player.mode, tokens: now.story.tokens, written: now.story.written };
    slow("The CPU takes over.");
    link.restart();
    return asked(async () => {
        await player.pause();
        player.forget();
        now.info = await link.call("load", place(now.models[0]), "cpu").finally(() => {
            $("slow").hidden = true;
            loading.end();
        });
        now.again = again;
        await change(settings.value);
    })();
}

// What came back from the worker is gathered, and drawn part by part.

function onPiece(piece, own) {
    now.story.take(piece, own, (index, token, event) => {
        if (index === now.index) now.events.push({ token, ...event });
    });
    now.dirty = true;
}

function onMode() {
    const reading = player.mode === "read", writing = player.mode === "write";
    label("play", reading ? "pause" : "play", reading ? "Pause" : "Read");
    label("write", writing ? "pause" : "write", writing ? "Pause" : "Let it write");
    $("told").ariaLive = player.mode ? "off" : "polite";
    now.dirty = true;
    enable();
}

function label(id, icon, words) {
    $(id).querySelector("use").setAttribute("href", `#i-${icon}`);
    $(id).querySelector("span").textContent = words;
}

function enable() {
    const { story } = now;
    $("play").disabled = !player.rest.length && player.mode !== "read";
    $("step").disabled = !player.rest.length && !story?.tokens;
    $("write").disabled = !story?.tokens;
    $("restart").disabled = !story?.tokens && !now.again;
    $("save").disabled = !story?.tokens;
}

/** The parts of the next picture; none while nothing has changed. */
function picture() {
    if (!now.dirty || !now.story) return [];
    now.dirty = false;
    const { story, index, events, from } = now, time = performance.now();
    const merges = events.filter(({ what }) => what === "merged"), followed = player.mode === null || player.speed <= FOLLOWED;
    const parts = [
        () => {
            text.follow(from, events);
            text.ahead(player.rest);
            tell();
            enable();
        },
        ...cache.parts(story, index, merges, followed),
        () => curve.draw(story, index),
    ];
    $("stage").classList.toggle("fast", !followed);
    [now.events, now.from] = [[], story.tokens];
    if (time - now.looked > OVERVIEW || !player.mode) {
        now.looked = time;
        parts.push(...overview.parts(story));
    } else {
        now.later ??= setTimeout(() => { [now.later, now.dirty] = [undefined, true]; }, OVERVIEW);
    }
    if (story.tokens > from) parts.push(() => text.followEnd());
    return parts;
}

/** What happened at the last token, in words. */
function tell() {
    const { story, index } = now, token = story.tokens - 1;
    $("room").textContent = now.captions.room(story.states(index).length);
    pace();
    if (token < 0) {
        $("told").textContent = "Nothing has been read yet.";
        return;
    }
    const tau = story.tau(index), score = story.score(token, index);
    const merges = story.deeds(index).filter(({ what }) => what === "merged");
    const deeds = merges.map(({ at }) => `states ${at + 1} and ${at + 2} merge to make room`);
    const opens = story.states(index).at(-1).start === token;
    deeds.push(opens ? `opens ${token ? "a" : "the first"} state` : "joins the open state");
    const measured = token > 0 && Number.isFinite(score) && story.info.schedule === "dynamic" ? `, score ${score.toFixed(2)} ${score >= tau ? "≥" : "<"} τ ${tau.toFixed(2)}` : "";
    $("told").textContent = `Token ${token} “${SIGNS[story.pieces[token]] ?? story.pieces[token]}”${measured}: ${deeds.join("; ")}`;
}

/** How fast the page shows tokens, and how fast the worker would have them. */
function pace() {
    const { rate, speed } = player;
    const able = rate ? `The model does ${rate < 10 ? rate.toFixed(1) : Math.round(rate)} tokens/s on ${now.info.backend === "gpu" ? "the GPU" : "the CPU"}` : "";
    const shown = Number.isFinite(speed) ? `shown at up to ${speedTold(Number($("speed").value))}` : "shown as they come";
    $("pace").textContent = able && `${able}, ${shown}`;
}

/** Another head. */
function choose(index) {
    now.index = index;
    const { heads } = now.info;
    $("whose").textContent = `layer ${Math.floor(index / heads)}, head ${index % heads}`;
    // Why it was picked is true of the trained memory only.
    $("why").hidden = index !== now.picked || now.settings !== null;
    [now.events, now.from] = [[], now.story.tokens];
    frames.clear();
    cache.clear();
    text.show(now.story, index);
    overview.choose(index);
    [now.looked, now.dirty] = [0, true];
}

// What is read.

/** Code in letters of one width. */
function face(bytes) { $("stage").classList.toggle("code", isCode(new TextDecoder().decode(bytes.subarray(0, 20_000)))); }

/** Begins with these bytes, nothing of them read. */
async function begin(bytes) {
    await player.pause();
    await link.call("reset");
    now.source = bytes;
    fresh();
    player.put(bytes);
    face(bytes);
}

function fresh() {
    caption();
    now.story = new Story(now.info);
    choose(Math.min(now.index, now.story.heads - 1));
}

/** What the panels show under the settings in force. */
function caption() {
    now.captions = captions(now.info);
    const { memory, curve: [title, words] } = now.captions;
    $("memory-caption").textContent = memory;
    [$("curve-heading").children[0].textContent, $("curve-heading").children[1].textContent] = [title, words];
    $("stage").dataset.schedule = now.info.schedule;
}

/** Says whose text is shown: a sample's, a person's "own", or null for one from a file. */
function name(text) {
    now.sample = text;
    for (const button of $("samples").children) button.setAttribute("aria-pressed", button.value === text);
    const own = text === "own", sample = SAMPLES[text];
    $("own").hidden = !own;
    $("text").hidden = own;
    $("about").textContent = sample?.about ?? "";
    $("compare").hidden = !sample?.answer;
    $("compare-body").replaceChildren(asking);
}

async function pick(sample) {
    const own = sample === "own";
    name(sample);
    await begin(own ? new Uint8Array() : BYTES.encode(SAMPLES[sample].text));
    if (own) $("own-text").focus();
    else if (!query.has("still")) player.start("read");
}

async function readOwn(bytes) {
    if (!bytes.length) return $("own-text").focus();
    await begin(bytes);
    $("own").hidden = true;
    $("text").hidden = false;
    player.start("read");
}

async function under(value) {
    now.settings = value;
    now.info = await link.call("change", value);
    facts();
}

/** The same text under another memory, as far as it was read; what is asked for meanwhile ends that early. */
async function change(value) {
    const { mode } = player;
    await player.pause();
    const { bytes, tokens, written } = now.story;
    now.again ??= { mode, tokens, written };
    const all = Uint8Array.from([...bytes, ...player.rest]);
    await under(value);
    fresh();
    player.put(all);
    const { again, story } = now;
    story.written = again.written;
    if (!await player.skim(again.tokens, () => now.running === now.asked)) {
        story.written = again.written.filter(([from]) => from < story.tokens).map(([from, to]) => [from, Math.min(to, story.tokens)]);
        return;
    }
    now.again = null;
    if (again.mode === "read") player.start("read");
}

async function compare() {
    const { text: words, answer } = SAMPLES[now.sample], twin = now.models.find(({ role }) => role === "twin");
    const sample = now.sample;
    Object.assign(asking, { disabled: true, textContent: "Reading…" });
    await player.pause();
    try {
        const readings = await link.call("compare", BYTES.encode(words), BYTES.encode(answer), twin && place(twin));
        if (now.sample === sample) drawComparison($("compare-body"), answer, readings, { twin: Boolean(twin), trained: now.models[0].trained });
    } finally {
        Object.assign(asking, { disabled: false, textContent: COMPARE });
    }
}

async function save() {
    await player.pause();
    const { story, source } = now, { rest } = player;
    await download(`session-${story.tokens}.dla`, pack({ story, rest, source, settings: now.settings, session: await link.call("save") }));
}

async function load(file) {
    const saved = unpack(file), before = now.settings;
    await player.pause();
    const kept = now.story.tokens ? await link.call("save") : null, changed = JSON.stringify(before) !== JSON.stringify(saved.settings);
    settings.show(saved.settings);
    let states;
    try {
        if (changed) await under(saved.settings);
        states = await link.call("restore", saved.session);
    } catch (error) {
        settings.show(before);
        if (changed) {
            await under(before);
            if (kept) await link.call("restore", kept);
        }
        throw error;
    }
    caption();
    now.story = new Story(now.info);
    now.story.restore(saved.text, saved.written, states, saved.colours);
    player.put(saved.rest);
    now.source = saved.source;
    face(saved.source);
    name(null);
    choose(now.index);
    text.followEnd();
}

// The controls.

function toggle(mode) {
    if (player.mode === mode) return player.pause();
    return player.pause().then(() => { player.start(mode); });
}

function wire() {
    const on = (id, call) => $(id).addEventListener("click", asked(call));
    for (const [value, title] of [...Object.entries(SAMPLES).map(([name, { title }]) => [name, title]), ["own", "Your text"]]) {
        const button = $("samples").appendChild(document.createElement("button"));
        Object.assign(button, { value, textContent: title });
        button.addEventListener("click", asked(() => pick(value)));
    }
    on("play", () => toggle("read"));
    on("write", () => toggle("write"));
    on("step", () => player.step());
    on("restart", async () => { await begin(now.source); });
    $("save").addEventListener("click", asked(save, $("save")));
    asking.addEventListener("click", asked(compare, $("compare")));
    $("slow").querySelector("button").addEventListener("click", toCpu);
    asking.textContent = COMPARE;
    picked("load", asked(load, $("load")));
    picked("own-file", asked(readOwn, $("own")));
    $("own").addEventListener("submit", event => {
        event.preventDefault();
        asked(readOwn, $("own"))(BYTES.encode($("own-text").value));
    });
    addEventListener("keydown", keys);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
        curve.repaint();
        now.dirty = true;
    });
}

function keys(event) {
    if (event.target.closest("textarea, input, select, summary") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("button") && event.key === " ") return;
    const heads = now.story?.heads ?? 1;
    if (event.repeat && !/^Arrow|[[\]]/.test(event.key)) return;
    const call = {
        " ": () => $("play").click(), ArrowRight: () => $("step").click(), w: () => $("write").click(), r: () => $("restart").click(),
        "[": () => choose((now.index + heads - 1) % heads), "]": () => choose((now.index + 1) % heads),
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!call || !now.story) return;
    event.preventDefault();
    call();
}

/** The model in a few words. */
function facts() {
    const { info } = now, [model] = now.models;
    const words = [model.trained ? model.folder : "untrained stand-in", `${(info.parameters / 1e6).toFixed(2)} M parameters`, info.backend === "gpu" ? `WebGPU${info.device ? `: ${info.device}` : ""}` : "CPU, 128-bit SIMD"];
    $("facts").replaceChildren(...words.map(word => Object.assign(document.createElement("li"), { textContent: word })));
    if (info.note) $("facts").lastChild.title = info.note;
    $("facts").dataset.backend = info.backend;
    if (info.note) $("facts").append(Object.assign(document.createElement("li"), { className: "note", textContent: info.note }));
    $("bytes").textContent = size(info.stateBytes);
}

/** Why the head is shown that is shown at first. */
function why({ shown }) {
    if (!shown) return;
    now.picked = now.index;
    $("why").textContent = `Picked for you among ${now.info.layers * now.info.heads} heads: it has learned to open a state at few tokens, so that each holds a stretch of text. The table below says how often each opens one; choose any.`;
}

/** The model's first call; the CPU's, where the visitor would not wait for the GPU. */
async function loaded(model) {
    try {
        return await link.call("load", place(model), query.get("backend") ?? "auto");
    } catch (error) {
        if (error.kind !== "ended") throw error;
        return link.call("load", place(model), "cpu");
    }
}

async function start() {
    now.models = await models();
    const [model] = now.models;
    now.info = await loaded(model);
    now.index = (model.shown?.layer ?? 0) * now.info.heads + (model.shown?.head ?? 0);
    loading.end();
    $("stage").hidden = false;
    facts();
    why(model);
    settings.reset(now.info.trained);
    overview.build(now.info);
    wire();
    await asked(pick)(query.get("sample") in SAMPLES ? query.get("sample") : "scenes");
}

if (location.protocol !== "file:") start().catch(error => {
    loading.end();
    onError(error);
});
