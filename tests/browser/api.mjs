// Checks of the browser package that run inside a page. MODEL, ADDRESS, PROMPT and the package's names are global there;
// each check throws what does not hold, or gives a few words.

/** Names that every check sees. */
const HELPERS = `
    const is = (got, wanted, what) => {
        const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
        if (a !== b) throw new Error(what + ': expected ' + b + ', got ' + a);
    };
    const fails = async (kind, call, what) => {
        const error = await (async () => call())().then(() => null, error => error);
        is([error instanceof DlaError, error?.kind], [true, kind], what + ' (' + error?.message + ')');
        return error;
    };
    const load = (backend = 'cpu') => Dla.load(MODEL, { backend });
    const write = async (session, options) => {
        const ids = [];
        for await (const { id } of session.generate({ maxTokens: 12, ...options })) ids.push(id);
        return ids;
    };
    const spans = states => states.flat().map(live => live.map(({ id, start, n }) => [id, start, n]));
    const file = async name => (await fetch(MODEL + '/' + name)).arrayBuffer();
`;

const inside = run => `async () => { ${HELPERS} return (${run})(); }`;

/** Each check's name and source. */
export const CHECKS = {
    'kind 29: a file is streamed and its progress told': inside(`async () => {
        const seen = [];
        await Dla.load(MODEL, { backend: 'cpu', onProgress: progress => seen.push(progress) });
        const size = (await file('model.safetensors')).byteLength;
        is(seen.at(-1), { loaded: size, total: size }, 'progress');
    }`),
    'bytes load as a directory does': inside(`async () => {
        const config = new TextDecoder().decode(await file('config.json')), weights = await file('model.safetensors');
        const [a, b] = [await (await load()).session(), await (await Dla.load({ config, weights }, { backend: 'cpu' })).session()];
        is([...(await a.feed(PROMPT)).scores], [...(await b.feed(PROMPT)).scores], 'scores');
    }`),
    'pieces of any size give what the whole gives': inside(`async () => {
        const dla = await load(), [whole, pieces] = [await dla.session(), await dla.session()];
        await whole.feed(PROMPT);
        for (const size of [1, 0, 7, 30, 100]) await pieces.feed(PROMPT.slice(await pieces.position()).slice(0, size));
        is(spans(await pieces.states()), spans(await whole.states()), 'states');
        is(await write(pieces, { temperature: 0 }), await write(whole, { temperature: 0 }), 'ids');
    }`),
    'a book follows the states': inside(`async () => {
        const dla = await load(), session = await dla.session(), book = new Book(dla.info);
        book.take(await session.feed(PROMPT));
        for await (const { states } of session.generate({ maxTokens: 40, seed: 5 })) book.take(states);
        is(spans([book.live]), spans(await session.states()), 'states');
    }`),
    'bits are those of the distribution that was drawn from': inside(`async () => {
        const session = await (await load()).session();
        const { bits } = await session.feed(PROMPT, { bits: true });
        is([bits.length, Number.isNaN(bits[0])], [PROMPT.length, true], 'bits');
        if (!bits.slice(1).every(value => value > 0 && value < 200)) throw new Error('bits: ' + bits);
        const again = await session.feed('A', { bits: true });
        is(Number.isFinite(again.bits[0]), true, 'the bits of a later piece');
    }`),
    'saved, restored and continued is never stopped': inside(`async () => {
        for (const backend of ['cpu', 'gpu']) {
            const dla = await load(backend), [one, other] = [await dla.session(), await dla.session()];
            await one.feed(PROMPT);
            const saved = await one.save();
            const wanted = await write(one, { seed: 9, topK: 20 });
            await other.restore(saved);
            is(await other.position(), PROMPT.length, 'position');
            is(await write(other, { seed: 9, topK: 20 }), wanted, backend);
        }
    }`),
    'a session moves between the GPU and the CPU': inside(`async () => {
        const [cpu, gpu] = [await load('cpu'), await load('gpu')], [from, to] = [await gpu.session(), await cpu.session()];
        await from.feed(PROMPT);
        await to.restore(await from.save());
        is(await to.position(), PROMPT.length, 'position');
        await to.feed(' And');
    }`),
    'a reset session is a new one': inside(`async () => {
        const dla = await load(), [used, fresh] = [await dla.session(), await dla.session()];
        await used.feed('Something else altogether.');
        await used.reset();
        await Promise.all([used.feed(PROMPT), fresh.feed(PROMPT)]);
        is(await write(used, { seed: 1 }), await write(fresh, { seed: 1 }), 'ids');
    }`),
    'other memories of the same weights': inside(`async () => {
        const dla = await load();
        for (const [settings, most] of [[{ schedule: 'single' }, 1], [{ schedule: 'fenwick', capacity: 20 }, 20], [{ capacity: 3 }, 3], [{ capacity: 64, tauOffset: -0.5 }, 64]]) {
            const changed = await dla.withSettings(settings), session = await changed.session();
            await session.feed(PROMPT);
            const counts = (await session.states()).flat().map(live => live.length);
            if (Math.max(...counts) > most || Math.min(...counts) < 1) throw new Error(JSON.stringify(settings) + ': ' + counts);
            await fails('file', async () => (await dla.session()).restore(await session.save()), 'a session of another memory');
        }
        await fails('input', () => dla.withSettings({ capacity: 65 }), '65 states');
        await fails('input', () => dla.withSettings({ capacity: 2.5 }), 'half a state');
        await fails('input', () => dla.withSettings({ tauOffset: NaN }), 'no number');
        await fails('input', () => dla.withSettings({ schedule: 'sometimes' }), 'an unknown schedule');
    }`),
    'kind 24: calls that overlap are refused, and harm nothing': inside(`async () => {
        for (const backend of ['cpu', 'gpu']) {
            const session = await (await load(backend)).session(), first = session.feed(PROMPT);
            await Promise.all([
                fails('busy', () => session.feed('x'), 'feed'),
                fails('busy', () => session.save(), 'save'),
                fails('busy', () => session.states(), 'states'),
                fails('busy', () => session.reset(), 'reset'),
            ]);
            await first;
            is(await session.position(), PROMPT.length, 'position');
            const writing = session.generate({ maxTokens: 3 });
            await writing.next();
            await fails('busy', () => session.feed('x'), 'feed while generating');
            await writing.return();
            await session.feed('x');
        }
    }`),
    'what is freed while it works ends its call': inside(`async () => {
        for (const backend of ['cpu', 'gpu']) {
            const dla = await load(backend), session = await dla.session(), feeding = session.feed('short');
            session.free();
            dla.free();
            await feeding;
            await fails('input', () => session.feed('x'), 'a freed session');
            await fails('input', () => dla.session(), 'a freed model');
            session.free();
        }
    }`),
    'text ends at a stop string and at an abort': inside(`async () => {
        const session = await (await load()).session();
        await session.feed(PROMPT);
        const saved = await session.save();
        let text = '';
        for await (const token of session.generate({ maxTokens: 200, seed: 3 })) text += token.text;
        const stop = [...text].slice(20, 21).join('');
        await session.restore(saved);
        let cut = '', hit = null;
        for await (const token of session.generate({ maxTokens: 200, seed: 3, stop })) { cut += token.text; hit = token.stop; }
        is([cut, hit], [text.slice(0, text.indexOf(stop)), stop], 'text');
        const abort = new AbortController();
        abort.abort();
        const error = await session.feed(PROMPT, { signal: abort.signal }).catch(error => error);
        is(error.name, 'AbortError', 'abort');
    }`),
    'wrong arguments': inside(`async () => {
        const session = await (await load()).session();
        await fails('input', () => session.feed(7), 'a number');
        await fails('input', () => write(session), 'nothing to go on from');
        await session.feed(PROMPT);
        await fails('input', () => write(session, { temperature: -1 }), 'temperature');
        await fails('input', () => write(session, { topP: 0 }), 'topP');
        await fails('input', () => write(session, { stop: '' }), 'an empty stop string');
        await fails('input', () => Dla.load(MODEL, { backend: 'quantum' }), 'backend');
        await fails('input', () => Dla.load(undefined), 'no source');
        const before = JSON.stringify(await session.states());
        await fails('file', () => session.restore(new Uint8Array(100)), 'zeros');
        const saved = await session.save();
        for (const length of [0, 3, 4, 11, 100, saved.length - 1]) {
            await fails('file', () => session.restore(saved.slice(0, length)), length + ' bytes');
        }
        is(JSON.stringify(await session.states()), before, 'states after refusals');
    }`),
    'wrong files': inside(`async () => {
        const config = new TextDecoder().decode(await file('config.json')), weights = new Uint8Array(await file('model.safetensors'));
        const refuse = (kind, source, what) => fails(kind, () => Dla.load(source, { backend: 'cpu' }), what);
        await refuse('file', ADDRESS + '/nowhere', 'a folder that is not there');
        await refuse('file', ADDRESS + '/broken', 'a file that breaks off');
        await refuse('input', { config: '{', weights }, 'no JSON');
        await refuse('input', { config, weights: weights.slice(0, 1000) }, 'a short file');
        await refuse('input', { config, weights: new Uint8Array(64).fill(255) }, 'a header without an end');
        await refuse('input', { config: config.replace('"num_hidden_layers": ', '"num_hidden_layers": 1'), weights }, 'other sizes');
        await refuse('unsupported', { config: config.replace('{', '{"quantization_config": { "bits": 4 },'), weights }, 'quantised weights');
    }`),
    'kind 21: a lost device is an error, and another is opened': inside(`async () => {
        const dla = await load('gpu'), session = await dla.session();
        await session.feed(PROMPT);
        const saved = await session.save();
        DEVICE.destroy();
        await fails('device', () => session.feed('x'), 'feed');
        await fails('device', () => session.save(), 'save');
        await fails('device', async () => (await dla.session()).feed('x'), 'a new session');
        const again = await (await load('gpu')).session();
        await again.restore(saved);
        await again.feed('x');
        is(await again.position(), PROMPT.length + 1, 'position');
    }`),
};
