//! Gradients against the golden files and against finite differences.

mod common;

use common::generate::{self, Random, backbones, cases, merges, online};
use common::{Case, File, assert_close, case_names, golden};
use dla_core::dla::backward::{self, Gradients};
use dla_core::dla::gate::{self, Gate, GateMode};
use dla_core::dla::merge;
use dla_core::dla::readout::weight_index;
use dla_core::dla::recurrent::{self, Observer};
use dla_core::dla::sequence::Sequence;
use dla_core::dla::state::{self, State, load};
use dla_core::{Cache, Config, Decision, Decisions, Dims, Inputs, Schedule, backbone};
use proptest::prelude::*;

#[test]
fn golden_gradients() {
    let names = case_names(&golden("grad"));
    assert!(!names.is_empty());
    for name in names {
        let file = |suffix: &str| File::read(&golden("grad").join(format!("{name}{suffix}")));
        let (input, expected) = (file(".safetensors"), file(".expected.safetensors"));
        let case = Case::<f64>::from_file(&input);
        let gate = Gate {
            mode: input.metadata["gate"].parse().expect("a gate"),
            theta: input.metadata["theta"].parse().expect("a number"),
        };
        let d_o = input.values("do").expect("do");
        let got = backward::backward(&case.dims, &case.config, &case.inputs(), None, d_o, &gate)
            .expect("a valid case");
        let none = Vec::new();
        let arrays = [
            ("dq", &got.q),
            ("dk", &got.k),
            ("dv", &got.v),
            ("dg", got.g.as_ref().unwrap_or(&none)),
            ("dbeta", got.beta.as_ref().unwrap_or(&none)),
            ("dlambda", &got.lambda),
            ("dtau", &got.tau),
        ];
        for (array, got) in arrays {
            if let Some(expected) = expected.values(array) {
                assert_close(&format!("{name}/{array}"), got, expected, 1e-4);
            }
        }
    }
}

/// The scores of one head, in full precision.
#[derive(Clone, Default)]
struct Scores(Vec<f64>);

impl Observer<f64> for Scores {
    fn see(&mut self, _: usize, score: f64, _: &[State<f64>], _: Decision) {
        self.0.push(score);
    }
}

/// A case, where it starts, and the loss Σ o·do.
struct Problem {
    case: Case<f64>,
    cache: Cache<f64>,
    d_o: Vec<f64>,
    gate: Gate,
    /// The decisions of a run of `case` under `gate`, held fixed.
    decisions: Decisions,
    /// Its scores, held fixed too, for each sequence and head.
    scores: Vec<Scores>,
}

impl Problem {
    /// The last part of `whole`, from the cache that the first part leaves.
    fn new(whole: &Case<f64>, mode: GateMode) -> Self {
        let middle = whole.dims.tokens / 3;
        let first = whole.piece(0..middle);
        let cache = recurrent::forward(&first.dims, &first.config, &first.inputs(), None)
            .expect("a valid case")
            .cache;
        let case = whole.piece(middle..whole.dims.tokens);
        let gate = Gate { mode, theta: 0.3 };
        let d_o = Random(whole.seed ^ 1).normals(case.dims.value_len());
        let observers = vec![Scores::default(); case.dims.sequences()];
        let (dims, config, inputs) = (&case.dims, &case.config, case.inputs());
        let (run, scores) =
            recurrent::observe(dims, config, &inputs, Some(&cache), &gate, &observers)
                .expect("a valid case");
        Self {
            case,
            cache,
            d_o,
            gate,
            decisions: run.trace.decisions,
            scores,
        }
    }

    fn gradients(&self) -> Gradients<f64> {
        let inputs = Inputs {
            replay: Some(&self.decisions),
            ..self.case.inputs()
        };
        let (dims, config) = (&self.case.dims, &self.case.config);
        backward::backward(
            dims,
            config,
            &inputs,
            Some(&self.cache),
            &self.d_o,
            &self.gate,
        )
        .expect("a valid case")
    }

