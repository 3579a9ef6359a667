//! The decoders of a tokenizer.json one after the other, each token taken through as it comes.
//!
//! [`tokenizers::Decoder::decode_chain`] takes all tokens at once. What a stage makes of a token depends on little
//! else, so each stage here keeps that little, asks the crate for one token at a time, and gives what no later token
//! changes. The text is the crate's, but where the crate is wrong: an added token in a byte-level vocabulary is its
//! own text and not letters for bytes, and `Strip` takes text shorter than what it strips.

use tokenizers::decoders::strip::Strip;
use tokenizers::{Decoder as _, DecoderWrapper};

use crate::decoder::Runs;
use crate::json::byte_of;
use crate::utf8::Utf8;

/// A token on its way to text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    /// It was added to the vocabulary, so a byte-level vocabulary spells it as it is.
    pub(crate) added: bool,
}

/// All stages of one text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain<'a> {
    stages: Vec<Stage<'a>>,
}

/// One decoder, and what it has to know of the tokens before.
#[derive(Clone, Debug)]
enum Stage<'a> {
    /// A blank between two tokens.
    Joined { first: bool },
    /// Each token by itself.
    Each(&'a DecoderWrapper),
    /// Each token by itself, stripped.
    Stripped(&'a Strip),
    /// Each token by itself, the first in its own way.
    Placed {
        decoder: &'a DecoderWrapper,
        first: bool,
    },
    /// Equal neighbours are one.
    Distinct {
        decoder: &'a DecoderWrapper,
        last: Option<String>,
    },
    /// Each token by itself, the last in its own way.
    Ended {
        decoder: &'a DecoderWrapper,
        held: Option<String>,
    },
    /// Runs of byte tokens.
    Runs {
        decoder: &'a DecoderWrapper,
        run: Vec<String>,
    },
    /// The characters of byte tokens, as soon as they are complete.
    Characters(Utf8),
    /// Letters for bytes; all tokens become one.
    Letters(Utf8),
    /// The one token that all have become, stripped.
    Ends {
        strip: &'a Strip,
        /// Characters that may still be taken off the beginning.
        start: usize,
        /// What may be the end.
        held: String,
    },
    /// The one token that all have become, and what looks at all of it.
    Rest {
        decoders: Vec<&'a DecoderWrapper>,
        text: String,
    },
}

impl<'a> Chain<'a> {
    /// The stages of `decoder`, at their beginning.
    pub(crate) fn new(decoder: Option<&'a DecoderWrapper>, runs: Runs) -> Self {
        let Some(decoder) = decoder else {
            let stages = vec![Stage::Joined { first: true }];
            return Self { stages };
        };
        let (mut stages, mut fused) = (Vec::new(), false);
        for decoder in flat(decoder) {
            if let Some(Stage::Rest { decoders, .. }) = stages.last_mut() {
                decoders.push(decoder);
            } else if let DecoderWrapper::Fuse(_) = decoder {
                fused = true;
            } else if fused {
                stages.push(Stage::fused(decoder));
            } else {
                stages.push(Stage::new(decoder, runs));
                fused = matches!(decoder, DecoderWrapper::ByteLevel(_));
            }
        }
        Self { stages }
    }

    /// True when the tokens of the vocabulary are letters for bytes.
    pub(crate) fn spells_bytes(&self) -> bool {
        self.stages
            .iter()
            .any(|stage| matches!(stage, Stage::Letters(_)))
    }

    /// Takes a token in; gives the text that became certain.
    pub(crate) fn push(&mut self, token: Token) -> String {
        through(&mut self.stages, vec![token])
    }

    /// No more tokens will come: gives what was held back.
    pub(crate) fn finish(&mut self) -> String {
        let mut text = String::new();
        for at in 0..self.stages.len() {
            let (stage, later) = self.stages[at..].split_at_mut(1);
            text += &through(later, stage[0].finish());
        }
        text
    }
}

/// What `tokens` become in `stages`.
fn through(stages: &mut [Stage<'_>], mut tokens: Vec<Token>) -> String {
    for stage in stages {
        tokens = tokens
            .into_iter()
            .flat_map(|token| stage.push(token))
            .collect();
    }
    tokens.into_iter().map(|token| token.text).collect()
}

/// The decoders one after the other, those of sequences in their place.
fn flat(decoder: &DecoderWrapper) -> Vec<&DecoderWrapper> {
    match decoder {
        DecoderWrapper::Sequence(sequence) => {
            sequence.get_decoders().iter().flat_map(flat).collect()
        }
        one => vec![one],
    }
}

impl<'a> Stage<'a> {
    fn new(decoder: &'a DecoderWrapper, runs: Runs) -> Self {
        match decoder {
            DecoderWrapper::ByteLevel(_) => Self::Letters(Utf8::default()),
            DecoderWrapper::WordPiece(_) | DecoderWrapper::Metaspace(_) => Self::Placed {
                decoder,
                first: true,
            },
            DecoderWrapper::CTC(_) => Self::Distinct {
                decoder,
                last: None,
            },
            DecoderWrapper::BPE(_) => Self::Ended {
                decoder,
                held: None,
            },
            DecoderWrapper::ByteFallback(_) => match runs {
                Runs::Whole => Self::Runs {
                    decoder,
                    run: Vec::new(),
                },
                Runs::ByCharacter => Self::Characters(Utf8::default()),
            },
            DecoderWrapper::Strip(strip) => Self::Stripped(strip),
            DecoderWrapper::Replace(_) | DecoderWrapper::Fuse(_) | DecoderWrapper::Sequence(_) => {
                Self::Each(decoder)
            }
        }
    }

    /// One that takes the parts of a single token.
    fn fused(decoder: &'a DecoderWrapper) -> Self {
        match decoder {
            DecoderWrapper::Strip(strip) => Self::Ends {
                strip,
                start: strip.start,
                held: String::new(),
            },
            // Looks at one character at a time, and at every one as the first token's.
            DecoderWrapper::Metaspace(_) => Self::Each(decoder),
            other => Self::Rest {
                decoders: vec![other],
                text: String::new(),
            },
        }
    }

    fn push(&mut self, token: Token) -> Vec<Token> {
        let Token { text, added } = token;
        let texts = match self {
            Self::Joined { first: true } => {
                *self = Self::Joined { first: false };
                vec![text]
            }
            Self::Joined { first: false } => vec![format!(" {text}")],
            Self::Each(decoder) => decode(decoder, vec![text]),
            Self::Stripped(strip) => vec![stripped(strip, &text)],
            Self::Placed { decoder, first } => {
                if std::mem::take(first) {
                    decode(decoder, vec![text])
                } else {
                    let both = decode(decoder, vec![String::new(), text]);
                    both.into_iter().skip(1).collect()
                }
            }
            Self::Distinct { decoder, last } => match last.replace(text.clone()) {
                Some(last) if last == text => Vec::new(),
                _ => decode(decoder, vec![text]),
            },
            Self::Ended { decoder, held } => match held.replace(text) {
                Some(held) => {
                    let both = decode(decoder, vec![held, String::new()]);
                    both.into_iter().take(1).collect()
                }
                None => Vec::new(),
            },
            Self::Runs { run, .. } if byte_token(&text).is_some() => {
                run.push(text);
                Vec::new()
            }
            Self::Runs { .. } => {
                let mut tokens = self.finish();
                tokens.push(Token { text, added });
                return tokens;
            }
            Self::Characters(utf8) => match byte_token(&text) {
                Some(byte) => some(utf8.push(&[byte])),
                None => some(utf8.finish()).into_iter().chain([text]).collect(),
            },
            Self::Letters(utf8) => some(utf8.push(&bytes(text, added))),
            Self::Ends { strip, start, held } => {
                held.push_str(trimmed(&text, strip.content, start));
                let end = held.split_off(held.len() - end(held, strip));
                some(std::mem::replace(held, end))
            }
            Self::Rest { text: all, .. } => {
                all.push_str(&text);
                Vec::new()
            }
        };
        let token = |text| Token { text, added };
        texts.into_iter().map(token).collect()
    }

    /// No more tokens will come.
    fn finish(&mut self) -> Vec<Token> {
        let texts = match self {
            Self::Ended { decoder, held } => match held.take() {
                Some(held) => decode(decoder, vec![held]),
                None => Vec::new(),
            },
            Self::Runs { decoder, run } => decode(decoder, std::mem::take(run)),
            Self::Characters(utf8) | Self::Letters(utf8) => some(utf8.finish()),
            Self::Ends { strip, held, .. } => {
                held.truncate(held.len() - end(held, strip));
                some(std::mem::take(held))
            }
            Self::Rest { decoders, text } => {
                let decoders = decoders.iter();
                let all = vec![std::mem::take(text)];
                decoders.fold(all, |tokens, decoder| decode(decoder, tokens))
            }
            Self::Joined { .. }
            | Self::Each(_)
            | Self::Stripped(_)
            | Self::Placed { .. }
            | Self::Distinct { .. } => Vec::new(),
        };
        let token = |text| Token { text, added: false };
        texts.into_iter().map(token).collect()
    }
}

/// A text, if it is any.
fn some(text: String) -> Vec<String> {
    if text.is_empty() {
        Vec::new()
    } else {
        vec![text]
    }
}

/// What `decoder` makes of `tokens`: nothing of none, which it need not stand, and of what it refuses.
fn decode(decoder: &DecoderWrapper, tokens: Vec<String>) -> Vec<String> {
    match decoder {
        _ if tokens.is_empty() => tokens,
        DecoderWrapper::Strip(strip) => tokens.iter().map(|text| stripped(strip, text)).collect(),
        decoder => decoder.decode_chain(tokens).unwrap_or_default(),
    }
}

/// `text` without what `strip` takes off both ends.
fn stripped(strip: &Strip, text: &str) -> String {
    let kept = trimmed(text, strip.content, &mut strip.start.clone());
    kept[..kept.len() - end(kept, strip)].to_owned()
}

/// `text` without the `content` that it begins with, at most `most` of it; `most` is what may still follow.
fn trimmed<'t>(text: &'t str, content: char, most: &mut usize) -> &'t str {
    text.trim_start_matches(|c| {
        let taken = *most > 0 && c == content;
        *most = if taken { *most - 1 } else { 0 };
        taken
    })
}

/// Bytes that `strip` takes off the end of `text`.
fn end(text: &str, strip: &Strip) -> usize {
    let letters = text.chars().rev().take(strip.stop);
    let taken = letters.take_while(|&c| c == strip.content);
    taken.map(char::len_utf8).sum()
}

/// The byte of `<0x41>`.
fn byte_token(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    // As the crate has it: two bytes of digits, or a sign and a digit.
    let digits = Some(digits).filter(|digits| digits.len() == 2)?;
    u8::from_str_radix(digits, 16).ok()
}

/// The bytes of a token in GPT-2's alphabet; one that is not, or was added, is its own text.
fn bytes(token: String, added: bool) -> Vec<u8> {
    let bytes = || token.chars().map(byte_of).collect::<Option<Vec<u8>>>();
    let bytes = if added { None } else { bytes() };
    bytes.unwrap_or_else(|| token.into_bytes())
}
