//! NEON: a symbol of W blocks in as many registers. Every 64-bit ARM CPU has it.

use super::{Kernel, Symbol};
use crate::code::Window;
use std::arch::aarch64::*;
use std::arch::asm;
use vesica_block::Block;

/// A symbol of W blocks.
#[derive(Clone, Copy)]
struct Registers<const W: usize>([uint64x2_t; W]);

// SAFETY of every block below: NEON is part of every 64-bit ARM CPU that Rust compiles for. Loads and stores are of as many words as
// the slices or arrays have that they borrow.
macro_rules! intrinsic {
    ($call:expr) => {{
        // SAFETY: see above: every CPU of this kind has NEON.
        unsafe { $call }
    }};
}

pub(super) fn run<const W: usize>(kernel: impl Kernel<W>) {
    kernel.run::<Registers<W>>();
}

impl<const W: usize> Symbol<W> for Registers<W> {
    // SAFETY: all zero bits are valid vectors.
    const ZERO: Self = Self(unsafe { std::mem::zeroed() });
    type Memory = Window<Self>;

    #[inline(always)]
    fn load(blocks: &[Block; W]) -> Self {
        // The pointer is to an initialised block.
        Self(std::array::from_fn(|i| intrinsic!(vld1q_u64((&raw const blocks[i]).cast()))))
    }

    #[inline(always)]
    fn store(self, blocks: &mut [Block; W]) {
        for (block, register) in blocks.iter_mut().zip(self.0) {
            // The pointer is to a block that is borrowed mutably.
            intrinsic!(vst1q_u64(std::ptr::from_mut(block).cast(), register));
        }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| intrinsic!(veorq_u64(self.0[i], other.0[i]))))
    }

    #[inline(always)]
    fn prefetch(symbols: &[[Block; W]; 4]) {
        // A cache line has 64 bytes, or four blocks.
        for line in symbols.as_flattened().chunks(4) {
            // SAFETY: every ARM CPU has the instruction, which changes nothing that a program sees, whatever the address is.
            unsafe { asm!("prfm pldl1keep, [{}]", in(reg) line.as_ptr(), options(readonly, nostack, preserves_flags)) };
        }
    }
}
