//! The shipped WGSL as text: what each set of kernels compiles under a fixed list of settings, the same on
//! every machine.

use std::collections::HashSet;

use dla_core::dla::gate::GateMode;
use dla_core::{Backbone, Config, Dims, MergeCost, Norm, Schedule};
use dla_shaders::Pass;
use dla_wgpu::op::Walk;
use dla_wgpu::plan::{Limits, Plan};
use dla_wgpu::{Float, Spec, Variant, op};

use crate::cases::dims;
use crate::layer_sources;

/// Which kernels run: what they need of a device, and the way through the states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernels {
    /// Chunk by chunk in f32, with no optional feature.
    Portable,
    /// The same with subgroup operations.
    Subgroups,
    /// The same in f16.
    Half,
    /// The same with cooperative matrices.
    Matrix,
    /// Token by token in f32.
    Steps,
}

/// One pass under one setting.
#[derive(Clone, Debug)]
pub struct Source {
    /// Setting and pass, for messages.
    pub name: String,
    /// The kernels that it is part of.
    pub kernels: Kernels,
    /// The pass.
    pub pass: &'static Pass,
    /// Its WGSL.
    pub text: String,
}

impl Kernels {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Portable,
        Self::Subgroups,
        Self::Half,
        Self::Matrix,
        Self::Steps,
    ];

    /// Their name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Subgroups => "subgroups",
            Self::Half => "f16",
            Self::Matrix => "f16 matrices",
            Self::Steps => "steps",
        }
    }

    /// The element type of arrays.
    pub fn float(self) -> Float {
        match self {
            Self::Half | Self::Matrix => Float::F16,
            Self::Portable | Self::Subgroups | Self::Steps => Float::F32,
        }
    }

    /// Whether they need no optional feature.
    pub fn portable(self) -> bool {
        matches!(self, Self::Portable | Self::Steps)
    }

    /// Whether a device runs them.
    pub fn run_on(self, device: Variant) -> bool {
        match self {
            Self::Portable | Self::Steps => true,
            Self::Subgroups => device.subgroup > 0,
            Self::Half => device.f16,
            Self::Matrix => device.cooperative_matrix,
        }
    }

    /// How calls reach them; matrices want whole chunks.
    pub fn options(self) -> op::Options {
        op::Options {
            chunk: Some(if self == Self::Half { 32 } else { 64 }),
            float: self.float(),
            path: match self {
                Self::Steps => op::Path::Steps,
                _ => op::Path::Chunks,
            },
            ..Default::default()
        }
    }

    /// Whether they take calls of this shape that decide by themselves.
    pub fn take(self, dims: &Dims, config: &Config) -> bool {
        let dynamic = config.schedule == Schedule::Dynamic;
        let weighs = dynamic && config.merge == MergeCost::Ward;
        let spec = Spec {
            float: self.float(),
            ..usual(*dims)
        };
        match self {
            Self::Steps => true,
            Self::Matrix => !weighs && spec.fits_matrix(),
            Self::Portable | Self::Subgroups | Self::Half => !weighs,
        }
    }

    /// A device that runs them: the same for all machines.
    fn variant(self) -> Variant {
        Variant {
            f16: self.float() == Float::F16,
            subgroup: if self.portable() { 0 } else { 32 },
            cooperative_matrix: self == Self::Matrix,
            timestamps: false,
        }
    }

    /// Every pass under every setting that these kernels take.
    pub fn sources(self) -> Vec<Source> {
        let walks: &[Walk] = match self {
            Self::Steps => &[Walk::Steps, Walk::Step],
            _ => &[Walk::Chunks],
        };
        let mut sources = Vec::new();
        for (setting, mut spec) in settings() {
            spec.float = self.float();
            spec.subgroup = self.variant().subgroup.max(1);
            if self == Self::Matrix && !spec.fits_matrix() {
                continue;
            }
            if self == Self::Steps {
                spec.chunk = 1;
            }
            let weighs = spec.config.merge == MergeCost::Ward && !spec.replay;
            let walks = walks.iter().filter(|&&walk| walk == Walk::Steps || !weighs);
            for &walk in walks {
                spec.slice = slice(&spec, walk);
                let header = spec.header();
                let passes = op::passes(&spec, self.variant(), walk);
                sources.extend(passes.into_iter().map(|pass| Source {
                    name: format!("{}, {setting}: {}", self.name(), pass.name),
                    kernels: self,
                    pass,
                    text: pass.source(&header),
                }));
            }
        }
        sources
    }

    /// A hash of all their sources (FNV-1a, 64 bits).
    pub fn hash(self) -> u64 {
        let sources = self.sources();
        let bytes = sources.iter().flat_map(|source| source.text.bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

/// The backward passes of `float` under every setting and gate that they take.
pub fn gradient_sources(float: Float) -> Vec<Source> {
    let kernels = match float {
        Float::F32 => Kernels::Portable,
        Float::F16 => Kernels::Half,
    };
    let mut sources = Vec::new();
    for (setting, mut spec) in settings() {
        (spec.float, spec.replay, spec.measure) = (float, true, false);
        let header = spec.header();
        for gate in [GateMode::Hard, GateMode::StraightThrough] {
            let passes = op::gradient_passes(&spec, gate);
            sources.extend(passes.into_iter().map(|pass| Source {
                name: format!("gradients, {}, {setting}: {}", kernels.name(), pass.name),
                kernels,
                pass,
                text: pass.source(&header),
            }));
        }
    }
    sources
}

/// All kernels' sources, the backward passes' and the layers', each text once.
pub fn sources() -> Vec<Source> {
    let mut seen = HashSet::new();
    let forward = Kernels::ALL.into_iter().flat_map(Kernels::sources);
    let backward = [Float::F32, Float::F16]
        .into_iter()
        .flat_map(gradient_sources);
    let all = forward.chain(backward).chain(layer_sources::sources());
    all.filter(|source| seen.insert(source.text.clone()))
        .collect()
}

/// The settings: every constant of the header at its usual value, its bounds, and what has hurt somebody.
fn settings() -> Vec<(&'static str, Spec)> {
    let spec = |sizes, change: &dyn Fn(&mut Spec)| {
        let mut spec = usual(dims(sizes));
        change(&mut spec);
        spec
    };
    let with = |change| spec([1, 1, 4, 2, 16, 16, 8], change);
    let sized = |sizes| spec(sizes, &|_| ());
    let delta = |s: &mut Spec| s.config.backbone = Backbone::Delta;
    vec![
        ("usual", with(&|_| ())),
        ("paper", sized([1, 1, 48, 1, 128, 64, 30])),
        ("odd sizes", sized([1, 1, 3, 1, 37, 21, 7])),
        ("wide", sized([1, 1, 1, 1, 256, 256, 3])),
        ("narrow", sized([1, 1, 2, 1, 1, 1, 3])),
        ("one state", sized([1, 1, 2, 1, 16, 16, 1])),
        ("64 states", sized([1, 1, 1, 1, 8, 8, 64])),
        ("chunks of 16", with(&|s| s.chunk = 16)),
        ("chunks of 1", with(&|s| s.chunk = 1)),
        ("no rms", with(&|s| s.config.norm = Norm::None)),
        ("oldest", with(&|s| s.config.merge = MergeCost::Oldest)),
        ("ward", with(&|s| s.config.merge = MergeCost::Ward)),
        ("replay", with(&|s| s.replay = true)),
        ("loops", with(&|s| s.unroll = false)),
        ("delta", with(&delta)),
        (
            "delta, loops",
            with(&|s| {
                delta(s);
                s.unroll = false;
            }),
        ),
        ("delta, odd sizes", spec([1, 1, 3, 1, 37, 21, 7], &delta)),
        ("delta, wide", spec([1, 1, 1, 1, 256, 256, 3], &delta)),
        (
            "paper replay",
            spec([1, 1, 48, 1, 128, 64, 30], &|s| {
                (s.replay, s.measure) = (true, false);
            }),
        ),
        ("delta, paper", spec([1, 1, 6, 6, 128, 128, 30], &delta)),
    ]
}

/// The columns that one group of the step passes moves, as a plan has it.
fn slice(spec: &Spec, walk: Walk) -> usize {
    let (backbone, float) = (spec.config.backbone, spec.float);
    let plan = match walk {
        Walk::Step => Plan::step(spec.dims, backbone, float, Limits::PORTABLE),
        Walk::Steps | Walk::Chunks => Plan::steps(spec.dims, backbone, float, Limits::PORTABLE),
    };
    plan.unwrap_or_else(|error| panic!("the settings' sizes are in range: {error}"))
        .slice
}

fn usual(dims: Dims) -> Spec {
    Spec {
        dims,
        config: Config::new(Backbone::Decay),
        chunk: 64,
        float: Float::F32,
        replay: false,
        measure: true,
        slice: 1,
        subgroup: 1,
        unroll: true,
    }
}
