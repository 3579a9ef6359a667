//! Layers by themselves: buffers with guard words behind them, and the recording of a few dispatches.

use dla_core::Result;
use dla_wgpu::nn::Rows;
use dla_wgpu::plan::MAX_BATCH;
use dla_wgpu::{Dispatch, Gpu};

use crate::cases::Draw;
use crate::rig::{GUARD, POISON, poisoned, read};

/// A device and the guarded buffers of one test.
#[derive(Debug)]
pub struct Layers<'a> {
    /// The device.
    pub gpu: &'a Gpu,
    buffers: Vec<(String, wgpu::Buffer, usize)>,
}

impl<'a> Layers<'a> {
    /// No buffers yet.
    pub fn new(gpu: &'a Gpu) -> Self {
        Self {
            gpu,
            buffers: Vec::new(),
        }
    }

    /// A poisoned buffer of `len` words and guards.
    pub fn output(&mut self, name: &str, len: usize) -> wgpu::Buffer {
        let buffer = poisoned(
            self.gpu,
            len.next_multiple_of(4) + GUARD,
            wgpu::BufferUsages::STORAGE,
        );
        self.buffers.push((name.to_owned(), buffer.clone(), len));
        buffer
    }

    /// A buffer of these numbers and guards.
    pub fn input(&mut self, name: &str, values: &[f32]) -> wgpu::Buffer {
        self.words(name, bytemuck::cast_slice(values))
    }

    /// A buffer of these words and guards.
    pub fn words(&mut self, name: &str, words: &[u32]) -> wgpu::Buffer {
        let buffer = self.output(name, words.len());
        self.gpu
            .queue()
            .write_buffer(&buffer, 0, bytemuck::cast_slice(words));
        buffer
    }

    /// A uniform buffer with a word for each batch item.
    pub fn items(&self, items: &[u32]) -> wgpu::Buffer {
        let buffer = poisoned(self.gpu, MAX_BATCH, wgpu::BufferUsages::UNIFORM);
        self.gpu
            .queue()
            .write_buffer(&buffer, 0, bytemuck::cast_slice(items));
        buffer
    }

    /// Runs the dispatches in order.
    ///
    /// # Panics
    /// When preparing them failed.
    pub fn run(&self, dispatches: Result<Vec<Dispatch>>) {
        let dispatches = dispatches.unwrap_or_else(|error| panic!("{error}"));
        let mut encoder = self
            .gpu
            .device()
            .create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        dispatches
            .iter()
            .for_each(|dispatch| dispatch.record(&mut pass));
        drop(pass);
        self.gpu.queue().submit([encoder.finish()]);
    }

    /// The words of a buffer of this test, after a look at all guards.
    ///
    /// # Panics
    /// When a guard word changed, or the device is lost.
    pub fn read(&self, buffer: &wgpu::Buffer) -> Vec<u32> {
        let mut found = None;
        for (name, known, len) in &self.buffers {
            let mut words = read(self.gpu, known).unwrap_or_else(|error| panic!("{error}"));
            let guards = words.split_off(*len);
            let touched = guards.iter().position(|&word| word != POISON);
            assert_eq!(touched, None, "{name}: a word behind the end changed");
            if known == buffer {
                found = Some(words);
            }
        }
        found.unwrap_or_else(|| panic!("a buffer of this test"))
    }

    /// The same as numbers.
    pub fn values(&self, buffer: &wgpu::Buffer) -> Vec<f32> {
        self.read(buffer).into_iter().map(f32::from_bits).collect()
    }

    /// The numbers of a buffer that is not of this test, without guards.
    ///
    /// # Panics
    /// When the device is lost.
    pub fn read_plain(&self, buffer: &wgpu::Buffer) -> Vec<f32> {
        let words = read(self.gpu, buffer).unwrap_or_else(|error| panic!("{error}"));
        words.into_iter().map(f32::from_bits).collect()
    }
}

/// `len` normal numbers.
pub fn numbers(seed: u64, len: usize) -> Vec<f32> {
    let mut draw = Draw::new(seed);
    (0..len).map(|_| draw.normal()).collect()
}

/// B batch items of T tokens.
pub fn rows(batch: usize, tokens: usize) -> Rows {
    Rows { batch, tokens }
}
