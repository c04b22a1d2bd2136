//! The `vesica` command as a program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let itself: Vec<_> = std::env::current_exe().map(Into::into).into_iter().collect();
    ExitCode::from(vesica_cli::main(std::env::args_os(), &itself))
}
