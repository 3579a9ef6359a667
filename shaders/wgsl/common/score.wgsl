// Twin of dla-core's dla/score.rs: the information score from three scalars (docs/algorithm.md, Score).

// NaN or infinite, by its bits: compilers may assume that floats are finite.
fn non_finite(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7f800000u) == 0x7f800000u;
}

// Rounding can make a square slightly negative. What is not finite stays: a compiler may turn a comparison into max(),
// which loses NaN.
fn square_of(x: f32) -> f32 {
    return select(x, 0.0, !non_finite(x) && x < 0.0);
}

// s2 = |s|^2 of the token's contribution, n2 = |S|^2 of the open state after the transition, c = <s, S>.
fn score(s2: f32, n2: f32, c: f32) -> f32 {
    let finite = !(non_finite(s2) || non_finite(n2) || non_finite(c));
    if (!finite) {
        return s2 + n2 + c;
    }
    let d = f32(KEY_DIM * VALUE_DIM);
    var r = 1.0;
    var big_r = 1.0;
    if (RMS) {
        r = 1.0 / sqrt(s2 / d + EPSILON);
        big_r = 1.0 / sqrt(n2 / d + EPSILON);
    }
    let square = square_of(r * r * s2 - 2.0 * r * big_r * c + big_r * big_r * n2);
    let i = sqrt(square) / (big_r * sqrt(n2) + EPSILON);
    return select(i, 2.0, RMS && !non_finite(i) && i > 2.0);
}

// Twin of dla-core's Erased: what was subtracted from a carried |S|^2 since it was measured, decayed with it.
const CANCELLED: f32 = 0.015625;

// A transition took |S|^2 from `before` to `after`.
fn erased_by(erased: f32, decay: f32, before: f32, after: f32) -> f32 {
    return decay * erased + square_of(decay * before - after);
}

// A token joined.
fn erased_joining(erased: f32, c: f32) -> f32 {
    return erased + square_of(-2.0 * c);
}

// True where n2, carried so far, has lost its digits.
fn cancels(n2: f32, erased: f32) -> bool {
    return !non_finite(n2) && n2 < CANCELLED * erased;
}

// |S|^2 after the token joined.
fn joined_norm(n2: f32, c: f32, s2: f32) -> f32 {
    return square_of(n2 + 2.0 * c + s2);
}
