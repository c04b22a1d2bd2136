//! edwards25519, `-x^2 + y^2 = 1 + d·x^2·y^2`: the curve that ristretto255 is made of, and Curve25519 by another name. Sums
//! are complete here, so whatever is added, no case is exceptional: ristretto255 multiplies by these formulas, and both
//! groups blind by them.

use crate::backend::{self, Kernel};
use crate::blind::{Bits, Digits, WIDE};
use crate::field::f25519::block::{Block, vectors};
use crate::field::f25519::{Fe, Wide, invert_all};
use crate::field::{Formula, Lanes};
use std::marker::PhantomData;
use std::sync::LazyLock;
use zeroize::Zeroize;

/// 2d, for d = -121665/121666.
const D2: [u64; 4] = [0xebd6_9b94_26b2_f159, 0x00e0_149a_8283_b156, 0x198e_80f2_eef3_d130, 0x2406_d9dc_56df_fce7];

/// A point in extended coordinates (X : Y : Z : T): x = X/Z, y = Y/Z, xy = T/Z.
#[derive(Clone, Copy)]
pub(crate) struct Point<V> {
    pub(crate) x: Fe<V>,
    pub(crate) y: Fe<V>,
    pub(crate) z: Fe<V>,
    pub(crate) t: Fe<V>,
}

/// A point that is to be added many times: Y - X, Y + X, 2Z and 2d·T.
#[derive(Clone, Copy)]
pub(crate) struct Cached<V> {
    pub(crate) minus: Fe<V>,
    pub(crate) plus: Fe<V>,
    pub(crate) z2: Fe<V>,
    pub(crate) t2d: Fe<V>,
}

/// Eight points: X, Y, Z and T.
pub(crate) type Points = [Block; 4];

/// Eight times the neutral element (0 : 1 : 1 : 0).
pub(crate) const NEUTRAL: Points = [Block::filled(0), Block::filled(1), Block::filled(1), Block::filled(0)];

impl<V: Lanes> Point<V> {
    #[inline(always)]
    pub(crate) fn load(blocks: &Points, part: usize) -> Self {
        let [x, y, z, t] = blocks;
        Self { x: x.load(part), y: y.load(part), z: z.load(part), t: t.load(part) }
    }

    #[inline(always)]
    pub(crate) fn store(&self, blocks: &mut Points, part: usize) {
        let [x, y, z, t] = blocks;
        x.store(part, &self.x);
        y.store(part, &self.y);
        z.store(part, &self.z);
        t.store(part, &self.t);
    }

    #[inline(always)]
    pub(crate) fn cached(&self) -> Cached<V> {
        Cached {
            minus: self.y.sub(&self.x),
            plus: self.y.add(&self.x),
            z2: self.z.add(&self.z),
            t2d: self.t.mul(&Fe::splat(D2)),
        }
    }

    /// The point's negative.
    #[inline(always)]
    pub(crate) fn neg(&self) -> Self {
        Self { x: self.x.neg(), t: self.t.neg(), ..*self }
    }

    /// Twice the point, by "dbl-2008-hwcd" (Hisil, Wong, Carter, Dawson, Asiacrypt 2008) for a = -1, with all four of E to H
    /// negated. T is not computed if nothing will be added next.
    #[inline(always)]
    pub(crate) fn double(&self, with_t: bool) -> Self {
        let a = self.x.squared();
        let b = self.y.squared_raw();
        let zz = self.z.squared_raw();
        let e = a.plus(b).minus(self.x.add(&self.y).squared_raw()).carry();
        let g = a.minus(b).carry();
        let f = a.minus(b).plus(zz).plus(zz).carry();
        let h = a.plus(b).carry();
        Self::completed(&e, &f, &g, &h, with_t)
    }

    /// The sum, by "add-2008-hwcd-3": complete, because a = -1 is a square and d is not.
    #[inline(always)]
    pub(crate) fn add(&self, other: &Cached<V>, with_t: bool) -> Self {
        let a = self.y.sub(&self.x).times_raw(&other.minus);
        let b = self.y.add(&self.x).times(&other.plus);
        let c = self.t.times_raw(&other.t2d);
        let d = self.z.times(&other.z2);
        let e = b.minus(a).carry();
        let f = d.minus(c).carry();
        let g = d.plus(c).carry();
        let h = b.plus(a).carry();
        Self::completed(&e, &f, &g, &h, with_t)
    }

