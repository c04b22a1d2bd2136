//! GF(2^128) = GF(2)[x] / (x^128 + x^7 + x^2 + x + 1), bit i of a [`Block`] the coefficient of x^i.
//!
//! The polynomial is GCM's (SP 800-38D, section 6.3), the order of bits is the opposite: what GCM writes first is the
//! coefficient of x^0. Products are the same sequence of instructions whatever the elements.

use crate::Block;
use crate::backend::{Clmul, Products, Ready};

/// The product of two elements. Many products by one factor are faster together: [`mul_scalar`], [`mul_add`].
pub fn mul(a: Block, b: Block) -> Block {
    inner(&[a], &[b])
}

/// a[i] ← a[i]·k.
pub fn mul_scalar(a: &mut [Block], k: Block) {
    Ready::chosen().products(MulScalar { a, k });
}

/// a[i] ← a[i]·b[i].
///
/// # Panics
/// If the slices differ in length.
pub fn mul_each(a: &mut [Block], b: &[Block]) {
    Ready::chosen().products(MulEach { a, b });
}

/// acc[i] ← acc[i] + a[i]·k.
///
/// # Panics
/// If the slices differ in length.
pub fn mul_add(acc: &mut [Block], a: &[Block], k: Block) {
    Ready::chosen().products(MulAdd { acc, a, k });
}

/// Σ a[i]·b[i].
///
/// # Panics
/// If the slices differ in length.
pub fn inner(a: &[Block], b: &[Block]) -> Block {
    Ready::chosen().products(Inner { a, b })
}

/// out[i] ← x^i, from x^0 = 1.
pub fn powers(x: Block, out: &mut [Block]) {
    let Some(first) = out.first_mut() else { return };
    *first = Block::ONE;
    // What is known, times x^known, doubles it.
    let (mut known, mut step) = (1, x);
    while known < out.len() {
        let (low, high) = out.split_at_mut(known);
        let more = known.min(high.len());
        high[..more].copy_from_slice(&low[..more]);
        mul_scalar(&mut high[..more], step);
        step = mul(step, step);
        known += more;
    }
}

struct MulScalar<'a> {
    a: &'a mut [Block],
    k: Block,
}

impl Products for MulScalar<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Clmul>(self) {
        let k = V::splat(self.k);
        for a in self.a.chunks_mut(V::WIDTH) {
            product(V::load(a), k).reduce().store(a);
        }
    }
}

struct MulEach<'a> {
    a: &'a mut [Block],
    b: &'a [Block],
}

impl Products for MulEach<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Clmul>(self) {
        assert_eq!(self.a.len(), self.b.len(), "pairs of factors");
        for (a, b) in self.a.chunks_mut(V::WIDTH).zip(self.b.chunks(V::WIDTH)) {
            product(V::load(a), V::load(b)).reduce().store(a);
        }
    }
}

struct MulAdd<'a> {
    acc: &'a mut [Block],
    a: &'a [Block],
    k: Block,
}

impl Products for MulAdd<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Clmul>(self) {
        assert_eq!(self.acc.len(), self.a.len(), "one factor for each sum");
        let k = V::splat(self.k);
        for (acc, a) in self.acc.chunks_mut(V::WIDTH).zip(self.a.chunks(V::WIDTH)) {
            V::load(acc).xor(product(V::load(a), k).reduce()).store(acc);
        }
    }
}

struct Inner<'a> {
    a: &'a [Block],
    b: &'a [Block],
}

impl Products for Inner<'_> {
    type Out = Block;
    /// Reduction is linear: once, after the sum.
    #[inline(always)]
    fn run<V: Clmul>(self) -> Block {
        assert_eq!(self.a.len(), self.b.len(), "pairs of factors");
        let mut sum = Wide { low: V::ZERO, middle: V::ZERO, high: V::ZERO };
        for (a, b) in self.a.chunks(V::WIDTH).zip(self.b.chunks(V::WIDTH)) {
            let p = product(V::load(a), V::load(b));
            sum = Wide { low: sum.low.xor(p.low), middle: sum.middle.xor(p.middle), high: sum.high.xor(p.high) };
        }
        let mut lanes = [Block::ZERO; 4];
        sum.reduce().store(&mut lanes[..V::WIDTH]);
        lanes.into_iter().fold(Block::ZERO, |sum, lane| sum ^ lane)
    }
}

/// A polynomial of degree up to 254: low + middle·x^64 + high·x^128, each of degree below 128.
struct Wide<V> {
    low: V,
    middle: V,
    high: V,
}

/// The product of polynomials.
#[inline(always)]
fn product<V: Clmul>(a: V, b: V) -> Wide<V> {
    Wide { low: a.clmul_ll(b), middle: a.clmul_lh(b).xor(b.clmul_lh(a)), high: a.clmul_hh(b) }
}

