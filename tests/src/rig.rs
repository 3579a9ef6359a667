//! An operator with its buffers, filled from a case: for tests that look at the device's side of a call.

use dla_core::{Config, Dims, Result};
use dla_wgpu::op::{self, Decider, DeviceCache, Operator, Options};
use dla_wgpu::plan::Plan;
use dla_wgpu::{Float, Gpu, Readback};

use crate::cases::{Arrays, Case};

/// A word that nothing computes.
pub const POISON: u32 = 0x7fc0_dead;
/// Poisoned words behind every array of a rig.
pub const GUARD: usize = 1024;

/// An operator, its arrays with guard words behind them, and a cache.
#[derive(Debug)]
pub struct Rig {
    gpu: Gpu,
    case: Case,
    operator: Operator,
    /// The caller's arrays.
    pub arrays: op::Arrays,
    /// The states.
    pub cache: DeviceCache,
}

impl Rig {
    /// Buffers for `case`, whose dynamic schedule decides by itself, in f32; outputs and all guards are poisoned.
    ///
    /// # Errors
    /// Whatever the operator refuses.
    pub fn new(gpu: &Gpu, case: &Case, options: &Options) -> Result<Self> {
        assert_eq!(options.float, Float::F32, "a rig writes f32");
        let operator = pollster::block_on(Operator::new(
            gpu,
            &case.dims,
            &case.config,
            Decider::Scores,
            options,
        ))?;
        let bytes = operator.plan().arrays;
        let storage = wgpu::BufferUsages::STORAGE;
        let buffer = |words: u64, usage| poisoned(gpu, words as usize / 4 + GUARD, usage);
        let arrays = op::Arrays {
            q: buffer(bytes.key, storage),
            k: buffer(bytes.key, storage),
            v: buffer(bytes.value, storage),
            control: buffer(bytes.control, storage),
            o: buffer(bytes.value, storage),
            trace: buffer(bytes.trace, storage),
            ..pollster::block_on(operator.arrays())?
        };
        let cache = DeviceCache {
            states: buffer(bytes.states, storage),
            scalars: buffer(bytes.scalars, storage),
        };
        let rig = Self {
            gpu: gpu.clone(),
            case: case.clone(),
            operator,
            arrays,
            cache,
        };
        rig.reset();
        Ok(rig)
    }

    /// Empties the cache; whatever lies in the matrices stays.
    pub fn reset(&self) {
        let counts = vec![0u8; self.operator.plan().arrays.scalars as usize];
        self.gpu
            .queue()
            .write_buffer(&self.cache.scalars, 0, &counts);
    }

    /// Runs one call on `arrays` from the cache as it is; returns the output, `[B, T, H, Dv]`.
    ///
    /// # Errors
    /// Whatever the device refuses.
    pub fn run(&self, arrays: &Arrays) -> Result<Vec<f32>> {
        let mut encoder = self
            .gpu
            .device()
            .create_command_encoder(&Default::default());
        self.record(arrays, &mut encoder)?;
        self.gpu.queue().submit([encoder.finish()]);
        self.output()
    }

    /// Records one call on `arrays` from the cache as it is.
    ///
    /// # Errors
    /// Whatever the device refuses.
    pub fn record(&self, arrays: &Arrays, encoder: &mut wgpu::CommandEncoder) -> Result<()> {
        self.write(arrays);
        let bound = pollster::block_on(self.operator.bind(&self.arrays, &self.cache))?;
        bound.record(encoder);
        Ok(())
    }

    /// The output as it lies on the device.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn output(&self) -> Result<Vec<f32>> {
        let words = self.read(&self.arrays.o)?;
        Ok(bytemuck::cast_slice(&words[..self.case.dims.value_len()]).to_vec())
    }

    /// The plan that calls follow.
    pub fn plan(&self) -> &Plan {
        self.operator.plan()
    }

    /// The words of a workspace buffer, as the last call's last segment left it.
    ///
    /// # Errors
    /// When the device is lost.
    ///
    /// # Panics
    /// When the operator has no such buffer.
    pub fn workspace(&self, name: &str) -> Result<Vec<u32>> {
        let buffer = self.operator.workspace(name);
        self.read(buffer.unwrap_or_else(|| panic!("no buffer {name}")))
    }

    /// The words of a buffer, guards included.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn read(&self, buffer: &wgpu::Buffer) -> Result<Vec<u32>> {
        read(&self.gpu, buffer)
    }

    /// Every buffer with guards, by name.
    pub fn guarded(&self) -> [(&'static str, &wgpu::Buffer); 8] {
        [
            ("q", &self.arrays.q),
            ("k", &self.arrays.k),
            ("v", &self.arrays.v),
            ("control", &self.arrays.control),
            ("o", &self.arrays.o),
            ("trace", &self.arrays.trace),
            ("states", &self.cache.states),
            ("scalars", &self.cache.scalars),
        ]
    }

    /// Writes the arrays of a call.
    pub fn write(&self, arrays: &Arrays) {
        let dims = &self.case.dims;
        let queue = self.gpu.queue();
        let write = |buffer, values: &[f32]| {
            queue.write_buffer(buffer, 0, bytemuck::cast_slice(values));
        };
        write(&self.arrays.q, &arrays.q);
        write(&self.arrays.k, &arrays.k);
        write(&self.arrays.v, &arrays.v);
        write(
            &self.arrays.control,
            &control(dims, &self.case.config, arrays),
        );
        write(&self.arrays.tau, &arrays.tau);
        let full = vec![dims.tokens as u32; dims.batch];
        let lengths = arrays.lengths.as_ref().unwrap_or(&full);
        queue.write_buffer(&self.arrays.lengths, 0, bytemuck::cast_slice(lengths));
    }
}

/// The words of a buffer.
///
/// # Errors
/// When the device is lost.
pub fn read(gpu: &Gpu, buffer: &wgpu::Buffer) -> Result<Vec<u32>> {
    let mut encoder = gpu.device().create_command_encoder(&Default::default());
    let size = buffer.size();
    let readback = pollster::block_on(Readback::record(gpu, &mut encoder, buffer, size))?;
    gpu.queue().submit([encoder.finish()]);
    Ok(bytemuck::pod_collect_to_vec(&readback.wait(gpu)?))
}

/// `[B, T, H, 2 + K]`: g, β and λ of every token.
fn control(dims: &Dims, config: &Config, arrays: &Arrays) -> Vec<f32> {
    assert_eq!(config.schedule, dla_core::Schedule::Dynamic, "λ by rank");
    let mut records = Vec::with_capacity(dims.token_heads() * (dims.capacity + 2));
    for (at, lambda) in arrays.lambda.chunks_exact(dims.capacity).enumerate() {
        records.push(arrays.g.as_ref().map_or(0.0, |g| g[at]));
        records.push(arrays.beta.as_ref().map_or(1.0, |beta| beta[at]));
        records.extend_from_slice(lambda);
    }
    records
}

/// A buffer full of [`POISON`] that can be copied both ways.
pub fn poisoned(gpu: &Gpu, words: usize, usage: wgpu::BufferUsages) -> wgpu::Buffer {
    let buffer = gpu.device().create_buffer(&wgpu::BufferDescriptor {
        label: Some("poisoned"),
        size: words as u64 * 4,
        usage: usage | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC,
        mapped_at_creation: false,
    });
    let poison = vec![POISON; words];
    gpu.queue()
        .write_buffer(&buffer, 0, bytemuck::cast_slice(&poison));
    buffer
}
