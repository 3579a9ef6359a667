//! The case file of `dla op`: a safetensors file that holds one call of the operator.
//!
//! `dla op --help` lists its tensors and metadata words.

use std::num::NonZeroUsize;
use std::path::Path;
use std::str::FromStr;

use dla_core::dla::gate::Gate;
use dla_core::{Backbone, Cache, Config, Decisions, Dims, Error, Inputs, Result, Schedule};

use crate::backend::Call;
use crate::tensors::TensorFile;

const TENSORS: [&str; 14] = [
    "q", "k", "v", "lambda", "g", "beta", "tau", "lengths", "do", "h0", "n0", "info0", "boundary",
    "merge_at",
];
const WORDS: [&str; 10] = [
    "backbone", "schedule", "tau", "capacity", "norm", "merge", "block", "epsilon", "gate", "theta",
];
/// What some writers of safetensors put in every file's metadata.
const WRITERS_WORD: &str = "format";

/// One call of the operator, read from a file.
#[derive(Clone, Debug)]
pub struct Case {
    /// The sizes of the arrays.
    pub dims: Dims,
    /// The operator's settings.
    pub config: Config,
    /// The cache to start from, if the file holds one.
    pub cache: Option<Cache<f32>>,
    /// How boundaries take part in training.
    pub gate: Gate,
    /// The outputs' gradient, if the inputs' are asked for.
    pub d_o: Option<Vec<f32>>,
    arrays: Arrays,
}

#[derive(Clone, Debug)]
struct Arrays {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    g: Option<Vec<f32>>,
    beta: Option<Vec<f32>>,
    lambda: Vec<f32>,
    tau: Vec<f32>,
    lengths: Option<Vec<u32>>,
    replay: Option<Decisions>,
}

impl Case {
    /// Reads a case file.
    ///
    /// # Errors
    /// When the file cannot be read, is malformed, or holds a call that the operator refuses.
    pub fn read(path: &Path) -> Result<Self> {
        let case = TensorFile::read(path).and_then(|file| Self::parse(&file));
        case.map_err(|error| error.advise_otherwise("`dla op --help` describes the file"))
    }

    /// Takes the case out of a file in memory.
    ///
    /// # Errors
    /// When the file holds a call that the operator refuses.
    pub fn parse(file: &TensorFile) -> Result<Self> {
        file.allow(&TENSORS, &[WORDS.as_slice(), &[WRITERS_WORD]].concat())?;
        let dims = dims(file)?;
        dims.check()?;
        room(&dims)?;
        let words = Words(file);
        let config = words.config()?;
        words.capacity(dims.capacity)?;
        let case = Self {
            dims,
            config,
            cache: cache(file, &dims)?,
            gate: words.gate()?,
            d_o: d_o(file, &dims)?,
            arrays: arrays(file, &dims, config.schedule)?,
        };
        case.inputs()
            .check(&case.dims, &case.config, case.cache.as_ref())?;
        Ok(case)
    }

    /// The call of the operator, with `inputs` from [`Case::inputs`].
    pub fn call<'a>(
        &'a self,
        inputs: &'a Inputs<'a, f32>,
        chunk: Option<NonZeroUsize>,
    ) -> Call<'a> {
        Call {
            dims: &self.dims,
            config: &self.config,
            inputs,
            cache: self.cache.as_ref(),
            gate: self.gate,
            chunk,
        }
    }

    /// The arrays, borrowed as the operator takes them.
    pub fn inputs(&self) -> Inputs<'_, f32> {
        let arrays = &self.arrays;
        Inputs {
            q: &arrays.q,
            k: &arrays.k,
            v: &arrays.v,
            g: arrays.g.as_deref(),
            beta: arrays.beta.as_deref(),
            lambda: &arrays.lambda,
            tau: &arrays.tau,
            lengths: arrays.lengths.as_deref(),
            replay: arrays.replay.as_ref(),
        }
    }
}

