//! A job from start to end: one record's journey, a call a stage.

use crate::agree::{self, Purpose};
use crate::clock::Clock;
use crate::control::Control;
use crate::error::JobError;
use crate::kept::Kept;
use crate::keys::Keys;
use crate::ledger::Ledger;
use crate::local::{self, Local};
use crate::report::{self, Chosen, Host, JobId, Outcome, PeerId, Report, TotalCost};
use crate::trace::Trace;
use crate::units::{Both, Common, Units, Work, open_and_run};
use crate::{hash, part, peer, settle};
use std::sync::Arc;
use std::time::Duration;
use vesica_net::{Endpoint, Link, Traffic};
use vesica_session::{Channel, Fault, Lines, Misbehaviour, SessionRng};
use vesica_spec::Plan;
use vesica_suite::Sizes;
use vesica_table::Staged;
use vesica_types::Party;

/// How long a side that is done stays within reach of a peer that may not be, at most. The peer notices within ten seconds
/// that the connection broke, and then dials or listens at once.
const STAY: Duration = Duration::from_secs(30);

/// Runs a job: finds local faults before contact, matches with the peer, writes the output. A connection that breaks is
/// made again, and only the units that were under way are redone.
///
/// # Errors
/// Whatever ends the run without a result; nothing is left of the output then, and a peer that was there is told whose
/// fault it was. Beyond that, a report or trace that cannot be written, and a ledger that cannot be removed.
pub fn run(plan: &Plan, ctl: &Control) -> Result<Report, JobError> {
    let Some(path) = &plan.trace else { return untraced(plan, ctl) };
    let trace = Arc::new(Trace::start(plan.me.name()));
    let result = untraced(plan, &ctl.also(trace.clone()));
    // A run that failed is worth a trace too; what it failed of is worth more than a trace that cannot be written.
    let saved = part::save(path, "cannot write the trace", &trace.text());
    result.and_then(|report| saved.map(|()| report))
}

fn untraced(plan: &Plan, ctl: &Control) -> Result<Report, JobError> {
    let mut clock = Clock::start(ctl);
    plan.notes.iter().for_each(|note| ctl.note(note.clone()));
    let local = local::open(plan)?;
    let mut ledger = Ledger::open(plan, &local.scratch)?;
    let mut side = Side::open(plan, local, &mut ledger, &mut clock, ctl)?;
    let met = side.meet(&mut ledger, &mut clock, ctl);
    let report = match (met, side.ended.take()) {
        (met, Some(report)) => {
            if let Err(error) = met {
                let peer = &plan.peer().party;
                ctl.note(format!(
                    "this side is done; if {peer} is not, run the same command again on both sides: {error}"
                ));
            }
            side.write_alone(&mut ledger, report, &mut clock)
        }
        (Err(error), None) if ledger.is_whole() && (error.fault() == Fault::Network || error.is_over()) => {
            side.without_the_peer(&mut ledger, error, &mut clock, ctl)
        }
        (Err(error), None) => Err(error),
        (Ok(()), None) => Err(vesica_session::Error::Bug("a run ended without a result".into()).into()),
    };
    if matches!(report, Err(JobError::TooSmall(_))) {
        // The ledger holds matches that nobody may see.
        ledger.remove()?;
        return report;
    }
    let mut report = report?;
    for peer in &mut report.chosen.peers {
        // What a peer asked for after its last word counts too.
        peer.attempts = ledger.answers().attempts;
        peer.answered = ledger.answers().keys();
    }
    if let Some(path) = &plan.report {
        report::save(path, &report)?;
    }
    ledger.remove()?;
    Ok(report)
}

/// A connection that broke.
struct Lost {
    peer: Party,
    why: String,
    /// The most units that were ever finished, in this run or in one that the peer has forgotten.
    units: u64,
    /// Breaks since there were more finished units than ever before.
    times: u32,
}

impl Lost {
    /// Breaks without progress after which a run gives up.
    const MOST: u32 = 5;

    /// Goes on after `error` if that was the connection's, and not once too often.
    fn after(error: JobError, before: Option<Lost>, units: u64) -> Result<Self, JobError> {
        let JobError::Session(vesica_session::Error::Net { peer, why }) = error else { return Err(error) };
        let stuck = before.filter(|before| units <= before.units);
        let (units, times) = stuck.map_or((units, 1), |before| (before.units, before.times + 1));
        let lost = Self { peer, why, units, times };
        if times < Self::MOST { Ok(lost) } else { Err(lost.because(format!("; that was the {times}th time in a row"))) }
    }

