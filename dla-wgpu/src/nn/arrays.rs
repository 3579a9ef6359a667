//! What the mixers give the operator.

use dla_core::{Dims, Error, Result};
use dla_shaders::{DELTA_ARRAYS, MAMBA2_ARRAYS};

use super::constants::Constants;
use super::layer::{Layer, Rows, columns, holds, holds_floats, holds_items, operator_sizes, words};
use crate::op::Arrays;
use crate::{Dispatch, Float, Gpu};

/// What the arrays are made from.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The convolution's output, `[rows, H·Dv + 2·G·Dk]`: x, B, C of Mamba-2; q, k, v of Gated DeltaNet.
    pub mixed: &'a wgpu::Buffer,
    /// The projection, `[rows, stride]`.
    pub projected: &'a wgpu::Buffer,
    /// Tokens that each batch item has taken in before, u32, a uniform buffer of 16 KiB; read under Fenwick only.
    pub positions: &'a wgpu::Buffer,
}

/// Where λ comes from: softplus(L·p + a), p the columns of the projection from `column` on, `[H, K]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadColumns {
    /// The first column; absent for a plain checkpoint, whose λ is 1.
    pub column: Option<usize>,
    /// The columns go by level (Log-Linear attention), not by rank.
    pub fenwick: bool,
}

/// The arrays of a Mamba-2 mixer: k = B, q = C, v = Δ·x, g = −e^{A_log}·Δ, β = 1; Δ = softplus(dt + bias), clamped.
#[derive(Clone, Copy, Debug)]
pub struct Mamba2Arrays<'a> {
    /// Sizes and columns.
    pub spec: Mamba2ArraysSpec,
    /// `[3, H]`: Δ's bias, the [rates](dla_core::nn::decay::rate) of A_log, D.
    pub heads: &'a wgpu::Buffer,
    /// `[2, H, K]`: λ's scale L and bias a; needed where λ is projected.
    pub read_weights: Option<&'a wgpu::Buffer>,
}

/// The constants of its pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mamba2ArraysSpec {
    /// Sizes; batch and tokens do not matter here.
    pub dims: Dims,
    /// Values of a row of the projection.
    pub stride: usize,
    /// Its first column of dt, `[H]`.
    pub dt: usize,
    /// Its columns of λ.
    pub lambda: ReadColumns,
    /// The range that Δ is clamped to.
    pub dt_limit: [f32; 2],
    /// Element type of q, k and v.
    pub float: Float,
}

/// The arrays of a Gated DeltaNet mixer: q and k of unit length, q scaled by Dk^−½, v,
/// g = −e^{A_log}·softplus(a + bias), β = most·sigmoid(b).
#[derive(Clone, Copy, Debug)]
pub struct DeltaArrays<'a> {
    /// Sizes and columns.
    pub spec: DeltaArraysSpec,
    /// `[2, H]`: the bias of a, the [rates](dla_core::nn::decay::rate) of A_log.
    pub heads: &'a wgpu::Buffer,
    /// `[2, H, K]`: λ's scale L and bias a; needed where λ is projected.
    pub read_weights: Option<&'a wgpu::Buffer>,
}

/// The constants of its pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeltaArraysSpec {
    /// Sizes; batch and tokens do not matter here.
    pub dims: Dims,
    /// Values of a row of the projection.
    pub stride: usize,
    /// Its first column of a, `[H]`.
    pub a: usize,
    /// Its first column of b, `[H]`.
    pub b: usize,
    /// Its columns of λ.
    pub lambda: ReadColumns,
    /// The greatest β: 1, or 2 where eigenvalues may be negative.
    pub most: f32,
    /// Element type of q, k and v.
    pub float: Float,
}

impl Mamba2ArraysSpec {
    /// The constants as WGSL.
    pub fn header(&self) -> String {
        let [least, most] = self.dt_limit.map(finite);
        shared(&self.dims, self.stride, self.lambda)
            .sizes(&[("DECAY", self.dt)])
            .numbers(&[("DT_MIN", least), ("DT_MAX", most)])
            .element(self.float)
            .header()
    }

    pub(super) fn check(&self, op: &'static str) -> Result<()> {
        let [least, most] = self.dt_limit;
        let ordered = least <= most;
        if !ordered {
            let got = format!("{least} to {most}");
            return Err(Error::input(op, "dt_limit", "a range", got));
        }
        columns(op, "dt", [self.dt, self.dims.heads], self.stride)
    }
}

impl DeltaArraysSpec {
    /// The constants as WGSL.
    pub fn header(&self) -> String {
        shared(&self.dims, self.stride, self.lambda)
            .sizes(&[("DECAY", self.a), ("STRENGTH", self.b)])
            .numbers(&[("MOST", self.most)])
            .element(self.float)
            .header()
    }

    /// Groups of a row: one a query, one a key, the rest by 256 values.
    fn row_groups(&self) -> usize {
        let dims = &self.dims;
        let rest = dims.heads * (dims.value_dim + 2 + dims.capacity);
        2 * dims.groups + rest.div_ceil(256)
    }

    pub(super) fn check(&self, op: &'static str) -> Result<()> {
        if !self.most.is_finite() {
            return Err(Error::input(op, "most", "a finite number", self.most));
        }
        columns(op, "a", [self.a, self.dims.heads], self.stride)?;
        columns(op, "b", [self.b, self.dims.heads], self.stride)
    }
}

