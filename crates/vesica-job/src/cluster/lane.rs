//! A lane of a cluster: one link, a share of the units, and a worker that brings them one by one.

use crate::cluster::found::{self, OfKey};
use crate::cluster::reading::{Unpacked, unpack};
use crate::cluster::terms::Terms;
use crate::error::JobError;
use crate::input::keys::KeyId;
use crate::lanes::links::Watcher;
use crate::lanes::{given_up, hello, is_refused, open};
use crate::meet::peers::Peers;
use crate::tell::control::Control;
use crate::tell::report::{Costs, StepCost};
use crate::units::compare::Both;
use crate::units::each;
use crate::units::found::{Counts, Match};
use crate::world::World;
use serde::{Deserialize, Serialize};
use std::sync::Mutex;
use std::time::Instant;
use vesica_net::{LaneDoor, SystemClock, Time};
use vesica_session::{Error, Fault, Meter, Protocol, SessionRng, Unit};
use vesica_types::{Coins, Digest, UnitId};

/// A lane, from its link on.
pub struct Lane {
    terms: Terms,
    number: u32,
    peers: Peers,
    ctl: Control,
    /// What the lane's set-up left; none before it, and where nothing is missing.
    protocol: Option<(Box<dyn Protocol>, SessionRng)>,
    meter: Mutex<Meter>,
    began: Instant,
}

/// What a lane has to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// The units to match, in this order.
    pub units: Vec<u32>,
    /// Units that this side had not finished, and that are not to be done again: the other side learns alone and has them. Of these
    /// this side has found nothing.
    pub settled: Vec<u32>,
}

/// What a unit found; by default that of one that was settled without being matched.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Matched {
    /// What it is, sealed: for [`Terms::rows`], when it is settled that it may be learned. Its length follows from the keys of the unit.
    pub found: Vec<u8>,
    /// What is compared in the end, where both sides learn.
    pub digest: [u8; 32],
    /// Common keys.
    pub keys: u64,
    /// Rows of this side that have one of them.
    pub rows: u64,
    /// Rows of the join: of each row, how often it stands there.
    pub times: u64,
}

/// What a lane cost, as it is added up for the report.
#[derive(Serialize, Deserialize)]
pub(crate) struct LaneCost {
    pub sent: u64,
    pub received: u64,
    pub wall_s: f64,
    pub steps: Vec<StepCost>,
}

impl Lane {
    /// Dials lane `number` at the door that is at `address`. Waits while that has no seat, at most as long as the job's patience.
    ///
    /// # Errors
    /// Those of [`vesica_net::connect`]; a number that no lane has. A door that does not know the lane is a link that broke: the drivers of
    /// the other side may have noticed a break of theirs first.
    pub fn dial(terms: &Terms, number: u32, address: &str, ctl: Control) -> Result<Self, JobError> {
        if number >= terms.lanes() {
            let lanes = terms.lanes();
            return Err(JobError::Setup(format!(
                "there is no lane {number}; lanes are numbered from 0 to {}",
                lanes - 1
            )));
        }
        let watcher = Watcher { ctl: ctl.clone(), over: Default::default() };
        let dialled = terms.meeting().dial(number, address, watcher);
        let peers = dialled.map_err(|error| match is_refused(&error) {
            true => given_up(terms.plan(), number, &error),
            false => error,
        })?;
        Ok(Self::over(terms.clone(), number, peers, ctl))
    }

    fn over(terms: Terms, number: u32, peers: Peers, ctl: Control) -> Self {
        Self { terms, number, peers, ctl, protocol: None, meter: Mutex::default(), began: SystemClock.now() }
    }

    #[cfg(test)]
    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Which lane this is.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The first words of the lane: both sides say which of its units they have finished, and set up the protocol if any is missing. `done`
    /// are the units that are finished here; those of other lanes are passed over.
    ///
    /// # Errors
    /// Those of the link, of the peer, and of setting up.
    pub fn missing(&mut self, done: &[u32]) -> Result<Missing, JobError> {
        let missing = self.hello(done).map_err(of_a_lane);
        missing.inspect_err(|error| self.peers.leave(error))
    }

