// A saved session as a file: one line of JSON (the text and who wrote what), then the model's bytes.

const KIND = "dla-session";
const TEXT = new TextEncoder();

/** The file's bytes. */
export function pack(story, settings, bytes) {
    const head = { kind: KIND, text: encode(story.bytes), written: story.written, settings };
    const line = TEXT.encode(`${JSON.stringify(head)}\n`);
    const file = new Uint8Array(line.length + bytes.length);
    file.set(line);
    file.set(bytes, line.length);
    return file;
}

/** What {@link pack} put in. */
export function unpack(file) {
    const end = file.indexOf(10);
    let head;
    try {
        head = JSON.parse(new TextDecoder().decode(file.subarray(0, Math.max(0, end))));
    } catch {
        head = null;
    }
    if (head?.kind !== KIND) throw Object.assign(new Error("load, session: expected a file that this page saved, got another"), { kind: "file" });
    return { text: Uint8Array.from(atob(head.text), letter => letter.charCodeAt(0)), written: head.written, settings: head.settings, bytes: file.subarray(end + 1) };
}

function encode(bytes) {
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    return btoa(text);
}
