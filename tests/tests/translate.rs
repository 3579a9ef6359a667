//! Every shipped pass under every setting is translated for Vulkan, Metal and DirectX: what no machine at hand
//! runs is at least accepted.

use dla_shaders::{Needs, PASSES};
use dla_tests::kernels::{Kernels, Source, sources};
use naga::Module;
use naga::back::{hlsl, msl, spv};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};

/// naga's own bounds checks, as browsers have them, are the longer translation.
const CHECKS: naga::proc::BoundsCheckPolicies = naga::proc::BoundsCheckPolicies {
    index: naga::proc::BoundsCheckPolicy::Restrict,
    buffer: naga::proc::BoundsCheckPolicy::Restrict,
    image_load: naga::proc::BoundsCheckPolicy::Restrict,
    binding_array: naga::proc::BoundsCheckPolicy::Restrict,
};

#[test]
fn the_settings_reach_every_pass() {
    let sources = sources();
    let reached = |text: &str| {
        let mut passes = sources.iter().map(|source| source.pass);
        passes.any(|pass| pass.default_source() == text)
    };
    for pass in PASSES {
        assert!(reached(&pass.default_source()), "{}", pass.name);
    }
}

/// Under every setting, not only the constants that passes parse alone with: beyond the limit a device may be lost.
#[test]
fn kind_14_workgroup_memory_stays_within_the_limits_under_every_setting() {
    let mut matrices = 0;
    for source in sources() {
        let (module, _) = parse(&source, Capabilities::all());
        let mut layouter = naga::proc::Layouter::default();
        layouter
            .update(module.to_ctx())
            .unwrap_or_else(|error| panic!("{}: {error}", source.name));
        let variables = module.global_variables.iter();
        let bytes: u32 = variables
            .filter(|(_, variable)| variable.space == naga::AddressSpace::WorkGroup)
            .map(|(_, variable)| layouter[variable.ty].size)
            .sum();
        let matrix = source.pass.needs == Needs::Matrix;
        matrices += u32::from(matrix);
        let most = if matrix {
            dla_wgpu::MATRIX_WORKGROUP_BYTES
        } else {
            16 << 10
        };
        assert!(bytes <= most, "{}: {bytes} bytes", source.name);
    }
    assert!(matrices > 0);
}

#[test]
fn spir_v() {
    let options = spv::Options {
        lang_version: (1, 3),
        bounds_check_policies: CHECKS,
        ..Default::default()
    };
    for source in sources() {
        let (module, info) = parse(&source, spv::supported_capabilities());
        let words = spv::write_vec(&module, &info, &options, None);
        assert!(
            words.is_ok_and(|words| !words.is_empty()),
            "{}",
            source.name
        );
    }
}

#[test]
fn metal() {
    let options = msl::Options {
        lang_version: (2, 4),
        bounds_check_policies: CHECKS,
        ..Default::default()
    };
    for source in sources() {
        let (module, info) = parse(&source, msl::supported_capabilities());
        let text = msl::write_string(&module, &info, &options, &Default::default());
        let (_, translated) = text.unwrap_or_else(|error| panic!("{}: {error}", source.name));
        for entry_point in translated.entry_point_names {
            entry_point.unwrap_or_else(|error| panic!("{}: {error}", source.name));
        }
    }
}

/// naga does not write cooperative matrices as HLSL, and wgpu does not offer them on DirectX.
#[test]
fn direct_x() {
    let mut matrices = 0;
    for source in sources() {
        if source.pass.needs == Needs::Matrix {
            matrices += 1;
            continue;
        }
        // Portable kernels run where only the old compiler is.
        let shader_model = match source.kernels {
            Kernels::Portable | Kernels::Steps => hlsl::ShaderModel::V5_1,
            _ => hlsl::ShaderModel::V6_2,
        };
        let options = hlsl::Options {
            shader_model,
            ..Default::default()
        };
        let pipeline = hlsl::PipelineOptions::default();
        let (module, info) = parse(&source, hlsl::supported_capabilities());
        let mut text = String::new();
        let mut writer = hlsl::Writer::new(&mut text, &options, &pipeline);
        let written = writer.write(&module, &info, None);
        let reflected = written.unwrap_or_else(|error| panic!("{}: {error}", source.name));
        for entry_point in reflected.entry_point_names {
            entry_point.unwrap_or_else(|error| panic!("{}: {error}", source.name));
        }
    }
    eprintln!(
        "SKIP: {matrices} sources with cooperative matrices as HLSL, which naga does not write"
    );
}

/// A source as naga reads it, refused if it uses more than the backend is capable of.
fn parse(source: &Source, capabilities: Capabilities) -> (Module, ModuleInfo) {
    let module = naga::front::wgsl::parse_str(&source.text)
        .unwrap_or_else(|error| panic!("{}: {}", source.name, error.emit_to_string(&source.text)));
    let info = Validator::new(ValidationFlags::all(), capabilities).validate(&module);
    let info = info.unwrap_or_else(|error| panic!("{}: {error:?}", source.name));
    (module, info)
}
