//! What the protocols of three and more parties have in common: keys that last for one attempt, stores that are added slot by
//! slot, and how the leader tells the other learners.
//!
//! Every party takes one of three parts. The *leader* learns first. A *client* sends a store of its keys. What the party is that
//! adds the stores differs: in [`crate::nty21`] it is the *pivot*, in [`crate::kmprt17`] the leader itself.

use crate::answer;
use crate::sorted::Sorted;
use vesica_block::hash::Permutation;
use vesica_block::prg::Prg;
use vesica_block::{Block, large};
use vesica_okvs::Okvs;
use vesica_oprf::vole::Shape;
use vesica_session::{Channel, Error, Lines, Misbehaviour, Result, SessionRng, Unit};
use vesica_types::{Digest, TagLen, UnitId};
use zeroize::Zeroizing;

/// What the parties agreed on.
#[derive(Clone, Debug)]
pub struct Params<S> {
    /// Names the run: the parties' jointly tossed salt.
    pub session: [u8; 32],
    /// Length of a comparison tag.
    pub tag_len: TagLen,
    /// The shape of the clients' stores of a unit, which all have the same: for the keys of the largest client.
    pub shape: S,
    /// Bytes of a slot of these stores on the wire.
    pub slot_bytes: usize,
    /// How many parties there are.
    pub parties: u8,
    /// This party's place.
    pub place: u8,
    /// The leader's place. It learns.
    pub leader: u8,
    /// The places of all parties that learn.
    pub learners: Vec<u8>,
}

/// A secret of two parties. It is drawn when a side is opened, so it serves one attempt: a unit that is done again after a break is done
/// under another one. Under the same one, whoever gets two stores of a client could test guesses by what decodes alike in both.
pub(crate) type Key = Zeroizing<[u8; 32]>;

/// PRF(k, ·) for one unit.
pub(crate) struct Mask(Permutation);

impl Mask {
    /// to[i] ← to[i] + PRF(k, x[i]).
    pub fn add(&self, xs: &[Digest], to: &mut [Block]) {
        let mut values: Vec<Block> = xs.iter().map(|&x| x.into()).collect();
        self.0.cr(&mut values);
        to.iter_mut().zip(values).for_each(|(to, value)| *to ^= value);
    }
}

impl<S: Shape> Params<S> {
    /// The places of all parties but the leader and `but`.
    pub(crate) fn clients(&self, but: Option<u8>) -> Vec<u8> {
        (0..self.parties).filter(|&place| place != self.leader && Some(place) != but).collect()
    }

    /// PRF(k, x) = π(x) + x, where π is AES-128 under a key that is derived from k, the run and the unit.
    pub(crate) fn mask(&self, key: &Key, unit: UnitId) -> Mask {
        Mask(Permutation::new(self.block("vesica 2026 many parties mask", unit, key.as_slice())))
    }

    /// h(x, v) of 128 bits, under a key of the run and the unit: CR(CR(v) + x) as in [GKWY20], section 7.
    pub(crate) fn joined(&self, unit: UnitId, xs: &[Digest], mut values: Vec<Block>) -> Vec<Digest> {
        let permutation = Permutation::new(self.block("vesica 2026 many parties join", unit, &[]));
        permutation.cr(&mut values);
        values.iter_mut().zip(xs).for_each(|(value, &x)| *value ^= x.into());
        permutation.cr(&mut values);
        values.into_iter().map(|value| Digest(value.to_le_bytes())).collect()
    }

    /// The stores of a unit under the leader's seed `r`: all parties use the same rows.
    pub(crate) fn stores(&self, unit: UnitId, r: &[u8]) -> Stores<S::Okvs> {
        let seed = self.block("vesica 2026 many parties rows", unit, r);
        Stores { okvs: self.shape.seeded(seed), slot_bytes: self.slot_bytes }
    }

    /// A key for one use in one unit of this run.
    fn block(&self, context: &str, unit: UnitId, secret: &[u8]) -> Block {
        let mut hash = blake3::Hasher::new_derive_key(context);
        hash.update(&self.session).update(&unit.0.to_le_bytes()).update(&[self.leader]).update(secret);
        Block::from_le_bytes(*hash.finalize().as_bytes().first_chunk().expect("32 bytes"))
    }

