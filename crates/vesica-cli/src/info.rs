//! `vesica info`: the version, what this machine offers, and the limits.

use crate::failure::{Failure, Outcome};
use crate::flags::Info;
use crate::output;
use vesica_job::cpu::{self, Backend};
use vesica_job::numbers::count;
use vesica_job::report::Host;
use vesica_job::{WIRE_VERSION, sample};
use vesica_spec::{CurveName, MAX_KEYS, ProtocolName};

pub fn run(_: Info) -> Outcome {
    let asked = cpu::requested().map_err(Failure::usage)?;
    let host = Host::here();
    let why = if asked.is_some() { "because VESICA_CPU says so" } else { "the widest that this CPU has" };
    let curves: Vec<&str> = CurveName::ALL.iter().map(|curve| curve.name()).collect();
    let protocols: Vec<&str> = ProtocolName::ALL.iter().map(|protocol| protocol.name()).collect();
    let lines = [
        ("version", format!("{}, wire format {WIRE_VERSION}", host.version)),
        ("system", format!("{}, {} cores for this process", host.os, host.cores)),
        ("arithmetic", format!("{}: {why}", Backend::chosen())),
        ("available", format!("{}; VESICA_CPU=name chooses one", host.cpu_available.join(", "))),
        ("protocols", protocols.join(", ")),
        ("curves", curves.join(", ")),
        ("tables", "CSV (plain, .gz, .zst), Parquet, Arrow IPC; all of them from standard input too".to_owned()),
        (
            "security",
            "semi-honest; malicious with rr22, ot, mini-psi and bc22; 128 bits computational, 40 bits statistical"
                .to_owned(),
        ),
        (
            "limits",
            format!(
                "2 parties; 3 with ecdh, 3 to 16 with rr22; {} distinct keys each; samples of {} rows",
                count(MAX_KEYS),
                count(sample::MAX_ROWS)
            ),
        ),
    ];
    output::result(&lines.map(|(what, value)| format!("{what:<12}{value}\n")).concat())
}
