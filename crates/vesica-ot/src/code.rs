//! Compression by a linear code under which sparse vectors look random: a = G·e, with G = E·D·C.
//!
//! [RRT23] Raghuraman, Rindal, Tanguy, "Expand-convolute codes for pseudorandom correlation generators from LPN", CRYPTO 2023,
//! eprint 2023/882. C is a convolution: each symbol takes up a random subset of those before it. E expands, seen from the
//! other side: each output is the sum of ℓ symbols, one from a random place of each of ℓ equal parts. D multiplies each
//! symbol by a random element of the base field B.
//! Differs from the paper: D (why: `vesica_params::lpn`). The convolution goes in steps of eight symbols: each new symbol
//! takes random ones of the 24 before the step and of those before it in the step; but of the oldest eight, the d-th new one
//! always takes the d-th and never a later one, so that a step is a bijection of the state and a state that is not zero stays
//! so. (The paper's takes random ones of the 24 before each symbol. Between steps the memory is the same 24.) The expansion
//! moves runs of four symbols, so that a random place costs one cache miss for four outputs.
//!
//! G is public. Each unit of each run has a G of its own ([`Matrix`]), so that no work on one can be done before the run or
//! serves for another; `docs/src/design/08-silent-vole.md` says what that is worth.
//!
//! Both arrays of a receiver are one array of pairs here, which share the cache miss. Sums of four symbols are looked up in
//! tables (Arlazarov, Dinic, Kronrod, Faradzhev 1970): eleven additions a symbol instead of twenty-seven masked ones. Where the CPU
//! multiplies matrices of 8 × 8 bits, a step is four of these (`backend/ifma.rs`).

use crate::backend::{self, Kernel, Memory, Symbol};
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};
use vesica_block::{Block, gf64, gf128, large, prg::Prg};
use vesica_cpu::Backend;
use vesica_params::lpn::CodeSet;
use vesica_types::UnitId;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// A base field.
pub trait Base: Copy + Send + Sync + Zeroize + 'static {
    /// log2 of the number of elements.
    const BITS: usize;
    /// The element whose coefficients are the first bits of the block.
    fn from_block(bits: Block) -> Self;
    /// As an element of the extension field.
    fn embed(self) -> Block;
    /// f[i] ← f[i]·b[i], where b[i] stands for the element of its first bits.
    fn scale_each(f: &mut [Block], b: &[Block]);
}

/// GF(2^128), which is the extension field too.
impl Base for Block {
    const BITS: usize = 128;
    fn from_block(bits: Block) -> Self {
        bits
    }
    fn embed(self) -> Block {
        self
    }
    fn scale_each(f: &mut [Block], b: &[Block]) {
        gf128::mul_each(f, b);
    }
}

/// GF(2^64) of [`vesica_block::gf64`], with its extension there.
impl Base for u64 {
    const BITS: usize = 64;
    fn from_block(bits: Block) -> Self {
        bits.low()
    }
    fn embed(self) -> Block {
        gf64::embed(self)
    }
    fn scale_each(f: &mut [Block], b: &[Block]) {
        gf64::scale_each(f, b);
    }
}

/// GF(2).
impl Base for bool {
    const BITS: usize = 1;
    fn from_block(bits: Block) -> Self {
        bits.0 & 1 == 1
    }
    fn embed(self) -> Block {
        Block(self.into())
    }
    fn scale_each(f: &mut [Block], b: &[Block]) {
        f.iter_mut().zip(b).for_each(|(f, b)| *f &= Block::mask(b.0 & 1 == 1));
    }
}

/// Symbols in a step of the convolution.
pub(crate) const STEP: usize = 8;

/// Steps that the convolution remembers: 24 symbols.
const MEMORY: usize = 3;

/// Symbols that are convoluted and multiplied while they are in the first-level cache.
const CHUNK: usize = 512;

/// Runs of outputs whose places are drawn at once.
const DRAW: usize = 512;

/// Runs of outputs ahead of which places are asked for.
const AHEAD: usize = 8;

/// Neighbouring symbols that go to neighbouring outputs: two cache lines of pairs.
const RUN: usize = 4;

/// Symbols for [`Matrix::encode`], the first at the beginning of a cache line. They tell where the noise is, so they are wiped when
/// dropped.
pub struct Symbols<const W: usize> {
    blocks: Vec<[Block; W]>,
    first: usize,
}

