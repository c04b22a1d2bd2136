//! Whether two parties found the same, told to both and nothing else told.
//!
//! Each holds a digest of what it found. To send it would be to tell it: a party that spoiled the other's result, so that it
//! holds one key of the other's, could search for that key offline. So this is an intersection of one key a side, by
//! [`Ecdh`](crate::Ecdh) on ristretto255: a party that does not hold the digest has one guess at it.

use crate::ecdh::{Ecdh, Params};
use vesica_curve::Ristretto255;
use vesica_session::{Channel, Lines, Misbehaviour, Protocol, Result, SessionRng, Shares, Unit};
use vesica_types::{Digest, TagLen, UnitId};

/// Whether the peer holds this digest too. Both call it, with the same `session`, which names the run, the two parties and what they
/// compare: what is said in one comparison is of no use in another. One that is made again after a break has the same name and
/// draws its scalar and opening anew.
///
/// # Errors
/// Those of the channel; the peer's if it breaks the protocol.
pub fn same(digest: &[u8; 32], session: [u8; 32], place: u8, lines: &mut Lines, rng: &mut SessionRng) -> Result<bool> {
    let tag_len = TagLen::new(16).expect("tags of 16 bytes");
    let protocol = Ecdh::<Ristretto255>::open(&Params { session, tag_len, place }, rng);
    let mut key = [0; Digest::BYTES];
    key.copy_from_slice(&digest[..Digest::BYTES]);
    let places = 1 + usize::from(place.max(lines.peer()?.peer().place()));
    let unit = Unit { id: UnitId(0), keys: vec![Digest(key)], place, capacities: vec![1; places] };
    Ok(!protocol.unit(&unit, lines, rng)?.is_empty())
}

/// Sees that what the units left is of one attempt, on this side and on the peer's.
///
/// # Errors
/// The peer's, if its shares are of another attempt.
pub(crate) fn of_one_attempt(shares: &[Shares], ch: &mut dyn Channel) -> Result<()> {
    let mut names = blake3::Hasher::new_derive_key("vesica 2026 shares of one attempt");
    for shares in shares {
        names.update(&shares.unit.0.to_le_bytes()).update(&shares.attempt);
    }
    let names = names.finalize();
    match ch.swap_exact(names.as_bytes(), 32)? == names.as_bytes() {
        true => Ok(()),
        false => Err(ch.accuse(Misbehaviour::Contradiction(
            "what it keeps of the units is of another attempt than what this side keeps, or a message was changed on its way",
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_testkit::two;

    #[test]
    fn both_hear_whether_they_hold_the_same() {
        for (mine, theirs) in [([1; 32], [1; 32]), ([1; 32], [2; 32])] {
            let (a, b) = two(
                |lines, rng| same(&mine, [7; 32], 0, lines, rng).unwrap(),
                |lines, rng| same(&theirs, [7; 32], 1, lines, rng).unwrap(),
            );
            assert_eq!([a, b], [mine == theirs; 2]);
        }
    }
}
