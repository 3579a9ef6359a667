//! Where a run takes place, and how users are told.

use std::num::NonZeroUsize;
use std::time::Duration;

use dla_core::dla::{chunk, recurrent};
use dla_core::{Cache, Config, Dims, Error, Inputs, Output, Result};
use indicatif::ProgressBar;

use crate::args::{Backend, Global};
use crate::report;

/// What runs the operator.
#[derive(Debug)]
pub enum Engine {
    /// The reference in plain Rust.
    Cpu,
}

impl Engine {
    /// Follows `--backend` and `--adapter`.
    ///
    /// # Errors
    /// When an adapter was asked for and there is none.
    pub fn open(global: &Global) -> Result<Self> {
        match global.backend {
            Backend::Cpu => Ok(Self::Cpu),
            Backend::Auto if global.adapter.is_none() => {
                report::note("no adapter, so the CPU path runs");
                Ok(Self::Cpu)
            }
            Backend::Auto | Backend::Gpu => {
                Err(Error::unsupported("dla", "--backend", "auto or cpu in this version", "gpu"))
            }
        }
    }

    /// Its name in reports.
    pub fn name(&self) -> &str {
        match self {
            Self::Cpu => "cpu",
        }
    }

    /// Runs the operator; a spinner turns meanwhile where someone watches.
    ///
    /// # Errors
    /// When the operator refuses its inputs or the run fails.
    pub fn forward(
        &self,
        dims: &Dims,
        config: &Config,
        inputs: &Inputs<'_, f32>,
        cache: Option<&Cache<f32>>,
        chunk: Option<NonZeroUsize>,
    ) -> Result<Output<f32>> {
        room(dims)?;
        let spinner = ProgressBar::new_spinner().with_message("running the operator");
        spinner.enable_steady_tick(Duration::from_millis(200));
        let output = match (self, chunk) {
            (Self::Cpu, None) => recurrent::forward(dims, config, inputs, cache),
            (Self::Cpu, Some(c)) => chunk::forward(dims, config, inputs, cache, c.get()),
        };
        spinner.finish_and_clear();
        output
    }
}

/// Refuses results that memory cannot hold: a small file can ask for many large states.
fn room(dims: &Dims) -> Result<()> {
    let values = dims.states_len().saturating_add(dims.value_len());
    Vec::<f32>::new().try_reserve_exact(values).map_err(|_| {
        Error::unsupported("op", "dims", "results that fit into memory", format!("{values} values"))
            .advise("split the batch")
    })
}
