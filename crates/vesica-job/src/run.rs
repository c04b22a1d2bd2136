//! A job from start to end: one record's journey, a call a stage.

use crate::agree::{self, Agreed, Purpose};
use crate::clock::Clock;
use crate::control::Control;
use crate::error::JobError;
use crate::kept::Kept;
use crate::keys::Keys;
use crate::ledger::Ledger;
use crate::local::{self, Local};
use crate::plan::Plan;
use crate::report::{self, Chosen, Host, JobId, Outcome, PeerId, Report, TotalCost};
use crate::trace::Trace;
use crate::units::{Found, Units, Work};
use crate::{hash, join, part, peer, protocol, settle};
use std::sync::Arc;
use std::time::Duration;
use vesica_net::{Endpoint, Link};
use vesica_session::{Channel, Fault, Misbehaviour, SessionRng};
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
    let local = local::open(plan)?;
    let mut ledger = Ledger::open(plan, &local.scratch)?;
    let mut side = Side::open(plan, local, &mut ledger, &mut clock, ctl)?;
    let met = side.meet(&mut ledger, &mut clock, ctl);
    match (met, side.ended) {
        (met, Some(Ended { report, .. })) => {
            if let Err(error) = met {
                let peer = &plan.peer().party;
                ctl.note(format!(
                    "this side is done; if {peer} is not, run the same command again on both sides: {error}"
                ));
            }
            if let Some(path) = &plan.report {
                report::save(path, &report)?;
            }
            ledger.remove()?;
            Ok(report)
        }
        (Err(error @ JobError::TooSmall(_)), None) => {
            // What nobody is to learn must not lie about.
            ledger.remove()?;
            Err(error)
        }
        (Err(error), None) if error.fault() == Fault::Network && ledger.is_whole() => {
            if let Some(least) = settle::too_small(plan, &ledger.found()?) {
                ledger.remove()?;
                return Err(JobError::TooSmall(least));
            }
            Err(JobError::LastWord(Box::new(error)))
        }
        (Err(error), None) => Err(error),
        (Ok(()), None) => Err(vesica_session::Error::Bug("a run ended without a result".into()).into()),
    }
}

/// A connection that broke.
struct Lost {
    peer: Party,
    why: String,
    /// Units that were finished then.
    units: u64,
    /// Breaks since a unit was last finished.
    times: u32,
}

impl Lost {
    /// Breaks in a row, without a unit finished in between, after which a run gives up.
    const MOST: u32 = 5;

