//! Multiplication of many points by one scalar in affine coordinates: the points of a block share their inversions.
//!
//! The curve is short, `y² = x³ + A·x + B` ([`super::short`]), in the table and the multiplication Ê. A sum of two points takes an
//! inversion, two products and a square. Montgomery's trick shares one inversion among all points of a block, on the norms of
//! what is inverted, so that for each point it takes seven products of the prime field. A step of the multiplication, Q to
//! 2Q + T, is two such sums, Q + T and (Q + T) + Q, and needs no y of the first (K. Eisenträger, K. Lauter, P. Montgomery, "Fast
//! elliptic curve arithmetic and improved Weil pairing evaluation", CT-RSA 2003). In all it takes two thirds of the products
//! that [`super::curve::Multiply`] takes.
//!
//! **Exceptions.** The formulas fail where two points have the same x. All points of a batch have the same prime order and
//! are multiplied by the same scalar, so whether a sum fails depends on the scalar alone. The first entry is doubled
//! before the second is added to it. From then on the partial sums name 3 or more in the first place and the entries 1
//! or -1 ([`super::scalar::decompose`]), so a sum can fail only by a coincidence modulo N, for fewer than one in 2^200
//! scalars. A block in which it happens is multiplied by the complete formulas instead.
//!
//! Loops here have no closures: one that is not inlined is compiled without the back end's instructions ([`Lanes`]).

use super::curve::{Point, Tau, TauDual};
use super::scalar::Digits;
use super::short::{self, Affine, divisor};
use crate::field::p127::{Fp, Fp2, InverseRoot};
use crate::field::{Formula, Lanes};
use zeroize::Zeroize;

/// A norm that is to be inverted together with others, and the product of those before it: Montgomery's trick.
#[derive(Clone, Copy)]
struct Shared<V> {
    norm: Fp<V>,
    before: Fp<V>,
}

impl<V: Lanes> Shared<V> {
    /// Takes a norm into the product.
    #[inline(always)]
    fn new(norm: Fp<V>, product: &mut Fp<V>) -> Self {
        let before = *product;
        *product = before.times(norm);
        Self { norm, before }
    }

    /// The inverse of the norm. `inverse` is that of the product up to here, and becomes that of the product before.
    #[inline(always)]
    fn invert(&self, inverse: &mut Fp<V>) -> Fp<V> {
        let this = inverse.times(self.before);
        *inverse = inverse.times(self.norm);
        this
    }
}

/// The inverse of a product of norms, or nothing if there is a zero in it.
#[inline(always)]
fn inverse<V: Lanes>(product: Fp<V>) -> Option<Fp<V>> {
    let mut zeros = [0; super::MAX_LANES];
    product.freeze().is_zero().store(&mut zeros);
    if zeros != [0; super::MAX_LANES] {
        return None;
    }
    Some(inverse_or_zero(product))
}

/// The inverse of a product of norms, or zero if there is a zero in it.
#[inline(always)]
pub(super) fn inverse_or_zero<V: Lanes>(product: Fp<V>) -> Fp<V> {
    // p - 2 = 4·(2^125 - 1) + 1.
    let [x] = V::call(InverseRoot([product]));
    x.square().square().mul(product)
}

/// A line through a point, which meets the curve in two more. Its slope is rise/run = rise·conj(run)/norm(run).
#[derive(Clone, Copy)]
pub(super) struct Line<V> {
    pub(super) from: Affine<V>,
    /// x of the second point.
    x: Fp2<V>,
    slope: Fp2<V>,
    /// The product of the rise and the run's conjugate, tight.
    rise: Fp2<V>,
    norm: Shared<V>,
}

impl<V: Lanes> Zeroize for Line<V> {
    fn zeroize(&mut self) {
        let Self { from: Affine { x: from_x, y: from_y }, x, slope, rise, norm: Shared { norm, before } } = self;
        for part in [from_x, from_y, x, slope, rise] {
            part.zeroize();
        }
        norm.zeroize();
        before.zeroize();
    }
}

impl<V: Lanes> Line<V> {
    /// Room for a line.
    #[inline(always)]
    pub(super) fn empty() -> Self {
        let zero = Fp2::zero();
        let norm = Shared { norm: Fp::zero(), before: Fp::zero() };
        Self { from: Affine { x: zero, y: zero }, x: zero, slope: zero, rise: zero, norm }
    }

