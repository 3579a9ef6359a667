//! The model on the device beside the model in plain Rust.

use std::collections::HashMap;

use dla_core::model::{
    Call, DlaConfig, GatedDeltaConfig, Mamba2Config, MixerConfig, ModelConfig, Rows, Weights,
};
use dla_core::{Config, Decisions, Model, Result, Schedule};
use dla_tests::gpu::{checked_gpu, gpu};
use dla_wgpu::Gpu;
use dla_wgpu::model::{self, Batch, Taken, Wanted};
use dla_wgpu::nn::WeightType;

use crate::models::{RandomWeights, attention, distance, gated_delta, ids, mamba2};

/// Tensors by name.
#[derive(Clone, Debug, Default)]
struct Stored(HashMap<String, Vec<f32>>);

impl Stored {
    fn random(config: &ModelConfig) -> Self {
        let mut weights = RandomWeights::default();
        Model::build(config, &mut weights).expect("weights for everything");
        let tensors = weights.tensors.into_iter();
        Self(tensors.map(|(name, _, values)| (name, values)).collect())
    }
}

impl Weights for Stored {
    type Tensor = Vec<f32>;

    fn tensor(&mut self, name: &str, _shape: &[usize]) -> Result<Vec<f32>> {
        Ok(self.0[name].clone())
    }
}

/// A model twice: in plain Rust and on the device.
struct Pair {
    name: &'static str,
    cpu: Model,
    gpu: model::Model,
}

impl Pair {
    fn new(gpu: &Gpu, name: &'static str, config: &ModelConfig) -> Self {
        let mut weights = Stored::random(config);
        let cpu = Model::build(config, &mut weights).expect("weights for everything");
        let load = model::Model::load(gpu, config, &mut weights, WeightType::F32);
        let gpu = gpu
            .block_on(load)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { name, cpu, gpu }
    }

