//! Passes tied to buffers: what every recorder of calls shares.

use std::sync::Arc;

use dla_core::{Error, Result};

use super::passes::Passes;
use crate::Gpu;
use crate::dispatch;
use crate::pipeline::Pipeline;
use crate::plan::{Plan, Segment};
use crate::scope::scoped;

/// A buffer under the name that passes give it.
pub(super) type Named<'a> = (&'static str, wgpu::BufferBinding<'a>);

/// One pass of a segment of plan `P`.
#[derive(Debug)]
pub(super) struct Step<P = Plan> {
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) groups: fn(&P, &Segment) -> usize,
}

/// Bytes between two slots of the parameters.
pub(super) const PARAMS_STRIDE: u64 = 256;

/// Compiles passes under a header.
pub(super) async fn compiled<P>(
    gpu: &Gpu,
    passes: Passes<P>,
    header: &str,
) -> Result<Vec<Step<P>>> {
    let mut steps = Vec::with_capacity(passes.len());
    for (pass, groups) in passes {
        let pipeline = gpu.pipeline(pass, header).await?;
        steps.push(Step { pipeline, groups });
    }
    Ok(steps)
}

/// The buffers with their names, if each has the bytes that it needs from its offset on: name, buffer, offset, bytes.
pub(super) fn sized<'a>(
    caller: &[(&'static str, &'a wgpu::Buffer, u64, u64)],
) -> Result<Vec<Named<'a>>> {
    let mut named = Vec::with_capacity(caller.len());
    for &(name, buffer, offset, needed) in caller {
        if buffer.size() < offset.saturating_add(needed) {
            let expected = match offset {
                0 => format!("a buffer of at least {needed} bytes"),
                _ => format!("a buffer of at least {needed} bytes from byte {offset}"),
            };
            return Err(Error::input("op", name, expected, buffer.size()));
        }
        let binding = wgpu::BufferBinding {
            buffer,
            offset,
            size: None,
        };
        named.push((name, binding));
    }
    Ok(named)
}

/// A workspace's buffers by the names that passes give them.
pub(super) fn whole<'a>(
    workspace: &'a [(&'static str, wgpu::Buffer)],
) -> impl Iterator<Item = Named<'a>> {
    let buffers = workspace.iter();
    buffers.map(|(name, buffer)| (*name, buffer.as_entire_buffer_binding()))
}

/// Ties a pass to the buffers that it names, and to the parameters.
pub(super) fn bind_step(
    gpu: &Gpu,
    params: &wgpu::Buffer,
    pipeline: &Pipeline,
    named: &[Named<'_>],
) -> wgpu::BindGroup {
    let params = wgpu::BufferBinding {
        buffer: params,
        offset: 0,
        size: std::num::NonZero::new(PARAMS_BYTES),
    };
    dispatch::bind(gpu.device(), pipeline, params, named)
}

/// Buffers of a workspace by name; only what is needed takes memory.
pub(super) async fn workspace(
    gpu: &Gpu,
    sizes: &[(&'static str, u64)],
) -> Result<Vec<(&'static str, wgpu::Buffer)>> {
    let mut buffers = Vec::new();
    for &(name, bytes) in sizes {
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST;
        buffers.push((name, gpu.buffer(name, bytes, usage).await?));
    }
    Ok(buffers)
}

/// `Params` of `common/params.wgsl`.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    tokens: u32,
    first_token: u32,
    chunks: u32,
    segment_chunks: u32,
    sequences: u32,
    steps: u32,
}

const PARAMS_BYTES: u64 = size_of::<Params>() as u64;

/// Every segment's parameters, each in a slot of its own.
pub(super) async fn params(gpu: &Gpu, plan: &Plan) -> Result<wgpu::Buffer> {
    let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
    let bytes = plan.segments.len().max(1) as u64 * PARAMS_STRIDE;
    let buffer = gpu.buffer("params", bytes, usage).await?;
    let mut slots = vec![0u8; bytes as usize];
    for (segment, slot) in plan
        .segments
        .iter()
        .zip(slots.chunks_exact_mut(PARAMS_STRIDE as usize))
    {
        let params = Params {
            tokens: plan.dims.tokens as u32,
            first_token: segment.first_token as u32,
            chunks: segment.chunks as u32,
            segment_chunks: plan.segment_chunks as u32,
            sequences: plan.dims.sequences() as u32,
            steps: segment.tokens as u32,
        };
        slot[..size_of::<Params>()].copy_from_slice(bytemuck::bytes_of(&params));
    }
    scoped(gpu.device(), "op", "params", || {
        gpu.queue().write_buffer(&buffer, 0, &slots);
    })
    .await?;
    Ok(buffer)
}
