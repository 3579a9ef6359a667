//! JSON as Python writes it, and its settings read with suspicion.

use std::str::FromStr;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::tensors::unique::UniqueNames;

/// The largest size that a setting may have: what the model multiplies stays far from overflow.
const MAX_SIZE: u64 = 1 << 20;

/// Parses a JSON object in which Python may have written the bare words `Infinity` and `NaN`.
pub(super) fn parse(file: &str, text: &str) -> Result<Map<String, Value>> {
    let refuse = |got: String| Error::input("load", file.to_owned(), "a JSON object", got);
    let text = without_bare_words(text);
    serde_json::from_str::<UniqueNames>(&text).map_err(|error| refuse(error.to_string()))?;
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(refuse("another value".into())),
        Err(error) => Err(refuse(error.to_string())),
    }
}

/// Puts `{"__float__":"Infinity"}` (as newer writers do) where a bare word stands outside strings.
fn without_bare_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['"', 'I', 'N']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let word = ["Infinity", "NaN"]
            .into_iter()
            .find(|word| from.starts_with(word));
        let len = match word {
            Some(word) => {
                let sign = if out.ends_with('-') { "-" } else { "" };
                out.truncate(out.len() - sign.len());
                out.push_str(&format!(r#"{{"__float__":"{sign}{word}"}}"#));
                word.len()
            }
            None => {
                let len = if from.starts_with('"') {
                    string_len(from)
                } else {
                    1
                };
                out.push_str(&from[..len]);
                len
            }
        };
        rest = &from[len..];
    }
    out + rest
}

/// Bytes of the string that `text` begins with, quotes included.
fn string_len(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The settings of one object; absent and `null` are the same.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    /// The file, as errors name it.
    file: &'static str,
    object: &'a Map<String, Value>,
    /// What errors call the object, with a dot behind, or nothing.
    prefix: &'static str,
}

impl<'a> Fields<'a> {
    /// The settings of config.json itself.
    pub(super) fn new(object: &'a Map<String, Value>) -> Self {
        Self::of("config.json", object)
    }

    /// The settings of `file` itself.
    pub(super) fn of(file: &'static str, object: &'a Map<String, Value>) -> Self {
        let prefix = "";
        Self {
            file,
            object,
            prefix,
        }
    }

    /// The settings of the object under `key`, if it is there.
    pub(super) fn section(&self, key: &str, prefix: &'static str) -> Result<Option<Self>> {
        let section = self.value(key).map(|value| match value {
            Value::Object(object) => Ok(Self {
                object,
                prefix,
                ..*self
            }),
            other => Err(self.refuse(key, "an object", other)),
        });
        section.transpose()
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Refuses every name outside `known`.
    pub(super) fn allow(&self, known: &[&str]) -> Result<()> {
        let unknown = self
            .object
            .keys()
            .find(|key| !known.contains(&key.as_str()));
        unknown.map_or(Ok(()), |key| {
            Err(self.refuse(
                key,
                "one of ".to_owned() + &known.join(", "),
                "an unknown name",
            ))
        })
    }

    /// A size, at least 1.
    pub(super) fn size(&self, key: &str) -> Result<usize> {
        let size = self.size_or_none(key)?;
        size.ok_or_else(|| self.refuse(key, "a size", "none"))
    }

    /// A size, at least 1, if it is there.
    pub(super) fn size_or_none(&self, key: &str) -> Result<Option<usize>> {
        let size = |value: &Value| match value.as_u64() {
            Some(size @ 1..=MAX_SIZE) => Ok(size as usize),
            _ => Err(self.refuse(key, format!("a size from 1 to {MAX_SIZE}"), value)),
        };
        self.value(key).map(size).transpose()
    }

    pub(super) fn flag(&self, key: &str, default: bool) -> Result<bool> {
        self.value(key).map_or(Ok(default), |value| {
            let flag = value.as_bool();
            flag.ok_or_else(|| self.refuse(key, "true or false", value))
        })
    }

    /// A token id, if it is there.
    pub(super) fn id(&self, key: &str, vocabulary: usize) -> Result<Option<u32>> {
        let id = |value| self.token(key, value, vocabulary, "a token id");
        self.value(key).map(id).transpose()
    }

    /// A token id or a list of them; none if they are not there.
    pub(super) fn ids(&self, key: &str, vocabulary: usize) -> Result<Vec<u32>> {
        let id = |value| self.token(key, value, vocabulary, "token ids");
        match self.value(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(ids)) => ids.iter().map(id).collect(),
            Some(one) => Ok(vec![id(one)?]),
        }
    }

