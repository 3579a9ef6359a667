// What the visitor waits for: files by their size, then the shaders' compilation.

import { $ } from "./controls.js";

/** Seconds of preparing after which the CPU is offered. */
const LONG = 3;
const NAMES = { module: "module", weights: "weights" };

const megabytes = bytes => (bytes / 1e6).toFixed(1);

/** The panel that is shown until the model can read. */
export class Loading {
    #parts = {};
    #timer;
    #began = 0;
    #stage = "files";

    /** `onCpu()` where the visitor would rather not wait for the GPU. */
    constructor(onCpu) {
        $("loading-cpu").addEventListener("click", () => {
            $("loading-cpu").hidden = true;
            onCpu();
        });
    }

    /** `{ part, loaded, total }` of a file, or `{ stage }`: "model", "shaders". */
    progress({ part, loaded, total, stage }) {
        if (stage) return this.#prepare(stage);
        this.#parts[part] = { loaded, total };
        clearInterval(this.#timer);
        $("loading-title").textContent = "Loading the model";
        $("loading-slow").textContent = "";
        const parts = Object.entries(this.#parts).filter(([name]) => name in NAMES);
        $("loading-said").textContent = parts.map(([name, { loaded, total }]) => `${NAMES[name]} ${megabytes(loaded)}${total ? ` of ${megabytes(total)}` : ""} MB`).join(" · ");
        const sum = key => parts.reduce((sum, [, part]) => sum + part[key], 0);
        if (parts.every(([, { total }]) => total)) $("progress").value = sum("loaded") / sum("total");
    }

    /** Files are there; how long what comes next takes is not known. */
    #prepare(stage) {
        $("progress").removeAttribute("value");
        $("loading-title").textContent = stage === "shaders" ? "Compiling the shaders" : "Preparing the model";
        this.#stage = stage;
        this.#began = performance.now();
        clearInterval(this.#timer);
        this.#timer = setInterval(() => this.#wait(), 500);
    }

    #wait() {
        const seconds = Math.floor((performance.now() - this.#began) / 1000);
        if (seconds < LONG) return;
        const gpu = this.#stage === "shaders";
        $("loading-slow").textContent = gpu ? `${seconds} s so far. A GPU's driver compiles them once; a software adapter takes long.` : `${seconds} s so far.`;
        $("loading-cpu").hidden = !gpu;
    }

    /** The model is there, or never will be. */
    end() {
        clearInterval(this.#timer);
        $("loading").hidden = true;
    }
}
