// The page where something is in its way: a coarse clock, a worker that cannot start, no server, a blocked model, a full
// disk, a GPU that takes long.
import { check, click, equal, RATE, RUNNING, set, text, told0, TOKEN } from './checks.mjs';
import { SAMPLES } from '../../web-demo/page/samples.js';

/** A folder of the server that answers nothing while it is named. */
const blocked = { folder: null };

/** Ends requests for what is blocked. */
export function special(path, response) {
    if (!blocked.folder || !path.startsWith(blocked.folder)) return false;
    response.destroy();
    return true;
}

/** A clock as a browser that hides its grain has it. */
const COARSE = `{
    const coarse = value => Math.floor(value / 100) * 100;
    const now = performance.now.bind(performance), frame = requestAnimationFrame;
    performance.now = () => coarse(now());
    requestAnimationFrame = call => frame.call(globalThis, time => call(coarse(time)));
}`;

/** A worker that fails at once, before the page has anything to ask of it. */
const BROKEN = `{
    const get = fetch, Whole = Worker;
    globalThis.fetch = async (...words) => {
        await new Promise(resolve => setTimeout(resolve, 500));
        return get(...words);
    };
    globalThis.Worker = class extends Whole {
        constructor() { super('data:text/javascript,throw new Error("broken")', { type: 'module' }); }
    };
}`;

/** A worker whose calls wait (HOLD milliseconds) or fail (FAIL) as the check says; the first one's loading never ends (STUCK). */
const HELD = `{
    const Whole = Worker;
    let first = true;
    globalThis.Worker = class extends Whole {
        #stuck = first && globalThis.STUCK;
        constructor(...words) { super(...words); first = false; }
        postMessage(message) {
            const { id, call } = message;
            if (this.#stuck && call === 'load') return void setTimeout(() => this.onmessage({ data: { progress: { stage: 'shaders' } } }), 100);
            if (globalThis.FAIL === call) return void setTimeout(() => this.onmessage({ data: { id, error: { kind: 'device', message: 'the device is lost' } } }));
            if (globalThis.HOLD && call === 'feed') return void setTimeout(() => super.postMessage(message), HOLD);
            super.postMessage(message);
        }
    };
}
/** What the panel of loading said. */
globalThis.SAID = [];
addEventListener('DOMContentLoaded', () => {
    new MutationObserver(() => SAID.push(document.getElementById('loading').innerText)).observe(document.getElementById('loading'), { childList: true, characterData: true, subtree: true });
});
`;

const NOTHING = `${told0}.startsWith('Nothing')`;
/** Whether the notice is there to be seen, wherever the visitor has scrolled. */
const SEEN = `(box => {
    const { left, right, top, bottom } = box.getBoundingClientRect();
    return !box.hidden && top >= 0 && bottom <= innerHeight && box.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2));
})(document.getElementById('notice'))`;

/** All of them, each on a page of its own. */
export async function conditions(chromium, address, { dist, models }) {
    await coarseClock(chromium, address);
    await brokenWorker(chromium, address);
    await unserved(chromium, dist);
    await notices(chromium, address, models);
    await waits(chromium, address);
}

async function opened(chromium, url, script = '') {
    const page = await chromium.page(script);
    await page.look({ width: 1280 });
    await page.go(url);
    return page;
}

/** The page where its worker cannot start. */
async function brokenWorker(chromium, address) {
    const page = await opened(chromium, `${address}/?backend=cpu`, BROKEN);
    await check('a worker that cannot start is told, not waited for', async () => {
        await page.until(`!document.getElementById('notice').hidden`, 30);
        equal(await page.evaluate(`[document.getElementById('notice').dataset.kind, document.getElementById('loading').hidden]`), ['device', true], 'notice');
        return page.evaluate(text('notice'));
    });
}

/** The page where time comes in steps of 100 ms. */
async function coarseClock(chromium, address) {
    const page = await opened(chromium, `${address}/?backend=cpu&still`, COARSE);
    await check('kind 28: a clock in steps of 100 ms neither stops the page nor makes its rates absurd', async () => {
        await page.until(NOTHING, 60);
        await page.evaluate(click('play'));
        await page.until(`${TOKEN} >= 10`, 60);
        const read = () => page.evaluate(TOKEN);
        const before = await read(), began = performance.now();
        await page.evaluate(set('speed', 100));
        await page.until(`!${RUNNING} && ${RATE}`, 60);
        const rate = await page.evaluate(RATE);
        // The page counts its model's time alone, this clock everything.
        const whole = (1000 * (await read() - before)) / (performance.now() - began);
        if (!(rate > whole / 4 && rate < whole * 8)) throw new Error(`tokens/s: ${rate}, ${whole} in all`);
        equal(page.complaints, [], 'console');
        return `${rate} tokens/s`;
    });
}

