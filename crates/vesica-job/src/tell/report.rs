//! What happened, as one document: read by people, programs and the benchmarks.

use crate::input::keys::Ruled;
use crate::seal::ledger::Ledger;
use crate::tell::numbers::{count, counted, seconds, size, worded};
use crate::units::found::GroupTotal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::PathBuf;
use vesica_net::printable;
use vesica_psi::reveals;
use vesica_session::{LABEL, Learner, Meter, Reveal};
use vesica_spec::{Mine, Plan};
use vesica_suite::Cut;

/// The report of a run that ended well.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Vesica report")]
pub struct Report {
    /// The job.
    pub job: JobId,
    /// What came out.
    pub outcome: Outcome,
    /// What the run told whom.
    pub revealed: Vec<Revealed>,
    /// What was chosen, by the job or from the sizes.
    pub chosen: Chosen,
    /// What it cost, step by step.
    pub cost: Vec<StepCost>,
    /// Totals of the cost.
    pub total: TotalCost,
    /// Where it ran.
    pub host: Host,
}

/// Names the run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct JobId {
    /// `shared.id`.
    pub id: String,
    /// What this run of the program is called, as on each line of its log: drawn at random when it began. Absent where nobody gave it a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// What all parties call this run, as `7f3a-91c4-02be`: the same in the report and in the log of each. A hash of what they tossed
    /// together, so it says nothing of tables or results. Absent for a service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called: Option<String>,
    /// The hash of the shared document, in hexadecimal; the same on every side.
    pub shared_hash: String,
    /// The party that this report is of.
    pub party: String,
    /// Every party.
    pub parties: Vec<String>,
    /// The shared document, with every default, as it stands in a job file. Empty for a service.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shared: String,
    /// This party's own part of the job file, without the files of its keys; of a path from the root there is the last name, `…/NAME`. Empty for a service.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mine: String,
}

/// What came out. The same on every run over the same tables.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Rows of the input.
    pub rows: u64,
    /// Distinct keys that are not empty: what the protocol worked on.
    pub keys: u64,
    /// Rows whose key is empty, or has an empty column; of identifiers, rows that have none. They match nothing.
    pub empty: u64,
    /// Rows whose key stands in an earlier row too; of identifiers, each of a row's that does.
    pub duplicates: u64,
    /// What the rules did to the keys; absent where there are no rules, and where the keys were kept from an earlier attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ruled: Option<RuledRows>,
    /// Distinct keys that the other parties have too; null for a party that does not learn.
    pub matched: Option<u64>,
    /// The sum of the values of the rows whose keys the other party has; absent where the result is none, and for a party that does not learn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<i64>,
    /// What the keys that the other party has come to by group; absent where the result is none, and for a party that does not learn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Groups>,
    /// Rows of the input whose key matched; null for a party that does not learn, and where the result is a count of keys.
    pub matched_rows: Option<u64>,
    /// The file that was written; null for a party that does not learn, and where the result is a count.
    pub output: Option<Written>,
    /// Names the attempt that the file's shares or ids are of: the files of two parties go together only if it is the same in both of their
    /// reports. Absent where the result is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<String>,
    /// Rows that were asked of a service and count as not found, although nothing says that they are not there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// How the run of a service's client differs from the run before; absent where nothing is kept from run to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
}

/// How a client's run differs from the run before.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    /// The number of the run, from 1. If it does not follow on the last number that was seen, changes were missed.
    pub run: u64,
    /// When the run before ended; absent in the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Distinct keys that were kept from earlier runs, and are still in the table.
    pub kept: u64,
    /// Distinct keys that had to be asked for, those of an attempt at this run that was broken off included.
    pub asked: u64,
    /// Distinct keys that the service has now, and did not have in the run before or that were not in the table then.
    pub gained: u64,
    /// Distinct keys of the table that the service had in the run before, and has no more.
    pub lost: u64,
}

impl Changes {
    /// What changed, in two sentences.
    pub fn in_words(&self) -> String {
        let since = self.since.as_ref().map_or_else(|| "the first".to_owned(), |since| format!("since {since}"));
        format!(
            "Run {} ({since}): {} gained, {} lost. {} asked for, {} kept from earlier runs.",
            count(self.run),
            counted(self.gained, "keys"),
            count(self.lost),
            worded(self.asked, "key was", "keys were"),
            count(self.kept)
        )
    }
}

