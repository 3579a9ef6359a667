//! The device that the tests of examples run on.

use dla_wgpu::{Gpu, GpuOptions};

/// The adapter named in `DLA_ADAPTER`, or the best; `None` only where `DLA_NO_GPU=1` allows it.
pub(crate) fn gpu() -> Option<Gpu> {
    let options = GpuOptions {
        adapter: std::env::var("DLA_ADAPTER").ok(),
        ..GpuOptions::default()
    };
    match Gpu::new_blocking(&options) {
        Ok(gpu) => Some(gpu),
        Err(error) if std::env::var("DLA_NO_GPU").is_ok_and(|v| v == "1") => {
            eprintln!("SKIP: GPU tests, DLA_NO_GPU=1 and {error}");
            None
        }
        Err(error) => panic!("{error}; install a Vulkan driver or set DLA_NO_GPU=1"),
    }
}