impl<const W: usize> Symbols<W> {
    /// So many, zero.
    pub fn zero(len: usize) -> Self {
        let blocks = large::filled([Block::ZERO; W], len + RUN);
        // Zero where there is no such offset: slower, no less right.
        let first = blocks.as_ptr().align_offset(64);
        Self { blocks, first: if first < RUN { first } else { 0 } }
    }
}

/// Memory for symbols, kept between uses: pages fresh from the operating system cost more than what is done with them. The
/// next unit overwrites what the last one left, and what is left at the end is wiped with the base.
#[derive(Default)]
pub(crate) struct Pool<const W: usize>(Mutex<Vec<Symbols<W>>>);

impl<const W: usize> Pool<W> {
    /// So many symbols, of whatever value.
    pub(crate) fn take(&self, len: usize) -> Symbols<W> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = spare.iter().position(|symbols| symbols.len() == len);
        match fits {
            Some(place) => spare.swap_remove(place),
            None => Symbols::zero(len),
        }
    }

    /// Takes them back.
    pub(crate) fn give(&self, symbols: Symbols<W>) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Units of a job are of one size: others will not be asked for again.
        spare.retain(|other| other.len() == symbols.len());
        spare.push(symbols);
    }
}

impl<const W: usize> Zeroize for Symbols<W> {
    fn zeroize(&mut self) {
        self.blocks.as_flattened_mut().zeroize();
    }
}

impl<const W: usize> Drop for Symbols<W> {
    fn drop(&mut self) {
        self.zeroize();
    }
}

impl<const W: usize> ZeroizeOnDrop for Symbols<W> {}

impl<const W: usize> Deref for Symbols<W> {
    type Target = [[Block; W]];
    fn deref(&self) -> &Self::Target {
        &self.blocks[self.first..][..self.blocks.len() - RUN]
    }
}

impl<const W: usize> DerefMut for Symbols<W> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        let len = self.blocks.len() - RUN;
        &mut self.blocks[self.first..][..len]
    }
}

/// A matrix G.
pub struct Matrix<'a> {
    set: &'a CodeSet,
    seed: [u8; 32],
}

impl<'a> Matrix<'a> {
    /// The matrix of the code `set` for this unit of the run that `session` names. `session` is the salt that both parties
    /// tossed: a party that could choose it could look for a matrix under which it finds the noise.
    pub fn new(set: &'a CodeSet, session: &[u8; 32], unit: UnitId) -> Self {
        let mut hash = blake3::Hasher::new_derive_key("vesica 2026 lpn matrix");
        hash.update(session).update(&unit.0.to_le_bytes()).update(set.id.as_bytes());
        Self { set, seed: *hash.finalize().as_bytes() }
    }

    /// Hands over the n outputs on W vectors at once, in order, some at a time. `noisy` is overwritten; its length is a multiple of eight.
    ///
    /// # Panics
    /// If the length is not, or the set is none of `vesica_params::lpn::SETS`.
    pub fn encode<B: Base, const W: usize>(&self, noisy: &mut [[Block; W]], n: usize, out: impl FnMut(&[[Block; W]])) {
        self.encode_on::<B, W>(Backend::chosen(), noisy, n, out);
    }

    fn encode_on<B: Base, const W: usize>(
        &self,
        backend: Backend,
        noisy: &mut [[Block; W]],
        n: usize,
        out: impl FnMut(&[[Block; W]]),
    ) {
        // Over GF(2) the only element that takes nothing away is 1.
        let scale_each: Option<Scale> = if B::BITS > 1 { Some(B::scale_each) } else { None };
        let [first, second] = [0, 1].map(|half| Block::from_le_bytes(self.seed.as_chunks().0[half]));
        backend::run_on(backend, Convolute { prg: Prg::new(first), symbols: noisy, scale_each });
        let (prg, symbols) = (Prg::new(second), &*noisy);
        match self.set.weight {
            7 => backend::run_on(backend, Expand::<W, 7, _> { prg, symbols, n, out }),
            21 => backend::run_on(backend, Expand::<W, 21, _> { prg, symbols, n, out }),
            weight => panic!("no code of weight {weight}"),
        }
    }
}

/// D·C, in place.
struct Convolute<'a, const W: usize> {
    prg: Prg,
    symbols: &'a mut [[Block; W]],
    scale_each: Option<Scale>,
}

/// [`Base::scale_each`].
type Scale = fn(&mut [Block], &[Block]);

