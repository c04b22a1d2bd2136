//! What a client compares: the first bits of a hash of the function's output.

use blake3::hazmat::{ContextKey, HasherExt, hash_derive_key_context};
use std::sync::LazyLock;

/// What the hash is derived for, hashed once.
static CONTEXT: LazyLock<ContextKey> = LazyLock::new(|| hash_derive_key_context("vesica 2026 store tag"));

/// The tag of `output` with all 128 bits that one can have. A store keeps the first of them (see [`first`]).
pub(crate) fn tag(output: &[u8; 32]) -> u128 {
    let hash = blake3::Hasher::new_from_context_key(&CONTEXT).update(output).finalize();
    u128::from_be_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}

/// The first `bits` bits of a tag, from 1 to 128, as a number. It keeps the order of tags.
pub(crate) fn first(tag: u128, bits: u32) -> u128 {
    tag >> (128 - bits)
}

/// The head of an output's tag: its first 64 bits, which tell most tags apart without hashing the output again.
pub fn head(output: &[u8; 32]) -> u64 {
    (tag(output) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_tag_is_the_derived_key_of_its_context() {
        let hash = blake3::derive_key("vesica 2026 store tag", &output(7));
        assert_eq!(tag(&output(7)).to_be_bytes(), hash[..16]);
    }

    fn output(i: u64) -> [u8; 32] {
        *blake3::hash(&i.to_le_bytes()).as_bytes()
    }

    /// Tags that are far too short: n of b bits are met by a key that is not there with probability n/2^b.
    #[test]
    fn false_matches_are_as_frequent_as_the_bound_says() {
        let (n, asked) = (4096, 400_000);
        for bits in [18, 20, 22] {
            let tags: BTreeSet<u128> = (0..n).map(|i| first(tag(&output(i)), bits)).collect();
            let file = tempfile::NamedTempFile::new().unwrap();
            let code = crate::elias_fano::Code::new(tags.len() as u64, bits);
            let mut encoder = crate::elias_fano::Encoder::new(code, file.as_file(), file.path(), 0);
            tags.iter().for_each(|&tag| encoder.push(tag).unwrap());
            encoder.finish().unwrap();
            let bytes = std::fs::read(file.path()).unwrap();
            let view = crate::elias_fano::View::new(code, &bytes[..], 0..bytes.len() as u64).unwrap();
            let is_false = |i: &u64| view.find(first(tag(&output(n + i)), bits)).unwrap().is_some();
            let false_matches = (0..asked).filter(is_false).count() as f64;
            let expected = asked as f64 * tags.len() as f64 / 2f64.powi(bits as i32);
            // Five standard deviations of a binomial count: a tag of one bit less or more is 10 of them away, and more.
            assert!(
                (false_matches - expected).abs() < 5.0 * expected.sqrt(),
                "{bits}: {false_matches}, not {expected}"
            );
        }
    }
}
