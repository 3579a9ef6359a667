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
    pipeline: Arc<Pipeline>,
    group: wgpu::BindGroup,
    offset: u32,
    grid: (u32, u32),
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
            bind(gpu.device(), &pipeline, &params, parts.buffers)
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

/// Refuses a buffer that is written and bound a second time.
fn alone(
    name: &'static str,
    bindings: &[Binding],
    buffers: &[(&'static str, &wgpu::Buffer)],
) -> Result<()> {
    let bound = |binding: &Binding| buffer_of(buffers, binding.name);
    let written = bindings.iter().filter(|b| b.access == Access::ReadWrite);
    for binding in written {
        let others = bindings[1..].iter().filter(|b| b.number != binding.number);
        if let Some(other) = others.into_iter().find(|b| bound(b) == bound(binding)) {
            let expected = format!("another buffer than {}'s", other.name);
            return Err(Error::input(name, binding.name, expected, "the same"));
        }
    }
    Ok(())
}

fn bind(
    device: &wgpu::Device,
    pipeline: &Pipeline,
    params: &wgpu::Buffer,
    buffers: &[(&'static str, &wgpu::Buffer)],
) -> wgpu::BindGroup {
    let entry = |binding: &Binding| wgpu::BindGroupEntry {
        binding: binding.number,
        resource: match binding.number {
            0 => params.as_entire_binding(),
            _ => buffer_of(buffers, binding.name).as_entire_binding(),
        },
    };
    let entries: Vec<_> = pipeline.bindings.iter().map(entry).collect();
    device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some(pipeline.name),
        layout: &pipeline.layout,
        entries: &entries,
    })
}

/// The buffer that a pass names; passes and layers are of one house, so a missing name is our own bug.
pub(crate) fn buffer_of<'a>(
    buffers: &[(&'static str, &'a wgpu::Buffer)],
    name: &str,
) -> &'a wgpu::Buffer {
    match buffers.iter().find(|(known, _)| *known == name) {
        Some((_, buffer)) => buffer,
        None => unreachable!("no buffer named {name}"),
    }
}
