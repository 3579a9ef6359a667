//! `dla bench op`: the bare operator, pass by pass.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dla_core::{Backbone, Config, Error, Result};
use dla_wgpu::op::{Arrays, Bound, Decider, DeviceCache, Operator, Options};
use dla_wgpu::plan::Plan;
use dla_wgpu::profile::Profile;
use dla_wgpu::{Dispatch, Float, Gpu};
use half::f16;
use serde_json::{Value, json};

use super::ceiling::Ceiling;
use super::{Noise, gradients, median, millis, scaled};
use crate::args::{Backend, BenchOp, Global};
use crate::report::Report;
use crate::{backend, progress};

/// Times the operator at one shape: every pass, its bytes and operations, and the whole call.
///
/// # Errors
/// Without an adapter, or when the device refuses the shape.
pub fn run(args: &BenchOp, global: &Global) -> Result<Report> {
    if global.backend == Backend::Cpu {
        return Err(Error::unsupported(
            "bench op",
            "--backend",
            "auto or gpu: it times a device",
            "cpu",
        ));
    }
    let gpu = backend::open_gpu(global.adapter.clone())?;
    progress::watched("timing the operator", || measure(&gpu, args)).map_err(|error| {
        if error.is_unsupported() && error.argument() == "float" {
            error.advise("the device has no f16: pass --f32")
        } else {
            error
        }
    })
}

