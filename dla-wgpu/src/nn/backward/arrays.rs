//! What the mixers give the operator, backwards.

use dla_core::{Dims, Result};
use dla_shaders::{DECAY_RATES, DELTA_ARRAYS_GRADIENT, MAMBA2_ARRAYS_GRADIENT, Pass};

use super::place::{Place, PlaceSpec};
use super::sums::{ColumnSums, ColumnSumsSpec};
use crate::nn::arrays::{DeltaArraysSpec, Mamba2ArraysSpec};
use crate::nn::constants::Constants;
use crate::nn::layer::{Layer, Rows, holds, operator_sizes, positive, words};
use crate::{Dispatch, Gpu};

/// The gradients by what the operator took.
#[derive(Clone, Copy, Debug)]
pub struct ArrayGradients<'a> {
    /// `[rows, G, Dk]`.
    pub q: &'a wgpu::Buffer,
    /// `[rows, G, Dk]`.
    pub k: &'a wgpu::Buffer,
    /// `[rows, H, Dv]`.
    pub v: &'a wgpu::Buffer,
    /// `[rows, H, 2 + K]` by g, β and λ by rank. The mixers' gradients use the places of g and β up.
    pub control: &'a wgpu::Buffer,
}

/// [`Mamba2Arrays`](crate::nn::Mamba2Arrays) backwards, but for λ, and the skip of
/// [`Mamba2Output`](crate::nn::Mamba2Output).
#[derive(Clone, Copy, Debug)]
pub struct Mamba2ArraysGradient<'a> {
    /// Sizes and columns.
    pub spec: Mamba2ArraysSpec,
    /// `[3, H]`: Δ's bias, the [rates](dla_core::nn::decay::rate) of A_log, D.
    pub heads: &'a wgpu::Buffer,
    /// Room for parts, at least H values.
    pub scratch: &'a wgpu::Buffer,
}

/// [`DeltaArrays`](crate::nn::DeltaArrays) backwards, but for λ.
#[derive(Clone, Copy, Debug)]
pub struct DeltaArraysGradient<'a> {
    /// Sizes and columns.
    pub spec: DeltaArraysSpec,
    /// `[2, H]`: the bias of a, the [rates](dla_core::nn::decay::rate) of A_log.
    pub heads: &'a wgpu::Buffer,
    /// Room for parts, at least H values.
    pub scratch: &'a wgpu::Buffer,
}

/// Heads as the mixers take them, with the [rates](dla_core::nn::decay::rate) of A_log, from heads as they are trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecayRates {
    /// H.
    pub heads: usize,
    /// Arrays of H values: Δ's bias, A_log and, for Mamba-2, D.
    pub arrays: usize,
}

impl DecayRates {
    /// The constants as WGSL.
    pub fn header(&self) -> String {
        Constants::default()
            .sizes(&[("HEADS", self.heads)])
            .header()
    }

    /// Binds `trained` and `heads`, both `[arrays, H]`.
    ///
    /// # Errors
    /// [`Error::is_input`](dla_core::Error::is_input) for sizes that do not fit, [`Error::is_device`](dla_core::Error::is_device) for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        trained: &wgpu::Buffer,
        heads: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        const OP: &str = "decay_rates";
        positive(OP, &[("heads", self.heads)])?;
        let count = words(OP, "heads", &[self.arrays, self.heads])?;
        holds(OP, "trained", trained, &[count])?;
        holds(OP, "heads", heads, &[count])?;
        let layer = Layer {
            count: count as u32,
            ..Default::default()
        };
        let buffers = [("trained", trained), ("heads", heads)];
        let pass = (&DECAY_RATES, &*self.header());
        let groups = count.div_ceil(256);
        Ok(vec![layer.dispatch(gpu, pass, &buffers, groups).await?])
    }
}

