//! The driver's link: all that the parties say outside of units.

use crate::cluster::lane::LaneCost;
use crate::cluster::reading::Start;
use crate::cluster::secret::Secret;
use crate::cluster::terms::{Terms, Words};
use crate::error::JobError;
use crate::lanes::links::Certificates;
use crate::meet::agree::{self, Agreed, Counted, Met};
use crate::meet::breaks::Breaks;
use crate::meet::peers;
use crate::meet::settle;
use crate::meet::wait::Waiting;
use crate::output::join;
use crate::run::{self, reported};
use crate::seal::key::Given;
use crate::seal::ledger::Ledger;
use crate::seal::record;
use crate::session::{Places, STAY, Session};
use crate::tell::clock::Clock;
use crate::tell::control::Control;
use crate::tell::report::{Outcome, Report};
use crate::units::compare::Both;
use crate::units::found::Common;
use crate::world::{World, fill};
use std::collections::BTreeSet;
use std::time::Instant;
use vesica_net::{Endpoint, Traffic};
use vesica_session::{Error, Fault};
use vesica_spec::{Plan, Spec, SpecError};
use vesica_types::UnitId;
use zeroize::Zeroizing;

/// What a unit found, without its rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unit {
    /// Its number.
    pub id: u32,
    /// Its digest, as [`Matched`](crate::cluster::Matched) has it; zeros for one that was settled without being matched.
    pub digest: [u8; 32],
    /// Common keys.
    pub keys: u64,
    /// Rows of this side that have one of them.
    pub rows: u64,
    /// Rows of the join: of each row, how often it stands there.
    pub times: u64,
}

/// The driver's side of a run.
pub struct Meeting {
    spec: Spec,
    plan: Plan,
    /// What the secrets of runs are made of: it leaves this process no more than the party's private key does.
    given: Given,
    /// The secret of the run that the parties met for.
    secret: Option<Secret>,
    endpoint: Endpoint,
    ledger: Ledger,
    ctl: Control,
    world: World,
    began: Instant,
    session: Option<Session>,
    stage: Stage,
    /// Why the other party was not met, if it is gone or has forgotten the run.
    gone: Option<String>,
    /// Whether the other party was there when this side last came to meet it.
    reached: bool,
    /// Rows of the table, and those without a key.
    rows: (u64, u64),
    common: Common,
    breaks: Breaks,
}

/// How far the parties are.
enum Stage {
    Apart,
    Met(Box<Met>),
    Sized(Box<Agreed>),
    /// This side ends the run by itself: there is no link, and nothing is missing.
    Alone(Box<Agreed>),
}

/// Why a cluster cannot run this job, if it cannot.
fn refused(plan: &Plan) -> Result<(), SpecError> {
    if let Some((field, why)) = agree::refuses_late_counts(plan) {
        return Err(SpecError::field(field, why));
    }
    if plan.lanes == 0 {
        let why =
            "is missing: the units of a cluster go over lanes; give about four times the workers of the smaller side";
        return Err(SpecError::field("mine.lanes", why));
    }
    let half = plan.half();
    if half.mine || half.theirs {
        let name = plan.shared.join.name();
        let why = format!(
            "\"{name}\" shows rows without a partner, which no worker of a cluster knows; take \"inner\" or \"semi\""
        );
        return Err(SpecError::field("shared.join", why));
    }
    Ok(())
}

/// What the secrets of a party's runs are made of: `mine.resume_key` or a passphrase if runs are to survive this process, and else what
/// ends with it.
fn given(plan: &Plan, ctl: &Control) -> Result<Given, JobError> {
    let Some(resume) = &plan.resume else {
        let mut key = Zeroizing::new(vec![0; 32]);
        fill(&mut key)?;
        return Ok(Given::Key(key));
    };
    match Given::of(resume, ctl)? {
        Given::Nothing => {
            let why = "is missing: what a cluster keeps is sealed, so going on after a restart needs a key that outlives the driver; name a \
                       file of at least 16 random bytes";
            Err(SpecError::field("mine.resume_key", why).into())
        }
        given => Ok(given),
    }
}

