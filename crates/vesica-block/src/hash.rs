//! Hashes of blocks from a permutation π: AES-128 under a fixed key.
//!
//! Their security is proved for a random permutation; AES under a known key stands in for one, as in all systems of this
//! kind. With q calls to π and p hashed blocks an attacker's advantage is about (q·p + p²) / 2^128 (twice that for
//! [`tccr`]), so a session that hashes very much should take a [`Permutation`] of its own, under a key that is chosen
//! after the inputs: then only the session's own blocks count.
//!
//! | | definition | holds when | source |
//! |---|---|---|---|
//! | [`cr`] | π(x) ⊕ x | x ⊕ Δ is hashed for one secret Δ, each x once | GKWY20, section 7 |
//! | [`ccr`] | π(σ(x)) ⊕ σ(x) | also if the output is masked with Δ again, as in GGM trees | GKWY20, section 7 |
//! | [`tccr`] | π(π(x) ⊕ i) ⊕ π(x) | also if the same x recurs under different tweaks i, as under a malicious peer | GKWY20, section 7 |
//!
//! σ(h ‖ l) = (h ⊕ l) ‖ h on the high and low halves h, l of the block. GKWY20: Guo, Katz, Wang, Yu, "Efficient and secure
//! multiparty computation from fixed-key block ciphers", IEEE S&P 2020, eprint 2019/074.

use crate::Block;
use crate::aes::Aes128;
use std::sync::OnceLock;

/// How many blocks are hashed at once: input and output stay in the first-level cache.
const BATCH: usize = 64;

/// A permutation of the blocks that nobody can tell from a random one except by its key: AES-128.
pub struct Permutation(Aes128);

impl Permutation {
    /// The permutation of this (public) key.
    pub fn new(key: Block) -> Self {
        Self(Aes128::new(key))
    }

    /// The permutation that everyone shares. Its key is the first 16 bytes of the fractional part of π.
    pub fn fixed() -> &'static Permutation {
        static FIXED: OnceLock<Permutation> = OnceLock::new();
        FIXED.get_or_init(|| Self::new(Block(0x243f_6a88_85a3_08d3_1319_8a2e_0370_7344_u128.swap_bytes())))
    }

    /// π(x) ⊕ x for every x, in place.
    pub fn cr(&self, blocks: &mut [Block]) {
        for batch in blocks.chunks_mut(BATCH) {
            let mut x = [Block::ZERO; BATCH];
            let x = &mut x[..batch.len()];
            x.copy_from_slice(batch);
            self.0.encrypt_in_place(batch);
            xor(batch, x);
        }
    }

    /// π(σ(x)) ⊕ σ(x) for every x, in place.
    pub fn ccr(&self, blocks: &mut [Block]) {
        blocks.iter_mut().for_each(|x| *x = sigma(*x));
        self.cr(blocks);
    }

    /// π(π(x) ⊕ i) ⊕ π(x) for every x, in place; i is `tweak` for the first block, `tweak` + 1 for the second, and so on.
    pub fn tccr(&self, tweak: Block, blocks: &mut [Block]) {
        let mut tweak = tweak.0;
        for batch in blocks.chunks_mut(BATCH) {
            self.0.encrypt_in_place(batch);
            let mut x = [Block::ZERO; BATCH];
            let x = &mut x[..batch.len()];
            for (x, block) in x.iter_mut().zip(batch.iter_mut()) {
                *x = std::mem::replace(block, Block(block.0 ^ tweak));
                tweak = tweak.wrapping_add(1);
            }
            self.0.encrypt_in_place(batch);
            xor(batch, x);
        }
    }

    /// π(x) for every x, in place: what [`Permutation::tccr_to`] takes, for who hashes the same x under many tweaks.
    pub fn images(&self, blocks: &mut [Block]) {
        self.0.encrypt_in_place(blocks);
    }

    /// π(π(x) ⊕ i) ⊕ π(x) for every x, of which the images π(x) are given, to `out`; i is `tweak` for all of them.
    pub fn tccr_to(&self, tweak: Block, images: &[Block], out: &mut [Block]) {
        for (batch, images) in out.chunks_mut(BATCH).zip(images.chunks(BATCH)) {
            batch.iter_mut().zip(images).for_each(|(block, &image)| *block = image ^ tweak);
            self.0.encrypt_in_place(batch);
            xor(batch, images);
        }
    }
}

/// [`Permutation::cr`] of the fixed permutation: correlation robust.
pub fn cr(blocks: &mut [Block]) {
    Permutation::fixed().cr(blocks);
}

/// [`Permutation::ccr`] of the fixed permutation: circular correlation robust.
pub fn ccr(blocks: &mut [Block]) {
    Permutation::fixed().ccr(blocks);
}

/// [`Permutation::tccr`] of the fixed permutation: tweakable circular correlation robust. Callers under one Δ never use a
/// tweak twice.
pub fn tccr(tweak: Block, blocks: &mut [Block]) {
    Permutation::fixed().tccr(tweak, blocks);
}

/// The linear orthomorphism of GKWY20: x ↦ σ(x) and x ↦ σ(x) ⊕ x are both permutations.
fn sigma(x: Block) -> Block {
    Block::from_halves(x.high(), x.high() ^ x.low())
}

fn xor(to: &mut [Block], from: &[Block]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to ^= *from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks;

    #[test]
    fn batches_are_the_definitions() {
        let pi = Aes128::new(Block(77));
        let hash = Permutation::new(Block(77));
        for n in [0, 1, 63, 64, 65, 200] {
            let x = checks::blocks(n, 3);
            let [mut a, mut b, mut c] = [x.clone(), x.clone(), x.clone()];
            hash.cr(&mut a);
            hash.ccr(&mut b);
            hash.tccr(Block(u128::MAX - 1), &mut c);
            for (i, &x) in x.iter().enumerate() {
                assert_eq!(a[i], pi.encrypt(x) ^ x);
                let s = sigma(x);
                assert_eq!(b[i], pi.encrypt(s) ^ s);
                let tweak = Block((u128::MAX - 1).wrapping_add(i as u128));
                assert_eq!(c[i], pi.encrypt(pi.encrypt(x) ^ tweak) ^ pi.encrypt(x));
            }
            let mut images = x.clone();
            hash.images(&mut images);
            for tweak in [Block(0), Block(5), Block(u128::MAX)] {
                let want = x.iter().map(|&x| pi.encrypt(pi.encrypt(x) ^ tweak) ^ pi.encrypt(x));
                let mut out = vec![Block::ZERO; n];
                hash.tccr_to(tweak, &images, &mut out);
                assert_eq!(out, want.collect::<Vec<Block>>());
            }
        }
    }

    #[test]
    fn sigma_is_a_linear_orthomorphism() {
        // Linear, so it is a permutation if no non-zero combination of unit vectors' images vanishes; likewise σ + 1.
        let rank = |map: &dyn Fn(Block) -> Block| {
            let mut pivots = [0u128; 128];
            (0..128)
                .filter(|i| {
                    let mut row = map(Block(1 << i)).0;
                    while row != 0 {
                        let top = 127 - row.leading_zeros() as usize;
                        if pivots[top] == 0 {
                            pivots[top] = row;
                            return true;
                        }
                        row ^= pivots[top];
                    }
                    false
                })
                .count()
        };
        assert_eq!(rank(&sigma), 128);
        assert_eq!(rank(&|x| sigma(x) ^ x), 128);
    }
}
