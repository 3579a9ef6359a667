//! Prints the WGSL that browsers get, every pass under every setting, as a JSON list of `name`, `text` and whether a
//! `pipeline` is to be made of it too: that takes a browser's software adapter seconds, so one of each pass has to do.

use std::collections::HashSet;

use dla_tests::kernels::{Kernels, gradient_sources};
use dla_tests::layer_sources;
use dla_wgpu::Float;
use serde_json::json;

fn main() {
    let mut seen = HashSet::new();
    let shipped = [Kernels::Portable, Kernels::Steps].into_iter();
    let sources: Vec<_> = shipped
        .flat_map(Kernels::sources)
        .chain(layer_sources::sources())
        .filter(|source| source.kernels.portable())
        .chain(gradient_sources(Float::F32))
        .filter(|source| seen.insert(source.text.clone()))
        .collect();
    let mut passes = HashSet::new();
    let sources = sources.iter().map(|source| {
        let first = passes.insert(source.pass.source(""));
        json!({ "name": source.name, "text": source.text, "pipeline": first })
    });
    println!("{}", sources.collect::<serde_json::Value>());
}
