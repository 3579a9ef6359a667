//! `y = W x + b`.

use dla_core::Result;
use dla_shaders::{self as shaders, Pass};

use super::constants::Constants;
use super::layer::{Layer, Rows, buffer, epsilon, holds};
use super::matrix::{Block, Matrix, WeightType};
use super::norm::{RmsNorm, RmsNormSpec};
use crate::plan::MAX_DISPATCH_FLOP;
use crate::{Dispatch, Gpu};

const OP: &str = "linear";
/// Rows up to which weights are read once for all of them.
const FEW_ROWS: usize = 8;
/// Groups that keep a device busy with few rows.
const BUSY_GROUPS: usize = 192;
/// Rows and outputs of a group with many rows.
const TILE: usize = 64;

/// A linear map with an optional bias, the twin of `dla_core::nn::Linear`.
#[derive(Clone, Copy, Debug)]
pub struct Linear<'a> {
    /// W, `[outputs, inputs]`.
    pub weight: &'a Matrix,
    /// b, `[outputs]`.
    pub bias: Option<&'a wgpu::Buffer>,
    /// What happens to the input first.
    pub input: Input<'a>,
    /// Adds to what y holds.
    pub residual: bool,
}

/// What happens to the input before the map.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Nothing.
    Plain,
    /// A row has `2·inputs` values, a gate and what it opens: `silu(x[i])·x[inputs + i]`.
    Gated,
    /// The root-mean-square norm.
    Normed {
        /// `[inputs]`.
        weight: &'a wgpu::Buffer,
        /// ε.
        epsilon: f32,
        /// `[rows, inputs]`, written where there are many rows.
        scratch: &'a wgpu::Buffer,
    },
}

/// [`Input`] without its buffers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InputKind {
    /// [`Input::Plain`].
    Plain,
    /// [`Input::Gated`].
    Gated,
    /// [`Input::Normed`] with its ε.
    Normed(f32),
}

/// The constants of its passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearSpec {
    /// Values of a row after what happens to the input first.
    pub inputs: usize,
    /// Rows of the weights.
    pub outputs: usize,
    /// How the weights lie.
    pub weight_type: WeightType,
    /// There is a bias.
    pub bias: bool,
    /// Adds to what y holds.
    pub residual: bool,
    /// What happens to the input first.
    pub input: InputKind,
    /// Rows of the call.
    pub rows: usize,
}

impl LinearSpec {
    /// The pass.
    pub fn pass(&self) -> &'static Pass {
        use WeightType::{F16, F32, I8};
        match (self.few_rows(), self.input, self.weight_type) {
            (true, InputKind::Plain, F32) => &shaders::MATVEC_F32,
            (true, InputKind::Plain, F16) => &shaders::MATVEC_F16,
            (true, InputKind::Plain, I8) => &shaders::MATVEC_I8,
            (true, InputKind::Gated, F32) => &shaders::MATVEC_GATED_F32,
            (true, InputKind::Gated, F16) => &shaders::MATVEC_GATED_F16,
            (true, InputKind::Gated, I8) => &shaders::MATVEC_GATED_I8,
            (true, InputKind::Normed(_), F32) => &shaders::MATVEC_NORMED_F32,
            (true, InputKind::Normed(_), F16) => &shaders::MATVEC_NORMED_F16,
            (true, InputKind::Normed(_), I8) => &shaders::MATVEC_NORMED_I8,
            (false, InputKind::Gated, F32) => &shaders::MATMUL_GATED_F32,
            (false, InputKind::Gated, F16) => &shaders::MATMUL_GATED_F16,
            (false, InputKind::Gated, I8) => &shaders::MATMUL_GATED_I8,
            // Many rows were normed before.
            (false, _, F32) => &shaders::MATMUL_F32,
            (false, _, F16) => &shaders::MATMUL_F16,
            (false, _, I8) => &shaders::MATMUL_I8,
        }
    }

    /// The constants as WGSL.
    pub fn header(&self) -> String {
        let constants = Constants::default()
            .sizes(&[
                ("INPUTS", self.inputs),
                ("OUTPUTS", self.outputs),
                ("WEIGHT_COLUMNS", self.weight_type.padded(self.inputs)),
            ])
            .switches(&[("BIAS", self.bias), ("RESIDUAL", self.residual)]);
        if !self.few_rows() {
            return constants.header();
        }
        let epsilon = match self.input {
            InputKind::Normed(epsilon) => epsilon,
            InputKind::Plain | InputKind::Gated => 0.0,
        };
        constants
            .sizes(&[
                ("ROWS", self.rows.next_power_of_two()),
                ("EACH", self.each()),
            ])
            .numbers(&[("EPSILON", epsilon)])
            .header()
    }

    fn few_rows(&self) -> bool {
        self.rows <= FEW_ROWS
    }

    /// Outputs that 32 invocations have: the more, the fewer reads of the input, as long as the device is busy.
    fn each(&self) -> usize {
        let busy = |each: &usize| self.outputs.div_ceil(8 * each) >= BUSY_GROUPS;
        [4, 2].into_iter().find(busy).unwrap_or(1)
    }

    /// Groups that `count` outputs take.
    fn groups(&self, count: usize) -> usize {
        if self.few_rows() {
            count.div_ceil(8 * self.each())
        } else {
            count.div_ceil(TILE) * self.rows.div_ceil(TILE)
        }
    }

    /// Outputs of one dispatch, whole tiles that stay below the most operations.
    fn most_outputs(&self) -> usize {
        let flop = 2 * (self.rows * self.inputs) as u64;
        let outputs = (MAX_DISPATCH_FLOP / flop.max(1)) as usize;
        (outputs / TILE * TILE).max(TILE)
    }
}

