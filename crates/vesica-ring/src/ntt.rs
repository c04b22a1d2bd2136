//! The negacyclic number-theoretic transform: polynomials modulo X^n + 1 and p into their values at the n odd powers of ψ,
//! a root of unity of order 2n, where products are taken word by word.
//!
//! The evaluation order is the usual bit-reversed one: value k is at ψ^(2·rev(k) + 1), where rev reverses log2 n bits
//! ([`Ntt::exponent`]). It is the same on every back end, so it may be stored and sent.
//!
//! Forward is P. Longa, M. Naehrig, "Speeding up the Number Theoretic Transform for Faster Ideal Lattice-Based
//! Cryptography", eprint 2016/504, algorithm 1, and inverse is its algorithm 2, with D. Harvey's lazy residues ("Faster
//! arithmetic for number-theoretic transforms", 2014). Between levels words are below 4p, which fits the 52 bits of the
//! vector multiplier because p < 2^50. Two levels are done in one pass over memory. The last three levels of the forward
//! transform, and the first three of the inverse, pair words that are less than a vector apart: there a block of 8 x 8
//! words is transposed, so that again whole vectors are paired.
//!
//! Eight polynomials can be transformed at once, as rows of eight words: coefficient k of polynomial r is word 8k + r
//! ([`Ntt::forward_rows`]). All pairs are then whole vectors apart, and nothing is transposed.

use crate::backend::run_on;
use crate::lanes::{Kernel, Lanes};
use crate::prime::{Factor, Modulus};
use vesica_cpu::Backend;

/// How many polynomials [`Ntt::forward_rows`] transforms at once.
pub const ROWS: usize = 8;

/// How many products [`Grid::times`] and [`Ntt::dot_rows`] can add up: the sums of their high halves then stay far
/// below 2^64.
pub const TERMS: usize = 4096;

/// Constants that words are multiplied by, each in two words.
#[derive(Default)]
struct Factors {
    factors: Vec<u64>,
    quotients: Vec<u64>,
}

impl Factors {
    fn push(&mut self, f: Factor) {
        self.factors.push(f.factor);
        self.quotients.push(f.quotient);
    }

    /// The constant at `i` in every lane.
    #[inline(always)]
    fn splat<V: Lanes>(&self, i: usize) -> [V; 2] {
        [V::splat(self.factors[i]), V::splat(self.quotients[i])]
    }
}

/// The transform for one prime and one n.
pub struct Ntt {
    modulus: Modulus,
    n: usize,
    backend: Backend,
    /// ψ^rev(i) at i, where rev reverses log2 n bits.
    forward: Factors,
    /// Its inverse at i.
    inverse: Factors,
    /// The constants of the last three levels, as the transposed blocks need them: for each block of 64 words seven rows of
    /// eight constants, one row of the first of these levels, two of the second and four of the third.
    forward_tail: Factors,
    inverse_tail: Factors,
    /// 1/n, and ψ^-(n/2)/n: what the two halves are multiplied by in the last level of the inverse.
    last: [Factor; 2],
    /// 1, 2^52 and 2^104 modulo p.
    powers: [Factor; 3],
    /// 1/p modulo 2^52.
    p_inverse: u64,
}

impl Ntt {
    /// The transform of polynomials with n coefficients modulo p.
    ///
    /// # Panics
    /// If n is no power of two between 64 and 2^16, or p is not 1 modulo 2n. Both are parameters of this program.
    pub fn new(modulus: Modulus, n: usize) -> Self {
        Self::on(Backend::chosen(), modulus, n)
    }

