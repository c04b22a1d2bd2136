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

    /// 1.
    pub(super) fn one() -> Self {
        Self([1, 0, 0, 0])
    }
}

/// 1/392 modulo N.
const INVERSE_OF_COFACTOR: [u64; 4] =
    [0x19fb_eb87_7b26_91f3, 0x5b1f_37c5_a96f_4350, 0xa61e_1145_d66a_d5e2, 0x0023_ee83_9264_702a];

/// The Babai-optimal basis of the lattice of (a1, a2, a3, a4) with a1 + a2·λφ + a3·λψ + a4·λφλψ = 0 modulo N:
/// \[CL15\], section 4.2.
pub(super) const BASIS: [[i64; 4]; 4] = [
    [650_487_742_939_046_294, -1_397_215_820_276_968_864, 523_086_274_270_593_807, -598_824_378_691_085_905],
    [2_110_318_963_211_420_372, -1, 1, 2_727_991_412_926_801_872],
    [1_705_647_224_544_756_482, 199_320_682_881_407_569, -3_336_360_048_424_633_503, 765_171_327_772_315_031],
    [1_400_113_754_146_392_127, 3_540_637_644_719_456_050, -471_270_406_870_313_397, -1_789_345_740_969_872_106],
];
/// 7b1 + 9b2 - 3b3 + 5b4 of the basis, modulo 2^64. Of all vectors of the lattice it leaves most room, a fifth of 2^64,
/// between the coordinates of [`decompose`] and their bounds.
const OFFSET: [u64; 4] =
    [6_983_167_892_864_246_979, 7_324_715_433_014_275_486, 11_314_332_030_816_490_182, 9_117_909_377_337_309_890];
/// The fractions `⌊2^256·α̂/N⌋` with which the Babai rounding divides, in little-endian words.
const FRACTIONS: [[u64; 4]; 4] = [
    [0x2596_86e0_9d1a_7d4f, 0xf756_82ac_e6a6_bd66, 0xfc5b_b5c5_ea2b_e5df, 0x07],
    [0xd1ba_1d84_dd62_7afb, 0x2bd2_3558_0f46_8d8d, 0x8fd4_b04c_aa6c_0f8a, 0x03],
    [0x9b29_1a33_678c_203c, 0xc42b_d6c9_65dc_a902, 0xd038_bf8d_0bff_baf6, 0x00],
    [0x12e5_666b_77e7_fdc0, 0x81cb_dc37_1498_3d82, 0x1b07_3877_a22d_8410, 0x03],
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

/// Four words a1 to a4, the first odd, with `(2^64 + a1) + a2·λφ + a3·λψ + a4·λφλψ = k` modulo N: \[CL15\], proposition 5,
/// with another vector added.
///
/// Babai's rounding leaves k a sum of the basis with coefficients in 0..=1 (and 2^-10 more, because the fractions are cut
/// off), and b4 once more if that is odd. With `OFFSET` this stays between 2^64 and 2^65 in the first place, and between
/// 0 and 2^64 in the others. So everything is computed modulo 2^64. The first scalar's leading digits are 1, 1.
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
pub(super) struct Digits([[u64; 8]; 65]);

impl Drop for Digits {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|masks| masks.zeroize());
    }
}

impl Digits {
    /// Recodes so that the signs are those of a1, whose digits are 1 and -1, and the digits of the others are 0 or of
    /// that sign: \[CL15\], algorithm 1 (after Faz-Hernández, Longa, Sánchez, "Efficient and Secure Algorithms for
    /// GLV-Based Scalar Multiplication", CT-RSA 2014).
    pub(super) fn of(k: &FourQScalar) -> Self {
        let mut a = decompose(k);
        let mut out = Self([[0; 8]; 65]);
        // Halved, with the bit 2^64 that stands above the word.
        a[0] = a[0] >> 1 | 1 << 63;
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
        let (first, rest) = self.0.split_first().expect("65 digits");
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
