// How long a page's tasks take, from Chromium's trace: by the clock, and in time of the page's own thread, which a
// crowded machine does not stretch.
import { cpus, loadavg } from 'node:os';

const CATEGORIES = ['toplevel', 'disabled-by-default-devtools.timeline', '__metadata'];

/** Follows the tasks of pages until `end()`, which gives the longest of those that `url` names. */
export class Tasks {
    #events = [];
    #chromium;

    constructor(chromium) {
        this.#chromium = chromium;
    }

    async begin() {
        this.#chromium.onEvent = (method, { value }) => {
            if (method === 'Tracing.dataCollected') this.#events.push(...value);
            if (method === 'Tracing.tracingComplete') this.complete();
        };
        const traceConfig = { includedCategories: CATEGORIES, excludedCategories: ['*'] };
        await this.#chromium.send('Tracing.start', { transferMode: 'ReportEvents', traceConfig });
    }

    /** The longest tasks of renderers' main threads: `{ clock, thread }` in milliseconds, each its own maximum. */
    async end() {
        const completed = new Promise(resolve => { this.complete = resolve; });
        await this.#chromium.send('Tracing.end');
        await completed;
        const main = new Set(this.#events.filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain').map(({ pid, tid }) => `${pid}:${tid}`));
        const tasks = this.#events.filter(({ name, pid, tid }) => /RunTask$/.test(name) && main.has(`${pid}:${tid}`));
        const most = key => Math.max(0, ...tasks.map(task => (task[key] ?? 0) / 1000));
        return { count: tasks.length, clock: Math.round(most('dur')), thread: Math.round(most('tdur')) };
    }
}

/** Whether so many programs run that the clock tells more of them than of the page. */
export const crowded = () => loadavg()[0] > 1.5 * cpus().length;
