//! Evaluations between steps.

use dla_core::{Result, Schedule};
use dla_train::Engine;

use super::{attention, batch, device, gated_delta, mamba2, pace, snapshot, with};

/// What a step tells of a batch is what an evaluation before it told, bit for bit, and the step is the same without it.
#[test]
fn an_evaluation_tells_the_losses_of_a_step_and_moves_nothing() -> Result<()> {
    let attention = attention(false);
    for config in [
        with(mamba2(), Schedule::Dynamic),
        with(gated_delta(), Schedule::Dynamic),
        attention,
    ] {
        let start = snapshot(&config, 1.2)?;
        let engines = (device(&config, start.clone())?, device(&config, start)?);
        let (Some(mut watched), Some(mut alone)) = engines else {
            return Ok(());
        };
        for step in 0..2 {
            let batch = batch(step);
            let losses = watched.evaluate(&batch)?.losses;
            let sum: f64 = losses.iter().map(|&loss| f64::from(loss)).sum();
            let mean = sum / batch.counted() as f64;
            let batches = [batch];
            let report = watched.step(&batches, pace(1e-3))?;
            assert_eq!(mean, report.loss);
            assert_eq!(report, alone.step(&batches, pace(1e-3))?);
        }
        assert_eq!(watched.export()?, alone.export()?);
    }
    Ok(())
}
