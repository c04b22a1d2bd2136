//! secp256k1 (SEC 2, section 2.4.1): y^2 = x^3 + 7, with its endomorphism.
//!
//! The hash is RFC 9380's `secp256k1_XMD:SHA-256_SSWU_RO_`, through a curve with an isogeny of degree 3 to this one. What
//! travels is x alone, in 32 bytes; `weierstrass` says why that is enough, and how batches are multiplied.
//!
//! **The scalar as an Eisenstein integer.** With beta^3 = 1 in the field, (x, y) -> (beta·x, y) multiplies by a root lambda
//! of t^2 + t + 1 modulo n (R. Gallant, R. Lambert, S. Vanstone, CRYPTO 2001). So scalars are elements of Z[w], w a cube
//! root of unity, modulo an ideal of norm n; a scalar has a representative of absolute value at most sqrt(n), and half as
//! many doublings suffice. Rather than two integers with digits of their own, the representative itself is written in
//! base 4 with digits from Z[w]: six of them differ by a unit, which costs a product with beta and a sign, so that four
//! multiples in the table give 24 digits, one for every two bits of both components.

use crate::field::Lanes;
use crate::field::prime256::*;
use crate::hash_to_curve::Inputs;
use crate::weierstrass::{self, Curve, Digit, Digits, Map, Points, Scalar, WIRE, Work};
use crate::{BadElement, Dst, Group};
use vesica_cpu::Backend;
use vesica_types::Digest;
use zeroize::Zeroize;

/// The group of secp256k1, elements as x on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Secp256k1;

impl Group for Secp256k1 {
    const NAME: &'static str = "secp256k1";
    const WIRE: usize = WIRE;
    type Scalar = Scalar<Field>;
    type Points = Points<Field>;

    fn hash(dst: &Dst, inputs: &[Digest]) -> Self::Points {
        Points::hash_on(Backend::chosen(), dst, Inputs::Digests(inputs))
    }

    fn decode(wire: &[u8], coins: &[u8; 32]) -> Result<Self::Points, BadElement> {
        Points::decode_on(Backend::chosen(), wire, coins)
    }
}

weierstrass::blind::blinding!(Secp256k1);
weierstrass::oblivious!(Secp256k1);

/// The field of 2^256 - 2^32 - 977 elements, and the curve over it.
#[derive(Clone, Copy)]
pub struct Field;

/// 2^256 modulo p, which is small: what is above a power of two is worth it once, below.
const FOLD_256: u64 = (1 << 32) + 977;
/// 2^260 modulo p.
const FOLD_260: u64 = FOLD_256 << 4;

