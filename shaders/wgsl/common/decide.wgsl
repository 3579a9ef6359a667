// Twin of dla-core's dla/boundary.rs: does this score open a state? A score that is not finite never does.
fn decide(sequence: u32, t: u32, i: f32) -> bool {
    if (REPLAY) {
        return event_boundary(trace[sequence * params.tokens + t].y);
    }
    return !non_finite(i) && i >= tau_of(sequence);
}
