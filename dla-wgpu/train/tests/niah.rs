//! Needles in haystacks, read back from the text alone.

use std::path::PathBuf;

use dla_text::Tokenizer;
use dla_train::Random;
use dla_train::task::niah::{Item, Kind, NiahOptions, Puzzle, depths};
use dla_train::task::{Corpus, Niah, Split, Task};

/// A text whose sentences tell their number.
fn corpus() -> (tempfile::TempDir, Corpus) {
    let folder = tempfile::tempdir().expect("a folder");
    let text: String = (0..4000)
        .map(|i| format!("This is sentence number {i}. "))
        .collect();
    std::fs::write(folder.path().join("a.txt"), text).expect("a file");
    let corpus = Corpus::open(&[PathBuf::from(folder.path())]).expect("a text");
    (folder, corpus)
}

fn task(tokens: usize, kinds: &[Kind], whole_text: bool) -> Niah {
    let (_folder, corpus) = corpus();
    let options = NiahOptions {
        tokens,
        kinds: kinds.to_vec(),
        keys: None,
        values: None,
        whole_text,
    };
    Niah::new(options, Tokenizer::bytes(), 256, Some(&corpus)).expect("room for the needles")
}

/// Every needle of a text: key, value, and the place of its line or sentence among all.
fn needles(puzzle: &Puzzle) -> Vec<(String, String, usize)> {
    let (_, rest) = puzzle
        .prompt
        .split_once("afterwards.\n")
        .expect("an introduction");
    let (context, _) = rest.split_once("\nWhat are all").expect("a question");
    let mut found = Vec::new();
    for (at, part) in context
        .split("One of the special magic ")
        .enumerate()
        .skip(1)
    {
        let (head, tail) = part.split_once(" is: ").expect("a needle");
        let (_, key) = head.split_once(" for ").expect("a key");
        let value: String = tail.chars().take_while(|&c| c != '.').collect();
        found.push((key.to_owned(), value, at));
    }
    found
}

#[test]
fn every_kind_is_answered_by_its_text() {
    let task = task(3000, &Kind::ALL, false);
    for kind in Kind::ALL {
        let recipe = kind.recipe();
        for i in 0..10 {
            let puzzle = task.puzzle(kind, Split::Train, None, &mut Random::of(9, 0, i));
            let puzzle = puzzle.expect("a puzzle");
            assert_eq!(puzzle.values.len(), recipe.asked * recipe.values_per_key);
            let length = puzzle.prompt.len() + puzzle.answer.len();
            assert!((2800..=3001).contains(&length), "{}: {length}", kind.name());
            let needles = needles(&puzzle);
            let hidden = recipe.needles * recipe.values_per_key;
            match kind {
                Kind::Multikey2 | Kind::Multikey3 => assert!(needles.len() > 15),
                _ => assert_eq!(needles.len(), hidden, "{}", kind.name()),
            }
            let question = puzzle.prompt.rsplit_once("for ").expect("a question").1;
            let of_asked = needles.iter().filter(|(key, ..)| question.contains(key));
            let mut values: Vec<_> = of_asked.map(|(_, value, _)| value.clone()).collect();
            if kind == Kind::Multivalue {
                assert_eq!(values, puzzle.values, "in the text's order");
            }
            let mut expected = puzzle.values.clone();
            values.sort();
            expected.sort();
            assert_eq!(values, expected, "{}", kind.name());
            assert_eq!(puzzle.answer, format!(" {}.", puzzle.values.join(", ")));
        }
    }
}

