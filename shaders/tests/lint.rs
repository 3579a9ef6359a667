//! Every shipped pass parses, validates and declares the bindings that its text states.

use dla_shaders::{Access, Needs, PASSES, Pass};
use naga::valid::{Capabilities, ValidationFlags, Validator};

fn module(pass: &Pass) -> naga::Module {
    let source = pass.default_source();
    naga::front::wgsl::parse_str(&source)
        .unwrap_or_else(|error| panic!("{}: {}", pass.name, error.emit_to_string(&source)))
}

#[test]
fn every_pass_validates() {
    for pass in PASSES {
        let module = module(pass);
        Validator::new(ValidationFlags::all(), Capabilities::all())
            .validate(&module)
            .unwrap_or_else(|error| panic!("{}: {error:?}", pass.name));
        assert_eq!(module.entry_points.len(), 1, "{}", pass.name);
        assert_eq!(module.entry_points[0].name, "main", "{}", pass.name);
    }
}

#[test]
fn bindings_are_read_as_naga_reads_them() {
    for pass in PASSES {
        let module = module(pass);
        let mut declared: Vec<_> = module
            .global_variables
            .iter()
            .filter_map(|(_, variable)| Some((variable.binding?.binding, variable.name.clone()?)))
            .collect();
        declared.sort();
        let read: Vec<_> = pass
            .bindings()
            .iter()
            .map(|binding| (binding.number, binding.name.to_owned()))
            .collect();
        assert_eq!(read, declared, "{}", pass.name);
    }
}

/// 16 KiB of workgroup memory and 256 invocations are WebGPU's defaults; cooperative-matrix passes may take 48 KiB.
#[test]
fn kind_14_workgroups_stay_within_the_default_limits() {
    for pass in PASSES {
        let module = module(pass);
        let mut layouter = naga::proc::Layouter::default();
        layouter
            .update(module.to_ctx())
            .unwrap_or_else(|error| panic!("{}: {error}", pass.name));
        let variables = module.global_variables.iter();
        let bytes: u32 = variables
            .filter(|(_, variable)| variable.space == naga::AddressSpace::WorkGroup)
            .map(|(_, variable)| layouter[variable.ty].size)
            .sum();
        let most = if pass.needs == Needs::Matrix {
            48 << 10
        } else {
            16 << 10
        };
        assert!(
            bytes <= most,
            "{}: {bytes} bytes of workgroup memory",
            pass.name
        );
        let invocations: u32 = module.entry_points[0].workgroup_size.iter().product();
        assert!(
            invocations <= 256,
            "{}: {invocations} invocations",
            pass.name
        );
    }
}

#[test]
fn kind_20_subgroup_passes_take_every_subgroup_size() {
    for pass in PASSES.iter().filter(|pass| pass.needs == Needs::Subgroups) {
        for size in [4, 8, 16, 32, 64, 128] {
            let source = pass.default_source().replace(
                "const SUBGROUP: u32 = 8u;",
                &format!("const SUBGROUP: u32 = {size}u;"),
            );
            let module = naga::front::wgsl::parse_str(&source)
                .unwrap_or_else(|error| panic!("{}: {}", pass.name, error.emit_to_string(&source)));
            assert_eq!(
                module.entry_points[0].workgroup_size,
                [size, 1, 1],
                "{}",
                pass.name
            );
            Validator::new(ValidationFlags::all(), Capabilities::all())
                .validate(&module)
                .unwrap_or_else(|error| panic!("{} at {size}: {error:?}", pass.name));
        }
    }
}

/// Buffers are bound by name, so one name twice would be one buffer bound twice.
#[test]
fn kind_31_no_pass_binds_a_buffer_twice() {
    for pass in PASSES {
        let mut names: Vec<_> = pass.bindings().iter().map(|binding| binding.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{}", pass.name);
    }
}

/// WebGPU promises no order between groups of one dispatch. Without atomics in storage no group can wait for another.
#[test]
fn kind_32_no_pass_waits_for_another_group() {
    for pass in PASSES {
        let module = module(pass);
        for (_, variable) in module.global_variables.iter() {
            let in_storage = matches!(variable.space, naga::AddressSpace::Storage { .. });
            let atomic = matches!(module.types[variable.ty].inner, naga::TypeInner::Atomic(_));
            assert!(
                !(in_storage && atomic),
                "{}: an atomic in storage",
                pass.name
            );
        }
    }
}

#[test]
fn kind_13_no_pass_needs_more_than_eight_storage_buffers() {
    for pass in PASSES {
        let storage = pass
            .bindings()
            .iter()
            .filter(|b| b.access != Access::Uniform)
            .count();
        assert!(storage <= 8, "{}: {storage} storage buffers", pass.name);
    }
}

/// Chromium's WebGPU on SwiftShader keeps what an earlier round of a loop left in a variable that is declared without a
/// value, though the language makes it zero.
#[test]
fn kind_01_variables_are_declared_with_a_value() {
    for pass in PASSES {
        for (number, line) in pass.default_source().lines().enumerate() {
            let declared = line.trim_start().strip_prefix("var ");
            let inside = line.starts_with(' ');
            let Some(declared) = declared.filter(|_| inside) else {
                continue;
            };
            assert!(
                declared.contains('='),
                "{}, line {}: {line}",
                pass.name,
                number + 1
            );
        }
    }
}
