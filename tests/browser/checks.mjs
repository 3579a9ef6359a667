// What the checks of package and page share: telling how each went, and what is asked of the page.

const counted = { failures: 0 };
/** How many checks have failed. */
export const failures = () => counted.failures;

/** Runs a check and tells how it went. */
export async function check(name, run) {
    try {
        const told = await run();
        console.log(`ok   ${name}${told ? `: ${told}` : ''}`);
    } catch (error) {
        counted.failures++;
        console.log(`FAIL ${name}: ${error.message}`);
    }
}

export function equal(got, wanted, what) {
    const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
    if (a !== b) throw new Error(`${what}: expected ${b?.slice(0, 300)}, got ${a?.slice(0, 300)}`);
}

// Expressions for the page.

/** Whether the page reads. */
export const RUNNING = `document.getElementById('play').textContent.includes('Pause')`;
/** The number of the newest token; NaN before the first. */
export const TOKEN = `Number(document.getElementById('told').textContent.match(/^Token ([0-9]+)/)?.[1])`;
/** What happened at the newest token. */
export const told0 = `document.getElementById('told').textContent`;
export const set = (id, value) => `(node => { node.value = ${value}; node.dispatchEvent(new Event('input')); return 1; })(document.getElementById('${id}'))`;
export const click = id => `document.getElementById('${id}').click()`;
/** Tokens a second that the model does, as the page has it. */
export const RATE = `Number(document.getElementById('pace').textContent.match(/does ([0-9.]+) tokens/)?.[1])`;
export const text = id => `document.getElementById('${id}').textContent`;
