//! What sequences carry from token to token, on the device: every layer's states and convolutions' inputs.

use std::sync::Arc;

use dla_core::model::{LayerState, ModelConfig};
use dla_core::{Dims, Error, Result};

use crate::op::{DeviceCache, pack};
use crate::plan::MAX_BATCH;
use crate::scope::scoped;
use crate::way::Way;
use crate::{Gpu, Readback};

/// The device's memory of a batch of sequences.
#[derive(Debug)]
pub(super) struct Sequences {
    layout: Layout,
    layers: Vec<LayerMemory>,
}

/// One layer's memory of all sequences.
#[derive(Debug)]
pub(super) struct LayerMemory {
    /// The states.
    pub(super) cache: DeviceCache,
    /// The convolutions' last inputs, `[batch, width − 1, channels]`.
    pub(super) conv: wgpu::Buffer,
}

/// Sizes of one sequence in one layer.
#[derive(Clone, Debug)]
struct Layout {
    dims: Dims,
    schedule: dla_core::Schedule,
    /// Channels of each convolution.
    channels: Vec<usize>,
    /// Inputs that a convolution keeps.
    kept: usize,
}

impl Layout {
    fn of(config: &ModelConfig) -> Self {
        let (channels, width) = config.convolutions();
        Self {
            dims: config.dims(),
            schedule: config.operator().schedule,
            channels,
            kept: width - 1,
        }
    }

    /// Bytes of one sequence's states, scalars and convolutions' inputs.
    fn bytes(&self) -> [u64; 3] {
        let entries = self.dims.heads * self.dims.capacity;
        let scalars = self.dims.heads * (1 + 3 * self.dims.capacity);
        let conv = self.kept * self.channels.iter().sum::<usize>();
        [entries * self.dims.state_len(), scalars, conv].map(|words| words as u64 * 4)
    }
}

impl LayerMemory {
    /// Its buffers in the order of [`Layout::bytes`].
    fn buffers(&self) -> [&wgpu::Buffer; 3] {
        [&self.cache.states, &self.cache.scalars, &self.conv]
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
        let most = gpu.max_binding();
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_DST
            | wgpu::BufferUsages::COPY_SRC;
        let sizes = layout
            .bytes()
            .map(|bytes| bytes.saturating_mul(batch as u64));
        if let Some(bytes) = sizes.into_iter().find(|&bytes| bytes > most) {
            let expected = format!("states of at most {most} bytes, the device's largest binding");
            return Err(Error::unsupported("model", "sequences", expected, bytes)
                .advise("take fewer sequences at a time"));
        }
        let mut layers = Vec::with_capacity(config.layers);
        for _ in 0..config.layers {
            let [states, scalars, conv] = sizes;
            layers.push(LayerMemory {
                cache: DeviceCache {
                    states: gpu.buffer("states", states, usage).await?,
                    scalars: gpu.buffer("scalars", scalars, usage).await?,
                },
                conv: gpu.buffer("conv_state", conv, usage).await?,
            });
        }
        Ok(Self { layout, layers })
    }

    /// The memory of each layer.
    pub(super) fn layers(&self) -> &[LayerMemory] {
        &self.layers
    }

    /// Bytes of one sequence.
    pub(super) fn bytes_each(&self) -> u64 {
        self.layout.bytes().iter().sum::<u64>() * self.layers.len() as u64
    }

    /// Every range of sequence `item`, in a fixed order.
    fn ranges(&self, item: usize) -> impl Iterator<Item = (&wgpu::Buffer, u64, u64)> {
        let sizes = self.layout.bytes();
        self.layers.iter().flat_map(move |layer| {
            let ranges = layer.buffers().into_iter().zip(sizes);
            ranges.map(move |(buffer, size)| (buffer, item as u64 * size, size))
        })
    }

    /// Records copies between sequence `item` and `image`, of [`Sequences::bytes_each`] bytes.
    pub(super) fn copy(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        item: usize,
        image: &wgpu::Buffer,
        way: Way,
    ) {
        let mut at = 0;
        for (buffer, offset, size) in self.ranges(item).filter(|(.., size)| *size > 0) {
            way.copy(encoder, (buffer, offset), (image, at), size);
            at += size;
        }
    }

    /// Records what makes sequence `item` new: no live state, no earlier inputs. Matrices that no state lies in are not
    /// read.
    pub(super) fn clear(&self, encoder: &mut wgpu::CommandEncoder, item: usize) {
        let [_, scalars, conv] = self.layout.bytes();
        for layer in &self.layers {
            for (buffer, size) in [(&layer.cache.scalars, scalars), (&layer.conv, conv)] {
                if size > 0 {
                    encoder.clear_buffer(buffer, item as u64 * size, Some(size));
                }
            }
        }
    }

