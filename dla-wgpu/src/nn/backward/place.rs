//! Copies of columns and of rows.

use dla_core::Result;
use dla_shaders::PLACE;

use crate::nn::constants::Constants;
use crate::nn::layer::{Layer, columns, holds, positive, words};
use crate::{Dispatch, Gpu};

const OP: &str = "place";

/// Copies columns of rows to where they belong in other rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Sizes.
    pub spec: PlaceSpec,
    /// Rows.
    pub rows: usize,
    /// The first row that is copied, and the first that is written.
    pub first_rows: [usize; 2],
}

/// The constants of its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceSpec {
    /// Values of a row, and the first that is copied.
    pub from: [usize; 2],
    /// Values of a row, and the first that is written.
    pub to: [usize; 2],
    /// How many.
    pub columns: usize,
}

impl PlaceSpec {
    /// The constants as WGSL.
    pub fn header(&self) -> String {
        let sizes = [
            ("FROM_STRIDE", self.from[0]),
            ("FROM", self.from[1]),
            ("TO_STRIDE", self.to[0]),
            ("TO", self.to[1]),
            ("COLUMNS", self.columns),
        ];
        Constants::default().sizes(&sizes).header()
    }
}

impl Place {
    /// Binds `source` and `target`.
    ///
    /// # Errors
    /// [`Error::is_input`](dla_core::Error::is_input) for sizes that do not fit,
    /// [`Error::is_device`](dla_core::Error::is_device) for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        source: &wgpu::Buffer,
        target: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        let (spec, [from, to]) = (&self.spec, self.first_rows);
        positive(OP, &[("columns", spec.columns)])?;
        columns(OP, "from", [spec.from[1], spec.columns], spec.from[0])?;
        columns(OP, "to", [spec.to[1], spec.columns], spec.to[0])?;
        holds(
            OP,
            "source",
            source,
            &[from.saturating_add(self.rows), spec.from[0]],
        )?;
        holds(
            OP,
            "target",
            target,
            &[to.saturating_add(self.rows), spec.to[0]],
        )?;
        if self.rows == 0 {
            return Ok(Vec::new());
        }
        let layer = Layer {
            rows: self.rows as u32,
            first: to as u32,
            skip: from as u32,
            ..Default::default()
        };
        let groups = words(OP, "rows", &[self.rows, spec.columns])?.div_ceil(256);
        let buffers = [("source", source), ("target_rows", target)];
        let pass = (&PLACE, &*spec.header());
        Ok(vec![layer.dispatch(gpu, pass, &buffers, groups).await?])
    }
}
