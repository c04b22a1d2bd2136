//! Adds to each of many points its own multiple of one fixed point, as blinding needs it.
//!
//! **Sums of table entries** are affine, on the short curve ([`super::affine`]), and those of a block share their inversions: a sum takes
//! 294 multiply-adds where complete formulas take 420. The windows are summed up in two halves. These and the point that they are
//! added to meet in the complete formulas of the Edwards curve, so there is no exceptional case, whatever a peer sends.
//!
//! **No exceptional case** in a half either. Digits d are odd, |d| < 64, and a half has at most 22 of them. m = Σ_{j<i} d_j·64^j is
//! not zero, and |m| < 64^i <= |d_i·64^i|, all below 2^132: so d_i·64^i is neither m nor -m modulo the order N > 2^245, and the point
//! that they multiply has order N. In the upper half all of this is multiplied by 64^22.
//!
//! Loops here have no closures: one that is not inlined is compiled without the back end's instructions ([`Lanes`]).

use super::affine::{Line, inverse_or_zero, unpacked};
use super::curve::Point;
use super::short::{Affine, FOURQ, divisor};
use super::{MAX_LANES, MOST, VECTORS};
use crate::backend::Kernel;
use crate::blind::{self, Bits, WIDE};
use crate::field::p127::{Fp, invert};
use crate::field::{Formula, Lanes};
use zeroize::Zeroize;

/// The bits of a multiplier.
pub(super) const BITS: usize = 255;
/// Those that choose from a window.
const fn bits(window: usize) -> Bits {
    Bits::of(window, BITS)
}
const WINDOWS: usize = BITS.div_ceil(6);
/// The windows of the lower half; the upper one has one less.
const HALF: usize = WINDOWS.div_ceil(2);

/// The multipliers of a batch.
pub(super) type Digits = blind::Digits<5>;

/// The multiples of a point.
pub struct Table(Vec<Window>);

/// x and y of a point's odd multiples, each coordinate in two words: word by word.
#[derive(Clone)]
#[repr(align(64))]
struct Window([[u64; WIDE]; 8]);

/// The multiples of the only point of a batch.
pub(super) struct MakeTable(pub(super) Vec<u64>);

impl Kernel for MakeTable {
    type Out = Table;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Table {
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
                for _ in 0..6 {
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
        let mut multiples = Vec::with_capacity(WINDOWS.div_ceil(V::WIDTH) * WIDE);
        for words in places.chunks_exact(VECTORS * V::WIDTH) {
            let place = Point::<V>::load(words);
            let double = place.double_called().summand();
            let mut multiple = place.extend();
            for _ in 0..WIDE {
                multiples.push(multiple.point());
                multiple = multiple.add_called(&double);
            }
        }
        let mut divisors = Vec::with_capacity(multiples.len());
        let mut norms = Vec::with_capacity(multiples.len());
        for p in &multiples {
            let (conj, norm) = divisor(p);
            divisors.push(conj);
            norms.push(norm);
        }
        invert(&mut norms);
        let mut windows = vec![Window([[0; WIDE]; 8]); WINDOWS];
        for (i, p) in multiples.iter().enumerate() {
            let Affine { x, y } = Affine::of(p, divisors[i].scale(norms[i]), &FOURQ);
            let (group, multiple) = (i / WIDE, i % WIDE);
            for (part, value) in [x.re, x.im, y.re, y.im].into_iter().enumerate() {
                for (word, lanes) in value.freeze().to_words().into_iter().enumerate() {
                    let mut row = [0; MAX_LANES];
                    lanes.store(&mut row);
                    for (lane, window) in windows.iter_mut().skip(group * V::WIDTH).take(V::WIDTH).enumerate() {
                        window.0[2 * part + word][multiple] = row[lane];
                    }
                }
            }
        }
        Table(windows)
    }
}

/// Adds to each point of a batch, or takes away, its own multiple of the table's point.
pub(super) struct AddMultiples<'a> {
    pub(super) words: &'a mut [u64],
    pub(super) table: &'a Table,
    pub(super) digits: &'a Digits,
    pub(super) negative: bool,
}

