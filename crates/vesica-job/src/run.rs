//! A job from start to end: one record's journey, a call a stage.

use crate::error::JobError;
use crate::input::hash;
use crate::input::keys::{Keys, Reading};
use crate::input::repeats::{Repeats, RowsByKey};
use crate::input::values::{Brought, Rows};
use crate::io::Io;
use crate::lanes;
use crate::local::{self, Local};
use crate::meet::agree::{self, Agreed};
use crate::meet::breaks::Breaks;
use crate::meet::budget;
use crate::meet::peers::Peers;
use crate::meet::settle;
use crate::meet::wait::Waiting;
use crate::output::link::{self, Identified};
use crate::output::part;
use crate::output::shares::{self, Left};
use crate::seal::kept::Kept;
use crate::seal::ledger::Ledger;
use crate::seal::record::Start;
use crate::session::{STAY, Session};
use crate::tell::clock::Clock;
use crate::tell::control::Control;
use crate::tell::metrics::Metrics;
use crate::tell::page::ReportFile;
use crate::tell::report::{self, Chosen, Host, JobId, Outcome, PeerId, Report, TotalCost};
use crate::tell::trace::Trace;
use crate::units::compare::Both;
use crate::units::cut::Units;
use crate::units::found::Common;
use crate::units::open_and_run;
use crate::units::work::Work;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;
use vesica_net::{Endpoint, Traffic};
use vesica_session::{Fault, Lines, SessionRng};
use vesica_spec::Plan;
use vesica_suite::{Cut, ResultKind, Sizes};
use vesica_table::{Staged, Table};
use vesica_types::Party;

/// Runs a job: finds local faults before contact, matches with the peer, writes the output. A connection that breaks is
/// made again, and only the units that were under way are redone.
///
/// # Errors
/// Whatever ends the run without a result; nothing is left of the output then, and a peer that was there is told whose
/// fault it was. Beyond that, a report or trace that cannot be written, and a ledger that cannot be removed.
pub fn run(plan: &Plan, io: Io, ctl: &Control) -> Result<Report, JobError> {
    let Some(address) = &plan.metrics else { return traced(plan, io, ctl) };
    let (metrics, at) = Metrics::open(address, plan, ctl)?;
    ctl.note(vesica_net::status::opened_in_words(at));
    traced(plan, io, &ctl.also(metrics))
}

fn traced(plan: &Plan, io: Io, ctl: &Control) -> Result<Report, JobError> {
    let Some(path) = &plan.trace else { return untraced(plan, io, ctl) };
    // It is written also of a run that is refused.
    part::probe("mine.trace", path)?;
    local::are_apart(plan, &*io.table)?;
    let trace = Arc::new(Trace::start(plan.me.name()));
    let result = untraced(plan, io, &ctl.also(trace.clone()));
    // A run that failed is worth a trace too; what it failed of is worth more than a trace that cannot be written.
    let saved = part::save(path, "cannot write the trace", &trace.text());
    result.and_then(|report| saved.map(|()| report))
}

