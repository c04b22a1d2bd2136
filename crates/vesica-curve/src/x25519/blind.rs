//! Blinding: a party multiplies points for another party, which does not show them.
//!
//! What hides a point is added to it on edwards25519, the same curve in another form, because two points cannot be added by their u alone.

use super::bytes::{read, right_side};
use super::hash::{AT_ONCE, Point, ToCurve, first_six};
use super::ladder::{Bits, Ladder};
use super::{Curve25519, FILLER, Points, Scalar};
use crate::backend::{self, Kernel};
use crate::blind::{self, Blind, Digits};
use crate::edwards::{self, AddMultiples, Multiples, NEUTRAL, NegativeMultiples};
use crate::field::f25519::block::{Block, CHUNK, divide, multiply, vectors};
use crate::field::f25519::{Fe, ROOT_OF_MINUS_1, invert_all, powers_p58};
use crate::field::{Formula, Lanes};
use crate::hash_to_curve::{Expander, Inputs};
use crate::{BadElement, Dst, Group};
use vesica_cpu::Backend;
use vesica_types::Digest;
use zeroize::Zeroizing;

/// What undoes the blinding of a batch.
pub struct Blinds {
    pub(super) digits: Digits<{ edwards::WORDS }>,
    /// v of each blinded point. A peer may know it: the point is as good as random.
    pub(super) v: Vec<Block>,
}

/// A point B travels as its u, and E = kB as u(E) with the lowest bit of 2·v(B)·v(E) in bit 255: E if the blinded point was
/// B, -E if it was -B, and the evaluator need not know which.
///
/// A hashed point has a part of small order, that its blinding must hide too: so B = H(x) + r·G + s·T, with T of order 8, and
/// the evaluator's scalar, which is a multiple of 8, takes what is left of it away.
impl Blind for Curve25519 {
    const EVALUATED: usize = Self::WIRE;
    type Key = Multiples;
    type Blinds = Blinds;

    fn public(k: &Scalar) -> Vec<u8> {
        let (mut generator, mut public) = ([0; 32], Vec::new());
        generator[0] = 9;
        Self::evaluate_on(Backend::chosen(), k, &generator, &[0; 32], &mut public).expect("u = 9 is on the curve");
        public
    }

    fn key(public: &[u8]) -> Result<Multiples, BadElement> {
        let v = Block(GENERATOR_V.map(|word| [word; Block::LANES]));
        let points = lift_on(Backend::chosen(), public, 1, &[v])?;
        Ok(backend::dispatch(NegativeMultiples(&points[0])))
    }

    fn blind(dst: &Dst, inputs: &[Digest], random: &mut dyn FnMut(&mut [u8]), wire: &mut Vec<u8>) -> Blinds {
        let digits = Digits::draw(inputs.len(), random);
        let v = Self::blind_on(Backend::chosen(), dst, inputs, &digits, wire);
        Blinds { digits, v }
    }

    fn evaluate(k: &Scalar, wire: &[u8], coins: &[u8; 32], out: &mut Vec<u8>) -> Result<(), BadElement> {
        Self::evaluate_on(Backend::chosen(), k, wire, coins, out)
    }

    /// Every element is lifted to its v, which shows whether it is on the curve, so there is nothing to toss coins for.
    fn unblind(
        key: &Multiples,
        blinds: Blinds,
        wire: &[u8],
        _coins: &[u8; 32],
        out: &mut Vec<u8>,
    ) -> Result<(), BadElement> {
        Self::unblind_on(Backend::chosen(), key, &blinds, wire, out)
    }
}