    /// Takes the line from its start through another point with this x; `rise` is below 4 u and `run` below 3 u. The norm is
    /// taken into the product.
    #[inline(always)]
    fn lead(&mut self, x: Fp2<V>, rise: Fp2<V>, run: Fp2<V>, product: &mut Fp<V>) {
        self.norm = Shared::new(run.norm(), product);
        self.rise = run.left_conj::<4>().mul(&rise);
        self.x = x;
    }

    /// Takes the line from its start through another point.
    #[inline(always)]
    pub(super) fn aim(&mut self, to: Affine<V>, product: &mut Fp<V>) {
        let Affine { x, y } = self.from;
        self.lead(to.x, to.y.sub::<2>(y), to.x.sub::<2>(x), product);
    }

    /// Takes the line to the tangent in its start, a point of Ê.
    #[inline(always)]
    fn touch(&mut self, product: &mut Fp<V>) {
        // (3x² + A) / 2y
        let Affine { x, y } = self.from;
        let square = x.square::<2>();
        let rise = square.twice().add(square).add(Fp2::splat(short::A)); // 4 u
        self.lead(x, rise, y.twice(), product);
    }

    /// rise·conj(run)/norm(run), tight.
    #[inline(always)]
    fn slope(&self, inverse: &mut Fp<V>) -> Fp2<V> {
        self.rise_times(self.norm.invert(inverse))
    }

    /// rise·conj(run) times a value below 3 u, tight.
    #[inline(always)]
    fn rise_times(&self, by: Fp<V>) -> Fp2<V> {
        Fp2 { re: by.times(self.rise.re), im: by.times(self.rise.im) }
    }

    /// The sum of the two points.
    #[inline(always)]
    pub(super) fn sum(&self, inverse: &mut Fp<V>) -> Affine<V> {
        let slope = self.slope(inverse);
        let x = self.third(slope);
        let y = slope.left::<2>().mul_plus(&self.from.x.sub::<2>(x), self.from.y.neg::<2>());
        Affine { x, y }
    }

    /// Takes the start to the sum of Q and Q + T, where the line is what [`Halve`] makes of it.
    #[inline(always)]
    fn complete(&mut self, inverse: &mut Fp<V>) {
        let half = self.norm.invert(inverse);
        let slope = self.rise_times(half.add(half)).add(self.slope); // 2 u
        let Affine { x: from, y } = self.from;
        let x = self.third(slope);
        self.from = Affine { x, y: slope.left::<3>().mul_plus(&x.sub::<2>(from), y.neg::<2>()) };
    }

    /// x of the third point of a line with this slope, below 3 u, through `from` and a point with this x: tight.
    #[inline(always)]
    fn third(&self, slope: Fp2<V>) -> Fp2<V> {
        slope.square_plus::<4>(self.from.x.add(self.x).neg::<3>())
    }
}

/// Takes the start of each line to the sum of its two points.
struct Sum<'a, V>(&'a mut [Line<V>], Fp<V>);

impl<V: Lanes> Formula<V> for Sum<'_, V> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Sum(lines, mut inverse) = self;
        for line in lines.iter_mut().rev() {
            line.from = line.sum(&mut inverse);
        }
    }
}

/// The first half of a step: from the line through Q and T to that through Q and Q + T. That one's slope is the first's
/// plus 2y/(x of Q + T, less x), and both times -1: `rise` becomes that of half the fraction. The norms are taken into the
/// product from the last line to the first. Gives the product.
struct Halve<'a, V>(&'a mut [Line<V>], Fp<V>);

impl<V: Lanes> Formula<V> for Halve<'_, V> {
    type Out = Fp<V>;
    #[inline(always)]
    fn run(self) -> Fp<V> {
        let Halve(lines, mut inverse) = self;
        let mut product = Fp::splat(1);
        for line in lines.iter_mut().rev() {
            let Affine { x: from, y } = line.from;
            line.slope = line.slope(&mut inverse);
            let x = line.third(line.slope);
            line.lead(x, y, x.sub::<2>(from), &mut product);
        }
        product
    }
}

/// The second half of a step: Q + (Q + T), and the line from there to the next entry. Gives the product of the norms.
struct Complete<'a, V>(&'a mut [Line<V>], Fp<V>, &'a [Table<V>], &'a [u64; 8]);

impl<V: Lanes> Formula<V> for Complete<'_, V> {
    type Out = Fp<V>;
    #[inline(always)]
    fn run(self) -> Fp<V> {
        let Complete(lines, mut inverse, tables, masks) = self;
        let mut product = Fp::splat(1);
        for (line, table) in lines.iter_mut().zip(tables) {
            let to = select(table, masks);
            line.complete(&mut inverse);
            line.aim(to, &mut product);
        }
        product
    }
}

