//! Streamed text against what the tokenizers crate makes of all ids at once, for every form of decoder.
#![cfg(feature = "json")]

mod common;

use std::sync::LazyLock;

use common::*;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A tokenizer as this crate and as the tokenizers crate have it.
struct Pair {
    name: &'static str,
    own: dla_text::Tokenizer,
    theirs: tokenizers::Tokenizer,
    ids: u32,
    /// Added tokens of a byte-level vocabulary, and the bytes that their text is.
    spelt: Vec<(u32, Vec<u32>)>,
}

impl Pair {
    fn new(name: &'static str, json: &Value) -> Self {
        let theirs = tokenizers::Tokenizer::from_bytes(json.to_string()).expect("a tokenizer");
        Self {
            name,
            own: open(json).expect("a tokenizer"),
            ids: theirs.get_vocab_size(true) as u32,
            theirs,
            spelt: Vec::new(),
        }
    }

    /// The decode of all ids by the tokenizers crate.
    ///
    /// Its byte-level decoder takes added tokens for letters of bytes; here they are given as the bytes of their text.
    fn decode(&self, ids: &[u32]) -> String {
        let spell = |id: &u32| {
            let spelt = self.spelt.iter().find(|(added, _)| added == id);
            spelt.map_or_else(|| vec![*id], |(_, bytes)| bytes.clone())
        };
        let ids: Vec<u32> = ids.iter().flat_map(spell).collect();
        let special = |id: &u32| {
            let token = self.theirs.id_to_token(*id);
            let added = self.theirs.get_added_vocabulary();
            token.is_none_or(|token| added.is_special_token(&token))
        };
        if ids.iter().all(special) {
            return String::new(); // its decoders need not stand no tokens
        }
        self.theirs.decode(&ids, true).expect("a text")
    }

    /// The streamed text of `ids` after `before`.
    fn streamed(&self, before: &[u32], ids: &[u32]) -> String {
        pieces(&self.own, before, ids).concat()
    }

    /// Holds the streamed text to that of all ids without that of the ids before.
    fn check(&self, ids: &[u32], at: usize) -> Result<(), TestCaseError> {
        let (before, after) = ids.split_at(at);
        let (before_text, whole) = (self.decode(before), self.decode(ids));
        let pairs = whole.chars().zip(before_text.chars());
        let same = pairs.take_while(|(a, b)| a == b).count();
        let want: String = whole.chars().skip(same).collect();
        let got = self.streamed(before, after);
        prop_assert_eq!(got, want, "{}: {:?} after {:?}", self.name, after, before);
        Ok(())
    }
}

fn specials() -> Vec<Value> {
    vec![
        added(900, "<|r0|>", true),
        added(901, "<|r1|>", true),
        added(902, "kept whole", false),
    ]
}

/// A model of these words with one of the decoders.
fn worded(words: &[&str], decoder: &Value) -> Value {
    let vocab = vocabulary(words.iter().map(ToString::to_string));
    let mut model = json!({"type": "WordLevel", "vocab": vocab, "unk_token": words[0]});
    model["type"] = json!("WordLevel");
    let json = tokenizer(
        model,
        json!([]),
        json!({"type": "Whitespace"}),
        decoder.clone(),
    );
    with_added(json, words.len() as u32)
}

/// Adds the special and the added tokens behind the vocabulary's `first` ids.
fn with_added(mut json: Value, first: u32) -> Value {
    let mut added = specials();
    for (id, token) in (first..).zip(&mut added) {
        token["id"] = json!(id);
    }
    json["added_tokens"] = json!(added);
    json
}

const METASPACED: [&str; 12] = [
    "<unk>", "▁", "▁▁", "▁a", "a", "b▁", "▁é", "語", "<0xE8>", "<0xAA>", "<0x9E>", "<0x41>",
];
const PIECED: [&str; 14] = [
    "[UNK]", "red", "green", "##ish", "##é", ".", ",", "'", "n't", "##n't", "do", "do not", "'s",
    "語",
];
const SUFFIXED: [&str; 8] = [
    "<unk>", "low</w>", "low", "er</w>", "</w>", "a</w>b", "é</w>", ".",
];
const SPOKEN: [&str; 7] = ["<pad>", "|", "h", "e", "l", "o", "'s"];

fn metaspace(scheme: &str) -> Value {
    json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true})
}

fn replace(from: &str, to: &str) -> Value {
    json!({"type": "Replace", "pattern": {"String": from}, "content": to})
}

fn strip(start: usize, stop: usize) -> Value {
    json!({"type": "Strip", "content": " ", "start": start, "stop": stop})
}

fn sequence(decoders: &[Value]) -> Value {
    json!({"type": "Sequence", "decoders": decoders})
}

