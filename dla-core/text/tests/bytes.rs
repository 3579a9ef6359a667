//! Bytes as tokens: any split of them gives the same text.

use dla_core::model::SpecialIds;
use dla_text::Tokenizer;
use proptest::prelude::*;

/// The pieces that the ids' text comes in, what was held back last.
fn pieces(ids: &[u32]) -> Vec<String> {
    let tokenizer = Tokenizer::bytes();
    let mut decoder = tokenizer.decoder(&[]);
    let mut pieces: Vec<String> = ids.iter().map(|&id| decoder.push(id)).collect();
    pieces.push(decoder.finish());
    pieces
}

#[test]
fn partial_characters_are_held_back() {
    let ids = Tokenizer::bytes().encode("a€𝄞").expect("any text");
    let want = ["a", "", "", "€", "", "", "", "𝄞", ""];
    assert_eq!(pieces(&ids), want);
}

#[test]
fn bytes_of_no_character_become_replacements() {
    assert_eq!(pieces(&[0xFF, 0x41]), ["\u{FFFD}", "A", ""]);
    assert_eq!(pieces(&[0xE2, 0x82, 0x41]), ["", "", "\u{FFFD}A", ""]);
    assert_eq!(
        pieces(&[0xE2, 0xE2, 0x82, 0xAC]),
        ["", "\u{FFFD}", "", "€", ""]
    );
    assert_eq!(pieces(&[0x41, 0xF0, 0x9D]), ["A", "", "", "\u{FFFD}"]);
}

#[test]
fn ids_beyond_bytes_have_no_text() {
    assert_eq!(pieces(&[0xC3, 256, 0xA9, u32::MAX]), ["", "", "é", "", ""]);
}

#[test]
fn a_prompt_may_end_within_a_character() {
    let tokenizer = Tokenizer::bytes();
    let mut decoder = tokenizer.decoder(&[0x41, 0xE2, 0x82]);
    assert_eq!(decoder.push(0xAC), "€");
    // What the prompt ends with is U+FFFD already where nothing completes it.
    let mut decoder = tokenizer.decoder(&[0x41, 0xE2, 0x82]);
    assert_eq!(decoder.push(0x42), "B");
    let mut decoder = tokenizer.decoder(&[0x41, 0xE2]);
    assert_eq!(
        (decoder.push(0xE2), decoder.finish()),
        (String::new(), "\u{FFFD}".into())
    );
}

#[test]
fn any_bytes_are_tokens() {
    let ids = Tokenizer::bytes().encode_bytes(&[0xFF, 0x00]);
    assert_eq!(ids.expect("any bytes"), [255, 0]);
}

#[test]
fn directories_without_a_file_have_bytes_if_these_fit() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |vocabulary| Tokenizer::open(folder.path(), vocabulary, &SpecialIds::default());
    let tokenizer = open(256).expect("bytes");
    assert!(tokenizer.is_bytes());
    assert_eq!((tokenizer.start(), tokenizer.ends()), (None, &[][..]));
    let error = open(255).expect_err("too few ids");
    assert!(
        error.is_input() && error.to_string().contains("tokenizer.json"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn the_pieces_are_the_text(bytes in prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        any::<String>().prop_map(String::into_bytes),
        prop::collection::vec(prop::sample::select(vec![0x41, 0x80, 0x9F, 0xC3, 0xE2, 0xED, 0xF0, 0xF4]), 0..40),
    ]) {
        let ids: Vec<u32> = bytes.iter().copied().map(u32::from).collect();
        prop_assert_eq!(pieces(&ids).concat(), String::from_utf8_lossy(&bytes));
        // After any part of it, the rest.
        for at in 0..=ids.len() {
            let before = String::from_utf8_lossy(&bytes[..at]).into_owned();
            let whole = String::from_utf8_lossy(&bytes).into_owned();
            let same = whole.chars().zip(before.chars()).take_while(|(a, b)| a == b).count();
            let tokenizer = Tokenizer::bytes();
            let mut decoder = tokenizer.decoder(&ids[..at]);
            let text: String = ids[at..].iter().map(|&id| decoder.push(id)).collect();
            let rest: String = whole.chars().skip(same).collect();
            prop_assert_eq!(text + &decoder.finish(), rest, "after {}", at);
        }
    }
}
