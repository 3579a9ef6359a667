//! The `dla` command.

fn main() -> std::process::ExitCode {
    dla_cli::run(std::env::args_os())
}