    fn batch(&self, sequences: usize) -> Batch {
        let batch = self.gpu.gpu().block_on(self.gpu.batch(sequences));
        batch.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    fn run(&self, batch: &mut Batch, ids: &[&[u32]], wanted: &Wanted<'_>) -> Vec<Taken> {
        let taken = self.gpu.gpu().block_on(batch.run(ids, wanted));
        taken.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// One sequence in pieces, all logits, all traces.
    fn in_pieces(&self, ids: &[u32], pieces: &[usize]) -> Taken {
        let mut batch = self.batch(1);
        let mut all = Taken::default();
        let mut rest = ids;
        for &piece in pieces.iter().chain([&usize::MAX]) {
            let (now, later) = rest.split_at(piece.min(rest.len()));
            let [taken] = &self.run(&mut batch, &[now], &ALL)[..] else {
                panic!("one sequence")
            };
            append(&mut all, taken);
            rest = later;
        }
        assert_eq!(batch.position(0), ids.len() as u64);
        all
    }

    /// Holds what the device gave to the CPU's model under the same decisions.
    #[track_caller]
    fn check(&self, ids: &[u32], taken: &Taken) {
        let replay: Vec<_> = taken
            .traces
            .iter()
            .map(|trace| trace.decisions.clone())
            .collect();
        let call = Call {
            logits: Rows::All,
            replay: Some(&replay),
        };
        let reply = self
            .cpu
            .run(&mut self.cpu.session(), ids, &call)
            .expect("its decisions");
        let far = distance(&taken.logits, &reply.logits);
        assert!(far < 1e-4, "{}: logits are {far:.1e} away", self.name);
        for (layer, (got, want)) in taken.traces.iter().zip(&reply.traces).enumerate() {
            assert_eq!(got.count, want.count, "{}, layer {layer}", self.name);
            let scores = got.score.iter().zip(&want.score);
            for (at, (got, want)) in scores.enumerate() {
                let near = (got - want).abs() <= if *want > 0.02 { 1e-3 } else { 5e-3 };
                assert!(
                    near,
                    "{}, layer {layer}, score {at}: {got} for {want}",
                    self.name
                );
            }
        }
        let own = self.cpu.run(
            &mut self.cpu.session(),
            ids,
            &Call {
                logits: Rows::None,
                replay: None,
            },
        );
        let own = own.expect("valid ids");
        let parted = own.traces.iter().zip(&taken.traces);
        let parted: usize = parted
            .map(|(a, b)| differences(&a.decisions, &b.decisions))
            .sum();
        let all: usize = taken.traces.iter().map(|trace| trace.count.len()).sum();
        assert!(
            parted * 20 <= all,
            "{}: {parted} of {all} decisions differ",
            self.name
        );
    }
}

const ALL: Wanted<'static> = Wanted {
    logits: Rows::All,
    top: 0,
    traces: true,
    replay: None,
};

fn differences(a: &Decisions, b: &Decisions) -> usize {
    let boundaries = a.boundary.iter().zip(&b.boundary).filter(|(a, b)| a != b);
    boundaries.count()
}

fn append(all: &mut Taken, more: &Taken) {
    all.logits.extend(&more.logits);
    all.traces
        .resize(all.traces.len().max(more.traces.len()), Default::default());
    for (trace, more) in all.traces.iter_mut().zip(&more.traces) {
        trace.score.extend(&more.score);
        trace.decisions.boundary.extend(&more.decisions.boundary);
        trace.decisions.merge_at.extend(&more.decisions.merge_at);
        trace.count.extend(&more.count);
    }
}

fn with_dla(plain: ModelConfig, capacity: usize, schedule: Schedule) -> ModelConfig {
    let operator = Config {
        schedule,
        ..Config::new(plain.backbone())
    };
    let dla = Some(DlaConfig { capacity, operator });
    ModelConfig { dla, ..plain }
}

fn mamba2_with(change: impl FnOnce(&mut Mamba2Config)) -> ModelConfig {
    let (config, mut mixer) = mamba2();
    change(&mut mixer);
    ModelConfig {
        mixer: MixerConfig::Mamba2(mixer),
        ..config
    }
}

fn gated_delta_with(change: impl FnOnce(&mut GatedDeltaConfig)) -> ModelConfig {
    let (config, mut mixer) = gated_delta();
    change(&mut mixer);
    ModelConfig {
        mixer: MixerConfig::GatedDelta(mixer),
        ..config
    }
}

/// Every setting that a checkpoint may have, and every schedule.
fn settings() -> Vec<(&'static str, ModelConfig)> {
    let (mamba, delta) = (mamba2().0, gated_delta().0);
    let dynamic = |plain: &ModelConfig| with_dla(plain.clone(), 4, Schedule::Dynamic);
    let tied = |plain: &ModelConfig| ModelConfig {
        tied: true,
        ..plain.clone()
    };
    vec![
        ("mamba2", mamba.clone()),
        ("mamba2, dynamic", dynamic(&mamba)),
        ("mamba2, tied", dynamic(&tied(&mamba))),
        (
            "mamba2, fixed",
            with_dla(mamba.clone(), 3, Schedule::Fixed { block: 5 }),
        ),
        (
            "mamba2, fenwick",
            with_dla(mamba.clone(), 9, Schedule::Fenwick),
        ),
        (
            "mamba2, single",
            with_dla(mamba.clone(), 3, Schedule::Single),
        ),
        (
            "mamba2, no conv bias",
            dynamic(&mamba2_with(|m| m.conv_bias = false)),
        ),
        (
            "mamba2, conv width 3",
            dynamic(&mamba2_with(|m| m.conv_width = 3)),
        ),
        (
            "mamba2, conv width 1",
            dynamic(&mamba2_with(|m| m.conv_width = 1)),
        ),
        ("mamba2, bias", dynamic(&mamba2_with(|m| m.bias = true))),
        (
            "mamba2, dt clamped",
            dynamic(&mamba2_with(|m| m.dt_limit = [0.3, 0.6])),
        ),
        ("mamba2, one group", dynamic(&mamba2_with(|m| m.groups = 1))),
        (
            "mamba2, values of 4",
            dynamic(&mamba2_with(|m| m.head_dim = 8)),
        ),
        ("delta", delta.clone()),
        ("delta, dynamic", dynamic(&delta)),
        ("delta, tied", dynamic(&tied(&delta))),
        (
            "delta, fenwick",
            with_dla(delta.clone(), 9, Schedule::Fenwick),
        ),
        (
            "delta, no gate",
            dynamic(&gated_delta_with(|d| d.gate = false)),
        ),
        (
            "delta, negative",
            dynamic(&gated_delta_with(|d| d.negative_eigenvalues = true)),
        ),
        (
            "delta, a key head each",
            dynamic(&gated_delta_with(|d| d.key_heads = 6)),
        ),
    ]
}

fn every_setting(gpu: &Gpu, pieces: &[usize]) {
    for (name, config) in settings() {
        let pair = Pair::new(gpu, name, &config);
        let ids = ids(90);
        pair.check(&ids, &pair.in_pieces(&ids, pieces));
    }
}

#[test]
fn every_setting_equals_the_cpu() {
    let Some(gpu) = gpu() else { return };
    every_setting(gpu, &[]);
}

#[test]
fn every_setting_equals_the_cpu_with_checks_on_and_no_features() {
    let Some(gpu) = checked_gpu() else { return };
    every_setting(gpu, &[70, 1, 1, 0, 3]);
}

#[test]
fn kind_01_02_and_11_any_split_gives_the_same() {
    let Some(gpu) = gpu() else { return };
    for plain in [mamba2().0, gated_delta().0] {
        let pair = Pair::new(gpu, "splits", &with_dla(plain, 4, Schedule::Dynamic));
        let ids = ids(130);
        for pieces in [
            &[1][..],
            &[15, 1],
            &[16],
            &[17, 0, 63],
            &[64, 65],
            &[65, 1, 1],
            &[1; 20],
        ] {
            pair.check(&ids, &pair.in_pieces(&ids, pieces));
        }
        let long = crate::models::ids(600);
        pair.check(&long, &pair.in_pieces(&long, &[]));
    }
}

#[test]
fn kind_04_a_batch_of_unequal_lengths_equals_each_alone() {
    let Some(gpu) = gpu() else { return };
    for plain in [mamba2().0, gated_delta().0] {
        for schedule in [Schedule::Dynamic, Schedule::Fenwick] {
            let pair = Pair::new(gpu, "batch", &with_dla(plain.clone(), 9, schedule));
            let calls = [[37, 5, 0, 81], [1, 1, 1, 1], [0, 40, 2, 0]];
            let mut batch = pair.batch(4);
            let mut together = vec![Taken::default(); 4];
            let mut taken_in = vec![Vec::new(); 4];
            for lengths in calls {
                let pieces: Vec<Vec<u32>> = (0..4)
                    .map(|item| ids(100)[item + 3..][..lengths[item]].to_vec())
                    .collect();
                let slices: Vec<&[u32]> = pieces.iter().map(|ids| &ids[..]).collect();
                let taken = pair.run(&mut batch, &slices, &ALL);
                for item in 0..4 {
                    append(&mut together[item], &taken[item]);
                    taken_in[item].extend(&pieces[item]);
                }
            }
            for (together, ids) in together.iter().zip(&taken_in) {
                pair.check(ids, together);
            }
        }
    }
}

#[test]
fn kind_05_06_and_10_restored_rolled_back_and_reset() {
    let Some(gpu) = gpu() else { return };
    for (name, config) in settings()
        .into_iter()
        .filter(|(name, _)| name.contains(", d") || name.contains("fen"))
    {
        let pair = Pair::new(gpu, name, &config);
        let mut batch = pair.batch(2);
        let prompt = ids(37);
        pair.run(&mut batch, &[&prompt, &prompt[5..]], &ALL);
        let snapshot = gpu.block_on(batch.snapshot(1)).expect("a snapshot");
        let saved = gpu.block_on(batch.session(1)).expect("a session").save();
        let steps = |batch: &mut Batch| -> Vec<Taken> {
            let ids = ids(9);
            ids.iter()
                .map(|id| pair.run(batch, &[&[], &[*id]], &ALL).remove(1))
                .collect()
        };
        let want = steps(&mut batch);
        gpu.block_on(batch.rollback(1, &snapshot))
            .expect("its snapshot");
        assert_eq!(batch.position(1), 32, "{name}");
        assert_eq!(steps(&mut batch), want, "{name}: rolled back");
        let mut session = pair.cpu.session();
        session.load(&saved).expect("the host's layout");
        let mut restored = pair.batch(2);
        gpu.block_on(restored.restore(1, &session))
            .expect("its session");
        assert_eq!(
            gpu.block_on(restored.session(1)).expect("a session").save(),
            saved,
            "{name}"
        );
        assert_eq!(steps(&mut restored), want, "{name}: restored");
        gpu.block_on(batch.reset(1)).expect("a sequence");
        let mut new = pair.batch(2);
        let again = pair.run(&mut batch, &[&[], &prompt], &ALL);
        assert_eq!(
            again[1],
            pair.run(&mut new, &[&[], &prompt], &ALL)[1],
            "{name}: reset"
        );
        // The CPU goes on from where the device stopped.
        let gone_on = pair.cpu.run(
            &mut session,
            &ids(9),
            &Call {
                logits: Rows::All,
                replay: None,
            },
        );
        let logits: Vec<f32> = want.iter().flat_map(|taken| taken.logits.clone()).collect();
        let far = distance(&gone_on.expect("valid ids").logits, &logits);
        assert!(far < 1e-3, "{name}: on the CPU {far:.1e} away");
    }
}

#[test]
fn decisions_are_replayed() {
    let Some(gpu) = gpu() else { return };
    for plain in [mamba2().0, gated_delta().0] {
        let pair = Pair::new(gpu, "replay", &with_dla(plain, 4, Schedule::Dynamic));
        let ids = ids(60);
        let mut decisions = vec![Decisions::new(60 * 6); 2];
        for (layer, decisions) in decisions.iter_mut().enumerate() {
            for t in (0..60).step_by(layer + 2) {
                let full = t / (layer + 2) >= 4;
                decisions.boundary[t * 6..][..6].fill(1);
                decisions.merge_at[t * 6..][..6].fill(if full { (t % 3) as i32 } else { -1 });
            }
        }
        let mut batch = pair.batch(1);
        let cut = |decisions: &Decisions, tokens: std::ops::Range<usize>| Decisions {
            boundary: decisions.boundary[tokens.start * 6..tokens.end * 6].to_vec(),
            merge_at: decisions.merge_at[tokens.start * 6..tokens.end * 6].to_vec(),
        };
        let mut taken = Taken::default();
        for tokens in [0..37, 37..38, 38..60] {
            let part: Vec<_> = decisions.iter().map(|d| cut(d, tokens.clone())).collect();
            let wanted = Wanted {
                replay: Some(&[&part]),
                ..ALL
            };
            append(
                &mut taken,
                &pair.run(&mut batch, &[&ids[tokens]], &wanted)[0],
            );
        }
        let got: Vec<_> = taken
            .traces
            .iter()
            .map(|trace| trace.decisions.clone())
            .collect();
        assert_eq!(got, decisions);
        let call = Call {
            logits: Rows::All,
            replay: Some(&decisions),
        };
        let want = pair
            .cpu
            .run(&mut pair.cpu.session(), &ids, &call)
            .expect("possible decisions");
        assert!(distance(&taken.logits, &want.logits) < 1e-4);
        let wanted = Wanted {
            replay: Some(&[&decisions]),
            ..ALL
        };
        let error = gpu
            .block_on(batch.run(&[&ids[..7]], &wanted))
            .expect_err("60 tokens' decisions for 7");
        assert!(error.is_input(), "{error}");
    }
}

#[test]
fn kind_36_mistakes_are_told_and_leave_the_sequences_as_they_were() {
    let Some(gpu) = gpu() else { return };
    let pair = Pair::new(gpu, "mistakes", &with_dla(mamba2().0, 4, Schedule::Dynamic));
    let other = Pair::new(gpu, "another", &mamba2().0);
    let mut batch = pair.batch(2);
    pair.run(&mut batch, &[&ids(5), &ids(6)], &Wanted::default());
    for (ids, wanted) in [
        (&[&[1, 23][..], &[1]][..], Wanted::default()),
        (&[&[1], &[65_536 + 1]], Wanted::default()),
        (&[&[1], &[u32::MAX]], Wanted::default()),
        (&[&[1]], Wanted::default()),
        (
            &[&[1], &[1]],
            Wanted {
                top: 65,
                ..Wanted::default()
            },
        ),
    ] {
        let error = gpu
            .block_on(batch.run(ids, &wanted))
            .expect_err("a mistake");
        assert!(error.is_input(), "{error}");
    }
    let session = other.cpu.session();
    assert!(
        gpu.block_on(batch.restore(0, &session))
            .expect_err("another model's")
            .is_input()
    );
    assert!(
        gpu.block_on(batch.reset(2))
            .expect_err("two sequences")
            .is_input()
    );
    assert!(
        gpu.block_on(pair.gpu.batch(0))
            .expect_err("none")
            .is_input()
    );
    assert!(
        gpu.block_on(pair.gpu.batch(5000))
            .expect_err("too many")
            .is_input()
    );
    assert_eq!((batch.position(0), batch.position(1)), (5, 6));
    let after = pair.run(&mut batch, &[&[3], &[4]], &ALL);
    let mut untouched = pair.batch(2);
    pair.run(&mut untouched, &[&ids(5), &ids(6)], &Wanted::default());
    assert_eq!(pair.run(&mut untouched, &[&[3], &[4]], &ALL), after);
}

#[test]
fn softmax_attention_is_refused() {
    let Some(gpu) = gpu() else { return };
    let (config, mut weights) = (attention(), RandomWeights::default());
    let load = model::Model::load(gpu, &config, &mut weights, WeightType::F32);
    let error = gpu.block_on(load).expect_err("no passes");
    assert!(error.is_unsupported(), "{error}");
    assert!(
        weights.tensors.is_empty(),
        "refused before anything is read"
    );
}

#[test]
fn the_largest_logits_are_the_largest() {
    let Some(gpu) = gpu() else { return };
    let pair = Pair::new(gpu, "top", &with_dla(mamba2().0, 4, Schedule::Dynamic));
    for k in [1, 7, 64] {
        let mut batch = pair.batch(3);
        let wanted = Wanted {
            logits: Rows::Last,
            top: k,
            ..Wanted::default()
        };
        let taken = pair.run(&mut batch, &[&ids(300), &ids(1), &[]], &wanted);
        for taken in &taken[..2] {
            let mut pairs: Vec<_> = (0..).zip(taken.logits.iter().copied()).collect();
            pairs.sort_by(|a: &(u32, f32), b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            pairs.truncate(k);
            assert_eq!(taken.top, pairs);
        }
        assert_eq!(taken[2], Taken::default());
    }
}

#[test]
fn calls_are_recorded_into_the_hosts_encoder_before_any_is_submitted() {
    let Some(gpu) = gpu() else { return };
    let pair = Pair::new(
        gpu,
        "recorded",
        &with_dla(gated_delta().0, 4, Schedule::Dynamic),
    );
    let ids = ids(50);
    let mut batch = pair.batch(1);
    let mut encoder = gpu.device().create_command_encoder(&Default::default());
    let pieces = [&ids[..40], &ids[40..41], &ids[41..42], &ids[42..]];
    let pending: Vec<_> = pieces
        .iter()
        .map(|ids| pollster::block_on(batch.record(&mut encoder, &[*ids], &ALL)).expect("recorded"))
        .collect();
    gpu.queue().submit([encoder.finish()]);
    let mut all = Taken::default();
    for pending in pending {
        append(
            &mut all,
            &gpu.block_on(pending.taken()).expect("answers")[0],
        );
    }
    assert_eq!(all, pair.in_pieces(&ids, &[40, 1, 1]));
}
