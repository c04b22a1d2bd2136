//! Elements as bytes: RFC 9496, sections 4.3.1 and 4.3.2, and the square roots that both take.

use super::{Points, Ristretto255};
use crate::backend::Kernel;
use crate::edwards::{NEUTRAL, Point};
use crate::field::f25519::block::{Block, vectors};
use crate::field::f25519::{Fe, ROOT_OF_MINUS_1, powers_p58};
use crate::field::{Formula, Lanes};
use crate::{BadElement, Group};

/// d = -121665/121666.
pub(super) const D: [u64; 4] =
    [0x75eb_4dca_1359_78a3, 0x0070_0a4d_4141_d8ab, 0x8cc7_4079_7779_e898, 0x5203_6cee_2b6f_fe73];
/// The square root of 1/(a - d) that it names.
const INVSQRT_A_MINUS_D: [u64; 4] =
    [0x99c8_fdaa_805d_40ea, 0x9d2f_1617_5a41_72be, 0x16c2_7b91_fe01_d840, 0x786c_8905_cfaf_fca2];

/// `|x|`: of x and -x the one whose canonical representative is even.
#[inline(always)]
pub(super) fn absolute<V: Lanes>(x: &Fe<V>) -> Fe<V> {
    Fe::select(x.is_odd(), &x.neg(), x)
}

/// SQRT_RATIO_M1 of RFC 9496, section 4.2, for each pair: whether u/v is a square (0 is), and the non-negative square root of
/// u/v or of i·u/v; 0 if u or v is 0.
#[inline(always)]
pub(super) fn square_roots_of_ratios<V: Lanes, const N: usize>(u: [Fe<V>; N], v: [Fe<V>; N]) -> [(V, Fe<V>); N] {
    let i = Fe::splat(ROOT_OF_MINUS_1);
    let mut uv3 = u;
    let mut uv7 = u;
    for n in 0..N {
        uv3[n] = v[n].square().mul(&v[n]).mul(&u[n]);
        uv7[n] = v[n].square().square().mul(&uv3[n]);
    }
    let powers = powers_p58(uv7);
    let mut out = [(V::zero(), i); N];
    for n in 0..N {
        let root = uv3[n].mul(&powers[n]);
        let check = root.square().mul(&v[n]);
        let correct = check.sub(&u[n]).is_zero();
        let flipped = check.add(&u[n]).is_zero();
        let flipped_i = check.add(&u[n].mul(&i)).is_zero();
        let root = Fe::select(flipped.or(flipped_i), &root.mul(&i), &root);
        out[n] = (correct.or(flipped), absolute(&root));
    }
    out
}

/// RFC 9496, section 4.3.1, for canonical and non-negative s: the points, and whether each s was an encoding. Two at once, so
/// that their square roots overlap.
struct FromBytes<V>([Fe<V>; 2]);

impl<V: Lanes> Formula<V> for FromBytes<V> {
    type Out = [(Point<V>, V); 2];

    #[inline(always)]
    fn run(self) -> Self::Out {
        let s = self.0;
        let one = Fe::one();
        let (mut u1, mut u2, mut v, mut ratio) = (s, s, s, s);
        for n in 0..2 {
            let ss = s[n].square();
            u1[n] = one.sub(&ss);
            u2[n] = one.add(&ss);
            let u2_sqr = u2[n].square();
            v[n] = Fe::splat(D).mul(&u1[n].square()).add(&u2_sqr).neg();
            ratio[n] = v[n].mul(&u2_sqr);
        }
        let roots = square_roots_of_ratios([one; 2], ratio);
        let mut out = [(Point { x: one, y: one, z: one, t: one }, V::zero()); 2];
        for n in 0..2 {
            let (was_square, invsqrt) = roots[n];
            let den_x = invsqrt.mul(&u2[n]);
            let den_y = invsqrt.mul(&den_x).mul(&v[n]);
            let x = absolute(&s[n].add(&s[n]).mul(&den_x));
            let y = u1[n].mul(&den_y);
            let t = x.mul(&y);
            out[n] = (Point { x, y, z: one, t }, was_square.and_not(t.is_odd()).and_not(y.is_zero()));
        }
        out
    }
}

