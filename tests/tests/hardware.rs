//! The record of all machines keeps other machines' rows and knows which are stale.

use dla_tests::hardware::{Record, Row};
use dla_tests::kernels::Kernels;

const COLUMNS: &str =
    "| device | backend | driver | kernels | WGSL | cases | o | score | states | info |";

fn line(device: &str, kernels: Kernels, hash: u64, o: &str) -> String {
    let name = kernels.name();
    format!(
        "| {device} | vulkan | a driver 1.0 | {name} | {hash:016x} | 40 | {o} | 1e-7 | 1e-7 | 1e-7 |"
    )
}

fn row(line: &str) -> Row {
    Row::parse(line).expect("a row")
}

#[test]
fn written_and_read_again_it_is_the_same() {
    let mut record = Record::default();
    record.put(row(&line("one", Kernels::Steps, 1, "1e-7")));
    record.put(row(&line("two", Kernels::Matrix, 2, "1e-4")));
    let text = record.to_string();
    assert!(text.contains(COLUMNS), "{text}");
    assert_eq!(Record::parse(&text), record);
}

#[test]
fn a_row_replaces_that_of_the_same_device_and_kernels() {
    let old = line("one", Kernels::Steps, 1, "1e-7");
    let other = line("two", Kernels::Steps, 1, "1e-7");
    let new = line("one", Kernels::Steps, 2, "2e-7");
    let mut record = Record::default();
    for line in [&old, &other, &new] {
        record.put(row(line));
    }
    let text = record.to_string();
    assert!(text.contains(&new) && text.contains(&other), "{text}");
    assert!(!text.contains(&old), "{text}");
}

#[test]
fn changed_sources_make_a_row_stale() {
    let hash = Kernels::Portable.hash();
    let mut record = Record::default();
    record.put(row(&line("now", Kernels::Portable, hash, "1e-7")));
    record.put(row(&line("then", Kernels::Portable, hash ^ 1, "1e-7")));
    assert_eq!(record.stale(), ["then, portable"]);
}

#[test]
fn kernels_without_a_row_are_named() {
    let mut record = Record::default();
    for kernels in [Kernels::Portable, Kernels::Half, Kernels::Steps] {
        record.put(row(&line("one", kernels, 1, "1e-7")));
    }
    assert_eq!(record.missing(), ["subgroups", "f16 matrices"]);
}
