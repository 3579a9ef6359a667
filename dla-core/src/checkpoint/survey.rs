//! A look at a checkpoint's headers before anything is read.

use std::collections::HashSet;

use safetensors::Dtype;

use super::shards::{Shards, missing};
use crate::error::{Error, Result};
use crate::model::Weights;

/// Faults after which the survey has seen enough.
const ENOUGH: usize = 16;

/// A source that notes what the model asks for and whether it is there.
pub(super) struct Survey<'a> {
    shards: &'a Shards,
    asked: HashSet<String>,
    faults: Vec<Error>,
}

impl<'a> Survey<'a> {
    pub(super) fn new(shards: &'a Shards) -> Self {
        Self {
            shards,
            asked: HashSet::new(),
            faults: Vec::new(),
        }
    }

    /// The faults; after a complete survey also the tensors that nobody asked for. A tied head may
    /// be in the file all the same.
    pub(super) fn finish(mut self, complete: bool, tied: bool) -> Vec<Error> {
        if complete {
            let tied_head = |name: &str| tied && name == "lm_head.weight";
            let left = self.shards.names();
            let left = left.filter(|&name| !self.asked.contains(name) && !tied_head(name));
            let faults = left.map(|name| {
                let argument = format!("tensor {name}");
                Error::input(
                    "load",
                    argument,
                    "a tensor of this model",
                    "an unknown name",
                )
                .advise("config.json and the weights do not belong together")
            });
            self.faults.extend(faults.take(ENOUGH));
        }
        self.faults
    }

    fn fault(&self, name: &str, shape: &[usize]) -> Option<Error> {
        let Some(tensor) = self.shards.get(name) else {
            return Some(missing(name, shape));
        };
        let refuse = |expected: String, got: String| {
            Some(Error::input(
                "load",
                format!("tensor {name}"),
                expected,
                got,
            ))
        };
        if !matches!(tensor.dtype(), Dtype::F32 | Dtype::F16 | Dtype::BF16) {
            let got = format!("type {}", tensor.dtype());
            return refuse("type F32, F16 or BF16".into(), got);
        }
        if tensor.shape() != shape {
            return refuse(format!("shape {shape:?}"), format!("{:?}", tensor.shape()));
        }
        None
    }
}

impl Weights for Survey<'_> {
    type Tensor = ();

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<()> {
        self.asked.insert(name.to_owned());
        if let Some(fault) = self.fault(name, shape) {
            self.faults.push(fault.clone());
            if self.faults.len() >= ENOUGH {
                return Err(fault);
            }
        }
        Ok(())
    }
}
