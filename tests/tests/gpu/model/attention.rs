//! Softmax attention on the device: keys and values of every token are kept, in room that grows.

use dla_core::model::{
    AttentionConfig, Call, DlaConfig, MixerConfig, ModelConfig, ModelSession, Rows,
};
use dla_core::{Config, Decisions, Model};
use dla_tests::gpu::{checked_gpu, gpu, gpus};
use dla_wgpu::Gpu;
use dla_wgpu::model::{self, Batch, Taken, Wanted};
use dla_wgpu::nn::WeightType;

use super::support::{ALL, Pair, Stored, append};
use crate::models::{RandomWeights, attention, distance, ids};

/// Greatest relative rms of logits; f32 costs a tenth of it.
const NEAR: f64 = 1e-5;

const EVERY: Call<'static> = Call {
    logits: Rows::All,
    traces: true,
    replay: None,
};

fn with(heads: usize, head_dim: usize, conv_width: usize) -> ModelConfig {
    let mixer = AttentionConfig {
        heads,
        head_dim,
        conv_width,
        intermediate: 20,
    };
    ModelConfig {
        mixer: MixerConfig::Attention(mixer),
        ..attention()
    }
}

fn pair(gpu: &Gpu, config: &ModelConfig) -> Pair {
    Pair::new(gpu, "attention", config)
}

/// The logits of every token in plain Rust, and the session after them.
fn on_cpu(model: &Model, ids: &[u32]) -> (Vec<f32>, ModelSession) {
    let mut session = model.session();
    let reply = model.run(&mut session, ids, &EVERY).expect("valid ids");
    (reply.logits, session)
}

#[track_caller]
fn near(name: &str, got: &[f32], want: &[f32]) {
    let far = distance(got, want);
    assert!(far < NEAR, "{name}: {far:.1e} away");
}

/// Single tokens of sequence `item` of two; the logits of each.
fn steps(pair: &Pair, batch: &mut Batch, item: usize, ids: &[u32]) -> Vec<f32> {
    let step = |id: &u32| {
        let mut pieces: [&[u32]; 2] = [&[], &[]];
        pieces[item] = std::slice::from_ref(id);
        pair.run(batch, &pieces, &ALL).remove(item).logits
    };
    ids.iter().flat_map(step).collect()
}

/// Around the borders of tiles and of room, whole and in pieces.
#[test]
fn attention_equals_the_cpu_at_every_length() {
    for gpu in gpus() {
        let pair = pair(gpu, &attention());
        for length in [1, 16, 17, 255, 256, 257, 600] {
            let ids = ids(length);
            let (want, _) = on_cpu(&pair.cpu, &ids);
            let length = length as usize;
            for pieces in [&[][..], &[length - 1], &[length / 2, 1, 1, 0, 1]] {
                let taken = pair.in_pieces(&ids, pieces);
                near(&format!("{length} in {pieces:?}"), &taken.logits, &want);
            }
        }
    }
}

#[test]
fn attention_of_other_sizes_equals_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let tied = ModelConfig {
        tied: true,
        ..with(1, 128, 3)
    };
    // Settings of states change nothing.
    let operator = Config::new(attention().backbone());
    let dla = Some(DlaConfig {
        capacity: 9,
        operator,
    });
    let ignored = ModelConfig { dla, ..attention() };
    for config in [with(2, 33, 4), with(5, 1, 1), tied, ignored] {
        let pair = pair(gpu, &config);
        let ids = ids(90);
        let (want, _) = on_cpu(&pair.cpu, &ids);
        for pieces in [&[][..], &[70, 1, 1]] {
            let name = format!("{:?} in {pieces:?}", config.mixer);
            near(&name, &pair.in_pieces(&ids, pieces).logits, &want);
        }
    }
}

/// One token after another from the first, over two growths.
#[test]
fn kind_01_attention_step_by_step_equals_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let pair = pair(gpu, &attention());
    let ids = ids(520);
    let (want, _) = on_cpu(&pair.cpu, &ids);
    near("steps", &pair.in_pieces(&ids, &[1; 520]).logits, &want);
}

