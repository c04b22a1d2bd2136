//! Records and selectors as polynomials with small coefficients, and back.

use super::Scheme;
use super::shape::{Plan, Shape};
use crate::{PirError, Records};
use vesica_he::bfv::{Slots, centred, decode};
use vesica_he::ckks::{Complex, Embedding};
use vesica_ring::bits::{pack, unpack};
use zeroize::Zeroizing;

/// The largest real number that a row may hold, without its sign. The phase of an answer then stays below half of its prime.
pub const LARGEST_REAL: f64 = 128.0;

/// log2 of the scale of an answer of CKKS.
const SCALE: i32 = 40;

/// How far a number that CKKS gives may be off: half of a unit of the seventh decimal.
pub const OFF: f64 = 5e-8;

/// How words become polynomials.
pub(super) enum Encoding {
    /// Words are coefficients.
    Coefficients,
    /// Words are the polynomial's values.
    Slots(Box<Slots>),
    /// Pairs of real numbers are the polynomial's values.
    Reals(Embedding),
}

impl Encoding {
    pub fn new(shape: &Shape) -> Self {
        match (shape.scheme, shape.plan) {
            (Scheme::Ckks, _) => Self::Reals(Embedding::new(shape.set.n)),
            (_, Plan::Slots) => Self::Slots(Box::new(Slots::new(shape.set.n))),
            _ => Self::Coefficients,
        }
    }

    /// A plaintext of the table: part `part` of block `block`, as signed coefficients.
    pub fn plaintext(
        &self,
        shape: &Shape,
        records: &dyn Records,
        block: usize,
        part: usize,
    ) -> Result<Vec<i64>, PirError> {
        let mut words = vec![0; shape.capacity];
        let mut reals = vec![[0.0; 2]; if matches!(self, Self::Reals(_)) { shape.capacity } else { 0 }];
        let mut bytes = vec![0; shape.width];
        let first = block as u64 * shape.per_block as u64;
        for row in first..shape.rows.min(first + shape.per_block as u64) {
            records.read(row, &mut bytes);
            let at = shape.place(row).1;
            let cut = part * shape.capacity..shape.words.min((part + 1) * shape.capacity);
            match self {
                Self::Reals(_) => {
                    let row = read_reals(row, &bytes)?;
                    reals[at..at + cut.len()].copy_from_slice(&row[cut]);
                }
                _ => {
                    let row: Vec<u64> = unpack(&bytes, shape.set.plain.ilog2(), shape.words).collect();
                    words[at..at + cut.len()].copy_from_slice(&row[cut]);
                }
            }
        }
        Ok(match self {
            Self::Reals(embedding) => embedding.encode(&reals, table_scale(shape)),
            _ => self.small(shape, &mut words),
        })
    }

    /// Words modulo t as a polynomial with coefficients around zero.
    fn small(&self, shape: &Shape, words: &mut [u64]) -> Vec<i64> {
        if let Self::Slots(slots) = self {
            slots.to_coefficients(words);
        }
        words.iter().map(|&word| centred(word, shape.set.plain)).collect()
    }

    /// What a query without expansion encrypts for one block: what selects the record's words if `here` is all ones, and
    /// nothing if it is zero. `at` is the first of them. The time depends on neither.
    pub fn selector(&self, shape: &Shape, here: u64, at: usize) -> Zeroizing<Vec<i64>> {
        let words = shape.words.min(shape.capacity);
        // One if i is among the record's words and the block is this one. Either difference is negative outside.
        let one = |i: usize| {
            let from = i as i64 - at as i64;
            let outside = ((from | (words as i64 - 1 - from)) >> 63) as u64;
            !outside & here & 1
        };
        let ones = (0..shape.capacity).map(one);
        Zeroizing::new(match self {
            Self::Reals(embedding) => {
                let slots = Zeroizing::new(ones.map(|one| [one as f64, 0.0]).collect::<Vec<Complex>>());
                embedding.encode(&slots, 2_f64.powi(selector_bits(shape)))
            }
            Self::Slots(_) => self.small(shape, &mut Zeroizing::new(ones.collect::<Vec<u64>>())),
            Self::Coefficients => {
                // X^-at is -X^(n - at), and 1 if `at` is zero.
                let turn = |i: usize| (equal(i, 0) & equal(at, 0) & here & 1) as i64;
                let n = shape.capacity;
                (0..n).map(|i| turn(i) - (equal(i + at, n) & here & 1) as i64).collect()
            }
        })
    }

