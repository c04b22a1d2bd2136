//! ristretto255: the group of prime order that RFC 9496 makes of edwards25519, and its hash of RFC 9497
//! (`ristretto255_XMD:SHA-512_R255MAP_RO_` of RFC 9380, appendix B).
//!
//! An element is a coset of four points of the curve `-x^2 + y^2 = 1 + d·x^2·y^2`; any of them stands for it, in extended
//! coordinates (X : Y : Z : T) with x = X/Z, y = Y/Z, xy = T/Z. Encodings are unique, nothing is of small order and there is
//! no cofactor: what a protocol can get wrong with plain Curve25519 cannot be said here. It costs a square root at each
//! end.

use crate::backend::{self, Kernel};
use crate::blind::{self, Blind, Digits};
use crate::edwards::{self, Add, AddMultiples, Cached, Multiples, NEUTRAL, NegativeMultiples, Point};
use crate::field::f25519::block::{Block, vectors};
use crate::field::f25519::{Fe, ROOT_OF_MINUS_1, powers_p58};
use crate::field::{Formula, Lanes};
use crate::hash_to_curve::{self, Expander};
use crate::x25519::ORDER;
use crate::{BadElement, Dst, Group, SecretScalar, scalar};
use vesica_cpu::Backend;
use vesica_types::Digest;
use zeroize::Zeroize;

/// ristretto255 of RFC 9496.
#[derive(Clone, Copy, Debug)]
pub struct Ristretto255;

/// A secret scalar below the order of the group, as signed digits in radix 16.
pub struct Scalar {
    /// From the lowest; each from -8 to 8.
    digits: [i8; DIGITS],
}

/// The order has 253 bits, so 64 digits hold any scalar and its last carry.
const DIGITS: usize = 64;

impl Drop for Scalar {
    fn drop(&mut self) {
        self.digits.zeroize();
    }
}

impl SecretScalar for Scalar {
    fn from_uniform(bytes: &[u8; 64]) -> Self {
        let mut words = scalar::not_zero(scalar::reduce(bytes, &ORDER));
        let mut digits = [0; DIGITS];
        let mut carry = 0;
        for (i, digit) in digits.iter_mut().enumerate() {
            let nibble = (words[i / 16] >> (4 * (i % 16)) & 15) as i8 + carry;
            // 9 to 16 become -7 to 0 and a carry.
            carry = (nibble + 7) >> 4;
            *digit = nibble - (carry << 4);
        }
        words.zeroize();
        Self { digits }
    }
}

/// A batch of elements.
pub struct Points {
    len: usize,
    /// X, Y, Z and T.
    blocks: Vec<edwards::Points>,
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
        self.encode_on(Backend::chosen(), wire);
    }
}

impl Group for Ristretto255 {
    const NAME: &'static str = "ristretto255";
    const WIRE: usize = 32;
    type Scalar = Scalar;
    type Points = Points;

    fn hash(dst: &Dst, inputs: &[Digest]) -> Points {
        Points::hash_on(Backend::chosen(), dst, inputs)
    }

    /// Every encoding is checked for itself, as the square root that reads it shows whether it is one, so there is nothing to
    /// toss coins for.
    fn decode(wire: &[u8], _coins: &[u8; 32]) -> Result<Points, BadElement> {
        Points::decode_on(Backend::chosen(), wire)
    }
}

impl Blind for Ristretto255 {
    /// Encodings are unique here, and an element's negative has another: there is no bit to add.
    const EVALUATED: usize = Self::WIRE;
    type Key = Multiples;
    type Blinds = Digits<{ edwards::WORDS }>;

    fn public(k: &Scalar) -> Vec<u8> {
        let mut public = Vec::new();
        Self::evaluate_on(Backend::chosen(), k, &GENERATOR, &mut public).expect("the generator is an element");
        public
    }

    fn key(public: &[u8]) -> Result<Multiples, BadElement> {
        let points = Points::decode_on(Backend::chosen(), public)?;
        blind::match_len(points.len, 1)?;
        Ok(backend::dispatch(NegativeMultiples(&points.blocks[0])))
    }