    fn hello(&mut self, done: &[u32]) -> Result<Missing, JobError> {
        let (plan, sizes, of) = (self.terms.plan(), self.terms.sizes(), (self.number, self.terms.lanes()));
        let (todo, meter) = hello::first_words(plan, of, sizes.units, |id| done.contains(&id.0), &self.peers)?;
        self.add(&meter);
        let numbers = |units: Vec<UnitId>| units.into_iter().map(|id| id.0).collect();
        let missing = Missing { units: numbers(todo.missing), settled: numbers(todo.settled) };
        if missing.units.is_empty() {
            return Ok(missing);
        }
        let mut rng = World::default().rng()?;
        // The result of a cluster has no noise, so nothing is drawn from these coins.
        let of_run = vesica_suite::Terms {
            salt: *self.terms.salt(),
            sizes: sizes.clone(),
            values: None,
            coins: Coins::new([0; 32]),
            // Nor are there checks that could fail, for a cluster runs no job with `security = "malicious"`.
            judge: Default::default(),
        };
        let (protocol, meter) = open(plan, &of_run, self.number, &self.peers, &mut rng)?;
        self.add(&meter);
        self.protocol = Some((protocol, rng));
        Ok(missing)
    }

    fn add(&self, meter: &Meter) {
        self.meter.lock().expect("no worker panics").merge(meter);
    }

    /// Matches a unit that is missing, whose keys are in `blob`; none if it has no keys. Several threads may match units of a lane at
    /// once, if they take them in ascending order. `turn` is the number of this beginning in the run, over all links: the unit's own number for
    /// the first time that it is begun, and else the lowest number that no beginning has, from the number of units on. The caller writes it down
    /// before this call, so that it is given once, and tells how many there are when the drivers meet again.
    ///
    /// # Errors
    /// [`JobError::Answers`]; a blob that cannot be opened; those of the link, of the peer and of the protocol. The link is shut then.
    pub fn match_unit(&self, unit: u32, blob: Option<&[u8]>, turn: u64) -> Result<Matched, JobError> {
        self.matched(unit, blob, turn).map_err(of_a_lane).inspect_err(|error| self.peers.leave(error))
    }

    fn matched(&self, unit: u32, blob: Option<&[u8]>, turn: u64) -> Result<Matched, JobError> {
        let (plan, sizes, salt) = (self.terms.plan(), self.terms.sizes(), self.terms.salt());
        if !self.terms.allows(unit, turn) {
            let limit = plan.shared.limits.answers;
            return Err(JobError::Answers { peer: plan.peers[0].party.name().to_owned(), limit });
        }
        if unit >= sizes.units || unit % self.terms.lanes() != self.number {
            return Err(JobError::Setup(format!("unit {unit} is not one of lane {}", self.number)));
        }
        let Some((protocol, rng)) = &self.protocol else {
            return Err(JobError::Setup(format!("lane {} has no unit to match, or was not asked which", self.number)));
        };
        self.ctl.check()?;
        let unpacked = blob.map_or(Ok(Unpacked::nothing()), |blob| unpack(self.terms.secret(), salt, unit, blob))?;
        // Apart, for the protocol takes digests alone.
        let (keys, rows): (Vec<Digest>, Vec<u64>) = unpacked.keys.into_iter().unzip();
        let capacity = sizes.capacity(plan.me.place());
        if keys.len() as u64 > capacity {
            return Err(Error::Overflow { unit: UnitId(unit), capacity }.into());
        }
        let of_unit = Unit {
            id: UnitId(unit),
            keys,
            place: plan.me.place(),
            capacities: sizes.capacities.iter().map(|&keys| keys as usize).collect(),
        };
        // A lane numbers keys by their places alone.
        let counts = Counts::of(UnitId(0), rows.clone());
        let both = Both::of(plan, *salt);
        let mut lines = self.peers.line(&format!("unit {}", UnitId(unit)))?;
        let (mut matches, digest) = each::matched(&**protocol, (of_unit, &counts), both, &mut lines, rng)?;
        self.add(&lines.peer()?.meter());
        // By place among the keys, in the order of their digests: the same on both sides.
        matches.sort_unstable_by_key(|m| m.key);
        let nothing = Unpacked::nothing();
        let (all, of_rows) = match plan.i_learn() {
            true => (keyed(&rows, &matches), &unpacked.rows),
            false => (Vec::new(), &nothing.rows),
        };
        let found = found::seal(self.terms.secret(), salt, unit, (self.terms.form(), of_rows), &all)?;
        let times = all.iter().fold(0, |sum: u64, key| sum.saturating_add(key.rows.saturating_mul(key.times)));
        let rows = matches.iter().map(|m| m.rows).sum();
        Ok(Matched { found, digest, keys: matches.len() as u64, rows, times })
    }

