//! Prepared work: dispatches with everything bound, recorded as often as wanted.

use std::sync::Arc;

use crate::pipeline::Pipeline;
use crate::profile::Profile;

/// One dispatch: a compiled pass, its buffers, its slot of the parameters and its grid.
#[derive(Clone, Debug)]
pub struct Dispatch {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) group: wgpu::BindGroup,
    /// Where the dispatch's own parameters begin in the uniform buffer of binding 0.
    pub(crate) offset: u32,
    pub(crate) grid: (u32, u32),
}

impl Dispatch {
    /// The name of its pass.
    pub fn name(&self) -> &'static str {
        self.pipeline.name
    }

    /// Records it. Never submits, never waits.
    pub fn record(&self, pass: &mut wgpu::ComputePass<'_>) {
        pass.set_pipeline(&self.pipeline.compute);
        pass.set_bind_group(0, &self.group, &[self.offset]);
        pass.dispatch_workgroups(self.grid.0, self.grid.1, 1);
    }
}

/// Records dispatches in order: in one compute pass, or each in a pass of its own where their times are wanted.
pub(crate) fn record<'a>(
    dispatches: impl IntoIterator<Item = &'a Dispatch>,
    encoder: &mut wgpu::CommandEncoder,
    profile: Option<&mut Profile>,
) {
    match profile {
        Some(profile) => {
            for dispatch in dispatches {
                dispatch.record(&mut profile.pass(encoder, dispatch.name()));
            }
        }
        None => {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                label: Some("dla"),
                timestamp_writes: None,
            });
            for dispatch in dispatches {
                dispatch.record(&mut pass);
            }
        }
    }
}
