//! Leaks on purpose: a check that does not find these proves nothing of the other cases.

use super::Case;
use crate::watch::Watch;
use std::hint::black_box;
use vesica_block::Block;
use vesica_block::aes::Aes128;

pub fn cases() -> Vec<Case> {
    vec![Case::timed("seeded/branch", branch), Case::new("seeded/address", address)]
}

/// A ciphertext whose computation takes some forty cycles more if the lowest bit of a secret is one.
fn branch(watch: &mut Watch) {
    let key = Block::from_le_bytes(watch.secret());
    let mut blocks = [Block::ONE; 64];
    watch.measure(|| {
        Aes128::new(key).encrypt_in_place(&mut blocks);
        if black_box(key.0) & 1 == 1 {
            slowly(&mut blocks[0]);
        }
    });
    watch.result(&blocks);
}

#[inline(never)]
fn slowly(block: &mut Block) {
    let mut word = block.low();
    for _ in 0..16 {
        word = black_box(word).wrapping_mul(word | 1);
    }
    *block ^= Block(word.into());
}

/// A word of a table whose place is a byte of what a kernel made of secrets: so they are followed through each back end's instructions.
fn address(watch: &mut Watch) {
    let table: [u64; 256] = std::array::from_fn(|i| i as u64);
    let mut block = [Block::from_le_bytes(watch.secret())];
    let word = watch.measure(|| {
        Aes128::new(Block::ONE).encrypt_in_place(&mut block);
        black_box(&table)[usize::from(black_box(block[0]).0 as u8)]
    });
    watch.result(&[word ^ block[0].low()]);
}
