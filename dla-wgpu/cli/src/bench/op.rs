//! `dla bench op`: the bare operator, pass by pass.

use std::collections::BTreeMap;
use std::time::Duration;

use dla_core::{Error, Result};
use dla_wgpu::plan::Plan;
use dla_wgpu::{Dispatch, Gpu};
use serde_json::{Value, json};

use super::call::Bench;
use super::ceiling::Ceiling;
use super::{gradients, median, millis, scaled};
use crate::args::{self, Backend, BenchOp, Global};
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
    let sizes = args.dims().check();
    sizes.map_err(|error| args::option(error, "bench op"))?;
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
    let call = pollster::block_on(time(&Bench::new(gpu, args)?, args.runs))?;
    let one = BenchOp {
        tokens: 1,
        tau: 0.0,
        ..args.clone()
    };
    let step = pollster::block_on(time_steps(&Bench::new(gpu, &one)?, args.runs))?;
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

/// One-token steps with a full cache: every token a boundary that merges a pair.
async fn time_steps(bench: &Bench, runs: usize) -> Result<StepTiming> {
    let bound = bench.operator.bind(&bench.arrays, &bench.cache).await?;
    bench.whole(&bound, 4 * bench.operator.plan().dims.capacity)?;
    let mut device = Vec::new();
    let mut chained = Vec::new();
    for _ in 0..runs {
        chained.push(bench.whole(&bound, CHAIN)? / CHAIN as u32);
        device.push(bench.profile(&bound).await?.1);
    }
    Ok(StepTiming {
        device: median(device),
        chained: median(chained),
    })
}

async fn time(bench: &Bench, runs: usize) -> Result<Timing> {
    let bound = bench.operator.bind(&bench.arrays, &bench.cache).await?;
    bench.whole(&bound, 1)?;
    let mut walls: Vec<Duration> = Vec::new();
    for _ in 0..runs {
        walls.push(bench.whole(&bound, 1)?);
    }
    let mut passes: BTreeMap<&'static str, Vec<Duration>> = BTreeMap::new();
    let mut spans = Vec::new();
    for _ in 0..runs {
        let (times, span) = bench.profile(&bound).await?;
        for (name, time) in times {
            passes.entry(name).or_default().push(time);
        }
        spans.push(span);
    }
    let mut order: Vec<_> = bound.dispatches().iter().map(Dispatch::name).collect();
    order.truncate(bench.operator.passes());
    Ok(Timing {
        plan: bench.operator.plan().clone(),
        order,
        passes: passes
            .into_iter()
            .map(|(name, times)| (name, median(times)))
            .collect(),
        span: median(spans),
        wall: median(walls),
    })
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
