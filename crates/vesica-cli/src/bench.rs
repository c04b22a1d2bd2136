//! `vesica bench`: what a protocol costs on this machine, as a line of JSON.

use crate::failure::{Failure, Outcome};
use crate::flags::{Bench, BenchOf};
use crate::{output, progress};
use vesica_service::BenchChoice;
use vesica_spec::service::{By, Preset, ServiceProtocol};

pub fn run(args: Bench) -> Outcome {
    let BenchOf::Pir(args) = args.what;
    let all = [
        ServiceProtocol::SimplePir,
        ServiceProtocol::Piano,
        ServiceProtocol::Download,
        ServiceProtocol::BfvPir,
        ServiceProtocol::BgvPir,
        ServiceProtocol::CkksPir,
    ];
    let protocol = all.into_iter().find(|protocol| protocol.name() == args.protocol);
    let protocol = protocol.ok_or_else(|| Failure::usage("--protocol: no such scheme"))?;
    let screen = progress::begin(progress::How::Quiet);
    let preset = if args.preset == "seed" { Preset::Seed } else { Preset::Fast };
    let by = if args.by == "key" { By::Key } else { By::Index };
    let choice = BenchChoice { expected: args.queries, preset, by };
    let cell = vesica_service::bench_pir(protocol, args.rows, args.bytes, choice, screen.control())?;
    drop(screen);
    let line = serde_json::to_string(&cell).expect("plain data");
    output::result(&format!("{line}\n"))
}
