//! A tiny random model with a vocabulary of words, for the tests of the examples.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

/// A model directory of its own: 83 words, "w2" to "w82", and a begin and an end of text.
pub(crate) fn model() -> TempDir {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (from, name) in [
        ("model/mamba2_groups", "config.json"),
        ("model/mamba2_groups", "model.safetensors"),
        ("text", "tokenizer.json"),
    ] {
        fs::copy(golden.join(from).join(name), folder.path().join(name)).expect("copied");
    }
    folder
}
