//! The device gives what plain Rust gives.

use dla_core::checkpoint::Checkpoint;
use dla_core::model::{Call, MixerConfig, Rows};
use dla_core::tensors::TensorFile;
use dla_core::{Model, Schedule};
use dla_tests::gpu::{checked_gpu, gpu};
use dla_wgpu::Gpu;
use dla_wgpu::model::{self, Taken, Wanted};
use dla_wgpu::nn::WeightType;

use super::support::{ALL, Pair, Stored, append, settings, with_dla};
use crate::models::{distance, gated_delta, ids, mamba2};

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

/// Values of 512, as in published Gated DeltaNets of 1.3 B parameters.
#[test]
fn wide_values_equal_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let (mut config, mut mixer) = gated_delta();
    (mixer.key_heads, mixer.value_heads, mixer.value_dim) = (1, 2, 512);
    config.mixer = MixerConfig::GatedDelta(mixer);
    for config in [config.clone(), with_dla(config, 3, Schedule::Dynamic)] {
        let pair = Pair::new(gpu, "wide values", &config);
        let ids = ids(40);
        pair.check(&ids, &pair.in_pieces(&ids, &[30, 1, 1]));
    }
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

/// ‖got − want‖ / ‖want‖ that f32 may cost on the way through a whole model.
const GOLDEN: f64 = 1e-4;

#[test]
fn golden_logits_whole_and_stepped_on_two_devices() {
    for gpu in [gpu(), checked_gpu()].into_iter().flatten() {
        for name in ["mamba2_groups", "gdn_fla"] {
            let folder = format!("{}/golden/model/{name}", env!("CARGO_MANIFEST_DIR"));
            let checkpoint = Checkpoint::open(folder.as_ref()).expect("a golden model");
            let mut weights = checkpoint.weights().expect("sound tensors");
            let load = model::Model::load(gpu, checkpoint.config(), &mut weights, WeightType::F32);
            let model = gpu.block_on(load).expect("a small model");
            let file = TensorFile::read(format!("{folder}/ref.safetensors").as_ref());
            let file = file.expect("a golden file");
            let ids = file.require("input_ids").expect("ids");
            let [batch, tokens] = ids.sizes("[B, T]").expect("a batch");
            let ids = ids.values::<i64>("[B, T]", &[batch, tokens]).expect("i64");
            let ids: Vec<u32> = ids.into_iter().map(|id| id as u32).collect();
            let sequences: Vec<&[u32]> = ids.chunks(tokens).collect();
            let want = file.require("logits").expect("logits");
            let want = want.values::<f32>("", want.shape()).expect("f32");
            for prefill in [tokens, tokens / 2] {
                let mut rows = gpu.block_on(model.batch(batch)).expect("a batch");
                let mut logits = vec![Vec::new(); batch];
                let steps = (prefill..tokens).map(|t| t..t + 1);
                for piece in std::iter::once(0..prefill).chain(steps) {
                    let pieces: Vec<&[u32]> =
                        sequences.iter().map(|ids| &ids[piece.clone()]).collect();
                    let taken = gpu.block_on(rows.run(&pieces, &ALL)).expect("valid ids");
                    for (logits, taken) in logits.iter_mut().zip(taken) {
                        logits.extend(taken.logits);
                    }
                }
                let far = distance(&logits.concat(), &want);
                assert!(far < GOLDEN, "{name}, {prefill} at once: {far:.1e} away");
            }
        }
    }
}

#[test]
fn weights_in_fewer_bits_are_the_rounded_weights() {
    let Some(gpu) = gpu() else { return };
    for plain in [mamba2().0, gated_delta().0] {
        let config = with_dla(plain, 4, Schedule::Dynamic);
        let stored = Stored::random(&config);
        let exact = Model::build(&config, &mut stored.clone()).expect("weights");
        for (weight_type, most) in [(WeightType::F16, 2e-2), (WeightType::I8, 2e-1)] {
            let rounded = stored.rounded(&config, weight_type);
            let cpu = Model::build(&config, &mut rounded.clone()).expect("weights");
            let mut source = stored.clone();
            let load = model::Model::load(gpu, &config, &mut source, weight_type);
            let gpu = gpu.block_on(load).expect("finite weights");
            let pair = Pair {
                name: "rounded weights",
                cpu,
                gpu,
            };
            let taken = pair.in_pieces(&ids(50), &[40, 1]);
            pair.check(&ids(50), &taken);
            let replay: Vec<_> = taken
                .traces
                .iter()
                .map(|trace| trace.decisions.clone())
                .collect();
            let call = Call {
                logits: Rows::All,
                traces: true,
                replay: Some(&replay),
            };
            let want = exact
                .run(&mut exact.session(), &ids(50), &call)
                .expect("its decisions");
            let far = distance(&taken.logits, &want.logits);
            assert!(far < most, "{weight_type:?} is {far:.1e} away from f32");
        }
    }
}
