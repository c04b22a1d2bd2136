//! Values, each sealed under a key that only the function's output opens.

use crate::error::{Error, Result};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, MAX_TAG_LEN, NONCE_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

/// Bytes of the length, which stands before a value.
const LENGTH: usize = 4;

/// Bytes of a sealed value, of `padded` bytes: its length, the value, zeros, and the tag of ChaCha20-Poly1305.
pub fn sealed_bytes(padded: u32) -> usize {
    LENGTH + padded as usize + MAX_TAG_LEN
}

/// The key of the value of `output` in a part with this salt.
///
/// A key seals one text: a part holds an output once, and an updated value stands in another part, which has another salt.
/// So the nonce can be zero.
fn key(output: &[u8; 32], salt: &[u8; 32]) -> LessSafeKey {
    let material = Zeroizing::new([*output, *salt]);
    let bytes = Zeroizing::new(blake3::derive_key("vesica 2026 store value", material.as_flattened()));
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &*bytes).expect("a key of 32 bytes"))
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

/// Appends `value`, padded and sealed, to `out`.
///
/// # Errors
/// [`Error::TooLong`] for a value of more than `padded` bytes.
pub fn seal(output: &[u8; 32], salt: &[u8; 32], value: &[u8], padded: u32, out: &mut Vec<u8>) -> Result<()> {
    let length = u32::try_from(value.len()).ok().filter(|&length| length <= padded);
    let length = length.ok_or(Error::TooLong { length: value.len(), most: padded })?;
    let from = out.len();
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(value);
    out.resize(from + LENGTH + padded as usize, 0);
    seal_text(output, salt, out, from)
}

/// Seals what stands in `out` from `from` on, whatever it is.
pub(crate) fn seal_text(output: &[u8; 32], salt: &[u8; 32], out: &mut Vec<u8>, from: usize) -> Result<()> {
    let tag = key(output, salt).seal_in_place_separate_tag(nonce(), Aad::empty(), &mut out[from..]);
    out.extend_from_slice(tag.map_err(|_| Error::Bug("a value cannot be sealed".into()))?.as_ref());
    Ok(())
}

/// The value that was sealed; none if this is not what [`seal`] made for this output and salt.
pub fn open(output: &[u8; 32], salt: &[u8; 32], sealed: &[u8]) -> Option<Vec<u8>> {
    let mut text = Zeroizing::new(sealed.to_vec());
    let padded = key(output, salt).open_in_place(nonce(), Aad::empty(), &mut text).ok()?;
    let (length, value) = padded.split_first_chunk::<LENGTH>()?;
    let (value, padding) = value.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    padding.iter().all(|&byte| byte == 0).then(|| value.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_opens_under_its_output_and_salt_alone() {
        for value in [&b""[..], b"x", b"exactly16bytes!!"] {
            let mut sealed = vec![9];
            seal(&[1; 32], &[2; 32], value, 16, &mut sealed).unwrap();
            assert_eq!(sealed.len(), 1 + sealed_bytes(16));
            let sealed = &sealed[1..];
            assert_eq!(open(&[1; 32], &[2; 32], sealed).unwrap(), value);
            assert!(open(&[3; 32], &[2; 32], sealed).is_none() && open(&[1; 32], &[3; 32], sealed).is_none());
            for place in 0..sealed.len() {
                let mut flipped = sealed.to_vec();
                flipped[place] ^= 1;
                assert!(open(&[1; 32], &[2; 32], &flipped).is_none());
                assert!(open(&[1; 32], &[2; 32], &sealed[..place]).is_none());
            }
        }
        let error = seal(&[1; 32], &[2; 32], &[0; 17], 16, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("17 bytes") && error.to_string().contains("to 16"), "{error}");
    }

    /// A server that knows the output may seal a text of its own making.
    #[test]
    fn a_length_that_lies_gives_no_value() {
        for text in [&[17, 0, 0, 0][..], &[255; 4], &[1, 0, 0, 0, 5, 6]] {
            let mut sealed = text.to_vec();
            sealed.resize(20, 0);
            seal_text(&[1; 32], &[2; 32], &mut sealed, 0).unwrap();
            assert!(open(&[1; 32], &[2; 32], &sealed).is_none());
        }
    }
}
