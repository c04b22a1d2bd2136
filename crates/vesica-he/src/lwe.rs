//! Learning with errors over the ring R = Z[X]/(X^1024 + 1) modulo 2^32, as SimplePIR uses it.
//!
//! [HHCMV23] Henzinger, Hong, Corrigan-Gibbs, Meiklejohn, Vaikuntanathan, "One Server for the Price of Two", USENIX Security 2023,
//! eprint 2022/949; with the structured matrix of [MW24] Menon, Wu, "YPIR", USENIX Security 2024, eprint 2024/270, section 4.1.
//!
//!   a_b   a public element of R for each 1024 columns     A   the matrix that stands for them, below
//!   s     a secret element of R                           e   secret errors, one a column
//!
//! A has a row for each column of the database. Row 1024·b + i and column j hold a_b[i - j] if i >= j, else -a_b[1024 + i - j], so
//! A·s is the list of the coefficients of all a_b·s. It is never written down: products in R go through the number-theoretic
//! transform modulo one prime P of 50 bits, where they are exact as long as they stay between -P/2 and P/2.
//!
//! What A·s + e hides rests on ring-LWE ([`vesica_params::lwe::SIMPLE`] says how well). A secret serves one query: the
//! difference of two queries under the same s would show which columns they are for. So a [`Secret`] is made together with the words
//! that it hides, and cannot be copied.
//!
//! Public chance comes from a [`PublicSeed`] that everybody knows, secret chance from a [`SessionRng`]. They are different types, so that
//! a secret is never drawn from a public stream by mistake.

use vesica_block::{Block, prg::Prg};
use vesica_params::lwe::SIMPLE;
use vesica_ring::matrix::Matrix;
use vesica_ring::{Modulus, Ntt, ROWS};
use vesica_session::SessionRng;
use zeroize::Zeroizing;

/// n: the degree of the ring, and the columns of A.
pub const DEGREE: usize = SIMPLE.degree as usize;

/// P: the largest prime below 2^50 that is 1 modulo 2·1024.
const P: u64 = (1 << 50) - 16383;

/// Blocks that are transformed before they are added up: 512 KiB of words, for the second-level cache.
const BLOCKS: usize = 8;

/// An element of R.
pub type Element = [u32; DEGREE];

/// What A is made of. It is public, and drawn anew whenever a database is prepared from the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublicSeed(pub [u8; 32]);

impl PublicSeed {
    /// a_b: AES-128 in counter mode under a key for each b, as FrodoKEM makes its matrix (section 2.2.4 of its specification).
    pub fn element(&self, b: usize) -> Element {
        let mut hash = blake3::Hasher::new_derive_key("vesica 2026 simple-pir matrix");
        hash.update(&self.0).update(&(b as u64).to_le_bytes());
        let key = hash.finalize().as_bytes()[..16].try_into().expect("16 bytes of 32");
        let mut bytes = [0; 4 * DEGREE];
        Prg::new(Block::from_le_bytes(key)).fill_bytes(&mut bytes);
        let mut words = bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word));
        std::array::from_fn(|_| words.next().expect("four bytes a word"))
    }
}

/// Row i of the matrix that stands for `a`, times `factor`, added to `sum`.
pub fn add_row(a: &Element, i: usize, factor: i32, sum: &mut [u32]) {
    let factor = factor as u32;
    for (j, sum) in sum.iter_mut().enumerate() {
        let cell = if i >= j { a[i - j] } else { a[DEGREE + i - j].wrapping_neg() };
        *sum = sum.wrapping_add(cell.wrapping_mul(factor));
    }
}

fn transform() -> Ntt {
    Ntt::new(Modulus::new(P), DEGREE)
}

/// A small signed number modulo P, in a time that does not depend on it.
fn residue(x: i32) -> u64 {
    let x = i64::from(x);
    (x + ((x >> 63) & P as i64)) as u64
}

/// The number from -P/2 to P/2 that a residue stands for, modulo 2^32, in a time that does not depend on it.
fn centre(x: u64) -> u32 {
    let negative = (P / 2).wrapping_sub(x) >> 63;
    (x as u32).wrapping_sub((P as u32).wrapping_mul(negative as u32))
}

