//! A matrix of weights on the device.

use dla_core::{Error, Result};

use super::layer::positive;
use super::pack::{SCALED, f16_rows, f32_rows, i8_rows};
use crate::scope::scoped;
use crate::{Gpu, Readback};

/// How weights lie on the device; sums are always f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WeightType {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits, rounded to nearest. Needs no feature of the device.
    F16,
    /// 8-bit integers, symmetric, one scale = max|w| / 127 for 32 weights of a row; a weight is off by scale / 2 at most.
    I8,
}

impl WeightType {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::I8];

    /// Columns with the zeros behind them that the layout asks for.
    pub(super) fn padded(self, columns: usize) -> usize {
        match self {
            Self::F32 | Self::F16 => columns.next_multiple_of(4),
            Self::I8 => columns.next_multiple_of(SCALED),
        }
    }

    /// Bytes of a row of `padded` columns, scales not counted.
    fn row_bytes(self, padded: usize) -> u64 {
        let padded = padded as u64;
        match self {
            Self::F32 => 4 * padded,
            Self::F16 => 2 * padded,
            Self::I8 => padded,
        }
    }
}

/// The most columns: one invocation never walks more steps than CPU drivers allow.
pub(super) const MAX_COLUMNS: usize = 1 << 19;
/// Bytes of f32 that one write converts at a time.
const PIECE: usize = 16 << 20;
/// Rows of a block are a multiple of a tile's where they can.
const TILE: usize = 64;

/// A matrix `[rows, columns]`, in blocks of rows that the device can bind; zeros until written.
#[derive(Debug)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    weight_type: WeightType,
    block_rows: usize,
    blocks: Vec<Block>,
}

/// Rows that lie in one buffer.
#[derive(Debug)]
pub(super) struct Block {
    /// The first of them.
    pub(super) first: usize,
    /// How many.
    pub(super) count: usize,
    /// The weights.
    pub(super) words: wgpu::Buffer,
    /// Scales of 8-bit integers.
    pub(super) scales: Option<wgpu::Buffer>,
}

impl Matrix {
    /// Room for a matrix.
    ///
    /// # Errors
    /// [`Error::is_input`] for sizes of zero or too many columns, [`Error::is_unsupported`] where a single row is more
    /// than the device can bind, [`Error::is_device`] where it has no memory.
    pub async fn new(
        gpu: &Gpu,
        rows: usize,
        columns: usize,
        weight_type: WeightType,
    ) -> Result<Self> {
        Self::within(gpu, [rows, columns], weight_type, gpu.max_binding()).await
    }

    /// The same in buffers of at most `bytes`.
    ///
    /// # Errors
    /// As [`Matrix::new`].
    pub async fn within(
        gpu: &Gpu,
        [rows, columns]: [usize; 2],
        weight_type: WeightType,
        bytes: u64,
    ) -> Result<Self> {
        positive("matrix", &[("rows", rows), ("columns", columns)])?;
        if columns > MAX_COLUMNS || u32::try_from(rows).is_err() {
            let expected = format!("at most {} rows and {MAX_COLUMNS} columns", u32::MAX);
            let got = format!("{rows} × {columns}");
            return Err(Error::input("matrix", "shape", expected, got));
        }
        let padded = weight_type.padded(columns);
        // Indices count words of four values, and are of 32 bits.
        let most = bytes.min(gpu.max_binding()).min(u64::from(u32::MAX));
        let block_rows = (most / weight_type.row_bytes(padded)) as usize;
        if block_rows == 0 {
            let expected = format!("rows of at most {most} bytes");
            let got = weight_type.row_bytes(padded);
            return Err(Error::unsupported("matrix", "columns", expected, got));
        }
        let block_rows = match block_rows / TILE * TILE {
            0 => block_rows,
            tiles => tiles,
        };
        let mut blocks = Vec::new();
        for first in (0..rows).step_by(block_rows) {
            let count = block_rows.min(rows - first);
            blocks.push(Block::new(gpu, first, count, weight_type, padded).await?);
        }
        Ok(Self {
            rows,
            columns,
            weight_type,
            block_rows,
            blocks,
        })
    }

    /// Room for the same weights in f16, in blocks of the same rows: what [`Halve`](super::backward::Halve) writes.
    ///
    /// # Errors
    /// [`Error::is_device`] where the device has no memory.
    pub async fn halved(&self, gpu: &Gpu) -> Result<Self> {
        let weight_type = WeightType::F16;
        let padded = weight_type.padded(self.columns);
        let mut blocks = Vec::new();
        for block in &self.blocks {
            blocks.push(Block::new(gpu, block.first, block.count, weight_type, padded).await?);
        }
        Ok(Self {
            weight_type,
            blocks,
            ..*self
        })
    }

