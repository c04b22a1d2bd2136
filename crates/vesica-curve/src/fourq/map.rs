//! Into FourQ and out of it: hashing, decompression, compression.

use super::curve::{D, Extended, Point, product, square};
use crate::field::p127::{Constant, Fp, Fp2, InverseRoot, Root, invert};
use crate::field::{Formula, Lanes};

const ONE: Constant = (1, 0);

// ---------------------------------------------------------------------------------------------------------------------
// Square roots

/// Square roots of w/v in the extension, for `N` values at once, where w is a value and v > 0 one of the prime field;
/// `root` holds a square root of the norm of w.
///
/// With x = x0 + x1·i and x² = w/v: (x0² + x1²)² is the norm of w over v², so x0² = (w0 + n)/2v for one of the two roots n
/// of the norm, and 2·x0·x1 = w1/v. For either n let e = 2v·(w0 + n) and s = e^((p-3)/4), so that s²e is 1 or -1. If it is
/// 1, x = (w0 + n)·s + w1·s·i. If it is -1, the other n is right, (w0 + n)(w0 - n) = -w1² gives its x0 as w1·s, and
/// x = w1·s - (w0 + n)·s·i. This is the exponentiation count of \[CL15\]'s decompression (appendix B): two, each of 125
/// squarings, with the one that gives `root`.
#[inline(always)]
fn roots<V: Lanes, const N: usize>(w: [Fp2<V>; N], v: [Fp<V>; N], root: [Fp<V>; N]) -> [Fp2<V>; N] {
    let mut a = root;
    let mut e = root;
    for i in 0..N {
        let plus = w[i].re.add(root[i]);
        // w0 + n = 0 only if w1 = 0; then the other root of the norm gives 2·w0, and e is zero only if w is.
        a[i] = Fp::select(plus.freeze().is_zero(), w[i].re.sub::<2>(root[i]), plus); // 3 u
        e[i] = a[i].add(a[i]).mul(v[i]);
    }
    let s = V::call(InverseRoot(e));
    let mut x = w;
    for i in 0..N {
        let (x0, x1) = (a[i].mul(s[i]), w[i].im.mul(s[i]));
        // s²e = -1, by s·e = -1/s... compared as s²·e + 1 = 0.
        let other = s[i].square().mul(e[i]).add(Fp::splat(1)).freeze().is_zero();
        x[i] = Fp2 { re: Fp::select(other, x1, x0), im: Fp::select(other, x0.neg::<2>(), x1) };
    }
    x
}

/// The mask of the lanes in which two values are equal; `b` must be tight, `a` below 8 u.
#[inline(always)]
fn equal<V: Lanes>(a: Fp<V>, b: Fp<V>) -> V {
    a.sub::<2>(b).freeze().is_zero()
}

// ---------------------------------------------------------------------------------------------------------------------
// Decompression

/// The points of `N` vectors of encodings, as four words each, and their faults.
pub(super) struct Decompress<V, const N: usize>(pub(super) [[V; 4]; N]);

/// A received vector of points, after the cofactor, and what is wrong with it.
#[derive(Clone, Copy)]
pub(super) struct Received<V> {
    /// 392 times the point.
    pub(super) point: Point<V>,
    /// The mask of the lanes with a coordinate that is not below p.
    pub(super) not_canonical: V,
    /// The mask of the lanes with a y that belongs to no point of the curve.
    pub(super) off_curve: V,
    /// The mask of the lanes in which 392 times the point is neutral.
    pub(super) small_order: V,
}

impl<V: Lanes, const N: usize> Formula<V> for Decompress<V, N> {
    type Out = [Received<V>; N];
    #[inline(always)]
    fn run(self) -> Self::Out {
        let zero = Fp::zero();
        let (mut y, mut w) = ([Fp2::zero(); N], [Fp2::zero(); N]);
        let (mut v, mut norm) = ([zero; N], [zero; N]);
        let (mut not_canonical, mut negative) = ([V::zero(); N], [V::zero(); N]);
        for i in 0..N {
            let [w0, w1, w2, w3] = self.0[i];
            // Bit 127 of the imaginary part is the sign of x; bit 127 of the real part is zero.
            negative[i] = V::zero().sub(w3.shr(63));
            let w3 = w3.and(V::splat(u64::MAX >> 1));
            y[i] = Fp2 { re: Fp::from_words([w0, w1]), im: Fp::from_words([w2, w3]) };
            let (ones, top) = (V::splat(u64::MAX), V::splat(u64::MAX >> 1));
            let is_p = w0.eq(ones).and(w1.eq(top)).or(w2.eq(ones).and(w3.eq(top)));
            not_canonical[i] = is_p.or(V::zero().sub(w1.shr(63)));
            // x² = (y² - 1)/(d·y² + 1) = numerator·conj(denominator) / norm(denominator). The denominator is not zero,
            // because -1/d is not a square.
            let yy = square(y[i]);
            let denominator = product(yy, Fp2::splat(D)).add(Fp2::splat(ONE));
            w[i] = product(yy.sub::<2>(Fp2::splat(ONE)), denominator.conj_wide());
            v[i] = denominator.norm();
            norm[i] = w[i].norm();
        }
        // w/v is a square in the extension if and only if its norm is one in the prime field.
        let root = V::call(Root(norm));
        let mut x = roots(w, v, root);
        let mut out = [Received {
            point: Point { x: x[0], y: x[0], z: x[0] },
            not_canonical: V::zero(),
            off_curve: V::zero(),
            small_order: V::zero(),
        }; N];
        for i in 0..N {
            let upper = is_upper(x[i].freeze());
            x[i] = Fp2::select(upper.xor(negative[i]), x[i].neg::<3>(), x[i]).carried();
            let y = y[i].carried();
            let p = Extended { x: x[i], y, z: Fp2::splat(ONE), ta: x[i], tb: y };
            let point = p.clear_cofactor().point();
            out[i] = Received {
                point,
                not_canonical: not_canonical[i],
                off_curve: equal(root[i].square(), norm[i]).xor(V::splat(u64::MAX)),
                // What is left has order N or 1, and of those only the neutral element has x = 0.
                small_order: point.x.freeze().is_zero(),
            };
        }
        out
    }
}