/// Totals by group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Groups {
    /// The columns that rows are grouped by.
    pub by: Vec<String>,
    /// The names of the sums.
    pub sums: Vec<String>,
    /// The least number of common keys of a group that is told.
    pub least: u64,
    /// The groups that are told, in the order of what they are called.
    pub groups: Vec<GroupTotal>,
}

impl Groups {
    /// These groups of a job.
    pub fn new(shared: &vesica_spec::Shared, groups: &[GroupTotal]) -> Self {
        let of = shared.groups.as_ref();
        Self {
            by: of.map(|of| of.by_of_both()).unwrap_or_default(),
            sums: shared.told().map(|sum| sum.name.clone()).collect(),
            least: of.map_or(1, |of| of.least),
            groups: groups.to_vec(),
        }
    }

    /// The first of them, a line each.
    fn in_words(&self) -> String {
        const LINES: usize = 20;
        let mut text = String::new();
        for group in self.groups.iter().take(LINES) {
            let sums = self.sums.iter().zip(&group.sums).map(|(name, sum)| format!(", {name} {sum}"));
            let by: Vec<String> = group.by.iter().map(|text| printable(text, LABEL)).collect();
            let _ = writeln!(text, "  {}: {}{}", by.join(", "), counted(group.keys, "keys"), sums.collect::<String>());
        }
        match self.groups.len().saturating_sub(LINES) {
            0 => {}
            more => _ = writeln!(text, "  and {} more.", counted(more as u64, "groups")),
        }
        text
    }
}

/// Rows that count as not found for one reason.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// The reason in a word: `unreadable`, `unfetched` or `no_such_row`.
    pub name: String,
    /// How many rows of the table.
    pub rows: u64,
    /// The first ten of them; rows are counted from 1, without the header.
    pub first: Vec<u64>,
    /// The reason, in plain words.
    pub why: String,
}

impl LeftOut {
    /// Which rows and why, in a sentence.
    pub fn in_words(&self) -> String {
        let first: Vec<String> = self.first.iter().map(u64::to_string).collect();
        let more = match self.rows.saturating_sub(self.first.len() as u64) {
            0 => String::new(),
            more => format!(" and {} more", count(more)),
        };
        let rows = if self.rows == 1 { "row" } else { "rows" };
        format!("Left out like rows that were not found: {rows} {}{more}. {}.", first.join(", "), self.why)
    }
}

/// What the rules did to the keys of a table.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RuledRows {
    /// Rows whose key is not as it stands in the table; of identifiers, each of a row's that is not.
    pub changed: u64,
    /// Rows whose key became empty; of identifiers, each of a row's that did.
    pub emptied: u64,
}

impl From<Ruled> for RuledRows {
    fn from(Ruled { changed, emptied }: Ruled) -> Self {
        Self { changed, emptied }
    }
}

/// A file that was written.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Written {
    /// Where it is. A report that is written to a file has no path from the root here: it is for partners too.
    pub path: PathBuf,
    /// Its rows.
    pub rows: u64,
    /// Its size.
    pub bytes: u64,
}

/// One thing that the run told somebody.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Revealed {
    /// Its name.
    pub name: String,
    /// Who came to know it: parties, two that put together what they saw, or `the network`.
    pub to: Vec<String>,
    /// What it is, in plain words.
    pub what: String,
}

impl Revealed {
    /// Whether it is what the job was run for.
    pub(crate) fn is_result(&self) -> bool {
        ["intersection", "group_totals"].iter().any(|of| self.name.starts_with(of))
    }
}