/// The same, on a given back end.
impl Curve25519 {
    /// Returns v of the blinded points.
    pub(super) fn blind_on(
        backend: Backend,
        dst: &Dst,
        inputs: &[Digest],
        digits: &Digits<{ edwards::WORDS }>,
        wire: &mut Vec<u8>,
    ) -> Vec<Block> {
        let hash = HashToEdwards { dst, inputs: Inputs::Digests(inputs) };
        // Their denominators come from the secret digits, and would tell of them to who has the points that are sent.
        let mut points = Zeroizing::new(backend::run_on(backend, hash));
        let windows = edwards::generator().all();
        backend::run_on(backend, AddMultiples { points: &mut points, windows, digits });
        let (points, v) = backend::run_on(backend, FromEdwards { points: &points, len: inputs.len() });
        crate::Points::encode(&points, wire);
        v
    }

    pub(super) fn evaluate_on(
        backend: Backend,
        k: &Scalar,
        wire: &[u8],
        coins: &[u8; 32],
        out: &mut Vec<u8>,
    ) -> Result<(), BadElement> {
        let points = Points::decode_on(backend, wire, coins)?;
        crate::Points::encode(&backend::run_on(backend, Evaluate { points, k }), out);
        Ok(())
    }

    pub(super) fn unblind_on(
        backend: Backend,
        key: &Multiples,
        Blinds { digits, v }: &Blinds,
        wire: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), BadElement> {
        let mut points = Zeroizing::new(lift_on(backend, wire, digits.len(), v)?);
        backend::run_on(backend, AddMultiples { points: &mut points, windows: key.all(), digits });
        let made = Zeroizing::new(backend::run_on(backend, FromEdwards { points: &points, len: digits.len() }));
        crate::Points::encode(&made.0, out);
        Ok(())
    }
}

/// v of the base point, u = 9, that is the generator of edwards25519.
const GENERATOR_V: [u64; 4] =
    [0xd616_3a5d_8131_2c14, 0x6dc2_b281_9283_9e4d, 0x1fe1_22d3_88b7_2eb3, 0x5f51_e65e_475f_794b];

/// The square root of -(A + 2) that RFC 7748, section 4.1, names: x = √-(A + 2)·u/v and y = (u - 1)/(u + 1) are the point of
/// edwards25519 that (u, v) is.
pub(super) const SQRT_MINUS_A_PLUS_2: [u64; 4] =
    [0xcc6e_04aa_ff45_7e06, 0xc5a1_d3d1_4b7d_1a82, 0xd27b_08dc_03fc_4f7e, 0x0f26_edf4_60a0_06bb];

/// The point of edwards25519 that (x/z, v) is, if neither v nor x/z + 1 is zero: such points have small order.
#[inline(always)]
fn to_edwards<V: Lanes>(Point { x, z, y: v }: &Point<V>) -> edwards::Point<V> {
    let (sum, difference) = (x.add(z), x.sub(z));
    let (cx, zv) = (x.mul(&Fe::splat(SQRT_MINUS_A_PLUS_2)), z.mul(v));
    edwards::Point { x: cx.mul(&sum), y: difference.mul(&zv), z: zv.mul(&sum), t: cx.mul(&difference) }
}

/// [`Hash`] of one map, to points of edwards25519.
struct HashToEdwards<'a> {
    dst: &'a Dst,
    inputs: Inputs<'a>,
}

impl Kernel for HashToEdwards<'_> {
    type Out = Vec<edwards::Points>;

    #[inline(always)]
    fn run<V: Lanes>(self) -> Self::Out {
        let HashToEdwards { dst, inputs } = self;
        let expander = Expander::<V>::new(dst, inputs, 48);
        let mut blocks = vec![NEUTRAL; inputs.len().div_ceil(Block::LANES)];
        let mut places = vectors::<V>(inputs.len());
        // Several maps at a time, so that their chains of squarings overlap.
        for start in (0..inputs.len()).step_by(AT_ONCE * V::WIDTH) {
            let mut words = [[V::zero(); 6]; AT_ONCE];
            for (i, words) in words.iter_mut().enumerate() {
                *words = first_six(expander.expand(start + i * V::WIDTH));
            }
            let points = V::call(ToCurve(words));
            for (point, (block, part)) in points.iter().zip(places.by_ref().take(AT_ONCE)) {
                to_edwards(point).store(&mut blocks[block], part);
            }
        }
        blocks
    }
}

