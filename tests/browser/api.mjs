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
    const load = (backend = 'cpu') => (globalThis.LOAD ?? Dla.load)(MODEL, { backend });
    const write = async (session, options) => {
        const ids = [];
        for await (const { id } of session.generate({ maxTokens: 12, ...options })) ids.push(id);
        return ids;
    };
    const spans = states => states.flat().map(live => live.map(({ id, start, n }) => [id, start, n]));
    /** A file of weights with more rows of embeddings, all 0. */
    const padded = (buffer, hidden, rows) => {
        const length = Number(new DataView(buffer).getBigUint64(0, true)), text = new TextDecoder();
        const header = JSON.parse(text.decode(new Uint8Array(buffer, 8, length)));
        const [name] = Object.keys(header).filter(name => /embeddings?\\.weight$/.test(name));
        const parts = [], names = Object.keys(header).filter(name => name !== '__metadata__');
        let at = 0;
        for (const own of names) {
            const tensor = header[own], [from, to] = tensor.data_offsets;
            let bytes = new Uint8Array(buffer, 8 + length + from, to - from);
            if (own === name) {
                const more = new Uint8Array(rows * hidden * 4);
                more.set(bytes);
                bytes = more;
                tensor.shape = [rows, hidden];
            }
            tensor.data_offsets = [at, at + bytes.length];
            at += bytes.length;
            parts.push(bytes);
        }
        const head = new TextEncoder().encode(JSON.stringify(header)), pad = (8 - head.length % 8) % 8;
        const whole = new Uint8Array(8 + head.length + pad + at).fill(32);
        new DataView(whole.buffer).setBigUint64(0, BigInt(head.length + pad), true);
        whole.set(head, 8);
        let put = 8 + head.length + pad;
        for (const bytes of parts) { whole.set(bytes, put); put += bytes.length; }
        return whole;
    };
    /** A file of weights with NaN for every value of the first tensor whose name matches. */
    const spoilt = (buffer, pattern) => {
        const copy = buffer.slice(0), length = Number(new DataView(copy).getBigUint64(0, true));
        const header = JSON.parse(new TextDecoder().decode(new Uint8Array(copy, 8, length)));
        const [from, to] = header[Object.keys(header).find(name => pattern.test(name))].data_offsets;
        for (let at = from; at < to; at += 4) new DataView(copy).setFloat32(8 + length + at, NaN, true);
        return copy;
    };
    const file = async name => (await fetch(MODEL + '/' + name)).arrayBuffer();
