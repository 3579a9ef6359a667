//! The generated text: decoded, cut at stop strings, streamed.

use dla_core::Result;
use dla_text::{Decoder, Stop, Tokenizer};

use crate::report;

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// As many tokens as were asked for.
    MaxTokens,
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
            Self::MaxTokens => "max-tokens",
            Self::EndOfText => "end-of-text",
            Self::StopString => "stop-string",
            Self::Unread => "unread",
        }
    }

    /// For people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::MaxTokens => "ended at --max-tokens",
            Self::EndOfText => "the model ended the text",
            Self::StopString => "ended at a stop string",
            Self::Unread => "nobody reads any more",
        }
    }
}

/// What has been generated.
pub(super) struct Text<'a> {
    decoder: Decoder<'a>,
    stop: Stop,
    end: Option<u32>,
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
            decoder: tokenizer.decoder(prompt),
            stop,
            end: tokenizer.end(),
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
        } else if Some(id) == self.end {
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

    /// The text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The stop string that ended it.
    pub(super) fn stop_string(&self) -> Option<&str> {
        self.stop.hit()
    }
}