/// The job as workers are told it: without `tls.key` and `resume_key`, for which they have no use, and unless they call the other side's doors, without
/// the proxy and the password that may stand in it.
fn for_workers(spec: &Spec, call: bool) -> Spec {
    let mut job = spec.clone();
    job.mine.resume_key = None;
    if let Some(tls) = &mut job.mine.tls {
        tls.key = None;
    }
    if !call {
        (job.mine.proxy, job.mine.proxy_credentials) = (None, None);
    }
    job
}

impl Meeting {
    /// Prepares the run of a job. `storage` is a hash that names the input: of its files, their sizes and whatever tells one version of them
    /// from another. With `mine.resume` and a key the run survives this process. Nothing is contacted.
    ///
    /// # Errors
    /// A job that is not valid or not for a cluster, named by its field; certificates, a key, a port or a ledger that cannot be used.
    pub fn open(spec: &Spec, storage: [u8; 32], ctl: Control) -> Result<Self, JobError> {
        vesica_cpu::requested().map_err(JobError::Setup)?;
        let plan = vesica_spec::plan(spec)?;
        refused(&plan)?;
        let given = given(&plan, &ctl)?;
        let world = World::default();
        let identity = peers::own(&plan, &ctl)?;
        let endpoint = peers::endpoint(&plan, identity.as_ref(), false, &*world.connector)?;
        let scratch = plan.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let mut ledger = Ledger::open_with(&plan, &given, &scratch, &world.disk)?;
        ledger.identify(&storage.into())?;
        Ok(Self {
            spec: spec.clone(),
            plan,
            given,
            secret: None,
            endpoint,
            ledger,
            ctl,
            began: world.time.now(),
            world,
            session: None,
            stage: Stage::Apart,
            gone: None,
            reached: false,
            rows: (0, 0),
            common: Common { keys: 0, rows: 0 },
            breaks: Breaks::default(),
        })
    }

    /// Names the run that this side would go on with, if it has one.
    pub fn run(&self) -> Option<String> {
        self.ledger.started().map(|start| agree::name(&start.salt))
    }

    /// Whether this side dials its lanes. If not, it has doors.
    pub fn dials(&self) -> bool {
        self.plan.peers[0].connect.is_some()
    }

    /// Whether the other party was there when [`Meeting::meet`] was last called: then a link that broke is one to meet again after, and else
    /// nobody came for as long as this side waits.
    pub fn reached(&self) -> bool {
        self.reached
    }

    /// The link broke, and these units are finished here. Says whether the parties may meet again, by the rule of a run on one machine.
    pub fn again(&mut self, finished: &[u32]) -> bool {
        let done = self.done(finished);
        let units = done.iter().filter(|done| **done).count();
        self.breaks.again(units as u64, (done.len() as u32).max(1))
    }

    /// Connects to the other party, sees that it has the same job, and tosses the coins of a new run, unless both go on with one. Of that
    /// the units `finished` are done here, and `begun` is how often units were begun here, all of them and all attempts together: none if
    /// that record is lost, and then each counts as begun as often as it was allowed. After a link that broke this is called again, on the
    /// same meeting, and so is all that follows.
    ///
    /// # Errors
    /// Those of connecting and of agreeing. If the other party is gone or has forgotten the run, [`Meeting::alone`] may go on.
    pub fn meet(&mut self, finished: &[u32], begun: Option<u64>) -> Result<Start, JobError> {
        (self.session, self.stage, self.gone, self.reached) = (None, Stage::Apart, None, false);
        // Lanes come behind the key counts, so where there are none yet no unit was begun, whatever became of the record.
        let uncounted = self.ledger.started().is_some_and(|start| start.sizes.keys.is_empty());
        self.ledger.begun(begun.or(uncounted.then_some(0)))?;
        let done = self.done(finished);
        self.met(&done).inspect_err(|error| self.gone = error.is_of_a_lost_peer().then(|| error.to_string()))
    }

