//! Six words that two people compare by telephone, so that nobody stands between their machines unseen.
//!
//! The words are 66 bits of a hash of both certificates' fingerprints, of what the parties agree on, and of a fresh number of each
//! side. Whoever replaces a certificate on its way makes the words differ, unless they find another one with the same words.
//! The numbers are fresh, so that search cannot begin before the invitation is sent; and each try costs [`ROUNDS`] rounds of
//! HMAC, so that 2^66 tries cost about 2^85 compressions of SHA-256.
//!
//! The list is the English one of BIP-39: 2048 words that differ in their first four letters.

use std::num::NonZeroU32;
use std::sync::LazyLock;

/// How many there are.
pub(crate) const WORDS: usize = 6;

/// Rounds of PBKDF2-HMAC-SHA-256 (RFC 8018, section 5.2): about a tenth of a second.
const ROUNDS: NonZeroU32 = NonZeroU32::new(1 << 18).unwrap();

/// Bits that a word says: there are 2^11.
const BITS: usize = 11;

static LIST: LazyLock<Vec<&str>> = LazyLock::new(|| include_str!("words.txt").lines().collect());

/// The words of `what`.
pub(crate) fn words(what: &[u8]) -> [&'static str; WORDS] {
    let mut hash = [0; 16];
    let out = &mut hash[..(WORDS * BITS).div_ceil(8)];
    ring::pbkdf2::derive(ring::pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, b"vesica 2026 six words", what, out);
    let hash = u128::from_be_bytes(hash);
    std::array::from_fn(|i| LIST[(hash >> (128 - BITS * (i + 1))) as usize % LIST.len()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_list_has_2048_words_that_four_letters_tell_apart() {
        assert_eq!(LIST.len(), 1 << BITS);
        let begins: BTreeSet<&str> = LIST.iter().map(|word| &word[..word.len().min(4)]).collect();
        assert_eq!(begins.len(), LIST.len());
    }

    /// PBKDF2-HMAC-SHA-256 of "x" with the salt and the rounds above, computed by Python's hashlib: its first 66 bits are these
    /// places in the list.
    #[test]
    fn the_words_are_those_of_an_independent_computation() {
        let places = [147, 1868, 24, 1002, 111, 649];
        assert_eq!(words(b"x"), places.map(|place: usize| LIST[place]));
        assert_ne!(words(b"x"), words(b"y"));
    }
}
