// What a frame draws: parts, one after the other, as many as fit; the rest in the frames after it.

/** Milliseconds of a frame after which no other part is begun. */
const BUDGET = 4;

/** Parts of a picture that wait for their frame. */
export class Frames {
    #waiting = [];

    /** `next()` is asked for the parts of another picture, calls without arguments, when none wait. */
    constructor(next) {
        const frame = () => {
            requestAnimationFrame(frame);
            if (!this.#waiting.length) this.#waiting = next();
            const began = performance.now();
            while (this.#waiting.length && performance.now() - began < BUDGET) this.#waiting.shift()();
        };
        requestAnimationFrame(frame);
    }

    /** Forgets what waits: it belongs to a picture that is not shown any more. */
    clear() { this.#waiting = []; }
}