    fn met(&mut self, done: &[bool]) -> Result<Start, JobError> {
        let patience = if self.needs_nobody(done) { self.plan.patience.min(STAY) } else { self.plan.patience };
        let world = self.world.clone();
        let mut waiting = Waiting::begin(patience, &world.time);
        let Self { plan, endpoint, ledger, ctl, reached, .. } = self;
        let connect = |waiting: &Waiting, endpoint| waiting.connect(&*world.connector, endpoint, ctl);
        // After a connection that broke when the run had begun, the driver calls this again.
        let met = Session::meet(endpoint, &mut waiting, reached, ledger, ctl, connect, |peers, control, ledger| {
            let (counted, certificates) = (Counted::Later(done), peers.certificates(&plan.me));
            agree::meet(plan, counted, ledger, control, &certificates, &mut world.rng()?)
        });
        let (session, met) = met?;
        let (salt, units) = (met.start.salt, met.start.sizes.units);
        self.ctl.note(agree::told_of(&salt));
        let start = self.start(salt, units, met.lanes);
        (self.session, self.stage) = (Some(session), Stage::Met(Box::new(met)));
        Ok(start)
    }

    /// What readers need of the run with this salt, whose secret is made here.
    fn start(&mut self, salt: [u8; 32], units: u32, lanes: u32) -> Start {
        let secret = Secret::of_run(&self.given.secret(&salt));
        self.secret = Some(secret.clone());
        // Readers call nobody.
        Start::new(for_workers(&self.spec, false), self.plan.clone(), salt, units, lanes, secret)
    }

    /// Of the run in the ledger, which units are finished.
    fn done(&self, finished: &[u32]) -> Vec<bool> {
        let units = self.ledger.started().map_or(0, |start| start.sizes.units);
        let finished: BTreeSet<u32> = finished.iter().copied().collect();
        (0..units).map(|unit| finished.contains(&unit)).collect()
    }

    /// Whether this side needs nothing more of the other one. Every unit is finished here; and either this side alone learns, so that it
    /// has all that there is to have, or both have compared what they found and said that they are done.
    fn needs_nobody(&self, done: &[bool]) -> bool {
        let whole = !done.is_empty() && done.iter().all(|done| *done);
        whole && (self.plan.learns_alone() || self.ledger.is_finished())
    }

    /// The run of the ledger, to be ended without the other party, where [`Meeting::meet`] found that gone, or found that it has forgotten
    /// the run. All that follows is called as ever, and nobody is waited for. None if the other party is needed for anything: a unit that is not
    /// among the `finished`, or its word that both found the same.
    pub fn alone(&mut self, finished: &[u32]) -> Option<Start> {
        let gone = self.gone.clone()?;
        let done = self.done(finished);
        let start = self.ledger.started().filter(|start| self.needs_nobody(&done) && !start.sizes.keys.is_empty())?;
        let record::Start { salt, coins, sizes, lists } = start.clone();
        let peer = &self.plan.peers[0].party;
        self.ctl.note(format!("every unit is finished, so the run ends without {peer}, who may not know that: {gone}"));
        let start = self.start(salt, sizes.units, 0);
        let agreed =
            Agreed { salt, coins, sizes, versions: Vec::new(), lacks: Vec::new(), lists, done, values: None, lanes: 0 };
        self.stage = Stage::Alone(Box::new(agreed));
        Some(start)
    }

    fn is_alone(&self) -> bool {
        matches!(self.stage, Stage::Alone(_))
    }

    /// Says how many distinct keys there are in how many rows, of which `empty` have no key, and hears how many the other party has.
    /// `largest` is the unit with the most keys, and their number.
    ///
    /// # Errors
    /// [`Error::Overflow`], before any lane begins; those of agreeing.
    pub fn size(&mut self, keys: u64, empty: u64, rows: u64, largest: (u32, u64)) -> Result<(), JobError> {
        self.rows = (rows, empty);
        let place = self.plan.me.place();
        if let Stage::Alone(agreed) = &self.stage {
            let before = agreed.sizes.keys[usize::from(place)];
            return match keys == before {
                true => Ok(()),
                false => Err(JobError::Setup(format!(
                    "the table has {keys} distinct keys, and had {before} when the run began: what was kept of the run does not belong together"
                ))),
            };
        }
        let Stage::Met(met) = std::mem::replace(&mut self.stage, Stage::Apart) else { return Err(order("size")) };
        let Self { plan, ledger, .. } = self;
        let agreed = told(&mut self.session, |session| {
            let agreed = agree::size(plan, *met, keys, ledger, &mut session.control)?;
            let capacity = agreed.sizes.capacity(place);
            match largest {
                (unit, most) if most > capacity => Err(Error::Overflow { unit: UnitId(unit), capacity }.into()),
                _ => Ok(agreed),
            }
        })?;
        self.stage = Stage::Sized(Box::new(agreed));
        Ok(())
    }

