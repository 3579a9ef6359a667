//! The MLP's gate backwards.

use dla_core::Result;
use dla_shaders::GATED_GRADIENT;

use crate::nn::constants::Constants;
use crate::nn::layer::{Layer, Rows, holds, positive, words};
use crate::{Dispatch, Gpu};

const OP: &str = "gated_gradient";

/// SiLU(gate)·up backwards: what [`Input::Gated`](crate::nn::Input) does to a linear map's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatedGradient {
    /// Sizes.
    pub spec: GatedGradientSpec,
}

/// The constants of its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatedGradientSpec {
    /// Values of a row of the product.
    pub width: usize,
}

impl GatedGradientSpec {
    /// The constants as WGSL.
    pub fn header(&self) -> String {
        Constants::default()
            .sizes(&[("WIDTH", self.width)])
            .header()
    }
}

impl GatedGradient {
    /// Binds `opened` `[rows, 2·width]`, gate and up, `d_product` `[rows, width]`; `d_opened`, shaped as `opened`, and
    /// `product`, shaped as its gradient, are written.
    ///
    /// # Errors
    /// [`Error::is_input`](dla_core::Error::is_input) for sizes that do not fit,
    /// [`Error::is_device`](dla_core::Error::is_device) for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        [opened, d_product]: [&wgpu::Buffer; 2],
        [d_opened, product]: [&wgpu::Buffer; 2],
    ) -> Result<Vec<Dispatch>> {
        let (count, width) = (rows.count()?, self.spec.width);
        positive(OP, &[("width", width)])?;
        holds(OP, "opened", opened, &[count, 2, width])?;
        holds(OP, "d_product", d_product, &[count, width])?;
        holds(OP, "d_opened", d_opened, &[count, 2, width])?;
        holds(OP, "product", product, &[count, width])?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let buffers = [
            ("opened", opened),
            ("d_product", d_product),
            ("d_opened", d_opened),
            ("product", product),
        ];
        let groups = words(OP, "rows", &[count, width])?.div_ceil(256);
        let pass = (&GATED_GRADIENT, &*self.spec.header());
        let layer = Layer::new(rows)?;
        Ok(vec![layer.dispatch(gpu, pass, &buffers, groups).await?])
    }
}
