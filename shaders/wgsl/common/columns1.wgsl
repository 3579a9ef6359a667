// One column of a matrix as one value, for any Dv.
alias columns = f32;
alias columns_io = io;
const WIDTH: u32 = 1u;

fn widen(x: columns_io) -> columns {
    return columns(x);
}

fn total(x: columns) -> f32 {
    return x;
}