#[test]
fn kind_04_a_batch_of_attention_of_unequal_lengths_equals_each_alone() {
    for gpu in gpus() {
        let pair = pair(gpu, &attention());
        let calls = [
            [37, 5, 0, 281],
            [1, 1, 1, 1],
            [0, 40, 2, 0],
            [1, 0, 300, 1],
            [1, 1, 1, 1],
        ];
        let mut batch = pair.batch(4);
        let mut together = vec![Taken::default(); 4];
        let mut taken_in = vec![Vec::new(); 4];
        for lengths in calls {
            let piece = |item: usize| ids(310)[item + 3..][..lengths[item]].to_vec();
            let pieces: Vec<Vec<u32>> = (0..4).map(piece).collect();
            let slices: Vec<&[u32]> = pieces.iter().map(|ids| &ids[..]).collect();
            let taken = pair.run(&mut batch, &slices, &ALL);
            for item in 0..4 {
                append(&mut together[item], &taken[item]);
                taken_in[item].extend(&pieces[item]);
            }
        }
        for (item, (together, ids)) in together.iter().zip(&taken_in).enumerate() {
            let (want, _) = on_cpu(&pair.cpu, ids);
            near(&format!("sequence {item}"), &together.logits, &want);
        }
    }
}

#[test]
fn attention_with_weights_in_fewer_bits_is_that_of_the_rounded_weights() {
    let Some(gpu) = gpu() else { return };
    let config = attention();
    let stored = Stored::random(&config);
    let exact = Model::build(&config, &mut stored.clone()).expect("weights");
    for (weight_type, most) in [(WeightType::F16, 2e-2), (WeightType::I8, 2e-1)] {
        let mut rounded = stored.rounded(&config, weight_type);
        let cpu = Model::build(&config, &mut rounded).expect("weights");
        let mut source = stored.clone();
        let load = model::Model::load(gpu, &config, &mut source, weight_type);
        let gpu = gpu.block_on(load).expect("finite weights");
        let name = "rounded weights";
        let pair = Pair { name, cpu, gpu };
        let taken = pair.in_pieces(&ids(50), &[40, 1]);
        near(name, &taken.logits, &on_cpu(&pair.cpu, &ids(50)).0);
        let far = distance(&taken.logits, &on_cpu(&exact, &ids(50)).0);
        assert!(far < most, "{weight_type:?} is {far:.1e} away from f32");
    }
}

/// A snapshot from before a growth comes back after it, and one from after it into a batch that has not grown.
#[test]
fn kind_05_06_and_10_attention_rolled_back_over_a_growth_and_reset() {
    for gpu in gpus() {
        let pair = pair(gpu, &attention());
        let long = ids(400);
        let mut batch = pair.batch(2);
        pair.run(&mut batch, &[&long[..20], &long[..250]], &ALL);
        let early = gpu.block_on(batch.snapshot(1)).expect("a snapshot");
        let first = steps(&pair, &mut batch, 1, &long[250..270]);
        pair.run(&mut batch, &[&[], &long[270..390]], &ALL);
        let late = gpu.block_on(batch.snapshot(1)).expect("a snapshot");
        let last = steps(&pair, &mut batch, 1, &long[390..]);
        let (want, _) = on_cpu(&pair.cpu, &long);
        near(
            "before a growth and over it",
            &first,
            &want[250 * 23..270 * 23],
        );
        near("after it", &last, &want[390 * 23..]);
        let rollback = gpu.block_on(batch.rollback(1, &early));
        rollback.expect("its snapshot");
        assert_eq!(batch.position(1), 250);
        let again = steps(&pair, &mut batch, 1, &long[250..270]);
        near("rolled back", &again, &first);
        let mut new = pair.batch(2);
        let rollback = gpu.block_on(new.rollback(0, &late));
        rollback.expect("a snapshot of this model");
        assert_eq!(new.position(0), 390);
        assert_eq!(steps(&pair, &mut new, 0, &long[390..]), last);
        // The other sequence went along unharmed.
        let other = steps(&pair, &mut batch, 0, &long[20..25]);
        near("the other sequence", &other, &want[20 * 23..25 * 23]);
        gpu.block_on(batch.reset(1)).expect("a sequence");
        assert_eq!(batch.position(1), 0);
        let new = pair.run(&mut batch, &[&[], &long[..300]], &ALL);
        near("reset", &new[1].logits, &want[..300 * 23]);
    }
}

