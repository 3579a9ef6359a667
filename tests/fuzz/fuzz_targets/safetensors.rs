//! Any bytes as the weights of a sound configuration.
#![no_main]

use dla_core::checkpoint::Checkpoint;
use libfuzzer_sys::fuzz_target;

const CONFIG: &str = include_str!("../../golden/model/mamba2_groups/config.json");

fuzz_target!(|bytes: &[u8]| {
    let files = vec![("weights".to_owned(), bytes.to_vec())];
    if let Ok(checkpoint) = Checkpoint::from_bytes(CONFIG, files) {
        checkpoint.parameters();
        // Only the right weights make a model; all others must be refused.
        let _ = checkpoint.model();
    }
});
