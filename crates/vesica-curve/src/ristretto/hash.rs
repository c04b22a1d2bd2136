//! Hashing to the group.

use super::Points;
use super::bytes::{D, absolute, square_roots_of_ratios};
use crate::Dst;
use crate::backend::Kernel;
use crate::edwards::{Add, NEUTRAL, Point};
use crate::field::f25519::block::{Block, vectors};
use crate::field::f25519::{Fe, ROOT_OF_MINUS_1};
use crate::field::{Formula, Lanes};
use crate::hash_to_curve::{Expander, Inputs};

/// The square root of ad - 1 that RFC 9496, section 4.1, names.
const SQRT_AD_MINUS_ONE: [u64; 4] =
    [0x7e97_f6a0_497b_2e1b, 0xaf9d_8e0c_1b78_54bd, 0x0f3c_fcc9_31f5_d1fd, 0x3769_31bf_2b83_48ac];
/// 1 - d^2.
const ONE_MINUS_D_SQ: [u64; 4] =
    [0xe27c_09c1_945f_c176, 0x2c81_a138_cd5e_350f, 0x9994_abdd_be70_dfe4, 0x0290_72a8_b2b3_e0d7];
/// (d - 1)^2.
const D_MINUS_ONE_SQ: [u64; 4] =
    [0x31ad_5aaa_44ed_4d20, 0xd29e_4a2c_b01e_1999, 0x4cdc_d32f_529b_4eeb, 0x5968_b37a_f66c_2241];

/// `hash_to_ristretto255` of RFC 9380, appendix B, and RFC 9497, section 4.1.
pub(super) struct Hash<'a> {
    pub(super) dst: &'a Dst,
    pub(super) inputs: Inputs<'a>,
}

impl Kernel for Hash<'_> {
    type Out = Points;

    #[inline(always)]
    fn run<V: Lanes>(self) -> Points {
        let Hash { dst, inputs } = self;
        let expander = Expander::<V>::new(dst, inputs, 64);
        let mut blocks = vec![NEUTRAL; inputs.len().div_ceil(Block::LANES)];
        for (block, part) in vectors::<V>(inputs.len()) {
            let [uniform] = expander.expand(block * Block::LANES + part * V::WIDTH);
            V::call(FromUniform(uniform)).store(&mut blocks[block], part);
        }
        Points { len: inputs.len(), blocks }
    }
}

/// Element derivation, RFC 9496, section 4.3.4, from 64 uniform bytes as eight words in big-endian order.
pub(super) struct FromUniform<V>(pub(super) [V; 8]);

impl<V: Lanes> Formula<V> for FromUniform<V> {
    type Out = Point<V>;

    #[inline(always)]
    fn run(self) -> Point<V> {
        let mut words = self.0;
        for word in &mut words {
            *word = swap_bytes(*word);
        }
        // Bit 255 of each half is dropped.
        let top = V::splat(u64::MAX >> 1);
        let [w0, w1, w2, w3, w4, w5, w6, w7] = words;
        let [p, q] = map([Fe::from_words([w0, w1, w2, w3.and(top)]), Fe::from_words([w4, w5, w6, w7.and(top)])]);
        V::call(Add(&p, &q.cached()))
    }
}

/// Each word with its bytes in the other order.
#[inline(always)]
fn swap_bytes<V: Lanes>(word: V) -> V {
    let swap =
        |word: V, bits: u32, mask: u64| word.shr(bits).and(V::splat(mask)).or(word.and(V::splat(mask)).shl(bits));
    swap(swap(word, 8, 0x00ff_00ff_00ff_00ff), 16, 0x0000_ffff_0000_ffff).rotr(32)
}

/// MAP of RFC 9496, section 4.3.4.
#[inline(always)]
fn map<V: Lanes, const N: usize>(t: [Fe<V>; N]) -> [Point<V>; N] {
    let one = Fe::<V>::one();
    let minus_one = one.neg();
    let d = Fe::splat(D);
    let mut r = t;
    let mut u = t;
    let mut v = t;
    for n in 0..N {
        r[n] = t[n].square().mul(&Fe::splat(ROOT_OF_MINUS_1));
        u[n] = r[n].add(&one).mul(&Fe::splat(ONE_MINUS_D_SQ));
        v[n] = minus_one.sub(&r[n].mul(&d)).mul(&r[n].add(&d));
    }
    let roots = square_roots_of_ratios(u, v);
    let mut out = [Point { x: one, y: one, z: one, t: one }; N];
    for n in 0..N {
        let (was_square, s) = roots[n];
        let s = Fe::select(was_square, &s, &absolute(&s.mul(&t[n])).neg());
        let c = Fe::select(was_square, &minus_one, &r[n]);
        let n_t = c.mul(&r[n].sub(&one)).mul(&Fe::splat(D_MINUS_ONE_SQ)).sub(&v[n]);
        let ss = s.square();
        let sv = s.mul(&v[n]);
        let w0 = sv.add(&sv);
        let w1 = n_t.mul(&Fe::splat(SQRT_AD_MINUS_ONE));
        let w2 = one.sub(&ss);
        let w3 = one.add(&ss);
        out[n] = Point { x: w0.mul(&w3), y: w2.mul(&w1), z: w1.mul(&w3), t: w0.mul(&w2) };
    }
    out
}
