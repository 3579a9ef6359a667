// Dla.worker in a page: the package's own checks again, with models in workers, and what only workers have.
import { CHECKS, inside } from './api.mjs';
import { check, equal } from './checks.mjs';
import { Tasks, crowded } from './tasks.mjs';

const PROMPT = 'In the beginning God created the heaven and the earth.';
const LONG_TASK = 50;
/** Those that load by `load()` alone; the others see a module or a device of the page. */
const SAME = [
    'pieces of any size give what the whole gives',
    'a book follows the states',
    'bits are those of the distribution that was drawn from',
    'a reset session is a new one',
    'other memories of the same weights',
    'calls that overlap are refused, and harm nothing',
    'what is freed while it works ends its call',
    'text ends at a stop string and at an abort',
    'generating leaves the thread to others, and an abort ends it',
    'wrong arguments',
];

const OWN = {
    'kind 69: a worker gives what the thread of the page gives': inside(`async () => {
        const seen = [], dla = await Dla.worker(MODEL, { backend: 'cpu', onProgress: progress => seen.push(progress) });
        const local = await Dla.load(MODEL, { backend: 'cpu' });
        is(JSON.stringify(dla.info), JSON.stringify(local.info), 'info');
        is([seen.at(-1).stage, seen.at(-1).loaded > (await file('model.safetensors')).byteLength], ['prepare', true], 'progress');
        const [a, b] = [await dla.session(), await local.session()], pieces = [], text = PROMPT + PROMPT + PROMPT;
        const whole = await a.feed(text, { bits: true, lambda: true, onStates: piece => pieces.push(piece) });
        const wanted = await b.feed(text, { bits: true, lambda: true });
        for (const name of ['ids', 'scores', 'events', 'bits', 'lambda']) is([...whole[name]], [...wanted[name]], name);
        is(pieces.reduce((sum, { tokens }) => sum + tokens, 0), text.length, 'tokens of pieces');
        is(await write(a, { seed: 4 }), await write(b, { seed: 4 }), 'ids');
        dla.terminate();
    }`),
    'kind 69: breaking off leaves the session after the tokens that were given': inside(`async () => {
        const session = await (await load()).session();
        await session.feed(PROMPT);
        let count = 0;
        for await (const _ of session.generate({ temperature: 0 })) if (++count === 5) break;
        is(await session.position(), PROMPT.length + 5, 'position');
        const abort = new AbortController(), error = await (async () => {
            for await (const _ of session.generate({ signal: abort.signal })) if (++count === 8) abort.abort('enough');
        })().catch(error => error);
        is([error, await session.position()], ['enough', PROMPT.length + 8], 'the reason, and the position');
        const before = await session.position(), left = await session.feed(PROMPT.repeat(200), { signal: AbortSignal.timeout(20) }).catch(error => error);
        is(left.name, 'TimeoutError', 'a feed');
        const taken = await session.position() - before;
        if (!(taken < PROMPT.length * 200)) throw new Error('all was taken in');
        return taken + ' of ' + PROMPT.length * 200 + ' tokens in 20 ms';
    }`),
    'kind 69: saved bytes and weights are moved where that is asked for, and kept otherwise': inside(`async () => {
        const weights = await file('model.safetensors'), config = new TextDecoder().decode(await file('config.json')), size = weights.byteLength;
        const kept = await Dla.worker({ config, weights }, { backend: 'cpu' });
        is(weights.byteLength, size, 'kept weights');
        const moved = await Dla.worker({ config, weights: new Uint8Array(weights) }, { backend: 'cpu', transfer: true });
        is(weights.byteLength, 0, 'moved weights');
        const [from, to] = [await kept.session(), await moved.session()];
        await from.feed(PROMPT);
        const saved = await from.save(), length = saved.length;
        await to.restore(saved);
        is(saved.length, length, 'kept bytes');
        await to.restore(saved, { transfer: true });
        is(saved.length, 0, 'moved bytes');
        is(await write(to, { seed: 2 }), await write(from, { seed: 2 }), 'ids');
    }`),
    'kind 69: errors in a worker keep their kind': inside(`async () => {
        await fails('file', () => Dla.worker(ADDRESS + '/nowhere'), 'a missing folder');
        await fails('input', () => Dla.worker(undefined), 'no source');
        await fails('input', () => Dla.worker(MODEL, { backend: 'quantum' }), 'backend');
        const dla = await load(), session = await dla.session();
        await fails('input', () => write(session), 'nothing to go on from');
        await fails('file', () => session.restore(new Uint8Array(100)), 'zeros');
        await fails('input', () => session.feed(() => 'text'), 'a function');
        const thrown = await session.feed(PROMPT, { onStates: () => { throw new Error('mine'); } }).catch(error => error);
        is([thrown instanceof DlaError, thrown.message], [true, 'mine'], 'what a callback throws');
        await session.feed('x');
    }`),
    'kind 69: a terminated worker ends its calls': inside(`async () => {
        const dla = await load(), session = await dla.session(), feeding = session.feed(PROMPT.repeat(100)).catch(error => error);
        dla.terminate();
        is((await feeding).kind, 'input', 'a call in progress');
        await fails('input', () => session.position(), 'a later call');
        await fails('input', () => dla.session(), 'a new session');
        dla.terminate();
        const gone = await Dla.worker(MODEL, { signal: AbortSignal.abort('no') }).catch(error => error);
        is(gone, 'no', 'an abort before the start');
        const late = await Dla.worker(MODEL, { signal: AbortSignal.timeout(1) }).catch(error => error);
        is(late.name, 'TimeoutError', 'an abort while loading');
    }`),
    'kind 69: a worker that the page makes itself, and one that cannot start': inside(`async () => {
        const own = new Worker(ADDRESS + '/pkg/worker.js', { type: 'module' });
        const dla = await Dla.worker(MODEL, { worker: own, backend: 'cpu', module: new URL(ADDRESS + '/pkg/dla_web_bg.wasm') });
        await (await dla.session()).feed(PROMPT);
        const bytes = await (await fetch(ADDRESS + '/pkg/dla_web_bg.wasm')).arrayBuffer();
        for (const module of [await fetch(ADDRESS + '/pkg/dla_web_bg.wasm'), bytes, await WebAssembly.compile(bytes)]) {
            await Dla.worker(MODEL, { backend: 'cpu', module });
        }
        const broken = new Worker('data:text/javascript,throw new Error("broken")', { type: 'module' });
        await fails('device', () => Dla.worker(MODEL, { worker: broken }), 'a broken worker');
    }`),
};

