//! The device: the host's or our own.

use std::sync::Arc;

use dla_core::{Error, Result};
use dla_shaders::Pass;

use crate::pipeline::{Pipeline, Pipelines};
use crate::scope::scoped;
use crate::spec::MATRIX_WORKGROUP_BYTES;

/// How to open a device.
#[derive(Clone, Debug, Default)]
pub struct GpuOptions {
    /// Part of the adapter's name, upper or lower case; absent takes the most powerful one.
    pub adapter: Option<String>,
    /// Keep the bounds checks in the shaders: slower, for tests and suspicion.
    pub checked: bool,
    /// Use no optional feature, as in a plain browser.
    pub portable: bool,
}

/// What the device offers beyond WebGPU's defaults, and thus which files the passes are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// Half-precision inputs and outputs.
    pub f16: bool,
    /// Invocations of the smallest subgroup; 0 without subgroup operations.
    pub subgroup: usize,
    /// 16 × 16 × 16 f16 matrix products with f32 sums.
    pub cooperative_matrix: bool,
    /// Timestamps inside passes' bounds.
    pub timestamps: bool,
}

impl Variant {
    /// The kernels that [`Gpu::new`] would run on an adapter.
    pub fn of(adapter: &wgpu::Adapter) -> Self {
        let features = adapter.features();
        let variant = Self::with(features, adapter.get_info().subgroup_min_size);
        let matrices = features.contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX);
        Self {
            cooperative_matrix: matrices
                && has_matrix_16(adapter)
                && adapter.limits().max_compute_workgroup_storage_size >= MATRIX_WORKGROUP_BYTES
                && variant.f16
                && variant.subgroup == 32,
            ..variant
        }
    }

    /// Without cooperative matrices, whose shapes only the adapter knows.
    fn with(features: wgpu::Features, smallest_subgroup: u32) -> Self {
        let subgroups = features.contains(wgpu::Features::SUBGROUP);
        Self {
            f16: features.contains(wgpu::Features::SHADER_F16),
            subgroup: if subgroups {
                smallest_subgroup as usize
            } else {
                0
            },
            cooperative_matrix: false,
            timestamps: features.contains(wgpu::Features::TIMESTAMP_QUERY),
        }
    }

    /// The features that a device needs for these kernels.
    fn features(self) -> wgpu::Features {
        let all = [
            (self.f16, wgpu::Features::SHADER_F16),
            (self.subgroup > 0, wgpu::Features::SUBGROUP),
            (
                self.cooperative_matrix,
                wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX,
            ),
            (self.timestamps, wgpu::Features::TIMESTAMP_QUERY),
        ];
        let wanted = all.into_iter().filter(|(wanted, _)| *wanted);
        wanted.fold(wgpu::Features::empty(), |sum, (_, feature)| sum | feature)
    }
}

/// A device, its queue and the pipelines compiled for it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gpu {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    device: wgpu::Device,
    queue: wgpu::Queue,
    variant: Variant,
    checked: bool,
    pipelines: Pipelines,
}

