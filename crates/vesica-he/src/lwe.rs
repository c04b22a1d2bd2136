//! Learning with errors over the ring R = Z[X]/(X^n + 1) modulo 2^32, as SimplePIR uses it: n = 1024 with a hint
//! ([`vesica_params::lwe::SIMPLE`]), and n = 2048 without one ([`vesica_params::lwe::PACKED`]).
//!
//! [HHCMV23] Henzinger, Hong, Corrigan-Gibbs, Meiklejohn, Vaikuntanathan, "One Server for the Price of Two", USENIX Security 2023,
//! eprint 2022/949; with the structured matrix of [MW24] Menon, Wu, "YPIR", USENIX Security 2024, eprint 2024/270, section 4.1.
//!
//!   a_b   a public element of R for each n columns        A   the matrix that stands for them, below
//!   s     a secret element of R                           e   secret errors, one a column
//!
//! A has a row for each column of the database. Row n·b + i and column j hold a_b[i - j] if i >= j, else -a_b[n + i - j], so
//! A·s is the list of the coefficients of all a_b·s. It is never written down: products in R go through the number-theoretic
//! transform modulo one prime P of 50 bits, where they are exact as long as they stay between -P/2 and P/2.
//!
//! What A·s + e hides rests on ring-LWE (the set says how well). A secret serves one query: the difference of two queries under the same s
//! would show which columns they are for. So a [`Secret`] is made together with the words that it hides, and cannot be copied.
//!
//! Public chance comes from a [`PublicSeed`] that everybody knows, secret chance from a [`SessionRng`]. They are different types, so that
//! a secret is never drawn from a public stream by mistake.

use vesica_block::{Block, prg::Prg};
use vesica_params::lwe::{LweSet, Packing};
use vesica_ring::matrix::Matrix;
use vesica_ring::{Modulus, Ntt, ROWS};
use vesica_session::SessionRng;
use zeroize::Zeroizing;

/// P: the largest prime below 2^50 that is 1 modulo 2·1024, and modulo 2·2048.
pub(crate) const P: u64 = (1 << 50) - 16383;

/// Words that are transformed for a row before they are added up. For eight rows they have 512 KiB, for the second-level cache.
const WORDS: usize = 8 << 10;

/// An element of R: n coefficients.
pub type Element = Vec<u32>;

/// What A is made of. It is public, and drawn anew whenever a database is prepared from the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublicSeed(pub [u8; 32]);

impl PublicSeed {
    /// a_b: AES-128 in counter mode under a key for each b, as FrodoKEM makes its matrix (section 2.2.4 of its specification).
    pub fn element(&self, set: &LweSet, b: usize) -> Element {
        let context = match set.packing {
            None => "vesica 2026 simple-pir matrix",
            Some(_) => "vesica 2026 packed simple-pir matrix",
        };
        self.drawn(context, set, b)
    }

    /// w_t: the public half of element t of a key.
    pub fn key_element(&self, set: &LweSet, t: usize) -> Element {
        self.drawn("vesica 2026 packed simple-pir keys", set, t)
    }

    fn drawn(&self, context: &str, set: &LweSet, number: usize) -> Element {
        let mut hash = blake3::Hasher::new_derive_key(context);
        hash.update(&self.0).update(&(number as u64).to_le_bytes());
        let key = hash.finalize().as_bytes()[..16].try_into().expect("16 bytes of 32");
        let mut bytes = vec![0; 4 * set.degree as usize];
        Prg::new(Block::from_le_bytes(key)).fill_bytes(&mut bytes);
        bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect()
    }
}

/// Row i of the matrix that stands for `a`, times `factor`, added to `sum`.
pub fn add_row(a: &[u32], i: usize, factor: i32, sum: &mut [u32]) {
    let (factor, n) = (factor as u32, a.len());
    for (j, sum) in sum.iter_mut().enumerate() {
        let cell = if i >= j { a[i - j] } else { a[n + i - j].wrapping_neg() };
        *sum = sum.wrapping_add(cell.wrapping_mul(factor));
    }
}

pub(crate) fn transform(set: &LweSet) -> Ntt {
    Ntt::new(Modulus::new(P), set.degree as usize)
}

/// A small signed number modulo P, in a time that does not depend on it.
pub(crate) fn residue(x: i32) -> u64 {
    let x = i64::from(x);
    (x + ((x >> 63) & P as i64)) as u64
}

