// Checks of the installed package that run in Node, each a line of JSON: `node node.mjs MODEL ADDRESS`, a model's folder
// and the same model over HTTP.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';

const [model, address] = process.argv.slice(2);
const text = 'In the beginning God created';
const equal = (got, wanted, what) => {
    const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
    if (a !== b) throw new Error(`${what}: expected ${b?.slice(0, 300)}, got ${a?.slice(0, 300)}`);
};

async function check(name, run) {
    const line = await run().then(words => ({ name, words }), error => ({ name, fault: error.stack }));
    console.log(JSON.stringify(line));
}

await check('kind 69: a Node that is too old is told so in one sentence', async () => {
    const get = process.getBuiltinModule;
    process.getBuiltinModule = undefined;
    try {
        const { Dla } = await import('dla-web');
        const error = await Dla.load(model).catch(error => error);
        equal([error.kind, /Node 20\.16/.test(error.message), error.message.includes('\n')], ['unsupported', true, false], error.message);
        return error.message;
    } finally {
        process.getBuiltinModule = get;
    }
});

const { Book, Dla, DlaError } = await import('dla-web');
const scores = async dla => {
    const session = await dla.session(), { scores } = await session.feed(text);
    return [...scores];
};
const fails = async (kind, call, what) => {
    const error = await call().then(() => null, error => error);
    equal([error instanceof DlaError, error?.kind, error?.message.includes('\n')], [true, kind, false], `${what} (${error?.message})`);
    return error.message;
};

await check('kind 69: Node loads from paths, URLs and bytes', async () => {
    const dla = await Dla.load(model), wanted = await scores(dla);
    equal([dla.info.backend, /no WebGPU/.test(dla.info.note)], ['cpu', true], 'backend');
    const bytes = { config: readFileSync(join(model, 'config.json'), 'utf8'), weights: readFileSync(join(model, 'model.safetensors')) };
    for (const source of [`${model}/`, relative('.', model), pathToFileURL(model), pathToFileURL(model).href, address, bytes]) {
        equal(await scores(await Dla.load(source)), wanted, String(source));
    }
    const seen = [];
    await Dla.load(model, { onProgress: progress => seen.push(progress) });
    equal(seen.at(-1), { stage: 'prepare', loaded: bytes.weights.length, total: bytes.weights.length }, 'progress');
});

await check('kind 69: what Node cannot load is told in one sentence', async () => {
    const said = await fails('file', () => Dla.load('no/such/model'), 'a missing folder');
    if (!said.includes(join(process.cwd(), 'no/such/model/config.json'))) throw new Error(said);
    await fails('unsupported', () => Dla.load(model, { backend: 'gpu' }), 'a GPU');
    await fails('file', () => Dla.load('http://127.0.0.1:9/model'), 'a closed port');
    const copy = mkdtempSync(join(tmpdir(), 'dla-tokenized-'));
    cpSync(model, copy, { recursive: true });
    writeFileSync(join(copy, 'tokenizer.json'), '{}');
    await fails('unsupported', () => Dla.load(copy), 'a tokenizer.json');
    await Dla.load(copy, { tokenizer: 'bytes' });
    rmSync(copy, { recursive: true });
    return said;
});

await check('kind 69: a worker in Node', async () => {
    const dla = await Dla.worker(model), local = await Dla.load(model);
    equal(await scores(dla), await scores(local), 'scores');
    const [there, here] = [await dla.session(), await local.session()], book = new Book(dla.info);
    book.take(await there.feed(text));
    await here.restore(await there.save());
    const write = async session => {
        const ids = [];
        for await (const { id } of session.generate({ maxTokens: 20, seed: 7 })) ids.push(id);
        return ids;
    };
    equal(await write(there), await write(here), 'ids');
    const ended = await Dla.worker(model);
    ended.terminate();
    await fails('input', () => ended.session(), 'a terminated worker');
    await fails('file', () => Dla.worker('no/such/model'), 'a missing folder in a worker');
});
