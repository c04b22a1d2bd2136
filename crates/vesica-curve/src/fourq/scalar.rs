//! Scalars of FourQ: from uniform bytes, and as four short ones by digits. Constant time throughout.

use crate::scalar::not_zero;
use crate::{Order, SecretScalar};
use std::hint::black_box;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The prime order N of the subgroup, 246 bits, in little-endian words: \[CL15\], section 2.2.
pub(crate) const ORDER: [u64; 4] =
    [0x2fb2_540e_c776_8ce7, 0xdfbd_004d_fe0f_7999, 0xf053_9782_9cbc_14e5, 0x0029_cbc1_4e5e_0a72];

/// A secret scalar of FourQ, in `1..N`.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct FourQScalar([u64; 4]);

/// Numbers modulo N.
static SCALARS: Order = Order::new(ORDER);

impl SecretScalar for FourQScalar {
    const ORDER: &'static Order = &SCALARS;

    fn from_uniform(bytes: &[u8; 64]) -> Self {
        // 2^512 / N > 2^266, so the remainder is within 2^-266 of uniform.
        Self(not_zero(SCALARS.reduce(bytes)))
    }

    fn from_words(words: [u64; 4]) -> Self {
        Self(words)
    }

    fn words(&self) -> Zeroizing<[u64; 4]> {
        Zeroizing::new(self.0)
    }
}

impl FourQScalar {
    /// This scalar over the cofactor 392, modulo N.
    pub(super) fn over_cofactor(&self) -> Self {
        Self(SCALARS.product(&INVERSE_OF_COFACTOR, &self.0))
    }

    /// A quarter of this scalar, modulo N: the isogeny to Ê and its dual make four of one point.
    fn quarter(&self) -> Self {
        Self(SCALARS.product(&INVERSE_OF_4, &self.0))
    }

    /// 1.
    pub(super) fn one() -> Self {
        Self([1, 0, 0, 0])
    }
}

/// 1/392 modulo N.
const INVERSE_OF_COFACTOR: [u64; 4] =
    [0x19fb_eb87_7b26_91f3, 0x5b1f_37c5_a96f_4350, 0xa61e_1145_d66a_d5e2, 0x0023_ee83_9264_702a];

/// 1/4 modulo N.
const INVERSE_OF_4: [u64; 4] =
    [0x4bec_9503_b1dd_a33a, 0x77ef_4013_7f83_de66, 0xbc14_e5e0_a72f_0539, 0x000a_72f0_5397_829c];

/// A basis of the lattice of (a1, a2, a3, a4) with a1 + a2·λφ + a3·λψ + a4·λφλψ = 0 modulo N, where λφ² = -5 and λψ² = 2 are
/// the eigenvalues on Ê: a quarter each of those on E, whose basis is in \[CL15\], section 4.2. It was reduced by LLL, and
/// then so that the sizes of each coordinate sum up to least.
pub(super) const BASIS: [[i64; 4]; 4] = [
    [626_718_009_071_154_629, 323_272_831_362_407_268, 1_121_541_082_941_595_485, 1_444_813_914_304_002_753],
    [1_616_364_156_812_036_341, 2_566_354_997_245_598_238, -494_823_073_870_440_856, -1_121_541_082_941_595_485],
    [2_794_431_640_553_937_728, -3_022_508_283_862_277_219, 1_597_522_023_211_934_373, 209_234_509_708_237_523],
    [1_215_751_750_942_105_323, -874_622_306_033_154_027, -1_691_732_691_212_444_211, 2_110_201_710_628_919_257],
];
/// 4b1 + 3b2 + b3 of the basis. Of the vectors of the lattice whose coefficients are below ten it leaves most room, a 25th
/// of 2^63, between the coordinates of [`decompose`] and their bounds.
pub(super) const OFFSET: [u64; 4] =
    [10_150_396_147_274_665_267, 5_969_648_033_324_146_567, 4_599_217_133_366_993_745, 2_623_866_918_099_462_080];
/// The fractions `⌊2^256·α̂/N⌋` with which the Babai rounding divides, in little-endian words.
pub(super) const FRACTIONS: [[u64; 4]; 4] = [
    [0xee1c_896f_a27d_cc7e, 0xd16a_6914_b50b_f733, 0x33a2_69f5_eca5_409e, 0x00],
    [0x2a77_f071_59e6_0690, 0x5b7e_53ea_3e77_3ad5, 0x62d8_919b_2360_da3a, 0x04],
    [0xe0d7_c9b2_6d7a_cbf7, 0x38d8_5e9d_d912_3011, 0x33fa_63b6_b4d5_9bba, 0x03],
    [0x871f_7b80_c69f_a9e7, 0x7ff0_610b_a919_b427, 0xe01e_79d1_9c23_7e07, 0x01],
];

