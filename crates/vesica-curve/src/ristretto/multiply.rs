//! Multiplication by a secret scalar.

use super::{Points, Scalar};
use crate::backend::Kernel;
use crate::edwards::{Add, Cached, Point};
use crate::field::f25519::Fe;
use crate::field::f25519::block::vectors;
use crate::field::{Formula, Lanes};

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
            let entry = entry.negated_where(V::mask_of(negative));
            // Doublings do not ask for T, but what comes after the last sum may.
            sum = sum.add(&entry, i == 0);
        }
        sum
    }
}

pub(super) struct Multiply<'a> {
    pub(super) points: Points,
    pub(super) k: &'a Scalar,
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
