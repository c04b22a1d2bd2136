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
//! Bytes: OPRF(n); about L - log2 m + 2 bits a value of the sender's; if both learn, the receiver's answer: a bit a value.
//! Where a key has several values the answer is `answer`'s: about L - log2 k + 2 bits for each of k = min(n, m) keys.
//! Differs from the papers: values travel sorted, which is a function of the set alone and shorter; both sides are padded; the
//! receiver may tell which keys are common, so that the sender learns too (to be used against honest parties only).

use crate::answer;
use crate::ordered::Ordered;
use crate::reveals;
use crate::sorted::Sorted;
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

    /// The answer where a key has several values.
    fn answer(&self, unit: &Unit) -> Sorted {
        Sorted { len: unit.capacity.min(unit.peer_capacity), bits: self.bits() }
    }

    fn receive(&self, unit: &Unit, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<u32>> {
        // 1. F(x) for x in X, with dummies up to the public size
        let xs = padded(unit, rng);
        let mut values = self.oprf.receive(unit.id, &xs, ch, rng)?;
        values.truncate(unit.keys.len());
        let values = Ordered::new(values, self.bits());

        // 2. <- T
        ch.step("compare");
        let list = Self::list(unit.peer_capacity, self.tag_len);
        let wire = ch.recv_exact(list.bytes())?;
        let tags = list.decode(&wire).map_err(|index| ch.accuse(Misbehaviour::Order { index }))?;

        // 3. Output { x : F(x) in T };  -> which keys these are, if the sender learns too
        let common = values.common(&tags);
        let mut places: Vec<u32> = common.iter().map(|&(place, _)| place).collect();
        if self.both {
            let answer = if O::Key::VALUES == 1 {
                // Which of T: where a key has one value, T's order is the sender's own matter.
                let mut bitmap = vec![0; tags.len().div_ceil(8)];
                common.iter().for_each(|&(_, at)| bitmap[at / 8] |= 1 << (at % 8));
                bitmap
            } else {
                let more = || ch.accuse(Misbehaviour::Contradiction("it holds more keys than it said"));
                places.sort_unstable();
                let keys = places.iter().map(|&place| unit.keys[place as usize]);
                answer::write(self.answer(unit), keys).ok_or_else(more)?
            };
            ch.send(&answer)?;
        }
        Ok(places)
    }

    fn send(&self, unit: &Unit, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<u32>> {
        // 1. k
        let key = self.oprf.send(unit.id, ch, rng)?;

        // 2. -> T; dummies are evaluated too, so that the time it takes does not show how many there are
        ch.step("compare");
        let ys = padded(unit, rng);
        let list = Self::list(ys.len(), self.tag_len);
        let mut values = Vec::with_capacity(list.len);
        for ys in ys.chunks(EVALUATED) {
            ch.alive()?;
            key.eval(ys, &mut values);
        }
        let values = Ordered::new(values, self.bits());
        ch.send(&list.encode(values.tags().map(|(tag, _)| tag)))?;

        // 3. <- which keys are common, if I learn too
        if !self.both {
            return Ok(Vec::new());
        }
        if O::Key::VALUES > 1 {
            let list = self.answer(unit);
            let wire = ch.recv_exact(list.bytes())?;
            return answer::read(list, &unit.keys, &wire).map_err(|fault| ch.accuse(fault));
        }
        let bitmap = ch.recv_exact(list.len.div_ceil(8))?;
        let set = |at: usize| bitmap[at / 8] >> (at % 8) & 1 == 1;
        let marked = values.tags().enumerate().filter(|&(at, _)| set(at));
        let mut places: Vec<u32> = marked.map(|(_, (_, place))| place).collect();
        places.sort_unstable();
        match places.last() {
            Some(&last) if last as usize >= unit.keys.len() => Err(ch.accuse(answer::NOT_MINE)),
            _ => Ok(places),
        }
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
