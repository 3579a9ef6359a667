// The package under vite and TypeScript, both from npm where it can be reached.
import { execFile, spawn } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { check, equal } from './checks.mjs';
import { serve } from './serve.mjs';

const STATUS = `document.getElementById('status')`;

/** A command's output, while this process goes on. */
const output = (command, words, cwd) => new Promise((resolve, reject) => {
    execFile(command, words, { cwd, timeout: 300_000, maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
        if (error) reject(new Error(`${command} ${words.join(' ')}: ${stderr}${stdout}`));
        else resolve(stdout);
    });
});

/** Waits for the example's text. */
async function writes(chromium, address, wanted) {
    const page = await chromium.page();
    await page.go(address);
    await page.until(`${STATUS}.dataset.done || /^[a-z]+: /.test(${STATUS}.textContent)`, 90);
    equal(await page.evaluate(`document.getElementById('text').textContent`), wanted, await page.evaluate(`${STATUS}.textContent`));
    equal(page.complaints, [], 'console');
}

/** Serves a folder for one check. */
async function served(folder, run) {
    const { server, address } = await serve(folder);
    try {
        await run(`${address}/`);
    } finally {
        server.close();
        server.closeAllConnections();
    }
}

/** vite's own server, until `run` has ended. */
async function developed(place, run) {
    const child = spawn(process.execPath, ['node_modules/vite/bin/vite.js', '--host', '127.0.0.1', '--port', '0', '--clearScreen', 'false'], { cwd: place, env: { ...process.env, NO_COLOR: '1' } });
    try {
        const address = await new Promise((resolve, reject) => {
            let said = '';
            for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', part => {
                said += part;
                const [found] = said.match(/http:\/\/127\.0\.0\.1:\d+\//) ?? [];
                if (found) resolve(found);
            });
            child.on('exit', () => reject(new Error(said)));
        });
        await run(address);
    } finally {
        child.kill();
    }
}

/** Checks the example for vite, and the types. */
export async function inVite(chromium, { tarball, model, wanted, scratch, root }) {
    const place = join(scratch, 'vite');
    cpSync(join(root, 'web-demo/examples/vite'), place, { recursive: true });
    cpSync(model, join(place, 'public/models/dla-tiny'), { recursive: true });
    const manifest = JSON.parse(readFileSync(join(place, 'package.json')));
    manifest.dependencies['dla-web'] = `file:${tarball}`;
    writeFileSync(join(place, 'package.json'), JSON.stringify(manifest));
    try {
        await output('npm', ['install', '--no-audit', '--no-fund', '--fetch-retries', '1', '--fetch-timeout', '60000'], place);
    } catch (error) {
        if (!/ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|ENOTCACHED|network/i.test(error.message)) throw error;
        console.log('SKIP: the package under vite and TypeScript, npm cannot reach its registry');
        return;
    }
    const { version } = JSON.parse(readFileSync(join(place, 'node_modules/vite/package.json')));
    cpSync(join(root, 'tests/browser/types.ts'), join(place, 'src/types.ts'));
    await check('kind 69: TypeScript takes the types, strictly, and refuses what is wrong', async () => {
        const tsc = (...words) => output(process.execPath, ['node_modules/typescript/bin/tsc', '--noEmit', ...words], place);
        await tsc();
        await tsc('--module', 'nodenext', '--moduleResolution', 'nodenext', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess');
        return (await output(process.execPath, ['node_modules/typescript/bin/tsc', '--version'], place)).trim();
    });
    const build = () => output(process.execPath, ['node_modules/vite/bin/vite.js', 'build'], place);
    await check('kind 69: the example vite, built', async () => {
        await build();
        await served(join(place, 'dist'), address => writes(chromium, address, wanted));
        return `vite ${version}`;
    });
    await check('kind 69: the example vite, in development', () => developed(place, address => writes(chromium, address, wanted)));
    await check('kind 69: the example vite without a worker, built', async () => {
        const main = join(place, 'src/main.ts');
        writeFileSync(main, readFileSync(main, 'utf8').replace('Dla.worker(', 'Dla.load('));
        await build();
        await served(join(place, 'dist'), address => writes(chromium, address, wanted));
    });
}
