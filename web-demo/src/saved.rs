//! A saved sequence: the model's session with what the next token is drawn from.

use dla_core::session::{another_version, seal, unseal};
use dla_core::{Error, Result};

/// What errors call a session.
const OP: &str = "session";
/// The first bytes.
const MAGIC: [u8; 4] = *b"DLAW";
/// The version of the layout that follows; 1 had no checksum.
const VERSION: u32 = 2;
/// The most ids kept.
const MOST_IDS: usize = 8;

/// All numbers little-endian: `"DLAW"`, version u32, the last ids (count u32, ids u32), the logits after the last token
/// (count u32, f32), then the bytes of the model's session; at the end the checksum of all that ([`seal`]).
pub(crate) fn write(recent: &[u32], logits: &[f32], session: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((recent.len() as u32).to_le_bytes());
    bytes.extend(recent.iter().flat_map(|id| id.to_le_bytes()));
    bytes.extend((logits.len() as u32).to_le_bytes());
    bytes.extend(logits.iter().flat_map(|logit| logit.to_le_bytes()));
    bytes.extend(session);
    seal(bytes)
}

/// The last ids, the logits and the session's bytes. A session that another backend saved has neither
/// of the first two: it needs a token before it can generate.
///
/// # Errors
/// For bytes that [`write`] does not write for a model of this vocabulary.
pub(crate) fn read(bytes: &[u8], vocabulary: usize) -> Result<(Vec<u32>, Vec<f32>, &[u8])> {
    let Some(mut rest) = bytes.strip_prefix(&MAGIC) else {
        return Ok((Vec::new(), Vec::new(), bytes));
    };
    let version = word(&mut rest)?;
    if version != VERSION {
        return Err(another_version(OP, VERSION, version));
    }
    let begin = bytes.len() - rest.len();
    rest = unseal(OP, bytes)?.get(begin..).unwrap_or_default();
    let ids = words(&mut rest, "ids", |count| count <= MOST_IDS)?;
    let fits = |count| count == 0 || count == vocabulary;
    let logits = words(&mut rest, "logits", fits)?;
    let logits = logits.into_iter().map(f32::from_bits).collect();
    Ok((ids, logits, rest))
}

fn words(rest: &mut &[u8], what: &'static str, fits: impl Fn(usize) -> bool) -> Result<Vec<u32>> {
    let count = word(rest)? as usize;
    if !fits(count) {
        return Err(refused(what, "as many as this model has", count));
    }
    (0..count).map(|_| word(rest)).collect()
}

fn word(rest: &mut &[u8]) -> Result<u32> {
    let (word, after) = rest
        .split_first_chunk()
        .ok_or_else(|| refused("bytes", "4 more", rest.len()))?;
    *rest = after;
    Ok(u32::from_le_bytes(*word))
}

fn refused(argument: &'static str, expected: impl ToString, got: impl ToString) -> Error {
    Error::file(OP, argument, expected, got)
}

#[cfg(test)]
mod tests {
    use super::{read, write};

    #[test]
    fn what_was_written_is_read_and_nothing_shorter() {
        let bytes = write(&[7, 8], &[0.5, -1.0], b"DLAM");
        let whole = read(&bytes, 2);
        assert_eq!(
            whole.ok(),
            Some((vec![7, 8], vec![0.5, -1.0], &b"DLAM"[..]))
        );
        for len in 4..bytes.len() {
            assert!(
                read(&bytes[..len], 2).is_err_and(|error| error.is_file()),
                "{len}"
            );
        }
        for at in 4..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            assert!(
                read(&changed, 2).is_err_and(|error| error.is_file()),
                "byte {at} changed"
            );
        }
        assert!(read(&bytes, 3).is_err(), "logits of another vocabulary");
        let other = read(b"DLAM", 2);
        assert_eq!(other.ok(), Some((vec![], vec![], &b"DLAM"[..])));
    }
}
