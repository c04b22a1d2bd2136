//! `vesica bench`: what a protocol costs on this machine, as a line of JSON.

mod psi;

use crate::failure::{Failure, Outcome};
use crate::flags::{Bench, BenchOf, BenchPir};
use crate::{output, progress};
use vesica_service::{BenchChoice, Kind};
use vesica_spec::service::{By, Hint, Preset};

pub fn run(args: Bench) -> Outcome {
    match args.what {
        BenchOf::Psi(args) => print(&psi::measure(args)?),
        BenchOf::Pir(args) => print(&pir(args)?),
    }
}

fn pir(args: BenchPir) -> Result<impl serde::Serialize, Failure> {
    let hint = args.hint.as_deref();
    // Without a word about it, the first one: "simple-pir" has no hint.
    let is_meant =
        |kind: &Kind| kind.protocol.name() == args.protocol && (hint.is_none() || kind.hint.map(Hint::name) == hint);
    let kind = vesica_service::retrieving().find(is_meant);
    let kind = kind.ok_or_else(|| Failure::usage("--hint is for \"simple-pir\"; leave it out"))?;
    let screen = progress::begin(progress::How::Quiet);
    let preset = if args.preset == "seed" { Preset::Seed } else { Preset::Fast };
    let by = if args.by == "key" { By::Key } else { By::Index };
    let choice = BenchChoice { expected: args.queries, preset, workers: args.workers as usize, by };
    Ok(vesica_service::bench_pir(kind, args.rows, args.bytes, choice, screen.control())?)
}

fn print(cell: &impl serde::Serialize) -> Outcome {
    let line = serde_json::to_string(cell).expect("plain data");
    output::result(&format!("{line}\n"))
}