/** The page's folder, opened without a server. */
async function unserved(chromium, dist) {
    const page = await opened(chromium, `file://${dist}/index.html`);
    await check('kind 63: opened as a file the page says how to serve it', async () => {
        await page.until(`!document.getElementById('unserved').hidden && document.getElementById('loading').hidden`, 10);
        const words = await page.evaluate(`document.body.innerText`);
        if (!/python3 -m http\.server 8000/.test(words) || !/localhost:8000/.test(words)) throw new Error(words);
    });
}

/** Failures are told where the visitor looks. */
async function notices(chromium, address, models) {
    const page = await opened(chromium, `${address}/?backend=cpu&still&sample=needle`, HELD);
    await page.look({ width: 390, height: 844 });
    await page.until(NOTHING, 60);
    const hide = `document.querySelector('#notice button').click()`;
    const second = models.find(({ role }) => role === 'twin');
    if (!second) console.log('SKIP: a second model that is blocked, there is none');
    else await check('kind 61: a second model that is blocked is told beside the question', async () => {
        blocked.folder = `/models/${second.folder}/`;
        try {
            await page.evaluate(`document.getElementById('compare').scrollIntoView()`);
            await page.evaluate(click('compare-run'));
            await page.until(`document.querySelector('#compare #notice:not([hidden])')`, 60);
            equal(await page.evaluate(`[${SEEN}, document.getElementById('compare-run').disabled]`), [true, false], 'seen, and to be asked again');
        } finally {
            blocked.folder = null;
        }
        await page.evaluate(click('compare-run'));
        await page.until(`document.querySelectorAll('.needle .sum').length === 2`, 90);
        equal(await page.evaluate(`document.getElementById('notice').hidden`), true, 'hidden');
    });
    await check('kind 61: a disk without room for a session is told beside the button', async () => {
        await page.evaluate(click('step'));
        await page.until(`${TOKEN} === 0`);
        await page.evaluate(`Blob.prototype.arrayBuffer = async () => { throw new DOMException('The quota has been exceeded.', 'QuotaExceededError'); }, document.getElementById('save').scrollIntoView({ block: 'end' })`);
        await page.evaluate(click('save'));
        await page.until(SEEN, 10);
        const [words, near] = await page.evaluate(`[${text('notice')}, document.getElementById('notice').parentElement.contains(document.getElementById('save'))]`);
        equal(near, true, 'in the panel of the button');
        if (!/save, session: expected room for .* MB .* QuotaExceededError.*free some space/.test(words)) throw new Error(words);
        await page.evaluate(hide);
        equal(await page.evaluate(`document.getElementById('notice').hidden`), true, 'closed');
    });
    await check('kind 61: what fails without a button is told in the window, wherever it is scrolled', async () => {
        for (const place of [0, 10_000]) {
            await page.evaluate(`FAIL = 'feed', scrollTo(0, ${place}), ${click('play')}`);
            await page.until(SEEN, 10);
            await page.evaluate(hide);
        }
    });
}

/** Waiting is counted and explained, and the CPU is offered where a GPU takes long. */
async function waits(chromium, address) {
    const page = await opened(chromium, `${address}/?backend=gpu&still`, HELD);
    await check('kind 63: loading counts module and weights in megabytes and says when shaders compile', async () => {
        await page.until(NOTHING, 120);
        const said = await page.evaluate('SAID');
        const counted = said.some(words => /module ([\d.]+) of \1 MB · weights ([\d.]+) of \2 MB/.test(words));
        const compiled = said.findLastIndex(words => words.includes('Compiling the shaders'));
        if (!counted || compiled < 0) throw new Error(JSON.stringify(said.slice(-4)));
        return said.findLast(words => words.includes('weights')).replaceAll('\n', ' ');
    });
    await check('kind 63: a long first feed on a GPU says so and goes on with the CPU', async () => {
        await page.evaluate(`HOLD = 600_000, ${set('speed', 100)}, ${click('play')}`);
        await page.until(`!document.getElementById('slow').hidden`, 20);
        const words = await page.evaluate(`document.querySelector('#slow p').textContent`);
        if (!/WebGPU.* for \d+ s/.test(words)) throw new Error(words);
        await page.evaluate(`HOLD = 0, document.querySelector('#slow button').click()`);
        await page.until(`${text('facts')}.includes('CPU')`, 60);
        await page.until(`!${RUNNING} && ${text('text')} === ${JSON.stringify(SAMPLES.scenes.text)}`, 90);
        equal(await page.evaluate(`[document.getElementById('slow').hidden, document.getElementById('notice').hidden]`), [true, true], 'notices');
        equal(page.complaints, [], 'console');
        return words;
    });
    const stuck = await opened(chromium, `${address}/?backend=gpu&still`, `globalThis.STUCK = true;\n${HELD}`);
    await check('kind 63: shaders that take long to compile can be left for the CPU', async () => {
        await stuck.until(`!document.getElementById('loading-cpu').hidden`, 20);
        await stuck.evaluate(click('loading-cpu'));
        await stuck.until(`${NOTHING} && ${text('facts')}.includes('CPU')`, 60);
        equal(stuck.complaints, [], 'console');
    });
}
