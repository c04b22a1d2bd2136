//! AVX-512 with GFNI and VBMI: four neighbouring symbols in one register or two, and eight symbols multiplied by a matrix of 8 × 8 bits in as
//! many.

use super::avx2::Register;
use super::{Kernel, Memory, Symbol};
use crate::code::{STEP, solved, taps_of};
use std::arch::x86_64::*;
use vesica_block::Block;

/// A symbol of one block or two.
#[derive(Clone, Copy)]
struct Wide<const W: usize>(Register<W>);

// SAFETY of every block below: only [`super::run_on`] calls `run`, after it asked whether the CPU has these instructions; all other code
// is called from there, with W of 1 or 2. Loads and stores are of exactly the blocks that they borrow.
macro_rules! intrinsic {
    ($call:expr) => {{
        // SAFETY: see above: the CPU has AVX-512 with GFNI and VBMI.
        unsafe { $call }
    }};
}

pub(super) fn run<const W: usize>(kernel: impl Kernel<W>) {
    #[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
    unsafe fn enter<const W: usize>(kernel: impl Kernel<W>) {
        kernel.run::<Wide<W>>();
    }
    intrinsic!(enter(kernel));
}

impl<const W: usize> Symbol<W> for Wide<W> {
    const ZERO: Self = Self(Register::ZERO);
    type Memory = Bits<W>;

    #[inline(always)]
    fn load(blocks: &[Block; W]) -> Self {
        Self(Register::load(blocks))
    }

    #[inline(always)]
    fn store(self, blocks: &mut [Block; W]) {
        self.0.store(blocks);
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(self.0.add(other.0))
    }

    #[inline(always)]
    fn prefetch(symbols: &[[Block; W]; 4]) {
        Register::prefetch(symbols);
    }

    #[inline(always)]
    fn gather<const L: usize>(parts: &[&[[[Block; W]; 4]]; L], places: &[u32; L]) -> [[Block; W]; 4] {
        let mut sums = [zero(); W];
        for (part, &place) in parts.iter().zip(places) {
            let run: *const __m512i = part[place as usize].as_ptr().cast();
            // Four symbols are W registers.
            for (w, sum) in sums.iter_mut().enumerate() {
                *sum = intrinsic!(_mm512_xor_si512(*sum, _mm512_loadu_si512(run.add(w))));
            }
        }
        let mut run = [[Block::ZERO; W]; 4];
        let to: *mut __m512i = run.as_mut_ptr().cast();
        for (w, sum) in sums.into_iter().enumerate() {
            intrinsic!(_mm512_storeu_si512(to.add(w), sum));
        }
        run
    }
}

/// Eight symbols of a block each, bit by bit: byte 64·h + 8·q + k holds bit 7 - k of byte 8·h + q of each symbol, that of the first symbol
/// lowest. A matrix of 8 × 8 bits times such a byte is what the matrix makes of the eight symbols there.
type Columns = [__m512i; 2];

/// The last three steps, from the oldest.
pub(crate) struct Bits<const W: usize>([[Columns; W]; 3]);

impl<const W: usize> Memory<W> for Bits<W> {
    #[inline(always)]
    fn new() -> Self {
        Self([[[zero(); 2]; W]; 3])
    }

    #[inline(always)]
    fn steps(&mut self, steps: &mut [[[Block; W]; STEP]], taps: &[[Block; 2]]) {
        let [mut oldest, mut middle, mut newest] = self.0;
        for (steps, taps) in steps.chunks_mut(64).zip(taps.chunks(64)) {
            let mut own = [0; 64];
            own.iter_mut().zip(taps).for_each(|(own, taps)| *own = solved(taps_of(taps)[3]));
            for ((step, taps), own) in steps.iter_mut().zip(taps).zip(own) {
                let [a, b, c, _] = taps_of(taps).map(matrix);
                let own = matrix(own);
                let mut y = columns(step);
                for (v, y) in y.iter_mut().enumerate() {
                    for (h, y) in y.iter_mut().enumerate() {
                        let before = xor(times(a, oldest[v][h]), times(b, middle[v][h]));
                        *y = times(own, xor(xor(*y, before), times(c, newest[v][h])));
                    }
                }
                rows(&y, step);
                (oldest, middle, newest) = (middle, newest, y);
            }
        }
        self.0 = [oldest, middle, newest];
    }
}

#[inline(always)]
fn zero() -> __m512i {
    intrinsic!(_mm512_setzero_si512())
}