    /// (EF : GH : FG : EH); without T, some value stands in its place.
    #[inline(always)]
    fn completed(e: &Fe<V>, f: &Fe<V>, g: &Fe<V>, h: &Fe<V>, with_t: bool) -> Self {
        let t = if with_t { e.times_raw(h).carry() } else { *e };
        Self { x: e.times_raw(f).carry(), y: g.times_raw(h).carry(), z: f.times_raw(g).carry(), t }
    }
}

/// A sum with T, called.
pub(crate) struct Add<'a, V>(pub(crate) &'a Point<V>, pub(crate) &'a Cached<V>);

impl<V: Lanes> Formula<V> for Add<'_, V> {
    type Out = Point<V>;
    #[inline(always)]
    fn run(self) -> Point<V> {
        self.0.add(self.1, true)
    }
}

impl<V: Lanes> Cached<V> {
    /// The neutral element.
    #[inline(always)]
    pub(crate) fn neutral() -> Self {
        Self { minus: Fe::one(), plus: Fe::one(), z2: Fe::splat([2, 0, 0, 0]), t2d: Fe::zero() }
    }

    /// The negative where the mask is set.
    #[inline(always)]
    pub(crate) fn negated_where(&self, negative: V) -> Self {
        Self {
            minus: Fe::select(negative, &self.plus, &self.minus),
            plus: Fe::select(negative, &self.minus, &self.plus),
            z2: self.z2,
            t2d: Fe::select(negative, &self.t2d.neg(), &self.t2d),
        }
    }

