/// A join key as the protocols see it: 16 bytes of a salted hash of the key's encoding.
///
/// 128 bits suffice against a semi-honest peer: two different keys among 2^30 + 2^30 collide with probability 2^-67.
/// Equality of digests is equality of keys; nothing else about a key survives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Digest(pub [u8; Digest::BYTES]);

impl Digest {
    /// Length in bytes.
    pub const BYTES: usize = 16;
}

/// Digests stand for people's identifiers, so they do not print.
impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digest(..)")
    }
}

/// A join key where nobody tosses a salt: 32 bytes of a hash of the key's encoding.
///
/// Who knows the hash can look for two keys with one digest before anything runs, which takes 2^(4·BYTES) work: 2^64 for a
/// [`Digest`], 2^128 for this.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyDigest(pub [u8; KeyDigest::BYTES]);

impl KeyDigest {
    /// Length in bytes.
    pub const BYTES: usize = 32;
}

impl std::fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyDigest(..)")
    }
}