    pub(crate) fn on(backend: Backend, modulus: Modulus, n: usize) -> Self {
        assert!(n.is_power_of_two() && (64..=1 << 16).contains(&n), "n = {n} is no power of two between 64 and 2^16");
        let psi = modulus.root(2 * n as u64);
        let reversed = |i: usize| i.reverse_bits() >> (usize::BITS - n.ilog2());
        let table = |root: u64| {
            let mut powers = vec![1; n];
            for i in 1..n {
                powers[i] = modulus.mul(powers[i - 1], root);
            }
            let mut table = Factors::default();
            (0..n).for_each(|i| table.push(modulus.factor(powers[reversed(i)])));
            table
        };
        let tail = |table: &Factors| {
            let mut tail = Factors::default();
            for block in 0..n / 64 {
                for (level, row) in [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (2, 3)] {
                    for lane in 0..8 {
                        let group = 8 * block + lane;
                        let at = ((n / 8 + group) << level) + row;
                        tail.push(Factor { factor: table.factors[at], quotient: table.quotients[at] });
                    }
                }
            }
            tail
        };
        let (forward, inverse) = (table(psi), table(modulus.inverse(psi)));
        let part = modulus.inverse(n as u64);
        let two_52 = modulus.reduce(1 << 52);
        Self {
            modulus,
            n,
            backend,
            forward_tail: tail(&forward),
            inverse_tail: tail(&inverse),
            last: [part, modulus.mul(part, inverse.factors[1])].map(|f| modulus.factor(f)),
            powers: [1, two_52, modulus.mul(two_52, two_52)].map(|f| modulus.factor(f)),
            p_inverse: inverse_of(modulus.p()),
            forward,
            inverse,
        }
    }

    /// n.
    pub fn n(&self) -> usize {
        self.n
    }

    /// The prime.
    pub fn modulus(&self) -> Modulus {
        self.modulus
    }

    /// The odd exponent e, below 2n, such that value `k` of a transform is the polynomial's at ψ^e.
    pub fn exponent(&self, k: usize) -> usize {
        2 * (k.reverse_bits() >> (usize::BITS - self.n.ilog2())) + 1
    }

    /// Coefficients to values, in place. In and out are residues below p.
    ///
    /// # Panics
    /// If there are not n words.
    pub fn forward(&self, words: &mut [u64]) {
        assert_eq!(words.len(), self.n);
        self.check(words);
        run_on(self.backend, Forward { ntt: self, words, row: 1 });
        self.check(words);
    }

    /// Values to coefficients, in place. In and out are residues below p.
    ///
    /// # Panics
    /// If there are not n words.
    pub fn inverse(&self, words: &mut [u64]) {
        assert_eq!(words.len(), self.n);
        self.check(words);
        run_on(self.backend, Inverse { ntt: self, words, row: 1 });
        self.check(words);
    }

    /// Coefficients to values for eight polynomials: word 8k + r is coefficient k of polynomial r, and becomes its value k.
    ///
    /// # Panics
    /// If there are not 8n words.
    pub fn forward_rows(&self, words: &mut [u64]) {
        assert_eq!(words.len(), ROWS * self.n);
        self.check(words);
        run_on(self.backend, Forward { ntt: self, words, row: ROWS });
        self.check(words);
    }

    /// Values to coefficients for eight polynomials, placed as in [`Ntt::forward_rows`].
    ///
    /// # Panics
    /// If there are not 8n words.
    pub fn inverse_rows(&self, words: &mut [u64]) {
        assert_eq!(words.len(), ROWS * self.n);
        self.check(words);
        run_on(self.backend, Inverse { ntt: self, words, row: ROWS });
        self.check(words);
    }

    /// In debug builds, that all words are residues.
    fn check(&self, words: &[u64]) {
        debug_assert!(words.iter().all(|&word| word < self.modulus.p()), "a word is not below {}", self.modulus.p());
    }
}

/// 1/p modulo 2^52, for an odd p: Newton's iteration doubles the number of right bits, and p is its own inverse modulo
/// 8.
fn inverse_of(p: u64) -> u64 {
    let step = |x: u64, _| x.wrapping_mul(2_u64.wrapping_sub(p.wrapping_mul(x)));
    (0..5).fold(p, step) & ((1 << 52) - 1)
}

