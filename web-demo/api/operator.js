// The bare operator.

import { Operator as Bare, Sizes } from "./dla_web.js";
import { DlaError, guarded, refused, whole } from "./error.js";
import { start } from "./module.js";

/** One sequence of the bare operator on the CPU, fed in pieces. */
export class Operator {
    #operator;

    constructor(operator) {
        this.#operator = operator;
    }

    /** A sequence before its first token: `backbone` is plain, decay or delta, `tau` the threshold of each head. */
    static create(backbone, { heads, groups, keyDim, valueDim, capacity }, tau, { module } = {}) {
        return guarded(async () => {
            const sizes = { heads, groups, keyDim, valueDim, capacity };
            for (const [name, value] of Object.entries(sizes)) whole(`operator, ${name}`, value, 1);
            await start(module);
            const all = new Sizes(...Object.values(sizes));
            try {
                return new Operator(new Bare(backbone, all, tau));
            } finally {
                all.free();
            }
        });
    }

    /**
     * Takes in T tokens: `q`, `k` [T, groups, key], `v` [T, heads, value], `lambda` [T, heads, states], and `g`, `beta`
     * [T, heads] where the backbone has them. Gives `o` [T, heads, value] and `score`, `boundary`, `mergeAt`, `count`
     * [T, heads].
     */
    feed({ q, k, v, lambda, g, beta }) {
        return this.#told(operator => {
            const step = operator.feed(q, k, v, lambda, g, beta), { o, score, boundary, mergeAt, count } = step;
            step.free();
            return { o, score, boundary, mergeAt, count };
        });
    }

    /** The sequence as bytes, the same as on every other backend. */
    save() {
        return this.#told(operator => operator.save());
    }

    /** Goes on where `save` was called. A refusal changes nothing. */
    restore(bytes) {
        return this.#told(operator => operator.restore(bytes));
    }

    /** Forgets the sequence. */
    reset() {
        return this.#told(operator => operator.reset());
    }

    /** Gives the memory back. */
    free() {
        this.#operator?.free();
        this.#operator = undefined;
    }

    #told(call) {
        if (!this.#operator) throw refused("input", "operator", "one that has not been freed", "a freed one");
        try {
            return call(this.#operator);
        } catch (error) {
            throw DlaError.from(error);
        }
    }
}
