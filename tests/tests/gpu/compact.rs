//! The capacity rule over scalars on a device: which pair merges, in every variant of the pass and at every subgroup size.

use dla_core::dla::recurrent;
use dla_core::{Backbone, Cache, Config, MergeCost};
use dla_shaders::{COMPACT, COMPACT_SUBGROUP};
use dla_tests::cases::{Case, Draw, dims};
use dla_tests::gpu::{gpu, gpus};
use dla_tests::rig::read;
use dla_wgpu::op::{self, Options, Path};
use dla_wgpu::plan::MAX_BATCH;
use dla_wgpu::{Float, Gpu, Spec};

/// Ī of the states that a call begins with, by what would go wrong with costs in the order of their bits.
const INFORMATION: [(&str, [f32; 4]); 9] = [
    ("a negative one", [1.0, 1.0, -3.0, 1.0]),
    ("all negative", [-1.0, -2.0, -3.0, -4.0]),
    ("both signs", [5.0, -5.0, -5.0, 5.0]),
    ("-0 last", [0.0, 0.0, -0.0, -0.0]),
    ("-0 first", [-0.0, -0.0, 0.0, 0.0]),
    ("equal", [1.0, 1.0, 1.0, 1.0]),
    ("below all numbers", [1.0, -3e38, -3e38, 1.0]),
    ("above all numbers", [3e38, 3e38, 3e38, 3e38]),
    ("beyond both ends", [3e38, 3e38, -3e38, -3e38]),
];

fn cases() -> impl Iterator<Item = (Case, Options)> {
    let costs = [MergeCost::Density, MergeCost::Oldest, MergeCost::Ward];
    let ways = [(5, Path::Chunks), (5, Path::Steps), (1, Path::Steps)];
    costs.into_iter().flat_map(move |merge| {
        let chunks = merge != MergeCost::Ward;
        let ways = ways
            .into_iter()
            .filter(move |(_, path)| chunks || *path == Path::Steps);
        ways.map(move |(tokens, path)| {
            let mut case = Case::new("kind_38", dims([1, tokens, 1, 1, 8, 8, 4]));
            case.config.merge = merge;
            case.tau = 0.0; // every token opens a state
            let options = Options {
                path,
                ..Default::default()
            };
            (case, options)
        })
    })
}

#[test]
fn kind_38_the_cheapest_pair_merges_whatever_the_sign_of_its_information() {
    for (case, options) in cases() {
        for (name, info) in INFORMATION {
            let arrays = case.arrays();
            let mut draw = Draw::new(7);
            let cache = Cache {
                states: (0..case.dims.states_len()).map(|_| draw.normal()).collect(),
                n: vec![2; 4],
                info: info.to_vec(),
            };
            let inputs = arrays.inputs(None);
            let expected = recurrent::forward(&case.dims, &case.config, &inputs, Some(&cache));
            let expected = expected
                .expect("a cache that a run may have left")
                .trace
                .decisions;
            assert!(
                expected.merge_at.iter().all(|&at| at >= 0),
                "{name}: every token merges"
            );
            for gpu in gpus() {
                let got = op::run(
                    gpu,
                    &case.dims,
                    &case.config,
                    &inputs,
                    Some(&cache),
                    &options,
                );
                let got = got.unwrap_or_else(|error| panic!("{name}: {error}")).trace;
                let setting = (case.config.merge, options.path, gpu.variant());
                assert_eq!(got.decisions, expected, "{name}, {setting:?}");
            }
        }
    }
}

/// What the pass reads and writes for one sequence.
struct Scalars {
    spec: Spec,
    chunks: usize,
    /// Score and event of every token.
    trace: Vec<u32>,
    /// Live states, then n, Ī and place of each.
    scalars: Vec<u32>,
}

impl Scalars {
    /// A full cache and tokens of which most open a state. All scores are multiples of 1/64, so that sums do not
    /// depend on their order.
    fn new(capacity: usize, subgroup: usize, seed: u64) -> Self {
        let (chunks, chunk) = (3, 64);
        let mut draw = Draw::new(seed);
        let mut number = |most: u32| (draw.uniform() * most as f32) as u32;
        let mut trace = Vec::new();
        for _ in 0..chunks * chunk {
            let score = number(128) as f32 / 64.0;
            trace.extend([score.to_bits(), u32::from(number(4) > 0)]);
        }
        let mut scalars = vec![capacity as u32];
        for state in 0..capacity as u32 {
            let info = number(4096) as f32 / 64.0 - 16.0;
            let place = (state * 7 + 3) % capacity as u32;
            scalars.extend([1 + number(5), info.to_bits(), place]);
        }
        Self {
            spec: Spec {
                dims: dims([1, chunks * chunk, 1, 1, 4, 4, capacity]),
                config: Config::new(Backbone::Decay),
                chunk,
                float: Float::F32,
                replay: false,
                measure: true,
                slice: 1,
                subgroup,
                unroll: true,
            },
            chunks,
            trace,
            scalars,
        }
    }

