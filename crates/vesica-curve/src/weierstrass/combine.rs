//! Sums of points with public weights: Σ w·P.
//!
//! Each weight has 65 digits in radix 16, and each digit's window a sum of its own, to which every point adds the multiple
//! that its digit names. So the doublings are those of one multiplication for the whole batch, and a point takes 65 additions
//! and the seven of its table (E. Straus, "Addition chains of vectors", Amer. Math. Monthly 71, 1964).
//!
//! Points are homogeneous, x = X/Z and y = Y/Z, and added by complete formulas (J. Renes, C. Costello, L. Batina, "Complete
//! addition formulas for prime order elliptic curves", EUROCRYPT 2016, algorithm 4, a = -3): whoever sends elements may
//! choose them so that sums meet, and nothing is exceptional here.

use super::Curve;
use super::hash::ToAffine;
use super::layout::{Cell, EMPTY, Points, load, place, store};
use crate::backend::Kernel;
use crate::field::prime256::*;
use crate::field::{Formula, Lanes};
use crate::scalar::{DIGITS, Residue, radix_16};
use std::marker::PhantomData;

/// (X : Y : Z), tight.
#[derive(Clone, Copy)]
struct Projective<V> {
    x: Limbs<V>,
    y: Limbs<V>,
    z: Limbs<V>,
}

/// a + b, loose: a factor.
#[inline(always)]
fn factor<V: Lanes>(a: &Limbs<V>, b: &Limbs<V>) -> Limbs<V> {
    ripple(add(a, b))
}

/// a + b, tight.
#[inline(always)]
fn plus<F: Prime, V: Lanes>(a: &Limbs<V>, b: &Limbs<V>) -> Limbs<V> {
    tight::<F, V>(add(&add(a, b), &splat(Held::<F>::BIAS)))
}

/// a - b, tight.
#[inline(always)]
fn less<F: Prime, V: Lanes>(a: &Limbs<V>, b: &Limbs<V>) -> Limbs<V> {
    tight::<F, V>(add(a, &minus::<F, V>(b)))
}

/// 3a, tight.
#[inline(always)]
fn thrice<F: Prime, V: Lanes>(a: &Limbs<V>) -> Limbs<V> {
    tight::<F, V>(add(&add(&add(a, a), a), &splat(Held::<F>::BIAS)))
}

/// a·b - (c + d), tight; factors may be loose.
#[inline(always)]
fn mul_less<F: Prime, V: Lanes>(a: &Limbs<V>, b: &Limbs<V>, c: &Limbs<V>, d: &Limbs<V>) -> Limbs<V> {
    tight::<F, V>(add(&mul_raw::<F, V>(a, b), &add(&minus::<F, V>(c), &minus::<F, V>(d))))
}

struct Add<'a, C, V>(&'a Projective<V>, &'a Projective<V>, PhantomData<C>);

impl<C: Curve, V: Lanes> Formula<V> for Add<'_, C, V> {
    type Out = Projective<V>;

    #[inline(always)]
    fn run(self) -> Projective<V> {
        const { assert!(!C::A_IS_ZERO, "the formulas are for a = -3") };
        let (p, q) = (self.0, self.1);
        let b = splat(const { Held::<C>::of(C::B) });
        let xx = mul_tight::<C, V>(&p.x, &q.x);
        let yy = mul_tight::<C, V>(&p.y, &q.y);
        let zz = mul_tight::<C, V>(&p.z, &q.z);
        // X1·Y2 + X2·Y1, and so on.
        let xy = mul_less::<C, V>(&factor(&p.x, &p.y), &factor(&q.x, &q.y), &xx, &yy);
        let yz = mul_less::<C, V>(&factor(&p.y, &p.z), &factor(&q.y, &q.z), &yy, &zz);
        let xz = mul_less::<C, V>(&factor(&p.x, &p.z), &factor(&q.x, &q.z), &xx, &zz);
        let s = thrice::<C, V>(&less::<C, V>(&xz, &mul_tight::<C, V>(&b, &zz)));
        let (left, right) = (less::<C, V>(&yy, &s), plus::<C, V>(&yy, &s));
        let zz3 = thrice::<C, V>(&zz);
        let t = thrice::<C, V>(&mul_less::<C, V>(&b, &xz, &zz3, &xx));
        let u = less::<C, V>(&thrice::<C, V>(&xx), &zz3);
        let product = |a: &Limbs<V>, b: &Limbs<V>| mul_tight::<C, V>(a, b);
        Projective {
            x: less::<C, V>(&product(&right, &xy), &product(&yz, &t)),
            y: plus::<C, V>(&product(&right, &left), &product(&u, &t)),
            z: plus::<C, V>(&product(&left, &yz), &product(&xy, &u)),
        }
    }
}

