//! Which passes a call records, in the variants that the device and the shape allow.

use dla_core::Backbone;
use dla_shaders::{self as shaders, Pass};

use super::options::Walk;
use crate::Variant;
use crate::plan::{Plan, Segment};
use crate::spec::Spec;

/// How many groups a pass has over a segment.
pub(super) type Count = fn(&Plan, &Segment) -> usize;

const SEQUENCES: Count = |plan, segment| plan.groups(segment).sequence;
const CHUNKS: Count = |plan, segment| plan.groups(segment).chunk;
const OUTPUTS: Count = |plan, segment| plan.groups(segment).output;

/// The passes of a segment in order, each with its number of groups.
pub(super) type Passes = Vec<(&'static Pass, Count)>;

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
    let mut passes: Passes = vec![(&shaders::CHUNK_DECAY, CHUNKS)];
    let compact = if spec.dims.capacity <= variant.subgroup {
        &shaders::COMPACT_SUBGROUP
    } else {
        &shaders::COMPACT
    };
    let matrix = variant.cooperative_matrix && spec.fits_matrix();
    if spec.config.backbone == Backbone::Delta {
        passes.extend(delta_passes(spec, compact, matrix));
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
    passes.push((
        if matrix {
            &shaders::READOUT_MATRIX
        } else {
            &shaders::READOUT
        },
        OUTPUTS,
    ));
    passes.push((
        if matrix {
            &shaders::CHUNK_OUTPUT_MATRIX
        } else {
            &shaders::CHUNK_OUTPUT
        },
        OUTPUTS,
    ));
    passes
}

/// The gated delta rule's passes after `chunk_decay`.
fn delta_passes(spec: &Spec, compact: &'static Pass, matrix: bool) -> Passes {
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
    passes.push((
        if matrix {
            &shaders::READOUT_DELTA_MATRIX
        } else {
            &shaders::READOUT_DELTA
        },
        OUTPUTS,
    ));
    passes.push((&shaders::CHUNK_OUTPUT_DELTA, OUTPUTS));
    passes
}
