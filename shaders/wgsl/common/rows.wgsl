// A group's threads over the rows of states, BLOCK rows at a time so that their loads are in flight together.

// 256 threads are `across` columns (of WIDTH) by `down` rows; what is left over takes other states.
struct Grid {
    across: u32,
    down: u32,
}

// A thread owns one column and every down-th row.
struct Thread {
    sequence: u32,
    lane: u32,
    column: u32,
    row: u32,         // the first of its rows
    live: bool,       // its column exists
}

struct Token {
    value: columns,
    strength: f32,    // beta; 1 without the delta rule
}

const ROW: u32 = VALUE_DIM / WIDTH;

// One state over all threads.
const WIDE: u32 = 1u << (32u - countLeadingZeros(ROW - 1u));
const WHOLE: Grid = Grid(WIDE, 256u / WIDE);

// A slice of several states at once: as many as leave a thread at most 8 rows, and no more than a cache holds.
const SPREAD: u32 = 256u / SLICE;
const EIGHTHS: u32 = 1u << (32u - countLeadingZeros((KEY_DIM + 7u) / 8u - 1u));
const CACHE: u32 = 1u << (32u - countLeadingZeros(CAPACITY - 1u));
const DOWN: u32 = min(SPREAD, max(EIGHTHS, SPREAD / min(SPREAD, CACHE)));
const ABREAST: u32 = SPREAD / DOWN;
const SLICES: Grid = Grid(SLICE, DOWN);

const LEAST_DOWN: u32 = min(DOWN, 256u / WIDE);
const BLOCK: u32 = min(8u, (KEY_DIM + LEAST_DOWN - 1u) / LEAST_DOWN);
alias Rows = array<columns, BLOCK>;

const UNCHANGED: Change = Change(false, 0u, 0u, 0u);

var<workgroup> keys: array<f32, KEY_DIM>;
var<workgroup> stale: array<f32, CAPACITY>;     // by place: log decay that the matrix still has to take
var<workgroup> partial: array<columns, 256>;

fn thread_of(grid: Grid, sequence: u32, lane: u32, first_column: u32) -> Thread {
    let column = first_column + lane % grid.across;
    return Thread(sequence, lane, column, lane / grid.across % grid.down, column < ROW);
}

fn token_of(own: Thread, t: u32) -> Token {
    var token = Token(columns(), 1.0);
    if (own.live) {
        token.value = widen(v[token_head(own.sequence, t) * ROW + own.column]);
    }
    if (DELTA) {
        token.strength = control[control_at(own.sequence, t) + 1u];
    }
    return token;
}

fn load_key(sequence: u32, t: u32, lane: u32) {
    if (lane < KEY_DIM) {
        keys[lane] = f32(k[key_at(sequence, t) + lane]);
    }
}

fn element(own: Thread, p: u32, d: u32) -> u32 {
    return ((own.sequence * CAPACITY + p) * KEY_DIM + d) * ROW + own.column;
}

// Whether a row exists: known at compile time where blocks fit, so that nothing stands between their loads.
fn is_row(grid: Grid, d: u32) -> bool {
    return KEY_DIM % (grid.down * BLOCK) == 0u || d < KEY_DIM;
}

fn add_place(sum: ptr<function, Rows>, grid: Grid, own: Thread, p: u32, row: u32) {
    let scale = exp(stale[p]);
    for (var r = 0u; r < BLOCK; r++) {
        let d = row + r * grid.down;
        if (is_row(grid, d)) {
            (*sum)[r] += scale * states[element(own, p, d)];
        }
    }
}

// Rows of state i after its decay, with what it absorbed.
fn gather(grid: Grid, own: Thread, i: u32, row: u32, made: Change) -> Rows {
    var sum = Rows();
    if (own.live) {
        add_place(&sum, grid, own, place[i], row);
        if (i + 1u == made.merged) {
            for (var x = 0u; x < made.absorbed; x++) {
                add_place(&sum, grid, own, freed[x], row);
            }
        }
    }
    return sum;
}

// The sum over the threads of one column in every run of `span` threads.
fn sum_rows(lane: u32, across: u32, span: u32, x: columns) -> columns {
    workgroupBarrier();
    partial[lane] = x;
    for (var half = span / 2u; half >= across; half /= 2u) {
        workgroupBarrier();
        if (lane % span < half) {
            partial[lane] += partial[lane + half];
        }
    }
    workgroupBarrier();
    return partial[lane - lane % span + lane % across];
}

// k' S of state i, whose first rows are at hand.
fn recall(grid: Grid, own: Thread, i: u32, made: Change, first: Rows) -> columns {
    var sum = columns();
    var x = first;
    for (var row = own.row; row < KEY_DIM; row += grid.down * BLOCK) {
        if (row > own.row) {
            x = gather(grid, own, i, row, made);
        }
        for (var r = 0u; r < BLOCK; r++) {
            let d = row + r * grid.down;
            if (is_row(grid, d)) {
                sum += keys[d] * x[r];
            }
        }
    }
    return sum_rows(own.lane, grid.across, grid.across * grid.down, sum);
}
