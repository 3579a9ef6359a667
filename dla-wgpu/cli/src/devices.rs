//! `dla devices`: what the operator can run on here.

use std::fmt::Write;

use dla_core::Result;
use dla_wgpu::{Gpu, Variant};
use serde_json::json;
use wgpu::{Adapter, AdapterInfo, Features, Limits};

use crate::args::Global;
use crate::backend::Engine;
use crate::report::Report;

/// The features that kernels may use, and their names.
const FEATURES: [(&str, Features); 4] = [
    ("f16", Features::SHADER_F16),
    ("subgroups", Features::SUBGROUP),
    (
        "cooperative matrices",
        Features::EXPERIMENTAL_COOPERATIVE_MATRIX,
    ),
    ("timestamps", Features::TIMESTAMP_QUERY),
];

/// Lists the adapters and the CPU, and marks the one that a run would take.
///
/// # Errors
/// When `--backend gpu` or `--adapter` asks for a device that cannot be opened.
pub fn run(global: &Global) -> Result<Report> {
    let chosen = chosen(global)?;
    let adapters = Gpu::adapters();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let is_chosen = |info: &AdapterInfo| chosen.as_ref().is_some_and(|chosen| same(chosen, info));

    let mut text = String::new();
    for adapter in &adapters {
        text += &describe(adapter, is_chosen(&adapter.get_info()));
    }
    let mark = mark(chosen.is_none());
    let _ = write!(
        text,
        "CPU{mark}\n  the reference in plain Rust, {threads} threads"
    );
    let list: Vec<_> = adapters
        .iter()
        .map(|adapter| machine_readable(adapter, is_chosen(&adapter.get_info())))
        .collect();
    let cpu = json!({ "threads": threads, "chosen": chosen.is_none() });
    Ok(Report {
        text,
        json: json!({ "adapters": list, "cpu": cpu }),
    })
}

/// The adapter that a run with these options takes; `None` is the CPU.
fn chosen(global: &Global) -> Result<Option<AdapterInfo>> {
    Ok(match Engine::open(global)? {
        Engine::Cpu => None,
        Engine::Gpu { gpu, .. } => Some(gpu.info()),
    })
}

fn same(a: &AdapterInfo, b: &AdapterInfo) -> bool {
    (&a.name, a.backend, a.device) == (&b.name, b.backend, b.device)
}

fn mark(chosen: bool) -> &'static str {
    if chosen { " (chosen)" } else { "" }
}

fn describe(adapter: &Adapter, chosen: bool) -> String {
    let info = adapter.get_info();
    let limits = adapter.limits();
    format!(
        "{}{}\n  {}, {:?}; driver {} {}\n  features: {}\n  kernels: {}\n  limits: {}\n\n",
        info.name,
        mark(chosen),
        info.backend,
        info.device_type,
        info.driver,
        info.driver_info,
        list(&features(adapter)),
        list(&kernels(Variant::of(adapter))),
        limits_in_words(&limits),
    )
}

fn list(words: &[impl AsRef<str>]) -> String {
    let words: Vec<_> = words.iter().map(AsRef::as_ref).collect();
    if words.is_empty() {
        "none".into()
    } else {
        words.join(", ")
    }
}

/// Those of the optional features that this adapter has.
fn features(adapter: &Adapter) -> Vec<&'static str> {
    let there = adapter.features();
    let optional = FEATURES
        .iter()
        .filter(|(_, feature)| there.contains(*feature));
    optional.map(|(name, _)| *name).collect()
}

/// The kernels that calls can take.
fn kernels(variant: Variant) -> Vec<String> {
    let mut words = vec!["f32".to_owned()];
    if variant.f16 {
        words.push("f16".into());
    }
    if variant.cooperative_matrix {
        words.push("f16 by 16 x 16 x 16 matrices".into());
    }
    if variant.subgroup > 0 {
        let most = variant.subgroup;
        words.push(format!("merges by subgroups for up to {most} states"));
    }
    words
}

fn limits_in_words(limits: &Limits) -> String {
    format!(
        "{} MiB a binding, {} storage buffers a pass, {} KiB of memory and {} invocations a workgroup",
        limits.max_storage_buffer_binding_size >> 20,
        limits.max_storage_buffers_per_shader_stage,
        limits.max_compute_workgroup_storage_size >> 10,
        limits.max_compute_invocations_per_workgroup,
    )
}

fn machine_readable(adapter: &Adapter, chosen: bool) -> serde_json::Value {
    let info = adapter.get_info();
    let limits = adapter.limits();
    let variant = Variant::of(adapter);
    json!({
        "name": info.name,
        "backend": info.backend.to_string(),
        "type": format!("{:?}", info.device_type),
        "driver": info.driver,
        "driver_info": info.driver_info,
        "chosen": chosen,
        "features": features(adapter),
        "kernels": {
            "f16": variant.f16,
            "cooperative_matrix": variant.cooperative_matrix,
            "subgroup": variant.subgroup,
            "timestamps": variant.timestamps,
        },
        "limits": {
            "max_storage_buffer_binding_size": limits.max_storage_buffer_binding_size,
            "max_storage_buffers_per_shader_stage": limits.max_storage_buffers_per_shader_stage,
            "max_compute_workgroup_storage_size": limits.max_compute_workgroup_storage_size,
            "max_compute_invocations_per_workgroup": limits.max_compute_invocations_per_workgroup,
        },
    })
}