    fn for_good(self, patience: Duration) -> JobError {
        self.because(format!("; it did not come back within {}", humantime::format_duration(patience)))
    }

    fn because(self, more: String) -> JobError {
        vesica_session::Error::Net { peer: self.peer, why: self.why + &more }.into()
    }
}

/// This party's side of a run, which outlives a connection.
struct Side<'a> {
    plan: &'a Plan,
    local: Local,
    keys: Keys,
    /// The keys cut into units, by the salt that this was done with.
    units: Option<([u8; 32], Units)>,
    /// The report, once the peer has said that it is done and is needed no more. It lacks the output of a side that learns
    /// alone, which writes when it has parted from the peer.
    ended: Option<Report>,
}

impl<'a> Side<'a> {
    /// Reads the table, or takes up what an earlier attempt made of it if it is still the same table.
    fn open(
        plan: &'a Plan,
        local: Local,
        ledger: &mut Ledger,
        clock: &mut Clock<'_>,
        ctl: &Control,
    ) -> Result<Self, JobError> {
        let table = &*local.table;
        if let Some(kept) = ledger.kept().filter(Kept::exists) {
            let load = || hash::beside(table, ctl, || kept.load(ctl));
            let (loaded, input) = clock.phase("resume", "", None, load)?;
            ledger.identify(&input)?;
            if let Some((keys, units)) = loaded {
                return Ok(Self { plan, local, keys, units: Some((kept.salt(), units)), ended: None });
            }
            ctl.note(format!("{} is not whole: what it is to hold is made again", kept.path().display()));
        }
        let keys = clock.phase("read", "rows", table.rows(), || local.keys(plan, ledger, ctl))?;
        Ok(Self { plan, local, keys, units: None, ended: None })
    }

    /// Meets the peer, as often as the connection breaks, until each knows that the other is done.
    ///
    /// # Errors
    /// Whatever ends the run; after the output is in its place, whatever keeps the peer from saying that it is done.
    fn meet(&mut self, ledger: &mut Ledger, clock: &mut Clock<'_>, ctl: &Control) -> Result<(), JobError> {
        let mut lost: Option<Lost> = None;
        loop {
            let patience = self.patience(ledger);
            let endpoint = Endpoint { patience, ..self.local.endpoint.clone() };
            let link = match clock.wait("connect", || peer::connect(endpoint, ctl)) {
                Ok(link) => link,
                Err(error) if error.fault() == Fault::Network => {
                    return Err(lost.map_or(error, |lost| lost.for_good(patience)));
                }
                Err(error) => return Err(error),
            };
            let Err(error) = self.together(ledger, &link, clock, ctl) else { return Ok(()) };
            peer::leave(&link, &error);
            lost = Some(Lost::after(error, lost, ledger.len())?);
            let (peer, wait) = (&self.plan.peer().party, humantime::format_duration(self.patience(ledger)));
            let done = if self.ended.is_some() { "this side is done, but " } else { "" };
            ctl.note(format!("{done}lost {peer}; waiting up to {wait} for it to come back"));
        }
    }

    /// How long the peer is waited for: not long if this side can do without it.
    fn patience(&self, ledger: &Ledger) -> Duration {
        let done = self.ended.is_some() || (self.plan.learns_alone() && ledger.is_whole());
        self.plan.patience.min(if done { STAY } else { Duration::MAX })
    }

    /// Writes the output of a run that is over between the parties, if this side alone learns: `report` is completed.
    ///
    /// # Errors
    /// Those of writing. What the units found is still in the ledger, if that is kept: the same command, on this side alone,
    /// writes it again.
    fn write_alone(
        &mut self,
        ledger: &mut Ledger,
        mut report: Report,
        clock: &mut Clock<'_>,
    ) -> Result<Report, JobError> {
        if !self.plan.learns_alone() {
            return Ok(report);
        }
        let Self { plan, local, keys, .. } = self;
        let found = ledger.found()?;
        let staged = clock.phase("write", "rows", None, || local.stage(plan, keys, &found, 0))?;
        report.outcome.output = staged.map(Staged::commit).transpose()?.map(written);
        let (cost, times) = clock.close();
        report.cost.extend(cost);
        report.total.wall_s = times.wall.as_secs_f64();
        report.total.cpu_s = times.cpu.as_secs_f64();
        report.total.peak_memory = times.peak_memory;
        Ok(report)
    }

