//! Which passes a segment's gradients take.

use dla_core::dla::gate::GateMode;
use dla_core::{Backbone, Schedule};
use dla_shaders::{self as shaders, Pass};

use crate::backward_plan::BackwardPlan;
use crate::op::passes::Passes;
use crate::plan::Segment;
use crate::spec::Spec;

/// How many groups a pass has over a segment.
type Count = fn(&BackwardPlan, &Segment) -> usize;

const CHUNKS: Count = |plan, segment| plan.groups(segment).chunk;
const READS: Count = |plan, segment| plan.groups(segment).reads;
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
    let mut passes: Passes<BackwardPlan> = vec![(&shaders::READ_WEIGHTS_ENTERED, CHUNKS)];
    passes.extend(if spec.config.backbone == Backbone::Delta {
        delta_passes(spec, gate)
    } else {
        decay_passes(spec, gate)
    });
    passes.push((&shaders::WEIGHT_GRADIENT, CHUNKS));
    passes.push((&shaders::GROUP_GRADIENT, SHARED));
    if gate {
        passes.push((&shaders::GATE_GRADIENT, CHUNKS));
    }
    passes
}

/// Those of a scalar decay.
fn decay_passes(spec: &Spec, gate: bool) -> Passes<BackwardPlan> {
    let state = if spec.dims.value_dim.is_multiple_of(4) {
        &shaders::STATE_GRADIENT
    } else {
        &shaders::STATE_GRADIENT_ANY
    };
    let (write, carry) = if gate {
        (&shaders::WRITE_GRADIENT_GATE, &shaders::CARRY_GRADIENT_GATE)
    } else {
        (&shaders::WRITE_GRADIENT, &shaders::CARRY_GRADIENT)
    };
    vec![
        (state, STATES),
        (&shaders::READ_GRADIENT, READS),
        (write, KEYS),
        (&shaders::MIX_GRADIENT, CHUNKS),
        (&shaders::VALUE_GRADIENT, VALUES),
        (&shaders::KEY_GRADIENT, KEYS),
        (carry, CHUNKS),
        (&shaders::DECAY_GRADIENT, CHUNKS),
    ]
}

/// Those of the gated delta rule.
fn delta_passes(spec: &Spec, gate: bool) -> Passes<BackwardPlan> {
    let outer = if spec.dims.value_dim.is_multiple_of(4) {
        &shaders::OUTER_GRADIENT
    } else {
        &shaders::OUTER_GRADIENT_ANY
    };
    let write = if gate {
        &shaders::WRITE_GRADIENT_DELTA_GATE
    } else {
        &shaders::WRITE_GRADIENT_DELTA
    };
    let mut passes: Passes<BackwardPlan> = vec![
        (outer, |plan, segment| plan.groups(segment).outers),
        (&shaders::STATE_GRADIENT_DELTA, |plan, segment| {
            plan.groups(segment).states_delta
        }),
        (&shaders::READ_GRADIENT_DELTA, READS),
        (write, KEYS),
        (&shaders::TRANSITION_GRADIENT, |plan, segment| {
            plan.groups(segment).transitions
        }),
        (&shaders::MIX_GRADIENT_DELTA, CHUNKS),
        (&shaders::VALUE_GRADIENT_DELTA, VALUES),
        (&shaders::ERASE_GRADIENT, KEYS),
        (&shaders::SOLVE_GRADIENT, CHUNKS),
        (&shaders::DECAY_GRADIENT_DELTA, CHUNKS),
        (&shaders::KEY_GRADIENT_DELTA, KEYS),
    ];
    if gate {
        passes.push((&shaders::CARRY_GRADIENT_DELTA, CHUNKS));
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