    fn blind(dst: &Dst, inputs: &[Digest], random: &mut dyn FnMut(&mut [u8]), wire: &mut Vec<u8>) -> Self::Blinds {
        let digits = Digits::draw(inputs.len(), random);
        Self::blind_on(Backend::chosen(), dst, inputs, &digits, wire);
        digits
    }

    fn evaluate(k: &Scalar, wire: &[u8], _coins: &[u8; 32], out: &mut Vec<u8>) -> Result<(), BadElement> {
        Self::evaluate_on(Backend::chosen(), k, wire, out)
    }

    fn unblind(
        key: &Multiples,
        blinds: Self::Blinds,
        wire: &[u8],
        _coins: &[u8; 32],
        out: &mut Vec<u8>,
    ) -> Result<(), BadElement> {
        Self::unblind_on(Backend::chosen(), key, &blinds, wire, out)
    }
}

/// The same, on a given back end.
impl Ristretto255 {
    fn blind_on(
        backend: Backend,
        dst: &Dst,
        inputs: &[Digest],
        digits: &Digits<{ edwards::WORDS }>,
        wire: &mut Vec<u8>,
    ) {
        let mut points = Points::hash_on(backend, dst, inputs);
        let windows = edwards::generator().of_prime_order();
        backend::run_on(backend, AddMultiples { points: &mut points.blocks, windows, digits });
        points.encode_on(backend, wire);
    }

    fn evaluate_on(backend: Backend, k: &Scalar, wire: &[u8], out: &mut Vec<u8>) -> Result<(), BadElement> {
        Points::decode_on(backend, wire)?.mul_on(backend, k).encode_on(backend, out);
        Ok(())
    }

    fn unblind_on(
        backend: Backend,
        key: &Multiples,
        digits: &Digits<{ edwards::WORDS }>,
        wire: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), BadElement> {
        let mut points = Points::decode_on(backend, wire)?;
        blind::match_len(points.len, digits.len())?;
        backend::run_on(backend, AddMultiples { points: &mut points.blocks, windows: key.all(), digits });
        points.encode_on(backend, out);
        Ok(())
    }
}

/// The encoding of the generator: RFC 9496, section 4.3.
const GENERATOR: [u8; 32] = [
    0xe2, 0xf2, 0xae, 0x0a, 0x6a, 0xbc, 0x4e, 0x71, 0xa8, 0x84, 0xa9, 0x61, 0xc5, 0x00, 0x51, 0x5f, 0x58, 0xe3, 0x0b,
    0x6a, 0xa5, 0x82, 0xdd, 0x8d, 0xb6, 0xa6, 0x59, 0x45, 0xe0, 0x8d, 0x2d, 0x76,
];

/// The same, on a given back end: for tests and benches.
impl Points {
    pub(crate) fn hash_on(backend: Backend, dst: &Dst, inputs: &[Digest]) -> Self {
        backend::run_on(backend, Hash { dst, inputs })
    }

    pub(crate) fn decode_on(backend: Backend, wire: &[u8]) -> Result<Self, BadElement> {
        backend::run_on(backend, Decode { wire })
    }

    pub(crate) fn mul_on(self, backend: Backend, k: &Scalar) -> Self {
        backend::run_on(backend, Multiply { points: self, k })
    }

