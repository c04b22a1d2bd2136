//! What a job will cost every party: its protocol runs a unit of random keys with itself, in memory, and where all learn the
//! results are compared as in a run.

use crate::error::JobError;
use crate::threads::cores;
use crate::units::compare::Both;
use crate::units::found::Counts;
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;
use vesica_session::{Error, Lines, List, SessionRng, Unit, Values, memory};
use vesica_spec::Plan;
use vesica_suite::{Cut, Judge, Opened, ResultKind, Seat, Sizes, Suite, Terms};
use vesica_types::{Coins, Digest, UnitId};
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

/// What a job of these sizes costs each party, by place.
///
/// # Errors
/// If units are too large for the protocol.
pub fn of_all(plan: &Plan, sizes: &Sizes) -> Result<Vec<Cost>, JobError> {
    let suite = &plan.suite;
    let (whole, times) = match suite.cut() {
        Cut::Units | Cut::Shares => (largest(&sizes.capacities), f64::from(sizes.units)),
        Cut::Whole => (largest(&sizes.keys), 1.0),
    };
    // What is spent once, and what a unit takes so many times.
    let job = |(base, unit): (Cost, Cost)| base.with(unit, |base, unit| base + unit * times);
    let few = try_out(&**suite, plan, sizes, whole, FEW.min(whole))?;
    if whole <= FEW {
        return Ok(few.into_iter().map(job).collect());
    }
    let slowest = few.iter().map(|(_, unit)| unit.cpu_s).fold(1e-6, f64::max);
    let many = ((FEW as f64 * PATIENCE / slowest) as u64).clamp(2 * FEW, (2 * FEW).max(whole)).min(whole.max(2 * FEW));
    let more = try_out(&**suite, plan, sizes, whole, many)?;
    // A straight line through both, which is exact where the second was the whole.
    let at = (whole as f64 - FEW as f64) / (many as f64 - FEW as f64);
    let line = |few: Cost, more: Cost| few.with(more, |few, more| few + at * (more - few));
    let side = |((_, few), (base, more)): ((Cost, Cost), (Cost, Cost))| {
        job((base, if many == whole { more } else { line(few, more) }))
    };
    Ok(few.into_iter().zip(more).map(side).collect())
}

/// The largest of some numbers of keys; 1 where there are none.
fn largest(keys: &[u64]) -> u64 {
    keys.iter().copied().max().unwrap_or(1).max(1)
}

/// Opens the protocol on all sides and runs a unit, in which the party with most keys has `most` in the place of `whole`: what
/// opening took each party, and what the unit took.
///
/// As many units run at once as will be at work in the run. Threads that share the parts and the caches of a core are slower
/// than one alone.
fn try_out(
    suite: &dyn Suite,
    plan: &Plan,
    sizes: &Sizes,
    whole: u64,
    most: u64,
) -> Result<Vec<(Cost, Cost)>, JobError> {
    let part = |keys: &u64| (u128::from(*keys) * u128::from(most)).div_ceil(u128::from(whole)) as u64;
    let scaled = |keys: &[u64]| keys.iter().map(part).collect::<Vec<_>>();
    let sizes = Sizes { keys: scaled(&sizes.keys), capacities: scaled(&sizes.capacities), ..sizes.clone() };
    let terms = &terms(plan, sizes);
    let copies = match suite.cut() {
        Cut::Units | Cut::Shares => cores(terms.sizes.in_flight.min(terms.sizes.units)),
        Cut::Whole => 1,
    };
    let start = process();
    let tried: Vec<Result<Tried, JobError>> = std::thread::scope(|scope| {
        let meshes: Vec<_> = (0..copies).map(|_| memory::mesh(&plan.parties)).collect();
        let sides = meshes.into_iter().flat_map(|mesh| plan.parties.iter().zip(mesh)).map(|(party, lines)| {
            let seat = Seat { place: party.place(), learns: plan.learns(party) };
            scope.spawn(move || side(suite, plan, seat, terms, lines))
        });
        let panicked = |_| Err(Error::Bug("a protocol panicked with itself".into()).into());
        let sides: Vec<_> = sides.collect();
        sides.into_iter().map(|side| side.join().unwrap_or_else(panicked)).collect()
    });
    let all = process().saturating_sub(start).as_secs_f64();
    let tried = tried.into_iter().collect::<Result<Vec<_>, _>>()?;
    let elements = tried.iter().map(|side| side.elements).sum::<u64>().max(1) as f64;
    let cost = |place: usize| {
        // A unit's bytes are the same in every copy. Its time is their mean.
        let (mut base, mut unit) = (tried[place].base, tried[place].unit);
        let mean = |of: fn(&Tried) -> f64| {
            tried.iter().skip(place).step_by(plan.parties.len()).map(of).sum::<f64>() / copies as f64
        };
        base.cpu_s = mean(|side| side.base.cpu_s);
        unit.cpu_s = match tried[place].elements {
            0 => mean(|side| side.unit.cpu_s),
            // What takes all keys at once has threads of its own, and what it spends on each element is alike.
            of_it => all * of_it as f64 / elements,
        };
        (base, unit)
    };
    Ok((0..plan.parties.len()).map(cost).collect())
}