    /// Ends a run whose units are all finished and whose peer is lost: `error` says how.
    ///
    /// # Errors
    /// [`JobError::LastWord`] if the peer's word is needed; [`JobError::TooSmall`]; those of writing.
    fn without_the_peer(
        &mut self,
        ledger: &mut Ledger,
        error: JobError,
        clock: &mut Clock<'_>,
        ctl: &Control,
    ) -> Result<Report, JobError> {
        let plan = self.plan;
        let common = ledger.common();
        if let Some(least) = settle::too_small(plan, common) {
            return Err(JobError::TooSmall(least));
        }
        let Some(start) = ledger.started().copied().filter(|_| plan.learns_alone()) else {
            return Err(if error.is_over() { error } else { JobError::LastWord(Box::new(error)) });
        };
        let party = &plan.peer().party;
        ctl.note(format!(
            "every unit is finished, so the result is written without {party}, which may not know that: {error}"
        ));
        let peer = PeerId {
            name: party.name().to_owned(),
            fingerprint: None,
            keys: start.keys.1,
            attempts: 0,
            answered: 0,
            version: "not met again".into(),
        };
        let met = Met { tls: "not connected when it ended".into(), peer, traffic: Traffic::default() };
        let outcome = outcome(plan, &self.keys, common, None);
        let report = reported(plan, &start.sizes, met, outcome, clock);
        self.write_alone(ledger, report, clock)
    }

    /// What happens while the peer is there.
    fn together(
        &mut self,
        ledger: &mut Ledger,
        link: &Link,
        clock: &mut Clock<'_>,
        ctl: &Control,
    ) -> Result<(), JobError> {
        let Self { plan, local, keys, units, ended } = self;
        let mut rng =
            SessionRng::from_os().map_err(|e| JobError::Setup(format!("the system has no randomness to give: {e}")))?;
        let mut control = link.line("control")?;
        let agreed = clock.follow(link, "agree", "", None, || {
            agree::agree(plan, Purpose::Run, keys.distinct, ledger, &mut *control, &mut rng)
        })?;
        if units.as_ref().is_none_or(|(salt, _)| *salt != agreed.salt) {
            if !keys.are_whole() {
                // The peer has forgotten the run, so that it begins anew.
                *keys = clock.follow(link, "read", "rows", local.table.rows(), || local.keys(plan, ledger, ctl))?;
            }
            let cut = clock.follow(link, "partition", "units", None, || {
                Units::partition(keys, &agreed.salt, agreed.sizes, plan.workers, plan.memory, &local.scratch)
            })?;
            if let Some(kept) = ledger.kept() {
                clock.follow(link, "keep", "", None, || kept.save(keys, &cut, ctl))?;
            }
            *units = Some((agreed.salt, cut));
        }
        let (_, units) = units.as_ref().expect("they were just cut");
        let all = plan.all_learn();
        let both = all.then(|| Both { salt: agreed.salt, place: plan.me.place(), multiply: plan.multiplies() });
        let total = u64::from(agreed.sizes.units);
        let meter = clock.follow(link, "match", "units", Some(total), || {
            let work = Work { units, done: &agreed.done, both, ledger, link, ctl };
            open_and_run(plan, &agreed.terms(), work, &mut rng)
        })?;
        clock.steps("match", &meter);

        let common = ledger.common();
        // Nothing is told about a result before both are known to have the same.
        if let Some(both) = both {
            let compare = || -> Result<(), JobError> {
                let mut lines = Lines::new(vec![link.line("result")?]);
                both.same("job", 0, &ledger.found()?.digest, &mut lines, &mut rng)
            };
            clock.follow(link, "compare", "", None, compare)?;
        }
        let settle = || settle::settle(plan, keys, common, agreed.peer_keys, &mut *control);
        let absent = clock.follow(link, "settle", "", None, settle)?;
        // Where all learn, nobody's output appears before everybody's is written: a full disk over there leaves no file here
        // either. Where one learns, it writes when the other is gone, who would see from the clock how much there is.
        let staged = match ended {
            None if all => {
                let found = ledger.found()?;
                clock.follow(link, "write", "rows", None, || local.stage(plan, keys, &found, absent))?
            }
            _ => None,
        };
        clock.follow(link, "finish", "", None, || finish(&mut *control))?;
        if ended.is_none() {
            let output = staged.map(Staged::commit).transpose()?;
            let peer = PeerId {
                name: plan.peer().party.name().to_owned(),
                fingerprint: link.secured().fingerprint.map(|f| f.to_string()),
                keys: agreed.peer_keys,
                attempts: 0,
                answered: 0,
                version: agreed.peer_version.clone(),
            };
            let met = Met { tls: link.secured().to_string(), peer, traffic: link.traffic() };
            let outcome = outcome(plan, keys, common, output);
            *ended = Some(reported(plan, &agreed.sizes, met, outcome, clock));
            ledger.end();
        }
        drop(control);
        // A goodbye is said by those who are done. Whose goodbye does not come may still lack this side's last word.
        clock.follow(link, "close", "", None, || Ok(link.close()?))
    }
}

