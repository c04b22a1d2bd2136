//! A matrix of bytes, times vectors of 32-bit words, modulo 2^32.
//!
//! This is what a server of retrieval spends its time on: one pass over the whole database for each query, or for each four. A byte
//! is read as a number from -128 to 127. A reader who means 0 to 255 gets the same result modulo 2^32 if he multiplied his vector by
//! 2^24, because the two readings differ by 256.
//!
//! Layout: 64 rows are a *panel*, which is one forward stream of memory. Inside a panel stand the columns in groups of four. A group is
//! four lines of 64 bytes, one for each 16 rows, and a line holds the four columns' bytes of row 0, then those of row 1, and so on.
//! Lane r of a register that holds line t is row 16·t + r, and its four bytes meet the same four words of the vector as those of every
//! other lane. So nothing is ever moved between lanes.

use crate::backend::panels;
use std::ops::Range;
use vesica_cpu::Backend;

/// Rows of a panel.
pub const PANEL: usize = 64;

/// The most vectors of one pass.
pub const BATCH: usize = 4;

/// 64 bytes that begin where a line of the cache begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(64))]
pub struct Line(pub [u8; 64]);

impl Line {
    /// Zeros.
    pub const ZERO: Self = Self([0; 64]);
}

/// The matrix.
pub struct Matrix {
    rows: usize,
    columns: usize,
    groups: Vec<[Line; 4]>,
}

impl Matrix {
    /// How many groups of four lines a matrix takes.
    pub fn groups(rows: usize, columns: usize) -> usize {
        rows / PANEL * (columns / 4)
    }

    /// The matrix whose bytes these are in its layout. The caller brings the memory, because it knows how to ask for large pages.
    ///
    /// # Panics
    /// If `rows` is no multiple of 64, `columns` no multiple of 4, or there are not [`Matrix::groups`] groups.
    pub fn new(rows: usize, columns: usize, groups: Vec<[Line; 4]>) -> Self {
        assert!(
            rows.is_multiple_of(PANEL) && columns.is_multiple_of(4) && columns > 0,
            "{rows} rows, {columns} columns"
        );
        assert_eq!(groups.len(), Self::groups(rows, columns));
        Self { rows, columns, groups }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Where a cell is: its group, its line in the group, its byte in the line.
    #[inline(always)]
    fn place(&self, row: usize, column: usize) -> (usize, usize, usize) {
        assert!(row < self.rows && column < self.columns);
        (row / PANEL * (self.columns / 4) + column / 4, row % PANEL / 16, row % 16 * 4 + column % 4)
    }

    /// Writes `bytes` down a column, from row `row` on.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write(&mut self, row: usize, column: usize, bytes: &[u8]) {
        for (i, &byte) in bytes.iter().enumerate() {
            let (group, line, at) = self.place(row + i, column);
            self.groups[group][line].0[at] = byte;
        }
    }

    /// Reads `out` down a column, from row `row` on.
    ///
    /// # Panics
    /// If there are not so many rows.
    pub fn read(&self, row: usize, column: usize, out: &mut [u8]) {
        for (i, byte) in out.iter_mut().enumerate() {
            let (group, line, at) = self.place(row + i, column);
            *byte = self.groups[group][line].0[at];
        }
    }

    /// The bytes of eight rows from `row` on, in the columns from `column` on, as residues modulo p: word 8·k + r is that of row
    /// `row` + r in column `column` + k. There are as many columns as `out` has words for.
    ///
    /// # Panics
    /// If `row` is no multiple of 8, `column` none of 4, `out` no whole number of groups, or there are not so many columns.
    pub fn eight_rows(&self, row: usize, column: usize, p: u64, out: &mut [u64]) {
        assert!(row.is_multiple_of(8) && column.is_multiple_of(4) && out.len().is_multiple_of(32));
        assert!(column + out.len() / 8 <= self.columns);
        let (group, line, at) = self.place(row, column);
        // Residues by the byte: two loads are cheaper than a sign's extension and a correction.
        let residues: [u64; 256] = std::array::from_fn(|byte| match byte as u8 as i8 {
            x @ 0.. => x as u64,
            x => p - u64::from(x.unsigned_abs()),
        });
        for (out, lines) in out.as_chunks_mut::<32>().0.iter_mut().zip(&self.groups[group..]) {
            let bytes: &[u8; 32] = lines[line].0[at..at + 32].as_array().expect("eight rows of four bytes");
            for k in 0..4 {
                for r in 0..8 {
                    out[8 * k + r] = residues[bytes[4 * r + k] as usize];
                }
            }
        }
    }

    /// The products of some panels with up to [`BATCH`] vectors, modulo 2^32: 64 words a panel for each vector.
    ///
    /// # Panics
    /// If there are no vectors or too many, a vector has not one word a column, or there are not so many panels.
    pub fn multiply(&self, panels: Range<usize>, vectors: &[&[u32]]) -> Vec<Vec<u32>> {
        self.multiply_on(Backend::chosen(), panels, vectors)
    }

