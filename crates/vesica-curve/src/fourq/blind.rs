//! Blinding on FourQ, for [`crate::Blind`].
//!
//! A table's multiples are affine, so that adding one takes 7M; the formulas are complete, so no addition is exceptional. r has
//! 51 digits: 32^51 = 2^255 is so close to a multiple of the order, which is about 2^254/392, that r is within 2^-125 of
//! uniform.
//!
//! **The cofactor.** Who decodes an element multiplies it by 392, the evaluator as well as the receiver. So the evaluator sends
//! k/392 times the blinded element, and what the receiver decodes is k times it, of prime order, at no cost to anybody.

use super::curve::{Affine, Extended, Point, product};
use super::map::invert_z;
use super::*;
use crate::blind::{self, MULTIPLES, signed};
use crate::field::Formula;
use crate::field::p127::Fp2;
use std::sync::OnceLock;

/// The digits of a multiplier.
pub(super) const WINDOWS: usize = 51;

/// The multipliers of a batch.
pub(super) type Digits = blind::Digits<5>;

/// y of the generator, whose x has the sign 0: \[CL15\], section 2.2.
const GENERATOR: [u128; 2] = [0x0e3f_ee9b_a120_785a_b924_a246_2bcb_b287, 0x6e1c_4af8_630e_0242_49a7_c344_844c_8b5c];

/// The multiples of a point.
pub struct FourQKey(Vec<Window>);

/// x + y, y - x and 2d·x·y of a point's odd multiples, limb by limb.
#[derive(Clone)]
#[repr(align(64))]
struct Window([[[u64; MULTIPLES]; 6]; 3]);

/// What undoes the blinding of a batch.
pub struct FourQBlinds(pub(super) Digits);

impl Blind for FourQ {
    const EVALUATED: usize = WIRE;
    type Key = FourQKey;
    type Blinds = FourQBlinds;

    fn public(k: &FourQScalar) -> Vec<u8> {
        public(Backend::chosen(), k)
    }

    fn key(public: &[u8]) -> Result<FourQKey, BadElement> {
        key(Backend::chosen(), public)
    }

    fn blind(dst: &Dst, inputs: &[Digest], random: &mut dyn FnMut(&mut [u8]), wire: &mut Vec<u8>) -> FourQBlinds {
        static BASE: OnceLock<FourQKey> = OnceLock::new();
        let base = BASE.get_or_init(|| base(Backend::chosen()));
        blind(Backend::chosen(), base, dst, inputs, Digits::draw(inputs.len(), random), wire)
    }

    fn evaluate(k: &FourQScalar, wire: &[u8], _coins: &[u8; 32], out: &mut Vec<u8>) -> Result<(), BadElement> {
        evaluate(Backend::chosen(), k, wire, out)
    }

    fn unblind(
        key: &FourQKey,
        blinds: FourQBlinds,
        wire: &[u8],
        _coins: &[u8; 32],
        out: &mut Vec<u8>,
    ) -> Result<(), BadElement> {
        unblind(Backend::chosen(), key, &blinds, wire, out)
    }
}

pub(super) fn generator(backend: Backend) -> FourQPoints {
    let encoding = GENERATOR.map(u128::to_le_bytes);
    decode(backend, encoding.as_flattened()).expect("the curve's generator")
}

pub(super) fn base(backend: Backend) -> FourQKey {
    make_table(generator(backend))
}

pub(super) fn public(backend: Backend, k: &FourQScalar) -> Vec<u8> {
    let mut out = Vec::new();
    generator(backend).mul(k).encode(&mut out);
    out
}

pub(super) fn key(backend: Backend, public: &[u8]) -> Result<FourQKey, BadElement> {
    let points = decode(backend, public)?;
    blind::match_len(points.len, 1)?;
    Ok(make_table(points))
}

pub(super) fn blind(
    backend: Backend,
    base: &FourQKey,
    dst: &Dst,
    inputs: &[Digest],
    digits: Digits,
    wire: &mut Vec<u8>,
) -> FourQBlinds {
    let mut points = hash(backend, dst, Inputs::Digests(inputs));
    backend::run_on(backend, AddMultiples { words: &mut points.words, table: base, digits: &digits, negative: false });
    points.encode(wire);
    FourQBlinds(digits)
}

pub(super) fn evaluate(backend: Backend, k: &FourQScalar, wire: &[u8], out: &mut Vec<u8>) -> Result<(), BadElement> {
    decode(backend, wire)?.mul(&k.over_cofactor()).encode(out);
    Ok(())
}

