//! Compression by a linear code under which sparse vectors look random: a = G·e, with G = E·D·C.
//!
//! [RRT23] Raghuraman, Rindal, Tanguy, "Expand-convolute codes for pseudorandom correlation generators from LPN", CRYPTO 2023,
//! eprint 2023/882. C is a convolution: each symbol takes up a random subset of those before it. E expands, seen from the
//! other side: each output is the sum of ℓ symbols, one from a random place of each of ℓ equal parts. D multiplies each
//! symbol by a random element of the base field B.
//! Differs from the paper: D (why: `vesica_params::lpn`). The convolution goes in steps of eight symbols: each new symbol
//! takes random ones of the 24 before the step and of those before it in the step; the one 24 places back is always taken
//! and those before that never, so that a step is a bijection of the state and a state that is not zero stays so. The paper's
//! takes random ones of the 24 before each symbol. A step's memory is the paper's 24 symbols; its inside is fuller.
//!
//! G is public and the same for all: its generator is seeded by the code's name.
//!
//! Both arrays of a receiver are one array of pairs here: a random place costs one cache miss, not two. Sums of four
//! symbols are looked up in tables (Arlazarov, Dinic, Kronrod, Faradzhev 1970): eleven additions a symbol instead of
//! twenty-seven masked ones.

use vesica_block::{Block, gf64, gf128, prg::Prg};
use vesica_params::lpn::CodeSet;

/// A base field.
pub trait Base: Copy + Send + Sync + 'static {
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

/// Symbols in a step of the convolution.
const STEP: usize = 8;

/// Steps that the convolution remembers: 24 symbols.
const MEMORY: usize = 3;

/// Symbols that are convoluted and multiplied while they are in the first-level cache.
const CHUNK: usize = 512;

/// Outputs whose places are drawn at once.
const DRAW: usize = 256;

/// Hands over the n outputs of the code `set` on W vectors at once, in order. `noisy` is overwritten; its length is a
/// multiple of eight.
///
/// # Panics
/// If the length is not, or the set is none of `vesica_params::lpn::SETS`.
pub fn encode<B: Base, const W: usize>(set: &CodeSet, noisy: &mut [[Block; W]], n: usize, out: impl FnMut([Block; W])) {
    let key = blake3::derive_key("vesica 2026 lpn code", set.id.as_bytes());
    let [first, second] = [0, 1].map(|half| Block::from_le_bytes(key.as_chunks().0[half]));
    convolute::<B, W>(&mut Prg::new(first), noisy);
    let mut prg = Prg::new(second);
    match set.weight {
        7 => expand::<W, 7>(&mut prg, noisy, n, out),
        21 => expand::<W, 21>(&mut prg, noisy, n, out),
        weight => panic!("no code of weight {weight}"),
    }
}

/// D·C, in place.
fn convolute<B: Base, const W: usize>(prg: &mut Prg, symbols: &mut [[Block; W]]) {
    assert!(symbols.len().is_multiple_of(STEP), "steps of {STEP} symbols");
    let mut window = Window::new();
    let mut taps = [Block::ZERO; 2 * CHUNK / STEP];
    let mut factors = [Block::ZERO; CHUNK];
    for chunk in symbols.chunks_mut(CHUNK) {
        let taps = &mut taps[..2 * chunk.len() / STEP];
        prg.fill(taps);
        for (step, taps) in chunk.as_chunks_mut::<STEP>().0.iter_mut().zip(taps.as_chunks().0) {
            window.step(step, taps);
        }
        let factors = &mut factors[..chunk.len()];
        prg.fill(factors);
        let factors: Vec<[Block; W]> = factors.iter().map(|&factor| [factor; W]).collect();
        B::scale_each(chunk.as_flattened_mut(), factors.as_flattened());
    }
}

/// All sums of four symbols: entry i is the sum of those whose bit in i is set.
type Sums<const W: usize> = [[Block; W]; 16];

/// What the convolution remembers: the sums of the first and of the last four symbols of each step, the newest at `next` - 1.
struct Window<const W: usize> {
    sums: [[Sums<W>; 2]; MEMORY],
    next: usize,
}

impl<const W: usize> Window<W> {
    fn new() -> Self {
        Self { sums: [[[[Block::ZERO; W]; 16]; 2]; MEMORY], next: 0 }
    }