/// `a·b`.
fn product(a: &[u64; 4], b: &[u64; 4]) -> [u64; 8] {
    let mut sum = [0u64; 8];
    for i in 0..4 {
        let mut carry = 0;
        for j in 0..4 {
            let wide = u128::from(a[i]) * u128::from(b[j]) + u128::from(sum[i + j]) + carry;
            (sum[i + j], carry) = (wide as u64, wide >> 64);
        }
        sum[i + 4] = carry as u64;
    }
    sum
}

/// Four words a1 to a4, the first odd, with `a1 + a2·λφ + a3·λψ + a4·λφλψ = k` modulo N: \[CL15\], proposition 5, with
/// another vector added.
///
/// Babai's rounding leaves k a sum of the basis with coefficients in 0..=1 (and 2^-10 more, because the fractions are cut
/// off), and b4 once more if that is even. With `OFFSET` this stays between 2^63 and 2^64 in the first place, and between
/// 0 and 2^63 in the others. So everything is computed modulo 2^64. The first scalar's leading digits are 1, 1.
pub(super) fn decompose(k: &FourQScalar) -> [u64; 4] {
    let mut a = OFFSET;
    a[0] = a[0].wrapping_add(k.0[0]);
    for (fraction, row) in FRACTIONS.iter().zip(&BASIS) {
        // ⌊fraction·k / 2^256⌋ modulo 2^64.
        let alpha = product(fraction, &k.0)[4];
        for (a, b) in a.iter_mut().zip(row) {
            *a = a.wrapping_sub(alpha.wrapping_mul(*b as u64));
        }
    }
    let even = black_box(a[0] & 1).wrapping_sub(1);
    for (a, b) in a.iter_mut().zip(&BASIS[3]) {
        *a = a.wrapping_add(even & *b as u64);
    }
    a
}

/// The digits of a scalar, as masks: entry j - 1 of eight is all ones if the table's entry is j, and the last one if the
/// digit is negative. Wiped when dropped.
pub(super) struct Digits([[u64; 8]; 64]);

impl Drop for Digits {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|masks| masks.zeroize());
    }
}

impl Digits {
    /// The digits of a quarter of the scalar: on Ê that gives what the scalar gives on E, for the isogenies there and back make
    /// four of one point.
    ///
    /// Recodes so that the signs are those of a1, whose digits are 1 and -1, and the digits of the others are 0 or of
    /// that sign: \[CL15\], algorithm 1 (after Faz-Hernández, Longa, Sánchez, "Efficient and Secure Algorithms for
    /// GLV-Based Scalar Multiplication", CT-RSA 2014).
    pub(super) fn of(k: &FourQScalar) -> Self {
        let mut a = decompose(&k.quarter());
        let mut out = Self([[0; 8]; 64]);
        a[0] >>= 1;
        for masks in out.0.iter_mut().skip(1).rev() {
            let plus = a[0] & 1;
            a[0] >>= 1;
            let mut digit = 0;
            for j in 1..4 {
                let bit = a[j] & 1;
                digit |= bit << (j - 1);
                // A digit -1 leaves a[j] + 1.
                a[j] = (a[j] >> 1) + (bit & !plus);
            }
            *masks = mask(digit, plus);
        }
        out.0[0] = mask(a[1] | a[2] << 1 | a[3] << 2, 1);
        a.zeroize();
        out
    }

    /// The masks of the leading digit, and those of the others from the highest.
    pub(super) fn masks(&self) -> (&[u64; 8], &[[u64; 8]]) {
        let (first, rest) = self.0.split_first().expect("64 digits");
        (first, rest)
    }
}

/// The masks of one digit, of which `plus` is the sign.
fn mask(digit: u64, plus: u64) -> [u64; 8] {
    let mut masks = [0; 8];
    for (mask, j) in masks.iter_mut().zip(1..8) {
        let other = black_box(digit ^ j);
        *mask = ((other | other.wrapping_neg()) >> 63).wrapping_sub(1);
    }
    masks[7] = black_box(plus).wrapping_sub(1);
    masks
}
