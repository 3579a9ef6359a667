//! The whole model, forward and backward.

use super::Batch;
use super::block::{Block, BlockTape};
use super::operator::{Call, Run};
use crate::decisions::Trace;
use crate::dla::gate::Gate;
use crate::error::Result;
use crate::model::config::ModelConfig;
use crate::model::tensors::ModelTensors;
use crate::nn::{Embedding, Linear, RmsNorm};

/// A model whose forward pass can be gone back.
#[derive(Clone, Debug)]
pub(super) struct Network {
    tied: bool,
    embeddings: Embedding<f64>,
    blocks: Vec<Block>,
    norm: RmsNorm<f64>,
    /// The embedding where the head is tied.
    head: Linear<f64>,
}

/// What the forward pass leaves for the backward pass.
#[derive(Clone, Debug)]
pub(super) struct Tape {
    blocks: Vec<BlockTape>,
    /// The residual stream after the last block, `[rows, hidden]`.
    x: Vec<f64>,
    /// That after the last norm, `[rows, hidden]`.
    normed: Vec<f64>,
}

impl Tape {
    /// What every layer measured and decided.
    pub(super) fn into_traces(self) -> Vec<Trace> {
        self.blocks.into_iter().map(BlockTape::into_trace).collect()
    }
}

impl Network {
    /// The model of these tensors, which have been checked.
    pub(super) fn new(config: &ModelConfig, tensors: ModelTensors<Vec<f64>>) -> Self {
        let blocks = tensors.blocks.into_iter();
        let head = tensors.head.unwrap_or_else(|| tensors.embeddings.clone());
        Self {
            tied: config.tied,
            embeddings: Embedding::new(config.hidden, tensors.embeddings),
            blocks: blocks.map(|tensors| Block::new(config, tensors)).collect(),
            norm: RmsNorm::new(tensors.norm, config.norm_epsilon.into()),
            head: Linear::new(config.hidden, head, None),
        }
    }

    /// The logits `[sequences, tokens, vocabulary]`; `run` runs the operator of a layer.
    pub(super) fn forward(&self, batch: &Batch<'_>, run: &Run<'_>) -> Result<(Vec<f64>, Tape)> {
        let mut x = self.embeddings.forward(batch.ids)?;
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for (layer, block) in self.blocks.iter().enumerate() {
            let run = |call: &Call<'_>| run(layer, call);
            blocks.push(block.forward(&mut x, batch.sequences, &run)?);
        }
        let normed = self.norm.forward(&x);
        let logits = self.head.forward(&normed);
        Ok((logits, Tape { blocks, x, normed }))
    }

    /// The gradients of Σ logits·d_logits.
    pub(super) fn backward(
        &self,
        batch: &Batch<'_>,
        tape: &Tape,
        d_logits: &[f64],
        gate: &Gate,
    ) -> Result<ModelTensors<Vec<f64>>> {
        let head = self.head.backward(&tape.normed, d_logits);
        let norm = self.norm.backward(&tape.x, &head.x);
        let mut d_x = norm.x;
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for (block, tape) in self.blocks.iter().zip(&tape.blocks).rev() {
            blocks.push(block.backward(tape, &mut d_x, batch.sequences, gate)?);
        }
        blocks.reverse();
        let mut embeddings = self.embeddings.backward(batch.ids, &d_x);
        if self.tied {
            crate::vector::add(&mut embeddings, &head.weight);
        }
        Ok(ModelTensors {
            embeddings,
            blocks,
            norm: norm.weight,
            head: (!self.tied).then_some(head.weight),
        })
    }
}
