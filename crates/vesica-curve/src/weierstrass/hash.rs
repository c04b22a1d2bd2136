//! Hashing to the curve: RFC 9380, with the simplified map of Shallue, van de Woestijne and Ulas.

use super::Curve;
use super::invert::InvertAll;
use super::layout::{GROUP, Points, blocks, load, place, store, vectors};
use super::work::twice_difference;
use crate::backend::Kernel;
use crate::field::prime256::*;
use crate::field::{Formula, Lanes};
use std::marker::PhantomData;

pub(super) struct Hash<U, C> {
    pub(super) len: usize,
    pub(super) uniform: U,
    /// Whether s is to be left as Z, of which it is the square.
    pub(super) jacobian: bool,
    pub(super) curve: PhantomData<C>,
}

impl<U: FnMut(usize) -> [u8; 96], C: Curve> Kernel for Hash<U, C> {
    type Out = Points<C>;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Points<C> {
        let Self { len, mut uniform, jacobian, .. } = self;
        let mut points = Points::<C>::new(len);
        let width = GROUP * V::WIDTH;
        for group in 0..len.div_ceil(width) {
            // As limbs: [limb][half][vector][lane]. Behind the last element stand zeros, for now.
            let mut rows = [[0u64; 2 * GROUP * 8]; 8];
            for i in 0..width.min(len - group * width) {
                for (half, bytes) in uniform(group * width + i).as_chunks::<48>().0.iter().enumerate() {
                    for (row, limb) in rows.iter_mut().zip(long_limbs(bytes)) {
                        row[half * width + i] = limb;
                    }
                }
            }
            let mut u = [[V::zero(); 5]; 2 * GROUP];
            for (i, u) in u.iter_mut().enumerate() {
                let mut number = [V::zero(); 10];
                for (limb, row) in number.iter_mut().zip(&rows) {
                    *limb = V::load(&row[i * V::WIDTH..]);
                }
                *u = held_long::<C, V>(&number);
            }
            let hashed = V::call(ToCurve::<C, V>(&u, PhantomData));
            for (i, [x, w, z]) in hashed.iter().enumerate() {
                let (cell, part) = place::<V>(group * GROUP + i);
                let cell = &mut points.cells[cell];
                store(&mut cell.x, part, x);
                store(&mut cell.w, part, w);
                store(&mut cell.s, part, &if jacobian { *z } else { mul_tight::<C, V>(z, z) });
            }
        }
        points.fill(|cell| &mut cell.x);
        points.fill(|cell| &mut cell.w);
        points.fill(|cell| &mut cell.s);
        points
    }
}

/// 48 bytes in big-endian order, as eight limbs.
fn long_limbs(bytes: &[u8; 48]) -> [u64; 8] {
    let (parts, _) = bytes.as_chunks::<8>();
    let w: [u64; 6] = std::array::from_fn(|i| u64::from_be_bytes(parts[5 - i]));
    let low = LOW_52;
    [
        w[0] & low,
        (w[0] >> 52 | w[1] << 12) & low,
        (w[1] >> 40 | w[2] << 24) & low,
        (w[2] >> 28 | w[3] << 36) & low,
        (w[3] >> 16 | w[4] << 48) & low,
        (w[4] >> 4) & low,
        (w[4] >> 56 | w[5] << 8) & low,
        w[5] >> 44,
    ]
}

/// A fraction x/d, and y.
#[derive(Clone, Copy)]
struct Mapped<V> {
    x: Limbs<V>,
    d: Limbs<V>,
    y: Limbs<V>,
}

/// `map_to_curve_simple_swu` in the straight line of RFC 9380, appendix F.2, with `sqrt_ratio` of F.2.1.2, for p = 3
/// modulo 4.
#[inline(always)]
fn simple_swu<C: Curve, V: Lanes>(u: &[Limbs<V>; 2 * GROUP]) -> [Mapped<V>; 2 * GROUP] {
    const N: usize = 2 * GROUP;
    let one: Limbs<V> = splat(Held::<C>::ONE);
    let zero = [V::zero(); 5];
    let bias = splat(Held::<C>::BIAS);
    let z = splat(const { Held::<C>::small(C::MAP.z) });
    let a = splat(const { Held::<C>::of(C::MAP.a) });
    let b = splat(const { Held::<C>::of(C::MAP.b) });
    let root = splat(const { Held::<C>::of(C::MAP.root) });
    let empty = [zero; N];
    let (mut tv1, mut x1, mut d, mut gn, mut gd, mut uv, mut t) = (empty, empty, empty, empty, empty, empty, empty);
    for i in 0..N {
        // Steps 1 to 16: x1/d and g(x1) = gn/gd.
        tv1[i] = mul_tight::<C, V>(&square_loose::<C, V>(&u[i]), &z);
        let tv2 = tight::<C, V>(add(&add(&square_raw::<C, V>(&tv1[i]), &tv1[i]), &bias));
        x1[i] = mul_tight::<C, V>(&ripple(add(&tv2, &one)), &b);
        let is_zero = equal::<C, V>(&tv2, &zero);
        d[i] = mul_tight::<C, V>(&select(is_zero, &z, &tight::<C, V>(minus::<C, V>(&tv2))), &a);
        let d2 = square_loose::<C, V>(&d[i]);
        gd[i] = mul_tight::<C, V>(&d2, &d[i]);
        let inner = ripple(mul_add::<C, V>(&a, &d2, &square_raw::<C, V>(&x1[i])));
        gn[i] = tight::<C, V>(add(&mul_add::<C, V>(&inner, &x1[i], &mul_raw::<C, V>(&b, &gd[i])), &bias));
        // sqrt_ratio(gn, gd), up to the power.
        uv[i] = mul_loose::<C, V>(&gn[i], &gd[i]);
        t[i] = mul_loose::<C, V>(&square_loose::<C, V>(&gd[i]), &uv[i]);
    }
    let powers = power_chain::<C, V, N>(&t);
    let mut out = [Mapped { x: zero, d: zero, y: zero }; N];
    for i in 0..N {
        let y1 = mul_tight::<C, V>(&powers[i], &uv[i]);
        let is_square = equal::<C, V>(&mul_tight::<C, V>(&square_loose::<C, V>(&y1), &gd[i]), &gn[i]);
        // Steps 18 to 25. Where g(x1) is not a square, sqrt_ratio returns y1·sqrt(-Z), which is used times Z·u^3.
        let y2 = mul_tight::<C, V>(&mul_loose::<C, V>(&tv1[i], &u[i]), &mul_loose::<C, V>(&y1, &root));
        let x2 = mul_tight::<C, V>(&tv1[i], &x1[i]);
        let x = select(is_square, &x1[i], &x2);
        let y = select(is_square, &y1, &y2);
        let parity = plain::<C, V>(&u[i])[0].xor(plain::<C, V>(&y)[0]).and(V::splat(1));
        let same = parity.eq(V::zero());
        let y = select(same, &y, &tight::<C, V>(minus::<C, V>(&y)));
        out[i] = Mapped { x, d: d[i], y };
    }
    out
}