#[test]
fn an_attention_session_goes_to_the_cpu_and_comes_back() {
    let Some(gpu) = gpu() else { return };
    let pair = pair(gpu, &attention());
    for length in [0, 5, 300] {
        let all = ids(310);
        let (before, after) = (&all[..length], &all[length..length + 9]);
        let mut batch = pair.batch(2);
        pair.run(&mut batch, &[&all[..3], before], &ALL);
        let mut session = gpu.block_on(batch.session(1)).expect("a session");
        let (_, want) = on_cpu(&pair.cpu, before);
        assert_eq!(session.position(), length as u64);
        for (got, want) in session.layers().iter().zip(want.layers()) {
            if length > 0 {
                near("keys", &got.keys, &want.keys);
                near("values", &got.values, &want.values);
            }
            assert_eq!(got.cache, want.cache);
        }
        let saved = session.save();
        let mut new = pair.batch(2);
        gpu.block_on(new.restore(0, &session)).expect("its session");
        assert_eq!(new.position(0), length as u64);
        let again = gpu.block_on(new.session(0)).expect("a session").save();
        assert_eq!(again, saved, "{length} tokens");
        let want = steps(&pair, &mut batch, 1, after);
        assert_eq!(steps(&pair, &mut new, 0, after), want, "{length} tokens");
        let on = pair.cpu.run(&mut session, after, &EVERY);
        near("on the CPU", &want, &on.expect("valid ids").logits);
    }
}

#[test]
fn attention_is_recorded_into_the_hosts_encoder_over_a_growth() {
    let Some(gpu) = gpu() else { return };
    let pair = pair(gpu, &attention());
    let ids = ids(300);
    let mut batch = pair.batch(1);
    let mut encoder = gpu.device().create_command_encoder(&Default::default());
    let pieces = [&ids[..254], &ids[254..255], &ids[255..298], &ids[298..]];
    let record = |ids| pollster::block_on(batch.record(&mut encoder, &[ids], &ALL));
    let pending: Vec<_> = pieces.map(record).into_iter().collect();
    gpu.queue().submit([encoder.finish()]);
    let mut all = Taken::default();
    for pending in pending {
        let taken = gpu.block_on(pending.expect("recorded").taken());
        append(&mut all, &taken.expect("answers")[0]);
    }
    near("recorded", &all.logits, &on_cpu(&pair.cpu, &ids).0);
}

#[test]
fn attention_tells_of_no_states_and_follows_no_decisions() {
    let Some(gpu) = gpu() else { return };
    let pair = pair(gpu, &attention());
    let mut batch = pair.batch(1);
    let taken = pair.run(&mut batch, &[&ids(20)], &ALL).remove(0);
    assert!(taken.traces.is_empty() && taken.lambda.is_empty());
    assert!(pair.gpu.tau(0).is_empty());
    let decisions = vec![Decisions::new(3); 2];
    let wanted = Wanted {
        replay: Some(&[&decisions]),
        ..ALL
    };
    let run = gpu.block_on(batch.run(&[&[1]], &wanted));
    let error = run.expect_err("no states");
    assert!(error.is_input() && error.argument() == "replay", "{error}");
    assert_eq!(batch.position(0), 20);
}

#[test]
fn wider_heads_than_the_passes_take_are_refused_before_anything_is_read() {
    let Some(gpu) = gpu() else { return };
    let mut weights = RandomWeights::default();
    let config = with(1, 129, 4);
    let load = model::Model::load(gpu, &config, &mut weights, WeightType::F32);
    let error = gpu.block_on(load).expect_err("at most 128");
    assert!(
        error.is_unsupported() && error.argument() == "width",
        "{error}"
    );
    assert!(weights.tensors.is_empty());
}

/// So many sequences that each has room for few tokens.
#[test]
fn kind_15_attention_that_outgrows_the_device_is_refused_and_nothing_is_lost() {
    let Some(gpu) = checked_gpu() else { return };
    let config = ModelConfig {
        layers: 1,
        ..with(1, 16, 4)
    };
    let pair = pair(gpu, &config);
    // 128 bytes a token, 256 KiB a token of all.
    let sequences = 2048;
    let most = (128 << 20) / (sequences * 128);
    let mut batch = pair.batch(sequences);
    let long = ids(most as u32 + 1);
    let mut run = |piece: &[u32]| {
        let mut pieces: Vec<&[u32]> = vec![&[]; sequences];
        pieces[sequences - 1] = piece;
        let wanted = Wanted::default();
        let run = gpu.block_on(batch.run(&pieces, &wanted));
        let position = batch.position(sequences - 1);
        (
            run.map(|mut taken| taken.pop().expect("a sequence")),
            position,
        )
    };
    run(&long[..5]).0.expect("room for five");
    let (error, position) = run(&long[5..]);
    let error = error.expect_err("too many");
    assert!(error.is_unsupported(), "{error}");
    assert!(
        error
            .to_string()
            .contains(&format!("at most {most} tokens")),
        "{error}"
    );
    assert_eq!(position, 5);
    let (taken, _) = run(&long[5..6]);
    let (want, _) = on_cpu(&pair.cpu, &long[..6]);
    near(
        "after",
        &taken.expect("room for six").logits,
        &want[5 * 23..],
    );
}
