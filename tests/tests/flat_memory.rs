//! A long generation in a process of its own: nothing grows.

use dla_core::model::{DlaConfig, ModelConfig, Rows};
use dla_core::{Config, Result};
use dla_tests::gpu::gpu;
use dla_wgpu::model::{Model, Wanted};
use dla_wgpu::nn::WeightType;

use crate::models::{RandomWeights, mamba2};

#[path = "../../dla-core/tests/model/models.rs"]
#[expect(dead_code, reason = "one model of several is enough here")]
mod models;

#[test]
fn kind_37_ten_thousand_steps_do_not_grow() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    if resident_bytes().is_none() {
        eprintln!("SKIP: flat memory, this system does not tell what a process holds");
        return Ok(());
    }
    let plain = mamba2().0;
    let operator = Config::new(plain.backbone());
    let dla = Some(DlaConfig {
        capacity: 4,
        operator,
    });
    let config = ModelConfig { dla, ..plain };
    let mut weights = RandomWeights::default();
    let load = Model::load(gpu, &config, &mut weights, WeightType::F32);
    let mut batch = gpu.block_on(gpu.block_on(load)?.batch(1))?;
    let wanted = Wanted {
        logits: Rows::None,
        top: 3,
        traces: true,
        lambda: true,
        replay: None,
    };
    let mut resident = Vec::new();
    for step in 0..10_000u32 {
        gpu.block_on(batch.run(&[&[step % 23]], &wanted))?;
        if step % 1_000 == 999 {
            resident.extend(resident_bytes());
        }
    }
    assert_eq!(batch.position(0), 10_000);
    assert_eq!(resident.len(), 10, "a reading every thousand steps");
    let (first, last) = (resident[1], resident[9]);
    let most = first + (4 << 20);
    assert!(
        last <= most,
        "resident bytes by thousand steps: {resident:?}"
    );
    Ok(())
}

/// Bytes of memory that this process holds, where the system tells.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mut lines = status.lines();
    let size = lines.find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = size.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}