/// u and v of points of edwards25519: u = (1 + y)/(1 - y), v = √-(A + 2)·u/x. Those for which a denominator is zero have small
/// order, and become zero.
pub(super) struct FromEdwards<'a> {
    pub(super) points: &'a [edwards::Points],
    pub(super) len: usize,
}

impl Kernel for FromEdwards<'_> {
    type Out = (Points, Vec<Block>);

    #[inline(always)]
    fn run<V: Lanes>(self) -> Self::Out {
        let FromEdwards { points, len } = self;
        let (mut us, mut vs) = (vec![FILLER; points.len()], vec![FILLER; points.len()]);
        let mut denominators: Zeroizing<Vec<Fe<V>>> = Zeroizing::new(Vec::with_capacity(len.div_ceil(V::WIDTH)));
        for (block, part) in vectors::<V>(len) {
            let edwards::Point { x, y, z, .. } = edwards::Point::<V>::load(&points[block], part);
            let sum = z.add(&y);
            us[block].store(part, &sum.mul(&x));
            vs[block].store(part, &sum.mul(&z).mul(&Fe::splat(SQRT_MINUS_A_PLUS_2)));
            denominators.push(z.sub(&y).mul(&x));
        }
        divide(&mut us, &mut denominators);
        multiply(&mut vs, &denominators);
        (Points { len, blocks: us }, vs)
    }
}

/// 8k·B for each B, with a bit for the sign.
struct Evaluate<'a> {
    points: Points,
    k: &'a Scalar,
}

impl Kernel for Evaluate<'_> {
    type Out = Points;

    #[inline(always)]
    fn run<V: Lanes>(self) -> Points {
        let Evaluate { mut points, k } = self;
        let mut shifted = Zeroizing::new([0; 32]);
        for i in 0..32 {
            // Below 8 times the order, which is below 2^256.
            shifted[i] = k.k[i] << 3 | if i > 0 { k.k[i - 1] >> 5 } else { 0 };
        }
        let bits = Bits { bytes: &shifted, top: 255, doublings: 0 };
        let mut left = points.len;
        let room = CHUNK * Block::LANES / V::WIDTH;
        let mut products: Zeroizing<Vec<[Fe<V>; 2]>> = Zeroizing::new(Vec::with_capacity(room));
        let mut denominators: Zeroizing<Vec<Fe<V>>> = Zeroizing::new(Vec::with_capacity(room));
        for blocks in points.blocks.chunks_mut(CHUNK) {
            let len = left.min(CHUNK * Block::LANES);
            left -= len;
            products.clear();
            denominators.clear();
            for (block, part) in vectors::<V>(len) {
                let [(x, z), (next_x, next_z)] = V::call(Ladder { u: blocks[block].load::<V>(part), bits });
                products.push([x.mul(&next_z), next_x.mul(&z)]);
                denominators.push(z.mul(&next_z));
            }
            invert_all(&mut denominators);
            for (((block, part), [x, next]), inverse) in vectors::<V>(len).zip(products.iter()).zip(denominators.iter())
            {
                let (x, next) = (x.mul(inverse), next.mul(inverse));
                let negative = sign(&blocks[block].load(part), &x, &next).and(V::splat(1 << 63));
                blocks[block].store(part, &x);
                let top = &mut blocks[block].0[3][part * V::WIDTH..];
                V::load(top).or(negative).store(top);
            }
        }
        points
    }
}

/// Whether 2·v(P)·v(Q) is odd, from u of P, Q and P + Q (K. Okeya, K. Sakurai, "Efficient elliptic curve cryptosystems from a
/// scalar multiplication algorithm with recovery of the y-coordinate on a Montgomery-form elliptic curve", CHES 2001):
/// (u(P)·u(Q) + 1)·(u(P) + u(Q) + 2A) - 2A - (u(P) - u(Q))^2·u(P + Q).
#[inline(always)]
fn sign<V: Lanes>(p: &Fe<V>, q: &Fe<V>, sum: &Fe<V>) -> V {
    let a2 = Fe::splat([2 * 486_662, 0, 0, 0]);
    let left = p.mul(q).add(&Fe::one()).mul(&p.add(q).add(&a2)).sub(&a2);
    left.sub(&p.sub(q).square().mul(sum)).is_odd()
}

