//! tokenizer.json: GPT-2's bytes, byte fallback, whole words; what is refused.
#![cfg(feature = "json")]

use std::fs;

use dla_core::Result;
use dla_text::Tokenizer;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// A model directory with this tokenizer.json and, unless null, tokenizer_config.json.
fn folder(tokenizer: &Value, settings: &Value) -> TempDir {
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

fn open(tokenizer: &Value) -> Result<Tokenizer> {
    Tokenizer::of(folder(tokenizer, &Value::Null).path(), 300)
}

/// The pieces that the text of `ids` after `before` comes in.
fn pieces(tokenizer: &Tokenizer, before: &[u32], ids: &[u32]) -> Vec<String> {
    let mut decoder = tokenizer.decoder(before);
    let mut pieces: Vec<String> = ids.iter().map(|&id| decoder.push(id)).collect();
    pieces.push(decoder.finish());
    pieces
}

fn vocabulary(tokens: impl IntoIterator<Item = String>) -> Map<String, Value> {
    tokens.into_iter().zip((0..).map(Value::from)).collect()
}

/// GPT-2's letters for the bytes, by byte.
fn letters() -> Vec<char> {
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

fn added(id: u32, content: &str, special: bool) -> Value {
    json!({
        "id": id, "content": content, "special": special, "single_word": false,
        "lstrip": false, "rstrip": false, "normalized": false,
    })
}

fn tokenizer(model: Value, added: Value, pre_tokenizer: Value, decoder: Value) -> Value {
    json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
        "post_processor": null, "added_tokens": added, "pre_tokenizer": pre_tokenizer,
        "decoder": decoder, "model": model,
    })
}

/// Ids 0 to 255 are bytes, 256 is "he", 257 ends a text, 258 is an added word with a blank.
fn byte_level() -> Value {
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
fn byte_fallback() -> Value {
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
fn words() -> Value {
    let vocab = vocabulary(["red", "green", "##ish"].map(str::to_owned));
    let model = json!({"type": "WordLevel", "vocab": vocab, "unk_token": "none"});
    let decoder = json!({"type": "WordPiece", "prefix": "##", "cleanup": false});
    tokenizer(model, json!([]), json!({"type": "Whitespace"}), decoder)
}

#[test]
fn byte_level_tokens_come_and_go() {
    let tokenizer = open(&byte_level()).expect("a tokenizer");
    let text = "the 𝄞 é\n\u{7F}\u{AD}\0";
    let ids = tokenizer.encode(text).expect("any text");
    assert!(ids.contains(&256), "`he` is one token: {ids:?}");
    assert_eq!(pieces(&tokenizer, &[], &ids).concat(), text);
    let every: Vec<u32> = (0..256).collect();
    let bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(
        pieces(&tokenizer, &[], &every).concat(),
        String::from_utf8_lossy(&bytes)
    );
    let after = pieces(&tokenizer, &[0x41, 0xE2], &[0x82, 0xAC, 257, 258, 299]);
    assert_eq!(after, ["", "€", "", "a word", "", ""]);
    assert_eq!((tokenizer.start(), tokenizer.end()), (Some(257), Some(257)));
}

#[test]
fn byte_fallback_keeps_blanks_and_characters() {
    let tokenizer = open(&byte_fallback()).expect("a tokenizer");
    let text = "a b é a";
    let ids = tokenizer.encode(text).expect("any text");
    assert_eq!(pieces(&tokenizer, &[], &ids).concat(), text);
    let (blank_a, byte) = (262, |byte: u32| byte + 3);
    assert_eq!(
        pieces(&tokenizer, &[], &[blank_a, blank_a]),
        ["a", " a", ""]
    );
    assert_eq!(pieces(&tokenizer, &[260], &[blank_a, 2]), [" a", "", ""]);
    // A character right after another: the crate's own decoder would spoil both.
    let twice = [0xE2, 0x82, 0xAC, 0xE2, 0x82].map(byte);
    assert_eq!(
        pieces(&tokenizer, &[], &twice),
        ["", "", "€", "", "", "\u{FFFD}"]
    );
    assert_eq!(
        pieces(&tokenizer, &[], &[byte(0xE2), blank_a]),
        ["", "\u{FFFD} a", ""]
    );
    assert_eq!(tokenizer.end(), Some(2));
}

#[test]
fn words_come_with_their_blanks() {
    let tokenizer = open(&words()).expect("a tokenizer");
    assert_eq!(
        pieces(&tokenizer, &[], &[0, 1, 2, 0]),
        ["red", " green", "ish", " red", ""]
    );
    assert_eq!(pieces(&tokenizer, &[0], &[1]), [" green", ""]);
    assert!(tokenizer.encode("blue").expect_err("no token").is_input());
    assert_eq!((tokenizer.start(), tokenizer.end()), (None, None));
}

#[test]
fn the_settings_name_begin_and_end() {
    let settings = json!({"bos_token": {"content": "<s>"}, "eos_token": "<unk>"});
    let folder = folder(&byte_fallback(), &settings);
    let tokenizer = Tokenizer::of(folder.path(), 300).expect("a tokenizer");
    assert_eq!((tokenizer.start(), tokenizer.end()), (Some(1), Some(0)));
}

#[test]
fn prompts_are_neither_cut_nor_filled_up() {
    let mut json = byte_level();
    json["truncation"] =
        json!({"max_length": 2, "strategy": "LongestFirst", "stride": 0, "direction": "Right"});
    json["padding"] = json!({
        "strategy": {"Fixed": 9}, "direction": "Right", "pad_id": 257, "pad_type_id": 0,
        "pad_token": "<|endoftext|>", "pad_to_multiple_of": null,
    });
    let tokenizer = open(&json).expect("a tokenizer");
    assert_eq!(
        tokenizer.encode("abc").expect("any text"),
        [0x61, 0x62, 0x63]
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let check = |tokenizer: Result<Tokenizer>, fault: &str| {
        let error = tokenizer.expect_err(fault);
        assert!(
            error.is_input() && error.to_string().contains(fault),
            "{error}"
        );
    };
    let large = folder(&byte_level(), &Value::Null);
    check(
        Tokenizer::of(large.path(), 258),
        "below the model's vocabulary, 258, got 258",
    );
    assert!(Tokenizer::of(large.path(), 259).is_ok());
    check(
        open(&json!({"model": 3})),
        "a tokenizer of the tokenizers crate",
    );
    fs::write(large.path().join("tokenizer.json"), "{").expect("written");
    check(
        Tokenizer::of(large.path(), 300),
        "a tokenizer of the tokenizers crate",
    );
    let folder = folder(&byte_level(), &json!({}));
    fs::write(folder.path().join("tokenizer_config.json"), "{").expect("written");
    check(Tokenizer::of(folder.path(), 300), "tokenizer_config.json");
    let tokenizer = open(&byte_level()).expect("a tokenizer");
    let error = tokenizer.encode_bytes(&[0x41, 0xFF]).expect_err("no UTF-8");
    assert!(error.to_string().contains("another byte at 1"), "{error}");
}
