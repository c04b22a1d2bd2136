//! Hashing to the curve: RFC 9380, with the map Elligator 2.

use super::{FILLER, Points};
use crate::Dst;
use crate::backend::Kernel;
use crate::field::f25519::block::{Block, CHUNK, divide, vectors};
use crate::field::f25519::{Fe, ROOT_OF_MINUS_1, powers_p58};
use crate::field::{Formula, Lanes};
use crate::hash_to_curve::{Expander, Inputs};

/// The suite `curve25519_XMD:SHA-512_ELL2_NU_`. Its last step, the multiplication by the cofactor, is left to the scalar that
/// follows.
pub(super) struct Hash<'a> {
    pub(super) dst: &'a Dst,
    pub(super) inputs: Inputs<'a>,
}

impl Kernel for Hash<'_> {
    type Out = Points;

    #[inline(always)]
    fn run<V: Lanes>(self) -> Points {
        let Hash { dst, inputs } = self;
        let expander = Expander::<V>::new(dst, inputs, 48);
        let mut blocks = vec![FILLER; inputs.len().div_ceil(Block::LANES)];
        let mut denominators = Vec::with_capacity(CHUNK * Block::LANES / V::WIDTH);
        for (chunk, blocks) in blocks.chunks_mut(CHUNK).enumerate() {
            denominators.clear();
            let from = chunk * CHUNK * Block::LANES;
            let len = (inputs.len() - from).min(CHUNK * Block::LANES);
            // Four maps at a time, so that their chains of squarings overlap. Past the last vector
            // there may be some that nobody asked for.
            let mut places = vectors::<V>(len);
            for start in (from..from + len).step_by(AT_ONCE * V::WIDTH) {
                let mut words = [[V::zero(); 6]; AT_ONCE];
                for (i, words) in words.iter_mut().enumerate() {
                    *words = first_six(expander.expand(start + i * V::WIDTH));
                }
                let points = V::call(ToCurve(words));
                for (point, (block, part)) in points.iter().zip(places.by_ref().take(AT_ONCE)) {
                    blocks[block].store(part, &point.x);
                    denominators.push(point.z);
                }
            }
            divide(blocks, &mut denominators);
        }
        Points { len: inputs.len(), blocks }
    }
}

/// How many maps are taken at a time.
pub(super) const AT_ONCE: usize = 4;

/// The words of 48 bytes.
#[inline(always)]
pub(super) fn first_six<V: Lanes>([[w0, w1, w2, w3, w4, w5, ..]]: [[V; 8]; 1]) -> [V; 6] {
    [w0, w1, w2, w3, w4, w5]
}

/// From uniform words to points: each six words, in big-endian order, are a number of 384 bits, that is reduced modulo p
/// (`hash_to_field` of RFC 9380, section 5.2) and mapped to the curve.
pub(super) struct ToCurve<V>(pub(super) [[V; 6]; AT_ONCE]);

impl<V: Lanes> Formula<V> for ToCurve<V> {
    type Out = [Point<V>; AT_ONCE];

    #[inline(always)]
    fn run(self) -> [Point<V>; AT_ONCE] {
        let [a, b, c, d] = self.0;
        elligator2([from_384_bits(a), from_384_bits(b), from_384_bits(c), from_384_bits(d)])
    }
}

/// A number of 384 bits, as six words in big-endian order, modulo p.
#[inline(always)]
fn from_384_bits<V: Lanes>(words: [V; 6]) -> Fe<V> {
    let [w5, w4, w3, w2, w1, w0] = words;
    // 2^256 = 38.
    let low = Fe::from_words([w0, w1, w2, w3]);
    let high = Fe::from_words([w4, w5, V::zero(), V::zero()]);
    low.add(&high.small(38))
}

/// A point of the curve, (x/z, y).
#[derive(Clone, Copy)]
pub(super) struct Point<V> {
    pub(super) x: Fe<V>,
    pub(super) z: Fe<V>,
    pub(super) y: Fe<V>,
}

/// 2^((p + 3)/8) = 1 + 2^((p - 1)/4).
const ROOT_OF_2_TIMES: [u64; 4] =
    [0xc4ee_1b27_4a0e_a0b1, 0x2f43_1806_ad2f_e478, 0x2b4d_0099_3dfb_d7a7, 0x2b83_2480_4fc1_df0b];

/// Elligator 2: RFC 9380, section 6.7.1, by the straight line of appendix G.2.1.
///
/// With x1 = -A/(1 + 2t^2), the point has x1 if g(x1) is a square, and x2 = -x1 - A = 2t^2·x1 if not; y is odd in the first
/// case and even in the second. What differs from the appendix: the three comparisons are made on one value.
#[inline(always)]
pub(super) fn elligator2<V: Lanes, const N: usize>(t: [Fe<V>; N]) -> [Point<V>; N] {
    let minus_a = Fe::<V>::splat([486_662, 0, 0, 0]).neg();
    let i = Fe::<V>::splat(ROOT_OF_MINUS_1);
    let mut tt2 = t;
    let mut z = t;
    let mut g = t;
    let mut z3 = t;
    let mut g_z3 = t;
    let mut bases = t;
    for n in 0..N {
        // z = 1 + 2t^2 is not zero, because -1 is a square and 2 is not. g(x1) = g/z^3.
        let tt = t[n].square();
        tt2[n] = tt.add(&tt);
        z[n] = tt2[n].add(&Fe::one());
        let zz = z[n].square();
        z3[n] = zz.mul(&z[n]);
        // ((-A + A·z)·-A + z^2)·-A, and -A + A·z = A·2t^2.
        g[n] = tt2[n].small(486_662).mul(&minus_a).add(&zz).mul(&minus_a);
        // (g/z^3)^((p+3)/8) = g·z^9·(g·z^21)^((p-5)/8), where z^3 is cubed and squared twice: as in the appendix.
        let z6 = z3[n].square();
        let z12 = z6.square();
        g_z3[n] = z6.mul(&z3[n]).mul(&g[n]);
        bases[n] = z12.mul(&g_z3[n]);
    }
    let powers = powers_p58(bases);
    let mut points = [Point { x: minus_a, z: minus_a, y: minus_a }; N];
    for n in 0..N {
        let root = powers[n].mul(&g_z3[n]);
        // root^2·z^3 is g times a fourth root of 1.
        let square = root.square().mul(&z3[n]);
        let is_g = square.sub(&g[n]).is_zero();
        let is_minus_g = square.add(&g[n]).is_zero();
        // If it is not a square, a root of g(x2) = 2t^2·g(x1) is root·t·2^((p+3)/8), or i times that.
        let is_g2 = square.mul(&i).sub(&g[n]).is_zero();
        let first = is_g.or(is_minus_g);
        let root2 = root.mul(&t[n]).mul(&Fe::splat(ROOT_OF_2_TIMES));
        let y = Fe::select(first, &root, &root2);
        let y = Fe::select(is_g.or(is_g2), &y, &y.mul(&i));
        let x = Fe::select(first, &minus_a, &tt2[n].mul(&minus_a));
        // y is to be odd exactly if the first x was taken.
        let y = Fe::select(y.is_odd().xor(first), &y.neg(), &y);
        points[n] = Point { x, z: z[n], y };
    }
    points
}
