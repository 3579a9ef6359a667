//! A scalar gate, as in Mamba-2: every state decays by e^g, a token writes k vᵀ.

use super::form::{Carry, Form, Step, decay_before, running_decay, seen};
use super::token::{Token, TokenGradient};
use crate::real::Real;
use crate::vector::{dot, outer};

/// `S ← e^g S`.
pub fn transition<R: Real>(token: &Token<'_, R>, state: &mut [R]) {
    let decay = token.g.exp();
    for x in state {
        *x = (*x * decay).flushed();
    }
}

/// `dg += ⟨dS', S'⟩`, `dS = e^g dS'`.
pub fn transition_backward<R: Real>(
    token: &Token<'_, R>,
    [_, after]: [&[R]; 2],
    d_state: &mut [R],
    gradient: &mut TokenGradient<R>,
) {
    gradient.g += dot(d_state, after);
    transition(token, d_state);
}

/// `s = k vᵀ`.
pub fn contribution<R: Real>(token: &Token<'_, R>, s: &mut [R]) {
    outer(s, R::ONE, token.k, token.v);
}

/// `read_tj = e^{A_t − A_j} q_t·k_j`; entered states and keys only decay.
pub fn form<R: Real>(tokens: &[Token<'_, R>]) -> Form<R> {
    let len = tokens.len();
    let a = running_decay(tokens);
    let end = a[len - 1];
    let mut form = Form {
        len,
        read: vec![R::ZERO; len * len],
        query: Vec::new(),
        probe: vec![R::ZERO; len * len],
        probe_query: Vec::new(),
        write: Vec::new(),
        carry: Carry::Scalar(end.exp()),
        steps: tokens.iter().map(Step::decay).collect(),
    };
    for (t, token) in tokens.iter().enumerate() {
        let before = decay_before(&a, t);
        let row = t * len;
        form.read[row..=row + t].copy_from_slice(&seen(tokens, &a, token.q, a[t], t + 1));
        form.probe[row..row + t].copy_from_slice(&seen(tokens, &a, token.k, before, t));
        extend_scaled(&mut form.query, a[t].exp(), token.q);
        extend_scaled(&mut form.probe_query, before.exp(), token.k);
        extend_scaled(&mut form.write, (end - a[t]).exp(), token.k);
    }
    form
}

fn extend_scaled<R: Real>(rows: &mut Vec<R>, scale: R, x: &[R]) {
    rows.extend(x.iter().map(|&x| scale * x));
}