/// The second half of the last step.
struct Finish<'a, V>(&'a mut [Line<V>], Fp<V>);

impl<V: Lanes> Formula<V> for Finish<'_, V> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Finish(lines, mut inverse) = self;
        for line in lines {
            line.complete(&mut inverse);
        }
    }
}

/// The lines from where lines start to the entries that the masks name. Gives the product of the norms.
struct Aim<'a, V>(&'a mut [Line<V>], &'a [Table<V>], &'a [u64; 8]);

impl<V: Lanes> Formula<V> for Aim<'_, V> {
    type Out = Fp<V>;
    #[inline(always)]
    fn run(self) -> Fp<V> {
        let Aim(lines, tables, masks) = self;
        let mut product = Fp::splat(1);
        for (line, table) in lines.iter_mut().zip(tables) {
            line.aim(select(table, masks), &mut product);
        }
        product
    }
}

/// Eight points, each coordinate in two words: what is read at each step should be short.
#[derive(Clone, Copy)]
struct Table<V>([[V; 8]; 8]);

impl<V: Lanes> Table<V> {
    #[inline(always)]
    fn put(&mut self, j: usize, p: Affine<V>) {
        let parts = [p.x.re, p.x.im, p.y.re, p.y.im];
        for (words, part) in self.0[j].as_chunks_mut::<2>().0.iter_mut().zip(parts) {
            *words = part.freeze().to_words();
        }
    }

    #[inline(always)]
    fn entry(&self, j: usize) -> Affine<V> {
        unpacked(self.0[j], V::zero())
    }
}

/// The point of these words, which are frozen, or less it where the mask is set: tight.
#[inline(always)]
pub(super) fn unpacked<V: Lanes>([a, b, c, d, e, f, g, h]: [V; 8], minus: V) -> Affine<V> {
    // p - y is the complement of the 127 bits of y.
    let (low, high) = (minus, minus.shr(1));
    Affine {
        x: Fp2 { re: Fp::from_words([a, b]), im: Fp::from_words([c, d]) },
        y: Fp2 { re: Fp::from_words([e.xor(low), f.xor(high)]), im: Fp::from_words([g.xor(low), h.xor(high)]) },
    }
}

/// The entry that the masks name, with its sign. Every entry is read, whichever it is.
#[inline(always)]
fn select<V: Lanes>(Table(table): &Table<V>, masks: &[u64; 8]) -> Affine<V> {
    let mut words = table[0];
    for j in 1..8 {
        let mask = V::splat(masks[j - 1]);
        for i in 0..8 {
            words[i] = mask.select(table[j][i], words[i]);
        }
    }
    unpacked(words, V::splat(masks[7]))
}

/// What the blocks of a batch are computed in, one after the other: fresh memory for each block would cost more in page
/// faults than a tenth of the arithmetic.
pub(super) struct Room<V> {
    /// The points on Ê.
    hats: Vec<Point<V>>,
    /// What is divided by: its conjugate, and its norm.
    divisors: Vec<(Fp2<V>, Shared<V>)>,
    tables: Vec<Table<V>>,
    lines: Vec<Line<V>>,
}

impl<V: Lanes> Room<V> {
    /// For blocks of up to so many vectors of points.
    pub(super) fn new(vectors: usize) -> Self {
        Self {
            hats: Vec::with_capacity(vectors),
            divisors: Vec::with_capacity(2 * vectors),
            tables: Vec::with_capacity(vectors),
            lines: Vec::with_capacity(vectors),
        }
    }
}

/// Divides by several values: takes them one after the other, and gives the inverses from the last to the first.
struct Divide<'a, V>(&'a mut Vec<(Fp2<V>, Shared<V>)>, Fp<V>);

impl<'a, V: Lanes> Divide<'a, V> {
    #[inline(always)]
    fn new(room: &'a mut Vec<(Fp2<V>, Shared<V>)>) -> Self {
        room.clear();
        Self(room, Fp::splat(1))
    }

    #[inline(always)]
    fn by(&mut self, (conj, norm): (Fp2<V>, Fp<V>)) {
        let shared = Shared::new(norm, &mut self.1);
        self.0.push((conj, shared));
    }

    /// All are taken; nothing if one of them is zero.
    #[inline(always)]
    fn turn(&mut self) -> Option<()> {
        self.1 = inverse(self.1)?;
        Some(())
    }

    /// The next inverse, tight.
    #[inline(always)]
    fn next(&mut self) -> Fp2<V> {
        let (conj, norm) = self.0.pop().expect("as many as were taken");
        conj.scale(norm.invert(&mut self.1))
    }
}

