//! What the tests of the command share: running it, and files with any bytes in them.
#![allow(dead_code, unreachable_pub)] // each test binary uses its part

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dla_cli::tensors::TensorFile;
use serde_json::json;

/// Runs `dla` with these words, away from any terminal.
pub fn dla<S: AsRef<std::ffi::OsStr>>(words: impl IntoIterator<Item = S>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dla"))
        .args(words)
        .output()
        .expect("the command starts")
}

/// Runs `dla op --backend cpu`.
pub fn op(input: &Path, output: &Path, more: &[&str]) -> Output {
    op_on("cpu", input, output, more)
}

/// Runs `dla op --backend BACKEND`.
pub fn op_on(backend: &str, input: &Path, output: &Path, more: &[&str]) -> Output {
    let words = ["op", "--backend", backend, "--input"].map(Into::into);
    let paths = [input.as_os_str(), "--output".as_ref(), output.as_os_str()].map(Into::into);
    let more = more.iter().map(Into::into);
    dla(words
        .into_iter()
        .chain(paths)
        .chain(more)
        .collect::<Vec<std::ffi::OsString>>())
}

/// What a run wrote on stderr.
pub fn stderr(run: &Output) -> String {
    String::from_utf8(run.stderr.clone()).expect("messages are UTF-8")
}

/// What a run wrote on stdout.
pub fn stdout(run: &Output) -> String {
    String::from_utf8(run.stdout.clone()).expect("reports are UTF-8")
}

/// Holds a refused run to its promise: exit 2, one line `error: …` that says `fault`.
pub fn assert_refused(name: &str, run: &Output, fault: &str) {
    let told = stderr(run);
    assert_eq!(run.status.code(), Some(2), "{name}: {told}");
    assert!(
        run.stdout.is_empty(),
        "{name}: a refused run prints nothing"
    );
    assert_eq!(told.lines().count(), 1, "{name}: one line, got {told}");
    assert!(told.starts_with("error: "), "{name}: {told}");
    assert!(told.contains(fault), "{name}: expected `{fault}` in {told}");
}

/// A folder of golden cases.
pub fn golden(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden")
        .join(kind)
}

/// Copies the files of a fault in `tests/golden/faults` to `folder`, and adds weights of their config.json (one layer)
/// under which each id is followed by the one that `next` gives, 0 where it gives none.
pub fn saying_model(fault: &str, folder: &Path, next: &[(usize, usize)]) -> PathBuf {
    std::fs::create_dir(folder).expect("a new folder");
    for entry in std::fs::read_dir(golden("faults").join(fault)).expect("the fault's files") {
        let source = entry.expect("a file").path();
        let name = source.file_name().expect("a name");
        let bytes = std::fs::read(&source).expect("a file");
        std::fs::write(folder.join(name), bytes).expect("written");
    }
    let config = std::fs::read_to_string(folder.join("config.json")).expect("text");
    let config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    let size = |key: &str| config[key].as_u64().expect("a size") as usize;
    let (vocabulary, hidden) = (size("vocab_size"), size("hidden_size"));
    let (heads, inner) = (size("num_heads"), size("num_heads") * size("head_dim"));
    let (keys, width) = (size("n_groups") * size("state_size"), size("conv_kernel"));
    let mixed = inner + 2 * keys;
    let mut file = Raw::default();
    // Each id is a direction of its own, which the block leaves alone.
    let rows = |row: &dyn Fn(usize) -> usize| -> Vec<u8> {
        let mut values = vec![0.0f32; vocabulary * hidden];
        (0..vocabulary).for_each(|id| values[row(id) * hidden + id] = 1.0);
        values.into_iter().flat_map(f32::to_le_bytes).collect()
    };
    let follows = |id: usize| next.iter().find(|(from, _)| *from == id);
    let square = [vocabulary, hidden];
    file.tensor("backbone.embeddings.weight", "F32", &square, rows(&|id| id));
    let heads_row = rows(&|id| follows(id).map_or(0, |&(_, to)| to));
    file.tensor("lm_head.weight", "F32", &square, heads_row);
    for (name, shape, value) in [
        ("norm.weight", &[hidden][..], 1.0),
        (
            "mixer.in_proj.weight",
            &[inner + mixed + heads, hidden],
            0.0,
        ),
        ("mixer.conv1d.weight", &[mixed, 1, width], 0.0),
        ("mixer.conv1d.bias", &[mixed], 0.0),
        ("mixer.dt_bias", &[heads], 0.0),
        ("mixer.A_log", &[heads], 0.0),
        ("mixer.D", &[heads], 0.0),
        ("mixer.norm.weight", &[inner], 1.0),
        ("mixer.out_proj.weight", &[hidden, inner], 0.0),
    ] {
        file.floats(&format!("backbone.layers.0.{name}"), shape, value);
    }
    file.floats("backbone.norm_f.weight", &[hidden], 1.0);
    std::fs::write(folder.join("model.safetensors"), file.bytes()).expect("written");
    folder.to_owned()
}

