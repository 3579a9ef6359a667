//! `y = W x + b` backwards.

use dla_core::{Error, Result};
use dla_shaders::{INPUT_GRADIENT_F16, INPUT_GRADIENT_F32, MATRIX_GRADIENT, Pass};

use super::sums::Slices;
use crate::nn::constants::Constants;
use crate::nn::layer::{Layer, Rows, holds};
use crate::nn::matrix::{Block, Matrix, WeightType};
use crate::plan::MAX_DISPATCH_FLOP;
use crate::{Dispatch, Gpu};

/// Rows, outputs and inputs of half a group's tile.
const TILE: usize = 64;
/// Groups that keep a device busy.
const BUSY_GROUPS: usize = 512;
/// The same with tiles of two halves, whose groups do four times as much.
const BUSY_WIDE_GROUPS: usize = 256;
/// The fewest rows of a slice that are worth a part.
const LEAST_ROWS: usize = 128;

/// The gradient by a linear map's input, dx = dy W.
#[derive(Clone, Copy, Debug)]
pub struct InputGradient<'a> {
    /// W, `[outputs, inputs]`, f32 or f16.
    pub weight: &'a Matrix,
    /// Adds to what dx holds.
    pub residual: bool,
}

/// The constants of its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputGradientSpec {
    /// Values of a row of dx.
    pub inputs: usize,
    /// Values of a row of dy.
    pub outputs: usize,
    /// The weights are in f16, else in f32.
    pub half: bool,
    /// Adds to what dx holds.
    pub residual: bool,
    /// 64 lines of a tile, 1 or 2.
    pub halves: usize,
}

/// The gradient by a linear map's weights, dW += dyᵀ x.
#[derive(Clone, Copy, Debug)]
pub struct MatrixGradient<'a> {
    /// dW, `[outputs, inputs]`, f32.
    pub d_weight: &'a Matrix,
    /// Room for parts, at least a block of dW; without so much a block takes all rows at once.
    pub scratch: &'a wgpu::Buffer,
}

/// The constants of its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixGradientSpec {
    /// Values of a row of x.
    pub inputs: usize,
    /// Values of a row of dy.
    pub outputs: usize,
    /// Rows of a slice.
    pub span: usize,
    /// Sums go to parts.
    pub split: bool,
    /// 64 lines of a tile, 1 or 2.
    pub halves: usize,
}

impl InputGradientSpec {
    /// The pass.
    pub fn pass(&self) -> &'static Pass {
        match self.half {
            true => &INPUT_GRADIENT_F16,
            false => &INPUT_GRADIENT_F32,
        }
    }

    /// The constants as WGSL.
    pub fn header(&self) -> String {
        sizes(self.inputs, self.outputs)
            .sizes(&[("HALVES", self.halves)])
            .switches(&[("RESIDUAL", self.residual)])
            .header()
    }
}

impl MatrixGradientSpec {
    /// The constants as WGSL.
    pub fn header(&self) -> String {
        sizes(self.inputs, self.outputs)
            .sizes(&[("SPAN", self.span), ("HALVES", self.halves)])
            .switches(&[("SPLIT", self.split)])
            .header()
    }
}

impl InputGradient<'_> {
    /// Binds `d_y` `[rows, outputs]` and `d_x` `[rows, inputs]`.
    ///
    /// # Errors
    /// [`Error::is_input`] for sizes that do not fit, [`Error::is_unsupported`] for weights in 8 bits,
    /// [`Error::is_device`] for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        d_y: &wgpu::Buffer,
        d_x: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        const OP: &str = "input_gradient";
        let (count, inputs, outputs) = (rows.count()?, self.weight.columns(), self.weight.rows());
        let half = half_or_single(OP, "weight", self.weight)?;
        holds(OP, "d_y", d_y, &[count, outputs])?;
        holds(OP, "d_x", d_x, &[count, inputs])?;
        let mut dispatches = Vec::new();
        for block in self.weight.blocks() {
            let halves = halves([count, inputs], 1);
            let spec = InputGradientSpec {
                inputs,
                outputs,
                half,
                residual: self.residual || block.first > 0,
                halves,
            };
            let header = spec.header();
            let mut buffers = vec![("d_y", d_y), ("d_x", d_x)];
            buffers.extend(block.buffers());
            let most = most_lines(2 * (block.count * inputs) as u64);
            for start in (0..count).step_by(most) {
                let end = count.min(start + most);
                let layer = Layer {
                    rows: end as u32,
                    start: start as u32,
                    ..of_block(rows, block, 0, block.count)?
                };
                let groups = tiles_of([end - start, inputs], halves);
                let pass = (spec.pass(), &*header);
                dispatches.push(layer.dispatch(gpu, pass, &buffers, groups).await?);
            }
        }
        Ok(dispatches)
    }
}

