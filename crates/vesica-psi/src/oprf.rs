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
//! Differs from the papers: values travel sorted, a function of the set alone and shorter; both sides are padded; the receiver
//! may tell which keys are common, so that the sender learns too (to be used against honest parties only).

use crate::answer;
use crate::ordered::Ordered;
use crate::sorted::Sorted;
use vesica_oprf::{Oprf, Prf, Receiver, Sender};
use vesica_session::{Channel, Lines, Misbehaviour, Protocol, Result, SessionRng, Unit};
use vesica_types::{Digest, Party, TagLen};

/// Keys that are evaluated between two looks at whether the peer is still there.
pub(crate) const EVALUATED: usize = 1 << 13;

/// What the parties agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// L.
    pub tag_len: TagLen,
    /// Whether the sender learns too.
    pub both: bool,
}

/// What a party does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Holds the key of the function.
    Sender,
    /// Learns the function at its keys, and so the intersection.
    Receiver,
}

/// Opens a party's side of the protocol from a function.
///
/// # Errors
/// Those of the channel; the peer's if it breaks the protocol.
pub fn open<O: Oprf<Key: 'static>>(
    oprf: &O,
    role: Role,
    params: Params,
    ch: &mut dyn Channel,
    rng: &mut SessionRng,
) -> Result<Box<dyn Protocol>> {
    Ok(Box::new(Alone(side(oprf, role, params, ch, rng)?)))
}

/// A party's side with one peer, which may be one of several.
pub(crate) trait Side: Send + Sync {
    /// One unit, as [`Protocol::unit`]. The unit's keys need not ascend where the receiver alone learns.
    fn unit(&self, unit: &Unit, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<u32>>;
}

/// A side whose peer is the only one.
struct Alone(Box<dyn Side>);

impl Protocol for Alone {
    fn unit(&self, unit: &Unit, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        self.0.unit(unit, lines.peer()?, rng)
    }
}

/// Opens a side with one of several peers: [`open`] for all other cases.
pub(crate) fn side<O: Oprf<Key: 'static>>(
    oprf: &O,
    role: Role,
    params: Params,
    ch: &mut dyn Channel,
    rng: &mut SessionRng,
) -> Result<Box<dyn Side>> {
    Ok(match role {
        Role::Receiver => Box::new(Receives { oprf: oprf.receiver(ch, rng)?, params, values: O::Key::VALUES }),
        Role::Sender => Box::new(Sends { oprf: oprf.sender(ch, rng)?, params }),
    })
}

/// The receiver's side.
struct Receives<R> {
    oprf: R,
    params: Params,
    /// How many values a key of the sender's has.
    values: usize,
}

/// The sender's side.
struct Sends<S> {
    oprf: S,
    params: Params,
}

impl Params {
    /// L.
    fn bits(&self) -> u32 {
        self.tag_len.bytes() as u32 * 8
    }

    /// T, of `m` keys that have so many values each.
    fn list(&self, m: usize, values: usize) -> Sorted {
        Sorted { len: m * values, bits: self.bits() }
    }

    /// The answer where a key has several values.
    fn answer(&self, unit: &Unit, peer: &Party) -> Sorted {
        Sorted { len: unit.capacity().min(unit.capacity_of(peer)), bits: self.bits() }
    }
}

impl<R: Receiver> Side for Receives<R> {
    fn unit(&self, unit: &Unit, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let Self { oprf, params, values: of_a_key } = self;

        // 1. F(x) for x in X, with dummies up to the public size
        let xs = padded(unit, rng);
        let mut values = oprf.receive(unit.id, &xs, ch, rng)?;
        values.truncate(unit.keys.len());
        let values = Ordered::new(values, params.bits());

        // 2. <- T
        ch.step("compare");
        let list = params.list(unit.capacity_of(ch.peer()), *of_a_key);
        let wire = ch.recv_exact(list.bytes())?;
        let tags = list.decode(&wire).map_err(|index| ch.accuse(Misbehaviour::Order { index }))?;

        // 3. Output { x : F(x) in T };  -> which keys these are, if the sender learns too
        let common = values.common(&tags);
        let mut places: Vec<u32> = common.iter().map(|&(place, _)| place).collect();
        if params.both {
            let answer = if *of_a_key == 1 {
                // Which of T: where a key has one value, T's order is the sender's own matter.
                let mut bitmap = vec![0; tags.len().div_ceil(8)];
                common.iter().for_each(|&(_, at)| bitmap[at / 8] |= 1 << (at % 8));
                bitmap
            } else {
                let more = || ch.accuse(Misbehaviour::Contradiction("it holds more keys than it said"));
                places.sort_unstable();
                let keys = places.iter().map(|&place| unit.keys[place as usize]);
                answer::write(params.answer(unit, ch.peer()), keys).ok_or_else(more)?
            };
            ch.send(&answer)?;
        }
        Ok(places)
    }
}

impl<S: Sender> Side for Sends<S> {
    fn unit(&self, unit: &Unit, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let Self { oprf, params } = self;
        // 1. k
        let key = oprf.send(unit.id, ch, rng)?;

        // 2. -> T; dummies are evaluated too, so that the time it takes does not show how many there are
        ch.step("compare");
        let ys = padded(unit, rng);
        let list = params.list(ys.len(), S::Key::VALUES);
        let mut values = Vec::with_capacity(list.len);
        for ys in ys.chunks(EVALUATED) {
            ch.alive()?;
            key.eval(ys, &mut values);
        }
        let values = Ordered::new(values, params.bits());
        ch.send(&list.encode(values.tags().map(|(tag, _)| tag)))?;

        // 3. <- which keys are common, if I learn too
        if !params.both {
            return Ok(Vec::new());
        }
        if S::Key::VALUES > 1 {
            let list = params.answer(unit, ch.peer());
            let wire = ch.recv_exact(list.bytes())?;
            return answer::read(list, &unit.keys, &wire).map_err(|fault| ch.accuse(fault));
        }
        let bitmap = ch.recv_exact(list.len.div_ceil(8))?;
        let marked = values.tags().enumerate().filter(|&(at, _)| bitmap[at / 8] >> (at % 8) & 1 == 1);
        let mut places: Vec<u32> = marked.map(|(_, (_, place))| place).collect();
        places.sort_unstable();
        match places.last() {
            Some(&last) if last as usize >= unit.keys.len() => Err(ch.accuse(answer::NOT_MINE)),
            _ => Ok(places),
        }
    }
}

/// The unit's keys, and random ones up to its public size.
pub(crate) fn padded(unit: &Unit, rng: &mut SessionRng) -> Vec<Digest> {
    let mut keys = Vec::with_capacity(unit.capacity());
    keys.extend_from_slice(&unit.keys);
    keys.resize_with(unit.capacity(), || Digest(rng.bytes()));
    keys
}