    /// Tells the other side where this side's doors are, and how many lanes it works on at once, and hears the same. Without doors the other
    /// side's lanes come to where its first link came. What workers need is in the terms, with a certificate that is made here.
    ///
    /// # Errors
    /// Those of the link, and of the peer.
    pub fn lanes(&mut self, doors: &[String], seats: u32) -> Result<Terms, JobError> {
        let agreed = self.agreed("lanes")?;
        let Agreed { salt, sizes, lanes, done, .. } = agreed;
        let whole = done.iter().all(|done| *done);
        let seats = seats.clamp(1, lanes.max(1)).min(sizes.in_flight);
        let mut words = Words {
            job: for_workers(&self.spec, self.plan.peers[0].connect.is_some()),
            salt,
            keys: sizes.keys.clone(),
            capacities: sizes.capacities.clone(),
            units: sizes.units,
            allowed: self.ledger.answers().allowed(agree::most(&self.plan, sizes.units)),
            in_flight: sizes.in_flight,
            tag: sizes.tag_len.bytes(),
            lanes,
            at_once: seats,
            doors: Vec::new(),
            whole,
            theirs: None,
        };
        let mut key = None;
        if !whole {
            let mine = Certificates::fresh(&self.plan)?;
            let plan = &self.plan;
            let Places { addresses, at_once, certificates } =
                told(&mut self.session, |session| session.lanes(plan, doors, seats, mine))?;
            (words.doors, words.at_once) = (addresses, at_once);
            key = certificates.mine.and_then(|identity| identity.pem());
            words.theirs = certificates.theirs.map(|fingerprint| fingerprint.to_string());
        }
        Terms::new(words, key, self.secret.as_ref().ok_or_else(|| order("lanes"))?)
    }

    /// What ended the link, if something did. To be looked at while lanes are under way: without this link they are to end.
    pub fn lost(&self) -> Option<JobError> {
        self.session.as_ref()?.peers.links().iter().find_map(|link| link.ended()).map(JobError::from)
    }

    /// Says how far this side is, to people over there. `phase` is a word that says nothing of the table.
    pub fn progress(&self, phase: &str, done: u64, total: Option<u64>) {
        if let Some(session) = &self.session {
            session.peers.set_progress(phase, done, total);
        }
    }

    /// Every lane is over. A side that dials says so; a side with doors waits until the other says so, and stops its doors then. Whether that was
    /// true is seen by [`Meeting::settle`].
    ///
    /// # Errors
    /// Those of the link, and of the peer.
    pub fn finished(&mut self) -> Result<(), JobError> {
        if self.agreed("finished")?.done.iter().all(|done| *done) {
            return Ok(());
        }
        let plan = &self.plan;
        told(&mut self.session, |session| session.end_lanes(plan))
    }

