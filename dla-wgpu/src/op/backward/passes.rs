//! Which passes a segment's gradients take.

use dla_core::Schedule;
use dla_core::dla::gate::GateMode;
use dla_shaders::{self as shaders, Pass};

use crate::backward_plan::BackwardPlan;
use crate::op::passes::Passes;
use crate::plan::Segment;
use crate::spec::Spec;

/// How many groups a pass has over a segment.
type Count = fn(&BackwardPlan, &Segment) -> usize;

const CHUNKS: Count = |plan, segment| plan.groups(segment).chunk;
const KEYS: Count = |plan, segment| plan.groups(segment).keys;
const VALUES: Count = |plan, segment| plan.groups(segment).values;
const STATES: Count = |plan, segment| plan.groups(segment).states;
const SHARED: Count = |plan, segment| plan.groups(segment).shared;
const HEADS: Count = |plan, segment| plan.groups(segment).heads;

/// The passes that a backward pass of this specialisation records after the forward passes that it runs again, in order;
/// those behind the last segment included.
pub fn gradient_passes(spec: &Spec, gate: GateMode) -> Vec<&'static Pass> {
    let gate = reaches_tau(spec.config.schedule, gate);
    let passes = segment_passes(spec, gate).into_iter();
    passes
        .chain(call_passes(gate))
        .map(|(pass, _)| pass)
        .collect()
}

/// Whether thresholds take part in training.
pub(super) fn reaches_tau(schedule: Schedule, gate: GateMode) -> bool {
    schedule == Schedule::Dynamic && gate != GateMode::Hard
}

/// The passes over every segment.
pub(super) fn segment_passes(spec: &Spec, gate: bool) -> Passes<BackwardPlan> {
    let fours = spec.dims.value_dim.is_multiple_of(4);
    let mut passes: Passes<BackwardPlan> = vec![
        (&shaders::READ_WEIGHTS, CHUNKS),
        (
            if fours {
                &shaders::STATE_GRADIENT
            } else {
                &shaders::STATE_GRADIENT_ANY
            },
            STATES,
        ),
        (&shaders::READ_GRADIENT, KEYS),
        (
            if gate {
                &shaders::WRITE_GRADIENT_GATE
            } else {
                &shaders::WRITE_GRADIENT
            },
            KEYS,
        ),
        (&shaders::MIX_GRADIENT, CHUNKS),
        (&shaders::VALUE_GRADIENT, VALUES),
        (&shaders::KEY_GRADIENT, KEYS),
        (
            if gate {
                &shaders::CARRY_GRADIENT_GATE
            } else {
                &shaders::CARRY_GRADIENT
            },
            CHUNKS,
        ),
        (&shaders::WEIGHT_GRADIENT, CHUNKS),
        (&shaders::DECAY_GRADIENT, CHUNKS),
        (&shaders::GROUP_GRADIENT, SHARED),
    ];
    if gate {
        passes.push((&shaders::GATE_GRADIENT, CHUNKS));
    }
    passes
}

/// The passes after the last segment.
pub(super) fn call_passes(gate: bool) -> Passes<BackwardPlan> {
    if gate {
        vec![(&shaders::TAU_GRADIENT, HEADS)]
    } else {
        Vec::new()
    }
}