    /// The record's bytes, from the plaintexts of an answer, each as its coefficients modulo t.
    pub fn record(&self, shape: &Shape, parts: Vec<Vec<u64>>, at: usize) -> Vec<u8> {
        let bits = shape.set.plain.ilog2();
        let mut words: Vec<u64> = parts
            .into_iter()
            .flat_map(|mut part| {
                if let Self::Slots(slots) = self {
                    slots.to_slots(&mut part);
                }
                // Of a plaintext with several records one is wanted; of several plaintexts, all.
                let at = if shape.plan == Plan::Turn { 0 } else { at };
                part[at..at + shape.words.min(shape.capacity)].to_vec()
            })
            .collect();
        words.truncate(shape.words);
        // A slot may hold 65536, which no honest table does. It is cut like any other, so that nobody can tell.
        let mut bytes = vec![];
        pack(words, bits, &mut bytes);
        bytes.truncate(shape.width);
        bytes
    }

    /// The row's real numbers as bytes, from the phases of an answer modulo the first prime.
    pub fn reals(&self, shape: &Shape, phases: &[Zeroizing<Vec<u64>>], at: usize) -> Vec<u8> {
        let Self::Reals(embedding) = self else { return vec![] };
        let q = shape.set.primes[0];
        let mut bytes = Vec::with_capacity(16 * shape.words.next_multiple_of(shape.capacity));
        for phase in phases {
            let centred = |&x: &u64| (x as i64 - (q & ((q / 2).wrapping_sub(x) as i64 >> 63) as u64) as i64) as f64;
            let coefficients = Zeroizing::new(phase.iter().map(centred).collect::<Vec<f64>>());
            let slots = embedding.decode(&coefficients, 2_f64.powi(SCALE));
            let wanted = &slots[at..at + shape.words.min(shape.capacity)];
            bytes.extend(wanted.iter().flatten().flat_map(|real| real.to_le_bytes()));
        }
        bytes.truncate(shape.width);
        bytes
    }
}

/// All ones if a = b, else zero, in a time that does not depend on them.
pub(super) fn equal(a: usize, b: usize) -> u64 {
    let x = (a ^ b) as u64;
    (std::hint::black_box(x | x.wrapping_neg()) >> 63).wrapping_sub(1)
}

/// The message modulo t from a coefficient of a short phase.
pub(super) fn coefficient(shape: &Shape, phase: u64) -> u64 {
    decode(phase, shape.set.answer_bits[1], shape.set.plain)
}

/// log2 of a selector's scale for CKKS. The higher, the less the noise of the query counts, and the more the rounding of the table.
/// Selectors in slots are rounded to integers that must stay below a prime; constants need not.
pub(super) fn selector_bits(shape: &Shape) -> i32 {
    let first = if shape.plan == Plan::Expand { 57 } else { 48 };
    first + 50 * (shape.limbs as i32 - 2)
}

/// The table's scale for CKKS. A selector times the table is at 2^40 times all primes but the first, and the switches that take
/// them away leave 2^40 exactly.
fn table_scale(shape: &Shape) -> f64 {
    let others: f64 = shape.set.primes[1..shape.limbs].iter().map(|&q| q as f64).product();
    2_f64.powi(SCALE - selector_bits(shape)) * others
}

/// log2 of a bound on the probability that a number of a row comes out of CKKS off by more than [`OFF`], where the selectors have
/// noise `each`.
pub(super) fn strays(shape: &Shape, each: f64) -> f64 {
    // A slot of a product is the product of the slots, and a pair of numbers is at most √2 times the largest of them.
    let largest = 2_f64.sqrt() * LARGEST_REAL * table_scale(shape);
    let sums = shape.columns as f64 * each * largest * largest;
    // What the table was rounded to integers by counts where a selector is one, and for each of them 1/12.
    let rounded = 2_f64.powi(2 * selector_bits(shape)) / 12.0;
    shape.set.strays(shape.limbs, sums + rounded, 2_f64.powi(SCALE), 2 * shape.words, OFF)
}

/// A row as pairs of real numbers.
fn read_reals(row: u64, bytes: &[u8]) -> Result<Vec<Complex>, PirError> {
    let reals: Vec<f64> =
        bytes.chunks_exact(8).map(|eight| f64::from_le_bytes(eight.try_into().expect("eight bytes"))).collect();
    if let Some(x) = reals.iter().find(|x| x.is_nan() || x.abs() > LARGEST_REAL) {
        let why = format!("row {row} holds {x}, and real numbers must be between -{LARGEST_REAL} and {LARGEST_REAL}");
        return Err(PirError::Shape(why));
    }
    Ok(reals.chunks(2).map(|pair| [pair[0], pair.get(1).copied().unwrap_or(0.0)]).collect())
}