    /// Sees that both sides found the same, where both learn, and that the result may be learned. `units` has every unit once.
    ///
    /// # Errors
    /// [`JobError::TooSmall`]: what was found is to be removed then, unopened. A join of more rows than an output may have. A unit that is
    /// missing: the peer is to blame if this side has doors, for it said that all lanes are done. Those of the link, and of the peer.
    pub fn settle(&mut self, units: &[Unit]) -> Result<(), JobError> {
        let agreed = self.agreed("settle")?;
        let mut units = units.to_vec();
        units.sort_by_key(|unit| unit.id);
        let every = units.iter().map(|unit| unit.id).eq(0..agreed.sizes.units);
        let mut hash = blake3::Hasher::new();
        units.iter().for_each(|unit| _ = hash.update(&unit.digest));
        // As the ledger of a run on one machine has it, which has a total where nothing else is learned.
        hash.update(&0u64.to_le_bytes());
        let sum = |what: fn(&Unit) -> u64| units.iter().map(what).fold(0, u64::saturating_add);
        self.common = Common { keys: sum(|unit| unit.keys), rows: sum(|unit| unit.rows) };
        let (plan, common, rows) = (&self.plan, self.common, self.rows.0);
        let times = sum(|unit| unit.times);
        let (units, dials) = (agreed.sizes.units, self.dials());
        let missing =
            || JobError::Setup(format!("not every one of the {units} units is there once; match those first"));
        if matches!(self.stage, Stage::Alone(_)) {
            // Where both learn, they have compared what they found, and said so.
            return match settle::too_small(plan, common, &agreed.lists) {
                _ if !every => Err(missing()),
                Some(least) => Err(JobError::too_small(plan, least)),
                None => join::bounded(times.into()),
            };
        }
        told(&mut self.session, |session| {
            if !every {
                return Err(if dials { missing() } else { session.too_early() });
            }
            if let Some(both) = Both::of(plan, agreed.salt) {
                both.same_as_learners("job", hash.finalize().as_bytes(), plan, &session.peers, &mut self.world.rng()?)?;
            }
            let alone = rows.checked_sub(common.rows).ok_or_else(|| {
                JobError::Setup(format!(
                    "{} rows matched, and the table has {rows}: give the units of this table",
                    common.rows
                ))
            })?;
            settle::settle(plan, alone, common, &agreed, &mut session.control)?;
            join::bounded(times.into())
        })
    }

    /// Says that this side has done what it is to, and hears it of the other. Where both learn, an output is written beside its place
    /// before, and put there after. That both are done is kept: from now on this side can end the run by itself ([`Meeting::alone`]).
    ///
    /// # Errors
    /// Those of the link, and of the peer; those of writing the ledger.
    pub fn finish(&mut self) -> Result<(), JobError> {
        self.agreed("finish")?;
        if !self.is_alone() {
            told(&mut self.session, Session::finish)?;
            self.ledger.finish()?;
        }
        self.ledger.end();
        Ok(())
    }

    /// Ends the run, and tells the other side whose fault it was.
    pub fn abort(&self, fault: Fault) {
        if let Some(session) = &self.session {
            session
                .peers
                .links()
                .iter()
                .for_each(|link| link.abort(fault, "its cluster stopped the run; it shows why on its own screen"));
        }
    }

    /// Says goodbye and gives the report. `lanes` is what [`Lane::close`](crate::cluster::Lane::close) gave for each link, and `begun` how
    /// often units were begun, all of them and all attempts together. The ledger stays until [`Meeting::forget`].
    ///
    /// # Errors
    /// Those of writing the ledger. That the other side's goodbye did not come is told as a note: it had said that it is done.
    pub fn close(&mut self, lanes: &[String], begun: u64) -> Result<Report, JobError> {
        let agreed = self.agreed("close")?;
        self.ledger.begun(Some(begun))?;
        let lanes: Vec<LaneCost> = lanes.iter().filter_map(|cost| serde_json::from_str(cost).ok()).collect();
        let sum = |what: fn(&LaneCost) -> u64| lanes.iter().map(what).sum::<u64>();
        let of_lanes = Traffic { sent: sum(|lane| lane.sent), received: sum(|lane| lane.received) };
        let met = match self.session.take() {
            None if self.is_alone() => run::Met::nobody(&self.plan, &agreed.sizes),
            None => return Err(order("close")),
            Some(mut session) => {
                if let Err(error) = session.part() {
                    self.ctl.note(format!(
                        "this side is done; if {} is not, run it again on both sides: {error}",
                        self.plan.peers[0].party
                    ));
                }
                run::Met::of(&session.peers, &agreed, of_lanes)
            }
        };
        let (common, learns, (rows, empty)) = (self.common, self.plan.i_learn(), self.rows);
        let keys = agreed.sizes.keys[usize::from(self.plan.me.place())];
        let outcome = Outcome {
            rows,
            keys,
            empty,
            duplicates: rows.saturating_sub(empty + keys),
            // The workers that cut the rows do not count it.
            ruled: None,
            matched: learns.then_some(common.keys),
            sum: None,
            groups: None,
            matched_rows: learns.then_some(common.rows),
            output: None,
            attempt: None,
            left_out: Vec::new(),
            changes: None,
        };
        let mut report = reported(&self.plan, &agreed.salt, &agreed.sizes, met, outcome, &mut Clock::start(&self.ctl));
        for step in lanes.into_iter().flat_map(|lane| lane.steps) {
            match report.cost.iter_mut().find(|cost| (&cost.phase, &cost.step) == (&step.phase, &step.step)) {
                Some(cost) => cost.add(&step),
                None => report.cost.push(step),
            }
        }
        report.total.wall_s = self.world.time.now().duration_since(self.began).as_secs_f64();
        report.chosen.answered(&self.plan, &self.ledger);
        Ok(report)
    }