/// Numbers of the distribution of secrets and errors: the ones among 512 fresh random bits, less 256. A line of the cache a number, and
/// the same instructions for each. Every number is from -256 to 256, with variance 128.
fn draw(rng: &mut SessionRng, mut take: impl FnMut(usize, i32), count: usize) {
    const BYTES: usize = SIMPLE.flips as usize / 8;
    let mut bytes = Zeroizing::new([0u8; 128 * BYTES]);
    for from in (0..count).step_by(128) {
        let now = (count - from).min(128);
        rng.fill(&mut bytes[..now * BYTES]);
        for (i, coins) in bytes.as_chunks::<BYTES>().0[..now].iter().enumerate() {
            let ones: u32 = coins.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word).count_ones()).sum();
            take(from + i, ones as i32 - SIMPLE.flips as i32 / 2);
        }
    }
}

/// The secret of one query: used once, and wiped when it is dropped.
pub struct Secret(Zeroizing<[i32; DEGREE]>);

impl Secret {
    fn new(rng: &mut SessionRng) -> Self {
        let mut s = Zeroizing::new([0; DEGREE]);
        draw(rng, |i, x| s[i] = x, DEGREE);
        Self(s)
    }

    /// The product of a row of the hint with s.
    pub fn times(&self, row: &[u32]) -> u32 {
        row.iter().zip(self.0.iter()).fold(0, |sum: u32, (word, &s)| sum.wrapping_add(word.wrapping_mul(s as u32)))
    }
}

/// A, made ready for a client's products.
pub struct ClientMatrix {
    ntt: Ntt,
    /// The transforms of all a_b, one behind the other.
    values: Vec<u64>,
}

impl ClientMatrix {
    /// The matrix of a seed, for so many columns: a multiple of 1024.
    pub fn new(seed: &PublicSeed, columns: usize) -> Self {
        let ntt = transform();
        let mut values = Vec::with_capacity(columns);
        for b in 0..columns / DEGREE {
            let from = values.len();
            values.extend(seed.element(b).map(|a| residue(a as i32)));
            ntt.forward(&mut values[from..]);
        }
        Self { ntt, values }
    }

    /// A fresh secret s, and A·s + e under fresh errors e: one word a column, which looks random to whoever has not s.
    ///
    /// A coefficient of a_b·s is at most 2^31·Σ|s_j|, and Σ|s_j| < 2^18 unless all 2^19 coins fall on one side. So it is below P/2.
    pub fn hide_zeros(&self, rng: &mut SessionRng) -> (Secret, Vec<u32>) {
        let secret = Secret::new(rng);
        let mut s = Zeroizing::new(secret.0.map(residue));
        self.ntt.forward(s.as_mut());
        let mut words = Vec::with_capacity(self.values.len());
        let mut product = Zeroizing::new([0; DEGREE]);
        for a in self.values.chunks_exact(DEGREE) {
            product.copy_from_slice(a);
            self.ntt.mul(product.as_mut(), s.as_ref());
            self.ntt.inverse(product.as_mut());
            words.extend(product.iter().map(|&x| centre(x)));
        }
        let count = words.len();
        draw(rng, |i, e| words[i] = words[i].wrapping_add(e as u32), count);
        (secret, words)
    }
}

/// A, made ready for the hint H = D·A.
///
/// Write D_{r,b} for the polynomial whose coefficients are the bytes of row r in columns 1024·b and up. Then row r of H has the
/// coefficients of Σ_b D_{r,b}·a_b(1/X), where a(1/X) = a[0] - a[1023]·X - … - a[1]·X^1023. Each coefficient of a_b(1/X) is split into
/// low + 2^16·high, both from -2^15 to 2^15. Without that, a sum could reach 2^56 for some databases and wrap modulo P; with it, it is at
/// most 2^18·2^7·2^15 = 2^40 in absolute value.
pub struct ServerMatrix {
    ntt: Ntt,
    /// For each b the transforms of the low and of the high parts.
    values: Vec<[Vec<u64>; 2]>,
}

impl ServerMatrix {
    /// The matrix of a seed, for so many columns: a multiple of 1024.
    pub fn new(seed: &PublicSeed, columns: usize) -> Self {
        let ntt = transform();
        let values = (0..columns / DEGREE).map(|b| {
            let a = seed.element(b);
            let reversed = |i: usize| if i == 0 { a[0] } else { a[DEGREE - i].wrapping_neg() };
            let part = |of: fn(u32) -> i32| {
                let mut values: Vec<u64> = (0..DEGREE).map(|i| residue(of(reversed(i)))).collect();
                ntt.forward(&mut values);
                values
            };
            [part(low), part(high)]
        });
        Self { values: values.collect(), ntt }
    }

