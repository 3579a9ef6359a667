//! Bytes to text as they come.

/// What may still become a character: the start of a UTF-8 sequence, at most three bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Utf8 {
    partial: Vec<u8>,
}

impl Utf8 {
    /// Takes `bytes` in; gives the text that became certain. Bytes that cannot become a character
    /// are U+FFFD, as [`String::from_utf8_lossy`] counts them.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        self.partial.extend_from_slice(bytes);
        let whole = self.partial.len() - unfinished(&self.partial);
        let text = String::from_utf8_lossy(&self.partial[..whole]).into_owned();
        self.partial.drain(..whole);
        text
    }

    /// No more bytes will come: what was held back is U+FFFD.
    pub(crate) fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.partial).into_owned();
        self.partial.clear();
        text
    }
}

/// Bytes at the end that are a character's beginning.
fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last();
    let invalid = last.map_or(&[][..], |chunk| chunk.invalid());
    // Whether more bytes could complete it: only then is an error without a length.
    match std::str::from_utf8(invalid) {
        Err(error) if error.error_len().is_none() => invalid.len(),
        _ => 0,
    }
}
