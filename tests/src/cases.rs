//! ONE table of operator cases: tests and benches are driven by it.

use dla_core::trace::{self, Judgement};
use dla_core::{
    Backbone, Cache, Config, Decisions, Dims, Inputs, MergeCost, Norm, Result, Schedule,
};

/// One case: sizes, settings, and how its arrays are drawn.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name, for messages and filters.
    pub name: &'static str,
    /// Sizes.
    pub dims: Dims,
    /// Settings.
    pub config: Config,
    /// Threshold of every head.
    pub tau: f32,
    /// Decay of every token is drawn between 0 and this.
    pub decay: f32,
    /// Write strength of every token is drawn between 0 and this (delta rule); up to 2, where the transition reflects.
    pub beta: f32,
    /// Tokens in a row that resemble each other, so that states hold more than one token; 1: none do.
    pub run: usize,
    /// Tokens of the batch items, where they differ.
    pub lengths: Option<Vec<u32>>,
    /// Relative rms allowed in the information of states; more than 1e-4 only where nearly all scores are tiny
    /// differences of equal numbers, good to 2e-3 in f32.
    pub info_tolerance: f64,
}

/// The arrays of a case.
#[derive(Clone, Debug)]
pub struct Arrays {
    /// Queries.
    pub q: Vec<f32>,
    /// Keys.
    pub k: Vec<f32>,
    /// Values.
    pub v: Vec<f32>,
    /// Log decays.
    pub g: Option<Vec<f32>>,
    /// Write strengths.
    pub beta: Option<Vec<f32>>,
    /// Read weights.
    pub lambda: Vec<f32>,
    /// Thresholds.
    pub tau: Vec<f32>,
    /// Lengths.
    pub lengths: Option<Vec<u32>>,
}

impl Arrays {
    /// The arrays of a call, copied; a replay is left out.
    pub fn of(inputs: &Inputs<'_, f32>) -> Self {
        Self {
            q: inputs.q.to_vec(),
            k: inputs.k.to_vec(),
            v: inputs.v.to_vec(),
            g: inputs.g.map(<[f32]>::to_vec),
            beta: inputs.beta.map(<[f32]>::to_vec),
            lambda: inputs.lambda.to_vec(),
            tau: inputs.tau.to_vec(),
            lengths: inputs.lengths.map(<[u32]>::to_vec),
        }
    }

    /// Borrowed, for one call.
    pub fn inputs<'a>(&'a self, replay: Option<&'a Decisions>) -> Inputs<'a, f32> {
        Inputs {
            q: &self.q,
            k: &self.k,
            v: &self.v,
            g: self.g.as_deref(),
            beta: self.beta.as_deref(),
            lambda: &self.lambda,
            tau: &self.tau,
            lengths: self.lengths.as_deref(),
            replay,
        }
    }

    /// The same arrays as half precision holds them.
    pub fn halved(mut self) -> Self {
        for x in [&mut self.q, &mut self.k, &mut self.v]
            .into_iter()
            .flatten()
        {
            *x = half::f16::from_f32(*x).to_f32();
        }
        self
    }

    /// Tokens `[first, end)` of every batch item.
    pub fn tokens(&self, dims: &Dims, first: usize, end: usize) -> Self {
        let keys = dims.groups * dims.key_dim;
        let values = dims.heads * dims.value_dim;
        let cut = |array: &[f32], width| cut(dims, array, width, first, end);
        Self {
            q: cut(&self.q, keys),
            k: cut(&self.k, keys),
            v: cut(&self.v, values),
            g: self.g.as_deref().map(|g| cut(g, dims.heads)),
            beta: self.beta.as_deref().map(|beta| cut(beta, dims.heads)),
            lambda: cut(&self.lambda, dims.heads * dims.capacity),
            tau: self.tau.clone(),
            lengths: self.lengths.as_ref().map(|lengths| {
                let within = |&length: &u32| length.clamp(first as u32, end as u32) - first as u32;
                lengths.iter().map(within).collect()
            }),
        }
    }