/// p, 2p and 4p in every lane, and 1/p modulo 2^52.
struct Bounds<V> {
    p: V,
    p2: V,
    p4: V,
    p_inverse: V,
}

impl<V: Lanes> Bounds<V> {
    #[inline(always)]
    fn of(ntt: &Ntt) -> Self {
        let p = ntt.modulus.p();
        Self { p: V::splat(p), p2: V::splat(2 * p), p4: V::splat(4 * p), p_inverse: V::splat(ntt.p_inverse) }
    }

    /// Two words below 4p become x + wy and x - wy, below 4p.
    #[inline(always)]
    fn forward(&self, x: &mut V, y: &mut V, [w, quotient]: [V; 2]) {
        let a = x.reduce_once(self.p2);
        let b = y.mul(w, quotient, self.p);
        (*x, *y) = (a.add(b), a.sub(b).add(self.p2));
    }

    /// Two words below 2p become x + y and w(x - y), below 2p.
    #[inline(always)]
    fn inverse(&self, x: &mut V, y: &mut V, [w, quotient]: [V; 2]) {
        let (sum, difference) = (x.add(*y), x.sub(*y).add(self.p2));
        (*x, *y) = (sum.reduce_once(self.p2), difference.mul(w, quotient, self.p));
    }

    /// The same for two of the words of an array.
    #[inline(always)]
    fn forward_at(&self, v: &mut [V; 8], [i, j]: [usize; 2], w: [V; 2]) {
        let (mut x, mut y) = (v[i], v[j]);
        self.forward(&mut x, &mut y, w);
        (v[i], v[j]) = (x, y);
    }

    #[inline(always)]
    fn inverse_at(&self, v: &mut [V; 8], [i, j]: [usize; 2], w: [V; 2]) {
        let (mut x, mut y) = (v[i], v[j]);
        self.inverse(&mut x, &mut y, w);
        (v[i], v[j]) = (x, y);
    }

    /// The last level of the inverse: the sum is multiplied as well, which divides by n, and both results are residues.
    #[inline(always)]
    fn finish(&self, x: &mut V, y: &mut V, whole: [V; 2], half: [V; 2]) {
        let (sum, difference) = (x.add(*y), x.sub(*y).add(self.p2));
        *x = sum.mul(whole[0], whole[1], self.p).reduce_once(self.p);
        *y = difference.mul(half[0], half[1], self.p).reduce_once(self.p);
    }

    /// From below 4p to below p.
    #[inline(always)]
    fn reduce(&self, x: V) -> V {
        x.reduce_once(self.p2).reduce_once(self.p)
    }

    /// `(lo + 2^52·hi)/2^52` modulo p, for the sum of k products of residues: P. Montgomery's reduction ("Modular
    /// Multiplication Without Trial Division", 1985). The result is below p·(1 + k/4) + k, because a product is below
    /// p·2^50 and a carry below k.
    #[inline(always)]
    fn montgomery(&self, lo: V, hi: V) -> V {
        let hi = hi.add(lo.high12());
        // Times p, this has the same low half as the sum. So the difference is 2^52 times that of the high halves.
        let (m, _) = V::madd(V::splat(0), V::splat(0), lo.low52(), self.p_inverse);
        let (_, times) = V::madd(V::splat(0), V::splat(0), m, self.p);
        hi.sub(times).add(self.p)
    }

    /// `lo + 2^52·hi` modulo p, for sums of at most [`TERMS`] products of residues.
    #[inline(always)]
    fn fold(&self, ntt: &Ntt, lo: V, hi: V) -> V {
        // hi is below 2^12·2^48 and gets a carry below 2^12, so hi.high12() is small as well.
        let hi = hi.add(lo.high12());
        let [one, two_52, two_104] = ntt.powers;
        let a = lo.low52().mul(V::splat(one.factor), V::splat(one.quotient), self.p);
        let b = hi.low52().mul(V::splat(two_52.factor), V::splat(two_52.quotient), self.p);
        let c = hi.high12().mul(V::splat(two_104.factor), V::splat(two_104.quotient), self.p);
        // Three times below 2p: below 6p.
        self.reduce(a.add(b).add(c).reduce_once(self.p4))
    }
}

