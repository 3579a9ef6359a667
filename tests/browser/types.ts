// What TypeScript makes of the package's types; `tsc --noEmit --strict` must find nothing here.
import { Book, Dla, DlaError, Operator } from "dla-web";
import type { DlaInWorker, Info, LoadOptions, Piece, Progress, Session, State, Token } from "dla-web";

const options: LoadOptions = {
    backend: "cpu",
    files: ["config.json", "model.safetensors"],
    onProgress: ({ stage, loaded, total }: Progress) => console.log(stage, loaded / total),
    signal: AbortSignal.timeout(1000),
};

export async function use(weights: Uint8Array, config: object): Promise<string> {
    const local: Dla = await Dla.load({ config, weights }, options);
    const remote: DlaInWorker = await Dla.worker(new URL("https://example.org/model"), { ...options, transfer: true });
    const models: Dla[] = [local, remote, await remote.withSettings({ capacity: 4, schedule: "fenwick" })];
    let text = "";
    for (const dla of models) {
        const info: Info = dla.info, session: Session = await dla.session(), book = new Book(info);
        const piece: Piece = await session.feed("text", { bits: true, onStates: piece => book.take(piece) });
        const bits: Float32Array | undefined = piece.bits;
        for await (const token of session.generate({ maxTokens: 3, stop: ["."] })) {
            const { stop }: Token = token;
            if (stop !== null) text += stop + token.text + bits?.length;
        }
        const states: State[][][] = await session.states();
        await session.restore(await session.save(), { transfer: true });
        text += states[0]?.[0]?.[0]?.n ?? 0;
        session.free();
        dla.free();
    }
    remote.terminate();
    return text;
}

export function kind(error: unknown): DlaError["kind"] | undefined {
    return error instanceof DlaError ? error.kind : undefined;
}

export async function bare(): Promise<Float32Array> {
    const sizes = { heads: 1, groups: 1, keyDim: 1, valueDim: 1, capacity: 2 };
    const operator = await Operator.create("plain", sizes, Float32Array.of(0.9));
    const ones = Float32Array.of(1);
    return operator.feed({ q: ones, k: ones, v: ones, lambda: Float32Array.of(1, 1) }).o;
}

// What must not pass.
// @ts-expect-error no such backend
export const backend: LoadOptions = { backend: "quantum" };
// @ts-expect-error a model is loaded, not made
export const made = () => new Dla();
// @ts-expect-error no such schedule
export const schedule = (dla: Dla) => dla.withSettings({ schedule: "sometimes" });
// @ts-expect-error not every model is in a worker
export const ended = (dla: Dla) => dla.terminate();
