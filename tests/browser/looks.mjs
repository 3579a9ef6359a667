// How the page looks: colours of states, cards that can be read, captions that are true, and pictures of it.
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { check, click, equal, RATE, RUNNING, set, text, told0, TOKEN } from './checks.mjs';
import { SAMPLES } from '../../web-demo/page/samples.js';

const NOTHING = `${told0}.startsWith('Nothing')`;
const WIDTHS = [320, 390, 820, 1280];
const CONTRAST = 4.5;
const HEADS = `document.querySelectorAll('#overview button')`;
const sample = name => `document.querySelector('#samples [value=${name}]').click()`;
const schedule = name => `document.querySelector('#schedule [value=${name}]').click()`;
/** What the page's own functions find on it. */
const asked = (call, ...words) => `(${call})(${words.map(word => JSON.stringify(word)).join(', ')})`;

/** `told` is the program dla and the model's folder. */
export async function looks(chromium, address, { dla, model, scratch, pictures }) {
    const page = await chromium.page();
    await page.look({ width: 1280, still: true });
    await page.go(`${address}/?backend=cpu&still`);
    await page.until(NOTHING, 60);
    await colours(chromium, page, { dla, model, scratch });
    await captions(page);
    await keys(page);
    await letters(page);
    await check('nothing complained of while it is looked at', () => equal(page.complaints, [], 'console'));
    await check('it fits every width, in light and dark', () => photograph(page, address, pictures));
}

/** Steps through tokens; says which states changed their colour without a merge, and how many merged. */
async function stepped(count) {
    const look = () => new Map([...document.querySelectorAll('#cache [data-id]')].map(card => [Number(card.dataset.id), getComputedStyle(card).backgroundColor]));
    const token = () => document.getElementById('told').textContent.match(/^Token (\d+)/)?.[1];
    const frame = () => new Promise(requestAnimationFrame);
    const context = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const plain = color => {
        context.fillStyle = color;
        context.fillRect(0, 0, 1, 1);
        return [...context.getImageData(0, 0, 1, 1).data];
    };
    const faults = [];
    let merges = 0, before = look();
    for (let i = 0; i < count; i++) {
        const last = token();
        document.getElementById('step').click();
        for (let frames = 0; token() === last && frames < 600; frames++) await frame();
        for (let frames = 0; frames < 3; frames++) await frame();
        const after = look(), grown = new Set();
        let older;
        for (const id of before.keys()) {
            if (after.has(id)) older = id;
            else {
                merges++;
                grown.add(older);
            }
        }
        for (const [id, color] of after) if (before.has(id) && before.get(id) !== color && !grown.has(id)) faults.push(`token ${token()}: state ${id}`);
        // The same colours in the text and below the chart.
        for (const span of document.querySelectorAll('#text [data-id]')) {
            if (getComputedStyle(span).backgroundColor !== after.get(Number(span.dataset.id))) faults.push(`token ${token()}: state ${span.dataset.id} in the text`);
        }
        const canvas = document.getElementById('curve'), width = Math.max(1, Math.floor(canvas.width / 6)), at = Math.min(Number(token()), width - 1);
        const drawn = canvas.getContext('2d').getImageData(at * 6 + 3, canvas.height - 18, 1, 1).data, wanted = plain([...after.values()].at(-1));
        if (wanted.some((part, i) => Math.abs(part - drawn[i]) > 2)) faults.push(`token ${token()}: ${drawn} below the chart, ${wanted}`);
        before = after;
    }
    return { faults, merges };
}

