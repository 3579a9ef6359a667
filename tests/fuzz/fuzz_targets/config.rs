//! Any text as the configuration of sound weights.
#![no_main]

use dla_core::checkpoint::Checkpoint;
use libfuzzer_sys::fuzz_target;

const WEIGHTS: &[u8] = include_bytes!("../../golden/model/mamba2_groups/model.safetensors");

fuzz_target!(|text: &str| {
    let files = vec![("weights".to_owned(), WEIGHTS.to_vec())];
    if let Ok(checkpoint) = Checkpoint::from_bytes(text, files) {
        checkpoint.config().state_bytes();
        // Weights of another form must be refused.
        let _ = checkpoint.model();
    }
});
