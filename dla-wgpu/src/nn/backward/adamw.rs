//! The optimiser: the norm of all gradients, and Adam with decoupled decay.

use dla_core::{Error, Result};
use dla_shaders::{ADAMW, GRADIENT_NORM, SQUARE_SUM};

use super::linear::single;
use crate::nn::constants::Constants;
use crate::nn::layer::{Layer, buffer, holds, positive, words};
use crate::nn::matrix::{Matrix, WeightType};
use crate::scope::scoped;
use crate::{Dispatch, Gpu};

const OP: &str = "adamw";
/// Values of a group of `square_sum`.
const SHARE: usize = 4096;

/// Adam with decoupled decay over any number of tensors, each in buffers of its own.
///
/// Step t moves every tensor x with the gradient g of L times the loss, n being the norm of all g / L together:
///
/// ```text
/// s = (clip / n if n > clip, else 1) / L
/// m ← β₁ m + (1 − β₁) (s g)        v ← β₂ v + (1 − β₂) (s g)²
/// x ← x − (r w) x                  where x decays
/// x ← x − r (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)
/// ```
///
/// Where the norm of all g is not finite nothing moves, and the step counts as skipped. A step that makes a finite
/// value one that is not says so.
#[derive(Debug)]
pub struct AdamW {
    step: wgpu::Buffer,
    norm: wgpu::Buffer,
}

/// The numbers of one step.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Step {
    /// r.
    pub rate: f32,
    /// r w.
    pub decay: f32,
    /// β₁, how much of the gradients' mean stays.
    pub beta1: f32,
    /// β₂, how much of the squares' mean stays.
    pub beta2: f32,
    /// ε.
    pub epsilon: f32,
    /// 1 − β₁ᵗ and 1 − β₂ᵗ.
    pub corrections: [f32; 2],
    /// The most that n may be; +∞ clips nothing.
    pub clip: f32,
    /// 1 / L where the loss was multiplied by L before its gradient was taken, else 1.
    pub unscale: f32,
}

/// A tensor, or a block of one, and what belongs to it.
#[derive(Clone, Copy, Debug)]
pub struct Parameter<'a> {
    /// x, g, m and v, `[values]` each.
    pub buffers: [&'a wgpu::Buffer; 4],
    /// How many values.
    pub values: usize,
    /// Which of them decay.
    pub decays: Decays,
}

/// Which values of a tensor decay: of every `period` the `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decays {
    /// At least 1.
    pub period: usize,
    /// At most as many.
    pub first: usize,
}

impl Decays {
    /// All of them.
    pub const ALL: Self = Self {
        period: 1,
        first: 1,
    };
    /// None of them.
    pub const NONE: Self = Self {
        period: 1,
        first: 0,
    };

    /// The constants as WGSL.
    pub fn header(&self) -> String {
        let sizes = [("PERIOD", self.period), ("DECAYED", self.first)];
        Constants::default().sizes(&sizes).header()
    }
}

impl<'a> Parameter<'a> {
    /// The blocks of x, g, m and v, which are matrices of one shape in f32.
    ///
    /// # Errors
    /// [`Error::is_input`] for different shapes, [`Error::is_unsupported`] for other weights than f32.
    pub fn of(matrices: [&'a Matrix; 4], decays: Decays) -> Result<Vec<Self>> {
        let [x, others @ ..] = matrices;
        single(OP, "x", x)?;
        let layout = |matrix: &Matrix| {
            let blocks = matrix.blocks().iter().map(|block| block.count);
            (matrix.columns(), blocks.collect::<Vec<_>>())
        };
        for (argument, other) in ["gradient", "mean", "square"].into_iter().zip(others) {
            single(OP, argument, other)?;
            if layout(other) != layout(x) {
                let expected = format!("{} × {}, as x", x.rows(), x.columns());
                let got = format!("{} × {}", other.rows(), other.columns());
                return Err(Error::input(OP, argument, expected, got));
            }
        }
        let padded = WeightType::F32.padded(x.columns());
        let block = |at: usize| Self {
            buffers: matrices.map(|matrix| &matrix.blocks()[at].words),
            values: x.blocks()[at].count * padded,
            decays,
        };
        Ok((0..x.blocks().len()).map(block).collect())
    }
}

impl AdamW {
    /// Nothing skipped yet.
    ///
    /// # Errors
    /// [`Error::is_device`] where the device has no memory.
    pub async fn new(gpu: &Gpu) -> Result<Self> {
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let bytes = size_of::<Step>() as u64;
        Ok(Self {
            step: gpu.buffer("step", bytes, usage).await?,
            norm: buffer(gpu, "norm", 5).await?,
        })
    }