/// The number from -P/2 to P/2 that a residue stands for, modulo 2^32, in a time that does not depend on it.
pub(crate) fn centre(x: u64) -> u32 {
    let negative = (P / 2).wrapping_sub(x) >> 63;
    (x as u32).wrapping_sub((P as u32).wrapping_mul(negative as u32))
}

/// The bits above the low `lost` ones, rounded to the nearest, and from the middle to the even one.
pub fn round(word: u32, lost: u32) -> u32 {
    word.wrapping_add((1 << (lost - 1)) - 1 + (word >> lost & 1)) >> lost
}

/// Numbers of the distribution of secrets and errors: the ones among fresh random bits, less half as many as these are. The same instructions
/// for each, and the same addresses. With 512 bits every number is from -256 to 256, with 4 of them from -2 to 2.
fn draw(set: &LweSet, rng: &mut SessionRng, take: impl FnMut(usize, i32), count: usize) {
    match set.flips {
        512 => draw_lines(rng, take, count),
        4 => draw_nibbles(rng, take, count),
        // Sets are parameters of this program.
        flips => unreachable!("a set with {flips} coins"),
    }
}

/// A line of the cache a number.
fn draw_lines(rng: &mut SessionRng, mut take: impl FnMut(usize, i32), count: usize) {
    let mut bytes = Zeroizing::new([0u8; 128 * 64]);
    for from in (0..count).step_by(128) {
        let now = (count - from).min(128);
        rng.fill(&mut bytes[..now * 64]);
        for (i, coins) in bytes.as_chunks::<64>().0[..now].iter().enumerate() {
            let ones: u32 = coins.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word).count_ones()).sum();
            take(from + i, ones as i32 - 256);
        }
    }
}

/// Half a byte a number, the low half first.
fn draw_nibbles(rng: &mut SessionRng, mut take: impl FnMut(usize, i32), count: usize) {
    let mut bytes = Zeroizing::new([0u8; 1024]);
    for from in (0..count).step_by(2048) {
        let now = (count - from).min(2048);
        rng.fill(&mut bytes[..now.div_ceil(2)]);
        for i in 0..now {
            let coins = i32::from(bytes[i / 2] >> (i % 2 * 4) & 15);
            let pairs = coins - (coins >> 1 & 5);
            take(from + i, (pairs & 3) + (pairs >> 2) - 2);
        }
    }
}

/// The secret of one query: used once, and wiped when it is dropped.
pub struct Secret(Zeroizing<Vec<i32>>);

impl Secret {
    fn new(set: &LweSet, rng: &mut SessionRng) -> Self {
        let mut s = Zeroizing::new(vec![0; set.degree as usize]);
        draw(set, rng, |i, x| s[i] = x, set.degree as usize);
        Self(s)
    }

    /// Its transform.
    fn values(&self, ntt: &Ntt) -> Zeroizing<Vec<u64>> {
        let mut values = Zeroizing::new(self.0.iter().map(|&x| residue(x)).collect::<Vec<_>>());
        ntt.forward(&mut values);
        values
    }

    /// The product of a row of the hint with s.
    pub fn times(&self, row: &[u32]) -> u32 {
        row.iter().zip(self.0.iter()).fold(0, |sum: u32, (word, &s)| sum.wrapping_add(word.wrapping_mul(s as u32)))
    }
}

/// A, made ready for a client's products.
pub struct ClientMatrix {
    set: &'static LweSet,
    ntt: Ntt,
    /// The transforms of all a_b, one behind the other, and with packing those of all w_t behind them.
    values: Vec<u64>,
}

impl ClientMatrix {
    /// The matrix of a seed, for so many columns: a multiple of the degree.
    pub fn new(set: &'static LweSet, seed: &PublicSeed, columns: usize) -> Self {
        let (ntt, degree) = (transform(set), set.degree as usize);
        let mut values = Vec::with_capacity(columns);
        let keys = set.packing.map_or(0, |packing| packing.digits as usize);
        let elements = (0..columns / degree).map(|b| seed.element(set, b));
        for element in elements.chain((0..keys).map(|t| seed.key_element(set, t))) {
            let from = values.len();
            values.extend(element.into_iter().map(|a| residue(a as i32)));
            ntt.forward(&mut values[from..]);
        }
        Self { set, ntt, values }
    }