/// Sizes as `q`, `v` and `lambda` give them; whether the other tensors agree is checked as they are read.
fn dims(file: &TensorFile) -> Result<Dims> {
    let [batch, tokens, groups, key_dim] = file.require("q")?.sizes("[B, T, G, Dk]")?;
    let [_, _, heads, value_dim] = file.require("v")?.sizes("[B, T, H, Dv]")?;
    let [_, _, _, capacity] = file.require("lambda")?.sizes("[B, T, H, K]")?;
    Ok(Dims {
        batch,
        tokens,
        heads,
        groups,
        key_dim,
        value_dim,
        capacity,
    })
}

/// Refuses results that memory cannot hold: a small file can ask for many large states.
fn room(dims: &Dims) -> Result<()> {
    let values = dims.states_len().saturating_add(dims.value_len());
    Vec::<f32>::new().try_reserve_exact(values).map_err(|_| {
        Error::unsupported(
            "op",
            "dims",
            "results that fit into memory",
            format!("{values} values"),
        )
        .advise("split the batch")
    })
}

fn arrays(file: &TensorFile, dims: &Dims, schedule: Schedule) -> Result<Arrays> {
    let Dims {
        batch,
        tokens,
        heads,
        groups,
        key_dim,
        value_dim,
        capacity,
    } = *dims;
    let keys = [batch, tokens, groups, key_dim];
    let per_head = |name| {
        let tensor = file.get(name);
        tensor
            .map(|t| t.values("[B, T, H]", &[batch, tokens, heads]))
            .transpose()
    };
    Ok(Arrays {
        q: file.require("q")?.widened("[B, T, G, Dk]", &keys)?,
        k: file.require("k")?.widened("[B, T, G, Dk]", &keys)?,
        v: file
            .require("v")?
            .widened("[B, T, H, Dv]", &[batch, tokens, heads, value_dim])?,
        g: per_head("g")?,
        beta: per_head("beta")?,
        lambda: file
            .require("lambda")?
            .values("[B, T, H, K]", &[batch, tokens, heads, capacity])?,
        tau: tau(file, heads, schedule)?,
        lengths: lengths(file, dims)?,
        replay: replay(file, dims)?,
    })
}

/// τ per head for the dynamic schedule, nothing for the others, which do not read it.
fn tau(file: &TensorFile, heads: usize, schedule: Schedule) -> Result<Vec<f32>> {
    let tensor = file
        .get("tau")
        .map(|tensor| tensor.values("[H]", &[heads]))
        .transpose()?;
    let word = Words(file).number::<f32>("tau")?;
    if schedule != Schedule::Dynamic {
        return Ok(Vec::new());
    }
    tensor
        .or_else(|| word.map(|tau| vec![tau; heads]))
        .ok_or_else(|| {
            file.refuse(
                "metadata tau".into(),
                "a number, or a tensor tau [H]",
                "neither",
            )
            .advise("the dynamic schedule needs a threshold")
        })
}

fn d_o(file: &TensorFile, dims: &Dims) -> Result<Option<Vec<f32>>> {
    let shape = [dims.batch, dims.tokens, dims.heads, dims.value_dim];
    file.get("do")
        .map(|tensor| tensor.values("[B, T, H, Dv]", &shape))
        .transpose()
}

fn lengths(file: &TensorFile, dims: &Dims) -> Result<Option<Vec<u32>>> {
    let tensor = file.get("lengths");
    tensor
        .map(|tensor| tensor.counts("[B]", &[dims.batch]))
        .transpose()
}

fn replay(file: &TensorFile, dims: &Dims) -> Result<Option<Decisions>> {
    if !all_or_none(file, &["boundary", "merge_at"])? {
        return Ok(None);
    }
    let shape = [dims.batch, dims.tokens, dims.heads];
    Ok(Some(Decisions {
        boundary: file.require("boundary")?.values("[B, T, H]", &shape)?,
        merge_at: file.require("merge_at")?.values("[B, T, H]", &shape)?,
    }))
}

