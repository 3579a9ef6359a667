//! Causal softmax attention over the keys and values of all tokens so far, which are kept from call to call.

use dla_core::{Error, Result};
use dla_shaders::{ATTENTION_CACHED, ATTENTION_JOIN, ATTENTION_KEEP, ATTENTION_STEP, Pass};

use super::constants::Constants;
use super::layer::{self, Layer, Rows, holds, holds_items, positive, words};
use crate::plan::{MAX_DISPATCH_FLOP, MAX_LOOP_ITERATIONS};
use crate::{Dispatch, Gpu};

const OP: &str = "attention";
/// The greatest width of a head.
const MAX_WIDTH: usize = 128;
/// Queries, keys and columns of a tile; the twin of `TILE` in `common/attention.wgsl`.
const TILE: usize = 32;
/// Keys of a range; the twin of `RANGE` in `common/ranges.wgsl`.
const RANGE: usize = 256;

/// The constants of attention's passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionSpec {
    /// H.
    pub heads: usize,
    /// D, at most 128.
    pub width: usize,
}

/// Causal softmax attention of the tokens of a call over all tokens so far, the twin of `dla_core::nn::Attention`.
///
/// One token an item is read in ranges of 256 keys, each by a group of its own; more tokens in tiles of 32 by 32.
#[derive(Clone, Copy, Debug)]
pub struct CachedAttention<'a> {
    /// Sizes.
    pub spec: AttentionSpec,
    /// Tokens of each batch item that `keys_values` has room for. What lies behind it is neither kept nor read.
    pub room: usize,
    /// Tokens that each batch item really has, as in [`Arrays`](crate::op::Arrays).
    pub lengths: &'a wgpu::Buffer,
    /// Tokens that each batch item has taken in before this call, as `lengths`.
    pub positions: &'a wgpu::Buffer,
    /// Keys and values, `[batch, room, 2, H, D]`; those of the call are added.
    pub keys_values: &'a wgpu::Buffer,
}

/// What the passes of attention leave each other; layers that are recorded one after the other may share it.
#[derive(Clone, Debug)]
pub struct AttentionScratch {
    sums: wgpu::Buffer,
    spread: wgpu::Buffer,
}

impl AttentionSpec {
    /// The constants as WGSL.
    pub fn header(&self) -> String {
        let sizes = [("HEADS", self.heads), ("KEY_DIM", self.width)];
        Constants::default().sizes(&sizes).header()
    }

    /// Values of a token's key and value in all heads.
    pub fn kept(&self) -> usize {
        2 * self.heads * self.width
    }

    /// Refuses sizes that the passes do not take.
    pub(crate) fn check(&self) -> Result<()> {
        positive(OP, &[("heads", self.heads), ("width", self.width)])?;
        if self.width > MAX_WIDTH {
            let expected = format!("at most {MAX_WIDTH}");
            return Err(Error::unsupported(OP, "width", expected, self.width));
        }
        Ok(())
    }

    /// The most tokens of each of `batch` sequences that the device can attend to: what one binding holds, and on CPU
    /// adapters what their drivers' limit of a loop allows.
    pub fn most_room(&self, gpu: &Gpu, batch: usize) -> usize {
        let iterations = match gpu.is_software() {
            true => MAX_LOOP_ITERATIONS,
            false => usize::MAX,
        };
        self.room_within(batch, gpu.max_binding(), iterations)
    }

    /// The same from the bytes of the largest binding and the loop iterations of one thread.
    fn room_within(&self, batch: usize, binding: u64, iterations: usize) -> usize {
        let token = (batch * self.kept()) as u64 * 4;
        let bound = binding.min(u64::from(u32::MAX)) / token.max(1);
        let tiles = iterations / self.tile_iterations();
        (bound as usize).min(tiles.saturating_mul(TILE))
    }

    /// Loop iterations of one thread for a tile of keys, at most; the twin of `nn/attention.wgsl`.
    fn tile_iterations(&self) -> usize {
        let staged = TILE * TILE / 256;
        let scores = 2 * staged + TILE + 1;
        let values = staged + TILE + 1;
        self.width.div_ceil(TILE) * (scores + values) + 2 * TILE + 1
    }
}

