//! Arithmetic on polynomials word by word: sums, products, and a ciphertext's pair of polynomials times one polynomial.
//!
//! A product of residues has 104 bits, low and high half apart. Where many are added up, the halves are, and the sum is
//! reduced once at its end. Where few are, a reduction is cheap if one factor is known long before: it is kept in
//! Montgomery's form, times 2^52.

use super::{Bounds, Ntt, ROWS, TERMS};
use crate::backend::run_on;
use crate::lanes::{Kernel, Lanes};
use crate::prime::{Factor, Modulus};

impl Ntt {
    /// `sum[i] + a[i]` modulo p, into `sum`. All are residues.
    pub fn add(&self, sum: &mut [u64], a: &[u64]) {
        assert_eq!(sum.len(), a.len());
        run_on(self.backend, Each { ntt: self, out: sum, a, what: Op::Add });
    }

    /// `difference[i] - a[i]` modulo p, into `difference`. All are residues.
    pub fn sub(&self, difference: &mut [u64], a: &[u64]) {
        assert_eq!(difference.len(), a.len());
        run_on(self.backend, Each { ntt: self, out: difference, a, what: Op::Sub });
    }

    /// `product[i]·a[i]` modulo p, into `product`. All are residues.
    pub fn mul(&self, product: &mut [u64], a: &[u64]) {
        assert_eq!(product.len(), a.len());
        run_on(self.backend, Each { ntt: self, out: product, a, what: Op::Mul });
    }

    /// `(difference[i] - a[i])·f` modulo p, into `difference`. All are residues.
    pub fn sub_scale(&self, difference: &mut [u64], a: &[u64], f: Factor) {
        assert_eq!(difference.len(), a.len());
        run_on(self.backend, SubScale { ntt: self, out: difference, a, factor: f });
    }

    /// `words[i]·2^52` modulo p, in place: Montgomery's form, in which [`Ntt::split`], [`Ntt::dot2`] and
    /// [`Ntt::add_products`] take the factor that they meet again and again. In and out are residues.
    pub fn to_montgomery(&self, words: &mut [u64]) {
        self.scale(words, self.powers[1]);
    }

    /// `left[i] + a[i]` into `left`, and `(left[i] - a[i])·f[i]` into `right`, modulo p. All are residues, and f is in
    /// Montgomery's form.
    ///
    /// # Panics
    /// If lengths differ.
    pub fn split(&self, left: &mut [u64], a: &[u64], f: &[u64], right: &mut [u64]) {
        assert!(left.len() == a.len() && left.len() == f.len() && left.len() == right.len());
        run_on(self.backend, Split { ntt: self, left, a, f, right });
    }

    /// Two sums of products that share a factor, as a ciphertext's two polynomials do: `Σ x[i]·z[i]` and `Σ y[i]·z[i]`
    /// modulo p over the terms [x, y, z], word by word. All are residues; of each term either x and y are in
    /// Montgomery's form, or z is.
    ///
    /// # Panics
    /// If there are more than [`FEW`] terms, or lengths differ or are no multiple of 32.
    pub fn dot2(&self, terms: &[[&[u64]; 3]], x_out: &mut [u64], y_out: &mut [u64]) {
        let length = x_out.len();
        assert!(terms.len() <= FEW && length.is_multiple_of(32) && y_out.len() == length);
        assert!(terms.iter().flatten().all(|words| words.len() == length));
        run_on(self.backend, Dot2 { ntt: self, terms, x_out, y_out });
    }

    /// Adds `x[i]·z[i]` to `sums[0][i]`, and `y[i]·z[i]` to `sums[1][i]`, modulo p, for the pair [x, y]. All are
    /// residues, and z is in Montgomery's form.
    ///
    /// # Panics
    /// If lengths differ or are no multiple of 8.
    pub fn add_products(&self, sums: [&mut [u64]; 2], pair: [&[u64]; 2], z: &[u64]) {
        assert!(z.len().is_multiple_of(8) && sums.iter().all(|sum| sum.len() == z.len()));
        assert!(pair.iter().all(|words| words.len() == z.len()));
        run_on(self.backend, AddProducts { ntt: self, sums, pair, z });
    }