/// Writes the golden Mamba-2 to `folder` with random rows for a `vocabulary` that holds all bytes.
pub fn byte_model(folder: &Path, vocabulary: usize) -> PathBuf {
    let source = golden("model/mamba2_groups");
    let config = std::fs::read_to_string(source.join("config.json")).expect("text");
    let mut config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    config["vocab_size"] = json!(vocabulary);
    let tensors = TensorFile::read(&source.join("model.safetensors")).expect("a checkpoint");
    let mut written = Raw::default();
    for name in tensors.names() {
        let tensor = tensors.require(&name).expect("its own name");
        let mut shape = tensor.shape().to_vec();
        let mut bytes = tensor.bytes().expect("read").into_owned();
        if ["backbone.embeddings.weight", "lm_head.weight"].contains(&&*name) {
            shape[0] = vocabulary;
            let values = (0..vocabulary * shape[1])
                .map(|i| (i * 48_271 % 65_537 % 251) as f32 / 125.0 - 1.0);
            bytes = values.flat_map(f32::to_le_bytes).collect();
        }
        written.tensor(&name, "F32", &shape, bytes);
    }
    std::fs::create_dir(folder).expect("a new folder");
    std::fs::write(folder.join("config.json"), config.to_string()).expect("written");
    std::fs::write(folder.join("model.safetensors"), written.bytes()).expect("written");
    folder.to_owned()
}

/// A safetensors file in pieces, so that any of them can be wrong.
#[derive(Clone, Debug, Default)]
pub struct Raw {
    pub words: Vec<(String, serde_json::Value)>,
    pub tensors: Vec<(String, &'static str, Vec<usize>, Vec<u8>)>,
}

impl Raw {
    /// A small case that the operator accepts: B 1, T 3, H 2, G 1, Dk 2, Dv 2, K 2, decay.
    pub fn case() -> Self {
        let mut raw = Self {
            words: Vec::new(),
            tensors: Vec::new(),
        };
        raw.word("backbone", "decay");
        raw.word("tau", "0.9");
        raw.floats("q", &[1, 3, 1, 2], 0.5);
        raw.floats("k", &[1, 3, 1, 2], 0.25);
        raw.floats("v", &[1, 3, 2, 2], -1.0);
        raw.floats("g", &[1, 3, 2], -0.1);
        raw.floats("lambda", &[1, 3, 2, 2], 1.0);
        raw
    }

    /// Sets a metadata word.
    pub fn word(&mut self, key: &str, value: &str) {
        self.words.retain(|(known, _)| known != key);
        self.words.push((key.into(), json!(value)));
    }

    /// Sets a tensor.
    pub fn tensor(&mut self, name: &str, dtype: &'static str, shape: &[usize], bytes: Vec<u8>) {
        self.remove(name);
        self.tensors
            .push((name.into(), dtype, shape.to_vec(), bytes));
    }

    /// Sets a tensor of equal f32.
    pub fn floats(&mut self, name: &str, shape: &[usize], value: f32) {
        let bytes = value.to_le_bytes().repeat(shape.iter().product());
        self.tensor(name, "F32", shape, bytes);
    }

    /// Sets a tensor of equal i32.
    pub fn integers(&mut self, name: &str, shape: &[usize], value: i32) {
        let bytes = value.to_le_bytes().repeat(shape.iter().product());
        self.tensor(name, "I32", shape, bytes);
    }

    /// Removes a tensor.
    pub fn remove(&mut self, name: &str) {
        self.tensors.retain(|(known, ..)| known != name);
    }

    /// The header as JSON text.
    pub fn header(&self) -> String {
        let words: serde_json::Map<_, _> = self.words.iter().cloned().collect();
        let mut header = serde_json::Map::new();
        header.insert("__metadata__".into(), words.into());
        let mut start = 0;
        for (name, dtype, shape, bytes) in &self.tensors {
            let end = start + bytes.len();
            let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, end] });
            header.insert(name.clone(), entry);
            start = end;
        }
        serde_json::Value::from(header).to_string()
    }

    /// The tensors' bytes, one after the other.
    pub fn data(&self) -> Vec<u8> {
        self.tensors
            .iter()
            .flat_map(|(.., bytes)| bytes.clone())
            .collect()
    }

    /// The whole file.
    pub fn bytes(&self) -> Vec<u8> {
        file(&self.header(), &self.data())
    }
}

/// A file with this header and data.
pub fn file(header: &str, data: &[u8]) -> Vec<u8> {
    [
        &(header.len() as u64).to_le_bytes(),
        header.as_bytes(),
        data,
    ]
    .concat()
}
