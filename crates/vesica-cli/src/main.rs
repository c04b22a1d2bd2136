//! The `vesica` command as a program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

/// The allocator of musl has one lock for all threads. Where the system's C library is used, its allocator is.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let itself: Vec<_> = std::env::current_exe().map(Into::into).into_iter().collect();
    ExitCode::from(vesica_cli::main(std::env::args_os(), &itself))
}
