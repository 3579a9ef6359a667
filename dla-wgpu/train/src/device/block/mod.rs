//! One block forwards, keeping what the way back needs.

mod attention;
mod backward;
mod call;
mod gated_delta;
mod mamba2;
mod mixer;
mod recurrent;

use dla_core::Result;
use dla_core::model::{MixerConfig, ModelConfig};
use dla_wgpu::Gpu;
use dla_wgpu::nn::{self, Conv, Input, Linear};

use self::call::Kept;
use self::mixer::Mixer;
use super::layout::{BlockPlaces, MlpPlaces};
use super::parameters::Which;
use super::shared::Shared;
use super::work::{Work, dispatched};

pub(super) use self::call::Call;
pub(super) use self::mixer::Mixers;

/// A block with what it keeps of a forward pass.
#[derive(Debug)]
pub(super) struct Block {
    places: BlockPlaces,
    /// The residual stream before the block, `[rows, hidden]`.
    x: wgpu::Buffer,
    kept: Kept,
    mixer: Mixer,
    /// The residual stream after the mixer.
    after: wgpu::Buffer,
    mlp: Option<KeptMlp>,
    conv_bias: bool,
    /// Rows of the mixer's own projections, without λ's.
    own_rows: usize,
}

#[derive(Debug)]
struct KeptMlp {
    places: MlpPlaces,
    /// Gate and what it opens.
    opened: wgpu::Buffer,
    /// The residual stream after the MLP.
    after: wgpu::Buffer,
}

impl Block {
    /// Room for what the block at `places` keeps; it reads the residual stream at `x`.
    pub(super) async fn new(
        gpu: &Gpu,
        config: &ModelConfig,
        (shared, mixers): (&Shared, &Mixers),
        places: &BlockPlaces,
        x: wgpu::Buffer,
    ) -> Result<Self> {
        let (count, specs) = (shared.rows.count()?, &shared.specs);
        let room = async |label, width: usize| nn::buffer(gpu, label, count * width).await;
        let kept = Kept {
            projected: room("projected", specs.stride).await?,
            mixed: room("mixed", specs.conv.channels).await?,
        };
        let mlp = match (places.mlp, specs.inner) {
            (Some(places), Some(inner)) => Some(KeptMlp {
                places,
                opened: room("opened", 2 * inner).await?,
                after: room("x", config.hidden).await?,
            }),
            _ => None,
        };
        Ok(Self {
            x,
            mixer: mixers.mixer(gpu, places, shared, kept.clone()).await?,
            kept,
            after: room("x", config.hidden).await?,
            mlp,
            conv_bias: matches!(&config.mixer, MixerConfig::Mamba2(mixer) if mixer.conv_bias),
            own_rows: specs.lambda.column.unwrap_or(specs.stride),
            places: places.clone(),
        })
    }

    /// The residual stream after the block.
    pub(super) fn output(&self) -> &wgpu::Buffer {
        self.mlp.as_ref().map_or(&self.after, |mlp| &mlp.after)
    }

    /// The work of the forward pass.
    pub(super) async fn forward(&self, call: &Call<'_>) -> Result<Vec<Work>> {
        let mut work = self.input(call).await?;
        work.extend(self.mixer.forward(call).await?);
        work.push(copied(&self.x, &self.after));
        let bias = self.places.out_bias;
        let out_proj = Linear {
            weight: call.parameters.weight(self.places.out_proj),
            bias: bias.map(|place| call.parameters.vector(place, Which::Value)),
            input: Input::Plain,
            residual: true,
        };
        let y = self.mixer.output();
        let out_proj = out_proj.prepare(call.gpu, call.shared.rows, y, &self.after);
        work.extend(dispatched(out_proj.await?));
        if let Some(mlp) = &self.mlp {
            work.extend(self.mlp_forward(call, mlp).await?);
        }
        Ok(work)
    }

    /// Through the norm, the projections and the convolution.
    async fn input(&self, call: &Call<'_>) -> Result<Vec<Work>> {
        let (gpu, shared, places) = (call.gpu, call.shared, &self.places);
        let value = |place| call.parameters.vector(place, Which::Value);
        let in_proj = Linear {
            weight: call.parameters.weight(places.in_proj),
            bias: places.in_bias.map(value),
            input: Input::Normed {
                weight: value(places.norm),
                epsilon: shared.specs.norm.epsilon,
                scratch: &shared.normed,
            },
            residual: false,
        };
        let Kept { projected, mixed } = &self.kept;
        let in_proj = in_proj.prepare(gpu, shared.rows, &self.x, projected);
        let mut work = dispatched(in_proj.await?);
        work.push(Work::Clear(shared.conv_state.clone()));
        let conv = Conv {
            spec: shared.specs.conv,
            weight: value(places.conv),
        };
        let buffers = [projected, &shared.conv_state, mixed];
        let conv = conv.prepare(gpu, shared.rows, &shared.lengths, buffers);
        work.extend(dispatched(conv.await?));
        Ok(work)
    }

    async fn mlp_forward(&self, call: &Call<'_>, mlp: &KeptMlp) -> Result<Vec<Work>> {
        let (gpu, rows, shared) = (call.gpu, call.shared.rows, call.shared);
        let up = Linear {
            weight: call.parameters.weight(mlp.places.up),
            bias: None,
            input: Input::Normed {
                weight: call.parameters.vector(mlp.places.norm, Which::Value),
                epsilon: shared.specs.norm.epsilon,
                scratch: &shared.normed,
            },
            residual: false,
        };
        let down = Linear {
            weight: call.parameters.weight(mlp.places.down),
            bias: None,
            input: Input::Gated,
            residual: true,
        };
        let mut work = dispatched(up.prepare(gpu, rows, &self.after, &mlp.opened).await?);
        work.push(copied(&self.after, &mlp.after));
        work.extend(dispatched(
            down.prepare(gpu, rows, &mlp.opened, &mlp.after).await?,
        ));
        Ok(work)
    }
}

fn copied(from: &wgpu::Buffer, to: &wgpu::Buffer) -> Work {
    Work::Copy(from.clone(), to.clone(), from.size().min(to.size()))
}
