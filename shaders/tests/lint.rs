//! Every shipped pass parses, validates and declares the bindings that its text states.

use dla_shaders::{Access, PASSES, Pass};
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
