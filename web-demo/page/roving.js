// Many buttons that are one stop of the Tab key: arrows go from one to the next, Home and End to the ends.

/** The buttons of a grid, in reading order. */
export class Roving {
    #buttons;
    /** The one that Tab comes to. */
    #at = null;

    /** `buttons()` gives those that are there. */
    constructor(box, buttons) {
        this.#buttons = buttons;
        box.addEventListener("keydown", event => this.#keys(event));
        box.addEventListener("focusin", ({ target }) => {
            if (this.#buttons().includes(target)) this.#choose(target);
        });
    }

    /** To be called after buttons came or went. */
    refresh() {
        const buttons = this.#buttons();
        if (!buttons.includes(this.#at)) this.#at = buttons[0] ?? null;
        for (const button of buttons) button.tabIndex = button === this.#at ? 0 : -1;
    }

    #choose(button) {
        if (this.#at) this.#at.tabIndex = -1;
        button.tabIndex = 0;
        this.#at = button;
    }

    #keys(event) {
        const buttons = this.#buttons(), at = buttons.indexOf(event.target), tops = buttons.map(button => button.getBoundingClientRect().top);
        if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
        const columns = Math.max(1, tops.filter(top => top === tops[0]).length);
        const to = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - columns, ArrowDown: at + columns, Home: 0, End: buttons.length - 1 }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        event.stopPropagation();
        buttons[to]?.focus();
    }
}