fn untraced(plan: &Plan, io: Io, ctl: &Control) -> Result<Report, JobError> {
    let mut clock = Clock::start(ctl);
    plan.notes.iter().for_each(|note| ctl.note(note.clone()));
    let local = local::open(plan, io, ctl)?;
    let mut ledger = Ledger::open(plan, &local.scratch, &local.io.world.disk, ctl)?;
    budget::room(plan, ledger.started().map(|start| &start.salt), &local.io.world, ctl)?;
    let mut side = Side::open(plan, local, &mut ledger, &mut clock, ctl)?;
    let met = side.meet(&mut ledger, &mut clock, ctl);
    let report = match (met, std::mem::replace(&mut side.stage, Stage::Read)) {
        (met, Stage::Ended(cutting, report)) => {
            if let Err(error) = met {
                let others = match plan.peers.as_slice() {
                    [one] => format!("{} is", one.party),
                    _ => "the others are".to_owned(),
                };
                ctl.note(format!(
                    "this side is done; if {others} not, run the same command again on every side: {error}"
                ));
            }
            side.stage = Stage::Cut(cutting);
            side.write_apart(&mut ledger, *report, &mut clock, ctl)
        }
        // Whoever meets this side in a peer's place, and is another, has not brought that peer back.
        (Err(error), stage)
            if ledger.is_whole() && (error.is_of_a_lost_peer() || error.is_of_another_in_its_place()) =>
        {
            side.stage = stage;
            side.without_the_peers(&mut ledger, error, &mut clock, ctl)
        }
        (Err(error), _) => Err(error),
        (Ok(()), _) => Err(vesica_session::Error::Bug("a run ended without a result".into()).into()),
    };
    if matches!(report, Err(JobError::TooSmall { .. })) {
        // The ledger holds matches that nobody may see.
        ledger.remove()?;
        return report;
    }
    let mut report = report?;
    // What a peer asked for after its last word counts too.
    report.chosen.answered(plan, &ledger);
    if let Some(path) = &plan.report {
        part::save(path, "cannot write the report", &ReportFile::named(path).text(&report))?;
    }
    ledger.remove()?;
    Ok(report)
}

/// A connection that broke.
struct Lost {
    peer: Party,
    why: String,
    breaks: Breaks,
}

impl Lost {
    /// Goes on after `error` if that was a connection's, this side's or one between others, and not once too often.
    fn after(error: JobError, before: Option<Lost>, (units, of): (u64, u32)) -> Result<Self, JobError> {
        let (peer, why) = error.broken()?;
        let mut breaks = before.map(|before| before.breaks).unwrap_or_default();
        let again = breaks.again(units, of);
        let lost = Self { peer, why, breaks };
        if again { Ok(lost) } else { Err(lost.because(format!("; that was the {}th time in a row", breaks.times()))) }
    }

    fn for_good(self, patience: Duration) -> JobError {
        self.because(format!("; it did not come back within {}", humantime::format_duration(patience)))
    }

    fn because(self, more: String) -> JobError {
        vesica_session::Error::Net { peer: self.peer, why: self.why + &more }.into()
    }
}

/// How far this side of a run is.
enum Stage {
    /// The table is read.
    Read,
    /// The keys are cut into units.
    Cut(Cutting),
    /// The peers have said that they are done. What is reported lacks the output of a side that learns where others do not, which writes when it has
    /// parted from them.
    Ended(Cutting, Box<Report>),
}

/// Keys that are cut into units.
struct Cutting {
    units: Units,
    /// The salt that this was done with.
    salt: [u8; 32],
}

impl Stage {
    /// The cut, if there is one.
    fn cutting(&self) -> Option<&Cutting> {
        match self {
            Stage::Read => None,
            Stage::Cut(cutting) | Stage::Ended(cutting, _) => Some(cutting),
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self, Stage::Ended(..))
    }

    /// The same stage with another cut; the first one, if there was none.
    fn recut(&mut self, cutting: Cutting) {
        *self = match std::mem::replace(self, Stage::Read) {
            Stage::Ended(_, report) => Stage::Ended(cutting, report),
            Stage::Read | Stage::Cut(_) => Stage::Cut(cutting),
        };
    }

    /// The peers are done; `report` says what came out. The first report stands.
    fn end(&mut self, report: Report) {
        *self = match std::mem::replace(self, Stage::Read) {
            Stage::Cut(cutting) => Stage::Ended(cutting, Box::new(report)),
            other => other,
        };
    }
}

