//! Rijndael with blocks of 256 bits under keys of 256 bits: a permutation of 32-byte strings.
//!
//! Daemen, Rijmen, "AES Proposal: Rijndael", version 2, 1999, sections 4 and 5: eight columns, 14 rounds, rows shifted by 0, 1, 3
//! and 4. FIPS 197 kept only the blocks of four columns. Two blocks of AES side by side are no substitute: their halves would not mix,
//! so half of an output could be chosen without regard to the other half.

use crate::Block;
use crate::backend::{self, Ready, RijndaelKeys};

/// A key, expanded. It is for keys that both parties know, and is not wiped.
pub struct Rijndael256 {
    ready: Ready,
    encrypt: RijndaelKeys,
    decrypt: RijndaelKeys,
}

impl Rijndael256 {
    /// Expands `key`, whose bytes in order are those of the proposal.
    pub fn new(key: &[u8; 32]) -> Self {
        Self::on(Ready::chosen(), key)
    }

    fn on(ready: Ready, key: &[u8; 32]) -> Self {
        let [encrypt, decrypt] = backend::expand_rijndael(key);
        Self { ready, encrypt, decrypt }
    }

    /// Encrypts every state where it stands. The first block of a state holds its first 16 bytes.
    pub fn encrypt_in_place(&self, states: &mut [[Block; 2]]) {
        self.ready.rijndael::<true>(&self.encrypt, states);
    }

    /// Undoes [`Rijndael256::encrypt_in_place`].
    pub fn decrypt_in_place(&self, states: &mut [[Block; 2]]) {
        self.ready.rijndael::<false>(&self.decrypt, states);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{self, SIZES};

    fn bytes(text: &str) -> [u8; 32] {
        std::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex"))
    }

    fn state(text: &str) -> [Block; 2] {
        let bytes = bytes(text);
        [0, 16].map(|at| Block::from_le_bytes(bytes[at..at + 16].try_into().expect("16 bytes")))
    }

    /// From Gladman's vectors for all sizes of blocks and keys, as Bouncy Castle's `RijndaelTest` has them.
    #[test]
    fn a_published_vector() {
        for ready in Ready::all() {
            let key = bytes("2b7e151628aed2a6abf7158809cf4f3c762e7160f38b4da56a784d9045190cfe");
            let plain = state("3243f6a8885a308d313198a2e03707344a4093822299f31d0082efa98ec4e6c8");
            let mut one = [plain];
            let rijndael = Rijndael256::on(ready, &key);
            rijndael.encrypt_in_place(&mut one);
            assert_eq!(one, [state("a49406115dfb30a40418aafa4869b7c6a886ff31602a7dd19c889dc64f7e4e7a")], "{ready:?}");
            rijndael.decrypt_in_place(&mut one);
            assert_eq!(one, [plain], "{ready:?}");
        }
    }

    /// The cipher as the proposal says it, byte by byte.
    fn naive(key: &[u8; 32], state: [Block; 2]) -> [Block; 2] {
        let times = |a: u8, b: u8| (0..8).fold(0, |sum, i| if b >> i & 1 == 1 { sum ^ shifted(a, i) } else { sum });
        let invert = |a: u8| (1..=255).find(|&b| times(a, b) == 1).unwrap_or(0);
        let sub = |a: u8| {
            let b = invert(a);
            [1, 2, 3, 4].iter().fold(b, |sum, &by| sum ^ b.rotate_left(by)) ^ 0x63
        };
        let mut words: Vec<[u8; 4]> = key.as_chunks().0.to_vec();
        let mut rcon = 1;
        for i in 8..120 {
            let mut word = words[i - 1];
            if i % 8 == 0 {
                word.rotate_left(1);
                word = word.map(sub);
                word[0] ^= rcon;
                rcon = times(rcon, 2);
            } else if i % 8 == 4 {
                word = word.map(sub);
            }
            words.push(std::array::from_fn(|row| words[i - 8][row] ^ word[row]));
        }
        let mut columns: [[u8; 4]; 8] = [[0; 4]; 8];
        for (i, byte) in state.iter().flat_map(|half| half.to_le_bytes()).enumerate() {
            columns[i / 4][i % 4] = byte ^ words[i / 4][i % 4];
        }
        for round in 1..=14 {
            let before = columns.map(|column| column.map(sub));
            columns = std::array::from_fn(|column| {
                let shifted: [u8; 4] = std::array::from_fn(|row| before[(column + [0, 1, 3, 4][row]) % 8][row]);
                let mixed = std::array::from_fn(|row| {
                    let factor = |from: usize| [2, 3, 1, 1][(from + 4 - row) % 4];
                    (0..4).fold(0, |sum, from| sum ^ times(shifted[from], factor(from)))
                });
                let column_key = words[8 * round + column];
                let mixed: [u8; 4] = if round == 14 { shifted } else { mixed };
                std::array::from_fn(|row| mixed[row] ^ column_key[row])
            });
        }
        [0, 4].map(|first| {
            let half: Vec<u8> = columns[first..first + 4].concat();
            Block::from_le_bytes(half.try_into().expect("16 bytes"))
        })
    }

    /// a·x^i in GF(2^8).
    fn shifted(a: u8, i: u32) -> u8 {
        (0..i).fold(a, |a, _| a << 1 ^ if a >> 7 == 1 { 0x1b } else { 0 })
    }

    #[test]
    fn every_back_end_is_the_definition_and_its_inverse_undoes_it() {
        let key: [u8; 32] = std::array::from_fn(|i| 7 * i as u8 + 3);
        for n in SIZES.into_iter().filter(|&n| n < 100) {
            let plain: Vec<[Block; 2]> =
                checks::blocks(n, 1).into_iter().zip(checks::blocks(n, 2)).map(|(a, b)| [a, b]).collect();
            let want: Vec<[Block; 2]> = plain.iter().map(|&state| naive(&key, state)).collect();
            for ready in Ready::all() {
                let (rijndael, mut states) = (Rijndael256::on(ready, &key), plain.clone());
                rijndael.encrypt_in_place(&mut states);
                assert_eq!(states, want, "{ready:?}, {n}");
                rijndael.decrypt_in_place(&mut states);
                assert_eq!(states, plain, "{ready:?}, {n}");
            }
        }
    }
}
