//! The loss of next-token prediction, and the head in front of it block by block.

use dla_core::{Error, Result};
use dla_shaders::CROSS_ENTROPY;

use super::linear::{InputGradient, MatrixGradient};
use super::place::{Place, PlaceSpec};
use crate::nn::constants::Constants;
use crate::nn::layer::{Layer, Rows, buffer, holds, positive};
use crate::nn::linear::{Input, Linear};
use crate::nn::matrix::Matrix;
use crate::{Dispatch, Gpu};

const OP: &str = "cross_entropy";
/// Values of a block of logits, 64 MiB.
const BLOCK: usize = 1 << 24;
/// Rows of a block are a multiple of a tile's.
const TILE: usize = 64;

/// The loss of rows, minus the logarithm of the softmax at the target, and its gradient in the logits' place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossEntropy {
    /// Sizes.
    pub spec: CrossEntropySpec,
    /// Rows of logits, and the row of targets and measures that the first belongs to.
    pub rows: [usize; 2],
}

/// The constants of its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossEntropySpec {
    /// Logits of a row.
    pub vocabulary: usize,
}

impl CrossEntropySpec {
    /// The constants as WGSL.
    pub fn header(&self) -> String {
        Constants::default()
            .sizes(&[("VOCABULARY", self.vocabulary)])
            .header()
    }
}

impl CrossEntropy {
    /// Binds `targets` `[all rows]` u32, of which [`IGNORED`](dla_core::nn::loss::IGNORED) does not count, `share` `[1]`,
    /// what a row's loss counts; `logits` `[rows, vocabulary]`, which become their gradient of Σ share·loss, and
    /// `measures` `[all rows, 2]`: every row's loss, and 1 where the largest logit is the target's (the first among equals).
    ///
    /// # Errors
    /// [`Error::is_input`] for sizes that do not fit, [`Error::is_device`] for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        [targets, share]: [&wgpu::Buffer; 2],
        [logits, measures]: [&wgpu::Buffer; 2],
    ) -> Result<Vec<Dispatch>> {
        let (vocabulary, [count, first]) = (self.spec.vocabulary, self.rows);
        positive(OP, &[("vocabulary", vocabulary)])?;
        let all = first.saturating_add(count);
        holds(OP, "targets", targets, &[all])?;
        holds(OP, "share", share, &[1])?;
        holds(OP, "logits", logits, &[count, vocabulary])?;
        holds(OP, "measures", measures, &[all, 2])?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let layer = Layer {
            rows: count as u32,
            first: first as u32,
            ..Default::default()
        };
        let buffers = [
            ("targets", targets),
            ("share", share),
            ("logits", logits),
            ("measures", measures),
        ];
        let pass = (&CROSS_ENTROPY, &*self.spec.header());
        Ok(vec![layer.dispatch(gpu, pass, &buffers, count).await?])
    }
}

/// A block of a head's rows: what is recorded first, and what after it.
#[derive(Debug)]
pub struct HeadBlock {
    /// Writes the rows' measures.
    pub loss: Vec<Dispatch>,
    /// Writes `d_x` and adds to the weights' gradient.
    pub gradients: Vec<Dispatch>,
}

/// The head of a model with its loss, forwards and backwards in blocks of rows: a large vocabulary's logits are never there
/// all at once.
#[derive(Debug)]
pub struct Head {
    rows: usize,
    logits: wgpu::Buffer,
    x: wgpu::Buffer,
    d_x: wgpu::Buffer,
    sizes: [usize; 2],
}

impl Head {
    /// Room for blocks of at most 64 MiB of logits, at least 64 rows, of `rows` rows of `hidden` values.
    ///
    /// # Errors
    /// [`Error::is_unsupported`] where the device cannot bind 64 rows, [`Error::is_device`] where it has no memory.
    pub async fn new(gpu: &Gpu, rows: usize, [vocabulary, hidden]: [usize; 2]) -> Result<Self> {
        Self::within(gpu, rows, [vocabulary, hidden], BLOCK).await
    }

