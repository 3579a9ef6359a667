//! What sequences carry from token to token, on the device: every layer's states, or keys and values, and convolutions'
//! inputs.

use dla_core::model::{LayerState, ModelConfig};
use dla_core::{Error, Result};

use super::layout::{Keeps, Layout};
use super::place::Place;
use crate::op::DeviceCache;
use crate::plan::MAX_BATCH;
use crate::scope::scoped;
use crate::way::Way;
use crate::{Gpu, Readback};

/// The tokens that keys and values have room for at first.
const FIRST_ROOM: usize = 256;

/// The device's memory of a batch of sequences.
#[derive(Debug)]
pub(super) struct Sequences {
    layout: Layout,
    batch: usize,
    /// The tokens of every sequence whose keys and values there is room for.
    room: usize,
    /// The most that there can be room for on this device.
    most: usize,
    layers: Vec<LayerMemory>,
}

/// One layer's memory of all sequences.
#[derive(Debug)]
pub(super) struct LayerMemory {
    /// The convolutions' last inputs, `[batch, width − 1, channels]`.
    pub(super) conv: wgpu::Buffer,
    /// The mixer's.
    pub(super) mixer: MixerMemory,
}

/// A mixer's memory of all sequences.
#[derive(Debug)]
pub(super) enum MixerMemory {
    /// The states.
    States(DeviceCache),
    /// Softmax attention's keys and values, `[batch, room, 2, heads, width]`.
    Tokens(wgpu::Buffer),
}

impl LayerMemory {
    /// Its buffers in the order of [`Layout::bytes`], of such `sizes`.
    async fn new(gpu: &Gpu, keeps: Keeps, sizes: &[u64]) -> Result<Self> {
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_DST
            | wgpu::BufferUsages::COPY_SRC;
        let buffer = async |label, part: usize| gpu.buffer(label, sizes[part], usage).await;
        Ok(Self {
            conv: buffer("conv_state", 0).await?,
            mixer: match keeps {
                Keeps::States(_) => MixerMemory::States(DeviceCache {
                    states: buffer("states", 1).await?,
                    scalars: buffer("scalars", 2).await?,
                }),
                Keeps::Tokens(_) => MixerMemory::Tokens(buffer("keys_values", 1).await?),
            },
        })
    }

    /// Its buffers in the order of [`Layout::bytes`].
    fn buffers(&self) -> Vec<&wgpu::Buffer> {
        match &self.mixer {
            MixerMemory::States(cache) => vec![&self.conv, &cache.states, &cache.scalars],
            MixerMemory::Tokens(keys_values) => vec![&self.conv, keys_values],
        }
    }

    /// What makes a sequence new if it is zeros: no live state, no earlier inputs. Matrices that no state lies in are not
    /// read, nor are keys and values behind a sequence's end.
    fn cleared(&self) -> Vec<usize> {
        match self.mixer {
            MixerMemory::States(_) => vec![0, 2],
            MixerMemory::Tokens(_) => vec![0],
        }
    }
}

impl Sequences {
    /// Memory of `batch` sequences before their first tokens.
    pub(super) async fn new(gpu: &Gpu, config: &ModelConfig, batch: usize) -> Result<Self> {
        if batch == 0 || batch > MAX_BATCH {
            let expected = format!("1 to {MAX_BATCH}");
            return Err(Error::input("model", "sequences", expected, batch));
        }
        let layout = Layout::of(config);
        let most = match layout.keeps {
            Keeps::States(_) => usize::MAX,
            Keeps::Tokens(spec) => spec.most_room(gpu, batch),
        };
        let empty = Self {
            layout,
            batch,
            room: 0,
            most,
            layers: Vec::new(),
        };
        let room = FIRST_ROOM.min(most).max(1);
        empty.with_room(gpu, config.layers, room).await
    }

    /// Refuses `batch` sequences whose memory the device cannot bind.
    ///
    /// # Errors
    /// [`Error::is_unsupported`] then.
    pub(super) fn check(gpu: &Gpu, config: &ModelConfig, batch: usize) -> Result<()> {
        sizes(gpu, &Layout::of(config), batch, 1).map(drop)
    }

    /// New memory of such sequences with room for `room` tokens.
    async fn with_room(&self, gpu: &Gpu, layers: usize, room: usize) -> Result<Self> {
        let sizes = sizes(gpu, &self.layout, self.batch, room)?;
        let mut memories = Vec::with_capacity(layers);
        for _ in 0..layers {
            memories.push(LayerMemory::new(gpu, self.layout.keeps, &sizes).await?);
        }
        Ok(Self {
            layout: self.layout.clone(),
            room,
            layers: memories,
            ..*self
        })
    }

