//! What the operator refuses, and that the error names the argument.

mod common;

use common::{Case, generate};
use dla_core::dla::{chunk, recurrent};
use dla_core::{Backbone, Cache, Config, Decisions, Dims, Inputs, Schedule};

const DIMS: Dims = Dims {
    batch: 2,
    tokens: 6,
    heads: 2,
    groups: 1,
    key_dim: 3,
    value_dim: 2,
    capacity: 4,
};

fn case(backbone: Backbone) -> Case<f64> {
    generate::case(DIMS, Config::new(backbone), 0.7, 1)
}

fn scheduled(schedule: Schedule) -> Case<f64> {
    let config = Config {
        schedule,
        ..Config::new(Backbone::Decay)
    };
    generate::case(DIMS, config, 0.7, 1)
}

/// Both forms refuse with an input error of "op" that names `argument`.
fn refuses(
    case: &Case<f64>,
    cache: Option<&Cache<f64>>,
    replay: Option<&Decisions>,
    argument: &str,
) {
    let inputs = Inputs {
        replay,
        ..case.inputs()
    };
    let errors = [
        recurrent::forward(&case.dims, &case.config, &inputs, cache).err(),
        chunk::forward(&case.dims, &case.config, &inputs, cache, 4).err(),
    ];
    for error in errors {
        let error = error.unwrap_or_else(|| panic!("{argument} is not refused"));
        assert!(error.is_input(), "{error}");
        assert_eq!((error.op(), error.argument()), ("op", argument), "{error}");
    }
}

fn refuses_change(backbone: Backbone, argument: &str, change: impl Fn(&mut Case<f64>)) {
    let mut case = case(backbone);
    change(&mut case);
    refuses(&case, None, None, argument);
}

#[test]
fn arrays_of_the_wrong_length() {
    let decay = Backbone::Decay;
    refuses_change(decay, "q", |case| case.q.truncate(5));
    refuses_change(decay, "k", |case| case.k.push(0.0));
    refuses_change(decay, "v", |case| case.v.truncate(5));
    refuses_change(decay, "lambda", |case| case.lambda.truncate(5));
    refuses_change(decay, "tau", |case| case.tau.push(1.0));
    refuses_change(decay, "g", |case| case.g = Some(vec![0.0]));
    refuses_change(Backbone::Delta, "beta", |case| case.beta = Some(vec![0.0]));
    refuses_change(decay, "lengths", |case| case.lengths = Some(vec![6]));
}

#[test]
fn arrays_that_are_missing_or_out_of_place() {
    let gate = Some(vec![0.0; DIMS.token_heads()]);
    refuses_change(Backbone::Decay, "g", |case| case.g = None);
    refuses_change(Backbone::Plain, "g", |case| case.g = gate.clone());
    refuses_change(Backbone::Delta, "beta", |case| case.beta = None);
    refuses_change(Backbone::Decay, "beta", |case| case.beta = gate.clone());
    let mut single = scheduled(Schedule::Single);
    single.tau = vec![0.7; 2];
    refuses(&single, None, None, "tau");
    let mut ungated = case(Backbone::Delta);
    ungated.g = None;
    assert!(recurrent::forward(&DIMS, &ungated.config, &ungated.inputs(), None).is_ok());
}

#[test]
fn values_out_of_range() {
    for g in [1e-9, f64::NAN, f64::NEG_INFINITY] {
        refuses_change(Backbone::Decay, "g", |case| {
            case.g = Some(vec![g; DIMS.token_heads()])
        });
    }
    refuses_change(Backbone::Decay, "tau", |case| case.tau[1] = f64::NAN);
    refuses_change(Backbone::Decay, "lambda", |case| case.lambda[3] = f64::NAN);
    refuses_change(Backbone::Decay, "lengths", |case| {
        case.lengths = Some(vec![6, 7])
    });
    for epsilon in [-1.0, f64::NAN, f64::INFINITY, 1e39] {
        refuses_change(Backbone::Decay, "epsilon", |case| {
            case.config.epsilon = epsilon
        });
    }
    refuses(
        &scheduled(Schedule::Fixed { block: 0 }),
        None,
        None,
        "block",
    );
}

