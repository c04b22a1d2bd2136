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

    /// L.
    fn bits(&self) -> u32 {
        self.tag_len.bytes() as u32 * 8
    }

    /// The list of the values of `m` keys.
    fn list(m: usize, tag_len: TagLen) -> Sorted {
        Sorted { len: m * O::Key::VALUES, bits: tag_len.bytes() as u32 * 8 }
    }

    /// Bytes of the list that the sender of `m` keys sends.
    pub fn list_bytes(m: usize, tag_len: TagLen) -> usize {
        Self::list(m, tag_len).bytes()
    }

    /// L bits of the value of an entry of [`ascending`].
    fn tag(&self, entry: u128, values: &[Block]) -> u128 {
        let whole = if self.bits() <= 128 - PLACE { entry } else { values[entry as u32 as usize].0 };
        whole >> (128 - self.bits())
    }

    fn receive(&self, unit: &Unit, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<u32>> {
        // 1. F(x) for x in X, with dummies up to the public size
        let xs = padded(unit, rng);
        let values = self.oprf.receive(unit.id, &xs, ch, rng)?;
        let order = ascending(&values[..unit.keys.len()]);

        // 2. <- T
        ch.step("compare");
        let list = Self::list(unit.peer_capacity, self.tag_len);
        let wire = ch.recv_exact(list.bytes())?;
        let tags = list.decode(&wire).map_err(|index| ch.accuse(Misbehaviour::Order { index }))?;

        // 3. Output { x : F(x) in T };  -> which of T these are, if the sender learns too
        let common = common(order.iter().map(|&entry| (self.tag(entry, &values), entry as u32)), &tags);
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
        let list = Self::list(unit.capacity, self.tag_len);
        let mut values = Vec::with_capacity(list.len);
        for keys in unit.keys.chunks(EVALUATED) {
            ch.alive()?;
            key.eval(keys, &mut values);
        }
        values.resize_with(list.len, || Block::from_le_bytes(rng.bytes()));
        let order = ascending(&values);
        ch.send(&list.encode(order.iter().map(|&entry| self.tag(entry, &values))))?;

        // 3. <- which of T are common, if I learn too
        if !self.both {
            return Ok(Vec::new());
        }
        let bitmap = ch.recv_exact(order.len().div_ceil(8))?;
        let set = |at: usize| bitmap[at / 8] >> (at % 8) & 1 == 1;
        let (real, wrong) =
            (unit.keys.len() * O::Key::VALUES, "it says that it holds what is none of this side's keys");
        let mut places = Vec::new();
        for (_, &entry) in order.iter().enumerate().filter(|&(at, _)| set(at)) {
            let value = entry as u32;
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

/// Bits of a place in a list.
const PLACE: u32 = 32;

/// The values in ascending order: of each the upper bits, and in the last [`PLACE`] bits where it stands. Half as long as a
/// list of values with their places, and sorted in half the time.
fn ascending(values: &[Block]) -> Vec<u128> {
    let mut order: Vec<u128> = values.iter().zip(0..).map(|(v, place)| v.0 >> PLACE << PLACE | place).collect();
    order.sort_unstable();
    // Those that differ in the last bits only: as rare as a false match.
    for alike in order.chunk_by_mut(|a, b| a >> PLACE == b >> PLACE).filter(|alike| alike.len() > 1) {
        alike.sort_unstable_by_key(|&entry| values[entry as u32 as usize]);
    }
    order
}

/// Those of `mine` whose tag is in `theirs`: their place, and that of the tag. Both lists ascend.
fn common(mine: impl Iterator<Item = (u128, u32)>, theirs: &[u128]) -> Vec<(u32, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    for (tag, place) in mine {
        while theirs.get(at).is_some_and(|&t| t < tag) {
            at += 1;
        }
        if theirs.get(at) == Some(&tag) {
            found.push((place, at));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_testkit::digests;

    #[test]
    fn values_ascend_also_where_they_differ_in_the_last_bits_only() {
        let mut values: Vec<Block> = digests(0, 1000).into_iter().rev().map(Block::from).collect();
        for i in (1..values.len()).step_by(3) {
            values[i] = Block(values[i - 1].0 ^ 0xff);
        }
        let mut want = values.clone();
        want.sort_unstable();
        let order = ascending(&values);
        let got: Vec<Block> = order.iter().map(|&entry| values[entry as u32 as usize]).collect();
        assert_eq!(got, want);
        assert!(order.iter().zip(&want).all(|(entry, value)| entry >> PLACE == value.0 >> PLACE));
    }
}
