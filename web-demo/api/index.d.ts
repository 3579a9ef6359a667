/** What every call of this package fails with; a call whose `signal` is aborted fails with the signal's reason. */
export class DlaError extends Error {
    private constructor();
    /** "diverged": the model computes no finite numbers, as with NaN among its weights. */
    readonly kind: "input" | "file" | "unsupported" | "diverged" | "device" | "busy";
}

export type Backend = "auto" | "gpu" | "cpu";
export type Schedule = "dynamic" | "single" | "fenwick";

/** Where a model is: the URL of a directory with config.json and model.safetensors (in Node a path too), or both files. */
export type Source = string | URL | { config: string | object; weights: Uint8Array | ArrayBuffer };

/** How far loading is. */
export interface Progress {
    /** "download" while bytes arrive; "prepare" once all are there and the model is built. */
    stage: "download" | "prepare";
    /** Bytes of the module and the weights that have come. */
    loaded: number;
    /** Of how many, as far as servers say it. */
    total: number;
}

export interface LoadOptions {
    /** "auto": the GPU, or the CPU where there is none. */
    backend?: Backend;
    /**
     * Says that the model's tokens are bytes, whatever else points to a tokenizer: a `tokenizer_class` in config.json, a
     * tokenizer.json among `files`, or one beside the weights on a disk. Such a model is refused otherwise.
     */
    tokenizer?: "bytes";
    /** The names of the directory's files, where they are known: no server is asked for a file that may not be there. */
    files?: readonly string[];
    onProgress?: (progress: Progress) => void;
    signal?: AbortSignal;
    /** dla_web_bg.wasm, where it does not lie beside index.js. */
    module?: string | URL | Response | BufferSource | WebAssembly.Module;
}

export interface WorkerOptions extends LoadOptions {
    /** A worker that runs `dla-web/worker`, for this model alone; made by the package unless given. */
    worker?: Worker;
    /** Moves the buffer of `weights` to the worker, where it is copied otherwise. */
    transfer?: boolean;
}

export interface Info {
    family: string;
    parameters: number;
    layers: number;
    heads: number;
    hidden: number;
    vocabulary: number;
    /** States that each head may keep, K. */
    capacity: number;
    schedule: Schedule | "fixed";
    /** Bytes that one sequence carries from token to token. */
    stateBytes: number;
    /** τ, [layers, heads]; empty where the schedule has none. */
    tau: Float32Array;
    backend: "gpu" | "cpu";
    device: string;
    /** Why the CPU runs the model although a GPU was looked for. */
    note: string | null;
    /** The memory that the weights were trained with. */
    trained: { capacity: number; schedule: string };
}

/** What every layer and head did with some tokens. */
export interface Piece {
    /** Position of the first token in the whole sequence. */
    first: number;
    tokens: number;
    layers: number;
    heads: number;
    ids: Uint32Array;
    /** [tokens, layers, heads]. */
    scores: Float32Array;
    /** Rows of five: token, layer, head, what (0 opened a state, 1 merged two), time-order index of the older one. */
    events: Uint32Array;
    /** Bits that each token was worth to the model beforehand; NaN for a sequence's first. */
    bits?: Float32Array;
    /** λ of the last token, [layers, heads, capacity] by rank: the newest state's first; only entries of live states count. */
    lambda?: Float32Array;
}

export interface State {
    /** Counted as states open; a merged pair keeps its older id. */
    id: number;
    /** Position of its first token. */
    start: number;
    /** Tokens it holds. */
    n: number;
    /** The sum of their scores, Ī. */
    info: number;
}

export interface Token {
    id: number;
    /** The text that became certain with this token; may be empty, and is where tokens are not bytes. */
    text: string;
    states: Piece;
    /** This token ends the text: config.json's eos_token_id is it, or has it. */
    end: boolean;
    /** The stop string that ended the text. */
    stop: string | null;
}

