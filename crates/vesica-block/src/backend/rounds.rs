//! The rounds of AES, once for all CPUs that have an instruction for a round.

use super::Lanes;
use crate::Block;

/// Lanes with a round of AES.
pub(super) trait Rounds: Lanes {
    /// ShiftRows, SubBytes, MixColumns, AddRoundKey.
    fn round(self, key: Self) -> Self;
    /// ShiftRows, SubBytes, AddRoundKey.
    fn last_round(self, key: Self) -> Self;
}

/// How many vectors are under way at once: a round takes three to five cycles, and one or two can begin in each.
const DEPTH: usize = 8;

/// Encrypts in place.
#[inline(always)]
pub(super) fn encrypt<V: Rounds>(keys: &[Block; 11], blocks: &mut [Block]) {
    let keys: [V; 11] = std::array::from_fn(|i| V::splat(keys[i]));
    let mut deep = blocks.chunks_exact_mut(DEPTH * V::WIDTH);
    for blocks in &mut deep {
        batch::<V, DEPTH>(&keys, blocks);
    }
    for blocks in deep.into_remainder().chunks_mut(V::WIDTH) {
        batch::<V, 1>(&keys, blocks);
    }
}

#[inline(always)]
fn batch<V: Rounds, const N: usize>(keys: &[V; 11], blocks: &mut [Block]) {
    let mut x = [V::ZERO; N];
    for (x, blocks) in x.iter_mut().zip(blocks.chunks(V::WIDTH)) {
        *x = V::load(blocks).xor(keys[0]);
    }
    for key in &keys[1..10] {
        x.iter_mut().for_each(|x| *x = x.round(*key));
    }
    for (x, blocks) in x.iter().zip(blocks.chunks_mut(V::WIDTH)) {
        x.last_round(keys[10]).store(blocks);
    }
}
