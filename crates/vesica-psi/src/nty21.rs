//! PSI of three and more parties by a star: clients, a pivot that adds what they send, and a leader.
//!
//! [NTY21] Nevo, Trieu, Yanai, "Simple, Fast Malicious Multiparty Private Set Intersection", CCS 2021, eprint 2021/1221, with
//! t = 1, semi-honest. Any parties may collude, but leader and pivot may not.
//!
//!   L, V   leader and pivot              leader, pivot   X, Z, Y_i   keys of L, of V and of client i   xs, zs, ys
//!   k_i    L's key for client i          key             D_i         store of { (y, PRF(k_i, y)) }      store
//!   v(x)   sum of PRF(k_i, x) over i     v               u(z)        Decode(sum of D_i, z)              u
//!   r      seed of the rows of a unit    r               h           hash of both to 128 bits          joined
//!
//! 1. L -> client i, once: k_i at random.
//! 2. L -> all, a unit: r at random.
//! 3. Client i -> V: D_i, cut to ℓ bits a slot.
//! 4. PSI of two from an oblivious function: L receives with { h(x, v(x)) }, V sends with { h(z, u(z)) }.
//! 5. L -> every other learner: which keys are common (`answer`).
//! Why it finds them: where all clients hold z, u(z) = v(z). Where one does not, its store gives a random value, which is equal to
//! that once in 2^ℓ. Only keys that L and V both hold can be mistaken: ℓ = σ + log2 of the fewer of their keys of the whole job.
//!
//! A client sees k_i and r. V sees stores whose values it cannot tell from random ones, as it lacks the keys: so they are random
//! stores. L sees what the PSI of two shows of V's list: V is asked for h(x, v(x)) at L's own keys alone, so no key of a client's can
//! be tested beside them. L and V together hold keys and stores, and can test any guess at any client's keys.
//!
//! Reveals: key_count to everyone, intersection to the learners, leader_and_pivot to L and V together.
//! Rounds: 1/2 + OPRF + 1/2, and 1/2 more for the others that learn.
//! Bytes: ℓ/8 a slot of each client's store; OPRF(n) between L and V, and about L - log2 m + 2 bits a key of V's.
//! Differs from the paper: clients also hide from V how many keys they have; r is drawn anew for each unit, and k_i for each attempt.

use crate::many::{Key, Params, SEED};
use crate::oprf::{self, Role, Side, padded};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use vesica_block::Block;
use vesica_oprf::Oprf;
use vesica_oprf::vole::Shape;
use vesica_session::{Error, Lines, Protocol, Result, SessionRng, Unit};
use vesica_types::{Digest, UnitId};
use zeroize::Zeroizing;

/// A party's side.
struct Star<S> {
    params: Params<S>,
    pivot: u8,
    part: Part,
}

/// What a party is, and what it keeps for all units.
enum Part {
    /// L: the clients' keys, and its side of the PSI of two.
    Leader(Vec<Key>, Box<dyn Side>),
    /// V: its side of the PSI of two.
    Pivot(Box<dyn Side>),
    /// A client: its key, and the units that it served under it.
    Client(Key, Mutex<BTreeSet<UnitId>>),
}

/// Opens a party's side; `oprf` is the function between L and V.
///
/// # Errors
/// Those of the channels; a peer's if it breaks the protocol.
pub fn open<O: Oprf<Key: 'static>, S: Shape + 'static>(
    oprf: &O,
    pivot: u8,
    params: Params<S>,
    lines: &mut Lines,
    rng: &mut SessionRng,
) -> Result<Box<dyn Protocol>> {
    let two = oprf::Params { tag_len: params.tag_len, both: false };
    let part = if params.place == params.leader {
        // 1. -> client i: k_i
        let mut keys = Vec::new();
        for client in params.clients(Some(pivot)) {
            let key = Zeroizing::new(rng.bytes());
            lines.at(client)?.send(&*key)?;
            keys.push(key);
        }
        Part::Leader(keys, oprf::side(oprf, Role::Receiver, two, lines.at(pivot)?, rng)?)
    } else if params.place == pivot {
        Part::Pivot(oprf::side(oprf, Role::Sender, two, lines.at(params.leader)?, rng)?)
    } else {
        // 1. <- L: k_i
        let mut key = Key::default();
        key.copy_from_slice(&Zeroizing::new(lines.at(params.leader)?.recv_exact(32)?));
        Part::Client(key, Mutex::default())
    };
    Ok(Box::new(Star { params, pivot, part }))
}

