use std::ops::{BitAnd, BitAndAssign, BitXor, BitXorAssign};
use vesica_types::Digest;
use zeroize::DefaultIsZeroes;

/// 128 bits: a string of 16 bytes (the first is the least significant), a vector over GF(2) (bit 0 first), or an element
/// of GF(2^128) (bit i stands for x^i).
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Block(pub u128);

impl Block {
    /// No bit set.
    pub const ZERO: Block = Block(0);
    /// The one of GF(2^128): bit 0 set.
    pub const ONE: Block = Block(1);
    /// Length in bytes.
    pub const BYTES: usize = 16;

    /// The block of these bytes, the first the least significant.
    pub fn from_le_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    /// The bytes, the least significant first.
    pub fn to_le_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// The block whose low and high halves are these.
    pub fn from_halves(low: u64, high: u64) -> Self {
        Self(u128::from(low) | u128::from(high) << 64)
    }

    /// Bits 0 to 63.
    pub fn low(self) -> u64 {
        self.0 as u64
    }

    /// Bits 64 to 127.
    pub fn high(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// All ones if `bit`, else zero, without a branch: `x & Block::mask(bit)` is x or nothing.
    pub fn mask(bit: bool) -> Self {
        Self(u128::from(std::hint::black_box(bit)).wrapping_neg())
    }
}

impl From<Digest> for Block {
    fn from(digest: Digest) -> Self {
        Self::from_le_bytes(digest.0)
    }
}

impl DefaultIsZeroes for Block {}

impl BitXor for Block {
    type Output = Self;
    #[inline]
    fn bitxor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
}

impl BitXorAssign for Block {
    #[inline]
    fn bitxor_assign(&mut self, other: Self) {
        self.0 ^= other.0;
    }
}

impl BitAnd for Block {
    type Output = Self;
    #[inline]
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitAndAssign for Block {
    #[inline]
    fn bitand_assign(&mut self, other: Self) {
        self.0 &= other.0;
    }
}
