// g = -e^A_log Delta whatever A_log and Delta are, Delta = softplus(step) (dla-core's nn/decay.rs).
//
// A head's rate is -e^A_log, or A_log itself where that is above 40: e^A_log may overflow and Delta vanish where their
// product is an ordinary number.
const MOST_EXPONENT: f32 = 40.0;
const LEAST_NORMAL: f32 = 0x1p-126f;

fn not_a_number(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn decay_rate(a_log: f32) -> f32 {
    return select(-exp(a_log), a_log, a_log > MOST_EXPONENT);
}

// g, at least -110, whose exponential is 0; NaN stays NaN.
fn decay_of(rate: f32, step: f32, size: f32) -> f32 {
    var g = rate * size;
    if (rate > MOST_EXPONENT) {
        let exponent = rate + select(log(size), step, size < LEAST_NORMAL);
        // Above e^5 nothing is left.
        g = -exp(select(exponent, 5.0, !not_a_number(exponent) && exponent > 5.0));
    }
    return select(g, -110.0, !not_a_number(g) && g < -110.0);
}

// dg / dstep where Delta follows softplus.
fn decay_slope(rate: f32, step: f32, size: f32) -> f32 {
    let slope = sigmoid(step);
    if (rate > MOST_EXPONENT) {
        return decay_of(rate, step, size) * select(slope / size, 1.0, size < LEAST_NORMAL);
    }
    return rate * slope;
}