impl Linear<'_> {
    /// Binds `x` `[rows, inputs]`, twice as wide if gated, and `y` `[rows, outputs]`.
    ///
    /// # Errors
    /// [`Error::is_input`](dla_core::Error::is_input) for buffers that are too small or that are one and the same,
    /// [`Error::is_device`](dla_core::Error::is_device) for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        x: &wgpu::Buffer,
        y: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        let spec = self.spec(rows)?;
        self.check(&spec, x, y)?;
        let mut dispatches = Vec::new();
        if spec.rows == 0 {
            return Ok(dispatches);
        }
        let mut buffers = vec![("x", x), ("y", y)];
        if let Input::Normed {
            weight,
            epsilon,
            scratch,
        } = self.input
        {
            buffers.push(("norm", weight));
            if !spec.few_rows() {
                let width = spec.inputs;
                let spec = RmsNormSpec { width, epsilon };
                dispatches = RmsNorm { weight, spec }
                    .prepare(gpu, rows, x, scratch)
                    .await?;
                buffers[0] = ("x", scratch);
            }
        }
        let nothing = match self.bias {
            Some(bias) => bias.clone(),
            None => buffer(gpu, "bias", 0).await?,
        };
        buffers.push(("bias", &nothing));
        for block in self.weight.blocks() {
            dispatches.extend(block_dispatches(gpu, rows, &spec, block, &buffers).await?);
        }
        Ok(dispatches)
    }

    fn spec(&self, rows: Rows) -> Result<LinearSpec> {
        Ok(LinearSpec {
            inputs: self.weight.columns(),
            outputs: self.weight.rows(),
            weight_type: self.weight.weight_type(),
            bias: self.bias.is_some(),
            residual: self.residual,
            input: match self.input {
                Input::Plain => InputKind::Plain,
                Input::Gated => InputKind::Gated,
                Input::Normed { epsilon, .. } => InputKind::Normed(epsilon),
            },
            rows: rows.count()?,
        })
    }

    fn check(&self, spec: &LinearSpec, x: &wgpu::Buffer, y: &wgpu::Buffer) -> Result<()> {
        let wide = if spec.input == InputKind::Gated { 2 } else { 1 };
        holds(OP, "x", x, &[spec.rows, wide, spec.inputs])?;
        holds(OP, "y", y, &[spec.rows, spec.outputs])?;
        if let Some(bias) = self.bias {
            holds(OP, "bias", bias, &[spec.outputs])?;
        }
        if let Input::Normed {
            weight,
            epsilon: e,
            scratch,
        } = self.input
        {
            epsilon(OP, e)?;
            holds(OP, "norm", weight, &[spec.inputs])?;
            if !spec.few_rows() {
                holds(OP, "scratch", scratch, &[spec.rows, spec.inputs])?;
            }
        }
        Ok(())
    }
}

/// The dispatches of one block of the weights.
async fn block_dispatches(
    gpu: &Gpu,
    rows: Rows,
    spec: &LinearSpec,
    block: &Block,
    buffers: &[(&'static str, &wgpu::Buffer)],
) -> Result<Vec<Dispatch>> {
    let mut buffers = buffers.to_vec();
    buffers.extend(block.buffers());
    let (pass, header, most) = (spec.pass(), spec.header(), spec.most_outputs());
    let mut dispatches = Vec::new();
    for skip in (0..block.count).step_by(most) {
        let count = most.min(block.count - skip);
        let layer = Layer {
            first: (block.first + skip) as u32,
            count: count as u32,
            skip: skip as u32,
            ..Layer::new(rows)?
        };
        let groups = spec.groups(count);
        let dispatch = layer.dispatch(gpu, (pass, &header), &buffers, groups);
        dispatches.push(dispatch.await?);
    }
    Ok(dispatches)
}