/** Reads and writes in a worker while the page's tasks are timed. */
async function smooth() {
    const dla = await Dla.worker(MODEL, { backend: 'cpu' }), session = await dla.session();
    await session.feed(PROMPT.repeat(60));
    let count = 0;
    for await (const _ of session.generate({ maxTokens: 300 })) count++;
    await session.restore(await session.save());
    dla.terminate();
    return count;
}

/** Checks Dla.worker in a page of this address. */
export async function inWorker(chromium, { address, model }) {
    const page = await chromium.page();
    await page.go(`${address}/blank.html`);
    const names = { MODEL: model, ADDRESS: address, PROMPT };
    await page.evaluate(`(async () => Object.assign(globalThis, await import("${address}/pkg/index.js"), ${JSON.stringify(names)}) && 1)()`);
    await page.evaluate('globalThis.LOAD = Dla.worker, 1');
    for (const name of SAME) {
        const [, run] = Object.entries(CHECKS).find(([own]) => own.endsWith(name)) ?? [];
        await check(`${name}, in a worker`, () => page.evaluate(`(${run})()`));
    }
    for (const [name, run] of Object.entries(OWN)) await check(name, () => page.evaluate(`(${run})()`));
    await check('kind 69: no task of a page is longer than 50 ms while its worker loads, reads and writes', async () => {
        const tasks = new Tasks(chromium, 'smooth');
        await tasks.begin();
        await page.evaluate(`performance.mark('smooth')`);
        const written = await page.evaluate(`(${smooth})()`);
        const { count, clock, thread } = await tasks.end();
        equal([written, count > 100], [300, true], `${count} tasks`);
        const words = `at most ${thread} ms of the page's thread, ${clock} by the clock`;
        if (thread > LONG_TASK || (clock > LONG_TASK && !crowded())) throw new Error(words);
        return words;
    });
    await check('nothing complained of by workers', () => equal(page.complaints.filter(complaint => !/nowhere|broken/.test(complaint)), [], 'console'));
}
