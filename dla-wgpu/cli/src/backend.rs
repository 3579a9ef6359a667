//! Where a run takes place, and how users are told.

use std::num::NonZeroUsize;
use std::time::Duration;

use dla_core::dla::recurrent;
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
            Backend::Auto | Backend::Gpu => Err(Error::unsupported(
                "dla",
                "--backend",
                "auto or cpu in this version",
                "gpu",
            )),
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
        let spinner = ProgressBar::new_spinner().with_message("running the operator");
        spinner.enable_steady_tick(Duration::from_millis(200));
        let output = match (self, chunk) {
            (Self::Cpu, None) => recurrent::forward(dims, config, inputs, cache),
            (Self::Cpu, Some(_)) => recurrent::forward(dims, config, inputs, cache),
        };
        spinner.finish_and_clear();
        output
    }
}
