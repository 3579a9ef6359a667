//! The CPU model: real checkpoints, read and run in plain Rust.
//!
//! A name in the code is a name in the checkpoint. Prefill takes any number of tokens through the
//! chunkwise form, a step takes one through the recurrence; both end in the same state. A long call goes in
//! [`Slices`], so that its memory does not grow with its length.

mod attention;
mod block;
mod call;
mod check;
mod config;
mod convolved;
mod finite;
mod gated_delta;
mod init;
mod mamba2;
mod operator;
mod session;
mod slices;
mod special;
mod tensors;
pub mod training;
mod tree;
mod weights;

pub use call::{Call, Reply, Rows};
pub use config::{
    AttentionConfig, DlaConfig, Family, GatedDeltaConfig, Mamba2Config, MixerConfig, ModelConfig,
};
pub use finite::{check_finite, check_scores, check_thresholds};
pub use init::Initial;
pub use session::{LayerState, ModelSession, ModelSnapshot};
pub use slices::{CHUNK, SLICE, Slices};
pub use special::SpecialIds;
pub use tensors::{
    AttentionTensors, BlockTensors, ConvolvedTensors, DlaTensors, GatedDeltaTensors, Mamba2Tensors,
    MixerTensors, MlpTensors, ModelTensors,
};
pub use weights::{Names, TensorName, Weights};

use std::ops::Range;

use self::block::Block;
use crate::config::Schedule;
use crate::decisions::Trace;
use crate::dims::Dims;
use crate::dla::schedule;
use crate::error::{Error, Result};
use crate::nn::embedding::check_ids;
use crate::nn::{Embedding, Linear, RmsNorm, linear};

/// A language model of Mamba-2 or Gated DeltaNet blocks, with DLA where its checkpoint has it, or of
/// softmax attention.
///
/// The model does not change; each sequence has a [`ModelSession`] of its own, so sequences of any
/// lengths can be taken side by side.
#[cfg_attr(
    feature = "checkpoint",
    doc = r#"
```
use dla_core::Model;
use dla_core::model::Rows;
let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/model/mamba2_groups");
let model = Model::load(folder.as_ref())?;
let vocabulary = model.config().vocabulary;
let mut session = model.session();
let next = model.prefill(&mut session, &[1, 2, 3], Rows::Last)?;
assert_eq!(next.len(), vocabulary);
let all = model.prefill(&mut session, &[4, 5], Rows::All)?;
assert_eq!(all.len(), 2 * vocabulary);
let next = model.step(&mut session, 6)?;
assert_eq!((next.len(), session.position()), (vocabulary, 6));
# Ok::<(), dla_core::Error>(())
```
"#
)]
#[derive(Clone, Debug)]
pub struct Model {
    config: ModelConfig,
    embeddings: Embedding,
    blocks: Vec<Block>,
    norm: RmsNorm,
    head: Option<Linear>,
}

impl Model {
    /// Builds a model of these settings from a source of tensors.
    ///
    /// # Errors
    /// Those of the source, of [`ModelConfig::check`] and of [`ModelConfig::check_tensors`], and an input error for
    /// thresholds that are NaN.
    pub fn build(
        config: &ModelConfig,
        weights: &mut impl Weights<Tensor = Vec<f32>>,
    ) -> Result<Self> {
        config.check()?;
        let tensors = ModelTensors::load(config, weights)?;
        config.check_tensors(&tensors)?;
        if config.operator().schedule == Schedule::Dynamic {
            let mut dla = tensors.blocks.iter().filter_map(|block| block.dla.as_ref());
            dla.try_for_each(|dla| check_thresholds(&dla.tau))?;
        }
        let blocks = tensors.blocks.into_iter();
        Ok(Self {
            config: config.clone(),
            embeddings: Embedding::new(config.hidden, tensors.embeddings),
            blocks: blocks.map(|tensors| Block::new(config, tensors)).collect(),
            norm: RmsNorm::new(tensors.norm, config.norm_epsilon),
            head: tensors
                .head
                .map(|weight| Linear::new(config.hidden, weight, None)),
        })
    }

    /// The model's settings.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// τ of each head of layer `layer` `[heads]`; empty where the schedule has none, and beyond the layers.
    pub fn tau(&self, layer: usize) -> &[f32] {
        self.blocks.get(layer).map_or(&[], Block::tau)
    }

    /// A sequence before its first token.
    pub fn session(&self) -> ModelSession {
        ModelSession::new(&self.config)
    }

