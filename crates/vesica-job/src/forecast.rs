//! What a run will cost and reveal, before it runs.

use crate::cost;
use crate::error::JobError;
use crate::local;
use crate::report::{self, Revealed, count, size};
use serde::Serialize;
use std::fmt::Write;
use vesica_spec::Plan;

/// A plan in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    /// The protocol.
    pub protocol: String,
    /// The curve, where the protocol works in the group of one.
    pub curve: Option<String>,
    /// Against whom the protocol protects.
    pub security: String,
    /// The join.
    pub join: String,
    /// Ids of the parameter sets.
    pub parameters: Vec<String>,
    /// Computational security in bits.
    pub kappa: u32,
    /// Statistical security in bits, for the whole job.
    pub sigma: u32,
    /// Rows of this party: given, read from the file, or estimated.
    pub rows: u64,
    /// Where that number comes from.
    pub rows_from: &'static str,
    /// Rows of the peer: given, or taken to be as many.
    pub peer_rows: u64,
    /// Where that number comes from.
    pub peer_rows_from: &'static str,
    /// Units of the job.
    pub units: u32,
    /// Units in flight, if the peer is ready for as many as this party.
    pub in_flight: u32,
    /// Keys a unit after padding: mine.
    pub unit_capacity: u64,
    /// Keys a unit after padding: the peer's.
    pub peer_unit_capacity: u64,
    /// Bytes of a comparison tag.
    pub tag_bytes: u32,
    /// Bytes to send, before encryption.
    pub sent: u64,
    /// Bytes to receive.
    pub received: u64,
    /// Bytes of memory at most.
    pub memory: u64,
    /// Seconds of CPU for the arithmetic, from a measurement made just now.
    pub cpu_s: f64,
    /// The same for the peer, if its machine is like this one.
    pub peer_cpu_s: f64,
    /// Seconds by the clock for the arithmetic of the side that has more of it, if the peer's machine is like this one and the
    /// network is no bottleneck. Reading and writing tables comes on top.
    pub wall_s: f64,
    /// The instruction set that the arithmetic will run on.
    pub cpu: String,
    /// What the run will tell whom.
    pub reveals: Vec<Revealed>,
}

/// Bytes of memory that a program has before it does anything.
const BASE: u64 = 24 << 20;

/// Bytes of memory that a key costs from reading to the output: its sorted record and its unit's.
const KEY: u64 = 72;

/// What a run of `plan` will cost. Key counts are taken to be row counts; without `rows` the table is asked or sampled.
///
/// # Errors
/// Those of opening what the run needs.
pub fn forecast(plan: &Plan, rows: Option<u64>, peer_rows: Option<u64>) -> Result<Forecast, JobError> {
    let (rows, rows_from) = match rows {
        Some(rows) => (rows, "given"),
        None => {
            let table = vesica_table::open(&plan.input)?;
            match table.rows() {
                Some(rows) => (rows, "from the file"),
                None => (local::rows_about(&*table, plan)?, "estimated from the file's beginning"),
            }
        }
    };
    let peer_from = if peer_rows.is_some() { "given" } else { "not known: taken to be as many" };
    let peer_rows = peer_rows.unwrap_or(rows);
    let sizes = plan.sizes(rows, peer_rows, (plan.workers, plan.workers), (plan.memory, plan.memory));

    let suite = plan.suite();
    let [mine, peers] = cost::of_both(plan, &sizes)?;
    let cores = report::Host::here().cores.min(sizes.in_flight);
    let in_flight =
        u64::from(sizes.in_flight.min(sizes.units)) * (sizes.capacity + sizes.peer_capacity) * suite.memory();
    let names = |parties: &[vesica_types::Party]| parties.iter().map(|p| p.name().to_owned()).collect::<Vec<_>>();
    Ok(Forecast {
        protocol: plan.shared.protocol.name().to_owned(),
        curve: suite.curve().map(|set| set.curve.to_owned()),
        join: plan.shared.join.name().to_owned(),
        security: plan.shared.security.name().to_owned(),
        parameters: plan.parameters(&sizes),
        kappa: suite.kappa(),
        sigma: vesica_params::Level::STANDARD.sigma,
        rows,
        rows_from,
        peer_rows,
        peer_rows_from: peer_from,
        units: sizes.units,
        in_flight: sizes.in_flight.min(sizes.units),
        unit_capacity: sizes.capacity,
        peer_unit_capacity: sizes.peer_capacity,
        tag_bytes: sizes.tag_len.bytes() as u32,
        sent: mine.sent,
        received: mine.received,
        memory: BASE + in_flight + (rows * KEY).min(plan.memory),
        cpu_s: mine.cpu_s,
        peer_cpu_s: peers.cpu_s,
        wall_s: mine.cpu_s.max(peers.cpu_s) / f64::from(cores.max(1)),
        cpu: vesica_cpu::Backend::chosen().name().to_owned(),
        reveals: report::revealed(&plan.reveals(), &names(&plan.parties), &names(&plan.learners)),
    })
}

impl Forecast {
    /// The forecast in plain words.
    pub fn in_words(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "Protocol    {}{}, {} ({} bits; {}), 2^-{} of anything going wrong by chance",
            self.protocol,
            self.curve.as_ref().map(|curve| format!(" on {curve}")).unwrap_or_default(),
            self.security,
            self.kappa,
            self.parameters.join(", "),
            self.sigma
        );
        let _ = writeln!(text, "Join        {}", self.join);
        let _ = writeln!(
            text,
            "Rows        {} here ({}), {} there ({})",
            count(self.rows),
            self.rows_from,
            count(self.peer_rows),
            self.peer_rows_from
        );
        let _ = writeln!(
            text,
            "Units       {}, {} at a time, padded to {} and {} keys; tags of {} bytes",
            self.units,
            self.in_flight,
            count(self.unit_capacity),
            count(self.peer_unit_capacity),
            self.tag_bytes
        );
        let waits = match self.peer_cpu_s / self.cpu_s.max(1e-9) {
            more if more > 1.2 => ", and this side waits for the other",
            less if less < 0.8 => ", and the other side waits for this one",
            _ => "",
        };
        let _ = writeln!(text, "Traffic     {} to send, {} to receive", size(self.sent), size(self.received));
        let _ = writeln!(text, "Memory      about {}", size(self.memory));
        let _ = writeln!(
            text,
            "Time        about {:.1} s of CPU here and {:.1} s there ({}), so {:.1} s at least by the clock if the other machine \
             is like this one{}; reading and writing tables comes on top",
            self.cpu_s, self.peer_cpu_s, self.cpu, self.wall_s, waits
        );
        let _ = writeln!(text, "Who will learn what:");
        for r in &self.reveals {
            let _ = writeln!(text, "  {}: {}", r.to.join(" and "), r.what);
        }
        text
    }
}

/// Bytes free where `path` is to be written.
pub(crate) fn free(path: &std::path::Path) -> Option<u64> {
    vesica_table::free_bytes(&local::folder(path)).ok()
}
