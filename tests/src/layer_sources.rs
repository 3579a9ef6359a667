//! The layers' WGSL as text, under a fixed list of settings.

use dla_core::Dims;
use dla_shaders::{
    CONV, DELTA_ARRAYS, DELTA_OUTPUT, MAMBA2_ARRAYS, MAMBA2_OUTPUT, Pass, RMS_NORM, TOP_K,
    TOP_K_BEST,
};
use dla_wgpu::nn::{
    ConvSpec, DeltaArraysSpec, DeltaOutputSpec, EmbeddingSpec, InputKind, LinearSpec,
    Mamba2ArraysSpec, Mamba2OutputSpec, ReadColumns, RmsNormSpec, TopK, WeightType,
};

use crate::cases::dims;
use crate::kernels::{Kernels, Source};

/// Every pass of the layers under every setting.
pub fn sources() -> Vec<Source> {
    [linear(), embeddings(), mixers(), others()].concat()
}

fn source(setting: String, pass: &'static Pass, header: &str) -> Source {
    Source {
        name: format!("{setting}: {}", pass.name),
        kernels: Kernels::Portable,
        pass,
        text: pass.source(header),
    }
}

/// All inputs and weights, by few rows and many, at usual and odd sizes.
fn linear() -> Vec<Source> {
    let mut sources = Vec::new();
    for weight_type in WeightType::ALL {
        for input in [InputKind::Plain, InputKind::Gated, InputKind::Normed(1e-5)] {
            for (rows, inputs, outputs) in [(1, 1536, 6704), (3, 37, 21), (8, 1, 1), (64, 40, 24)] {
                let spec = LinearSpec {
                    inputs,
                    outputs,
                    weight_type,
                    bias: rows == 3,
                    residual: rows != 1,
                    input,
                    rows,
                };
                let setting = format!("{weight_type:?}, {input:?}, {rows} x {inputs} x {outputs}");
                sources.push(source(setting, spec.pass(), &spec.header()));
            }
        }
    }
    sources
}

fn embeddings() -> Vec<Source> {
    let mut sources = Vec::new();
    for weight_type in WeightType::ALL {
        for (vocabulary, width) in [(50_288, 1536), (5, 3)] {
            let spec = EmbeddingSpec {
                vocabulary,
                width,
                weight_type,
            };
            let setting = format!("{weight_type:?}, {vocabulary} x {width}");
            sources.push(source(setting, spec.pass(), &spec.header()));
        }
    }
    sources
}

/// Both mixers at the paper's sizes and odd ones, λ given by rank, by level and not at all.
fn mixers() -> Vec<Source> {
    let by = |column, fenwick| ReadColumns { column, fenwick };
    let read = [
        by(Some(0), false),
        by(Some(0), true),
        by(None, false),
        by(None, true),
    ];
    let mut sources = Vec::new();
    for dims in [
        dims([1, 1, 48, 1, 128, 64, 30]),
        dims([1, 1, 6, 3, 37, 21, 7]),
        dims([1, 1, 1, 1, 256, 256, 64]),
    ] {
        for lambda in read {
            sources.extend(arrays(dims, lambda));
        }
        sources.extend(outputs(dims));
    }
    sources
}

fn arrays(dims: Dims, lambda: ReadColumns) -> [Source; 2] {
    let heads = dims.heads;
    let first = heads * dims.capacity;
    let stride = first + 2 * heads;
    let mamba2 = Mamba2ArraysSpec {
        dims,
        stride,
        dt: first,
        lambda,
        dt_limit: [0.0, f32::INFINITY],
    };
    let delta = DeltaArraysSpec {
        dims,
        stride,
        a: first,
        b: first + heads,
        lambda,
        most: 2.0,
    };
    let setting = || format!("{heads} heads, {lambda:?}");
    [
        source(setting(), &MAMBA2_ARRAYS, &mamba2.header()),
        source(setting(), &DELTA_ARRAYS, &delta.header()),
    ]
}

fn outputs(dims: Dims) -> Vec<Source> {
    let (stride, epsilon) = (dims.heads * dims.value_dim, 1e-5);
    let mamba2 = Mamba2OutputSpec {
        dims,
        stride,
        z: 0,
        norm_groups: dims.groups,
        epsilon,
    };
    let setting = format!("{} heads", dims.heads);
    let mut sources = vec![source(setting, &MAMBA2_OUTPUT, &mamba2.header())];
    for gate in [Some(0), None] {
        let delta = DeltaOutputSpec {
            dims,
            stride,
            gate,
            epsilon,
        };
        let setting = format!("{} heads, {gate:?}", dims.heads);
        sources.push(source(setting, &DELTA_OUTPUT, &delta.header()));
    }
    sources
}

fn others() -> Vec<Source> {
    let mut sources = Vec::new();
    for width in [1, 1000] {
        let epsilon = 0.0;
        let spec = RmsNormSpec { width, epsilon };
        sources.push(source(format!("{width}"), &RMS_NORM, &spec.header()));
    }
    for (width, channels) in [(1, 1), (4, 3328), (8, 65)] {
        let spec = ConvSpec {
            stride: channels + 3,
            first: 3,
            channels,
            width,
        };
        let setting = format!("{channels} channels, {width} wide");
        sources.push(source(setting, &CONV, &spec.header()));
    }
    for best in [1, 50, 64] {
        let top_k = TopK { values: 1, best };
        for pass in [&TOP_K, &TOP_K_BEST] {
            sources.push(source(format!("best {best}"), pass, &top_k.header()));
        }
    }
    sources
}