    pub(crate) fn encode_on(&self, backend: Backend, wire: &mut Vec<u8>) {
        backend::run_on(backend, Encode { points: self, wire });
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// The curve

/// d = -121665/121666.
const D: [u64; 4] = [0x75eb_4dca_1359_78a3, 0x0070_0a4d_4141_d8ab, 0x8cc7_4079_7779_e898, 0x5203_6cee_2b6f_fe73];
/// The square root of ad - 1 that RFC 9496, section 4.1, names.
const SQRT_AD_MINUS_ONE: [u64; 4] =
    [0x7e97_f6a0_497b_2e1b, 0xaf9d_8e0c_1b78_54bd, 0x0f3c_fcc9_31f5_d1fd, 0x3769_31bf_2b83_48ac];
/// The square root of 1/(a - d) that it names.
const INVSQRT_A_MINUS_D: [u64; 4] =
    [0x99c8_fdaa_805d_40ea, 0x9d2f_1617_5a41_72be, 0x16c2_7b91_fe01_d840, 0x786c_8905_cfaf_fca2];
/// 1 - d^2.
const ONE_MINUS_D_SQ: [u64; 4] =
    [0xe27c_09c1_945f_c176, 0x2c81_a138_cd5e_350f, 0x9994_abdd_be70_dfe4, 0x0290_72a8_b2b3_e0d7];
/// (d - 1)^2.
const D_MINUS_ONE_SQ: [u64; 4] =
    [0x31ad_5aaa_44ed_4d20, 0xd29e_4a2c_b01e_1999, 0x4cdc_d32f_529b_4eeb, 0x5968_b37a_f66c_2241];

/// 1 if the words are equal, without a branch.
#[inline(always)]
fn equal(a: u64, b: u64) -> u64 {
    let x = a ^ b;
    ((x | x.wrapping_neg()) >> 63) ^ 1
}

/// `[k]P`: four doublings and an addition for each signed digit in radix 16. All lanes have the same digits, so one entry
/// of the table of eight multiples serves them all; it is found by reading all eight, under uniform masks.
struct Product<'a, V> {
    point: Point<V>,
    k: &'a Scalar,
}

impl<V: Lanes> Formula<V> for Product<'_, V> {
    type Out = Point<V>;

    #[inline(always)]
    fn run(self) -> Point<V> {
        let Product { point, k } = self;
        let one = point.cached();
        let mut table = [one; 8];
        let mut multiple = point;
        for entry in &mut table[1..] {
            multiple = V::call(Add(&multiple, &one));
            *entry = multiple.cached();
        }
        let mut sum = Point { x: Fe::zero(), y: Fe::one(), z: Fe::one(), t: Fe::zero() };
        for (i, digit) in k.digits.iter().enumerate().rev() {
            for _ in 0..3 {
                sum = sum.double(false);
            }
            sum = sum.double(true);

            let digit = i64::from(*digit);
            let negative = (digit as u64) >> 63;
            let size = ((digit ^ -(negative as i64)) + negative as i64) as u64;
            let mut entry = Cached::neutral();
            for (multiple, candidate) in (1..).zip(&table) {
                entry = Cached::select(V::mask_of(equal(size, multiple)), candidate, &entry);
            }
            let negative = V::mask_of(negative);
            let entry = Cached {
                minus: Fe::select(negative, &entry.plus, &entry.minus),
                plus: Fe::select(negative, &entry.minus, &entry.plus),
                z2: entry.z2,
                t2d: Fe::select(negative, &entry.t2d.neg(), &entry.t2d),
            };
            // Doublings do not ask for T, but what comes after the last sum may.
            sum = sum.add(&entry, i == 0);
        }
        sum
    }
}

struct Multiply<'a> {
    points: Points,
    k: &'a Scalar,
}

