//! `dla-web-pkg -- --serve`, as its users start it.

use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;

/// A port in use ends the program before anything is built: a build would fail here, for it finds no cargo.
#[test]
fn kind_68_a_taken_port_is_said_before_anything_is_built() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let run = Command::new(env!("CARGO_BIN_EXE_dla-web-pkg"))
        .args(["--serve", &port])
        .env("CARGO", "/nonexistent/cargo")
        .output()
        .expect("a program");
    let complaint = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{complaint}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    for words in [&*port, "in use", "--serve PORT"] {
        assert!(complaint.contains(words), "{words}: {complaint}");
    }
}
