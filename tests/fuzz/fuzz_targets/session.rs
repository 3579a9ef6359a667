//! Any bytes as a saved session, of the operator and of a model.
#![no_main]

use std::sync::LazyLock;

use dla_core::checkpoint::Checkpoint;
use dla_core::session::seal;
use dla_core::{Model, Session};
use libfuzzer_sys::fuzz_target;

const CONFIG: &str = include_str!("../../golden/model/mamba2_groups/config.json");
const WEIGHTS: &[u8] = include_bytes!("../../golden/model/mamba2_groups/model.safetensors");

static MODEL: LazyLock<Model> = LazyLock::new(|| {
    let files = vec![("weights".to_owned(), WEIGHTS.to_vec())];
    let checkpoint = Checkpoint::from_bytes(CONFIG, files).expect("a golden model");
    checkpoint.model().expect("a golden model")
});

fuzz_target!(|bytes: &[u8]| {
    // With a checksum that fits: without it nothing else would be reached.
    let bytes = &seal(bytes.to_vec())[..];
    // What is accepted is saved as it came.
    if let Ok(session) = Session::<f32>::load(bytes) {
        assert_eq!(session.save(), bytes);
    }
    let _ = Session::<f64>::load(bytes);
    let mut session = MODEL.session();
    if session.load(bytes).is_ok() {
        assert_eq!(session.save(), bytes);
    }
});