impl<const W: usize> Kernel<W> for Convolute<'_, W> {
    #[inline(always)]
    fn run<S: Symbol<W>>(mut self) {
        assert!(self.symbols.len().is_multiple_of(STEP), "steps of {STEP} symbols");
        let mut memory = S::Memory::new();
        let mut taps = [Block::ZERO; 2 * CHUNK / STEP];
        let mut factors = [[Block::ZERO; W]; CHUNK];
        let mut drawn = [Block::ZERO; CHUNK];
        for chunk in self.symbols.chunks_mut(CHUNK) {
            let taps = &mut taps[..2 * chunk.len() / STEP];
            self.prg.fill(taps);
            memory.steps(chunk.as_chunks_mut().0, taps.as_chunks().0);
            let Some(scale_each) = self.scale_each else { continue };
            let drawn = &mut drawn[..chunk.len()];
            self.prg.fill(drawn);
            let factors = &mut factors[..chunk.len()];
            factors.iter_mut().zip(drawn).for_each(|(factors, &mut factor)| *factors = [factor; W]);
            scale_each(chunk.as_flattened_mut(), factors.as_flattened());
        }
    }
}

/// All sums of four symbols: entry i is the sum of those whose bit in i is set.
type Sums<S> = [S; 16];

/// Taps of a step, a byte for each new symbol: of the step that is about to be forgotten, of the one after, of the newest, and of the
/// step itself. Of the first, each new symbol takes its own counterpart, and random ones of those before it; of the step itself, random ones
/// of those before it.
#[inline(always)]
pub(crate) fn taps_of(taps: &[Block; 2]) -> [u64; 4] {
    let [oldest, middle] = [taps[0].low(), taps[0].high()];
    let [newest, own] = [taps[1].low(), taps[1].high()];
    [oldest & BEFORE | COUNTERPARTS, middle, newest, own & BEFORE]
}

/// In byte d: the bits below bit d, and bit d.
const BEFORE: u64 = 0x7f3f_1f0f_0703_0100;
const COUNTERPARTS: u64 = 0x8040_2010_0804_0201;

/// What a step comes to by its own taps: each symbol as a sum of what the symbols were before the step looked at itself. The inverse of the
/// matrix 1 + T, where row d of T is byte d of `own`, which has bits below bit d only.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "a back end's"))]
#[inline(always)]
pub(crate) fn solved(own: u64) -> u64 {
    let mut rows = COUNTERPARTS;
    for s in 0..STEP - 1 {
        // Row s takes part in those below that have its bit, and is final: it has none of a later row.
        let has = own >> s & 0x0101_0101_0101_0101;
        rows ^= has.wrapping_mul(rows >> (8 * s) & 0xff);
    }
    rows
}

/// What the convolution remembers: the sums of the first and of the last four symbols of each step, the oldest at `oldest`.
pub(crate) struct Window<S> {
    sums: [[Sums<S>; 2]; MEMORY],
    oldest: usize,
}

impl<const W: usize, S: Symbol<W>> Memory<W> for Window<S> {
    #[inline(always)]
    fn new() -> Self {
        Self { sums: [[[S::ZERO; 16]; 2]; MEMORY], oldest: 0 }
    }

    #[inline(always)]
    fn steps(&mut self, steps: &mut [[[Block; W]; STEP]], taps: &[[Block; 2]]) {
        for (step, taps) in steps.iter_mut().zip(taps) {
            let mut y: [S; STEP] = std::array::from_fn(|d| S::load(&step[d]));
            self.step::<W>(&mut y, taps);
            step.iter_mut().zip(&y).for_each(|(to, y)| y.store(to));
        }
    }
}

impl<S: Copy> Window<S> {
    /// One step.
    #[inline(always)]
    fn step<const W: usize>(&mut self, y: &mut [S; STEP], taps: &[Block; 2])
    where
        S: Symbol<W>,
    {
        let taps = taps_of(taps);
        let ages = [0, 1, 2].map(|age| &self.sums[(self.oldest + age) % MEMORY]);
        for d in 0..STEP {
            for (sums, taps) in ages.iter().zip(taps) {
                let byte = (taps >> (8 * d)) as usize & 255;
                y[d] = y[d].add(sums[0][byte & 15]).add(sums[1][byte >> 4]);
            }
        }
        // Of this step, those before.
        let sums = &mut self.sums[self.oldest];
        own::<W, 0, S>(y, taps[3], sums);
        own::<W, 1, S>(y, taps[3], sums);
        own::<W, 2, S>(y, taps[3], sums);
        own::<W, 3, S>(y, taps[3], sums);
        own::<W, 4, S>(y, taps[3], sums);
        own::<W, 5, S>(y, taps[3], sums);
        own::<W, 6, S>(y, taps[3], sums);
        own::<W, 7, S>(y, taps[3], sums);
        self.oldest = (self.oldest + 1) % MEMORY;
    }
}