// What a kernel calls for each vector must be inlined into it, or it would not be compiled for the back end's instructions.
// A closure gives no such guarantee, so the loops are macros.

/// Applies `$butterflies` to the vectors at the same place in the two halves of a block.
macro_rules! halves {
    ($v:ident, $block:expr, |$x:ident, $y:ident| $butterflies:block) => {
        let block: &mut [u64] = $block;
        let (xs, ys) = block.split_at_mut(block.len() / 2);
        for (xs, ys) in xs.chunks_exact_mut($v::WIDTH).zip(ys.chunks_exact_mut($v::WIDTH)) {
            let ($x, $y) = (&mut $v::load(xs), &mut $v::load(ys));
            $butterflies
            $x.store(xs);
            $y.store(ys);
        }
    };
}

/// Applies `$butterflies` to the vectors at the same place in the four quarters of a block.
macro_rules! quarters {
    ($v:ident, $block:expr, |$a:ident, $b:ident, $c:ident, $d:ident| $butterflies:block) => {
        let block: &mut [u64] = $block;
        let (left, right) = block.split_at_mut(block.len() / 2);
        let (a, b) = left.split_at_mut(left.len() / 2);
        let (c, d) = right.split_at_mut(right.len() / 2);
        let (a, b) = (a.chunks_exact_mut($v::WIDTH), b.chunks_exact_mut($v::WIDTH));
        let (c, d) = (c.chunks_exact_mut($v::WIDTH), d.chunks_exact_mut($v::WIDTH));
        for (((a, b), c), d) in a.zip(b).zip(c).zip(d) {
            let ($a, $b) = (&mut $v::load(a), &mut $v::load(b));
            let ($c, $d) = (&mut $v::load(c), &mut $v::load(d));
            $butterflies
            $a.store(a);
            $b.store(b);
            $c.store(c);
            $d.store(d);
        }
    };
}

/// Applies `$butterflies` to eight vectors that hold the eight words of one group each in their lanes, with the seven rows of
/// constants of block `$i` in the tail's table.
macro_rules! tail {
    ($v:ident, $block:expr, $table:expr, $i:expr, |$x:ident, $w:ident| $butterflies:block) => {
        let block: &mut [u64; 64] = $block.try_into().expect("a block of 64 words");
        let factors: &[u64; 56] = $table.factors[56 * $i..56 * ($i + 1)].try_into().expect("seven rows");
        let quotients: &[u64; 56] = $table.quotients[56 * $i..56 * ($i + 1)].try_into().expect("seven rows");
        $v::transpose(block);
        for lane in (0..8).step_by($v::WIDTH) {
            let mut $w = [[$v::splat(0); 2]; 7];
            for row in 0..7 {
                $w[row] = [$v::load(&factors[8 * row + lane..]), $v::load(&quotients[8 * row + lane..])];
            }
            let mut $x = [$v::splat(0); 8];
            for j in 0..8 {
                $x[j] = $v::load(&block[8 * j + lane..]);
            }
            $butterflies
            for j in 0..8 {
                $x[j].store(&mut block[8 * j + lane..]);
            }
        }
        $v::transpose(block);
    };
}

struct Forward<'a> {
    ntt: &'a Ntt,
    words: &'a mut [u64],
    /// Words in a coefficient: 1, or [`ROWS`].
    row: usize,
}