impl Kernel for AddMultiples<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self { words, table, digits, negative } = self;
        let vector = VECTORS * V::WIDTH;
        let summands = Summands { table, digits, flip: V::mask_of(u64::from(negative)), start: 0 };
        let mut lines = vec![Line::empty(); 2 * MOST.min(words.len() / vector)];
        for (block, words) in words.chunks_mut(MOST * vector).enumerate() {
            let summands = Summands { start: block * MOST, ..summands };
            V::call(AddBlock { words, summands, lines: &mut lines });
        }
        // They would tell of the digits.
        for line in &mut lines {
            line.zeroize();
        }
    }
}

/// What a block's points are to be given.
#[derive(Clone, Copy)]
struct Summands<'a, V> {
    table: &'a Table,
    digits: &'a Digits,
    /// The mask that turns every sign round.
    flip: V,
    /// The block's first vector.
    start: usize,
}

impl<V: Lanes> Summands<'_, V> {
    /// What a vector of points takes from a window. Every entry is read.
    #[inline(always)]
    fn at(&self, vector: usize, window: usize) -> Affine<V> {
        let (vector, parts) = (self.start + vector, MAX_LANES / V::WIDTH);
        let (index, negative) = self.digits.wide::<V>((vector / parts, vector % parts), bits(window));
        unpacked(V::lookups(&self.table.0[window].0, index), negative.xor(self.flip))
    }
}

/// The sums of one block. First stand the lines of the lower halves, then those of the upper ones.
struct AddBlock<'a, V> {
    words: &'a mut [u64],
    summands: Summands<'a, V>,
    /// Room for two lines a vector.
    lines: &'a mut [Line<V>],
}

impl<V: Lanes> Formula<V> for AddBlock<'_, V> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let AddBlock { words, summands, lines } = self;
        let n = words.len() / (VECTORS * V::WIDTH);
        let mut product = Fp::splat(1);
        for i in 0..2 * n {
            let (vector, window) = (i % n, i / n * HALF);
            lines[i].from = summands.at(vector, window);
            lines[i].aim(summands.at(vector, window + 1), &mut product);
        }
        // Each pass goes through the lines the other way round: it takes the inverses in the order in which they come apart.
        let mut down = true;
        for next in 2..=HALF {
            // The upper half ends first.
            let open = if next > WINDOWS - HALF { n } else { 2 * n };
            let inverse = inverse_or_zero(product);
            product = V::call(Advance { lines: &mut lines[..open], inverse, down, summands, next, n });
            down = !down;
        }
        for (vector, words) in words.chunks_exact_mut(VECTORS * V::WIDTH).enumerate() {
            let mut sum = Point::<V>::load(words).extend();
            for half in [lines[vector].from, lines[n + vector].from] {
                sum = sum.add_called(&half.edwards(&FOURQ).summand());
            }
            sum.point().store(words);
        }
    }
}

/// Takes the start of each line to the sum of its two points, and aims it at the next summand, if there is one. Gives the product
/// of the norms.
struct Advance<'a, V> {
    lines: &'a mut [Line<V>],
    inverse: Fp<V>,
    down: bool,
    summands: Summands<'a, V>,
    /// The place of the next summand in each half.
    next: usize,
    /// How many vectors of points there are.
    n: usize,
}

impl<V: Lanes> Formula<V> for Advance<'_, V> {
    type Out = Fp<V>;
    #[inline(always)]
    fn run(self) -> Fp<V> {
        let Advance { lines, mut inverse, down, summands, next, n } = self;
        let mut product = Fp::splat(1);
        let open = lines.len();
        for i in 0..open {
            let i = if down { open - 1 - i } else { i };
            lines[i].from = lines[i].sum(&mut inverse);
            let (vector, first, end) = if i < n { (i, 0, HALF) } else { (i - n, HALF, WINDOWS) };
            if first + next < end {
                lines[i].aim(summands.at(vector, first + next), &mut product);
            }
        }
        product
    }
}
