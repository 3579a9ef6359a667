//! Logits of the families' own implementations.

use dla_core::model::Rows;
use dla_core::tensors::{Tensor, TensorFile};
use dla_core::{Model, checkpoint::Checkpoint};

use crate::support::{distance, golden};

/// The relative distance that f32 may cost.
const BOUND: f64 = 1e-3;

/// A golden model's input ids by sequence, logits, and where decoding begins.
struct Reference {
    ids: Vec<Vec<u32>>,
    logits: Vec<f32>,
    decode_from: usize,
    decode_logits: Vec<f32>,
}

impl Reference {
    fn read(name: &str) -> Self {
        let file = TensorFile::read(&golden(name).join("ref.safetensors")).expect("a golden file");
        let all = |tensor: Tensor<'_>| tensor.values::<f32>("", tensor.shape()).expect("f32");
        let tensor = |name| file.require(name).expect("part of the golden file");
        let [batch, tokens] = tensor("input_ids").sizes("[B, T]").expect("a batch");
        let ids = tensor("input_ids").values::<i64>("[B, T]", &[batch, tokens]);
        let ids = ids
            .expect("i64")
            .into_iter()
            .map(|id| id as u32)
            .collect::<Vec<_>>();
        let from = tensor("decode_from").values::<i64>("", &[]).expect("i64");
        Self {
            ids: ids.chunks(tokens).map(<[u32]>::to_vec).collect(),
            logits: all(tensor("logits")),
            decode_from: from[0] as usize,
            decode_logits: all(tensor("decode_logits")),
        }
    }
}

fn check(name: &str) {
    let model = Model::load(&golden(name)).expect("a checkpoint that is served");
    let reference = Reference::read(name);
    let vocabulary = model.config().vocabulary;
    let (mut whole, mut stepped, mut decoded) = (Vec::new(), Vec::new(), Vec::new());
    for ids in &reference.ids {
        let all = model.prefill(&mut model.session(), ids, Rows::All);
        whole.extend(all.expect("valid ids"));
        let mut session = model.session();
        let (prompt, rest) = ids.split_at(reference.decode_from);
        let all = model.prefill(&mut session, prompt, Rows::All);
        stepped.extend(all.expect("valid ids"));
        for &id in rest {
            let logits = model.step(&mut session, id).expect("a valid id");
            assert_eq!(logits.len(), vocabulary);
            stepped.extend_from_slice(&logits);
            decoded.extend(logits);
        }
    }
    for (kind, got, want) in [
        ("whole", &whole, &reference.logits),
        ("prefill, then steps", &stepped, &reference.logits),
        ("steps", &decoded, &reference.decode_logits),
    ] {
        let distance = distance(got, want);
        println!("{name}, {kind}: relative distance {distance:.2e}");
        assert!(
            distance < BOUND,
            "{name}, {kind}: {distance} reaches {BOUND}"
        );
    }
}

#[test]
fn mamba2_with_groups() {
    check("mamba2_groups");
}

#[test]
fn gated_deltanet_of_fla() {
    check("gdn_fla");
}

#[test]
fn the_bare_infinity_of_older_writers() {
    let folder = golden("mamba2_groups");
    let read = |name: &str| std::fs::read(folder.join(name)).expect("a golden file");
    let config = String::from_utf8(read("config.legacy.json")).expect("text");
    let files = || vec![("weights".to_owned(), read("model.safetensors"))];
    let legacy = Checkpoint::from_bytes(&config, files()).expect("served");
    let current = Checkpoint::open(&folder).expect("served");
    assert_eq!(legacy.config(), current.config());
    assert_eq!(legacy.parameters(), current.parameters());
}
