//! Models whose weights are no finite numbers: the device says so where it reads a text.

use dla_core::model::Rows;
use dla_core::{Model, Schedule};
use dla_tests::gpu::gpu;
use dla_wgpu::model::{self, Wanted};
use dla_wgpu::nn::WeightType;

use super::support::{Stored, with_dla};
use crate::models::{gated_delta, ids, mamba2};

#[test]
fn kind_65_weights_that_are_not_finite_end_a_reading() {
    let Some(gpu) = gpu() else { return };
    let last = Wanted::default();
    let wanted = [
        ("last", last),
        (
            "all",
            Wanted {
                logits: Rows::All,
                ..last
            },
        ),
        (
            "largest",
            Wanted {
                logits: Rows::None,
                top: 4,
                ..last
            },
        ),
        (
            "scores",
            Wanted {
                logits: Rows::None,
                traces: true,
                ..last
            },
        ),
    ];
    let configs = [mamba2().0, gated_delta().0].map(|plain| with_dla(plain, 4, Schedule::Dynamic));
    for config in configs {
        let sound = Stored::random(&config);
        let names = sound.0.keys().filter(|name| {
            // The norm before a mixer, its rates, and the first rows of all that is read.
            let parts = ["norm.weight", "A_log", "embeddings.weight"];
            parts.iter().any(|part| name.ends_with(part))
        });
        for (name, value) in names.flat_map(|name| [(name, f32::NAN), (name, f32::INFINITY)]) {
            let mut spoilt = sound.clone();
            spoilt.0.get_mut(name).expect("its own name").fill(value);
            let cpu = Model::build(&config, &mut spoilt.clone()).expect("weights");
            let reply = cpu.prefill(&mut cpu.session(), &ids(9), Rows::All);
            let load = model::Model::load(gpu, &config, &mut spoilt, WeightType::F32);
            let model = gpu.block_on(load).expect("weights");
            for (what, wanted) in &wanted {
                let mut batch = gpu.block_on(model.batch(1)).expect("a sequence");
                let taken = gpu.block_on(batch.run(&[&ids(9)], wanted));
                // What the last layers spoil has no part in the scores; both backends judge all logits alike.
                if *what == "scores" && taken.is_ok() {
                    assert!(!name.contains("embeddings"), "{name} of {value}");
                    continue;
                }
                let told = format!("{name} of {value}, {what}");
                match (&reply, taken) {
                    (Err(_), Err(error)) => assert!(error.is_diverged(), "{told}: {error}"),
                    (Ok(_), Ok(_)) => {}
                    (cpu, taken) => panic!("{told}: {cpu:?} and {taken:?}"),
                }
                assert!(value.is_infinite() || reply.is_err(), "{told}");
            }
        }
    }
}
