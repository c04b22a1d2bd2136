//! What the tests of the kernels share.

use crate::Block;
use crate::backend::Ready;
use std::fmt::Debug;

/// Around the widths of all back ends and their unrolled loops.
pub(crate) const SIZES: [usize; 17] = [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65, 1000];

/// `n` blocks that look random, with the edges first.
pub(crate) fn blocks(n: usize, seed: u128) -> Vec<Block> {
    let edges = [u128::MAX, 0, 1, 1 << 127, 1 << 63, 1 << 64];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) | 1;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(0x5851_f42d);
        state ^ state >> 61
    });
    edges.into_iter().chain(noise).take(n).map(Block).collect()
}

/// Fails unless every back end of this CPU computes what the portable one does.
pub(crate) fn agree<T: PartialEq + Debug>(compute: impl Fn(Ready) -> T) {
    let mut all = Ready::all().into_iter();
    let expected = compute(all.next().expect("the portable back end"));
    for ready in all {
        assert_eq!(compute(ready), expected, "{ready:?}");
    }
}
