use super::*;
use num_bigint::BigInt;

/// 1 modulo 2^17, 2^15 and 2^14; the last is SimplePIR's.
const PRIMES: [u64; 4] = [1125899906629633, 1125899904679937, 1125889168998401, (1 << 50) - 16383];

/// Words that look random, by a fixed linear recurrence (Knuth's MMIX constants).
pub fn words(count: usize, below: u64, seed: u64) -> Vec<u64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 32
    };
    (0..count).map(|_| (next() << 32 | next()) % below).collect()
}

fn all(n: usize) -> impl Iterator<Item = Ntt> {
    let primes = PRIMES.into_iter().filter(move |p| (p - 1).is_multiple_of(2 * n as u64));
    primes.flat_map(move |p| Backend::available().into_iter().map(move |b| Ntt::on(b, Modulus::new(p), n)))
}

/// The product modulo X^n + 1 by definition.
fn schoolbook(m: Modulus, a: &[u64], b: &[u64]) -> Vec<u64> {
    let n = a.len();
    let mut out = vec![0; n];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            let product = m.mul(x, y);
            let at = (i + j) % n;
            out[at] = if i + j < n { m.add(out[at], product) } else { m.sub(out[at], product) };
        }
    }
    out
}

/// The same over the integers: both polynomials become one number each, with room of 2^128 for a coefficient of the product.
fn by_big_integers(m: Modulus, a: &[u64], b: &[u64]) -> Vec<u64> {
    let pack = |words: &[u64]| {
        let digits = words.iter().flat_map(|&w| [w as u32, (w >> 32) as u32, 0, 0]).collect();
        BigInt::from(num_bigint::BigUint::new(digits))
    };
    let mut digits = (pack(a) * pack(b)).magnitude().to_u32_digits();
    digits.resize(8 * a.len(), 0);
    let coefficient = |i: usize| {
        let at = &digits[4 * i..];
        m.reduce((0..4).map(|j| u128::from(at[j]) << (32 * j)).sum())
    };
    (0..a.len()).map(|i| m.sub(coefficient(i), coefficient(i + a.len()))).collect()
}

#[test]
fn values_are_those_at_the_powers_that_are_promised() {
    for n in [64, 128, 256] {
        for ntt in all(n) {
            let m = ntt.modulus();
            let a = words(n, m.p(), 1);
            let psi = m.root(2 * n as u64);
            let mut values = a.clone();
            ntt.forward(&mut values);
            for k in 0..n {
                let x = m.pow(psi, ntt.exponent(k) as u64);
                let expected = a.iter().rev().fold(0, |sum, &c| m.add(m.mul(sum, x), c));
                assert_eq!(values[k], expected, "n = {n}, value {k}, {}", ntt.backend);
            }
            ntt.inverse(&mut values);
            assert_eq!(values, a, "n = {n}, {}", ntt.backend);
        }
    }
}

#[test]
fn products_are_those_of_the_schoolbook_and_of_big_integers() {
    for n in [64, 128, 1024, 2048, 4096, 8192] {
        for ntt in all(n) {
            let m = ntt.modulus();
            // Random words, and the largest.
            for (a, b) in [(words(n, m.p(), 2), words(n, m.p(), 3)), (vec![m.p() - 1; n], vec![m.p() - 1; n])] {
                let expected = by_big_integers(m, &a, &b);
                if n <= 128 {
                    assert_eq!(schoolbook(m, &a, &b), expected);
                }
                let (mut x, mut y) = (a.clone(), b);
                ntt.forward(&mut x);
                ntt.forward(&mut y);
                ntt.mul(&mut x, &y);
                ntt.inverse(&mut x);
                assert_eq!(x, expected, "n = {n}, {}", ntt.backend);
            }
        }
    }
}

