//! What the device can do at best, measured: bytes copied, f32 multiply-adds, f16 matrix products.

use std::time::{Duration, Instant};

use dla_core::{Error, Result};
use dla_wgpu::Gpu;
use wgpu::BufferUsages as Usage;

/// Rates per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ceiling {
    /// Bytes read plus bytes written.
    pub(super) bytes: f64,
    /// f32 operations, a multiply-add is two.
    pub(super) f32_flop: f64,
    /// Operations of f16 matrix products with f32 sums, where the device has them.
    pub(super) matrix_flop: Option<f64>,
}

/// Groups of a probe: enough for any device, little enough for a slow one.
const GROUPS: u32 = 4096;
/// The same on a CPU adapter.
const CPU_GROUPS: u32 = 32;

impl Ceiling {
    pub(super) async fn measure(gpu: &Gpu) -> Result<Self> {
        let cpu = gpu.is_software();
        let groups = if cpu { CPU_GROUPS } else { GROUPS };
        // Rounds of the probes' WGSL times the operations of one round in one group.
        let f32_flop = f64::from(groups) * 256.0 * 4096.0 * 16.0 * 2.0;
        let matrix_flop = f64::from(groups) * 4.0 * 2048.0 * 4.0 * 2.0 * 4096.0;
        let f32_rate = f32_flop
            / probe(
                gpu,
                include_str!("../../assets/ceiling_f32.wgsl"),
                groups,
                256,
            )?;
        let matrix_rate = if gpu.variant().cooperative_matrix {
            let time = probe(
                gpu,
                include_str!("../../assets/ceiling_matrix.wgsl"),
                groups,
                4096,
            )?;
            Some(matrix_flop / time)
        } else {
            None
        };
        // One group copies 64 KiB: half of its share of the buffer.
        let copies = if cpu { 512 } else { 8192 };
        let copy = probe(
            gpu,
            include_str!("../../assets/ceiling_copy.wgsl"),
            copies,
            32 << 10,
        )?;
        Ok(Self {
            bytes: f64::from(copies) * f64::from(128 << 10) / copy,
            f32_flop: f32_rate,
            matrix_flop: matrix_rate,
        })
    }
}

/// Seconds of one run of a probe that writes `values` f32 a group.
fn probe(gpu: &Gpu, source: &str, groups: u32, values: u64) -> Result<f64> {
    let device = gpu.device();
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some("ceiling"),
        source: wgpu::ShaderSource::Wgsl(source.into()),
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some("ceiling"),
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: Default::default(),
        cache: None,
    });
    let out = buffer(gpu, u64::from(groups) * values * 4, Usage::STORAGE);
    let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some("ceiling"),
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry {
            binding: 0,
            resource: out.as_entire_binding(),
        }],
    });
    best_of(gpu, |encoder| {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(groups, 1, 1);
    })
}

fn buffer(gpu: &Gpu, size: u64, usage: Usage) -> wgpu::Buffer {
    gpu.device().create_buffer(&wgpu::BufferDescriptor {
        label: Some("ceiling"),
        size,
        usage,
        mapped_at_creation: false,
    })
}

/// Seconds of one repetition, the best of three submissions of eight.
fn best_of(gpu: &Gpu, record: impl Fn(&mut wgpu::CommandEncoder)) -> Result<f64> {
    const REPEAT: u32 = 8;
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let mut encoder = gpu.device().create_command_encoder(&Default::default());
        (0..REPEAT).for_each(|_| record(&mut encoder));
        let commands = encoder.finish();
        let start = Instant::now();
        gpu.queue().submit([commands]);
        gpu.device()
            .poll(wgpu::PollType::wait_indefinitely())
            .map_err(|error| Error::device("bench op", "device", "finished work", error))?;
        best = best.min(start.elapsed() / REPEAT);
    }
    Ok(best.as_secs_f64())
}
