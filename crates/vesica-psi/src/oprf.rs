//! PSI from any oblivious pseudorandom function.
//!
//! [FIPR05] Freedman, Ishai, Pinkas, Reingold, "Keyword search and oblivious pseudorandom functions", TCC 2005; [RR22] Raghuraman,
//! Rindal, eprint 2022/320, Figure 11, steps 4-5; [KKRT16] Kolesnikov, Kumaresan, Rosulek, Trieu, eprint 2016/799, Figure 8.
//! Security is that of the function: `vesica_oprf` has one file for each.
//!
//!   X    the receiver's keys, padded     xs        Y    the sender's, padded           ys
//!   F    the function                    oprf      T    { F(y) }, L bits each, sorted  tags
//!
//! Reveals: key_count to everyone, intersection to the learners.   Rounds: OPRF + 1/2, and 1/2 more if the sender learns too.
//! Bytes: OPRF(n); from the sender about L - log2 m + 2 bits a value; from the receiver, if both learn, a bit a value.
//! Differs from the papers: values travel sorted, which is a function of the set alone and shorter; both sides are padded; the
//! receiver may tell which values it had, so that the sender learns too (to be used against honest parties only).

use crate::reveals;
use crate::sorted::Sorted;
use vesica_block::Block;
use vesica_oprf::{Oprf, Prf};
use vesica_session::{Channel, Lines, Misbehaviour, Protocol, Result, Reveal, SessionRng, Unit};
use vesica_types::{Digest, TagLen};

/// Keys that are evaluated between two looks at whether the peer is still there.
const EVALUATED: usize = 1 << 13;

/// One party's side of a job, by the function `O`.
pub struct OprfPsi<O> {
    oprf: O,
    role: Role,
    tag_len: TagLen,
    /// Whether the sender learns too.
    both: bool,
}

/// What a party does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Holds the key of the function.
    Sender,
    /// Learns the function at its keys, and so the intersection.
    Receiver,
}

impl<O: Oprf> OprfPsi<O> {
    /// The protocol with an opened function. `both` says whether the sender learns too.
    pub fn new(oprf: O, role: Role, tag_len: TagLen, both: bool) -> Self {
        Self { oprf, role, tag_len, both }
    }

    /// One unit over one channel: [`Protocol::unit`].
    ///
    /// # Errors
    /// Those of the channel and of the function; the peer's if it breaks the protocol.
    pub fn over(&self, unit: &Unit, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<u32>> {
        match self.role {
            Role::Receiver => self.receive(unit, ch, rng),
            Role::Sender => self.send(unit, ch, rng),
        }
    }

    /// The list of the values of `m` keys.
    fn list(&self, m: usize) -> Sorted {
        Sorted { len: m * O::Key::VALUES, bits: self.tag_len.bytes() as u32 * 8 }
    }

    /// Bytes of the list that the sender of `m` keys sends.
    pub fn list_bytes(m: usize, tag_len: TagLen) -> usize {
        Sorted { len: m * O::Key::VALUES, bits: tag_len.bytes() as u32 * 8 }.bytes()
    }

    /// L bits of a value.
    fn tag(&self, value: Block) -> u128 {
        value.0 >> (128 - 8 * self.tag_len.bytes())
    }

    fn receive(&self, unit: &Unit, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<u32>> {
        // 1. F(x) for x in X, with dummies up to the public size
        let xs = padded(unit, rng);
        let values = self.oprf.receive(unit.id, &xs, ch, rng)?;
        let mut mine: Vec<(u128, u32)> = values[..unit.keys.len()].iter().map(|&v| self.tag(v)).zip(0..).collect();
        mine.sort_unstable();

        // 2. <- T
        ch.step("compare");
        let list = self.list(unit.peer_capacity);
        let wire = ch.recv_exact(list.bytes())?;
        let tags = list.decode(&wire).map_err(|index| ch.accuse(Misbehaviour::Order { index }))?;

        // 3. Output { x : F(x) in T };  -> which of T these are, if the sender learns too
        let common = common(&mine, &tags);
        if self.both {
            let mut bitmap = vec![0; tags.len().div_ceil(8)];
            common.iter().for_each(|&(_, at)| bitmap[at / 8] |= 1 << (at % 8));
            ch.send(&bitmap)?;
        }
        Ok(common.into_iter().map(|(place, _)| place).collect())
    }

    fn send(&self, unit: &Unit, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<u32>> {
        // 1. k
        let key = self.oprf.send(unit.id, ch, rng)?;

        // 2. -> T, with random values in the place of dummies'
        ch.step("compare");
        let list = self.list(unit.capacity);
        let mut values = Vec::with_capacity(list.len);
        for keys in unit.keys.chunks(EVALUATED) {
            ch.alive()?;
            key.eval(keys, &mut values);
        }
        values.resize_with(list.len, || Block::from_le_bytes(rng.bytes()));
        let mut tags: Vec<(u128, u32)> = values.into_iter().map(|v| self.tag(v)).zip(0..).collect();
        tags.sort_unstable();
        ch.send(&list.encode(tags.iter().map(|&(tag, _)| tag)))?;

        // 3. <- which of T are common, if I learn too
        if !self.both {
            return Ok(Vec::new());
        }
        let bitmap = ch.recv_exact(tags.len().div_ceil(8))?;
        let set = |at: usize| bitmap[at / 8] >> (at % 8) & 1 == 1;
        let (real, wrong) =
            (unit.keys.len() * O::Key::VALUES, "it says that it holds what is none of this side's keys");
        let mut places = Vec::new();
        for (_, &(_, value)) in tags.iter().enumerate().filter(|&(at, _)| set(at)) {
            if value as usize >= real {
                return Err(ch.accuse(Misbehaviour::Contradiction(wrong)));
            }
            places.push(value / O::Key::VALUES as u32);
        }
        places.sort_unstable();
        places.dedup();
        Ok(places)
    }
}

impl<O: Oprf> Protocol for OprfPsi<O> {
    const REVEALS: &'static [Reveal] = &[reveals::INTERSECTION, reveals::KEY_COUNT, reveals::TRAFFIC];

    /// Places in the unit's keys of those that match, in no order that means anything.
    type Found = Vec<u32>;

    fn unit(&self, unit: &Unit, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        self.over(unit, lines.peer()?, rng)
    }
}

/// The unit's keys, and random ones up to its public size.
fn padded(unit: &Unit, rng: &mut SessionRng) -> Vec<Digest> {
    let mut keys = Vec::with_capacity(unit.capacity);
    keys.extend_from_slice(&unit.keys);
    keys.resize_with(unit.capacity, || Digest(rng.bytes()));
    keys
}

/// Those of `mine` whose tag is in `theirs`: their place, and that of the tag. Both lists ascend.
fn common(mine: &[(u128, u32)], theirs: &[u128]) -> Vec<(u32, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    for &(tag, place) in mine {
        while theirs.get(at).is_some_and(|&t| t < tag) {
            at += 1;
        }
        if theirs.get(at) == Some(&tag) {
            found.push((place, at));
        }
    }
    found
}