impl Mamba2ArraysGradient<'_> {
    /// Binds `mixed` and `projected` as they were and `d_o`, the gradient by o + D·x `[rows, H, Dv]`; `d_mixed` `[rows,
    /// H·Dv + 2·G·Dk]`, which is written; `d_projected` `[rows, stride]`, whose columns of dt are written; and `d_heads`
    /// `[3, H]` by Δ's bias, A_log and D, which is added to.
    ///
    /// # Errors
    /// [`Error::is_input`](dla_core::Error::is_input) for sizes that do not fit, [`Error::is_device`](dla_core::Error::is_device) for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        [mixed, projected, d_o]: [&wgpu::Buffer; 3],
        given: ArrayGradients<'_>,
        [d_mixed, d_projected]: [&wgpu::Buffer; 2],
        d_heads: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        const OP: &str = "mamba2_arrays_gradient";
        let spec = &self.spec;
        operator_sizes(OP, &spec.dims)?;
        spec.check(OP)?;
        let call = Call {
            op: OP,
            gpu,
            rows,
            dims: &spec.dims,
            stride: spec.stride,
            scratch: self.scratch,
        };
        call.check([mixed, projected], given, [d_mixed, d_projected])?;
        let (heads, inner) = (spec.dims.heads, spec.dims.heads * spec.dims.value_dim);
        holds(OP, "heads", self.heads, &[3, heads])?;
        holds(OP, "d_o", d_o, &[rows.count()?, inner])?;
        let buffers = [
            ("mixed", mixed),
            ("projected", projected),
            ("heads", self.heads),
            ("d_v", given.v),
            ("d_o", d_o),
            ("d_control", given.control),
            ("d_mixed", d_mixed),
            ("d_projected", d_projected),
        ];
        let groups = words(OP, "rows", &[rows.count()?, heads])?.div_ceil(8);
        let pass = (&MAMBA2_ARRAYS_GRADIENT, spec.header());
        let keys = spec.dims.groups * spec.dims.key_dim;
        let parts = [
            call.dispatch(pass, &buffers, groups).await?,
            call.place(given.k, keys, d_mixed, inner).await?,
            call.place(given.q, keys, d_mixed, inner + keys).await?,
            call.sum(d_projected, call.projected(spec.dt), (d_heads, 0))
                .await?,
            call.sum(given.control, call.control(0), (d_heads, heads))
                .await?,
            call.sum(given.control, call.control(1), (d_heads, 2 * heads))
                .await?,
        ];
        Ok(parts.concat())
    }
}

impl DeltaArraysGradient<'_> {
    /// Binds `mixed` and `projected` as they were; `d_mixed` `[rows, 2·G·Dk + H·Dv]`, which is written; `d_projected`
    /// `[rows, stride]`, whose columns of a and b are written; and `d_heads` `[2, H]` by the bias of a and A_log, which is
    /// added to.
    ///
    /// # Errors
    /// [`Error::is_input`](dla_core::Error::is_input) for sizes that do not fit, [`Error::is_device`](dla_core::Error::is_device) for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        [mixed, projected]: [&wgpu::Buffer; 2],
        given: ArrayGradients<'_>,
        [d_mixed, d_projected]: [&wgpu::Buffer; 2],
        d_heads: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        const OP: &str = "delta_arrays_gradient";
        let spec = &self.spec;
        operator_sizes(OP, &spec.dims)?;
        spec.check(OP)?;
        let call = Call {
            op: OP,
            gpu,
            rows,
            dims: &spec.dims,
            stride: spec.stride,
            scratch: self.scratch,
        };
        call.check([mixed, projected], given, [d_mixed, d_projected])?;
        let (heads, inner) = (spec.dims.heads, spec.dims.heads * spec.dims.value_dim);
        holds(OP, "heads", self.heads, &[2, heads])?;
        let buffers = [
            ("mixed", mixed),
            ("projected", projected),
            ("heads", self.heads),
            ("d_q", given.q),
            ("d_k", given.k),
            ("d_control", given.control),
            ("d_mixed", d_mixed),
            ("d_projected", d_projected),
        ];
        let row_groups = 2 * spec.dims.groups + heads.div_ceil(256);
        let groups = words(OP, "rows", &[rows.count()?, row_groups])?;
        let pass = (&DELTA_ARRAYS_GRADIENT, spec.header());
        let keys = spec.dims.groups * spec.dims.key_dim;
        let parts = [
            call.dispatch(pass, &buffers, groups).await?,
            call.place(given.v, inner, d_mixed, 2 * keys).await?,
            call.sum(d_projected, call.projected(spec.a), (d_heads, 0))
                .await?,
            call.sum(given.control, call.control(0), (d_heads, heads))
                .await?,
        ];
        Ok(parts.concat())
    }
}