impl MatrixGradient<'_> {
    /// Binds `d_y` `[rows, outputs]` and `x` `[rows, inputs]`.
    ///
    /// # Errors
    /// [`Error::is_input`] for sizes that do not fit, [`Error::is_unsupported`] for weights that are not f32,
    /// [`Error::is_device`] for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        d_y: &wgpu::Buffer,
        x: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        const OP: &str = "matrix_gradient";
        let d_weight = self.d_weight;
        let (count, inputs, outputs) = (rows.count()?, d_weight.columns(), d_weight.rows());
        single(OP, "d_weight", d_weight)?;
        holds(OP, "d_y", d_y, &[count, outputs])?;
        holds(OP, "x", x, &[count, inputs])?;
        let mut dispatches = Vec::new();
        if count == 0 {
            return Ok(dispatches);
        }
        let call = MatrixCall {
            gpu,
            rows,
            sizes: [inputs, outputs],
            buffers: [("d_y", d_y), ("x", x)],
            scratch: self.scratch,
        };
        let most = most_lines(2 * (count * inputs) as u64);
        for block in d_weight.blocks() {
            for skip in (0..block.count).step_by(most) {
                let outputs = most.min(block.count - skip);
                dispatches.extend(call.part(block, skip, outputs).await?);
            }
        }
        Ok(dispatches)
    }
}

/// What all parts of a weight's gradient share.
struct MatrixCall<'a> {
    gpu: &'a Gpu,
    rows: Rows,
    sizes: [usize; 2],
    buffers: [(&'static str, &'a wgpu::Buffer); 2],
    scratch: &'a wgpu::Buffer,
}

impl MatrixCall<'_> {
    /// The dispatches for `outputs` rows of a block from row `skip` on.
    async fn part(&self, block: &Block, skip: usize, outputs: usize) -> Result<Vec<Dispatch>> {
        let (rows, [inputs, all]) = (self.rows.count()?, self.sizes);
        let padded = WeightType::F32.padded(inputs);
        let room = self.scratch.size() as usize / 4 / (outputs * padded);
        let most = rows.div_ceil(LEAST_ROWS).min(room.max(1));
        let halves = halves([outputs, inputs], most);
        let tiles = tiles_of([outputs, inputs], halves);
        let wanted = BUSY_GROUPS.div_ceil(tiles).min(most);
        let slices = match wanted > 1 {
            true => Some(Slices::new(
                "matrix_gradient",
                self.scratch,
                rows,
                outputs * padded,
                wanted,
            )?),
            false => None,
        };
        let spec = MatrixGradientSpec {
            inputs,
            outputs: all,
            span: slices.map_or(rows, |slices| slices.span),
            split: slices.is_some(),
            halves,
        };
        let sums = slices.map_or(&block.words, |_| self.scratch);
        let mut buffers = self.buffers.to_vec();
        buffers.push(("sums", sums));
        let groups = tiles * slices.map_or(1, |slices| slices.count);
        let layer = of_block(self.rows, block, skip, outputs)?;
        let pass = (&MATRIX_GRADIENT, &*spec.header());
        let mut dispatches = vec![layer.dispatch(self.gpu, pass, &buffers, groups).await?];
        if let Some(slices) = slices {
            let total = (&block.words, skip * padded);
            dispatches.push(slices.sum(self.gpu, self.scratch, total).await?);
        }
        Ok(dispatches)
    }
}

/// The parameters for `count` rows of a block from row `skip` on.
fn of_block(rows: Rows, block: &Block, skip: usize, count: usize) -> Result<Layer> {
    Ok(Layer {
        first: (block.first + skip) as u32,
        count: count as u32,
        skip: skip as u32,
        ..Layer::new(rows)?
    })
}

/// Lines of whole tiles that one dispatch takes, a line being `flop` operations.
fn most_lines(flop: u64) -> usize {
    let lines = (MAX_DISPATCH_FLOP / flop.max(1)) as usize;
    (lines / (2 * TILE) * 2 * TILE).max(2 * TILE)
}

/// 64 lines of a tile: 2 where the tiles of `sizes`, `slices` times, still keep a device busy.
fn halves(sizes: [usize; 2], slices: usize) -> usize {
    let wide = sizes.iter().all(|&size| size >= 2 * TILE);
    let busy = tiles_of(sizes, 2).saturating_mul(slices) >= BUSY_WIDE_GROUPS;
    if wide && busy { 2 } else { 1 }
}

/// Tiles of an array.
fn tiles_of(sizes: [usize; 2], halves: usize) -> usize {
    let [down, across] = sizes.map(|size| size.div_ceil(halves * TILE));
    down * across
}

/// Whether weights are in f16; refuses those that are not in f32 either.
fn half_or_single(op: &'static str, argument: &'static str, matrix: &Matrix) -> Result<bool> {
    match matrix.weight_type() {
        WeightType::F16 => Ok(true),
        _ => single(op, argument, matrix).map(|()| false),
    }
}

/// Refuses weights that are not f32.
pub(super) fn single(op: &'static str, argument: &'static str, matrix: &Matrix) -> Result<()> {
    match matrix.weight_type() {
        WeightType::F32 => Ok(()),
        other => {
            let got = format!("{other:?}");
            Err(Error::unsupported(op, argument, "weights in f32", got))
        }
    }
}

fn sizes(inputs: usize, outputs: usize) -> Constants {
    Constants::default().sizes(&[
        ("INPUTS", inputs),
        ("OUTPUTS", outputs),
        ("WEIGHT_COLUMNS", WeightType::F32.padded(inputs)),
    ])
}
