//! Rows of weights in the device's layouts.

use dla_core::{Error, Result};
use half::f16;

/// Weights that share a scale.
pub(super) const SCALED: usize = 32;

/// f32 rows of `columns` values, each padded with zeros to `padded`.
pub(super) fn f32_rows(values: &[f32], columns: usize, padded: usize) -> Vec<u8> {
    let rows = padded_rows(values, columns, padded);
    bytemuck::cast_slice(&rows).to_vec()
}

/// The same in f16, rounded to nearest; `first_row` is told where a value is too large.
pub(super) fn f16_rows(
    values: &[f32],
    columns: usize,
    padded: usize,
    first_row: usize,
) -> Result<Vec<u8>> {
    let overflows = |w: f32| w.is_finite() && f16::from_f32(w).is_infinite();
    if let Some(at) = values.iter().position(|&w| overflows(w)) {
        let expected = format!("weights up to {} in f16", f16::MAX);
        let refused = refusal(expected, values, at, columns, first_row);
        return Err(refused.advise("keep this matrix in f32"));
    }
    let rows = padded_rows(values, columns, padded);
    let halves: Vec<f16> = rows.iter().map(|&w| f16::from_f32(w)).collect();
    Ok(bytemuck::cast_slice(&halves).to_vec())
}

/// The same in 8-bit integers, and the scales of every [`SCALED`] of them.
pub(super) fn i8_rows(
    values: &[f32],
    columns: usize,
    padded: usize,
    first_row: usize,
) -> Result<(Vec<u8>, Vec<u8>)> {
    if let Some(at) = values.iter().position(|w| !w.is_finite()) {
        let refused = refusal("finite weights in i8", values, at, columns, first_row);
        return Err(refused.advise("keep this matrix in f32"));
    }
    let rows = padded_rows(values, columns, padded);
    let (mut bytes, mut scales) = (Vec::with_capacity(rows.len()), Vec::new());
    for block in rows.chunks_exact(SCALED) {
        let largest = block.iter().fold(0.0f32, |most, w| most.max(w.abs()));
        let scale = largest / 127.0;
        // Devices may take smaller scales for 0.
        let scale = if scale < f32::MIN_POSITIVE {
            0.0
        } else {
            scale
        };
        scales.push(scale);
        let level = |w: f32| match scale {
            0.0 => 0,
            _ => (w / scale).round_ties_even() as i8,
        };
        bytes.extend(block.iter().map(|&w| level(w).cast_unsigned()));
    }
    Ok((bytes, bytemuck::cast_slice(&scales).to_vec()))
}

fn padded_rows(values: &[f32], columns: usize, padded: usize) -> Vec<f32> {
    let mut rows = vec![0.0; values.len() / columns * padded];
    for (row, values) in rows
        .chunks_exact_mut(padded)
        .zip(values.chunks_exact(columns))
    {
        row[..columns].copy_from_slice(values);
    }
    rows
}

fn refusal(
    expected: impl ToString,
    values: &[f32],
    at: usize,
    columns: usize,
    first_row: usize,
) -> Error {
    let (row, column) = (first_row + at / columns, at % columns);
    let got = format!("{} in row {row}, column {column}", values[at]);
    Error::input("matrix", "weights", expected, got)
}
