//! A party's side of every protocol, for one unit, opening included: what the tests of the protocols run.

#![allow(dead_code, reason = "a file of tests takes what it needs")]

use vesica_curve::{Blind, Group};
use vesica_oprf::Oprf;
use vesica_oprf::dh::{self, Dh};
use vesica_oprf::kkrt::{self, Kkrt};
use vesica_oprf::vole::{Field, Params, Shape, Vole};
use vesica_ot::Security;
use vesica_params::okvs::{BandShape, PaxosShape};
use vesica_params::{Level, cuckoo, lpn, okvs};
use vesica_psi::ecdh::{self, Ecdh};
use vesica_psi::oprf::{self, Role};
use vesica_session::{Lines, Protocol, Result, SessionRng, Unit};
use vesica_types::{Digest, TagLen, UnitId};

/// The salt that the parties tossed.
pub const SESSION: [u8; 32] = [9; 32];

/// A party of a protocol from an OPRF.
#[derive(Clone)]
pub struct Side {
    pub role: Role,
    pub unit: Unit,
    pub both: bool,
    pub tag_len: TagLen,
}

/// An OPRF for this many keys of the receiver's.
pub trait Choose<O>: Fn(usize) -> O + Copy + Send + Sync {}

impl<O, F: Fn(usize) -> O + Copy + Send + Sync> Choose<O> for F {}

impl Side {
    /// A side with these keys, padded to the first of the capacities; the peer pads its keys to the second.
    pub fn new(role: Role, keys: Vec<Digest>, capacities: (usize, usize), both: bool) -> Self {
        Self { role, unit: unit(keys, capacities), both, tag_len: TagLen::new(10).unwrap() }
    }

    /// What this side finds.
    pub fn run<O: Oprf<Key: 'static>>(
        self,
        choose: impl Choose<O>,
    ) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<Vec<u32>> {
        move |lines, rng| {
            let n = if self.role == Role::Receiver { self.unit.capacity } else { self.unit.peer_capacity };
            self.by(&choose(n), lines, rng)
        }
    }

    /// What this side finds by a function.
    pub fn by<O: Oprf<Key: 'static>>(&self, oprf: &O, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let params = oprf::Params { tag_len: self.tag_len, both: self.both };
        oprf::open(oprf, self.role, params, lines.peer()?, rng)?.unit(&self.unit, lines, rng)
    }
}

/// The only unit of a job.
pub fn unit(keys: Vec<Digest>, (capacity, peer_capacity): (usize, usize)) -> Unit {
    Unit { id: UnitId(0), keys, capacity, peer_capacity }
}

/// RR22 over the base field `B`, with stores of a shape for the receiver's keys.
pub fn rr22<B: Field, S: Shape>(security: Security, shape: fn(u64) -> S) -> impl Choose<Vole<B, S>> {
    move |n| Vole::new(Params { session: SESSION, shape: shape(n as u64), code: &lpn::SETS[0], security })
}

/// The stores of RR22's fast mode.
pub fn paxos(n: u64) -> PaxosShape {
    okvs::paxos(n, 1, Level::STANDARD).unwrap()
}

/// The stores of RR22's low-communication mode.
pub fn band(n: u64) -> BandShape {
    okvs::band(&okvs::BAND_3, n, 1, Level::STANDARD).unwrap()
}

/// KKRT with codewords of `width` bits.
pub fn kkrt(width: usize) -> impl Choose<Kkrt> {
    move |n| {
        let bins = cuckoo::bins(n as u64, 1, Level::STANDARD).unwrap();
        Kkrt::new(kkrt::Params { session: SESSION, bins, width })
    }
}

/// Diffie-Hellman's function in the group `G`.
pub fn dh<G: Blind>() -> impl Choose<Dh<G>> {
    |keys| Dh::new(dh::Params { session: SESSION, keys })
}

/// A side of ECDH in the group `G`, where both learn.
pub fn ecdh<G: Group>(
    keys: Vec<Digest>,
    capacities: (usize, usize),
) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<Vec<u32>> {
    move |lines, rng| {
        let params = ecdh_params(1 - lines.peer()?.peer().place());
        Ecdh::<G>::open(&params, rng).unit(&unit(keys, capacities), lines, rng)
    }
}

/// What the party at `place` agreed on for ECDH.
pub fn ecdh_params(place: u8) -> ecdh::Params {
    ecdh::Params { session: SESSION, tag_len: TagLen::new(10).unwrap(), place }
}
