// What the calls of this package fail with.

/** What every call of this package fails with. `kind` is "input", "file", "unsupported", "diverged", "device" or "busy". */
export class DlaError extends Error {
    constructor(kind, message, options) {
        super(message, options);
        this.name = "DlaError";
        this.kind = kind;
    }

    static from(error) {
        if (error instanceof DlaError) return error;
        if (typeof error?.kind === "string") return new DlaError(error.kind, error.message);
        const trapped = error instanceof WebAssembly.RuntimeError;
        const message = trapped ? `the module has failed; reload the page or the worker: ${error.message}` : String(error?.message ?? error);
        return new DlaError(trapped ? "device" : "input", message, { cause: error });
    }
}

/** Runs `call`, so that whatever fails is a DlaError; once `signal` is aborted, the signal's reason. */
export async function guarded(call, signal) {
    try {
        signal?.throwIfAborted();
        return await call();
    } catch (error) {
        signal?.throwIfAborted();
        throw DlaError.from(error);
    }
}

/** An error of what was expected and what was got. */
export const refused = (kind, what, expected, got) => new DlaError(kind, `${what}: expected ${expected}, got ${got}`);

/** Refuses what is not a whole number from `least` on. */
export function whole(what, value, least) {
    if (!Number.isSafeInteger(value) || value < least) throw refused("input", what, `a whole number from ${least} on`, value);
}
