//! What a receiver answers, so that the sender learns too, where the function gives a key several values.
//!
//! Which of a key's values matched depends on the receiver's other keys: in KKRT it names the bin that the receiver's table put
//! the key into, and a table has room for a key only where no other is. So the answer must not be about values. It is an
//! ascending list of words of L bits:
//!
//!   the tag of every common key    the first L bits of its digest, which is a hash under the run's salt
//!   fillers                        words of L ones, up to the public length
//!
//! The list is a function of the intersection, the public sizes and the salt, bit by bit. The sender looks its own keys up in it, and
//! refuses a list that names any other. It does not notice a common key that was left out, nor a key of its own that was
//! guessed: then the two results differ, and the run ends with an error when the parties compare these.
//!
//! An honest answer is misread if a key of the sender's has the tag of another key that is named, or is all ones where there are
//! fillers. These are no more words than the receiver has keys, so that happens with probability n·m·2^-L at most in a job of n keys of
//! the receiver's and m of the sender's.

use crate::sorted::Sorted;
use vesica_session::Misbehaviour;
use vesica_types::Digest;

/// The answer in `list` that these keys are common, which ascend; `None` if they are more than it has room for.
pub fn write(list: Sorted, common: impl ExactSizeIterator<Item = Digest>) -> Option<Vec<u8>> {
    let fillers = list.len.checked_sub(common.len())?;
    let mut words: Vec<u128> = common.map(|key| tag(list, key)).collect();
    words.resize(words.len() + fillers, filler(list));
    Some(list.encode(words.into_iter()))
}

/// The places of those of `keys`, which ascend, that an answer in `list` names.
///
/// # Errors
/// What is wrong with the answer.
///
/// # Panics
/// If it is not as long as the list.
pub fn read(list: Sorted, keys: &[Digest], answer: &[u8]) -> Result<Vec<u32>, Misbehaviour> {
    let named = list.decode(answer).map_err(|index| Misbehaviour::Order { index })?;
    let mut own = keys.iter().map(|&key| tag(list, key)).zip(0..).peekable();
    let mut places = Vec::new();
    for word in named {
        while own.next_if(|&(tag, _)| tag < word).is_some() {}
        match own.next_if(|&(tag, _)| tag == word) {
            Some((_, place)) => places.push(place),
            None if word == filler(list) => {}
            None => return Err(NOT_MINE),
        }
    }
    Ok(places)
}

/// What the sender says of an answer that names what it does not hold.
pub const NOT_MINE: Misbehaviour =
    Misbehaviour::Contradiction("it names a common key that is none of this side's keys");

/// Digests compare as these numbers do.
fn tag(list: Sorted, key: Digest) -> u128 {
    u128::from_be_bytes(key.0) >> (128 - list.bits)
}

fn filler(list: Sorted) -> u128 {
    u128::MAX >> (128 - list.bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_testkit::digests;

    fn list(len: usize) -> Sorted {
        Sorted { len, bits: 80 }
    }

    #[test]
    fn a_reader_finds_those_of_its_keys_that_were_named() {
        let keys = digests(0, 300);
        for every in [1, 2, 7, 300] {
            let named: Vec<Digest> = keys.iter().step_by(every).copied().collect();
            for len in [named.len(), named.len() + 1, 400] {
                let answer = write(list(len), named.iter().copied()).unwrap();
                assert_eq!(answer.len(), list(len).bytes());
                let want: Vec<u32> = (0..300).step_by(every).collect();
                assert_eq!(read(list(len), &keys, &answer), Ok(want));
            }
        }
    }

    #[test]
    fn more_keys_than_the_list_has_room_for_are_refused() {
        assert!(write(list(20), digests(0, 20).into_iter()).is_some());
        assert!(write(list(20), digests(0, 21).into_iter()).is_none());
    }

    #[test]
    fn a_list_that_names_another_key_or_one_twice_or_does_not_ascend_is_refused() {
        let keys = digests(0, 20);
        let other = write(list(20), digests(19, 21).into_iter()).unwrap();
        assert_eq!(read(list(20), &keys, &other), Err(NOT_MINE));
        let twice = write(list(20), [keys[3], keys[3]].into_iter()).unwrap();
        assert_eq!(read(list(20), &keys, &twice), Err(NOT_MINE));
        let disorder = vec![0xff; list(20).bytes()];
        assert!(matches!(read(list(20), &keys, &disorder), Err(Misbehaviour::Order { .. })));
    }
}
