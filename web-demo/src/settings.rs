//! Settings of the memory other than those that a model was trained with.

use dla_core::model::{DlaConfig, ModelConfig, Weights};
use dla_core::{Config, Error, Result, Schedule};

/// τ where the checkpoint has none.
const TAU: f32 = 0.6;
/// K where the checkpoint has none.
const CAPACITY: usize = 30;

/// What changes; absent entries stay as the checkpoint has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    /// Added to τ of every head.
    pub(crate) tau_offset: f32,
    /// States a cache may hold, K.
    pub(crate) capacity: Option<usize>,
    /// dynamic, single or fenwick.
    pub(crate) schedule: Option<String>,
}

impl Settings {
    /// The model's settings under these.
    ///
    /// # Errors
    /// For an unknown schedule, sizes that the operator refuses and a τ offset that is no number.
    pub(crate) fn apply(&self, trained: &ModelConfig) -> Result<ModelConfig> {
        let mut config = trained.clone();
        if *self == Self::default() {
            return Ok(config);
        }
        if !self.tau_offset.is_finite() {
            let got = self.tau_offset;
            return Err(Error::input("load", "tauOffset", "a finite number", got));
        }
        let mut dla = trained.dla.unwrap_or_else(|| DlaConfig {
            capacity: CAPACITY,
            operator: Config::new(trained.backbone()),
        });
        if let Some(word) = &self.schedule {
            dla.operator.schedule = schedule(word)?;
        }
        dla.capacity = self.capacity.unwrap_or(dla.capacity);
        config.dla = Some(dla);
        config
            .dims()
            .check()
            .map_err(|error| error.within("load"))?;
        Ok(config)
    }
}

fn schedule(word: &str) -> Result<Schedule> {
    match word {
        "dynamic" => Ok(Schedule::Dynamic),
        "single" => Ok(Schedule::Single),
        "fenwick" => Ok(Schedule::Fenwick),
        _ => {
            let expected = "dynamic, single or fenwick";
            Err(Error::input("load", "schedule", expected, word))
        }
    }
}

/// The word of a schedule.
pub(crate) fn word(schedule: Schedule) -> &'static str {
    match schedule {
        Schedule::Single => "single",
        Schedule::Fixed { .. } => "fixed",
        Schedule::Fenwick => "fenwick",
        Schedule::Dynamic => "dynamic",
        Schedule::Offline => "offline",
    }
}

/// A checkpoint's tensors under other settings: τ moved, λ cut or continued to other ranks.
///
/// Ranks beyond the trained ones read as the oldest trained one does. A plain checkpoint gets λ = 1, so
/// its outputs stay.
pub(crate) struct Adapted<'a, W> {
    source: W,
    settings: &'a Settings,
    /// H.
    heads: usize,
    /// The checkpoint's K; none for a plain one.
    trained: Option<usize>,
}

impl<'a, W> Adapted<'a, W> {
    /// The tensors of `source`, whose checkpoint is `trained`.
    pub(crate) fn new(source: W, trained: &ModelConfig, settings: &'a Settings) -> Self {
        Self {
            source,
            settings,
            heads: trained.dims().heads,
            trained: trained.dla.map(|dla| dla.capacity),
        }
    }
}

impl<W: Weights<Tensor = Vec<f32>>> Weights for Adapted<'_, W> {
    type Tensor = Vec<f32>;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let len = shape.iter().product();
        let part = name.rsplit_once(".dla.").map(|(_, part)| part);
        let Some(part) = part else {
            return self.source.tensor(name, shape);
        };
        if part == "tau" {
            let tau = match self.trained {
                Some(_) => self.source.tensor(name, shape)?,
                None => vec![TAU; len],
            };
            let moved = tau.iter().map(|tau| tau + self.settings.tau_offset);
            return Ok(moved.collect());
        }
        let Some(trained) = self.trained else {
            return Ok(vec![plain(part); len]);
        };
        // [H·K, hidden] or [H, K]: a row of each head and rank.
        let capacity = match shape {
            [rows, _] if part == "lambda_proj.weight" => rows / self.heads,
            [_, capacity] => *capacity,
            _ => return self.source.tensor(name, shape),
        };
        let width = len / (self.heads * capacity);
        let there = match shape {
            [_, hidden] if part == "lambda_proj.weight" => [self.heads * trained, *hidden],
            _ => [self.heads, trained],
        };
        let values = self.source.tensor(name, &there)?;
        Ok(ranked(&values, trained, capacity, width))
    }
}

/// What makes every λ 1.
fn plain(part: &str) -> f32 {
    match part {
        "lambda_scale" => 1.0,
        "lambda_bias" => (1f64.exp() - 1.0).ln() as f32,
        _ => 0.0,
    }
}

/// Rows of `width` values, `[heads, from]`, as `[heads, to]`: cut, or the last one repeated.
fn ranked(values: &[f32], from: usize, to: usize, width: usize) -> Vec<f32> {
    let heads = values.chunks_exact(from * width);
    let head = |head: &[f32]| -> Vec<f32> {
        let rank = |rank: usize| &head[rank.min(from - 1) * width..][..width];
        (0..to).flat_map(rank).copied().collect()
    };
    heads.flat_map(head).collect()
}

#[cfg(test)]
mod tests {
    use super::ranked;

    #[test]
    fn ranks_are_cut_or_continued_in_every_head() {
        let values = [1.0, 2.0, 3.0, 4.0]; // two heads of two ranks
        assert_eq!(ranked(&values, 2, 1, 1), [1.0, 3.0]);
        assert_eq!(ranked(&values, 2, 3, 1), [1.0, 2.0, 2.0, 3.0, 4.0, 4.0]);
        assert_eq!(
            ranked(&values, 1, 2, 2),
            [1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0]
        );
    }
}
