//! The operator's laws (`docs/algorithm.md` §9), each over random backbones, schedules and merge costs.

mod common;

use common::generate::{self, cases, online, schedules};
use common::{Case, assert_close, slice};
use dla_core::dla::bound::Costs;
use dla_core::dla::sequence::Sequence;
use dla_core::dla::{chunk, recurrent};
use dla_core::trace::{Judgement, judge};
use dla_core::{Backbone, Cache, Config, Dims, Norm, Output, Real, Schedule, Session};
use proptest::prelude::*;

fn forward<R: Real>(case: &Case<R>, cache: Option<&Cache<R>>) -> Output<R> {
    recurrent::forward(&case.dims, &case.config, &case.inputs(), cache).expect("a valid case")
}

fn chunked<R: Real>(case: &Case<R>, cache: Option<&Cache<R>>, size: usize) -> Output<R> {
    chunk::forward(&case.dims, &case.config, &case.inputs(), cache, size).expect("a valid case")
}

fn doubles<R: Real>(values: &[R]) -> Vec<f64> {
    values.iter().map(|x| x.to_f64()).collect()
}

/// The reference forced to the decisions of `output`, none of which may be wrong beyond the margin.
fn judged(case: &Case<f64>, output: &Output<impl Real>) -> Judgement<f64> {
    let decisions = &output.trace.decisions;
    let judgement = judge(&case.dims, &case.config, &case.inputs(), None, decisions)
        .expect("decisions of a run");
    if let Some(fault) = judgement.fault {
        panic!("{fault} ({:?}, {:?})", case.dims, case.config);
    }
    judgement
}

/// `got` is right: its decisions by the rule, its numbers as the reference's under these decisions.
///
/// Scores are uncapped under the norm `none`, and against a nearly erased state they are large
/// numbers with the rounding of ‖S‖²: ten times the limit.
fn assert_right<R: Real>(case: &Case<f64>, got: &Output<R>, limit: f64) {
    let expected = judged(case, got).output;
    assert_close("o", &got.o, &expected.o, limit);
    assert_close("states", &got.cache.states, &expected.cache.states, limit);
    assert_close(
        "info",
        &got.cache.info,
        &expected.cache.info,
        limit.max(1e-6),
    );
    let score: Vec<f64> = expected.trace.score.iter().map(|&x| x.into()).collect();
    assert_close("score", &got.trace.score, &score, (10.0 * limit).max(1e-6));
    assert_eq!(got.cache.n, expected.cache.n);
    assert_eq!(got.trace.count, expected.trace.count);
}

/// Runs a case in pieces, handing the cache on; gives the outputs in the whole's layout.
fn in_pieces(
    case: &Case<f64>,
    cuts: &[usize],
    run: impl Fn(&Case<f64>, Option<&Cache<f64>>) -> Output<f64>,
) -> Output<f64> {
    let mut whole = forward(&case.piece(0..0), None);
    let mut outputs = Vec::new();
    let mut start = 0;
    for end in cuts.iter().copied().chain([case.dims.tokens]) {
        let output = run(&case.piece(start..end), Some(&whole.cache));
        whole.cache = output.cache.clone();
        outputs.push((end - start, output));
        start = end;
    }
    for b in 0..case.dims.batch {
        for (tokens, output) in &outputs {
            let rows = |width: usize| b * tokens * width..(b + 1) * tokens * width;
            let (heads, trace) = (case.dims.heads, &output.trace);
            whole.o.extend(&output.o[rows(heads * case.dims.value_dim)]);
            whole.trace.score.extend(&trace.score[rows(heads)]);
            whole.trace.count.extend(&trace.count[rows(heads)]);
            let decisions = &mut whole.trace.decisions;
            decisions
                .boundary
                .extend(&trace.decisions.boundary[rows(heads)]);
            decisions
                .merge_at
                .extend(&trace.decisions.merge_at[rows(heads)]);
        }
    }
    whole.trace.non_finite = outputs.iter().map(|(_, o)| o.trace.non_finite).sum();
    whole
}

