//! The golden cases, written by an implementation of its own in double precision, on the device.

use std::path::{Path, PathBuf};

use dla_cli::case::Case;
use dla_cli::tensors::{Element, TensorFile};
use dla_core::{Decisions, Inputs, Output, trace};
use dla_tests::cases::Arrays;
use dla_tests::gpu::gpu;
use dla_tests::tolerance::{Tolerance, assert_near, assert_output_near};
use dla_wgpu::Gpu;
use dla_wgpu::op::{self, Options};

/// How a file of expected arrays ends.
const EXPECTED: &str = ".expected.safetensors";

#[test]
fn golden_cases_in_chunks_of_16() {
    every_case(&in_chunks(16));
}

#[test]
fn golden_cases_in_chunks_of_64() {
    every_case(&in_chunks(64));
}

#[test]
fn golden_cases_token_by_token() {
    every_case(&Options {
        path: op::Path::Steps,
        ..Default::default()
    });
}

fn in_chunks(chunk: usize) -> Options {
    Options {
        chunk: Some(chunk),
        path: op::Path::Chunks,
        ..Default::default()
    }
}

fn every_case(options: &Options) {
    let Some(gpu) = gpu() else { return };
    let cases = files();
    assert_eq!(cases.len(), 11, "{cases:?}");
    for path in cases {
        Golden::read(&path).check(gpu, options);
    }
}

/// The case files, in the order of their names.
fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/op");
    let files = std::fs::read_dir(folder).expect("the golden folder is part of the repository");
    let mut files: Vec<_> = files
        .map(|file| file.expect("a readable folder").path())
        .filter(|path| !path.to_string_lossy().ends_with(EXPECTED))
        .collect();
    files.sort();
    files
}

/// A case and what is expected of it.
struct Golden {
    name: String,
    case: Case,
    expected: TensorFile,
}

impl Golden {
    fn read(path: &Path) -> Self {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let case = Case::read(path).unwrap_or_else(|error| panic!("{error}"));
        let expected = path.with_file_name(format!("{name}{EXPECTED}"));
        Self {
            name: name.into_owned(),
            case,
            expected: TensorFile::read(&expected).unwrap_or_else(|error| panic!("{error}")),
        }
    }

    /// The device's own decisions are right and its numbers are the reference's under them; without near
    /// ties, and always when forced to the file's decisions, it gives the file's numbers.
    fn check(&self, gpu: &Gpu, options: &Options) {
        let own = self.run(gpu, options, None);
        let near_ties = self.judge(&own);
        let decisions = self.decisions();
        if near_ties == 0 {
            self.compare(&own, decisions.as_ref());
        }
        if let Some(decisions) = &decisions {
            self.compare(&self.run(gpu, options, Some(decisions)), Some(decisions));
        }
    }

    fn run(&self, gpu: &Gpu, options: &Options, replay: Option<&Decisions>) -> Output<f32> {
        let Case {
            dims,
            config,
            cache,
            ..
        } = &self.case;
        let inputs = Inputs {
            replay,
            ..self.case.inputs()
        };
        op::run(gpu, dims, config, &inputs, cache.as_ref(), options)
            .unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Holds a run to the reference forced to its decisions; returns how many of these were near ties.
    fn judge(&self, got: &Output<f32>) -> u64 {
        let Case { dims, config, .. } = &self.case;
        let name = &self.name;
        let wide = Arrays::of(&self.case.inputs()).wide();
        let decisions = &got.trace.decisions;
        let judged = trace::judge(dims, config, &wide.inputs(None), None, decisions)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        if let Some(fault) = judged.fault {
            panic!("{name}: {fault}");
        }
        eprintln!(
            "{name}: {} near ties of {} decisions",
            judged.near_ties, judged.decisions
        );
        assert_output_near(name, got, &judged.output, Tolerance::default());
        judged.near_ties
    }

    /// The file's decisions; only a schedule that measures has any.
    fn decisions(&self) -> Option<Decisions> {
        Some(Decisions {
            boundary: self.array("boundary")?,
            merge_at: self.array("merge_at")?,
        })
    }

    /// Compares with the file, which holds `o` and, with decisions, all else.
    fn compare(&self, got: &Output<f32>, decisions: Option<&Decisions>) {
        let name = &self.name;
        let near = |array, got: &[f32]| {
            let expected: Vec<f32> = self.array(array).expect(array);
            let expected: Vec<f64> = expected.into_iter().map(f64::from).collect();
            assert_near(name, array, got, &expected, 1e-4);
        };
        near("o", &got.o);
        let Some(decisions) = decisions else { return };
        assert_eq!(&got.trace.decisions, decisions, "{name}");
        assert_eq!(
            Some(&got.trace.count),
            self.array("count").as_ref(),
            "{name}"
        );
        let n: Vec<i32> = got.cache.n.iter().map(|&n| n as i32).collect();
        assert_eq!(Some(n), self.array("n"), "{name}");
        near("score", &got.trace.score);
        near("states", &got.cache.states);
        near("info", &got.cache.info);
    }

    fn array<E: Element>(&self, array: &'static str) -> Option<Vec<E>> {
        let tensor = self.expected.get(array)?;
        let values = tensor.values("", tensor.shape());
        Some(values.unwrap_or_else(|error| panic!("{error}")))
    }
}
