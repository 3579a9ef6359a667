//! The plan without a device: what it cuts, what it refuses.

use dla_core::{Backbone, Dims};
use dla_wgpu::Float;
use dla_wgpu::backward_plan::BackwardPlan;
use dla_wgpu::plan::{Limits, MAX_DISPATCH_FLOP, MAX_DISPATCH_TOKENS, MAX_GROUPS, Plan, grid};

/// The Mamba-2 780M shape.
fn paper(batch: usize, tokens: usize) -> Dims {
    Dims {
        batch,
        tokens,
        heads: 48,
        groups: 1,
        key_dim: 128,
        value_dim: 64,
        capacity: 30,
    }
}

/// A device with 2 GiB bindings.
const LARGE: Limits = Limits {
    max_binding: 2 << 30,
    workspace: 1 << 30,
    iterations: usize::MAX,
};

fn plan(dims: Dims, limits: Limits) -> Plan {
    Plan::new(dims, Backbone::Decay, 64, Float::F16, limits)
        .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn segments_cover_every_token_once() {
    for tokens in [0, 1, 63, 64, 65, 1000, 16_384] {
        let plan = plan(paper(1, tokens), LARGE);
        let mut next = 0;
        for segment in &plan.segments {
            assert_eq!(segment.first_token, next, "{tokens} tokens");
            next += segment.tokens;
            assert_eq!(segment.chunks, segment.tokens.div_ceil(64));
            assert!(segment.chunks <= plan.segment_chunks);
        }
        assert_eq!(next, tokens);
    }
}

#[test]
fn kind_11_a_prefill_takes_few_dispatches() {
    let plan = plan(paper(1, 16_384), LARGE);
    assert!(
        plan.segments.len() <= 16,
        "{} segments",
        plan.segments.len()
    );
}

#[test]
fn kind_12_grids_stay_within_a_dimension() {
    for groups in [0, 1, 65_535, 65_536, 70_000, 10_000_000] {
        let (x, y) = grid(groups);
        assert!(x <= MAX_GROUPS && y <= MAX_GROUPS, "{groups}");
        assert!(u64::from(x) * u64::from(y) >= groups as u64, "{groups}");
    }
}

#[test]
fn kind_16_sizes_beyond_a_binding_are_refused_not_wrapped() {
    // 2^33 values of v: their bytes overflow u32 twice.
    let error = Plan::new(paper(1, 1 << 22), Backbone::Decay, 64, Float::F32, LARGE)
        .expect_err("too large");
    assert!(error.is_unsupported(), "{error}");
    // A product that overflows 64 bits.
    let error = Plan::new(
        paper(1, usize::MAX / 64),
        Backbone::Decay,
        64,
        Float::F32,
        LARGE,
    )
    .expect_err("too large");
    assert!(error.is_input(), "{error}");
}

#[test]
fn kind_21_no_dispatch_nears_a_time_out() {
    let tokens = Plan::tokens_per_call(&paper(1, 1_000_000), 64, Float::F16, LARGE);
    let plan = plan(paper(1, tokens), LARGE);
    for segment in &plan.segments {
        assert!(segment.tokens <= MAX_DISPATCH_TOKENS);
        let read = 2 * segment.tokens as u64 * 48 * 30 * 128 * 64;
        assert!(read <= MAX_DISPATCH_FLOP, "{read} operations");
    }
}

#[test]
fn every_buffer_fits_the_binding() {
    for batch in [1, 2, 3] {
        let limits = Limits::PORTABLE;
        let tokens = Plan::tokens_per_call(&paper(batch, 1), 64, Float::F32, limits);
        assert!(tokens >= 64, "{tokens}");
        let result = Plan::new(
            paper(batch, tokens),
            Backbone::Decay,
            64,
            Float::F32,
            limits,
        );
        // Three caches of 47 MB do not fit 128 MiB: refused, with advice.
        match result {
            Ok(plan) => assert!(
                plan.arrays.states <= limits.max_binding
                    && plan.workspace.versions <= limits.max_binding
            ),
            Err(error) => assert!(
                batch == 3 && error.to_string().contains("split the batch"),
                "{error}"
            ),
        }
    }
}

#[test]
fn gradients_take_the_segments_of_the_forward_passes_and_fit_the_binding() {
    for (backbone, limits) in [
        (Backbone::Decay, LARGE),
        (Backbone::Delta, LARGE),
        (Backbone::Decay, Limits::PORTABLE),
    ] {
        let tokens = Plan::tokens_per_call(&paper(1, 1), 64, Float::F32, limits).min(16_384);
        let plan = BackwardPlan::new(paper(1, tokens), backbone, 64, Float::F16, limits)
            .unwrap_or_else(|error| panic!("{error}"));
        let segments = &plan.forward.segments;
        assert_eq!(segments.iter().map(|s| s.tokens).sum::<usize>(), tokens);
        let cells = plan.forward.segment_chunks as u64 * 48;
        assert_eq!(plan.workspace.state_gradients, cells * 30 * 128 * 64 * 4);
        assert!(plan.workspace.state_gradients <= limits.workspace);
        for segment in segments {
            let read = 2 * segment.tokens as u64 * 48 * 30 * 128 * 64;
            assert!(read <= MAX_DISPATCH_FLOP, "{read} operations");
        }
    }
}

#[test]
fn gradients_of_sizes_beyond_a_binding_are_refused() {
    let error = BackwardPlan::new(paper(1, 1 << 22), Backbone::Decay, 64, Float::F32, LARGE)
        .expect_err("too large");
    assert!(error.is_unsupported(), "{error}");
    let dims = Dims {
        heads: usize::MAX / 64,
        ..paper(1, 0)
    };
    let error = BackwardPlan::new(dims, Backbone::Delta, 64, Float::F32, LARGE);
    assert!(error.is_err());
}
