//! The root-mean-square norm backwards.

use dla_core::Result;
use dla_shaders::NORM_GRADIENT;

use super::sums::{ColumnSums, ColumnSumsSpec};
use crate::nn::constants::Constants;
use crate::nn::layer::{Layer, Rows, epsilon, holds, positive};
use crate::nn::norm::RmsNormSpec;
use crate::{Dispatch, Gpu};

const OP: &str = "norm_gradient";

/// The gradients by what [`RmsNorm`](crate::nn::RmsNorm) takes and by its weights.
#[derive(Clone, Copy, Debug)]
pub struct RmsNormGradient<'a> {
    /// w, `[width]`.
    pub weight: &'a wgpu::Buffer,
    /// Sizes and ε.
    pub spec: RmsNormSpec,
    /// Adds to what dx holds.
    pub residual: bool,
    /// Room for parts, at least `width` values.
    pub scratch: &'a wgpu::Buffer,
    /// `[rows, width]`, written.
    pub terms: &'a wgpu::Buffer,
}

impl RmsNormGradient<'_> {
    /// The constants as WGSL.
    pub fn header(spec: &RmsNormSpec, residual: bool) -> String {
        Constants::default()
            .sizes(&[("WIDTH", spec.width)])
            .numbers(&[("EPSILON", spec.epsilon)])
            .switches(&[("RESIDUAL", residual)])
            .header()
    }

    /// Binds `x`, `d_y` and `d_x`, all `[rows, width]`, and `d_weight` `[width]`, which is added to.
    ///
    /// # Errors
    /// [`Error::is_input`](dla_core::Error::is_input) for sizes that do not fit,
    /// [`Error::is_device`](dla_core::Error::is_device) for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        [x, d_y, d_x]: [&wgpu::Buffer; 3],
        d_weight: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        let (count, width) = (rows.count()?, self.spec.width);
        positive(OP, &[("width", width)])?;
        epsilon(OP, self.spec.epsilon)?;
        holds(OP, "weight", self.weight, &[width])?;
        for (argument, buffer) in [("x", x), ("d_y", d_y), ("d_x", d_x), ("terms", self.terms)] {
            holds(OP, argument, buffer, &[count, width])?;
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        let buffers = [
            ("x", x),
            ("weight", self.weight),
            ("d_y", d_y),
            ("d_x", d_x),
            ("terms", self.terms),
        ];
        let header = Self::header(&self.spec, self.residual);
        let pass = (&NORM_GRADIENT, &*header);
        let first = Layer::new(rows)?
            .dispatch(gpu, pass, &buffers, count)
            .await?;
        let sums = ColumnSums {
            spec: ColumnSumsSpec::all(width),
            scratch: self.scratch,
        };
        let rest = sums.prepare(gpu, count, self.terms, (d_weight, 0)).await?;
        Ok([vec![first], rest].concat())
    }
}