#[inline(always)]
fn xor(a: __m512i, b: __m512i) -> __m512i {
    intrinsic!(_mm512_xor_si512(a, b))
}

/// A matrix from its rows, the first in the lowest byte: the instruction wants it in the highest.
#[inline(always)]
fn matrix(rows: u64) -> __m512i {
    intrinsic!(_mm512_set1_epi64(rows.swap_bytes() as i64))
}

/// A matrix times each byte.
#[inline(always)]
fn times(matrix: __m512i, bytes: __m512i) -> __m512i {
    intrinsic!(_mm512_gf2p8affine_epi64_epi8::<0>(bytes, matrix))
}

#[inline(always)]
fn constant(bytes: &'static [u8; 64]) -> __m512i {
    intrinsic!(_mm512_loadu_si512(bytes.as_ptr().cast()))
}

#[inline(always)]
fn bytes_of(a: __m512i, places: &'static [u8; 64], b: __m512i) -> __m512i {
    intrinsic!(_mm512_permutex2var_epi8(a, constant(places), b))
}

#[inline(always)]
fn words_of(a: __m512i, places: &'static [i64; 8], b: __m512i) -> __m512i {
    intrinsic!(_mm512_permutex2var_epi64(a, _mm512_loadu_si512(places.as_ptr().cast()), b))
}

/// Byte 8·q + k: 2^k, and 2^(7 - k).
static UNITS: [[u8; 64]; 2] = {
    let mut units = [[0; 64]; 2];
    let mut i = 0;
    while i < 64 {
        units[0][i] = 1 << (i % 8);
        units[1][i] = 0x80 >> (i % 8);
        i += 1;
    }
    units
};

/// Of 128 bytes, those that stand in half h of [`Columns`] before bits are exchanged: byte 8·q + s is byte 8·h + q of symbol 7 - s.
static TO_COLUMNS: [[u8; 64]; 2] = {
    let mut places = [[0; 64]; 2];
    let mut i = 0;
    while i < 128 {
        places[i / 64][i % 64] = (16 * (7 - i % 8) + i / 8) as u8;
        i += 1;
    }
    places
};

/// And back: byte 16·s + c of four symbols stands in half c/8, in word c mod 8.
static TO_ROWS: [[u8; 64]; 2] = {
    let mut places = [[0; 64]; 2];
    let mut i = 0;
    while i < 128 {
        places[i / 64][i % 64] = (8 * (i % 16) + i / 16) as u8;
        i += 1;
    }
    places
};

/// The first blocks of four pairs, and the second ones, from two registers of two pairs each.
static APART: [[i64; 8]; 2] = [[0, 1, 4, 5, 8, 9, 12, 13], [2, 3, 6, 7, 10, 11, 14, 15]];

/// Two pairs from the first blocks of four and the second ones, and the other two.
static TOGETHER: [[i64; 8]; 2] = [[0, 1, 8, 9, 2, 3, 10, 11], [4, 5, 12, 13, 6, 7, 14, 15]];

#[inline(always)]
fn columns<const W: usize>(step: &[[Block; W]; STEP]) -> [Columns; W] {
    let from: *const __m512i = step.as_ptr().cast();
    // Eight symbols are 2·W registers.
    let load = |i: usize| intrinsic!(_mm512_loadu_si512(from.add(i)));
    std::array::from_fn(|v| {
        let [first, last] = match W {
            1 => [load(0), load(1)],
            _ => [words_of(load(0), &APART[v], load(1)), words_of(load(2), &APART[v], load(3))],
        };
        [0, 1].map(|h| times(bytes_of(first, &TO_COLUMNS[h], last), constant(&UNITS[1])))
    })
}

#[inline(always)]
fn rows<const W: usize>(columns: &[Columns; W], step: &mut [[Block; W]; STEP]) {
    let to: *mut __m512i = step.as_mut_ptr().cast();
    // Eight symbols are 2·W registers.
    let store = |i: usize, four: __m512i| intrinsic!(_mm512_storeu_si512(to.add(i), four));
    let fours = columns.map(|[low, high]| {
        let [low, high] = [low, high].map(|half| times(half, constant(&UNITS[0])));
        [0, 1].map(|which| bytes_of(low, &TO_ROWS[which], high))
    });
    for which in 0..2 {
        match W {
            1 => store(which, fours[0][which]),
            _ => [0, 1].iter().for_each(|&i| {
                store(2 * which + i, words_of(fours[0][which], &TOGETHER[i], fours[W - 1][which]));
            }),
        }
    }
}