/// What was chosen.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Chosen {
    /// The protocol.
    pub protocol: String,
    /// The curve; null where the protocol has none to choose.
    pub curve: Option<String>,
    /// Against whom the protocol protects.
    pub security: String,
    /// The join.
    pub join: String,
    /// Ids of the rules that keys were brought into one form by, for each key column.
    pub rules: Vec<Vec<String>>,
    /// Ids of the parameter sets.
    pub parameters: Vec<String>,
    /// What the result is like, where it is not simply right: sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expects: Vec<String>,
    /// Version of the format on the wire.
    pub wire_version: u32,
    /// `units` where the protocol worked unit by unit, `shares` where it did so and opened the result of all units at once, `whole` where it took all
    /// keys at once.
    pub cut: String,
    /// Units of the job; where all keys were taken at once, the pieces that this party read them in.
    pub units: u32,
    /// Units in flight at once.
    pub in_flight: u32,
    /// Links that the units went over; absent if they went over the one on which the parties agreed.
    #[serde(default, skip_serializing_if = "vesica_types::is_default")]
    pub lanes: u32,
    /// Keys a unit that this party padded to.
    pub unit_capacity: u64,
    /// Bytes of a comparison tag.
    pub tag_bytes: u32,
    /// The instruction set that the arithmetic ran on.
    pub cpu: String,
    /// How the connections were secured.
    pub tls: String,
    /// The peers.
    pub peers: Vec<PeerId>,
}

/// A peer as it was recognised.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PeerId {
    /// Its name in the job.
    pub name: String,
    /// The fingerprint of its certificate; null in an insecure job.
    pub fingerprint: Option<String>,
    /// The distinct keys that it said it brings.
    pub keys: u64,
    /// Keys a unit that it padded to.
    pub unit_capacity: u64,
    /// Attempts at the job that were begun with it: 1, unless a connection broke or a process was started again.
    pub attempts: u64,
    /// The keys that this side worked on for it in all attempts at most, padding included: so many guesses at this side's keys it had
    /// at most if it learns and is dishonest. Where runs of the job were padded to different numbers, it is the part of the job that was
    /// answered, times the largest of them. `shared.limits.answers` bounds it.
    pub answered: u64,
    /// The version of its program.
    pub version: String,
}

/// The cost of one step. Steps of units in flight at once overlap: their times add up to more than the clock's.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StepCost {
    /// The phase that the step belongs to.
    pub phase: String,
    /// The step; the phase's own name where it has no steps.
    pub step: String,
    /// For a phase as a whole: seconds from the start of the program's work to its beginning. Null for a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_s: Option<f64>,
    /// Seconds by the clock, summed over units.
    pub wall_s: f64,
    /// Seconds of CPU, summed over units.
    pub cpu_s: f64,
    /// Seconds of waiting for another party, summed over units.
    #[serde(default)]
    pub waited_s: f64,
    /// Bytes of messages sent, before encryption; for a phase as a whole all bytes sent, with framing and encryption.
    pub sent: u64,
    /// Bytes received, counted in the same way.
    pub received: u64,
    /// Times that this side waited for an answer, summed over units.
    pub rounds: u64,
}

impl StepCost {
    /// Adds what the same step cost elsewhere.
    pub(crate) fn add(&mut self, other: &StepCost) {
        self.wall_s += other.wall_s;
        self.cpu_s += other.cpu_s;
        self.waited_s += other.waited_s;
        self.sent += other.sent;
        self.received += other.received;
        self.rounds += other.rounds;
    }
}

/// Totals of the cost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TotalCost {
    /// Seconds by the clock from the start of the program's work to the end.
    pub wall_s: f64,
    /// Of which waiting for the other party to come.
    pub waited_s: f64,
    /// Seconds of CPU of this process.
    pub cpu_s: f64,
    /// Bytes sent, with framing and encryption.
    pub sent: u64,
    /// Bytes received, with framing and encryption.
    pub received: u64,
    /// The most memory that this process held, in bytes.
    pub peak_memory: u64,
}

/// Where it ran.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The version of Vesica.
    pub version: String,
    /// The operating system and architecture.
    pub os: String,
    /// Cores that the process may use.
    pub cores: u32,
    /// The instruction sets that this CPU offers.
    pub cpu_available: Vec<String>,
}

impl Host {
    /// This machine.
    pub fn here() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            os: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            cpu_available: vesica_cpu::Backend::available().into_iter().map(|b| b.name().to_owned()).collect(),
        }
    }
}

/// Who learns what, a line each.
pub fn who_learns_what(revealed: &[Revealed]) -> String {
    revealed.iter().map(|r| format!("  {}: {}\n", r.to.join(" and "), r.what)).collect()
}