    /// Converts and writes whole rows, `first_row` and those after it. The queue takes them at once, in an empty
    /// submission, so that the host keeps no second copy.
    ///
    /// # Errors
    /// [`Error::is_input`] for what is not whole rows of this matrix, a finite weight that is infinite in f16, or one
    /// that is not finite in i8; [`Error::is_device`] where the device fails. Rows before the fault are written.
    pub async fn write(&self, gpu: &Gpu, first_row: usize, weights: &[f32]) -> Result<()> {
        let count = weights.len() / self.columns;
        let fits = first_row
            .checked_add(count)
            .is_some_and(|end| end <= self.rows);
        if !weights.len().is_multiple_of(self.columns) || !fits {
            let expected = format!(
                "whole rows of {}, at most {} from row {first_row}",
                self.columns,
                self.rows.saturating_sub(first_row)
            );
            return Err(Error::input("matrix", "weights", expected, weights.len()));
        }
        let piece = (PIECE / 4 / self.columns).max(1);
        let (mut row, mut rest) = (first_row, weights);
        while !rest.is_empty() {
            let block = &self.blocks[row / self.block_rows];
            let count = piece.min(block.first + block.count - row);
            let (rows, after) = rest.split_at(rest.len().min(count * self.columns));
            self.write_block(gpu, block, row, rows).await?;
            row += rows.len() / self.columns;
            rest = after;
        }
        Ok(())
    }

    /// Records that all weights become 0.
    pub fn clear(&self, encoder: &mut wgpu::CommandEncoder) {
        for (_, buffer) in self.blocks.iter().flat_map(Block::buffers) {
            encoder.clear_buffer(buffer, 0, None);
        }
    }

    /// The weights as they lie on the device, `[rows, columns]`.
    ///
    /// # Errors
    /// [`Error::is_unsupported`] for weights that are not f32, [`Error::is_device`] where the device fails.
    pub async fn read(&self, gpu: &Gpu) -> Result<Vec<f32>> {
        if self.weight_type != WeightType::F32 {
            let got = format!("{:?}", self.weight_type);
            return Err(Error::unsupported("matrix", "read", "weights in f32", got));
        }
        let mut encoder = gpu.device().create_command_encoder(&Default::default());
        let mut copies = Vec::new();
        for block in &self.blocks {
            let size = block.words.size();
            copies.push(Readback::record(gpu, &mut encoder, &block.words, size).await?);
        }
        gpu.queue().submit([encoder.finish()]);
        let padded = self.weight_type.padded(self.columns);
        let mut weights = Vec::with_capacity(self.rows * self.columns);
        for copy in copies {
            let bytes = copy.bytes().await?;
            for row in bytes.chunks_exact(4 * padded) {
                let values = row[..4 * self.columns].chunks_exact(4);
                weights.extend(values.map(|v| f32::from_le_bytes([v[0], v[1], v[2], v[3]])));
            }
        }
        Ok(weights)
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// How the weights lie.
    pub fn weight_type(&self) -> WeightType {
        self.weight_type
    }

    /// Bytes on the device, scales included.
    pub fn bytes(&self) -> u64 {
        let buffers = self.blocks.iter().flat_map(Block::buffers);
        buffers.map(|(_, buffer)| buffer.size()).sum()
    }

    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Writes rows that lie in one block.
    async fn write_block(
        &self,
        gpu: &Gpu,
        block: &Block,
        first_row: usize,
        weights: &[f32],
    ) -> Result<()> {
        let padded = self.weight_type.padded(self.columns);
        let (words, scales) = match self.weight_type {
            WeightType::F32 => (f32_rows(weights, self.columns, padded), Vec::new()),
            WeightType::F16 => {
                let words = f16_rows(weights, self.columns, padded, first_row)?;
                (words, Vec::new())
            }
            WeightType::I8 => i8_rows(weights, self.columns, padded, first_row)?,
        };
        let row = (first_row - block.first) as u64;
        scoped(gpu.device(), "matrix", "weights", || {
            let at = row * self.weight_type.row_bytes(padded);
            gpu.queue().write_buffer(&block.words, at, &words);
            if let Some(buffer) = &block.scales {
                let at = row * scale_bytes(padded);
                gpu.queue().write_buffer(buffer, at, &scales);
            }
            gpu.queue().submit([]);
        })
        .await
    }
}

impl Block {
    async fn new(
        gpu: &Gpu,
        first: usize,
        count: usize,
        weight_type: WeightType,
        padded: usize,
    ) -> Result<Self> {
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_DST
            | wgpu::BufferUsages::COPY_SRC;
        let bytes = count as u64 * weight_type.row_bytes(padded);
        let words = gpu.buffer("words", bytes, usage).await?;
        let scales = match weight_type {
            WeightType::F32 | WeightType::F16 => None,
            WeightType::I8 => {
                let bytes = count as u64 * scale_bytes(padded);
                Some(gpu.buffer("scales", bytes, usage).await?)
            }
        };
        Ok(Self {
            first,
            count,
            words,
            scales,
        })
    }

    /// Its buffers by the names that passes bind them under.
    pub(super) fn buffers(&self) -> impl Iterator<Item = (&'static str, &wgpu::Buffer)> {
        let scales = self.scales.iter().map(|scales| ("scales", scales));
        std::iter::once(("words", &self.words)).chain(scales)
    }
}

/// Bytes of the scales of a row.
fn scale_bytes(padded: usize) -> u64 {
    (padded / SCALED) as u64 * 4
}
