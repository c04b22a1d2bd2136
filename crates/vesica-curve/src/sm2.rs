//! The curve of SM2 (GM/T 0003.5-2012, GB/T 32918.5-2017): y^2 = x^3 - 3x + b over a prime field of 256 bits.
//!
//! No suite of RFC 9380 is registered for it, so the hash is the one that the RFC's own rules give, with the identifier
//! `SM2_XMD:SHA-256_SSWU_RO_`: SHA-256 as for every 256-bit curve there (the hash is a random oracle, no part of SM2's
//! signatures, and SHA-256 has instructions of its own), k = 128, L = 48, m = 1, the simplified SWU map since a and b are
//! not zero, and Z = -9, which is what `find_z_sswu` of appendix H.2 finds; a test finds it again. The rest is P-256's.
//!
//! What travels is x alone, in 32 bytes; `weierstrass` says why that is enough, and how batches are multiplied.

use crate::field::Lanes;
use crate::field::prime256::*;
use crate::hash_to_curve::Inputs;
use crate::weierstrass::{self, Curve, Digits, Map, Points, Scalar, WIRE, Work};
use crate::{BadElement, Dst, Group};
use vesica_cpu::Backend;
use vesica_types::Digest;

/// The group of SM2, elements as x on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Sm2;

impl Group for Sm2 {
    const NAME: &'static str = "sm2";
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

weierstrass::blind::blinding!(Sm2);
weierstrass::oblivious!(Sm2);

/// The field of 2^256 - 2^224 - 2^96 + 2^64 - 1 elements, and the curve over it.
#[derive(Clone, Copy)]
pub struct Field;

impl Prime for Field {
    const P: [u64; 4] = [0xffff_ffff_ffff_ffff, 0xffff_ffff_0000_0000, 0xffff_ffff_ffff_ffff, 0xffff_fffe_ffff_ffff];
    const DOMAIN: u32 = 260;
    const LIFT: usize = 5;
    // What `fold` adds: 2^52 - 1 in each of the columns 2 to 6, which is 2^364 - 2^104; column 9 ends up above zero.
    const START: [u64; 10] = [0, 0, 1, 0, 0, 0, 0, LOW_52, LOW_52, u64::MAX];

    // (p - 3)/4 in binary: 31 ones, 0, 128 ones, 32 zeros, 62 ones.
    const CHAIN: &'static [Power] = &[
        power(1, 0, 1, 0),  // x^(2^2 - 1)
        power(2, 1, 1, 0),  // 3 ones
        power(3, 2, 3, 2),  // 6
        power(3, 3, 6, 3),  // 12
        power(3, 3, 3, 2),  // 15
        power(4, 3, 15, 3), // 30
        power(4, 4, 1, 0),  // 31
        power(5, 4, 1, 0),  // 32
        power(6, 4, 33, 5), // 31 ones, 0, 32 ones
        power(6, 6, 32, 5),
        power(6, 6, 32, 5),
        power(6, 6, 32, 5),
        power(6, 6, 63, 4), // 32 zeros, 31 ones
        power(6, 6, 31, 4), // 31 more
    ];

    /// Montgomery's reduction, a limb at a time: p = -1 modulo 2^52, so the limb itself is the quotient. With
    /// p = -1 + 2^52·(2^52 - 2^44 + 2^12) - 2^104 + 2^208·(2^48 - 2^16).
    #[inline(always)]
    fn fold<V: Lanes>(mut c: Columns<V>) -> Limbs<V> {
        if !V::MADD {
            // By shifts: p + 1 = 2^64 - 2^96 - 2^224 + 2^256. A column loses less than 2·2^52 + 2^49 + 2^21.
            for i in 0..5 {
                let q = quotient(&mut c, i);
                add_shifted(&mut c, i + 1, q, 12);
                sub_shifted(&mut c, i + 1, q, 44);
                sub_shifted(&mut c, i + 4, q, 16);
                add_shifted(&mut c, i + 4, q, 48);
            }
            return [c[5], c[6], c[7], c[8], c[9]];
        }
        let low = V::splat(LOW_52);
        let second = V::splat((1 << 52) - (1 << 44) + (1 << 12));
        let top = V::splat((1 << 48) - (1 << 16));
        for i in 0..5 {
            let q = c[i];
            c[i + 1] = c[i + 1].add(q.shr(52)).madd_lo(q, second);
            // Minus q, and 2^52 - 1 so that nothing goes below zero; `START` takes that back.
            c[i + 2] = c[i + 2].madd_hi(q, second).add(low.and_not(q));
            c[i + 4] = c[i + 4].madd_lo(q, top);
            c[i + 5] = c[i + 5].madd_hi(q, top);
        }
        [c[5], c[6], c[7], c[8], c[9]]
    }

    /// 2^256 = 2^224 + 2^96 - 2^64 + 1.
    #[inline(always)]
    fn trim<V: Lanes>(mut raw: Limbs<V>) -> Limbs<V> {
        let over = raw[4].shr(48);
        raw[4] = raw[4].and(V::splat(LOW_48)).add(over.shl(16));
        raw[1] = raw[1].add(over.shl(44)).sub(over.shl(12));
        raw[0] = raw[0].add(over);
        raw
    }
}

impl Curve for Field {
    const A_IS_ZERO: bool = false;
    const B: [u64; 4] = [0xddbc_bd41_4d94_0e93, 0xf397_89f5_15ab_8f92, 0x4d5a_9e4b_cf65_09a7, 0x28e9_fa9e_9d9f_5e34];
    const ORDER: [u64; 4] =
        [0x53bb_f409_39d5_4123, 0x7203_df6b_21c6_052b, 0xffff_ffff_ffff_ffff, 0xffff_fffe_ffff_ffff];
    const BASE: (u8, [u64; 4]) =
        (2, [0x715a_4589_334c_74c7, 0x8fe3_0bbf_f266_0be1, 0x5f99_0446_6a39_c994, 0x32c4_ae2c_1f19_8119]);
    const WINDOWS: usize = 64;
    const TABLE: usize = 8;
    const DOUBLINGS: usize = 3;
    const MAP: Map = Map {
        a: [0xffff_ffff_ffff_fffc, 0xffff_ffff_0000_0000, 0xffff_ffff_ffff_ffff, 0xffff_fffe_ffff_ffff],
        b: Self::B,
        z: -9,
        root: [3, 0, 0, 0],
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
