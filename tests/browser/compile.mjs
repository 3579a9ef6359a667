// Compiles WGSL in headless Chromium, whose rules are stricter than naga's: barriers in uniform control flow (kind 30 of
// docs/faults.md), WebGPU's default limits.
//
//   cargo run -p dla-tests --bin wgsl | node tests/browser/compile.mjs
//
// Exit 0: all compile, or there is no Chromium (a SKIP line says so). CHROMIUM names the browser to take.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const MINUTES = 30;
const names = process.env.CHROMIUM ? [process.env.CHROMIUM] : ['chromium', 'google-chrome', 'chrome'];
const browser = names.find(name => spawnSync(name, ['--version']).status === 0);
if (!browser) {
    console.log('SKIP: WGSL in a browser, Chromium is missing');
    process.exit(0);
}
const shaders = readFileSync(0);

// What the page does: a module of each shader and, where asked, a pipeline, on a device with default limits.
async function compile() {
    const report = line => fetch('/report', { method: 'POST', body: JSON.stringify(line) });
    const adapter = await navigator.gpu?.requestAdapter();
    const device = await adapter?.requestDevice();
    if (!device) {
        return report({ done: true, faults: ['no WebGPU device'] });
    }
    const faults = [];
    const shaders = await (await fetch('/shaders')).json();
    const times = [];
    // Several at once: the browser compiles pipelines on threads of its own.
    let next = 0;
    const compiler = async () => {
        while (next < shaders.length) {
            const { name, text, pipeline } = shaders[next++];
            const start = performance.now();
            const module = device.createShaderModule({ label: name, code: text });
            const errors = (await module.getCompilationInfo()).messages.filter(({ type }) => type === 'error');
            for (const { lineNum, message } of errors) {
                faults.push(`${name}: line ${lineNum}, ${text.split('\n')[lineNum - 1]?.trim()}: ${message}`);
            }
            if (pipeline && !errors.length) {
                const compute = { module, entryPoint: 'main' };
                await device.createComputePipelineAsync({ layout: 'auto', compute })
                    .catch(error => faults.push(`${name}: ${error.message}`));
            }
            times.push({ name, seconds: (performance.now() - start) / 1000 });
        }
    };
    await Promise.all(Array.from({ length: navigator.hardwareConcurrency }, compiler));
    const slowest = times.sort((a, b) => b.seconds - a.seconds).slice(0, 5);
    const pipelines = shaders.filter(({ pipeline }) => pipeline).length;
    return report({ done: true, faults, count: shaders.length, pipelines, slowest });
}

const page = `<!doctype html><title>compile</title><script>
(${compile})().catch(error => fetch('/report', { method: 'POST', body: JSON.stringify({ faults: [String(error)] }) }));
</script>`;

const profile = mkdtempSync(join(tmpdir(), 'dla-chromium-'));
let child;
function finish({ faults, count, pipelines, slowest = [] }) {
    clearTimeout(timer);
    for (const fault of faults) {
        console.error(fault);
    }
    for (const { name, seconds } of slowest) {
        console.log(`slowest: ${name}, ${seconds.toFixed(1)} s`);
    }
    console.log(faults.length ? `kind 30: ${faults.length} faults` : `kind 30: ${count} shaders, ${pipelines} pipelines compile in ${browser}`);
    process.exitCode = faults.length ? 1 : 0;
    server.close();
    server.closeAllConnections();
    child.on('exit', () => rmSync(profile, { recursive: true, force: true, maxRetries: 5 }));
    child.kill();
}

/** What was compiled is no proof where nothing was. */
const counted = report => report.count === 0 ? { ...report, faults: [...report.faults, 'no shader came'] } : report;
const timer = setTimeout(() => finish({ faults: [`no answer within ${MINUTES} minutes`] }), MINUTES * 60_000);

const server = createServer((request, response) => {
    if (request.url === '/report') {
        let body = '';
        request.on('data', part => { body += part; });
        request.on('end', () => { response.end(); finish(counted(JSON.parse(body))); });
    } else if (request.url === '/shaders') {
        response.setHeader('content-type', 'application/json').end(shaders);
    } else {
        response.setHeader('content-type', 'text/html').end(request.url === '/' ? page : '');
    }
});
server.listen(0, '127.0.0.1', () => {
    const sandbox = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
    const flags = ['--headless=new', '--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader', '--no-first-run'];
    const url = `http://127.0.0.1:${server.address().port}/`;
    child = spawn(browser, [...flags, ...sandbox, `--user-data-dir=${profile}`, url], { stdio: 'ignore' });
});
