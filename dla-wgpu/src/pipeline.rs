//! Compiled passes, cached by their whole source.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use dla_core::Result;
use dla_shaders::{Access, Binding, Pass};

use crate::scope::scoped;

/// A compiled pass and what it binds.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) name: &'static str,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) layout: wgpu::BindGroupLayout,
    pub(crate) compute: wgpu::ComputePipeline,
}

/// Pipelines by source.
#[derive(Debug, Default)]
pub(crate) struct Pipelines {
    compiled: Mutex<HashMap<String, Arc<Pipeline>>>,
}

impl Pipelines {
    /// The pass under these constants, compiled at most once.
    pub(crate) async fn get(
        &self,
        device: &wgpu::Device,
        checked: bool,
        pass: &Pass,
        header: &str,
    ) -> Result<Arc<Pipeline>> {
        let source = pass.source(header);
        let known = self
            .compiled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&source)
            .cloned();
        if let Some(pipeline) = known {
            return Ok(pipeline);
        }
        let made = scoped(device, pass.name, "shader", || {
            compile(device, checked, pass, &source)
        })
        .await?;
        let made = Arc::new(made);
        self.compiled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(source, Arc::clone(&made));
        Ok(made)
    }
}

fn compile(device: &wgpu::Device, checked: bool, pass: &Pass, source: &str) -> Pipeline {
    let bindings = pass.bindings();
    let entries: Vec<_> = bindings.iter().map(layout_entry).collect();
    let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: Some(pass.name),
        entries: &entries,
    });
    let module = module(device, checked, pass.name, source);
    let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: Some(pass.name),
        bind_group_layouts: &[Some(&layout)],
        immediate_size: 0,
    });
    let compute = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some(pass.name),
        layout: Some(&pipeline_layout),
        module: &module,
        entry_point: Some("main"),
        // Passes write every workgroup value before they read it.
        compilation_options: wgpu::PipelineCompilationOptions {
            zero_initialize_workgroup_memory: checked,
            ..Default::default()
        },
        cache: None,
    });
    Pipeline {
        name: pass.name,
        bindings,
        layout,
        compute,
    }
}

fn module(device: &wgpu::Device, checked: bool, label: &str, source: &str) -> wgpu::ShaderModule {
    let descriptor = wgpu::ShaderModuleDescriptor {
        label: Some(label),
        source: wgpu::ShaderSource::Wgsl(source.into()),
    };
    if checked || cfg!(target_arch = "wasm32") {
        return device.create_shader_module(descriptor);
    }
    // SAFETY: only this crate's own shaders reach this line. Every index they form is bounded by a size
    // that `plan` or a layer's `prepare` computed and the buffers were checked against, or is clamped where it comes out of a
    // caller's buffer (counts and places of `scalars`, given merges of `trace`), and their loops end; the
    // tests run each of them with the checks on and with guard words around every buffer.
    unsafe {
        device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
    }
}

fn layout_entry(binding: &Binding) -> wgpu::BindGroupLayoutEntry {
    let ty = match binding.access {
        Access::Uniform => wgpu::BufferBindingType::Uniform,
        Access::Read => wgpu::BufferBindingType::Storage { read_only: true },
        Access::ReadWrite => wgpu::BufferBindingType::Storage { read_only: false },
    };
    wgpu::BindGroupLayoutEntry {
        binding: binding.number,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty,
            // Binding 0 holds the dispatch's own slot of the parameters.
            has_dynamic_offset: binding.number == 0,
            min_binding_size: None,
        },
        count: None,
    }
}
