//! What a client compares: the first bits of a hash of the function's output.

/// The tag of `output` with all 128 bits that one can have. A store keeps the first of them (see [`first`]).
pub(crate) fn tag(output: &[u8; 32]) -> u128 {
    let hash = blake3::derive_key("vesica 2026 store tag", output);
    u128::from_be_bytes(*hash.first_chunk().expect("a hash has 32 bytes"))
}

/// The first `bits` bits of a tag, from 1 to 128, as a number. It keeps the order of tags.
pub(crate) fn first(tag: u128, bits: u32) -> u128 {
    tag >> (128 - bits)
}
