//! P-256 (FIPS 186-4, D.1.2.3; SP 800-186): y^2 = x^3 - 3x + b over a prime field of 256 bits.
//!
//! The hash is RFC 9380's `P256_XMD:SHA-256_SSWU_RO_`. What travels is x alone, in 32 bytes; `weierstrass` says why that
//! is enough, and how batches are multiplied. Where RFC 9497 is to be met byte for byte, it is [`P256Sec1`].

use crate::field::Lanes;
use crate::field::prime256::*;
use crate::hash_to_curve::Inputs;
use crate::weierstrass::sec1::{self, Sec1Points};
use crate::weierstrass::{self, Curve, Digits, Map, Points, Scalar, WIRE, Work};
use crate::{BadElement, Dst, Group, Numbers, Oblivious, Provable, Residue};
use vesica_cpu::Backend;
use vesica_types::Digest;

/// The group of P-256, elements as x on the wire.
#[derive(Clone, Copy, Debug)]
pub struct P256;

impl Group for P256 {
    const NAME: &'static str = "p256";
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

weierstrass::blind::blinding!(P256);

/// The group of P-256, elements as compressed points: what RFC 9497 calls P-256.
#[derive(Clone, Copy, Debug)]
pub struct P256Sec1;

impl Group for P256Sec1 {
    const NAME: &'static str = P256::NAME;
    const WIRE: usize = sec1::WIRE;
    type Scalar = Scalar<Field>;
    type Points = Sec1Points<Field>;

    fn hash(dst: &Dst, inputs: &[Digest]) -> Self::Points {
        Sec1Points::hash_on(Backend::chosen(), dst, Inputs::Digests(inputs))
    }

    /// Every element is lifted to its y, which shows whether it is on the curve, so there is nothing to toss coins for.
    fn decode(wire: &[u8], _coins: &[u8; 32]) -> Result<Self::Points, BadElement> {
        Sec1Points::decode_on(Backend::chosen(), wire)
    }
}

impl crate::Points for Sec1Points<Field> {
    type Scalar = Scalar<Field>;

    fn len(&self) -> usize {
        Sec1Points::len(self)
    }

    fn mul(self, k: &Self::Scalar) -> Self {
        self.mul_on(Backend::chosen(), k)
    }

    fn encode(&self, wire: &mut Vec<u8>) {
        self.encode_on(Backend::chosen(), wire);
    }
}

impl Oblivious for P256Sec1 {
    const NUMBERS: Numbers = Numbers::Big;

    fn hash_bytes(dst: &Dst, inputs: &[u8], each: usize) -> Self::Points {
        Sec1Points::hash_on(Backend::chosen(), dst, Inputs::Bytes(inputs, each))
    }

    fn generator() -> Self::Points {
        Sec1Points::generator_on(Backend::chosen())
    }
}

impl Provable for P256Sec1 {
    fn sum(elements: &Self::Points, weights: &[Residue]) -> Self::Points {
        elements.sum_on(Backend::chosen(), weights)
    }
}

/// The field of 2^256 - 2^224 + 2^192 + 2^96 - 1 elements, and the curve over it.
#[derive(Clone, Copy)]
pub struct Field;

impl Prime for Field {
    const P: [u64; 4] = [u64::MAX, 0x0000_0000_ffff_ffff, 0, 0xffff_ffff_0000_0001];
    const DOMAIN: u32 = 260;
    const LIFT: usize = 5;

    // (p - 3)/4 in binary: 32 ones, 31 zeros, 1, 96 zeros, 94 ones.
    const CHAIN: &'static [Power] = &[
        power(1, 0, 1, 0),   // x^(2^2 - 1)
        power(2, 1, 1, 0),   // 3 ones
        power(3, 2, 3, 2),   // 6
        power(3, 3, 6, 3),   // 12
        power(3, 3, 3, 2),   // 15
        power(4, 3, 15, 3),  // 30
        power(5, 4, 2, 1),   // 32
        power(6, 5, 32, 0),  // 32 ones, 31 zeros, 1
        power(6, 6, 128, 5), // 96 zeros, 32 ones
        power(6, 6, 32, 5),  // 32 more
        power(6, 6, 30, 4),  // 30 more
    ];

