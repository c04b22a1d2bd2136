//! `vesica completions`: a script for a shell.

use crate::failure::Outcome;
use crate::flags::{Cli, Completions};
use crate::output;
use clap::CommandFactory;

pub fn run(args: Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "vesica", &mut script);
    output::result(&String::from_utf8_lossy(&script))
}
