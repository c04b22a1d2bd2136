//! What a run will cost and reveal, before it runs.

use crate::cost;
use crate::error::JobError;
use crate::input::keys::Reading;
use crate::input::values::Brought;
use crate::local;
use crate::meet::peers::WINDOW;
use crate::rehearse;
use crate::seal::ledger;
use crate::tell::numbers::{about, count, seconds, size};
use crate::tell::report::{self, Revealed};
use serde::Serialize;
use std::fmt::Write;
use vesica_spec::{Plan, Share};
use vesica_suite::{Cut, Seat};
use vesica_types::Party;

/// A plan in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    /// The protocol.
    pub protocol: String,
    /// The curve, where the protocol works in the group of one.
    pub curve: Option<String>,
    /// Against whom the protocol protects.
    pub security: String,
    /// What those that learn get: `rows` or `count`.
    pub result: String,
    /// The join.
    pub join: String,
    /// Ids of the parameter sets.
    pub parameters: Vec<String>,
    /// Computational security in bits.
    pub kappa: u32,
    /// Statistical security in bits, for the whole job.
    pub sigma: u32,
    /// What each party brings and spends, in the job's order.
    pub parties: Vec<Side>,
    /// `units` where the protocol works unit by unit, `shares` where it opens what all units left at once, `whole` where it takes all keys at
    /// once.
    pub cut: String,
    /// Units of the job; where all keys are taken at once, the pieces that this party reads them in.
    pub units: u32,
    /// Units in flight, if every peer is ready for as many as this party.
    pub in_flight: u32,
    /// Bytes of a comparison tag.
    pub tag_bytes: u32,
    /// Bytes of memory at most, on this side.
    pub memory: u64,
    /// Seconds by the clock for the protocol, if all machines are like this one and the network is no bottleneck.
    pub match_s: f64,
    /// Seconds by the clock for reading and writing tables, if half of the keys are common and the peers' tables are like this one; null
    /// where there is no table to look at.
    pub table_s: Option<f64>,
    /// Whether all parties run on this machine, going by the addresses of the job, and share its cores.
    pub one_machine: bool,
    /// The instruction set that the arithmetic will run on.
    pub cpu: String,
    /// How many keys a receiver that deviates can test, for each that it declared; empty where it can test no more, or where nothing
    /// is claimed of one that deviates.
    pub guesses: Vec<vesica_suite::Guesses>,
    /// What the result will be like, where it will not simply be right: sentences.
    pub expects: Vec<String>,
    /// What the run will tell whom.
    pub reveals: Vec<Revealed>,
    /// Which of the parties this is.
    pub me: usize,
}

/// A party in a forecast.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// Its name.
    pub name: String,
    /// Its rows: given, read from the file, or estimated; of a peer given, or taken to be as many.
    pub rows: u64,
    /// Where that number comes from.
    pub rows_from: &'static str,
    /// Keys a unit after padding.
    pub unit_capacity: u64,
    /// Bytes that it will send, before encryption.
    pub sent: u64,
    /// Bytes that it will receive.
    pub received: u64,
    /// Seconds of CPU for its arithmetic, if its machine is like this one: from a measurement made just now.
    pub cpu_s: f64,
}

/// Bytes of memory that a program has before it does anything.
const BASE: u64 = 24 << 20;

/// Bytes of memory that a key costs from reading to the output: its sorted record and its unit's.
const KEY: u64 = 72;

/// Bytes that may be on their way over a line: the peer grants room once it has read a quarter of the window.
const ON_THE_WAY: u64 = WINDOW as u64 / 4 * 5;

