//! Lanes on one machine: some are under way at once, each on threads of its own, and what they find goes to one ledger.
//!
//! Of the two sides one dials, as it did for the first link. It takes the lanes in ascending order, and dials a lane again whose link broke. The
//! other side opens a door and takes whichever lane knocks. So neither side waits for a lane that the other has not begun. A lane is
//! over for the one that dials when both have said goodbye in it. When all are, it says so over the first link.

use crate::error::JobError;
use crate::lanes::links::{Certificates, Meeting, Watcher};
use crate::lanes::{given_up, hello, is_a_break, is_refused, open, share};
use crate::meet::agree::{Agreed, NOTHING, begin};
use crate::meet::breaks::Breaks;
use crate::meet::peers::Peers;
use crate::seal::ledger::Ledger;
use crate::session::{Places, STAY, Session};
use crate::tell::control::Control;
use crate::units::compare::Both;
use crate::units::cut::Units;
use crate::units::each::{self, Ended};
use crate::units::work::Work;
use crate::world::{World, scope};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use vesica_net::{Endpoint, LaneDoor, Security, Traffic};
use vesica_session::{Lines, Meter};
use vesica_spec::Plan;
use vesica_suite::Terms;
use vesica_types::UnitId;

/// How often the side that dials looks whether the first link is there.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the units that are missing over the lanes that were agreed on; `endpoint` is where the parties meet. Returns what they cost, and how many bytes the lanes took.
///
/// # Errors
/// The first that a lane met and that another link does not mend; what ended the first link.
pub fn run(
    plan: &Plan,
    agreed: &Agreed,
    endpoint: &Endpoint,
    work: Work<'_>,
    session: &mut Session,
) -> Result<(Meter, Traffic), JobError> {
    let Work { units, done, both, ledger, peers, world, ctl, .. } = work;
    if done.iter().all(|done| *done) {
        return Ok((Meter::default(), Traffic::default()));
    }
    let over = Arc::new(AtomicBool::new(false));
    let watcher = Watcher { ctl: ctl.clone(), over };
    // A door stands where the parties meet, and shows what is known there. The side that dials shows nobody its own certificate at an
    // address that the other one has named.
    let mine = match (&endpoint.security, &plan.peers[0].connect) {
        (Security::Tls { identity }, None) => Some(identity.clone()),
        _ => Certificates::fresh(plan)?,
    };
    let seats = agreed.lanes.min(agreed.sizes.in_flight);
    let Places { addresses, at_once, certificates } = session.lanes(plan, &[], seats, mine)?;
    let state = State {
        ledger,
        failure: None,
        broken: false,
        counted: done.iter().map(|done| !done).collect(),
        finished: done.iter().filter(|done| **done).count() as u64,
        breaks: vec![Breaks::default(); agreed.lanes as usize],
        cost: (Meter::default(), Traffic::default()),
    };
    let (salt, connector, peer) = (&agreed.salt, &*world.connector, endpoint.peers[0].trust.as_ref());
    let meeting = Meeting { plan, salt, certificates: &certificates, peer, connector };
    let in_lane = (agreed.sizes.in_flight / at_once).max(1);
    let state = Mutex::new(state);
    let of_run = agreed.terms();
    let lanes = Lanes { agreed, of_run, units, both, peers, world, ctl, meeting, in_lane, watcher, state };
    match addresses.is_empty() {
        false => lanes.dial(&addresses, at_once, session),
        true => lanes.answer(plan.listen.as_deref().unwrap_or_default(), at_once, session)?,
    }
    let State { failure, cost, .. } = lanes.state.into_inner().expect("no worker panics");
    failure.map_or(Ok(cost), Err)
}

/// What the threads of the lanes share.
struct Lanes<'a> {
    agreed: &'a Agreed,
    /// The terms of all lanes are copies of these, so that their checks have one judge.
    of_run: Terms,
    units: &'a Units,
    both: Option<Both>,
    /// The first link.
    peers: &'a Peers,
    world: &'a World,
    ctl: &'a Control,
    meeting: Meeting<'a>,
    /// Units of a lane that are under way at once.
    in_lane: u32,
    watcher: Watcher,
    state: Mutex<State<'a>>,
}

