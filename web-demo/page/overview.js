// Layers × heads: each head's states along the text, and how often it opens one.

/** Heads of one part of a picture. */
const HEADS = 4;

/** A table of buttons, one a head. */
export class Overview {
    #table;
    #buttons = [];

    constructor(table, onChoose) {
        this.#table = table;
        table.addEventListener("click", event => {
            const button = event.target.closest("button");
            if (button) onChoose(this.#buttons.indexOf(button));
        });
        table.addEventListener("keydown", event => this.#keys(event));
    }

    /** The heads of a model. */
    build({ layers, heads }) {
        this.heads = heads;
        this.#table.style.setProperty("--heads", heads);
        const rows = ["<caption class=hidden>Heads by layer</caption>", `<thead><tr><td></td>${numbers(heads, n => `<th scope="col">head ${n}</th>`)}</tr></thead><tbody>`];
        for (let layer = 0; layer < layers; layer++) {
            rows.push(`<tr><th scope="row">layer ${layer}</th>${numbers(heads, () => "<td><button><span class=strip></span><small><span></span><span></span></small></button></td>")}</tr>`);
        }
        this.#table.innerHTML = rows.join("");
        this.#buttons = [...this.#table.querySelectorAll("button")];
    }

    /** Marks the chosen head. */
    choose(chosen) {
        this.#buttons.forEach((button, index) => {
            button.setAttribute("aria-pressed", index === chosen);
            button.tabIndex = index === chosen ? 0 : -1;
        });
    }

    /** What brings every head up to date, some heads a part. */
    parts(story) {
        const parts = [];
        for (let first = 0; first < this.#buttons.length; first += HEADS) parts.push(() => this.#show(story, first));
        return parts;
    }

    #show(story, first) {
        this.#buttons.slice(first, first + HEADS).forEach((button, i) => {
            const index = first + i;
            const states = story.states(index), paints = story.paints(index), [strip, words] = button.children;
            const stops = states.map(({ start, n }, i) => {
                const share = at => `${((100 * at) / story.tokens).toFixed(2)}%`;
                return `${paints[i].ink} ${share(start)} ${share(start + n)}`;
            });
            strip.style.background = stops.length ? `linear-gradient(90deg, ${stops.join(",")})` : "";
            const opened = story.boundaries[index], known = story.tokens - story.scoredFrom;
            words.children[0].textContent = `${states.length}/${story.info.capacity}`;
            words.children[1].textContent = known ? `${Math.round((100 * opened) / known)}%` : "";
            button.title = `${opened} states opened, ${story.merges[index]} merges`;
            button.setAttribute("aria-label", `Layer ${Math.floor(index / this.heads)}, head ${index % this.heads}: ${states.length} of ${story.info.capacity} states live, ${opened} opened, ${story.merges[index]} merges`);
        });
    }

    #keys(event) {
        const at = this.#buttons.indexOf(event.target);
        const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.heads, ArrowDown: this.heads }[event.key];
        const next = this.#buttons[at + (step ?? NaN)];
        if (!next) return;
        event.preventDefault();
        event.stopPropagation();
        next.click();
        next.focus();
    }
}

const numbers = (count, cell) => Array.from({ length: count }, (_, i) => cell(i)).join("");