    #[inline(always)]
    pub(crate) fn select(mask: V, on: &Self, off: &Self) -> Self {
        Self {
            minus: Fe::select(mask, &on.minus, &off.minus),
            plus: Fe::select(mask, &on.plus, &off.plus),
            z2: Fe::select(mask, &on.z2, &off.z2),
            t2d: Fe::select(mask, &on.t2d, &off.t2d),
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Multiples of one point

/// Bits of a multiplier, and how many words they take. The order of the prime subgroup is l = 2^252 + δ, δ < 2^125, and
/// 2^255 = 7l + (l - 8δ), so a multiplier is within 2^-126 of uniform modulo l.
const BITS: usize = 255;
pub(crate) const WORDS: usize = 5;
const WINDOWS: usize = BITS.div_ceil(6);

/// The digit, in radix 32, of the multiples of a point of order 8, in a table that has them: the bits behind the others.
pub(crate) const TORSION: usize = BITS / 5;

/// Multiples of a point, word by word: y - x, y + x and 2d·xy of each.
type Window = [[u64; WIDE]; 12];

/// The odd multiples below 64 of P, 64P, 64^2·P, ...: a table from which lanes take different entries.
pub struct Multiples(Vec<Window>);

/// The bits that choose from a window.
const fn bits(window: usize) -> Bits {
    if window < WINDOWS { Bits::of(window, BITS) } else { Bits { from: BITS, len: 5 } }
}

/// Makes the table of a point, that of the first lane.
struct Tabulate<V>(Point<V>);

impl<V: Lanes> Formula<V> for Tabulate<V> {
    type Out = Multiples;
    #[inline(always)]
    fn run(self) -> Multiples {
        // 64^i·P, one after the other. Each goes into a lane of its own, so that many windows are filled at once.
        let mut bases = [NEUTRAL; WINDOWS.div_ceil(Block::LANES)];
        let mut base = self.0;
        for i in 0..WINDOWS {
            let mut here = NEUTRAL;
            base.store(&mut here, 0);
            for (blocks, block) in bases[i / Block::LANES].iter_mut().zip(&here) {
                for (lanes, words) in blocks.0.iter_mut().zip(&block.0) {
                    lanes[i % Block::LANES] = words[0];
                }
            }
            for _ in 0..5 {
                base = base.double(false);
            }
            base = base.double(true);
        }
        let mut multiples = Vec::with_capacity(WINDOWS.next_multiple_of(Block::LANES) / V::WIDTH * WIDE);
        for (block, part) in vectors::<V>(WINDOWS) {
            let mut multiple = Point::load(&bases[block], part);
            let two = multiple.double(true).cached();
            for _ in 0..WIDE {
                multiples.push(multiple);
                multiple = V::call(Add(&multiple, &two));
            }
        }
        tabulate(&multiples, WINDOWS)
    }
}

/// Windows of points: those of the first vector of windows, then those of the next one. Lanes beyond the last window are left out.
#[inline(always)]
fn tabulate<V: Lanes>(points: &[Point<V>], windows: usize) -> Multiples {
    let mut inverses: Vec<Fe<V>> = points.iter().map(|point| point.z).collect();
    invert_all(&mut inverses);
    let mut all = vec![[[0; WIDE]; 12]; windows];
    for (here, (points, inverses)) in all.chunks_mut(V::WIDTH).zip(points.chunks(WIDE).zip(inverses.chunks(WIDE))) {
        for (i, (point, inverse)) in points.iter().zip(inverses).enumerate() {
            let (x, y) = (point.x.mul(inverse), point.y.mul(inverse));
            for (n, number) in [y.sub(&x), y.add(&x), x.mul(&y).mul(&Fe::splat(D2))].iter().enumerate() {
                for (w, word) in number.to_words().into_iter().enumerate() {
                    let mut lanes = [0; Block::LANES];
                    word.store(&mut lanes);
                    here.iter_mut().zip(lanes).for_each(|(window, word)| window[4 * n + w][i] = word);
                }
            }
        }
    }
    Multiples(all)
}

/// The generator of RFC 8032, section 5.1: y = 4/5, and the even x.
pub(crate) const GENERATOR: [[u64; 4]; 2] = [
    [0xc956_2d60_8f25_d51a, 0x692c_c760_9525_a7b2, 0xc0a4_e231_fdd6_dc5c, 0x2169_36d3_cd6e_53fe],
    [0x6666_6666_6666_6658, 0x6666_6666_6666_6666, 0x6666_6666_6666_6666, 0x6666_6666_6666_6666],
];

/// A point of order 8.
const ORDER_8: [[u64; 4]; 2] = [
    [0xdea1_4646_c545_d14a, 0x5c19_3c70_13e5_e238, 0xe933_9932_38de_4abb, 0x1fd5_b9a0_0639_4a28],
    [0xb027_b2c2_8f95_e826, 0xf098_eff2_89f4_c345, 0x3933_c6d3_05ac_dfd5, 0x05fc_536d_8802_38b1],
];

/// The multiples of the generator, and at last those of the point of order 8, twice: a multiplier with a digit for that
/// window too is uniform over the whole curve.
pub(crate) fn generator() -> &'static Multiples {
    static MULTIPLES: LazyLock<Multiples> = LazyLock::new(|| backend::dispatch(Generator));
    &MULTIPLES
}

struct Generator;

impl Kernel for Generator {
    type Out = Multiples;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Multiples {
        let [generator, order_8] = [GENERATOR, ORDER_8].map(affine::<V>);
        let mut multiples = V::call(Tabulate(generator));
        let one = order_8.cached();
        let mut torsion = [order_8; WIDE];
        for i in 1..WIDE {
            torsion[i] = V::call(Add(&torsion[i - 1], &one));
        }
        multiples.0.extend(tabulate(&torsion, 1).0);
        multiples
    }
}

/// A point that is the same in all lanes.
#[inline(always)]
fn affine<V: Lanes>([x, y]: [[u64; 4]; 2]) -> Point<V> {
    let (x, y) = (Fe::splat(x), Fe::splat(y));
    Point { x, y, z: Fe::one(), t: x.mul(&y) }
}

impl Multiples {
    /// Without the window of points of small order, if there is one: for a group that does not know them.
    pub(crate) fn of_prime_order(&self) -> &[Window] {
        &self.0[..WINDOWS]
    }

    /// All windows.
    pub(crate) fn all(&self) -> &[Window] {
        &self.0
    }
}

/// The multiples of the negative of the first of eight points: what unblinding adds.
pub(crate) struct NegativeMultiples<'a>(pub(crate) &'a Points);

impl Kernel for NegativeMultiples<'_> {
    type Out = Multiples;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Multiples {
        V::call(Tabulate(Point::load(self.0, 0).neg()))
    }
}

/// Adds to each of the points the multiple that its digits name.
pub(crate) struct AddMultiples<'a> {
    pub(crate) points: &'a mut [Points],
    pub(crate) windows: &'a [Window],
    pub(crate) digits: &'a Digits<WORDS>,
}

