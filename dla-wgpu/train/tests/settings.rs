//! Settings files: the examples are valid, mistakes are named.

use std::fs;
use std::path::Path;

use dla_train::Settings;

const GOOD: &str = r#"
steps = 10
output = "out"
[model]
family = "mamba2"
hidden = 8
layers = 1
heads = 2
head_dim = 8
state = 4
[model.dla]
capacity = 2
[data]
task = "mqar"
length = 16
pairs = 2
vocabulary = 32
"#;

fn fault(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replace(from, to);
    let parsed = Settings::parse("run.toml", &text);
    let model = parsed.and_then(|settings| {
        let task = settings.data.task(Some(32))?;
        let model = settings.model.as_ref().expect("a model");
        model.gate()?;
        model.config(task.vocabulary())
    });
    let error = model.expect_err(to);
    assert!(error.is_input() || error.is_unsupported(), "{error}");
    error.to_string()
}

#[test]
fn mistakes_are_named() {
    for (from, to, told) in [
        ("steps", "stepps", "unknown field `stepps`"),
        ("steps = 10", "steps = 10\nsteps = 11", "line 3"),
        ("state = 4", "state = 4\nwidth = 3", "unknown field `width`"),
        ("capacity = 2", "capacity = 2\nk = 3", "unknown field `k`"),
        ("pairs = 2", "pairs = 2\npair = 2", "unknown field `pair`"),
        (
            "[data]\ntask = \"mqar\"",
            "[data]\ntask = \"mqr\"",
            "unknown variant `mqr`",
        ),
        ("steps = 10", "steps = 0", "steps: expected 1 to 2^32"),
        (
            "steps = 10",
            "steps = \"many\"",
            "expected a whole number of at least 0",
        ),
        ("state = 4", "", "model.state: expected a size"),
        ("state = 4", "state = 4\nkey_dim = 3", "model.key_dim"),
        ("mamba2", "mamba3", "model.family"),
        ("mamba2\"", "mamba2\"\nvocabulary = 31", "model.vocabulary"),
        ("capacity = 2", "capacity = 2\ngate = \"open\"", "gate"),
        ("capacity = 2", "capacity = 2\ntheta = 0.0", "theta: "),
        (
            "capacity = 2",
            "capacity = 2\ntheta_end = 0.0",
            "theta_end: ",
        ),
        (
            "capacity = 2",
            "capacity = 2\ntheta_end = -0.1",
            "theta_end: ",
        ),
        (
            "capacity = 2",
            "capacity = 2\ntheta_end = inf",
            "theta_end: ",
        ),
        (
            "capacity = 2",
            "capacity = 2\ntheta_end = nan",
            "theta_end: ",
        ),
        ("capacity = 2", "schedule = \"fixed\"", "model.dla.block"),
        ("capacity = 2", "tau = nan", "model.dla.tau"),
        ("capacity = 2", "capacity = 1000", "capacity"),
        ("pairs = 2", "pairs = 5", "pairs"),
        ("[data]", "[optimiser]\nrate = -1.0\n[data]", "rate: "),
        ("[data]", "[optimiser]\nbeta1 = 1.0\n[data]", "beta1"),
        ("hidden = 8", "hidden = 0", "hidden"),
        (
            "[data]",
            "[compute]\nprecision = \"f8\"\n[data]",
            "unknown variant `f8`",
        ),
        (
            "[data]",
            "[compute]\nloss_scale = 8\n[data]",
            "compute.loss_scale: expected no number, for precision is f32",
        ),
        (
            "[data]",
            "[compute]\nprecision = \"f16\"\nloss_scale = \"static\"\n[data]",
            "expected \"dynamic\" or a positive number",
        ),
        (
            "[data]",
            "[compute]\nprecision = \"f16\"\nloss_scale = -8.0\n[data]",
            "compute.loss_scale: expected \"dynamic\" or a positive number",
        ),
        (
            "[data]",
            "[compute]\nprecision = \"f16\"\nloss_scale = nan\n[data]",
            "compute.loss_scale: expected \"dynamic\" or a positive number",
        ),
    ] {
        let fault = fault(from, to);
        assert!(fault.contains(told), "{to}: expected `{told}` in {fault}");
    }
}

#[test]
fn the_examples_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
    let texts = tempfile::tempdir().expect("a folder");
    fs::write(texts.path().join("a.txt"), "It is a text. ".repeat(20_000)).expect("a text");
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a file");
        let here = text.replace("\"texts\"", &format!("{:?}", texts.path()));
        let settings = Settings::parse(&path.display().to_string(), &here).expect("valid settings");
        let task = settings.data.task(None).expect("a task");
        let model = settings.model.expect("a model").config(task.vocabulary());
        model.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        count += 1;
    }
    assert_eq!(
        count, 7,
        "one for each task, a small one, and the two shipped models"
    );
}

#[test]
fn the_hash_tells_what_matters() {
    let hash = |text: &str| {
        let settings = Settings::parse("run.toml", text).expect("valid settings");
        settings.hash().expect("a hash")
    };
    let other = |from: &str, to: &str| hash(&GOOD.replace(from, to));
    assert_eq!(hash(GOOD), other("\"out\"", "\"elsewhere\""));
    assert_eq!(hash(GOOD), hash(&format!("{GOOD}[every]\nlog = 3\n")));
    let settings = Settings::parse("run.toml", GOOD).expect("valid settings");
    let hashed = serde_json::to_string(&settings).expect("JSON");
    assert!(
        !hashed.contains("theta_end"),
        "runs without it go on: {hashed}"
    );
    assert!(!hashed.contains("compute"), "and so do these: {hashed}");
    let single = "capacity = 2\n[compute]\nprecision = \"f32\"";
    assert_eq!(hash(GOOD), other("capacity = 2", single));
    let half = other("capacity = 2", &single.replace("f32", "f16"));
    let dynamic = format!("{}\nloss_scale = \"dynamic\"", single.replace("f32", "f16"));
    assert_eq!(half, other("capacity = 2", &dynamic));
    let fixed = dynamic.replace("\"dynamic\"", "1024");
    assert_ne!(half, other("capacity = 2", &fixed));
    for (from, to) in [
        ("steps = 10", "steps = 11"),
        ("pairs = 2", "pairs = 3"),
        ("capacity = 2", "capacity = 3"),
        ("state = 4", "state = 5"),
        ("capacity = 2", "capacity = 2\ntheta_end = 0.05"),
        (
            "capacity = 2",
            "capacity = 2\n[compute]\nprecision = \"f16\"",
        ),
    ] {
        assert_ne!(hash(GOOD), other(from, to), "{to}");
    }
}