/// `reveals`, with the parties' names.
pub fn revealed(reveals: &[Reveal], parties: &[String], learners: &[String]) -> Vec<Revealed> {
    let to = |learner| match learner {
        Learner::Learners => learners.to_vec(),
        Learner::Place(place) => parties.iter().skip(usize::from(place)).take(1).cloned().collect(),
        Learner::Together(one, other) => {
            let name = |place: u8| parties.get(usize::from(place)).map_or("", String::as_str);
            vec![format!("{} and {} together", name(one), name(other))]
        }
        Learner::Everyone => parties.to_vec(),
        Learner::Network => vec!["the network".to_owned()],
    };
    reveals.iter().map(|r| Revealed { name: r.name.into(), to: to(r.to), what: r.in_words(parties) }).collect()
}

/// Collects what phases and steps cost, in the order in which they came.
#[derive(Default)]
pub(crate) struct Costs(Vec<StepCost>);

impl Costs {
    /// Adds a phase as a whole.
    pub fn phase(&mut self, cost: StepCost) {
        self.0.push(cost);
    }

    /// The last attempt to meet ended before the run began, as where somebody only checks the job: it becomes one wait, and one with those
    /// before it, so that a partner who checks without end fills no report.
    pub fn unmet(&mut self) {
        while let [.., before, last] = self.0.as_mut_slice() {
            if before.phase != "connect" || !["agree", "connect"].contains(&last.phase.as_str()) {
                break;
            }
            let end = last.began_s.unwrap_or_default() + last.wall_s;
            before.add(last);
            before.wall_s = end - before.began_s.unwrap_or_default();
            // The totals are of the last connection, and these bytes went over others.
            (before.sent, before.received) = (0, 0);
            self.0.pop();
        }
    }

    /// Adds the steps of a phase.
    pub fn steps(&mut self, phase: &str, meter: &Meter) {
        self.0.extend(meter.steps.iter().map(|s| StepCost {
            phase: phase.to_owned(),
            step: s.name.to_owned(),
            began_s: None,
            wall_s: s.wall.as_secs_f64(),
            cpu_s: s.cpu.as_secs_f64(),
            waited_s: s.waited.as_secs_f64(),
            sent: s.sent,
            received: s.received,
            rounds: s.rounds,
        }));
    }

    /// All of them.
    pub fn close(self) -> Vec<StepCost> {
        self.0
    }
}

impl Chosen {
    /// Each of the plan's peers was answered as the ledger has it. What takes all keys at once answers all of them each time, and pads nothing.
    pub fn answered(&mut self, plan: &Plan, ledger: &Ledger) {
        let answers = ledger.answers();
        for (peer, of) in self.peers.iter_mut().zip(&plan.peers) {
            peer.attempts = answers.attempts;
            peer.answered = match plan.suite.cut() {
                Cut::Units | Cut::Shares => ledger.answered(of.party.place()),
                Cut::Whole => answers.units().div_ceil(self.units.max(1).into()).saturating_mul(peer.keys),
            };
        }
    }
}