impl Mamba2Arrays<'_> {
    /// Binds the sources and q, k, v and control of `arrays`.
    ///
    /// # Errors
    /// [`Error::is_input`] for sizes that do not fit, [`Error::is_device`] for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        sources: &Sources<'_>,
        arrays: &Arrays,
    ) -> Result<Vec<Dispatch>> {
        const OP: &str = "mamba2_arrays";
        let spec = &self.spec;
        operator_sizes(OP, &spec.dims)?;
        spec.check(OP)?;
        holds(OP, "heads", self.heads, &[3, spec.dims.heads])?;
        let call = Call {
            op: OP,
            rows,
            dims: &spec.dims,
            stride: spec.stride,
            lambda: spec.lambda,
            float: spec.float,
        };
        call.check(sources, arrays, self.read_weights)?;
        let values = 2 * spec.dims.groups * spec.dims.key_dim
            + spec.dims.heads * (spec.dims.value_dim + 2 + spec.dims.capacity);
        let invocations = words(OP, "rows", &[rows.count()?, values])?;
        let buffers = bindings(
            sources,
            arrays,
            self.heads,
            self.read_weights.unwrap_or(self.heads),
        );
        let pass = (&MAMBA2_ARRAYS, spec.header());
        call.dispatch(gpu, pass, &buffers, invocations.div_ceil(256))
            .await
    }
}

impl DeltaArrays<'_> {
    /// Binds the sources and q, k, v and control of `arrays`.
    ///
    /// # Errors
    /// [`Error::is_input`] for sizes that do not fit, [`Error::is_device`] for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        sources: &Sources<'_>,
        arrays: &Arrays,
    ) -> Result<Vec<Dispatch>> {
        const OP: &str = "delta_arrays";
        let spec = &self.spec;
        operator_sizes(OP, &spec.dims)?;
        spec.check(OP)?;
        holds(OP, "heads", self.heads, &[2, spec.dims.heads])?;
        let call = Call {
            op: OP,
            rows,
            dims: &spec.dims,
            stride: spec.stride,
            lambda: spec.lambda,
            float: spec.float,
        };
        call.check(sources, arrays, self.read_weights)?;
        let groups = words(OP, "rows", &[rows.count()?, spec.row_groups()])?;
        let buffers = bindings(
            sources,
            arrays,
            self.heads,
            self.read_weights.unwrap_or(self.heads),
        );
        let pass = (&DELTA_ARRAYS, spec.header());
        call.dispatch(gpu, pass, &buffers, groups).await
    }
}

/// What both mixers' calls have in common.
struct Call<'a> {
    op: &'static str,
    rows: Rows,
    dims: &'a Dims,
    stride: usize,
    lambda: ReadColumns,
    float: Float,
}

impl Call<'_> {
    fn check(
        &self,
        sources: &Sources<'_>,
        arrays: &Arrays,
        read: Option<&wgpu::Buffer>,
    ) -> Result<()> {
        let (op, dims, count) = (self.op, self.dims, self.rows.count()?);
        let (keys, inner) = (dims.groups * dims.key_dim, dims.heads * dims.value_dim);
        if let Some(column) = self.lambda.column {
            let wanted = [column, dims.heads * dims.capacity];
            columns(op, "lambda", wanted, self.stride)?;
            let Some(read) = read else {
                let expected = "the scale and bias of a projected lambda";
                return Err(Error::input(op, "read_weights", expected, "none"));
            };
            holds(op, "read_weights", read, &[2, dims.heads, dims.capacity])?;
        }
        holds_items(op, "positions", sources.positions)?;
        holds(op, "mixed", sources.mixed, &[count, inner + 2 * keys])?;
        holds(op, "projected", sources.projected, &[count, self.stride])?;
        holds_floats(op, "q", &arrays.q, self.float, &[count, keys])?;
        holds_floats(op, "k", &arrays.k, self.float, &[count, keys])?;
        holds_floats(op, "v", &arrays.v, self.float, &[count, inner])?;
        let control = [count, dims.heads, 2 + dims.capacity];
        holds(op, "control", &arrays.control, &control)
    }

    async fn dispatch(
        &self,
        gpu: &Gpu,
        (pass, header): (&'static dla_shaders::Pass, String),
        buffers: &[(&'static str, &wgpu::Buffer)],
        groups: usize,
    ) -> Result<Vec<Dispatch>> {
        let layer = Layer::new(self.rows)?;
        if groups == 0 {
            return Ok(Vec::new());
        }
        let dispatch = layer.dispatch(gpu, (pass, &header), buffers, groups);
        Ok(vec![dispatch.await?])
    }
}

fn bindings<'a>(
    sources: &Sources<'a>,
    arrays: &'a Arrays,
    heads: &'a wgpu::Buffer,
    read: &'a wgpu::Buffer,
) -> [(&'static str, &'a wgpu::Buffer); 9] {
    [
        ("positions", sources.positions),
        ("projected", sources.projected),
        ("read_weights", read),
        ("mixed", sources.mixed),
        ("heads", heads),
        ("q", &arrays.q),
        ("k", &arrays.k),
        ("v", &arrays.v),
        ("control", &arrays.control),
    ]
}

/// The constants of both mixers' passes.
pub(super) fn shared(dims: &Dims, stride: usize, lambda: ReadColumns) -> Constants {
    Constants::default()
        .sizes(&[
            ("HEADS", dims.heads),
            ("GROUPS", dims.groups),
            ("KEY_DIM", dims.key_dim),
            ("VALUE_DIM", dims.value_dim),
            ("CAPACITY", dims.capacity),
            ("STRIDE", stride),
            ("LAMBDA", lambda.column.unwrap_or(0)),
        ])
        .switches(&[
            ("READ", lambda.column.is_some()),
            ("FENWICK", lambda.fenwick),
        ])
}

/// WGSL has no infinite constants.
fn finite(limit: f32) -> f32 {
    limit.clamp(f32::MIN, f32::MAX)
}