    /// Eight rows of H, from row `row` on: a multiple of 8.
    pub fn hint_rows(&self, database: &Matrix, row: usize) -> Vec<Element> {
        let mut sums = [0, 1].map(|_| vec![0; ROWS * DEGREE]);
        let mut sum = vec![0; ROWS * DEGREE];
        let mut rows = vec![vec![0; ROWS * DEGREE]; BLOCKS];
        for (first, values) in self.values.chunks(BLOCKS).enumerate() {
            for (b, rows) in rows.iter_mut().enumerate().take(values.len()) {
                database.eight_rows(row, (first * BLOCKS + b) * DEGREE, P, rows);
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
        (0..ROWS).map(|r| std::array::from_fn(|j| word(ROWS * j + r))).collect()
    }
}

/// The low 16 bits as a signed number.
fn low(a: u32) -> i32 {
    i32::from(a as i16)
}

/// What is above: a = low + 2^16·high modulo 2^32.
fn high(a: u32) -> i32 {
    i32::from((a.wrapping_sub(low(a) as u32) >> 16) as i16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_ring::matrix::Line;

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
    fn hint_row(database: &Matrix, row: usize) -> Element {
        let mut sum = [0; DEGREE];
        for b in 0..database.columns() / DEGREE {
            let a = SEED.element(b);
            for i in 0..DEGREE {
                let mut byte = [0];
                database.read(row, b * DEGREE + i, &mut byte);
                add_row(&a, i, i32::from(byte[0] as i8), &mut sum);
            }
        }
        sum
    }

    #[test]
    fn the_hint_is_the_product_with_the_matrix() {
        for (columns, byte) in [
            (DEGREE, (|i| i.wrapping_mul(2_654_435_761) as u8 ^ (i >> 9) as u8) as fn(usize) -> u8),
            (9 * DEGREE, |i| (i.wrapping_mul(2_654_435_761) >> 13) as u8),
            (2 * DEGREE, |_| 0x80),
            (2 * DEGREE, |_| 0x7f),
        ] {
            let database = database(64, columns, byte);
            let matrix = ServerMatrix::new(&SEED, columns);
            for from in [0, 56] {
                let rows = matrix.hint_rows(&database, from);
                for r in [0, 7] {
                    assert!(rows[r] == hint_row(&database, from + r), "{columns} columns, row {}", from + r);
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
        let (secret, words) = ClientMatrix::new(&SEED, columns).hide_zeros(&mut rng(1));
        let mut errors = Vec::new();
        for b in 0..2 {
            let a = SEED.element(b);
            for i in 0..DEGREE {
                let mut row = [0; DEGREE];
                add_row(&a, i, 1, &mut row);
                errors.push(words[b * DEGREE + i].wrapping_sub(secret.times(&row)) as i32);
            }
        }
        let sd = |numbers: &[i32]| {
            (numbers.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / numbers.len() as f64).sqrt()
        };
        assert!((10.3..12.3).contains(&sd(&errors)), "{}", sd(&errors));
        assert!((10.0..12.6).contains(&sd(secret.0.as_ref())), "{}", sd(secret.0.as_ref()));
        assert!(errors.iter().all(|e| e.abs() < 100));
    }

    #[test]
    fn every_secret_is_fresh() {
        let matrix = ClientMatrix::new(&SEED, DEGREE);
        let mut rng = rng(2);
        let ((s, words), (t, others)) = (matrix.hide_zeros(&mut rng), matrix.hide_zeros(&mut rng));
        let same = |a: &[u32], b: &[u32]| a.iter().zip(b).filter(|(a, b)| a == b).count();
        assert!(s.0.iter().zip(t.0.iter()).filter(|(a, b)| a == b).count() < 100 && same(&words, &others) < 10);
    }

    /// The mean, the variance and the fourth moment of the distribution; 2^16 numbers, four standard deviations of each.
    #[test]
    fn numbers_are_drawn_from_the_binomial() {
        let mut numbers = vec![0; 1 << 16];
        draw(&mut rng(3), |i, x| numbers[i] = x, 1 << 16);
        let moment = |k: i32| numbers.iter().map(|x| f64::from(*x).powi(k)).sum::<f64>() / 65536.0;
        assert!(moment(1).abs() < 0.18, "{}", moment(1));
        assert!((moment(2) - 128.0).abs() < 2.9, "{}", moment(2));
        assert!((moment(4) / (3.0 * 128.0 * 128.0) - 1.0).abs() < 0.06, "{}", moment(4));
    }

    #[test]
    fn elements_depend_on_seed_and_place() {
        assert_ne!(SEED.element(0), SEED.element(1));
        assert_ne!(SEED.element(0), PublicSeed([8; 32]).element(0));
    }
}