impl Gpu {
    /// Opens a device.
    ///
    /// # Errors
    /// [`Error::is_unsupported`] when no adapter (or none of that name) is there; [`Error::is_device`]
    /// when it refuses the device.
    pub async fn new(options: &GpuOptions) -> Result<Self> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let adapter = adapter(&instance, options).await?;
        let (variant, limits) = if options.portable {
            (Variant::default(), wgpu::Limits::default())
        } else {
            (Variant::of(&adapter), adapter.limits())
        };
        let experimental_features = if variant.cooperative_matrix {
            // SAFETY: the one experimental feature asked for is the cooperative matrix, used by shipped shaders only.
            unsafe { wgpu::ExperimentalFeatures::enabled() }
        } else {
            wgpu::ExperimentalFeatures::disabled()
        };
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("dla"),
            required_features: variant.features(),
            required_limits: limits,
            experimental_features,
            memory_hints: wgpu::MemoryHints::Performance,
            trace: wgpu::Trace::Off,
        };
        let (device, queue) = adapter
            .request_device(&descriptor)
            .await
            .map_err(|error| Error::device("gpu", "device", "a device of the adapter", error))?;
        Ok(Self::with(device, queue, variant, options.checked))
    }

    /// Takes the application's own device and queue; nothing is submitted behind its back.
    ///
    /// ```no_run
    /// use dla_wgpu::{Gpu, wgpu};
    /// # async fn run(adapter: wgpu::Adapter) -> Result<(), wgpu::RequestDeviceError> {
    /// let (device, queue) = adapter.request_device(&Default::default()).await?;
    /// let gpu = Gpu::from_host(device.clone(), queue.clone(), false);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// `checked` keeps the bounds checks in the shaders. Cooperative matrices are used only on
    /// devices that [`Gpu::new`] opened, since their shapes belong to the adapter.
    pub fn from_host(device: wgpu::Device, queue: wgpu::Queue, checked: bool) -> Self {
        let subgroup = device.adapter_info().subgroup_min_size;
        let variant = Variant::with(device.features(), subgroup);
        Self::with(device, queue, variant, checked)
    }

    fn with(device: wgpu::Device, queue: wgpu::Queue, variant: Variant, checked: bool) -> Self {
        Self {
            inner: Arc::new(Inner {
                device,
                queue,
                variant,
                checked,
                pipelines: Pipelines::default(),
            }),
        }
    }

    /// [`Gpu::new`], waiting for it.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn new_blocking(options: &GpuOptions) -> Result<Self> {
        pollster::block_on(Self::new(options))
    }

    /// Waits for a call on this device, polling the device meanwhile.
    ///
    /// # Errors
    /// The call's own, and [`Error::is_device`] where the device cannot be polled.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn block_on<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        use std::task::{Context, Poll, Waker};
        let mut call = std::pin::pin!(call);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(answer) = call.as_mut().poll(&mut context) {
                return answer;
            }
            self.device()
                .poll(wgpu::PollType::wait_indefinitely())
                .map_err(|error| Error::device("gpu", "device", "finished work", error))?;
        }
    }

    /// Every adapter of this machine.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn adapters() -> Vec<wgpu::Adapter> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()))
    }

    /// The device.
    pub fn device(&self) -> &wgpu::Device {
        &self.inner.device
    }

    /// Its queue.
    pub fn queue(&self) -> &wgpu::Queue {
        &self.inner.queue
    }

    /// Which kernels it runs.
    pub fn variant(&self) -> Variant {
        self.inner.variant
    }

    /// The adapter behind the device.
    pub fn info(&self) -> wgpu::AdapterInfo {
        self.inner.device.adapter_info()
    }

    /// Whether the adapter computes on the CPU, as llvmpipe and SwiftShader do.
    pub fn is_software(&self) -> bool {
        self.info().device_type == wgpu::DeviceType::Cpu
    }

    pub(crate) async fn pipeline(&self, pass: &Pass, header: &str) -> Result<Arc<Pipeline>> {
        let inner = &self.inner;
        inner
            .pipelines
            .get(&inner.device, inner.checked, pass, header)
            .await
    }

    /// Bytes of the largest storage buffer.
    pub(crate) fn max_binding(&self) -> u64 {
        let limits = self.inner.device.limits();
        limits
            .max_storage_buffer_binding_size
            .min(limits.max_buffer_size)
    }

    /// A buffer of `size` bytes, rounded up to whole vectors of 16 and at least one: some passes read four values at once.
    pub(crate) async fn buffer(
        &self,
        label: &'static str,
        size: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<wgpu::Buffer> {
        let size = size.max(16).next_multiple_of(16);
        scoped(self.device(), "op", label, || {
            self.device().create_buffer(&wgpu::BufferDescriptor {
                label: Some(label),
                size,
                usage,
                mapped_at_creation: false,
            })
        })
        .await
    }
}

fn has_matrix_16(adapter: &wgpu::Adapter) -> bool {
    adapter.cooperative_matrix_properties().iter().any(|p| {
        (p.m_size, p.n_size, p.k_size) == (16, 16, 16)
            && p.ab_type == wgpu::CooperativeScalarType::F16
            && p.cr_type == wgpu::CooperativeScalarType::F32
    })
}

#[cfg(not(target_arch = "wasm32"))]
async fn adapter(instance: &wgpu::Instance, options: &GpuOptions) -> Result<wgpu::Adapter> {
    let Some(name) = &options.adapter else {
        return best_adapter(instance).await;
    };
    let adapters = instance.enumerate_adapters(wgpu::Backends::all()).await;
    let names: Vec<_> = adapters
        .iter()
        .map(|adapter| adapter.get_info().name)
        .collect();
    let wanted = name.to_lowercase();
    adapters
        .into_iter()
        .find(|adapter| adapter.get_info().name.to_lowercase().contains(&wanted))
        .ok_or_else(|| Error::unsupported("gpu", "adapter", format!("one of {names:?}"), name))
}

#[cfg(target_arch = "wasm32")]
async fn adapter(instance: &wgpu::Instance, _options: &GpuOptions) -> Result<wgpu::Adapter> {
    best_adapter(instance).await
}

async fn best_adapter(instance: &wgpu::Instance) -> Result<wgpu::Adapter> {
    let options = wgpu::RequestAdapterOptions {
        power_preference: wgpu::PowerPreference::HighPerformance,
        ..Default::default()
    };
    instance
        .request_adapter(&options)
        .await
        .map_err(|error| Error::unsupported("gpu", "adapter", "a WebGPU adapter", error))
}
