// Reads a text into the model, or lets the model go on with it, at a reader's speed.

/** Tokens of one call of the worker. */
const MOST = 64;
/** Tokens that the model writes before it pauses. */
const LIMIT = 600;
/** Speeds beyond are without a limit. */
const FASTEST = 400;

/** The speed of a slider's place from 0 to 100, in tokens a second. */
export function speedAt(place) {
    return place >= 100 ? Infinity : Math.round(FASTEST ** (place / 100) * 10) / 10;
}

/** What is read and written, and when. */
export class Player {
    speed = 20;
    /** null, "read" or "write". */
    mode = null;
    /** Tokens a second that the worker has managed lately. */
    rate = 0;
    #link;
    #rest = new Uint8Array();
    #inFlight = Promise.resolve();
    #age = 0;
    #tokens = 0;
    #milliseconds = 0;

    /** `onPiece(piece, own)` for what came back, `onMode()` when it starts or ends, `onError(error)`, `onWait(seconds, tokens)`
     *  while a call takes seconds, and `onWait(null)` at its end. */
    constructor(link, { onPiece, onMode, onError, onWait, options }) {
        Object.assign(this, { onPiece, onMode, onError, onWait, options });
        this.#link = link;
    }

    /** Bytes not read yet. */
    get rest() { return this.#rest; }

    /** Another text, from its start. The worker's session must be new. */
    put(bytes) { this.#rest = bytes; }

    /** Starts, or goes on with, reading or writing. */
    async start(mode) {
        const age = ++this.#age;
        this.mode = mode;
        this.onMode();
        let due = 1, last = performance.now(), written = 0;
        while (this.#age === age) {
            const now = await frame();
            if (this.#age !== age) return;
            due = Number.isFinite(this.speed) ? Math.min(due + (this.speed * (now - last)) / 1000, MOST) : MOST;
            last = now;
            if (due < 1) continue;
            const count = Math.min(Math.floor(due), mode === "write" ? LIMIT - written : MOST);
            const done = await this.#turn(mode, count);
            due -= count;
            if (mode === "write") written += done;
            const over = done === 0 || written >= LIMIT || (mode === "read" && !this.#rest.length);
            if (this.#age === age && over) this.pause();
        }
    }

    /** Resolves when no call is on its way any more. */
    async pause() {
        this.#age++;
        const wrote = this.mode === "write";
        this.mode = null;
        this.onMode();
        await this.#inFlight;
        if (wrote) await this.#link.call("stop").catch(this.onError);
    }

    /** One token. */
    async step() {
        await this.pause();
        await this.#turn(this.#rest.length ? "read" : "write", 1);
    }

    /** Reads `count` bytes as fast as can be, as long as it `may`; says whether it has. */
    async skim(count, may) {
        const end = this.#rest.length - count;
        while (this.#rest.length > end && may() && await this.#turn("read", Math.min(MOST, this.#rest.length - end)));
        return this.#rest.length <= end;
    }

    /** Tokens that were done; 0 after a failure. */
    #turn(mode, count) {
        const turn = this.#inFlight.then(() => this.#watched(mode, count));
        this.#inFlight = turn.catch(() => {});
        return turn.catch(error => {
            this.onError(error);
            return 0;
        });
    }

    async #watched(mode, count) {
        const began = performance.now();
        let waited = false;
        const timer = setInterval(() => {
            waited = true;
            this.onWait(Math.round((performance.now() - began) / 1000), count);
        }, 1000);
        try {
            return await this.#once(mode, count);
        } finally {
            clearInterval(timer);
            if (waited) this.onWait(null);
        }
    }

    /** Forgets how fast the worker was. */
    forget() { [this.rate, this.#tokens, this.#milliseconds] = [0, 0, 0]; }

    async #once(mode, count) {
        const began = performance.now();
        if (mode === "read") {
            const bytes = this.#rest.slice(0, count);
            if (!bytes.length) return 0;
            const piece = await this.#link.call("feed", bytes);
            this.#rest = this.#rest.subarray(bytes.length);
            this.#measure(bytes.length, began);
            this.onPiece(piece, false);
            return bytes.length;
        }
        const tokens = await this.#link.call("write", count, this.options());
        this.#measure(tokens.length, began);
        for (const { states } of tokens) this.onPiece(states, true);
        return tokens.length;
    }

    /** Over many calls, since a browser's clock may be too coarse for one. */
    #measure(tokens, began) {
        this.#tokens += tokens;
        this.#milliseconds += performance.now() - began;
        if (this.#milliseconds > 20) this.rate = (1000 * this.#tokens) / this.#milliseconds;
        if (this.#milliseconds > 2000) {
            this.#tokens /= 2;
            this.#milliseconds /= 2;
        }
    }
}

const frame = () => new Promise(resolve => requestAnimationFrame(resolve));