/// Both say that they are done.
fn finish(control: &mut dyn Channel) -> Result<(), JobError> {
    control.step("finish");
    if control.swap_exact(&DONE, DONE.len())? != DONE {
        let fault = Misbehaviour::Contradiction("its last word is not that it is done");
        return Err(control.accuse(fault).into());
    }
    Ok(())
}

/// A party's last word.
const DONE: [u8; 32] = *b"this side has done what it is to";

/// What came out, with the output as far as it is written.
fn outcome(plan: &Plan, keys: &Keys, common: Common, output: Option<vesica_table::Written>) -> Outcome {
    let i_learn = plan.i_learn();
    Outcome {
        rows: keys.rows,
        keys: keys.distinct,
        empty: keys.empty,
        duplicates: keys.duplicates,
        matched: i_learn.then_some(common.keys),
        matched_rows: i_learn.then_some(common.rows),
        output: output.map(written),
    }
}

fn written(output: vesica_table::Written) -> report::Written {
    report::Written { path: output.path, rows: output.rows, bytes: output.bytes }
}

/// What is known of the peer and of the connection.
struct Met {
    tls: String,
    peer: PeerId,
    traffic: Traffic,
}

fn reported(plan: &Plan, sizes: &Sizes, met: Met, outcome: Outcome, clock: &mut Clock<'_>) -> Report {
    let names = |parties: &[vesica_types::Party]| parties.iter().map(|p| p.name().to_owned()).collect::<Vec<_>>();
    let (cost, times) = clock.close();
    let suite = plan.suite();
    Report {
        job: JobId {
            id: plan.shared.id.clone(),
            shared_hash: plan.shared.hash().iter().map(|b| format!("{b:02x}")).collect(),
            party: plan.me.name().to_owned(),
            parties: names(&plan.parties),
        },
        outcome,
        revealed: report::revealed(&plan.reveals(), &names(&plan.parties), &names(&plan.learners)),
        chosen: Chosen {
            protocol: plan.shared.protocol.name().to_owned(),
            curve: suite.curve().map(|set| set.curve.to_owned()),
            security: plan.shared.security.name().to_owned(),
            join: plan.shared.join.name().to_owned(),
            rules: plan.rules.iter().map(|rules| rules.iter().map(|rule| rule.id()).collect()).collect(),
            parameters: plan.parameters(sizes),
            wire_version: vesica_net::WIRE_VERSION,
            units: sizes.units,
            in_flight: sizes.in_flight,
            unit_capacity: sizes.capacity,
            peer_unit_capacity: sizes.peer_capacity,
            tag_bytes: sizes.tag_len.bytes() as u32,
            cpu: vesica_cpu::Backend::chosen().name().to_owned(),
            tls: met.tls,
            peers: vec![met.peer],
        },
        cost,
        total: TotalCost {
            wall_s: times.wall.as_secs_f64(),
            waited_s: times.waited.as_secs_f64(),
            cpu_s: times.cpu.as_secs_f64(),
            sent: met.traffic.sent,
            received: met.traffic.received,
            peak_memory: times.peak_memory,
        },
        host: Host::here(),
    }
}

#[cfg(test)]
mod hostile;
