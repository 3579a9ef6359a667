//! What the mixers make of the operator's output, backwards.

use dla_core::{Dims, Result};
use dla_shaders::{DELTA_OUTPUT_GRADIENT, MAMBA2_OUTPUT_GRADIENT, Pass};

use super::sums::{ColumnSums, ColumnSumsSpec};
use crate::nn::layer::{Layer, Rows, holds, holds_floats, words};
use crate::nn::output::{DeltaOutputSpec, Mamba2OutputSpec, inner};
use crate::{Dispatch, Gpu};

/// [`Mamba2Output`](crate::nn::Mamba2Output) backwards.
#[derive(Clone, Copy, Debug)]
pub struct Mamba2OutputGradient<'a> {
    /// Sizes and columns.
    pub spec: Mamba2OutputSpec,
    /// `[3, H]` as in [`Mamba2Arrays`](crate::nn::Mamba2Arrays).
    pub heads: &'a wgpu::Buffer,
    /// The norm's, `[H·Dv]`.
    pub weight: &'a wgpu::Buffer,
    /// Room for parts, at least H·Dv values.
    pub scratch: &'a wgpu::Buffer,
    /// `[rows, H·Dv]`, written.
    pub terms: &'a wgpu::Buffer,
}

/// [`DeltaOutput`](crate::nn::DeltaOutput) backwards.
#[derive(Clone, Copy, Debug)]
pub struct DeltaOutputGradient<'a> {
    /// Sizes and columns.
    pub spec: DeltaOutputSpec,
    /// The norm's, `[Dv]`.
    pub weight: &'a wgpu::Buffer,
    /// Room for parts, at least Dv values.
    pub scratch: &'a wgpu::Buffer,
    /// `[rows, H·Dv]`, written.
    pub terms: &'a wgpu::Buffer,
}

impl Mamba2OutputGradient<'_> {
    /// Binds `o` `[rows, H, Dv]`, `mixed` `[rows, H·Dv + 2·G·Dk]` and `projected` `[rows, stride]` as they were; `d`
    /// `[rows, H·Dv]`, the gradient by the output, which becomes that by o + D·x; `d_projected` `[rows, stride]`, whose
    /// columns of z are written; and `d_weight` `[H·Dv]`, which is added to. What reaches x and D by the skip is left to
    /// [`Mamba2ArraysGradient`](super::Mamba2ArraysGradient).
    ///
    /// # Errors
    /// [`Error::is_input`](dla_core::Error::is_input) for sizes that do not fit,
    /// [`Error::is_device`](dla_core::Error::is_device) for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        [o, mixed, projected]: [&wgpu::Buffer; 3],
        [d, d_projected]: [&wgpu::Buffer; 2],
        d_weight: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        const OP: &str = "mamba2_output_gradient";
        let (count, spec) = (rows.count()?, &self.spec);
        spec.check(OP)?;
        let (dims, inner) = (&spec.dims, inner(&spec.dims));
        let mixed_row = inner + 2 * dims.groups * dims.key_dim;
        holds(OP, "heads", self.heads, &[3, dims.heads])?;
        holds(OP, "weight", self.weight, &[inner])?;
        holds(OP, "mixed", mixed, &[count, mixed_row])?;
        holds_floats(OP, "o", o, spec.float, &[count, inner])?;
        let call = Call {
            pass: (&MAMBA2_OUTPUT_GRADIENT, spec.header()),
            row_groups: spec.norm_groups,
            sums: [inner, count],
            stride: spec.stride,
            dims,
        };
        let buffers = [
            ("o", o),
            ("mixed", mixed),
            ("projected", projected),
            ("heads", self.heads),
            ("weight", self.weight),
            ("d", d),
            ("d_projected", d_projected),
            ("terms", self.terms),
        ];
        call.prepare(gpu, rows, &buffers, [self.scratch, d_weight])
            .await
    }
}

impl DeltaOutputGradient<'_> {
    /// Binds `o` `[rows, H, Dv]` and `projected` `[rows, stride]` as they were; `d` `[rows, H·Dv]`, the gradient by the
    /// output, which becomes that by o; `d_projected` `[rows, stride]`, whose columns of the gate are written; and
    /// `d_weight` `[Dv]`, which is added to.
    ///
    /// # Errors
    /// [`Error::is_input`](dla_core::Error::is_input) for sizes that do not fit,
    /// [`Error::is_device`](dla_core::Error::is_device) for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        [o, projected]: [&wgpu::Buffer; 2],
        [d, d_projected]: [&wgpu::Buffer; 2],
        d_weight: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        const OP: &str = "delta_output_gradient";
        let (count, spec) = (rows.count()?, &self.spec);
        spec.check(OP)?;
        holds(OP, "weight", self.weight, &[spec.dims.value_dim])?;
        holds_floats(OP, "o", o, spec.float, &[count, inner(&spec.dims)])?;
        let call = Call {
            pass: (&DELTA_OUTPUT_GRADIENT, spec.header()),
            row_groups: spec.dims.heads,
            sums: [
                spec.dims.value_dim,
                words(OP, "rows", &[count, spec.dims.heads])?,
            ],
            stride: spec.stride,
            dims: &spec.dims,
        };
        let buffers = [
            ("o", o),
            ("projected", projected),
            ("weight", self.weight),
            ("d", d),
            ("d_projected", d_projected),
            ("terms", self.terms),
        ];
        call.prepare(gpu, rows, &buffers, [self.scratch, d_weight])
            .await
    }
}

/// What both mixers' calls have in common.
struct Call<'a> {
    pass: (&'static Pass, String),
    /// Groups of a row.
    row_groups: usize,
    /// Values of the norm's weights, and how often they lie in `terms`.
    sums: [usize; 2],
    stride: usize,
    dims: &'a Dims,
}

impl Call<'_> {
    async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        buffers: &[(&'static str, &wgpu::Buffer)],
        [scratch, d_weight]: [&wgpu::Buffer; 2],
    ) -> Result<Vec<Dispatch>> {
        let (count, (pass, header)) = (rows.count()?, &self.pass);
        for (name, buffer) in buffers {
            let values = match *name {
                "d" | "terms" => inner(self.dims),
                "projected" | "d_projected" => self.stride,
                _ => continue,
            };
            holds(pass.name, name, buffer, &[count, values])?;
        }
        let groups = words(pass.name, "rows", &[count, self.row_groups])?;
        if groups == 0 {
            return Ok(Vec::new());
        }
        let layer = Layer::new(rows)?;
        let first = layer.dispatch(gpu, (pass, header), buffers, groups).await?;
        let [columns, lines] = self.sums;
        let sums = ColumnSums {
            spec: ColumnSumsSpec::all(columns),
            scratch,
        };
        let terms = buffers.iter().find(|(name, _)| *name == "terms");
        let mut dispatches = vec![first];
        if let Some((_, terms)) = terms {
            dispatches.extend(sums.prepare(gpu, lines, terms, (d_weight, 0)).await?);
        }
        Ok(dispatches)
    }
}