    /// Digit `r` of each word in base 2^`bits`, as a residue. A word is read as a number between -p/2 and p/2, and a
    /// digit is between -2^(bits - 1) and 2^(bits - 1). Of the `count` digits the last one holds all that is left, so
    /// that word = Σ digit_r·2^(bits·r).
    ///
    /// # Panics
    /// If lengths differ, or there is no such digit in 64 bits.
    pub fn digit(&self, words: &[u64], bits: u32, r: usize, count: usize, out: &mut [u64]) {
        assert!(words.len() == out.len() && r < count && bits as usize * count < 64);
        run_on(self.backend, Digit { p: self.modulus.p(), words, bits, r, count, out });
    }

    /// `words[i]·f` modulo p, in place, where every word is below 2^52 and the results are residues.
    pub fn scale(&self, words: &mut [u64], f: Factor) {
        run_on(self.backend, Scale { ntt: self, words, factor: f });
    }

    /// Residues modulo `from`, read as numbers between -from/2 and from/2, into residues modulo p.
    ///
    /// # Panics
    /// If lengths differ or are no multiple of 8, or p is not above from/2.
    pub fn lift(&self, from: Modulus, words: &[u64], out: &mut [u64]) {
        assert!(words.len() == out.len() && words.len().is_multiple_of(8) && self.modulus.p() > from.p() / 2);
        run_on(self.backend, Lift { ntt: self, from, words, out });
    }

    /// Eight sums of products that share a factor, word by word and modulo p. Each pair is eight polynomials in rows
    /// ([`Ntt::forward_rows`]), and one polynomial that all eight are multiplied by.
    ///
    /// # Panics
    /// If there are more than [`TERMS`] pairs, or lengths differ.
    pub fn dot_rows(&self, pairs: &[(&[u64], &[u64])], out: &mut [u64]) {
        assert!(pairs.len() <= TERMS && out.len() == ROWS * self.n);
        assert!(pairs.iter().all(|(rows, one)| rows.len() == out.len() && one.len() == self.n));
        run_on(self.backend, DotRows { ntt: self, pairs, out });
    }
}

#[derive(Clone, Copy)]
enum Op {
    Add,
    Sub,
    Mul,
}

struct Each<'a> {
    ntt: &'a Ntt,
    out: &'a mut [u64],
    a: &'a [u64],
    what: Op,
}

impl Kernel for Each<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self { ntt, out, a, what } = self;
        let bounds = Bounds::<V>::of(ntt);
        assert!(out.len().is_multiple_of(V::WIDTH));
        for (out, a) in out.chunks_exact_mut(V::WIDTH).zip(a.chunks_exact(V::WIDTH)) {
            let (x, y) = (V::load(out), V::load(a));
            let z = match what {
                Op::Add => x.add(y).reduce_once(bounds.p),
                Op::Sub => x.sub(y).add(bounds.p).reduce_once(bounds.p),
                Op::Mul => {
                    let (lo, hi) = V::madd(V::splat(0), V::splat(0), x, y);
                    bounds.fold(ntt, lo, hi)
                }
            };
            z.store(out);
        }
    }
}

struct Scale<'a> {
    ntt: &'a Ntt,
    words: &'a mut [u64],
    factor: Factor,
}

impl Kernel for Scale<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let bounds = Bounds::<V>::of(self.ntt);
        let (w, quotient) = (V::splat(self.factor.factor), V::splat(self.factor.quotient));
        assert!(self.words.len().is_multiple_of(V::WIDTH));
        for words in self.words.chunks_exact_mut(V::WIDTH) {
            V::load(words).mul(w, quotient, bounds.p).reduce_once(bounds.p).store(words);
        }
    }
}

