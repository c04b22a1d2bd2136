//! The star of three and more parties up to the step that its two ends take with each other: [NTY21], steps 1 to 3, as [`crate::nty21`]
//! has them. What is left is between leader and pivot alone: which keys of h(x, v(x)) and h(z, u(z)) are the same.

use crate::many::{Key, Params, SEED};
use crate::oprf::padded;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use vesica_block::Block;
use vesica_oprf::vole::Shape;
use vesica_session::{Error, Lines, Result, SessionRng, Unit};
use vesica_types::{Digest, UnitId};
use zeroize::Zeroizing;

/// A party's side.
pub(crate) struct Star<S> {
    pub params: Params<S>,
    pub pivot: u8,
    part: Part,
}

/// What a party is, and what it keeps for all units.
enum Part {
    /// L: the clients' keys.
    Leader(Vec<Key>),
    /// V.
    Pivot,
    /// A client: its key, and the units that it served under it.
    Client(Key, Mutex<BTreeSet<UnitId>>),
}

/// Notes that a client serves this unit, which it does once: in two stores under one key V could test guesses by what decodes alike.
fn once(served: &Mutex<BTreeSet<UnitId>>, unit: UnitId) -> Result<()> {
    match served.lock().unwrap_or_else(PoisonError::into_inner).insert(unit) {
        true => Ok(()),
        false => Err(Error::Bug(format!("a client was asked for unit {unit} twice under one key"))),
    }
}

impl<S: Shape> Star<S> {
    /// Step 1.
    ///
    /// # Errors
    /// Those of the channels; a peer's if it breaks the protocol.
    pub fn open(pivot: u8, params: Params<S>, lines: &mut Lines, rng: &mut SessionRng) -> Result<Self> {
        let part = if params.place == params.leader {
            // 1. -> client i: k_i
            let mut keys = Vec::new();
            for client in params.clients(Some(pivot)) {
                let key = Zeroizing::new(rng.bytes());
                lines.at(client)?.send(&*key)?;
                keys.push(key);
            }
            Part::Leader(keys)
        } else if params.place == pivot {
            Part::Pivot
        } else {
            // 1. <- L: k_i
            let mut key = Key::default();
            key.copy_from_slice(&Zeroizing::new(lines.at(params.leader)?.recv_exact(32)?));
            Part::Client(key, Mutex::default())
        };
        Ok(Self { params, pivot, part })
    }

    /// Of leader and pivot the other one; none for a client.
    pub fn other(&self) -> Option<u8> {
        match self.part {
            Part::Leader(_) => Some(self.pivot),
            Part::Pivot => Some(self.params.leader),
            Part::Client(..) => None,
        }
    }

    /// Whether this party leads.
    pub fn leads(&self) -> bool {
        matches!(self.part, Part::Leader(_))
    }

    /// Steps 2 and 3 of a unit. Of leader and pivot what they bring to the step between them, in the order of their keys.
    ///
    /// # Errors
    /// Those of the channels; a peer's if it breaks the protocol; a bug if a client serves a unit again.
    pub fn unit(&self, unit: &Unit, lines: &mut Lines, rng: &mut SessionRng) -> Result<Option<Unit>> {
        let params = &self.params;
        match &self.part {
            Part::Leader(keys) => {
                // 2. -> all: r
                let r: [u8; SEED] = rng.bytes();
                for ch in lines.all() {
                    ch.step("seed");
                    ch.send(&r)?;
                }
                // 4. v(x)
                let xs = padded(unit, rng);
                let mut v = vec![Block::ZERO; xs.len()];
                keys.iter().for_each(|key| params.mask(key, unit.id).add(&xs, &mut v));
                Ok(Some(self.joined(unit, &xs, v)))
            }
            Part::Pivot => {
                // 2. <- L: r;  3. <- client i: D_i;  u(z)
                let r = self.seed(lines)?;
                let zs = padded(unit, rng);
                let u = params.stores(unit.id, &r).decode_sum(&params.clients(Some(self.pivot)), &zs, lines)?;
                Ok(Some(self.joined(unit, &zs, u)))
            }
            Part::Client(key, served) => {
                once(served, unit.id)?;
                // 2. <- L: r;  3. -> V: D_i
                let r = self.seed(lines)?;
                let ys = padded(unit, rng);
                let mut values = vec![Block::ZERO; ys.len()];
                params.mask(key, unit.id).add(&ys, &mut values);
                let store = params.stores(unit.id, &r).encode(&ys, &values, rng)?;
                let ch = lines.at(self.pivot)?;
                ch.step("store");
                ch.send(&store)?;
                Ok(None)
            }
        }
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
