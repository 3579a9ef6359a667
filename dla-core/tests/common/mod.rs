//! Case files and comparisons that the integration tests share.
#![allow(dead_code, unreachable_pub, missing_docs)] // each test binary uses its part

pub mod generate;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use dla_core::{Backbone, Config, Decisions, Dims, Inputs, Real, Schedule};
use safetensors::SafeTensors;

/// The folder `tests/golden/<name>` of the repository.
pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/golden")
        .join(name)
}

/// The case names of a golden folder, sorted.
pub fn case_names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("the golden folder is part of the repository")
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let name = name.strip_suffix(".safetensors")?;
            (!name.ends_with(".expected")).then(|| name.to_owned())
        })
        .collect();
    names.sort();
    names
}

/// One tensor, as numbers.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub shape: Vec<usize>,
    pub values: Vec<f64>,
}

/// A safetensors file: its tensors and its metadata.
#[derive(Clone, Debug, Default)]
pub struct File {
    pub tensors: HashMap<String, Tensor>,
    pub metadata: HashMap<String, String>,
}

impl File {
    pub fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (_, header) = SafeTensors::read_metadata(&bytes).expect("a safetensors header");
        let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
        let tensors = file
            .iter()
            .map(|(name, view)| {
                let tensor = Tensor {
                    shape: view.shape().to_vec(),
                    values: numbers(view.dtype(), view.data()),
                };
                (name.to_owned(), tensor)
            })
            .collect();
        Self {
            tensors,
            metadata: header.metadata().clone().unwrap_or_default(),
        }
    }

    pub fn values(&self, name: &str) -> Option<&[f64]> {
        self.tensors.get(name).map(|tensor| &tensor.values[..])
    }

    pub fn reals<R: Real>(&self, name: &str) -> Option<Vec<R>> {
        let values = self.values(name)?;
        Some(values.iter().map(|&x| R::from_f64(x)).collect())
    }

    /// The decisions stored in the file.
    pub fn decisions(&self) -> Option<Decisions> {
        Some(Decisions {
            boundary: self.values("boundary")?.iter().map(|&x| x as u8).collect(),
            merge_at: self.values("merge_at")?.iter().map(|&x| x as i32).collect(),
        })
    }
}

fn numbers(dtype: safetensors::Dtype, data: &[u8]) -> Vec<f64> {
    use safetensors::Dtype;
    let words = data.chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]);
    match dtype {
        Dtype::F32 => words.map(|b| f64::from(f32::from_le_bytes(b))).collect(),
        Dtype::I32 => words.map(|b| f64::from(i32::from_le_bytes(b))).collect(),
        Dtype::U8 => data.iter().map(|&b| f64::from(b)).collect(),
        other => panic!("no golden file holds {other:?}"),
    }
}

/// A case of the operator, owned, at precision `R`.
#[derive(Clone)]
pub struct Case<R> {
    /// What [`generate::case`] made it from, 0 for files.
    pub seed: u64,
    pub dims: Dims,
    pub config: Config,
    pub q: Vec<R>,
    pub k: Vec<R>,
    pub v: Vec<R>,
    pub g: Option<Vec<R>>,
    pub beta: Option<Vec<R>>,
    pub lambda: Vec<R>,
    pub tau: Vec<R>,
    pub lengths: Option<Vec<u32>>,
}

/// Enough to make the case again; the arrays would fill pages.
impl<R: Real> std::fmt::Debug for Case<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            seed,
            dims,
            config,
            tau,
            lengths,
            ..
        } = self;
        write!(
            f,
            "seed {seed}, {dims:?}, {config:?}, tau {tau:?}, lengths {lengths:?}"
        )
    }
}