/// Two sorted cuts inside `tokens`.
fn cuts(case: &Case<f64>, at: (f64, f64)) -> [usize; 2] {
    let cut = |x: f64| (x * (case.dims.tokens + 1) as f64) as usize;
    [cut(at.0.min(at.1)), cut(at.0.max(at.1))]
}

/// The single-state backbone, written without the crate's operator: S over all tokens, qᵀS at each.
fn backbone(case: &Case<f64>, b: usize, h: usize) -> (Vec<Vec<f64>>, Vec<f64>) {
    let inputs = case.inputs();
    let sequence = Sequence::new(&case.dims, &inputs, b, h);
    let (dk, dv) = (case.dims.key_dim, case.dims.value_dim);
    let mut state = vec![0.0; dk * dv];
    let mut outputs = Vec::new();
    for t in 0..sequence.len() {
        let token = sequence.token(t);
        let erase = if case.config.backbone == Backbone::Delta {
            token.beta
        } else {
            0.0
        };
        for j in 0..dv {
            let w: f64 = (0..dk).map(|i| token.k[i] * state[i * dv + j]).sum();
            for i in 0..dk {
                let kept = state[i * dv + j] - erase * token.k[i] * w;
                state[i * dv + j] = token.g.exp() * kept + token.beta * token.k[i] * token.v[j];
            }
        }
        let read = |j: usize| (0..dk).map(|i| token.q[i] * state[i * dv + j]).sum();
        outputs.push((0..dv).map(read).collect());
    }
    (outputs, state)
}

/// `o` of every head is the backbone's.
fn assert_backbone(case: &Case<f64>, output: &Output<f64>, limit: f64) {
    let mut expected = vec![0.0; output.o.len()];
    for b in 0..case.dims.batch {
        for h in 0..case.dims.heads {
            for (t, o) in backbone(case, b, h).0.into_iter().enumerate() {
                let at = case.dims.token_head(b, t, h) * o.len();
                expected[at..at + o.len()].copy_from_slice(&o);
            }
        }
    }
    assert_close("o", &output.o, &expected, limit);
}

