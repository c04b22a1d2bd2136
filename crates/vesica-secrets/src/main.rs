//! Whether a branch, an address or the time of a kernel depends on a secret: what `cargo xtask secrets` runs.
//!
//! ```text
//! vesica-secrets list             # the cases
//! vesica-secrets list traced      # those that do the same for all secrets, and the leaks on purpose
//! vesica-secrets run CASE         # once, under Valgrind, which sees every branch and address that depends on a secret
//! vesica-secrets trace CASE SEED  # once, under qemu, which keeps a trace; with 0 the secrets are zeros
//! vesica-secrets time [CASE…]     # many times, with secrets that are zeros or random, where Valgrind does not know the instructions
//! ```

mod backend;
mod cases;
mod public;
mod timing;
mod watch;

use cases::Case;
use std::process::ExitCode;
use watch::Watch;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command's output")]
fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let cases = cases::all();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["list"] => cases.iter().for_each(|case| println!("{}", case.name)),
        ["list", "traced"] => cases.iter().filter(|case| case.traced()).for_each(|case| println!("{}", case.name)),
        ["run", name] => return run(&cases, name, Watch::new(0, 0xff)),
        ["trace", name, seed] => {
            let Ok(seed) = seed.parse() else {
                eprintln!("{seed}: the seed of secrets is a number");
                return ExitCode::FAILURE;
            };
            backend::prepare();
            return run(&cases, name, Watch::new(seed, if seed == 0 { 0 } else { 0xff }));
        }
        ["time", names @ ..] => return timing::all(&cases, names),
        _ => {
            eprintln!("vesica-secrets list [traced] | run CASE | trace CASE SEED | time [CASE…]");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command's output")]
fn run(cases: &[Case], name: &str, mut watch: Watch) -> ExitCode {
    let Some(case) = cases.iter().find(|case| case.name == name) else {
        eprintln!("{name}: no such case; `list` has their names");
        return ExitCode::FAILURE;
    };
    (case.run)(&mut watch);
    println!("{name} on {}: {} results", vesica_cpu::Backend::chosen(), watch.results.0);
    ExitCode::SUCCESS
}