/// This party's side of a run, which outlives a connection.
struct Side<'a> {
    plan: &'a Plan,
    local: Local,
    /// How many rows and keys the table has.
    keys: Keys,
    /// Which rows repeat a key, until units are joined.
    repeats: Option<Repeats>,
    /// What is added up, if this party has values or groups and its keys are cut.
    values: Option<Brought>,
    /// What the units of the attempt left, where that is the result.
    left: Option<Left>,
    /// Which rows match by their identifiers, when that is known.
    identified: Option<Identified>,
    stage: Stage,
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
        let table = &*local.io.table;
        if let Some(kept) = ledger.kept().filter(Kept::exists) {
            let load = || {
                hash::beside(table, ctl, || kept.load(plan.me.place(), &plan.into(), table.path(), &local.scratch, ctl))
            };
            let (loaded, input) = clock.phase("resume", "", None, load)?;
            ledger.identify(&input)?;
            if let Some((keys, mut units)) = loaded {
                units.mark_rows(plan, &keys, &local.scratch)?;
                let values = values(plan, &local, &keys, |each| units.all(ctl, each), clock, ctl)?;
                let stage = Stage::Cut(Cutting { units, salt: kept.salt() });
                return Ok(Self { plan, local, keys, repeats: None, values, left: None, identified: None, stage });
            }
            ctl.note(format!("{} is not whole: what it is to hold is made again", kept.path().display()));
        }
        let mut keys = clock.phase("read", "rows", table.rows(), || local.keys(plan, ledger, ctl))?;
        let (mut summed, mut repeats) = (None, None);
        if keys.duplicates > 0 || plan.adds_up() {
            if keys.duplicates > 0 {
                local.room_for_repeats(plan, &keys)?;
            }
            let (how, scratch) = (Reading::from(plan).reusing(&local.slabs), &local.scratch);
            let groups =
                clock.phase("group", "rows", Some(keys.rows), || RowsByKey::of(table, &how, &keys, scratch, ctl))?;
            if keys.duplicates > 0 {
                let found = Repeats::of(&groups, &how, &keys, scratch, ctl)?;
                // Whole digests were compared here.
                (keys.distinct, keys.duplicates) = (keys.entries() - found.rows, found.rows);
                repeats = Some(found);
            }
            summed = values(plan, &local, &keys, groups.rows(plan.shared.duplicates, ctl), clock, ctl)?;
        }
        Ok(Self { plan, local, keys, repeats, values: summed, left: None, identified: None, stage: Stage::Read })
    }

    /// Meets the peers, as often as a connection breaks or one of them only checks the job, until each knows that the others are done.
    ///
    /// # Errors
    /// Whatever ends the run; after the output is in its place, whatever keeps a peer from saying that it is done.
    fn meet(&mut self, ledger: &mut Ledger, clock: &mut Clock<'_>, ctl: &Control) -> Result<(), JobError> {
        let (mut lost, mut called): (Option<Lost>, _) = (None, None);
        let (world, carried) = (self.local.io.world.clone(), self.local.endpoint.carried);
        loop {
            let patience = self.patience(ledger);
            let mut waiting = Waiting::begin(patience, &world.time);
            let (mut reached, mut again) = (false, false);
            let Self { plan, local, keys, .. } = &mut *self;
            let (watch, mut brought) = (RefCell::new(&mut *clock), std::mem::take(&mut local.io.connections));
            let connect = |waiting: &Waiting, endpoint: Endpoint| {
                let mut clock = watch.borrow_mut();
                if std::mem::replace(&mut again, true) {
                    clock.unmet();
                }
                clock.wait("connect", || match carried {
                    true => Peers::carry(endpoint, std::mem::take(&mut brought), ctl),
                    false => waiting.connect(&*world.connector, endpoint, ctl),
                })
            };
            let agree = |peers: &Peers, control: &mut Lines, ledger: &mut Ledger| {
                let (mut rng, certificates) = (world.rng()?, peers.certificates(&plan.me));
                let agree = || agree::agree(plan, keys.distinct, ledger, control, &certificates, &mut rng);
                watch.borrow_mut().follow(peers, "agree", "", None, agree)
            };
            let met = Session::meet(&local.endpoint, &mut waiting, &mut reached, ledger, ctl, connect, agree);
            let ended = match met {
                Ok((mut session, agreed)) => {
                    if called.replace(agreed.salt) != Some(agreed.salt) {
                        ctl.note(agree::told_of(&agreed.salt));
                    }
                    session.told(|session| self.together(session, &agreed, ledger, clock, ctl))
                }
                Err(error) if reached => Err(error),
                Err(error) => {
                    // A peer that came back to check is not absent.
                    let lost = lost.filter(|_| matches!(error, JobError::Net(_)) && error.fault() == Fault::Network);
                    return Err(lost.map_or(error, |lost| lost.for_good(patience)));
                }
            };
            let Err(error) = ended else { return Ok(()) };
            if carried {
                // The caller's connection cannot be made again.
                return Err(error);
            }
            let of = ledger.started().map_or(1, |start| start.sizes.units);
            let now = Lost::after(error, lost, (ledger.len(), of))?;
            let wait = humantime::format_duration(self.patience(ledger));
            let done = if self.stage.has_ended() { "this side is done, but " } else { "" };
            ctl.note(match self.plan.peers.len() {
                1 => format!("{done}lost {}; waiting up to {wait} for it to come back", now.peer),
                _ => format!("{done}lost {} ({}); waiting up to {wait} for all to come back", now.peer, now.why),
            });
            lost = Some(now);
        }
    }

    /// How long the peers are waited for: not long if this side can do without them.
    fn patience(&self, ledger: &Ledger) -> Duration {
        let done = self.stage.has_ended() || (self.plan.learns_alone() && ledger.is_whole());
        self.plan.patience.min(if done { STAY } else { Duration::MAX })
    }

    /// Writes the output of a run that is over between the parties, if this side learns and others do not: `report` is completed.
    ///
    /// # Errors
    /// Those of writing. What the units found is still in the ledger, if that is kept: the same command, on this side alone
    /// if it learns alone, writes it again.
    fn write_apart(
        &mut self,
        ledger: &mut Ledger,
        mut report: Report,
        clock: &mut Clock<'_>,
        ctl: &Control,
    ) -> Result<Report, JobError> {
        if !self.plan.writes_apart() {
            return Ok(report);
        }
        self.recut(ledger, clock, ctl)?;
        let (Stage::Cut(Cutting { units, .. }) | Stage::Ended(Cutting { units, .. }, _)) =
            std::mem::replace(&mut self.stage, Stage::Read)
        else {
            return Err(vesica_session::Error::Bug("keys were not cut".into()).into());
        };
        let Self { plan, local, keys, repeats, identified, .. } = self;
        *repeats = None;
        let found = ledger.found()?;
        if !plan.lists.is_empty() && identified.is_none() {
            let read = || Identified::of(plan, keys, &units, &found, false, &local.scratch);
            *identified = Some(clock.phase("join", "rows", None, read)?);
        }
        if let Some(identified) = identified {
            report.outcome.matched_rows = Some(identified.rows());
        }
        let staged =
            clock.phase("write", "rows", None, || local.stage(plan, keys, units, &found, identified.as_ref(), 0))?;
        report.outcome.output = staged.map(Staged::commit).transpose()?.map(written);
        let (cost, times) = clock.close();
        report.cost.extend(cost);
        report.total.wall_s = times.wall.as_secs_f64();
        report.total.cpu_s = times.cpu.as_secs_f64();
        report.total.peak_memory = times.peak_memory;
        Ok(report)
    }

    /// Cuts the keys of a run that began, if they are not cut: a ledger was there, and what was kept beside it was not.
    fn recut(&mut self, ledger: &Ledger, clock: &mut Clock<'_>, ctl: &Control) -> Result<(), JobError> {
        if let (Stage::Read, Some(Start { salt, sizes, .. })) = (&self.stage, ledger.started().cloned()) {
            let rows = self.keys.rows;
            let cutting = clock.phase("partition", "rows", Some(rows), || self.cutting(salt, sizes, ctl))?;
            self.stage.recut(cutting);
        }
        Ok(())
    }

    /// How many rows match by their identifiers, in a run whose units are all finished and whose peers are lost.
    fn matched_rows(&mut self, ledger: &mut Ledger, clock: &mut Clock<'_>, ctl: &Control) -> Result<u64, JobError> {
        self.recut(ledger, clock, ctl)?;
        let Self { plan, local, keys, identified, stage, .. } = self;
        let Some(Cutting { units, .. }) = stage.cutting() else {
            return Err(vesica_session::Error::Bug("keys were not cut".into()).into());
        };
        if identified.is_none() {
            let found = ledger.found()?;
            let read = || Identified::of(plan, keys, units, &found, true, &local.scratch);
            *identified = Some(clock.phase("join", "rows", None, read)?);
        }
        Ok(identified.as_ref().map_or(0, Identified::rows))
    }

    /// Ends a run whose units are all finished and whose peers are lost: `error` says how.
    ///
    /// # Errors
    /// [`JobError::LastWord`] if a peer's word is needed; [`JobError::TooSmall`]; those of writing.
    fn without_the_peers(
        &mut self,
        ledger: &mut Ledger,
        error: JobError,
        clock: &mut Clock<'_>,
        ctl: &Control,
    ) -> Result<Report, JobError> {
        let plan = self.plan;
        let mut common = ledger.common();
        if !plan.lists.is_empty() && plan.i_learn() && plan.shared.limits.min_intersection.is_some() {
            common.rows = self.matched_rows(ledger, clock, ctl)?;
        }
        let start = ledger.started().cloned();
        let lists = start.as_ref().map_or(&[][..], |start| &start.lists);
        if let Some(least) = settle::too_small(plan, common, lists) {
            return Err(JobError::too_small(plan, least));
        }
        let Some(start) = start.filter(|_| plan.learns_alone()) else {
            return Err(if error.is_over() { error } else { JobError::LastWord(Box::new(error)) });
        };
        ctl.note(format!(
            "every unit is finished, so the result is written without the others, who may not know that: {error}"
        ));
        let met = Met::nobody(plan, &start.sizes);
        let outcome = outcome(plan, &self.keys, common, ledger, None);
        let report = reported(plan, &start.salt, &start.sizes, met, outcome, clock);
        self.write_apart(ledger, report, clock, ctl)
    }

    /// What happens when the parties have agreed.
    fn together(
        &mut self,
        session: &mut Session,
        agreed: &Agreed,
        ledger: &mut Ledger,
        clock: &mut Clock<'_>,
        ctl: &Control,
    ) -> Result<(), JobError> {
        let first = session.peers.clone();
        let (plan, peers) = (self.plan, &*first);
        let world = self.local.io.world.clone();
        let mut rng = world.rng()?;
        // Said once: after a break the keys have been cut.
        if let (Stage::Read, [peer], false) = (&self.stage, &*plan.peers, agreed.lacks.is_empty()) {
            ctl.note(format!(
                "the table of {} has no {}: what yours has of that matches nothing; leave it out of mine.input.keys for a faster run",
                peer.party,
                agreed.lacks.join(" and no ")
            ));
        }
        self.cut(agreed, ledger, peers, clock, ctl)?;
        let Self { local, keys, repeats, values, left, identified, stage, .. } = self;
        let Some(Cutting { units, .. }) = stage.cutting() else {
            return Err(vesica_session::Error::Bug("keys were not cut".into()).into());
        };
        let all = plan.all_learn();
        let both = Both::of(plan, agreed.salt);
        let (of, total) = match plan.suite.cut() {
            Cut::Units | Cut::Shares => ("units", Some(u64::from(agreed.sizes.units))),
            Cut::Whole => ("elements", None),
        };
        if plan.links() {
            link::room(plan, &agreed.sizes)?;
        }
        // Noise is paid for before anything is sent that it hides, and after a break it is the same again.
        budget::spend(plan, &agreed.salt, &world, ctl)?;
        let mut drawn_once =
            plan.suite.draws_once().then(|| SessionRng::from_seed(zeroize::Zeroizing::new(*agreed.coins.expose())));
        let rng_of_the_run = drawn_once.as_mut().unwrap_or(&mut rng);
        if agreed.lanes > 0 && local.endpoint.carried {
            let why = "the other party asks for lanes, and a run on the caller's connections has none: take mine.lanes out of its job";
            return Err(JobError::Setup(why.into()));
        }
        let mut of_lanes = Traffic::default();
        let meter = clock.follow(peers, "match", of, total, || {
            let values = values.as_ref();
            let (done, left, scratch) = (&agreed.done, &mut *left, &local.scratch);
            let work = Work { units, done, both, values, left, ledger, peers, scratch, world: &world, ctl };
            if agreed.lanes == 0 {
                return open_and_run(plan, &agreed.terms(), work, rng_of_the_run);
            }
            let (meter, traffic) = lanes::here::run(plan, agreed, &local.endpoint, work, session)?;
            of_lanes = traffic;
            Ok(meter)
        })?;
        clock.steps("match", &meter);

        let mut common = ledger.common();
        // Nothing is told about a result before all are known to have the same.
        if let Some(both) = both {
            let digest = ledger.found()?.digest;
            let compare = || both.same_as_learners("job", &digest, plan, peers, &mut rng);
            clock.follow(peers, "compare", "", None, compare)?;
        }
        if plan.links() {
            link::possible(&plan.me, &agreed.sizes, common.keys, &mut session.control)?;
        }
        // How many rows match is asked for now where all wait for the output, and where it may be too few.
        let asked = plan.all_learn() || plan.shared.limits.min_intersection.is_some();
        if !plan.lists.is_empty() && plan.i_learn() && asked {
            if identified.is_none() {
                let found = ledger.found()?;
                let read = || Identified::of(plan, keys, units, &found, true, &local.scratch);
                *identified = Some(clock.follow(peers, "join", "rows", None, read)?);
            }
            common.rows = identified.as_ref().map_or(0, Identified::rows);
        }
        // Rows that match by identifiers do not line up: nobody hears how many have no partner.
        let alone = match plan.half().mine && plan.lists.is_empty() {
            true => keys.kept(plan.shared.duplicates).checked_sub(common.rows).ok_or_else(|| units.changed())?,
            false => 0,
        };
        let settle = || settle::settle(plan, alone, common, agreed, &mut session.control);
        let absent = clock.follow(peers, "settle", "", None, settle)?;
        // Which rows have what is common is told when it may be learned.
        if let Some(identified) = identified.as_mut().filter(|_| plan.links()) {
            let [peer] = peers.links() else {
                return Err(vesica_session::Error::Bug("rows of more than two parties are to line up".into()).into());
            };
            let link = || identified.link(plan, &agreed.sizes, &mut Lines::new(vec![peer.line("links")?]));
            clock.follow(peers, "link", "", None, link)?;
        }
        // Where all learn, nobody's output appears before everybody's is written: a full disk over there leaves no file here
        // either. Where some do not learn, the others write when they have parted from them, who would see from the clock how much there is.
        let staged = if all && !stage.has_ended() {
            // Units are joined in the memory that this took.
            *repeats = None;
            let found = ledger.found()?;
            clock.follow(peers, "write", "rows", None, || match left {
                Some(left) => {
                    // What was opened to see that there is a place.
                    drop(local.sink.take());
                    let write = |wide: &dyn Table, picks, sink| local.write_of(wide, plan, picks, keys.rows, sink);
                    shares::stage(plan, &local.io, &local.scratch, keys, units, left, write)
                }
                None if plan.shared.result.each_has_its_own() => {
                    Err(vesica_session::Error::Bug("the units left nothing that could be written".into()).into())
                }
                None => local.stage(plan, keys, units, &found, identified.as_ref(), absent),
            })?
        } else {
            None
        };
        clock.follow(peers, "finish", "", None, || session.finish())?;
        if !stage.has_ended() {
            let output = staged.map(Staged::commit).transpose()?;
            let met = Met::of(peers, agreed, of_lanes);
            let attempt = left.as_ref().map(Left::attempt);
            let outcome = Outcome { attempt, ..outcome(plan, keys, common, ledger, output) };
            stage.end(reported(plan, &agreed.salt, &agreed.sizes, met, outcome, clock));
            ledger.end();
        }
        clock.follow(peers, "close", "", None, || session.part())
    }

    /// Cuts the keys into units by the salt that was agreed on, unless that was done.
    fn cut(
        &mut self,
        agreed: &Agreed,
        ledger: &mut Ledger,
        peers: &Peers,
        clock: &mut Clock<'_>,
        ctl: &Control,
    ) -> Result<(), JobError> {
        if self.stage.cutting().is_some_and(|cutting| cutting.salt == agreed.salt) {
            return Ok(());
        }
        if let Stage::Cut(_) = self.stage {
            // The peers have forgotten that run.
            self.stage = Stage::Read;
        }
        let rows = self.keys.rows;
        let cut = || self.cutting(agreed.salt, agreed.sizes.clone(), ctl);
        let cutting = clock.follow(peers, "partition", "rows", Some(rows), cut)?;
        if let Some(kept) = ledger.kept() {
            clock.follow(peers, "keep", "", None, || kept.save(&self.keys, &cutting.units, ctl))?;
        }
        self.identified = None;
        self.stage.recut(cutting);
        Ok(())
    }

    /// Cuts the keys into units by this salt.
    fn cutting(&mut self, salt: [u8; 32], sizes: Sizes, ctl: &Control) -> Result<Cutting, JobError> {
        let Self { plan, local: Local { io, scratch, slabs, .. }, keys, repeats, .. } = self;
        let how = Reading::from(*plan).reusing(slabs);
        let mut units =
            Units::cut(&*io.table, how, keys, repeats.as_ref(), &salt, sizes, plan.me.place(), scratch, ctl)?;
        units.mark_rows(plan, keys, scratch)?;
        Ok(Cutting { units, salt })
    }
}

