//! Causal softmax attention, head by head.

use crate::parallel::for_rows;
use crate::real::Real;
use crate::vector::{add_scaled, dot};

/// The sizes of an attention: heads, and the width of a head's queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attention {
    /// Heads.
    pub heads: usize,
    /// Values of a query, key or value of one head.
    pub width: usize,
}

/// The gradients of an attention, in the shapes of what they belong to.
#[derive(Clone, Debug)]
pub struct AttentionGradients<R> {
    /// By `q`, `[tokens, heads, width]`.
    pub q: Vec<R>,
    /// By `k`, `[tokens, heads, width]`.
    pub k: Vec<R>,
    /// By `v`, `[tokens, heads, width]`.
    pub v: Vec<R>,
}

impl Attention {
    /// What the last tokens of a sequence read: o_t = Σ_{s ≤ t} p_ts v_s with
    /// p_t = softmax(q_t·k_s / √width), `[tokens, heads, width]` as `q`.
    ///
    /// `k` and `v` `[sequence, heads, width]` are those of the whole sequence, which `q` ends.
    ///
    /// ```
    /// let attention = dla_core::nn::Attention { heads: 1, width: 1 };
    /// assert_eq!(attention.forward(&[0.0, 0.0], &[1.0, 2.0], &[4.0, 8.0]), [4.0, 6.0]);
    /// assert_eq!(attention.forward(&[0.0], &[1.0, 2.0], &[4.0, 8.0]), [6.0]);
    /// ```
    pub fn forward<R: Real>(&self, q: &[R], k: &[R], v: &[R]) -> Vec<R> {
        let before = (k.len() - q.len()) / self.row();
        let mut o = vec![R::ZERO; q.len()];
        let cost = q.len() * (k.len() / self.row());
        for_rows(&mut o, self.width, cost, |index, o| {
            let (t, head) = (index / self.heads, index % self.heads);
            let q = &q[index * self.width..][..self.width];
            let weights = self.weights(q, k, head, before + t + 1);
            for (s, &weight) in weights.iter().enumerate() {
                add_scaled(o, weight, self.vector(v, s, head));
            }
        });
        o
    }

    /// The gradients of Σ o·do of a whole sequence, all arrays `[tokens, heads, width]`.
    ///
    /// With dp_ts = do_t·v_s and dz = p (dp − Σ p dp) / √width: dq_t = Σ dz_ts k_s,
    /// dk_s = Σ dz_ts q_t, dv_s = Σ p_ts do_t.
    pub fn backward<R: Real>(&self, q: &[R], k: &[R], v: &[R], d_o: &[R]) -> AttentionGradients<R> {
        let zeros = || vec![R::ZERO; q.len()];
        let mut d = AttentionGradients {
            q: zeros(),
            k: zeros(),
            v: zeros(),
        };
        for index in 0..q.len() / self.width {
            let (t, head, at) = (index / self.heads, index % self.heads, index * self.width);
            let (q, d_o) = (&q[at..at + self.width], &d_o[at..at + self.width]);
            let weights = self.weights(q, k, head, t + 1);
            let d_weights: Vec<R> = (0..=t).map(|s| dot(d_o, self.vector(v, s, head))).collect();
            let mean = dot(&weights, &d_weights);
            for s in 0..=t {
                let d_z = weights[s] * (d_weights[s] - mean) * self.scale();
                let source = s * self.row() + head * self.width;
                add_scaled(&mut d.q[at..at + self.width], d_z, self.vector(k, s, head));
                add_scaled(&mut d.k[source..source + self.width], d_z, q);
                add_scaled(&mut d.v[source..source + self.width], weights[s], d_o);
            }
        }
        d
    }

    /// softmax(q·k_s / √width) over the first `sources` tokens; NaN stays NaN.
    fn weights<R: Real>(&self, q: &[R], k: &[R], head: usize, sources: usize) -> Vec<R> {
        let score = |s| dot(q, self.vector(k, s, head)) * self.scale();
        let mut weights: Vec<R> = (0..sources).map(score).collect();
        softmax(&mut weights);
        weights
    }

    /// The vector of token `s` and `head` in an array `[tokens, heads, width]`.
    fn vector<'a, R>(&self, x: &'a [R], s: usize, head: usize) -> &'a [R] {
        &x[s * self.row() + head * self.width..][..self.width]
    }

    /// Values of one token.
    fn row(&self) -> usize {
        self.heads * self.width
    }

    fn scale<R: Real>(&self) -> R {
        R::ONE / R::from_f64(self.width as f64).sqrt()
    }
}

/// e^x / Σ e^x in place, shifted by the largest so that nothing overflows; NaN makes all NaN.
pub(super) fn softmax<R: Real>(x: &mut [R]) {
    let largest = x
        .iter()
        .fold(-R::INFINITY, |a, &b| if b > a { b } else { a });
    let mut sum = R::ZERO;
    for x in x.iter_mut() {
        *x = (*x - largest).exp();
        sum += *x;
    }
    x.iter_mut().for_each(|x| *x = *x / sum);
}

#[cfg(test)]
mod tests {
    use super::Attention;
    use crate::nn::check::{assert_gradient, numbers};
    use crate::vector::dot;

    const ATTENTION: Attention = Attention { heads: 2, width: 3 };

    #[test]
    fn gradients_are_finite_differences() {
        let len = 5 * 2 * 3;
        let [q, k, v, d_o] = [1, 2, 3, 4].map(|seed| numbers(len, seed));
        let loss = |q: &[f64], k: &[f64], v: &[f64]| dot(&ATTENTION.forward(q, k, v), &d_o);
        let d = ATTENTION.backward(&q, &k, &v, &d_o);
        assert_gradient("q", &q, &d.q, |q| loss(q, &k, &v));
        assert_gradient("k", &k, &d.k, |k| loss(&q, k, &v));
        assert_gradient("v", &v, &d.v, |v| loss(&q, &k, v));
    }

    #[test]
    fn later_tokens_alone_are_those_of_the_whole() {
        let [q, k, v] = [1, 2, 3].map(|seed| numbers(7 * 6, seed));
        let whole = ATTENTION.forward(&q, &k, &v);
        assert_eq!(ATTENTION.forward(&q[4 * 6..], &k, &v), whole[4 * 6..]);
        assert_eq!(ATTENTION.forward(&q[..24], &k[..24], &v[..24]), whole[..24]);
    }

    #[test]
    fn large_scores_stay_finite_and_nan_stays() {
        let one = Attention { heads: 1, width: 1 };
        assert_eq!(
            one.forward(&[1e30, 1e30], &[1.0, 1e3], &[2.0, 3.0f32]),
            [2.0, 3.0]
        );
        let o = one.forward(&[1.0, 1.0, 1.0], &[0.0, f32::NAN, 0.0], &[1.0; 3]);
        assert!(o[0] == 1.0 && o[1].is_nan() && o[2].is_nan());
    }
}
