//! What a receiver answers, so that the sender learns too, where the function gives a key several values.
//!
//! Which of a key's values matched depends on the receiver's other keys: in KKRT it names the bin that the receiver's table put
//! the key into, and a table has room for a key only where no other is. So the answer must not be about values. It is an
//! ascending list of words of L bits:
//!
//!   the tag of every common key    the first L bits of BLAKE3(key), keyed by the run and the unit
//!   fillers                        the first L bits of BLAKE3(0), BLAKE3(1), … under the same key, up to the public length
//!
//! The list is a function of the intersection, the public sizes and the salt, bit by bit. The sender, which knows all of these
//! once it has found its keys in the list, computes it too and compares. That notices a claim for a key that the sender does not have. It
//! does not notice a common key that was left out, nor a key of the sender's that was guessed: then the two results
//! differ, and the run ends with an error when the parties compare these.
//!
//! An honest answer is misread if a key of the sender's has the tag of another key or of a filler. The list is not longer
//! than the receiver's n keys, so that happens with probability n·m·2^-L at most for the sender's m keys. Two equal words of
//! the list do no harm.

use crate::ordered::Ordered;
use crate::sorted::Sorted;
use vesica_block::Block;
use vesica_block::blake::{self, Message};
use vesica_types::{Digest, UnitId};

/// Messages that are hashed at once.
const HASHED: usize = 128;

/// The answers of one unit.
pub struct Answer {
    key: [u8; 32],
    list: Sorted,
}

impl Answer {
    /// The answers of a unit, in lists of `len` words of `bits` bits.
    pub fn new(session: &[u8; 32], unit: UnitId, len: usize, bits: u32) -> Self {
        let mut hash = blake3::Hasher::new_derive_key("vesica 2026 psi answer");
        hash.update(session).update(&unit.0.to_le_bytes());
        Self { key: *hash.finalize().as_bytes(), list: Sorted { len, bits } }
    }

    /// Bytes of an answer.
    pub fn bytes(&self) -> usize {
        self.list.bytes()
    }

    /// The answer that says that these keys are common; `None` if they are more than the list has room for.
    pub fn write(&self, common: &[Digest]) -> Option<Vec<u8>> {
        let fillers = self.list.len.checked_sub(common.len())? as u64;
        let mut words = Vec::with_capacity(self.list.len);
        self.hash(common.iter().map(|key| key.0), &mut words);
        // A digest has 16 bytes and a counter 8, so no filler is the tag of a key but by chance.
        self.hash((0..fillers).map(u64::to_le_bytes), &mut words);
        words.iter_mut().for_each(|word| word.0 >>= 128 - self.list.bits);
        words.sort_unstable();
        Some(self.list.encode(words.into_iter().map(|word| word.0)))
    }

    /// The places of those of `keys` that an answer names.
    ///
    /// # Errors
    /// The place of the first word of the answer that is out of order.
    pub fn read(&self, keys: &[Digest], answer: &[u8]) -> Result<Vec<u32>, usize> {
        let named = self.list.decode(answer)?;
        let mut tags = Vec::with_capacity(keys.len());
        self.hash(keys.iter().map(|key| key.0), &mut tags);
        Ok(Ordered::new(tags, self.list.bits).common(&named).into_iter().map(|(place, _)| place).collect())
    }

    /// Appends the hashes of the messages, of at most 64 bytes each.
    fn hash<const N: usize>(&self, messages: impl Iterator<Item = [u8; N]>, hashes: &mut Vec<Block>) {
        let messages: Vec<Message> = messages.map(|bytes| Message::new(&bytes).expect("it is short enough")).collect();
        let mut batch = [[0; 32]; HASHED];
        for messages in messages.chunks(HASHED) {
            blake::keyed(&self.key, messages, &mut batch);
            let first = |hash: &[u8; 32]| Block::from_le_bytes(hash.as_chunks().0[0]);
            hashes.extend(batch[..messages.len()].iter().map(first));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_testkit::digests;

    fn answer(unit: u32, len: usize) -> Answer {
        Answer::new(&[9; 32], UnitId(unit), len, 80)
    }

    #[test]
    fn a_reader_finds_the_keys_that_were_named_among_its_own() {
        let keys = digests(0, 300);
        for common in [0, 1, 17, 200] {
            let named = [&keys[..common], &digests(1000, 1020)].concat();
            let answer = answer(0, 220);
            let wire = answer.write(&named).unwrap();
            assert_eq!(wire.len(), answer.bytes());
            let mut found = answer.read(&keys, &wire).unwrap();
            found.sort_unstable();
            assert_eq!(found, (0..common as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn more_keys_than_the_list_has_room_for_are_refused() {
        assert!(answer(0, 20).write(&digests(0, 20)).is_some());
        assert!(answer(0, 20).write(&digests(0, 21)).is_none());
    }

    #[test]
    fn the_order_of_the_keys_does_not_show_and_units_have_other_tags() {
        let mut keys = digests(0, 50);
        let want = answer(0, 60).write(&keys);
        keys.reverse();
        assert_eq!(answer(0, 60).write(&keys), want);
        assert_ne!(answer(1, 60).write(&keys), want);
        assert_eq!(answer(1, 60).read(&keys, &want.unwrap()), Ok(vec![]));
    }

    #[test]
    fn a_list_that_does_not_ascend_is_refused() {
        let answer = answer(0, 20);
        let wire = vec![0xff; answer.bytes()];
        assert!(answer.read(&digests(0, 20), &wire).is_err());
    }
}
