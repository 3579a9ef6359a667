//! No case file, however wrong, makes `dla op` panic or leave an output behind.

mod common;

use common::{Raw, assert_refused, file, op};

/// A name, what its error must mention, and the bytes of the file.
type Malformed = (&'static str, &'static str, Vec<u8>);

/// The good case after `spoil`.
fn spoilt(spoil: impl FnOnce(&mut Raw)) -> Vec<u8> {
    let mut raw = Raw::case();
    spoil(&mut raw);
    raw.bytes()
}

/// The good case with a metadata word.
fn with_word(key: &str, value: &str) -> Vec<u8> {
    spoilt(|raw| raw.word(key, value))
}

/// The good case with a tensor of equal f32.
fn with_floats(name: &str, shape: &[usize], value: f32) -> Vec<u8> {
    spoilt(|raw| raw.floats(name, shape, value))
}

/// The good case with its header's text changed.
fn with_header(change: impl FnOnce(String) -> String) -> Vec<u8> {
    let raw = Raw::case();
    file(&change(raw.header()), &raw.data())
}

/// Files that are not well-formed safetensors.
fn containers() -> Vec<Malformed> {
    let good = Raw::case().bytes();
    let data = Raw::case().data();
    let length = |n: u64| [&n.to_le_bytes()[..], &good[8..]].concat();
    let format = "well-formed safetensors";
    vec![
        ("empty", format, Vec::new()),
        ("seven bytes", format, vec![0; 7]),
        ("no header", format, vec![0; 8]),
        ("truncated in the header", format, good[..40].to_vec()),
        (
            "truncated in the data",
            format,
            good[..good.len() - 1].to_vec(),
        ),
        ("a byte too many", format, [&good[..], &[0]].concat()),
        ("header longer than the file", format, length(1 << 20)),
        ("header of 2^63 bytes", format, length(1 << 63)),
        ("header of 2^64 - 1 bytes", format, length(u64::MAX)),
        (
            "header not UTF-8",
            format,
            [&2u64.to_le_bytes()[..], &[0xff, 0xfe]].concat(),
        ),
        ("header not JSON", format, file("{\"q\":", &data)),
        ("header an array", format, file("[]", &data)),
        (
            "header nested deeply",
            format,
            file(&"[".repeat(100_000), &data),
        ),
        (
            "unknown type",
            format,
            with_header(|h| h.replacen("F32", "F33", 1)),
        ),
        (
            "overlapping tensors",
            format,
            with_header(|h| h.replacen("[24,48]", "[0,24]", 1)),
        ),
        (
            "a gap between tensors",
            format,
            with_header(|h| h.replacen("[24,48]", "[28,52]", 1)),
        ),
        (
            "offsets backwards",
            format,
            with_header(|h| h.replacen("[24,48]", "[48,24]", 1)),
        ),
        (
            "negative size",
            format,
            with_header(|h| h.replacen("[1,3,1,2]", "[1,3,-1,2]", 1)),
        ),
        (
            "sizes that overflow",
            format,
            with_header(|h| h.replacen("[1,3,1,2]", "[4294967296,4294967296,4294967296,2]", 1)),
        ),
        (
            "shape that does not fit the bytes",
            format,
            with_header(|h| h.replacen("[1,3,1,2]", "[1,3,1,3]", 1)),
        ),
        (
            "a tensor twice",
            "k twice",
            with_header(|h| {
                h.replacen(
                    '{',
                    r#"{"k":{"dtype":"F32","shape":[1,3,1,2],"data_offsets":[24,48]},"#,
                    1,
                )
            }),
        ),
        (
            "a word twice",
            "tau twice",
            with_header(|h| h.replacen(r#""tau""#, r#""tau":"7","tau""#, 1)),
        ),
        (
            "a word that is a number",
            format,
            with_header(|h| h.replacen(r#""0.9""#, "0.9", 1)),
        ),
    ]
}

/// Metadata that says something the operator does not understand.
fn words() -> Vec<Malformed> {
    vec![
        (
            "no backbone",
            "metadata backbone",
            spoilt(|raw| raw.words.remove(0).0.clear()),
        ),
        (
            "unknown backbone",
            "plain|decay|delta",
            with_word("backbone", "mamba3"),
        ),
        (
            "unknown schedule",
            "dynamic|single|fixed|fenwick|offline",
            with_word("schedule", "greedy"),
        ),
        ("unknown norm", "rms|none", with_word("norm", "layer")),
        (
            "unknown merge",
            "density|ward|oldest",
            with_word("merge", "newest"),
        ),
        (
            "unknown gate",
            "hard|straight-through|soft",
            with_word("gate", "open"),
        ),
        ("unknown word", "taw", with_word("taw", "0.9")),
        (
            "no threshold",
            "metadata tau",
            spoilt(|raw| raw.words.remove(1).0.clear()),
        ),
        ("tau not a number", "metadata tau", with_word("tau", "high")),
        ("tau NaN", "tau", with_word("tau", "NaN")),
        ("tau empty", "metadata tau", with_word("tau", "")),
        (
            "epsilon negative",
            "op, epsilon",
            with_word("epsilon", "-1"),
        ),
        (
            "epsilon infinite",
            "op, epsilon",
            with_word("epsilon", "inf"),
        ),
        (
            "epsilon infinite in f32",
            "op, epsilon",
            with_word("epsilon", "1e39"),
        ),
        ("theta zero", "op, theta", with_word("theta", "0")),
        (
            "theta zero in f32",
            "op, theta",
            with_word("theta", "1e-50"),
        ),
        (
            "theta infinite in f32",
            "op, theta",
            with_word("theta", "1e39"),
        ),
        (
            "capacity not K",
            "metadata capacity",
            with_word("capacity", "3"),
        ),
        (
            "capacity a fraction",
            "metadata capacity",
            with_word("capacity", "2.5"),
        ),
        (
            "fixed without block",
            "metadata block",
            with_word("schedule", "fixed"),
        ),
        (
            "block zero",
            "op, block",
            spoilt(|raw| {
                raw.word("schedule", "fixed");
                raw.word("block", "0");
            }),
        ),
        (
            "control characters",
            "\\u{1b}",
            with_word("schedule", "\u{1b}[2J\nerror: none"),
        ),
    ]
}

/// Tensors that are missing, unknown, or of the wrong type or shape.
fn tensors() -> Vec<Malformed> {
    let mut cases: Vec<Malformed> = vec![
        (
            "unknown tensor",
            "betta",
            with_floats("betta", &[1, 3, 2], 1.0),
        ),
        (
            "q of rank 3",
            "[B, T, G, Dk]",
            with_floats("q", &[1, 3, 2], 1.0),
        ),
        (
            "k of other width",
            "tensor k",
            with_floats("k", &[1, 3, 1, 3], 1.0),
        ),
        (
            "v of other length",
            "tensor v",
            with_floats("v", &[1, 4, 2, 2], 1.0),
        ),
        (
            "g per group",
            "tensor g",
            with_floats("g", &[1, 3, 1], -1.0),
        ),
        (
            "no heads",
            "heads",
            spoilt(|raw| {
                raw.floats("v", &[1, 3, 0, 2], 1.0);
                raw.floats("g", &[1, 3, 0], 1.0);
                raw.floats("lambda", &[1, 3, 0, 2], 1.0);
            }),
        ),
        (
            "no states",
            "capacity",
            with_floats("lambda", &[1, 3, 2, 0], 1.0),
        ),
        (
            "65 states",
            "capacity",
            with_floats("lambda", &[1, 3, 2, 65], 1.0),
        ),
        (
            "heads no multiple of groups",
            "groups",
            spoilt(|raw| {
                raw.floats("q", &[1, 3, 3, 2], 1.0);
                raw.floats("k", &[1, 3, 3, 2], 1.0);
            }),
        ),
        (
            "q in f64",
            "F32",
            spoilt(|raw| raw.tensor("q", "F64", &[1, 3, 1, 2], vec![0; 48])),
        ),
        (
            "g in f16",
            "F32",
            spoilt(|raw| raw.tensor("g", "F16", &[1, 3, 2], vec![0; 12])),
        ),
        (
            "lengths in i64",
            "I32",
            spoilt(|raw| raw.tensor("lengths", "I64", &[1], vec![0; 8])),
        ),
        (
            "beta for decay",
            "beta",
            with_floats("beta", &[1, 3, 2], 0.5),
        ),
        ("delta without beta", "beta", with_word("backbone", "delta")),
        ("g for plain", "op, g", with_word("backbone", "plain")),
        (
            "a gradient of other shape",
            "tensor do",
            with_floats("do", &[1, 3, 2, 3], 1.0),
        ),
        (
            "tau of other length",
            "tensor tau",
            with_floats("tau", &[3], 1.0),
        ),
        (
            "half a cache",
            "all of h0, n0, info0",
            with_floats("h0", &[1, 2, 2, 2, 2], 0.0),
        ),
        (
            "half a replay",
            "all of boundary, merge_at",
            spoilt(|raw| raw.integers("merge_at", &[1, 3, 2], -1)),
        ),
    ];
    for name in ["q", "k", "v", "lambda"] {
        cases.push((name, "to be there", spoilt(|raw| raw.remove(name))));
    }
    cases
}

/// Tensors with values that the operator refuses.
fn values() -> Vec<Malformed> {
    let replay = |boundary: u8, merge_at: i32| {
        spoilt(|raw| {
            raw.tensor("boundary", "U8", &[1, 3, 2], vec![boundary; 6]);
            raw.integers("merge_at", &[1, 3, 2], merge_at);
        })
    };
    let cache = |n: i32, info: f32| {
        spoilt(|raw| {
            raw.floats("h0", &[1, 2, 2, 2, 2], 0.0);
            raw.integers("n0", &[1, 2, 2], n);
            raw.floats("info0", &[1, 2, 2], info);
        })
    };
    vec![
        ("g positive", "op, g", with_floats("g", &[1, 3, 2], 0.1)),
        (
            "g infinite",
            "op, g",
            with_floats("g", &[1, 3, 2], f32::NEG_INFINITY),
        ),
        ("g NaN", "op, g", with_floats("g", &[1, 3, 2], f32::NAN)),
        (
            "lambda NaN",
            "lambda",
            with_floats("lambda", &[1, 3, 2, 2], f32::NAN),
        ),
        ("tau tensor NaN", "tau", with_floats("tau", &[2], f32::NAN)),
        (
            "length negative",
            "lengths",
            spoilt(|raw| raw.integers("lengths", &[1], -1)),
        ),
        (
            "length beyond T",
            "lengths",
            spoilt(|raw| raw.integers("lengths", &[1], 4)),
        ),
        (
            "too few levels",
            "levels",
            spoilt(|raw| raw.word("schedule", "fenwick")),
        ),
        ("boundary of 2", "boundary", replay(2, -1)),
        ("merge below -1", "merge_at", replay(1, -2)),
        ("merge beyond the cache", "merge_at", replay(1, 2)),
        ("negative count", "n0", cache(-1, 0.0)),
        ("information NaN", "info0", cache(1, f32::NAN)),
    ]
}

#[test]
fn hostile_files_are_refused() {
    let cases = [containers(), words(), tensors(), values()].concat();
    for (name, fault, bytes) in cases {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let input = folder.path().join("case.safetensors");
        std::fs::write(&input, bytes).expect("a writable folder");
        let run = op(&input, &folder.path().join("out.safetensors"), &[]);
        assert_refused(name, &run, fault);
        let left = std::fs::read_dir(folder.path())
            .expect("a readable folder")
            .count();
        assert_eq!(left, 1, "{name}: nothing but the input is left");
    }
}

#[test]
fn a_small_file_cannot_ask_for_all_memory() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = folder.path().join("case.safetensors");
    let batch = 1 << 32;
    let bytes = spoilt(|raw| {
        raw.floats("q", &[batch, 0, 1, 256], 0.0);
        raw.floats("k", &[batch, 0, 1, 256], 0.0);
        raw.floats("v", &[batch, 0, 64, 256], 0.0);
        raw.floats("g", &[batch, 0, 64], 0.0);
        raw.floats("lambda", &[batch, 0, 64, 1], 0.0);
    });
    std::fs::write(&input, bytes).expect("a writable folder");
    let run = op(&input, &folder.path().join("out.safetensors"), &[]);
    assert_refused("memory", &run, "memory");
}

#[test]
fn the_soft_recurrence_has_no_chunks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = folder.path().join("case.safetensors");
    std::fs::write(&input, with_word("gate", "soft")).expect("a writable folder");
    let output = folder.path().join("out.safetensors");
    assert_refused(
        "soft",
        &op(&input, &output, &["--chunk", "2"]),
        "without --chunk",
    );
    assert!(op(&input, &output, &[]).status.success());
}

#[test]
fn the_unspoilt_case_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = folder.path().join("case.safetensors");
    std::fs::write(&input, Raw::case().bytes()).expect("a writable folder");
    let run = op(&input, &folder.path().join("out.safetensors"), &[]);
    assert!(run.status.success(), "{}", common::stderr(&run));
}
