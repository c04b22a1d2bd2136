//! Words of a few bits each, one behind the other, as bytes: the lowest bit of the first word is the lowest of the first byte.

/// Bytes that so many words take. The last byte is filled up with zeros.
pub fn bytes(count: usize, bits: u32) -> usize {
    (count as u64 * u64::from(bits)).div_ceil(8) as usize
}

/// Appends the low `bits` bits of each word.
///
/// # Panics
/// If `bits` is not 1 to 32.
pub fn pack(words: impl IntoIterator<Item = u32>, bits: u32, out: &mut Vec<u8>) {
    assert!((1..=32).contains(&bits));
    let (mut held, mut filled) = (0u64, 0);
    for word in words {
        held |= (u64::from(word) & ((1 << bits) - 1)) << filled;
        filled += bits;
        if filled >= 32 {
            out.extend_from_slice(&(held as u32).to_le_bytes());
            held >>= 32;
            filled -= 32;
        }
    }
    out.extend_from_slice(&held.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// `count` words of `bits` bits each. What stands behind them is not read.
///
/// # Panics
/// If `bits` is not 1 to 32, or `packed` is shorter than [`bytes`] says.
pub fn unpack(packed: &[u8], count: usize, bits: u32) -> impl Iterator<Item = u32> {
    assert!((1..=32).contains(&bits) && packed.len() >= bytes(count, bits));
    let (mut held, mut filled) = (0u64, 0);
    let mut packed = packed.chunks(4);
    (0..count).map(move |_| {
        if filled < bits {
            let mut next = [0; 4];
            let part = packed.next().expect("the length was checked");
            next[..part.len()].copy_from_slice(part);
            held |= u64::from(u32::from_le_bytes(next)) << filled;
            filled += 32;
        }
        let word = held & ((1 << bits) - 1);
        held >>= bits;
        filled -= bits;
        word as u32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_at_every_width() {
        for bits in 1..=32 {
            for count in [0, 1, 7, 64, 65] {
                let words: Vec<u32> = (0..count as u32).map(|i| i.wrapping_mul(2_654_435_761) >> (32 - bits)).collect();
                let mut packed = vec![9];
                pack(words.iter().copied(), bits, &mut packed);
                assert_eq!(packed.len(), 1 + bytes(count, bits));
                assert_eq!(unpack(&packed[1..], count, bits).collect::<Vec<_>>(), words, "{count} of {bits} bits");
            }
        }
    }

    #[test]
    fn bits_stand_in_order() {
        let mut packed = Vec::new();
        pack([0x5, 0xfff3, 0x1], 3, &mut packed);
        assert_eq!(packed, [0b0101_1101, 0]);
    }
}