    /// Removes the ledger, when the result is in its place.
    ///
    /// # Errors
    /// Those of removing it.
    pub fn forget(self) -> Result<(), JobError> {
        self.ledger.remove()
    }

    fn agreed(&self, what: &str) -> Result<Agreed, JobError> {
        match &self.stage {
            Stage::Sized(agreed) | Stage::Alone(agreed) => Ok((**agreed).clone()),
            _ => Err(order(what)),
        }
    }
}

/// A call at a time at which it means nothing.
fn order(what: &str) -> JobError {
    JobError::Setup(format!("{what} was called before the parties had met and counted: call meet and size first"))
}

/// Does a step of the session, and tells the other side if that was the end of the run.
fn told<T>(
    session: &mut Option<Session>,
    step: impl FnOnce(&mut Session) -> Result<T, JobError>,
) -> Result<T, JobError> {
    session.as_mut().ok_or_else(|| order("this"))?.told(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::tests::Two;
    use crate::seal::record::Start;
    use vesica_suite::Sizes;
    use vesica_types::{Coins, TagLen};

    #[test]
    fn workers_are_told_no_place_of_a_key_and_a_password_only_if_they_call() {
        let job = "[shared]\nid = \"j\"\nparties = [\"alice\", \"bob\"]\nprotocol = \"rr22\"\nlearns = [\"bob\"]\n\
                   [mine]\nname = \"alice\"\nconnect = { bob = \"bob:5300\" }\nproxy = \"http://alice:hunter2@proxy:3128\"\n\
                   tls = { identity = \"a.pem\", key = { program = [\"vault\", \"hvs.token\"] }, peers = { bob = \"sha256:00\" } }\n\
                   resume = \"kept\"\nresume_key = { program = [\"vault\", \"hvs.token\"] }\ninput = { path = \"a.csv\", keys = [\"id\"] }\n";
        let spec = vesica_spec::parse(job).unwrap();
        let told = |call| serde_json::to_string(&for_workers(&spec, call)).unwrap();
        assert!(serde_json::to_string(&spec).unwrap().contains("hvs.token"));
        assert!(told(true).contains("hunter2") && !told(true).contains("hvs.token"), "{}", told(true));
        assert!(!told(false).contains("hunter2") && told(false).contains("bob:5300"), "{}", told(false));
    }

    /// Bob forgets each run when a part of it is finished, and says that he has less memory, so that the next one has more units. As many units
    /// more than before were taken for progress, and the drivers met again and again.
    #[test]
    fn drivers_meet_again_as_often_as_a_larger_part_is_finished() {
        let two = Two::new("protocol = \"rr22\"\nlearns = [\"alice\"]\nlimits.max_keys = 400\nunit = 40");
        let mut meeting = Meeting::open(&two.job("alice", two.port, "lanes = 3"), [3; 32], Control::new(())).unwrap();
        let mut broke = |units, finished: u32| {
            let (keys, capacities, tag_len) = (Vec::new(), Vec::new(), TagLen::new(9).unwrap());
            let sizes = Sizes { units, in_flight: 1, keys, capacities, tag_len };
            meeting
                .ledger
                .start(Start { salt: [7; 32], coins: Coins::new([0; 32]), sizes, lists: vec![0; 2] })
                .unwrap();
            meeting.again(&(0..finished).collect::<Vec<_>>())
        };
        assert!(broke(4, 3) && broke(10, 6) && broke(40, 20) && broke(100, 60));
        assert!(!broke(256, 150), "the fifth time in a row");
        // And what is more is more.
        assert!(broke(256, 193) && broke(3, 1) && broke(3, 0));
    }
}
