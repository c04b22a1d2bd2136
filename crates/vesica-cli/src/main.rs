//! The `vesica` command as a program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

/// That of musl has one lock for all threads; that of glibc gives megabytes back to the kernel, which the next unit asks for again, page by page.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let itself: Vec<_> = std::env::current_exe().map(Into::into).into_iter().collect();
    ExitCode::from(vesica_cli::main(std::env::args_os(), &itself))
}
