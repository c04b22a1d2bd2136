//! NEON with the instructions of ARMv8 for AES and for products over GF(2): one lane.
//!
//! An instruction of ARM begins with the round key where one of x86 ends with it. So a round is written with a key of
//! zero and the key added behind it, and the compiler moves that sum into the next round's instruction.

// What is inlined ends up in functions that have the instructions, and there the compiler inlines them after all.
#![allow(inline_always_mismatching_target_features)]

use super::rijndael::{Half, Keys};
use super::rounds::{self, Rounds};
use super::{Clmul, Kernel, Lanes, Products};
use crate::Block;
use std::arch::aarch64::*;

/// One lane.
#[derive(Clone, Copy)]
struct B128x1(uint64x2_t);

// SAFETY of every block below: the functions that this file shows run only through a `Ready`, which exists only where the
// CPU has these instructions, and all other code is called by them. Loads and stores check the length first.
macro_rules! intrinsic {
    ($call:expr) => {{
        // SAFETY: see above: through a `Ready` only.
        unsafe { $call }
    }};
}

pub(super) fn wide<K: Kernel>(kernel: K) -> K::Out {
    kernel.run::<B128x1>()
}

pub(super) fn products<K: Products>(kernel: K) -> K::Out {
    #[target_feature(enable = "neon,aes")]
    unsafe fn enter<K: Products>(kernel: K) -> K::Out {
        kernel.run::<B128x1>()
    }
    intrinsic!(enter(kernel))
}

pub(super) fn encrypt(keys: &[Block; 11], blocks: &mut [Block]) {
    #[target_feature(enable = "neon,aes")]
    unsafe fn enter(keys: &[Block; 11], blocks: &mut [Block]) {
        rounds::encrypt::<B128x1>(keys, blocks);
    }
    intrinsic!(enter(keys, blocks));
}

pub(super) fn rijndael<const FORWARD: bool>(keys: &Keys, states: &mut [[Block; 2]]) {
    #[target_feature(enable = "neon,aes")]
    unsafe fn enter<const FORWARD: bool>(keys: &Keys, states: &mut [[Block; 2]]) {
        super::rijndael::rounds::<B128x1, FORWARD>(keys, states);
    }
    intrinsic!(enter::<FORWARD>(keys, states));
}

/// The round keys of FIPS 197, section 5.2.
pub(super) fn expand(key: Block) -> [Block; 11] {
    #[target_feature(enable = "neon,aes")]
    unsafe fn enter(key: Block) -> [Block; 11] {
        let mut keys = [key; 11];
        let mut constant: u8 = 1;
        for i in 1..keys.len() {
            // In a block of four equal words no row is changed by its shift, so a round's first half is the S-box alone.
            let last = vdupq_n_u32((keys[i - 1].0 >> 96) as u32);
            let boxed = vreinterpretq_u32_u8(vaeseq_u8(vreinterpretq_u8_u32(last), vdupq_n_u8(0)));
            let word = vgetq_lane_u32::<0>(boxed).rotate_right(8) ^ u32::from(constant);
            constant = (constant << 1) ^ (0x1b * (constant >> 7));
            // The running sum of the previous key's words, and that word in all of them.
            let sum = keys[i - 1].0 ^ (keys[i - 1].0 << 32);
            let sum = sum ^ (sum << 64);
            keys[i] = Block(sum ^ (u128::from(word) * 0x0000_0001_0000_0001_0000_0001_0000_0001));
        }
        keys
    }
    intrinsic!(enter(key))
}

impl B128x1 {
    #[inline(always)]
    fn bytes(self) -> uint8x16_t {
        intrinsic!(vreinterpretq_u8_u64(self.0))
    }
    #[inline(always)]
    fn of(bytes: uint8x16_t) -> Self {
        Self(intrinsic!(vreinterpretq_u64_u8(bytes)))
    }
    /// One of the halves, as a polynomial.
    #[inline(always)]
    fn half<const HIGH: i32>(self) -> u64 {
        intrinsic!(vgetq_lane_u64::<HIGH>(self.0))
    }
    #[inline(always)]
    fn product(a: u64, b: u64) -> Self {
        // A product is as many bits as a block, the lowest first in both.
        Self(intrinsic!(vreinterpretq_u64_p128(vmull_p64(a, b))))
    }
}

impl Lanes for B128x1 {
    const WIDTH: usize = 1;
    // All zero bits are a valid vector.
    const ZERO: Self = Self(intrinsic!(std::mem::zeroed()));

