//! Safetensors files of f32, written array by array.

use std::io::{Result, Write};

use safetensors::Dtype;
use serde_json::{Map, Value, json};

/// Writes a safetensors file of f32 arrays, each with its name and its shape, which must fit its values.
///
/// # Errors
/// What `out` refuses.
///
/// ```
/// use dla_core::tensors::{TensorFile, write};
/// let mut bytes = Vec::new();
/// write(&mut bytes, &[("x", &[2, 1], &[0.5, -1.0])])?;
/// let file = TensorFile::parse("x.safetensors".into(), bytes)?;
/// assert_eq!(file.require("x")?.widened("", &[2, 1])?, [0.5, -1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(out: &mut impl Write, tensors: &[(&str, &[usize], &[f32])]) -> Result<()> {
    let (mut entries, mut start) = (Map::new(), 0);
    entries.insert("__metadata__".into(), json!({ "format": "pt" }));
    for (name, shape, values) in tensors {
        let end = start + 4 * values.len();
        let entry = json!({ "dtype": Dtype::F32, "shape": shape, "data_offsets": [start, end] });
        entries.insert((*name).into(), entry);
        start = end;
    }
    let mut header = Value::Object(entries).to_string();
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    for (.., values) in tensors {
        for piece in values.chunks(1 << 16) {
            let bytes: Vec<u8> = piece.iter().flat_map(|x| x.to_le_bytes()).collect();
            out.write_all(&bytes)?;
        }
    }
    Ok(())
}