impl Kernel for Multiply<'_> {
    type Out = Points;

    #[inline(always)]
    fn run<V: Lanes>(self) -> Points {
        let Multiply { mut points, k } = self;
        for (block, part) in vectors::<V>(points.len) {
            let point = Point::load(&points.blocks[block], part);
            V::call(Product { point, k }).store(&mut points.blocks[block], part);
        }
        points
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Encodings

/// `|x|`: of x and -x the one whose canonical representative is even.
#[inline(always)]
fn absolute<V: Lanes>(x: &Fe<V>) -> Fe<V> {
    Fe::select(x.is_odd(), &x.neg(), x)
}

/// SQRT_RATIO_M1 of RFC 9496, section 4.2, for each pair: whether u/v is a square (0 is), and the non-negative square root of
/// u/v or of i·u/v; 0 if u or v is 0.
#[inline(always)]
fn square_roots_of_ratios<V: Lanes, const N: usize>(u: [Fe<V>; N], v: [Fe<V>; N]) -> [(V, Fe<V>); N] {
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

struct Decode<'a> {
    wire: &'a [u8],
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

struct Encode<'a> {
    points: &'a Points,
    wire: &'a mut Vec<u8>,
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

// ---------------------------------------------------------------------------------------------------------------------
// Hash to group

/// `hash_to_ristretto255` of RFC 9380, appendix B, and RFC 9497, section 4.1.
struct Hash<'a> {
    dst: &'a Dst,
    inputs: &'a [Digest],
}

impl Kernel for Hash<'_> {
    type Out = Points;

    #[inline(always)]
    fn run<V: Lanes>(self) -> Points {
        let Hash { dst, inputs } = self;
        let expander = Expander::<V>::new(dst, 64);
        let mut blocks = vec![NEUTRAL; inputs.len().div_ceil(Block::LANES)];
        for ((block, part), inputs) in vectors::<V>(inputs.len()).zip(inputs.chunks(V::WIDTH)) {
            let [uniform] = expander.expand(hash_to_curve::load::<V>(inputs));
            V::call(FromUniform(uniform)).store(&mut blocks[block], part);
        }
        Points { len: inputs.len(), blocks }
    }
}

