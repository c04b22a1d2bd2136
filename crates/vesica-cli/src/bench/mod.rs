//! `vesica bench`: what a protocol costs on this machine, as a line of JSON.

mod psi;

use crate::failure::{Failure, Outcome};
use crate::flags::{Bench, BenchOf, BenchPir};
use crate::{output, progress};
use vesica_service::BenchChoice;
use vesica_spec::service::{By, Preset};

pub fn run(args: Bench) -> Outcome {
    match args.what {
        BenchOf::Psi(args) => print(&psi::measure(args)?),
        BenchOf::Pir(args) => print(&pir(args)?),
    }
}

fn pir(args: BenchPir) -> Result<impl serde::Serialize, Failure> {
    let protocol = vesica_service::retrieving().find(|protocol| protocol.name() == args.protocol);
    let protocol = protocol.ok_or_else(|| Failure::usage("--protocol: no such scheme"))?;
    let screen = progress::begin(progress::How::Quiet);
    let preset = if args.preset == "seed" { Preset::Seed } else { Preset::Fast };
    let by = if args.by == "key" { By::Key } else { By::Index };
    let choice = BenchChoice { expected: args.queries, preset, by };
    Ok(vesica_service::bench_pir(protocol, args.rows, args.bytes, choice, screen.control())?)
}

fn print(cell: &impl serde::Serialize) -> Outcome {
    let line = serde_json::to_string(cell).expect("plain data");
    output::result(&format!("{line}\n"))
}
