//! Sequences kept, rolled back, replayed, refused and recorded by the host.

use dla_core::dla::schedule;
use dla_core::model::{Call, ModelSession, Rows};
use dla_core::{Decisions, Dims, Schedule};
use dla_tests::gpu::gpu;
use dla_wgpu::model::{self, Batch, BlockSpecs, Taken, Wanted};
use dla_wgpu::nn::WeightType;

use super::support::{ALL, Pair, Stored, append, gated_delta_with, settings, with_dla};
use crate::models::{distance, gated_delta, ids, mamba2};

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
        let again = gpu.block_on(batch.session(1)).expect("a session").save();
        assert_eq!(gpu.block_on(batch.save(1)), Ok(again), "{name}");
        gpu.block_on(restored.load(1, &saved)).expect("saved bytes");
        let mut changed = saved.clone();
        changed[saved.len() / 2] ^= 1;
        let error = gpu.block_on(restored.load(1, &changed));
        assert!(error.is_err_and(|error| error.is_file()), "{name}");
        assert_eq!(steps(&mut restored), want, "{name}: loaded");
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
                traces: true,
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
        let mut taken = Taken::default();
        for tokens in [0..37, 37..38, 38..60] {
            let part: Vec<_> = decisions
                .iter()
                .map(|d| d.part(6, tokens.clone()))
                .collect();
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
            traces: true,
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

/// Schedules of positions go on from what replayed decisions left, in each layer and head.
#[test]
fn what_comes_after_replayed_decisions_follows_from_their_states() {
    let Some(gpu) = gpu() else { return };
    let (ids, replayed) = (ids(37), 20);
    for schedule in [
        Schedule::Single,
        Schedule::Fixed { block: 3 },
        Schedule::Fenwick,
    ] {
        let config = with_dla(mamba2().0, 8, schedule);
        let pair = Pair::new(gpu, "after replay", &config);
        let heads = config.dims().heads;
        let mut decisions = vec![Decisions::new(replayed * heads); config.layers];
        if schedule == Schedule::Fenwick {
            let dims = Dims {
                tokens: replayed,
                ..config.dims()
            };
            let (own, _) = schedule::decide(&dims, &config.operator(), None, None).expect("levels");
            decisions.fill(own);
        } else {
            for (layer, decisions) in decisions.iter_mut().enumerate() {
                for entry in 0..replayed * heads {
                    let (t, every) = (entry / heads, layer + 5 + entry % heads);
                    decisions.boundary[entry] = u8::from(t % every == 0);
                }
            }
        }
        let mut session = pair.cpu.session();
        let call = Call {
            logits: Rows::All,
            traces: true,
            replay: Some(&decisions),
        };
        let run = pair.cpu.run(&mut session, &ids[..replayed], &call);
        run.expect("possible decisions");
        let call = Call {
            logits: Rows::All,
            traces: true,
            replay: None,
        };
        let want = pair.cpu.run(&mut session, &ids[replayed..], &call);
        let want = want.expect("valid ids");
        let mut batch = pair.batch(1);
        let wanted = Wanted {
            replay: Some(&[&decisions]),
            ..ALL
        };
        pair.run(&mut batch, &[&ids[..replayed]], &wanted);
        // Kept and put back, the same.
        let snapshot = gpu.block_on(batch.snapshot(0)).expect("a snapshot");
        let saved = gpu.block_on(batch.session(0)).expect("a session");
        let got = pair.run(&mut batch, &[&ids[replayed..]], &ALL).remove(0);
        for (got, want) in got.traces.iter().zip(&want.traces) {
            assert_eq!(got.decisions, want.decisions, "{schedule:?}");
            assert_eq!(got.count, want.count, "{schedule:?}");
        }
        let far = distance(&got.logits, &want.logits);
        assert!(far < 1e-4, "{schedule:?}: {far:.1e} away");
        gpu.block_on(batch.rollback(0, &snapshot))
            .expect("its snapshot");
        let again = pair.run(&mut batch, &[&ids[replayed..]], &ALL).remove(0);
        assert_eq!(again, got, "{schedule:?}: rolled back");
        let mut other = pair.batch(1);
        gpu.block_on(other.restore(0, &saved)).expect("its session");
        let again = pair.run(&mut other, &[&ids[replayed..]], &ALL).remove(0);
        assert_eq!(again, got, "{schedule:?}: restored");
    }
}

/// Token counts have 32 bits.
#[test]
fn more_tokens_than_can_be_counted_are_refused() {
    let Some(gpu) = gpu() else { return };
    let (config, most) = (mamba2().0, u32::MAX);
    let pair = Pair::new(gpu, "counts", &config);
    let mut session = pair.cpu.session();
    pair.cpu.step(&mut session, 1).expect("an id");
    let mut layers = session.layers().to_vec();
    for layer in &mut layers {
        std::sync::Arc::make_mut(&mut layer.cache).n.fill(most - 1);
    }
    let session = ModelSession::from_layers(&config, u64::from(most) - 1, layers);
    let mut batch = pair.batch(1);
    let restored = batch.restore(0, session.as_ref().expect("a session"));
    gpu.block_on(restored).expect("its session");
    let error = gpu.block_on(batch.run(&[&[1, 2]], &Wanted::default()));
    let error = error.expect_err("one too many");
    assert!(
        error.is_input() && error.to_string().contains("2^32"),
        "{error}"
    );
    pair.run(&mut batch, &[&[1]], &Wanted::default());
    assert_eq!(batch.position(0), u64::from(most));
}

/// Rows of many sequences side by side are cut into pieces that the device can bind.
#[test]
fn pieces_are_as_long_as_the_device_can_bind() {
    let Some(gpu) = gpu() else { return };
    let config = gated_delta().0;
    let pair = Pair::new(gpu, "pieces", &config);
    let row = BlockSpecs::of(&config).widest(&config) as u64 * 4;
    let sequences =
        (gpu.device().limits().max_storage_buffer_binding_size / (256 * row) + 1) as usize;
    if sequences > 4096 {
        println!("SKIP: pieces of a wide batch, {sequences} sequences would be needed");
        return;
    }
    let mut batch = pair.batch(sequences);
    let wanted = Wanted {
        logits: Rows::None,
        ..Wanted::default()
    };
    let prepared = gpu.block_on(batch.dispatches(256, &wanted));
    assert!(!prepared.expect("shorter pieces").is_empty());
}

#[test]
fn what_no_batch_can_run_is_refused_before_anything_is_read() {
    let Some(gpu) = gpu() else { return };
    let wide = gated_delta_with(|delta| delta.conv_width = 9);
    let mut none = Stored::default();
    let load = model::Model::load(gpu, &wide, &mut none, WeightType::F32);
    let error = gpu.block_on(load).expect_err("a convolution of 9");
    assert!(
        error.is_unsupported() && error.argument() == "width",
        "{error}"
    );
}

/// Log-linear attention ends where its levels do, as on the CPU, and may go on to that token.
#[test]
fn more_tokens_than_levels_are_refused() {
    let Some(gpu) = gpu() else { return };
    let config = with_dla(mamba2().0, 4, Schedule::Fenwick);
    let pair = Pair::new(gpu, "levels", &config);
    let mut batch = pair.batch(1);
    let ids = ids(9);
    pair.run(&mut batch, &[&ids[..7]], &Wanted::default());
    let (rest, wanted) = ([&ids[7..]], Wanted::default());
    let run = gpu.block_on(batch.run(&rest, &wanted));
    let error = run.expect_err("9 tokens need 5 levels");
    assert!(
        error.is_input() && error.argument() == "capacity",
        "{error}"
    );
    assert_eq!(batch.position(0), 7);
    pair.run(&mut batch, &[&ids[7..8]], &Wanted::default());
    let call = Call {
        logits: Rows::None,
        traces: true,
        replay: None,
    };
    let cpu = pair.cpu.run(&mut pair.cpu.session(), &ids, &call);
    assert_eq!(cpu.expect_err("the same").to_string(), error.to_string());
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