#[inline(always)]
fn neutral<C: Curve, V: Lanes>() -> Projective<V> {
    let zero = [V::zero(); 5];
    Projective { x: zero, y: splat(Held::<C>::ONE), z: zero }
}

/// The table's multiple of a signed digit, neutral for zero.
#[inline(always)]
fn entry<C: Curve, V: Lanes>(table: &[Projective<V>; 8], digit: V) -> Projective<V> {
    let negative = V::zero().sub(digit.shr(63));
    let size = digit.xor(negative).sub(negative);
    let mut out = neutral::<C, V>();
    for (i, multiple) in (1..).zip(table) {
        let mask = size.eq(V::splat(i));
        out.x = select(mask, &multiple.x, &out.x);
        out.y = select(mask, &multiple.y, &out.y);
        out.z = select(mask, &multiple.z, &out.z);
    }
    let minus_y = tight::<C, V>(minus::<C, V>(&out.y));
    Projective { y: select(negative, &minus_y, &out.y), ..out }
}

/// The sum of weights times affine points, affine.
pub(super) struct Combine<'a, C> {
    pub(super) points: &'a Points<C>,
    pub(super) weights: &'a [Residue],
}

impl<C: Curve> Kernel for Combine<'_, C> {
    type Out = Points<C>;

    #[inline(always)]
    fn run<V: Lanes>(self) -> Points<C> {
        let half = splat(const { Held::<C>::of(half::<C>()) });
        let mut sums = [neutral::<C, V>(); DIGITS];
        for (block, weights) in self.weights.chunks(8).enumerate() {
            // Behind the last element the digits are zero.
            let mut digits = [[0u64; 8]; DIGITS];
            for (lane, weight) in weights.iter().enumerate() {
                for (row, digit) in digits.iter_mut().zip(radix_16(&weight.0)) {
                    row[lane] = i64::from(digit) as u64;
                }
            }
            for part in 0..8 / V::WIDTH {
                let (cell, part) = place::<V>(block * (8 / V::WIDTH) + part);
                let Cell { x, w, .. } = &self.points.cells[cell];
                let y = mul_tight::<C, V>(&load(w, part), &half);
                let point = Projective { x: load(x, part), y, z: splat(Held::<C>::ONE) };
                let mut table = [point; 8];
                for i in 1..8 {
                    table[i] = V::call(Add::<C, V>(&table[i - 1], &point, PhantomData));
                }
                for (sum, row) in sums.iter_mut().zip(&digits) {
                    let entry = entry::<C, V>(&table, V::load(&row[part * V::WIDTH..]));
                    *sum = V::call(Add::<C, V>(sum, &entry, PhantomData));
                }
            }
        }
        let mut sum = neutral::<C, V>();
        for window in sums.iter().rev() {
            for _ in 0..4 {
                sum = V::call(Add::<C, V>(&sum, &sum, PhantomData));
            }
            sum = V::call(Add::<C, V>(&sum, window, PhantomData));
        }
        // The lanes' sums, through memory.
        let mut cell = EMPTY;
        store(&mut cell.x, 0, &sum.x);
        store(&mut cell.w, 0, &sum.y);
        store(&mut cell.s, 0, &sum.z);
        let mut total = neutral::<C, V>();
        for lane in 0..V::WIDTH {
            let of = |rows: &[[u64; 8]; 5]| splat(rows.map(|row| row[lane]));
            let one = Projective { x: of(&cell.x), y: of(&cell.w), z: of(&cell.s) };
            total = V::call(Add::<C, V>(&total, &one, PhantomData));
        }
        // (X : Y : Z) is (XZ, YZ^2, Z) in Jacobian form, and W = 2Y.
        let Projective { x, y, z } = total;
        let yz2 = mul_tight::<C, V>(&mul_loose::<C, V>(&y, &z), &z);
        let mut points = Points::<C>::new(1);
        store(&mut points.cells[0].x, 0, &mul_tight::<C, V>(&x, &z));
        store(&mut points.cells[0].w, 0, &plus::<C, V>(&yz2, &yz2));
        store(&mut points.cells[0].s, 0, &z);
        points.fill(|cell| &mut cell.x);
        points.fill(|cell| &mut cell.w);
        points.fill(|cell| &mut cell.s);
        ToAffine(&mut points).run::<V>();
        points
    }
}

/// 1/2 = (p + 1)/2, as p/2 rounded down, and 1.
const fn half<F: Prime>() -> [u64; 4] {
    let p = F::P;
    let mut half = [p[0] >> 1 | p[1] << 63, p[1] >> 1 | p[2] << 63, p[2] >> 1 | p[3] << 63, p[3] >> 1];
    let mut i = 0;
    let mut carry = true;
    while i < 4 {
        (half[i], carry) = half[i].overflowing_add(carry as u64);
        i += 1;
    }
    half
}