    /// The bits of a value that count, which are those that travel.
    pub(crate) fn cut(&self, value: Block) -> Block {
        Block(value.0 & u128::MAX >> (128 - 8 * self.slot_bytes))
    }

    /// The list of common keys that a learner is told: as long as the fewest keys that a party may have, so that its length says
    /// nothing.
    fn list(&self, unit: &Unit) -> Sorted {
        let len = unit.capacities.iter().copied().min().unwrap_or(0);
        Sorted { len, bits: self.tag_len.bytes() as u32 * 8 }
    }

    /// The leader tells every other learner which keys are common: those at `places`.
    pub(crate) fn tell(&self, unit: &Unit, places: &mut [u32], lines: &mut Lines) -> Result<()> {
        places.sort_unstable();
        for &learner in self.learners.iter().filter(|&&learner| learner != self.leader) {
            let ch = lines.at(learner)?;
            ch.step("tell");
            let keys = places.iter().map(|&place| unit.keys[place as usize]);
            let more = || ch.accuse(Misbehaviour::Contradiction("more keys are common to all than some party has"));
            let answer = answer::write(self.list(unit), keys).ok_or_else(more)?;
            ch.send(&answer)?;
        }
        Ok(())
    }

    /// What the leader tells this party; nothing if it does not learn.
    pub(crate) fn told(&self, unit: &Unit, lines: &mut Lines) -> Result<Vec<u32>> {
        if !self.learners.contains(&self.place) {
            return Ok(Vec::new());
        }
        let (list, ch) = (self.list(unit), lines.at(self.leader)?);
        ch.step("tell");
        let wire = ch.recv_exact(list.bytes())?;
        answer::read(list, &unit.keys, &wire).map_err(|fault| ch.accuse(fault))
    }
}

/// Bytes of the leader's seed of a unit's rows.
pub(crate) const SEED: usize = 16;

/// The stores of a unit.
pub(crate) struct Stores<O> {
    okvs: O,
    slot_bytes: usize,
}

impl<O: Okvs> Stores<O> {
    /// Bytes of a store on the wire.
    fn bytes(&self) -> usize {
        self.okvs.len() * self.slot_bytes
    }

    /// The store of `keys[i]` ↦ `values[i]`, as it travels: of each slot the first bytes. What the pairs leave open is random, so
    /// where the values are random too, all slots are, whatever the keys.
    pub fn encode(&self, keys: &[Digest], values: &[Block], rng: &mut SessionRng) -> Result<Vec<u8>> {
        let free = &mut Prg::new(Block::from_le_bytes(rng.bytes()));
        let slots = self.okvs.encode(keys, values, free).map_err(|error| {
            Error::Bug(format!("{error}, which happens to less than one job in 2^40; if so, run the job again"))
        })?;
        let mut wire = Vec::new();
        large::reserve(&mut wire, self.bytes());
        slots.iter().for_each(|slot| wire.extend_from_slice(&slot.to_le_bytes()[..self.slot_bytes]));
        Ok(wire)
    }

    /// The sum of the stores of these parties, slot by slot, decoded at `keys`. A store is linear, so that this is the sum of what
    /// each of them gives.
    pub fn decode_sum(&self, of: &[u8], keys: &[Digest], lines: &mut Lines) -> Result<Vec<Block>> {
        let mut sum = large::zeroed(self.bytes());
        for &party in of {
            let ch: &mut dyn Channel = lines.at(party)?;
            ch.step("store");
            let wire = ch.recv_exact(sum.len())?;
            sum.iter_mut().zip(wire).for_each(|(sum, byte)| *sum ^= byte);
        }
        let slot = |bytes: &[u8]| {
            let mut slot = [0; 16];
            slot[..bytes.len()].copy_from_slice(bytes);
            Block::from_le_bytes(slot)
        };
        let slots: Vec<Block> = sum.chunks_exact(self.slot_bytes).map(slot).collect();
        let mut values = Vec::with_capacity(keys.len());
        self.okvs.decode(keys, &slots, &mut values);
        Ok(values)
    }
}