export interface GenerateOptions {
    maxTokens?: number;
    /** 0 is greedy. */
    temperature?: number;
    topK?: number;
    topP?: number;
    seed?: number;
    stop?: string | string[];
    /** Asks for `states.lambda` of every token. */
    lambda?: boolean;
    signal?: AbortSignal;
}

/** A model. */
export class Dla {
    private constructor();
    static load(source: Source, options?: LoadOptions): Promise<Dla>;
    /** Loads a model in a worker of its own: the page never waits for the model. */
    static worker(source: Source, options?: WorkerOptions): Promise<DlaInWorker>;
    readonly info: Info;
    /** The same weights with another memory. */
    withSettings(settings: { tauOffset?: number; capacity?: number; schedule?: Schedule }): Promise<Dla>;
    session(): Promise<Session>;
    free(): void;
}

/** A model in a worker. */
export interface DlaInWorker extends Dla {
    withSettings(settings: { tauOffset?: number; capacity?: number; schedule?: Schedule }): Promise<DlaInWorker>;
    /** Ends the worker, with all that is in it; calls fail from then on. */
    terminate(): void;
}

/** A sequence of a model. Calls that overlap are refused with kind "busy". */
export class Session {
    private constructor();
    /** Text for a model of bytes, or token ids. */
    feed(text: string | Uint8Array | Uint32Array, options?: {
        onStates?: (piece: Piece) => void;
        bits?: boolean;
        lambda?: boolean;
        signal?: AbortSignal;
    }): Promise<Piece>;
    generate(options?: GenerateOptions): AsyncGenerator<Token, void, void>;
    /** [layer][head], oldest first. */
    states(): Promise<(State & { density: number })[][][]>;
    position(): Promise<number>;
    save(): Promise<Uint8Array>;
    /** `transfer` moves the buffer to the model's worker, where it is copied otherwise. */
    restore(bytes: Uint8Array | ArrayBuffer, options?: { transfer?: boolean }): Promise<void>;
    reset(): Promise<void>;
    free(): void;
}

/** Follows states from pieces, without WebAssembly: a page can keep it while a worker runs the model. */
export class Book {
    constructor(info: { layers: number; heads: number });
    position: number;
    clear(): void;
    restore(states: State[][][]): void;
    states(layer: number, head: number): State[];
    take(piece: Piece, see?: (index: number, token: number, event: BookEvent) => void): void;
}

export type BookEvent =
    | { what: "opened"; id: number }
    | { what: "merged"; at: number; older: State; newer: State };

/** The sizes of an operator: heads, key groups, widths of keys and values, states that each head may keep. */
export interface Sizes {
    heads: number;
    groups: number;
    keyDim: number;
    valueDim: number;
    capacity: number;
}

/** The arrays of T tokens. */
export interface OperatorInputs {
    /** [T, groups, keyDim]. */
    q: Float32Array;
    /** [T, groups, keyDim]. */
    k: Float32Array;
    /** [T, heads, valueDim]. */
    v: Float32Array;
    /** Read weights by rank, [T, heads, capacity]. */
    lambda: Float32Array;
    /** Log decay, [T, heads], for decay and delta. */
    g?: Float32Array;
    /** Write strength, [T, heads], for delta. */
    beta?: Float32Array;
}

/** What T tokens gave. */
export interface OperatorStep {
    /** [T, heads, valueDim]. */
    o: Float32Array;
    /** [T, heads]. */
    score: Float32Array;
    /** 1 where the token opened a state, [T, heads]. */
    boundary: Uint8Array;
    /** The older of two merged states, −1 for none, [T, heads]. */
    mergeAt: Int32Array;
    /** Live states after the token, [T, heads]. */
    count: Int32Array;
}

/** One sequence of the bare operator on the CPU, fed in pieces. */
export class Operator {
    private constructor();
    static create(backbone: "plain" | "decay" | "delta", sizes: Sizes, tau: Float32Array, options?: { module?: LoadOptions["module"] }): Promise<Operator>;
    feed(inputs: OperatorInputs): OperatorStep;
    save(): Uint8Array;
    restore(bytes: Uint8Array): void;
    reset(): void;
    free(): void;
}
