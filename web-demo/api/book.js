// The book of states, followed from what a session tells of each token. It needs no WebAssembly, so that a page
// can keep it while a worker runs the model.

const OPENED = 0, MERGED = 1, ROW = 5;

/** Follows the states of every layer and head. */
export class Book {
    /** @param {{ layers: number, heads: number }} info */
    constructor({ layers, heads }) {
        this.layers = layers;
        this.heads = heads;
        this.clear();
    }

    /** Before the first token. */
    clear() {
        this.position = 0;
        this.live = Array.from({ length: this.layers * this.heads }, () => []);
        this.opened = new Array(this.layers * this.heads).fill(0);
    }

    /** Goes on from `session.states()`. */
    restore(states) {
        this.clear();
        states.flat().forEach((live, i) => {
            this.live[i] = live.map(({ id, start, n, info }) => ({ id, start, n, info }));
            this.opened[i] = live.reduce((most, { id }) => Math.max(most, id + 1), 0);
        });
        const last = this.live[0]?.at(-1);
        this.position = last ? last.start + last.n : 0;
    }

    /** The live states of a head, oldest first: `id`, `start`, `n`, `info`. */
    states(layer, head) {
        return this.live[layer * this.heads + head];
    }

    /**
     * Takes a piece in, token by token. `see(index, token, event)` is called for each merge and opening of the head
     * `index` = layer · heads + head: `{ what: "opened", id }` or `{ what: "merged", at, older, newer }`.
     */
    take(piece, see = () => {}) {
        const { first, tokens, scores, events } = piece;
        const heads = this.layers * this.heads;
        const rows = Array.from({ length: heads }, () => []);
        for (let at = 0; at < events.length; at += ROW) {
            rows[events[at + 1] * this.heads + events[at + 2]].push(at);
        }
        for (let index = 0; index < heads; index++) {
            let next = 0;
            const mine = rows[index];
            for (let t = 0; t < tokens; t++) {
                let opens = false;
                for (; next < mine.length && events[mine[next]] === first + t; next++) {
                    const what = events[mine[next] + 3];
                    if (what === MERGED) this.#merge(index, first + t, events[mine[next] + 4], see);
                    opens ||= what === OPENED;
                }
                this.#write(index, first + t, scores[t * heads + index], opens, see);
            }
        }
        this.position = first + tokens;
    }

    #merge(index, token, at, see) {
        const live = this.live[index];
        const [newer] = live.splice(at + 1, 1);
        const older = live[at];
        see(index, token, { what: "merged", at, older: { ...older }, newer });
        live[at] = { ...older, n: older.n + newer.n, info: older.info + newer.info };
    }

    #write(index, token, score, opens, see) {
        const live = this.live[index];
        const info = Number.isFinite(score) ? score : 0;
        if (opens) {
            const id = this.opened[index]++;
            live.push({ id, start: token, n: 1, info });
            see(index, token, { what: "opened", id });
        } else {
            const open = live[live.length - 1];
            open.n += 1;
            open.info += info;
        }
    }
}
