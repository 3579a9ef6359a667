//! Token ids to text as they come.

#[cfg(feature = "json")]
use crate::chain::Chain;
use crate::tokenizer::{Kind, Tokenizer};
use crate::utf8::Utf8;

/// Turns ids into text one by one; the pieces together are the text of all ids.
///
/// That text is the tokenizer's decode of all ids from where it departs from the decode of the ids before, special
/// tokens left out: the same for every way to take the ids in. What a later id may change is held back: the bytes of
/// a character that have not all come, a run of byte tokens (`<0x41>`) that has not ended. Bytes that are no character
/// become U+FFFD. Ids without text (special tokens, padding of the vocabulary) give nothing.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    source: Source<'a>,
    /// The end of the text before as that text alone would have it; what comes has to depart from it.
    before: String,
}

/// The text of all ids.
#[derive(Clone, Debug)]
struct Source<'a> {
    tokenizer: &'a Tokenizer,
    /// Where tokens are bytes.
    utf8: Utf8,
    /// Where a tokenizer.json says what tokens are.
    #[cfg(feature = "json")]
    chain: Chain<'a>,
}

impl Tokenizer {
    /// Turns the ids that follow `before` into text as they come.
    ///
    /// The text of `before` is not given; it settles whether a word goes on and where a character begins.
    pub fn decoder(&self, before: &[u32]) -> Decoder<'_> {
        let mut source = Source::of(self, Runs::Whole);
        for &id in before {
            source.push(id);
        }
        let before = source.clone().finish();
        Decoder { source, before }
    }

    /// The text of `ids`, none before them, in its smallest pieces: each with the number of ids that it takes, and
    /// only whole characters. Differs from a [`Decoder`]'s text where byte tokens are no characters.
    pub fn pieces(&self, ids: &[u32]) -> Vec<(usize, String)> {
        let mut source = Source::of(self, Runs::ByCharacter);
        let (mut pieces, mut taken) = (Vec::new(), 0);
        for &id in ids {
            let text = source.push(id);
            taken += 1;
            if !text.is_empty() {
                pieces.push((taken, text));
                taken = 0;
            }
        }
        if taken > 0 {
            pieces.push((taken, source.finish()));
        }
        pieces
    }
}

impl Decoder<'_> {
    /// Takes `id` in; gives the text that became certain, which may be none.
    pub fn push(&mut self, id: u32) -> String {
        let text = self.source.push(id);
        self.beyond(text)
    }

    /// No more ids will come: gives what was held back.
    pub fn finish(&mut self) -> String {
        let text = self.source.finish();
        self.beyond(text)
    }

    /// The part of `text` that is not the end of the text before.
    fn beyond(&mut self, mut text: String) -> String {
        let pairs = text.chars().zip(self.before.chars());
        let same = pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8());
        let same = same.sum();
        if same < text.len() {
            self.before.clear();
        } else {
            self.before.drain(..same);
        }
        text.split_off(same)
    }
}

/// How runs of byte tokens (`<0x41>`) become characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    /// As tokenizers have them: a run in which any byte is no character is U+FFFD for each of its bytes.
    Whole,
    /// Each character by itself, as soon as it is complete.
    ByCharacter,
}

impl<'a> Source<'a> {
    #[cfg_attr(not(feature = "json"), allow(unused_variables))]
    fn of(tokenizer: &'a Tokenizer, runs: Runs) -> Self {
        Self {
            tokenizer,
            utf8: Utf8::default(),
            #[cfg(feature = "json")]
            chain: match &tokenizer.kind {
                Kind::Bytes => Chain::default(),
                Kind::Json(json) => json.chain(runs),
            },
        }
    }

    fn push(&mut self, id: u32) -> String {
        match &self.tokenizer.kind {
            Kind::Bytes => match u8::try_from(id) {
                Ok(byte) => self.utf8.push(&[byte]),
                Err(_) => String::new(),
            },
            #[cfg(feature = "json")]
            Kind::Json(json) => match json.token(id) {
                Some(token) => self.chain.push(token),
                None => String::new(),
            },
        }
    }

    fn finish(&mut self) -> String {
        match &self.tokenizer.kind {
            Kind::Bytes => self.utf8.finish(),
            #[cfg(feature = "json")]
            Kind::Json(_) => self.chain.finish(),
        }
    }
}
