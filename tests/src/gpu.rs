//! The device that GPU tests share: pipelines are the slow part.

use std::sync::OnceLock;

use dla_wgpu::{Gpu, GpuOptions};

/// The adapter named in `DLA_ADAPTER`, or the best; `None`, said once on stderr, only where `DLA_NO_GPU=1` allows it.
///
/// # Panics
/// Without an adapter and without `DLA_NO_GPU=1`: GPU tests never pass by not running.
pub fn gpu() -> Option<&'static Gpu> {
    static GPU: OnceLock<Option<Gpu>> = OnceLock::new();
    GPU.get_or_init(|| open(false, false)).as_ref()
}

/// The same adapter with bounds checks in the shaders and without optional features.
pub fn checked_gpu() -> Option<&'static Gpu> {
    static GPU: OnceLock<Option<Gpu>> = OnceLock::new();
    GPU.get_or_init(|| open(true, true)).as_ref()
}

/// Both of them.
pub fn gpus() -> Vec<&'static Gpu> {
    [gpu(), checked_gpu()].into_iter().flatten().collect()
}

fn open(checked: bool, portable: bool) -> Option<Gpu> {
    let options = GpuOptions {
        adapter: std::env::var("DLA_ADAPTER").ok(),
        checked,
        portable,
    };
    match Gpu::new_blocking(&options) {
        Ok(gpu) => Some(gpu),
        Err(error) if std::env::var("DLA_NO_GPU").is_ok_and(|v| v == "1") => {
            eprintln!("SKIP: GPU tests, DLA_NO_GPU=1 and {error}");
            None
        }
        Err(error) => panic!(
            "{error}; install a Vulkan driver (Debian: mesa-vulkan-drivers) or set DLA_NO_GPU=1"
        ),
    }
}