    /// The memory of each layer.
    pub(super) fn layers(&self) -> &[LayerMemory] {
        &self.layers
    }

    /// The tokens of every sequence whose keys and values there is room for.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Refuses a sequence of more tokens than the device can have room for.
    pub(super) fn check_tokens(&self, tokens: u64) -> Result<()> {
        if tokens <= self.most as u64 {
            return Ok(());
        }
        let expected = format!(
            "at most {} tokens in each of {} sequences, whose keys and values this device can attend to",
            self.most, self.batch
        );
        Err(Error::unsupported("model", "tokens", expected, tokens)
            .advise("take fewer sequences at a time, or run the model on the CPU (--backend cpu)"))
    }

    /// New memory with room for sequences of `tokens` tokens, twice as much or more; none where there is room.
    pub(super) async fn wider(&self, gpu: &Gpu, tokens: u64) -> Result<Option<Self>> {
        self.check_tokens(tokens)?;
        match (self.layout.keeps, grown(self.room, tokens, self.most)) {
            (Keeps::Tokens(_), Some(room)) => {
                let wider = self.with_room(gpu, self.layers.len(), room);
                wider.await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Records the copies of all sequences to `other` memory, which has as much room or more.
    pub(super) fn move_to(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        other: &Self,
        places: &[Place],
    ) {
        for (item, place) in places.iter().enumerate() {
            let ranges = self.ranges(item, place.position);
            for (from, to) in ranges.zip(other.ranges(item, place.position)) {
                if from.size > 0 {
                    let (from, at) = ((from.buffer, from.offset), to.offset);
                    encoder.copy_buffer_to_buffer(from.0, from.1, to.buffer, at, to.size);
                }
            }
        }
    }

    /// Bytes of one sequence of `tokens` tokens.
    pub(super) fn bytes_each(&self, tokens: u64) -> u64 {
        let layer: u64 = self.layout.bytes(tokens as usize).iter().sum();
        layer * self.layers.len() as u64
    }

    /// Every range of sequence `item`, of `tokens` tokens, in a fixed order.
    fn ranges(&self, item: usize, tokens: u64) -> impl Iterator<Item = Range<'_>> {
        let sizes = self.layout.bytes(tokens as usize);
        let strides = self.layout.bytes(self.room);
        self.layers.iter().flat_map(move |layer| {
            let parts = sizes.clone().into_iter().zip(strides.clone());
            let parts = layer.buffers().into_iter().zip(parts);
            parts.map(move |(buffer, (size, stride))| Range {
                buffer,
                offset: item as u64 * stride,
                size,
            })
        })
    }

    /// Records copies between sequence `item`, of `tokens` tokens, and `image`, of [`Sequences::bytes_each`] bytes.
    pub(super) fn copy(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        (item, tokens): (usize, u64),
        image: &wgpu::Buffer,
        way: Way,
    ) {
        let mut at = 0;
        for range in self.ranges(item, tokens).filter(|range| range.size > 0) {
            let work = (range.buffer, range.offset);
            way.copy(encoder, work, (image, at), range.size);
            at += range.size;
        }
    }

    /// Records what makes sequence `item` new.
    pub(super) fn clear(&self, encoder: &mut wgpu::CommandEncoder, item: usize) {
        let sizes = self.layout.bytes(0);
        for layer in &self.layers {
            let buffers = layer.buffers();
            for part in layer.cleared().into_iter().filter(|&part| sizes[part] > 0) {
                let offset = item as u64 * sizes[part];
                encoder.clear_buffer(buffers[part], offset, Some(sizes[part]));
            }
        }
    }

    /// Reads sequence `item`, of `tokens` tokens, back, layer by layer.
    pub(super) async fn read(
        &self,
        gpu: &Gpu,
        item: usize,
        tokens: u64,
    ) -> Result<Vec<LayerState>> {
        let parts = self.layout.bytes(0).len();
        let mut layers = Vec::with_capacity(self.layers.len());
        let ranges: Vec<_> = self.ranges(item, tokens).collect();
        for ranges in ranges.chunks_exact(parts) {
            let mut readbacks = Vec::new();
            for range in ranges {
                readbacks.push(Readback::new(gpu, range.size).await?);
            }
            scoped(gpu.device(), "model", "session", || {
                let mut encoder = gpu.device().create_command_encoder(&Default::default());
                for (readback, range) in readbacks.iter().zip(ranges) {
                    let source = (range.buffer, range.offset);
                    readback.copy_range(&mut encoder, source, 0, range.size);
                }
                gpu.queue().submit([encoder.finish()]);
            })
            .await?;
            let mut parts = Vec::new();
            for readback in readbacks {
                parts.push(readback.bytes().await?);
            }
            layers.push(self.layout.host(&parts));
        }
        Ok(layers)
    }

    /// The tokens of every state in time order: by layer, `[batch, heads, capacity]`; none for softmax attention.
    pub(super) async fn counts(&self, gpu: &Gpu) -> Result<Vec<Vec<u32>>> {
        let Keeps::States(schedule) = self.layout.keeps else {
            return Ok(Vec::new());
        };
        let layers = self.layers.iter().filter_map(|layer| match &layer.mixer {
            MixerMemory::States(cache) => Some(&cache.scalars),
            MixerMemory::Tokens(_) => None,
        });
        let scalars: Vec<_> = layers.collect();
        let size = scalars.first().map_or(0, |scalars| scalars.size());
        let readback = Readback::new(gpu, size * scalars.len() as u64).await?;
        scoped(gpu.device(), "model", "states", || {
            let mut encoder = gpu.device().create_command_encoder(&Default::default());
            for (index, scalars) in scalars.iter().enumerate() {
                readback.copy_range(&mut encoder, (scalars, 0), index as u64 * size, size);
            }
            gpu.queue().submit([encoder.finish()]);
        })
        .await?;
        let bytes = readback.bytes().await?;
        let layers = bytes.chunks_exact(size.max(1) as usize);
        let counts = layers.map(|bytes| self.layout.counts(schedule, bytes));
        Ok(counts.collect())
    }

    /// Writes a host's layers of `tokens` tokens into the place of sequence `item`.
    pub(super) async fn write(
        &self,
        gpu: &Gpu,
        (item, tokens): (usize, u64),
        states: &[LayerState],
    ) -> Result<()> {
        let ranges: Vec<_> = self.ranges(item, tokens).collect();
        let parts = self.layout.bytes(0).len();
        for (ranges, state) in ranges.chunks_exact(parts).zip(states) {
            let parts = self.layout.device(state);
            scoped(gpu.device(), "model", "session", || {
                for (range, part) in ranges.iter().zip(&parts) {
                    gpu.queue().write_buffer(range.buffer, range.offset, part);
                }
                gpu.queue().submit([]);
            })
            .await?;
        }
        Ok(())
    }
}

/// Where a part of one sequence lies.
struct Range<'a> {
    buffer: &'a wgpu::Buffer,
    offset: u64,
    size: u64,
}

/// The room for `tokens` tokens, `most` at most: doubled from `room` until it is enough; none where it is.
fn grown(room: usize, tokens: u64, most: usize) -> Option<usize> {
    let mut wider = room;
    while (wider as u64) < tokens && wider < most {
        wider = wider.saturating_mul(2).min(most);
    }
    (wider > room).then_some(wider)
}

/// Bytes of a layer's buffers, in the order of [`Layout::bytes`], of `batch` sequences with room for `room` tokens.
fn sizes(gpu: &Gpu, layout: &Layout, batch: usize, room: usize) -> Result<Vec<u64>> {
    let sizes = layout.bytes(room).into_iter();
    let sizes: Vec<u64> = sizes
        .map(|bytes| bytes.saturating_mul(batch as u64))
        .collect();
    let most = gpu.max_binding();
    let Some(bytes) = sizes.iter().find(|&&bytes| bytes > most) else {
        return Ok(sizes);
    };
    let expected = format!("states of at most {most} bytes, the device's largest binding");
    let error = Error::unsupported("model", "sequences", expected, bytes);
    Err(match batch {
        1 => error.advise("run it on the CPU (--backend cpu)"),
        _ => error.advise("take fewer sequences at a time"),
    })
}

#[cfg(test)]
mod tests {
    use super::grown;

    #[test]
    fn room_doubles_until_it_is_enough_and_stops_at_the_most() {
        assert_eq!(grown(256, 256, 10_000), None);
        assert_eq!(grown(256, 257, 10_000), Some(512));
        assert_eq!(grown(256, 5_000, 10_000), Some(8_192));
        assert_eq!(grown(8_192, 8_193, 10_000), Some(10_000));
        assert_eq!(grown(10_000, 10_000, 10_000), None);
        assert_eq!(grown(100, 90, 100), None);
    }
}