    fn multiply_on(&self, backend: Backend, panels: Range<usize>, vectors: &[&[u32]]) -> Vec<Vec<u32>> {
        assert!((1..=BATCH).contains(&vectors.len()) && vectors.iter().all(|v| v.len() == self.columns));
        let panel = self.columns / 4;
        let groups = &self.groups[panels.start * panel..panels.end * panel];
        panels::multiply(backend, groups, panel, vectors)
    }

    /// The bytes as they lie in memory, group after group, for a caller that writes them to a file.
    pub fn lines(&self) -> &[[Line; 4]] {
        &self.groups
    }

    /// Exclusive or of all words, read as fast as memory gives them: what a benchmark compares [`Matrix::multiply`] with.
    pub fn read_all(&self) -> u64 {
        panels::read_all(Backend::chosen(), &self.groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chance(mut seed: u64) -> impl FnMut() -> u64 {
        move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed >> 24
        }
    }

    fn matrix(rows: usize, columns: usize, mut byte: impl FnMut(usize, usize) -> u8) -> Matrix {
        let mut matrix = Matrix::new(rows, columns, vec![[Line::ZERO; 4]; Matrix::groups(rows, columns)]);
        for column in 0..columns {
            let cells: Vec<u8> = (0..rows).map(|row| byte(row, column)).collect();
            matrix.write(0, column, &cells);
        }
        matrix
    }

    /// The definition.
    fn product(matrix: &Matrix, vector: &[u32]) -> Vec<u32> {
        let mut sums = vec![0u32; matrix.rows()];
        let mut cells = vec![0; matrix.rows()];
        for (column, &word) in vector.iter().enumerate() {
            matrix.read(0, column, &mut cells);
            for (sum, &byte) in sums.iter_mut().zip(&cells) {
                *sum = sum.wrapping_add((byte as i8 as u32).wrapping_mul(word));
            }
        }
        sums
    }

    #[test]
    fn every_back_end_multiplies_as_the_definition_says() {
        let mut next = chance(1);
        for (rows, columns) in [(64, 4), (64, 256), (128, 1024), (192, 1028), (64, 4096)] {
            let random: Vec<Vec<u32>> = (0..BATCH).map(|_| (0..columns).map(|_| next() as u32).collect()).collect();
            let extreme: Vec<Vec<u32>> =
                [u32::MAX, 0x8000_8000, 0x7fff_8000, 0x8080_8080].iter().map(|&w| vec![w; columns]).collect();
            let matrices = [
                matrix(rows, columns, |_, _| next() as u8),
                matrix(rows, columns, |_, _| 0x80),
                matrix(rows, columns, |row, column| if (row + column) % 2 == 0 { 0x80 } else { 0x7f }),
            ];
            for matrix in &matrices {
                for vectors in [&random, &extreme] {
                    for k in 1..=BATCH {
                        let vectors: Vec<&[u32]> = vectors[BATCH - k..].iter().map(Vec::as_slice).collect();
                        let wanted: Vec<Vec<u32>> = vectors.iter().map(|v| product(matrix, v)).collect();
                        for backend in Backend::available() {
                            let is = matrix.multiply_on(backend, 0..rows / PANEL, &vectors);
                            assert!(is == wanted, "{backend}: {rows} x {columns}, {k} vectors");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn panels_can_be_multiplied_one_by_one() {
        let mut next = chance(2);
        let matrix = matrix(192, 64, |_, _| next() as u8);
        let vector: Vec<u32> = (0..64).map(|_| next() as u32).collect();
        let whole = product(&matrix, &vector);
        for panel in 0..3 {
            assert_eq!(matrix.multiply(panel..panel + 1, &[&vector])[0], whole[PANEL * panel..][..PANEL]);
        }
        assert!(matrix.multiply(1..1, &[&vector])[0].is_empty());
    }

    #[test]
    fn cells_are_where_they_were_written() {
        let mut matrix = matrix(128, 8, |_, _| 0);
        matrix.write(60, 5, &[1, 2, 3, 4, 5, 6]);
        let mut out = [0; 8];
        matrix.read(59, 5, &mut out);
        assert_eq!(out, [0, 1, 2, 3, 4, 5, 6, 0]);
        matrix.read(59, 4, &mut out);
        assert_eq!(out, [0; 8]);
        matrix.write(66, 0, &[0xff]);
        let mut rows = [0; 64];
        matrix.eight_rows(64, 0, 1009, &mut rows);
        let wanted: Vec<u64> = (0..64)
            .map(|i| match i {
                2 => 1008,
                40 => 5,
                41 => 6,
                _ => 0,
            })
            .collect();
        assert_eq!(rows[..], wanted);
    }

    #[test]
    fn reading_all_sees_every_byte() {
        for at in [0, 63, 64 * 7 + 5, 64 * 15 + 63] {
            let (row, column) = (at % 64, at / 64);
            let mut one = matrix(64, 16, |_, _| 0);
            one.write(row, column, &[1]);
            for backend in Backend::available() {
                assert_ne!(panels::read_all(backend, &one.groups), 0, "{backend}");
            }
        }
    }
}