    /// The end of the lane, when everything that it found is in its place: waits until the other side is as far. Returns what it cost, for
    /// [`Meeting::close`](crate::cluster::Meeting::close).
    ///
    /// # Errors
    /// A link that broke before both sides had said goodbye: the lane is to be dialled again, or awaited.
    pub fn close(self) -> Result<String, JobError> {
        self.peers.close().map_err(|error| of_a_lane(error.into()))?;
        let traffic = self.peers.traffic();
        let mut costs = Costs::default();
        costs.steps("match", &self.meter.into_inner().expect("no worker panics"));
        let cost = LaneCost {
            sent: traffic.sent,
            received: traffic.received,
            wall_s: SystemClock.since(self.began).as_secs_f64(),
            steps: costs.close(),
        };
        Ok(serde_json::to_string(&cost).expect("it is plain data"))
    }
}

/// How a lane ended, for the caller. A peer that interrupts a lane has noticed a break of the first link before this side has, and the lane is one
/// of the attempt that is over there: to this side that is a link that broke. If the peer's run was interrupted, it says so on the first link.
fn of_a_lane(error: JobError) -> JobError {
    match error {
        JobError::Session(Error::Stopped { peer, fault: Fault::Interrupted | Fault::Network, why }) => {
            Error::Net { peer, why: format!("it ended this lane: {why}") }.into()
        }
        error => error,
    }
}

/// Every key of a unit, the way of each the same whether it is among the `matches` or not: the peer waits for the next unit meanwhile.
fn keyed(rows: &[u64], matches: &[Match]) -> Vec<OfKey> {
    // The matches come in the order of the keys.
    let mut matches = matches.iter().peekable();
    let of_key = |(place, &rows)| {
        let times = matches.next_if(|m| m.key == KeyId(place)).map_or(0, |m| m.times);
        OfKey { rows, times }
    };
    (0..).zip(rows).map(of_key).collect()
}

/// Where the other side's lanes come in.
pub struct Door {
    terms: Terms,
    door: Box<dyn LaneDoor>,
    ctl: Control,
}

impl Door {
    /// Opens a door at `listen`, as `host:port`, for any lane of the run, and for `seats` of them at once.
    ///
    /// # Errors
    /// Those of [`vesica_net::Endpoint::lane_door`].
    pub fn open(terms: &Terms, listen: &str, seats: u32, ctl: Control) -> Result<Self, JobError> {
        let watcher = Watcher { ctl: ctl.clone(), over: Default::default() };
        let door = terms.meeting().door(terms.lanes(), listen, seats, watcher)?;
        Ok(Self { terms: terms.clone(), door, ctl })
    }

    /// Where the door is: with port 0, the port that the system chose.
    pub fn address(&self) -> std::net::SocketAddr {
        self.door.address()
    }

    /// The next lane that comes; none when the door was stopped. Any number of threads may wait here.
    ///
    /// # Errors
    /// If the run was cancelled.
    pub fn next(&self) -> Result<Option<Lane>, JobError> {
        let Some(link) = self.door.next()? else { return Ok(None) };
        let number = self.terms.meeting().number(self.terms.lanes(), &*link)?;
        Ok(Some(Lane::over(self.terms.clone(), number, Peers::of(vec![link]), self.ctl.clone())))
    }

    /// Lets nobody in any more. Lanes that are in go on.
    pub fn stop(&self) {
        self.door.shut();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lane of an attempt that is over at the peer ended the whole run here, if this side noticed the break of the first link later.
    #[test]
    fn a_lane_that_the_peer_interrupts_has_broken_and_no_more() {
        let stopped = |fault| Error::Stopped { peer: vesica_types::Party::new(1, "bob"), fault, why: "so".into() };
        for (fault, then) in [
            (Fault::Interrupted, Fault::Network),
            (Fault::Network, Fault::Network),
            (Fault::Peer, Fault::Peer),
            (Fault::Input, Fault::Peer),
        ] {
            assert_eq!(of_a_lane(stopped(fault).into()).fault(), then, "{fault:?}");
        }
    }

    /// How much of a unit a party had found, the peer saw from when the next unit began: only that was sealed and written before.
    #[test]
    fn what_is_written_of_a_unit_has_one_size_whatever_matched() {
        let rows: Vec<u64> = (0..9).map(|n| n % 3 + 1).collect();
        for places in [&[][..], &[4, 7], &[0, 8], &[0, 1, 2, 3, 4, 5, 6, 7, 8]] {
            let matches: Vec<Match> =
                places.iter().map(|&key| Match { key: KeyId(key), rows: key % 3 + 1, times: 10 + key }).collect();
            let expected = (0..9).map(|place| {
                let times = if places.contains(&place) { 10 + place } else { 0 };
                OfKey { rows: place % 3 + 1, times }
            });
            assert_eq!(keyed(&rows, &matches), expected.collect::<Vec<_>>());
        }
    }
}
