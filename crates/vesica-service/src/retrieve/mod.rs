//! Services that retrieve: a client gets the rows that it looks up, and the server does not learn which.
//!
//! The files stand in the order in which a row goes through them. [`make`] turns the server's table into records of one length, and
//! [`change`] changes some of them. [`desk`] serves them, many clients in one [`pass`]. [`copy`] is what a client keeps: a hint, a table, or a window of Piano. [`window`] is the file of such a window, in which
//! every query is written down before it is sent. [`ask`] looks rows up.
//!
//! By `ckks-pir` rows are real numbers, which [`reals`] reads and writes. [`sessions`] bounds what clients' keys take of a server's memory.
//!
//! A state of the records is an *epoch*, which [`epoch::Epoch`] describes. Every question for records names its epoch by a hash. A
//! server that has another one refuses before it computes anything, so a client never decodes an answer of one table with the hint of
//! another.

pub mod ask;
pub mod bench;
pub mod change;
pub mod changes;
pub mod copy;
pub mod desk;
pub mod epoch;
pub mod look;
pub mod make;
pub mod pass;
pub mod reals;
pub mod reveals;
pub mod scheme;
pub mod sessions;
pub mod window;

use crate::offer::Offer;
use vesica_spec::service::{By, Private, ServiceProtocol};

/// How long the body of a slot or a record is: values with their length, sealed where they are and tagged where they are not; or real
/// numbers.
pub fn body_bytes(offer: &Offer) -> usize {
    if offer.protocol == ServiceProtocol::CkksPir {
        return reals::bytes(offer.values.len());
    }
    let sealed = offer.retrieval.is_some_and(|retrieval| retrieval.private == Private::Both);
    match (offer.value_bytes, sealed) {
        (None, _) => 0,
        (Some(bytes), true) => vesica_store::sealed_bytes(bytes),
        (Some(bytes), false) => TAG + LENGTH + bytes as usize,
    }
}

/// How many records a client fetches for one row that it looks up.
pub fn records_a_row(protocol: ServiceProtocol, by: By) -> u64 {
    match (protocol, by) {
        (ServiceProtocol::SimplePir, _) | (_, By::Index) => 1,
        (_, By::Key) => 2,
    }
}

/// Bytes of the length that stands before values that are not sealed.
const LENGTH: usize = 4;

/// Bytes of the tag before it. A record that is not the one that was asked for has the right tag with probability 2^-64.
const TAG: usize = 8;

/// What tells that a body is the one of this key or row number in the epoch of this salt, and is whole. Everybody can compute it: it
/// finds a wrong hint, a wrong table and an answer that was computed wrongly, and not a server that lies. By key such a row looks absent.
pub fn tag(salt: &[u8; 32], digest: &[u8; 32], body: &[u8]) -> [u8; TAG] {
    let mut hasher = blake3::Hasher::new_derive_key("vesica 2026 tag of a row that is not sealed");
    let hash = hasher.update(salt).update(digest).update(body).finalize();
    std::array::from_fn(|i| hash.as_bytes()[i])
}

/// Appends values that are not sealed: their tag, their length, they, and zeros up to `padded` bytes. False if they are longer.
pub fn pad(salt: &[u8; 32], digest: &[u8; 32], value: &[u8], padded: usize, out: &mut Vec<u8>) -> bool {
    let start = out.len() + TAG;
    let end = start + LENGTH + padded;
    out.resize(start, 0);
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(value);
    let fits = out.len() <= end;
    out.resize(end, 0);
    let tag = tag(salt, digest, &out[start..]);
    out[start - TAG..start].copy_from_slice(&tag);
    fits
}

/// The values that [`pad`] wrote for this key or row number in this epoch; none if their tag is another.
pub fn unpad<'a>(salt: &[u8; 32], digest: &[u8; 32], body: &'a [u8]) -> Option<&'a [u8]> {
    let (found, body) = body.split_first_chunk::<TAG>()?;
    if *found != tag(salt, digest, body) {
        return None;
    }
    let (length, rest) = body.split_first_chunk::<LENGTH>()?;
    let (value, zeros) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    zeros.iter().all(|&byte| byte == 0).then_some(value)
}

/// What stands for row `index` in the place of the digest of a key.
pub fn digest_of_index(index: u64) -> [u8; 32] {
    blake3::derive_key("vesica 2026 number of a row", &index.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_padded_and_come_back() {
        let (salt, digest, mut out) = ([1; 32], digest_of_index(7), vec![7]);
        assert!(pad(&salt, &digest, b"abc", 5, &mut out) && out.len() == 18);
        assert_eq!(unpad(&salt, &digest, &out[1..]), Some(&b"abc"[..]));
        assert!(!pad(&salt, &digest, b"abcdef", 5, &mut Vec::new()));
        // Another row, another epoch, a bit, a byte too few.
        assert_eq!(unpad(&salt, &digest_of_index(8), &out[1..]), None);
        assert_eq!(unpad(&[2; 32], &digest, &out[1..]), None);
        assert_eq!(unpad(&salt, &digest, &out[1..17]), None);
        for at in 1..out.len() {
            out[at] ^= 1;
            assert_eq!(unpad(&salt, &digest, &out[1..]), None);
            out[at] ^= 1;
        }
        // A length and zeros that are none, under the right tag.
        for body in [&[9, 0, 0, 0, 1][..], &[0, 0, 0, 0, 1], &[1, 0, 0]] {
            let tagged = [&tag(&salt, &digest, body)[..], body].concat();
            assert_eq!(unpad(&salt, &digest, &tagged), None);
        }
    }
}
