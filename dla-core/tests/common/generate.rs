//! Random cases: topics that change, so that states open, merge and grow.

use dla_core::dla::schedule::levels;
use dla_core::{Backbone, Config, Dims, MergeCost, Norm, Real, Schedule};
use proptest::prelude::*;

use super::Case;

/// SplitMix64: small, and the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About normal: mean 0, variance 1.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    pub fn normals(&mut self, len: usize) -> Vec<f64> {
        (0..len).map(|_| self.normal()).collect()
    }
}

/// `rows` rows of `width`, grouped in topics: a topic ends with probability 0.2.
fn topics(random: &mut Random, rows: usize, width: usize) -> Vec<f64> {
    let mut topic = random.normals(width);
    let mut values = Vec::with_capacity(rows * width);
    for _ in 0..rows {
        if random.uniform() < 0.2 {
            topic = random.normals(width);
        }
        values.extend(topic.iter().map(|x| x + 0.3 * random.normal()));
    }
    values
}

/// Topics along time for `[batch, tokens, heads, width]`.
fn sequences(
    random: &mut Random,
    batch: usize,
    tokens: usize,
    heads: usize,
    width: usize,
) -> Vec<f64> {
    (0..batch)
        .flat_map(|_| {
            let heads: Vec<_> = (0..heads).map(|_| topics(random, tokens, width)).collect();
            let row = |t: usize| t * width..(t + 1) * width;
            (0..tokens)
                .flat_map(|t| heads.iter().flat_map(move |head| head[row(t)].to_vec()))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn normalise(rows: &mut [f64], width: usize) {
    for row in rows.chunks_exact_mut(width) {
        let norm = (row.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
        row.iter_mut().for_each(|x| *x /= norm);
    }
}

/// A case with everything random but its sizes and settings.
pub fn case(dims: Dims, config: Config, tau: f64, seed: u64) -> Case<f64> {
    let mut random = Random(seed);
    let gates = dims.token_heads();
    let q = random.normals(dims.key_len());
    let mut k = sequences(
        &mut random,
        dims.batch,
        dims.tokens,
        dims.groups,
        dims.key_dim,
    );
    let v = sequences(
        &mut random,
        dims.batch,
        dims.tokens,
        dims.heads,
        dims.value_dim,
    );
    let decays = (0..gates).map(|_| -0.2 * random.uniform()).collect();
    let strengths = (0..gates).map(|_| 0.1 + 0.8 * random.uniform()).collect();
    if config.backbone == Backbone::Delta {
        normalise(&mut k, dims.key_dim);
    }
    let dynamic = config.schedule == Schedule::Dynamic;
    Case {
        seed,
        q,
        k,
        v,
        g: (config.backbone != Backbone::Plain).then_some(decays),
        beta: (config.backbone == Backbone::Delta).then_some(strengths),
        lambda: (0..dims.lambda_len())
            .map(|_| 0.2 + random.uniform())
            .collect(),
        tau: vec![tau; if dynamic { dims.heads } else { 0 }],
        lengths: None,
        dims,
        config,
    }
}

pub fn backbones() -> impl Strategy<Value = Backbone> {
    prop_oneof![
        Just(Backbone::Plain),
        Just(Backbone::Decay),
        Just(Backbone::Delta)
    ]
}

pub fn merges() -> impl Strategy<Value = MergeCost> {
    prop_oneof![
        Just(MergeCost::Density),
        Just(MergeCost::Ward),
        Just(MergeCost::Oldest)
    ]
}

/// Every schedule that runs token by token.
pub fn online() -> impl Strategy<Value = Schedule> {
    prop_oneof![
        Just(Schedule::Single),
        (1..9usize).prop_map(|block| Schedule::Fixed { block }),
        Just(Schedule::Fenwick),
        Just(Schedule::Dynamic),
        Just(Schedule::Dynamic),
        Just(Schedule::Dynamic),
    ]
}

pub fn schedules() -> impl Strategy<Value = Schedule> {
    prop_oneof![5 => online(), 1 => Just(Schedule::Offline)]
}

pub fn sizes() -> impl Strategy<Value = Dims> {
    let heads = prop_oneof![Just((1, 1)), Just((2, 1)), Just((4, 2)), Just((2, 2))];
    (
        1..3usize,
        0..48usize,
        heads,
        1..7usize,
        2..7usize,
        1..7usize,
    )
        .prop_map(
            |(batch, tokens, (heads, groups), key_dim, value_dim, capacity)| Dims {
                batch,
                tokens,
                heads,
                groups,
                key_dim,
                value_dim,
                capacity,
            },
        )
}

/// With a single key direction the delta rule erases nearly all of every state at every token, and
/// inner products carried without matrices keep no digit of the rest.
const MIN_DELTA_KEYS: usize = 2;

/// Random cases of `schedules`; Fenwick gets the levels that it needs.
pub fn cases(schedules: impl Strategy<Value = Schedule>) -> impl Strategy<Value = Case<f64>> {
    let norms = prop_oneof![3 => Just(Norm::Rms), 1 => Just(Norm::None)];
    let settings = (backbones(), schedules, merges(), norms);
    (sizes(), settings, 0.3..1.5f64, any::<u64>()).prop_map(
        |(mut dims, (backbone, schedule, merge, norm), tau, seed)| {
            if schedule == Schedule::Fenwick {
                dims.capacity = levels(dims.tokens as u64);
            }
            if backbone == Backbone::Delta {
                dims.key_dim = dims.key_dim.max(MIN_DELTA_KEYS);
            }
            let config = Config {
                schedule,
                merge,
                norm,
                ..Config::new(backbone)
            };
            case(dims, config, tau, seed)
        },
    )
}

impl<S: Real> Case<S> {
    /// The same case at another precision.
    pub fn cast<R: Real>(&self) -> Case<R> {
        let cast = |values: &[S]| values.iter().map(|x| R::from_f64(x.to_f64())).collect();
        Case {
            seed: self.seed,
            dims: self.dims,
            config: self.config,
            q: cast(&self.q),
            k: cast(&self.k),
            v: cast(&self.v),
            g: self.g.as_deref().map(cast),
            beta: self.beta.as_deref().map(cast),
            lambda: cast(&self.lambda),
            tau: cast(&self.tau),
            lengths: self.lengths.clone(),
        }
    }
}