struct SubScale<'a> {
    ntt: &'a Ntt,
    out: &'a mut [u64],
    a: &'a [u64],
    factor: Factor,
}

impl Kernel for SubScale<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let bounds = Bounds::<V>::of(self.ntt);
        let (w, quotient) = (V::splat(self.factor.factor), V::splat(self.factor.quotient));
        assert!(self.out.len().is_multiple_of(V::WIDTH));
        for (out, a) in self.out.chunks_exact_mut(V::WIDTH).zip(self.a.chunks_exact(V::WIDTH)) {
            let difference = V::load(out).sub(V::load(a)).add(bounds.p);
            difference.mul(w, quotient, bounds.p).reduce_once(bounds.p).store(out);
        }
    }
}

struct Split<'a> {
    ntt: &'a Ntt,
    left: &'a mut [u64],
    a: &'a [u64],
    f: &'a [u64],
    right: &'a mut [u64],
}

impl Kernel for Split<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self { ntt, left, a, f, right } = self;
        let bounds = Bounds::<V>::of(ntt);
        assert!(left.len().is_multiple_of(V::WIDTH));
        let (a, f) = (a.chunks_exact(V::WIDTH), f.chunks_exact(V::WIDTH));
        let outs = left.chunks_exact_mut(V::WIDTH).zip(right.chunks_exact_mut(V::WIDTH));
        for ((left, right), (a, f)) in outs.zip(a.zip(f)) {
            let (x, y) = (V::load(left), V::load(a));
            x.add(y).reduce_once(bounds.p).store(left);
            // Below 2p, so the product counts as two.
            let difference = x.sub(y).add(bounds.p);
            let (lo, hi) = V::madd(V::splat(0), V::splat(0), difference, V::load(f));
            bounds.montgomery(lo, hi).reduce_once(bounds.p).store(right);
        }
    }
}

/// How many products [`Ntt::dot2`] can add up: the result of Montgomery's reduction is then below 4p.
pub const FEW: usize = 11;

/// Vectors of a sum that are computed together. Their sums, four each, stay in registers.
const TOGETHER: usize = 4;

struct Dot2<'a> {
    ntt: &'a Ntt,
    terms: &'a [[&'a [u64]; 3]],
    x_out: &'a mut [u64],
    y_out: &'a mut [u64],
}

impl Kernel for Dot2<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self { ntt, terms, x_out, y_out } = self;
        let bounds = Bounds::<V>::of(ntt);
        let length = TOGETHER * V::WIDTH;
        let outs = x_out.chunks_exact_mut(length).zip(y_out.chunks_exact_mut(length));
        for (i, (x_out, y_out)) in outs.enumerate() {
            let words = i * length..(i + 1) * length;
            // The low and high halves of both sums.
            let mut sums = [[V::splat(0); 4]; TOGETHER];
            for [x, y, z] in terms {
                let (x, y, z) = (&x[words.clone()], &y[words.clone()], &z[words.clone()]);
                for k in 0..TOGETHER {
                    let at = k * V::WIDTH;
                    let [x_lo, x_hi, y_lo, y_hi] = sums[k];
                    let z = V::load(&z[at..]);
                    let (x_lo, x_hi) = V::madd(x_lo, x_hi, V::load(&x[at..]), z);
                    let (y_lo, y_hi) = V::madd(y_lo, y_hi, V::load(&y[at..]), z);
                    sums[k] = [x_lo, x_hi, y_lo, y_hi];
                }
            }
            for k in 0..TOGETHER {
                let [x_lo, x_hi, y_lo, y_hi] = sums[k];
                bounds.reduce(bounds.montgomery(x_lo, x_hi)).store(&mut x_out[k * V::WIDTH..]);
                bounds.reduce(bounds.montgomery(y_lo, y_hi)).store(&mut y_out[k * V::WIDTH..]);
            }
        }
    }
}

