//! Words of a few bits each, one behind the other, as bytes: the lowest bit of the first word is the lowest of the first byte.

/// Bytes that so many words take. The last byte is filled up with zeros.
pub fn packed_bytes(count: usize, bits: u32) -> usize {
    (count as u64 * u64::from(bits)).div_ceil(8) as usize
}

/// Appends the low `bits` bits of each word.
///
/// # Panics
/// If `bits` is not 1 to 64.
pub fn pack<W: Into<u64>>(words: impl IntoIterator<Item = W>, bits: u32, out: &mut Vec<u8>) {
    assert!((1..=64).contains(&bits));
    let (mut held, mut filled) = (0u128, 0);
    for word in words {
        held |= (u128::from(word.into()) & mask(bits)) << filled;
        filled += bits;
        if filled >= 64 {
            out.extend_from_slice(&(held as u64).to_le_bytes());
            held >>= 64;
            filled -= 64;
        }
    }
    out.extend_from_slice(&held.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// `count` words of `bits` bits each from the front of `packed`; bytes that are missing are taken for zeros.
///
/// # Panics
/// If `bits` is not 1 to 64.
pub fn unpack(packed: &[u8], bits: u32, count: usize) -> impl Iterator<Item = u64> {
    assert!((1..=64).contains(&bits));
    (0..count).map(move |i| {
        let (at, shift) = (i * bits as usize / 8, i * bits as usize % 8);
        // A word and the bits before it in its first byte are in nine bytes.
        let bytes = match packed.get(at..at + 16) {
            Some(bytes) => bytes.try_into().expect("sixteen bytes"),
            None => {
                let (mut bytes, left) = ([0; 16], packed.get(at..).unwrap_or_default());
                bytes[..left.len()].copy_from_slice(left);
                bytes
            }
        };
        (u128::from_le_bytes(bytes) >> shift & mask(bits)) as u64
    })
}

fn mask(bits: u32) -> u128 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_at_every_width() {
        for bits in 1..=64 {
            for count in [0, 1, 3, 7, 64, 65] {
                let word = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits);
                let words: Vec<u64> = (1..=count).map(word).collect();
                let mut packed = vec![9];
                pack(words.iter().copied(), bits, &mut packed);
                assert_eq!(packed.len(), 1 + packed_bytes(words.len(), bits));
                let back: Vec<u64> = unpack(&packed[1..], bits, words.len()).collect();
                assert_eq!(back, words, "{count} of {bits} bits");
            }
        }
    }

    #[test]
    fn bits_stand_in_order() {
        let mut packed = Vec::new();
        pack([0x5u32, 0xfff3, 0x1], 3, &mut packed);
        assert_eq!(packed, [0b0101_1101, 0]);
        assert_eq!(unpack(&[255], 12, 2).collect::<Vec<_>>(), [255, 0]);
    }
}