    #[inline(always)]
    fn splat(block: Block) -> Self {
        <Self as Lanes>::load(&[block])
    }
    #[inline(always)]
    fn load(blocks: &[Block]) -> Self {
        let block: &Block = &blocks[0];
        // The pointer is to an initialised block.
        Self(intrinsic!(vld1q_u64(std::ptr::from_ref(block).cast())))
    }
    #[inline(always)]
    fn store(self, blocks: &mut [Block]) {
        let block: &mut Block = &mut blocks[0];
        // The pointer is to a block that is borrowed mutably.
        intrinsic!(vst1q_u64(std::ptr::from_mut(block).cast(), self.0));
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(intrinsic!(veorq_u64(self.0, other.0)))
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(intrinsic!(vandq_u64(self.0, other.0)))
    }
    #[inline(always)]
    fn shl(self, bits: u32) -> Self {
        Self(intrinsic!(vshlq_u64(self.0, vdupq_n_s64(i64::from(bits)))))
    }
    // With a constant count these become the shifts by an immediate. A negative count shifts towards the low end.
    #[inline(always)]
    fn shr(self, bits: u32) -> Self {
        Self(intrinsic!(vshlq_u64(self.0, vdupq_n_s64(-i64::from(bits)))))
    }
    #[inline(always)]
    fn load_words(words: &[u64]) -> Self {
        Self(intrinsic!(vcombine_u64(vcreate_u64(words[0]), vcreate_u64(words.get(1).copied().unwrap_or_default()))))
    }
    #[inline(always)]
    fn keep(self, bits: u64) -> Self {
        let places = intrinsic!(vcombine_u64(vcreate_u64(1), vcreate_u64(2)));
        Self(intrinsic!(vandq_u64(self.0, vtstq_u64(vdupq_n_u64(bits), places))))
    }
    #[inline(always)]
    fn low_halves(self, other: Self) -> Self {
        Self(intrinsic!(vzip1q_u64(self.0, other.0)))
    }
    #[inline(always)]
    fn high_halves(self, other: Self) -> Self {
        Self(intrinsic!(vzip2q_u64(self.0, other.0)))
    }
}

impl Clmul for B128x1 {
    #[inline(always)]
    fn load_low(words: &[u64]) -> Self {
        Self(intrinsic!(vcombine_u64(vcreate_u64(words[0]), vcreate_u64(0))))
    }
    #[inline(always)]
    fn clmul_ll(self, other: Self) -> Self {
        Self::product(self.half::<0>(), other.half::<0>())
    }
    #[inline(always)]
    fn clmul_lh(self, other: Self) -> Self {
        Self::product(self.half::<0>(), other.half::<1>())
    }
    #[inline(always)]
    fn clmul_hh(self, other: Self) -> Self {
        Self::product(self.half::<1>(), other.half::<1>())
    }
}

impl Rounds for B128x1 {
    #[inline(always)]
    fn round(self, key: Self) -> Self {
        Half::round::<true, false>(self, key)
    }
    #[inline(always)]
    fn last_round(self, key: Self) -> Self {
        Half::round::<true, true>(self, key)
    }
}

impl Half for B128x1 {
    #[inline(always)]
    fn load(block: &Block) -> Self {
        <Self as Lanes>::load(std::slice::from_ref(block))
    }
    #[inline(always)]
    fn store(self, block: &mut Block) {
        Lanes::store(self, std::slice::from_mut(block));
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Lanes::xor(self, other)
    }
    #[inline(always)]
    fn shuffle(self, places: &[u8; 16]) -> Self {
        // The pointer is to 16 initialised bytes. A place beyond the block gives zero.
        Self::of(intrinsic!(vqtbl1q_u8(self.bytes(), vld1q_u8(places.as_ptr()))))
    }
    #[inline(always)]
    fn round<const FORWARD: bool, const LAST: bool>(self, key: Self) -> Self {
        let zero = intrinsic!(vdupq_n_u8(0));
        let bytes = intrinsic!(match (FORWARD, LAST) {
            (true, false) => vaesmcq_u8(vaeseq_u8(self.bytes(), zero)),
            (true, true) => vaeseq_u8(self.bytes(), zero),
            (false, false) => vaesimcq_u8(vaesdq_u8(self.bytes(), zero)),
            (false, true) => vaesdq_u8(self.bytes(), zero),
        });
        Lanes::xor(Self::of(bytes), key)
    }
}