impl Kernel for AddMultiples<'_> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes>(self) {
        let AddMultiples { points, windows, digits } = self;
        let mut rest = vectors::<V>(digits.len());
        loop {
            let (mut places, mut n) = ([(0, 0); AT_ONCE], 0);
            for (to, place) in places.iter_mut().zip(rest.by_ref()) {
                *to = place;
                n += 1;
            }
            if n == 0 {
                return;
            }
            V::call(Sums { points, windows, digits, places: &places[..n], lanes: PhantomData::<V> });
        }
    }
}

/// How many vectors of points go through the windows together, so that each window is fetched once for all of them.
const AT_ONCE: usize = 8;

/// The vectors at some places.
struct Sums<'a, V> {
    points: &'a mut [Points],
    windows: &'a [Window],
    digits: &'a Digits<WORDS>,
    places: &'a [(usize, usize)],
    lanes: PhantomData<V>,
}

impl<V: Lanes> Formula<V> for Sums<'_, V> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let Sums { points, windows, digits, places, .. } = self;
        let mut sums = [Running::<V>::new(&Point::load(&points[places[0].0], places[0].1)); AT_ONCE];
        for (sum, place) in sums.iter_mut().zip(places).skip(1) {
            *sum = Running::new(&Point::load(&points[place.0], place.1));
        }
        for (i, window) in windows.iter().enumerate() {
            for (sum, place) in sums.iter_mut().zip(places) {
                let (index, negative) = digits.wide::<V>(*place, bits(i));
                let words = V::lookups(window, index);
                let (minus, plus, t2d) = (number(&words, 0), number(&words, 4), number(&words, 8));
                let [minus, plus] = [Fe::select(negative, &plus, &minus), Fe::select(negative, &minus, &plus)];
                *sum = sum.add(&minus, &plus, &t2d, negative);
            }
        }
        for (sum, place) in sums.iter().zip(places) {
            sum.point().store(&mut points[place.0], place.1);
        }
        // The coordinates would tell of the digits to who has the points that are sent.
        sums.zeroize();
    }
}

/// A sum that goes on growing: Y - X, Y + X, T, and 2Z as columns, since nothing multiplies it.
#[derive(Clone, Copy)]
struct Running<V> {
    minus: Fe<V>,
    plus: Fe<V>,
    t: Fe<V>,
    z2: Wide<V>,
}

impl<V: Lanes> Zeroize for Running<V> {
    fn zeroize(&mut self) {
        let Self { minus, plus, t, z2 } = self;
        [minus, plus, t].into_iter().for_each(Zeroize::zeroize);
        z2.zeroize();
    }
}

impl<V: Lanes> Running<V> {
    #[inline(always)]
    fn new(point: &Point<V>) -> Self {
        Self { minus: point.y.sub(&point.x), plus: point.y.add(&point.x), t: point.t, z2: point.z.twice() }
    }

    /// The sum with a point whose Z is 1, given as y - x, y + x and 2d·xy: as [`Point::add`], 7M. Where the mask is set the last has the
    /// wrong sign, and F and G change places.
    #[inline(always)]
    fn add(&self, minus: &Fe<V>, plus: &Fe<V>, t2d: &Fe<V>, negative: V) -> Self {
        let a = self.minus.times_raw(minus);
        let b = self.plus.times(plus);
        let c = self.t.times_raw(t2d);
        let e = b.minus(a).carry();
        let h = b.plus(a).carry();
        let (less, more) = (self.z2.minus(c).carry(), self.z2.plus(c).carry());
        let (f, g) = (Fe::select(negative, &more, &less), Fe::select(negative, &less, &more));
        let x = e.times_raw(&f);
        let y = g.times(&h);
        Self { minus: y.minus(x).carry(), plus: y.plus(x).carry(), t: e.times_raw(&h).carry(), z2: f.times(&g).twice() }
    }

    /// The sum as a point, all four coordinates doubled.
    #[inline(always)]
    fn point(&self) -> Point<V> {
        let Self { minus, plus, t, z2 } = *self;
        Point { x: plus.sub(&minus), y: plus.add(&minus), z: z2.carry(), t: t.add(&t) }
    }
}

/// Four words as a number.
#[inline(always)]
fn number<V: Lanes>(words: &[V; 12], from: usize) -> Fe<V> {
    Fe::from_canonical([words[from], words[from + 1], words[from + 2], words[from + 3]])
}
