//! AVX2: a symbol of one or of two blocks in one register.

use super::{Kernel, Symbol};
use crate::code::Window;
use std::arch::x86_64::*;
use vesica_block::Block;

/// A symbol of one block or two, as W says; the upper half is zero if there is one.
#[derive(Clone, Copy)]
pub(super) struct Register<const W: usize>(__m256i);

// SAFETY of every block below: only [`super::run_on`] calls `run`, after it asked whether the CPU has AVX2; all other code is
// called from there, with W of 1 or 2. Loads and stores are of exactly the W blocks that they borrow.
macro_rules! intrinsic {
    ($call:expr) => {{
        // SAFETY: see above: the CPU has AVX2.
        unsafe { $call }
    }};
}

pub(super) fn run<const W: usize>(kernel: impl Kernel<W>) {
    #[target_feature(enable = "avx2")]
    unsafe fn enter<const W: usize>(kernel: impl Kernel<W>) {
        kernel.run::<Register<W>>();
    }
    intrinsic!(enter(kernel));
}

impl<const W: usize> Symbol<W> for Register<W> {
    // All zero bits are a valid vector.
    const ZERO: Self = Self(intrinsic!(std::mem::zeroed()));
    type Memory = Window<Self>;

    #[inline(always)]
    fn load(blocks: &[Block; W]) -> Self {
        match W {
            1 => Self(intrinsic!(_mm256_zextsi128_si256(_mm_loadu_si128(blocks.as_ptr().cast())))),
            _ => Self(intrinsic!(_mm256_loadu_si256(blocks.as_ptr().cast()))),
        }
    }

    #[inline(always)]
    fn store(self, blocks: &mut [Block; W]) {
        match W {
            1 => intrinsic!(_mm_storeu_si128(blocks.as_mut_ptr().cast(), _mm256_castsi256_si128(self.0))),
            _ => intrinsic!(_mm256_storeu_si256(blocks.as_mut_ptr().cast(), self.0)),
        }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(intrinsic!(_mm256_xor_si256(self.0, other.0)))
    }

    #[inline(always)]
    fn prefetch(symbols: &[[Block; W]; 4]) {
        intrinsic!(_mm_prefetch::<_MM_HINT_T0>(symbols.as_ptr().cast()));
        if W == 2 {
            intrinsic!(_mm_prefetch::<_MM_HINT_T0>(symbols[2].as_ptr().cast()));
        }
    }
}
