// The models that lie beside the page.

const LIST = "models/index.json";

/** The list of them, or a refusal that says what to do. */
export async function models() {
    let got;
    try {
        const response = await fetch(LIST);
        const { models } = response.ok ? await response.json() : {};
        if (Array.isArray(models) && models[0]?.folder) return models;
        got = response.ok ? "a list without a model" : `HTTP ${response.status}`;
    } catch (error) {
        got = error.message;
    }
    const what = `load, ${LIST}: expected the list of the page's models, got ${got}`;
    throw Object.assign(new Error(`${what}; build the page with cargo run --release -p dla-web-pkg and serve the whole folder web-demo/dist`), { kind: "file" });
}

/** Where a model lies, and the files that it has. */
export const place = ({ folder, files }) => ({ url: new URL(`models/${folder}`, location.href).href, files });
