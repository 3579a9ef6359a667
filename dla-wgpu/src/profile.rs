//! Time of every pass, by the device's own clock.

use std::collections::BTreeMap;
use std::time::Duration;

use dla_core::{Error, Result};

use crate::{Dispatch, Gpu, Readback};

/// Collects timestamps around passes while they are recorded.
#[derive(Debug)]
pub struct Profile {
    queries: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    names: Vec<&'static str>,
    capacity: usize,
}

/// Passes that one profile can hold: a query set has at most 4,096 timestamps.
const MAX_PASSES: usize = 2048;

impl Profile {
    /// Room for `passes` passes.
    ///
    /// # Errors
    /// [`Error::is_unsupported`] on a device without timestamps, or for more than 2,048 passes.
    pub async fn new(gpu: &Gpu, passes: usize) -> Result<Self> {
        if !gpu.variant().timestamps {
            return Err(Error::unsupported(
                "profile",
                "device",
                "timestamp queries",
                "none",
            ));
        }
        if passes > MAX_PASSES {
            return Err(Error::unsupported(
                "profile",
                "passes",
                format!("at most {MAX_PASSES}"),
                passes,
            ));
        }
        let count = 2 * passes.max(1) as u32;
        let queries = gpu.device().create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("profile"),
            ty: wgpu::QueryType::Timestamp,
            count,
        });
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let resolved = gpu.buffer("profile", u64::from(count) * 8, usage).await?;
        Ok(Self {
            queries,
            resolved,
            names: Vec::new(),
            capacity: passes,
        })
    }

    /// Records dispatches in order, each in a pass of its own.
    pub fn record(&mut self, dispatches: &[Dispatch], encoder: &mut wgpu::CommandEncoder) {
        for dispatch in dispatches {
            dispatch.record(&mut self.pass(encoder, dispatch.name()));
        }
    }

    /// Begins a compute pass with a timestamp on either side.
    pub(crate) fn pass(
        &mut self,
        encoder: &mut wgpu::CommandEncoder,
        name: &'static str,
    ) -> wgpu::ComputePass<'static> {
        let index = 2 * self.names.len() as u32;
        let timed = self.names.len() < self.capacity;
        if timed {
            self.names.push(name);
        }
        let writes = wgpu::ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(index),
            end_of_pass_write_index: Some(index + 1),
        };
        encoder
            .begin_compute_pass(&wgpu::ComputePassDescriptor {
                label: Some(name),
                timestamp_writes: timed.then_some(writes),
            })
            .forget_lifetime()
    }

    /// Records the end: timestamps become readable.
    pub async fn finish(&self, gpu: &Gpu, encoder: &mut wgpu::CommandEncoder) -> Result<Readback> {
        let count = 2 * self.names.len() as u32;
        encoder.resolve_query_set(&self.queries, 0..count, &self.resolved, 0);
        Readback::record(gpu, encoder, &self.resolved, u64::from(count) * 8).await
    }

    /// The summed time of every pass by name, from the bytes that [`Profile::finish`] read back.
    pub fn times(&self, gpu: &Gpu, bytes: &[u8]) -> BTreeMap<&'static str, Duration> {
        let period = f64::from(gpu.queue().get_timestamp_period());
        let ticks: Vec<u64> = bytes
            .chunks_exact(8)
            .map(bytemuck::pod_read_unaligned)
            .collect();
        let mut times = BTreeMap::new();
        for (name, pair) in self.names.iter().zip(ticks.chunks_exact(2)) {
            let nanoseconds = pair[1].saturating_sub(pair[0]) as f64 * period;
            *times.entry(*name).or_insert(Duration::ZERO) +=
                Duration::from_nanos(nanoseconds as u64);
        }
        times
    }

    /// From the first pass's beginning to the last one's end.
    pub fn span(&self, gpu: &Gpu, bytes: &[u8]) -> Duration {
        let period = f64::from(gpu.queue().get_timestamp_period());
        let ticks: Vec<u64> = bytes
            .chunks_exact(8)
            .map(bytemuck::pod_read_unaligned)
            .collect();
        match (ticks.first(), ticks.last()) {
            (Some(first), Some(last)) => {
                Duration::from_nanos((last.saturating_sub(*first) as f64 * period) as u64)
            }
            _ => Duration::ZERO,
        }
    }
}