fn cache(file: &TensorFile, dims: &Dims) -> Result<Option<Cache<f32>>> {
    if !all_or_none(file, &["h0", "n0", "info0"])? {
        return Ok(None);
    }
    let entries = [dims.batch, dims.heads, dims.capacity];
    let [batch, heads, capacity] = entries;
    let states = [batch, heads, capacity, dims.key_dim, dims.value_dim];
    Ok(Some(Cache {
        states: file.require("h0")?.values("[B, H, K, Dk, Dv]", &states)?,
        n: file.require("n0")?.counts("[B, H, K]", &entries)?,
        info: file.require("info0")?.values("[B, H, K]", &entries)?,
    }))
}

/// True when the file holds all of `names`, false when none.
fn all_or_none(file: &TensorFile, names: &[&'static str]) -> Result<bool> {
    let (present, absent): (Vec<&str>, Vec<&str>) =
        names.iter().partition(|&&name| file.get(name).is_some());
    if present.is_empty() || absent.is_empty() {
        return Ok(!present.is_empty());
    }
    let got = format!("{} without {}", present.join(", "), absent.join(", "));
    Err(file.refuse(
        "tensors".into(),
        format!("all of {} or none", names.join(", ")),
        got,
    ))
}

/// The metadata words of a case.
struct Words<'a>(&'a TensorFile);

impl Words<'_> {
    fn config(&self) -> Result<Config> {
        let defaults = Config::new(self.needed::<Backbone>("backbone", "plain|decay|delta")?);
        Ok(Config {
            schedule: self.schedule()?,
            norm: self.word("norm")?.unwrap_or(defaults.norm),
            merge: self.word("merge")?.unwrap_or(defaults.merge),
            epsilon: self.number("epsilon")?.unwrap_or(defaults.epsilon),
            ..defaults
        })
    }

    fn gate(&self) -> Result<Gate> {
        let defaults = Gate::default();
        let gate = Gate {
            mode: self.word("gate")?.unwrap_or(defaults.mode),
            theta: self.number("theta")?.unwrap_or(defaults.theta),
        };
        gate.check()?;
        Ok(gate)
    }

    fn schedule(&self) -> Result<Schedule> {
        let known = ["dynamic", "single", "fixed", "fenwick", "offline"];
        let block = self.number::<usize>("block")?;
        match self.one_of("schedule", &known)?.unwrap_or("dynamic") {
            "single" => Ok(Schedule::Single),
            "fixed" => {
                let needed =
                    || self.refuse("block", "tokens of a state, for schedule fixed", "none");
                Ok(Schedule::Fixed {
                    block: block.ok_or_else(needed)?,
                })
            }
            "fenwick" => Ok(Schedule::Fenwick),
            "offline" => Ok(Schedule::Offline),
            _ => Ok(Schedule::Dynamic),
        }
    }

    /// The metadata's K, if given, says again what λ's shape says.
    fn capacity(&self, of_lambda: usize) -> Result<()> {
        match self.number::<usize>("capacity")? {
            Some(word) if word != of_lambda => Err(self.refuse(
                "capacity",
                format!("{of_lambda}, the last size of lambda"),
                word,
            )),
            _ => Ok(()),
        }
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.words().get(key).copied()
    }

    fn one_of(&self, key: &str, known: &[&str]) -> Result<Option<&str>> {
        match self.get(key) {
            Some(word) if !known.contains(&word) => Err(self.refuse(key, known.join("|"), word)),
            word => Ok(word),
        }
    }

    /// A word of one of the operator's settings.
    fn word<W: FromStr<Err = Error>>(&self, key: &str) -> Result<Option<W>> {
        self.get(key).map(str::parse).transpose()
    }

    fn needed<W: FromStr<Err = Error>>(&self, key: &str, known: &str) -> Result<W> {
        self.word(key)?
            .ok_or_else(|| self.refuse(key, known, "none"))
    }

    fn number<N: FromStr>(&self, key: &str) -> Result<Option<N>> {
        let parse = |word: &str| {
            word.trim()
                .parse()
                .map_err(|_| self.refuse(key, "a number", word))
        };
        self.get(key).map(parse).transpose()
    }

    fn refuse(&self, key: &str, expected: impl ToString, got: impl ToString) -> Error {
        self.0.refuse(format!("metadata {key}"), expected, got)
    }
}
