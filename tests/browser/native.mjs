// The package beside `dla` on one software adapter: SwiftShader, which Chromium brings for WebGPU and which is a Vulkan
// driver too.
import { spawn } from 'node:child_process';
import { existsSync, readlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Counts the bytes that the module maps for reading, from the document's start on. */
export const COUNT = `if (globalThis.GPUBuffer) {
    globalThis.MAPPED = 0;
    const map = GPUBuffer.prototype.mapAsync;
    GPUBuffer.prototype.mapAsync = function (mode, ...range) {
        if (mode === GPUMapMode.READ) MAPPED += range[1] ?? this.size;
        return map.call(this, mode, ...range);
    };
}`;

/** The driver's file in the browser's folder, if there is one. */
export function swiftShader(chromium) {
    if (process.platform !== 'linux') return undefined;
    const file = join(dirname(readlinkSync(`/proc/${chromium.child.pid}/exe`)), 'vk_swiftshader_icd.json');
    return existsSync(file) ? file : undefined;
}

/** Greedy text of `dla` on that driver, and its tokens a second after the first. */
export function nativeText(dla, driver, words) {
    return new Promise((resolve, reject) => {
        const env = { ...process.env, VK_DRIVER_FILES: driver, DLA_ADAPTER: undefined };
        const child = spawn(dla, [...words, '--temperature', '0', '--backend', 'gpu'], { env });
        let text = '', complaint = '', first = 0, before = 0, last = 0;
        child.stdout.setEncoding('utf8').on('data', part => {
            last = performance.now();
            if (!first) [first, before] = [last, part.length];
            text += part;
        });
        child.stderr.setEncoding('utf8').on('data', part => { complaint += part; });
        child.on('error', reject);
        child.on('exit', code => {
            if (code !== 0) reject(new Error(`dla ${words.join(' ')}: ${complaint}`));
            // A newline of its own ends what it prints.
            else resolve({ text: text.slice(0, -1), rate: (1000 * (text.length - 1 - before)) / (last - first) });
        });
    });
}

/** In a page: the same text by the package, its rate, and the bytes that each token brought back without and with λ. */
export async function packageText({ model, prompt, tokens }) {
    const dla = await Dla.load(model, { backend: 'gpu', tokenizer: 'bytes' });
    const session = await dla.session();
    await session.feed(prompt);
    let text = '', first = 0, mapped = 0, count = 0;
    for await (const token of session.generate({ maxTokens: tokens, temperature: 0 })) {
        text += token.text;
        if (!first) [first, mapped] = [performance.now(), MAPPED];
        else count++;
    }
    const rate = (1000 * count) / (performance.now() - first), bytes = (MAPPED - mapped) / count;
    const lean = MAPPED;
    for await (const { states } of session.generate({ maxTokens: 2, temperature: 0, lambda: true })) if (!states.lambda) throw new Error('no λ');
    return { text, rate, bytes, withLambda: (MAPPED - lean) / 2, device: dla.info.device };
}
