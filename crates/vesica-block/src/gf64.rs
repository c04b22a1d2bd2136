//! B = GF(2^64) = GF(2)[x] / (x^64 + x^4 + x^3 + x + 1), and blocks as vectors of two of its elements.
//!
//! For vector OLE with a base field of 64 bits: a block is an element F0 + F1·X of a quadratic extension F of B, F0 in its
//! low half, and B is the blocks with F1 = 0 ([`embed`]). A product of an element of F with one of B is two products in B,
//! whichever irreducible polynomial X has; no other products in F are ever taken, so none is fixed. This is *not* the
//! representation of [`gf128`](crate::gf128), in which B has no such simple form.

use crate::Block;
use crate::backend::{Clmul, Products, Ready};

/// The product of two elements of B.
pub fn mul(a: u64, b: u64) -> u64 {
    scale(embed(a), b).low()
}

/// An element of B as one of F.
pub fn embed(a: u64) -> Block {
    Block::from_halves(a, 0)
}

/// The product of an element of F with one of B. Many products by one element of F are faster together: [`mul_add`].
pub fn scale(f: Block, b: u64) -> Block {
    let mut product = [Block::ZERO];
    mul_add(&mut product, &[b], f);
    product[0]
}

/// f[i] ← f[i]·b[i], with f[i] in F and b[i] in B: the low half of the block, whatever the high one is.
///
/// # Panics
/// If the slices differ in length.
pub fn scale_each(f: &mut [Block], b: &[Block]) {
    Ready::chosen().products(ScaleEach { f, b });
}

/// acc[i] ← acc[i] + a[i]·k, with a[i] in B and k in F.
///
/// # Panics
/// If the slices differ in length.
pub fn mul_add(acc: &mut [Block], a: &[u64], k: Block) {
    Ready::chosen().products(MulAdd { acc, a, k });
}

struct ScaleEach<'a> {
    f: &'a mut [Block],
    b: &'a [Block],
}

impl Products for ScaleEach<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Clmul>(self) {
        assert_eq!(self.f.len(), self.b.len(), "pairs of factors");
        for (f, b) in self.f.chunks_mut(V::WIDTH).zip(self.b.chunks(V::WIDTH)) {
            let (b, k) = (V::load(b), V::load(f));
            let (p, q) = (b.clmul_ll(k), b.clmul_lh(k));
            p.low_halves(q).xor(fold(p.high_halves(q))).store(f);
        }
    }
}

struct MulAdd<'a> {
    acc: &'a mut [Block],
    a: &'a [u64],
    k: Block,
}

impl Products for MulAdd<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Clmul>(self) {
        assert_eq!(self.acc.len(), self.a.len(), "one factor for each sum");
        let k = V::splat(self.k);
        for (acc, a) in self.acc.chunks_mut(V::WIDTH).zip(self.a.chunks(V::WIDTH)) {
            let a = V::load_low(a);
            let (p, q) = (a.clmul_ll(k), a.clmul_lh(k));
            V::load(acc).xor(p.low_halves(q)).xor(fold(p.high_halves(q))).store(acc);
        }
    }
}

/// h·x^64 modulo the polynomial, for each half h: h·(x^4 + x^3 + x + 1), whose own carry of four bits is folded first.
#[inline(always)]
fn fold<V: Clmul>(h: V) -> V {
    let h = h.xor(h.shr(63)).xor(h.shr(61)).xor(h.shr(60));
    h.xor(h.shl(1)).xor(h.shl(3)).xor(h.shl(4))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{self, SIZES};

    /// The definition, bit by bit.
    fn naive(a: u64, b: u64) -> u64 {
        let (mut sum, mut shifted) = (0, a);
        for i in 0..64 {
            if b >> i & 1 == 1 {
                sum ^= shifted;
            }
            shifted = shifted << 1 ^ if shifted >> 63 == 1 { 0x1b } else { 0 };
        }
        sum
    }

    /// The polynomial is irreducible: x^(2^64) = x, and x^(2^32) - x shares no factor with it, because x^(2^32) + x has an
    /// inverse: its (2^64 - 2)-th power.
    #[test]
    fn it_is_a_field() {
        let square = |mut a: u64, times: u32| {
            for _ in 0..times {
                a = mul(a, a);
            }
            a
        };
        assert_eq!(square(2, 64), 2);
        let difference = square(2, 32) ^ 2;
        let inverse = (1..64).fold(1, |product, i| mul(product, square(difference, i)));
        assert_eq!(mul(difference, inverse), 1);
    }

    #[test]
    fn products_are_the_definition_on_every_back_end() {
        for n in SIZES {
            let acc = checks::blocks(n, 1);
            let a: Vec<u64> = checks::blocks(n, 2).iter().map(|a| a.low()).collect();
            for k in [Block::ZERO, Block::ONE, Block(u128::MAX), Block(0x1234_5678_9abc_def0_0fed_cba9_8765_4321)] {
                for ready in Ready::all() {
                    let mut out = acc.clone();
                    ready.products(MulAdd { acc: &mut out, a: &a, k });
                    for i in 0..n {
                        let product = Block::from_halves(naive(a[i], k.low()), naive(a[i], k.high()));
                        assert_eq!(out[i], acc[i] ^ product, "{ready:?}, {n}");
                    }
                }
            }
        }
    }

    #[test]
    fn each_by_its_own() {
        for n in SIZES {
            let (f, b) = (checks::blocks(n, 3), checks::blocks(n, 4));
            for ready in Ready::all() {
                let mut out = f.clone();
                ready.products(ScaleEach { f: &mut out, b: &b });
                for i in 0..n {
                    let [low, high] = [f[i].low(), f[i].high()].map(|half| naive(half, b[i].low()));
                    assert_eq!(out[i], Block::from_halves(low, high), "{ready:?}, {n}");
                }
            }
        }
    }

    #[test]
    fn one_at_a_time() {
        let (a, b, f) = (0xdead_beef_0123_4567, 0x8000_0000_0000_0001, Block(u128::MAX / 7));
        assert_eq!(mul(a, b), naive(a, b));
        assert_eq!(scale(f, a), Block::from_halves(naive(f.low(), a), naive(f.high(), a)));
        assert_eq!(embed(a), Block(u128::from(a)));
    }
}
