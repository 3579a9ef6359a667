//! The generated text: decoded, cut at stop strings, streamed.

use dla_core::Result;
use dla_text::{Decoder, Stop, Tokenizer};

use crate::report;

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// As many tokens as were asked for.
    MaxTokens,
    /// As many tokens as there are where nothing else ends the text.
    Default,
    /// The model ended the text.
    EndOfText,
    /// A stop string came.
    StopString,
    /// Nobody reads stdout any more.
    Unread,
}

impl Ending {
    /// For machines.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::MaxTokens | Self::Default => "max-tokens",
            Self::EndOfText => "end-of-text",
            Self::StopString => "stop-string",
            Self::Unread => "unread",
        }
    }

    /// For people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::MaxTokens => "ended at --max-tokens",
            Self::Default => {
                "the model's files name no end of text; --max-tokens says how far it goes"
            }
            Self::EndOfText => "the model ended the text",
            Self::StopString => "ended at a stop string",
            Self::Unread => "nobody reads any more",
        }
    }
}

/// What has been generated.
pub(super) struct Text<'a> {
    tokenizer: &'a Tokenizer,
    decoder: Decoder<'a>,
    stop: Stop,
    streams: bool,
    ids: Vec<u32>,
    /// What each id added to the text, before stop strings.
    pieces: Vec<String>,
    text: String,
}

impl<'a> Text<'a> {
    /// Nothing yet, after `prompt`; `streams` to stdout or only gathers.
    pub(super) fn new(tokenizer: &'a Tokenizer, prompt: &[u32], stop: Stop, streams: bool) -> Self {
        Self {
            tokenizer,
            decoder: tokenizer.decoder(prompt),
            stop,
            streams,
            ids: Vec::new(),
            pieces: Vec::new(),
            text: String::new(),
        }
    }

    /// Takes a token in; says if the text ends with it.
    pub(super) fn push(&mut self, id: u32) -> Result<Option<Ending>> {
        self.ids.push(id);
        let piece = self.decoder.push(id);
        let text = self.stop.push(&piece);
        self.pieces.push(piece);
        let read = self.give(&text)?;
        Ok(if self.stop.hit().is_some() {
            Some(Ending::StopString)
        } else if self.tokenizer.is_end(id) {
            self.finish()?;
            Some(Ending::EndOfText)
        } else {
            (!read).then_some(Ending::Unread)
        })
    }

    /// No more tokens will come: gives what was held back.
    pub(super) fn finish(&mut self) -> Result<()> {
        let rest = self.decoder.finish();
        let rest = self.stop.push(&rest) + &self.stop.finish();
        self.give(&rest).map(|_| ())
    }

    /// False when nobody reads.
    fn give(&mut self, text: &str) -> Result<bool> {
        self.text.push_str(text);
        if self.streams && !text.is_empty() {
            return report::piece(text);
        }
        Ok(true)
    }

    /// True when the text went to stdout.
    pub(super) fn streams(&self) -> bool {
        self.streams
    }

    /// The tokens, the end of the text among them.
    pub(super) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// What each token added, stop strings included.
    pub(super) fn pieces(&self) -> &[String] {
        &self.pieces
    }

    /// Counts tokens that the tokenizer.json does not have, in words.
    pub(super) fn unknown(&self) -> Option<String> {
        let unknown = |id: &&u32| !self.tokenizer.contains(**id);
        let first = *self.ids.iter().find(unknown)?;
        let (count, all) = (self.ids.iter().filter(unknown).count(), self.ids.len());
        (!self.tokenizer.is_bytes()).then(|| {
            format!(
                "{count} of the {all} tokens have no text, the first of them {first}: \
                 the model has more tokens than its tokenizer.json"
            )
        })
    }

    /// The text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The stop string that ended it.
    pub(super) fn stop_string(&self) -> Option<&str> {
        self.stop.hit()
    }
}