    /// A fresh secret s, and A·s + e under fresh errors e: one word a column, which looks random to whoever has not s. With packing the key's
    /// words stand behind them: w_t·s + e_t + B_t·s(X^5) for each digit t.
    ///
    /// A coefficient of a_b·s is at most 2^31·Σ|s_j|, and Σ|s_j| is 2^12 at most, or below 2^18 unless all 2^19 coins fall on one side. So it
    /// is below P/2.
    pub fn hide_zeros(&self, rng: &mut SessionRng) -> (Secret, Vec<u32>) {
        let secret = Secret::new(self.set, rng);
        let mut words = self.products(&secret, &self.values);
        let count = words.len();
        draw(self.set, rng, |i, e| words[i] = words[i].wrapping_add(e as u32), count);
        if let Some(packing) = self.set.packing {
            let keys = count - (packing.digits * self.set.degree) as usize;
            add_key(&packing, &secret.0, &mut words[keys..]);
        }
        (secret, words)
    }

    /// The products of s with elements whose transforms stand one behind the other.
    fn products(&self, secret: &Secret, elements: &[u64]) -> Vec<u32> {
        let s = secret.values(&self.ntt);
        let mut words = Vec::with_capacity(elements.len());
        let mut product = Zeroizing::new(vec![0; s.len()]);
        for a in elements.chunks_exact(s.len()) {
            product.copy_from_slice(a);
            self.ntt.mul(&mut product, &s);
            self.ntt.inverse(&mut product);
            words.extend(product.iter().map(|&x| centre(x)));
        }
        words
    }

    /// a_b·s: what the words of columns n·b and up hid, without errors.
    pub fn hidden(&self, secret: &Secret, b: usize) -> Zeroizing<Vec<u32>> {
        let n = self.ntt.n();
        Zeroizing::new(self.products(secret, &self.values[n * b..][..n]))
    }

    /// The product of an element, such as a mask, with s.
    pub fn times(&self, secret: &Secret, element: &[u32]) -> Zeroizing<Vec<u32>> {
        let mut values: Vec<u64> = element.iter().map(|&a| residue(a as i32)).collect();
        self.ntt.forward(&mut values);
        Zeroizing::new(self.products(secret, &values))
    }
}

/// Adds B_t·s(X^5) to the words of each element t of a key. Where a coefficient goes depends on its place alone.
pub(crate) fn add_key(packing: &Packing, s: &[i32], words: &mut [u32]) {
    let n = s.len();
    for (t, words) in words.chunks_exact_mut(n).enumerate() {
        let weight = packing.weight(t);
        for (i, &s) in s.iter().enumerate() {
            let at = 5 * i % (2 * n);
            let (at, sign) = if at < n { (at, weight) } else { (at - n, weight.wrapping_neg()) };
            words[at] = words[at].wrapping_add((s as u32).wrapping_mul(sign));
        }
    }
}

/// A, made ready for the hint H = D·A.
///
/// Write D_{r,b} for the polynomial whose coefficients are the bytes of row r in columns n·b and up. Then row r of H has the
/// coefficients of Σ_b D_{r,b}·a_b(1/X), where a(1/X) = a[0] - a[n-1]·X - … - a[1]·X^(n-1). Each coefficient of a_b(1/X) is split into
/// low + 2^16·high, both from -2^15 to 2^15. Without that, a sum could reach 2^56 for some databases and wrap modulo P; with it, it is at
/// most 2^18·2^7·2^15 = 2^40 in absolute value.
pub struct ServerMatrix {
    ntt: Ntt,
    /// For each b the transforms of the low and of the high parts.
    values: Vec<[Vec<u64>; 2]>,
}

impl ServerMatrix {
    /// The matrix of a seed, for so many columns: a multiple of the degree.
    pub fn new(set: &LweSet, seed: &PublicSeed, columns: usize) -> Self {
        let (ntt, degree) = (transform(set), set.degree as usize);
        let values = (0..columns / degree).map(|b| {
            let a = seed.element(set, b);
            let reversed = |i: usize| if i == 0 { a[0] } else { a[degree - i].wrapping_neg() };
            let part = |of: fn(u32) -> i32| {
                let mut values: Vec<u64> = (0..degree).map(|i| residue(of(reversed(i)))).collect();
                ntt.forward(&mut values);
                values
            };
            [part(low), part(high)]
        });
        Self { values: values.collect(), ntt }
    }

