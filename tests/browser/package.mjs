// The package as npm's users meet it: packed, in Node, in a plain page, in a worker, under vite and TypeScript.
//
//   cargo run -p dla-web-pkg && node tests/browser/package.mjs DLA
//
// DLA is the `dla` program. Exit 0: all hold, or SKIP lines say what is missing.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { check, equal, failures } from './checks.mjs';
import { Chromium, browserName } from './chromium.mjs';
import { inVite } from './vite.mjs';
import { inWorker } from './worker.mjs';
import { serve } from './serve.mjs';

const PROMPT = 'In the beginning';
/** Tokens that every example writes. */
const TOKENS = 48;
const MINUTES = 15;
const FILES = [
    'LICENSE-APACHE', 'LICENSE-MIT', 'README.md', 'book.js', 'busy.js', 'dla_web.js', 'dla_web_bg.wasm', 'error.js', 'file.js', 'index.d.ts', 'index.js',
    'model.js', 'module.js', 'operator.js', 'package.json', 'remote.js', 'session.js', 'source.js', 'worker.d.ts', 'worker.js',
];

const here = dirname(fileURLToPath(import.meta.url)), root = join(here, '../..');
const demo = join(root, 'web-demo'), dist = join(demo, 'dist');
const dla = process.argv[2];
if (!dla) {
    console.error('usage: node tests/browser/package.mjs DLA');
    process.exit(2);
}
const timer = setTimeout(() => {
    console.error(`no end within ${MINUTES} minutes`);
    process.exit(1);
}, MINUTES * 60_000);
const scratch = mkdtempSync(join(tmpdir(), 'dla-package-'));
const { folder } = JSON.parse(readFileSync(join(dist, 'models/index.json'))).models[0];
const model = join(dist, 'models', folder);

/** A command's output, or what it complained of. */
function output(command, words, options) {
    const { status, stdout, stderr, error } = spawnSync(command, words, { encoding: 'utf8', ...options });
    if (error) throw error;
    if (status !== 0) throw new Error(`${command} ${words.join(' ')}: ${stderr || stdout}`);
    return stdout;
}

/** The text of `dla` after the examples' prompt. */
function wantedText() {
    const words = ['generate', '--model', model, '--prompt', PROMPT, '--max-tokens', String(TOKENS), '--temperature', '0', '--json', '--backend', 'cpu'];
    return PROMPT + JSON.parse(output(dla, words)).text;
}

/** Packs the package; gives the tarball. */
async function pack() {
    let tarball;
    await check('kind 69: the tarball has what npm shows, and nothing else', () => {
        const [packed] = JSON.parse(output('npm', ['pack', '--json', '--pack-destination', scratch], { cwd: join(demo, 'pkg') }));
        tarball = join(scratch, packed.filename);
        equal(packed.files.map(({ path }) => path).sort(), FILES, 'files');
        const manifest = JSON.parse(readFileSync(join(demo, 'pkg/package.json')));
        for (const name of ['description', 'license', 'types', 'exports', 'engines']) if (!manifest[name]) throw new Error(`package.json has no ${name}`);
        if (!(manifest.keywords?.length > 3)) throw new Error('package.json has no keywords');
        const ways = Object.values(manifest.exports).flatMap(way => (typeof way === 'string' ? way : Object.values(way)));
        for (const path of [manifest.main, manifest.types, ...ways]) {
            if (!FILES.includes(path.replace('./', ''))) throw new Error(`${path} is named and not there`);
        }
        return `${packed.filename}, ${packed.size} bytes`;
    });
    return tarball;
}

