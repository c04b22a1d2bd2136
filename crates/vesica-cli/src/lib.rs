//! The `vesica` command: dispatch, and nothing else. It is a library so that other programs can hold the whole command, as the
//! Python package does.

#![forbid(unsafe_code)]

mod bench;
mod cert;
mod check;
mod completions;
mod crash;
mod demo;
mod doctor;
mod failure;
mod flags;
mod generate;
mod import;
mod info;
mod interrupt;
mod invite;
mod man;
mod output;
mod plan;
mod progress;
mod report;
mod run;
mod schema;
mod service;
mod source;
mod verify;

use clap::Parser;
use flags::{Cli, Command};
use std::ffi::OsString;

/// How the command starts itself once more: a program, and what stands before the command's own arguments.
pub type Itself = [OsString];

/// Runs the command with the arguments `args`, of which the first is the name that it was called by. Gives its exit code.
/// `itself` is needed by the commands that start further processes.
///
/// What is wrong with the arguments, and what `--help` prints, ends the process at once.
pub fn main(args: impl IntoIterator<Item = OsString>, itself: &Itself) -> u8 {
    crash::watch();
    let command = Cli::parse_from(args).command;
    let ended = std::panic::catch_unwind(|| match command {
        Command::Demo(args) => demo::run(args, itself),
        Command::Gen(args) => generate::run(args),
        Command::Cert(args) => cert::run(args),
        Command::Invite(args) => invite::invite(*args),
        Command::Accept(args) => invite::accept(args),
        Command::Confirm(args) => invite::confirm(args),
        Command::Check(args) => check::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Run(args) => run::run(args),
        Command::Prepare(args) => service::prepare(args),
        Command::Audit(args) => service::audit(args),
        Command::Serve(args) => service::serve(args),
        Command::Fetch(args) => service::fetch(args),
        Command::Ask(args) => service::ask(args),
        Command::Report(args) => report::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Import(args) => import::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Info(args) => info::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
    });
    match ended {
        Ok(Ok(())) if !crash::happened() => 0,
        Ok(Err(failure)) if !crash::happened() => failure.exit(),
        Ok(Err(failure)) => {
            failure.exit();
            crash::EXIT
        }
        _ => crash::EXIT,
    }
}
