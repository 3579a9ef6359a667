// Twin of dla-core's dla/score.rs: the information score from three scalars (docs/algorithm.md, Score).

// NaN or infinite, by its bits: compilers may assume that floats are finite.
fn non_finite(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7f800000u) == 0x7f800000u;
}

// s2 = |s|^2 of the token's contribution, n2 = |S|^2 of the open state after the transition, c = <s, S>.
fn score(s2: f32, n2: f32, c: f32) -> f32 {
    let d = f32(KEY_DIM * VALUE_DIM);
    var r = 1.0;
    var big_r = 1.0;
    if (RMS) {
        r = 1.0 / sqrt(s2 / d + EPSILON);
        big_r = 1.0 / sqrt(n2 / d + EPSILON);
    }
    var square = r * r * s2 - 2.0 * r * big_r * c + big_r * big_r * n2;
    if (square < 0.0) {
        square = 0.0;
    }
    var i = sqrt(square) / (big_r * sqrt(n2) + EPSILON);
    if (RMS && i > 2.0) {
        i = 2.0;
    }
    return i;
}

// |S|^2 after the token joined; rounding may make it slightly negative.
fn joined_norm(n2: f32, c: f32, s2: f32) -> f32 {
    let sum = n2 + 2.0 * c + s2;
    return select(sum, 0.0, sum < 0.0);
}
