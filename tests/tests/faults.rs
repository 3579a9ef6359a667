//! docs/faults.md says which tests hold each kind of fault; the names of the tests are what it is held to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Kinds = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every source below `folder` that may hold tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let ours =
            !name.starts_with('.') && !["target", "node_modules", "dist", "pkg"].contains(&&*name);
        if path.is_dir() && ours {
            sources(&path, found);
        } else if name.ends_with(".rs") || name.ends_with(".mjs") {
            found.push(path);
        }
    }
}

/// The numbers that begin `name`, as in `05_06_and_10_restored` and `05: restored`.
fn kinds(name: &str) -> Vec<String> {
    let words = name.split(['_', ' ', ':']);
    let words = words.filter(|word| *word != "and");
    let numbers =
        words.take_while(|word| word.len() == 2 && word.bytes().all(|b| b.is_ascii_digit()));
    numbers.map(str::to_owned).collect()
}

/// The kinds that tests name, each with their files.
fn tested() -> Kinds {
    let mut found = Vec::new();
    sources(&root(), &mut found);
    let mut tested = Kinds::new();
    for path in found
        .iter()
        .filter(|path| !path.ends_with("tests/tests/faults.rs"))
    {
        let text = fs::read_to_string(path).expect("a source");
        let mark = match path.extension().is_some_and(|ending| ending == "rs") {
            true => "fn kind_",
            false => "kind ",
        };
        let file = path.strip_prefix(root()).expect("below the root");
        let file = file.to_string_lossy().replace('\\', "/");
        for (at, _) in text.match_indices(mark) {
            for kind in kinds(&text[at + mark.len()..]) {
                tested.entry(kind).or_default().insert(file.clone());
            }
        }
    }
    tested
}

/// The kinds of the table, each with the files that it names.
fn told() -> Kinds {
    let table = fs::read_to_string(root().join("docs/faults.md")).expect("the table");
    let mut told = Kinds::new();
    for line in table.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let [_, kind, _, files, _] = cells[..]
            && kinds(kind).len() == 1
        {
            let files = files.split('`').skip(1).step_by(2).map(str::to_owned);
            told.insert(kind.to_owned(), files.collect());
        }
    }
    told
}

#[test]
fn the_table_of_faults_names_every_test_of_a_kind() {
    let (tested, told) = (tested(), told());
    assert!(told.len() > 20, "the table is read");
    for kind in tested.keys().chain(told.keys()) {
        assert_eq!(
            told.get(kind),
            tested.get(kind),
            "kind {kind} of docs/faults.md"
        );
    }
}