/// The entries 0, 1, 2 and 4 of tables: points of Ê, and what φ, ψ and both make of them. Nothing if a point is neutral.
struct Images<'a, V>(&'a [Point<V>], &'a mut Vec<(Fp2<V>, Shared<V>)>, &'a mut [Table<V>]);

impl<V: Lanes> Formula<V> for Images<'_, V> {
    type Out = Option<()>;
    #[inline(always)]
    fn run(self) -> Self::Out {
        let Images(hats, divisors, tables) = self;
        let mut divide = Divide::new(divisors);
        for p in hats {
            divide.by(divisor(p));
        }
        divide.turn()?;
        for (p, table) in hats.iter().zip(tables.iter_mut()).rev() {
            table.put(0, Affine::hat(p, divide.next()));
        }
        let mut divide = Divide::new(divisors);
        for table in tables.iter() {
            let p = table.entry(0);
            divide.by(p.divisor_of_phi());
            divide.by(p.divisor_of_psi());
        }
        divide.turn()?;
        for table in tables.iter_mut().rev() {
            let p = table.entry(0);
            table.put(2, p.psi(divide.next()));
            table.put(1, p.phi(divide.next()));
        }
        let mut divide = Divide::new(divisors);
        for table in tables.iter() {
            divide.by(table.entry(1).divisor_of_psi());
        }
        divide.turn()?;
        for table in tables.iter_mut().rev() {
            table.put(4, table.entry(1).psi(divide.next()));
        }
        Some(())
    }
}

/// The tables of a block, as in `curve`: P + \[j0\]φ(P) + \[j1\]ψ(P) + \[j2\]ψ(φ(P)) for the bits of j, of points of Ê.
#[inline(always)]
fn tables<V: Lanes>(points: &[Point<V>], room: &mut Room<V>) -> Option<()> {
    let Room { hats, divisors, tables, lines } = room;
    hats.clear();
    for p in points {
        hats.push(V::call(Tau(*p)));
    }
    tables.resize(points.len(), Table([[V::zero(); 8]; 8]));
    lines.resize(points.len(), Line::empty());
    V::call(Images(hats, divisors, tables))?;
    // Each entry j is its highest image plus an entry before. The image itself, where j is a power of two, is replaced last.
    for (image, j) in [(1, 1), (2, 3), (2, 2), (4, 7), (4, 6), (4, 5), (4, 4)] {
        let mut product = Fp::splat(1);
        for (line, table) in lines.iter_mut().zip(tables.iter()) {
            line.from = table.entry(image);
            line.aim(table.entry(j - image), &mut product);
        }
        V::call(Sum(lines, inverse(product)?));
        for (table, sum) in tables.iter_mut().zip(lines.iter()) {
            table.put(j, sum.from);
        }
    }
    Some(())
}

/// The multiples of points of prime order that the digits name, as [`super::curve::Multiply`] computes them for one.
/// Nothing if two points to be added had the same x.
pub(super) struct MultiplyBlock<'a, V>(pub(super) &'a [Point<V>], pub(super) &'a Digits, pub(super) &'a mut Room<V>);

impl<V: Lanes> Formula<V> for MultiplyBlock<'_, V> {
    type Out = Option<Vec<Point<V>>>;
    #[inline(always)]
    fn run(self) -> Self::Out {
        let MultiplyBlock(points, digits, room) = self;
        tables(points, room)?;
        let Room { tables, lines, .. } = room;
        let (first, rest) = digits.masks();
        let [second, third, rest @ ..] = rest else { unreachable!("a multiplier has 64 digits") };
        let mut product = Fp::splat(1);
        for (line, table) in lines.iter_mut().zip(tables.iter()) {
            line.from = select(table, first);
            line.touch(&mut product);
        }
        V::call(Sum(lines, inverse(product)?));
        let product = V::call(Aim(lines, tables, second));
        V::call(Sum(lines, inverse(product)?));
        let mut product = V::call(Aim(lines, tables, third));
        for next in rest {
            let half = V::call(Halve(lines, inverse(product)?));
            product = V::call(Complete(lines, inverse(half)?, tables, next));
        }
        let half = V::call(Halve(lines, inverse(product)?));
        V::call(Finish(lines, inverse(half)?));
        let mut out = Vec::with_capacity(lines.len());
        for line in lines {
            out.push(V::call(TauDual(line.from.edwards_hat())).point());
        }
        Some(out)
    }
}
