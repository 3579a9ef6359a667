// The memory: K slots in time order. States move, open and merge where the reader wants motion.

import { Roving } from "./roving.js";

const still = matchMedia("(prefers-reduced-motion: reduce)");
const MILLISECONDS = 420;
/** Cards of one part of a picture. */
const CARDS = 8;

const density = ({ info, n }) => info / n;
/** A bar's size, which needs no layout: its width in parts of the whole, and its height. */
const share = (value, most) => `${Math.max(.02, value / most).toFixed(3)} 1`;
const write = (node, text) => { if (node.textContent !== text) node.textContent = text; };
/** A count in at most five characters; a card's title has it in full. */
const short = count => (count < 100_000 ? String(count) : count < 999_500 ? `${Math.round(count / 1000)}k` : `${(count / 1e6).toFixed(count < 99_950_000 ? 1 : 0)}M`);
const excerpt = (text) => text.replace(/\s+/g, " ").trim() || "␣";

/** The slots of one head. */
export class CacheView {
    #list;
    #cards = new Map();
    #slots = 0;
    #roving;
    /** The first place of the list, whose size is that of all. */
    #first;
    #sizes = new ResizeObserver(([{ contentRect: { width, height } }]) => {
        const rem = parseFloat(getComputedStyle(document.documentElement).fontSize), classes = this.#list.parentElement?.classList;
        classes?.toggle("narrow", width <= 5.6 * rem);
        classes?.toggle("short", height <= 4.4 * rem);
        classes?.toggle("tiny", width <= 4.4 * rem);
    });
    /** What the cards tell: the states and how they look. */
    #told = { states: [] };

    /** `onPoint(id)` while a state is pointed at, `onChoose(id)` when it is chosen. */
    constructor(list, { onPoint, onChoose }) {
        this.#list = list;
        const id = event => event.target.closest("[data-id]")?.dataset.id;
        list.addEventListener("pointerover", event => onPoint(Number(id(event) ?? NaN)));
        list.addEventListener("pointerleave", () => onPoint(NaN));
        list.addEventListener("focusin", event => onPoint(Number(id(event) ?? NaN)));
        list.addEventListener("focusout", () => onPoint(NaN));
        this.#roving = new Roving(list, () => [...list.querySelectorAll("[data-id] button")]);
        list.addEventListener("click", event => { if (id(event) !== undefined) onChoose(Number(id(event))); });
    }

    /** What draws the states, some cards a part; `merges` since the last picture are shown, unless there were too many to follow. */
    parts(story, index, merges, motion) {
        const parts = [() => this.#arrange(story, index, merges, motion)];
        for (let first = 0; first < story.info.capacity; first += CARDS) parts.push(() => this.#tell(first, first + CARDS));
        return parts;
    }

    /** Puts every state's card in its place; new ones are told at once. */
    #arrange(story, index, merges, motion) {
        const states = story.states(index), moving = motion && !still.matches && merges.length < 4;
        const before = moving ? this.#places() : new Map();
        const going = moving ? merges.map(({ older, newer }) => [this.#cards.get(newer.id), older.id]) : [];
        const ghosts = going.filter(([card]) => card).map(([card, into]) => [card.cloneNode(true), card.getBoundingClientRect(), into]);
        this.#resize(Math.max(story.info.capacity, states.length));
        const reads = story.reads(index);
        const most = { density: Math.max(...states.map(density), 1e-9), lambda: Math.max(...reads.filter(Number.isFinite), 1e-9) };
        const measured = story.info.schedule === "dynamic" && story.info.capacity > 1;
        this.#told = { story, states: [...states], paints: story.paints(index), reads, most, measured };
        const live = new Set(states.map(({ id }) => id)), focused = this.#list.contains(document.activeElement) ? document.activeElement : null;
        for (const [id, card] of this.#cards) {
            if (!live.has(id)) {
                card.remove();
                this.#cards.delete(id);
            }
        }
        states.forEach((state, i) => {
            const card = this.#cards.get(state.id) ?? this.#card(state.id);
            if (this.#list.children[i] !== card) this.#list.insertBefore(card, this.#list.children[i]);
            if (!card.firstChild.title) this.#tell(i, i + 1);
        });
        this.#pad(states.length);
        if (focused && !focused.isConnected) this.#focusNear(Number(focused.parentElement.dataset.id), states);
        this.#roving.refresh();
        if (moving) this.#move(before, ghosts);
    }

    /** The state that took in one whose card had the focus: the youngest of those before it. */
    #focusNear(gone, states) {
        const into = states.findLast(({ id }) => id < gone) ?? states[0];
        this.#cards.get(into?.id)?.firstChild.focus({ preventScroll: true });
    }

    /** What the cards from `first` on say. */
    #tell(first, end) {
        const { story, states, paints, reads, most, measured } = this.#told;
        states.slice(first, end).forEach((state, i) => {
            const at = first + i, card = this.#cards.get(state.id);
            this.#fill(card, state, { ...paints[at], lambda: reads[at], most, open: at === states.length - 1, story, measured });
        });
    }

    #places() {
        return new Map([...this.#cards].map(([id, card]) => [id, card.getBoundingClientRect()]));
    }

    #resize(slots) {
        this.#slots = slots;
        this.#list.style.setProperty("--columns", slots > 36 ? 7 : slots > 12 ? 5 : slots > 1 ? 4 : 1);
        this.#list.classList.toggle("many", slots > 36);
        this.#list.classList.toggle("lone", slots === 1);
    }

    #pad(live) {
        const list = this.#list, empty = this.#slots - live;
        while (list.children.length > this.#slots) list.lastChild.remove();
        while (list.children.length < live + empty) {
            const slot = list.appendChild(document.createElement("li"));
            slot.className = "empty";
            slot.setAttribute("aria-hidden", "true");
        }
        this.#measure(list.firstElementChild);
    }

    /** Follows the size of a card: the style of small ones is a class, not a container's, which each card would be asked for in every layout. */
    #measure(first) {
        if (first === this.#first) return;
        this.#sizes.disconnect();
        this.#first = first;
        if (first) this.#sizes.observe(first);
    }

    #card(id) {
        const card = document.createElement("li");
        card.dataset.id = id;
        card.className = "new";
        card.innerHTML = "<button><span class=top><b></b><em><u>λ </u> </em></span><span class=words></span><i></i><i class=read></i></button>";
        this.#cards.set(id, card);
        return card;
    }

    #fill(card, state, { fill, ink, lambda, most, open, story, measured }) {
        const [{ children: [n, read] }, words, bar, readBar] = card.firstChild.children;
        card.style.setProperty("--fill", fill);
        card.style.setProperty("--ink", ink);
        card.classList.toggle("open", open);
        write(n, short(state.n));
        const known = Number.isFinite(lambda);
        read.hidden = !known;
        write(read.lastChild, known ? lambda.toFixed(2) : "");
        const said = excerpt(story.said(state.start, state.start + Math.min(state.n, 48)));
        write(words, said);
        bar.hidden = !measured;
        if (measured) bar.style.scale = share(density(state), most.density);
        readBar.style.scale = known ? share(lambda, most.lambda) : "0 1";
        card.firstChild.title = `${state.n} tokens from ${state.start} on${measured ? `, ${density(state).toFixed(3)} a token` : ""}${known ? `, read with λ ${lambda.toFixed(3)}` : ""}${open ? "; the open state" : ""}`;
        card.firstChild.setAttribute("aria-label", `${card.firstChild.title}: ${said}`);
    }

    #move(before, ghosts) {
        const timing = { duration: MILLISECONDS, easing: "cubic-bezier(.3,.8,.3,1)" };
        for (const [id, card] of this.#cards) {
            const from = before.get(id), to = card.getBoundingClientRect();
            if (!from) {
                card.animate([{ transform: "scale(.4)", opacity: 0 }, { transform: "none", opacity: 1 }], timing);
            } else if (from.left !== to.left || from.top !== to.top) {
                const start = `translate(${from.left - to.left}px, ${from.top - to.top}px)`;
                card.animate([{ transform: start }, { transform: "none" }], timing);
            }
        }
        for (const [ghost, from, into] of ghosts) this.#absorb(ghost, from, this.#cards.get(into), timing);
    }

    /** The younger of a merged pair slides into the older one. */
    #absorb(ghost, from, kept, timing) {
        if (!kept) return;
        const box = this.#list.getBoundingClientRect(), to = kept.getBoundingClientRect();
        ghost.removeAttribute("data-id");
        ghost.setAttribute("aria-hidden", "true");
        ghost.classList.add("ghost");
        ghost.style.cssText += `left:${from.left - box.left}px;top:${from.top - box.top}px;width:${from.width}px;height:${from.height}px`;
        this.#list.parentElement.append(ghost);
        ghost.style.translate = `${this.#list.offsetLeft}px ${this.#list.offsetTop}px`;
        const end = `translate(${to.left - from.left}px, ${to.top - from.top}px) scale(.6)`;
        ghost.animate([{ transform: "none", opacity: 1 }, { transform: end, opacity: 0 }], timing).finished
            .catch(() => {}).then(() => ghost.remove());
        kept.animate([{ boxShadow: "0 0 0 0 var(--ink)" }, { boxShadow: "0 0 0 5px var(--ink)" }, { boxShadow: "0 0 0 0 transparent" }], { duration: 700 });
    }

    clear() {
        this.#cards.clear();
        this.#list.replaceChildren();
    }
}
