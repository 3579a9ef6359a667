//! What the mixers make of the operator's output.

use dla_core::{Dims, Error, Result};
use dla_shaders::{DELTA_OUTPUT, MAMBA2_OUTPUT};

use super::constants::Constants;
use super::layer::{Layer, Rows, columns, epsilon, holds, holds_floats, operator_sizes, words};
use crate::{Dispatch, Float, Gpu};

/// Mamba-2's: the norm, by group, of (o + D·x)·SiLU(z).
#[derive(Clone, Copy, Debug)]
pub struct Mamba2Output<'a> {
    /// Sizes and columns.
    pub spec: Mamba2OutputSpec,
    /// `[3, H]` as in [`Mamba2Arrays`](super::Mamba2Arrays).
    pub heads: &'a wgpu::Buffer,
    /// The norm's, `[H·Dv]`.
    pub weight: &'a wgpu::Buffer,
}

/// The constants of its pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mamba2OutputSpec {
    /// Sizes; batch and tokens do not matter here.
    pub dims: Dims,
    /// Values of a row of the projection.
    pub stride: usize,
    /// Its first column of z, `[H·Dv]`.
    pub z: usize,
    /// Groups of values that are normed alone.
    pub norm_groups: usize,
    /// The norm's ε.
    pub epsilon: f32,
    /// Element type of o.
    pub float: Float,
}

/// Gated DeltaNet's: the norm of every head, by SiLU(gate) if there is one.
#[derive(Clone, Copy, Debug)]
pub struct DeltaOutput<'a> {
    /// Sizes and columns.
    pub spec: DeltaOutputSpec,
    /// The norm's, `[Dv]`.
    pub weight: &'a wgpu::Buffer,
}

/// The constants of its pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeltaOutputSpec {
    /// Sizes; batch and tokens do not matter here.
    pub dims: Dims,
    /// Values of a row of the projection.
    pub stride: usize,
    /// Its first column of the gate, `[H·Dv]`; absent where the output is not gated.
    pub gate: Option<usize>,
    /// The norm's ε.
    pub epsilon: f32,
    /// Element type of o.
    pub float: Float,
}

impl Mamba2OutputSpec {
    /// The constants as WGSL.
    pub fn header(&self) -> String {
        shared(&self.dims, self.stride, self.epsilon)
            .sizes(&[("GATE", self.z), ("NORM_GROUPS", self.norm_groups)])
            .element(self.float)
            .header()
    }

    pub(super) fn check(&self, op: &'static str) -> Result<()> {
        operator_sizes(op, &self.dims)?;
        epsilon(op, self.epsilon)?;
        let inner = inner(&self.dims);
        if self.norm_groups == 0 || !inner.is_multiple_of(self.norm_groups) {
            let expected = format!("a divisor of {inner}");
            return Err(Error::input(op, "norm_groups", expected, self.norm_groups));
        }
        columns(op, "z", [self.z, inner], self.stride)
    }
}

impl DeltaOutputSpec {
    /// The constants as WGSL.
    pub fn header(&self) -> String {
        shared(&self.dims, self.stride, self.epsilon)
            .sizes(&[("GATE", self.gate.unwrap_or(0))])
            .switches(&[("GATED", self.gate.is_some())])
            .element(self.float)
            .header()
    }

    pub(super) fn check(&self, op: &'static str) -> Result<()> {
        operator_sizes(op, &self.dims)?;
        epsilon(op, self.epsilon)?;
        match self.gate {
            Some(gate) => columns(op, "gate", [gate, inner(&self.dims)], self.stride),
            None => Ok(()),
        }
    }
}

impl Mamba2Output<'_> {
    /// Binds `o` `[rows, H, Dv]`, `mixed` `[rows, H·Dv + 2·G·Dk]`, `projected` `[rows, stride]` and `y` `[rows, H·Dv]`.
    ///
    /// # Errors
    /// [`Error::is_input`] for sizes that do not fit, [`Error::is_device`] for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        [o, mixed, projected]: [&wgpu::Buffer; 3],
        y: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        const OP: &str = "mamba2_output";
        let (count, spec) = (rows.count()?, &self.spec);
        spec.check(OP)?;
        let (dims, inner) = (&spec.dims, inner(&spec.dims));
        let mixed_row = inner + 2 * dims.groups * dims.key_dim;
        holds(OP, "heads", self.heads, &[3, dims.heads])?;
        holds(OP, "weight", self.weight, &[inner])?;
        holds_floats(OP, "o", o, spec.float, &[count, inner])?;
        holds(OP, "mixed", mixed, &[count, mixed_row])?;
        holds(OP, "projected", projected, &[count, spec.stride])?;
        holds(OP, "y", y, &[count, inner])?;
        let buffers = [
            ("o", o),
            ("mixed", mixed),
            ("projected", projected),
            ("heads", self.heads),
            ("weight", self.weight),
            ("y", y),
        ];
        let groups = words(OP, "rows", &[count, spec.norm_groups])?;
        if groups == 0 {
            return Ok(Vec::new());
        }
        let pass = (&MAMBA2_OUTPUT, &*spec.header());
        let layer = Layer::new(rows)?;
        Ok(vec![layer.dispatch(gpu, pass, &buffers, groups).await?])
    }
}

impl DeltaOutput<'_> {
    /// Binds `o` `[rows, H, Dv]`, `projected` `[rows, stride]` and `y` `[rows, H·Dv]`.
    ///
    /// # Errors
    /// [`Error::is_input`] for sizes that do not fit, [`Error::is_device`] for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        [o, projected]: [&wgpu::Buffer; 2],
        y: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        const OP: &str = "delta_output";
        let (count, spec) = (rows.count()?, &self.spec);
        spec.check(OP)?;
        let inner = inner(&spec.dims);
        holds(OP, "weight", self.weight, &[spec.dims.value_dim])?;
        holds_floats(OP, "o", o, spec.float, &[count, inner])?;
        holds(OP, "projected", projected, &[count, spec.stride])?;
        holds(OP, "y", y, &[count, inner])?;
        let buffers = [
            ("o", o),
            ("projected", projected),
            ("weight", self.weight),
            ("y", y),
        ];
        let groups = words(OP, "rows", &[count, spec.dims.heads])?;
        if groups == 0 {
            return Ok(Vec::new());
        }
        let pass = (&DELTA_OUTPUT, &*spec.header());
        let layer = Layer::new(rows)?;
        Ok(vec![layer.dispatch(gpu, pass, &buffers, groups).await?])
    }
}

/// Values of all heads, H·Dv.
pub(super) fn inner(dims: &Dims) -> usize {
    dims.heads * dims.value_dim
}

/// The constants of both mixers' passes.
fn shared(dims: &Dims, stride: usize, epsilon: f32) -> Constants {
    Constants::default()
        .sizes(&[
            ("HEADS", dims.heads),
            ("GROUPS", dims.groups),
            ("KEY_DIM", dims.key_dim),
            ("VALUE_DIM", dims.value_dim),
            ("STRIDE", stride),
        ])
        .numbers(&[("EPSILON", epsilon)])
}
