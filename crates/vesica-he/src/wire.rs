//! Words of a few bits each, side by side in bytes.

/// What can be wrong with bytes from the other side.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeError {
    /// A message of another length than its parameters say.
    #[error("{got} bytes where {expected} are due")]
    Length {
        /// How many came.
        got: usize,
        /// How many should have come.
        expected: usize,
    },
    /// A number that is no residue.
    #[error("a coefficient that is not below its modulus {modulus}")]
    Residue {
        /// The modulus.
        modulus: u64,
    },
}

/// How many bytes `count` words of `bits` bits take.
pub fn packed_bytes(count: usize, bits: u32) -> usize {
    (count * bits as usize).div_ceil(8)
}

/// Appends words below 2^`bits`, the first in the lowest bits, and fills the last byte up with zeros. `bits` is at most 56.
pub fn pack(words: &[u64], bits: u32, out: &mut Vec<u8>) {
    assert!(bits <= 56);
    out.reserve(packed_bytes(words.len(), bits) + 8);
    let (mut held, mut have) = (0_u64, 0);
    for &word in words {
        held |= word << have;
        have += bits;
        while have >= 8 {
            out.push(held as u8);
            held >>= 8;
            have -= 8;
        }
    }
    if have > 0 {
        out.push(held as u8);
    }
}

/// `count` words of `bits` bits from the front of `bytes`; bytes that are missing are taken for zeros.
pub fn unpack(bytes: &[u8], bits: u32, count: usize) -> Vec<u64> {
    assert!(bits <= 56);
    let word = |i: usize| {
        let (byte, bit) = (i * bits as usize / 8, i * bits as usize % 8);
        let eight = match bytes.get(byte..byte + 8) {
            Some(eight) => eight.try_into().expect("eight bytes"),
            None => {
                let mut eight = [0; 8];
                let rest = &bytes[byte.min(bytes.len())..];
                eight[..rest.len()].copy_from_slice(rest);
                eight
            }
        };
        (u64::from_le_bytes(eight) >> bit) & ((1 << bits) - 1)
    };
    (0..count).map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        for bits in [1, 7, 8, 12, 16, 20, 21, 24, 26, 50, 56] {
            for count in [0, 1, 3, 64] {
                let words: Vec<u64> = (1..=count).map(|i| (u64::MAX / i) & ((1 << bits) - 1)).collect();
                let mut bytes = vec![];
                pack(&words, bits, &mut bytes);
                assert_eq!(bytes.len(), packed_bytes(words.len(), bits));
                assert_eq!(unpack(&bytes, bits, words.len()), words, "{bits} bits");
            }
        }
        assert_eq!(unpack(&[255], 12, 2), [255, 0]);
    }
}
