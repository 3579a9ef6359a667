// public/models/dla-tiny holds the model's config.json and model.safetensors.
import { Dla, DlaError, type Progress } from "dla-web";

const text = document.querySelector<HTMLPreElement>("#text")!;
const status = document.querySelector<HTMLParagraphElement>("#status")!;

try {
    const onProgress = ({ loaded, total }: Progress) => { status.textContent = `${Math.round((100 * loaded) / total)}%`; };
    const dla = await Dla.worker("models/dla-tiny", { onProgress });
    status.textContent = dla.info.device;
    const session = await dla.session();
    await session.feed(text.textContent ?? "");
    for await (const token of session.generate({ maxTokens: 48, temperature: 0 })) text.append(token.text);
    status.dataset.done = "yes";
} catch (error) {
    status.textContent = error instanceof DlaError ? `${error.kind}: ${error.message}` : String(error);
}
