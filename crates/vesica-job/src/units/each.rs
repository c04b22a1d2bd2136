//! The loop that runs units, many at once.

use crate::error::JobError;
use crate::meet::peers::Peers;
use crate::seal::ledger::Ledger;
use crate::tell::control::{Control, Event};
use crate::units::compare::Both;
use crate::units::cut::Units;
use crate::units::found::{Counts, Match, matches};
use crate::units::work::Work;
use crate::world::{Turns, scope};
use std::sync::Mutex;
use vesica_session::{Lines, Meter, Protocol, SessionRng, Unit};
use vesica_types::UnitId;

/// Runs the units, `in_flight` at a time, each on a line of its own. Returns what they cost.
///
/// # Errors
/// The first that a unit met. The link is shut then, so that no other unit waits for the peer.
pub fn run(protocol: &dyn Protocol, work: Work<'_>, rng: &SessionRng) -> Result<Meter, JobError> {
    let Work { units, done, both, ledger, peers, world, ctl, .. } = work;
    let total = done.len() as u64;
    let missing = missing(done);
    let mut finished = total - missing.len() as u64;
    let one = |id: UnitId, lines: &mut Lines| Ended::of(protocol, units, id, both, lines, rng);
    all(missing, units.sizes.in_flight, peers, &*world.turns, ctl, one, |id, ended: Ended| {
        ended.keep(id, units, ledger)?;
        finished += 1;
        peers.set_progress("match", finished, Some(total));
        Ok(finished)
    })
}

/// The units that are not done, in ascending order.
pub fn missing(done: &[bool]) -> Vec<UnitId> {
    (0..).zip(done).filter(|(_, done)| !**done).map(|(id, _)| UnitId(id)).collect()
}

/// What a unit of this party's found.
pub struct Ended {
    /// The common keys.
    pub matches: Vec<Match>,
    /// A digest of them.
    pub digest: [u8; 32],
    /// The first row of each key of the unit, if rows are marked; else none.
    pub firsts: Vec<u64>,
}

impl Ended {
    /// Runs a unit of `units`.
    ///
    /// # Errors
    /// Those of reading it, and of [`matched`].
    pub fn of(
        protocol: &dyn Protocol,
        units: &Units,
        id: UnitId,
        both: Option<Both>,
        lines: &mut Lines,
        rng: &SessionRng,
    ) -> Result<Self, JobError> {
        let (unit, counts, firsts) = units.unit_to_mark(id)?;
        let (matches, digest) = matched(protocol, (unit, &counts), both, lines, rng)?;
        Ok(Self { matches, digest, firsts })
    }

    /// Keeps what was found, for good. Of a unit that is done again the first result stands.
    ///
    /// # Errors
    /// Those of writing.
    pub fn keep(&self, id: UnitId, units: &Units, ledger: &mut Ledger) -> Result<(), JobError> {
        let again = ledger.has(id);
        ledger.commit(id, &self.digest, &self.matches)?;
        if again { Ok(()) } else { units.mark(id, &self.matches, &self.firsts) }
    }
}

/// The matches of a unit, given how many rows each of its keys has, and a digest of them.
///
/// # Errors
/// Those of the protocol and of comparing its results.
pub fn matched(
    protocol: &dyn Protocol,
    (unit, counts): (Unit, &Counts),
    both: Option<Both>,
    lines: &mut Lines,
    rng: &SessionRng,
) -> Result<(Vec<Match>, [u8; 32]), JobError> {
    // One generator for the protocol and the comparison of its results.
    let mut chance = rng.unit(unit.id)?;
    let mut places = protocol.unit(&unit, lines, &mut chance)?;
    match both {
        Some(both) => both.compare(&unit, counts, &mut places, lines, &mut chance),
        None => Ok((matches(counts, &places).collect(), [0; 32])),
    }
}

/// Runs `one` for each unit of `missing`, as above and `at_once` at a time, and gives what it returned to `keep`, one at a time and in
/// any order. That says how many units of the run are finished.
///
/// # Errors
/// As [`run`].
pub fn all<T>(
    missing: Vec<UnitId>,
    at_once: u32,
    peers: &Peers,
    turns: &dyn Turns,
    ctl: &Control,
    one: impl Fn(UnitId, &mut Lines) -> Result<T, JobError> + Sync,
    keep: impl FnMut(UnitId, T) -> Result<u64, JobError> + Send,
) -> Result<Meter, JobError> {
    let threads = missing.len().min(at_once.max(1) as usize);
    let missing = Mutex::new(missing.into_iter());
    let finished = Mutex::new((keep, Meter::default()));
    let failure = Mutex::new(None);
    let worker = || -> Result<(), JobError> {
        loop {
            let next = missing.lock().expect("no worker panics").next();
            let Some(id) = next.filter(|_| failure.lock().expect("no worker panics").is_none()) else { return Ok(()) };
            ctl.check()?;
            let mut lines = peers.line(&format!("unit {id}"))?;
            let made = one(id, &mut lines)?;
            let mut cost = Meter::default();
            lines.all().for_each(|ch| cost.merge(&ch.meter()));
            let mut finished = finished.lock().expect("no worker panics");
            let (keep, meter) = &mut *finished;
            let count = keep(id, made)?;
            meter.merge(&cost);
            ctl.event(Event::Done(count));
            let wall = cost.steps.iter().map(|step| step.wall).sum();
            ctl.event(Event::Unit { id: id.0, wall, bytes: cost.bytes() });
        }
    };
    scope(turns, |scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                if let Err(error) = worker() {
                    let mut failure = failure.lock().expect("no worker panics");
                    if failure.is_none() {
                        peers.abort(&error);
                    }
                    if failure.as_ref().is_none_or(|before| error.outweighs(before)) {
                        *failure = Some(error);
                    }
                }
            });
        }
    });
    match failure.into_inner().expect("no worker panics") {
        Some(error) => Err(error),
        None => Ok(finished.into_inner().expect("no worker panics").1),
    }
}
