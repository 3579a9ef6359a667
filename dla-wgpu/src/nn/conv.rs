//! A causal convolution of each channel by itself, its last inputs carried from call to call.

use dla_core::{Error, Result};
use dla_shaders::CONV;

use super::constants::Constants;
use super::layer::{Layer, Rows, columns, holds, holds_items, positive};
use crate::{Dispatch, Gpu};

const OP: &str = "conv";
/// The greatest width.
const MAX_WIDTH: usize = 8;
/// Channels of a group.
const ACROSS: usize = 32;

/// A depthwise causal convolution and SiLU, the twin of `dla_core::nn::CausalConv`.
#[derive(Clone, Copy, Debug)]
pub struct Conv<'a> {
    /// Sizes.
    pub spec: ConvSpec,
    /// `[channels, width + 1]` as [`ConvSpec::pack`] makes it.
    pub weight: &'a wgpu::Buffer,
}

/// The constants of its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvSpec {
    /// Values of a row that the input is part of.
    pub stride: usize,
    /// The column of it where the input begins.
    pub first: usize,
    /// Channels.
    pub channels: usize,
    /// Width, 1 to 8.
    pub width: usize,
}

impl ConvSpec {
    /// The constants as WGSL.
    pub fn header(&self) -> String {
        let sizes = [
            ("STRIDE", self.stride),
            ("FIRST", self.first),
            ("CHANNELS", self.channels),
            ("TAPS", self.width),
        ];
        Constants::default().sizes(&sizes).header()
    }

    /// `weight` `[channels, width]`, the newest input's last, and `bias` `[channels]` in one array, `[channels, width + 1]`.
    ///
    /// # Errors
    /// [`Error::is_input`] for other lengths.
    pub fn pack(&self, weight: &[f32], bias: Option<&[f32]>) -> Result<Vec<f32>> {
        let expected = self.channels * self.width;
        if self.width == 0 || weight.len() != expected {
            let expected = format!("{expected} numbers");
            return Err(Error::input(OP, "weight", expected, weight.len()));
        }
        if let Some(bias) = bias.filter(|bias| bias.len() != self.channels) {
            let expected = format!("{} numbers", self.channels);
            return Err(Error::input(OP, "bias", expected, bias.len()));
        }
        let mut packed = Vec::with_capacity(weight.len() + self.channels);
        for (channel, weight) in weight.chunks_exact(self.width).enumerate() {
            packed.extend_from_slice(weight);
            packed.push(bias.map_or(0.0, |bias| bias[channel]));
        }
        Ok(packed)
    }

    pub(crate) fn check(&self, op: &'static str) -> Result<()> {
        positive(op, &[("channels", self.channels), ("width", self.width)])?;
        if self.width > MAX_WIDTH {
            let expected = format!("at most {MAX_WIDTH}");
            return Err(Error::unsupported(op, "width", expected, self.width));
        }
        columns(op, "first", [self.first, self.channels], self.stride)
    }

    /// Values of the state of `batch` items, `[batch, width − 1, channels]`.
    pub fn state_len(&self, batch: usize) -> usize {
        batch * self.width.saturating_sub(1) * self.channels
    }
}

impl Conv<'_> {
    /// Binds `projected` `[rows, stride]`, `state` `[batch, width − 1, channels]`, the last inputs, oldest first, and
    /// `mixed` `[rows, channels]`, which becomes 0 behind an item's length; the state goes on to after that length.
    ///
    /// # Errors
    /// [`Error::is_input`] for sizes that do not fit, [`Error::is_device`] for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        lengths: &wgpu::Buffer,
        [projected, state, mixed]: [&wgpu::Buffer; 3],
    ) -> Result<Vec<Dispatch>> {
        let (count, spec) = (rows.count()?, &self.spec);
        spec.check(OP)?;
        holds_items(OP, "lengths", lengths)?;
        holds(OP, "weight", self.weight, &[spec.channels, spec.width + 1])?;
        holds(OP, "projected", projected, &[count, spec.stride])?;
        holds(
            OP,
            "state",
            state,
            &[rows.batch, spec.width - 1, spec.channels],
        )?;
        holds(OP, "mixed", mixed, &[count, spec.channels])?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let buffers = [
            ("lengths", lengths),
            ("projected", projected),
            ("weight", self.weight),
            ("state", state),
            ("mixed", mixed),
        ];
        let groups = rows.batch * spec.channels.div_ceil(ACROSS);
        let (layer, header) = (Layer::new(rows)?, spec.header());
        let dispatch = layer.dispatch(gpu, (&CONV, &header), &buffers, groups);
        Ok(vec![dispatch.await?])
    }
}
