// Calls that must not overlap.

import { guarded, refused } from "./error.js";

/** Lets one call at a time pass; refuses others with kind "busy". */
export class Busy {
    #held = false;

    /** Begins a call; gives what ends it. */
    hold() {
        if (this.#held) throw refused("busy", "session", "one call at a time", "another before its end; wait for the first");
        this.#held = true;
        return () => { this.#held = false; };
    }

    /** Runs a call alone. */
    alone(call, signal) {
        return guarded(async () => {
            const release = this.hold();
            try {
                return await call();
            } finally {
                release();
            }
        }, signal);
    }
}