    /// One step; `taps` has a byte for each new symbol and each of: the oldest step, the one after, the newest, this one.
    #[inline(always)]
    fn step(&mut self, y: &mut [[Block; W]; STEP], taps: &[Block; 2]) {
        let bytes = [taps[0].low(), taps[0].high(), taps[1].low(), taps[1].high()];
        let ages = [0, 1, 2].map(|age| &self.sums[(self.next + age) % MEMORY]);
        for (d, y) in y.iter_mut().enumerate() {
            // Of the oldest, its own counterpart and random ones of those before.
            let oldest = (bytes[0] >> (8 * d)) as usize & ((1 << d) - 1) | 1 << d;
            let [middle, newest] = [1, 2].map(|age| (bytes[age] >> (8 * d)) as usize & 255);
            for (sums, byte) in ages.iter().zip([oldest, middle, newest]) {
                *y = add(add(*y, sums[0][byte & 15]), sums[1][byte >> 4]);
            }
        }
        let own = |d: usize| (bytes[3] >> (8 * d)) as usize & ((1 << d) - 1);
        add_masked(y, 0, own);
        let first = sums_of(&y[..4]);
        for d in 4..STEP {
            y[d] = add(y[d], first[own(d) & 15]);
        }
        add_masked(y, 4, own);
        self.sums[self.next] = [first, sums_of(&y[4..])];
        self.next = (self.next + 1) % MEMORY;
    }
}

/// Adds to each of four symbols, in order, those before it that `own` says.
#[inline(always)]
fn add_masked<const W: usize>(y: &mut [[Block; W]; STEP], start: usize, own: impl Fn(usize) -> usize) {
    for d in start + 1..start + 4 {
        for s in start..d {
            let mask = Block(((own(d) >> s & 1) as u128).wrapping_neg());
            for i in 0..W {
                y[d][i] = y[d][i] ^ (y[s][i] & mask);
            }
        }
    }
}

#[inline(always)]
fn sums_of<const W: usize>(four: &[[Block; W]]) -> Sums<W> {
    let mut sums = [[Block::ZERO; W]; 16];
    for (bit, &symbol) in four.iter().enumerate() {
        for i in 0..1 << bit {
            sums[i | 1 << bit] = add(sums[i], symbol);
        }
    }
    sums
}

#[inline(always)]
fn add<const W: usize>(a: [Block; W], b: [Block; W]) -> [Block; W] {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// E.
fn expand<const W: usize, const L: usize>(
    prg: &mut Prg,
    symbols: &[[Block; W]],
    n: usize,
    mut out: impl FnMut([Block; W]),
) {
    let cuts: [usize; L] = std::array::from_fn(|i| symbols.len() * i / L);
    let parts: [&[[Block; W]]; L] =
        std::array::from_fn(|i| &symbols[cuts[i]..cuts.get(i + 1).copied().unwrap_or(symbols.len())]);
    let mut places = vec![0u8; 4 * L * DRAW];
    for start in (0..n).step_by(DRAW) {
        prg.fill_bytes(&mut places);
        for places in places.as_chunks::<4>().0.chunks_exact(L).take(n - start) {
            let mut sum = [Block::ZERO; W];
            for (part, place) in parts.iter().zip(places) {
                // Of 2^32 numbers, all places get the same share, or one more: a bias of at most part/2^32.
                let place = (u64::from(u32::from_le_bytes(*place)) * part.len() as u64) >> 32;
                sum = add(sum, part[place as usize]);
            }
            out(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ideal;
    use vesica_params::lpn::SETS;

    fn encoded<B: Base, const W: usize>(set: &CodeSet, noisy: &[[Block; W]], n: usize) -> Vec<[Block; W]> {
        let mut out = Vec::new();
        encode::<B, W>(set, &mut noisy.to_vec(), n, |symbol| out.push(symbol));
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
        let mut window = Window::new();
        for step in 0..len / STEP {
            let taps = [prg.block(), prg.block()];
            window.step(y[step * STEP..][..STEP].as_mut_array().unwrap(), &taps);
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
                            sum = add(sum, want[step * STEP + s - back]);
                        }
                    }
                }
                want[step * STEP + d] = sum;
            }
        }
        assert_eq!(y, want);
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

    /// A wire format: both parties, of whatever version, must have the same matrix.
    #[test]
    fn the_matrices_are_pinned() {
        for (set, want) in SETS.iter().zip(["", ""]) {
            let mut hash = blake3::Hasher::new();
            for symbol in encoded::<Block, 1>(set, &noisy(8192, 32), 4096).into_iter().chain(encoded::<u64, 1>(
                set,
                &noisy(8192, 32),
                4096,
            )) {
                hash.update(&symbol[0].to_le_bytes());
            }
            assert_eq!(hash.finalize().to_hex()[..16], *want, "{}", set.id);
        }
    }
}