/// Takes numbers off the wire, and finds the first that cannot be an encoding: not canonical, negative, or zero.
fn read(wire: &[u8]) -> (usize, Vec<Block>, Option<BadElement>) {
    let (elements, rest) = wire.as_chunks::<{ Ristretto255::WIRE }>();
    let mut blocks = vec![Block::filled(0); elements.len().div_ceil(Block::LANES)];
    let mut bad = (!rest.is_empty()).then_some(BadElement { index: elements.len(), why: "is cut short" });
    for (index, bytes) in elements.iter().enumerate().rev() {
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let [w0, w1, w2, w3] = words;
        let above_p = w3 > u64::MAX >> 1 || (w3 == u64::MAX >> 1 && w2 & w1 == u64::MAX && w0 >= 19u64.wrapping_neg());
        if above_p || w0 & 1 == 1 {
            bad = Some(BadElement { index, why: "is not a canonical encoding" });
        } else if words == [0; 4] {
            bad = Some(BadElement { index, why: "is the neutral element" });
        }
        for (lanes, word) in blocks[index / Block::LANES].0.iter_mut().zip(words) {
            lanes[index % Block::LANES] = word;
        }
    }
    (elements.len(), blocks, bad)
}

pub(super) struct Decode<'a> {
    pub(super) wire: &'a [u8],
}

impl Kernel for Decode<'_> {
    type Out = Result<Points, BadElement>;

    #[inline(always)]
    fn run<V: Lanes>(self) -> Self::Out {
        let (len, numbers, bad) = read(self.wire);
        let mut blocks = vec![NEUTRAL; numbers.len()];
        let mut rest = vectors::<V>(len);
        while let Some(first) = rest.next() {
            let pair = [first, rest.next().unwrap_or(first)];
            let [(b0, p0), (b1, p1)] = pair;
            let points = V::call(FromBytes([numbers[b0].load::<V>(p0), numbers[b1].load(p1)]));
            for ((block, part), (point, good)) in pair.into_iter().zip(points) {
                let mut lanes = [0; Block::LANES];
                good.store(&mut lanes);
                let index = block * Block::LANES + part * V::WIDTH;
                // Lanes past the end hold 0, which is an encoding.
                if let Some(lane) = lanes[..V::WIDTH].iter().position(|&mask| mask == 0) {
                    let found = BadElement { index: index + lane, why: "is not an element of the group" };
                    return Err(bad.filter(|bad| bad.index <= found.index).unwrap_or(found));
                }
                point.store(&mut blocks[block], part);
            }
        }
        match bad {
            None => Ok(Points { len, blocks }),
            Some(bad) => Err(bad),
        }
    }
}

/// RFC 9496, section 4.3.2, for two points at once, whose square roots overlap.
struct ToBytes<V>([Point<V>; 2]);

impl<V: Lanes> Formula<V> for ToBytes<V> {
    type Out = [Fe<V>; 2];

    #[inline(always)]
    fn run(self) -> [Fe<V>; 2] {
        let points = self.0;
        let i = Fe::splat(ROOT_OF_MINUS_1);
        let mut u1 = [i; 2];
        let mut u2 = [i; 2];
        let mut ratio = [i; 2];
        for n in 0..2 {
            let Point { x, y, z, .. } = &points[n];
            u1[n] = z.add(y).mul(&z.sub(y));
            u2[n] = x.mul(y);
            ratio[n] = u2[n].square().mul(&u1[n]);
        }
        let roots = square_roots_of_ratios([Fe::one(); 2], ratio);
        let mut out = [i; 2];
        for n in 0..2 {
            let Point { x, y, z, t } = &points[n];
            let (_, invsqrt) = roots[n];
            let den1 = invsqrt.mul(&u1[n]);
            let den2 = invsqrt.mul(&u2[n]);
            let z_inv = den1.mul(&den2).mul(t);
            let rotate = t.mul(&z_inv).is_odd();
            let new_x = Fe::select(rotate, &y.mul(&i), x);
            let new_y = Fe::select(rotate, &x.mul(&i), y);
            let den_inv = Fe::select(rotate, &den1.mul(&Fe::splat(INVSQRT_A_MINUS_D)), &den2);
            let flip = new_x.mul(&z_inv).is_odd();
            let new_y = Fe::select(flip, &new_y.neg(), &new_y);
            out[n] = absolute(&den_inv.mul(&z.sub(&new_y)));
        }
        out
    }
}

pub(super) struct Encode<'a> {
    pub(super) points: &'a Points,
    pub(super) wire: &'a mut Vec<u8>,
}

impl Kernel for Encode<'_> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Encode { points, wire } = self;
        wire.reserve(Ristretto255::WIRE * points.len);
        let mut at = vectors::<V>(points.len);
        let mut left = points.len;
        while let Some(first) = at.next() {
            // The last vector may have no second.
            let second = at.next().unwrap_or(first);
            let pair = [Point::load(&points.blocks[first.0], first.1), Point::load(&points.blocks[second.0], second.1)];
            for s in V::call(ToBytes(pair)) {
                let mut words = Block::filled(0);
                words.store::<V>(0, &s);
                for lane in 0..left.min(V::WIDTH) {
                    for words in &words.0 {
                        wire.extend_from_slice(&words[lane].to_le_bytes());
                    }
                }
                left = left.saturating_sub(V::WIDTH);
            }
        }
    }
}