impl Kernel for Forward<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self { ntt, words, row } = self;
        let bounds = Bounds::<V>::of(ntt);
        let roots = &ntt.forward;
        // How many levels pair whole vectors.
        let levels = ntt.n.ilog2() - if row == 1 { 3 } else { 0 };
        // A level cuts the words into `blocks`, and pairs the halves of each.
        let mut blocks = 1;
        if levels % 2 == 1 {
            let root = roots.splat::<V>(1);
            halves!(V, &mut *words, |x, y| { bounds.forward(x, y, root) });
            blocks = 2;
        }
        while blocks < 1 << levels {
            let last = row != 1 && blocks << 2 == 1 << levels;
            let length = words.len() / blocks;
            for (i, block) in words.chunks_exact_mut(length).enumerate() {
                let (w1, w2, w3) = (
                    roots.splat::<V>(blocks + i),
                    roots.splat::<V>(2 * blocks + 2 * i),
                    roots.splat::<V>(2 * blocks + 2 * i + 1),
                );
                quarters!(V, block, |a, b, c, d| {
                    bounds.forward(a, c, w1);
                    bounds.forward(b, d, w1);
                    bounds.forward(a, b, w2);
                    bounds.forward(c, d, w3);
                    if last {
                        for x in [&mut *a, &mut *b, &mut *c, &mut *d] {
                            *x = bounds.reduce(*x);
                        }
                    }
                });
            }
            blocks *= 4;
        }
        if row != 1 {
            return;
        }
        for (i, block) in words.chunks_exact_mut(64).enumerate() {
            tail!(V, block, ntt.forward_tail, i, |v, w| {
                for j in 0..4 {
                    bounds.forward_at(&mut v, [j, j + 4], w[0]);
                }
                for j in [0, 1, 4, 5] {
                    bounds.forward_at(&mut v, [j, j + 2], w[1 + j / 4]);
                }
                for j in [0, 2, 4, 6] {
                    bounds.forward_at(&mut v, [j, j + 1], w[3 + j / 2]);
                }
                for x in &mut v {
                    *x = bounds.reduce(*x);
                }
            });
        }
    }
}

struct Inverse<'a> {
    ntt: &'a Ntt,
    words: &'a mut [u64],
    row: usize,
}

impl Kernel for Inverse<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self { ntt, words, row } = self;
        let bounds = Bounds::<V>::of(ntt);
        let roots = &ntt.inverse;
        if row == 1 {
            for (i, block) in words.chunks_exact_mut(64).enumerate() {
                tail!(V, block, ntt.inverse_tail, i, |v, w| {
                    for j in [0, 2, 4, 6] {
                        bounds.inverse_at(&mut v, [j, j + 1], w[3 + j / 2]);
                    }
                    for j in [0, 1, 4, 5] {
                        bounds.inverse_at(&mut v, [j, j + 2], w[1 + j / 4]);
                    }
                    for j in 0..4 {
                        bounds.inverse_at(&mut v, [j, j + 4], w[0]);
                    }
                });
            }
        }
        let whole = [V::splat(ntt.last[0].factor), V::splat(ntt.last[0].quotient)];
        let half = [V::splat(ntt.last[1].factor), V::splat(ntt.last[1].quotient)];
        let mut blocks = (if row == 1 { ntt.n / 8 } else { ntt.n }) / 4;
        while blocks >= 1 {
            let length = words.len() / blocks;
            for (i, block) in words.chunks_exact_mut(length).enumerate() {
                let (w1, w2, w3) = (
                    roots.splat::<V>(blocks + i),
                    roots.splat::<V>(2 * blocks + 2 * i),
                    roots.splat::<V>(2 * blocks + 2 * i + 1),
                );
                quarters!(V, block, |a, b, c, d| {
                    bounds.inverse(a, b, w2);
                    bounds.inverse(c, d, w3);
                    if blocks == 1 {
                        bounds.finish(a, c, whole, half);
                        bounds.finish(b, d, whole, half);
                    } else {
                        bounds.inverse(a, c, w1);
                        bounds.inverse(b, d, w1);
                    }
                });
            }
            if blocks == 2 {
                halves!(V, &mut *words, |x, y| { bounds.finish(x, y, whole, half) });
            }
            blocks /= 4;
        }
    }
}

mod grid;
mod words;

pub use grid::{Grid, Line};
pub use words::FEW;

#[cfg(test)]
mod tests;
