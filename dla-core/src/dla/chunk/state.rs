//! Stage 6: the states at a chunk's end, each place written once and each token read once.

use super::{Places, Slot};
use crate::backbone::form::Carry;
use crate::backbone::{Form, Token};
use crate::real::Real;
use crate::vector::{add_outer, add_scaled, magnitude, row_product};

/// Takes the states from a chunk's start to its end: each of `slots` becomes the carried sum of the
/// entered states and the written tokens of its span.
///
/// Going from the oldest slot to the youngest this is safe in place: a place that a slot takes over
/// was given up by a state that an older slot has absorbed.
pub fn chunk_state<R: Real>(
    form: &Form<R>,
    tokens: &[Token<'_, R>],
    entered: &Places<R>,
    slots: Vec<Slot<R>>,
) -> Places<R> {
    let mut matrices = entered.matrices.clone();
    let before = entered.slots.len();
    let ends = slots
        .iter()
        .skip(1)
        .map(|slot| slot.first)
        .chain([before + form.len]);
    for (slot, end) in slots.iter().zip(ends) {
        let mut sum = vec![R::ZERO; matrices[slot.place].len()];
        for source in slot.first..end {
            match source.checked_sub(before) {
                Some(j) => add_outer(&mut sum, R::ONE, written_key(form, j), tokens[j].v),
                None => add_carried(
                    &form.carry,
                    &matrices[entered.slots[source].place],
                    &mut sum,
                ),
            }
        }
        sum.iter_mut().for_each(|x| *x = x.flushed());
        matrices[slot.place] = sum;
    }
    Places { matrices, slots }
}

/// K̃_j.
fn written_key<R>(form: &Form<R>, j: usize) -> &[R] {
    let key_dim = form.write.len() / form.len;
    &form.write[j * key_dim..(j + 1) * key_dim]
}

/// `sum +=` the entered `state` taken through the chunk.
fn add_carried<R: Real>(carry: &Carry<R>, state: &[R], sum: &mut [R]) {
    match carry {
        Carry::Scalar(scale) => add_scaled(sum, *scale, state),
        Carry::Matrix(matrix) => {
            let key_dim = matrix.len().isqrt();
            let mut row = vec![R::ZERO; state.len() / key_dim];
            let size = magnitude(state);
            let rows = sum.chunks_exact_mut(row.len());
            for (sum, m) in rows.zip(matrix.chunks_exact(key_dim)) {
                if !(magnitude(m) * size).is_negligible() {
                    row_product(m, state, &mut row);
                    add_scaled(sum, R::ONE, &row);
                }
            }
        }
    }
}
