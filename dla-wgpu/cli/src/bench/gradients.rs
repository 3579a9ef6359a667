//! The backward pass of the bare operator at one shape.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dla_core::Result;
use dla_core::dla::gate::{Gate, GateMode};
use dla_wgpu::Gpu;
use dla_wgpu::backward_plan::BackwardPlan;
use dla_wgpu::op::{Backward, BoundBackward, GradientArrays};
use dla_wgpu::profile::Profile;
use serde_json::json;

use super::call::{Bench, settings};
use super::ceiling::Ceiling;
use super::{Noise, median, millis, scaled};
use crate::args::BenchOp;
use crate::report::Report;

/// What was measured.
pub(super) struct Timing {
    plan: BackwardPlan,
    order: Vec<&'static str>,
    passes: BTreeMap<&'static str, Duration>,
    span: Duration,
}

/// Times the gradients of a call that its own scores decided, every pass by the device's clock.
///
/// # Errors
/// When the device refuses the shape.
pub(super) fn measure(gpu: &Gpu, args: &BenchOp) -> Result<Timing> {
    let bench = Bench::new(gpu, args)?;
    let (config, options) = settings(args);
    pollster::block_on(async {
        let start = bench.operator.cache().await?;
        let bound = bench.operator.bind(&bench.arrays, &bench.cache).await?;
        bench.whole(&bound, 1)?;
        let mode = GateMode::StraightThrough;
        let backward = Backward::new(gpu, &args.dims(), &config, mode, &options).await?;
        let backward = Arc::new(backward);
        let gradients = backward.arrays().await?;
        fill(gpu, &gradients, args);
        let bound = backward.bind(&bench.arrays, &start, &gradients).await?;
        time(gpu, &backward, &bound, args.runs).await
    })
}

fn fill(gpu: &Gpu, gradients: &GradientArrays, args: &BenchOp) {
    let mut noise = Noise(2);
    let d_o = (0..args.dims().value_len()).map(|_| noise.next());
    let d_o: Vec<u8> = d_o.flat_map(f32::to_le_bytes).collect();
    gpu.queue().write_buffer(&gradients.d_o, 0, &d_o);
    let theta = (Gate::default().theta as f32).to_le_bytes();
    gpu.queue().write_buffer(&gradients.theta, 0, &theta);
}

async fn time(
    gpu: &Gpu,
    backward: &Backward,
    bound: &BoundBackward,
    runs: usize,
) -> Result<Timing> {
    let mut passes: BTreeMap<&'static str, Vec<Duration>> = BTreeMap::new();
    let mut spans = Vec::new();
    // The first run only warms up.
    for run in 0..=runs {
        let mut profile = Profile::new(gpu, bound.passes()).await?;
        let mut encoder = gpu.device().create_command_encoder(&Default::default());
        bound.record_profiled(&mut encoder, Some(&mut profile));
        let readback = profile.finish(gpu, &mut encoder).await?;
        gpu.queue().submit([encoder.finish()]);
        let bytes = readback.wait(gpu)?;
        if run > 0 {
            for (name, time) in profile.times(gpu, &bytes) {
                passes.entry(name).or_default().push(time);
            }
            spans.push(profile.span(gpu, &bytes));
        }
    }
    let medians = passes
        .into_iter()
        .map(|(name, times)| (name, median(times)));
    Ok(Timing {
        plan: backward.plan().clone(),
        order: bound.names(),
        passes: medians.collect(),
        span: median(spans),
    })
}

impl Timing {
    /// Adds a table of the backward pass.
    pub(super) fn add_to(&self, report: &mut Report, ceiling: &Ceiling) {
        let segments = self.plan.forward.segments.len();
        report.text += &format!(
            "\ngradients, {segments} segment{}, the forward passes that are run again included\n{:<22}{:>11}{:>13}{:>14}{:>14}{:>15}{:>9}\n",
            if segments == 1 { "" } else { "s" },
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
            let time = self.passes.get(name).copied().unwrap_or_default();
            let time = time.as_secs_f64().max(1e-9);
            let work = self.plan.work(name);
            let (bytes, flop) = (work.bytes as f64, work.flop as f64);
            let least = (bytes / ceiling.bytes).max(flop / ceiling.f32_flop);
            report.text += &format!(
                "{name:<22}{:>11.3}{:>13}{:>14}{:>14}{:>15}{:>8.0}%\n",
                time * 1e3,
                scaled(bytes, "B"),
                scaled(flop, "FLOP"),
                scaled(bytes / time, "B/s"),
                scaled(flop / time, "FLOP/s"),
                100.0 * least / time,
            );
            rows.push(json!({
                "pass": name, "ms": time * 1e3, "bytes": work.bytes, "flop": work.flop, "share_of_ceiling": least / time,
            }));
        }
        let span = millis(self.span);
        report.text += &format!("\nall of them {span:.3} ms by the device's clock\n");
        report.json["gradients"] = json!({ "passes": rows, "device_ms": span });
    }
}
