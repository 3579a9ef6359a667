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

// What the page does: a module and a pipeline of each shader, on a device with default limits.
async function compile() {
    const report = line => fetch('/report', { method: 'POST', body: JSON.stringify(line) });
    const adapter = await navigator.gpu?.requestAdapter();
    const device = await adapter?.requestDevice();
    if (!device) {
        return report({ done: true, faults: ['no WebGPU device'] });
    }
    const faults = [];
    const shaders = await (await fetch('/shaders')).json();
    for (const { name, text } of shaders) {
        device.pushErrorScope('validation');
        const module = device.createShaderModule({ label: name, code: text });
        const { messages } = await module.getCompilationInfo();
        for (const { type, lineNum, message } of messages.filter(({ type }) => type === 'error')) {
            faults.push(`${name}: ${type} in line ${lineNum}, ${text.split('\n')[lineNum - 1]?.trim()}: ${message}`);
        }
        const broken = await device.popErrorScope();
        if (!broken) {
            const compute = { module, entryPoint: 'main' };
            await device.createComputePipelineAsync({ layout: 'auto', compute })
                .catch(error => faults.push(`${name}: ${error.message}`));
        }
    }
    return report({ done: true, faults, count: shaders.length });
}

const page = `<!doctype html><title>compile</title><script>
(${compile})().catch(error => fetch('/report', { method: 'POST', body: JSON.stringify({ faults: [String(error)] }) }));
</script>`;

const profile = mkdtempSync(join(tmpdir(), 'dla-chromium-'));
let child;
function finish({ faults, count }) {
    clearTimeout(timer);
    for (const fault of faults) {
        console.error(fault);
    }
    console.log(faults.length ? `kind 30: ${faults.length} faults` : `kind 30: ${count} shaders compile in ${browser}`);
    process.exitCode = faults.length ? 1 : 0;
    server.close();
    server.closeAllConnections();
    child.on('exit', () => rmSync(profile, { recursive: true, force: true, maxRetries: 5 }));
    child.kill();
}
const timer = setTimeout(() => finish({ faults: [`no answer within ${MINUTES} minutes`] }), MINUTES * 60_000);

const server = createServer((request, response) => {
    if (request.url === '/report') {
        let body = '';
        request.on('data', part => { body += part; });
        request.on('end', () => { response.end(); finish(JSON.parse(body)); });
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