/// Element derivation, RFC 9496, section 4.3.4, from 64 uniform bytes as eight words in big-endian order.
struct FromUniform<V>([V; 8]);

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Points as _;
    use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
    use serde_json::Value;
    use sha2::Digest as _;

    fn encoded(backend: Backend, points: &Points) -> Vec<[u8; 32]> {
        let mut wire = Vec::new();
        points.encode_on(backend, &mut wire);
        wire.as_chunks().0.to_vec()
    }

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
    }

    fn text(value: &Value) -> Vec<u8> {
        hex(value.as_str().unwrap())
    }

    fn bytes<const N: usize>(seed: u64) -> [u8; N] {
        let mut out = [0; N];
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
        out
    }

    fn digests(n: usize) -> Vec<Digest> {
        (0..n as u64).map(|i| Digest(bytes(i))).collect()
    }

    /// The scalar with these bytes, if they are below the order.
    fn scalar(bytes: &[u8]) -> Scalar {
        let mut wide = [0; 64];
        wide[..bytes.len()].copy_from_slice(bytes);
        Scalar::from_uniform(&wide)
    }

    /// Derives the same element in every lane of one vector, from bytes that were expanded elsewhere.
    struct Derive<'a>(&'a [u8]);

    impl Kernel for Derive<'_> {
        type Out = Points;
        fn run<V: Lanes>(self) -> Points {
            let word = |i: usize| V::splat(u64::from_be_bytes(self.0[8 * i..8 * i + 8].try_into().unwrap()));
            let mut blocks = vec![NEUTRAL];
            V::call(FromUniform(std::array::from_fn(word))).store(&mut blocks[0], 0);
            Points { len: 1, blocks }
        }
    }

    const SIZES: [usize; 11] = [0, 1, 2, 3, 4, 5, 7, 8, 9, 17, 31];

    fn rfc_9496() -> Value {
        serde_json::from_str(include_str!("../../../../vectors/rfc/rfc9496_ristretto255.json")).unwrap()
    }

    #[test]
    fn multiples_follow_rfc_9496() {
        let file = rfc_9496();
        let multiples: Vec<_> = file["multiples"].as_array().unwrap().iter().map(text).collect();
        assert_eq!(multiples.len(), 16);
        for backend in Backend::available() {
            for (k, want) in multiples.iter().enumerate().skip(1) {
                let generator = Points::decode_on(backend, &multiples[1]).unwrap();
                let product = generator.mul_on(backend, &scalar(&[k as u8]));
                assert_eq!(encoded(backend, &product)[0][..], want[..], "{backend}, {k}");
            }
            assert_eq!(encoded(backend, &Points { len: 9, blocks: vec![NEUTRAL; 2] }), [[0; 32]; 9]);
        }
    }

    #[test]
    fn invalid_encodings_of_rfc_9496_are_refused_by_index() {
        let generator =
            encoded(Backend::Portable, &Points::hash_on(Backend::Portable, &Dst::new(b"x"), &digests(1)))[0];
        for backend in Backend::available() {
            let file = rfc_9496();
            let mut bad: Vec<_> = file["invalid"].as_array().unwrap().iter().map(text).collect();
            bad.push(vec![0; 32]);
            for bad in bad {
                for (n, index) in [(1, 0), (12, 0), (12, 3), (12, 11)] {
                    let mut wire = vec![generator; n];
                    wire[index].copy_from_slice(&bad);
                    let error = Points::decode_on(backend, wire.as_flattened()).err().map(|error| error.index);
                    assert_eq!(error, Some(index), "{backend} {bad:x?}");
                }
            }
            let error = Points::decode_on(backend, &[generator; 3].as_flattened()[..90]).err();
            assert_eq!(error, Some(BadElement { index: 2, why: "is cut short" }));
        }
    }

    #[test]
    fn derivation_follows_rfc_9496() {
        for vector in rfc_9496()["from_uniform"].as_array().unwrap() {
            for backend in Backend::available() {
                let points = backend::run_on(backend, Derive(&text(&vector["input"])));
                assert_eq!(encoded(backend, &points)[0][..], text(&vector["output"])[..], "{backend}");
            }
        }
    }

    #[test]
    fn oprf_of_rfc_9497() {
        let file: Value = serde_json::from_str(include_str!("../../../../vectors/rfc/rfc9497_ristretto255.json")).unwrap();
        let suite = file["suites"].as_array().unwrap().iter().find(|suite| suite["mode"] == 0).unwrap();
        let dst = Dst::new(&text(&suite["groupDST"]));
        let key = scalar(&text(&suite["skSm"]));
        for vector in suite["vectors"].as_array().unwrap() {
            let input = text(&vector["Input"]);
            let uniform = hash_to_curve::expand_message_xmd::<sha2::Sha512>(&input, &dst, 64);
            for backend in Backend::available() {
                let hashed = || backend::run_on(backend, Derive(&uniform));
                let blinded = encoded(backend, &hashed().mul_on(backend, &scalar(&text(&vector["Blind"]))));
                assert_eq!(blinded[0][..], text(&vector["BlindedElement"])[..], "{backend}");
                let evaluated = Points::decode_on(backend, &blinded[0]).unwrap().mul_on(backend, &key);
                assert_eq!(encoded(backend, &evaluated)[0][..], text(&vector["EvaluationElement"])[..], "{backend}");
                // What unblinding gives.
                let issued = encoded(backend, &hashed().mul_on(backend, &key));
                let mut hash = sha2::Sha512::new();
                for part in [&input[..], &issued[0]] {
                    hash.update((part.len() as u16).to_be_bytes());
                    hash.update(part);
                }
                hash.update(b"Finalize");
                assert_eq!(hash.finalize()[..], text(&vector["Output"])[..], "{backend}");
            }
        }
    }

    #[test]
    fn every_back_end_agrees_with_dalek_at_every_size() {
        let dst = Dst::new(b"ristretto255_XMD:SHA-512_R255MAP_RO_");
        let digests = digests(31);
        let hashed: Vec<RistrettoPoint> = digests
            .iter()
            .map(|digest| {
                let uniform = hash_to_curve::expand_message_xmd::<sha2::Sha512>(&digest.0, &dst, 64);
                RistrettoPoint::from_uniform_bytes(&uniform.try_into().unwrap())
            })
            .collect();
        for seed in 0..4 {
            let uniform = if seed == 0 { [255; 64] } else { bytes(seed) };
            let k = Scalar::from_uniform(&uniform);
            let dalek = curve25519_dalek::Scalar::from_bytes_mod_order_wide(&uniform);
            let want: Vec<_> = hashed.iter().map(|point| (point * dalek).compress().to_bytes()).collect();
            for backend in Backend::available() {
                for n in SIZES {
                    let points = Points::hash_on(backend, &dst, &digests[..n]);
                    assert_eq!(points.len(), n);
                    assert_eq!(encoded(backend, &points.mul_on(backend, &k)), want[..n], "{backend}, {n}");
                    let again = Points::decode_on(backend, want[..n].as_flattened()).unwrap();
                    assert_eq!(encoded(backend, &again), want[..n], "{backend}, {n}");
                }
            }
        }
        assert!(hashed.iter().all(|point| CompressedRistretto(point.compress().to_bytes()).decompress().is_some()));
    }

    #[test]
    fn scalars_have_signed_digits() {
        for seed in 0..50 {
            let uniform = if seed == 0 { [255; 64] } else { bytes(seed) };
            let k = Scalar::from_uniform(&uniform);
            assert!(k.digits.iter().all(|digit| (-8..=8).contains(digit)));
            let sum = k.digits.iter().rev().fold(curve25519_dalek::Scalar::ZERO, |sum, &digit| {
                let size = curve25519_dalek::Scalar::from(digit.unsigned_abs());
                sum * curve25519_dalek::Scalar::from(16u8) + if digit < 0 { -size } else { size }
            });
            assert_eq!(sum, curve25519_dalek::Scalar::from_bytes_mod_order_wide(&uniform));
        }
        assert_eq!(Scalar::from_uniform(&[0; 64]).digits[0], 1);
    }

    #[test]
    fn blinding_agrees_with_dalek_on_every_back_end() {
        use curve25519_dalek::Scalar as Dalek;
        let dst = Dst::new(b"ristretto255_XMD:SHA-512_R255MAP_RO_");
        let digests = digests(31);
        let uniform = [9; 64];
        let (k, dalek_k) = (Scalar::from_uniform(&uniform), Dalek::from_bytes_mod_order_wide(&uniform));
        let key = Ristretto255::key(&Ristretto255::public(&k)).unwrap();
        // Random digits, and all of them at either bound.
        for fill in [None, Some(0), Some(255)] {
            let mut stream = blake3::Hasher::new().update(b"digits").finalize_xof();
            let mut random = |bytes: &mut [u8]| match fill {
                None => stream.fill(bytes),
                Some(byte) => bytes.fill(byte),
            };
            let digits = Digits::draw(digests.len(), &mut random);
            let mut want = [Vec::new(), Vec::new(), Vec::new()];
            for (i, digest) in digests.iter().enumerate() {
                let uniform = hash_to_curve::expand_message_xmd::<sha2::Sha512>(&digest.0, &dst, 64);
                let hashed = RistrettoPoint::from_uniform_bytes(&uniform.try_into().unwrap());
                let r = blind::tests::digits_of(&digits, i, 51).into_iter().rev().fold(Dalek::ZERO, |sum, digit| {
                    let size = Dalek::from(digit.unsigned_abs());
                    sum * Dalek::from(32u8) + if digit < 0 { -size } else { size }
                });
                let blinded = hashed + RistrettoPoint::mul_base(&r);
                for (want, point) in want.iter_mut().zip([blinded, blinded * dalek_k, hashed * dalek_k]) {
                    want.extend(point.compress().to_bytes());
                }
            }
            for backend in Backend::available() {
                let (mut blinded, mut evaluated, mut got) = (Vec::new(), Vec::new(), Vec::new());
                Ristretto255::blind_on(backend, &dst, &digests, &digits, &mut blinded);
                Ristretto255::evaluate_on(backend, &k, &blinded, &mut evaluated).unwrap();
                Ristretto255::unblind_on(backend, &key, &digits, &evaluated, &mut got).unwrap();
                assert!([blinded, evaluated, got] == want, "{backend} {fill:?}");
            }
        }
    }
}
