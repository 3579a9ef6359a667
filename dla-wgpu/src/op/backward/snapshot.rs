//! What a segment is run again from.

use dla_core::Result;

use crate::Gpu;
use crate::backward_plan::BackwardPlan;
use crate::op::binding::Step;
use crate::way::Way;

/// A segment's beginning: its states, and the workspace that follows from the decisions alone.
#[derive(Debug)]
pub(super) struct Snapshot {
    states: wgpu::Buffer,
    decided: [wgpu::Buffer; DECIDED.len()],
}

/// Buffers of the workspace that a segment's passes over decisions leave, and those passes: they run once.
const DECIDED: [&str; 3] = ["decay", "slots", "entries"];
const DECIDING: [&str; 3] = ["chunk_decay", "compact", "compact_subgroup"];

/// Whether a pass leaves what a snapshot keeps.
pub(super) fn is_deciding(step: &Step) -> bool {
    DECIDING.contains(&step.pipeline.name)
}

impl Snapshot {
    /// Makes room for one.
    pub(super) async fn new(gpu: &Gpu, plan: &BackwardPlan) -> Result<Self> {
        let usage = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
        let (states, bytes) = (plan.forward.arrays.states, &plan.forward.workspace);
        Ok(Self {
            states: gpu.buffer("states", states, usage).await?,
            decided: [
                gpu.buffer("decay", bytes.decay, usage).await?,
                gpu.buffer("slots", bytes.slots, usage).await?,
                gpu.buffer("entries", bytes.entries, usage).await?,
            ],
        })
    }

    /// Records a copy of the states.
    pub(super) fn copy_states(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        work: &wgpu::Buffer,
        way: Way,
    ) {
        way.copy(encoder, (work, 0), (&self.states, 0), self.states.size());
    }

    /// Records copies of the buffers that follow from decisions, found by their names.
    pub(super) fn copy_decided<'a>(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        work: impl Fn(&str) -> Option<&'a wgpu::Buffer>,
        way: Way,
    ) {
        for (name, kept) in DECIDED.into_iter().zip(&self.decided) {
            if let Some(buffer) = work(name) {
                way.copy(encoder, (buffer, 0), (kept, 0), kept.size());
            }
        }
    }
}