/// What is added up, if this party has values or groups.
fn values(
    plan: &Plan,
    local: &Local,
    keys: &Keys,
    by_key: impl FnOnce(Rows<'_>) -> Result<(), JobError>,
    clock: &mut Clock<'_>,
    ctl: &Control,
) -> Result<Option<Brought>, JobError> {
    if !plan.adds_up() {
        return Ok(None);
    }
    let (table, rng) = (&*local.io.table, &mut local.io.world.rng()?);
    clock.phase("values", "rows", Some(keys.rows), || Brought::read(plan, table, keys, by_key, rng, ctl))
}

/// What came out, with the output as far as it is written.
fn outcome(
    plan: &Plan,
    keys: &Keys,
    common: Common,
    ledger: &Ledger,
    output: Option<vesica_table::Written>,
) -> Outcome {
    let i_learn = plan.i_learn();
    let rows = i_learn && plan.shared.result == ResultKind::Rows;
    let sum = i_learn && plan.shared.result == ResultKind::Sum;
    let counted = i_learn && matches!(plan.shared.result, ResultKind::Rows | ResultKind::Count);
    Outcome {
        rows: keys.rows,
        keys: keys.distinct,
        empty: keys.empty,
        duplicates: keys.duplicates,
        ruled: keys.ruled.filter(|_| plan.rules.iter().any(|rules| !rules.is_empty())).map(Into::into),
        matched: counted.then_some(common.keys),
        // The ledger has it modulo 2^64.
        sum: sum.then_some(common.keys as i64),
        groups: ledger.told().map(|totals| report::Groups::new(&plan.shared, totals)),
        matched_rows: rows.then_some(common.rows),
        output: output.map(written),
        attempt: None,
        left_out: Vec::new(),
        changes: None,
    }
}

fn written(output: vesica_table::Written) -> report::Written {
    report::Written { path: output.path, rows: output.rows, bytes: output.bytes }
}

/// What is known of the peers and of the connections.
pub(crate) struct Met {
    tls: String,
    peers: Vec<PeerId>,
    traffic: Traffic,
    /// Links that the units went over, besides the first one.
    lanes: u32,
}

impl Met {
    /// What is known of peers that were not there when the run ended.
    pub(crate) fn nobody(plan: &Plan, sizes: &Sizes) -> Self {
        let peers = plan.peers.iter().map(|peer| PeerId {
            name: peer.party.name().to_owned(),
            fingerprint: None,
            keys: sizes.keys[usize::from(peer.party.place())],
            unit_capacity: sizes.capacity(peer.party.place()),
            attempts: 0,
            answered: 0,
            version: "not met again".into(),
        });
        Self {
            tls: "not connected when it ended".into(),
            peers: peers.collect(),
            traffic: Traffic::default(),
            lanes: 0,
        }
    }

    /// `of_lanes` went over the lanes.
    pub(crate) fn of(peers: &Peers, agreed: &Agreed, of_lanes: Traffic) -> Self {
        let tls: Vec<String> = peers.links().iter().map(|link| link.secured().to_string()).collect();
        let each = peers.links().iter().zip(&agreed.versions).map(|(link, version)| PeerId {
            name: link.peer().name().to_owned(),
            fingerprint: link.secured().fingerprint.map(|f| f.to_string()),
            keys: agreed.sizes.keys[usize::from(link.peer().place())],
            unit_capacity: agreed.sizes.capacity(link.peer().place()),
            attempts: 0,
            answered: 0,
            version: version.clone(),
        });
        let tls = if tls.iter().all(|one| *one == tls[0]) { tls[0].clone() } else { tls.join("; ") };
        let Traffic { sent, received } = peers.traffic();
        let traffic = Traffic { sent: sent + of_lanes.sent, received: received + of_lanes.received };
        Self { tls, peers: each.collect(), traffic, lanes: agreed.lanes }
    }
}

pub(crate) fn reported(
    plan: &Plan,
    salt: &[u8; 32],
    sizes: &Sizes,
    met: Met,
    outcome: Outcome,
    clock: &mut Clock<'_>,
) -> Report {
    let names = |parties: &[vesica_types::Party]| parties.iter().map(|p| p.name().to_owned()).collect::<Vec<_>>();
    let (cost, times) = clock.close();
    let suite = &plan.suite;
    Report {
        job: JobId {
            id: plan.shared.id.clone(),
            run: clock.run(),
            called: Some(agree::quoted(salt)),
            shared_hash: plan.shared.hash().iter().map(|b| format!("{b:02x}")).collect(),
            party: plan.me.name().to_owned(),
            parties: names(&plan.parties),
            shared: plan.shared.in_toml(),
            mine: plan.mine.clone(),
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
            expects: plan.expects(sizes),
            wire_version: vesica_net::WIRE_VERSION,
            cut: suite.cut().name().to_owned(),
            units: sizes.units,
            in_flight: sizes.in_flight,
            lanes: met.lanes,
            unit_capacity: sizes.capacity(plan.me.place()),
            tag_bytes: sizes.tag_len.bytes() as u32,
            cpu: vesica_cpu::Backend::chosen().name().to_owned(),
            tls: met.tls,
            peers: met.peers,
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
#[cfg(test)]
mod spoiled;
