//! What the command asks of a device, and what it says where a device does not serve.

mod common;

use std::fs;

use common::{assert_refused, dla, golden};
use dla_cli::args::{Backend, Global, ModelArgs, Weights};
use dla_cli::runner::Runner;
use dla_core::model::Call;
use dla_core::sample::Needs;
use dla_train::Reader;

/// True, and said, where there is no device to ask.
fn skipped(what: &str) -> bool {
    let none = std::env::var("DLA_NO_GPU").is_ok_and(|word| word == "1");
    if none {
        eprintln!("SKIP: {what}, DLA_NO_GPU=1");
    }
    none
}

/// What was decided comes back from a device when it is asked for and at no other time.
#[test]
fn traces_are_read_back_only_where_they_are_looked_at() {
    if skipped("traces of a device") {
        return;
    }
    let args = ModelArgs {
        model: golden("model/mamba2_groups"),
        weights: Weights::F32,
    };
    let global = Global {
        backend: Backend::Gpu,
        adapter: std::env::var("DLA_ADAPTER").ok(),
        json: false,
    };
    let runner = Runner::load(&args, &global).expect("a model");
    let layers = runner.config().layers;
    for (wanted, traces) in [(false, 0), (true, layers)] {
        let mut sequence = runner.start().expect("a sequence");
        let call = Call {
            traces: wanted,
            ..Call::default()
        };
        let reply = runner.run(&mut sequence, &[1, 2], &call);
        let reply = reply.expect("a reply");
        assert_eq!(reply.traces.len(), traces);
        assert_eq!(reply.logits.len(), runner.config().vocabulary);
        let reply = runner.read(&mut sequence, &[3], &call);
        assert_eq!(reply.expect("a reply").traces.len(), traces);
        for needs in [Needs::All, Needs::Top(3)] {
            let next = runner.top(&mut sequence, &[4], needs, wanted);
            assert_eq!(next.expect("a reply").traces.len(), traces, "{needs:?}");
        }
    }
}

/// Sizes that only the CPU trains are refused with the way there.
#[test]
fn training_that_a_device_does_not_serve_is_sent_to_the_cpu() {
    if skipped("training on a device") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("text.txt"), "A text of some length. ".repeat(40)).expect("a text");
    let settings = format!(
        "steps = 1\noutput = {:?}\n[model]\nfamily = \"mamba2\"\nhidden = 8\nlayers = 1\nheads = 1\n\
         head_dim = 258\nstate = 4\n[model.dla]\ncapacity = 3\ntau = 1.2\n[data]\ntask = \"text\"\n\
         files = [{:?}]\nlength = 16\n[batch]\nsequences = 1\n",
        at("out"),
        at("text.txt"),
    );
    fs::write(at("run.toml"), settings).expect("settings");
    let run = dla(["train", "--backend", "gpu", "--config", &at("run.toml")]);
    assert_refused("258 columns", &run, "; train it on the CPU (--backend cpu)");
}
