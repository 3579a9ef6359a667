// How long a page's tasks take, from Chromium's trace: by the clock, and in time of the page's own thread, which a
// crowded machine does not stretch.
import { cpus, loadavg } from 'node:os';

const CATEGORIES = ['toplevel', 'disabled-by-default-devtools.timeline', 'blink.user_timing'];

/** Follows the tasks of a page until `end()`. */
export class Tasks {
    #events = [];
    #chromium;
    #mark;

    /** Of the page that sets the mark, by `performance.mark`: the browser has pages of its own. */
    constructor(chromium, mark) {
        this.#chromium = chromium;
        this.#mark = mark;
    }

    async begin() {
        this.#chromium.onEvent = (method, { value }) => {
            if (method === 'Tracing.dataCollected') this.#events.push(...value);
            if (method === 'Tracing.tracingComplete') this.complete();
        };
        const traceConfig = { includedCategories: CATEGORIES, excludedCategories: ['*'] };
        await this.#chromium.send('Tracing.start', { transferMode: 'ReportEvents', traceConfig });
    }

    /** The longest tasks of the page's main thread: `{ clock, thread }` in milliseconds, each its own maximum. */
    async end() {
        const completed = new Promise(resolve => { this.complete = resolve; });
        await this.#chromium.send('Tracing.end');
        await completed;
        const own = this.#events.find(({ name }) => name === this.#mark);
        const tasks = this.#events.filter(({ name, pid, tid }) => /RunTask$/.test(name) && pid === own.pid && tid === own.tid);
        const most = key => Math.max(0, ...tasks.map(task => (task[key] ?? 0) / 1000));
        return { count: tasks.length, clock: Math.round(most('dur')), thread: Math.round(most('tdur')) };
    }
}

/** Whether so many programs run that the clock tells more of them than of the page. */
export const crowded = () => loadavg()[0] > 1.5 * cpus().length;
