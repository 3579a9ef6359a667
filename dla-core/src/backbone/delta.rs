//! The gated delta rule: a token first erases what its key reads, then writes β k vᵀ.

use super::form::{Carry, Form, Step, decay_before, running_decay, seen};
use super::token::{Token, TokenGradient};
use crate::real::Real;
use crate::vector::{add_outer, add_scaled, dot, outer, row_product};

/// `S ← e^g (S − β k (kᵀS))`.
pub fn transition<R: Real>(token: &Token<'_, R>, state: &mut [R]) {
    let decay = token.g.exp();
    let mut w = vec![R::ZERO; token.v.len()];
    row_product(token.k, state, &mut w);
    for (row, &k) in state.chunks_exact_mut(w.len()).zip(token.k) {
        for (x, &w) in row.iter_mut().zip(&w) {
            *x = (decay * (*x - token.beta * k * w)).flushed();
        }
    }
}

/// With `dU = e^g dS'`, `w = kᵀS`, `y = kᵀdU`: `dg += ⟨dS', S'⟩`, `dβ −= y·w`,
/// `dk −= β (dU w + S y)`, `dS = dU − β k yᵀ`.
pub fn transition_backward<R: Real>(
    token: &Token<'_, R>,
    [before, after]: [&[R]; 2],
    d_state: &mut [R],
    gradient: &mut TokenGradient<R>,
) {
    gradient.g += dot(d_state, after);
    let decay = token.g.exp();
    for x in d_state.iter_mut() {
        *x *= decay;
    }
    let dv = token.v.len();
    let (mut w, mut y) = (vec![R::ZERO; dv], vec![R::ZERO; dv]);
    row_product(token.k, before, &mut w);
    row_product(token.k, d_state, &mut y);
    gradient.beta += -dot(&y, &w);
    let rows = before.chunks_exact(dv).zip(d_state.chunks_exact(dv));
    for (d_k, (before, d_u)) in gradient.k.iter_mut().zip(rows) {
        *d_k += -token.beta * (dot(d_u, &w) + dot(before, &y));
    }
    add_outer(d_state, -token.beta, token.k, &y);
}

/// `s = β k vᵀ`.
pub fn contribution<R: Real>(token: &Token<'_, R>, s: &mut [R]) {
    outer(s, token.beta, token.k, token.v);
}

/// The WY form: with `N = (I + tril₋₁(diag(β) KKᵀ ⊙ Γ))⁻¹ diag(β)` the chunk reads and writes as the
/// plain gate would, its sources mixed by N.
pub fn form<R: Real>(tokens: &[Token<'_, R>]) -> Form<R> {
    let (len, dk) = (tokens.len(), tokens[0].k.len());
    let a = running_decay(tokens);
    let mixing = mixing(tokens, &a);
    let mut form = Form {
        len,
        read: Vec::with_capacity(len * len),
        query: Vec::with_capacity(len * dk),
        probe: Vec::with_capacity(len * len),
        probe_query: Vec::with_capacity(len * dk),
        write: written_keys(tokens, &a, &mixing),
        carry: Carry::Scalar(R::ONE),
        steps: tokens.iter().map(Step::delta).collect(),
    };
    for (t, token) in tokens.iter().enumerate() {
        let read = mixed(&seen(tokens, &a, token.q, a[t], t + 1), &mixing, len);
        form.query
            .extend(left_of_entered(tokens, &a, token.q, a[t], &read[..=t]));
        form.read.extend(read);
        let before = decay_before(&a, t);
        let probe = mixed(&seen(tokens, &a, token.k, before, t), &mixing, len);
        form.probe_query
            .extend(left_of_entered(tokens, &a, token.k, before, &probe[..t]));
        form.probe.extend(probe);
    }
    form.carry = Carry::Matrix(product_of_transitions(tokens, &a, &form.write));
    form
}

/// N, by forward substitution, `[len, len]`, lower triangular.
fn mixing<R: Real>(tokens: &[Token<'_, R>], a: &[R]) -> Vec<R> {
    let len = tokens.len();
    let mut n = vec![R::ZERO; len * len];
    for (t, token) in tokens.iter().enumerate() {
        let row = mixed(&seen(tokens, a, token.k, a[t], t), &n, len);
        for (j, x) in row.into_iter().enumerate().take(t) {
            n[t * len + j] = -token.beta * x;
        }
        n[t * len + t] = token.beta;
    }
    n
}

/// The row `seen` times N, `[len]`. A source j only passes through tokens s ≥ j, so values that are
/// not finite stay with the tokens that they can reach.
fn mixed<R: Real>(seen: &[R], n: &[R], len: usize) -> Vec<R> {
    let mut row = vec![R::ZERO; len];
    for (s, &x) in seen.iter().enumerate() {
        add_scaled(&mut row[..=s], x, &n[s * len..=s * len + s]);
    }
    row
}

/// `e^{at} x − Σ_j row_j e^{A_j} k_j`: what `x` still reads of an entered state, `[key_dim]`.
fn left_of_entered<R: Real>(tokens: &[Token<'_, R>], a: &[R], x: &[R], at: R, row: &[R]) -> Vec<R> {
    let mut query: Vec<R> = x.iter().map(|&x| at.exp() * x).collect();
    for (j, &r) in row.iter().enumerate() {
        add_scaled(&mut query, -(r * a[j].exp()), tokens[j].k);
    }
    query
}

/// `K̃_j = Σ_{s≥j} e^{A_C − A_s} N_sj k_s`, `[len, key_dim]`.
fn written_keys<R: Real>(tokens: &[Token<'_, R>], a: &[R], n: &[R]) -> Vec<R> {
    let (len, dk) = (tokens.len(), tokens[0].k.len());
    let mut keys = vec![R::ZERO; len * dk];
    for (j, key) in keys.chunks_exact_mut(dk).enumerate() {
        for s in j..len {
            let scale = (a[len - 1] - a[s]).exp() * n[s * len + j];
            add_scaled(key, scale, tokens[s].k);
        }
    }
    keys
}

/// `e^{A_C} I − Σ_j K̃_j (e^{A_j} k_j)ᵀ`, `[key_dim, key_dim]`.
fn product_of_transitions<R: Real>(tokens: &[Token<'_, R>], a: &[R], write: &[R]) -> Vec<R> {
    let dk = tokens[0].k.len();
    let mut carry = vec![R::ZERO; dk * dk];
    for i in 0..dk {
        carry[i * dk + i] = a[tokens.len() - 1].exp();
    }
    for (j, token) in tokens.iter().enumerate() {
        let key = &write[j * dk..(j + 1) * dk];
        add_outer(&mut carry, -a[j].exp(), key, token.k);
    }
    carry
}
