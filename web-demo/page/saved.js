// A saved session as a file: one line of JSON (the text, who wrote what, the states' colours, what was still to be read), the
// model's bytes, and the checksum of both.

import { RING } from "./colours.js";

const KIND = "dla-session";
const SCHEDULES = ["dynamic", "single", "fenwick"];
const TEXT = new TextEncoder();
/** Bytes of the checksum at the end. */
const CHECKSUM = 4;

/** What each value of a byte does to a CRC-32. */
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
    let value = byte;
    for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
    return value;
});

/** CRC-32, as in gzip. */
function checksum(bytes) {
    let value = ~0;
    for (const byte of bytes) value = (value >>> 8) ^ TABLE[(value ^ byte) & 255];
    return ~value >>> 0;
}

/** The file's bytes: what was read, what is still to be read, what Restart begins with, the memory's settings, the session. */
export function pack({ story, rest, source, settings, session }) {
    const head = { kind: KIND, text: encode(story.bytes), written: story.written, colours: story.keptColours(), rest: encode(rest), source: encode(source), settings };
    const line = TEXT.encode(`${JSON.stringify(head)}\n`);
    const file = new Uint8Array(line.length + session.length + CHECKSUM);
    file.set(line);
    file.set(session, line.length);
    new DataView(file.buffer).setUint32(line.length + session.length, checksum(file.subarray(0, -CHECKSUM)), true);
    return file;
}

/** What {@link pack} put in; another file is refused. */
export function unpack(file) {
    const end = file.indexOf(10);
    try {
        const head = JSON.parse(new TextDecoder().decode(file.subarray(0, Math.max(0, end))));
        if (head.kind !== KIND) throw new Error("another kind of file");
        const whole = file.subarray(0, -CHECKSUM), saved = new DataView(file.buffer, file.byteOffset + whole.length).getUint32(0, true);
        if (saved !== checksum(whole)) throw new Error("its bytes have changed since it was saved");
        const [text, rest, source] = [head.text, head.rest, head.source].map(decode);
        const { written, settings, colours } = head;
        stretches(written, text.length);
        if (settings !== null) memory(settings);
        if (colours !== undefined) ring(colours);
        return { text, rest, source, written, settings, colours, session: whole.subarray(end + 1) };
    } catch (error) {
        throw Object.assign(new Error(`load, session: expected a file that this page saved, got another: ${error.message}`, { cause: error }), { kind: "file" });
    }
}

/** Refuses what are no stretches of a text, in order. */
function stretches(written, length) {
    let last = 0;
    for (const [from, to] of written) {
        if (!(Number.isInteger(from) && Number.isInteger(to) && last <= from && from < to && to <= length)) throw new Error("stretches");
        last = to;
    }
}

/** Refuses what are no colours of heads' states. */
function ring(colours) {
    const colour = ([hue, level]) => Number.isInteger(hue) && hue >= 0 && hue < RING && (level === 0 || level === 1);
    if (!colours.every(states => states.every(colour))) throw new Error("colours");
}

/** Refuses what are no settings of a memory. */
function memory({ tauOffset, capacity, schedule }) {
    if (!(Number.isFinite(tauOffset) && Number.isInteger(capacity) && SCHEDULES.includes(schedule))) throw new Error("settings");
}

function encode(bytes) {
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    return btoa(text);
}

const decode = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
