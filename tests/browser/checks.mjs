// Checks that are told one a line.

const counted = { failures: 0 };
/** How many checks have failed. */
export const failures = () => counted.failures;

/** Runs a check and says how it went. */
export async function check(name, run) {
    try {
        const words = await run();
        console.log(`ok   ${name}${words ? `: ${words}` : ''}`);
    } catch (error) {
        counted.failures++;
        console.log(`FAIL ${name}: ${error.message}`);
    }
}

export function equal(got, wanted, what) {
    const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
    if (a !== b) throw new Error(`${what}: expected ${b?.slice(0, 300)}, got ${a?.slice(0, 300)}`);
}
