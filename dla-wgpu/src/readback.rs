//! Reading buffers back without stopping the world.

use std::fmt::Display;

use dla_core::{Error, Result};

use crate::Gpu;

/// A copy of a buffer on its way to the host: record it, submit the encoder, then wait for it.
#[derive(Debug)]
pub struct Readback {
    staging: wgpu::Buffer,
    size: u64,
}

impl Readback {
    /// Records a copy of the first `size` bytes of `source`.
    ///
    /// # Errors
    /// [`Error::is_input`] when `source` is smaller, [`Error::is_device`] when there is no memory for the copy.
    pub async fn record(
        gpu: &Gpu,
        encoder: &mut wgpu::CommandEncoder,
        source: &wgpu::Buffer,
        size: u64,
    ) -> Result<Self> {
        if size > source.size() {
            let expected = format!("at most {} bytes, the buffer's", source.size());
            return Err(Error::input("readback", "size", expected, size));
        }
        let readback = Self::new(gpu, size).await?;
        readback.copy(encoder, source);
        Ok(readback)
    }

    /// Makes room for `size` bytes.
    pub(crate) async fn new(gpu: &Gpu, size: u64) -> Result<Self> {
        let usage = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ;
        let staging = gpu.buffer("readback", size, usage).await?;
        Ok(Self { staging, size })
    }

    /// The same inside somebody else's error scope.
    pub(crate) fn unscoped(gpu: &Gpu, size: u64) -> Self {
        let staging = gpu.device().create_buffer(&wgpu::BufferDescriptor {
            label: Some("readback"),
            size: size.max(4).next_multiple_of(4),
            usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
            mapped_at_creation: false,
        });
        Self { staging, size }
    }

    /// Records a copy of `size` bytes of `source` from byte `from` on to byte `at`; both are large enough, and all
    /// three whole words.
    pub(crate) fn copy_range(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        (source, from): (&wgpu::Buffer, u64),
        at: u64,
        size: u64,
    ) {
        if size > 0 {
            encoder.copy_buffer_to_buffer(source, from, &self.staging, at, size);
        }
    }

    /// Records the copy; `source` is large enough.
    pub(crate) fn copy(&self, encoder: &mut wgpu::CommandEncoder, source: &wgpu::Buffer) {
        let whole = self.size.next_multiple_of(4);
        if whole > 0 {
            encoder.copy_buffer_to_buffer(source, 0, &self.staging, 0, whole);
        }
    }

    /// The bytes, once the submission that holds the copy is done. Never blocks the thread.
    ///
    /// Asks for them at once, so that several can be on their way together. On native somebody must
    /// poll the device meanwhile; [`Readback::wait`] does both.
    pub fn bytes(self) -> impl Future<Output = Result<Vec<u8>>> {
        let (sender, receiver) = oneshot();
        self.staging
            .slice(..)
            .map_async(wgpu::MapMode::Read, move |result| sender.send(result));
        let failed =
            |expected, error: &dyn Display| Error::device("readback", "buffer", expected, error);
        async move {
            let mapped = receiver.await;
            mapped.map_err(|error| {
                failed("mapped for reading", &error).advise("if the device is lost, open another")
            })?;
            let view = self.staging.slice(..).get_mapped_range();
            let view = view.map_err(|error| failed("a mapped range", &error))?;
            Ok(view[..self.size as usize].to_vec())
        }
    }

    /// The bytes, polling the device until they are there.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn wait(self, gpu: &Gpu) -> Result<Vec<u8>> {
        gpu.block_on(self.bytes())
    }
}

type Mapped = std::result::Result<(), wgpu::BufferAsyncError>;

#[derive(Default)]
struct Slot {
    result: Option<Mapped>,
    waker: Option<std::task::Waker>,
}

type Shared = std::sync::Arc<std::sync::Mutex<Slot>>;

struct Sender(Shared);
struct Receiver(Shared);

fn oneshot() -> (Sender, Receiver) {
    let shared = Shared::default();
    (Sender(shared.clone()), Receiver(shared))
}

impl Sender {
    fn send(self, result: Mapped) {
        let mut slot = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        slot.result = Some(result);
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }
}

impl Future for Receiver {
    type Output = Mapped;

    fn poll(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Mapped> {
        let mut slot = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match slot.result.take() {
            Some(result) => std::task::Poll::Ready(result),
            None => {
                slot.waker = Some(context.waker().clone());
                std::task::Poll::Pending
            }
        }
    }
}