impl<V: Clmul> Wide<V> {
    /// The remainder: x^128 is x^7 + x^2 + x + 1, for the upper half of `high` and then for the lower.
    #[inline(always)]
    fn reduce(self) -> V {
        let q = V::splat(Block(0x87));
        let low = self.low.xor(V::ZERO.low_halves(self.middle));
        let high = self.high.xor(self.middle.high_halves(V::ZERO));
        let upper = q.clmul_lh(high);
        let low = low.xor(V::ZERO.low_halves(upper));
        let high = high.xor(upper.high_halves(V::ZERO));
        low.xor(high.clmul_ll(q))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{self, SIZES};

    /// The definition, bit by bit.
    fn naive(a: Block, b: Block) -> Block {
        let (mut sum, mut shifted) = (0, a.0);
        for i in 0..128 {
            if b.0 >> i & 1 == 1 {
                sum ^= shifted;
            }
            shifted = shifted << 1 ^ if shifted >> 127 == 1 { 0x87 } else { 0 };
        }
        Block(sum)
    }

    fn gcm(text: &str) -> Block {
        Block(u128::from_str_radix(text, 16).expect("hex").reverse_bits())
    }

    /// McGrew, Viega, "The Galois/Counter Mode of Operation", appendix B, test case 2: H, the block and the length block of
    /// GHASH with its intermediate values. GCM's first bit is the coefficient of x^0, so the bits are reversed.
    #[test]
    fn vectors_of_gcm() {
        let h = gcm("66e94bd4ef8a2c3b884cfa59ca342b2e");
        let x1 = mul(gcm("0388dace60b6a392f328c2b971b2fe78"), h);
        assert_eq!(x1, gcm("5e2ec746917062882c85b0685353deb7"));
        let length = gcm("00000000000000000000000000000080");
        assert_eq!(mul(x1 ^ length, h), gcm("f38cbb1ad69223dcc3457ae5b6b0f885"));
    }

    /// RFC 8452, appendix A: POLYVAL's field has the polynomial x^128 + x^127 + x^126 + x^121 + 1, the reversal of ours, so
    /// reversing bits takes its dot(a, b) = a·b·x^-128 to a·b·x (by the RFC's relation of POLYVAL to GHASH).
    #[test]
    fn vector_of_polyval() {
        let little = |text: &str| u128::from_str_radix(text, 16).expect("hex").swap_bytes().reverse_bits();
        let h = Block(little("25629347589242761d31f826ba4b757b"));
        let x1 = Block(little("4f4f95668c83dfb6401762bb2d01a262"));
        let x2 = Block(little("d1a24ddd2721d006bbe45f20d3c9f362"));
        let dot = |a: Block, b: Block| mul(mul(a, b), Block(2));
        let s = dot(dot(x1, h) ^ x2, h);
        assert_eq!(s, Block(little("f7a3b47b846119fae5b7866cf5e5b77e")));
    }

    #[test]
    fn products_are_the_definition_on_every_back_end() {
        for n in SIZES {
            let (a, b) = (checks::blocks(n, 1), checks::blocks(n, 2));
            let k = b.last().copied().unwrap_or_default();
            for ready in Ready::all() {
                let mut scaled = a.clone();
                ready.products(MulScalar { a: &mut scaled, k });
                assert_eq!(scaled, a.iter().map(|&a| naive(a, k)).collect::<Vec<_>>(), "{ready:?}, {n}");
                let mut each = a.clone();
                ready.products(MulEach { a: &mut each, b: &b });
                assert!((0..n).all(|i| each[i] == naive(a[i], b[i])), "{ready:?}, {n}");
                let mut added = b.clone();
                ready.products(MulAdd { acc: &mut added, a: &a, k });
                assert!((0..n).all(|i| added[i] == b[i] ^ scaled[i]), "{ready:?}, {n}");
                let sum = (0..n).fold(Block::ZERO, |sum, i| sum ^ naive(a[i], b[i]));
                assert_eq!(ready.products(Inner { a: &a, b: &b }), sum, "{ready:?}, {n}");
            }
        }
    }

    #[test]
    fn powers_follow_each_other() {
        let x = Block(0x1234_5678_9abc_def0_0fed_cba9_8765_4321);
        for n in SIZES {
            let mut out = vec![Block::ZERO; n];
            powers(x, &mut out);
            assert!(out.first().is_none_or(|&one| one == Block::ONE));
            assert!(out.windows(2).all(|w| w[1] == naive(w[0], x)), "{n}");
        }
    }

    #[test]
    #[should_panic(expected = "one factor for each sum")]
    fn lengths_must_agree() {
        mul_add(&mut [Block::ZERO; 2], &[Block::ONE], Block::ONE);
    }
}
