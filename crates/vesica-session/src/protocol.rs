use crate::{Lines, Result, SessionRng};
use vesica_types::{Digest, UnitId};

/// Who comes to know something.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Learner {
    /// The parties that the job lets learn the result.
    Learners,
    /// The first of the job's parties, whose table is the left one of a join.
    Left,
    /// The second.
    Right,
    /// Every party.
    Everyone,
    /// Whoever sees the traffic between the parties, TLS or not.
    Network,
}

/// One thing that a protocol tells somebody: data, so that plan, report and book print the same words.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reveal {
    /// A name for lists and agreements, such as `intersection`.
    pub name: &'static str,
    /// Who comes to know it.
    pub to: Learner,
    /// What it is, in plain words.
    pub what: &'static str,
}

/// A unit of work: one hash bucket of a party's keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unit {
    /// Its number, from 0.
    pub id: UnitId,
    /// This party's keys in it: distinct, in ascending order.
    pub keys: Vec<Digest>,
    /// The public size that this party pads the unit to; at least `keys.len()`.
    pub capacity: usize,
    /// The public size that the peer pads the unit to.
    pub peer_capacity: usize,
}

/// One party's side of a protocol, opened: it is run a unit at a time, by many threads at once.
pub trait Protocol: Send + Sync {
    /// One unit, start to finish: the places in the unit's keys of those that match, in no order that means anything; none
    /// if this party does not learn. Knows nothing of threads, retries, checkpoints or time.
    ///
    /// # Errors
    /// Whatever the lines report, and the peer's faults that the protocol notices itself.
    fn unit(&self, unit: &Unit, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>>;
}