impl Prime for Field {
    const P: [u64; 4] = [0xffff_fffe_ffff_fc2f, u64::MAX, u64::MAX, u64::MAX];
    const DOMAIN: u32 = 0;
    const LIFT: usize = 0;
    // What column 4 is lent is worth 8 · 2^260. Column 0 owes it rather than column 5, as the upper half could go below zero.
    const SIGNED_START: [u64; 10] =
        [LENT - 8 * FOLD_260, LENT_ON, LENT_ON, LENT_ON, LENT_ON, LENT, LENT_ON, LENT_ON, LENT_ON, OWED];
    const FOLD_PARTS: [(u64, u64); 10] =
        [(2, 0), (1, 2), (1, 1), (1, 1), (1, 1), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0)];

    // (p - 3)/4 in binary: 223 ones, 0, 22 ones, 0000, 1, 011.
    const CHAIN: &'static [Power] = &[
        power(1, 0, 1, 0),  // x^(2^2 - 1)
        power(2, 1, 1, 0),  // 3 ones
        power(3, 2, 3, 2),  // 6
        power(3, 3, 3, 2),  // 9
        power(3, 3, 2, 1),  // 11
        power(3, 3, 11, 3), // 22
        power(4, 3, 22, 3), // 44
        power(5, 4, 44, 4), // 88
        power(5, 5, 88, 5), // 176
        power(5, 5, 44, 4), // 220
        power(5, 5, 3, 2),  // 223
        power(5, 5, 23, 3), // 0, 22 ones
        power(5, 5, 5, 0),  // 00001
        power(5, 5, 3, 1),  // 011
    ];

    #[inline(always)]
    fn fold<V: Lanes>(mut c: Columns<V>) -> Limbs<V> {
        let by = V::splat(FOLD_260);
        // The upper columns are carried, loosely: the value is below 2^520, so the last stays below 2^52.
        for i in 5..9 {
            c[i + 1] = c[i + 1].add(c[i].shr(52));
        }
        if !V::MADD {
            // No column of the upper half is negative when it is carried, nor is their sum: where a low part in it is negative,
            // the high part above is not zero. Column 4 is not negative, since it was lent 2^55, or 2^7·2^256.
            let over = V::splat(V::PART_HI_ORIGIN.wrapping_neg()).part_hi(c[9], by);
            c[4] = c[4].part_lo(c[9], by);
            for i in 0..4 {
                let high = c[i + 5];
                part(&mut c, i, high, by);
            }
            part(&mut c, 0, over, by);
            return Self::trim([c[0], c[1], c[2], c[3], c[4]]);
        }
        let mut over = V::zero();
        for i in 0..5 {
            c[i] = c[i].madd_lo(c[i + 5], by);
            if i < 4 {
                c[i + 1] = c[i + 1].madd_hi(c[i + 5], by);
            } else {
                over = over.madd_hi(c[9], by);
            }
        }
        // `over` is below 2^37: its product fills a limb and some of the next.
        c[0] = c[0].madd_lo(over, by);
        c[1] = c[1].madd_hi(over, by);
        Self::trim([c[0], c[1], c[2], c[3], c[4]])
    }

    #[inline(always)]
    fn trim<V: Lanes>(mut raw: Limbs<V>) -> Limbs<V> {
        // At most 12 bits times 33.
        let over = raw[4].shr(48);
        raw[4] = raw[4].and(V::splat(LOW_48));
        raw[0] = if V::MADD {
            raw[0].madd_lo(over, V::splat(FOLD_256))
        } else {
            raw[0].add(over.shl(32)).madd_small(over, V::splat(FOLD_256 - (1 << 32)))
        };
        raw
    }
}

/// The first vector of the lattice of (a, b) with a + b·lambda = 0 modulo n: NU = A1 - M1·w has norm n.
const A1: u128 = 0x3086_d221_a7d4_6bcd_e86c_90e4_9284_eb15;
const M1: u128 = 0xe443_7ed6_010e_8828_6f54_7fa9_0abf_e4c3;
/// (A1 + M1)·2^320 / n and M1·2^320 / n, rounded down.
const G1: [u64; 4] = [0x5fbc_92c1_0fdd_d145, 0x57c1_108d_9d44_cfd9, 0x14ca_50f7_a8e2_f3f6, 0x0000_0000_0000_0001];
const G2: [u64; 4] = [0x2212_08ac_9df5_06c6, 0x6f54_7fa9_0abf_e4c4, 0xe443_7ed6_010e_8828, 0x0000_0000_0000_0000];

/// The digits: these times the units ±1, ±w, ±w^2. Each odd class modulo 4 has at least one whose quotient is odd again.
const MULTIPLES: [(i64, i64); 4] = [(1, 0), (3, 0), (1, 2), (1, -2)];

/// A digit a + b·w, and how it is made.
#[derive(Clone, Copy)]
struct Choice {
    a: i64,
    b: i64,
    digit: Digit,
}

/// All 24 digits.
const DIGITS: [Choice; 24] = {
    let none = Choice { a: 0, b: 0, digit: Digit { entry: 0, negative: 0, turn: 0 } };
    let mut out = [none; 24];
    let mut entry = 0;
    while entry < 4 {
        let (mut a, mut b) = MULTIPLES[entry];
        let mut turn = 0;
        while turn < 3 {
            let at = 6 * entry + 2 * turn;
            out[at] = Choice { a, b, digit: Digit { entry: entry as u8, negative: 0, turn: turn as u8 } };
            out[at + 1] = Choice { a: -a, b: -b, digit: Digit { entry: entry as u8, negative: 1, turn: turn as u8 } };
            // Times w: w^2 = -1 - w.
            (a, b) = (-b, a - b);
            turn += 1;
        }
        entry += 1;
    }
    out
};

