//! Texts in sentences, which needles lie between.

use crate::random::Random;
use crate::task::{Corpus, Split};

/// The longest sentence in bytes; longer ones are cut at a blank.
const LONGEST: usize = 400;

/// The sentences of both parts of the texts.
#[derive(Clone, Debug)]
pub(super) struct Sentences {
    train: Vec<String>,
    held: Vec<String>,
}

impl Sentences {
    /// Those of these texts, white space made single blanks.
    pub(super) fn of(corpus: &Corpus) -> Self {
        let part = |split| {
            let texts = corpus.parts(split).map(String::from_utf8_lossy);
            texts.flat_map(|text| split_text(&text)).collect()
        };
        Self {
            train: part(Split::Train),
            held: part(Split::Held),
        }
    }

    /// True when one of the parts has none.
    pub(super) fn is_empty(&self) -> bool {
        self.train.is_empty() || self.held.is_empty()
    }

    /// Sentences in their order from a random one on, round and round.
    pub(super) fn starting_anywhere(
        &self,
        split: Split,
        random: &mut Random,
    ) -> impl Iterator<Item = String> + use<'_> {
        let part = match split {
            Split::Train => &self.train,
            Split::Held => &self.held,
        };
        let start = random.index(part.len());
        part.iter().cycle().skip(start).cloned()
    }
}

/// The sentences of a text: each ends in . ! or ? before white space.
fn split_text(text: &str) -> Vec<String> {
    let (mut sentences, mut sentence) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        if !sentence.is_empty() {
            sentence.push(' ');
        }
        sentence.push_str(word);
        let closed = word.trim_end_matches(['"', '\'', ')', ']', '”', '’']);
        if closed.ends_with(['.', '!', '?']) || sentence.len() >= LONGEST {
            sentences.push(std::mem::take(&mut sentence));
        }
    }
    if !sentence.is_empty() {
        sentences.push(sentence);
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::split_text;

    #[test]
    fn sentences_end_at_their_marks() {
        let text = "To be,\n or not to be?  That is \"the question.\"\n\nv 1.5 is no end";
        let expected = [
            "To be, or not to be?",
            "That is \"the question.\"",
            "v 1.5 is no end",
        ];
        assert_eq!(split_text(text), expected);
        assert!(
            split_text(&"word ".repeat(1000))
                .iter()
                .all(|s| s.len() < 410)
        );
    }
}