    /// Batch item `b` alone, cut to its length.
    pub fn item(&self, dims: &Dims, b: usize) -> Self {
        let length = self
            .lengths
            .as_ref()
            .map_or(dims.tokens, |lengths| lengths[b] as usize);
        let one = |array: &[f32]| {
            let size = array.len() / dims.batch;
            array[b * size..(b + 1) * size].to_vec()
        };
        let item = Self {
            q: one(&self.q),
            k: one(&self.k),
            v: one(&self.v),
            g: self.g.as_deref().map(one),
            beta: self.beta.as_deref().map(one),
            lambda: one(&self.lambda),
            tau: self.tau.clone(),
            lengths: None,
        };
        item.tokens(&Dims { batch: 1, ..*dims }, 0, length)
    }

    /// The same arrays in double precision.
    pub fn wide(&self) -> WideArrays {
        let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        WideArrays {
            q: wide(&self.q),
            k: wide(&self.k),
            v: wide(&self.v),
            g: self.g.as_deref().map(wide),
            beta: self.beta.as_deref().map(wide),
            lambda: wide(&self.lambda),
            tau: wide(&self.tau),
            lengths: self.lengths.clone(),
        }
    }
}

/// Tokens `[first, end)` of every item of a `[B, T, width]` array.
pub fn cut<T: Copy>(dims: &Dims, array: &[T], width: usize, first: usize, end: usize) -> Vec<T> {
    let items = array.chunks_exact((dims.tokens * width).max(1));
    items
        .flat_map(|item| item[first * width..end * width].iter().copied())
        .collect()
}

/// A case's arrays in double precision.
#[derive(Clone, Debug)]
pub struct WideArrays {
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    g: Option<Vec<f64>>,
    beta: Option<Vec<f64>>,
    lambda: Vec<f64>,
    tau: Vec<f64>,
    lengths: Option<Vec<u32>>,
}

impl WideArrays {
    /// Borrowed, for one call.
    pub fn inputs<'a>(&'a self, replay: Option<&'a Decisions>) -> Inputs<'a, f64> {
        Inputs {
            q: &self.q,
            k: &self.k,
            v: &self.v,
            g: self.g.as_deref(),
            beta: self.beta.as_deref(),
            lambda: &self.lambda,
            tau: &self.tau,
            lengths: self.lengths.as_deref(),
            replay,
        }
    }
}

/// A small generator of uniform numbers (SplitMix64), so that cases need no crate and never change.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Uniform in `[0, 1)`.
    pub fn uniform(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 24) as f32
    }

    /// Roughly normal: mean 0, variance 1.
    pub fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.uniform()).sum::<f32>() - 6.0
    }
}

impl Case {
    /// A decay case with dynamic boundaries; the fields that differ are set by the table.
    pub fn new(name: &'static str, dims: Dims) -> Self {
        Self {
            name,
            dims,
            config: Config::new(Backbone::Decay),
            tau: 1.0,
            decay: 0.1,
            beta: 1.0,
            run: 4,
            lengths: None,
            info_tolerance: 1e-4,
        }
    }

    /// Draws the arrays.
    pub fn arrays(&self) -> Arrays {
        let dims = &self.dims;
        let mut draw = Draw::new(self.name.bytes().fold(17u64, |seed, byte| {
            seed.wrapping_mul(31).wrapping_add(u64::from(byte))
        }));
        let delta = self.config.backbone == Backbone::Delta;
        let mut k = self.resembling(&mut draw, dims.groups * dims.key_dim);
        if delta {
            for key in k.chunks_exact_mut(dims.key_dim) {
                let norm = key.iter().map(|x| x * x).sum::<f32>().sqrt() + 1e-6;
                key.iter_mut().for_each(|x| *x /= norm);
            }
        }
        let scale = (dims.key_dim as f32).sqrt().recip();
        let v = self.resembling(&mut draw, dims.heads * dims.value_dim);
        let dynamic = self.config.schedule == Schedule::Dynamic;
        Arrays {
            q: (0..dims.key_len()).map(|_| draw.normal() * scale).collect(),
            k,
            v,
            g: (self.config.backbone != Backbone::Plain).then(|| {
                (0..dims.token_heads())
                    .map(|_| -self.decay * draw.uniform())
                    .collect()
            }),
            beta: delta.then(|| {
                (0..dims.token_heads())
                    .map(|_| self.beta * draw.uniform())
                    .collect()
            }),
            lambda: (0..dims.lambda_len())
                .map(|_| 0.5 + draw.uniform())
                .collect(),
            tau: if dynamic {
                vec![self.tau; dims.heads]
            } else {
                Vec::new()
            },
            lengths: self.lengths.clone(),
        }
    }

