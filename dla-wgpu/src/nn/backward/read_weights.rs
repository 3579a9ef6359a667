//! The read weights backwards.

use dla_core::{Dims, Result};
use dla_shaders::READ_WEIGHTS_GRADIENT;

use super::sums::{ColumnSums, ColumnSumsSpec};
use crate::nn::arrays::{ReadColumns, shared};
use crate::nn::layer::{Layer, Rows, columns, holds, holds_items, operator_sizes, words};
use crate::{Dispatch, Gpu};

/// λ = softplus(L·p + a) backwards, for either mixer.
#[derive(Clone, Copy, Debug)]
pub struct ReadWeightsGradient<'a> {
    /// Sizes and columns.
    pub spec: ReadWeightsGradientSpec,
    /// `[2, H, K]`: L and a.
    pub read_weights: &'a wgpu::Buffer,
    /// Room for parts, at least 2·H·K values.
    pub scratch: &'a wgpu::Buffer,
    /// `[rows, 2, H, K]`, written.
    pub terms: &'a wgpu::Buffer,
}

/// The constants of its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadWeightsGradientSpec {
    /// Sizes; batch and tokens do not matter here.
    pub dims: Dims,
    /// Values of a row of the projection.
    pub stride: usize,
    /// Its first column of λ, `[H, K]`.
    pub column: usize,
    /// The columns go by level, not by rank.
    pub fenwick: bool,
}

impl ReadWeightsGradientSpec {
    /// The constants as WGSL.
    pub fn header(&self) -> String {
        let lambda = ReadColumns {
            column: Some(self.column),
            fenwick: self.fenwick,
        };
        shared(&self.dims, self.stride, lambda).header()
    }
}

impl ReadWeightsGradient<'_> {
    /// Binds `positions` as in [`Sources`](crate::nn::Sources), `projected` `[rows, stride]` as it was, and `control`, the
    /// gradient by the operator's `[rows, H, 2 + K]`; `d_projected` `[rows, stride]`, whose columns of λ are written; and
    /// `d_read_weights` `[2, H, K]`, which is added to.
    ///
    /// # Errors
    /// [`Error::is_input`](dla_core::Error::is_input) for sizes that do not fit, [`Error::is_device`](dla_core::Error::is_device) for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        [positions, projected, control]: [&wgpu::Buffer; 3],
        d_projected: &wgpu::Buffer,
        d_read_weights: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        const OP: &str = "read_weights_gradient";
        let (count, spec) = (rows.count()?, &self.spec);
        operator_sizes(OP, &spec.dims)?;
        let (heads, capacity) = (spec.dims.heads, spec.dims.capacity);
        let weights = heads * capacity;
        columns(OP, "column", [spec.column, weights], spec.stride)?;
        holds_items(OP, "positions", positions)?;
        holds(OP, "projected", projected, &[count, spec.stride])?;
        holds(OP, "read_weights", self.read_weights, &[2, weights])?;
        holds(OP, "control", control, &[count, heads, 2 + capacity])?;
        holds(OP, "d_projected", d_projected, &[count, spec.stride])?;
        holds(OP, "terms", self.terms, &[count, 2, weights])?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let buffers = [
            ("positions", positions),
            ("projected", projected),
            ("read_weights", self.read_weights),
            ("d_control", control),
            ("d_projected", d_projected),
            ("terms", self.terms),
        ];
        let groups = words(OP, "rows", &[count, weights])?.div_ceil(256);
        let pass = (&READ_WEIGHTS_GRADIENT, &*spec.header());
        let layer = Layer::new(rows)?;
        let mut dispatches = vec![layer.dispatch(gpu, pass, &buffers, groups).await?];
        let sums = ColumnSums {
            spec: ColumnSumsSpec::all(2 * weights),
            scratch: self.scratch,
        };
        let total = (d_read_weights, 0);
        dispatches.extend(sums.prepare(gpu, count, self.terms, total).await?);
        Ok(dispatches)
    }
}
