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
use vesica_psi::oprf::{OprfPsi, Role};
use vesica_session::{Channel, Lines, Protocol, Result, SessionRng, Unit};
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

/// How to open a side of an OPRF, for this many keys of the receiver's.
pub trait Open<O>: Fn(Role, usize, &mut dyn Channel, &mut SessionRng) -> Result<O> + Copy + Send + Sync {}

impl<O, F: Fn(Role, usize, &mut dyn Channel, &mut SessionRng) -> Result<O> + Copy + Send + Sync> Open<O> for F {}

impl Side {
    /// A side with these keys, padded to the first of the capacities; the peer pads its keys to the second.
    pub fn new(role: Role, keys: Vec<Digest>, capacities: (usize, usize), both: bool) -> Self {
        Self { role, unit: unit(keys, capacities), both, tag_len: TagLen::new(10).unwrap() }
    }

    /// What this side finds.
    pub fn run<O: Oprf>(self, open: impl Open<O>) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<Vec<u32>> {
        move |lines, rng| {
            let n = if self.role == Role::Receiver { self.unit.capacity } else { self.unit.peer_capacity };
            let oprf = open(self.role, n, lines.peer()?, rng)?;
            self.psi(oprf).unit(&self.unit, lines, rng)
        }
    }

    /// The protocol with an opened function.
    pub fn psi<O: Oprf>(&self, oprf: O) -> OprfPsi<O> {
        OprfPsi::new(oprf, self.role, self.tag_len, self.both)
    }
}

/// The only unit of a job.
pub fn unit(keys: Vec<Digest>, (capacity, peer_capacity): (usize, usize)) -> Unit {
    Unit { id: UnitId(0), keys, capacity, peer_capacity }
}

/// RR22 over the base field `B`, with stores of a shape for the receiver's keys.
pub fn rr22<B: Field, S: Shape>(security: Security, shape: fn(u64) -> S) -> impl Open<Vole<B, S>> {
    move |role, n, ch: &mut dyn Channel, rng: &mut SessionRng| {
        let params = Params { session: SESSION, shape: shape(n as u64), code: &lpn::SETS[0], security };
        match role {
            Role::Receiver => Vole::receiver(params, ch, rng),
            Role::Sender => Vole::sender(params, ch, rng),
        }
    }
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
pub fn kkrt(width: usize) -> impl Open<Kkrt> {
    move |role, n, ch: &mut dyn Channel, rng: &mut SessionRng| {
        let bins = cuckoo::bins(n as u64, 1, Level::STANDARD).unwrap();
        let params = kkrt::Params { session: SESSION, bins, width };
        match role {
            Role::Receiver => Kkrt::receiver(params, ch, rng),
            Role::Sender => Kkrt::sender(params, ch, rng),
        }
    }
}

/// Diffie-Hellman's function in the group `G`.
pub fn dh<G: Blind>() -> impl Open<Dh<G>> {
    move |role, keys, ch: &mut dyn Channel, rng: &mut SessionRng| {
        let params = dh::Params { session: SESSION, keys };
        match role {
            Role::Receiver => Dh::receiver(params, ch),
            Role::Sender => Dh::sender(params, ch, rng),
        }
    }
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