impl AttentionScratch {
    /// Scratch for calls of `rows` over `room` tokens.
    ///
    /// # Errors
    /// As [`buffer`](super::buffer).
    pub async fn new(gpu: &Gpu, spec: AttentionSpec, rows: Rows, room: usize) -> Result<Self> {
        let [sums, spread] = Self::sizes(spec, rows, room);
        Ok(Self {
            sums: layer::buffer(gpu, "sums", words(OP, "sums", &sums)?).await?,
            spread: layer::buffer(gpu, "spread", words(OP, "spread", &spread)?).await?,
        })
    }

    /// The factors of both sizes: of sums that are still to be joined, and of tops and totals by range or logarithms by row.
    fn sizes(spec: AttentionSpec, rows: Rows, room: usize) -> [[usize; 4]; 2] {
        let (AttentionSpec { heads, width }, Rows { batch, tokens }) = (spec, rows);
        let ranges = room.div_ceil(RANGE);
        match tokens {
            1 if ranges > 1 => [[batch, heads, ranges, width], [batch, heads, ranges, 2]],
            1 => [[0; 4], [batch, heads, ranges, 2]],
            _ => [[0; 4], [batch, tokens, heads, 1]],
        }
    }
}

impl CachedAttention<'_> {
    /// Binds `qkv` `[rows, 3, H, D]`, queries, keys and values, and `o` `[rows, H, D]`, which is 0 behind an item's length.
    ///
    /// # Errors
    /// [`Error::is_input`] for sizes that do not fit, [`Error::is_unsupported`] for wider heads and for more room than the
    /// device can attend to, [`Error::is_device`] for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        [qkv, o]: [&wgpu::Buffer; 2],
        scratch: &AttentionScratch,
    ) -> Result<Vec<Dispatch>> {
        self.check(gpu, rows, [qkv, o], scratch)?;
        if rows.count()? == 0 {
            return Ok(Vec::new());
        }
        let mut dispatches = vec![self.keep(gpu, rows, qkv).await?];
        dispatches.extend(match rows.tokens {
            1 => self.step(gpu, rows, [qkv, o], scratch).await?,
            _ => self.tiles(gpu, rows, [qkv, o], scratch).await?,
        });
        Ok(dispatches)
    }

    fn check(
        &self,
        gpu: &Gpu,
        rows: Rows,
        [qkv, o]: [&wgpu::Buffer; 2],
        scratch: &AttentionScratch,
    ) -> Result<()> {
        let (count, AttentionSpec { heads, width }) = (rows.count()?, self.spec);
        self.spec.check()?;
        positive(OP, &[("room", self.room)])?;
        let most = self.spec.most_room(gpu, rows.batch.max(1));
        if self.room > most {
            let expected = format!("at most {most} tokens");
            return Err(Error::unsupported(OP, "room", expected, self.room));
        }
        holds_items(OP, "lengths", self.lengths)?;
        holds_items(OP, "positions", self.positions)?;
        let kept = [rows.batch, self.room, 2, heads, width];
        holds(OP, "keys_values", self.keys_values, &kept)?;
        holds(OP, "qkv", qkv, &[count, 3, heads, width])?;
        holds(OP, "o", o, &[count, heads, width])?;
        let [sums, spread] = AttentionScratch::sizes(self.spec, rows, self.room);
        holds(OP, "sums", &scratch.sums, &sums)?;
        holds(OP, "spread", &scratch.spread, &spread)
    }

    fn layer(&self, rows: Rows) -> Result<Layer> {
        Ok(Layer {
            room: self.room as u32,
            ..Layer::new(rows)?
        })
    }

    /// The keys and values of the call to where all are kept.
    async fn keep(&self, gpu: &Gpu, rows: Rows, qkv: &wgpu::Buffer) -> Result<Dispatch> {
        let buffers = [
            ("lengths", self.lengths),
            ("positions", self.positions),
            ("qkv", qkv),
            ("keys_values", self.keys_values),
        ];
        let groups = words(OP, "rows", &[rows.count()?, self.spec.kept()])?.div_ceil(256);
        let pass = (&ATTENTION_KEEP, &*self.spec.header());
        self.layer(rows)?
            .dispatch(gpu, pass, &buffers, groups)
            .await
    }

    /// One token of every item.
    async fn step(
        &self,
        gpu: &Gpu,
        rows: Rows,
        [qkv, o]: [&wgpu::Buffer; 2],
        scratch: &AttentionScratch,
    ) -> Result<Vec<Dispatch>> {
        let ranges = self.room.div_ceil(RANGE);
        let (layer, header) = (self.layer(rows)?, self.spec.header());
        let heads = rows.batch * self.spec.heads;
        let sums = if ranges > 1 { &scratch.sums } else { o };
        let buffers = [
            ("lengths", self.lengths),
            ("positions", self.positions),
            ("qkv", qkv),
            ("keys_values", self.keys_values),
            ("sums", sums),
            ("spread", &scratch.spread),
        ];
        let step = layer.dispatch(gpu, (&ATTENTION_STEP, &header), &buffers, heads * ranges);
        let mut dispatches = vec![step.await?];
        if ranges > 1 {
            let buffers = [
                ("lengths", self.lengths),
                ("positions", self.positions),
                ("sums", sums),
                ("spread", &scratch.spread),
                ("o", o),
            ];
            let join = layer.dispatch(gpu, (&ATTENTION_JOIN, &header), &buffers, heads);
            dispatches.push(join.await?);
        }
        Ok(dispatches)
    }

    /// Many tokens, in dispatches of as many heads as one may have for all the room.
    async fn tiles(
        &self,
        gpu: &Gpu,
        rows: Rows,
        [qkv, o]: [&wgpu::Buffer; 2],
        scratch: &AttentionScratch,
    ) -> Result<Vec<Dispatch>> {
        let buffers = [
            ("lengths", self.lengths),
            ("positions", self.positions),
            ("qkv", qkv),
            ("keys_values", self.keys_values),
            ("o", o),
            ("spread", &scratch.spread),
        ];
        let flop = 4 * rows.tokens as u64 * self.room as u64 * self.spec.width as u64;
        let layer = self.layer(rows)?;
        let dispatches = over_heads(
            gpu,
            self.spec,
            (rows, layer),
            &ATTENTION_CACHED,
            &buffers,
            flop,
        );
        dispatches.await
    }
}