    /// Runs a pass; gives trace, scalars, slot map and entries.
    fn run(&self, gpu: &Gpu, source: &str) -> [Vec<u32>; 4] {
        let (capacity, chunk) = (self.spec.dims.capacity, self.spec.chunk);
        let tokens = self.chunks * chunk;
        let usage = wgpu::BufferUsages::STORAGE;
        let buffer = |words: &[u32], usage| {
            let buffer = gpu.device().create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: words.len() as u64 * 4,
                usage: usage | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: false,
            });
            gpu.queue()
                .write_buffer(&buffer, 0, bytemuck::cast_slice(words));
            buffer
        };
        let chunks = self.chunks as u32;
        let params = [tokens as u32, 0, chunks, chunks, 1, 0, 0, 0];
        let mut lengths = vec![0; MAX_BATCH];
        lengths[0] = tokens as u32 - 5;
        let uniform = wgpu::BufferUsages::UNIFORM;
        let buffers = [
            buffer(&params, uniform),
            buffer(&lengths, uniform),
            buffer(&[0; 4], uniform),
            buffer(&vec![(-0.5f32).to_bits(); tokens], usage),
            buffer(&self.trace, usage),
            buffer(&self.scalars, usage),
            buffer(&vec![0; tokens * 4], usage),
            buffer(&vec![0; (self.chunks + 1) * (capacity + 1) * 2], usage),
        ];
        let device = gpu.device();
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(source.into()),
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: Default::default(),
            cache: None,
        });
        let layout = pipeline.get_bind_group_layout(0);
        // τ is not read here, so it has no place in the layout.
        let bound = buffers
            .iter()
            .enumerate()
            .filter(|(binding, _)| *binding != 2);
        let entries: Vec<_> = bound
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding: binding as u32,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout,
            entries: &entries,
        });
        let mut encoder = device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(1, 1, 1);
        drop(pass);
        gpu.queue().submit([encoder.finish()]);
        [4, 5, 6, 7].map(|at| read(gpu, &buffers[at]).expect("a device"))
    }
}

/// Subgroup operations through workgroup memory: a group of any size is one subgroup.
const EMULATED: &str = "
var<workgroup> exchanged: array<vec4<u32>, SUBGROUP>;
fn exchange(x: vec4<u32>) {
    workgroupBarrier();
    exchanged[lane] = x;
    workgroupBarrier();
}
fn emulated_min(x: u32) -> u32 {
    exchange(vec4<u32>(x));
    var least = exchanged[0].x;
    for (var i = 1u; i < SUBGROUP; i++) {
        least = min(least, exchanged[i].x);
    }
    return least;
}
fn emulated_or(x: vec2<u32>) -> vec2<u32> {
    exchange(vec4<u32>(x, x));
    var bits = vec2<u32>();
    for (var i = 0u; i < SUBGROUP; i++) {
        bits |= exchanged[i].xy;
    }
    return bits;
}
fn emulated_add(x: f32) -> f32 {
    exchange(vec4<u32>(bitcast<u32>(x)));
    var sum = 0.0;
    for (var i = 0u; i < SUBGROUP; i++) {
        sum += bitcast<f32>(exchanged[i].x);
    }
    return sum;
}
fn emulated_shuffle(x: u32, from_lane: u32) -> u32 {
    exchange(vec4<u32>(x));
    return exchanged[from_lane].x;
}
fn emulated_shuffle_down(x: u32, by: u32) -> u32 {
    exchange(vec4<u32>(x));
    return exchanged[min(lane + by, SUBGROUP - 1u)].x;
}
fn emulated_ballot(x: bool) -> vec4<u32> {
    exchange(vec4<u32>(select(0u, 1u, x)));
    var words = vec4<u32>();
    for (var i = 0u; i < SUBGROUP; i++) {
        words[i / 32u] |= exchanged[i].x << (i % 32u);
    }
    return words;
}
";