    /// The loss of `case` from `cache`, τ of head `shifted.0` moved by `shifted.1`, written without
    /// the crate's recurrence: decisions and scores fixed, every gate γ applied as a number.
    fn loss(&self, case: &Case<f64>, cache: &Cache<f64>, shifted: (usize, f64)) -> f64 {
        let dims = &case.dims;
        let inputs = case.inputs();
        let mut loss = 0.0;
        for i in 0..dims.sequences() {
            let (b, h) = (i / dims.heads, i % dims.heads);
            let shift = if h == shifted.0 { shifted.1 } else { 0.0 };
            let sequence = Sequence::new(dims, &inputs, b, h);
            let mut states = load(dims, case.config.schedule, cache, b, h);
            for t in 0..sequence.len() {
                self.step(&sequence, t, (self.scores[i].0[t], shift), &mut states);
                let at = sequence.at(t) * dims.value_dim;
                let d_o = &self.d_o[at..at + dims.value_dim];
                loss += read(&case.config, &sequence, t, &states, d_o);
            }
        }
        loss
    }

    fn step(
        &self,
        sequence: &Sequence<'_, f64>,
        t: usize,
        (score, shift): (f64, f64),
        states: &mut Vec<State<f64>>,
    ) {
        let (token, config) = (sequence.token(t), &self.case.config);
        for state in states.iter_mut() {
            backbone::transition(config.backbone, &token, &mut state.matrix);
        }
        let mut s = vec![0.0; self.case.dims.state_len()];
        backbone::contribution(config.backbone, &token, &mut s);
        let decision = self.decisions.get(sequence.at(t));
        let mut opens = merge::apply(config.schedule, states, decision);
        if !states.is_empty() {
            gate::release(
                states,
                opens,
                self.gamma(score, sequence.tau(), shift, opens),
            );
            opens = false;
        }
        state::write(states, opens, &s, 0.0);
    }

    /// γ with τ moved by `shift`: exactly so in mode soft, along the gate's slope in the others.
    fn gamma(&self, score: f64, tau: f64, shift: f64, opens: bool) -> f64 {
        let dynamic = self.case.config.schedule == Schedule::Dynamic;
        match self.gate.mode {
            GateMode::Soft if dynamic => self.gate.value(score, tau + shift),
            GateMode::StraightThrough if dynamic => {
                f64::from(u8::from(opens)) - shift * self.gate.slope(score, tau)
            }
            _ => f64::from(u8::from(opens)),
        }
    }

    /// The derivative of the loss along a change of the case and the cache.
    fn along(&self, change: impl Fn(&mut Case<f64>, &mut Cache<f64>, f64)) -> f64 {
        let step = 1e-5;
        let moved = |step: f64| {
            let (mut case, mut cache) = (self.case.clone(), self.cache.clone());
            change(&mut case, &mut cache, step);
            self.loss(&case, &cache, (0, 0.0))
        };
        (moved(step) - moved(-step)) / (2.0 * step)
    }

    fn along_tau(&self, head: usize) -> f64 {
        let step = 1e-5;
        let moved = |step: f64| self.loss(&self.case, &self.cache, (head, step));
        (moved(step) - moved(-step)) / (2.0 * step)
    }
}

/// o·do of one token.
fn read(
    config: &Config,
    sequence: &Sequence<'_, f64>,
    t: usize,
    states: &[State<f64>],
    d_o: &[f64],
) -> f64 {
    let position = states.iter().map(|state| u64::from(state.n)).sum();
    let mut sum = 0.0;
    for (i, state) in states.iter().enumerate() {
        let lambda = sequence.lambda(t)[weight_index(config.schedule, position, states.len(), i)];
        for (q, row) in sequence
            .token(t)
            .q
            .iter()
            .zip(state.matrix.chunks_exact(d_o.len()))
        {
            sum += row
                .iter()
                .zip(d_o)
                .map(|(x, d)| lambda * q * x * d)
                .sum::<f64>();
        }
    }
    sum
}

/// The arrays that a loss depends on.
#[derive(Clone, Copy, Debug)]
enum Array {
    Q,
    K,
    V,
    G,
    Beta,
    Lambda,
    States,
}

impl Array {
    const ALL: [Self; 7] = [
        Self::Q,
        Self::K,
        Self::V,
        Self::G,
        Self::Beta,
        Self::Lambda,
        Self::States,
    ];

