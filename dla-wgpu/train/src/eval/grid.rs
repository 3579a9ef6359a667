//! The same model with other capacities and thresholds.

use dla_core::model::{DlaConfig, ModelConfig, ModelTensors};
use dla_core::{Error, Result, Schedule};

/// Capacities and thresholds to be tried, each with each.
///
/// ```
/// use dla_train::eval::grid::Grid;
/// let grid: Grid = "K=10,20:τ=0.5,0.6,0.7".parse()?;
/// assert_eq!(grid.capacities, [10, 20]);
/// assert_eq!(grid, "tau=0.5,0.6,0.7:K=10,20".parse()?);
/// # Ok::<(), dla_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// K.
    pub capacities: Vec<usize>,
    /// τ of every head.
    pub thresholds: Vec<f32>,
}

impl std::str::FromStr for Grid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            let expected = "K=10,20,30:τ=0.5,0.6 (or tau=)";
            Error::input("eval", "--grid", expected, text)
        };
        let (mut capacities, mut thresholds) = (Vec::new(), Vec::new());
        for part in text.split(':') {
            let (name, values) = part.split_once('=').ok_or_else(refuse)?;
            for value in values.split(',').map(str::trim) {
                match name.trim() {
                    "K" | "k" => capacities.push(value.parse().map_err(|_| refuse())?),
                    "τ" | "tau" => thresholds.push(value.parse().map_err(|_| refuse())?),
                    _ => return Err(refuse()),
                }
            }
        }
        if capacities.is_empty()
            || thresholds.is_empty()
            || thresholds.iter().any(|x: &f32| x.is_nan())
        {
            return Err(refuse());
        }
        Ok(Self {
            capacities,
            thresholds,
        })
    }
}

/// The model with `capacity` states and τ of every head at `tau`.
///
/// Read weights of ranks beyond the new capacity go; new ranks are read as the oldest one was.
///
/// # Errors
/// For a model without dynamic boundaries, and a capacity that is not served.
pub fn variant(
    config: &ModelConfig,
    tensors: &ModelTensors<Vec<f32>>,
    capacity: usize,
    tau: f32,
) -> Result<(ModelConfig, ModelTensors<Vec<f32>>)> {
    let dynamic = config
        .dla
        .filter(|dla| dla.operator.schedule == Schedule::Dynamic);
    let Some(dla) = dynamic else {
        let expected = "a model with dynamic boundaries";
        return Err(Error::input("eval", "--grid", expected, "another schedule"));
    };
    let (heads, before) = (config.dims().heads, dla.capacity);
    let varied = ModelConfig {
        dla: Some(DlaConfig { capacity, ..dla }),
        ..config.clone()
    };
    varied.to_json().map_err(|error| error.within("eval"))?;
    let mut tensors = tensors.clone();
    for block in &mut tensors.blocks {
        let Some(dla) = &mut block.dla else { continue };
        dla.tau.fill(tau);
        for values in [
            &mut dla.lambda_proj,
            &mut dla.lambda_scale,
            &mut dla.lambda_bias,
        ] {
            *values = resized(values, heads, [before, capacity]);
        }
    }
    Ok((varied, tensors))
}

/// `[heads, K, …]` with the capacity `after` instead of `before`.
fn resized(values: &[f32], heads: usize, [before, after]: [usize; 2]) -> Vec<f32> {
    let width = values.len() / (heads * before);
    let mut resized = Vec::with_capacity(heads * after * width);
    for head in values.chunks(before * width) {
        for rank in 0..after {
            let from = rank.min(before - 1) * width;
            resized.extend(&head[from..from + width]);
        }
    }
    resized
}

#[cfg(test)]
mod tests {
    use super::{Grid, resized};

    #[test]
    fn ranks_are_cut_or_repeated() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]; // two heads, two ranks, two wide
        assert_eq!(resized(&values, 2, [2, 1]), [1.0, 2.0, 5.0, 6.0]);
        let three = [1.0, 2.0, 3.0, 4.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 7.0, 8.0];
        assert_eq!(resized(&values, 2, [2, 3]), three);
    }

    #[test]
    fn grids_without_meaning_are_refused() {
        for text in [
            "",
            "K=1",
            "K=1:tau=",
            "K=x:tau=1",
            "tau=1",
            "K=1:b=2",
            "K=1:tau=nan",
        ] {
            assert!(text.parse::<Grid>().expect_err(text).is_input());
        }
    }
}
