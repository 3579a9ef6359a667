// The colour of a state: given when it opens, kept for life. A merge blends the two, each by its tokens, and leaves the
// others as they are. The page and `dla segment` have this file alike, palette.rs the same rule.

/** Steps around the ring of hues; every fourth is a hue of the palette, those between are mixed from two. */
export const RING = 24;
const BETWEEN = 4;
/** The palette's hues around the ring: pink, orange, olive, teal, blue, violet. */
const ORDER = [3, 1, 5, 2, 0, 4];
/** Steps beyond which neighbours are told apart at a glance. */
const APART = 4;
/** Steps that another lightness is worth. */
const LIGHTER = 2;

/** Steps between two hues, the shorter way. */
const away = (a, b) => Math.min((a - b + RING) % RING, (b - a + RING) % RING);

/** The colour of state `id` that opens behind state `last`, which came after `before`: both may be missing. */
export function opened(id, last, before) {
    let best = 0, most = -1;
    for (let i = 0; i < ORDER.length; i++) {
        const hue = BETWEEN * ORDER.indexOf((id + i) % ORDER.length);
        const room = (last ? Math.min(away(hue, last.hue), 2 * APART) : 0) + (before ? Math.min(away(hue, before.hue), APART) : 0);
        if (room > most) [best, most] = [hue, room];
    }
    return { hue: best, level: last ? 1 - last.level : 0 };
}

/**
 * The colour of two states that became one: `counts` are their tokens, `neighbours` the colours beside them. It lies between
 * the two, by their tokens; where a neighbour has that colour, as near to it as can be.
 */
export function blended(older, newer, counts, neighbours) {
    const tokens = counts[0] + counts[1], forth = (newer.hue - older.hue + RING) % RING;
    const [arc, step] = forth <= RING / 2 ? [forth, 1] : [RING - forth, RING - 1];
    const share = Math.floor((2 * arc * counts[1] + tokens) / (2 * tokens));
    const own = counts[0] >= counts[1] ? older.level : newer.level;
    let best, most = -1, least = 0;
    for (let at = 0; at <= arc; at++) {
        for (const level of [own, 1 - own]) {
            const hue = (older.hue + at * step) % RING;
            const apart = neighbours.map(other => away(hue, other.hue) + (level === other.level ? 0 : LIGHTER));
            const room = Math.min(APART, ...apart), cost = Math.abs(at - share) + (level === own ? 0 : LIGHTER + 1);
            if (room > most || (room === most && cost < least)) [best, most, least] = [{ hue, level }, room, cost];
        }
    }
    return best;
}

/** A row of the palette at a step of the ring, in CSS. */
function word(row, hue) {
    const [first, next] = [0, 1].map(i => ORDER[(Math.floor(hue / BETWEEN) + i) % ORDER.length]), share = hue % BETWEEN;
    return share ? `color-mix(in srgb, var(--${row}${next}) ${(100 * share) / BETWEEN}%, var(--${row}${first}))` : `var(--${row}${first})`;
}

const PAINTS = [0, 1].map(level => Array.from({ length: RING }, (_, hue) => ({ fill: word(`c${level}`, hue), ink: word("i", hue) })));

/** What a colour looks like: `fill` behind text, `ink` for lines and bars. */
export const paint = ({ hue, level }) => PAINTS[level][hue];

/** What a canvas takes for a CSS colour of {@link paint} or `var(--name)`; `read(name)` gives a variable's value. */
export function plain(css, read) {
    const [first, second] = [...css.matchAll(/var\((--\w+)\)/g)].map(([, name]) => read(name));
    if (second === undefined) return first;
    const share = Number(css.match(/(\d+)%/)[1]) / 100;
    const part = at => [first, second].map(hex => parseInt(hex.slice(at, at + 2), 16));
    return `rgb(${[1, 3, 5].map(at => part(at)).map(([a, b]) => Math.round(share * a + (1 - share) * b)).join(" ")})`;
}