fn measure(gpu: &Gpu, args: &BenchOp) -> Result<Report> {
    let call = pollster::block_on(Bench::new(gpu, args)?.time(args.runs))?;
    let one = BenchOp {
        tokens: 1,
        tau: 0.0,
        ..args.clone()
    };
    let step = pollster::block_on(Bench::new(gpu, &one)?.time_steps(args.runs))?;
    let gradients = match args.gradients {
        true => Some(gradients::measure(gpu, args)?),
        false => None,
    };
    let ceiling = pollster::block_on(Ceiling::measure(gpu))?;
    let mut report = call.report(gpu, args, &step, &ceiling);
    if let Some(gradients) = gradients {
        gradients.add_to(&mut report, &ceiling);
    }
    Ok(report)
}

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

    /// One-token steps with a full cache: every token a boundary that merges a pair.
    async fn time_steps(&self, runs: usize) -> Result<StepTiming> {
        let bound = self.operator.bind(&self.arrays, &self.cache).await?;
        self.whole(&bound, 4 * self.operator.plan().dims.capacity)?;
        let mut device = Vec::new();
        let mut chained = Vec::new();
        for _ in 0..runs {
            chained.push(self.whole(&bound, CHAIN)? / CHAIN as u32);
            device.push(self.profile(&bound).await?.1);
        }
        Ok(StepTiming {
            device: median(device),
            chained: median(chained),
        })
    }

    async fn time(&self, runs: usize) -> Result<Timing> {
        let bound = self.operator.bind(&self.arrays, &self.cache).await?;
        self.whole(&bound, 1)?;
        let mut walls: Vec<Duration> = Vec::new();
        for _ in 0..runs {
            walls.push(self.whole(&bound, 1)?);
        }
        let mut passes: BTreeMap<&'static str, Vec<Duration>> = BTreeMap::new();
        let mut spans = Vec::new();
        for _ in 0..runs {
            let (times, span) = self.profile(&bound).await?;
            for (name, time) in times {
                passes.entry(name).or_default().push(time);
            }
            spans.push(span);
        }
        let mut order: Vec<_> = bound.dispatches().iter().map(Dispatch::name).collect();
        order.truncate(self.operator.passes());
        Ok(Timing {
            plan: self.operator.plan().clone(),
            order,
            passes: passes
                .into_iter()
                .map(|(name, times)| (name, median(times)))
                .collect(),
            span: median(spans),
            wall: median(walls),
        })
    }

    /// One call by the device's clock: every pass, and from the first to the last.
    async fn profile(&self, bound: &Bound) -> Result<(BTreeMap<&'static str, Duration>, Duration)> {
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

/// Steps in one submission: long enough that submitting it weighs little.
const CHAIN: usize = 256;

/// One-token steps.
struct StepTiming {
    /// By the device's clock.
    device: Duration,
    /// Wall time of each in a chain of [`CHAIN`].
    chained: Duration,
}

/// What was measured.
struct Timing {
    plan: Plan,
    order: Vec<&'static str>,
    passes: BTreeMap<&'static str, Duration>,
    span: Duration,
    wall: Duration,
}

impl Timing {
    fn report(&self, gpu: &Gpu, args: &BenchOp, step: &StepTiming, ceiling: &Ceiling) -> Report {
        let dims = self.plan.dims;
        let device = gpu.info().name;
        let matrix_rate = ceiling.matrix_flop.filter(|_| !args.f32);
        let segments = self.plan.segments.len();
        let mut text = format!(
            "{device}: B {} T {} H {} G {} Dk {} Dv {} K {}, chunk {}, {segments} segment{}, {} inputs\n\
             ceilings measured here: copies {}, f32 {}, f16 matrix products {}\n\n\
             {:<22}{:>11}{:>13}{:>14}{:>14}{:>15}{:>9}\n",
            dims.batch,
            dims.tokens,
            dims.heads,
            dims.groups,
            dims.key_dim,
            dims.value_dim,
            dims.capacity,
            self.plan.chunk,
            if segments == 1 { "" } else { "s" },
            if args.f32 { "f32" } else { "f16" },
            scaled(ceiling.bytes, "B/s"),
            scaled(ceiling.f32_flop, "FLOP/s"),
            ceiling
                .matrix_flop
                .map_or("none".into(), |rate| scaled(rate, "FLOP/s")),
            "pass",
            "ms",
            "bytes",
            "operations",
            "bytes/s",
            "operations/s",
            "ceiling",
        );
        let mut rows = Vec::new();
        for name in &self.order {
            let time = self
                .passes
                .get(name)
                .copied()
                .unwrap_or_default()
                .as_secs_f64()
                .max(1e-9);
            let work = self.plan.work(name);
            let rate = if name.ends_with("_matrix") {
                matrix_rate.unwrap_or(ceiling.f32_flop)
            } else {
                ceiling.f32_flop
            };
            let least = (work.bytes as f64 / ceiling.bytes).max(work.flop as f64 / rate);
            text += &format!(
                "{name:<22}{:>11.3}{:>13}{:>14}{:>14}{:>15}{:>8.0}%\n",
                time * 1e3,
                scaled(work.bytes as f64, "B"),
                scaled(work.flop as f64, "FLOP"),
                scaled(work.bytes as f64 / time, "B/s"),
                scaled(work.flop as f64 / time, "FLOP/s"),
                100.0 * least / time,
            );
            rows.push(json!({
                "pass": name, "ms": time * 1e3, "bytes": work.bytes, "flop": work.flop, "share_of_ceiling": least / time,
            }));
        }
        text += &format!(
            "\nall passes {:.3} ms by the device's clock; one call submitted and waited for {:.3} ms\n\
             one-token step, cache full: {:.1} us by the device's clock, {:.1} us each in a chain of {CHAIN}\n",
            millis(self.span),
            millis(self.wall),
            millis(step.device) * 1e3,
            millis(step.chained) * 1e3,
        );
        let json: Value = json!({
            "device": device, "f32": args.f32, "passes": rows,
            "device_ms": millis(self.span), "wall_ms": millis(self.wall),
            "step_us": millis(step.device) * 1e3, "step_chained_us": millis(step.chained) * 1e3,
            "ceiling": { "bytes_per_s": ceiling.bytes, "f32_flop_per_s": ceiling.f32_flop, "matrix_flop_per_s": ceiling.matrix_flop },
        });
        Report { text, json }
    }
}