/// The schedule that could go on from what `schedule` leaves.
fn leaves(schedule: Schedule) -> Schedule {
    match schedule {
        Schedule::Offline => Schedule::Single,
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    #[test]
    fn law_01_chunkwise_is_recurrent(case in cases(schedules()), size in 1..70usize) {
        assert_right(&case, &chunked(&case, None, size), 1e-7);
    }

    #[test]
    fn law_01_chunkwise_is_recurrent_in_any_split(case in cases(online()), size in 1..20usize, at in (0.0..1.0f64, 0.0..1.0f64)) {
        let output = in_pieces(&case, &cuts(&case, at), |case, cache| chunked(case, cache, size));
        assert_right(&case, &output, 1e-7);
    }

    #[test]
    fn law_01_chunkwise_is_recurrent_in_f32(case in cases(schedules()), size in 1..70usize) {
        // Values that f32 holds exactly, so that both precisions see the same input.
        let single = case.cast::<f32>();
        let case = case_of(&single);
        assert_right(&case, &chunked(&single, None, size), 1e-3);
        assert_right(&case, &forward(&single, None), 1e-3);
    }

    #[test]
    fn law_02_unit_weights_give_the_backbone(mut case in cases(schedules()), size in 1..70usize) {
        case.lambda.fill(1.0);
        assert_backbone(&case, &forward(&case, None), 1e-9);
        assert_backbone(&case, &chunked(&case, None, size), 1e-7);
    }

    #[test]
    fn law_03_a_high_threshold_gives_a_single_state(mut case in cases(Just(Schedule::Dynamic)), infinite: bool) {
        case.config.norm = if infinite { case.config.norm } else { Norm::Rms };
        case.tau.fill(if infinite { f64::INFINITY } else { 2.0 + 1e-9 });
        let output = forward(&case, None);
        prop_assert!(output.trace.count.iter().all(|&count| count == 1));
        let mut single = case.clone();
        single.config.schedule = Schedule::Single;
        single.tau.clear();
        prop_assert_eq!(&output.o, &forward(&single, None).o);
    }

    #[test]
    fn law_03_capacity_one_is_a_single_state(case in cases(online()), seed: u64) {
        if case.config.schedule == Schedule::Fenwick {
            return Ok(()); // needs its levels
        }
        let dims = Dims { capacity: 1, ..case.dims };
        let mut case = generate::case(dims, case.config, 0.6, seed);
        case.lambda.fill(1.0);
        let output = forward(&case, None);
        prop_assert!(output.trace.count.iter().all(|&count| count == 1));
        for (i, &merge_at) in output.trace.decisions.merge_at.iter().enumerate() {
            let first = i % (dims.tokens * dims.heads) < dims.heads;
            let joins = !first && output.trace.decisions.boundary[i] == 1;
            prop_assert_eq!(merge_at, if joins { 0 } else { -1 });
        }
        assert_backbone(&case, &output, 1e-9);
    }

    #[test]
    fn law_04_a_zero_threshold_gives_every_token_its_state(mut case in cases(Just(Schedule::Dynamic)), seed: u64) {
        let dims = Dims { capacity: case.dims.tokens.max(1), ..case.dims };
        case = generate::case(dims, case.config, 0.0, seed);
        let output = forward(&case, None);
        prop_assert!(output.cache.n.iter().all(|&n| n == u32::from(dims.tokens > 0)));
        prop_assert!(output.trace.decisions.boundary.iter().all(|&boundary| boundary == 1));
    }

    #[test]
    fn law_05_merging_conserves(case in cases(schedules())) {
        let output = forward(&case, None);
        let Dims { tokens, capacity, .. } = case.dims;
        for i in 0..case.dims.sequences() {
            let (b, h) = (i / case.dims.heads, i % case.dims.heads);
            prop_assert_eq!(output.cache.position(&case.dims, i), tokens as u64);
            let size = case.dims.state_len();
            let states = &output.cache.states[i * capacity * size..(i + 1) * capacity * size];
            let sum: Vec<f64> = (0..size).map(|x| states.iter().skip(x).step_by(size).sum()).collect();
            assert_close("Σ S", &sum, &backbone(&case, b, h).1, 1e-9);
            let info: f64 = output.cache.info[i * capacity..(i + 1) * capacity].iter().sum();
            let scores = (0..tokens).map(|t| f64::from(output.trace.score[case.dims.token_head(b, t, h)]));
            let scores: f64 = scores.sum();
            prop_assert!((info - scores).abs() <= 1e-5 * (1.0 + scores));
        }
        prop_assert!(output.trace.count.iter().all(|&count| count as usize <= capacity));
        output.cache.check(&case.dims, leaves(case.config.schedule))?;
    }

    #[test]
    fn law_06_later_tokens_do_not_matter(case in cases(online()), size in 1..20usize, at in 0.0..1.0f64) {
        let cut = (at * (case.dims.tokens + 1) as f64) as usize;
        let prefix = case.piece(0..cut);
        let whole = forward(&case, None);
        prop_assert_eq!(slice(&case.dims, &whole.o, 0..cut), forward(&prefix, None).o);
        let whole = chunked(&case, None, size);
        let early = chunked(&prefix, None, size).o;
        assert_close("o", &slice(&case.dims, &whole.o, 0..cut), &early, 1e-12);
    }

    #[test]
    fn law_07_items_and_heads_are_independent(mut case in cases(schedules()), size in 1..20usize, at in 0.0..1.0f64) {
        let short = (at * (case.dims.tokens + 1) as f64) as usize;
        let mut lengths = vec![case.dims.tokens as u32; case.dims.batch];
        lengths[case.dims.batch - 1] = short as u32;
        case.lengths = Some(lengths);
        let (whole, chunks) = (forward(&case, None), chunked(&case, None, size));
        for b in 0..case.dims.batch {
            let item = case.item(b);
            assert_alone(&case, &whole, b, &forward(&item, None));
            assert_alone(&case, &chunks, b, &chunked(&item, None, size));
        }
    }

    #[test]
    fn law_08_restored_sessions_go_on_bit_for_bit(case in cases(online()), at in 0.0..1.0f64) {
        let cut = (at * (case.dims.tokens + 1) as f64) as usize;
        let single = case.cast::<f32>();
        let mut session = Session::new(single.dims, single.config)?;
        let first = session.feed(cut, &single.piece(0..cut).inputs())?;
        let mut restored = Session::<f32>::load(&session.save())?;
        prop_assert_eq!(&restored, &session);
        let rest = single.piece(cut..single.dims.tokens);
        let second = restored.feed(rest.dims.tokens, &rest.inputs())?;
        let whole = forward(&single, None);
        prop_assert_eq!(first.o, slice(&single.dims, &whole.o, 0..cut));
        prop_assert_eq!(second.o, slice(&single.dims, &whole.o, cut..single.dims.tokens));
        prop_assert_eq!(restored.cache(), &whole.cache);
    }

    #[test]
    fn law_09_a_reset_session_is_a_new_one(case in cases(online())) {
        let mut session = Session::new(case.dims, case.config)?;
        let first = session.feed(case.dims.tokens, &case.inputs())?;
        session.reset();
        prop_assert_eq!(&session, &Session::new(case.dims, case.config)?);
        prop_assert_eq!(session.feed(case.dims.tokens, &case.inputs())?, first);
    }

    #[test]
    fn law_10_fenwick_is_log_linear(case in cases(Just(Schedule::Fenwick)), size in 1..70usize) {
        let expected = log_linear(&case);
        assert_close("o", &forward(&case, None).o, &expected, 1e-9);
        assert_close("o", &chunked(&case, None, size).o, &expected, 1e-7);
    }

    #[test]
    fn law_11_no_partition_has_a_lower_bound_than_offline(case in cases(Just(Schedule::Dynamic))) {
        prop_assume!(case.dims.tokens > 0);
        let dynamic = forward(&case, None);
        let inputs = case.inputs();
        for i in 0..case.dims.sequences() {
            let (b, h) = (i / case.dims.heads, i % case.dims.heads);
            let costs = Costs::of(&Sequence::new(&case.dims, &inputs, b, h))?;
            let mut starts = vec![0];
            for &n in dynamic.cache.counts(&case.dims, i).iter().filter(|&&n| n > 0) {
                starts.push(starts[starts.len() - 1] + n as usize);
            }
            starts.pop();
            let best = costs.bound(&costs.best(case.dims.capacity));
            let greedy = costs.bound(&starts);
            prop_assert!(best <= greedy * (1.0 + 1e-9) + 1e-6, "{} > {}", best, greedy);
        }
    }
}

/// The double-precision case with exactly the values of a single-precision one.
fn case_of(single: &Case<f32>) -> Case<f64> {
    Case {
        seed: single.seed,
        dims: single.dims,
        config: single.config,
        q: doubles(&single.q),
        k: doubles(&single.k),
        v: doubles(&single.v),
        g: single.g.as_deref().map(doubles),
        beta: single.beta.as_deref().map(doubles),
        lambda: doubles(&single.lambda),
        tau: doubles(&single.tau),
        lengths: single.lengths.clone(),
    }
}

/// Sequence `b` of `whole` is what it gives alone, and zeros follow.
fn assert_alone(case: &Case<f64>, whole: &Output<f64>, b: usize, alone: &Output<f64>) {
    let rows = case.dims.tokens * case.dims.heads * case.dims.value_dim;
    let (live, rest) = whole.o[b * rows..(b + 1) * rows].split_at(alone.o.len());
    assert_eq!(live, alone.o);
    assert!(rest.iter().all(|&x| x == 0.0));
    let entries = case.dims.heads * case.dims.capacity;
    assert_eq!(whole.cache.n[b * entries..(b + 1) * entries], alone.cache.n);
    let values = entries * case.dims.state_len();
    assert_eq!(
        whole.cache.states[b * values..(b + 1) * values],
        alone.cache.states
    );
}

/// Log-Linear attention by its definition: every token keeps its own matrix; λ's index is the level
/// of t and s, 0 if s = t, else 1 + ⌊log2(t xor s)⌋.
fn log_linear(case: &Case<f64>) -> Vec<f64> {
    let (config, inputs) = (&case.config, case.inputs());
    let mut o = vec![0.0; case.dims.value_len()];
    for i in 0..case.dims.sequences() {
        let (b, h) = (i / case.dims.heads, i % case.dims.heads);
        let sequence = Sequence::new(&case.dims, &inputs, b, h);
        let mut matrices: Vec<Vec<f64>> = Vec::new();
        for t in 0..sequence.len() {
            let token = sequence.token(t);
            for matrix in &mut matrices {
                dla_core::backbone::transition(config.backbone, &token, matrix);
            }
            let mut own = vec![0.0; case.dims.state_len()];
            dla_core::backbone::contribution(config.backbone, &token, &mut own);
            matrices.push(own);
            let o = &mut o[sequence.at(t) * case.dims.value_dim..][..case.dims.value_dim];
            for (s, matrix) in matrices.iter().enumerate() {
                let level = (t ^ s).checked_ilog2().map_or(0, |log| 1 + log as usize);
                for (j, o) in o.iter_mut().enumerate() {
                    let column = matrix.iter().skip(j).step_by(case.dims.value_dim);
                    let read: f64 = token.q.iter().zip(column).map(|(q, x)| q * x).sum();
                    *o += sequence.lambda(t)[level] * read;
                }
            }
        }
    }
    o
}

/// The paper's corollary: where the contributions change at known points, the partition at these
/// points has a lower bound than every partition into equal blocks of the same number.
#[test]
fn corollary_aligned_boundaries_beat_fixed_blocks() {
    let changes = [0, 11, 19, 50];
    let dims = Dims {
        batch: 1,
        tokens: 64,
        heads: 1,
        groups: 1,
        key_dim: 4,
        value_dim: 4,
        capacity: 4,
    };
    let mut case = generate::case(dims, Config::new(Backbone::Plain), 0.6, 7);
    let mut random = generate::Random(3);
    for (i, &start) in changes.iter().enumerate() {
        let end = changes.get(i + 1).copied().unwrap_or(dims.tokens);
        let (k, v) = (random.normals(4), random.normals(4));
        for t in start..end {
            for x in 0..4 {
                case.k[t * 4 + x] = k[x] + 0.02 * random.normal();
                case.v[t * 4 + x] = v[x] + 0.02 * random.normal();
            }
        }
    }
    let inputs = case.inputs();
    let costs = Costs::of(&Sequence::new(&dims, &inputs, 0, 0)).expect("few tokens");
    let aligned = costs.bound(&changes);
    for block in 1..=dims.tokens {
        let starts: Vec<usize> = (0..dims.tokens).step_by(block).collect();
        if starts.len() <= changes.len() {
            assert!(aligned < costs.bound(&starts), "blocks of {block}");
        }
    }
    assert_eq!(costs.best(changes.len()), changes);
}

/// Where there are no tokens there is nothing to deviate, however many blocks are asked for.
#[test]
fn no_tokens_have_a_bound_of_zero() {
    let costs = Costs::new::<f64>(&[]).expect("few tokens");
    for starts in [&[][..], &[0]] {
        assert_eq!(costs.bound(starts), 0.0, "{starts:?}");
    }
    assert_eq!(costs.best(3), [0_usize; 0]);
}
