//! FourQ: the curve `-x² + y² = 1 + d·x²·y²` over the quadratic extension of the field of 2^127 - 1.
//!
//! \[CL15\] C. Costello, P. Longa, "FourQ: four-dimensional decompositions on a Q-curve over the Mersenne prime",
//! ASIACRYPT 2015, eprint 2015/565; encodings as in draft-ladd-cfrg-4q-01.
//!
//! **Security.** The subgroup has a prime order N of 246 bits, so the best known attack takes about 2^122.5 group
//! operations: a little below the 2^128 that people usually ask for, and below the 2^126 of Curve25519. The endomorphisms
//! that make it fast are not known to help an attacker beyond a small constant.
//!
//! **The cofactor** is 392 = 2^3·7^2. [`Group::hash`] and [`Group::decode`] both multiply by it, so that every point of a
//! batch has order N and a peer's choice of a point outside the subgroup tells it nothing about the scalar. Decoded points
//! are divided by 392 again, in the subgroup, at no cost: `mul` takes the scalar over 392 for them. So what is
//! decoded is what was encoded.
//!
//! **Hashing** is Vesica's own suite, `FourQ_XMD:SHA-512_ELL2_RO_`, by the rules of RFC 9380: `hash_to_field` with
//! m = 2, L = 32 (k = 128) over `expand_message_xmd` with SHA-512, Elligator 2 with Z = 2 + i on the equivalent Montgomery
//! curve, the rational map of appendix D.1, sum of two, the cofactor.
//!
//! **Constant time.** `mul` in the scalar and the elements, `hash` in the inputs, `encode` in the elements: no branch and
//! no address depends on them. The exception is one branch that module `affine` takes for fewer than one in 2^200
//! scalars. Decoding does not branch on the elements either, until it reports a bad one.

mod affine;
mod blind;
mod curve;
mod map;
mod scalar;
mod short;
mod sums;

pub use scalar::FourQScalar;
#[cfg(test)]
pub(crate) use scalar::ORDER;

use crate::backend::{self, Kernel};
use crate::field::Lanes;
use crate::hash_to_curve::{Expander, Inputs};
use crate::{BadElement, Blind, Dst, Group, Numbers, Oblivious, Points};
use affine::{MultiplyBlock, Room};
use curve::{Multiply, Point};
use map::{Compress, Decompress, Map, to_field};
use scalar::Digits;
use vesica_cpu::Backend;
use vesica_types::Digest;

/// The group of FourQ's points of prime order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FourQ;

/// A batch of elements of [`FourQ`].
pub struct FourQPoints {
    backend: Backend,
    len: usize,
    /// Whether the points are 392 times the elements.
    cleared: bool,
    /// X, Y and Z of each vector of points, as six vectors of limbs each.
    words: Vec<u64>,
}

const WIRE: usize = 32;
/// The most lanes that a back end has.
const MAX_LANES: usize = 8;
/// How many vectors of points share one inversion.
const BLOCK: usize = 32;
/// The fewest vectors of points that are multiplied together. Below it, inversions cost more than they save.
const LEAST: usize = 16;
/// The most: of eight lanes they take 0.8 MB, which stays in a second-level cache.
const MOST: usize = 128;
/// Vectors of limbs in a point.
const VECTORS: usize = 18;

impl Group for FourQ {
    const NAME: &'static str = "fourq";
    const WIRE: usize = WIRE;
    type Scalar = FourQScalar;
    type Points = FourQPoints;

    fn hash(dst: &Dst, inputs: &[Digest]) -> FourQPoints {
        hash(Backend::chosen(), dst, Inputs::Digests(inputs))
    }

    fn decode(wire: &[u8], _coins: &[u8; 32]) -> Result<FourQPoints, BadElement> {
        decode(Backend::chosen(), wire)
    }
}

impl Oblivious for FourQ {
    const NUMBERS: Numbers = Numbers::Little;

    fn hash_bytes(dst: &Dst, inputs: &[u8], each: usize) -> FourQPoints {
        hash(Backend::chosen(), dst, Inputs::Bytes(inputs, each))
    }

    fn generator() -> FourQPoints {
        blind::generator(Backend::chosen())
    }
}

impl Points for FourQPoints {
    type Scalar = FourQScalar;

    fn len(&self) -> usize {
        self.len
    }

    fn mul(mut self, k: &FourQScalar) -> Self {
        let digits = if self.cleared { Digits::of(&k.over_cofactor()) } else { Digits::of(k) };
        backend::run_on(self.backend, Mul { words: &mut self.words, digits: &digits });
        self.cleared = false;
        self
    }

    fn encode(&self, wire: &mut Vec<u8>) {
        wire.reserve(self.len * WIRE);
        if self.cleared {
            // Nobody encodes what was only decoded; but then it is this.
            let copy = FourQPoints { words: self.words.clone(), ..*self };
            return copy.mul(&FourQScalar::one()).encode(wire);
        }
        backend::run_on(self.backend, Encode { points: self, wire });
    }
}

fn hash(backend: Backend, dst: &Dst, inputs: Inputs) -> FourQPoints {
    let words = backend::run_on(backend, Hash { dst, inputs });
    FourQPoints { backend, len: inputs.len(), cleared: false, words }
}

fn decode(backend: Backend, wire: &[u8]) -> Result<FourQPoints, BadElement> {
    let (elements, rest) = wire.as_chunks::<WIRE>();
    let (words, faults) = backend::run_on(backend, Decode { elements });
    if let Some((index, &why)) = faults.iter().enumerate().find(|(_, why)| !why.is_empty()) {
        return Err(BadElement { index, why });
    }
    if !rest.is_empty() {
        return Err(BadElement { index: elements.len(), why: "is cut short" });
    }
    Ok(FourQPoints { backend, len: elements.len(), cleared: true, words })
}

