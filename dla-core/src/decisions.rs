//! The decisions of a schedule: recorded, compared, replayed.

/// Where states opened and which pairs merged; enough to force another run to the same slot map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// 1 where the token opened a state, `[batch, tokens, heads]`.
    pub boundary: Vec<u8>,
    /// The time-order index of the older of the two states merged at that step, −1 for none, `[batch, tokens, heads]`.
    pub merge_at: Vec<i32>,
}

/// What a run measured and decided, `[batch, tokens, heads]` each; zeros (and −1 in `merge_at`) beyond a shorter item's length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The information score I_t; 0 where the schedule measures none.
    pub score: Vec<f32>,
    /// The decisions.
    pub decisions: Decisions,
    /// Live states after the step.
    pub count: Vec<i32>,
    /// Scores that were not finite: no boundary, nothing added to Ī.
    pub non_finite: u64,
}
