//! Every GPU test, in one binary whose threads share devices.

#[path = "gpu/attention.rs"]
mod attention;
#[path = "gpu/compact.rs"]
mod compact;
#[path = "gpu/conv.rs"]
mod conv;
#[path = "gpu/erased.rs"]
mod erased;
#[path = "gpu/golden.rs"]
mod golden;
#[path = "gpu/gradients.rs"]
mod gradients;
#[path = "gpu/host.rs"]
mod host;
#[path = "gpu/kinds.rs"]
mod kinds;
#[path = "gpu/kinds_backward.rs"]
mod kinds_backward;
#[path = "gpu/mixers.rs"]
mod mixers;
#[path = "gpu/model.rs"]
mod model;
#[path = "../../dla-core/tests/model/models.rs"]
mod models;
#[path = "gpu/nn.rs"]
mod nn;
#[path = "gpu/nn_backward/mod.rs"]
mod nn_backward;
#[path = "gpu/operator.rs"]
mod operator;
#[path = "gpu/outputs.rs"]
mod outputs;
#[path = "gpu/stages.rs"]
mod stages;
#[path = "gpu/training.rs"]
mod training;
