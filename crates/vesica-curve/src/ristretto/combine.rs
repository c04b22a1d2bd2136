//! Sums of elements with public weights: Σ w·P.
//!
//! Each weight has 65 digits in radix 16, and each digit's window a sum of its own, to which every point adds the multiple
//! that its digit names. So the doublings are those of one multiplication for the whole batch, and a point takes 65 additions
//! and the seven of its table (E. Straus, "Addition chains of vectors", Amer. Math. Monthly 71, 1964). The additions are
//! complete, so nothing that a peer sends is exceptional.

use crate::backend::Kernel;
use crate::edwards::{self, Add, Cached, NEUTRAL, Point};
use crate::field::Lanes;
use crate::field::f25519::Fe;
use crate::field::f25519::block::Block;
use crate::scalar::{DIGITS, Residue, radix_16};

/// The table's multiple of a signed digit, neutral for zero.
#[inline(always)]
fn entry<V: Lanes>(table: &[Cached<V>; 8], digit: V) -> Cached<V> {
    let negative = V::zero().sub(digit.shr(63));
    let size = digit.xor(negative).sub(negative);
    let mut out = Cached::neutral();
    for (i, multiple) in (1..).zip(table) {
        out = Cached::select(size.eq(V::splat(i)), multiple, &out);
    }
    out.negated_where(negative)
}

/// The sum of weights times points, in the first lane.
pub(super) struct Combine<'a> {
    pub(super) points: &'a [edwards::Points],
    pub(super) weights: &'a [Residue],
}

impl Kernel for Combine<'_> {
    type Out = edwards::Points;

    #[inline(always)]
    fn run<V: Lanes>(self) -> edwards::Points {
        let neutral = Point { x: Fe::<V>::zero(), y: Fe::one(), z: Fe::one(), t: Fe::zero() };
        let mut sums = [neutral; DIGITS];
        for (points, weights) in self.points.iter().zip(self.weights.chunks(Block::LANES)) {
            // Behind the last element the digits are zero.
            let mut digits = [[0u64; Block::LANES]; DIGITS];
            for (lane, weight) in weights.iter().enumerate() {
                for (row, digit) in digits.iter_mut().zip(radix_16(&weight.0)) {
                    row[lane] = i64::from(digit) as u64;
                }
            }
            for part in 0..Block::LANES / V::WIDTH {
                let point = Point::<V>::load(points, part);
                let one = point.cached();
                let (mut multiple, mut table) = (point, [one; 8]);
                for entry in &mut table[1..] {
                    multiple = V::call(Add(&multiple, &one));
                    *entry = multiple.cached();
                }
                for (sum, row) in sums.iter_mut().zip(&digits) {
                    let entry = entry(&table, V::load(&row[part * V::WIDTH..]));
                    *sum = V::call(Add(sum, &entry));
                }
            }
        }
        let mut sum = neutral;
        for window in sums.iter().rev() {
            for _ in 0..3 {
                sum = sum.double(false);
            }
            sum = V::call(Add(&sum.double(true), &window.cached()));
        }
        // The lanes' sums, through memory.
        let mut lanes = NEUTRAL;
        sum.store(&mut lanes, 0);
        let mut total = neutral;
        for lane in 0..V::WIDTH {
            let one = lanes.map(|block| Block(block.0.map(|row| [row[lane]; Block::LANES])));
            total = V::call(Add(&total, &Point::load(&one, 0).cached()));
        }
        let mut out = NEUTRAL;
        total.store(&mut out, 0);
        out
    }
}
