// Headless Chromium over DevTools' pipe: pages, their console, evaluation, pictures.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const NAMES = process.env.CHROMIUM ? [process.env.CHROMIUM] : ['chromium', 'google-chrome', 'chrome'];
const WEBGPU = ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'];

/** The name of the browser, if there is one. */
export const browserName = () => NAMES.find(name => spawnSync(name, ['--version']).status === 0);

/** A browser; with `webgpu` it has one on the CPU. */
export class Chromium {
    #next = 1;
    #waiting = new Map();
    #pages = new Map();
    /** Gets what the browser itself tells: a method and its parameters. */
    onEvent;

    constructor(name, { webgpu = true } = {}) {
        this.profile = mkdtempSync(join(tmpdir(), 'dla-chromium-'));
        const sandbox = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
        const flags = ['--headless=new', '--remote-debugging-pipe', '--no-first-run', '--hide-scrollbars', `--user-data-dir=${this.profile}`];
        const gpu = webgpu ? WEBGPU : ['--disable-features=WebGPU,WebGPUService', '--disable-gpu'];
        this.child = spawn(name, [...flags, ...gpu, ...sandbox], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
        let text = '';
        this.child.stdio[4].setEncoding('utf8').on('data', part => {
            const messages = (text + part).split('\0');
            text = messages.pop();
            messages.forEach(message => this.#take(JSON.parse(message)));
        });
    }

    #take({ id, result, error, method, params, sessionId }) {
        if (id === undefined && method === 'Target.attachedToTarget' && params.targetInfo.type === 'worker') return this.#worker(params.sessionId, sessionId);
        if (id === undefined) return sessionId ? this.#pages.get(sessionId)?.event(method, params) : this.onEvent?.(method, params);
        const { resolve, reject } = this.#waiting.get(id);
        this.#waiting.delete(id);
        if (error) reject(new Error(error.message));
        else resolve(result);
    }

    /** A page's worker: what it asks for and complains of is the page's. */
    #worker(sessionId, owner) {
        this.#pages.set(sessionId, this.#pages.get(owner));
        for (const call of ['Network.enable', 'Runtime.runIfWaitingForDebugger']) this.send(call, {}, sessionId).catch(() => {});
    }

    send(method, params = {}, sessionId) {
        return new Promise((resolve, reject) => {
            const id = this.#next++;
            this.#waiting.set(id, { resolve, reject });
            this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
        });
    }

    /** A page before it goes anywhere; `script` runs at each document's start. */
    async page(script = '') {
        const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
        const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
        const page = new Page((method, params) => this.send(method, params, sessionId), targetId);
        this.#pages.set(sessionId, page);
        for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await page.send(`${domain}.enable`);
        await page.send('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: true, flatten: true });
        if (script) await page.send('Page.addScriptToEvaluateOnNewDocument', { source: script });
        return page;
    }

    async close() {
        const gone = new Promise(resolve => this.child.on('exit', resolve));
        this.send('Browser.close');
        await gone;
        rmSync(this.profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 });
    }
}

/** A page of it. */
export class Page {
    /** What the console and the page complained of. */
    complaints = [];
    /** Addresses that were asked for. */
    requests = [];

    constructor(send, targetId) {
        Object.assign(this, { send, targetId });
    }

    event(method, params) {
        if (method === 'Runtime.exceptionThrown') {
            const { exception, text } = params.exceptionDetails;
            this.complaints.push(exception?.description ?? text);
        } else if (method === 'Runtime.consoleAPICalled' && ['error', 'warning', 'assert'].includes(params.type)) {
            this.complaints.push(params.args.map(({ value, description }) => value ?? description).join(' '));
        } else if (method === 'Log.entryAdded' && ['error', 'warning'].includes(params.entry.level)) {
            this.complaints.push(`${params.entry.text} ${params.entry.url ?? ''}`);
        } else if (method === 'Network.requestWillBeSent') {
            this.requests.push(params.request.url);
        }
    }

    async go(url) {
        const { errorText } = await this.send('Page.navigate', { url });
        if (errorText) throw new Error(`${url}: ${errorText}`);
    }

    /** What an expression or the promise that it is gives. */
    async evaluate(expression) {
        const call = { expression, awaitPromise: true, returnByValue: true, userGesture: true };
        const { result, exceptionDetails } = await this.send('Runtime.evaluate', call);
        if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
        return result.value;
    }

    /** Waits until an expression holds; one that throws does not hold yet. */
    async until(expression, seconds = 60) {
        const end = Date.now() + seconds * 1000;
        let fault = '';
        for (;;) {
            const holds = await this.evaluate(`Boolean(${expression})`).catch(error => { fault = error.message; });
            if (holds) return;
            if (Date.now() > end) throw new Error(`not within ${seconds} s: ${expression}; ${[fault, ...this.complaints].join('; ')}`);
            await new Promise(resolve => setTimeout(resolve, 100));
        }
    }

    /** Screen width and height in CSS pixels, dark or light, with or without motion. */
    async look({ width, height = 900, dark = false, still = false }) {
        await this.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: width < 500 });
        const features = [
            { name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' },
            { name: 'prefers-reduced-motion', value: still ? 'reduce' : 'no-preference' },
        ];
        await this.send('Emulation.setEmulatedMedia', { features });
    }

    /** The whole page as PNG. */
    async picture() {
        const { cssContentSize: { width, height } } = await this.send('Page.getLayoutMetrics');
        const clip = { x: 0, y: 0, width, height, scale: 1 };
        const { data } = await this.send('Page.captureScreenshot', { format: 'png', captureBeyondViewport: true, clip });
        return Buffer.from(data, 'base64');
    }

    /** Makes it the page that is seen: others draw no frames. */
    front() {
        return this.send('Page.bringToFront');
    }

    close() {
        return this.send('Page.close');
    }

    async key(key, text) {
        const code = key === ' ' ? 'Space' : key;
        await this.send('Input.dispatchKeyEvent', { type: 'keyDown', key, code, text });
        await this.send('Input.dispatchKeyEvent', { type: 'keyUp', key, code });
    }
}
