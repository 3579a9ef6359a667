//! Weights in f16 from those in f32.

use dla_core::{Error, Result};
use dla_shaders::HALVE;

use super::linear::single;
use crate::nn::layer::Layer;
use crate::nn::matrix::{Matrix, WeightType};
use crate::{Dispatch, Gpu};

/// Rounds a matrix to f16 on the device, to nearest and ties to even; what is too large becomes infinite.
#[derive(Clone, Copy, Debug)]
pub struct Halve<'a> {
    /// f32.
    pub from: &'a Matrix,
}

impl Halve<'_> {
    /// Binds `to`, which [`Matrix::halved`] made of the matrix.
    ///
    /// # Errors
    /// [`Error::is_unsupported`] for other weights than f32, [`Error::is_input`] for another `to`,
    /// [`Error::is_device`] for what the device refuses.
    pub async fn prepare(&self, gpu: &Gpu, to: &Matrix) -> Result<Vec<Dispatch>> {
        const OP: &str = "halve";
        single(OP, "from", self.from)?;
        let layout = |matrix: &Matrix| {
            let counts = matrix.blocks().iter().map(|block| block.count);
            (matrix.columns(), counts.collect::<Vec<_>>())
        };
        if to.weight_type() != WeightType::F16 || layout(to) != layout(self.from) {
            let expected = format!("{} × {} in f16", self.from.rows(), self.from.columns());
            let got = format!("{} × {} in {:?}", to.rows(), to.columns(), to.weight_type());
            return Err(Error::input(OP, "to", expected, got));
        }
        let fours = WeightType::F32.padded(to.columns()) / 4;
        let mut dispatches = Vec::new();
        for (from, to) in self.from.blocks().iter().zip(to.blocks()) {
            let count = from.count * fours;
            let layer = Layer {
                count: count as u32,
                ..Default::default()
            };
            let buffers = [("singles", &from.words), ("words", &to.words)];
            let groups = count.div_ceil(256);
            dispatches.push(layer.dispatch(gpu, (&HALVE, ""), &buffers, groups).await?);
        }
        Ok(dispatches)
    }
}
