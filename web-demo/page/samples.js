// Texts to read. Those that are quoted are in the public domain.

const GENESIS = `In the beginning God created the heaven and the earth. And the earth was without form, and void; and darkness was upon the face of the deep. And the Spirit of God moved upon the face of the waters. And God said, Let there be light: and there was light.`;
const MACBETH = `Double, double, toil and trouble;
Fire, burn; and caldron, bubble.
Fillet of a fenny snake,
In the caldron boil and bake;
Eye of newt, and toe of frog,
Wool of bat, and tongue of dog.`;
const SMOKE = `:magic smoke: n.

A substance trapped inside IC packages that enables them to function (also called blue smoke; this is similar to the archaic phlogiston hypothesis about combustion). Its existence is demonstrated by what happens when a chip burns up — the magic smoke gets let out, so it doesn't work any more.`;
const PSALM = `The LORD is my shepherd; I shall not want. He maketh me to lie down in green pastures: he leadeth me beside the still waters. He restoreth my soul: he leadeth me in the paths of righteousness for his name's sake.`;
const CODE = `#include <stdio.h>

/* The two neighbours that tell least become one. */
static int cheapest(const double *info, const int *n, int count)
{
    int best = 0;
    double least = 1e9;
    for (int i = 0; i + 1 < count; i++) {
        double density = (info[i] + info[i + 1]) / (n[i] + n[i + 1]);
        if (density < least) {
            least = density;
            best = i;
        }
    }
    return best;
}

int main(void)
{
    puts("hello, world");
    return 0;
}
`;

// Needles in haystacks, in the words of RULER, which the models were trained on.

const HEAD = "Some special magic numbers are hidden within the following text. Make sure to memorize it. I will quiz you about the numbers afterwards.\n";
const needle = (key, number) => `One of the special magic numbers for ${key} is: ${number}.`;
const question = key => `\nWhat are all the special magic numbers for ${key} mentioned in the provided text? The special magic numbers for ${key} mentioned in the provided text are `;

/** By name. `answer` is what follows the text of a needle in a haystack. */
export const SAMPLES = {
    scenes: {
        title: "Scenes",
        about: "The King James Bible, Macbeth and the Jargon File: the kinds of text that the model learned from.",
        text: `${GENESIS}\n\n${MACBETH}\n\n${SMOKE}\n\n`,
    },
    needle: {
        title: "A needle",
        about: "One number is hidden in the text and asked for at its end. Below, the answer of this model and of its single-state twin.",
        text: `${HEAD}${PSALM} ${needle("quiet-harbor", "7319408")} ${GENESIS}${question("quiet-harbor")}`,
        answer: "7319408",
    },
    four: {
        title: "Four needles",
        about: "Four numbers, one asked for: more than either model learned to tell apart.",
        text: `${HEAD}${needle("silver-lantern", "2846075")} ${PSALM} ${needle("quiet-harbor", "7319408")} ${GENESIS} ${needle("gentle-river", "9150362")} ${needle("hollow-mountain", "4603817")}${question("quiet-harbor")}`,
        answer: "7319408",
    },
    code: {
        title: "Code",
        about: "None of the texts that the model learned from is code: watch what it takes for new.",
        text: CODE,
    },
};