#[test]
fn needles_lie_at_the_depth_asked_for() {
    let task = task(4000, &Kind::ALL, false);
    for depth in depths(40) {
        let random = &mut Random::of(1, 2, u64::from(depth));
        let puzzle = task.puzzle(Kind::Single2, Split::Held, Some(depth), random);
        let puzzle = puzzle.expect("a puzzle");
        assert_eq!(puzzle.depth, depth);
        let (_, rest) = puzzle
            .prompt
            .split_once("afterwards.\n")
            .expect("an introduction");
        let (context, _) = rest.split_once("\nWhat").expect("a question");
        let sentences: Vec<_> = context.split_inclusive(". ").collect();
        let place = sentences.iter().position(|s| s.starts_with("One of the"));
        assert_eq!(place, Some((sentences.len() - 1) * depth as usize / 100));
        // The haystack goes on behind the needle where it stopped, and is of the part held out.
        let numbers = sentences
            .iter()
            .filter_map(|s| s.strip_prefix("This is sentence number "));
        let numbers: Vec<usize> = numbers
            .map(|s| s.trim_end_matches(['.', ' ']).parse().expect("a number"))
            .collect();
        assert!(numbers.windows(2).all(|n| n[1] == n[0] + 1 || n[1] < n[0]));
        assert!(numbers.iter().all(|&n| n >= 3790), "{numbers:?}");
    }
}

#[test]
fn only_the_answer_is_a_target_unless_the_whole_text_is() {
    let only = task(1000, &[Kind::Single1], false);
    let whole = task(1000, &[Kind::Single1], true);
    let example = |task: &Niah| task.batch(Split::Train, 5, 6, 2).expect("a batch");
    let (only, whole) = (example(&only), example(&whole));
    assert_eq!(only.ids, whole.ids);
    let counted = |targets: &[u32]| -> String {
        let bytes = targets
            .iter()
            .filter(|&&id| id != u32::MAX)
            .map(|&id| id as u8);
        String::from_utf8(bytes.collect()).expect("ASCII")
    };
    let answer = counted(only.sequence(0).1);
    assert!(
        answer.len() == 9 && answer.starts_with(' ') && answer.ends_with('.'),
        "{answer}"
    );
    let text = counted(whole.sequence(0).1);
    assert!(text.starts_with("ome special magic") && text.ends_with(&answer));
    assert_eq!(whole.ids[1..900], whole.targets[..899]);
    // The last target comes after the last token that is read.
    assert!(text.len() <= 1000 && text.len() > 800, "{}", text.len());
}

#[test]
fn examples_depend_on_the_seed_and_their_place_only() {
    let task = task(1500, &Kind::ALL, false);
    let batch = |split, seed, number| task.batch(split, seed, number, 3).expect("a batch");
    assert_eq!(batch(Split::Train, 1, 7), batch(Split::Train, 1, 7));
    for other in [
        batch(Split::Train, 1, 8),
        batch(Split::Train, 2, 7),
        batch(Split::Held, 1, 7),
    ] {
        assert_ne!(other, batch(Split::Train, 1, 7));
    }
    let longer = task.batch(Split::Train, 1, 7, 5).expect("a batch");
    assert_eq!(longer.sequence(2), batch(Split::Train, 1, 7).sequence(2));
}

#[test]
fn other_items_can_be_hidden() {
    let options = NiahOptions {
        tokens: 900,
        kinds: vec![Kind::Single1],
        keys: Some(Item::Numbers),
        values: Some(Item::Words),
        whole_text: false,
    };
    let task = Niah::new(options, Tokenizer::bytes(), 256, None).expect("no text is needed");
    let random = &mut Random::of(0, 0, 0);
    let puzzle = task
        .puzzle(Kind::Single1, Split::Train, None, random)
        .expect("a puzzle");
    let (key, value, _) = needles(&puzzle).remove(0);
    assert!(key.bytes().all(|b| b.is_ascii_digit()) && value.contains('-'));
    assert!(puzzle.prompt.contains("special magic words"));
}

#[test]
fn what_cannot_be_made_is_refused() {
    let options = |tokens, kinds: &[Kind]| NiahOptions {
        tokens,
        kinds: kinds.to_vec(),
        keys: None,
        values: None,
        whole_text: false,
    };
    let refused = |options| {
        let error = Niah::new(options, Tokenizer::bytes(), 256, None).err();
        let error = error.expect("refused");
        assert!(error.is_input(), "{error}");
        error.argument().to_owned()
    };
    assert_eq!(refused(options(900, &[])), "kinds");
    assert_eq!(refused(options(900, &[Kind::Single2])), "files");
    assert_eq!(refused(options(200, &[Kind::Single1])), "length");
}
