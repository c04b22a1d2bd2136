//! How a batch lies in memory, and in which blocks and vectors it is worked on.

use crate::field::Lanes;
use crate::field::prime256::Limbs;
use std::marker::PhantomData;

/// Vectors that are worked on at once, so that there is always an independent multiplication to fill the pipeline with.
pub(super) const GROUP: usize = 4;

/// Vectors in a block, which share each inversion. Each takes about 5 KiB of workspace (IFMA), to stay in the second-level
/// cache, and an inversion costs about as much as 30 doublings of a vector.
pub(super) const BLOCK: usize = 256;

/// A coordinate of eight elements, limb by limb.
pub(super) type Eight = [[u64; 8]; 5];

/// Eight elements.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Cell {
    pub(super) x: Eight,
    pub(super) w: Eight,
    pub(super) s: Eight,
}

pub(super) const EMPTY: Cell = Cell { x: [[0; 8]; 5], w: [[0; 8]; 5], s: [[0; 8]; 5] };

/// A batch of points.
pub struct Points<C> {
    pub(super) len: usize,
    /// All coordinates are tight. The number of cells is a multiple of [`GROUP`], and what stands behind the last element is
    /// a copy of it.
    pub(super) cells: Vec<Cell>,
    pub(super) curve: PhantomData<C>,
}

/// How many vectors of a group's width hold `len` elements, up to a whole group.
pub(super) fn vectors<V: Lanes>(len: usize) -> usize {
    len.div_ceil(V::WIDTH).next_multiple_of(GROUP)
}

#[inline(always)]
pub(super) fn load<V: Lanes>(eight: &Eight, part: usize) -> Limbs<V> {
    let at = part * V::WIDTH;
    [
        V::load(&eight[0][at..]),
        V::load(&eight[1][at..]),
        V::load(&eight[2][at..]),
        V::load(&eight[3][at..]),
        V::load(&eight[4][at..]),
    ]
}

#[inline(always)]
pub(super) fn store<V: Lanes>(eight: &mut Eight, part: usize, limbs: &Limbs<V>) {
    let at = part * V::WIDTH;
    for (row, limb) in eight.iter_mut().zip(limbs) {
        limb.store(&mut row[at..]);
    }
}

/// The blocks of so many vectors, by first vector and size, which falls: of about one size, so that none is so small that it
/// pays the inversions alone.
pub(super) fn blocks(total: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let left = total - start;
        let size = left.div_ceil(left.div_ceil(BLOCK).max(1)).next_multiple_of(GROUP);
        let block = (start, size);
        start += size;
        (left > 0).then_some(block)
    })
}

/// The cell of a vector, and the part of it.
#[inline(always)]
pub(super) fn place<V: Lanes>(vector: usize) -> (usize, usize) {
    let parts = 8 / V::WIDTH;
    (vector / parts, vector % parts)
}

impl<C> Points<C> {
    pub(super) fn new(len: usize) -> Self {
        Self { len, cells: vec![EMPTY; len.div_ceil(8).next_multiple_of(GROUP)], curve: PhantomData }
    }

    /// Copies the last element's coordinate to what stands behind it.
    pub(super) fn fill(&mut self, coordinate: impl Fn(&mut Cell) -> &mut Eight) {
        if self.len == 0 {
            return;
        }
        let last = self.len - 1;
        let x = coordinate(&mut self.cells[last / 8]).map(|row| row[last % 8]);
        for index in self.len..8 * self.cells.len() {
            for (row, limb) in coordinate(&mut self.cells[index / 8]).iter_mut().zip(x) {
                row[index % 8] = limb;
            }
        }
    }
}
