//! Polynomials modulo a product of primes, as one polynomial for each prime (a *limb*).
//!
//! A polynomial over k limbs is k·n words, limb after limb: n residues modulo the basis's first prime, then modulo its
//! second, and so on. It is in coefficient form or in evaluation form ([`Ntt`]), which the caller keeps apart.

use crate::ntt::Ntt;
use crate::prime::{Factor, Modulus};
use vesica_cpu::Backend;

/// Several primes and one n.
pub struct Basis {
    limbs: Vec<Ntt>,
    step: u64,
    /// For each limb that may be dropped: 1/step modulo it, and for each limb before it, 1 over the dropped prime.
    drops: Vec<(Factor, Vec<Factor>)>,
    /// `step` modulo each limb.
    steps: Vec<Factor>,
}

impl Basis {
    /// The basis of these primes. What is rounded away by [`Basis::drop_last`] is a multiple of `step`.
    ///
    /// # Panics
    /// If the numbers do not fit [`Ntt::new`], two primes are the same, or one is no more than half of another.
    pub fn new(primes: &[u64], n: usize, step: u64) -> Self {
        Self::on(Backend::chosen(), primes, n, step)
    }

    pub(crate) fn on(backend: Backend, primes: &[u64], n: usize, step: u64) -> Self {
        let moduli: Vec<Modulus> = primes.iter().map(|&p| Modulus::new(p)).collect();
        let drops = moduli.iter().enumerate().map(|(k, last)| {
            let before = moduli[..k].iter().map(|m| m.factor(m.inverse(last.p()))).collect();
            (last.factor(last.inverse(step)), before)
        });
        Self {
            drops: drops.collect(),
            steps: moduli.iter().map(|m| m.factor(step)).collect(),
            limbs: moduli.into_iter().map(|m| Ntt::on(backend, m, n)).collect(),
            step,
        }
    }

    /// Coefficients of a polynomial.
    pub fn n(&self) -> usize {
        self.limbs[0].n()
    }

    /// How many primes there are.
    pub fn limbs(&self) -> usize {
        self.limbs.len()
    }

    /// The transform modulo prime `i`.
    pub fn limb(&self, i: usize) -> &Ntt {
        &self.limbs[i]
    }