    /// Eight rows of H, from row `row` on: a multiple of 8. Columns of the database beyond those of A do not count.
    pub fn hint_rows(&self, database: &Matrix, row: usize) -> Vec<Element> {
        let degree = self.ntt.n();
        let blocks = (WORDS / degree).min(self.values.len());
        let mut sums = [0, 1].map(|_| vec![0; ROWS * degree]);
        let mut sum = vec![0; ROWS * degree];
        let mut rows = vec![vec![0; ROWS * degree]; blocks];
        for (first, values) in self.values.chunks(blocks).enumerate() {
            for (b, rows) in rows.iter_mut().enumerate().take(values.len()) {
                database.eight_rows(row, (first * blocks + b) * degree, P, rows);
                self.ntt.forward_rows(rows);
            }
            for (part, sums) in sums.iter_mut().enumerate() {
                let pairs: Vec<(&[u64], &[u64])> =
                    rows.iter().zip(values).map(|(rows, values)| (rows.as_slice(), values[part].as_slice())).collect();
                self.ntt.dot_rows(&pairs, &mut sum);
                self.ntt.add(sums, &sum);
            }
        }
        sums.iter_mut().for_each(|sums| self.ntt.inverse_rows(sums));
        let [low, high] = sums;
        let word = |at: usize| centre(low[at]).wrapping_add(centre(high[at]) << 16);
        (0..ROWS).map(|r| (0..degree).map(|j| word(ROWS * j + r)).collect()).collect()
    }
}

/// The low 16 bits as a signed number.
pub(crate) fn low(a: u32) -> i32 {
    i32::from(a as i16)
}

