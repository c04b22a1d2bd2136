//! The `vesica` command: dispatch, and nothing else.

#![forbid(unsafe_code)]

mod bench;
mod cert;
mod check;
mod completions;
mod crash;
mod demo;
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
mod run;
mod schema;
mod service;
mod source;
mod verify;

use clap::Parser;
use flags::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    crash::watch();
    let command = Cli::parse().command;
    let ended = std::panic::catch_unwind(|| match command {
        Command::Demo(args) => demo::run(args),
        Command::Gen(args) => generate::run(args),
        Command::Cert(args) => cert::run(args),
        Command::Invite(args) => invite::invite(args),
        Command::Accept(args) => invite::accept(args),
        Command::Confirm(args) => invite::confirm(args),
        Command::Check(args) => check::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Run(args) => run::run(args),
        Command::Prepare(args) => service::prepare(args),
        Command::Serve(args) => service::serve(args),
        Command::Fetch(args) => service::fetch(args),
        Command::Ask(args) => service::ask(args),
        Command::Bench(args) => bench::run(args),
        Command::Import(args) => import::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Info(args) => info::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
    });
    match ended {
        Ok(Ok(())) if !crash::happened() => ExitCode::SUCCESS,
        Ok(Err(failure)) if !crash::happened() => failure.exit(),
        Ok(Err(failure)) => {
            failure.exit();
            ExitCode::from(crash::EXIT)
        }
        _ => ExitCode::from(crash::EXIT),
    }
}
