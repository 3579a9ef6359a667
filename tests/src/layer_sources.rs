//! The layers' WGSL as text, under a fixed list of settings.

use dla_core::Dims;
use dla_shaders::{
    ADAMW, ATTENTION, ATTENTION_CACHED, ATTENTION_DOTS, ATTENTION_JOIN, ATTENTION_KEEP,
    ATTENTION_QUERY_GRADIENT, ATTENTION_SOURCE_GRADIENT, ATTENTION_STEP, COLUMN_SUMS, CONV,
    CONV_GRADIENT, CONV_SLOPE, CROSS_ENTROPY, DECAY_RATES, DELTA_ARRAYS, DELTA_ARRAYS_GRADIENT,
    DELTA_OUTPUT, DELTA_OUTPUT_GRADIENT, EMBED_GRADIENT, EMBED_SUM, GATED_GRADIENT, GRADIENT_NORM,
    HALVE, MAMBA2_ARRAYS, MAMBA2_ARRAYS_GRADIENT, MAMBA2_OUTPUT, MAMBA2_OUTPUT_GRADIENT,
    MATRIX_GRADIENT, NORM_GRADIENT, PLACE, Pass, READ_WEIGHTS_GRADIENT, RMS_NORM, SQUARE_SUM,
    SUM_PARTS, TOP_K, TOP_K_BEST,
};
use dla_wgpu::Float;
use dla_wgpu::nn::backward::{
    ColumnSumsSpec, ConvGradientSpec, CrossEntropySpec, DecayRates, Decays, EmbeddingGradientSpec,
    GatedGradientSpec, InputGradientSpec, MatrixGradientSpec, PlaceSpec, ReadWeightsGradientSpec,
    RmsNormGradient,
};
use dla_wgpu::nn::{
    AttentionSpec, ConvSpec, DeltaArraysSpec, DeltaOutputSpec, EmbeddingSpec, InputKind,
    LinearSpec, Mamba2ArraysSpec, Mamba2OutputSpec, ReadColumns, RmsNormSpec, TopK, WeightType,
};

use crate::cases::dims;
use crate::kernels::{Kernels, Source};

/// Every pass of the layers under every setting.
pub fn sources() -> Vec<Source> {
    [
        linear(),
        embeddings(),
        mixers(),
        others(),
        linear_gradients(),
        other_gradients(),
        optimiser(),
    ]
    .concat()
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
            sources.extend(arrays(dims, lambda, Float::F32));
        }
        sources.extend(outputs(dims, Float::F32));
    }
    for dims in [
        dims([1, 1, 48, 1, 128, 64, 30]),
        dims([1, 1, 6, 3, 37, 21, 7]),
    ] {
        let half = arrays(dims, by(Some(0), false), Float::F16);
        let half = half.into_iter().chain(outputs(dims, Float::F16));
        sources.extend(half.map(|source| Source {
            name: format!("f16, {}", source.name),
            kernels: Kernels::Half,
            ..source
        }));
    }
    sources
}

fn arrays(dims: Dims, lambda: ReadColumns, float: Float) -> Vec<Source> {
    let heads = dims.heads;
    let first = heads * dims.capacity;
    let stride = first + 2 * heads;
    let mamba2 = Mamba2ArraysSpec {
        dims,
        stride,
        dt: first,
        lambda,
        dt_limit: [0.0, f32::INFINITY],
        float,
    };
    let delta = DeltaArraysSpec {
        dims,
        stride,
        a: first,
        b: first + heads,
        lambda,
        most: 2.0,
        float,
    };
    let setting = format!("{heads} heads, {lambda:?}");
    let mut sources = Vec::new();
    for (passes, header) in [
        ([&MAMBA2_ARRAYS, &MAMBA2_ARRAYS_GRADIENT], mamba2.header()),
        ([&DELTA_ARRAYS, &DELTA_ARRAYS_GRADIENT], delta.header()),
    ] {
        sources.extend(passes.map(|pass| source(setting.clone(), pass, &header)));
    }
    if let Some(column) = lambda.column {
        let read = ReadWeightsGradientSpec {
            dims,
            stride,
            column,
            fenwick: lambda.fenwick,
        };
        sources.push(source(setting, &READ_WEIGHTS_GRADIENT, &read.header()));
    }
    sources
}

fn outputs(dims: Dims, float: Float) -> Vec<Source> {
    let (stride, epsilon) = (dims.heads * dims.value_dim, 1e-5);
    let mamba2 = Mamba2OutputSpec {
        dims,
        stride,
        z: 0,
        norm_groups: dims.groups,
        epsilon,
        float,
    };
    let mut sources = Vec::new();
    for pass in [&MAMBA2_OUTPUT, &MAMBA2_OUTPUT_GRADIENT] {
        let setting = format!("{} heads", dims.heads);
        sources.push(source(setting, pass, &mamba2.header()));
    }
    for gate in [Some(0), None] {
        let delta = DeltaOutputSpec {
            dims,
            stride,
            gate,
            epsilon,
            float,
        };
        for pass in [&DELTA_OUTPUT, &DELTA_OUTPUT_GRADIENT] {
            let setting = format!("{} heads, {gate:?}", dims.heads);
            sources.push(source(setting, pass, &delta.header()));
        }
    }
    sources
}