    /// The limbs of a polynomial over the first primes, each with its transform.
    pub fn each<'a>(&'a self, words: &'a mut [u64]) -> impl Iterator<Item = (&'a Ntt, &'a mut [u64])> {
        assert!(words.len().is_multiple_of(self.n()) && words.len() <= self.limbs() * self.n());
        self.limbs.iter().zip(words.chunks_exact_mut(self.n()))
    }

    /// Coefficients to values, in place.
    pub fn forward(&self, words: &mut [u64]) {
        self.each(words).for_each(|(ntt, limb)| ntt.forward(limb));
    }

    /// Values to coefficients, in place.
    pub fn inverse(&self, words: &mut [u64]) {
        self.each(words).for_each(|(ntt, limb)| ntt.inverse(limb));
    }

    /// `sum + a`, into `sum`.
    pub fn add(&self, sum: &mut [u64], a: &[u64]) {
        self.each(sum).zip(a.chunks_exact(self.n())).for_each(|((ntt, limb), a)| ntt.add(limb, a));
    }

    /// `difference - a`, into `difference`.
    pub fn sub(&self, difference: &mut [u64], a: &[u64]) {
        self.each(difference).zip(a.chunks_exact(self.n())).for_each(|((ntt, limb), a)| ntt.sub(limb, a));
    }

    /// `product·a` in evaluation form, into `product`.
    pub fn mul(&self, product: &mut [u64], a: &[u64]) {
        self.each(product).zip(a.chunks_exact(self.n())).for_each(|((ntt, limb), a)| ntt.mul(limb, a));
    }

    /// A polynomial in evaluation form into Montgomery's form ([`Ntt::to_montgomery`]), in place.
    pub fn to_montgomery(&self, words: &mut [u64]) {
        self.each(words).for_each(|(ntt, limb)| ntt.to_montgomery(limb));
    }

    /// `left + a` into `left`, and `(left - a)·f` into `right`. All are in evaluation form, and f in Montgomery's form.
    pub fn split(&self, left: &mut [u64], a: &[u64], f: &[u64], right: &mut [u64]) {
        let n = self.n();
        let rest = a.chunks_exact(n).zip(f.chunks_exact(n)).zip(right.chunks_exact_mut(n));
        self.each(left).zip(rest).for_each(|((ntt, left), ((a, f), right))| ntt.split(left, a, f, right));
    }

    /// Adds `x·z` to x's sum and `y·z` to y's, for the pair [x, y]. All are in evaluation form, and z in Montgomery's
    /// form.
    pub fn add_products(&self, [x_sum, y_sum]: [&mut [u64]; 2], [x, y]: [&[u64]; 2], z: &[u64]) {
        let n = self.n();
        let sums = self.each(x_sum).zip(y_sum.chunks_exact_mut(n));
        let terms = x.chunks_exact(n).zip(y.chunks_exact(n)).zip(z.chunks_exact(n));
        sums.zip(terms).for_each(|(((ntt, x_sum), y_sum), ((x, y), z))| ntt.add_products([x_sum, y_sum], [x, y], z));
    }

    /// n signed numbers as residues modulo the first `limbs` primes, which are larger than each number without its sign.
    /// The time does not depend on the numbers.
    pub fn signed(&self, limbs: usize, numbers: &[i64]) -> Vec<u64> {
        assert_eq!(numbers.len(), self.n());
        let mut out = vec![0; limbs * self.n()];
        for (ntt, limb) in self.each(&mut out) {
            let p = ntt.modulus().p();
            for (out, &x) in limb.iter_mut().zip(numbers) {
                *out = (x as u64).wrapping_add(p & (x >> 63) as u64);
            }
        }
        out
    }

    /// Divides a polynomial in evaluation form by the prime of its last limb, which goes: (c - d)/q, where d is the
    /// multiple of `step` that is c modulo q and of which d/step is at most q/2. With `step` 1 this is rounding.
    pub fn drop_last(&self, words: &mut Vec<u64>) {
        let n = self.n();
        let k = words.len() / n - 1;
        let mut tail = words.split_off(k * n);
        let mut rest = vec![0; n];
        self.remainder(k, &mut tail);
        for (i, limb) in words.chunks_exact_mut(n).enumerate() {
            self.divide(k, i, &tail, &mut rest, limb);
        }
    }

    /// The first half of [`Basis::drop_last`]: from limb `k` of c in evaluation form, in place, the coefficients of
    /// d/step.
    pub fn remainder(&self, k: usize, tail: &mut [u64]) {
        self.limbs[k].inverse(tail);
        if self.step != 1 {
            self.limbs[k].scale(tail, self.drops[k].0);
        }
    }

    /// The second half, for limb `i` of c, in place: (c - d)/q for the prime q of limb `k`. `tail` is what
    /// [`Basis::remainder`] made, and `rest` is memory for n words.
    pub fn divide(&self, k: usize, i: usize, tail: &[u64], rest: &mut [u64], limb: &mut [u64]) {
        let ntt = &self.limbs[i];
        ntt.lift(self.limbs[k].modulus(), tail, rest);
        ntt.forward(rest);
        if self.step != 1 {
            ntt.scale(rest, self.steps[i]);
        }
        ntt.sub_scale(limb, rest, self.drops[k].1[i]);
    }

    /// For odd g, where the values of f(X^g) are found among those of f: value k of the former is value `map[k]` of the
    /// latter.
    pub fn automorphism(&self, g: usize) -> Vec<u32> {
        let (n, ntt) = (self.n(), &self.limbs[0]);
        let mut place = vec![0; 2 * n];
        (0..n).for_each(|k| place[ntt.exponent(k)] = k as u32);
        (0..n).map(|k| place[ntt.exponent(k) * g % (2 * n)]).collect()
    }

    /// The polynomial whose values stand where `map` says ([`Basis::automorphism`]), into `out`.
    pub fn permute(&self, map: &[u32], words: &[u64], out: &mut [u64]) {
        assert_eq!(words.len(), out.len());
        for (from, to) in words.chunks_exact(self.n()).zip(out.chunks_exact_mut(self.n())) {
            for (to, &k) in to.iter_mut().zip(map) {
                *to = from[k as usize];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigInt;

    const N: usize = 64;

    fn primes() -> [u64; 3] {
        [1125889168998401, 1125874136383489, 1125899904679937]
    }

    fn product(limbs: usize) -> BigInt {
        primes()[..limbs].iter().map(|&p| BigInt::from(p)).product()
    }

    /// Numbers below the product of the primes that look random.
    fn numbers(limbs: usize) -> Vec<BigInt> {
        let factor: BigInt = (BigInt::from(1) << 150) / 3 * 2 + 12345;
        let first = BigInt::from(987654321) << 120;
        let next = |x: &BigInt| Some((x * &factor + 1) % product(limbs));
        std::iter::successors(Some(first % product(limbs)), next).take(N).collect()
    }

    fn residues(limbs: usize, numbers: &[BigInt]) -> Vec<u64> {
        let residue = |x: &BigInt, p: u64| {
            let p = BigInt::from(p);
            u64::try_from(((x % &p) + &p) % &p).unwrap()
        };
        primes()[..limbs].iter().flat_map(|&p| numbers.iter().map(move |x| residue(x, p))).collect()
    }

    /// The result of dropping a limb is the quotient by definition, for rounding and for a step.
    #[test]
    fn dropping_a_limb_is_dividing_by_its_prime() {
        for step in [1, 65537, 1 << 12] {
            let basis = Basis::new(&primes(), N, step);
            for limbs in [2, 3] {
                let numbers = numbers(limbs);
                let last = BigInt::from(primes()[limbs - 1]);
                let half = &last / 2;
                let inverse = BigInt::from(step).modpow(&(&last - 2), &last);
                let expected: Vec<BigInt> = numbers
                    .iter()
                    .map(|x| {
                        let mut rest = x * &inverse % &last;
                        if rest > half {
                            rest -= &last;
                        }
                        let dropped = x - rest * step;
                        assert_eq!(&dropped % &last, BigInt::from(0));
                        dropped / &last
                    })
                    .collect();
                let mut words = residues(limbs, &numbers);
                basis.forward(&mut words);
                basis.drop_last(&mut words);
                basis.inverse(&mut words);
                assert_eq!(words, residues(limbs - 1, &expected), "step {step}, {limbs} limbs");
            }
        }
    }

    #[test]
    fn sums_and_products_are_those_of_big_integers() {
        let basis = Basis::new(&primes(), N, 1);
        let a = numbers(3);
        let b: Vec<BigInt> = a.iter().rev().map(|x| x * 7 % product(3)).collect();
        let mut expected = vec![BigInt::from(0); N];
        for (i, x) in a.iter().enumerate() {
            for (j, y) in b.iter().enumerate() {
                let sign = if i + j < N { 1 } else { -1 };
                expected[(i + j) % N] += x * y * sign;
            }
        }
        let (mut x, mut y) = (residues(3, &a), residues(3, &b));
        let mut sum = x.clone();
        basis.add(&mut sum, &y);
        // Sum and scaled difference at once are what they are one by one.
        let (mut left, mut difference, mut right, mut factor) = (x.clone(), x.clone(), y.clone(), x.clone());
        basis.to_montgomery(&mut factor);
        basis.split(&mut left, &y, &factor, &mut right);
        basis.sub(&mut difference, &y);
        basis.mul(&mut difference, &x);
        assert!(left == sum && right == difference);
        // So are a pair's products with one polynomial, added to what is there.
        let (mut x_sum, mut y_sum) = (y.clone(), x.clone());
        basis.add_products([&mut x_sum, &mut y_sum], [&x, &y], &factor);
        for (sum, before, by) in [(x_sum, &y, &x), (y_sum, &x, &y)] {
            let mut product = x.clone();
            basis.mul(&mut product, by);
            basis.add(&mut product, before);
            assert_eq!(sum, product);
        }
        assert_eq!(sum, residues(3, &a.iter().zip(&b).map(|(a, b)| a + b).collect::<Vec<_>>()));
        basis.sub(&mut sum, &y);
        assert_eq!(sum, x);
        basis.forward(&mut x);
        basis.forward(&mut y);
        basis.mul(&mut x, &y);
        basis.inverse(&mut x);
        assert_eq!(x, residues(3, &expected));
    }

    #[test]
    fn an_automorphism_moves_coefficients_and_its_inverse_moves_them_back() {
        let basis = Basis::new(&primes(), N, 1);
        let small: Vec<i64> = (0..N as i64).map(|i| i * i - 1000).collect();
        for g in [3, N / 2 + 1, N + 1, 2 * N - 1] {
            let mut words = basis.signed(2, &small);
            basis.forward(&mut words);
            let permuted = |g: usize, words: &[u64]| {
                let mut out = vec![0; words.len()];
                basis.permute(&basis.automorphism(g), words, &mut out);
                out
            };
            let mut moved = permuted(g, &words);
            let back = (1..2 * N).step_by(2).find(|h| g * h % (2 * N) == 1).unwrap();
            assert_eq!(permuted(back, &moved), words);
            basis.inverse(&mut moved);
            let mut expected = vec![0; N];
            for (i, &x) in small.iter().enumerate() {
                let at = i * g % (2 * N);
                expected[at % N] = if at < N { x } else { -x };
            }
            assert_eq!(moved, basis.signed(2, &expected), "g = {g}");
        }
    }
}
