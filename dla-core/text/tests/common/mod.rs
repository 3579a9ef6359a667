//! Tokenizers of every form, small.
#![allow(dead_code, unreachable_pub)] // each test binary uses its part

use std::fs;

use dla_core::Result;
use dla_core::model::SpecialIds;
use dla_text::Tokenizer;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// A model directory with this tokenizer.json and, unless null, tokenizer_config.json.
pub fn folder(tokenizer: &Value, settings: &Value) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, json: &Value| {
        fs::write(folder.path().join(name), json.to_string()).expect("written");
    };
    write("tokenizer.json", tokenizer);
    if !settings.is_null() {
        write("tokenizer_config.json", settings);
    }
    folder
}

pub fn open(tokenizer: &Value) -> Result<Tokenizer> {
    of(&folder(tokenizer, &Value::Null), 300)
}

/// The tokenizer in `folder` for a model of `vocabulary` ids that names no special ones.
pub fn of(folder: &TempDir, vocabulary: usize) -> Result<Tokenizer> {
    Tokenizer::open(folder.path(), vocabulary, &SpecialIds::default())
}

/// The pieces that the text of `ids` after `before` comes in.
pub fn pieces(tokenizer: &Tokenizer, before: &[u32], ids: &[u32]) -> Vec<String> {
    let mut decoder = tokenizer.decoder(before);
    let mut pieces: Vec<String> = ids.iter().map(|&id| decoder.push(id)).collect();
    pieces.push(decoder.finish());
    pieces
}

pub fn vocabulary(tokens: impl IntoIterator<Item = String>) -> Map<String, Value> {
    tokens.into_iter().zip((0..).map(Value::from)).collect()
}

/// GPT-2's letters for the bytes, by byte.
pub fn letters() -> Vec<char> {
    let printable = |byte: u32| matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut next = 0x100..;
    let letters = (0..256).map(|byte| {
        let code = if printable(byte) {
            Some(byte)
        } else {
            next.next()
        };
        code.and_then(char::from_u32).expect("a letter")
    });
    letters.collect()
}

pub fn added(id: u32, content: &str, special: bool) -> Value {
    json!({
        "id": id, "content": content, "special": special, "single_word": false,
        "lstrip": false, "rstrip": false, "normalized": false,
    })
}

pub fn tokenizer(model: Value, added: Value, pre_tokenizer: Value, decoder: Value) -> Value {
    json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
        "post_processor": null, "added_tokens": added, "pre_tokenizer": pre_tokenizer,
        "decoder": decoder, "model": model,
    })
}

/// Ids 0 to 255 are bytes, 256 is "he", 257 ends a text, 258 is an added word with a blank.
pub fn byte_level() -> Value {
    let tokens = letters().into_iter().map(String::from);
    let vocab = vocabulary(tokens.chain(["he".to_owned()]));
    let model = json!({
        "type": "BPE", "vocab": vocab, "merges": ["h e"], "dropout": null, "unk_token": null,
        "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
    });
    let part = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let added = json!([
        added(257, "<|endoftext|>", true),
        added(258, "a word", false)
    ]);
    tokenizer(model, added, part.clone(), part)
}

/// Llama's way: blanks are ▁, ids 3 to 258 are bytes.
pub fn byte_fallback() -> Value {
    let bytes = (0..256).map(|byte| format!("<0x{byte:02X}>"));
    let special = ["<unk>", "<s>", "</s>"].map(str::to_owned).into_iter();
    let words = ["▁", "a", "b", "▁a"].map(str::to_owned);
    let model = json!({
        "type": "BPE", "vocab": vocabulary(special.chain(bytes).chain(words)), "merges": ["▁ a"],
        "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true,
    });
    let decoder = json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]});
    let added = json!([
        added(0, "<unk>", true),
        added(1, "<s>", true),
        added(2, "</s>", true)
    ]);
    let mut json = tokenizer(model, added, Value::Null, decoder);
    json["normalizer"] = json!({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    ]});
    json
}

/// Whole words, none for others.
pub fn words() -> Value {
    let vocab = vocabulary(["red", "green", "##ish"].map(str::to_owned));
    let model = json!({"type": "WordLevel", "vocab": vocab, "unk_token": "none"});
    let decoder = json!({"type": "WordPiece", "prefix": "##", "cleanup": false});
    tokenizer(model, json!([]), json!({"type": "Whitespace"}), decoder)
}