    /// Reads sequence `item` back, layer by layer.
    pub(super) async fn read(&self, gpu: &Gpu, item: usize) -> Result<Vec<LayerState>> {
        let mut layers = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            let mut readbacks = Vec::new();
            for size in self.layout.bytes() {
                readbacks.push(Readback::new(gpu, size).await?);
            }
            scoped(gpu.device(), "model", "session", || {
                let mut encoder = gpu.device().create_command_encoder(&Default::default());
                for (readback, buffer) in readbacks.iter().zip(layer.buffers()) {
                    let size = readback.size();
                    readback.copy_range(&mut encoder, (buffer, item as u64 * size), 0, size);
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

    /// The tokens of every state in time order: by layer, `[batch, heads, capacity]`.
    pub(super) async fn counts(&self, gpu: &Gpu) -> Result<Vec<Vec<u32>>> {
        let size = self
            .layers
            .first()
            .map_or(0, |layer| layer.cache.scalars.size());
        let readback = Readback::new(gpu, size * self.layers.len() as u64).await?;
        scoped(gpu.device(), "model", "states", || {
            let mut encoder = gpu.device().create_command_encoder(&Default::default());
            for (index, layer) in self.layers.iter().enumerate() {
                let source = (&layer.cache.scalars, 0);
                readback.copy_range(&mut encoder, source, index as u64 * size, size);
            }
            gpu.queue().submit([encoder.finish()]);
        })
        .await?;
        let bytes = readback.bytes().await?;
        let (capacity, schedule) = (self.layout.dims.capacity, self.layout.schedule);
        let layers = bytes.chunks_exact(size.max(1) as usize);
        let counts = layers.map(|bytes| {
            let words: Vec<u32> = bytemuck::pod_collect_to_vec(bytes);
            let records = words.chunks_exact(1 + 3 * capacity);
            records
                .flat_map(|record| pack::counts(schedule, record))
                .collect()
        });
        Ok(counts.collect())
    }

    /// Writes a host's layers into the place of sequence `item`.
    pub(super) async fn write(&self, gpu: &Gpu, item: usize, states: &[LayerState]) -> Result<()> {
        for (layer, state) in self.layers.iter().zip(states) {
            let parts = self.layout.device(state);
            scoped(gpu.device(), "model", "session", || {
                for (buffer, part) in layer.buffers().into_iter().zip(&parts) {
                    let offset = item as u64 * part.len() as u64;
                    gpu.queue().write_buffer(buffer, offset, part);
                }
                gpu.queue().submit([]);
            })
            .await?;
        }
        Ok(())
    }
}

impl Layout {
    /// One sequence's states, scalars and convolutions' inputs, from their bytes.
    fn host(&self, parts: &[Vec<u8>]) -> LayerState {
        let dims = Dims {
            batch: 1,
            ..self.dims
        };
        let states: Vec<f32> = bytemuck::pod_collect_to_vec(&parts[0]);
        let scalars: Vec<u32> = bytemuck::pod_collect_to_vec(&parts[1]);
        let rows: Vec<f32> = bytemuck::pod_collect_to_vec(&parts[2]);
        let all: usize = self.channels.iter().sum();
        let mut first = 0;
        let conv = self.channels.iter().map(|&channels| {
            let columns = first..first + channels;
            first = columns.end;
            let rows = rows.chunks_exact(all.max(1)).take(self.kept);
            rows.flat_map(|row| row[columns.clone()].iter().copied())
                .collect()
        });
        LayerState {
            conv: conv.collect(),
            cache: Arc::new(pack::cache_from_device(
                &dims,
                self.schedule,
                &states,
                &scalars,
            )),
            keys: Vec::new(),
            values: Vec::new(),
        }
    }

    /// The same as the device has it.
    fn device(&self, state: &LayerState) -> [Vec<u8>; 3] {
        let dims = Dims {
            batch: 1,
            ..self.dims
        };
        let (states, scalars) = pack::cache_to_device(&dims, self.schedule, &state.cache);
        let mut rows: Vec<f32> = Vec::new();
        for t in 0..self.kept {
            for (part, &channels) in state.conv.iter().zip(&self.channels) {
                rows.extend_from_slice(&part[t * channels..][..channels]);
            }
        }
        [
            bytemuck::cast_slice(&states).to_vec(),
            bytemuck::cast_slice(&scalars).to_vec(),
            bytemuck::cast_slice(&rows).to_vec(),
        ]
    }
}