`;

export const inside = run => `async () => { ${HELPERS} return (${run})(); }`;

/** Each check's name and source. */
export const CHECKS = {
    'kind 29: a file is streamed, its progress told, and lies in memory once': inside(`async () => {
        const seen = [], size = (await file('model.safetensors')).byteLength;
        // The module comes first: what follows are the bytes of the file alone.
        (await Operator.create('plain', { heads: 1, groups: 1, keyDim: 1, valueDim: 1, capacity: 2 }, Float32Array.of(0.9))).free?.();
        let before, after;
        await Dla.load(MODEL, { backend: 'cpu', onProgress: progress => {
            seen.push(progress);
            before ??= MEMORY.buffer.byteLength - size;
            after = MEMORY.buffer.byteLength;
        } });
        is([seen.at(-2), seen.at(-1)], ['download', 'prepare'].map(stage => ({ stage, loaded: size, total: size })), 'progress');
        if (after - before > size * 1.2 + 2e6) throw new Error('memory grew by ' + (after - before) + ' bytes for ' + size);
        return (after - before) + ' bytes of memory for ' + size;
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
    'kind 01: pieces on the GPU, beyond a chunk, are what the CPU makes of the whole': inside(`async () => {
        const [whole, pieces] = [await (await load('cpu')).session(), await (await load('gpu')).session()];
        const text = PROMPT + PROMPT;
        await whole.feed(text);
        for (const cut of [5, 6, 13, text.length]) await pieces.feed(text.slice(await pieces.position(), cut));
        is(spans(await pieces.states()), spans(await whole.states()), 'states');
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
    'λ of the last token, on the CPU and the GPU': inside(`async () => {
        const [cpu, gpu] = [await load('cpu'), await load('gpu')];
        const { layers, heads, capacity } = cpu.info, read = [], made = [];
        for (const dla of [cpu, gpu]) {
            const session = await dla.session();
            is('lambda' in await session.feed(PROMPT.slice(0, 5)), false, 'not asked for');
            const { lambda, events } = await session.feed(PROMPT.slice(5), { lambda: true });
            is(lambda.length, layers * heads * capacity, 'length');
            made.push(String(events));
            const counts = (await session.states()).flat().map(live => live.length);
            read.push([...lambda].filter((_, i) => i % capacity < counts[Math.floor(i / capacity)]));
            for await (const { states } of session.generate({ maxTokens: 1, lambda: true })) is(states.lambda.length, lambda.length, 'generated');
        }
        const [a, b] = read, apart = Math.max(...a.map((x, i) => Math.abs(x - b[i]) / (1 + x)));
        if (![...a, ...b].every(x => x >= 0)) throw new Error('λ: ' + a);
        // Where rounding turned a decision, later layers read other things.
        if (made[0] !== made[1]) return 'their decisions part, λ is ' + apart + ' apart';
        if (!(apart < 1e-3)) throw new Error('λ is ' + apart + ' apart');
    }`),
    'kind 67: a model of words is refused without a look for its tokenizer.json, and words are not fed as bytes': inside(`async () => {
        const files = ['config.json', 'model.safetensors', 'tokenizer.json'];
        for (const [source, options] of [[ADDRESS + '/tokenized'], [ADDRESS + '/worded'], [MODEL, { files }]]) {
            const error = await fails('unsupported', () => Dla.load(source, { backend: 'cpu', ...options }), source);
            for (const words of ['tokenizer.json', 'dla command']) is(error.message.includes(words), true, words);
        }
        await Dla.load(MODEL, { backend: 'cpu', files, tokenizer: 'bytes' });
        await Dla.load(MODEL, { backend: 'cpu', files: files.slice(0, 2) });
        const config = JSON.parse(new TextDecoder().decode(await file('config.json')));
        const weights = padded(await file('model.safetensors'), config.hidden_size, config.vocab_size = 300);
        const session = await (await Dla.load({ config, weights }, { backend: 'cpu' })).session();
        await fails('unsupported', () => session.feed('text'), 'text');
        await fails('input', () => session.feed(Uint32Array.of(300)), 'an id too many');
        const bytes = await (await load()).session(), ids = new TextEncoder().encode(PROMPT);
        is((await session.feed(Uint32Array.from(ids))).events, (await bytes.feed(PROMPT)).events, 'events of ids');
        for await (const { id, text } of session.generate({ maxTokens: 2, temperature: 0 })) is([id < 300, text], [true, ''], 'a token');
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
    'kind 66: a saved session with any byte changed is refused': inside(`async () => {
        const dla = await load(), [from, to] = [await dla.session(), await dla.session()];
        await from.feed(PROMPT);
        const saved = await from.save(), stride = Math.ceil(saved.length / 300);
        let count = 0;
        for (let at = 0; at < saved.length; at += at < 64 || at > saved.length - 16 ? 1 : stride, count++) {
            const changed = saved.slice();
            changed[at] ^= 1 << at % 8;
            await fails('file', () => to.restore(changed), 'byte ' + at);
        }
        is(await to.position(), 0, 'position after refusals');
        await to.restore(saved);
        return count + ' of ' + saved.length + ' bytes';
    }`),
    'kind 65: NaN among the weights ends a feed, not only what is written after it': inside(`async () => {
        const config = new TextDecoder().decode(await file('config.json')), weights = await file('model.safetensors'), told = [];
        for (const backend of ['cpu', 'gpu']) {
            for (const pattern of [/\\.0\\..*A_log$/, /(model|backbone)\\.norm(_f)?\\.weight$/]) {
                const session = await (await Dla.load({ config, weights: spoilt(weights, pattern) }, { backend })).session();
                const error = await fails('diverged', () => session.feed(PROMPT), backend + ', ' + pattern);
                is(/finite/.test(error.message), true, error.message);
                told.push(error.message);
                await fails('diverged', () => session.feed(PROMPT), backend + ' again, ' + pattern);
                await session.reset();
                await fails('diverged', () => session.feed(PROMPT, { bits: true }), backend + ' with bits, ' + pattern);
            }
        }
        return told[0];
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
        const left = await session.feed(PROMPT, { signal: AbortSignal.abort('left') }).catch(error => error);
        is(left, 'left', 'the reason');
        const late = await Dla.load(MODEL, { backend: 'cpu', signal: AbortSignal.timeout(0) }).catch(error => error);
        is(late.name, 'TimeoutError', 'a download');
    }`),
    'generating leaves the thread to others, and an abort ends it': inside(`async () => {
        const session = await (await load()).session();
        await session.feed(PROMPT);
        let ticks = 0, count = 0;
        const timer = setInterval(() => ticks++, 10), abort = new AbortController(), stop = setTimeout(() => abort.abort(), 100);
        const write = async () => { for await (const _ of session.generate({ signal: abort.signal })) count++; };
        const error = await write().catch(error => error);
        clearInterval(timer);
        is(error.name, 'AbortError', 'abort in the middle');
        if (ticks < 2) throw new Error(ticks + ' turns of a timer in ' + count + ' tokens');
        await session.feed('x');
    }`),
    'the bare operator': inside(`async () => {
        const sizes = { heads: 1, groups: 1, keyDim: 1, valueDim: 1, capacity: 2 }, tau = Float32Array.of(0.9);
        const operator = await Operator.create('plain', sizes, tau), ones = count => new Float32Array(count).fill(1);
        const feed = v => operator.feed({ q: ones(v.length), k: ones(v.length), v: Float32Array.from(v), lambda: ones(2 * v.length) });
        const whole = feed([3, -4, -5]);
        is([[...whole.o], [...whole.boundary]], [[3, -1, -6], [1, 1, 0]], 'outputs and boundaries');
        operator.reset();
        feed([3]);
        const saved = operator.save();
        is([...feed([-4, -5]).o], [-1, -6], 'in pieces');
        operator.restore(saved);
        is([...feed([-4, -5]).o], [-1, -6], 'after restore');
        await fails('input', () => Operator.create('sometimes', sizes, tau), 'a backbone');
        await fails('input', () => Operator.create('plain', { ...sizes, heads: 0 }, tau), 'no heads');
        await fails('input', () => operator.feed({ q: ones(3), k: ones(1), v: ones(1), lambda: ones(2) }), 'shapes');
        await fails('file', () => operator.restore(new Uint8Array(9)), 'nine zeros');
        operator.free();
        await fails('input', () => operator.save(), 'a freed one');
    }`),
    'wrong arguments': inside(`async () => {
        const session = await (await load()).session();
        await fails('input', () => session.feed(7), 'a number');
        await fails('input', () => write(session), 'nothing to go on from');
        await session.feed(PROMPT);
        await fails('input', () => write(session, { temperature: -1 }), 'temperature');
        await fails('input', () => write(session, { topP: 0 }), 'topP');
        await fails('input', () => write(session, { topK: -1 }), 'topK');
        for (const maxTokens of [2.5, NaN, 'x', -1]) await fails('input', () => write(session, { maxTokens }), 'maxTokens');
        await fails('input', () => write(session, { seed: 0.5 }), 'seed');
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
    'kind 19: a device is asked for no limit that the browser does not know': inside(`async () => {
        const session = await (await load('gpu')).session();
        const [known, asked] = LIMITS, names = Object.keys(asked);
        is(names.filter(name => !(name in known)), [], 'unknown limits');
        is(names.filter(name => !name.startsWith('min') && asked[name] > known[name]), [], 'limits beyond the adapter');
        await session.feed('x');
        return names.length + ' limits';
    }`),
    'kind 23: a shader that the browser refuses is an error, not stale data': inside(`async () => {
        const make = GPUDevice.prototype.createShaderModule;
        let broken = 0;
        GPUDevice.prototype.createShaderModule = function (words) {
            const mine = words.code.includes('fn main') && words.code.includes('> ids: array<u32>');
            broken += mine;
            return make.call(this, mine ? { ...words, code: words.code + ' fn broken( {' } : words);
        };
        try {
            await fails('device', async () => (await (await load('gpu')).session()).feed('x'), 'a broken shader');
        } finally {
            GPUDevice.prototype.createShaderModule = make;
        }
        if (!broken) throw new Error('no shader was broken');
        await (await (await load('gpu')).session()).feed('x');
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