/// Adds to symbol D of a step those before it in the step, whose sums are at hand, and it to these. D is a constant, so
/// that all places but one are.
#[inline(always)]
fn own<const W: usize, const D: usize, S: Symbol<W>>(y: &mut [S; STEP], taps: u64, sums: &mut [Sums<S>; 2]) {
    let taken = (taps >> (8 * D)) as usize & 255;
    let [first, last] = sums;
    if D < 4 {
        y[D] = y[D].add(first[taken]);
        grow(first, D, y[D]);
    } else {
        y[D] = y[D].add(first[taken & 15]).add(last[taken >> 4]);
        grow(last, D - 4, y[D]);
    }
}

/// The sums with symbol `bit`, from those without.
#[inline(always)]
fn grow<const W: usize, S: Symbol<W>>(sums: &mut Sums<S>, bit: usize, symbol: S) {
    sums[0] = S::ZERO;
    for i in 0..1 << bit {
        sums[i | 1 << bit] = sums[i].add(symbol);
    }
}

/// E.
struct Expand<'a, const W: usize, const L: usize, F> {
    prg: Prg,
    symbols: &'a [[Block; W]],
    n: usize,
    out: F,
}

impl<const W: usize, const L: usize, F: FnMut(&[[Block; W]])> Kernel<W> for Expand<'_, W, L, F> {
    #[inline(always)]
    fn run<S: Symbol<W>>(self) {
        let Self { mut prg, symbols, n, mut out } = self;
        let runs = symbols.as_chunks::<RUN>().0;
        let cuts: [usize; L] = std::array::from_fn(|i| runs.len() * i / L);
        let parts: [_; L] = std::array::from_fn(|i| &runs[cuts[i]..cuts.get(i + 1).copied().unwrap_or(runs.len())]);
        let mut numbers = vec![0u8; 4 * L * DRAW];
        let mut places = [[0u32; L]; DRAW];
        for start in (0..n).step_by(RUN * DRAW) {
            prg.fill_bytes(&mut numbers);
            for (places, numbers) in places.iter_mut().zip(numbers.as_chunks::<4>().0.chunks_exact(L)) {
                for ((place, number), part) in places.iter_mut().zip(numbers).zip(&parts) {
                    // Of 2^32 numbers, all places get the same share, or one more: a bias of at most part/2^32.
                    *place = ((u64::from(u32::from_le_bytes(*number)) * part.len() as u64) >> 32) as u32;
                }
            }
            for i in 0..DRAW {
                if let Some(soon) = places.get(i + AHEAD) {
                    soon.iter().zip(&parts).for_each(|(&place, part)| S::prefetch(&part[place as usize]));
                }
                let left = n.saturating_sub(start + RUN * i).min(RUN);
                out(&S::gather(&parts, &places[i])[..left]);
                if left < RUN {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ideal;
    use vesica_params::lpn::SETS;

    fn matrix(set: &CodeSet) -> Matrix<'_> {
        Matrix::new(set, &[7; 32], UnitId(3))
    }

    fn encoded<B: Base, const W: usize>(set: &CodeSet, noisy: &[[Block; W]], n: usize) -> Vec<[Block; W]> {
        let mut out = Vec::new();
        matrix(set).encode::<B, W>(&mut noisy.to_vec(), n, |symbols| out.extend_from_slice(symbols));
        out
    }

    fn noisy(len: usize, every: usize) -> Vec<[Block; 1]> {
        let mut prg = Prg::new(Block(1));
        (0..len).map(|i| [if i % every == every / 2 { prg.block() } else { Block::ZERO }]).collect()
    }

    /// The convolution as its definition, symbol by symbol.
    #[test]
    fn steps_are_their_definition() {
        let mut prg = Prg::new(Block(7));
        let len = 5 * STEP;
        let mut y: Vec<[Block; 2]> = (0..len).map(|_| [prg.block(), prg.block()]).collect();
        let mut want = y.clone();
        let mut window = Window::<[Block; 2]>::new();
        for (step, y) in y.as_chunks_mut().0.iter_mut().enumerate() {
            let taps = [prg.block(), prg.block()];
            window.step::<2>(y, &taps);
            for d in 0..STEP {
                let mut sum = want[step * STEP + d];
                for (age, back) in [(0, 24), (1, 16), (2, 8), (3, 0)] {
                    for s in 0..STEP {
                        let bit = taps[age / 2].0 >> (64 * (age % 2) + 8 * d + s) & 1 == 1;
                        let taken = match age {
                            0 => s == d || s < d && bit,
                            3 => s < d && bit,
                            _ => bit,
                        };
                        if taken && step * STEP + s >= back {
                            sum = Symbol::<2>::add(sum, want[step * STEP + s - back]);
                        }
                    }
                }
                want[step * STEP + d] = sum;
            }
        }
        assert_eq!(y, want);
    }

    /// Symbols one after the other, as the table's back ends take them, and all at once.
    #[test]
    fn a_step_is_solved() {
        let mut prg = Prg::new(Block(8));
        for _ in 0..1000 {
            let [.., own] = taps_of(&[prg.block(), prg.block()]);
            let rows = solved(own).to_le_bytes();
            let mut y: [u8; STEP] = std::array::from_fn(|d| 1 << d);
            for d in 0..STEP {
                for s in (0..d).filter(|s| own >> (8 * d + s) & 1 == 1) {
                    y[d] ^= y[s];
                }
            }
            assert_eq!(rows, y);
        }
    }

    #[test]
    fn it_is_linear_over_the_base_field_and_the_same_on_every_vector() {
        for set in SETS {
            let (len, n) = (8192, 4000);
            let e = noisy(len, 32);
            let mut prg = Prg::new(Block(5));
            let dense: Vec<Block> = (0..len).map(|_| prg.block()).collect();
            let k = prg.block();

            let pairs: Vec<[Block; 2]> = (0..len).map(|i| [e[i][0], gf128::mul(e[i][0], k) ^ dense[i]]).collect();
            let b = encoded::<Block, 1>(set, &dense.iter().map(|&d| [d]).collect::<Vec<_>>(), n);
            for (i, [a, c]) in encoded::<Block, 2>(set, &pairs, n).into_iter().enumerate() {
                assert_eq!(c, gf128::mul(a, k) ^ b[i][0], "{} {i}", set.id);
            }

            let pairs: Vec<[Block; 2]> =
                (0..len).map(|i| [gf64::embed(e[i][0].low()), gf64::scale(k, e[i][0].low()) ^ dense[i]]).collect();
            let b = encoded::<u64, 1>(set, &dense.iter().map(|&d| [d]).collect::<Vec<_>>(), n);
            for (i, [a, c]) in encoded::<u64, 2>(set, &pairs, n).into_iter().enumerate() {
                assert_eq!(a.high(), 0, "{} {i}", set.id);
                assert_eq!(c, gf64::scale(k, a.low()) ^ b[i][0], "{} {i}", set.id);
            }
        }
    }

    #[test]
    fn back_ends_agree() {
        for set in SETS {
            for n in [1, 3, 4, 5, 1023, 1024, 1025, 3000] {
                let run = |backend| {
                    let (mut single, mut pairs) = (Vec::new(), Vec::new());
                    let matrix = matrix(set);
                    matrix.encode_on::<Block, 1>(backend, &mut noisy(6400, 16), n, |symbols| {
                        single.extend_from_slice(symbols)
                    });
                    let mut both: Vec<_> =
                        noisy(6400, 16).into_iter().zip(noisy(6400, 5)).map(|([a], [b])| [a, b]).collect();
                    matrix.encode_on::<Block, 2>(backend, &mut both, n, |symbols| pairs.extend_from_slice(symbols));
                    assert_eq!([single.len(), pairs.len()], [n; 2]);
                    assert!(single.iter().zip(&pairs).all(|(single, pair)| single[0] == pair[0]));
                    pairs
                };
                for backend in Backend::available() {
                    assert_eq!(run(backend), run(Backend::Portable), "{} {backend} {n}", set.id);
                }
            }
        }
    }

    #[test]
    fn symbols_are_wiped() {
        fn wiped_when_dropped(_: &impl ZeroizeOnDrop) {}
        let mut symbols = Symbols::<2>::zero(1000);
        symbols.fill([Block::ONE; 2]);
        wiped_when_dropped(&symbols);
        symbols.zeroize();
        assert!(symbols.blocks.iter().all(|pair| *pair == [Block::ZERO; 2]));
    }

    /// Why there is a D: without one, 100 errors give outputs in a space of 100 dimensions, whatever their number.
    #[test]
    fn outputs_span_the_field_though_there_are_fewer_errors_than_bits() {
        for set in SETS {
            let outputs = encoded::<Block, 1>(set, &noisy(6400, 64), 3000);
            let outputs: Vec<Block> = outputs.into_iter().flatten().collect();
            assert_eq!(ideal::rank(&outputs), 128, "{}", set.id);
            assert!(ideal::all_differ(&outputs), "{}", set.id);
        }
    }

    /// The field without D: what binary codes are over.
    #[derive(Clone, Copy, Default)]
    struct Unscaled;

    impl zeroize::DefaultIsZeroes for Unscaled {}

    impl Base for Unscaled {
        const BITS: usize = 128;
        fn from_block(_: Block) -> Self {
            Self
        }
        fn embed(self) -> Block {
            Block::ONE
        }
        fn scale_each(_: &mut [Block], _: &[Block]) {}
    }

    /// The attack that D is against (Metzner, Kapturowski 1990; `docs/src/design/08-silent-vole.md`): under a binary code, the
    /// bits of the outputs span the columns of the matrix at the errors, so anyone can ask of a place whether it is one.
    #[test]
    fn without_scaling_the_outputs_betray_the_errors() {
        const ROWS: usize = 256;
        let (len, every) = (6400, 64);
        let bits = |outputs: &[[Block; 1]], bit: usize| -> [u128; 2] {
            let half = |half: usize| (0..128).fold(0, |row, i| row | (outputs[half * 128 + i][0].0 >> bit & 1) << i);
            [half(0), half(1)]
        };
        let outputs = encoded::<Unscaled, 1>(&SETS[0], &noisy(len, every), ROWS);
        let mut basis: Vec<[u128; 2]> = Vec::new();
        // What is left of a vector modulo the basis, each of whose vectors has a lowest bit that no later one has.
        let reduced = |basis: &[[u128; 2]], mut row: [u128; 2]| {
            for pivot in basis {
                let (half, bit) =
                    if pivot[0] != 0 { (0, pivot[0].trailing_zeros()) } else { (1, pivot[1].trailing_zeros()) };
                if row[half] >> bit & 1 == 1 {
                    row = [row[0] ^ pivot[0], row[1] ^ pivot[1]];
                }
            }
            row
        };
        for bit in 0..128 {
            let row = reduced(&basis, bits(&outputs, bit));
            if row != [0, 0] {
                basis.push(row);
            }
        }
        assert_eq!(basis.len(), len / every, "the dimension is the number of errors");
        let found = (0..len).step_by(16).filter(|&place| {
            let mut one = vec![[Block::ZERO]; len];
            one[place] = [Block::ONE];
            reduced(&basis, bits(&encoded::<Unscaled, 1>(&SETS[0], &one, ROWS), 0)) == [0, 0]
        });
        let errors = (0..len).step_by(16).filter(|place| place % every == every / 2);
        assert_eq!(found.collect::<Vec<_>>(), errors.collect::<Vec<_>>());
    }

    /// What is found out about one matrix is of no use against another unit's or another run's.
    #[test]
    fn every_unit_of_every_run_has_a_matrix_of_its_own() {
        for set in SETS {
            let outputs = [([7; 32], 3), ([7; 32], 4), ([8; 32], 3)].map(|(session, unit)| {
                let mut out = Vec::new();
                let matrix = Matrix::new(set, &session, UnitId(unit));
                matrix.encode::<Block, 1>(&mut noisy(8192, 32), 4096, |symbols| out.extend_from_slice(symbols));
                out
            });
            let equal = |a: usize, b: usize| outputs[a].iter().zip(&outputs[b]).filter(|(a, b)| a == b).count();
            assert_eq!([equal(0, 1), equal(0, 2), equal(1, 2)], [0; 3], "{}", set.id);
        }
    }

    /// A wire format: both parties, of whatever version, must have the same matrix.
    #[test]
    fn the_matrices_are_pinned() {
        let pinned = [&SETS[0], &SETS[1]].map(|set| {
            let outputs =
                [encoded::<Block, 1>(set, &noisy(8192, 32), 4096), encoded::<u64, 1>(set, &noisy(8192, 32), 4096)];
            let bytes: Vec<u8> = outputs.iter().flatten().flat_map(|symbol| symbol[0].to_le_bytes()).collect();
            blake3::hash(&bytes).to_hex()[..16].to_owned()
        });
        assert_eq!(pinned, ["2bbd57dba2756c70", "a1c61a7ddd07c7a0"]);
    }
}