/// What they change.
struct State<'a> {
    ledger: &'a mut Ledger,
    /// What ends the run.
    failure: Option<JobError>,
    /// Whether a lane broke since units were counted as answered.
    broken: bool,
    /// The units that count as missing in the present attempt. A unit that is committed does not: if it is done again, it counts again.
    counted: Vec<bool>,
    /// Units that are finished.
    finished: u64,
    /// Of each lane, whose job is its share of the units.
    breaks: Vec<Breaks>,
    cost: (Meter, Traffic),
}

impl State<'_> {
    /// A unit is finished: the only way into the ledger.
    fn commit(&mut self, id: UnitId, units: &Units, ended: &Ended) -> Result<(), JobError> {
        let again = self.ledger.has(id);
        ended.keep(id, units, self.ledger)?;
        self.counted[id.0 as usize] = false;
        self.finished += u64::from(!again);
        Ok(())
    }
}

/// Tells the thread that looks after the first link that one of those that dial is at its end.
struct Gone<'a> {
    alive: &'a AtomicU32,
    looks: &'a Thread,
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
        self.looks.unpark();
    }
}

impl<'a> Lanes<'a> {
    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().expect("no worker panics")
    }

    fn over(&self) -> bool {
        self.watcher.over.load(Ordering::SeqCst)
    }

    /// Ends the run: all lanes, and the first link, so that nobody waits for anything.
    fn fail(&self, error: JobError) {
        let mut state = self.state();
        if state.failure.as_ref().is_none_or(|before| error.outweighs(before)) {
            self.watcher.over.store(true, Ordering::SeqCst);
            self.peers.abort(&error);
            state.failure = Some(error);
        }
    }

    /// Dials every lane, `at_once` at a time.
    fn dial(&self, doors: &[String], at_once: u32, session: &mut Session) {
        let next = Mutex::new(0..self.agreed.lanes);
        let (alive, looks) = (AtomicU32::new(at_once), thread::current());
        scope(&*self.world.turns, |scope| {
            for _ in 0..at_once {
                let (alive, looks, next) = (&alive, &looks, &next);
                scope.spawn(move || {
                    // Also if it panics, which this side hears when it looks no more.
                    let _gone = Gone { alive, looks };
                    if let Err(error) = self.dial_each(next, doors) {
                        self.fail(error);
                    }
                });
            }
            // Whether the peer is there is seen on the first link, whose heart beats.
            let all_gone = || alive.load(Ordering::SeqCst) == 0;
            loop {
                self.world.time.sleep(LOOK, &all_gone);
                if all_gone() {
                    break;
                }
                if let Some(error) = self.peers.links().iter().find_map(|link| link.ended()) {
                    self.fail(error.into());
                }
            }
        });
        let failed = self.state().failure.is_some();
        if !failed && let Err(error) = session.end_lanes(self.meeting.plan) {
            self.fail(error);
        }
    }

    fn dial_each(&self, next: &Mutex<Range<u32>>, doors: &[String]) -> Result<(), JobError> {
        loop {
            let lane = next.lock().expect("no worker panics").next();
            let Some(lane) = lane.filter(|_| !self.over()) else { return Ok(()) };
            let address = &doors[lane as usize % doors.len()];
            let mut refused: Option<Instant> = None;
            loop {
                let dialled = self.meeting.dial(lane, address, self.watcher.clone());
                let Err(error) = dialled.and_then(|peers| self.lane(lane, &peers)) else { break };
                if is_refused(&error) {
                    // The other side has noticed a break of the first link, and this one has not, or the other way round. This side will
                    // notice soon, and then meets the other one again.
                    if self.over() {
                        return Ok(());
                    }
                    let time = &self.world.time;
                    let since = *refused.get_or_insert_with(|| time.now());
                    if time.now().duration_since(since) > STAY {
                        return Err(given_up(self.meeting.plan, lane, &error));
                    }
                    time.sleep(LOOK, &|| self.over());
                    continue;
                }
                refused = None;
                let why = error.to_string();
                self.broke(lane, error)?;
                self.ctl.note(format!("lane {lane} broke and is dialled again: {why}"));
            }
        }
    }

    /// Takes whichever lane knocks, `at_once` at a time, until the peer says that all are done.
    fn answer(&self, listen: &str, at_once: u32, session: &mut Session) -> Result<(), JobError> {
        let door = self.meeting.door(self.agreed.lanes, listen, at_once, self.watcher.clone())?;
        scope(&*self.world.turns, |scope| {
            for _ in 0..at_once {
                scope.spawn(|| {
                    if let Err(error) = self.answer_each(&*door) {
                        self.fail(error);
                    }
                });
            }
            match session.end_lanes(self.meeting.plan) {
                Ok(()) if self.state().ledger.len() == u64::from(self.agreed.sizes.units) => {}
                Ok(()) => self.fail(session.too_early()),
                Err(error) => self.fail(error),
            }
            door.shut();
        });
        Ok(())
    }

    fn answer_each(&self, door: &dyn LaneDoor) -> Result<(), JobError> {
        while let Some(link) = door.next()? {
            let lane = self.meeting.number(self.agreed.lanes, &*link)?;
            if let Err(error) = self.lane(lane, &Peers::of(vec![link])) {
                let why = error.to_string();
                self.broke(lane, error)?;
                self.ctl.note(format!("lane {lane} broke and is awaited again: {why}"));
            }
        }
        Ok(())
    }

    /// A lane ended with `error`. It may begin again, on either side alike, if its link broke, and not once too often.
    ///
    /// # Errors
    /// `error`, if it may not.
    fn broke(&self, lane: u32, error: JobError) -> Result<(), JobError> {
        let mut state = self.state();
        let units = share(lane, self.agreed.lanes, self.agreed.sizes.units);
        let (of, now) = (units.clone().count(), units.filter(|id| state.ledger.has(*id)).count());
        let again = state.breaks[lane as usize].again(now as u64, of as u32);
        if is_a_break(&error) && again { Ok(()) } else { Err(error) }
    }

    /// A lane over one link, to its end.
    fn lane(&self, lane: u32, peers: &Peers) -> Result<(), JobError> {
        let ended = self.units(lane, peers).and_then(|meter| {
            self.state().cost.0.merge(&meter);
            Ok(peers.close()?)
        });
        let Traffic { sent, received } = peers.traffic();
        let mut state = self.state();
        state.cost.1.sent += sent;
        state.cost.1.received += received;
        let Err(error) = ended else { return Ok(()) };
        state.broken = true;
        drop(state);
        if !is_a_break(&error) {
            peers.leave(&error);
        }
        Err(error)
    }

    /// The units of a lane that are missing.
    fn units(&self, lane: u32, peers: &Peers) -> Result<Meter, JobError> {
        let (plan, agreed) = (self.meeting.plan, self.agreed);
        let has = |id| self.state().ledger.has(id);
        let (todo, mut meter) = hello::first_words(plan, (lane, agreed.lanes), agreed.sizes.units, has, peers)?;
        // A learner has these units; this side has nothing to keep of them.
        let nothing = Ended { matches: Vec::new(), digest: NOTHING, firsts: Vec::new() };
        todo.settled.into_iter().try_for_each(|id| self.state().commit(id, self.units, &nothing))?;
        if todo.missing.is_empty() {
            return Ok(meter);
        }
        self.count(&todo.missing)?;
        let mut rng = self.world.rng()?;
        let (protocol, base) = open(plan, &self.of_run, lane, peers, &mut rng)?;
        meter.merge(&base);
        let one = |id, lines: &mut Lines| Ended::of(&*protocol, self.units, id, self.both, lines, &rng);
        let keep = |id, ended: Ended| self.keep(id, &ended);
        meter.merge(&each::all(todo.missing, self.in_lane, peers, &*self.world.turns, self.ctl, one, keep)?);
        Ok(meter)
    }

    /// A lane sets out to do the units of `missing`. What was under way in lanes that broke counts as answered, by the rule of a whole run
    /// that broke: as many units as are under way at once in all lanes together.
    fn count(&self, missing: &[UnitId]) -> Result<(), JobError> {
        let mut state = self.state();
        let State { ledger, broken, counted, .. } = &mut *state;
        let again = missing.iter().filter(|id| !counted[id.0 as usize]).count() as u64;
        if *broken || again > 0 {
            let sizes = &self.agreed.sizes;
            let all = ledger.answers().missing() + again;
            begin(self.meeting.plan, sizes.units, all, sizes.in_flight.into(), ledger)?;
            *broken = false;
            missing.iter().for_each(|id| counted[id.0 as usize] = true);
        }
        Ok(())
    }

    /// A unit is finished. Says how many are.
    fn keep(&self, id: UnitId, ended: &Ended) -> Result<u64, JobError> {
        let mut state = self.state();
        state.commit(id, self.units, ended)?;
        let total = u64::from(self.agreed.sizes.units);
        self.peers.set_progress("match", state.finished, Some(total));
        Ok(state.finished)
    }
}
