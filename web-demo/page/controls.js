// The controls' words and values.

import { speedAt } from "./player.js";

/** Levels that Log-Linear attention needs for a text of half a million tokens. */
const LEVELS = 20;

export const $ = id => document.getElementById(id);

/** A slider whose output follows it; `say(value)` words the value. */
export function slider(id, say, onInput = () => {}) {
    const input = $(id), output = $(`${id}-value`);
    const show = () => { output.textContent = say(Number(input.value)); };
    input.addEventListener("input", () => { show(); onInput(Number(input.value)); });
    show();
    return { show, get value() { return Number(input.value); }, set value(value) { input.value = value; show(); } };
}

export const speedTold = place => {
    const speed = speedAt(place);
    return Number.isFinite(speed) ? `${speed < 10 ? speed.toFixed(1) : Math.round(speed)}/s` : "no limit";
};

/** The memory's settings, as the page shows them and as a model takes them. */
export class Settings {
    #tau;
    #capacity;
    /** K as a person set it; log-linear attention may need more. */
    #chosen;
    #onChange;
    #timer;

    constructor(onChange) {
        this.#onChange = onChange;
        const later = () => {
            clearTimeout(this.#timer);
            this.#timer = setTimeout(() => this.#changed(), 250);
        };
        const signed = value => (value === 0 ? "as trained" : `${value > 0 ? "+" : "−"}${Math.abs(value).toFixed(2)}`);
        this.#tau = slider("tau", signed, later);
        this.#capacity = slider("capacity", value => value, value => {
            this.#chosen = value;
            later();
        });
        $("schedule").addEventListener("change", () => this.#changed());
        $("as-trained").addEventListener("click", () => {
            this.reset(this.trained);
            this.#changed();
        });
    }

    /** As the weights were trained. */
    reset(trained) {
        this.trained = trained;
        this.#put({ tauOffset: 0, ...trained });
    }

    /** A value of {@link value}; says if it is another. */
    show(value) {
        const before = JSON.stringify(this.value);
        this.#put({ tauOffset: 0, ...(value ?? this.trained) });
        return JSON.stringify(this.value) !== before;
    }

    #put({ tauOffset, capacity, schedule }) {
        this.#tau.value = tauOffset;
        this.#chosen = capacity;
        for (const radio of $("schedule").querySelectorAll("input")) radio.checked = radio.value === schedule;
        this.#badge();
    }

    /** What a model takes; null for the trained settings. */
    get value() {
        const schedule = $("schedule").querySelector(":checked")?.value ?? this.trained.schedule;
        const capacity = schedule === "single" ? 1 : schedule === "fenwick" ? Math.max(LEVELS, this.#chosen) : this.#chosen;
        const settings = { tauOffset: this.#tau.value, capacity, schedule };
        const same = settings.tauOffset === 0 && capacity === this.trained.capacity && schedule === this.trained.schedule;
        return same ? null : settings;
    }

    #badge() {
        const differs = this.value !== null;
        $("trained").textContent = differs ? "differs from training" : "as trained";
        $("trained").classList.toggle("differs", differs);
        $("as-trained").disabled = !differs;
        const { schedule, capacity } = this.value ?? this.trained;
        $("tau").disabled = schedule !== "dynamic";
        $("capacity").disabled = schedule === "single";
        $("capacity-name").textContent = schedule === "fenwick" ? "Levels" : "States K";
        if (capacity !== this.#capacity.value) this.#capacity.value = capacity;
    }

    #changed() {
        this.#badge();
        this.#onChange(this.value);
    }
}

/** A file's bytes when a person picks one. */
export function picked(id, take) {
    $(id).addEventListener("change", async ({ target }) => {
        const [file] = target.files;
        target.value = "";
        if (file) take(new Uint8Array(await file.arrayBuffer()), file.name);
    });
}

/** Offers bytes as a file; refuses where the browser has no room to keep them for that. */
export async function download(name, bytes) {
    const link = document.createElement("a");
    try {
        const blob = new Blob([bytes]);
        await blob.slice(-1).arrayBuffer();
        link.href = URL.createObjectURL(blob);
    } catch (error) {
        const message = `save, session: expected room for ${(bytes.length / 1e6).toFixed(1)} MB in the browser's storage, got ${error.name}: ${error.message}; free some space on this device and save again`;
        throw Object.assign(new Error(message, { cause: error }), { kind: "file" });
    }
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