    /// The same with blocks of about `values` logits.
    ///
    /// # Errors
    /// As [`Head::new`].
    pub async fn within(
        gpu: &Gpu,
        rows: usize,
        [vocabulary, hidden]: [usize; 2],
        values: usize,
    ) -> Result<Self> {
        positive(OP, &[("vocabulary", vocabulary), ("hidden", hidden)])?;
        let most = values.min((gpu.max_binding() / 4) as usize) / vocabulary.max(hidden);
        let rows = rows.min((most / TILE * TILE).max(TILE));
        let room = async |label, width: usize| buffer(gpu, label, rows.saturating_mul(width)).await;
        Ok(Self {
            rows,
            logits: room("logits", vocabulary).await?,
            x: room("x", hidden).await?,
            d_x: room("d_x", hidden).await?,
            sizes: [vocabulary, hidden],
        })
    }

    /// Binds the head's weights, `[vocabulary, hidden]`, f32 or f16, and their gradient, f32, which is added to;
    /// `targets`, `share` and
    /// `measures` as [`CrossEntropy::prepare`] does; `x` `[rows, hidden]` and `d_x`, which is written; a scratch buffer.
    /// The blocks share their buffers: each is recorded before the next, its gradients too if they are wanted.
    ///
    /// # Errors
    /// [`Error::is_input`] for sizes that do not fit, [`Error::is_unsupported`] for other weights,
    /// [`Error::is_device`] for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: usize,
        [weight, d_weight]: [&Matrix; 2],
        [targets, share, measures, scratch]: [&wgpu::Buffer; 4],
        [x, d_x]: [&wgpu::Buffer; 2],
    ) -> Result<Vec<HeadBlock>> {
        let [vocabulary, hidden] = self.sizes;
        for (argument, matrix) in [("weight", weight), ("d_weight", d_weight)] {
            if [matrix.rows(), matrix.columns()] != self.sizes {
                let expected = format!("{vocabulary} × {hidden}");
                let got = format!("{} × {}", matrix.rows(), matrix.columns());
                return Err(Error::input(OP, argument, expected, got));
            }
        }
        let linear = Linear {
            weight,
            bias: None,
            input: Input::Plain,
            residual: false,
        };
        let input = InputGradient {
            weight,
            residual: false,
        };
        let matrix = MatrixGradient { d_weight, scratch };
        let mut blocks = Vec::new();
        for first in (0..rows).step_by(self.rows.max(1)) {
            let count = self.rows.min(rows - first);
            let block = Rows {
                batch: 1,
                tokens: count,
            };
            let loss = CrossEntropy {
                spec: CrossEntropySpec { vocabulary },
                rows: [count, first],
            };
            let buffers = [&self.logits, measures];
            let [there, back] = [[first, 0], [0, first]].map(|rows| copied(count, hidden, rows));
            let forward = [
                there.prepare(gpu, x, &self.x).await?,
                linear.prepare(gpu, block, &self.x, &self.logits).await?,
                loss.prepare(gpu, [targets, share], buffers).await?,
            ];
            let backward = [
                input.prepare(gpu, block, &self.logits, &self.d_x).await?,
                matrix.prepare(gpu, block, &self.logits, &self.x).await?,
                back.prepare(gpu, &self.d_x, d_x).await?,
            ];
            blocks.push(HeadBlock {
                loss: forward.into_iter().flatten().collect(),
                gradients: backward.into_iter().flatten().collect(),
            });
        }
        Ok(blocks)
    }
}

/// Whole rows from one place to another.
fn copied(rows: usize, columns: usize, first_rows: [usize; 2]) -> Place {
    Place {
        spec: PlaceSpec {
            from: [columns, 0],
            to: [columns, 0],
            columns,
        },
        rows,
        first_rows,
    }
}
