// What went wrong, told where the visitor looks: in the panel whose control was used, else at the foot of the window.

/** The page's notice: one at a time. */
export class Notices {
    #box;
    #words;
    #home;

    constructor(box) {
        this.#box = box;
        this.#words = box.querySelector("p");
        this.#home = box.parentElement;
        box.querySelector("button").addEventListener("click", () => this.hide());
    }

    /** `near` is an element of the panel in question; without one the notice floats above the page, once there is one. */
    show(words, kind, near = null) {
        const box = this.#box, panel = near?.closest(".panel");
        (panel ?? this.#home).append(box);
        box.classList.toggle("floats", !panel && !this.#home.nextElementSibling.hidden);
        box.dataset.kind = kind;
        this.#words.textContent = words;
        box.hidden = false;
        if (panel) box.scrollIntoView({ block: "nearest" });
    }

    hide() {
        this.#box.hidden = true;
        this.#words.textContent = "";
    }
}
