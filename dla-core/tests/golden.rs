//! The recurrence gives the values of every golden case, at both precisions.

mod common;

use common::{Case, File, assert_close, case_names, golden};
use dla_core::dla::{chunk, recurrent};
use dla_core::{Inputs, Output, Real};

/// Compares every array that the expected file has.
fn compare<R: Real>(name: &str, output: &Output<R>, expected: &File, limit: f64) {
    let floats: [(&str, Vec<f64>); 4] = [
        ("o", output.o.iter().map(|x| x.to_f64()).collect()),
        (
            "states",
            output.cache.states.iter().map(|x| x.to_f64()).collect(),
        ),
        (
            "info",
            output.cache.info.iter().map(|x| x.to_f64()).collect(),
        ),
        (
            "score",
            output.trace.score.iter().map(|&x| f64::from(x)).collect(),
        ),
    ];
    for (array, got) in &floats {
        if let Some(expected) = expected.values(array) {
            assert_close(&format!("{name}/{array}"), got, expected, limit);
        }
    }
    if let Some(decisions) = expected.decisions() {
        assert_eq!(output.trace.decisions, decisions, "{name}/decisions");
    }
    let integers: [(&str, Vec<f64>); 2] = [
        ("n", output.cache.n.iter().map(|&x| f64::from(x)).collect()),
        (
            "count",
            output.trace.count.iter().map(|&x| f64::from(x)).collect(),
        ),
    ];
    for (array, got) in &integers {
        if let Some(expected) = expected.values(array) {
            assert_eq!(got, expected, "{name}/{array}");
        }
    }
}

/// Every case, decided by the rule where `decides(name)`, and with the file's decisions replayed.
fn every_case<R: Real>(limit: f64, decides: impl Fn(&str) -> bool) {
    let names = case_names(&golden("op"));
    assert!(!names.is_empty());
    for name in names {
        let file = |suffix: &str| File::read(&golden("op").join(format!("{name}{suffix}")));
        let expected = file(".expected.safetensors");
        let case = Case::<R>::from_file(&file(".safetensors"));
        let forward = |inputs: &Inputs<'_, R>| {
            recurrent::forward(&case.dims, &case.config, inputs, None)
                .unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        if decides(&name) {
            compare(&name, &forward(&case.inputs()), &expected, limit);
        }
        if let Some(decisions) = expected.decisions() {
            let replay = Inputs {
                replay: Some(&decisions),
                ..case.inputs()
            };
            compare(&name, &forward(&replay), &expected, limit);
        }
    }
}

#[test]
fn golden_op_f64() {
    every_case::<f64>(1e-6, |_| true);
}

/// In `ties` all densities are √2 up to rounding, so `f32` may pick other pairs: there only the replay counts.
#[test]
fn golden_op_f32() {
    every_case::<f32>(1e-4, |name| name != "ties");
}

/// The chunkwise form gives the golden values too, whole and in ragged chunks.
#[test]
fn golden_op_chunked() {
    for name in case_names(&golden("op")) {
        let file = |suffix: &str| File::read(&golden("op").join(format!("{name}{suffix}")));
        let expected = file(".expected.safetensors");
        let case = Case::<f64>::from_file(&file(".safetensors"));
        let decisions = expected.decisions();
        let replay = Inputs {
            replay: decisions.as_ref().filter(|_| name == "ties"),
            ..case.inputs()
        };
        for size in [1, 7, 16, 64, 256] {
            let output = chunk::forward(&case.dims, &case.config, &replay, None, size)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            compare(&format!("{name}/chunk {size}"), &output, &expected, 1e-6);
        }
    }
}
