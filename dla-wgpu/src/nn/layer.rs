//! What all layers share: rows, buffers and their checks, the parameters of a dispatch.

use dla_core::{Dims, Error, Result};
use dla_shaders::Pass;

use crate::dispatch::{Dispatch, Parts};
use crate::plan::MAX_BATCH;
use crate::scope::scoped;
use crate::{Float, Gpu, plan};

/// The rows that a call works on: B batch items of T tokens each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Batch items, B.
    pub batch: usize,
    /// Tokens of each, T.
    pub tokens: usize,
}

impl Rows {
    /// B·T.
    ///
    /// # Errors
    /// [`Error::is_input`] for more batch items than lengths have room for, or more rows than 32 bits count.
    pub fn count(self) -> Result<usize> {
        if self.batch > MAX_BATCH {
            let expected = format!("at most {MAX_BATCH} batch items");
            return Err(Error::input("nn", "rows", expected, self.batch));
        }
        words("nn", "rows", &[self.batch, self.tokens])
    }
}

/// A product of sizes, which indices of 32 bits must reach.
pub(super) fn words(op: &'static str, argument: &'static str, factors: &[usize]) -> Result<usize> {
    let product = factors
        .iter()
        .try_fold(1usize, |product, &factor| product.checked_mul(factor));
    product
        .filter(|&product| product <= u32::MAX as usize / 4)
        .ok_or_else(|| {
            let got = factors.iter().map(usize::to_string).collect::<Vec<_>>();
            let expected = "an array of less than 4 GiB";
            Error::input(op, argument, expected, got.join(" × "))
        })
}

/// Refuses a buffer with less than `factors` multiplied 32-bit values, in whole vectors of four.
pub(super) fn holds(
    op: &'static str,
    argument: &'static str,
    buffer: &wgpu::Buffer,
    factors: &[usize],
) -> Result<()> {
    let needed = words(op, argument, factors)?.next_multiple_of(4) as u64 * 4;
    if buffer.size() < needed {
        let expected = format!("a buffer of at least {needed} bytes");
        return Err(Error::input(op, argument, expected, buffer.size()));
    }
    Ok(())
}

/// Refuses a buffer of the operator with less than `factors` multiplied values of `float`.
pub(super) fn holds_floats(
    op: &'static str,
    argument: &'static str,
    buffer: &wgpu::Buffer,
    float: Float,
    factors: &[usize],
) -> Result<()> {
    let bytes = words(op, argument, factors)? as u64 * float.bytes();
    let needed = bytes.next_multiple_of(4);
    if buffer.size() < needed {
        let expected = format!("a buffer of at least {needed} bytes");
        return Err(Error::input(op, argument, expected, buffer.size()));
    }
    Ok(())
}

/// Refuses a uniform buffer that is not one of [`MAX_BATCH`] words, such as lengths and positions.
pub(super) fn holds_items(
    op: &'static str,
    argument: &'static str,
    buffer: &wgpu::Buffer,
) -> Result<()> {
    let needed = MAX_BATCH as u64 * 4;
    if buffer.size() < needed {
        let expected = format!("a uniform buffer of at least {needed} bytes");
        return Err(Error::input(op, argument, expected, buffer.size()));
    }
    Ok(())
}

/// Refuses a size of zero.
pub(super) fn positive(op: &'static str, sizes: &[(&'static str, usize)]) -> Result<()> {
    match sizes.iter().find(|(_, size)| *size == 0) {
        Some((name, _)) => Err(Error::input(op, *name, "at least 1", 0)),
        None => Ok(()),
    }
}

/// Refuses sizes that the operator would, whatever the batch and the tokens.
pub(super) fn operator_sizes(op: &'static str, dims: &Dims) -> Result<()> {
    let sizes = Dims {
        batch: 1,
        tokens: 1,
        ..*dims
    };
    sizes.check().map_err(|error| error.within(op))
}

/// Refuses columns `[first, first + count)` that are not all inside a row of `stride` values.
pub(super) fn columns(
    op: &'static str,
    argument: &'static str,
    [first, count]: [usize; 2],
    stride: usize,
) -> Result<()> {
    let end = first.checked_add(count);
    if end.is_some_and(|end| end <= stride) {
        return Ok(());
    }
    let expected = format!("{count} columns inside a row of {stride}");
    Err(Error::input(
        op,
        argument,
        expected,
        format!("column {first}"),
    ))
}

/// Refuses an ε that is negative or not a number.
pub(super) fn epsilon(op: &'static str, epsilon: f32) -> Result<()> {
    if epsilon >= 0.0 && epsilon.is_finite() {
        Ok(())
    } else {
        Err(Error::input(
            op,
            "epsilon",
            "0 or a small positive number",
            epsilon,
        ))
    }
}

/// A storage buffer for `values` 32-bit values, in whole vectors of four as layers ask for; zeros at first.
///
/// # Errors
/// [`Error::is_unsupported`] above what the device can bind, [`Error::is_device`] where it has no memory.
pub async fn buffer(gpu: &Gpu, label: &'static str, values: usize) -> Result<wgpu::Buffer> {
    let bytes = words("nn", label, &[values])? as u64 * 4;
    let most = gpu.max_binding();
    if bytes > most {
        let expected = format!("at most {most} bytes, the device's largest binding");
        return Err(Error::unsupported("nn", label, expected, bytes));
    }
    let usage =
        wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
    gpu.buffer(label, bytes, usage).await
}

/// The same, filled with `values`.
///
/// # Errors
/// As [`buffer`].
pub async fn vector(gpu: &Gpu, label: &'static str, values: &[f32]) -> Result<wgpu::Buffer> {
    let buffer = buffer(gpu, label, values.len()).await?;
    scoped(gpu.device(), "nn", label, || {
        gpu.queue()
            .write_buffer(&buffer, 0, bytemuck::cast_slice(values));
    })
    .await?;
    Ok(buffer)
}

/// A uniform buffer of `values` 32-bit values, such as lengths (4,096 of them) and thresholds.
///
/// # Errors
/// [`Error::is_device`] where the device has no memory.
pub async fn uniform(gpu: &Gpu, label: &'static str, values: usize) -> Result<wgpu::Buffer> {
    let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
    gpu.buffer(label, values as u64 * 4, usage).await
}

/// `Layer` of `common/layer.wgsl`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
pub(super) struct Layer {
    pub(super) rows: u32,
    pub(super) tokens: u32,
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) skip: u32,
    pub(super) start: u32,
    pub(super) room: u32,
}

impl Layer {
    /// All rows; no part of a matrix.
    pub(super) fn new(rows: Rows) -> Result<Self> {
        Ok(Self {
            rows: rows.count()? as u32,
            tokens: rows.tokens as u32,
            ..Default::default()
        })
    }

    /// The dispatch of `groups` groups with these parameters.
    pub(super) async fn dispatch(
        &self,
        gpu: &Gpu,
        (pass, header): (&'static Pass, &str),
        buffers: &[(&'static str, &wgpu::Buffer)],
        groups: usize,
    ) -> Result<Dispatch> {
        let most = (plan::MAX_GROUPS as usize).pow(2);
        if groups > most {
            let expected = format!("at most {most} groups");
            return Err(Error::unsupported(pass.name, "rows", expected, groups));
        }
        let params = bytemuck::bytes_of(self);
        let parts = Parts {
            pass,
            header,
            params,
            buffers,
            groups,
        };
        Dispatch::new(gpu, parts).await
    }
}
