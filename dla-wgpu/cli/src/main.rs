//! The `dla` command.
fn main() {}