/// The digit for each class modulo 8 of an odd number: congruent modulo 4, and the difference is not divisible by 8.
const BY_CLASS: [Choice; 64] = {
    let mut out = [DIGITS[0]; 64];
    let mut class = 0;
    while class < 64 {
        let (a, b) = (class as i64 / 8, class as i64 % 8);
        let mut found = false;
        let mut i = 0;
        while i < 24 && !found {
            let (da, db) = (a - DIGITS[i].a, b - DIGITS[i].b);
            if da % 4 == 0 && db % 4 == 0 && (da % 8 != 0 || db % 8 != 0) {
                out[class] = DIGITS[i];
                found = true;
            }
            i += 1;
        }
        assert!(found || (a % 2 == 0 && b % 2 == 0));
        class += 1;
    }
    out
};

impl Curve for Field {
    const A_IS_ZERO: bool = true;
    const B: [u64; 4] = [7, 0, 0, 0];
    const ORDER: [u64; 4] = [0xbfd2_5e8c_d036_4141, 0xbaae_dce6_af48_a03b, 0xffff_ffff_ffff_fffe, u64::MAX];
    const BASE: (u8, [u64; 4]) =
        (2, [0x59f2_815b_16f8_1798, 0x029b_fcdb_2dce_28d9, 0x55a0_6295_ce87_0b07, 0x79be_667e_f9dc_bbac]);
    const WINDOWS: usize = 52;
    const BETA: Option<[u64; 4]> =
        Some([0xc139_6c28_7195_01ee, 0x9cf0_4975_12f5_8995, 0x6e64_479e_ac34_34e9, 0x7ae9_6a2b_657c_0710]);
    const TABLE: usize = MULTIPLES.len();
    const DOUBLINGS: usize = 1;

    // RFC 9380, section 8.7.
    const MAP: Map = Map {
        a: [0x4054_47c0_1a44_4533, 0xe953_d363_cb6f_0e5d, 0xa08a_5558_f0f5_d272, 0x3f87_31ab_dd66_1adc],
        b: [1771, 0, 0, 0],
        z: -11,
        root: [0x2867_29c8_303c_4a59, 0xec18_4f00_a747_89dd, 0x7ad1_3fb3_8f84_2afe, 0x31fd_f302_7240_13e5],
    };

    /// 65 digits in base 4, least significant last.
    ///
    /// k is reduced modulo the ideal (NU) to k' = k - (c1 + c2·w)·NU, c1 and c2 the rounded-down coordinates of k/NU: then
    /// k' = (s + t·w)·NU with s and t in [0, 1 + 2^-64), so |k'| <= (1 + 2^-63)·sqrt(n); and if k' is divisible by 2 then
    /// k' - (1 + w)·NU is not and is no larger, by symmetry. An odd k' is 4·k'' + d with d a digit and k'' odd; digits
    /// have absolute value at most 3, so after 64 steps |k''| is at most 2^-128·sqrt(n) + 1 + 2^-60 < 2.01, and odd
    /// elements that small have norm 1 or 3: they are digits.
    ///
    /// No step fails. Let m be a prefix (odd, never zero), so that the step is from 2m with digit d. 2m - ud for a unit u =
    /// ±1 is not zero, because d is odd; 4m + d is a prefix, hence odd and not zero. A non-zero element of the ideal has
    /// norm at least n, but |2m - ud| <= (|k'| + 3)/2 + 3 and |4m + d| < sqrt(n) unless this is the last step; there it is
    /// k', which is not in the ideal because k is not zero modulo n.
    fn recode(k: &[u64; 4]) -> Digits {
        let (c1, c2) = (quotient(k, &G1), quotient(k, &G2));
        let (a1, m1, sum) = (Long::from(A1), Long::from(M1), Long::from(A1).plus(Long::from(M1)));
        let k = Long([k[0], k[1], k[2]]);
        // (c1 + c2·w)(A1 - M1·w), with w^2 = -1 - w.
        let mut a = k.minus(c1.times(a1)).minus(c2.times(m1));
        let mut b = c1.times(m1).minus(c2.times(sum));
        let even = Long([(std::hint::black_box((a.0[0] | b.0[0]) & 1) ^ 1).wrapping_neg(); 3]);
        a = a.minus(sum.and(even));
        b = b.minus(a1.and(even));
        let mut digits = Digits(vec![Digit::default(); 65]);
        for i in (1..65).rev() {
            let class = (a.0[0] & 7) << 3 | b.0[0] & 7;
            let (da, db) = look_up(&BY_CLASS, &mut digits.0[i], |at, _| equal_words(at as u64, class));
            a = a.minus(da).quarter();
            b = b.minus(db).quarter();
        }
        look_up(&DIGITS, &mut digits.0[0], |_, choice| {
            equal_words(choice.a as u64, a.0[0]) & equal_words(choice.b as u64, b.0[0])
        });
        a.0.zeroize();
        b.0.zeroize();
        digits
    }