#[test]
fn eight_at_once_are_eight() {
    for n in [64, 128, 1024, 2048] {
        for ntt in all(n) {
            let m = ntt.modulus();
            let mut rows = words(ROWS * n, m.p(), 4);
            let mut single: Vec<Vec<u64>> =
                (0..ROWS).map(|r| rows.iter().skip(r).step_by(ROWS).copied().collect()).collect();
            let apart = single.clone();
            ntt.forward_rows(&mut rows);
            single.iter_mut().for_each(|s| ntt.forward(s));
            for (r, s) in single.iter().enumerate() {
                assert!(s.iter().eq(rows.iter().skip(r).step_by(ROWS)), "n = {n}, row {r}, {}", ntt.backend);
            }
            // Twice the product with the first polynomial.
            let mut sum = vec![0; ROWS * n];
            ntt.dot_rows(&[(&rows, &single[0]), (&rows, &single[0])], &mut sum);
            for (r, s) in single.iter().enumerate() {
                let mut one = s.clone();
                ntt.mul(&mut one, &single[0]);
                let half = one.clone();
                ntt.add(&mut one, &half);
                assert!(one.iter().eq(sum.iter().skip(r).step_by(ROWS)));
            }
            ntt.inverse_rows(&mut rows);
            for (r, s) in apart.iter().enumerate() {
                assert!(s.iter().eq(rows.iter().skip(r).step_by(ROWS)), "n = {n}, row {r}, {}", ntt.backend);
            }
        }
    }
}

/// As many terms as are allowed, each as large as can be: the sums of halves do not overflow.
#[test]
fn the_longest_sum_of_the_largest_terms() {
    for ntt in all(64) {
        let m = ntt.modulus();
        let largest = vec![m.p() - 1; ROWS * 64];
        let mut out = vec![0; ROWS * 64];
        ntt.dot_rows(&vec![(&largest[..], &largest[..64]); TERMS], &mut out);
        assert_eq!(out, vec![TERMS as u64; ROWS * 64]);
        // The same for short sums, where one factor is in Montgomery's form.
        let mut factor = largest.clone();
        ntt.to_montgomery(&mut factor);
        let (mut x, mut y) = (out.clone(), out.clone());
        ntt.dot2(&vec![[&largest[..], &largest[..], &factor[..]]; FEW], &mut x, &mut y);
        assert!(x == y && x == vec![FEW as u64; ROWS * 64]);
        ntt.add_products([&mut x, &mut y], [&largest, &largest], &factor);
        assert!(x == y && x == vec![FEW as u64 + 1; ROWS * 64]);
        // The largest word of a factor, whatever number it stands for.
        ntt.dot2(&vec![[&largest[..], &largest[..], &largest[..]]; FEW], &mut x, &mut y);
        let each = m.inverse(m.reduce(1 << 52));
        assert!(x == y && x == vec![m.mul(each, FEW as u64); ROWS * 64], "{}", ntt.backend);
    }
}

#[test]
fn word_by_word() {
    for ntt in all(64) {
        let m = ntt.modulus();
        let (mut a, mut b) = (words(64, m.p(), 5), words(64, m.p(), 6));
        (a[0], b[0], a[1], b[1], a[2], b[2]) = (m.p() - 1, m.p() - 1, 0, m.p() - 1, 0, 0);
        let f = m.factor(0x1234_5678_9abc);
        let [mut sum, mut difference, mut product, mut scaled] = [a.clone(), a.clone(), a.clone(), a.clone()];
        // The largest word that may be scaled.
        scaled[3] = (1 << 52) - 1;
        let wide = scaled.clone();
        ntt.add(&mut sum, &b);
        ntt.sub(&mut difference, &b);
        ntt.mul(&mut product, &b);
        ntt.scale(&mut scaled, f);
        for i in 0..64 {
            assert_eq!(sum[i], m.add(a[i], b[i]));
            assert_eq!(difference[i], m.sub(a[i], b[i]));
            assert_eq!(product[i], m.mul(a[i], b[i]));
            assert_eq!(scaled[i], m.mul(wide[i], f.factor), "{}", ntt.backend);
        }
    }
}

#[test]
fn two_sums_at_once_are_two() {
    for ntt in all(64) {
        let w: Vec<Vec<u64>> = (0..6).map(|seed| words(64, ntt.modulus().p(), seed)).collect();
        let product = |i: usize, j: usize| {
            let mut product = w[i].clone();
            ntt.mul(&mut product, &w[j]);
            product
        };
        let mut sums = [product(0, 2), product(1, 2)];
        ntt.add(&mut sums[0], &product(3, 5));
        ntt.add(&mut sums[1], &product(4, 5));
        // Either the shared factor is in Montgomery's form, or the two others are.
        let factors: Vec<Vec<u64>> = w
            .iter()
            .cloned()
            .map(|mut words| {
                ntt.to_montgomery(&mut words);
                words
            })
            .collect();
        for (x, z) in [(&w, &factors), (&factors, &w)] {
            let (mut x_out, mut y_out) = (vec![0; 64], vec![0; 64]);
            ntt.dot2(&[[&x[0], &x[1], &z[2]], [&x[3], &x[4], &z[5]]], &mut x_out, &mut y_out);
            assert!(x_out == sums[0] && y_out == sums[1], "{}", ntt.backend);
        }
        // One product after another is the same sum.
        let (mut x, mut y) = (product(0, 2), product(1, 2));
        ntt.add_products([&mut x, &mut y], [&w[3], &w[4]], &factors[5]);
        assert!(x == sums[0] && y == sums[1], "{}", ntt.backend);
    }
}

