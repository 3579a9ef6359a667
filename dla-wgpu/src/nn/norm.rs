//! The root-mean-square norm.

use dla_core::Result;
use dla_shaders::RMS_NORM;

use super::constants::Constants;
use super::layer::{Layer, Rows, epsilon, holds, positive};
use crate::{Dispatch, Gpu};

const OP: &str = "rms_norm";

/// `w · x / sqrt(mean(x²) + ε)`, the twin of `dla_core::nn::RmsNorm`.
#[derive(Clone, Copy, Debug)]
pub struct RmsNorm<'a> {
    /// w, `[width]`.
    pub weight: &'a wgpu::Buffer,
    /// Sizes and ε.
    pub spec: RmsNormSpec,
}

/// The constants of its pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsNormSpec {
    /// Values of a row.
    pub width: usize,
    /// ε.
    pub epsilon: f32,
}

impl RmsNormSpec {
    /// The constants as WGSL.
    pub fn header(&self) -> String {
        Constants::default()
            .sizes(&[("WIDTH", self.width)])
            .numbers(&[("EPSILON", self.epsilon)])
            .header()
    }
}

impl RmsNorm<'_> {
    /// Binds `x` and `y`, both `[rows, width]`.
    ///
    /// # Errors
    /// [`Error::is_input`](dla_core::Error::is_input) for sizes that do not fit,
    /// [`Error::is_device`](dla_core::Error::is_device) for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        x: &wgpu::Buffer,
        y: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        let (count, width) = (rows.count()?, self.spec.width);
        positive(OP, &[("width", width)])?;
        epsilon(OP, self.spec.epsilon)?;
        holds(OP, "weight", self.weight, &[width])?;
        holds(OP, "x", x, &[count, width])?;
        holds(OP, "y", y, &[count, width])?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let buffers = [("x", x), ("weight", self.weight), ("y", y)];
        let header = self.spec.header();
        let layer = Layer::new(rows)?;
        let dispatch = layer.dispatch(gpu, (&RMS_NORM, &header), &buffers, count);
        Ok(vec![dispatch.await?])
    }
}
