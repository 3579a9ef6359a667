// Texts to read. Those that are quoted are in the public domain.

const GENESIS = `In the beginning God created the heaven and the earth. And the earth was without form, and void; and darkness was upon the face of the deep. And the Spirit of God moved upon the face of the waters. And God said, Let there be light: and there was light.`;
const MACBETH = `Double, double, toil and trouble;
Fire, burn; and caldron, bubble.
Fillet of a fenny snake,
In the caldron boil and bake;
Eye of newt, and toe of frog,
Wool of bat, and tongue of dog.`;
const ALICE = `Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do: once or twice she had peeped into the book her sister was reading, but it had no pictures or conversations in it.`;
const FILLER = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. ";
const NEEDLE = "One of the special magic numbers for quiet-harbour is: 7412963. ";
const QUESTION = "What are all the special magic numbers for quiet-harbour mentioned in the provided text? The special magic numbers for quiet-harbour mentioned in the provided text are ";
const ANSWER = "7412963";
const CODE = `fn merge(states: &mut Vec<State>) {
    let density = |pair: &[State]| pair_information(pair) / pair_tokens(pair);
    let pairs = states.windows(2).enumerate();
    let Some((at, _)) = pairs.min_by(|a, b| density(a.1).total_cmp(&density(b.1))) else {
        return;
    };
    let newer = states.remove(at + 1);
    states[at].add(&newer);
}

# The same, in Python
def merge(states):
    pairs = range(len(states) - 1)
    at = min(pairs, key=lambda i: density(states[i], states[i + 1]))
    states[at] += states.pop(at + 1)
`;

/** By name. `answer` is where a needle's answer begins in `text`, in bytes. */
export const SAMPLES = {
    scenes: { title: "Scene changes", text: `${GENESIS}\n\n${MACBETH}\n\n${ALICE}\n` },
    needle: {
        title: "Needle in a haystack",
        text: FILLER.repeat(5) + NEEDLE + FILLER.repeat(9) + QUESTION,
        answer: ANSWER,
    },
    code: { title: "Code", text: CODE },
};
