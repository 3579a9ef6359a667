//! Faults that users of such libraries have met, each kind as a test of its name, in gradients.

use dla_core::dla::backward::{self, Gradients};
use dla_core::dla::gate::Gate;
use dla_core::{Backbone, Decisions, Dims, Schedule};
use dla_tests::cases::{Arrays, Case, cut, dims};
use dla_tests::gpu::gpu;
use dla_tests::tolerance::assert_near;
use dla_wgpu::op::{self, Loss, Options};
use dla_wgpu::{Float, Gpu};

use super::gradients::{assert_gradients_near, check_recorded, drawn, in_chunks};

const BACKBONES: [Backbone; 2] = [Backbone::Decay, Backbone::Delta];
/// Relative rms of any gradient by an array.
const TOLERANCE: f64 = 1e-3;

/// A call and the gradient of its outputs.
#[derive(Clone)]
struct Problem {
    case: Case,
    arrays: Arrays,
    d_o: Vec<f32>,
}

fn case(name: &'static str, backbone: Backbone, sizes: [usize; 7]) -> Case {
    let mut case = Case::new(name, dims(sizes));
    case.config.backbone = backbone;
    case
}

impl Problem {
    fn new(case: Case) -> Self {
        Self {
            arrays: case.arrays(),
            d_o: drawn(&case.dims),
            case,
        }
    }

    /// What the device decides on its way forwards.
    fn decisions(&self, gpu: &Gpu, options: &Options) -> Decisions {
        let Case {
            dims, config, name, ..
        } = &self.case;
        op::run(gpu, dims, config, &self.arrays.inputs(None), None, options)
            .unwrap_or_else(|error| panic!("{name}: {error}"))
            .trace
            .decisions
    }

