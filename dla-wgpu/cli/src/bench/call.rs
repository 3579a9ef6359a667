//! The bare operator with its buffers filled, ready to be timed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dla_core::{Backbone, Config, Error, Result};
use dla_wgpu::op::{Arrays, Bound, Decider, DeviceCache, Operator, Options};
use dla_wgpu::profile::Profile;
use dla_wgpu::{Float, Gpu};
use half::f16;

use super::Noise;
use crate::args::BenchOp;

/// What is run, and how.
pub(super) fn settings(args: &BenchOp) -> (Config, Options) {
    let config = Config {
        backbone: args.backbone,
        ..Config::new(Backbone::Decay)
    };
    let options = Options {
        chunk: args.chunk.map(usize::from),
        float: if args.f32 { Float::F32 } else { Float::F16 },
        workspace: args.workspace.map(|mib| mib << 20),
        ..Default::default()
    };
    (config, options)
}

/// One operator with its buffers filled.
pub(super) struct Bench {
    gpu: Gpu,
    pub(super) operator: Operator,
    pub(super) arrays: Arrays,
    pub(super) cache: DeviceCache,
}

impl Bench {
    pub(super) fn new(gpu: &Gpu, args: &BenchOp) -> Result<Self> {
        let (config, options) = settings(args);
        let (operator, arrays, cache) = pollster::block_on(async {
            let operator =
                Operator::new(gpu, &args.dims(), &config, Decider::Scores, &options).await?;
            let arrays = operator.arrays().await?;
            let cache = operator.cache().await?;
            Ok::<_, Error>((operator, arrays, cache))
        })?;
        let bench = Self {
            gpu: gpu.clone(),
            operator,
            arrays,
            cache,
        };
        bench.fill(args, options.float, config.backbone);
        Ok(bench)
    }

    /// Random arrays: unrelated tokens, so that every one is a boundary below τ ≈ √2.
    fn fill(&self, args: &BenchOp, float: Float, backbone: Backbone) {
        let dims = args.dims();
        let mut noise = Noise(1);
        let scale = (dims.key_dim as f32).sqrt().recip();
        let mut write = |buffer: &wgpu::Buffer, count: usize, scale: f32| {
            let values = (0..count).map(|_| noise.next() * scale);
            let mut bytes: Vec<u8> = match float {
                Float::F32 => values.flat_map(f32::to_le_bytes).collect(),
                Float::F16 => values
                    .flat_map(|x| f16::from_f32(x).to_le_bytes())
                    .collect(),
            };
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            self.gpu.queue().write_buffer(buffer, 0, &bytes);
        };
        write(&self.arrays.q, dims.key_len(), scale);
        write(&self.arrays.k, dims.key_len(), scale);
        write(&self.arrays.v, dims.value_len(), 1.0);
        let g = if backbone == Backbone::Plain {
            0.0
        } else {
            -0.05
        };
        let control: Vec<u8> = (0..dims.token_heads())
            .flat_map(|_| {
                [g, 0.5]
                    .into_iter()
                    .chain(std::iter::repeat_n(1.0f32, dims.capacity))
            })
            .flat_map(f32::to_le_bytes)
            .collect();
        let queue = self.gpu.queue();
        queue.write_buffer(&self.arrays.control, 0, &control);
        let tau: Vec<u8> = std::iter::repeat_n(args.tau, dims.heads)
            .flat_map(f32::to_le_bytes)
            .collect();
        queue.write_buffer(&self.arrays.tau, 0, &tau);
        let lengths: Vec<u8> = std::iter::repeat_n(dims.tokens as u32, dims.batch)
            .flat_map(u32::to_le_bytes)
            .collect();
        queue.write_buffer(&self.arrays.lengths, 0, &lengths);
    }

    /// One call by the device's clock: every pass, and from the first to the last.
    pub(super) async fn profile(
        &self,
        bound: &Bound,
    ) -> Result<(BTreeMap<&'static str, Duration>, Duration)> {
        let mut profile = Profile::new(&self.gpu, bound.dispatches().len()).await?;
        let mut encoder = self
            .gpu
            .device()
            .create_command_encoder(&Default::default());
        bound.record_profiled(&mut encoder, &mut profile);
        let readback = profile.finish(&self.gpu, &mut encoder).await?;
        self.gpu.queue().submit([encoder.finish()]);
        let bytes = readback.wait(&self.gpu)?;
        Ok((
            profile.times(&self.gpu, &bytes),
            profile.span(&self.gpu, &bytes),
        ))
    }

    /// Wall time of one submission with `calls` calls, waited for.
    pub(super) fn whole(&self, bound: &Bound, calls: usize) -> Result<Duration> {
        let mut encoder = self
            .gpu
            .device()
            .create_command_encoder(&Default::default());
        for _ in 0..calls {
            bound.record(&mut encoder);
        }
        let commands = encoder.finish();
        let start = Instant::now();
        self.gpu.queue().submit([commands]);
        self.gpu
            .device()
            .poll(wgpu::PollType::wait_indefinitely())
            .map_err(|error| Error::device("bench op", "device", "finished work", error))?;
        Ok(start.elapsed())
    }
}
