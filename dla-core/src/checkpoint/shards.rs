//! The safetensors files of one checkpoint.

use std::collections::{BTreeMap, BTreeSet, HashMap};
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
#[derive(Debug, Default)]
pub(super) struct Shards {
    files: Vec<TensorFile>,
    /// The tensors in file order, with their file.
    order: Vec<(String, usize)>,
    place: HashMap<String, usize>,
    /// Tensors that an index does not name.
    skipped: Vec<String>,
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

    /// The files that the index names, each with the tensors that the index takes from it.
    fn indexed(folder: &Path) -> Result<Self> {
        let index = json::parse(INDEX, &file::read_text("load", &folder.join(INDEX))?)?;
        let map = match index.get("weight_map") {
            Some(Value::Object(map)) => map,
            Some(other) => return Err(index_fault("weight_map", "an object", other)),
            None => return Err(index_fault("weight_map", "an object", "none")),
        };
        // By file; the tensors in any order.
        let mut taken = BTreeMap::<&str, BTreeSet<&str>>::new();
        for (tensor, file) in map {
            let file = file.as_str().filter(|file| is_plain(file));
            let file = file.ok_or_else(|| index_fault(tensor, "a file's name", &map[tensor]))?;
            if !folder.join(file).is_file() {
                let got = format!("{file}, which is not there");
                let error = index_fault(tensor, "a file of the model directory", got);
                return Err(error.advise("download it, or correct the index"));
            }
            taken.entry(file).or_default().insert(tensor);
        }
        let mut shards = Self::default();
        for (file, tensors) in taken {
            let shard = open(&folder.join(file))?;
            let held = shard.names();
            if let Some(tensor) = tensors.iter().find(|&&name| shard.get(name).is_none()) {
                let expected = format!("a tensor of {file}");
                return Err(index_fault(tensor, &expected, "none there"));
            }
            let (named, unnamed): (Vec<_>, Vec<_>) =
                held.into_iter().partition(|name| tensors.contains(&**name));
            // An older copy of what the index takes from another file says nothing new.
            shards
                .skipped
                .extend(unnamed.into_iter().filter(|name| !map.contains_key(name)));
            shards.add(shard, named)?;
        }
        Ok(shards)
    }

    /// These files, which must share no tensor.
    pub(super) fn new(files: Vec<TensorFile>) -> Result<Self> {
        let mut shards = Self::default();
        for file in files {
            let names = file.names();
            shards.add(file, names)?;
        }
        Ok(shards)
    }

    /// Takes the tensors `names` from `file`.
    fn add(&mut self, file: TensorFile, names: Vec<String>) -> Result<()> {
        let index = self.files.len();
        for name in names {
            if self.place.insert(name.clone(), index).is_some() {
                let argument = format!("{}, tensor {name}", file.name());
                return Err(Error::input("load", argument, "once", "in two files"));
            }
            self.order.push((name, index));
        }
        self.files.push(file);
        Ok(())
    }

    /// The tensors that are in the files and not in their index.
    pub(super) fn skipped(&self) -> &[String] {
        &self.skipped
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
