//! The devices that GPU tests share: pipelines are the slow part.
//!
//! A software adapter compiles in its device's one queue, so each thread that tests has a device of its own, and leaves
//! it, with its pipelines, to the next test.

use std::cell::OnceCell;
use std::sync::Mutex;

use dla_wgpu::{Gpu, GpuOptions};

/// Devices of one kind that no thread tests on now.
struct Pool {
    portable: bool,
    free: Mutex<Vec<&'static Gpu>>,
}

static FAST: Pool = Pool::new(false);
static CHECKED: Pool = Pool::new(true);

thread_local! {
    static OWN_FAST: OnceCell<Option<Lease>> = const { OnceCell::new() };
    static OWN_CHECKED: OnceCell<Option<Lease>> = const { OnceCell::new() };
}

/// A device until the thread ends.
struct Lease {
    gpu: &'static Gpu,
    pool: &'static Pool,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Ok(mut free) = self.pool.free.lock() {
            free.push(self.gpu);
        }
    }
}

impl Pool {
    const fn new(portable: bool) -> Self {
        Self {
            portable,
            free: Mutex::new(Vec::new()),
        }
    }

    fn lease(&'static self) -> Option<Lease> {
        let free = self.free.lock().expect("no thread fails with it").pop();
        let gpu = free.or_else(|| Some(&*Box::leak(Box::new(open(self.portable)?))))?;
        Some(Lease { gpu, pool: self })
    }
}

/// This thread's device: the adapter named in `DLA_ADAPTER`, or the best; `None`, said on stderr, only where
/// `DLA_NO_GPU=1` allows it.
///
/// # Panics
/// Without an adapter and without `DLA_NO_GPU=1`: GPU tests never pass by not running.
pub fn gpu() -> Option<&'static Gpu> {
    OWN_FAST.with(|own| Some(own.get_or_init(|| FAST.lease()).as_ref()?.gpu))
}

/// This thread's device of the same adapter with bounds checks in the shaders and without optional features.
pub fn checked_gpu() -> Option<&'static Gpu> {
    OWN_CHECKED.with(|own| Some(own.get_or_init(|| CHECKED.lease()).as_ref()?.gpu))
}

/// Both of them.
pub fn gpus() -> Vec<&'static Gpu> {
    [gpu(), checked_gpu()].into_iter().flatten().collect()
}

fn open(portable: bool) -> Option<Gpu> {
    let options = GpuOptions {
        adapter: std::env::var("DLA_ADAPTER").ok(),
        checked: portable,
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
