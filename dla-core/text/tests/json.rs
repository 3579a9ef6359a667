//! tokenizer.json: GPT-2's bytes, byte fallback, whole words; special tokens; what is refused.
#![cfg(feature = "json")]

mod common;

use std::fs;

use common::*;
use dla_core::Result;
use dla_core::model::SpecialIds;
use dla_text::Tokenizer;
use serde_json::{Value, json};

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
    assert_eq!(tokenizer.start(), None);
    assert!(
        tokenizer.ends().is_empty(),
        "nothing is guessed by spelling"
    );
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
    // A run is whole or none of it is text, as tokenizers have it, so it waits for its end.
    let twice = [0xE2, 0x82, 0xAC, 0xE2, 0x82].map(byte);
    let spoilt = "\u{FFFD}".repeat(5);
    assert_eq!(
        pieces(&tokenizer, &[], &twice),
        ["", "", "", "", "", &spoilt]
    );
    assert_eq!(
        pieces(&tokenizer, &[], &[&twice[..3], &[260]].concat()),
        ["", "", "", "€a", ""]
    );
    // Where nothing has to wait, each character comes alone.
    let characters = tokenizer.pieces(&[&twice[..3], &twice[..3], &[260]].concat());
    let whole = |(taken, text): (usize, &str)| (taken, text.to_owned());
    assert_eq!(characters, [(3, "€"), (3, "€"), (1, "a")].map(whole));
    assert_eq!(
        pieces(&tokenizer, &[], &[byte(0xE2), blank_a]),
        ["", "\u{FFFD} a", ""]
    );
    assert!(tokenizer.ends().is_empty());
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
    assert_eq!(tokenizer.start(), None);
}

/// begin and end of text of the byte-fallback tokenizer whose files say this, for a model that names `special` ones.
fn ends(files: &[(&str, Value)], special: &SpecialIds) -> Result<(Option<u32>, Vec<u32>)> {
    let folder = folder(&byte_fallback(), &Value::Null);
    for (name, json) in files {
        fs::write(folder.path().join(name), json.to_string()).expect("written");
    }
    let tokenizer = Tokenizer::open(folder.path(), 300, special)?;
    Ok((tokenizer.start(), tokenizer.ends().to_vec()))
}

#[test]
fn kind_43_the_files_name_begin_and_end_in_their_order() {
    let none = SpecialIds::default();
    let settings = |json: Value| ("tokenizer_config.json", json);
    let map = |json: Value| ("special_tokens_map.json", json);
    let object = json!({"bos_token": {"content": "<s>"}, "eos_token": "<unk>"});
    let last = map(json!({"eos_token": {"content": "</s>"}, "bos_token": "</s>"}));
    assert_eq!(ends(&[], &none), Ok((None, vec![])));
    for (files, want) in [
        (vec![settings(object.clone())], (Some(1), vec![0])),
        (vec![last.clone()], (Some(2), vec![2])),
        (
            vec![settings(object.clone()), last.clone()],
            (Some(1), vec![0]),
        ),
        // What is null is not given.
        (
            vec![
                settings(json!({"bos_token": null, "eos_token": null})),
                last.clone(),
            ],
            (Some(2), vec![2]),
        ),
        (
            vec![settings(json!({"eos_token": "</s>"}))],
            (Some(2), vec![2]),
        ),
    ] {
        assert_eq!(ends(&files, &none), Ok(want), "{files:?}");
    }
    // The model's own ids go before; a wrong name that nobody needs is not looked at.
    let own = SpecialIds {
        bos: None,
        eos: vec![260, 7],
        pad: None,
    };
    let files = [settings(json!({"bos_token": "<s>", "eos_token": "<gone>"}))];
    assert_eq!(ends(&files, &own), Ok((Some(1), vec![260, 7])));
    let error = ends(&files, &none).expect_err("an end that is no token");
    let told = error.to_string();
    assert!(error.is_input(), "{told}");
    assert!(
        told.contains("tokenizer_config.json, eos_token: expected a token of tokenizer.json"),
        "{told}"
    );
    for wrong in [json!(2), json!(["</s>"]), json!({"id": 2}), json!(true)] {
        let error = ends(&[map(json!({"eos_token": wrong}))], &none).expect_err("no token");
        let told = error.to_string();
        assert!(
            told.contains("special_tokens_map.json, eos_token"),
            "{told}"
        );
    }
}

#[test]
fn kind_43_bytes_end_where_the_model_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let special = SpecialIds {
        bos: None,
        eos: vec![0, 4],
        pad: None,
    };
    let bytes = Tokenizer::open(folder.path(), 256, &special).expect("bytes");
    assert_eq!((bytes.start(), bytes.ends()), (Some(0), &[0, 4][..]));
    assert!(bytes.is_end(4) && !bytes.is_end(1));
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
    check(
        open(&json!({"model": 3})),
        "a tokenizer of the tokenizers crate",
    );
    let folder = folder(&byte_level(), &json!({}));
    fs::write(folder.path().join("tokenizer_config.json"), "{").expect("written");
    check(of(&folder, 300), "tokenizer_config.json");
    fs::write(folder.path().join("tokenizer.json"), "{").expect("written");
    check(of(&folder, 300), "a tokenizer of the tokenizers crate");
    let tokenizer = open(&byte_level()).expect("a tokenizer");
    let error = tokenizer.encode_bytes(&[0x41, 0xFF]).expect_err("no UTF-8");
    assert!(error.to_string().contains("another byte at 1"), "{error}");
}

/// Tokenizers with more ids than their model are common (tokens added and never trained), and so are models with more
/// (rows up to a round number).
#[test]
fn kind_46_ids_are_refused_where_they_are_met() {
    let folder = folder(&byte_level(), &json!({"eos_token": "<|endoftext|>"}));
    let few = of(&folder, 257).expect("more ids than the model has");
    assert_eq!(few.encode("the").expect("ids below 257"), [0x74, 256]);
    assert!(few.ends().is_empty(), "257 is never sampled");
    let error = few.encode("the a word").expect_err("258 of 257");
    let told = error.to_string();
    assert!(error.is_input(), "{told}");
    assert!(
        told.contains("below the model's vocabulary, 257, got 258 for \"a word\""),
        "{told}"
    );
    let many = of(&folder, 300).expect("fewer ids than the model has");
    assert_eq!(many.ends(), [257]);
    assert!([0, 256, 257, 258].iter().all(|&id| many.contains(id)));
    assert!(!many.contains(259));
    let bytes = Tokenizer::bytes();
    assert!(bytes.contains(255) && !bytes.contains(256));
}