impl<R: Real> Case<R> {
    /// Borrows the arrays.
    pub fn inputs(&self) -> Inputs<'_, R> {
        Inputs {
            q: &self.q,
            k: &self.k,
            v: &self.v,
            g: self.g.as_deref(),
            beta: self.beta.as_deref(),
            lambda: &self.lambda,
            tau: &self.tau,
            lengths: self.lengths.as_deref(),
            replay: None,
        }
    }

    /// Reads a golden case.
    pub fn from_file(file: &File) -> Self {
        let k = &file.tensors["k"].shape;
        let lambda = &file.tensors["lambda"].shape;
        let dims = Dims {
            batch: k[0],
            tokens: k[1],
            heads: lambda[2],
            groups: k[2],
            key_dim: k[3],
            value_dim: file.tensors["v"].shape[3],
            capacity: lambda[3],
        };
        let word = |name: &str| match file.metadata.get(name) {
            Some(word) => word.as_str(),
            None => match name {
                "schedule" => "dynamic",
                "norm" => "rms",
                "merge" => "density",
                "epsilon" => "1e-12",
                _ => panic!("the case has no {name}"),
            },
        };
        let schedule = match word("schedule") {
            "dynamic" => Schedule::Dynamic,
            "fenwick" => Schedule::Fenwick,
            other => panic!("no golden file has schedule {other}"),
        };
        let backbone: Backbone = word("backbone").parse().expect("a backbone");
        let tau: f64 = word("tau").parse().expect("a number");
        let thresholds = usize::from(schedule == Schedule::Dynamic) * dims.heads;
        let array = |name: &str| file.reals::<R>(name);
        Self {
            seed: 0,
            dims,
            config: Config {
                schedule,
                norm: word("norm").parse().expect("a norm"),
                merge: word("merge").parse().expect("a merge cost"),
                epsilon: word("epsilon").parse().expect("a number"),
                ..Config::new(backbone)
            },
            q: array("q").expect("q"),
            k: array("k").expect("k"),
            v: array("v").expect("v"),
            g: array("g"),
            beta: array("beta"),
            lambda: array("lambda").expect("lambda"),
            tau: vec![R::from_f64(tau); thresholds],
            lengths: None,
        }
    }
}

/// Root mean square of the difference over root mean square of `expected`; NaN and length differences are errors.
pub fn relative_rms<R: Real>(got: &[R], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len(), "lengths differ");
    let square = |x: f64| x * x;
    let off: f64 = got
        .iter()
        .zip(expected)
        .map(|(g, e)| square(g.to_f64() - e))
        .sum();
    let size: f64 = expected.iter().map(|&e| square(e)).sum();
    if off == 0.0 { 0.0 } else { (off / size).sqrt() }
}

/// Fails with the case, the array, the error and the first bad position when `got` is not `expected` within `limit`.
pub fn assert_close<R: Real>(what: &str, got: &[R], expected: &[f64], limit: f64) {
    let error = relative_rms(got, expected);
    let fits = error <= limit; // false for NaN
    if !fits {
        let worst = (0..got.len())
            .max_by(|&a, &b| {
                let off = |i: usize| (got[i].to_f64() - expected[i]).abs();
                off(a).total_cmp(&off(b))
            })
            .unwrap_or(0);
        panic!(
            "{what}: relative rms {error:e} > {limit:e}; worst at {worst}: got {}, expected {}",
            got[worst], expected[worst]
        );
    }
}

/// The tokens `range` of a `[batch, tokens, …]` array.
pub fn slice<T: Copy>(dims: &Dims, values: &[T], range: std::ops::Range<usize>) -> Vec<T> {
    if dims.tokens == 0 {
        return Vec::new();
    }
    let width = values.len() / (dims.batch * dims.tokens);
    (0..dims.batch)
        .flat_map(|b| {
            let row = b * dims.tokens;
            &values[(row + range.start) * width..(row + range.end) * width]
        })
        .copied()
        .collect()
}

impl<R: Real> Case<R> {
    /// The tokens `range` as a case of their own.
    pub fn piece(&self, range: std::ops::Range<usize>) -> Self {
        let cut = |values: &Vec<R>| slice(&self.dims, values, range.clone());
        let (start, len) = (range.start as u32, range.len() as u32);
        let length = |&length: &u32| length.saturating_sub(start).min(len);
        Self {
            seed: self.seed,
            dims: Dims {
                tokens: range.len(),
                ..self.dims
            },
            config: self.config,
            q: cut(&self.q),
            k: cut(&self.k),
            v: cut(&self.v),
            g: self.g.as_ref().map(cut),
            beta: self.beta.as_ref().map(cut),
            lambda: cut(&self.lambda),
            tau: self.tau.clone(),
            lengths: self
                .lengths
                .as_ref()
                .map(|lengths| lengths.iter().map(length).collect()),
        }
    }

    /// Sequence `b` alone, cut to its length.
    pub fn item(&self, b: usize) -> Self {
        let width = |values: &Vec<R>| values.len() / self.dims.batch;
        let row = |values: &Vec<R>| values[b * width(values)..(b + 1) * width(values)].to_vec();
        let alone = Self {
            seed: self.seed,
            dims: Dims {
                batch: 1,
                ..self.dims
            },
            config: self.config,
            q: row(&self.q),
            k: row(&self.k),
            v: row(&self.v),
            g: self.g.as_ref().map(row),
            beta: self.beta.as_ref().map(row),
            lambda: row(&self.lambda),
            tau: self.tau.clone(),
            lengths: None,
        };
        alone.piece(0..self.inputs().length(&self.dims, b))
    }
}
