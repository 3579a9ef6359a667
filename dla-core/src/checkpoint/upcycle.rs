//! A plain checkpoint as DLA: the same outputs until it is tuned (`docs/algorithm.md` §6).

use std::io::{self, Write};

use safetensors::Dtype;
use serde_json::{Map, Value, json};

use super::{Checkpoint, in_load};
use crate::error::{Error, Result};
use crate::model::Family;

/// What the new parameters start at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Upcycle {
    /// States a cache may hold, K.
    pub capacity: usize,
    /// τ of every head.
    pub tau: f32,
}

impl Default for Upcycle {
    /// The paper's 30 states and τ = 0.6.
    fn default() -> Self {
        Self {
            capacity: 30,
            tau: 0.6,
        }
    }
}

/// A tensor that upcycling adds: its shape, and the value that fills it.
struct Added {
    name: String,
    shape: Vec<usize>,
    value: f32,
}

impl Added {
    fn byte_len(&self) -> usize {
        4 * self.shape.iter().product::<usize>()
    }
}

impl Upcycle {
    /// config.json of the upcycled `checkpoint`.
    ///
    /// # Errors
    /// For a checkpoint that is DLA already or has no states, and settings that the operator refuses.
    pub fn config(&self, checkpoint: &Checkpoint) -> Result<String> {
        let mut object = checkpoint.json.clone();
        if object.get("dla").is_some_and(|dla| !dla.is_null()) {
            let argument = "config.json, dla";
            return Err(Error::input(
                "load",
                argument,
                "a plain checkpoint",
                "DLA already",
            ));
        }
        checkpoint
            .config
            .require_states("load", "config.json, model_type")?;
        if self.tau.is_nan() {
            return Err(Error::input("load", "tau", "a number", self.tau));
        }
        let section = json!({
            "capacity": self.capacity, "schedule": "dynamic", "norm": "rms", "merge": "density",
            "epsilon": 1e-12,
        });
        object.insert("dla".into(), section);
        super::families::read(&object)?;
        Ok(format!("{:#}\n", Value::Object(object)))
    }

    /// The bytes that [`Upcycle::weights`] writes.
    ///
    /// # Errors
    /// For a checkpoint that holds what upcycling adds.
    pub fn weight_bytes(&self, checkpoint: &Checkpoint) -> Result<usize> {
        let added = self.added(checkpoint);
        let header = header(&added, checkpoint)?;
        let added = added.iter().map(Added::byte_len).sum::<usize>();
        let shards = &checkpoint.shards;
        let kept = shards.names().filter_map(|name| shards.get(name));
        let kept = kept.map(|tensor| tensor.byte_len()).sum::<usize>();
        Ok(size_of::<u64>() + header.len() + added + kept)
    }

    /// Writes model.safetensors of the upcycled `checkpoint`, tensor by tensor.
    ///
    /// # Errors
    /// Those of [`Upcycle::config`], the first of [`Checkpoint::faults`], and files that cannot be
    /// read or written.
    pub fn weights(&self, checkpoint: &Checkpoint, out: &mut impl Write) -> Result<()> {
        self.config(checkpoint)?;
        if let Some(fault) = checkpoint.faults().into_iter().next() {
            return Err(fault);
        }
        let added = self.added(checkpoint);
        let unwritten =
            |error: io::Error| Error::file("load", "model.safetensors", "to be written", error);
        let header = header(&added, checkpoint)?;
        let length = (header.len() as u64).to_le_bytes();
        out.write_all(&length).map_err(unwritten)?;
        out.write_all(header.as_bytes()).map_err(unwritten)?;
        for tensor in &added {
            let values = tensor.shape.iter().product();
            let bytes = tensor.value.to_le_bytes().repeat(values);
            out.write_all(&bytes).map_err(unwritten)?;
        }
        for name in checkpoint.shards.names() {
            let tensor = checkpoint.shards.get(name);
            let bytes = tensor.map(|tensor| tensor.bytes()).transpose();
            let bytes = bytes.map_err(in_load)?.unwrap_or_default();
            out.write_all(&bytes).map_err(unwritten)?;
        }
        Ok(())
    }

    /// The parameters of DLA, by layer: L·(W x) + a = a, and softplus(a) = 1.
    fn added(&self, checkpoint: &Checkpoint) -> Vec<Added> {
        let config = &checkpoint.config;
        let (heads, capacity) = (config.dims().heads, self.capacity);
        let one = (1f64.exp() - 1.0).ln() as f32;
        let stem = match config.family {
            Family::Mamba2 | Family::StateSpaces => ("backbone", "mixer"),
            Family::GatedDeltaNet | Family::Attention => ("model", "attn"),
        };
        let layer = |i: usize| {
            let add = move |name: &str, shape: &[usize], value| Added {
                name: format!("{}.layers.{i}.{}.dla.{name}", stem.0, stem.1),
                shape: shape.to_vec(),
                value,
            };
            [
                add("tau", &[heads], self.tau),
                add(
                    "lambda_proj.weight",
                    &[heads * capacity, config.hidden],
                    0.0,
                ),
                add("lambda_scale", &[heads, capacity], 1.0),
                add("lambda_bias", &[heads, capacity], one),
            ]
        };
        (0..config.layers).flat_map(layer).collect()
    }
}

/// The header: the added tensors, then the checkpoint's in their order; padded to a multiple of 8.
fn header(added: &[Added], checkpoint: &Checkpoint) -> Result<String> {
    let mut entries = Map::new();
    entries.insert("__metadata__".into(), json!({ "format": "pt" }));
    let mut start = 0;
    let mut insert = |name: &str, dtype: Dtype, shape: &[usize], bytes: usize| {
        let entry = json!({
            "dtype": dtype, "shape": shape, "data_offsets": [start, start + bytes],
        });
        start += bytes;
        match entries.insert(name.to_owned(), entry) {
            Some(_) => {
                let argument = format!("tensor {name}");
                Err(Error::input(
                    "load",
                    argument,
                    "none in a plain checkpoint",
                    "one",
                ))
            }
            None => Ok(()),
        }
    };
    for tensor in added {
        insert(&tensor.name, Dtype::F32, &tensor.shape, tensor.byte_len())?;
    }
    let shards = &checkpoint.shards;
    for tensor in shards.names().filter_map(|name| shards.get(name)) {
        insert(
            tensor.name(),
            tensor.dtype(),
            tensor.shape(),
            tensor.byte_len(),
        )?;
    }
    let mut text = Value::Object(entries).to_string();
    text.push_str(&" ".repeat(text.len().next_multiple_of(8) - text.len()));
    Ok(text)
}
