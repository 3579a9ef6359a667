//! One dispatch with everything bound: prepared once, recorded many times.

use std::sync::Arc;

use dla_core::{Error, Result};
use dla_shaders::{Access, Binding, Pass};

use crate::Gpu;
use crate::pipeline::Pipeline;
use crate::plan::grid;
use crate::scope::scoped;

/// One dispatch with everything bound.
#[derive(Clone, Debug)]
pub struct Dispatch {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) group: wgpu::BindGroup,
    /// Where its parameters begin in the buffer of binding 0.
    pub(crate) offset: u32,
    pub(crate) grid: (u32, u32),
}

/// What a dispatch is made of.
pub(crate) struct Parts<'a> {
    /// The pass.
    pub(crate) pass: &'static Pass,
    /// The constants in front of it.
    pub(crate) header: &'a str,
    /// Binding 0, which belongs to this dispatch.
    pub(crate) params: &'a [u8],
    /// All others by name.
    pub(crate) buffers: &'a [(&'static str, &'a wgpu::Buffer)],
    /// Groups of the grid.
    pub(crate) groups: usize,
}

impl Dispatch {
    /// Compiles the pass and binds its buffers.
    ///
    /// # Errors
    /// [`Error::is_input`] where a buffer that is written is bound twice, [`Error::is_device`] for what the device refuses.
    pub(crate) async fn new(gpu: &Gpu, parts: Parts<'_>) -> Result<Self> {
        let pipeline = gpu.pipeline(parts.pass, parts.header).await?;
        alone(pipeline.name, &pipeline.bindings, parts.buffers)?;
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let params = gpu
            .buffer("params", parts.params.len() as u64, usage)
            .await?;
        let group = scoped(gpu.device(), pipeline.name, "buffers", || {
            gpu.queue().write_buffer(&params, 0, parts.params);
            let whole = parts.buffers.iter();
            let whole: Vec<_> = whole
                .map(|(name, buffer)| (*name, buffer.as_entire_buffer_binding()))
                .collect();
            let params = params.as_entire_buffer_binding();
            bind(gpu.device(), &pipeline, params, &whole)
        })
        .await?;
        Ok(Self {
            pipeline,
            group,
            offset: 0,
            grid: grid(parts.groups),
        })
    }

    /// The pass's name.
    pub fn name(&self) -> &'static str {
        self.pipeline.name
    }

    /// Records the dispatch.
    pub fn record(&self, pass: &mut wgpu::ComputePass<'_>) {
        pass.set_pipeline(&self.pipeline.compute);
        pass.set_bind_group(0, &self.group, &[self.offset]);
        pass.dispatch_workgroups(self.grid.0, self.grid.1, 1);
    }
}

/// Records dispatches in order, in one compute pass.
pub(crate) fn record<'a>(
    dispatches: impl IntoIterator<Item = &'a Dispatch>,
    encoder: &mut wgpu::CommandEncoder,
) {
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
        label: Some("dla"),
        timestamp_writes: None,
    });
    for dispatch in dispatches {
        dispatch.record(&mut pass);
    }
}

/// Refuses a buffer that is written and bound a second time.
fn alone(
    name: &'static str,
    bindings: &[Binding],
    buffers: &[(&'static str, &wgpu::Buffer)],
) -> Result<()> {
    let bound = |binding: &Binding| buffers.iter().find(|(known, _)| *known == binding.name);
    let same = |a: &Binding, b: &Binding| match (bound(a), bound(b)) {
        (Some((_, a)), Some((_, b))) => a == b,
        _ => false,
    };
    let written = bindings.iter().filter(|b| b.access == Access::ReadWrite);
    for binding in written {
        let mut others = bindings[1..].iter().filter(|b| b.number != binding.number);
        if let Some(other) = others.find(|other| same(other, binding)) {
            let expected = format!("another buffer than {}'s", other.name);
            return Err(Error::input(name, binding.name, expected, "the same"));
        }
    }
    Ok(())
}

/// The bind group of a pass: its parameters, and all its other buffers by name.
pub(crate) fn bind(
    device: &wgpu::Device,
    pipeline: &Pipeline,
    params: wgpu::BufferBinding<'_>,
    buffers: &[(&'static str, wgpu::BufferBinding<'_>)],
) -> wgpu::BindGroup {
    let entry = |binding: &Binding| wgpu::BindGroupEntry {
        binding: binding.number,
        resource: wgpu::BindingResource::Buffer(match binding.number {
            0 => params.clone(),
            _ => buffer_of(buffers, binding.name),
        }),
    };
    let entries: Vec<_> = pipeline.bindings.iter().map(entry).collect();
    device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some(pipeline.name),
        layout: &pipeline.layout,
        entries: &entries,
    })
}

/// The buffer that a pass names; passes and their host are of one project, so a missing name is our own bug.
fn buffer_of<'a>(
    buffers: &[(&'static str, wgpu::BufferBinding<'a>)],
    name: &str,
) -> wgpu::BufferBinding<'a> {
    match buffers.iter().find(|(known, _)| *known == name) {
        Some((_, buffer)) => buffer.clone(),
        None => unreachable!("no buffer named {name}"),
    }
}