struct AddProducts<'a> {
    ntt: &'a Ntt,
    sums: [&'a mut [u64]; 2],
    pair: [&'a [u64]; 2],
    z: &'a [u64],
}

impl Kernel for AddProducts<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self { ntt, sums: [x_sum, y_sum], pair: [x, y], z } = self;
        let bounds = Bounds::<V>::of(ntt);
        let sums = x_sum.chunks_exact_mut(V::WIDTH).zip(y_sum.chunks_exact_mut(V::WIDTH));
        let pairs = x.chunks_exact(V::WIDTH).zip(y.chunks_exact(V::WIDTH));
        for ((sums, pair), z) in sums.zip(pairs).zip(z.chunks_exact(V::WIDTH)) {
            let z = V::load(z);
            for (sum, word) in [(sums.0, pair.0), (sums.1, pair.1)] {
                let (lo, hi) = V::madd(V::splat(0), V::splat(0), V::load(word), z);
                let product = bounds.montgomery(lo, hi).reduce_once(bounds.p);
                V::load(sum).add(product).reduce_once(bounds.p).store(sum);
            }
        }
    }
}

struct Digit<'a> {
    p: u64,
    words: &'a [u64],
    bits: u32,
    r: usize,
    count: usize,
    out: &'a mut [u64],
}

impl Kernel for Digit<'_> {
    type Out = ();
    // Plain words: the compiler makes vectors of them, because this is inlined into the back end's function.
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self { p, words, bits, r, count, out } = self;
        let half = 1_u64 << (bits - 1);
        // With half of the base added to every digit, digits of centred numbers are not negative and need no carries. Only the
        // last may then reach the base itself.
        let halves: u64 = (0..count).map(|r| half << (bits as usize * r)).sum();
        let mask = if r + 1 == count { u64::MAX } else { (1 << bits) - 1 };
        let shift = bits as usize * r;
        for (out, &word) in out.iter_mut().zip(words) {
            // All ones if the word is more than half of p.
            let upper = (((p / 2).wrapping_sub(word)) as i64 >> 63) as u64;
            let centred = word.wrapping_sub(p & upper);
            let digit = ((centred.wrapping_add(halves) >> shift) & mask).wrapping_sub(half);
            *out = digit.wrapping_add(p & (digit as i64 >> 63) as u64);
        }
    }
}

struct Lift<'a> {
    ntt: &'a Ntt,
    from: Modulus,
    words: &'a [u64],
    out: &'a mut [u64],
}

impl Kernel for Lift<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let p = self.ntt.modulus.p();
        // x + half modulo `from` is the centred number plus half. Subtracting half gives a number above -p.
        let half = self.from.p() / 2;
        let (from, shift, down, p) = (V::splat(self.from.p()), V::splat(half), V::splat(p - half), V::splat(p));
        for (words, out) in self.words.chunks_exact(V::WIDTH).zip(self.out.chunks_exact_mut(V::WIDTH)) {
            V::load(words).add(shift).reduce_once(from).add(down).reduce_once(p).store(out);
        }
    }
}

struct DotRows<'a> {
    ntt: &'a Ntt,
    pairs: &'a [(&'a [u64], &'a [u64])],
    out: &'a mut [u64],
}

impl Kernel for DotRows<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self { ntt, pairs, out } = self;
        let bounds = Bounds::<V>::of(ntt);
        for (k, out) in out.chunks_exact_mut(ROWS).enumerate() {
            for at in (0..ROWS).step_by(V::WIDTH) {
                let (mut lo, mut hi) = (V::splat(0), V::splat(0));
                for (rows, one) in pairs {
                    (lo, hi) = V::madd(lo, hi, V::load(&rows[ROWS * k + at..]), V::splat(one[k]));
                }
                bounds.fold(ntt, lo, hi).store(&mut out[at..]);
            }
        }
    }
}
