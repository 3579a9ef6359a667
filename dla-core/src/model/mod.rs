//! The CPU model: real checkpoints, read and run in plain Rust.
//!
//! A name in the code is a name in the checkpoint. Prefill takes any number of tokens through the
//! chunkwise form, a step takes one through the recurrence; both end in the same state.

mod attention;
mod block;
mod call;
mod config;
mod convolved;
mod finite;
mod gated_delta;
mod init;
mod mamba2;
mod operator;
mod session;
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
pub use tensors::{
    AttentionTensors, BlockTensors, ConvolvedTensors, DlaTensors, GatedDeltaTensors, Mamba2Tensors,
    MixerTensors, MlpTensors, ModelTensors,
};
pub use weights::{Names, TensorName, Weights};

use self::block::Block;
use crate::config::Schedule;
use crate::error::{Error, Result};
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
let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/model/mamba2_groups");
let model = Model::load(folder.as_ref())?;
let mut session = model.session();
let logits = model.prefill(&mut session, &[1, 2, 3])?;
assert_eq!(logits.len(), 3 * model.config().vocabulary);
let next = model.step(&mut session, 4)?;
assert_eq!((next.len(), session.position()), (model.config().vocabulary, 4));
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
    /// Those of the source, and an input error for thresholds that are NaN.
    pub fn build(
        config: &ModelConfig,
        weights: &mut impl Weights<Tensor = Vec<f32>>,
    ) -> Result<Self> {
        let tensors = ModelTensors::load(config, weights)?;
        if config.operator().schedule == Schedule::Dynamic {
            let dla = tensors.blocks.iter().filter_map(|block| block.dla.as_ref());
            dla.map(|dla| check_thresholds(&dla.tau))
                .collect::<Result<()>>()?;
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

    /// Takes in `ids`; gives the logits asked for what every layer decided and how its last token
    /// read the states.
    ///
    /// # Errors
    /// For an id beyond the vocabulary, a session of another model, decisions that no run could have
    /// made, and what the operator refuses; [`Error::is_diverged`] for gates, scores or logits that are not finite. The
    /// session is as before then.
    pub fn run(&self, session: &mut ModelSession, ids: &[u32], call: &Call<'_>) -> Result<Reply> {
        session.check(&self.config)?;
        call.check(&self.config)?;
        let mut x = self.embeddings.forward(ids)?;
        let mut layers = session.layers().to_vec();
        let mut reply = Reply::default();
        for (index, (block, state)) in self.blocks.iter().zip(&mut layers).enumerate() {
            let seen = block.forward(&mut x, state, call.replay_of(index));
            let seen = seen.map_err(|error| in_layer(error, index))?;
            check_scores(&seen.trace).map_err(|error| in_layer(error, index))?;
            reply.traces.push(seen.trace);
            reply.lambda.push(seen.lambda);
        }
        let wanted = call.logits.of(ids.len()) * self.config.hidden;
        reply.logits = self.logits(&x[x.len() - wanted..]);
        check_finite("logits", &reply.logits)?;
        session.advance(ids.len(), layers);
        Ok(reply)
    }

    /// Takes in `ids`; gives the logits after each, `[ids, vocabulary]`.
    ///
    /// # Errors
    /// Those of [`Model::run`].
    pub fn prefill(&self, session: &mut ModelSession, ids: &[u32]) -> Result<Vec<f32>> {
        let call = Call {
            logits: Rows::All,
            replay: None,
        };
        Ok(self.run(session, ids, &call)?.logits)
    }

    /// Takes in one token; gives the logits after it, `[vocabulary]`.
    ///
    /// # Errors
    /// Those of [`Model::run`].
    pub fn step(&self, session: &mut ModelSession, id: u32) -> Result<Vec<f32>> {
        self.prefill(session, &[id])
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