    fn device(&self, gpu: &Gpu, replay: Option<&Decisions>, options: &Options) -> Gradients<f32> {
        let Case {
            dims, config, name, ..
        } = &self.case;
        let loss = Loss {
            d_o: &self.d_o,
            gate: Gate::default(),
        };
        let inputs = self.arrays.inputs(replay);
        op::gradients(gpu, dims, config, &inputs, None, &loss, options)
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn reference(&self, replay: Option<&Decisions>) -> Gradients<f64> {
        let Case {
            dims, config, name, ..
        } = &self.case;
        let d_o: Vec<f64> = self.d_o.iter().map(|&x| f64::from(x)).collect();
        let wide = self.arrays.wide();
        let inputs = wide.inputs(replay);
        backward::backward(dims, config, &inputs, None, &d_o, &Gate::default())
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

/// The gradients by what belongs to tokens: names, values, and values of a token.
fn by_token<'a, R>(dims: &Dims, all: &'a Gradients<R>) -> Vec<(&'static str, &'a [R], usize)> {
    let keys = dims.groups * dims.key_dim;
    let mut arrays = vec![
        ("dq", &all.q[..], keys),
        ("dk", &all.k[..], keys),
        ("dv", &all.v[..], dims.heads * dims.value_dim),
        ("dlambda", &all.lambda[..], dims.heads * dims.capacity),
    ];
    arrays.extend(all.g.as_deref().map(|g| ("dg", g, dims.heads)));
    arrays.extend(all.beta.as_deref().map(|beta| ("dbeta", beta, dims.heads)));
    arrays
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn kind_03_any_length_loses_no_gradient_and_leaves_no_array() {
    let Some(gpu) = gpu() else { return };
    let options = Options::default();
    for backbone in BACKBONES {
        for tokens in [1, 63, 64, 65, 100] {
            let case = case("kind_03", backbone, [1, tokens, 2, 1, 8, 8, 4]);
            check_recorded(gpu, &case, &options);
            let problem = Problem::new(case);
            let decisions = problem.decisions(gpu, &options);
            let got = problem.device(gpu, Some(&decisions), &options);
            let expected = problem.reference(Some(&decisions));
            assert_gradients_near(&problem.case, &got, &expected, TOLERANCE);
            for (name, expected, _) in by_token(&problem.case.dims, &expected) {
                let got = by_token(&problem.case.dims, &got);
                let (_, got, _) = got.iter().find(|(known, ..)| *known == name).expect(name);
                let lost = (0..got.len()).find(|&i| got[i] == 0.0 && expected[i].abs() > 1e-3);
                assert_eq!(lost, None, "{backbone}, {tokens} tokens: {name}");
            }
        }
    }
}

#[test]
fn kind_04_gradients_of_unequal_lengths_equal_each_alone() {
    let Some(gpu) = gpu() else { return };
    let options = in_chunks(16);
    for backbone in BACKBONES {
        let mut case = case("kind_04", backbone, [4, 50, 2, 1, 12, 8, 4]);
        case.lengths = Some(vec![50, 0, 33, 1]);
        let problem = Problem::new(case);
        let (dims, all) = (problem.case.dims, problem.device(gpu, None, &options));
        let mut tau = vec![0.0; dims.heads];
        for b in 0..dims.batch {
            let arrays = problem.arrays.item(&dims, b);
            let tokens = arrays.g.as_ref().map_or(0, |g| g.len() / dims.heads);
            let one = Dims {
                batch: 1,
                tokens,
                ..dims
            };
            let row = dims.heads * dims.value_dim;
            let alone = Problem {
                case: Case {
                    dims: one,
                    lengths: None,
                    ..problem.case.clone()
                },
                arrays,
                d_o: cut(&dims, &problem.d_o, row, 0, tokens)[b * tokens * row..][..tokens * row]
                    .to_vec(),
            };
            let alone = alone.device(gpu, None, &options);
            let pairs = by_token(&dims, &all)
                .into_iter()
                .zip(by_token(&one, &alone));
            for ((name, all, width), (_, alone, _)) in pairs {
                let item = &all[b * dims.tokens * width..][..dims.tokens * width];
                let (own, beyond) = item.split_at(alone.len());
                assert_eq!(own, alone, "{backbone}, item {b}: {name}");
                let zeros = beyond.iter().all(|&x| x == 0.0);
                assert!(zeros, "{backbone}, item {b}: {name} beyond its length");
            }
            let states = alone.states.len();
            assert_eq!(all.states[b * states..][..states], alone.states);
            let sums = tau.iter_mut().zip(&alone.tau);
            sums.for_each(|(sum, x)| *sum += f64::from(*x));
        }
        assert_near("kind_04", "dtau", &all.tau, &tau, 1e-5);
    }
}

#[test]
fn kind_09_gradients_under_strong_decay_at_every_step() {
    let Some(gpu) = gpu() else { return };
    for backbone in BACKBONES {
        let mut case = case("kind_09", backbone, [1, 200, 2, 1, 8, 8, 4]);
        case.tau = f32::INFINITY;
        let mut problem = Problem::new(case);
        problem.arrays.g = Some(vec![-12.0; problem.case.dims.token_heads()]);
        let got = problem.device(gpu, None, &Options::default());
        let expected = problem.reference(None);
        assert_gradients_near(&problem.case, &got, &expected, TOLERANCE);
    }
}

/// The token of head 0 that is no number, of 60 in chunks of 16.
const BAD: usize = 37;

/// Whatever is not finite in the reference's gradients is not finite in the device's; gives the device's.
fn assert_not_hidden(gpu: &Gpu, problem: &Problem, what: &str) -> Gradients<f32> {
    let options = in_chunks(16);
    let decisions = problem.decisions(gpu, &options);
    let got = problem.device(gpu, Some(&decisions), &options);
    let expected = problem.reference(Some(&decisions));
    let dims = &problem.case.dims;
    let mut reached = 0;
    let pairs = by_token(dims, &got)
        .into_iter()
        .zip(by_token(dims, &expected));
    for ((name, got, _), (_, expected, _)) in pairs {
        let hidden = (0..got.len()).find(|&i| !expected[i].is_finite() && got[i].is_finite());
        assert_eq!(hidden, None, "{what}: {name} hides it");
        reached += expected.iter().filter(|x| !x.is_finite()).count();
    }
    assert!(reached > 0, "{what} reaches gradients");
    got
}

#[test]
fn kind_33_what_is_no_number_reaches_every_gradient_before_it_and_none_after_its_chunk() {
    let Some(gpu) = gpu() else { return };
    for backbone in BACKBONES {
        let clean = Problem::new(case("kind_33", backbone, [1, 60, 2, 1, 12, 8, 4]));
        let (dims, options) = (clean.case.dims, in_chunks(16));
        let decisions = clean.decisions(gpu, &options);
        let untouched = clean.device(gpu, Some(&decisions), &options);
        let at = BAD * dims.heads * dims.value_dim + 3;
        for bad in [f32::NAN, f32::INFINITY] {
            let what = format!("{backbone}, {bad} in do");
            let mut problem = clean.clone();
            problem.d_o[at] = bad;
            let got = assert_not_hidden(gpu, &problem, &what);
            // Tokens of later chunks, and the other head's values, have nothing to do with it.
            let pairs = by_token(&dims, &got)
                .into_iter()
                .zip(by_token(&dims, &untouched));
            for ((name, got, width), (_, untouched, _)) in pairs {
                let later = 48 * width;
                assert_eq!(
                    bits(&got[later..]),
                    bits(&untouched[later..]),
                    "{what}: {name}"
                );
            }
            let other = |v: &[f32]| -> Vec<u32> {
                let rows = v.chunks_exact(dims.heads * dims.value_dim);
                rows.flat_map(|row| bits(&row[dims.value_dim..])).collect()
            };
            assert_eq!(other(&got.v), other(&untouched.v), "{what}: the other head");

            let mut problem = clean.clone();
            problem.arrays.v[at] = bad;
            assert_not_hidden(gpu, &problem, &format!("{backbone}, {bad} in v"));
        }
    }
}

#[test]
fn kind_34_f16_overflow_of_states_shows_in_the_gradients() {
    let Some(gpu) = gpu() else { return };
    if !gpu.variant().f16 {
        eprintln!("SKIP: kind_34, the device has no shader-f16");
        return;
    }
    let mut case = case("kind_34", Backbone::Decay, [1, 40, 1, 1, 8, 8, 4]);
    case.config.schedule = Schedule::Single;
    let mut problem = Problem::new(case);
    // From the second chunk on every entered state is beyond 65,504; within a chunk nothing is.
    problem.arrays.k.fill(1.0);
    problem.arrays.v.fill(6e4);
    problem.arrays.g = Some(vec![0.0; problem.case.dims.token_heads()]);
    let half = Options {
        float: Float::F16,
        ..in_chunks(16)
    };
    problem.arrays = problem.arrays.halved();
    let (got, expected) = (problem.device(gpu, None, &half), problem.reference(None));
    let width = problem.case.dims.key_dim;
    let (first, later) = got.q.split_at(16 * width);
    assert_near("kind_34", "dq", first, &expected.q[..16 * width], 3e-3);
    let absorbed = later.iter().position(|x| x.is_finite());
    assert_eq!(absorbed, None, "dq hides states that overflow");
    assert_near("kind_34", "dv", &got.v, &expected.v, 3e-3);
}
