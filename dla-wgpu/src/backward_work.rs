//! What every pass of a planned backward pass has to do at the least: bytes to move and operations to make.

use crate::backward_plan::BackwardPlan;
use crate::work::Work;

impl BackwardPlan {
    /// The work of the pass named `pass`, those of the forward passes that are run again included; none for an unknown
    /// name. Every place counts as live in every chunk.
    ///
    /// ```
    /// use dla_core::{Backbone, Dims};
    /// use dla_wgpu::{Float, backward_plan::BackwardPlan, plan::Limits};
    /// let dims = Dims { batch: 1, tokens: 64, heads: 1, groups: 1, key_dim: 16, value_dim: 16, capacity: 2 };
    /// let plan = BackwardPlan::new(dims, Backbone::Decay, 64, Float::F32, Limits::PORTABLE)?;
    /// assert_eq!(plan.work("state_gradient").flop, 2 * 64 * 2 * 16 * 16);
    /// # Ok::<(), dla_core::Error>(())
    /// ```
    pub fn work(&self, pass: &str) -> Work {
        let again = self.forward.work(pass);
        if again != Work::default() {
            let segments = self.forward.segments.len() as u64;
            let times = |x: u64| x * (2 * segments - 1) / segments.max(1);
            return Work {
                bytes: times(again.bytes),
                flop: times(again.flop),
            };
        }
        self.own_work(pass)
    }

    fn own_work(&self, pass: &str) -> Work {
        let dims = &self.forward.dims;
        let rows = dims.token_heads() as u64;
        let (key, value) = (self.forward.arrays.key, self.arrays.value);
        let (dk, dv) = (dims.key_dim as u64, dims.value_dim as u64);
        let (k, c) = (dims.capacity as u64, self.forward.chunk as u64);
        let segments = &self.forward.segments;
        let chunks: u64 = segments.iter().map(|s| s.chunks as u64).sum();
        let cells = dims.sequences() as u64 * chunks;
        // The workspace holds one segment; a call fills it once for each.
        let all = |bytes: u64| bytes * chunks / self.forward.segment_chunks.max(1) as u64;
        let own = &self.workspace;
        let (versions, states) = (
            all(self.forward.workspace.versions),
            all(own.state_gradients),
        );
        let (weights, dots) = (all(own.read_weights), all(own.dots));
        let (mixes, solved) = (all(own.mix_gradients), all(own.delta.solve_gradients));
        let (heads, transitions) = (rows * dk * 4, all(own.delta.transition_gradients));
        let (bytes, flop) = match pass {
            "read_weights" => (2 * weights, 0),
            "state_gradient" => (key + value + weights + 2 * states, 2 * rows * k * dk * dv),
            "outer_gradient" => (key + value + weights + states, 2 * rows * k * dk * dv),
            "state_gradient_delta" => (key + heads + 4 * states, 4 * rows * k * dk * dv),
            "read_gradient" => (
                key + value + weights + versions + heads + dots,
                2 * rows * k * dk * (dv + 1),
            ),
            "write_gradient" => (key + value + states + heads, 2 * rows * dk * (dv + 1)),
            "mix_gradient" => (2 * key + 2 * value + mixes, 2 * rows * c * (dk + dv)),
            "mix_gradient_delta" => (2 * value + 2 * heads + mixes, 2 * rows * c * (dk + dv)),
            "value_gradient" => (
                key + 2 * value + states + mixes / 3,
                2 * rows * dv * (c + dk),
            ),
            "key_gradient" => (2 * key + 4 * heads + mixes / 3, 4 * rows * c * dk),
            "carry_gradient" => (versions + states, 2 * cells * k * dk * dv),
            "transition_gradient" => (
                versions + states + transitions,
                2 * cells * k * dk * dk * dv,
            ),
            "erase_gradient" => (6 * heads + transitions, 2 * rows * dk * (2 * dk + c)),
            "solve_gradient" => (
                2 * key + heads + mixes / 3 + solved,
                2 * rows * c * (3 * dk + 4 * c),
            ),
            "key_gradient_delta" => (2 * key + 5 * heads + solved / 2, 10 * rows * c * dk),
            "weight_gradient" => (mixes / 3 + dots + weights, 0),
            "decay_gradient" => (mixes / 3 + dots + weights, 0),
            "decay_gradient_delta" => (key + 4 * heads + solved / 2, 4 * rows * dk),
            "gate_gradient" => (mixes / 3 + dots + weights, 0),
            "group_gradient" => (2 * heads + 2 * self.arrays.key, 0),
            _ => (0, 0),
        };
        Work { bytes, flop }
    }
}
