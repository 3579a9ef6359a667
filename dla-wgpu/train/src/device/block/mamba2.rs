//! What is Mamba-2's own around the operator.

use dla_core::Result;
use dla_wgpu::nn::backward::{ArrayGradients, Mamba2ArraysGradient, Mamba2OutputGradient};
use dla_wgpu::nn::{Mamba2Arrays, Mamba2ArraysSpec, Mamba2Output, Mamba2OutputSpec};
use dla_wgpu::op::Arrays;
use dla_wgpu::{Dispatch, nn};

use super::call::Call;
use super::recurrent::{Form, Parts};

/// The settings of its passes.
#[derive(Clone, Copy, Debug)]
pub(in crate::device) struct Mamba2 {
    pub(super) arrays: Mamba2ArraysSpec,
    pub(super) output: Mamba2OutputSpec,
}

impl Form for Mamba2 {
    const HEADS: usize = 3;

    async fn arrays(
        &self,
        call: &Call<'_>,
        parts: &Parts<'_>,
        sources: &nn::Sources<'_>,
        to: &Arrays,
    ) -> Result<Vec<Dispatch>> {
        let arrays = Mamba2Arrays {
            spec: self.arrays,
            heads: parts.heads,
            read_weights: parts.read_weights,
        };
        arrays
            .prepare(call.gpu, call.shared.rows, sources, to)
            .await
    }

    async fn output(&self, call: &Call<'_>, parts: &Parts<'_>) -> Result<Vec<Dispatch>> {
        let output = Mamba2Output {
            spec: self.output,
            heads: parts.heads,
            weight: parts.out_norm,
        };
        let sources = [parts.o, &parts.kept.mixed, &parts.kept.projected];
        output
            .prepare(call.gpu, call.shared.rows, sources, parts.y)
            .await
    }

    async fn output_backward(&self, call: &Call<'_>, parts: &Parts<'_>) -> Result<Vec<Dispatch>> {
        let shared = call.shared;
        let output = Mamba2OutputGradient {
            spec: self.output,
            heads: parts.heads,
            weight: parts.out_norm,
            scratch: &shared.scratch,
            terms: &shared.terms,
        };
        let from = [parts.o, &parts.kept.mixed, &parts.kept.projected];
        let to = [&shared.d_y, &shared.d_projected];
        output
            .prepare(call.gpu, shared.rows, from, to, parts.d_out_norm)
            .await
    }

    async fn arrays_backward(
        &self,
        call: &Call<'_>,
        parts: &Parts<'_>,
        given: ArrayGradients<'_>,
    ) -> Result<Vec<Dispatch>> {
        let shared = call.shared;
        let arrays = Mamba2ArraysGradient {
            spec: self.arrays,
            heads: parts.heads,
            scratch: &shared.scratch,
        };
        let from = [&parts.kept.mixed, &parts.kept.projected, &shared.d_y];
        let to = [&shared.d_mixed, &shared.d_projected];
        arrays
            .prepare(call.gpu, shared.rows, from, given, to, parts.d_heads)
            .await
    }
}