/// What is above: a = low + 2^16·high modulo 2^32.
pub(crate) fn high(a: u32) -> i32 {
    i32::from((a.wrapping_sub(low(a) as u32) >> 16) as i16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_params::lwe::{PACKED, SIMPLE};
    use vesica_ring::matrix::Line;

    const DEGREE: usize = SIMPLE.degree as usize;

    const SEED: PublicSeed = PublicSeed([7; 32]);

    fn rng(seed: u8) -> SessionRng {
        SessionRng::from_seed(Zeroizing::new([seed; 32]))
    }

    fn database(rows: usize, columns: usize, byte: impl Fn(usize) -> u8) -> Matrix {
        let mut matrix = Matrix::new(rows, columns, vec![[Line::ZERO; 4]; Matrix::groups(rows, columns)]);
        for column in 0..columns {
            let cells: Vec<u8> = (0..rows).map(|row| byte(column * rows + row)).collect();
            matrix.write(0, column, &cells);
        }
        matrix
    }

    /// D·A by the definition, row `row`.
    fn hint_row(set: &LweSet, database: &Matrix, row: usize) -> Element {
        let degree = set.degree as usize;
        let mut sum = vec![0; degree];
        for b in 0..database.columns() / degree {
            let a = SEED.element(set, b);
            for i in 0..degree {
                let mut byte = [0];
                database.read(row, b * degree + i, &mut byte);
                add_row(&a, i, i32::from(byte[0] as i8), &mut sum);
            }
        }
        sum
    }

    #[test]
    fn the_hint_is_the_product_with_the_matrix() {
        for (set, columns, byte) in [
            (&SIMPLE, DEGREE, (|i| i.wrapping_mul(2_654_435_761) as u8 ^ (i >> 9) as u8) as fn(usize) -> u8),
            (&SIMPLE, 9 * DEGREE, |i| (i.wrapping_mul(2_654_435_761) >> 13) as u8),
            (&SIMPLE, 2 * DEGREE, |_| 0x80),
            (&SIMPLE, 2 * DEGREE, |_| 0x7f),
            (&PACKED, 10 * DEGREE, |i| (i.wrapping_mul(2_654_435_761) >> 13) as u8),
            (&PACKED, 2 * DEGREE, |_| 0x80),
        ] {
            let database = database(64, columns, byte);
            let matrix = ServerMatrix::new(set, &SEED, columns);
            for from in [0, 56] {
                let rows = matrix.hint_rows(&database, from);
                for r in [0, 7] {
                    assert!(rows[r] == hint_row(set, &database, from + r), "{columns} columns, row {}", from + r);
                }
            }
        }
    }

    /// The halves of every word are small and make it up, also where a carry runs from one to the other.
    #[test]
    fn words_are_split_into_small_halves() {
        for a in [0, 1, 0x7fff, 0x8000, 0xffff, 0x7fff_7fff, 0x7fff_8000, 0x8000_7fff, 0x8000_8000, u32::MAX] {
            assert_eq!((low(a) as u32).wrapping_add((high(a) as u32) << 16), a);
            assert!([low(a), high(a)].iter().all(|half| (-0x8000..0x8000).contains(half)), "{a:x}");
        }
    }

    #[test]
    fn what_is_left_of_a_hidden_zero_is_small_errors() {
        let columns = 2 * DEGREE;
        let (secret, words) = ClientMatrix::new(&SIMPLE, &SEED, columns).hide_zeros(&mut rng(1));
        let mut errors = Vec::new();
        for b in 0..2 {
            let a = SEED.element(&SIMPLE, b);
            for i in 0..DEGREE {
                let mut row = vec![0; DEGREE];
                add_row(&a, i, 1, &mut row);
                errors.push(words[b * DEGREE + i].wrapping_sub(secret.times(&row)) as i32);
            }
        }
        let sd = |numbers: &[i32]| {
            (numbers.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / numbers.len() as f64).sqrt()
        };
        assert!((10.3..12.3).contains(&sd(&errors)), "{}", sd(&errors));
        assert!((10.0..12.6).contains(&sd(&secret.0)), "{}", sd(&secret.0));
        assert!(errors.iter().all(|e| e.abs() < 100));
    }

    #[test]
    fn every_secret_is_fresh() {
        let matrix = ClientMatrix::new(&SIMPLE, &SEED, DEGREE);
        let mut rng = rng(2);
        let ((s, words), (t, others)) = (matrix.hide_zeros(&mut rng), matrix.hide_zeros(&mut rng));
        let same = |a: &[u32], b: &[u32]| a.iter().zip(b).filter(|(a, b)| a == b).count();
        assert!(s.0.iter().zip(t.0.iter()).filter(|(a, b)| a == b).count() < 100 && same(&words, &others) < 10);
    }

    /// The mean, the variance and the fourth moment of the distribution; 2^16 numbers, four standard deviations of each.
    #[test]
    fn numbers_are_drawn_from_the_binomial() {
        let mut numbers = vec![0; 1 << 16];
        draw(&SIMPLE, &mut rng(3), |i, x| numbers[i] = x, 1 << 16);
        let moment = |k: i32| numbers.iter().map(|x| f64::from(*x).powi(k)).sum::<f64>() / 65536.0;
        assert!(moment(1).abs() < 0.18, "{}", moment(1));
        assert!((moment(2) - 128.0).abs() < 2.9, "{}", moment(2));
        assert!((moment(4) / (3.0 * 128.0 * 128.0) - 1.0).abs() < 0.06, "{}", moment(4));
    }

    /// With four coins there are five numbers, 1, 4, 6, 4 and 1 of 16. 2^16 + 1 numbers, five standard deviations.
    #[test]
    fn small_numbers_are_drawn_from_the_binomial() {
        const COUNT: usize = (1 << 16) + 1;
        let mut numbers = vec![9; COUNT];
        draw(&PACKED, &mut rng(4), |i, x| numbers[i] = x, COUNT);
        for (number, of_16) in [(-2, 1.0), (-1, 4.0), (0, 6.0), (1, 4.0), (2, 1.0)] {
            let (is, share) = (numbers.iter().filter(|&&x| x == number).count() as f64, of_16 / 16.0);
            let sd = (COUNT as f64 * share * (1.0 - share)).sqrt();
            assert!((is - COUNT as f64 * share).abs() < 5.0 * sd, "{number}: {is}");
        }
        // Each number is made of four coins of its own.
        let (mut coins, mut from) = (vec![0; COUNT.div_ceil(2)], rng(4));
        coins.chunks_mut(1024).for_each(|coins| from.fill(coins));
        let ones = |i: usize| (coins[i / 2] >> (i % 2 * 4) & 15).count_ones() as i32;
        assert!(numbers.iter().enumerate().all(|(i, &x)| x == ones(i) - 2));
    }

    #[test]
    fn elements_depend_on_seed_and_place() {
        assert_ne!(SEED.element(&SIMPLE, 0), SEED.element(&SIMPLE, 1));
        assert_ne!(SEED.element(&SIMPLE, 0), PublicSeed([8; 32]).element(&SIMPLE, 0));
    }
}
