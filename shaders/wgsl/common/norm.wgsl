// What a row is scaled by, 1 / sqrt(mean of squares + epsilon), whatever its values' magnitude (dla-core's nn/norm.rs).
//
// Squares of values above 2^63 overflow, and small ones vanish where epsilon does not outweigh them. Such a row is
// multiplied by a power of two, its unit, before squares are taken; other rows by 1, which changes no bit.

// The unit for a mean of squares plus epsilon.
fn unit_of(mean: f32) -> f32 {
    if ((bitcast<u32>(mean) & 0x7f800000u) == 0x7f800000u) {
        return 0x1p-96f;
    }
    return select(1.0, 0x1p+96f, mean < 0x1p-90f);
}

// epsilon in squared units.
fn in_units(epsilon: f32, unit: f32) -> f32 {
    return epsilon * unit * unit;
}

// sqrt(mean), NaN where no unit makes the mean finite: a value is not, and 1 / infinity would hide it.
fn root_of(mean: f32) -> f32 {
    let bits = bitcast<u32>(mean);
    if ((bits & 0x7f800000u) == 0x7f800000u) {
        return bitcast<f32>(bits | 0x7fc00000u);
    }
    return sqrt(mean);
}