/// What a run of `plan` will cost. Key counts are taken to be row counts, times the identifiers that a row of this table may have; without
/// `rows` the table is asked or sampled, and without `peer_rows` every peer is taken to have as many.
///
/// # Errors
/// Those of opening what the run needs.
pub fn forecast(plan: &Plan, rows: Option<u64>, peer_rows: Option<u64>) -> Result<Forecast, JobError> {
    ledger::refuses_noise(plan)?;
    // What comes through a pipe can be read once, and a plan is no run: no program is started for it.
    let table = plan.input.origin.lasts().then(|| vesica_table::open(&plan.input));
    let (mine, tables) = match (rows, table) {
        (Some(rows), Some(Ok(table))) => ((rows, "given"), Some(rehearse::tables(plan, &*table, rows)?)),
        (Some(rows), _) => ((rows, "given"), None),
        (None, Some(table)) => {
            let table = table?;
            let mine = match table.rows() {
                Some(rows) => (rows, "from the file"),
                None => (local::rows_about(&*table, plan)?, "estimated from the file's beginning"),
            };
            (mine, Some(rehearse::tables(plan, &*table, mine.0)?))
        }
        (None, None) => return Err(JobError::Setup("the number of rows is not known: give --rows".into())),
    };
    let theirs = peer_rows.map_or((mine.0, "not known: taken to be as many"), |rows| (rows, "given"));
    let rows = |party: &Party| if *party == plan.me { mine } else { theirs };
    let of_a_row = Reading::from(plan).of_a_row();
    let keys: Vec<u64> = plan.parties.iter().map(|party| rows(party).0.saturating_mul(of_a_row)).collect();
    let sizes = plan.sizes(&keys, plan.workers, plan.memory);
    let suite = &plan.suite;
    let costs = cost::of_all(plan, &sizes)?;
    let parties: Vec<Side> = plan
        .parties
        .iter()
        .zip(costs)
        .map(|(party, cost)| Side {
            name: party.name().to_owned(),
            rows: rows(party).0,
            rows_from: rows(party).1,
            unit_capacity: sizes.capacity(party.place()),
            sent: cost.sent,
            received: cost.received,
            cpu_s: cost.cpu_s,
        })
        .collect();
    let cores = report::Host::here().cores.min(sizes.in_flight);
    let under_way = match suite.cut() {
        Cut::Units | Cut::Shares => {
            let seat = Seat { place: plan.me.place(), learns: plan.learns(&plan.me) };
            let of_unit = suite.memory_of_unit(&seat, &cost::terms(plan, sizes.clone()), ON_THE_WAY)?;
            u64::from(sizes.in_flight.min(sizes.units)) * of_unit
        }
        Cut::Whole => (sizes.keys.iter().sum::<u64>() * suite.memory()).min(Share::InFlight.of(plan.memory) as u64),
    };
    let one_machine = on_one_machine(plan);
    let sum: f64 = parties.iter().map(|side| side.cpu_s).sum();
    let cores = f64::from(cores.max(1));
    let most = parties.iter().map(|side| side.cpu_s).fold(0.0, f64::max);
    Ok(Forecast {
        protocol: plan.shared.protocol.name().to_owned(),
        curve: suite.curve().map(|set| set.curve.to_owned()),
        result: plan.shared.result.name().to_owned(),
        join: plan.shared.join.name().to_owned(),
        security: plan.shared.security.name().to_owned(),
        parameters: plan.parameters(&sizes),
        kappa: suite.kappa(),
        sigma: vesica_params::Level::STANDARD.sigma,
        parties,
        cut: suite.cut().name().to_owned(),
        units: sizes.units,
        in_flight: sizes.in_flight.min(sizes.units),
        tag_bytes: sizes.tag_len.bytes() as u32,
        memory: BASE + under_way + mine.0.saturating_mul(of_a_row * KEY + Brought::of_a_row(plan)).min(plan.memory),
        match_s: if one_machine { sum.max(most) } else { most } / cores,
        table_s: tables.map(|tables| table_s(plan, &tables, mine.0, theirs.0, one_machine)),
        one_machine,
        cpu: vesica_cpu::Backend::chosen().name().to_owned(),
        guesses: suite.guesses(&sizes),
        expects: plan.expects(&sizes),
        reveals: crate::invite::reveals(plan),
        me: usize::from(plan.me.place()),
    })
}

/// Seconds for the tables of a run: everybody reads before anybody matches, and those that learn write.
fn table_s(plan: &Plan, tables: &rehearse::Tables, mine: u64, theirs: u64, one_machine: bool) -> f64 {
    let cores = f64::from(report::Host::here().cores.max(1));
    let of = |took: rehearse::Took, factor: f64, all: f64| match one_machine {
        // What each needs alone, or what all of them need of the cores together.
        true => (took.wall_s * factor.max(1.0)).max(took.cpu_s * all / cores),
        false => took.wall_s * factor.max(1.0),
    };
    let theirs = theirs as f64 / mine.max(1) as f64;
    let peers = plan.peers.len() as f64;
    let writers = plan.learners.len() as f64;
    of(tables.read, theirs, 1.0 + peers * theirs) + of(tables.write, 1.0, writers)
}

