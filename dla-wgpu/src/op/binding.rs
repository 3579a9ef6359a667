//! Passes tied to buffers: what every recorder of calls shares.

use std::sync::Arc;

use dla_core::{Error, Result};

use super::passes::Passes;
use crate::Gpu;
use crate::pipeline::Pipeline;
use crate::plan::{Plan, Segment};
use crate::scope::scoped;

/// A buffer under the name that passes give it.
pub(super) type Named<'a> = (&'static str, &'a wgpu::Buffer);

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

/// The buffers with their names, if each has at least the bytes that it needs.
pub(super) fn sized<'a>(
    caller: &[(&'static str, &'a wgpu::Buffer, u64)],
) -> Result<Vec<Named<'a>>> {
    let mut named = Vec::with_capacity(caller.len());
    for &(name, buffer, needed) in caller {
        if buffer.size() < needed {
            return Err(Error::input(
                "op",
                name,
                format!("a buffer of at least {needed} bytes"),
                buffer.size(),
            ));
        }
        named.push((name, buffer));
    }
    Ok(named)
}

/// Ties a pass to the buffers that it names, and to the parameters.
pub(super) fn bind_step(
    gpu: &Gpu,
    params: &wgpu::Buffer,
    pipeline: &Pipeline,
    named: &[Named<'_>],
) -> wgpu::BindGroup {
    let entries: Vec<_> = pipeline
        .bindings
        .iter()
        .map(|binding| {
            let resource = if binding.number == 0 {
                wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: params,
                    offset: 0,
                    size: std::num::NonZero::new(PARAMS_BYTES),
                })
            } else {
                buffer_of(named, binding.name).as_entire_binding()
            };
            wgpu::BindGroupEntry {
                binding: binding.number,
                resource,
            }
        })
        .collect();
    gpu.device().create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some(pipeline.name),
        layout: &pipeline.layout,
        entries: &entries,
    })
}

/// The buffer that a pass names; passes and operator are of one house, so a missing name is our own bug.
fn buffer_of<'a>(named: &[Named<'a>], name: &str) -> &'a wgpu::Buffer {
    match named.iter().find(|(known, _)| *known == name) {
        Some((_, buffer)) => buffer,
        None => unreachable!("no buffer named {name}"),
    }
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
