//! Which passes a call records, in the variants that the device and the shape allow.

use dla_core::Backbone;
use dla_shaders::{self as shaders, Pass};

use super::options::Walk;
use crate::Variant;
use crate::plan::{Plan, Segment};
use crate::spec::Spec;

/// How many groups a pass has over a segment.
type Count = fn(&Plan, &Segment) -> usize;

const SEQUENCES: Count = |plan, segment| plan.groups(segment).sequence;
const CHUNKS: Count = |plan, segment| plan.groups(segment).chunk;
const OUTPUTS: Count = |plan, segment| plan.groups(segment).output;

/// The passes of a segment in order, each with its number of groups under plan `P`.
pub(super) type Passes<P = Plan> = Vec<(&'static Pass, fn(&P, &Segment) -> usize)>;

/// The passes that an operator of this specialisation records on such a device, in order.
pub fn passes(spec: &Spec, variant: Variant, walk: Walk) -> Vec<&'static Pass> {
    let recorded = recorded(spec, variant, walk);
    recorded.into_iter().map(|(pass, _)| pass).collect()
}

/// The same with their numbers of groups.
pub(super) fn recorded(spec: &Spec, variant: Variant, walk: Walk) -> Passes {
    match walk {
        Walk::Chunks => chunk_passes(spec, variant),
        Walk::Steps => steps(spec),
        Walk::Step => step(spec),
    }
}

/// The one pass that walks tokens.
fn steps(spec: &Spec) -> Passes {
    let pass = if spec.dims.value_dim.is_multiple_of(4) {
        &shaders::STEP
    } else {
        &shaders::STEP_ANY
    };
    vec![(pass, SEQUENCES)]
}

/// The two passes of one token.
fn step(spec: &Spec) -> Passes {
    let (decide, move_states) = if spec.dims.value_dim.is_multiple_of(4) {
        (&shaders::STEP_DECIDE, &shaders::STEP_MOVE)
    } else {
        (&shaders::STEP_DECIDE_ANY, &shaders::STEP_MOVE_ANY)
    };
    vec![
        (decide, SEQUENCES),
        (move_states, |plan, segment| plan.groups(segment).step_move),
    ]
}

/// The passes over chunks, in the variants that the device and the shape allow.
fn chunk_passes(spec: &Spec, variant: Variant) -> Passes {
    let mut passes = state_passes(spec, variant);
    passes.extend(output_passes(spec, variant));
    passes
}

/// The passes that decide, and give the states at every chunk's entry.
pub(super) fn state_passes(spec: &Spec, variant: Variant) -> Passes {
    let mut passes: Passes = vec![(&shaders::CHUNK_DECAY, CHUNKS)];
    // One lane a state, and four for the words of the slot map; WebGPU's subgroups have 4 to 128.
    let compact = if variant.subgroup >= spec.dims.capacity.max(4) {
        &shaders::COMPACT_SUBGROUP
    } else {
        &shaders::COMPACT
    };
    if spec.config.backbone == Backbone::Delta {
        passes.extend(delta_passes(spec, compact));
        return passes;
    }
    if spec.measure {
        passes.push((&shaders::SCORE, CHUNKS));
        passes.push((&shaders::OPEN_STATE, SEQUENCES));
        passes.push((&shaders::BOUNDARY_SCAN, SEQUENCES));
    }
    passes.push((compact, SEQUENCES));
    let chunk_state = if spec.dims.value_dim.is_multiple_of(4) {
        &shaders::CHUNK_STATE
    } else {
        &shaders::CHUNK_STATE_ANY
    };
    passes.push((chunk_state, |plan, segment| {
        plan.groups(segment).chunk_state
    }));
    passes
}

/// The passes that read the outputs.
fn output_passes(spec: &Spec, variant: Variant) -> Passes {
    let matrix = variant.cooperative_matrix && spec.fits_matrix();
    let (readout, chunk_output) = match (spec.config.backbone, matrix) {
        (Backbone::Delta, true) => (&shaders::READOUT_DELTA_MATRIX, &shaders::CHUNK_OUTPUT_DELTA),
        (Backbone::Delta, false) => (&shaders::READOUT_DELTA, &shaders::CHUNK_OUTPUT_DELTA),
        (_, true) => (&shaders::READOUT_MATRIX, &shaders::CHUNK_OUTPUT_MATRIX),
        (_, false) => (&shaders::READOUT, &shaders::CHUNK_OUTPUT),
    };
    vec![(readout, OUTPUTS), (chunk_output, OUTPUTS)]
}

/// The gated delta rule's [`state_passes`] after `chunk_decay`.
fn delta_passes(spec: &Spec, compact: &'static Pass) -> Passes {
    let mut passes: Passes = vec![(&shaders::DELTA_WY, CHUNKS), (&shaders::DELTA_READ, CHUNKS)];
    if spec.measure {
        passes.push((&shaders::DELTA_PROBE, |plan, segment| {
            plan.groups(segment).delta_probe
        }));
        passes.push((&shaders::SCORE_DELTA, CHUNKS));
        passes.push((&shaders::OPEN_STATE, SEQUENCES));
        passes.push((&shaders::BOUNDARY_SCAN_DELTA, SEQUENCES));
    }
    passes.push((compact, SEQUENCES));
    passes.push((&shaders::CHUNK_STATE_DELTA, |plan, segment| {
        plan.groups(segment).chunk_state_delta
    }));
    if spec.measure {
        passes.push((&shaders::CLOSE_STATE, SEQUENCES));
    }
    passes
}
