// Four columns of a matrix as one value, where Dv is a multiple of four.
alias columns = vec4<f32>;
alias columns_io = vec4<io>;
const WIDTH: u32 = 4u;

fn widen(x: columns_io) -> columns {
    return columns(x);
}

fn total(x: columns) -> f32 {
    return (x.x + x.y) + (x.z + x.w);
}