/// The mask of the lanes in which the sign of a frozen x is set: bit 126 of its real part, or of its imaginary part if that
/// is zero.
#[inline(always)]
fn is_upper<V: Lanes>(x: Fp2<V>) -> V {
    x.re.is_zero().select(x.im.is_upper(), x.re.is_upper())
}

// ---------------------------------------------------------------------------------------------------------------------
// Compression

/// The encodings of points, as four words each.
pub(super) struct Compress<'a, V>(pub(super) &'a [Point<V>], pub(super) &'a mut Vec<[V; 4]>);

/// 1/Z of points, below 1 u, by one inversion; zero where Z is.
#[inline(always)]
pub(super) fn invert_z<V: Lanes>(points: &[Point<V>]) -> Vec<Fp2<V>> {
    let mut norms = Vec::with_capacity(points.len());
    for p in points {
        norms.push(p.z.norm());
    }
    invert(&mut norms);
    let mut inverses = Vec::with_capacity(points.len());
    for (p, inverse) in points.iter().zip(norms) {
        inverses.push(p.z.conj().scale(inverse));
    }
    inverses
}

impl<V: Lanes> Formula<V> for Compress<'_, V> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Compress(points, out) = self;
        for (p, z) in points.iter().zip(invert_z(points)) {
            let (x, y) = (product(z, p.x).freeze(), product(z, p.y).freeze());
            let [w0, w1] = y.re.to_words();
            let [w2, w3] = y.im.to_words();
            out.push([w0, w1, w2, w3.or(is_upper(x).shl(63))]);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Hashing

/// A non-square of the extension: the first that `find_z_ell2` of RFC 9380, appendix H.3, finds.
pub(super) const Z: Constant = (2, 1);
/// A square root of -5, where 5 is the norm of Z.
pub(super) const ROOT_OF_MINUS_5: u128 = 87_392_807_087_336_976_318_005_368_820_707_244_464;
/// J/K, 1/K and 1/K² of the Montgomery curve K·t² = s³ + J·s² + s, J = 2(a + d)/(a - d), K = 4/(a - d), to which FourQ with
/// a = -1 is birationally equivalent (RFC 9380, appendix D.1).
pub(super) const J_OVER_K: Constant =
    (85_070_591_730_234_617_968_772_476_260_830_937_248, 147_729_115_952_124_915_038_681_791_635_927_205_446);
/// 1/K.
pub(super) const ONE_OVER_K: Constant =
    (42_535_295_865_117_306_881_457_413_727_526_584_239, 96_276_625_484_406_774_212_346_407_897_920_503_004);
/// 1/K².
pub(super) const ONE_OVER_K2: Constant =
    (10_633_823_966_279_666_135_843_623_669_204_018_577, 98_972_474_766_539_848_236_172_056_121_551_459_102);

/// The two field elements of `hash_to_field` (RFC 9380, section 5.2: m = 2, L = 32) from the words of a uniform string.
#[inline(always)]
pub(super) fn to_field<V: Lanes>(uniform: [[V; 8]; 2]) -> [Fp2<V>; 2] {
    let [first, second] = uniform;
    [element(first), element(second)]
}

#[inline(always)]
fn element<V: Lanes>(words: [V; 8]) -> Fp2<V> {
    let [a, b, c, d, e, f, g, h] = words;
    Fp2 { re: wide([d, c, b, a]), im: wide([h, g, f, e]) }
}

/// 256 bits, in little-endian words, modulo p: tight.
#[inline(always)]
fn wide<V: Lanes>([w0, w1, w2, w3]: [V; 4]) -> Fp<V> {
    // Bits 0 to 126, 127 to 253, and the last two; 2^127 = 1.
    let low = V::splat(u64::MAX >> 1);
    let first = Fp::from_words([w0, w1.and(low)]);
    let second = Fp::from_words([w2.shl(1).or(w1.shr(63)), w3.shl(1).or(w2.shr(63)).and(low)]);
    first.add(second).add(Fp::from_words([w3.shr(62), V::zero()])).carry()
}

/// The points to which vectors of uniform strings are hashed: Elligator 2 twice, the sum, the cofactor.
pub(super) struct Map<'a, V>(pub(super) &'a [[Fp2<V>; 2]], pub(super) &'a mut Vec<Point<V>>);

impl<V: Lanes> Formula<V> for Map<'_, V> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Map(inputs, out) = self;
        let mut inverses = Vec::with_capacity(2 * inputs.len());
        for pair in inputs {
            for u in pair {
                inverses.push(denominator(u).1.norm());
            }
        }
        invert(&mut inverses);
        for (pair, inverses) in inputs.iter().zip(inverses.as_chunks::<2>().0) {
            out.push(V::call(MapPair(*pair, *inverses)));
        }
    }
}