    fn of<'a>(
        self,
        case: &'a mut Case<f64>,
        cache: &'a mut Cache<f64>,
    ) -> Option<&'a mut Vec<f64>> {
        match self {
            Self::Q => Some(&mut case.q),
            Self::K => Some(&mut case.k),
            Self::V => Some(&mut case.v),
            Self::G => case.g.as_mut(),
            Self::Beta => case.beta.as_mut(),
            Self::Lambda => Some(&mut case.lambda),
            Self::States => Some(&mut cache.states),
        }
    }

    fn gradient(self, gradients: &Gradients<f64>) -> Option<&Vec<f64>> {
        match self {
            Self::Q => Some(&gradients.q),
            Self::K => Some(&gradients.k),
            Self::V => Some(&gradients.v),
            Self::G => gradients.g.as_ref(),
            Self::Beta => gradients.beta.as_ref(),
            Self::Lambda => Some(&gradients.lambda),
            Self::States => Some(&gradients.states),
        }
    }
}

/// Every gradient agrees with finite differences: each array along random directions, τ head by head.
fn check(problem: &Problem) {
    let gradients = problem.gradients();
    for array in Array::ALL {
        let Some(gradient) = array.gradient(&gradients) else {
            continue;
        };
        for seed in 0..2 {
            let direction = Random(seed).normals(gradient.len());
            let expected = problem.along(|case, cache, step| {
                if let Some(values) = array.of(case, cache) {
                    for (x, d) in values.iter_mut().zip(&direction) {
                        *x += step * d;
                    }
                }
            });
            let got: f64 = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
            assert_near(&format!("{array:?}, {:?}", problem.case), got, expected);
        }
    }
    for (head, &got) in gradients.tau.iter().enumerate() {
        assert_near(
            &format!("τ {head}, {:?}", problem.case),
            got,
            problem.along_tau(head),
        );
    }
}

fn assert_near(what: &str, got: f64, expected: f64) {
    let near = (got - expected).abs() <= 1e-6 * (1.0 + expected.abs());
    assert!(near, "{what}: gradient {got}, finite difference {expected}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn hard_gradients_are_finite_differences(case in cases(online())) {
        check(&Problem::new(&case, GateMode::Hard));
    }

    #[test]
    fn straight_through_gradients_are_finite_differences(case in cases(Just(Schedule::Dynamic))) {
        check(&Problem::new(&case, GateMode::StraightThrough));
    }

    #[test]
    fn soft_gradients_are_finite_differences(case in cases(Just(Schedule::Dynamic))) {
        check(&Problem::new(&case, GateMode::Soft));
    }

    /// Longer than one segment of recomputation.
    #[test]
    fn long_gradients_are_finite_differences(backbone in backbones(), merge in merges(), seed: u64) {
        let dims = Dims { batch: 1, tokens: 300, heads: 2, groups: 1, key_dim: 3, value_dim: 2, capacity: 4 };
        let config = Config { merge, ..Config::new(backbone) };
        check(&Problem::new(&generate::case(dims, config, 0.8, seed), GateMode::StraightThrough));
    }

    /// A narrow gate is the hard recurrence wherever no score lies near τ.
    #[test]
    fn a_narrow_soft_gate_is_hard(case in cases(Just(Schedule::Dynamic))) {
        let gate = Gate { mode: GateMode::Soft, theta: 1e-9 };
        let (dims, config, inputs) = (&case.dims, &case.config, case.inputs());
        let hard = recurrent::forward(dims, config, &inputs, None)?;
        let soft = recurrent::forward_gated(dims, config, &inputs, None, &gate)?;
        prop_assert_eq!(&soft.trace.decisions, &hard.trace.decisions);
        assert_close("o", &soft.o, &hard.o, 1e-9);
    }
}

#[test]
fn a_shorter_item_has_no_gradient_behind_its_end() {
    let dims = Dims {
        batch: 2,
        tokens: 9,
        heads: 2,
        groups: 1,
        key_dim: 3,
        value_dim: 2,
        capacity: 3,
    };
    let mut case = generate::case(dims, Config::new(dla_core::Backbone::Delta), 0.8, 4);
    case.lengths = Some(vec![9, 5]);
    let d_o = vec![1.0; dims.value_len()];
    let got = backward::backward(
        &dims,
        &case.config,
        &case.inputs(),
        None,
        &d_o,
        &Gate::default(),
    )
    .expect("a valid case");
    let (live, rest) = got.v.split_at(dims.token_head(1, 5, 0) * dims.value_dim);
    assert!(live.iter().any(|&x| x != 0.0));
    assert!(rest.iter().all(|&x| x == 0.0));
}