/** The package installed from its tarball, in Node. */
async function inNode(tarball, wanted, address) {
    const place = join(scratch, 'node');
    mkdirSync(place);
    writeFileSync(join(place, 'package.json'), '{ "private": true }');
    output('npm', ['install', '--offline', '--no-audit', '--no-fund', tarball], { cwd: place });
    for (const file of [join(here, 'node.mjs'), join(demo, 'examples/node/main.mjs')]) cpSync(file, join(place, file.split('/').pop()));
    const node = (...words) => output(process.execPath, words, { cwd: place, timeout: 120_000 });
    await check('kind 69: the example for Node, a model from a path', () => {
        equal(node('main.mjs', model, PROMPT), `${wanted}\n`, 'text');
    });
    const report = await new Promise(resolve => {
        // Not at once: the server of this process has to answer.
        import('node:child_process').then(({ execFile }) => execFile(process.execPath, ['node.mjs', model, `${address}/models/${folder}`], { cwd: place, timeout: 120_000 }, (error, stdout, stderr) => resolve({ error, stdout, stderr })));
    });
    for (const line of report.stdout.trim().split('\n').filter(Boolean)) {
        const { name, fault, words } = JSON.parse(line);
        await check(name, () => { if (fault) throw new Error(fault); return words; });
    }
    await check('Node ends by itself, though a worker was not terminated', () => { if (report.error) throw new Error(report.stderr || report.error.message); });
}

/** An example's page over HTTP, with the package and the model beside it. */
async function example(chromium, name, wanted) {
    const place = join(scratch, name);
    cpSync(join(demo, 'examples', name), place, { recursive: true });
    cpSync(join(demo, 'pkg'), join(place, 'pkg'), { recursive: true });
    cpSync(model, join(place, 'models/dla-tiny'), { recursive: true });
    const { server, address } = await serve(place);
    try {
        await check(`kind 69: the example ${name}`, async () => {
            const page = await chromium.page();
            await page.go(`${address}/`);
            await page.until(`document.getElementById('status').dataset.done || /^[a-z]+: /.test(document.getElementById('status').textContent)`, 60);
            equal(await page.evaluate(`document.getElementById('text').textContent`), wanted, await page.evaluate(`document.getElementById('status').textContent`));
            equal(page.complaints, [], 'console');
            equal(page.requests.filter(url => /tokenizer/.test(url)), [], 'requests');
        });
    } finally {
        server.close();
        server.closeAllConnections();
    }
}

/** The page without its list of models. */
async function listless(chromium) {
    const missing = (path, response) => path === '/models/index.json' && response.writeHead(404).end();
    const { server, address } = await serve(dist, missing);
    await check('kind 67: a page without its list of models says so', async () => {
        const page = await chromium.page();
        await page.go(`${address}/?backend=cpu`);
        await page.until(`!document.getElementById('notice').hidden`, 30);
        const notice = await page.evaluate(`document.getElementById('notice').textContent`);
        for (const words of ['models/index.json', 'HTTP 404', 'dla-web-pkg']) if (!notice.includes(words)) throw new Error(notice);
        return notice;
    });
    server.close();
    server.closeAllConnections();
}

const wanted = wantedText();
const blank = (path, response) => path === '/blank.html' && response.setHeader('content-type', 'text/html').end('<!doctype html><link rel=icon href=data:,>');
const { server, address } = await serve(dist, blank);
const npm = spawnSync('npm', ['--version']).status === 0;
const tarball = npm && await pack();
if (tarball) await inNode(tarball, wanted, address);
else if (!npm) console.log('SKIP: the package in Node and under vite, npm is missing');
const browser = browserName();
if (browser) {
    const chromium = new Chromium(browser);
    try {
        for (const name of ['page', 'worker']) await example(chromium, name, wanted);
        await listless(chromium);
        await inWorker(chromium, { address, model: `${address}/models/${folder}` });
        if (tarball) await inVite(chromium, { tarball, model, wanted, scratch, root });
    } finally {
        await chromium.close();
    }
} else {
    console.log('SKIP: the package in a page, a worker and under vite, Chromium is missing');
}
server.close();
server.closeAllConnections();
rmSync(scratch, { recursive: true });
clearTimeout(timer);
console.log(failures() ? `${failures()} failures` : 'the package holds');
process.exitCode = failures() ? 1 : 0;