async function colours(chromium, page, { dla, model, scratch }) {
    await check('kind 60: a state keeps its colour for life, in cards, text and chart; a merge changes no other', async () => {
        // The picked head hardly merges in a short text.
        const picked = await page.evaluate(`[...${HEADS}].findIndex(head => head.ariaPressed === 'true')`);
        await page.evaluate(`${HEADS}[7].click(), ${set('capacity', 4)}`);
        await page.until(`${text('room')}.includes('of 4')`, 30);
        const { faults, merges } = await page.evaluate(asked(stepped, 160));
        equal(faults, [], 'recoloured');
        if (merges < 5) throw new Error(`a text with merges expected, got ${merges}`);
        await page.evaluate(`${HEADS}[${picked}].click(), ${click('as-trained')}`);
        return `${merges} merges`;
    });
    await check('kind 60: the page and dla segment give states the same colours', async () => {
        await page.evaluate(`${sample('scenes')}`);
        await page.until(NOTHING, 30);
        await page.evaluate(`${set('speed', 100)}, ${click('play')}`);
        await page.until(`!${RUNNING} && ${text('text')} === ${JSON.stringify(SAMPLES.scenes.text)}`, 60);
        // The cards are drawn after the text.
        await page.until(`${text('room')}.startsWith(document.querySelectorAll('#cache [data-id]').length + ' of ')`, 30);
        const chosen = await page.evaluate(`${text('whose')}.match(/\\d+/g)`);
        const own = await page.evaluate(`[...document.querySelectorAll('#cache [data-id]')].map(card => getComputedStyle(card).backgroundColor)`);
        const [file, out] = [join(scratch, 'scenes'), join(scratch, 'scenes.html')];
        writeFileSync(file, SAMPLES.scenes.text);
        const words = ['segment', '--backend', 'cpu', '--model', model, '--text-file', file, '--layer', chosen[0], '--head', chosen[1], '--picture', out];
        const { status, stderr } = spawnSync(dla, words, { encoding: 'utf8' });
        if (status !== 0) throw new Error(stderr);
        const picture = await chromium.page();
        await picture.look({ width: 1280 });
        await picture.go(`file://${out}`);
        await picture.until(`document.querySelector('#states .chip')`);
        equal(await picture.evaluate(`[...document.querySelectorAll('#states .chip')].map(chip => getComputedStyle(chip).backgroundColor)`), own, 'colours');
        equal(picture.complaints, [], 'console of the picture');
        await picture.close();
        await page.front();
        return `${own.length} states`;
    });
}

/** What of the cards lies over each other or outside its card. */
function crowdedCards() {
    const faults = [];
    for (const card of document.querySelectorAll('#cache [data-id]')) {
        const box = card.getBoundingClientRect(), parts = [];
        for (const node of card.querySelectorAll('b, em, .words, i')) {
            const range = document.createRange();
            range.selectNodeContents(node);
            const clips = node.matches('i, .words'), { left, right, top, bottom, width } = (clips ? node : range).getBoundingClientRect();
            if (width) parts.push({ name: node.className || node.localName, left, right, top, bottom, text: node.textContent });
        }
        for (const [i, a] of parts.entries()) {
            if (a.left < box.left - .5 || a.right > box.right + .5 || a.top < box.top - .5 || a.bottom > box.bottom + .5) faults.push(`${a.name} “${a.text}” leaves its card`);
            for (const b of parts.slice(i + 1)) {
                if (a.left < b.right - .5 && b.left < a.right - .5 && a.top < b.bottom - .5 && b.top < a.bottom - .5) faults.push(`${a.name} “${a.text}” over ${b.name} “${b.text}”`);
            }
        }
        if (!parts.some(({ name }) => name === 'b') || !parts.some(({ name }) => name === 'em')) faults.push('a card without count or λ');
    }
    return [...new Set(faults)].slice(0, 8);
}

/** The cards of a head with `slots` states of up to a million tokens. */
async function cards(slots) {
    const { CacheView } = await import('./cache.js');
    const { paint } = await import('./colours.js');
    const counts = [1, 88, 999, 9_999, 12_345, 99_999, 123_456, 1_234_567];
    const list = document.getElementById('cache').cloneNode(false);
    document.getElementById('cache').replaceWith(list);
    const states = Array.from({ length: slots }, (_, id) => ({ id, start: 7 * id, n: counts[id % counts.length], info: id }));
    const story = {
        info: { capacity: slots, schedule: 'dynamic' }, states: () => states, said: () => 'and the darkness',
        reads: () => states.map(({ id }) => (id % 5 ? .1 * id : 10)), paints: () => states.map(({ id }) => paint({ hue: id % 24, level: id % 2 })),
    };
    new CacheView(list, { onPoint() {}, onChoose() {} }).parts(story, 0, [], false).forEach(part => part());
    // The cards' size is seen with the next frame.
    for (let frames = 0; frames < 2; frames++) await new Promise(requestAnimationFrame);
}