    /// `[B, T, width]` in which runs of tokens share most of their content.
    fn resembling(&self, draw: &mut Draw, width: usize) -> Vec<f32> {
        let mut topic = vec![0.0; width];
        let own = if self.run > 1 { 0.3 } else { 1.0 };
        let mut out = Vec::with_capacity(self.dims.batch * self.dims.tokens * width);
        for t in 0..self.dims.batch * self.dims.tokens {
            if t % self.run == 0 {
                topic.fill_with(|| if self.run > 1 { draw.normal() } else { 0.0 });
            }
            out.extend(topic.iter().map(|x| x + own * draw.normal()));
        }
        out
    }

    /// An empty cache.
    pub fn empty_cache(&self) -> Cache<f32> {
        Cache::new(&self.dims)
    }

    /// Judges the decisions of a run on `arrays`; the reference's numbers under them are what the run's are held to.
    ///
    /// # Errors
    /// When no run could have made such decisions.
    pub fn judge(&self, arrays: &Arrays, decisions: &Decisions) -> Result<Judgement<f64>> {
        let wide = arrays.wide();
        trace::judge(
            &self.dims,
            &self.config,
            &wide.inputs(None),
            None,
            decisions,
        )
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// `[B, T, H, G, Dk, Dv, K]` as sizes.
pub const fn dims(
    [batch, tokens, heads, groups, key_dim, value_dim, capacity]: [usize; 7],
) -> Dims {
    Dims {
        batch,
        tokens,
        heads,
        groups,
        key_dim,
        value_dim,
        capacity,
    }
}

/// The gated delta rule through the sizes and settings that its own passes care for.
fn delta_cases() -> Vec<Case> {
    let base =
        |name, sizes| Case::new(name, dims(sizes)).with(|c| c.config.backbone = Backbone::Delta);
    vec![
        base("delta", [1, 100, 2, 1, 16, 12, 5]),
        base("delta_one_token", [1, 1, 2, 2, 8, 8, 3]),
        base("delta_no_tokens", [1, 0, 2, 1, 16, 12, 5]),
        base("delta_chunk_minus_one", [1, 63, 2, 1, 16, 12, 5]),
        base("delta_one_chunk", [1, 64, 2, 1, 16, 12, 5]),
        base("delta_chunk_plus_one", [1, 65, 2, 1, 16, 12, 5]),
        base("delta_thousand", [1, 1000, 2, 1, 16, 12, 5]),
        base("delta_long", [1, 3000, 1, 1, 32, 8, 30]).with(|c| c.run = 2),
        base("delta_groups", [2, 130, 6, 3, 20, 24, 5]),
        base("delta_odd_sizes", [1, 150, 3, 1, 37, 21, 7]),
        base("delta_wide", [1, 70, 1, 1, 256, 256, 3]),
        base("delta_tall", [1, 140, 1, 1, 200, 5, 4]),
        base("delta_paper_head", [1, 70, 1, 1, 128, 64, 30]).with(|c| c.run = 2),
        base("delta_head", [1, 200, 2, 1, 128, 128, 30]),
        base("delta_capacity_1", [1, 120, 2, 1, 16, 12, 1]),
        base("delta_capacity_64", [1, 300, 1, 1, 8, 8, 64]).with(|c| c.run = 1),
        base("delta_every_token", [1, 200, 2, 1, 16, 12, 5]).with(|c| {
            c.tau = 0.0;
            c.run = 1;
        }),
        base("delta_no_boundary", [1, 200, 2, 1, 16, 12, 5]).with(|c| c.tau = f32::INFINITY),
        base("delta_strong_decay", [1, 300, 2, 1, 16, 12, 5]).with(|c| c.decay = 24.0),
        base("delta_reflecting", [1, 200, 2, 1, 16, 12, 5]).with(|c| c.beta = 2.0),
        base("delta_unequal_lengths", [4, 150, 2, 1, 12, 10, 5])
            .with(|c| c.lengths = Some(vec![150, 0, 77, 64])),
        base("delta_norm_none", [1, 130, 2, 1, 16, 12, 5]).with(|c| c.config.norm = Norm::None),
        base("delta_oldest", [1, 260, 2, 1, 12, 10, 5])
            .with(|c| c.config.merge = MergeCost::Oldest),
        base("delta_ward", [1, 130, 2, 1, 12, 10, 5]).with(|c| c.config.merge = MergeCost::Ward),
        base("delta_single", [1, 130, 2, 1, 16, 12, 5])
            .with(|c| c.config.schedule = Schedule::Single),
        base("delta_fixed", [1, 200, 2, 1, 16, 12, 5])
            .with(|c| c.config.schedule = Schedule::Fixed { block: 7 }),
        base("delta_fenwick", [2, 201, 2, 1, 16, 12, 9])
            .with(|c| c.config.schedule = Schedule::Fenwick),
    ]
}

/// The table: every size that has hurt somebody, and every setting at least once. Where sizes do not matter they are
/// `[2, 1, 16, 12, 5]`, for each other `[H, G, Dk, Dv, K]` is compiled anew.
pub fn cases() -> Vec<Case> {
    let base = |name, sizes| Case::new(name, dims(sizes));
    let mut cases = vec![
        base("small", [1, 100, 2, 1, 16, 12, 5]),
        base("one_token", [1, 1, 2, 2, 8, 8, 3]),
        base("no_tokens", [1, 0, 2, 1, 16, 12, 5]),
        base("chunk_minus_one", [1, 63, 2, 1, 16, 12, 5]),
        base("one_chunk", [1, 64, 2, 1, 16, 12, 5]),
        base("chunk_plus_one", [1, 65, 2, 1, 16, 12, 5]),
        base("thousand", [1, 1000, 2, 1, 16, 12, 5]),
        base("groups", [2, 130, 6, 3, 20, 24, 5]),
        base("odd_sizes", [1, 150, 3, 1, 37, 21, 7]),
        base("wide", [1, 70, 1, 1, 256, 256, 3]),
        base("narrow", [1, 90, 2, 1, 1, 1, 3]).with(|c| {
            c.tau = 0.5;
            c.info_tolerance = 1e-3;
        }),
        base("paper_head", [1, 200, 4, 1, 128, 64, 30]),
        base("paper_group", [1, 330, 4, 1, 128, 64, 30]).with(|c| c.run = 1),
        base("paper_values", [2, 140, 2, 2, 64, 128, 8]),
        base("capacity_1", [1, 120, 2, 1, 16, 12, 1]),
        base("capacity_64", [1, 300, 1, 1, 8, 8, 64]).with(|c| c.run = 1),
        base("every_token", [1, 200, 2, 1, 16, 12, 5]).with(|c| {
            c.tau = 0.0;
            c.run = 1;
        }),
        base("no_boundary", [1, 200, 2, 1, 16, 12, 5]).with(|c| c.tau = f32::INFINITY),
        base("strong_decay", [1, 300, 2, 1, 16, 12, 5]).with(|c| c.decay = 24.0),
        base("unequal_lengths", [4, 150, 2, 1, 12, 10, 5])
            .with(|c| c.lengths = Some(vec![150, 0, 77, 64])),
        base("plain", [2, 130, 2, 1, 16, 12, 5]).with(|c| c.config.backbone = Backbone::Plain),
        base("norm_none", [1, 130, 2, 1, 16, 12, 5]).with(|c| c.config.norm = Norm::None),
        base("oldest", [1, 260, 2, 1, 12, 10, 5]).with(|c| c.config.merge = MergeCost::Oldest),
        base("ward", [1, 200, 2, 1, 12, 10, 5]).with(|c| c.config.merge = MergeCost::Ward),
        base("ward_odd_sizes", [2, 90, 2, 1, 11, 9, 6]).with(|c| {
            c.config.merge = MergeCost::Ward;
            c.run = 1;
        }),
        base("single", [1, 130, 2, 1, 16, 12, 5]).with(|c| c.config.schedule = Schedule::Single),
        base("fixed", [1, 200, 2, 1, 16, 12, 5])
            .with(|c| c.config.schedule = Schedule::Fixed { block: 7 }),
        base("fenwick", [2, 201, 2, 1, 16, 12, 9]).with(|c| c.config.schedule = Schedule::Fenwick),
    ];
    cases.extend(delta_cases());
    cases
}
