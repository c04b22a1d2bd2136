//! The loop that runs units, many at once.

use crate::error::JobError;
use crate::meet::peers::Peers;
use crate::tell::control::{Control, Event};
use crate::units::cut::Units;
use crate::units::found::matches;
use crate::units::work::Work;
use std::sync::Mutex;
use vesica_session::{Fault, Lines, Meter, Protocol, SessionRng};
use vesica_types::UnitId;

/// Runs the units, `in_flight` at a time, each on a line of its own. Returns what they cost.
///
/// # Errors
/// The first that a unit met. The link is shut then, so that no other unit waits for the peer.
pub fn run(protocol: &dyn Protocol, work: Work<'_>, rng: &SessionRng) -> Result<Meter, JobError> {
    let Work { units, done, both, ledger, peers, ctl, .. } = work;
    let one = |id: UnitId, lines: &mut Lines| {
        let (unit, rows) = units.unit(id)?;
        // One generator for the protocol and the comparison of its results.
        let mut chance = rng.unit(id)?;
        let mut places = protocol.unit(&unit, lines, &mut chance)?;
        match both {
            Some(both) => both.compare(&unit, &rows, &mut places, lines, &mut chance),
            None => Ok((matches(&rows, &places).collect(), [0; 32])),
        }
    };
    all(units, done, peers, ctl, one, |id, (matches, digest)| ledger.commit(id, &digest, &matches))
}

/// Runs `one` for every unit that is not done, as above, and gives what it returned to `keep`, one at a time and in any order.
///
/// # Errors
/// As [`run`].
pub fn all<T>(
    units: &Units,
    done: &[bool],
    peers: &Peers,
    ctl: &Control,
    one: impl Fn(UnitId, &mut Lines) -> Result<T, JobError> + Sync,
    keep: impl FnMut(UnitId, T) -> Result<(), JobError> + Send,
) -> Result<Meter, JobError> {
    let missing = Mutex::new((0..).zip(done).filter(|(_, done)| !**done).map(|(id, _)| UnitId(id)));
    let total = done.len() as u64;
    let finished = Mutex::new((keep, Meter::default(), done.iter().filter(|done| **done).count() as u64));
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
            let (keep, meter, count) = &mut *finished;
            keep(id, made)?;
            meter.merge(&cost);
            *count += 1;
            peers.set_progress("match", *count, Some(total));
            ctl.event(Event::Done(*count));
            let wall = cost.steps.iter().map(|step| step.wall).sum();
            ctl.event(Event::Unit { id: id.0, wall, bytes: cost.bytes() });
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..units.sizes.in_flight.min(units.sizes.units) {
            scope.spawn(|| {
                if let Err(error) = worker() {
                    let mut failure = failure.lock().expect("no worker panics");
                    if failure.is_none() {
                        peers.abort(&error);
                    }
                    // What the peer did wrong is not forgotten because a connection broke at the same moment.
                    let worse = |before: &JobError| before.fault() == Fault::Network && error.fault() == Fault::Peer;
                    if failure.as_ref().is_none_or(worse) {
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