struct Hash<'a> {
    dst: &'a Dst,
    inputs: Inputs<'a>,
}

impl Kernel for Hash<'_> {
    type Out = Vec<u64>;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Vec<u64> {
        let expander = Expander::<V>::new(self.dst, self.inputs, 128);
        let len = self.inputs.len();
        let mut words = Vec::with_capacity(len.div_ceil(V::WIDTH) * V::WIDTH * VECTORS);
        let mut elements = Vec::with_capacity(BLOCK);
        let mut points = Vec::with_capacity(BLOCK);
        for block in (0..len).step_by(BLOCK * V::WIDTH) {
            elements.clear();
            for start in (block..len.min(block + BLOCK * V::WIDTH)).step_by(V::WIDTH) {
                elements.push(to_field(expander.expand::<2>(start)));
            }
            points.clear();
            V::call(Map(&elements, &mut points));
            for p in &points {
                push(&mut words, p);
            }
        }
        words
    }
}

/// Appends a vector of points to a batch.
#[inline(always)]
fn push<V: Lanes>(words: &mut Vec<u64>, p: &Point<V>) {
    let at = words.len();
    words.resize(at + VECTORS * V::WIDTH, 0);
    p.store(&mut words[at..]);
}

struct Decode<'a> {
    elements: &'a [[u8; WIRE]],
}

impl Kernel for Decode<'_> {
    type Out = (Vec<u64>, Vec<&'static str>);
    #[inline(always)]
    fn run<V: Lanes>(self) -> Self::Out {
        let groups = self.elements.len().div_ceil(V::WIDTH);
        let mut words = Vec::with_capacity(groups * V::WIDTH * VECTORS);
        let mut faults = Vec::with_capacity(groups * V::WIDTH);
        // Two vectors at a time: the exponentiations wait for themselves.
        for pair in self.elements.chunks(2 * V::WIDTH) {
            let (first, second) = pair.split_at(V::WIDTH.min(pair.len()));
            let received = V::call(Decompress([load(first), load(second)]));
            for (part, received) in [first, second].into_iter().zip(received) {
                if part.is_empty() {
                    continue;
                }
                push(&mut words, &received.point);
                let mut masks = [[0; MAX_LANES]; 3];
                received.not_canonical.store(&mut masks[0]);
                received.off_curve.store(&mut masks[1]);
                received.small_order.store(&mut masks[2]);
                for lane in 0..part.len() {
                    faults.push(match [masks[0][lane], masks[1][lane], masks[2][lane]] {
                        [0, 0, 0] => "",
                        [0, 0, _] => "is of small order",
                        [0, _, _] => "is not on the curve",
                        _ => "is not a canonical encoding",
                    });
                }
            }
        }
        (words, faults)
    }
}

/// Up to `WIDTH` encodings as four words a lane. The first one stands in for missing ones, so that no lane holds a point
/// of small order, which would keep [`MultiplyBlock`] from its work.
#[inline(always)]
fn load<V: Lanes>(elements: &[[u8; WIRE]]) -> [V; 4] {
    let mut words = [[0; MAX_LANES]; 4];
    for lane in 0..if elements.is_empty() { 0 } else { V::WIDTH } {
        let element = elements.get(lane).unwrap_or(&elements[0]);
        let parts = element.as_chunks::<8>().0;
        for i in 0..4 {
            words[i][lane] = u64::from_le_bytes(parts[i]);
        }
    }
    [V::load(&words[0]), V::load(&words[1]), V::load(&words[2]), V::load(&words[3])]
}

struct Mul<'a> {
    words: &'a mut [u64],
    digits: &'a Digits,
}

impl Kernel for Mul<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let vector = VECTORS * V::WIDTH;
        let vectors = self.words.len() / vector;
        // Blocks of about the same size.
        let most = vectors.div_ceil(vectors.div_ceil(MOST).max(1)).max(1);
        let mut room = Room::new(if vectors < LEAST { 0 } else { most });
        for words in self.words.chunks_mut(most * vector) {
            let points: Vec<_> = words.chunks_exact(vector).map(Point::<V>::load).collect();
            let together =
                if points.len() < LEAST { None } else { V::call(MultiplyBlock(&points, self.digits, &mut room)) };
            let words = words.chunks_exact_mut(vector);
            match together {
                Some(points) => points.into_iter().zip(words).for_each(|(p, words)| p.store(words)),
                None => {
                    for (&p, words) in points.iter().zip(words) {
                        V::call(Multiply(p, self.digits)).store(words);
                    }
                }
            }
        }
    }
}

struct Encode<'a> {
    points: &'a FourQPoints,
    wire: &'a mut Vec<u8>,
}

impl Kernel for Encode<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let mut left = self.points.len;
        let mut points = Vec::with_capacity(BLOCK);
        let mut encodings: Vec<[V; 4]> = Vec::with_capacity(BLOCK);
        for block in self.points.words.chunks(BLOCK * VECTORS * V::WIDTH) {
            points.clear();
            for words in block.chunks_exact(VECTORS * V::WIDTH) {
                points.push(Point::<V>::load(words));
            }
            encodings.clear();
            V::call(Compress(&points, &mut encodings));
            for encoding in &encodings {
                let mut words = [[0; MAX_LANES]; 4];
                for i in 0..4 {
                    encoding[i].store(&mut words[i]);
                }
                for lane in 0..left.min(V::WIDTH) {
                    for row in &words {
                        self.wire.extend_from_slice(&row[lane].to_le_bytes());
                    }
                }
                left -= left.min(V::WIDTH);
            }
        }
    }
}

#[cfg(test)]
mod tests;