static PAIRS: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    let fallback = || json!({"type": "ByteFallback"});
    let fuse = || json!({"type": "Fuse"});
    let letters = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    let mut bytes = byte_level();
    bytes["added_tokens"] = json!([
        added(257, "<|endoftext|>", true),
        added(258, "a word", false),
        added(259, "đem", false),
        added(260, "naïve", false),
        added(261, "čaj", false),
    ]);
    let mut byte_level = Pair::new("byte-level", &bytes);
    let spell = |id, text: &str| (id, text.bytes().map(u32::from).collect::<Vec<_>>());
    // The letters of this vocabulary are in the order of their bytes.
    byte_level.spelt = vec![
        spell(258, "a word"),
        spell(259, "đem"),
        spell(260, "naïve"),
        spell(261, "čaj"),
    ];
    let mut stripped = bytes.clone();
    stripped["decoder"] = sequence(&[letters.clone(), strip(2, 0)]);
    let mut byte_level_stripped = Pair::new("byte-level, stripped", &stripped);
    byte_level_stripped.spelt.clone_from(&byte_level.spelt);
    let mut pairs = vec![byte_level, byte_level_stripped];
    let fallback_ids = 263;
    let llama = with_added(byte_fallback(), fallback_ids);
    pairs.push(Pair::new("llama", &llama));
    for (name, decoder) in [
        ("gemma", sequence(&[replace("▁", " "), fallback(), fuse()])),
        (
            "byte fallback, metaspace",
            sequence(&[fallback(), metaspace("always")]),
        ),
        (
            "fused, then replaced",
            sequence(&[fallback(), fuse(), replace("▁a", "-"), strip(1, 0)]),
        ),
        (
            "fused metaspace",
            sequence(&[fallback(), fuse(), metaspace("first")]),
        ),
        (
            "stripped tokens",
            sequence(&[replace("▁", " "), strip(1, 0)]),
        ),
        (
            "nested",
            sequence(&[sequence(&[replace("▁", " "), fallback()]), fuse()]),
        ),
    ] {
        let mut json = llama.clone();
        json["decoder"] = decoder;
        pairs.push(Pair::new(name, &json));
    }
    for scheme in ["always", "never", "first"] {
        pairs.push(Pair::new(
            "metaspace",
            &worded(&METASPACED, &metaspace(scheme)),
        ));
    }
    for cleanup in [true, false] {
        let decoder = json!({"type": "WordPiece", "prefix": "##", "cleanup": cleanup});
        pairs.push(Pair::new("wordpiece", &worded(&PIECED, &decoder)));
    }
    let suffix = json!({"type": "BPEDecoder", "suffix": "</w>"});
    pairs.push(Pair::new("suffixes", &worded(&SUFFIXED, &suffix)));
    let spoken = json!({
        "type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": true,
    });
    pairs.push(Pair::new("speech", &worded(&SPOKEN, &spoken)));
    pairs.push(Pair::new("no decoder", &worded(&PIECED, &Value::Null)));
    pairs
});

/// Ids of the tokenizer, rarely others; mostly few different ones, so that runs and repetitions occur.
fn ids(count: u32) -> impl Strategy<Value = Vec<u32>> {
    let any = prop::collection::vec(0..count + 3, 0..24);
    let late = prop::collection::vec(count.saturating_sub(12)..count + 1, 0..24);
    let few = prop::collection::vec(0..count, 1..6)
        .prop_flat_map(|few| prop::collection::vec(prop::sample::select(few), 0..24));
    prop_oneof![any, late, few]
}

/// Bytes of characters, cut anywhere, among other tokens.
fn cut_characters(shift: u32, others: std::ops::Range<u32>) -> impl Strategy<Value = Vec<u32>> {
    let byte = prop::sample::select("é語𝄞a".bytes().collect::<Vec<_>>());
    let character = prop::sample::select(vec!["é", "語", "𝄞", "a"]);
    let part = prop_oneof![
        4 => character.prop_map(|text| text.bytes().collect::<Vec<_>>()),
        1 => byte.prop_map(|byte| vec![byte]),
    ];
    let bytes = part.prop_map(move |bytes| {
        bytes
            .into_iter()
            .map(|byte| u32::from(byte) + shift)
            .collect::<Vec<_>>()
    });
    let part = prop_oneof![3 => bytes, 1 => others.prop_map(|id| vec![id])];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn kind_44_streamed_text_is_the_decode_of_all_ids(
        (which, ids, at) in (0..PAIRS.len()).prop_flat_map(|which| {
            (Just(which), ids(PAIRS[which].ids), 0usize..24)
        }),
    ) {
        PAIRS[which].check(&ids, at.min(ids.len()))?;
    }

    #[test]
    fn kind_44_characters_may_be_cut_anywhere(
        letters in cut_characters(0, 256..262), fallback in cut_characters(3, 259..266), at in 0usize..24,
    ) {
        PAIRS[0].check(&letters, at.min(letters.len()))?;
        for pair in &PAIRS[2..9] {
            pair.check(&fallback, at.min(fallback.len()))?;
        }
    }
}

/// `Strip` of the tokenizers crate does not stand text that is shorter than what it takes off; this one does.
#[test]
fn both_ends_are_stripped_of_any_text() {
    let text = |decoder: Value, ids: &[u32]| {
        let json = worded(&["x", " ", "  ", " y "], &decoder);
        pieces(&open(&json).expect("a tokenizer"), &[], ids).concat()
    };
    let whole = sequence(&[json!({"type": "Fuse"}), strip(1, 2)]);
    for (ids, want) in [
        (&[][..], ""),
        (&[1], ""),
        (&[1, 2], ""),
        (&[2, 0, 2, 2], " x  "),
        (&[0, 3, 1], "x y"),
        (&[3, 0], "y x"),
    ] {
        assert_eq!(text(whole.clone(), ids), want, "{ids:?}");
    }
    assert_eq!(text(strip(1, 2), &[3, 1, 0, 2]), "yx");
}

/// Work grows with the number of tokens and not with its square: this many would take hours.
#[test]
fn kind_44_long_texts_take_time_by_their_length() {
    for pair in PAIRS.iter() {
        let mut decoder = pair.own.decoder(&[]);
        let mut bytes = 0;
        for id in (0..pair.ids.min(264)).cycle().take(60_000) {
            bytes += decoder.push(id).len();
        }
        bytes += decoder.finish().len();
        assert!(bytes > 60_000, "{}: {bytes} bytes", pair.name);
    }
}