/// Notes that a client serves this unit, which it does once: in two stores under one key V could test guesses by what decodes alike.
fn once(served: &Mutex<BTreeSet<UnitId>>, unit: UnitId) -> Result<()> {
    match served.lock().unwrap_or_else(PoisonError::into_inner).insert(unit) {
        true => Ok(()),
        false => Err(Error::Bug(format!("a client was asked for unit {unit} twice under one key"))),
    }
}

impl<S: Shape> Protocol for Star<S> {
    fn unit(&self, unit: &Unit, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        match &self.part {
            Part::Leader(keys, two) => self.leader(keys, &**two, unit, lines, rng),
            Part::Pivot(two) => self.pivot(&**two, unit, lines, rng),
            Part::Client(key, served) => {
                once(served, unit.id)?;
                self.client(key, unit, lines, rng)
            }
        }
    }
}

impl<S: Shape> Star<S> {
    fn leader(
        &self,
        keys: &[Key],
        two: &dyn Side,
        unit: &Unit,
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Vec<u32>> {
        let params = &self.params;

        // 2. -> all: r
        let r: [u8; SEED] = rng.bytes();
        for ch in lines.all() {
            ch.step("seed");
            ch.send(&r)?;
        }

        // 4. v(x), and the PSI of two
        let xs = padded(unit, rng);
        let mut v = vec![Block::ZERO; xs.len()];
        keys.iter().for_each(|key| params.mask(key, unit.id).add(&xs, &mut v));
        let mut places = two.unit(&self.joined(unit, &xs, v), lines.at(self.pivot)?, rng)?;

        // 5. -> every other learner: which keys are common
        params.tell(unit, &mut places, lines)?;
        Ok(places)
    }

    fn pivot(&self, two: &dyn Side, unit: &Unit, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let params = &self.params;

        // 2. <- L: r
        let r = self.seed(lines)?;

        // 3. <- client i: D_i;  u(z)
        let zs = padded(unit, rng);
        let u = params.stores(unit.id, &r).decode_sum(&params.clients(Some(self.pivot)), &zs, lines)?;

        // 4. the PSI of two
        two.unit(&self.joined(unit, &zs, u), lines.at(params.leader)?, rng)?;

        // 5. <- L: which keys are common, if I learn
        params.told(unit, lines)
    }

    fn client(&self, key: &Key, unit: &Unit, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let params = &self.params;

        // 2. <- L: r
        let r = self.seed(lines)?;

        // 3. -> V: D_i
        let ys = padded(unit, rng);
        let mut values = vec![Block::ZERO; ys.len()];
        params.mask(key, unit.id).add(&ys, &mut values);
        let store = params.stores(unit.id, &r).encode(&ys, &values, rng)?;
        let ch = lines.at(self.pivot)?;
        ch.step("store");
        ch.send(&store)?;

        // 5. <- L: which keys are common, if I learn
        params.told(unit, lines)
    }

    /// r.
    fn seed(&self, lines: &mut Lines) -> Result<Vec<u8>> {
        let ch = lines.at(self.params.leader)?;
        ch.step("seed");
        ch.recv_exact(SEED)
    }

    /// A unit of h(x, v(x)), in the order of the keys. Dummies are hashed too, so that the time does not show how many there are.
    fn joined(&self, unit: &Unit, xs: &[Digest], values: Vec<Block>) -> Unit {
        let cut = values.into_iter().map(|value| self.params.cut(value)).collect();
        let mut keys = self.params.joined(unit.id, xs, cut);
        keys.truncate(unit.keys.len());
        Unit { keys, ..unit.clone() }
    }
}