/// The pass with every subgroup operation emulated.
fn emulated(header: &str) -> String {
    let mut source = COMPACT_SUBGROUP.source(header);
    for (from, to) in [
        (
            "subgroupShuffleDown(state.info, 1u)",
            "bitcast<f32>(emulated_shuffle_down(bitcast<u32>(state.info), 1u))",
        ),
        ("subgroupShuffleDown(", "emulated_shuffle_down("),
        ("subgroupShuffle(", "emulated_shuffle("),
        ("subgroupMin(", "emulated_min("),
        ("subgroupOr(", "emulated_or("),
        ("subgroupAdd(", "emulated_add("),
        ("subgroupBallot(", "emulated_ballot("),
    ] {
        source = source.replace(from, to);
    }
    let operation = source.match_indices("subgroup").find(|(at, word)| {
        let next = source[at + word.len()..].chars().next();
        next.is_some_and(char::is_uppercase)
    });
    assert_eq!(operation, None, "an operation that is not emulated");
    source + EMULATED
}

/// Subgroups that no adapter at hand has: every state has its lane, and the pass makes what the one without subgroups
/// makes, whichever lane the cheapest pair lies in.
#[test]
fn kind_20_wide_subgroups_merge_as_one_invocation_does() {
    let Some(gpu) = gpu() else { return };
    for (capacity, subgroup) in [
        (3, 4),
        (8, 8),
        (30, 32),
        (34, 64),
        (64, 64),
        (40, 128),
        (64, 128),
    ] {
        let mut merged = Vec::new();
        for seed in 0..4 {
            let scalars = Scalars::new(capacity, subgroup, seed);
            let header = scalars.spec.header();
            let expected = scalars.run(gpu, &COMPACT.source(&header));
            let got = scalars.run(gpu, &emulated(&header));
            for (array, (got, expected)) in got.iter().zip(&expected).enumerate() {
                let name = ["trace", "scalars", "slots", "entries"][array];
                assert_eq!(
                    got, expected,
                    "{name}: {capacity} states, subgroups of {subgroup}"
                );
            }
            merged.extend(expected[0].chunks(2).map(|word| word[1] >> 8 & 255));
        }
        let last = capacity as u32 - 1;
        assert!(merged.contains(&last), "{capacity}: the newest pair merges");
        let older = merged.iter().any(|&merged| merged > 0 && merged < last);
        assert!(older || capacity == 3, "{capacity}: older pairs merge");
    }
}

/// Set in the process that runs under another subgroup size.
const CHILD: &str = "DLA_TEST_SUBGROUP_CHILD";

/// Mesa's CPU driver takes its subgroup size from the environment; other adapters are as they are.
#[test]
fn kind_20_merges_are_right_at_every_subgroup_size_that_the_adapter_takes() {
    let Some(gpu) = gpu() else { return };
    if std::env::var_os(CHILD).is_some() || !gpu.info().name.contains("llvmpipe") {
        println!("subgroups of {}", gpu.variant().subgroup);
        return at_this_size(gpu);
    }
    for bits in [128, 256, 512] {
        let run = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args([
                "kind_20_merges_are_right_at_every_subgroup_size",
                "--nocapture",
            ])
            .env(CHILD, "1")
            .env("LP_NATIVE_VECTOR_WIDTH", bits.to_string())
            .output()
            .expect("this program");
        let (out, fault) = (&run.stdout, &run.stderr);
        let told = String::from_utf8_lossy(out) + String::from_utf8_lossy(fault);
        assert!(run.status.success(), "{bits} bits: {told}");
        let size = format!("subgroups of {}\n", bits / 32);
        assert!(told.contains(&size), "{bits} bits: {told}");
    }
}

/// Caches of all sizes that the subgroup pass takes on this adapter.
fn at_this_size(gpu: &Gpu) {
    let most = gpu.variant().subgroup.min(64);
    assert!(most >= 4, "subgroups");
    for capacity in [2, 3, most / 2, most - 1, most] {
        let mut case = Case::new("kind_20", dims([2, 150, 2, 1, 8, 8, capacity]));
        case.tau = 1.0;
        let arrays = case.arrays();
        let inputs = arrays.inputs(None);
        let options = Options {
            path: Path::Chunks,
            ..Default::default()
        };
        let got = op::run(gpu, &case.dims, &case.config, &inputs, None, &options);
        let got = got.unwrap_or_else(|error| panic!("{error}"));
        let inputs = arrays.wide();
        let expected = recurrent::forward(&case.dims, &case.config, &inputs.inputs(None), None);
        let expected = expected.expect("a case");
        assert_eq!(got.trace.decisions, expected.trace.decisions, "{capacity}");
        assert_eq!(got.cache.n, expected.cache.n, "{capacity}");
    }
}
