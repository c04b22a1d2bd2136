use super::*;
use num_bigint::BigInt;

/// 1 modulo 2^17, 2^15 and 2^14; the last is SimplePIR's.
const PRIMES: [u64; 4] = [1125899906629633, 1125899904679937, 1125889168998401, (1 << 50) - 16383];

/// Words that look random, by a fixed linear recurrence (Knuth's MMIX constants).
fn words(count: usize, below: u64, seed: u64) -> Vec<u64> {
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
                let mut sum = vec![0; n];
                ntt.dot(&[(&x, &y)], &mut sum);
                ntt.mul(&mut x, &y);
                assert_eq!(x, sum);
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
                let mut one = vec![0; n];
                ntt.dot(&[(s, &single[0]), (s, &single[0])], &mut one);
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
        let largest = vec![m.p() - 1; 64];
        let pairs = vec![(&largest[..], &largest[..]); TERMS];
        let mut out = vec![0; 64];
        ntt.dot(&pairs, &mut out);
        assert_eq!(out, vec![TERMS as u64; 64]);
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
        let [mut x, mut y, mut expected] = [vec![0; 64], vec![0; 64], vec![0; 64]];
        ntt.dot2(&[[&w[0], &w[1], &w[2]], [&w[3], &w[4], &w[5]]], &mut x, &mut y);
        ntt.dot(&[(&w[0], &w[2]), (&w[3], &w[5])], &mut expected);
        assert_eq!(x, expected);
        ntt.dot(&[(&w[1], &w[2]), (&w[4], &w[5])], &mut expected);
        assert_eq!(y, expected);
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
                assert_eq!(out, m.reduce_signed(centred));
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