/// The dispatches of a pass over all tiles of queries of all heads, each of as many heads of `flop` operations as one
/// dispatch may have.
pub(in crate::nn) async fn over_heads(
    gpu: &Gpu,
    spec: AttentionSpec,
    (rows, layer): (Rows, Layer),
    pass: &'static Pass,
    buffers: &[(&'static str, &wgpu::Buffer)],
    flop: u64,
) -> Result<Vec<Dispatch>> {
    let (pairs, tiles) = (rows.batch * spec.heads, rows.tokens.div_ceil(TILE));
    let most = ((MAX_DISPATCH_FLOP / flop) as usize).max(1);
    let header = spec.header();
    let mut dispatches = Vec::new();
    for first in (0..pairs).step_by(most) {
        let count = most.min(pairs - first);
        let layer = Layer {
            first: first as u32,
            count: count as u32,
            ..layer
        };
        let dispatch = layer.dispatch(gpu, (pass, &header), buffers, count * tiles);
        dispatches.push(dispatch.await?);
    }
    Ok(dispatches)
}

#[cfg(test)]
mod tests {
    use super::AttentionSpec;

    /// 16 heads of 64: 8 KiB a token.
    const SPEC: AttentionSpec = AttentionSpec {
        heads: 16,
        width: 64,
    };

    #[test]
    fn room_is_what_a_binding_holds() {
        let most = |batch, binding| SPEC.room_within(batch, binding, usize::MAX);
        assert_eq!(most(1, 128 << 20), 16_384);
        assert_eq!(most(3, 128 << 20), 5_461);
        assert_eq!(most(4096, 32 << 20), 1);
        assert_eq!(most(4096, 31 << 20), 0);
        let bytes = most(1, u64::MAX) as u64 * SPEC.kept() as u64 * 4;
        assert!(
            bytes <= u64::from(u32::MAX),
            "indices of 32 bits reach all of it"
        );
    }

    #[test]
    fn cpu_adapters_leave_loops_that_are_too_long() {
        let most = SPEC.room_within(1, u64::MAX, 65_535);
        assert_eq!(most % 32, 0);
        assert!(most / 32 * SPEC.tile_iterations() <= 65_535);
        assert!((most / 32 + 1) * SPEC.tile_iterations() > 65_535);
    }
}
