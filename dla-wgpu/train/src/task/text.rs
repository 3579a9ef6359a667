//! Windows of plain text.

use dla_core::{Error, Result};
use dla_text::Tokenizer;

use super::{Corpus, Split, Task};
use crate::batch::Example;
use crate::random::Random;

/// Windows of T + 1 tokens from anywhere in the texts; every token but the first is to be predicted.
#[derive(Clone, Debug)]
pub struct Text {
    tokens: usize,
    vocabulary: usize,
    fingerprint: u64,
    train: Part,
    held: Part,
}

/// The tokens of one part of every work.
#[derive(Clone, Debug)]
struct Part {
    works: Vec<Vec<u32>>,
    /// The windows of each work.
    windows: Vec<u64>,
}

impl Text {
    /// Windows of `tokens` tokens and the one after them.
    ///
    /// # Errors
    /// When no work has a window in one of its parts, and texts that the tokenizer does not take.
    pub fn new(corpus: &Corpus, tokenizer: &Tokenizer, tokens: usize) -> Result<Self> {
        let part = |split| Part::new(corpus.tokens(split, tokenizer)?, tokens, split);
        let (train, held) = (part(Split::Train)?, part(Split::Held)?);
        let ids = [&train, &held]
            .into_iter()
            .flat_map(|part| part.works.iter());
        let largest = ids.flatten().max().map_or(0, |&id| id as usize);
        Ok(Self {
            tokens,
            vocabulary: if tokenizer.is_bytes() {
                256
            } else {
                largest + 1
            },
            fingerprint: corpus.fingerprint(),
            train,
            held,
        })
    }
}

impl Part {
    fn new(works: Vec<Vec<u32>>, tokens: usize, split: Split) -> Result<Self> {
        let windows = |work: &Vec<u32>| work.len().saturating_sub(tokens) as u64;
        let windows: Vec<u64> = works.iter().map(windows).collect();
        if tokens == 0 || windows.iter().sum::<u64>() == 0 {
            let longest = works.iter().map(Vec::len).max().unwrap_or(0);
            let part = match split {
                Split::Train => "part for training",
                Split::Held => "part that is held out",
            };
            if longest < 2 {
                let expected = format!("a text whose {part} has at least 2 tokens");
                let error = Error::input("train", "data.files", expected, longest);
                return Err(error.advise("take longer texts"));
            }
            let expected = format!(
                "1 to {} tokens, for the longest {part} of a text has {longest}",
                longest - 1
            );
            return Err(Error::input("train", "data.length", expected, tokens));
        }
        Ok(Self { works, windows })
    }

    /// A window, each equally likely.
    fn window(&self, tokens: usize, random: &mut Random) -> &[u32] {
        let mut at = random.below(self.windows.iter().sum());
        for (work, &windows) in self.works.iter().zip(&self.windows) {
            if at < windows {
                return &work[at as usize..][..tokens + 1];
            }
            at -= windows;
        }
        unreachable!("the draw is below the sum")
    }
}

impl Task for Text {
    fn example(&self, split: Split, random: &mut Random) -> Result<Example> {
        let part = match split {
            Split::Train => &self.train,
            Split::Held => &self.held,
        };
        let window = part.window(self.tokens, random);
        Ok(Example {
            ids: window[..self.tokens].to_vec(),
            targets: window[1..].to_vec(),
        })
    }

    fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

#[cfg(test)]
mod tests {
    use super::{Corpus, Text};
    use crate::task::{Split, Task};
    use dla_text::Tokenizer;

    fn corpus(text: &str) -> (tempfile::TempDir, Corpus) {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.txt"), text).expect("a file");
        let corpus = Corpus::open(&[folder.path().to_owned()]).expect("a text");
        (folder, corpus)
    }

    #[test]
    fn windows_are_slices_of_their_part() {
        let text: String = (0..2000)
            .map(|i| char::from(b'a' + (i * i % 23) as u8))
            .collect();
        let (_folder, corpus) = corpus(&text);
        let task = Text::new(&corpus, &Tokenizer::bytes(), 30).expect("long enough");
        for (split, part) in [(Split::Train, &text[..1900]), (Split::Held, &text[1900..])] {
            let batch = task.batch(split, 3, 4, 8).expect("a batch");
            assert_eq!(batch, task.batch(split, 3, 4, 8).expect("the same"));
            assert_ne!(batch, task.batch(split, 3, 5, 8).expect("another"));
            for i in 0..8 {
                let (ids, targets) = batch.sequence(i);
                assert_eq!(ids[1..], targets[..29]);
                let bytes: Vec<u8> = ids.iter().map(|&id| id as u8).collect();
                let window = String::from_utf8(bytes).expect("ASCII");
                assert!(part.contains(&window), "{window}");
            }
        }
    }

    #[test]
    fn texts_that_are_too_short_are_refused() {
        let (_folder, corpus) = corpus(&"x".repeat(400));
        assert!(Text::new(&corpus, &Tokenizer::bytes(), 19).is_ok());
        let error = Text::new(&corpus, &Tokenizer::bytes(), 20).expect_err("held out: 20 tokens");
        assert!(
            error.is_input() && error.argument() == "data.length",
            "{error}"
        );
        assert!(Text::new(&corpus, &Tokenizer::bytes(), 0).is_err());
    }
}