/// `hash_to_curve` after `hash_to_field`: two maps, their sum, and what leads from the curve that is hashed to.
struct ToCurve<'a, C, V>(&'a [Limbs<V>; 2 * GROUP], PhantomData<C>);

impl<C: Curve, V: Lanes> Formula<V> for ToCurve<'_, C, V> {
    type Out = [[Limbs<V>; 3]; GROUP];
    #[inline(always)]
    fn run(self) -> Self::Out {
        let mapped = simple_swu::<C, V>(self.0);
        let mut out = [[[V::zero(); 5]; 3]; GROUP];
        for i in 0..GROUP {
            let (x, w, z) = sum::<C, V>(&mapped[i], &mapped[GROUP + i]);
            out[i] = C::leave(x, w, z);
        }
        out
    }
}

/// p + q as (X, 2Y, Z), with Z = h·d for the difference of the abscissae h/d. Isogenies are homomorphisms, so one applied
/// after the sum serves for two before it.
#[inline(always)]
fn sum<F: Prime, V: Lanes>(p: &Mapped<V>, q: &Mapped<V>) -> (Limbs<V>, Limbs<V>, Limbs<V>) {
    let u0 = mul_tight::<F, V>(&p.x, &q.d);
    let u1 = mul_tight::<F, V>(&q.x, &p.d);
    let d = mul_loose::<F, V>(&p.d, &q.d);
    let d2 = square_loose::<F, V>(&d);
    let h = ripple(add(&u1, &minus::<F, V>(&u0)));
    let h2 = square_loose::<F, V>(&h);
    // slope·Z = (y1 - y0)·d^2.
    let t = mul_loose::<F, V>(&ripple(add(&q.y, &minus::<F, V>(&p.y))), &d2);
    let v = mul_loose::<F, V>(&h2, &d);
    let (a0, a1) = (mul_tight::<F, V>(&u0, &v), mul_tight::<F, V>(&u1, &v));
    let others = add(&minus::<F, V>(&a0), &minus::<F, V>(&a1));
    let x = tight::<F, V>(add(&square_raw::<F, V>(&t), &others));
    // Z^3 = h·v·d^2.
    let z3 = mul_loose::<F, V>(&mul_loose::<F, V>(&h, &v), &d2);
    let y0 = mul_tight::<F, V>(&p.y, &z3);
    let w = mul_tight::<F, V>(&t, &twice_difference::<F, V>(&a0, &x));
    // W = 2·t·(a0 - X) - 2·y0.
    let w = tight::<F, V>(add(&w, &add(&minus::<F, V>(&y0), &minus::<F, V>(&y0))));
    (x, w, mul_tight::<F, V>(&h, &d))
}

/// Makes hashed points in Jacobian form affine: (X/Z^2, W/Z^3).
pub(super) struct ToAffine<'a, C>(pub(super) &'a mut Points<C>);

impl<C: Curve> Kernel for ToAffine<'_, C> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self(Points { len, cells, .. }) = self;
        for (start, n) in blocks(vectors::<V>(*len)) {
            let (mut den, mut pre) = (vec![[V::zero(); 5]; n], vec![[V::zero(); 5]; n]);
            for (i, den) in den.iter_mut().enumerate() {
                let (cell, part) = place::<V>(start + i);
                *den = load(&cells[cell].s, part);
            }
            V::call(InvertAll::<C, V> { den: &mut den, pre: &mut pre, field: PhantomData });
            for (i, inverse) in den.iter().enumerate() {
                let (cell, part) = place::<V>(start + i);
                let cell = &mut cells[cell];
                let square = square_loose::<C, V>(inverse);
                let cube = mul_loose::<C, V>(&square, inverse);
                let (x, w) = (load(&cell.x, part), load(&cell.w, part));
                store(&mut cell.x, part, &mul_tight::<C, V>(&x, &square));
                store(&mut cell.w, part, &mul_tight::<C, V>(&w, &cube));
                store(&mut cell.s, part, &splat::<V>(Held::<C>::ONE));
            }
        }
    }
}
