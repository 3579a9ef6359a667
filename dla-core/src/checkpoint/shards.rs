//! The safetensors files of one checkpoint.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use serde_json::Value;

use super::{in_load, json};
use crate::error::{Error, Result};
use crate::file;
use crate::model::Weights;
use crate::tensors::{Tensor, TensorFile};

const WHOLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const PICKLE: &str = "pytorch_model.bin";

/// All files, and which of them holds a tensor.
#[derive(Debug)]
pub(super) struct Shards {
    files: Vec<TensorFile>,
    /// The tensors in file order, with their file.
    order: Vec<(String, usize)>,
    place: HashMap<String, usize>,
}

impl Shards {
    /// The files of a model directory.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        if folder.join(WHOLE).exists() {
            return Self::new(vec![open(&folder.join(WHOLE))?]);
        }
        if folder.join(INDEX).exists() {
            return Self::indexed(folder);
        }
        let name = folder.display().to_string();
        if folder.join(PICKLE).exists() {
            let got = format!("{PICKLE}, a pickle, which can run code when it is read");
            return Err(Error::unsupported("load", name.clone(), WHOLE, got)
                .advise(format!("convert it: {}", conversion(&name))));
        }
        let expected = format!("{WHOLE} or {INDEX}");
        Err(Error::input("load", name, expected, "neither").advise("check the path"))
    }

    /// The files that the index names.
    fn indexed(folder: &Path) -> Result<Self> {
        let object = json::parse(INDEX, &file::read_text("load", &folder.join(INDEX))?)?;
        let Some(Value::Object(map)) = object.get("weight_map") else {
            return Err(index_fault("weight_map", "an object", "none"));
        };
        let mut files = BTreeSet::new();
        for (tensor, file) in map {
            let file = file.as_str().filter(|file| is_plain(file));
            let file = file.ok_or_else(|| index_fault(tensor, "a file's name", &map[tensor]))?;
            files.insert(file);
        }
        let opened = files.iter().map(|file| open(&folder.join(file)));
        let shards = Self::new(opened.collect::<Result<_>>()?)?;
        match map.keys().find(|&tensor| shards.get(tensor).is_none()) {
            Some(tensor) => Err(index_fault(tensor, "a tensor of its file", "none there")),
            None => Ok(shards),
        }
    }

    /// These files, which must share no tensor.
    pub(super) fn new(files: Vec<TensorFile>) -> Result<Self> {
        let (mut order, mut place) = (Vec::new(), HashMap::new());
        for (index, file) in files.iter().enumerate() {
            for name in file.names() {
                if place.insert(name.clone(), index).is_some() {
                    let argument = format!("{}, tensor {name}", file.name());
                    return Err(Error::input("load", argument, "once", "in two files"));
                }
                order.push((name, index));
            }
        }
        Ok(Self {
            files,
            order,
            place,
        })
    }

    /// The names of all tensors, in the order of the files' bytes.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(|(name, _)| name.as_str())
    }

    /// A tensor.
    pub(super) fn get<'a>(&'a self, name: &'a str) -> Option<Tensor<'a>> {
        self.files[*self.place.get(name)?].get(name)
    }
}

impl Weights for &Shards {
    type Tensor = Vec<f32>;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let tensor = self.get(name);
        let tensor = tensor.ok_or_else(|| missing(name, shape))?;
        tensor.widened("", shape).map_err(in_load)
    }
}

/// The error for a tensor that no file has.
pub(super) fn missing(name: &str, shape: &[usize]) -> Error {
    let expected = format!("shape {shape:?}");
    Error::input("load", format!("tensor {name}"), expected, "no such tensor")
}

fn open(path: &Path) -> Result<TensorFile> {
    TensorFile::open(path).map_err(in_load)
}

/// A name that does not leave its folder.
fn is_plain(file: &str) -> bool {
    !file.contains(['/', '\\', ':']) && Path::new(file).file_name() == Some(file.as_ref())
}

fn index_fault(part: &str, expected: &str, got: impl ToString) -> Error {
    Error::input("load", format!("{INDEX}, {part}"), expected, got)
}

/// The command that turns a pickle into a safetensors file.
fn conversion(folder: &str) -> String {
    format!(
        "cd '{}' && python3 -c \"import torch, safetensors.torch as s; \
         w = torch.load('{PICKLE}', map_location='cpu', weights_only=True); \
         s.save_file({{k: v.clone().contiguous() for k, v in w.items()}}, '{WHOLE}')\"",
        folder.replace('\'', r"'\''")
    )
}