    /// One id; errors call what is expected `what`.
    fn token(&self, key: &str, value: &Value, vocabulary: usize, what: &str) -> Result<u32> {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        let id = id.filter(|&id| (id as usize) < vocabulary);
        id.ok_or_else(|| {
            let expected = format!("{what} from 0 to {}", vocabulary.saturating_sub(1));
            let error = self.refuse(key, expected, value);
            error.advise("correct it, or set it to null where the model has no such token")
        })
    }

    /// A finite number.
    pub(super) fn number(&self, key: &str, default: f64) -> Result<f64> {
        let Some(value) = self.value(key) else {
            return Ok(default);
        };
        match self.float(key, value)? {
            number if number.is_finite() => Ok(number),
            number => Err(self.refuse(key, "a finite number", number)),
        }
    }

    /// An ε under a root or beside a denominator: at least 0, and finite in single precision.
    pub(super) fn epsilon(&self, key: &str, default: f64) -> Result<f64> {
        let number = self.number(key, default)?;
        match number >= 0.0 && (number as f32).is_finite() {
            true => Ok(number),
            false => Err(self.refuse(key, "at least 0, and finite in f32", number)),
        }
    }

    /// Two numbers in order, which may be infinite; NaN is none.
    pub(super) fn range(&self, key: &str, default: [f64; 2]) -> Result<[f32; 2]> {
        let [least, most] = match self.value(key) {
            None => default,
            Some(Value::Array(ends)) if ends.len() == 2 => {
                [self.float(key, &ends[0])?, self.float(key, &ends[1])?]
            }
            Some(other) => return Err(self.refuse(key, "two numbers", other)),
        };
        if least <= most {
            Ok([least as f32, most as f32])
        } else {
            Err(self.refuse(key, "the least, then the most", format!("{least}, {most}")))
        }
    }

    /// A word.
    pub(super) fn word(&self, key: &str) -> Result<Option<&'a str>> {
        let word = |value: &'a Value| {
            let word = value.as_str();
            word.ok_or_else(|| self.refuse(key, "a word", value))
        };
        self.value(key).map(word).transpose()
    }

    /// A word that stands for a value.
    pub(super) fn parsed<T: FromStr>(&self, key: &str, expected: &str) -> Result<Option<T>> {
        let parse = |word: &str| {
            let value = word.parse();
            value.map_err(|_| self.refuse(key, expected, word))
        };
        self.word(key)?.map(parse).transpose()
    }

    /// Refuses any value of `key` but those in `served`, with the reason.
    pub(super) fn only(&self, key: &str, served: &[Value], reason: &str) -> Result<()> {
        match self.value(key) {
            Some(value) if !served.contains(value) => {
                let words: Vec<_> = served.iter().map(Value::to_string).collect();
                let expected = match words.is_empty() {
                    true => "nothing".to_owned(),
                    false => words.join(" or "),
                };
                Err(
                    Error::unsupported("load", self.argument(key), expected, brief(value))
                        .advise(reason),
                )
            }
            _ => Ok(()),
        }
    }

    /// An error about the setting `key`.
    pub(super) fn refuse(&self, key: &str, expected: impl ToString, got: impl ToString) -> Error {
        Error::input("load", self.argument(key), expected, brief(got))
    }

    /// What errors call the setting `key`.
    fn argument(&self, key: &str) -> String {
        format!("{}, {}{key}", self.file, self.prefix)
    }

    fn value(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    fn float(&self, key: &str, value: &Value) -> Result<f64> {
        let word = value.get("__float__").and_then(Value::as_str);
        let number = match word {
            Some("Infinity") => Some(f64::INFINITY),
            Some("-Infinity") => Some(f64::NEG_INFINITY),
            _ => value.as_f64(),
        };
        number.ok_or_else(|| self.refuse(key, "a number", value))
    }
}

/// A value as errors show it: its beginning.
fn brief(value: impl ToString) -> String {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::{Fields, parse};

    #[test]
    fn infinity_in_every_spelling() {
        for word in ["Infinity", r#"{"__float__":"Infinity"}"#] {
            let text = format!(r#"{{"x": [-1.5, {word}], "y": "Infinity \" NaN", "z": "I"}}"#);
            let object = parse("config.json", &text).expect("valid");
            let range = Fields::new(&object).range("x", [0.0, 0.0]);
            assert_eq!(range, Ok([-1.5, f32::INFINITY]));
            assert_eq!(object["y"], "Infinity \" NaN");
        }
        let object = parse("config.json", r#"{"x": [-Infinity, 0]}"#).expect("valid");
        let range = Fields::new(&object).range("x", [0.0, 0.0]);
        assert_eq!(range, Ok([f32::NEG_INFINITY, 0.0]));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in [
            "",
            "[]",
            "I",
            "{\"",
            "{\"x\": Inf}",
            "{\"x\":1,\"x\":2}",
            "\"\\",
        ] {
            let error = parse("config.json", text).expect_err(text);
            assert!(error.is_input(), "{error}");
        }
    }
}