#[test]
fn sizes_out_of_range() {
    refuses_change(Backbone::Decay, "batch", |case| case.dims.batch = 0);
    refuses_change(Backbone::Decay, "heads", |case| case.dims.groups = 3);
    refuses_change(Backbone::Decay, "key_dim", |case| case.dims.key_dim = 257);
    refuses_change(Backbone::Decay, "capacity", |case| case.dims.capacity = 65);
    refuses_change(Backbone::Decay, "dims", |case| {
        case.dims.tokens = usize::MAX / 2
    });
    let plain = case(Backbone::Plain);
    for size in [0, chunk::MAX_CHUNK + 1] {
        let refused = chunk::forward(&DIMS, &plain.config, &plain.inputs(), None, size);
        assert_eq!(
            refused
                .err()
                .map(|error| error.argument().to_owned())
                .as_deref(),
            Some("chunk")
        );
    }
}

#[test]
fn fenwick_without_its_levels() {
    let mut case = scheduled(Schedule::Fenwick);
    let output = recurrent::forward(&DIMS, &case.config, &case.inputs(), None)
        .expect("4 levels hold 8 tokens");
    refuses(&case, Some(&output.cache), None, "capacity");
    case.lengths = Some(vec![2, 1]);
    assert!(recurrent::forward(&DIMS, &case.config, &case.inputs(), Some(&output.cache)).is_ok());
}

#[test]
fn caches_that_no_run_leaves() {
    let case = case(Backbone::Decay);
    let good = recurrent::forward(&DIMS, &case.config, &case.inputs(), None)
        .expect("a valid case")
        .cache;
    let change = |argument: &str, change: &dyn Fn(&mut Cache<f64>)| {
        let mut cache = good.clone();
        change(&mut cache);
        refuses(&case, Some(&cache), None, argument);
    };
    change("h0", &|cache| cache.states.truncate(1));
    change("n0", &|cache| cache.n.truncate(1));
    change("info0", &|cache| cache.info.truncate(1));
    change("info0", &|cache| cache.info[0] = f64::NAN);
    change("n0", &|cache| cache.n[..4].copy_from_slice(&[1, 0, 1, 0]));
    change("n0", &|cache| cache.n[0] = u32::MAX);
    let mut levels = Cache::new(&DIMS);
    levels.n[..4].copy_from_slice(&[1, 0, 1, 0]);
    refuses(&scheduled(Schedule::Fenwick), Some(&levels), None, "n0");
    refuses(&scheduled(Schedule::Offline), Some(&good), None, "n0");
}

#[test]
fn replays_that_no_run_makes() {
    let case = case(Backbone::Decay);
    let good = recurrent::forward(&DIMS, &case.config, &case.inputs(), None)
        .expect("a valid case")
        .trace
        .decisions;
    let change = |argument: &str, change: &dyn Fn(&mut Decisions)| {
        let mut decisions = good.clone();
        change(&mut decisions);
        refuses(&case, None, Some(&decisions), argument);
    };
    change("boundary", &|decisions| decisions.boundary.truncate(1));
    change("merge_at", &|decisions| decisions.merge_at.truncate(1));
    change("boundary", &|decisions| decisions.boundary[0] = 0);
    change("boundary", &|decisions| decisions.boundary[2] = 2);
    change("merge_at", &|decisions| decisions.merge_at[0] = 0);
    change("merge_at", &|decisions| {
        decisions.boundary.fill(1); // the fifth boundary finds four states
    });
    change("merge_at", &|decisions| {
        decisions.boundary.fill(1);
        decisions.merge_at[4 * DIMS.heads..].fill(3);
    });
    let fenwick = scheduled(Schedule::Fenwick);
    refuses(&fenwick, None, Some(&good), "boundary");
}
