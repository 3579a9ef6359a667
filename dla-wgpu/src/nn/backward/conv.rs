//! A causal convolution backwards.

use dla_core::Result;
use dla_shaders::{CONV_GRADIENT, CONV_SLOPE};

use super::sums::Slices;
use crate::nn::constants::Constants;
use crate::nn::conv::ConvSpec;
use crate::nn::layer::{Layer, Rows, holds, holds_items, words};
use crate::{Dispatch, Gpu};

const OP: &str = "conv_gradient";
/// Channels of a group.
const ACROSS: usize = 32;
/// Rows of a slice where there is room for as many slices as wanted.
const SPAN: usize = 128;

/// [`Conv`](crate::nn::Conv) backwards, from an empty state on.
#[derive(Clone, Copy, Debug)]
pub struct ConvGradient<'a> {
    /// Sizes.
    pub spec: ConvGradientSpec,
    /// `[channels, width + 1]` as [`ConvSpec::pack`] makes it.
    pub weight: &'a wgpu::Buffer,
    /// Room for parts, at least as many values as the weight.
    pub scratch: &'a wgpu::Buffer,
}

/// The constants of its passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvGradientSpec {
    /// The convolution's.
    pub conv: ConvSpec,
    /// There is a bias; without it the bias's gradient stays 0.
    pub bias: bool,
}

impl ConvGradientSpec {
    /// The constants as WGSL, for slices of `span` rows.
    pub fn header(&self, span: usize) -> String {
        let constants = Constants::default()
            .sizes(&[("SPAN", span)])
            .switches(&[("BIAS", self.bias)]);
        self.conv.header() + &constants.header()
    }
}

impl ConvGradient<'_> {
    /// Binds `projected` `[rows, stride]` as it was; `d` `[rows, channels]`, the gradient by the output, which becomes
    /// that before SiLU; `d_projected` `[rows, stride]`, whose columns of the input are written; and `d_weight`, shaped as
    /// the weight, which is added to. Nothing comes from behind an item's length, and zeros go there.
    ///
    /// # Errors
    /// [`Error::is_input`](dla_core::Error::is_input) for sizes that do not fit,
    /// [`Error::is_device`](dla_core::Error::is_device) for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        [lengths, projected]: [&wgpu::Buffer; 2],
        [d, d_projected]: [&wgpu::Buffer; 2],
        d_weight: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        let (count, spec) = (rows.count()?, &self.spec.conv);
        spec.check(OP)?;
        holds_items(OP, "lengths", lengths)?;
        holds(OP, "weight", self.weight, &[spec.channels, spec.width + 1])?;
        holds(OP, "projected", projected, &[count, spec.stride])?;
        holds(OP, "d", d, &[count, spec.channels])?;
        holds(OP, "d_projected", d_projected, &[count, spec.stride])?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let layer = Layer::new(rows)?;
        let values = spec.channels * (spec.width + 1);
        let slices = Slices::new(OP, self.scratch, count, values, count.div_ceil(SPAN))?;
        let header = self.spec.header(slices.span);
        let mut buffers = vec![
            ("lengths", lengths),
            ("projected", projected),
            ("weight", self.weight),
            ("d", d),
        ];
        let groups = words(OP, "rows", &[count, spec.channels])?.div_ceil(256);
        let slope = layer.dispatch(gpu, (&CONV_SLOPE, &header), &buffers, groups);
        let slope = slope.await?;
        buffers.extend([("d_projected", d_projected), ("parts", self.scratch)]);
        let groups = slices.count * spec.channels.div_ceil(ACROSS);
        let gradient = layer.dispatch(gpu, (&CONV_GRADIENT, &header), &buffers, groups);
        let gradient = gradient.await?;
        let sum = slices.sum(gpu, self.scratch, (d_weight, 0)).await?;
        Ok(vec![slope, gradient, sum])
    }
}
