//! A look at what the operators inside a model work on.

use std::cell::RefCell;

use super::network::Network;
use super::{Batch, check_tensors, operator, widen};
use crate::config::Config;
use crate::dims::Dims;
use crate::dla::recurrent;
use crate::error::Result;
use crate::inputs::{Inputs, Output};
use crate::model::config::ModelConfig;
use crate::model::tensors::ModelTensors;
use crate::real::Real;

/// One layer's call of the operator on a batch that starts from nothing.
#[derive(Clone, Copy, Debug)]
pub struct LayerCall<'a> {
    /// The layer, counted from 0.
    pub layer: usize,
    /// The sizes.
    pub dims: &'a Dims,
    /// The operator's settings.
    pub config: &'a Config,
    /// What the backbone gave it.
    pub inputs: &'a Inputs<'a, f64>,
    /// What it made of that.
    pub output: &'a Output<f64>,
}

/// Runs a model on the sequences of `batch`, in double precision, and shows `see` every layer's call of
/// the operator. The targets are not looked at; softmax attention has no calls to show.
///
/// # Errors
/// For tensors of another model, ids that do not fit, and whatever the operator refuses.
pub fn watch<R: Real>(
    config: &ModelConfig,
    tensors: &ModelTensors<Vec<R>>,
    batch: &Batch<'_>,
    see: impl FnMut(&LayerCall<'_>),
) -> Result<()> {
    batch.check(config)?;
    check_tensors(config, tensors)?;
    let network = Network::new(config, tensors.each_ref().map(|values| widen(values)));
    let see = RefCell::new(see);
    let run = |layer: usize, call: &operator::Call<'_>| {
        let mut inputs = *call.inputs;
        inputs.replay = batch.replay.map(|layers| &layers[layer]);
        let output = recurrent::forward(call.dims, call.config, &inputs, None)?;
        see.borrow_mut()(&LayerCall {
            layer,
            dims: call.dims,
            config: call.config,
            inputs: &inputs,
            output: &output,
        });
        Ok(output)
    };
    network.forward(batch, &run).map(|_| ())
}