/// What both mixers' calls have in common.
struct Call<'a> {
    op: &'static str,
    gpu: &'a Gpu,
    rows: Rows,
    dims: &'a Dims,
    stride: usize,
    scratch: &'a wgpu::Buffer,
}

impl Call<'_> {
    fn check(
        &self,
        [mixed, projected]: [&wgpu::Buffer; 2],
        given: ArrayGradients<'_>,
        [d_mixed, d_projected]: [&wgpu::Buffer; 2],
    ) -> Result<()> {
        let (op, dims, count) = (self.op, self.dims, self.rows.count()?);
        let (keys, inner) = (dims.groups * dims.key_dim, dims.heads * dims.value_dim);
        holds(op, "mixed", mixed, &[count, self.mixed()])?;
        holds(op, "projected", projected, &[count, self.stride])?;
        holds(op, "q", given.q, &[count, keys])?;
        holds(op, "k", given.k, &[count, keys])?;
        holds(op, "v", given.v, &[count, inner])?;
        let control = [count, dims.heads, 2 + dims.capacity];
        holds(op, "control", given.control, &control)?;
        holds(op, "d_mixed", d_mixed, &[count, self.mixed()])?;
        holds(op, "d_projected", d_projected, &[count, self.stride])
    }

    /// Values of a row of the convolution's output.
    fn mixed(&self) -> usize {
        2 * self.dims.groups * self.dims.key_dim + self.dims.heads * self.dims.value_dim
    }

    async fn dispatch(
        &self,
        (pass, header): (&'static Pass, String),
        buffers: &[(&'static str, &wgpu::Buffer)],
        groups: usize,
    ) -> Result<Vec<Dispatch>> {
        let layer = Layer::new(self.rows)?;
        if groups == 0 {
            return Ok(Vec::new());
        }
        let dispatch = layer.dispatch(self.gpu, (pass, &header), buffers, groups);
        Ok(vec![dispatch.await?])
    }

    /// Copies rows of `columns` values to columns `to` and on of the gradient by the convolution's output.
    async fn place(
        &self,
        source: &wgpu::Buffer,
        columns: usize,
        d_mixed: &wgpu::Buffer,
        to: usize,
    ) -> Result<Vec<Dispatch>> {
        let place = Place {
            spec: PlaceSpec {
                from: [columns, 0],
                to: [self.mixed(), to],
                columns,
            },
            rows: self.rows.count()?,
            first_rows: [0, 0],
        };
        place.prepare(self.gpu, source, d_mixed).await
    }

    /// H columns of the projection.
    fn projected(&self, first: usize) -> ColumnSumsSpec {
        ColumnSumsSpec {
            stride: self.stride,
            first,
            every: 1,
            columns: self.dims.heads,
        }
    }

    /// Entry `first` of every head of the operator's control.
    fn control(&self, first: usize) -> ColumnSumsSpec {
        let every = 2 + self.dims.capacity;
        ColumnSumsSpec {
            stride: self.dims.heads * every,
            first,
            every,
            columns: self.dims.heads,
        }
    }

    async fn sum(
        &self,
        source: &wgpu::Buffer,
        spec: ColumnSumsSpec,
        total: (&wgpu::Buffer, usize),
    ) -> Result<Vec<Dispatch>> {
        let sums = ColumnSums {
            spec,
            scratch: self.scratch,
        };
        let rows = self.rows.count()?;
        sums.prepare(self.gpu, rows, source, total).await
    }
}
