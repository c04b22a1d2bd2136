//! PSI by salted hashes: the simple baseline. **It does not hide guessable keys**, and is here to measure what privacy costs.
//!
//! [PSZ14] Pinkas, Schneider, Zohner, "Faster private set intersection based on OT extension", USENIX Security 2014, section 3.1 ("the
//! naive solution"); no security against a party that can guess keys.
//!
//!   X, Y   my keys and the peer's, padded with dummies   xs      T      keyed hash of a key, L bits, sorted   mine, theirs
//!
//! Reveals: guessable_keys to whoever gets a list; key_count to everyone, intersection to the learners.   Rounds: 1/2.
//! Bytes: about L - log2 n + 2 bits for each of the sender's n keys; both ways if both learn, else to the learner.
//! Differs from the paper: the lists travel sorted and padded, so a place says nothing and the length follows from the key counts.

use crate::ordered::Ordered;
use crate::sorted::Sorted;
use vesica_block::Block;
use vesica_session::{Lines, Misbehaviour, Protocol, Result, SessionRng, Unit};
use vesica_types::{Digest, TagLen, UnitId};

/// One party's side of a job.
pub struct Hash {
    params: Params,
    key: [u8; 32],
}

/// What the parties agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Names the run: the parties' jointly tossed salt.
    pub session: [u8; 32],
    /// L.
    pub tag_len: TagLen,
    /// Whether this party learns.
    pub i_learn: bool,
    /// Whether the peer learns.
    pub peer_learns: bool,
}

impl Hash {
    /// Opens a side: there is nothing secret to draw.
    pub fn open(params: Params) -> Self {
        Self { key: blake3::derive_key("vesica 2026 hash tag", &params.session), params }
    }

    /// T of these keys, in order.
    fn tags(&self, unit: UnitId, keys: &[Digest]) -> Ordered {
        let key = blake3::keyed_hash(&self.key, &unit.0.to_le_bytes());
        let tag =
            |x: &Digest| Block::from_le_bytes(blake3::keyed_hash(key.as_bytes(), &x.0).as_bytes().as_chunks().0[0]);
        Ordered::new(keys.iter().map(tag).collect(), self.bits())
    }

    /// L.
    fn bits(&self) -> u32 {
        self.params.tag_len.bytes() as u32 * 8
    }
}

impl Protocol for Hash {
    fn unit(&self, unit: &Unit, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let ch = lines.peer()?;

        // 1. T(X), with dummies up to the public size.
        ch.step("hash");
        let mut xs = unit.keys.clone();
        xs.resize_with(unit.capacity(), || Digest(rng.bytes()));
        let mine = self.tags(unit.id, &xs);

        // 2. -> T(X), if the peer learns;  <- T(Y), if I do.
        ch.step("compare");
        if self.params.peer_learns {
            let list = Sorted { len: unit.capacity(), bits: self.bits() };
            ch.send(&list.encode(mine.tags().map(|(tag, _)| tag)))?;
        }
        if !self.params.i_learn {
            return Ok(Vec::new());
        }
        let list = Sorted { len: unit.capacity_of(ch.peer()), bits: self.bits() };
        let wire = ch.recv_exact(list.bytes())?;
        let theirs = list.decode(&wire).map_err(|index| ch.accuse(Misbehaviour::Order { index }))?;

        // 3. Output { x : T(x) in T(Y) }.
        let common = mine.common(&theirs).into_iter().map(|(place, _)| place);
        Ok(common.filter(|&place| (place as usize) < unit.keys.len()).collect())
    }
}
