// Twin of dla-core's Step::delta (backbone/form.rs): what one token does to the scalars of an open state S, with
// w = k'S before the transition (docs/algorithm.md, Score).
struct Step {
    decay: f32,    // e^{2g}
    erase: f32,    // beta^2 |k|^2 - 2 beta
    cross: f32,    // beta e^g (1 - beta |k|^2): <s, S> = cross w.v
    s2: f32,       // |s|^2
}

fn step_of(g: f32, beta: f32, k2: f32, s2: f32) -> Step {
    return Step(exp(2.0 * g), beta * (beta * k2 - 2.0), beta * exp(g) * (1.0 - beta * k2), s2);
}

// |S|^2 after the transition.
fn moved_norm(step: Step, n2: f32, w2: f32) -> f32 {
    return square_of(step.decay * (n2 + step.erase * w2));
}
