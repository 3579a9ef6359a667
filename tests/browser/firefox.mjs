// The page in headless Firefox, which has no DevTools' pipe: it shows the page in a frame and tells how it went there.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const MINUTES = 3;

/** The name of the browser, if there is one. */
export const firefoxName = () => ['firefox-esr', 'firefox'].find(name => spawnSync(name, ['--version']).status === 0);

/** The page in a frame; reports when it reads with a CPU, or says what went wrong. */
const FRAME = `<!doctype html><link rel=icon href=data:,><iframe src="/" width=1000 height=1000></iframe><script>
const report = words => fetch('/report/' + encodeURIComponent(words));
const faults = [];
const frame = document.querySelector('iframe');
frame.addEventListener('load', () => frame.contentWindow.addEventListener('error', ({ message }) => faults.push(message)));
const find = id => frame.contentDocument?.getElementById(id)?.textContent ?? '';
const timer = setInterval(() => {
    const fault = [find('notice'), ...faults].filter(Boolean).join('; ');
    const reads = /^Token [0-9]{2}/.test(find('told')) && find('room') && 'reads: ' + find('facts');
    if (!fault && !reads) return;
    clearInterval(timer);
    report(fault || reads);
}, 200);
</script>`;

/** Answers what the frame asks for. */
export function special(path, response) {
    if (path.startsWith('/report/')) {
        response.end();
        report?.(path.slice('/report/'.length));
    } else if (path === '/firefox.html') response.setHeader('content-type', 'text/html').end(FRAME);
    else return false;
    return true;
}

let report;

/** What the page says of its model in Firefox without WebGPU. */
export async function firefox(name, address, scratch) {
    const profile = join(scratch, 'firefox'), reported = new Promise(resolve => { report = resolve; });
    mkdirSync(profile);
    // As in a Firefox that has none.
    writeFileSync(join(profile, 'user.js'), 'user_pref("dom.webgpu.enabled", false);\n');
    const child = spawn(name, ['--headless', '--no-remote', '--profile', profile, `${address}/firefox.html`], { stdio: 'ignore' });
    const late = setTimeout(() => report(`no answer within ${MINUTES} minutes`), MINUTES * 60_000);
    const facts = await reported;
    clearTimeout(late);
    child.kill();
    await new Promise(resolve => child.on('exit', resolve));
    if (!/^reads: .*CPU.*no WebGPU/.test(facts)) throw new Error(facts);
    return facts;
}