    /// Writes the numbers of the next recorded step; the queue takes them before what is submitted later.
    ///
    /// # Errors
    /// [`Error::is_device`] where the device fails.
    pub async fn write(&self, gpu: &Gpu, step: &Step) -> Result<()> {
        let step = Step {
            // Compilers may take infinities for impossible.
            clip: step.clip.min(f32::MAX),
            ..*step
        };
        scoped(gpu.device(), OP, "step", || {
            gpu.queue()
                .write_buffer(&self.step, 0, bytemuck::bytes_of(&step));
        })
        .await
    }

    /// `[5]`: the norm n of the last step's gradients, s, what they were scaled by, 1 if the step was skipped, steps
    /// skipped so far, and a word that is not 0 where the last step has made a finite value of x one that is not.
    pub fn norm(&self) -> &wgpu::Buffer {
        &self.norm
    }

    /// The dispatches of a step.
    ///
    /// # Errors
    /// [`Error::is_input`] for sizes that do not fit, [`Error::is_device`] for what the device refuses.
    pub async fn prepare(&self, gpu: &Gpu, parameters: &[Parameter<'_>]) -> Result<Vec<Dispatch>> {
        let mut groups = 0;
        for parameter in parameters {
            parameter.check()?;
            groups += parameter.values.div_ceil(SHARE);
        }
        let squares = buffer(gpu, "squares", groups).await?;
        let mut dispatches = Vec::new();
        let mut at = 0;
        for parameter in parameters.iter().filter(|parameter| parameter.values > 0) {
            let groups = parameter.values.div_ceil(SHARE);
            let layer = Layer {
                count: parameter.values as u32,
                skip: at as u32,
                ..Default::default()
            };
            let buffers = [("gradient", parameter.buffers[1]), ("squares", &squares)];
            let dispatch = layer.dispatch(gpu, (&SQUARE_SUM, ""), &buffers, groups);
            dispatches.push(dispatch.await?);
            at += groups;
        }
        dispatches.push(self.norm_dispatch(gpu, &squares, groups).await?);
        for parameter in parameters.iter().filter(|parameter| parameter.values > 0) {
            dispatches.push(self.move_dispatch(gpu, parameter).await?);
        }
        Ok(dispatches)
    }

    async fn norm_dispatch(
        &self,
        gpu: &Gpu,
        squares: &wgpu::Buffer,
        count: usize,
    ) -> Result<Dispatch> {
        let layer = Layer {
            count: count as u32,
            ..Default::default()
        };
        let buffers = [
            ("step", &self.step),
            ("squares", squares),
            ("norm", &self.norm),
        ];
        layer.dispatch(gpu, (&GRADIENT_NORM, ""), &buffers, 1).await
    }

    async fn move_dispatch(&self, gpu: &Gpu, parameter: &Parameter<'_>) -> Result<Dispatch> {
        let [x, gradient, mean, square] = parameter.buffers;
        let layer = Layer {
            count: parameter.values as u32,
            ..Default::default()
        };
        let buffers = [
            ("step", &self.step),
            ("norm", &self.norm),
            ("gradient", gradient),
            ("tensor", x),
            ("mean", mean),
            ("square", square),
        ];
        let header = parameter.decays.header();
        let groups = parameter.values.div_ceil(256);
        layer
            .dispatch(gpu, (&ADAMW, &header), &buffers, groups)
            .await
    }
}

impl Parameter<'_> {
    fn check(&self) -> Result<()> {
        let Decays { period, first } = self.decays;
        positive(OP, &[("period", period)])?;
        if first > period {
            let expected = format!("at most {period}, the period");
            return Err(Error::input(OP, "first", expected, first));
        }
        words(OP, "values", &[self.values])?;
        let names = ["x", "gradient", "mean", "square"];
        for (argument, buffer) in names.into_iter().zip(self.buffers) {
            holds(OP, argument, buffer, &[self.values])?;
        }
        Ok(())
    }
}