impl Report {
    /// The report as it is written to a file.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report is plain data") + "\n"
    }

    /// The report as partners show it to each other, whichever version wrote it: of an output whose path starts at the root it has the file's name
    /// alone, and no more of the job than reports have now.
    pub(crate) fn to_show(&self) -> Self {
        let mut shown = self.clone();
        if let Some(output) = shown.outcome.output.as_mut().filter(|output| output.path.is_absolute())
            && let Some(name) = output.path.file_name().map(PathBuf::from)
        {
            output.path = name;
        }
        shown.job.mine = Mine::shown_again(&shown.job.mine).unwrap_or_default();
        shown
    }

    /// What came out, in a sentence.
    pub fn headline(&self) -> String {
        let o = &self.outcome;
        let peers: Vec<&str> = self.chosen.peers.iter().map(|peer| peer.name.as_str()).collect();
        let (held, holds) = (peers.join(" and "), if peers.len() == 1 { "holds" } else { "hold" });
        match (o.matched, o.matched_rows) {
            _ if o.sum.is_some() => format!(
                "The values of the rows whose keys {}you and {held} hold add up to {}{}; which rows these are, nobody learned.",
                if peers.len() == 1 { "both " } else { "" },
                if self.chosen.expects.is_empty() { "" } else { "about " },
                o.sum.unwrap_or_default()
            ),
            _ if o.groups.is_some() => {
                let groups = o.groups.as_ref().map_or(0, |groups| groups.groups.len() as u64);
                let least = o.groups.as_ref().map_or(1, |groups| groups.least);
                format!(
                    "{}{} {} {} or more that both you and {held} hold; the totals of {} are in the output, and which keys these are, nobody learned.",
                    if self.chosen.expects.is_empty() { "" } else { "With noise, " },
                    counted(groups, "groups"),
                    if groups == 1 { "has" } else { "have" },
                    counted(least, "keys"),
                    if groups == 1 { "it" } else { "each" }
                )
            }
            (None, None) if self.revealed.iter().any(|r| r.name == reveals::IDS_TOGETHER.name) => format!(
                "Each of your {} has an id in the output, but those without a key and those that the job leaves out. It is the id that {held} has \
                 for the same key; which keys are common, nobody learned.",
                counted(o.rows, "rows")
            ),
            (None, None) if o.output.is_some() => format!(
                "The output holds your shares of which keys are common; together with those of {held} they say it, and alone nothing."
            ),
            (Some(keys), Some(rows)) if !self.chosen.expects.is_empty() => format!(
                "{} of your {}, of {}, {} in the result: most of those whose key {held} holds too, and some others.",
                count(rows),
                counted(o.rows, "rows"),
                counted(keys, "distinct keys"),
                if rows == 1 { "is" } else { "are" }
            ),
            (Some(keys), Some(rows)) => {
                let share = if o.rows == 0 { 0.0 } else { 100.0 * rows as f64 / o.rows as f64 };
                format!(
                    "{} of your {} ({share:.1} %) {} a key that {held} {holds} too: {}.",
                    count(rows),
                    counted(o.rows, "rows"),
                    if rows == 1 { "has" } else { "have" },
                    counted(keys, "distinct keys")
                )
            }
            (Some(keys), None) => format!(
                "{}{} of your {} {} held by {held} too; which of them, nobody learned.",
                if self.chosen.expects.is_empty() { "" } else { "About " },
                count(keys),
                counted(o.keys, "distinct keys"),
                if keys == 1 { "is" } else { "are" }
            ),
            _ => {
                let result = self.revealed.iter().find(|one| one.is_result());
                let learners = result.map(|r| r.to.join(" and ")).unwrap_or_default();
                format!(
                    "Done. You did not ask to learn the result: your {} matched for {learners}.",
                    worded(o.rows, "row was", "rows were")
                )
            }
        }
    }

    /// The run in plain words: what matched, what each side learned, and what it cost.
    pub fn in_words(&self) -> String {
        let (o, t) = (&self.outcome, &self.total);
        let peers: Vec<&str> = self.chosen.peers.iter().map(|p| p.name.as_str()).collect();
        let mut text = self.headline() + "\n";
        if let Some(groups) = &o.groups {
            text += &groups.in_words();
        }
        if let Some(output) = &o.output {
            let _ = writeln!(
                text,
                "Output: {} ({}, {}).",
                output.path.display(),
                counted(output.rows, "rows"),
                size(output.bytes)
            );
        }
        if let Some(attempt) = &o.attempt {
            let begins: String = attempt.chars().take(16).collect();
            let _ = writeln!(text, "It is of the attempt {begins}: take it together with no file of another one.");
        }
        let identified = self.revealed.iter().any(|r| r.name == reveals::IDENTIFIERS.name);
        if o.empty > 0 && identified {
            let words = ("row has no identifier; it matches nothing", "rows have no identifier; they match nothing");
            let _ = writeln!(text, "{}.", worded(o.empty, words.0, words.1));
        } else if o.empty > 0 {
            let words = ("row has an empty key; it matches nothing", "rows have an empty key; they match nothing");
            let _ = writeln!(text, "{}.", worded(o.empty, words.0, words.1));
        }
        if o.duplicates > 0 && identified {
            let (one, many) =
                ("identifier of a row stands in an earlier row too", "identifiers of rows stand in an earlier row too");
            let _ = writeln!(text, "{}.", worded(o.duplicates, one, many));
        } else if o.duplicates > 0 {
            let (one, many) = ("row repeats the key of an earlier row", "rows repeat the key of an earlier row");
            let _ = writeln!(text, "{}.", worded(o.duplicates, one, many));
        }
        o.left_out.iter().for_each(|left| _ = writeln!(text, "{}", left.in_words()));
        o.changes.iter().for_each(|changes| _ = writeln!(text, "{}", changes.in_words()));
        if !self.chosen.expects.is_empty() {
            let _ = writeln!(text, "\nThe result has noise, so that no key can be told from it for certain:");
            self.chosen.expects.iter().for_each(|told| _ = writeln!(text, "  {told}"));
        }
        let _ = writeln!(text, "\nWho learned what:");
        text += &who_learns_what(&self.revealed);
        let held = |(name, keys): (&str, u64)| format!("{name} holds {}", count(keys));
        let all = self.chosen.peers.iter().map(|peer| (peer.name.as_str(), peer.keys));
        let all: Vec<String> = [(self.job.party.as_str(), o.keys)].into_iter().chain(all).map(held).collect();
        let _ = writeln!(text, "  In distinct keys: {}.", all.join(", "));
        let _ = writeln!(
            text,
            "\nCost: {} ({} of it waiting for {}), {} of CPU, {} sent, {} received, {} of memory at most.",
            seconds(t.wall_s),
            seconds(t.waited_s),
            peers.join(" and "),
            seconds(t.cpu_s),
            size(t.sent),
            size(t.received),
            size(t.peak_memory)
        );
        let c = &self.chosen;
        let units = c.peers.iter().map(|peer| peer.unit_capacity);
        let units: Vec<String> = [c.unit_capacity].into_iter().chain(units).map(count).collect();
        let _ = writeln!(
            text,
            "How: {}{} ({}, {}), {}{}; {}.",
            c.protocol,
            c.curve.as_ref().map(|curve| format!(" on {curve}")).unwrap_or_default(),
            c.security,
            c.cpu,
            match c.cut.as_str() {
                "units" => format!("{} of {} keys", counted(c.units.into(), "units"), units.join(" and ")),
                _ => "all keys at once".to_owned(),
            },
            // Retrieval compares no tags.
            if c.tag_bytes == 0 { String::new() } else { format!(", tags of {} bytes", c.tag_bytes) },
            c.tls
        );
        if let Some(run) = &self.job.run {
            let called = self.job.called.iter().map(|name| format!(" All parties call it {name}."));
            let _ = writeln!(text, "Run: {run}.{}", called.collect::<String>());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reveals_name_the_parties() {
        let (all, learners) = (["alice".to_owned(), "bob".to_owned()], ["bob".to_owned()]);
        let list = revealed(&[vesica_psi::reveals::INTERSECTION, vesica_psi::reveals::KEY_COUNT], &all, &learners);
        assert_eq!(list[0].to, ["bob"]);
        assert_eq!(list[1].to, ["alice", "bob"]);
    }

    #[test]
    fn checks_without_end_are_one_wait() {
        let mut costs = Costs::default();
        let cost = |phase: &str, began: u32| StepCost {
            phase: phase.into(),
            began_s: Some(began.into()),
            wall_s: 1.0,
            sent: 3,
            received: 2,
            ..StepCost::default()
        };
        costs.phase(cost("read", 0));
        for check in 0..100 {
            costs.phase(cost("connect", 10 + 4 * check));
            costs.phase(cost("agree", 11 + 4 * check));
            costs.unmet();
        }
        ["connect", "agree"].iter().for_each(|phase| costs.phase(cost(phase, 500)));
        let costs = costs.close();
        let phases: Vec<&str> = costs.iter().map(|cost| cost.phase.as_str()).collect();
        assert_eq!(phases, ["read", "connect", "connect", "agree"]);
        assert_eq!((costs[1].began_s, costs[1].wall_s), (Some(10.0), 398.0));
        // What went over the connections of the checks is in no total.
        let bytes = |cost: &StepCost| (cost.sent, cost.received);
        assert_eq!((bytes(&costs[1]), bytes(&costs[3])), ((0, 0), (3, 2)));
    }
}