pub(super) fn unblind(
    backend: Backend,
    key: &FourQKey,
    FourQBlinds(digits): &FourQBlinds,
    wire: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), BadElement> {
    let mut points = decode(backend, wire)?;
    blind::match_len(points.len, digits.len())?;
    // What was decoded is 392 times what was sent: k times the blinded elements.
    points.cleared = false;
    backend::run_on(backend, AddMultiples { words: &mut points.words, table: key, digits, negative: true });
    points.encode(out);
    Ok(())
}

// ---------------------------------------------------------------------------------------------------------------------
// Tables

/// The multiples of the only point of a batch.
fn make_table(point: FourQPoints) -> FourQKey {
    let point = point.mul(&FourQScalar::one());
    FourQKey(backend::run_on(point.backend, MakeTable(point.words)))
}

struct MakeTable(Vec<u64>);

impl Kernel for MakeTable {
    type Out = Vec<Window>;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Vec<Window> {
        // The place values, one after the other, in all lanes.
        let mut words = self.0;
        for lanes in words.chunks_exact_mut(V::WIDTH) {
            let first = lanes[0];
            lanes.fill(first);
        }
        let mut place = Point::<V>::load(&words);
        let mut places = vec![0; WINDOWS.div_ceil(V::WIDTH) * VECTORS * V::WIDTH];
        for (window, lane) in (0..WINDOWS).map(|window| (window, window % V::WIDTH)) {
            if window > 0 {
                for _ in 0..5 {
                    place = place.double_called().point();
                }
            }
            place.store(&mut words);
            let places = &mut places[window / V::WIDTH * VECTORS * V::WIDTH..];
            for (to, from) in places.chunks_exact_mut(V::WIDTH).zip(words.chunks_exact(V::WIDTH)) {
                to[lane] = from[0];
            }
        }
        // Their multiples, all windows at once; what stands behind the last window is not a point, and not used.
        let mut multiples = Vec::with_capacity(WINDOWS.div_ceil(V::WIDTH) * MULTIPLES);
        for words in places.chunks_exact(VECTORS * V::WIDTH) {
            let place = Point::<V>::load(words);
            let double = place.double_called().summand();
            let mut multiple = place.extend();
            for _ in 0..MULTIPLES {
                multiples.push(multiple.point());
                multiple = multiple.add_called(&double);
            }
        }
        let inverses = invert_z(&multiples);
        let mut windows = vec![Window([[[0; MULTIPLES]; 6]; 3]); WINDOWS];
        for (i, (p, z)) in multiples.iter().zip(inverses).enumerate() {
            let entry = Affine::new(product(z, p.x), product(z, p.y));
            let (group, multiple) = (i / MULTIPLES, i % MULTIPLES);
            for (coordinate, value) in entry.coordinates().into_iter().enumerate() {
                let mut words = [0; 6 * MAX_LANES];
                value.store(&mut words);
                for (lane, window) in windows.iter_mut().skip(group * V::WIDTH).take(V::WIDTH).enumerate() {
                    for (limb, row) in window.0[coordinate].iter_mut().enumerate() {
                        row[multiple] = words[limb * V::WIDTH + lane];
                    }
                }
            }
        }
        windows
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Sums

/// Adds to each point of a batch, or takes away, its own multiple of the table's point.
struct AddMultiples<'a> {
    words: &'a mut [u64],
    table: &'a FourQKey,
    digits: &'a Digits,
    negative: bool,
}

impl Kernel for AddMultiples<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self { words, table, digits, negative } = self;
        let flip = V::mask_of(u64::from(negative));
        for (vector, words) in words.chunks_exact_mut(VECTORS * V::WIDTH).enumerate() {
            let parts = MAX_LANES / V::WIDTH;
            let mut sum = Point::<V>::load(words).extend();
            for (window, table) in table.0.iter().enumerate() {
                let (index, negative) = signed(digits.digit::<V>((vector / parts, vector % parts), window));
                sum = V::call(AddEntry { sum: &sum, window: table, index, negative: negative.xor(flip) });
            }
            sum.point().store(words);
        }
    }
}

/// The sum of points and the multiples that the lanes take. Every entry is read.
struct AddEntry<'a, V> {
    sum: &'a Extended<V>,
    window: &'a Window,
    index: V,
    negative: V,
}

impl<V: Lanes> Formula<V> for AddEntry<'_, V> {
    type Out = Extended<V>;
    #[inline(always)]
    fn run(self) -> Extended<V> {
        let [sum, difference, t2d] = &self.window.0;
        let pick = |table| Fp2::lookup(table, self.index);
        self.sum.add_affine(&Affine::signed(pick(sum), pick(difference), pick(t2d), self.negative))
    }
}