/// What parties with these sizes would agree on, as far as it is known before they meet.
pub fn terms(plan: &Plan, sizes: Sizes) -> Terms {
    // Whoever has the values, the work is the same for the same sizes.
    let values = match &plan.value {
        Some(_) => Some(plan.me.place()),
        None if plan.shared.result == ResultKind::Sum => plan.peers.first().map(|peer| peer.party.place()),
        None => None,
    };
    Terms { salt: [0; 32], sizes, values, coins: Coins::new([0; 32]), judge: Judge::default() }
}

/// What one side of a trial spent.
struct Tried {
    base: Cost,
    unit: Cost,
    /// Elements that a protocol worked on which takes all keys at once.
    elements: u64,
}

/// One side of a unit. Every other key is common, as the tables of a forecast have it.
fn side(suite: &dyn Suite, plan: &Plan, seat: Seat, terms: &Terms, mut lines: Lines) -> Result<Tried, JobError> {
    let (place, sizes) = (usize::from(seat.place), &terms.sizes);
    let mut rng = SessionRng::from_seed(Zeroizing::new([seat.place + 1; 32]));
    let mut common = SessionRng::from_seed(Zeroizing::new([0; 32]));
    let mut keys = |n: u64| {
        let key = |i: u64| Digest(if i.is_multiple_of(2) { common.bytes() } else { rng.bytes() });
        let mut keys: Vec<Digest> = (0..n).map(key).collect();
        keys.sort_unstable();
        keys
    };
    let keys = match suite.cut() {
        Cut::Units | Cut::Shares => keys(sizes.capacities[place]),
        Cut::Whole => keys(sizes.keys[place]),
    };
    let counts = Counts::alone(UnitId(0));
    let bytes = |lines: &mut Lines| {
        lines.all().map(|ch| ch.meter().bytes()).fold((0, 0), |sum, bytes| (sum.0 + bytes.0, sum.1 + bytes.1))
    };
    let start = thread();
    let opened = suite.open(&seat, terms, &mut lines, &mut rng)?;
    let (began, base) = (thread(), bytes(&mut lines));
    let elements = match opened {
        Opened::Units(protocol) => {
            let capacities = sizes.capacities.iter().map(|&keys| keys as usize).collect();
            let unit = Unit { id: UnitId(0), keys, place: seat.place, capacities };
            let mut places = protocol.unit(&unit, &mut lines, &mut rng)?;
            if plan.all_learn() {
                let both = Both { salt: terms.salt, place: seat.place, multiply: plan.multiplies() };
                both.compare(&unit, &counts, &mut places, &mut lines, &mut rng)?;
            }
            0
        }
        Opened::Shares(protocol) => {
            let capacities = sizes.capacities.iter().map(|&keys| keys as usize).collect();
            let values = match plan.choice.groups {
                // As many entries as there are keys, in one group after the other, if this party has these.
                Some(groups) => {
                    let has = groups.of == seat.place;
                    let most = if has { groups.most } else { groups.other.map_or(1, |other| other.most) };
                    let sums = groups.widths()[usize::from(!has)];
                    let entries: Vec<(u32, u32)> = (0..keys.len() as u32).map(|key| (key, key % most)).collect();
                    let numbers = vec![1; entries.len() * sums as usize];
                    Values::new(sums as usize, entries, numbers)?
                }
                None => vec![1; keys.len()].into(),
            };
            let unit = Unit { id: UnitId(0), keys, place: seat.place, capacities };
            protocol.unit(&unit, &values, &mut lines, &mut rng)?;
            0
        }
        Opened::Whole(protocol) => {
            let elements = protocol.elements();
            let threads = cores(plan.workers);
            let list = List { keys: &keys, room: &memory::Memories, threads, advance: &|_| {}, same: &|_| Ok(true) };
            protocol.whole(&list, &mut lines, &mut rng)?;
            elements
        }
    };
    let (done, all) = (thread(), bytes(&mut lines));
    let cost = |sent, received, took: Duration| Cost { sent, received, cpu_s: took.as_secs_f64() };
    let unit = cost(all.0 - base.0, all.1 - base.1, done.saturating_sub(began));
    Ok(Tried { base: cost(base.0, base.1, began.saturating_sub(start)), unit, elements })
}

/// CPU time of this thread so far: another side's thread may run on the same core.
fn thread() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// CPU time of this process so far.
fn process() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