    /// P, 3P, (1 + 2w)P and (1 - 2w)P.
    #[inline(always)]
    fn table<V: Lanes>(work: &mut Work<V>) {
        weierstrass::call_table::<Self, V, Table>(work);
    }

    /// The isogeny of RFC 9380, appendix E.1, of degree 3. Its denominators are the square and the cube of x - X0.
    #[inline(always)]
    fn leave<V: Lanes>(x: Limbs<V>, w: Limbs<V>, z: Limbs<V>) -> [Limbs<V>; 3] {
        let s = mul::<Self, V>(&z, &z);
        let x2 = mul_loose::<Self, V>(&x, &x);
        let s2 = mul_loose::<Self, V>(&s, &s);
        let powers = [
            mul_loose::<Self, V>(&s2, &s),
            mul_loose::<Self, V>(&s2, &x),
            mul_loose::<Self, V>(&x2, &s),
            mul_loose::<Self, V>(&x2, &x),
        ];
        // h/s = x - X0, and Z is multiplied by h.
        let h = ripple(add(&x, &minus::<Self, V>(&mul::<Self, V>(&s, &splat(limbs(X0))))));
        let x = polynomial(&powers, &X_NUMERATOR);
        [x, mul::<Self, V>(&w, &polynomial(&powers, &Y_NUMERATOR)), mul::<Self, V>(&z, &h)]
    }

    weierstrass::entries!();
}

struct Table;

impl weierstrass::FillTable<Field> for Table {
    #[inline(always)]
    fn fill<V: Lanes>(work: &mut Work<V>) {
        work.double::<Field>();
        work.open_chord::<Field>(0, None);
        work.chord::<Field>(0, false, 1);
        let beta = splat(const { Held::<Field>::of(Field::BETA.unwrap()) });
        work.open_chord::<Field>(0, Some(&beta));
        work.chord::<Field>(0, false, 2);
        work.chord::<Field>(0, true, 3);
    }
}

/// The sum of the products of powers and coefficients: tight.
#[inline(always)]
fn polynomial<V: Lanes>(powers: &[Limbs<V>; 4], coefficients: &[[u64; 4]; 4]) -> Limbs<V> {
    let mut sum = [V::zero(); 5];
    for i in 0..4 {
        sum = mul_add::<Field, V>(&powers[i], &splat(limbs(coefficients[i])), &sum);
    }
    carry(sum)
}