fn others() -> Vec<Source> {
    let mut sources = Vec::new();
    for width in [1, 1000] {
        let epsilon = 0.0;
        let spec = RmsNormSpec { width, epsilon };
        sources.push(source(format!("{width}"), &RMS_NORM, &spec.header()));
        for residual in [false, true] {
            let header = RmsNormGradient::header(&spec, residual);
            sources.push(source(
                format!("{width}, {residual}"),
                &NORM_GRADIENT,
                &header,
            ));
        }
    }
    for (width, channels) in [(1, 1), (4, 3328), (8, 65)] {
        let spec = ConvSpec {
            stride: channels + 3,
            first: 3,
            channels,
            width,
        };
        let setting = format!("{channels} channels, {width} wide");
        sources.push(source(setting.clone(), &CONV, &spec.header()));
        let spec = ConvGradientSpec {
            conv: spec,
            bias: width != 8,
        };
        for pass in [&CONV_SLOPE, &CONV_GRADIENT] {
            sources.push(source(setting.clone(), pass, &spec.header(128)));
        }
    }
    for best in [1, 50, 64] {
        let top_k = TopK { values: 1, best };
        for pass in [&TOP_K, &TOP_K_BEST] {
            sources.push(source(format!("best {best}"), pass, &top_k.header()));
        }
    }
    sources
}

fn linear_gradients() -> Vec<Source> {
    let mut sources = Vec::new();
    for (inputs, outputs) in [(1536, 6704), (37, 21), (1, 1)] {
        for on in [false, true] {
            let setting = format!("{inputs} x {outputs}, {on}");
            let spec = InputGradientSpec {
                inputs,
                outputs,
                half: on,
                residual: on,
                halves: 1 + usize::from(on),
            };
            sources.push(source(setting.clone(), spec.pass(), &spec.header()));
            let spec = MatrixGradientSpec {
                inputs,
                outputs,
                span: 128,
                split: on,
                halves: 1 + usize::from(on),
            };
            sources.push(source(setting, &MATRIX_GRADIENT, &spec.header()));
        }
        let (sums, setting) = (ColumnSumsSpec::all(outputs), format!("{outputs}"));
        sources.push(source(setting, &COLUMN_SUMS, &sums.header(256)));
    }
    sources.push(source("any".to_owned(), &SUM_PARTS, ""));
    sources
}

fn other_gradients() -> Vec<Source> {
    let mut sources = Vec::new();
    for width in [1, 1000] {
        let setting = || format!("{width}");
        let gated = GatedGradientSpec { width }.header();
        sources.push(source(setting(), &GATED_GRADIENT, &gated));
        let embedding = EmbeddingGradientSpec { width }.header();
        for pass in [&EMBED_SUM, &EMBED_GRADIENT] {
            sources.push(source(setting(), pass, &embedding));
        }
        let loss = CrossEntropySpec { vocabulary: width };
        sources.push(source(setting(), &CROSS_ENTROPY, &loss.header()));
        let place = PlaceSpec {
            from: [width, 0],
            to: [2 * width, width],
            columns: width,
        };
        sources.push(source(setting(), &PLACE, &place.header()));
    }
    for (heads, width) in [(1, 1), (12, 64), (3, 33), (8, 128)] {
        let header = AttentionSpec { heads, width }.header();
        for pass in [
            &ATTENTION,
            &ATTENTION_CACHED,
            &ATTENTION_KEEP,
            &ATTENTION_STEP,
            &ATTENTION_JOIN,
            &ATTENTION_DOTS,
            &ATTENTION_QUERY_GRADIENT,
            &ATTENTION_SOURCE_GRADIENT,
        ] {
            sources.push(source(format!("{heads} heads of {width}"), pass, &header));
        }
    }
    sources
}

fn optimiser() -> Vec<Source> {
    let any = || "any".to_owned();
    let rates = DecayRates {
        heads: 48,
        arrays: 3,
    };
    let mut sources = vec![
        source(any(), &SQUARE_SUM, ""),
        source(any(), &GRADIENT_NORM, ""),
        source(any(), &HALVE, ""),
        source("48 heads".to_owned(), &DECAY_RATES, &rates.header()),
    ];
    for decays in [Decays::ALL, Decays::NONE] {
        let setting = format!("{decays:?}");
        sources.push(source(setting, &ADAMW, &decays.header()));
    }
    sources
}
