//! What `fuzz/` reaches of this crate's decoders. Nothing that a run uses.

use crate::header::Header;
use crate::manifest::{Limits, Manifest};
use crate::part::{Body, Says};
use crate::tag::first;
use crate::value::seal_text;
use std::path::Path;

/// A manifest as a server sends it.
///
/// # Panics
/// If it is decoded, and is not the one text of what it says.
pub fn manifest(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::decode(bytes, Limits::NONE) {
        assert_eq!(manifest.encode(), bytes);
        let _ = (manifest.tag_bits(), manifest.entries(), manifest.tags(), manifest.bytes());
    }
}

/// A part: its header, and searches in whatever stands behind it.
///
/// # Panics
/// If a search finds a place that is none.
pub fn part(bytes: &[u8]) {
    let Ok(header) = Header::decode(bytes, Path::new("part")) else { return };
    let Some(body) = Body::new(&header, bytes, bytes.len()) else { return };
    for i in 0..64u8 {
        let tag = crate::tag::tag(&[i; 32]);
        for tag in [tag, tag >> (2 * i), u128::from(i)] {
            if let Ok(Says::Entry(place)) = body.says(first(tag, header.tag_bits)) {
                assert!(place < header.entries);
            }
        }
    }
}

/// The same with a right checksum in the header, which no fuzzer guesses.
///
/// # Panics
/// As [`part`].
pub fn resealed_part(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    if let Some(sum) = bytes.get(..96).map(blake3::hash)
        && let Some(place) = bytes.get_mut(96..128)
    {
        place.copy_from_slice(sum.as_bytes());
    }
    part(&bytes);
}

/// A manifest with a right checksum at its end.
///
/// # Panics
/// As [`manifest`].
pub fn resealed_manifest(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    if let Some((text, sum)) = bytes.split_last_chunk_mut::<32>() {
        *sum = *blake3::hash(text).as_bytes();
    }
    manifest(&bytes);
}

/// A value that a server sealed, whatever it says of its own length.
///
/// # Panics
/// If it opens as more than was sealed.
pub fn value(text: &[u8]) {
    let (output, salt, mut sealed) = ([1; 32], [2; 32], text.to_vec());
    seal_text(&output, &salt, &mut sealed, 0).expect("a text of some kilobytes");
    if let Some(value) = crate::open_value(&output, &salt, &sealed) {
        assert!(value.len() < text.len());
    }
    assert!(crate::open_value(&output, &salt, text).is_none());
}