    /// Montgomery's reduction, a limb at a time: p = -1 modulo 2^52, so the limb itself is the quotient. With
    /// p = -1 + 2^52·2^44 + 2^156·2^36 + 2^208·(2^48 - 2^16).
    #[inline(always)]
    fn fold<V: Lanes>(mut c: Columns<V>) -> Limbs<V> {
        if !V::MADD {
            // By shifts: p + 1 = 2^96 + 2^192 - 2^224 + 2^256. A column loses less than 2^52 + 2^21.
            for i in 0..5 {
                let q = quotient(&mut c, i);
                add_shifted(&mut c, i + 1, q, 44);
                add_shifted(&mut c, i + 3, q, 36);
                sub_shifted(&mut c, i + 4, q, 16);
                add_shifted(&mut c, i + 4, q, 48);
            }
            return [c[5], c[6], c[7], c[8], c[9]];
        }
        let second = V::splat(1 << 44);
        let fourth = V::splat(1 << 36);
        let top = V::splat((1 << 48) - (1 << 16));
        for i in 0..5 {
            let q = c[i];
            c[i + 1] = c[i + 1].add(q.shr(52)).madd_lo(q, second);
            c[i + 2] = c[i + 2].madd_hi(q, second);
            c[i + 3] = c[i + 3].madd_lo(q, fourth);
            c[i + 4] = c[i + 4].madd_hi(q, fourth).madd_lo(q, top);
            c[i + 5] = c[i + 5].madd_hi(q, top);
        }
        [c[5], c[6], c[7], c[8], c[9]]
    }

    /// 2^256 = 2^224 - 2^192 - 2^96 + 1.
    #[inline(always)]
    fn trim<V: Lanes>(mut raw: Limbs<V>) -> Limbs<V> {
        let over = raw[4].shr(48);
        raw[4] = raw[4].and(V::splat(LOW_48)).add(over.shl(16));
        raw[3] = raw[3].sub(over.shl(36));
        raw[1] = raw[1].sub(over.shl(44));
        raw[0] = raw[0].add(over);
        raw
    }
}

impl Curve for Field {
    const A_IS_ZERO: bool = false;
    const B: [u64; 4] = [0x3bce_3c3e_27d2_604b, 0x651d_06b0_cc53_b0f6, 0xb3eb_bd55_7698_86bc, 0x5ac6_35d8_aa3a_93e7];
    const ORDER: [u64; 4] =
        [0xf3b9_cac2_fc63_2551, 0xbce6_faad_a717_9e84, 0xffff_ffff_ffff_ffff, 0xffff_ffff_0000_0000];
    const BASE: (u8, [u64; 4]) =
        (3, [0xf4a1_3945_d898_c296, 0x7703_7d81_2deb_33a0, 0xf8bc_e6e5_63a4_40f2, 0x6b17_d1f2_e12c_4247]);
    const WINDOWS: usize = 58;
    const TABLE: usize = 8;
    const DOUBLINGS: usize = 3;

    // RFC 9380, section 8.2.
    const MAP: Map = Map {
        a: [0xffff_ffff_ffff_fffc, 0x0000_0000_ffff_ffff, 0, 0xffff_ffff_0000_0001],
        b: Self::B,
        z: -10,
        root: [0x2ccd_3427_e433_c47f, 0x7b8d_1ff8_4c55_d5b6, 0xc978_fc67_5180_aab2, 0xda53_8e3b_e1d8_9b99],
    };

    fn recode(k: &[u64; 4]) -> Digits {
        weierstrass::odd_digits(k, &Self::ORDER)
    }

    #[inline(always)]
    fn table<V: Lanes>(work: &mut Work<V>) {
        weierstrass::call_table::<Self, V, weierstrass::OddMultiples>(work);
    }

    #[inline(always)]
    fn leave<V: Lanes>(x: Limbs<V>, w: Limbs<V>, z: Limbs<V>) -> [Limbs<V>; 3] {
        [x, w, z]
    }

    weierstrass::entries!();
}