/** Text whose contrast with what is behind it is less than `least`. */
function faintTexts(least) {
    const context = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const plain = color => {
        context.clearRect(0, 0, 1, 1);
        context.fillStyle = color;
        context.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = ([r, g, b, a], below) => [r, g, b].map((part, i) => a * part + (1 - a) * below[i]);
    const light = parts => {
        const [r, g, b] = parts.map(part => part / 255).map(part => (part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4));
        return .2126 * r + .7152 * g + .0722 * b;
    };
    const behind = node => {
        const chain = [];
        for (let at = node; at; at = at.parentElement) chain.unshift(at);
        return chain.reduce((below, at) => over(plain(getComputedStyle(at).backgroundColor), below), [255, 255, 255]);
    };
    const faults = new Map(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode());) {
        const own = node.parentElement;
        if (!node.data.trim() || !own.checkVisibility() || own.closest('button:disabled, .hidden, script, style, option')) continue;
        let opacity = 1;
        for (let at = own; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity);
        const below = behind(own), [r, g, b, a] = plain(getComputedStyle(own).color);
        const [x, y] = [light(below), light(over([r, g, b, a * opacity], below))].sort((a, b) => b - a), contrast = (x + .05) / (y + .05);
        if (contrast < least) faults.set(`${own.localName}.${own.className} in #${own.closest('[id]')?.id}`, `${contrast.toFixed(2)} “${node.data.trim().slice(0, 20)}”`);
    }
    return [...faults].slice(0, 8);
}

async function letters(page) {
    await check('kind 62: counts and λ lie beside each other, at every width and K, up to a million tokens', async () => {
        for (const width of WIDTHS) {
            await page.look({ width, still: true });
            for (const slots of [1, 8, 12, 30, 36, 37, 64]) {
                await page.evaluate(asked(cards, slots));
                equal(await page.evaluate(asked(crowdedCards)), [], `K = ${slots}, ${width} px`);
            }
        }
    });
    await check(`kind 62: every text has a contrast of ${CONTRAST} or more, λ on every colour, in light and dark`, async () => {
        for (const dark of [false, true]) {
            await page.look({ width: 1280, dark, still: true });
            for (const first of [30, 64]) {
                await page.evaluate(asked(cards, first));
                equal(await page.evaluate(asked(faintTexts, CONTRAST)), [], dark ? 'dark' : 'light');
            }
        }
        await page.look({ width: 1280, still: true });
    });
    await check('kind 62: icons are drawn by the page, whatever fonts there are', async () => {
        const missing = await page.evaluate(`[...document.querySelectorAll('.transport button')].filter(button => !/^[\\w ]+$/.test(button.textContent.trim()) || !document.querySelector(button.querySelector('svg use').getAttribute('href') + ' path') || !button.querySelector('use').getBBox().width).map(button => button.id)`);
        equal(missing, [], 'buttons without one');
    });
    await check('kind 62: code has letters of one width, other texts do not', async () => {
        const face = `getComputedStyle(document.getElementById('text')).fontFamily`;
        await page.evaluate(sample('code'));
        await page.until(`document.getElementById('text').textContent.startsWith('#include')`, 30);
        if (!/^ui-monospace/.test(await page.evaluate(face))) throw new Error(await page.evaluate(face));
        await page.evaluate(sample('scenes'));
        await page.until(`document.getElementById('text').textContent.startsWith('In the')`, 30);
        if (/mono/i.test(await page.evaluate(face))) throw new Error(await page.evaluate(face));
    });
}