/// Digits add up to the centred number, and are as small as they should be.
#[test]
fn digits_are_those_of_the_centred_number() {
    for ntt in all(64) {
        let (m, p) = (ntt.modulus(), ntt.modulus().p());
        let mut x = words(64, p, 10);
        (x[0], x[1], x[2], x[3]) = (0, p - 1, p / 2, p / 2 + 1);
        for (bits, count) in [(10, 5), (17, 3), (25, 2), (50, 1)] {
            let mut sums = vec![0_i128; 64];
            for r in 0..count {
                let mut out = vec![0; 64];
                ntt.digit(&x, bits, r, count, &mut out);
                for (sum, digit) in sums.iter_mut().zip(out) {
                    let digit = if digit > p / 2 { i128::from(digit) - i128::from(p) } else { i128::from(digit) };
                    assert!(digit.abs() <= 1 << (bits - 1), "{digit} has more than {bits} bits");
                    *sum += digit << (bits as usize * r);
                }
            }
            for (&x, sum) in x.iter().zip(sums) {
                let centred = if x > p / 2 { i128::from(x) - i128::from(p) } else { i128::from(x) };
                assert_eq!(sum, centred, "{x} in {count} digits of {bits} bits modulo {}", m.p());
            }
        }
    }
}

#[test]
fn lifted_words_are_centred() {
    for from in [PRIMES[0], PRIMES[2], 65537] {
        for ntt in all(64) {
            let (from, m) = (Modulus::new(from), ntt.modulus());
            let mut x = words(64, from.p(), 9);
            (x[0], x[1], x[2], x[3]) = (0, from.p() - 1, from.p() / 2, from.p() / 2 + 1);
            let mut out = vec![0; 64];
            ntt.lift(from, &x, &mut out);
            for (x, out) in x.into_iter().zip(out) {
                let centred = if x > from.p() / 2 { i128::from(x) - i128::from(from.p()) } else { i128::from(x) };
                assert_eq!(i128::from(out), centred.rem_euclid(m.p().into()));
            }
        }
    }
}

/// X^n = -1: multiplying by X moves coefficients up and the last one, negated, to the front.
#[test]
fn multiplying_by_x_turns_the_coefficients() {
    for ntt in all(64) {
        let m = ntt.modulus();
        let a = words(64, m.p(), 7);
        let mut x = vec![0; 64];
        x[1] = 1;
        let mut turned = a.clone();
        ntt.forward(&mut x);
        ntt.forward(&mut turned);
        ntt.mul(&mut turned, &x);
        ntt.inverse(&mut turned);
        assert_eq!(turned[1..], a[..63]);
        assert_eq!(turned[0], m.sub(0, a[63]));
    }
}

/// How long transforms take: `cargo test --release -p vesica-ring --lib -- --ignored --nocapture how_long`.
#[test]
#[ignore = "prints times, which mean something in a release build only"]
#[allow(clippy::print_stdout)]
fn how_long() {
    for n in [1024, 2048, 4096, 8192] {
        for ntt in all(n).skip(if n == 8192 { 0 } else { 3 * (all(n).count() / 3 - 1) }) {
            let mut x = words(ROWS * n, ntt.modulus().p(), 8);
            let best = |f: &mut dyn FnMut()| {
                let run = |f: &mut dyn FnMut()| {
                    let start = std::time::Instant::now();
                    f();
                    start.elapsed()
                };
                (0..40).map(|_| run(f)).min()
            };
            let forward = best(&mut || ntt.forward(&mut x[..n]));
            let inverse = best(&mut || ntt.inverse(&mut x[..n]));
            let rows = best(&mut || ntt.forward_rows(&mut x));
            println!("{n} {} forward {forward:?} inverse {inverse:?} eight {rows:?}", ntt.backend);
        }
    }
}
