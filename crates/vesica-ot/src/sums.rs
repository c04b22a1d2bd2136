//! Sums of blocks by the batch.

use crate::backend::{self, Kernel, Symbol};
use vesica_block::Block;
use vesica_cpu::Backend;

/// Σ blocks.
pub(crate) fn sum(blocks: &[Block]) -> Block {
    let mut total = Block::ZERO;
    backend::run_on(Backend::chosen(), Sum { blocks, total: &mut total });
    total
}

/// a[i] ← a[i] + from[i], for as many as both have.
pub(crate) fn add(a: &mut [Block], from: &[Block]) {
    backend::run_on(Backend::chosen(), Add { a, from });
}

/// a[i] ← a[i] + from[i] and b[i] ← b[i] + from[i], for as many as all three have.
pub(crate) fn add_to_both(a: &mut [Block], b: &mut [Block], from: &[Block]) {
    backend::run_on(Backend::chosen(), AddToBoth { a, b, from });
}

struct Sum<'a> {
    blocks: &'a [Block],
    total: &'a mut Block,
}

impl Kernel<2> for Sum<'_> {
    /// Four sums, so that none waits for another.
    #[inline(always)]
    fn run<S: Symbol<2>>(self) {
        let (eights, rest) = self.blocks.as_chunks::<8>();
        let mut sums = [S::ZERO; 4];
        for eight in eights {
            for (sum, pair) in sums.iter_mut().zip(eight.as_chunks().0) {
                *sum = sum.add(S::load(pair));
            }
        }
        let mut pair = [Block::ZERO; 2];
        sums.into_iter().fold(S::ZERO, S::add).store(&mut pair);
        *self.total = rest.iter().fold(pair[0] ^ pair[1], |total, &block| total ^ block);
    }
}

struct Add<'a> {
    a: &'a mut [Block],
    from: &'a [Block],
}

impl Kernel<2> for Add<'_> {
    #[inline(always)]
    fn run<S: Symbol<2>>(self) {
        let len = self.a.len().min(self.from.len());
        let (a, a_rest) = self.a[..len].as_chunks_mut::<2>();
        let (from, from_rest) = self.from[..len].as_chunks::<2>();
        a.iter_mut().zip(from).for_each(|(a, from)| S::load(a).add(S::load(from)).store(a));
        a_rest.iter_mut().zip(from_rest).for_each(|(a, from)| *a ^= *from);
    }
}

struct AddToBoth<'a> {
    a: &'a mut [Block],
    b: &'a mut [Block],
    from: &'a [Block],
}

impl Kernel<2> for AddToBoth<'_> {
    #[inline(always)]
    fn run<S: Symbol<2>>(self) {
        let len = self.a.len().min(self.b.len()).min(self.from.len());
        let (a, a_rest) = self.a[..len].as_chunks_mut::<2>();
        let (b, b_rest) = self.b[..len].as_chunks_mut::<2>();
        let (from, from_rest) = self.from[..len].as_chunks::<2>();
        for ((a, b), from) in a.iter_mut().zip(b).zip(from) {
            let from = S::load(from);
            S::load(a).add(from).store(a);
            S::load(b).add(from).store(b);
        }
        for ((a, b), from) in a_rest.iter_mut().zip(b_rest).zip(from_rest) {
            *a ^= *from;
            *b ^= *from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_block::prg::Prg;

    #[test]
    fn sums_are_sums_at_every_size() {
        for n in [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 100] {
            let [mut a, mut b, mut c] = [1, 2, 3].map(|seed| {
                let mut blocks = vec![Block::ZERO; n];
                Prg::new(Block(seed)).fill(&mut blocks);
                blocks
            });
            assert_eq!(sum(&a), a.iter().fold(Block::ZERO, |sum, &block| sum ^ block), "{n}");
            let want: Vec<Block> = a.iter().zip(&b).map(|(&a, &b)| a ^ b).collect();
            add(&mut a, &b);
            assert_eq!(a, want);
            let want: Vec<Block> = b.iter().zip(&c).map(|(&b, &c)| b ^ c).collect();
            add_to_both(&mut b, &mut c, &want);
            // b + (b + c) is c.
            let [mut old_b, mut old_c] = [b, c];
            std::mem::swap(&mut old_b, &mut old_c);
            add(&mut old_b, &old_c);
            assert_eq!(old_b, want);
        }
    }
}
