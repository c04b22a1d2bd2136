//! Rows of real numbers, for `ckks-pir`: eight bytes each (`f64`), behind two numbers that are the row's tag.
//!
//! What comes back is off by some 10^-9, so a tag cannot be compared byte for byte. It is two numbers of 24 bits each, as far apart as
//! 2^-16 lets them be, and a number that comes back within 10^-6 of its place is the one. Another row's tag is there with probability 2^-48,
//! and what no key decrypts looks like one with probability 2^-54. Nothing says that the numbers behind the tag are right, but whatever
//! goes wrong in an answer of CKKS changes all of its numbers.

use vesica_pir::rlwe::{LARGEST_REAL, OFF};

/// Numbers of a tag.
const TAG: usize = 2;

/// How near a tag's number must be to its place. An honest answer is off by at most [`OFF`].
const NEAR: f64 = 1e-6;

/// Digits behind the point of what is written: what was read is at most half of the last one away.
const DECIMALS: usize = 7;

/// Bytes of a row of `columns` numbers.
pub fn bytes(columns: usize) -> usize {
    8 * (TAG + columns)
}

/// The tag of a row: 48 bits of a hash, as numbers from -128 in steps of 2^-16.
fn tag(salt: &[u8; 32], digest: &[u8; 32]) -> [f64; TAG] {
    let mut hasher = blake3::Hasher::new_derive_key("vesica 2026 tag of a row of real numbers");
    let hash = hasher.update(salt).update(digest).finalize();
    std::array::from_fn(|at| {
        let bits = hash.as_bytes()[3 * at..3 * at + 3].iter().fold(0, |bits, &byte| bits << 8 | u32::from(byte));
        f64::from(bits) / 65536.0 - LARGEST_REAL
    })
}

/// Appends the row with this digest in the epoch of this salt.
///
/// # Errors
/// The column whose text is no number from -128 to 128.
pub fn encode<'a>(
    salt: &[u8; 32],
    digest: &[u8; 32],
    texts: impl Iterator<Item = Option<&'a str>>,
    out: &mut Vec<u8>,
) -> Result<(), usize> {
    out.extend(tag(salt, digest).into_iter().flat_map(f64::to_le_bytes));
    for (column, text) in texts.enumerate() {
        let number = text.and_then(|text| text.trim().parse::<f64>().ok());
        // A number that is none is within no bounds.
        let number = number.filter(|number| number.abs() <= LARGEST_REAL).ok_or(column)?;
        out.extend(number.to_le_bytes());
    }
    Ok(())
}

/// The numbers of a row as texts, rounded to seven decimals; none if these are not those of this row in this epoch.
pub fn decode(salt: &[u8; 32], digest: &[u8; 32], body: &[u8], columns: usize) -> Option<Vec<Option<String>>> {
    if body.len() != bytes(columns) {
        return None;
    }
    let number = |eight: &[u8]| f64::from_le_bytes(std::array::from_fn(|i| eight[i]));
    let (found, row) = body.split_at(8 * TAG);
    let near = |(found, place): (&[u8], f64)| (number(found) - place).abs() < NEAR;
    let within = |eight: &[u8]| number(eight).abs() <= LARGEST_REAL + OFF;
    if !found.chunks_exact(8).zip(tag(salt, digest)).all(near) || !row.chunks_exact(8).all(within) {
        return None;
    }
    Some(row.chunks_exact(8).map(|eight| Some(text(number(eight)))).collect())
}

/// A number with seven decimals, without the zeros at its end.
fn text(number: f64) -> String {
    let text = format!("{number:.DECIMALS$}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::digest_of_index;

    const SALT: [u8; 32] = [3; 32];

    fn row(texts: &[&str], off: f64) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&SALT, &digest_of_index(5), texts.iter().copied().map(Some), &mut out).unwrap();
        let moved = |eight: &[u8]| f64::from_le_bytes(eight.try_into().unwrap()) + off;
        out.chunks_exact(8).flat_map(|eight| moved(eight).to_le_bytes()).collect()
    }

    #[test]
    fn numbers_of_seven_decimals_come_back_as_they_were() {
        let texts = ["0", "-128", "128", "1.5", "-0.0000001", "99.1234567"];
        for off in [0.0, 0.9 * OFF, -0.9 * OFF] {
            let came = decode(&SALT, &digest_of_index(5), &row(&texts, off), texts.len()).unwrap();
            assert_eq!(came.iter().map(|text| text.as_deref().unwrap()).collect::<Vec<_>>(), texts, "{off}");
        }
        // Other spellings of a number are read, and written in one way.
        let came = decode(&SALT, &digest_of_index(5), &row(&[" 1e1 ", "-0", "+2.50"], 0.0), 3).unwrap();
        assert_eq!(came.into_iter().flatten().collect::<Vec<_>>(), ["10", "0", "2.5"]);
    }

    #[test]
    fn another_row_epoch_or_garbage_is_told_by_the_tag() {
        let body = row(&["1", "2"], 0.0);
        assert!(decode(&SALT, &digest_of_index(5), &body, 2).is_some());
        assert!(decode(&SALT, &digest_of_index(6), &body, 2).is_none());
        assert!(decode(&[4; 32], &digest_of_index(5), &body, 2).is_none());
        assert!(decode(&SALT, &digest_of_index(5), &body, 1).is_none());
        assert!(decode(&SALT, &digest_of_index(5), &row(&["1", "2"], 2.0 * NEAR), 2).is_none());
        for garbage in [0, 255, 127] {
            assert!(decode(&SALT, &digest_of_index(5), &vec![garbage; body.len()], 2).is_none());
        }
        // A number that no row holds, behind the right tag.
        let mut wrong = body;
        wrong[16..24].copy_from_slice(&129_f64.to_le_bytes());
        assert!(decode(&SALT, &digest_of_index(5), &wrong, 2).is_none());
    }

    #[test]
    fn what_is_no_number_is_named_by_its_column() {
        for bad in [Some("x"), Some(""), None, Some("128.1"), Some("-1e9"), Some("NaN"), Some("inf")] {
            let came = encode(&SALT, &[0; 32], [Some("1"), bad].into_iter(), &mut Vec::new());
            assert_eq!(came, Err(1), "{bad:?}");
        }
    }
}