    /// Takes in `ids`, slice by slice; gives the logits asked for and, if asked for, what every layer decided.
    ///
    /// Memory grows with `ids` by what is asked for alone, and by the keys and values of softmax attention.
    ///
    /// # Errors
    /// For an id beyond the vocabulary, a session of another model, decisions that no run could have
    /// made, and what the operator refuses; for logits that memory has no room for; [`Error::is_diverged`] for gates,
    /// scores or logits that are not finite. The session is as before then.
    pub fn run(&self, session: &mut ModelSession, ids: &[u32], call: &Call<'_>) -> Result<Reply> {
        self.check(session, ids, call)?;
        let mut layers = session.layers().to_vec();
        let mut reply = Reply {
            logits: self.room(call.logits.of(ids.len()))?,
            traces: vec![Trace::default(); if call.traces { self.blocks.len() } else { 0 }],
            lambda: vec![Vec::new(); self.blocks.len()],
        };
        let mut slices = Slices::new(ids, SLICE);
        let mut first = 0;
        while let Some(slice) = slices.take(1) {
            let tokens = first..first + slice.len();
            first = tokens.end;
            let x = self.slice(&mut layers, slice, call, tokens, &mut reply)?;
            let wanted = match call.logits {
                Rows::Last if !slices.is_empty() => 0,
                rows => rows.of(slice.len()),
            };
            let rows = &x[x.len() - wanted * self.config.hidden..];
            reply.logits.extend(self.logits(rows));
        }
        check_finite("logits", &reply.logits)?;
        session.advance(ids.len(), layers);
        Ok(reply)
    }

    /// Takes the ids of `slice`, which are those at `tokens` of the call, through all layers; gives the residual stream
    /// after the last, `[slice, hidden]`.
    fn slice(
        &self,
        layers: &mut [LayerState],
        slice: &[u32],
        call: &Call<'_>,
        tokens: Range<usize>,
        reply: &mut Reply,
    ) -> Result<Vec<f32>> {
        let (heads, has_states) = (self.config.dims().heads, self.config.attention().is_none());
        let mut x = self.embeddings.forward(slice)?;
        for (index, (block, state)) in self.blocks.iter().zip(layers).enumerate() {
            let replay = call.replay_of(index).filter(|_| has_states);
            let replay = replay.map(|decisions| decisions.part(heads, tokens.clone()));
            let seen = block.forward(&mut x, state, replay.as_ref());
            let seen = seen.map_err(|error| in_layer(error, index))?;
            check_scores(&seen.trace).map_err(|error| in_layer(error, index))?;
            if let Some(trace) = reply.traces.get_mut(index) {
                trace.append(&seen.trace);
            }
            reply.lambda[index] = seen.lambda;
        }
        Ok(x)
    }

    /// Refuses a call that cannot be run to its end.
    fn check(&self, session: &ModelSession, ids: &[u32], call: &Call<'_>) -> Result<()> {
        session.check(&self.config)?;
        call.check(&self.config)?;
        check_ids(ids, self.config.vocabulary)?;
        if self.config.attention().is_some() {
            return Ok(());
        }
        let (dims, operator) = (self.config.dims(), self.config.operator());
        let position = session.position() + ids.len() as u64;
        schedule::check_tokens(position)?;
        schedule::check_levels(operator.schedule, dims.capacity, position)?;
        let tokens = ids.len();
        let dims = Dims { tokens, ..dims };
        for (layer, decisions) in call.replay.unwrap_or_default().iter().enumerate() {
            let n = session.cache(layer).map(|cache| &cache.n[..]);
            decisions.check(&dims, &operator, None, n)?;
        }
        Ok(())
    }

    /// Space for `rows` rows of logits, or an error instead of an abort: few ids can ask for much.
    fn room(&self, rows: usize) -> Result<Vec<f32>> {
        let mut logits = Vec::new();
        let values = rows.saturating_mul(self.config.vocabulary);
        logits.try_reserve_exact(values).map_err(|_| {
            let expected = "logits that fit into memory";
            let got = format!("{values} values of {rows} tokens");
            Error::unsupported("model", "logits", expected, got)
                .advise("take the tokens in with several calls, or ask for the last row alone")
        })?;
        Ok(logits)
    }

    /// Takes in `ids`; gives the logits of `rows`, `[rows, vocabulary]`: after the last id alone, or after each.
    ///
    /// # Errors
    /// Those of [`Model::run`].
    pub fn prefill(&self, session: &mut ModelSession, ids: &[u32], rows: Rows) -> Result<Vec<f32>> {
        let call = Call {
            logits: rows,
            ..Call::default()
        };
        Ok(self.run(session, ids, &call)?.logits)
    }

    /// Takes in one token; gives the logits after it, `[vocabulary]`.
    ///
    /// # Errors
    /// Those of [`Model::run`].
    pub fn step(&self, session: &mut ModelSession, id: u32) -> Result<Vec<f32>> {
        self.prefill(session, &[id], Rows::Last)
    }

    /// The residual stream's `x` `[rows, hidden]` to `[rows, vocabulary]`.
    fn logits(&self, x: &[f32]) -> Vec<f32> {
        let x = self.norm.forward(x);
        match &self.head {
            Some(head) => head.forward(&x),
            None => linear::tied(&x, &self.embeddings),
        }
    }
}

/// Says in which layer numbers were left.
fn in_layer(error: Error, layer: usize) -> Error {
    match error.is_diverged() {
        true => error.within(format!("model, layer {layer}")),
        false => error,
    }
}
