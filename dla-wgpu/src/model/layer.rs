//! One block's dispatches: norm, projections, convolution, mixer, output, residual; then the MLP.

use dla_core::Result;

use super::mixer::Mixers;
use super::rooms::Call;
use super::sequences::LayerMemory;
use super::specs::BlockSpecs;
use super::weights::{BlockWeights, MlpWeights};
use crate::Dispatch;
use crate::nn::{Conv, Input, Linear};

impl Call<'_> {
    /// The dispatches of a block, in order.
    pub(super) async fn prepare(
        &self,
        mixers: &Mixers,
        weights: &BlockWeights,
        memory: &LayerMemory,
    ) -> Result<Vec<Dispatch>> {
        let (gpu, rows, rooms) = (self.gpu, self.rows, self.rooms);
        let in_proj = Linear {
            weight: &weights.in_proj,
            bias: weights.in_bias.as_ref(),
            input: self.normed(&weights.norm),
            residual: false,
        };
        let mut dispatches = in_proj
            .prepare(gpu, rows, &rooms.x, &rooms.projected)
            .await?;
        dispatches.extend(self.mixed(mixers, weights, memory).await?);
        let out_proj = Linear {
            weight: &weights.out_proj,
            bias: weights.out_bias.as_ref(),
            input: Input::Plain,
            residual: true,
        };
        dispatches.extend(out_proj.prepare(gpu, rows, &rooms.y, &rooms.x).await?);
        if let (Some(mlp), Some(opened)) = (&weights.mlp, &rooms.opened) {
            dispatches.extend(self.mlp(mlp, opened).await?);
        }
        Ok(dispatches)
    }

    /// From the projections to what the last projection reads.
    async fn mixed(
        &self,
        mixers: &Mixers,
        weights: &BlockWeights,
        memory: &LayerMemory,
    ) -> Result<Vec<Dispatch>> {
        let (gpu, rows, rooms) = (self.gpu, self.rows, self.rooms);
        let conv = Conv {
            spec: BlockSpecs::of(self.config).conv,
            weight: &weights.conv,
        };
        let buffers = [&rooms.projected, &memory.conv, &rooms.mixed];
        let lengths = mixers.lengths();
        let mut dispatches = conv.prepare(gpu, rows, lengths, buffers).await?;
        dispatches.extend(self.mixer(mixers, &weights.mixer, &memory.mixer).await?);
        Ok(dispatches)
    }

    fn normed<'a>(&'a self, weight: &'a wgpu::Buffer) -> Input<'a> {
        Input::Normed {
            weight,
            epsilon: self.config.norm_epsilon,
            scratch: &self.rooms.normed,
        }
    }

    async fn mlp(&self, weights: &MlpWeights, opened: &wgpu::Buffer) -> Result<Vec<Dispatch>> {
        let (gpu, rows, x) = (self.gpu, self.rows, &self.rooms.x);
        let up = Linear {
            weight: &weights.up,
            bias: None,
            input: self.normed(&weights.norm),
            residual: false,
        };
        let down = Linear {
            weight: &weights.down,
            bias: None,
            input: Input::Gated,
            residual: true,
        };
        let mut dispatches = up.prepare(gpu, rows, x, opened).await?;
        dispatches.extend(down.prepare(gpu, rows, opened, x).await?);
        Ok(dispatches)
    }
}