/** Captions say what the schedule does, what the memory takes, and how fast what is. */
async function captions(page) {
    const panels = `['memory-caption', 'curve-heading', 'room'].map(id => document.getElementById(id).innerText)`;
    await check('kind 64: every schedule has captions of its own, with the memory that it takes', async () => {
        const [dynamic, curve, room] = await page.evaluate(panels);
        if (!/least in two neighbours, they merge/.test(dynamic) || !/threshold τ/.test(curve) || !/^\d+ of \d+ states · [\d.]+ [KM]iB/.test(room)) throw new Error([dynamic, curve, room].join('; '));
        const bytes = room => Number(room.match(/([\d.]+) [KM]iB/)[1]) * (room.includes('MiB') ? 1024 : 1);
        for (const [name, memory, place, most] of [['single', /nothing opens and nothing merges/, /^1 state · /, bytes(room) / 4], ['fenwick', /Positions alone decide/, /^\d+ of \d+ levels · /, bytes(room) * Math.max(1, 21 / Number(room.match(/of (\d+)/)[1]))]]) {
            await page.evaluate(schedule(name));
            await page.until(`${place}.test(${text('room')})`, 30);
            const [caption, heading, kept] = await page.evaluate(panels);
            if (!memory.test(caption) || /least in two|upper bar/.test(caption) || !/no score is measured/.test(heading) || /τ/.test(heading)) throw new Error([caption, heading].join('; '));
            if (bytes(kept) > most) throw new Error(`${kept}, after ${room}`);
            equal(await page.evaluate(`[...document.querySelectorAll('#cache i:not(.read)')].filter(bar => bar.checkVisibility()).length`), 0, 'bars of information');
        }
        await page.evaluate(click('as-trained'));
        await page.until(`${text('room')}.includes('states')`, 30);
    });
    await check('kind 64: the speed of playback and that of the model are told apart', async () => {
        await page.until(`!${RUNNING} && ${RATE}`, 30);
        const fast = await page.evaluate(RATE);
        await page.evaluate(`${click('restart')}, ${set('speed', 30)}`);
        await page.until(NOTHING, 30);
        await page.evaluate(click('play'));
        await page.until(`${TOKEN} > 5`, 30);
        const [slow, words, shown] = await page.evaluate(`[${RATE}, ${text('pace')}, ${text('speed-value')}]`);
        await page.evaluate(click('play'));
        if (!(slow > fast / 10) || !words.includes(`shown at up to ${shown}`)) throw new Error(`${fast} tokens/s, then ${words}`);
        return words;
    });
    await check('kind 64: the page says that the shown head was picked, and why, until another is chosen', async () => {
        const why = `[document.getElementById('why').checkVisibility(), document.getElementById('why').textContent]`;
        const [there, words] = await page.evaluate(why);
        if (!there || !/^Picked.*heads: it has learned to open/.test(words)) throw new Error(words);
        await page.key(']', ']');
        equal((await page.evaluate(why))[0], false, 'shown for another head');
        await page.key('[', '[');
        equal((await page.evaluate(why))[0], true, 'shown again');
    });
}

async function keys(page) {
    await check('the cards are one stop of Tab, with arrows among them', async () => {
        await page.evaluate(`${set('speed', 100)}, ${click('play')}`);
        await page.until(`!${RUNNING} && document.querySelectorAll('#cache [data-id]').length > 2`, 30);
        const stops = `[...document.querySelectorAll('#cache button')].filter(({ tabIndex }) => tabIndex === 0).length`;
        equal(await page.evaluate(stops), 1, 'stops');
        const at = `[...document.querySelectorAll('#cache button')].indexOf(document.activeElement)`, before = await page.evaluate(TOKEN);
        await page.evaluate(`document.querySelector('#cache button[tabindex="0"]').focus()`);
        const places = [];
        for (const key of ['Home', 'ArrowRight', 'ArrowRight', 'ArrowLeft', 'End', 'ArrowRight']) {
            await page.key(key);
            places.push(await page.evaluate(at));
        }
        const last = await page.evaluate(`document.querySelectorAll('#cache button').length - 1`);
        equal(places, [0, 1, 2, 1, last, last], 'places');
        equal(await page.evaluate(`[${stops}, ${TOKEN}]`), [1, before], 'stops, and nothing read');
        await page.evaluate('document.activeElement.blur()');
    });
}

async function photograph(page, address, pictures) {
    mkdirSync(pictures, { recursive: true });
    for (const [width, dark] of WIDTHS.flatMap(width => [[width, false], [width, true]])) {
        await page.look({ width, dark, still: true, height: width < 500 ? 844 : 900 });
        await page.go(`${address}/?backend=cpu&still`);
        await page.until(`document.getElementById('told')?.textContent.startsWith('Nothing')`, 30);
        await page.evaluate(set('speed', 100));
        await page.evaluate(click('play'));
        await page.until(`!${RUNNING} && document.querySelectorAll('#cache [data-id]').length > 0`, 30);
        writeFileSync(join(pictures, `${width}-${dark ? 'dark' : 'light'}.png`), await page.picture());
        equal(await page.evaluate('document.documentElement.scrollWidth'), width, 'width');
    }
    return pictures;
}
