//! Prints the WGSL that browsers get, every pass under every setting, as a JSON list of `name` and `text`.

use std::collections::{HashMap, HashSet};

use dla_tests::kernels::{Kernels, Source, gradient_sources};
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
        .chain(few_of_each(gradient_sources(Float::F32)))
        .filter(|source| seen.insert(source.text.clone()))
        .map(|source| json!({ "name": source.name, "text": source.text }))
        .collect();
    println!("{}", serde_json::Value::from(sources));
}

/// Settings under which a browser compiles each of the backward passes; naga translates them under all.
const FEW: usize = 3;

/// The first, the last and one in between of every pass's sources.
fn few_of_each(sources: Vec<Source>) -> impl Iterator<Item = Source> {
    let mut all = HashMap::<_, usize>::new();
    for source in &sources {
        *all.entry(source.pass.source("")).or_default() += 1;
    }
    let mut seen = HashMap::<_, usize>::new();
    sources.into_iter().filter(move |source| {
        let pass = source.pass.source("");
        let last = all[&pass] - 1;
        let at = seen.entry(pass).or_default();
        let taken = (0..FEW).any(|i| *at == i * last / (FEW - 1));
        *at += 1;
        taken
    })
}
