//! The memory of whole runs over long inputs, as the system counts it.
#![cfg(target_os = "linux")]

mod common;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::Raw;

/// What a run of the shipped model may hold at most; the program and the weights take half of it.
const MOST: u64 = 64 << 20;
/// Tokens of an input. The activations of all at once would take more than [`MOST`] by themselves.
const TOKENS: usize = 4 << 10;

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/dla-tiny")
}

/// Runs `dla` on the CPU; gives the most bytes that were resident at any time.
fn peak<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> u64 {
    let mut child = Command::new(env!("CARGO_BIN_EXE_dla"))
        .args(words)
        .args(["--backend", "cpu"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    let mut most = 0;
    let status = loop {
        // The high-water mark only grows, so the last one that is seen counts.
        most = high_water(&child).unwrap_or(most);
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    assert!(status.success(), "{status}");
    assert!(most > 1 << 20, "it was seen");
    most
}

/// The most bytes of a process that were resident at any time.
fn high_water(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let mut lines = status.lines();
    let size = lines.find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = size.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

#[test]
fn kind_50_a_long_prompt_takes_little_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("text.txt");
    let line = "And God said, Let there be light: and there was light.\n";
    std::fs::write(&text, line.repeat(TOKENS / line.len())).expect("a text");
    let model = shipped();
    let [model, text] = [&model, &text].map(|path| path.as_os_str());
    let words = [
        "generate",
        "--max-tokens",
        "1",
        "--temperature",
        "0",
        "--model",
    ]
    .map(OsStr::new);
    let words = words
        .into_iter()
        .chain([model, OsStr::new("--prompt-file"), text]);
    let most = peak(words);
    assert!(most < MOST, "{most} bytes for a prompt");
}

#[test]
fn kind_50_logits_are_written_as_they_come() {
    let folder = tempfile::tempdir().expect("a folder");
    let [ids, output] = ["ids.safetensors", "out.safetensors"].map(|name| folder.path().join(name));
    let mut file = Raw::default();
    let numbers = (0..TOKENS).flat_map(|t| (t as i64 * 37 % 251).to_le_bytes());
    file.tensor("input_ids", "I64", &[1, TOKENS], numbers.collect());
    std::fs::write(&ids, file.bytes()).expect("ids");
    let model = shipped();
    let [model, ids, out] = [&model, &ids, &output].map(|path| path.as_os_str());
    let words = ["logits", "--model"].map(OsStr::new);
    let rest = [model, OsStr::new("--ids"), ids, OsStr::new("--output"), out];
    let most = peak(words.into_iter().chain(rest));
    assert!(most < MOST, "{most} bytes for logits");
    let written = std::fs::metadata(output).expect("an output").len();
    assert!(written > (TOKENS * 256 * 4) as u64, "{written} bytes");
}