/// Z·u², which is below 1 u, and 1 + Z·u², which is never zero: -1/Z is not a square.
#[inline(always)]
fn denominator<V: Lanes>(u: &Fp2<V>) -> (Fp2<V>, Fp2<V>) {
    let zuu = product(square(*u), Fp2::splat(Z));
    (zuu, zuu.add(Fp2::splat(ONE)))
}

/// One point from two field elements and the inverses of the norms of their denominators.
struct MapPair<V>([Fp2<V>; 2], [Fp<V>; 2]);

impl<V: Lanes> Formula<V> for MapPair<V> {
    type Out = Point<V>;
    #[inline(always)]
    fn run(self) -> Point<V> {
        let MapPair(u, inverses) = self;
        let [p, q] = elligator(u, inverses);
        p.add_called(&q.summand()).clear_cofactor().point()
    }
}

/// Elligator 2 (RFC 9380, section 6.7.1) and the map to the Edwards curve (appendix D.1), on two elements a lane.
///
/// Of gx1 and gx2 = Z·u²·gx1 one is a square. Which one is told by the norm of gx1, of which `root` is a square root, or
/// a root of minus the norm. In that case Z·gx1 is a square, its norm has the root `√-5·root`, and
/// y = √gx2 = u·√(Z·gx1): so either way there is one square root to take.
#[inline(always)]
fn elligator<V: Lanes>(u: [Fp2<V>; 2], inverses: [Fp<V>; 2]) -> [Extended<V>; 2] {
    let (j, k, k2) = (Fp2::splat(J_OVER_K), Fp2::splat(ONE_OVER_K), Fp2::splat(ONE_OVER_K2));
    let mut x1 = u;
    let mut gx1 = u;
    let mut norm = inverses;
    for i in 0..2 {
        let inverse = denominator(&u[i]).1.conj_wide().scale(inverses[i]);
        x1[i] = product(j, inverse).neg::<2>().carried();
        let inner = product(x1[i].add(j), x1[i]).add(k2); // 2 u
        gx1[i] = product(inner, x1[i]);
        norm[i] = gx1[i].norm();
    }
    let mut root = V::call(Root(norm));
    let mut square = [V::zero(); 2];
    let mut w = gx1;
    for i in 0..2 {
        square[i] = equal(root[i].square(), norm[i]);
        w[i] = Fp2::select(square[i], gx1[i], product(gx1[i], Fp2::splat(Z)));
        root[i] = Fp::select(square[i], root[i], root[i].mul(Fp::splat(ROOT_OF_MINUS_5)));
    }
    let y = roots(w, [Fp::splat(1); 2], root);
    let one = Fp2::splat(ONE);
    let neutral = Extended { x: Fp2::zero(), y: one, z: one, ta: Fp2::zero(), tb: one };
    let mut out = [neutral; 2];
    for i in 0..2 {
        let x2 = x1[i].add(j).neg::<3>();
        let x = Fp2::select(square[i], x1[i], x2).carried();
        let y = Fp2::select(square[i], y[i], product(y[i], u[i])).carried();
        // Step: sgn0(y) is 1 where x is x1, and 0 where it is x2.
        let y = Fp2::select(sgn0(y.freeze()).xor(square[i]), y.neg::<2>(), y);
        // s = K·x and t = K·y, then (s/t, (s - 1)/(s + 1)) = (x/y, (x - 1/K)/(x + 1/K)).
        let (minus, plus) = (x.sub::<2>(k), x.add(k)); // 3 u, 2 u
        let p = Extended { x: product(plus, x), y: product(minus, y), z: product(plus, y), ta: minus, tb: x };
        // Where t = 0 or s = -1, the neutral element.
        let exceptional = p.z.freeze().is_zero();
        out[i] = Extended {
            x: Fp2::select(exceptional, neutral.x, p.x),
            y: Fp2::select(exceptional, neutral.y, p.y),
            z: Fp2::select(exceptional, neutral.z, p.z),
            ta: Fp2::select(exceptional, neutral.ta, p.ta),
            tb: Fp2::select(exceptional, neutral.tb, p.tb),
        };
    }
    out
}

/// `sgn0` of a frozen value as a mask (RFC 9380, section 4.1, m = 2).
#[inline(always)]
fn sgn0<V: Lanes>(x: Fp2<V>) -> V {
    x.re.is_odd().or(x.re.is_zero().and(x.im.is_odd()))
}
