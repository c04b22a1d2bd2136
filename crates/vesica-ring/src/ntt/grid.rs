//! A table of polynomials in rows and columns, times a column of pairs of polynomials. This is what a server of
//! retrieval in two dimensions spends its time on: the table is many times as long as a cache, and every query reads
//! all of it.
//!
//! Layout: the table is one forward stream. A *tile* is 64 words of every polynomial. The pairs' part of a tile fits in
//! a cache of the second level, and stays there while the same tile of all rows streams by. Inside a tile stand four
//! rows together: for each vector of eight words, for each column, these words of the four rows. So what is loaded of a
//! pair meets four polynomials, and the sums, four for each row, stay in registers until a row is done.

use super::{Bounds, Ntt, TERMS};
use crate::backend::run_on;
use crate::lanes::{Kernel, Lanes};
use crate::rns::Basis;

/// Rows that are computed together.
const HEIGHT: usize = 4;

/// Vectors of eight words in a tile.
const TILE: usize = 8;

/// Eight words that begin where a line of the cache begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(64))]
pub struct Line(pub [u64; 8]);

impl Line {
    /// Zeros.
    pub const ZERO: Self = Self([0; 8]);
}

/// A table of polynomials in evaluation form over the first primes of a basis.
pub struct Grid {
    rows: usize,
    columns: usize,
    /// Words of a polynomial, over all its primes.
    words: usize,
    lines: Vec<Line>,
}

impl Grid {
    /// How many lines a table takes whose polynomials have `words` words each.
    pub fn lines(rows: usize, columns: usize, words: usize) -> usize {
        rows * columns * (words / 8)
    }

    /// A table of zeros, in this memory. The caller brings it, because it knows how to ask for large pages.
    ///
    /// # Panics
    /// If there are not [`Grid::lines`] lines, `words` is no multiple of 64, or there are more than [`TERMS`] columns.
    pub fn new(rows: usize, columns: usize, words: usize, lines: Vec<Line>) -> Self {
        assert!(words.is_multiple_of(8 * TILE) && columns <= TERMS, "{columns} columns of {words} words");
        assert_eq!(lines.len(), Self::lines(rows, columns, words));
        Self { rows, columns, words, lines }
    }

    /// Puts a polynomial in its place.
    ///
    /// # Panics
    /// If there is no such row or column, or it has not as many words as the others.
    pub fn set(&mut self, row: usize, column: usize, polynomial: &[u64]) {
        assert!(row < self.rows && column < self.columns && polynomial.len() == self.words);
        let (first, at) = (row / HEIGHT * HEIGHT, row % HEIGHT);
        let height = HEIGHT.min(self.rows - first);
        for (vector, words) in polynomial.as_chunks::<8>().0.iter().enumerate() {
            let (tile, inside) = (vector / TILE, vector % TILE);
            let rows = (tile * self.rows + first) * self.columns * TILE;
            self.lines[rows + (inside * self.columns + column) * height + at].0 = *words;
        }
    }

    /// For each row the pair of `Σ x_c·P_c` and `Σ y_c·P_c` over its polynomials P_c, where [x_c, y_c] is the pair of
    /// column c. All are residues in evaluation form.
    ///
    /// # Panics
    /// If there is not one pair for each column, or the lengths of polynomials differ.
    pub fn times(&self, basis: &Basis, pairs: &[[&[u64]; 2]]) -> Vec<[Vec<u64>; 2]> {
        assert!(pairs.len() == self.columns && self.words.is_multiple_of(basis.n()));
        assert!(pairs.iter().flatten().all(|polynomial| polynomial.len() == self.words));
        let mut sums = vec![[vec![0; self.words], vec![0; self.words]]; self.rows];
        let mut gathered = vec![Line::ZERO; TILE * self.columns * 2];
        for limb in 0..self.words / basis.n() {
            let ntt = basis.limb(limb);
            let words = limb * ntt.n..(limb + 1) * ntt.n;
            for at in words.step_by(8 * TILE) {
                let (gathered, sums) = (&mut gathered, &mut sums);
                run_on(ntt.backend, Tile { ntt, grid: self, at, pairs, gathered, sums });
            }
        }
        sums
    }
}

/// The words from `at` on of all sums, as many as a tile has.
struct Tile<'a> {
    ntt: &'a Ntt,
    grid: &'a Grid,
    at: usize,
    pairs: &'a [[&'a [u64]; 2]],
    gathered: &'a mut [Line],
    sums: &'a mut [[Vec<u64>; 2]],
}

impl Kernel for Tile<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self { ntt, grid, at, pairs, gathered, sums } = self;
        let bounds = Bounds::<V>::of(ntt);
        // The pairs' words in the order in which they are met: for each vector, for each column, those of x and of y.
        for (column, pair) in pairs.iter().enumerate() {
            for (side, polynomial) in pair.iter().enumerate() {
                for (inside, words) in polynomial[at..at + 8 * TILE].as_chunks::<8>().0.iter().enumerate() {
                    gathered[(inside * grid.columns + column) * 2 + side].0 = *words;
                }
            }
        }
        let rows = grid.columns * TILE;
        let tile = &grid.lines[at / (8 * TILE) * grid.rows * rows..][..grid.rows * rows];
        for (lines, sums) in tile.chunks(HEIGHT * rows).zip(sums.chunks_mut(HEIGHT)) {
            for inside in 0..TILE {
                let pairs = &gathered[inside * grid.columns * 2..][..grid.columns * 2];
                let lines = &lines[inside * grid.columns * sums.len()..][..grid.columns * sums.len()];
                let at = at + 8 * inside;
                match sums.len() {
                    HEIGHT => together::<V, HEIGHT>(ntt, &bounds, pairs, lines, sums, at),
                    3 => together::<V, 3>(ntt, &bounds, pairs, lines, sums, at),
                    2 => together::<V, 2>(ntt, &bounds, pairs, lines, sums, at),
                    _ => together::<V, 1>(ntt, &bounds, pairs, lines, sums, at),
                }
            }
        }
    }
}

/// Eight words of the sums of H rows.
#[inline(always)]
fn together<V: Lanes, const H: usize>(
    ntt: &Ntt,
    bounds: &Bounds<V>,
    pairs: &[Line],
    lines: &[Line],
    sums: &mut [[Vec<u64>; 2]],
    at: usize,
) {
    for lane in (0..8).step_by(V::WIDTH) {
        // The low and high halves of both sums of each row.
        let mut halves = [[V::splat(0); 4]; H];
        for (pair, rows) in pairs.as_chunks::<2>().0.iter().zip(lines.as_chunks::<H>().0) {
            let (x, y) = (V::load(&pair[0].0[lane..]), V::load(&pair[1].0[lane..]));
            for r in 0..H {
                let [x_lo, x_hi, y_lo, y_hi] = halves[r];
                let z = V::load(&rows[r].0[lane..]);
                let (x_lo, x_hi) = V::madd(x_lo, x_hi, x, z);
                let (y_lo, y_hi) = V::madd(y_lo, y_hi, y, z);
                halves[r] = [x_lo, x_hi, y_lo, y_hi];
            }
        }
        for r in 0..H {
            let [x_lo, x_hi, y_lo, y_hi] = halves[r];
            bounds.fold(ntt, x_lo, x_hi).store(&mut sums[r][0][at + lane..]);
            bounds.fold(ntt, y_lo, y_hi).store(&mut sums[r][1][at + lane..]);
        }
    }
}

#[cfg(test)]
mod tests;