    /// Goes on after `error` if that was the connection's, and not once too often.
    fn after(error: JobError, before: Option<Lost>, units: u64) -> Result<Self, JobError> {
        let JobError::Session(vesica_session::Error::Net { peer, why }) = error else { return Err(error) };
        let times = before.filter(|before| before.units == units).map_or(1, |before| before.times + 1);
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
    /// Once the peer has said that it has written all, and this side's output is in its place.
    ended: Option<Ended>,
}

/// A run that is over on this side.
struct Ended {
    salt: [u8; 32],
    report: Report,
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
            let patience = self.patience();
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
            let (peer, wait) = (&self.plan.peer().party, humantime::format_duration(self.patience()));
            let done = if self.ended.is_some() { "this side is done, but " } else { "" };
            ctl.note(format!("{done}lost {peer}; waiting up to {wait} for it to come back"));
        }
    }

    /// How long the peer is waited for.
    fn patience(&self) -> Duration {
        self.plan.patience.min(if self.ended.is_some() { STAY } else { Duration::MAX })
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
        if ended.as_ref().is_some_and(|ended| ended.salt != agreed.salt) {
            return Err(JobError::Over { peer: plan.peer().party.name().into() });
        }
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
        let total = u64::from(agreed.sizes.units);
        let meter = clock.follow(link, "match", "units", Some(total), || {
            let multiply = plan.multiplies();
            let work = Work { units, done: &agreed.done, multiply, ledger, link, ctl };
            protocol::run(plan, &agreed, work, &mut rng)
        })?;
        clock.steps("match", &meter);

        let found = ledger.found()?;
        let absent = clock
            .follow(link, "settle", "", None, || settle::settle(plan, keys, &found, agreed.peer_keys, &mut *control))?;
        let staged = match ended {
            // This side has written: only the peer may not know it.
            Some(_) => None,
            None => clock.follow(link, "write", "rows", None, || {
                let Some(sink) = local.fresh_sink(plan)? else { return Ok::<_, JobError>(None) };
                let picks = join::rows(plan, keys, &found, absent, &local.scratch)?;
                local.write(plan, picks, keys.rows, sink).map(Some)
            })?,
        };

        // Nobody's output appears before everybody's is written: a full disk over there leaves no file here either.
        clock.follow(link, "finish", "", None, || finish(plan, &found, &mut *control))?;
        if ended.is_none() {
            let output = staged.map(Staged::commit).transpose()?;
            let i_learn = plan.i_learn();
            let outcome = Outcome {
                rows: keys.rows,
                keys: keys.distinct,
                empty: keys.empty,
                duplicates: keys.duplicates,
                matched: i_learn.then_some(found.matches.total()),
                matched_rows: i_learn.then_some(found.rows),
                output: output.map(|w| report::Written { path: w.path, rows: w.rows, bytes: w.bytes }),
            };
            *ended = Some(Ended { salt: agreed.salt, report: reported(plan, &agreed, link, outcome, clock) });
        }
        drop(control);
        // A goodbye is said by those who are done. Whose goodbye does not come may still lack this side's last word.
        clock.follow(link, "close", "", None, || Ok(link.close()?))
    }
}

/// Both say that all is written; where both learned, that they learned the same.
fn finish(plan: &Plan, found: &Found<'_>, control: &mut dyn Channel) -> Result<(), JobError> {
    control.step("finish");
    let mine = if plan.all_learn() { found.digest } else { [0; 32] };
    if control.swap_exact(&mine, 32)? != mine {
        let fault = Misbehaviour::Contradiction("the result that it found is not the one that this side found");
        return Err(control.accuse(fault).into());
    }
    Ok(())
}

fn reported(plan: &Plan, agreed: &Agreed, link: &Link, outcome: Outcome, clock: &mut Clock<'_>) -> Report {
    let names = |parties: &[vesica_types::Party]| parties.iter().map(|p| p.name().to_owned()).collect::<Vec<_>>();
    let traffic = link.traffic();
    let (costs, times) = clock.close();
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
            curve: plan.curve.map(|set| set.curve.to_owned()),
            security: plan.shared.security.name().to_owned(),
            join: plan.shared.join.name().to_owned(),
            rules: plan.rules.iter().map(|rules| rules.iter().map(|rule| rule.id()).collect()).collect(),
            parameters: protocol::parameters(plan, &agreed.sizes),
            wire_version: vesica_net::WIRE_VERSION,
            units: agreed.sizes.units,
            in_flight: agreed.sizes.in_flight,
            unit_capacity: agreed.sizes.capacity,
            peer_unit_capacity: agreed.sizes.peer_capacity,
            tag_bytes: agreed.sizes.tag_len.bytes() as u32,
            cpu: vesica_cpu::Backend::chosen().name().to_owned(),
            tls: link.secured().to_string(),
            peers: vec![PeerId {
                name: plan.peer().party.name().to_owned(),
                fingerprint: link.secured().fingerprint.map(|f| f.to_string()),
                keys: agreed.peer_keys,
                version: agreed.peer_version.clone(),
            }],
        },
        cost: costs,
        total: TotalCost {
            wall_s: times.wall.as_secs_f64(),
            waited_s: times.waited.as_secs_f64(),
            cpu_s: times.cpu.as_secs_f64(),
            sent: traffic.sent,
            received: traffic.received,
            peak_memory: times.peak_memory,
        },
        host: Host::here(),
    }
}