/// Reads `len` evaluated points, given v of the blinded ones, as points of edwards25519.
fn lift_on(backend: Backend, wire: &[u8], len: usize, v: &[Block]) -> Result<Vec<edwards::Points>, BadElement> {
    let mut us = wire.to_vec();
    let mut odd = vec![[0; Block::LANES]; wire.len().div_ceil(Curve25519::WIRE * Block::LANES)];
    for (index, element) in us.chunks_exact_mut(Curve25519::WIRE).enumerate() {
        odd[index / Block::LANES][index % Block::LANES] = u64::from(element[31] >> 7);
        element[31] &= 127;
    }
    let points = read(&us)?;
    blind::match_len(points.len, len)?;
    backend::run_on(backend, Lift { points: &points, odd: &odd, v })
}

struct Lift<'a> {
    points: &'a Points,
    /// The bit of each.
    odd: &'a [[u64; Block::LANES]],
    v: &'a [Block],
}

impl Kernel for Lift<'_> {
    type Out = Result<Vec<edwards::Points>, BadElement>;

    #[inline(always)]
    fn run<V: Lanes>(self) -> Self::Out {
        let Lift { points, odd, v } = self;
        let mut lifted = vec![NEUTRAL; points.blocks.len()];
        let mut rest = vectors::<V>(points.len);
        while let Some(first) = rest.next() {
            // The first stands in for those that are missing.
            let mut four = [first; AT_ONCE];
            let mut us = [points.blocks[first.0].load::<V>(first.1); AT_ONCE];
            for (place, u) in four.iter_mut().zip(&mut us).skip(1) {
                *place = rest.next().unwrap_or(first);
                *u = points.blocks[place.0].load(place.1);
            }
            for (((block, part), u), (root, on_curve)) in four.into_iter().zip(us).zip(V::call(Roots(us))) {
                let mut lanes = [0; Block::LANES];
                on_curve.store(&mut lanes);
                if let Some(lane) = lanes[..V::WIDTH].iter().position(|&mask| mask == 0) {
                    let index = block * Block::LANES + part * V::WIDTH + lane;
                    return Err(BadElement { index, why: "is not on the curve" });
                }
                let product = v[block].load(part).mul(&root);
                let odd = V::load(&odd[block][part * V::WIDTH..]).eq(V::splat(1));
                let wrong = product.add(&product).is_odd().xor(odd);
                let y = Fe::select(wrong, &root.neg(), &root);
                to_edwards(&Point { x: u, z: Fe::one(), y }).store(&mut lifted[block], part);
            }
        }
        Ok(lifted)
    }
}

/// A root of u^3 + A·u^2 + u for each u, and whether there is one. Several at once, so that their chains of squarings overlap.
struct Roots<V>([Fe<V>; AT_ONCE]);

impl<V: Lanes> Formula<V> for Roots<V> {
    type Out = [(Fe<V>, V); AT_ONCE];

    #[inline(always)]
    fn run(self) -> Self::Out {
        let mut squares = self.0;
        for square in &mut squares {
            *square = right_side(square);
        }
        let powers = powers_p58(squares);
        let mut out = [(Fe::one(), V::zero()); AT_ONCE];
        for n in 0..AT_ONCE {
            // The square of x^((p + 3)/8) is x or -x, if x is a square.
            let root = powers[n].mul(&squares[n]);
            let square = root.square();
            let minus = square.add(&squares[n]).is_zero();
            let root = Fe::select(minus, &root.mul(&Fe::splat(ROOT_OF_MINUS_1)), &root);
            out[n] = (root, square.sub(&squares[n]).is_zero().or(minus));
        }
        out
    }
}
