//! Sums over rows in a fixed order: parts of slices, then the parts.

use dla_core::{Error, Result};
use dla_shaders::{COLUMN_SUMS, SUM_PARTS};

use crate::nn::constants::Constants;
use crate::nn::layer::{Layer, buffer, columns, holds, positive, words};
use crate::{Dispatch, Gpu};

const OP: &str = "column_sums";
/// Values of a scratch buffer, 8 MiB: 512 tiles of a weight's gradient.
const SCRATCH: usize = 1 << 21;
/// Rows of a slice where there is room for as many slices as wanted.
const SPAN: usize = 256;
/// Columns of a group.
const ACROSS: usize = 64;

/// A buffer for the parts of sums, which every layer of a recording may use.
///
/// # Errors
/// [`Error::is_device`] where the device has no memory.
pub async fn scratch(gpu: &Gpu) -> Result<wgpu::Buffer> {
    buffer(gpu, "scratch", SCRATCH).await
}

/// Sums over rows of some columns of an array, added to what `total` holds: the gradient by a bias, by a norm's weights.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSums<'a> {
    /// Which columns.
    pub spec: ColumnSumsSpec,
    /// Room for parts, at least one value a column.
    pub scratch: &'a wgpu::Buffer,
}

/// The columns that are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSumsSpec {
    /// Values of a row.
    pub stride: usize,
    /// The first column.
    pub first: usize,
    /// Columns from one to the next, at least 1.
    pub every: usize,
    /// How many.
    pub columns: usize,
}

impl ColumnSumsSpec {
    /// All columns of rows of `width` values.
    pub fn all(width: usize) -> Self {
        Self {
            stride: width,
            first: 0,
            every: 1,
            columns: width,
        }
    }

    /// The constants as WGSL, for slices of `span` rows.
    pub fn header(&self, span: usize) -> String {
        let sizes = [
            ("STRIDE", self.stride),
            ("FIRST", self.first),
            ("EVERY", self.every),
            ("COLUMNS", self.columns),
            ("SPAN", span),
        ];
        Constants::default().sizes(&sizes).header()
    }
}

impl ColumnSums<'_> {
    /// Binds `source` `[rows, stride]` and `total`, whose values from `at` on take the sums.
    ///
    /// # Errors
    /// [`Error::is_input`] for sizes that do not fit, [`Error::is_device`] for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: usize,
        source: &wgpu::Buffer,
        (total, at): (&wgpu::Buffer, usize),
    ) -> Result<Vec<Dispatch>> {
        let spec = &self.spec;
        positive(OP, &[("columns", spec.columns), ("every", spec.every)])?;
        let reach = words(OP, "columns", &[spec.columns - 1, spec.every])? + 1;
        columns(OP, "columns", [spec.first, reach], spec.stride)?;
        holds(OP, "source", source, &[rows, spec.stride])?;
        if rows == 0 {
            return Ok(Vec::new());
        }
        let slices = Slices::new(OP, self.scratch, rows, spec.columns, rows.div_ceil(SPAN))?;
        let layer = Layer {
            rows: rows as u32,
            ..Default::default()
        };
        let buffers = [("source", source), ("parts", self.scratch)];
        let pass = (&COLUMN_SUMS, &*spec.header(slices.span));
        let groups = slices.count * spec.columns.div_ceil(ACROSS);
        let first = layer.dispatch(gpu, pass, &buffers, groups).await?;
        let second = slices.sum(gpu, self.scratch, (total, at)).await?;
        Ok(vec![first, second])
    }
}

/// Rows in slices, each with `values` sums of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slices {
    /// Rows of a slice.
    pub(super) span: usize,
    /// Slices.
    pub(super) count: usize,
    values: usize,
}

impl Slices {
    /// At most `wanted` slices of a multiple of 16 rows whose parts fit into `scratch`.
    pub(super) fn new(
        op: &'static str,
        scratch: &wgpu::Buffer,
        rows: usize,
        values: usize,
        wanted: usize,
    ) -> Result<Self> {
        holds(op, "scratch", scratch, &[values])?;
        let room = scratch.size() as usize / 4 / values.max(1);
        let span = rows.div_ceil(wanted.min(room).max(1)).next_multiple_of(16);
        Ok(Self {
            span,
            count: rows.div_ceil(span),
            values,
        })
    }

    /// The dispatch that adds the sums of the parts in `scratch` to what `total` holds from `at` on.
    pub(super) async fn sum(
        &self,
        gpu: &Gpu,
        scratch: &wgpu::Buffer,
        (total, at): (&wgpu::Buffer, usize),
    ) -> Result<Dispatch> {
        let end = at.checked_add(self.values);
        let needed = end.and_then(|end| end.checked_mul(4));
        if needed.is_none_or(|needed| total.size() < needed as u64) {
            let expected = format!("room for {} values from {at} on", self.values);
            return Err(Error::input("sum_parts", "total", expected, total.size()));
        }
        let layer = Layer {
            rows: self.count as u32,
            count: self.values as u32,
            skip: at as u32,
            ..Default::default()
        };
        let buffers = [("parts", scratch), ("total", total)];
        let groups = self.values.div_ceil(256);
        layer
            .dispatch(gpu, (&SUM_PARTS, ""), &buffers, groups)
            .await
    }
}
