//! Whether a branch, an address or the time of a kernel depends on a secret: what `cargo xtask secrets` runs.
//!
//! ```text
//! vesica-secrets list          # the cases
//! vesica-secrets run CASE      # once, under Valgrind, which sees every branch and address that depends on a secret
//! vesica-secrets time [CASE…]  # many times, with secrets that are zeros or random, where Valgrind does not know the instructions
//! ```

mod backend;
mod cases;
mod public;
mod timing;
mod watch;

use std::process::ExitCode;
use watch::Watch;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command's output")]
fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let cases = cases::all();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["list"] => cases.iter().for_each(|case| println!("{}", case.name)),
        ["run", name] => {
            let Some(case) = cases.iter().find(|case| case.name == *name) else {
                eprintln!("{name}: no such case; `list` has their names");
                return ExitCode::FAILURE;
            };
            let mut watch = Watch::new(0, 0xff);
            (case.run)(&mut watch);
            println!("{name} on {}: {} results", vesica_cpu::Backend::chosen(), watch.results.0);
        }
        ["time", names @ ..] => return timing::all(&cases, names),
        _ => {
            eprintln!("vesica-secrets list | run CASE | time [CASE…]");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