/// The coefficients k_(1,0) to k_(1,3) of the isogeny.
const X_NUMERATOR: [[u64; 4]; 4] = [
    [0x8e38_e38d_aaaa_a8c7, 0x38e3_8e38_e38e_38e3, 0xe38e_38e3_8e38_e38e, 0x8e38_e38e_38e3_8e38],
    [0xdfff_1044_f17c_6581, 0xd595_d2fc_0bf6_3b92, 0xb9f3_15ce_a7fd_44c5, 0x07d3_d4c8_0bc3_21d5],
    [0x4ecb_d0b5_3d9d_d262, 0xe450_6144_037c_4031, 0xe2a4_13de_ca25_caec, 0x534c_328d_23f2_34e6],
    [0x8e38_e38d_aaaa_a88c, 0x38e3_8e38_e38e_38e3, 0xe38e_38e3_8e38_e38e, 0x8e38_e38e_38e3_8e38],
];
/// k_(3,0) to k_(3,3).
const Y_NUMERATOR: [[u64; 4]; 4] = [
    [0xa12f_684b_8e38_e23c, 0x2f68_4bda_12f6_84bd, 0x684b_da12_f684_bda1, 0x4bda_12f6_84bd_a12f],
    [0xdffc_90fc_201d_71a3, 0x647a_b046_d686_da6f, 0xa9d0_a54b_12a0_a6d5, 0xc75e_0c32_d5cb_7c0f],
    [0xa765_e85a_9ece_e931, 0x7228_30a2_01be_2018, 0x7152_09ef_6512_e576, 0x29a6_1946_91f9_1a73],
    [0x84bd_a12f_38e3_8d84, 0xbda1_2f68_4bda_12f6, 0xa12f_684b_da12_f684, 0x2f68_4bda_12f6_84bd],
];
/// The abscissa of the kernel: -k_(2,1)/2.
const X0: [u64; 4] = [0x1d6a_d4ce_6ab9_c5a5, 0xfc96_4a4d_f050_df22, 0x041d_a695_7255_eed5, 0x8929_1c84_de3e_11f1];

/// 192 bits in two's complement.
#[derive(Clone, Copy)]
struct Long([u64; 3]);

impl From<u128> for Long {
    fn from(x: u128) -> Self {
        Self([x as u64, (x >> 64) as u64, 0])
    }
}

impl Long {
    fn plus(self, other: Self) -> Self {
        let mut carry = 0u128;
        Self(std::array::from_fn(|i| {
            let sum = u128::from(self.0[i]) + u128::from(other.0[i]) + carry;
            carry = sum >> 64;
            sum as u64
        }))
    }

    fn minus(self, other: Self) -> Self {
        self.plus(Self(other.0.map(|word| !word)).plus(Self([1, 0, 0])))
    }

    fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// The product modulo 2^192.
    fn times(self, other: Self) -> Self {
        let mut out = [0u64; 3];
        for i in 0..3 {
            let mut carry = 0u128;
            for j in 0..3 - i {
                let sum = u128::from(self.0[i]) * u128::from(other.0[j]) + u128::from(out[i + j]) + carry;
                out[i + j] = sum as u64;
                carry = sum >> 64;
            }
        }
        Self(out)
    }

    /// A quarter, for what is divisible by four.
    fn quarter(self) -> Self {
        let [a, b, c] = self.0;
        Self([a >> 2 | b << 62, b >> 2 | c << 62, (c as i64 >> 2) as u64])
    }
}

/// k·g / 2^320, rounded down.
fn quotient(k: &[u64; 4], g: &[u64; 4]) -> Long {
    let mut out = [0u64; 8];
    for i in 0..4 {
        let mut carry = 0u128;
        for j in 0..4 {
            let sum = u128::from(k[i]) * u128::from(g[j]) + u128::from(out[i + j]) + carry;
            out[i + j] = sum as u64;
            carry = sum >> 64;
        }
        out[i + 4] = carry as u64;
    }
    let long = Long([out[5], out[6], out[7]]);
    out.zeroize();
    long
}

/// All ones if the words are equal.
fn equal_words(a: u64, b: u64) -> u64 {
    let x = a ^ b;
    (std::hint::black_box(x | x.wrapping_neg()) >> 63).wrapping_sub(1)
}

/// Reads a whole table, keeping the entry whose mask is set: the digit, and its two components.
fn look_up(table: &[Choice], digit: &mut Digit, mask: impl Fn(usize, &Choice) -> u64) -> (Long, Long) {
    let (mut a, mut b) = (0i64, 0i64);
    for (at, choice) in table.iter().enumerate() {
        let mask = mask(at, choice);
        a |= choice.a & mask as i64;
        b |= choice.b & mask as i64;
        digit.entry |= choice.digit.entry & mask as u8;
        digit.negative |= choice.digit.negative & mask as u8;
        digit.turn |= choice.digit.turn & mask as u8;
    }
    let long = |x: i64| Long([x as u64, (x >> 63) as u64, (x >> 63) as u64]);
    (long(a), long(b))
}
