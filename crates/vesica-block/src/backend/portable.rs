//! One block at a time in plain Rust: the specification of the others.

use super::{Clmul, Lanes, Words};
use crate::Block;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};

/// One block.
#[derive(Clone, Copy)]
pub(super) struct B128x1(u128);

const LOW: u128 = u64::MAX as u128;

/// Of each 64-bit half, the bits that are left after a shift by `bits` towards the high end.
fn kept(bits: u32) -> u128 {
    let half = u128::from(u64::MAX << bits);
    half << 64 | half
}

impl Words for u32 {
    const WIDTH: usize = 1;

    #[inline(always)]
    fn splat(word: u32) -> Self {
        word
    }
    #[inline(always)]
    fn load(words: &[u32; 16]) -> Self {
        words[0]
    }
    #[inline(always)]
    fn store(self, words: &mut [u32; 16]) {
        words[0] = self;
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }
    #[inline(always)]
    fn rotate_right<const BITS: i32, const REST: i32>(self) -> Self {
        self.rotate_right(BITS as u32)
    }
}

impl Lanes for B128x1 {
    const WIDTH: usize = 1;
    const ZERO: Self = Self(0);

    #[inline(always)]
    fn splat(block: Block) -> Self {
        Self(block.0)
    }
    #[inline(always)]
    fn load(blocks: &[Block]) -> Self {
        Self(blocks[0].0)
    }
    #[inline(always)]
    fn store(self, blocks: &mut [Block]) {
        blocks[0] = Block(self.0);
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    #[inline(always)]
    fn shl(self, bits: u32) -> Self {
        Self(self.0 << bits & kept(bits))
    }
    #[inline(always)]
    fn shr(self, bits: u32) -> Self {
        Self((self.0 & kept(bits)) >> bits)
    }
    #[inline(always)]
    fn load_words(words: &[u64]) -> Self {
        Self(u128::from(words[0]) | u128::from(words.get(1).copied().unwrap_or_default()) << 64)
    }
    #[inline(always)]
    fn keep(self, bits: u64) -> Self {
        let mask = |bit: u64| u128::from((bit & 1).wrapping_neg());
        Self(self.0 & (mask(bits) | mask(bits >> 1) << 64))
    }
    #[inline(always)]
    fn low_halves(self, other: Self) -> Self {
        Self(self.0 & LOW | other.0 << 64)
    }
    #[inline(always)]
    fn high_halves(self, other: Self) -> Self {
        Self(self.0 >> 64 | other.0 & !LOW)
    }
}

impl Clmul for B128x1 {
    #[inline(always)]
    fn load_low(words: &[u64]) -> Self {
        Self(u128::from(words[0]))
    }
    #[inline(always)]
    fn clmul_ll(self, other: Self) -> Self {
        Self(clmul(self.0 as u64, other.0 as u64))
    }
    #[inline(always)]
    fn clmul_lh(self, other: Self) -> Self {
        Self(clmul(self.0 as u64, (other.0 >> 64) as u64))
    }
    #[inline(always)]
    fn clmul_hh(self, other: Self) -> Self {
        Self(clmul((self.0 >> 64) as u64, (other.0 >> 64) as u64))
    }
}

/// Every fifth bit, from bit 0.
const FIFTHS: u128 = {
    let (mut mask, mut bit) = (0, 0);
    while bit < 128 {
        mask |= 1 << bit;
        bit += 5;
    }
    mask
};

/// The product of two polynomials over GF(2), by integer products: constant time wherever the CPU's multiplier is.
///
/// With only every fifth bit set in both factors, each column of the integer product sums at most 13 bits, so its carry stays
/// in the four empty columns above it, and its lowest bit is the sum over GF(2) (Pornin's BearSSL does it with every
/// fourth, on halves).
#[inline(always)]
fn clmul(a: u64, b: u64) -> u128 {
    let mut out = 0;
    for k in 0..5 {
        let mut column = 0;
        for i in 0..5 {
            let j = (k + 5 - i) % 5;
            let part = |x: u64, from: u32| u128::from(x & (FIFTHS << from) as u64);
            column ^= part(a, i) * part(b, j);
        }
        out ^= column & FIFTHS << k;
    }
    out
}

/// AES-128 by the `aes` crate: the instructions of the CPU where the crate knows them, else bit-sliced without tables.
pub(crate) struct Aes(aes::Aes128);

impl Aes {
    pub(super) fn new(key: Block) -> Self {
        Self(aes::Aes128::new(&Array(key.to_le_bytes())))
    }

    pub(super) fn encrypt(&self, blocks: &mut [Block]) {
        for blocks in blocks.chunks_mut(32) {
            let mut bytes = [Array([0; 16]); 32];
            let bytes = &mut bytes[..blocks.len()];
            for (bytes, block) in bytes.iter_mut().zip(blocks.iter()) {
                bytes.0 = block.to_le_bytes();
            }
            self.0.encrypt_blocks(bytes);
            for (block, bytes) in blocks.iter_mut().zip(bytes) {
                *block = Block::from_le_bytes(bytes.0);
            }
        }
    }
}
