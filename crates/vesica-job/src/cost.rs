//! What a job will cost both sides: its protocol runs a unit of random keys with itself, in memory.

use crate::error::JobError;
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;
use vesica_session::{Error, Lines, SessionRng, Unit, memory};
use vesica_spec::Plan;
use vesica_suite::{Seat, Sizes, Suite, Terms};
use vesica_types::{Digest, Party, UnitId};
use zeroize::Zeroizing;

/// What a side spends.
#[derive(Clone, Copy, Default, Debug)]
pub struct Cost {
    /// Bytes sent, before encryption.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// Seconds of CPU.
    pub cpu_s: f64,
}

impl Cost {
    /// `f` of each number of both.
    fn with(self, other: Cost, f: impl Fn(f64, f64) -> f64) -> Cost {
        let bytes = |a: u64, b: u64| f(a as f64, b as f64).max(0.0).round() as u64;
        Cost {
            sent: bytes(self.sent, other.sent),
            received: bytes(self.received, other.received),
            cpu_s: f(self.cpu_s, other.cpu_s).max(0.0),
        }
    }
}

/// Keys of the first unit that is tried.
const FEW: u64 = 1 << 11;

/// How long the arithmetic of a unit may take that is tried whole; what takes longer is extended from a part.
const PATIENCE: f64 = 0.5;

/// What a job of these sizes costs this party, and its peer.
///
/// # Errors
/// If units are too large for the protocol.
pub fn of_both(plan: &Plan, sizes: &Sizes) -> Result<[Cost; 2], JobError> {
    let suite = plan.suite();
    let whole = sizes.capacity.max(sizes.peer_capacity).max(1);
    let few = try_out(&*suite, plan, sizes, FEW.min(whole))?;
    if whole <= FEW {
        return Ok(few.map(|(base, unit)| job(base, unit, sizes)));
    }
    let slowest = few.iter().map(|(_, unit)| unit.cpu_s).fold(1e-6, f64::max);
    let many = ((FEW as f64 * PATIENCE / slowest) as u64).clamp(2 * FEW, (2 * FEW).max(whole)).min(whole.max(2 * FEW));
    let more = try_out(&*suite, plan, sizes, many)?;
    // A straight line through both, which is exact where the second was the whole.
    let at = (whole as f64 - FEW as f64) / (many as f64 - FEW as f64);
    let line = |few: Cost, more: Cost| few.with(more, |few, more| few + at * (more - few));
    let side = |i: usize| {
        let ((_, few), (base, more)) = (few[i], more[i]);
        job(base, if many == whole { more } else { line(few, more) }, sizes)
    };
    Ok([side(0), side(1)])
}

/// The whole job, from what is spent once and what a unit takes.
fn job(base: Cost, unit: Cost, sizes: &Sizes) -> Cost {
    base.with(unit, |base, unit| base + unit * f64::from(sizes.units))
}

/// Opens the protocol on both sides and runs a unit in which the side with more keys has `most`: what opening took, and what the
/// unit took.
fn try_out(suite: &dyn Suite, plan: &Plan, sizes: &Sizes, most: u64) -> Result<[(Cost, Cost); 2], JobError> {
    let whole = sizes.capacity.max(sizes.peer_capacity).max(1);
    let part = |keys: u64| (u128::from(keys) * u128::from(most)).div_ceil(u128::from(whole)) as u64;
    let mine = Sizes { capacity: part(sizes.capacity), peer_capacity: part(sizes.peer_capacity), ..*sizes };
    let theirs = Sizes { capacity: mine.peer_capacity, peer_capacity: mine.capacity, ..mine };
    let peer = &plan.peer().party;
    let (here, there) = memory::pair(&plan.me, peer);
    let seat = |party: &Party| Seat { place: party.place(), learns: plan.learns(party) };
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| side(suite, seat(peer), theirs, there, 2));
        let one = side(suite, seat(&plan.me), mine, here, 1);
        (one, other.join())
    });
    let other = other.map_err(|_| Error::Bug("a protocol panicked with itself".into()))?;
    Ok([one?, other?])
}

/// One side of a unit: what opening took, and what the unit took.
fn side(suite: &dyn Suite, seat: Seat, sizes: Sizes, ch: memory::Memory, seed: u8) -> Result<(Cost, Cost), JobError> {
    let mut rng = SessionRng::from_seed(Zeroizing::new([seed; 32]));
    let mut keys: Vec<Digest> = (0..sizes.capacity).map(|_| Digest(rng.bytes())).collect();
    keys.sort_unstable();
    let (capacity, peer_capacity) = (sizes.capacity as usize, sizes.peer_capacity as usize);
    let unit = Unit { id: UnitId(0), keys, capacity, peer_capacity };
    let mut lines = Lines::new(vec![Box::new(ch)]);
    let start = cpu();
    let protocol = suite.open(&seat, &Terms { salt: [0; 32], sizes }, lines.peer()?, &mut rng)?;
    let (opened, base) = (cpu(), lines.peer()?.meter().bytes());
    protocol.unit(&unit, &mut lines, &mut rng)?;
    let (done, all) = (cpu(), lines.peer()?.meter().bytes());
    let cost = |sent, received, took: Duration| Cost { sent, received, cpu_s: took.as_secs_f64() };
    let unit = cost(all.0 - base.0, all.1 - base.1, done.saturating_sub(opened));
    Ok((cost(base.0, base.1, opened.saturating_sub(start)), unit))
}

/// CPU time of this thread so far: the other side's thread may run on the same core.
fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