/// Whether all addresses of the job are this machine's own.
fn on_one_machine(plan: &Plan) -> bool {
    let own = |address: &String| {
        let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
        matches!(host, "localhost" | "[::1]") || host.starts_with("127.")
    };
    plan.listen.iter().chain(plan.peers.iter().filter_map(|peer| peer.connect.as_ref())).all(own)
}

impl Forecast {
    /// Seconds by the clock, as far as they are known.
    pub fn wall_s(&self) -> f64 {
        self.match_s + self.table_s.unwrap_or(0.0)
    }

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
        let _ = match self.result.as_str() {
            "rows" => writeln!(text, "Join        {}", self.join),
            result => writeln!(text, "Result      {result}"),
        };
        let each = |words: &dyn Fn(&Side) -> String| self.parties.iter().map(words).collect::<Vec<_>>().join(", ");
        let rows = each(&|side| format!("{} of {} ({})", count(side.rows), side.name, side.rows_from));
        let _ = writeln!(text, "Rows        {rows}");
        let padded = self.parties.iter().map(|side| count(side.unit_capacity)).collect::<Vec<_>>().join(" and ");
        let _ = match self.cut.as_str() {
            "units" => writeln!(
                text,
                "Units       {}, {} at a time, padded to {padded} keys; tags of {} bytes",
                self.units, self.in_flight, self.tag_bytes
            ),
            _ => writeln!(text, "Units       none: all keys at once; tags of {} bytes", self.tag_bytes),
        };
        let me = &self.parties[self.me];
        let _ = writeln!(text, "Traffic     {} to send, {} to receive", size(me.sent), size(me.received));
        let _ = writeln!(text, "Memory      about {}", size(self.memory));
        let busiest = self.parties.iter().map(|side| side.cpu_s).fold(0.0, f64::max);
        let first = |side: &&Side| side.cpu_s >= busiest;
        let waits = match self.parties.iter().find(first) {
            Some(side) if side.name == me.name => {
                let others = self.parties.iter().filter(|other| other.name != me.name);
                match others.map(|other| other.cpu_s).fold(0.0, f64::max) * 1.2 < busiest {
                    true => ", and the others wait for this side".to_owned(),
                    false => String::new(),
                }
            }
            Some(side) if me.cpu_s * 1.2 < busiest => format!(", and this side waits for {}", side.name),
            _ => String::new(),
        };
        let _ = writeln!(
            text,
            "Arithmetic  {} ({})",
            about(&each(&|side| format!("{} of CPU at {}", seconds(side.cpu_s), side.name))),
            self.cpu,
        );
        let machines = match self.one_machine {
            true => "with all parties on this machine",
            false => "if all machines are like this one",
        };
        let tables = match self.table_s {
            Some(table_s) => {
                format!("{} for the protocol and {} for the tables", seconds(self.match_s), seconds(table_s))
            }
            None => "for the protocol alone; reading and writing tables comes on top".to_owned(),
        };
        let _ = writeln!(
            text,
            "Time        {} by the clock, {machines} and with a network that is no bottleneck: {tables}{waits}",
            about(&seconds(self.wall_s()))
        );
        if let [first, others @ ..] = &self.guesses[..] {
            let out_of = |g: &vesica_suite::Guesses| match g.log_dictionary {
                Some(log) => format!("out of 2^{log}"),
                None => "out of any number".to_owned(),
            };
            let others = others.iter().map(|g| format!(", {:.2} {}", g.of_a_key, out_of(g)));
            let _ = writeln!(
                text,
                "Guesses     a receiver that cheats can test at most {:.2} keys for each of its padded keys that is answered, {} that it \
                 hashes for a unit{}; in smaller units, which less memory makes, it can test more",
                first.of_a_key,
                out_of(first),
                others.collect::<String>()
            );
        }
        if !self.expects.is_empty() {
            let _ = writeln!(text, "What noise does to the result, if keys are as many as rows:");
            self.expects.iter().for_each(|told| _ = writeln!(text, "  {told}"));
        }
        let _ = writeln!(text, "Who will learn what:");
        text += &report::who_learns_what(&self.reveals);
        text
    }
}

/// Bytes free where `path` is to be written.
pub(crate) fn free(path: &std::path::Path) -> Option<u64> {
    vesica_table::free_bytes(&vesica_table::folder(path)).ok()
}
