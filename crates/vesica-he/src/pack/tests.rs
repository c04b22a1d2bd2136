//! A small ring by hand, to the last number; and the noise of whole blocks, word by word.

use super::*;
use crate::lwe::{ClientMatrix, ServerMatrix, add_key, add_row};
use sha2::{Digest, Sha256};
use vesica_params::lwe::PACKED;
use vesica_ring::matrix::{Line, Matrix};
use vesica_session::SessionRng;
use zeroize::Zeroizing;

/// The first eight bytes of the hash of some words.
fn hash(words: impl IntoIterator<Item = u32>) -> String {
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Words of the small ring, by name.
fn drawn(name: &str, count: usize) -> Vec<u32> {
    let block = |i: u64| {
        Sha256::new().chain_update(b"vesica packed toy ").chain_update(name).chain_update(i.to_le_bytes()).finalize()
    };
    let words = (0..).flat_map(|i| block(i).as_chunks().0.iter().map(|&w| u32::from_le_bytes(w)).collect::<Vec<_>>());
    words.take(count).collect()
}

fn small(name: &str, count: usize) -> Vec<i32> {
    drawn(name, count).iter().map(|word| (word & 15).count_ones() as i32 - 2).collect()
}

/// The product in Z[X]/(X^n + 1) modulo 2^32, by the definition.
fn product(a: &[u32], b: &[u32]) -> Vec<u32> {
    let n = a.len();
    let mut out = vec![0u32; n];
    for (i, &a) in a.iter().enumerate() {
        for (j, &b) in b.iter().enumerate() {
            let term = if i + j < n { a.wrapping_mul(b) } else { a.wrapping_mul(b).wrapping_neg() };
            out[(i + j) % n] = out[(i + j) % n].wrapping_add(term);
        }
    }
    out
}

fn turned(a: &[u32], power: usize) -> Vec<u32> {
    let n = a.len();
    let mut out = vec![0; n];
    for (i, &a) in a.iter().enumerate() {
        let at = i * power % (2 * n);
        out[at % n] = if at < n { a } else { a.wrapping_neg() };
    }
    out
}

fn sum(a: &[u32], b: &[u32]) -> u32 {
    a.iter().zip(b).fold(0, |sum: u32, (a, b)| sum.wrapping_add(a.wrapping_mul(*b)))
}

const TOY: Packing = Packing { rows: 8, digits: 3, digit_bits: 8, low_bits: 8 };

/// Degree 16, eight rows, 32 columns, column 5: every number was computed by another program from the same words.
#[test]
fn a_small_ring_gives_the_numbers_that_are_known() {
    let frame = Frame::new(16, TOY);
    assert_eq!(frame.powers, [1, 5, 25, 29, 17, 21, 9, 13]);
    let (a, w) = ([drawn("a0", 16), drawn("a1", 16)], [0, 1, 2].map(|t| drawn(&format!("w{t}"), 16)));
    assert_eq!((&a[0][..2], &w[0][..2]), (&[1565636428, 60482069][..], &[3710919130, 2148905672][..]));
    let table: Vec<u32> = (0..8).flat_map(|r| drawn(&format!("D{r}"), 32)).map(|word| word as i8 as u32).collect();
    assert_eq!(table[..4], [-66i32, -14, 53, -80].map(|x| x as u32));
    let s: Vec<u32> = small("s", 16).iter().map(|&x| x as u32).collect();
    // 1. H, and 2. C.
    let rows: Vec<Vec<u32>> = table
        .chunks(32)
        .map(|row| {
            let mut sum = vec![0; 16];
            row.iter().enumerate().for_each(|(c, &byte)| add_row(&a[c / 16], c % 16, byte as i32, &mut sum));
            sum
        })
        .collect();
    assert_eq!(rows[0][..4], [1876346001, 4037095193, 1780370285, 1644043843]);
    assert_eq!(hash(rows.concat()), "3d2678b824060223");
    assert_eq!(frame.sums(&rows)[..4], [2838614293, 6801555589, 3571346655, -1033816652]);
    // 3. The collapse.
    let mut before = Vec::new();
    let collapsed = frame.collapse(&rows, 18, |j, digits, out| {
        out.fill(0);
        for (digits, w) in digits.iter().zip(&w) {
            let digits: Vec<u32> = digits.iter().map(|&digit| digit as i32 as u32).collect();
            let term = product(&digits, &turned(w, frame.powers[j]));
            out.iter_mut().zip(term).for_each(|(out, term)| *out = out.wrapping_add(term));
        }
        before.push(j);
    });
    assert_eq!(before, [6, 5, 4, 3, 2, 1, 0]);
    let Collapsed { mask, digits, .. } = &collapsed;
    assert_eq!(digits.iter().map(|digits| digits[7 * 16]).collect::<Vec<_>>(), [-104, 25, 21]);
    let all = (1..8).flat_map(|j| digits.iter().flat_map(move |digits| &digits[16 * j..16 * (j + 1)]));
    assert_eq!(hash(all.map(|&digit| i32::from(digit) as u32)), "d4299670424bf21c");
    assert_eq!(mask.iter().take(4).map(|word| word >> 14).collect::<Vec<_>>(), [139777, 113595, 127893, 138672]);
    // 4. P.
    let mut p = vec![vec![0i32; 48]; 8];
    for (t, digits) in digits.iter().enumerate() {
        frame.expand(&mut frame.placed_digits(digits), 8, |i, column| {
            column.iter().enumerate().for_each(|(r, &x)| p[r][16 * t + i] = x);
        });
    }
    assert_eq!(p[0][..8], [-71, -45, -177, -89, -312, -100, 173, -244]);
    assert_eq!(hash(p.concat().into_iter().map(|x| x as u32)), "4fae5ec661b73d5a");
    // A query and its key.
    let mut b = [product(&a[0], &s), product(&a[1], &s)].concat();
    b.iter_mut().zip(small("e", 32)).for_each(|(b, e)| *b = b.wrapping_add(e as u32));
    b[5] = b[5].wrapping_add(1 << 24);
    let query: Vec<u32> = b.iter().map(|&word| round(word, 8)).collect();
    assert_eq!((&query[..2], query[5]), (&[6494755, 13412442][..], 12966272));
    assert_eq!(hash(query.iter().map(|word| word << 8)), "e3cd70caf264b5ab");
    let mut k: Vec<u32> = w.iter().flat_map(|w| product(w, &s)).collect();
    let errors = (0..3).flat_map(|t| small(&format!("e{t}"), 16));
    k.iter_mut().zip(errors).for_each(|(k, e)| *k = k.wrapping_add(e as u32));
    add_key(&TOY, &small("s", 16), &mut k);
    assert_eq!((&k[..2], hash(k.iter().copied())), (&[3323209246, 3675151559][..], "fbbd198e2e27969b".to_owned()));
    // The answer, by the columns of bytes, and the column.
    let mask = mask.clone();
    let packed = frame.compile(8, collapsed);
    let y: Vec<u32> = (0..8)
        .map(|r| {
            let words: Vec<u32> = query.iter().map(|word| word << 8).collect();
            let key = extended(&k, 16);
            let columns = packed.columns.chunks(8).map(|column| column[r] as i8 as u32).collect::<Vec<_>>();
            sum(&table[32 * r..][..32], &words).wrapping_add(sum(&columns, &key))
        })
        .collect();
    assert_eq!(
        (&y[..4], hash(y.iter().copied())),
        (&[3397945468, 1275253410, 3879837792, 3834146205][..], "b5bb25921ad852a8".to_owned())
    );
    let answer: Vec<u32> = y.iter().map(|&word| round(word, 21)).collect();
    assert_eq!(answer, [1620, 608, 1850, 1828, 972, 460, 550, 1061]);
    let product = product(&mask, &s);
    let phases = answer.iter().zip(product).map(|(word, product)| (word << 21).wrapping_sub(product));
    let column: Vec<u32> = phases.map(|phase| phase.wrapping_add(1 << 23) >> 24).collect();
    assert_eq!(column, [54, 95, 243, 0, 27, 43, 234, 201]);
    let exact = y.iter().zip(super::tests::product(&mask, &s)).zip(&column);
    let errors: Vec<i32> =
        exact.map(|((y, product), byte)| y.wrapping_sub(product).wrapping_sub(byte << 24) as i32).collect();
    assert_eq!(errors, [-14212, 53922, -57248, 11677, 73921, -27476, -2688, -35031]);
}

/// A key as the columns of bytes meet it.
fn extended(k: &[u32], n: usize) -> Vec<u32> {
    let halves = |k: &[u32]| {
        [1u32, 256].map(|factor| k.iter().map(|k| k.wrapping_mul(factor).wrapping_neg()).collect::<Vec<_>>()).concat()
    };
    k.chunks(n).flat_map(halves).collect()
}

const N: usize = 2048;
const SEED: PublicSeed = PublicSeed([9; 32]);

fn rng(seed: u8) -> SessionRng {
    SessionRng::from_seed(Zeroizing::new([seed; 32]))
}

/// A table of so many rows and 2^12 columns in one block, packed: the matrix, the mask, P and γ·R by rows.
struct Whole {
    matrix: Matrix,
    packed: Packed,
    p: Vec<Vec<i32>>,
    r: Vec<Vec<i32>>,
}

const COLUMNS: usize = 2 * N;

fn whole(rows: usize, byte: impl Fn(usize, usize) -> u8) -> Whole {
    let all = COLUMNS + 6 * N;
    let mut matrix = Matrix::new(rows, all, vec![[Line::ZERO; 4]; Matrix::groups(rows, all)]);
    for column in 0..COLUMNS {
        matrix.write(0, column, &(0..rows).map(|row| byte(row, column)).collect::<Vec<_>>());
    }
    let server = ServerMatrix::new(&PACKED, &SEED, COLUMNS);
    let hint: Vec<Vec<u32>> = (0..rows).step_by(8).flat_map(|row| server.hint_rows(&matrix, row)).collect();
    let packer = Packer::new(&PACKED, &SEED);
    let Packer { frame, key, .. } = &packer;
    let mut room = key.room();
    let mut collapsed =
        frame.collapse(&hint, 18, |j, digits, out| key.times(frame.powers_of(j), digits, &mut room, out));
    let (mut p, mut r) = (vec![vec![0; 3 * N]; rows], vec![vec![0; N]; rows]);
    for (t, digits) in collapsed.digits.iter().enumerate() {
        frame.expand(&mut frame.placed_digits(digits), rows, |i, column| {
            column.iter().zip(&mut p).for_each(|(&x, p)| p[N * t + i] = x);
        });
    }
    frame.expand(&mut collapsed.rounded, rows, |i, column| {
        column.iter().zip(&mut r).for_each(|(&x, r)| r[i] = x);
    });
    // P·k is what the collapse does to k, for any k.
    let k: Vec<Vec<u32>> = (0..3).map(|t| PublicSeed([77; 32]).key_element(&PACKED, t)).collect();
    let (other, mut collapse, mut moved) = (Key::new(&PACKED, k.iter().cloned()), vec![0u32; N], vec![0; N]);
    for j in 1..1024 {
        let digits: Vec<&[i8]> = collapsed.digits.iter().map(|digits| &digits[j * N..][..N]).collect();
        other.times(frame.powers_of(j - 1), &digits, &mut room, &mut moved);
        collapse.iter_mut().zip(&moved).for_each(|(sum, &x)| *sum = sum.wrapping_add(x));
    }
    let k = k.concat();
    for (r, p) in p.iter().enumerate() {
        assert_eq!(sum(&p.iter().map(|&x| x as u32).collect::<Vec<_>>(), &k), collapse[r], "row {r}");
    }
    let packed = packer.pack(&hint);
    assert!(packed.is_even(&PACKED), "{:?}, {}", packed.norms, packed.largest);
    assert_eq!(packed.mask, collapsed.mask);
    for (i, column) in packed.columns.chunks(rows).enumerate() {
        matrix.write(0, COLUMNS + i, column);
    }
    Whole { matrix, packed, p, r }
}

/// The errors of all rows for one query, by the phase; each is compared with what the equation says.
fn errors(whole: &Whole, seed: u8, lost: u32) -> Vec<f64> {
    let Whole { matrix, packed, p, r } = whole;
    let client = ClientMatrix::new(&PACKED, &SEED, COLUMNS);
    let (secret, words) = client.hide_zeros(&mut rng(seed));
    let hidden: Vec<u32> = (0..5).flat_map(|b| client.hidden(&secret, b).to_vec()).collect();
    let mut e: Vec<u32> = words.iter().zip(&hidden).map(|(word, hidden)| word.wrapping_sub(*hidden)).collect();
    let s: Vec<i32> = {
        let mut one = vec![0; N];
        one[0] = 1;
        client.times(&secret, &one).iter().map(|&x| x as i32).collect()
    };
    let mut tau = vec![0; 3 * N];
    add_key(&PACKED.packing.expect("packing"), &s, &mut tau);
    e[COLUMNS..].iter_mut().zip(tau).for_each(|(e, tau)| *e = e.wrapping_sub(tau));
    assert!(e.iter().all(|&e| (e as i32).abs() <= 2) && s.iter().all(|s| s.abs() <= 2));
    let (mut query, key) = (words[..COLUMNS].to_vec(), &words[COLUMNS..]);
    query[5] = query[5].wrapping_add(1 << 24);
    let near: Vec<u32> = query.iter().map(|&word| if lost == 0 { word } else { round(word, lost) << lost }).collect();
    let noise: Vec<i64> = near
        .iter()
        .zip(&query)
        .zip(&e)
        .map(|((near, word), e)| i64::from(near.wrapping_sub(*word).wrapping_add(*e) as i32))
        .collect();
    let vector = [near, extended(key, N)].concat();
    let y = matrix.multiply(0..matrix.rows() / 64, &[&vector]).remove(0);
    let mask = client.times(&secret, &packed.mask);
    let (mut row, mut errors) = ([0], Vec::new());
    for (at, (y, mask)) in y.iter().zip(mask.iter()).enumerate() {
        matrix.read(at, 5, &mut row);
        let is = y.wrapping_sub(*mask).wrapping_sub((row[0] as u32) << 24) as i32;
        let mut should = 0i64;
        for (c, noise) in noise.iter().enumerate() {
            matrix.read(at, c, &mut row);
            should += i64::from(row[0] as i8) * noise;
        }
        should -= p[at].iter().zip(&e[COLUMNS..]).map(|(&p, &e)| i64::from(p) * i64::from(e as i32)).sum::<i64>();
        let rounded: i64 = r[at].iter().zip(&s).map(|(&r, &s)| i64::from(r) * i64::from(s)).sum();
        assert_eq!(i64::from(is) * 1024, should * 1024 + rounded, "row {at}");
        errors.push(f64::from(is));
    }
    errors
}

fn chance(row: usize, column: usize) -> u64 {
    let x = ((row * 1_000_003 + column) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
}

/// The equation holds for every row of a block, and the variance is what the parameters say: 40 queries of 1024 rows, whose
/// relative deviation is 0.7 %.
#[test]
fn the_noise_of_a_block_is_what_the_equation_says() {
    let whole = whole(1024, |row, column| 0x7f + (chance(row, column) & 1) as u8);
    let all: Vec<f64> = (0..40).flat_map(|seed| errors(&whole, seed, 8)).collect();
    let is = all.iter().map(|x| x * x).sum::<f64>() / all.len() as f64;
    let norms = Norms { row: COLUMNS as f64 * 16256.5, keys: PACKED.mean_keys(), copied: PACKED.mean_copied() };
    let ratio = is / PACKED.noise(COLUMNS as u32, norms).expect("few columns");
    assert!((0.98..1.02).contains(&ratio), "{ratio}");
    // Keys and mask alone.
    let rest: Vec<f64> = (0..40).flat_map(|seed| errors(&whole, seed, 0)).collect();
    let is = rest.iter().map(|x| x * x).sum::<f64>() / rest.len() as f64;
    let ratio = is / (norms.row + norms.keys + norms.copied);
    assert!((0.98..1.02).contains(&ratio), "{ratio}");
}

/// The errors of a query's words and of its key, each by what its secret leaves of them: the ones among four coins less two, of variance 1, and
/// another secret and other errors for each query. 8 queries; five standard deviations, where the fourth moment is 2.5.
#[test]
fn every_query_has_a_secret_and_errors_of_its_own() {
    let columns = 2 * N;
    let client = ClientMatrix::new(&PACKED, &SEED, columns);
    let elements: Vec<Vec<u32>> =
        (0..2).map(|b| SEED.element(&PACKED, b)).chain((0..3).map(|t| SEED.key_element(&PACKED, t))).collect();
    let (mut of_words, mut of_keys, mut secrets, mut before) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::<Vec<i32>>::new());
    let mut rng = rng(30);
    for _ in 0..8 {
        let (secret, words) = client.hide_zeros(&mut rng);
        let s = client.times(&secret, &(0..N).map(|i| u32::from(i == 0)).collect::<Vec<_>>());
        let s: Vec<i32> = s.iter().map(|&x| x as i32).collect();
        let mut key = vec![0; 3 * N];
        add_key(&PACKED.packing.expect("a packing"), &s, &mut key);
        let hidden: Vec<u32> = elements.iter().flat_map(|a| client.times(&secret, a).to_vec()).collect();
        let clear = hidden[..columns]
            .iter()
            .copied()
            .chain(hidden[columns..].iter().zip(&key).map(|(a, b)| a.wrapping_add(*b)));
        let e: Vec<i32> = words.iter().zip(clear).map(|(word, clear)| word.wrapping_sub(clear) as i32).collect();
        of_words.extend_from_slice(&e[..columns]);
        of_keys.extend_from_slice(&e[columns..]);
        secrets.extend_from_slice(&s);
        before.extend([s, e]);
    }
    for (what, numbers) in [("words", &of_words), ("keys", &of_keys), ("secrets", &secrets)] {
        let count = numbers.len() as f64;
        let moment = |k: i32| numbers.iter().map(|&x| f64::from(x).powi(k)).sum::<f64>() / count;
        assert!(numbers.iter().all(|x| x.abs() <= 2), "{what}");
        assert!(moment(1).abs() < 5.0 / count.sqrt(), "{what}: {}", moment(1));
        assert!((moment(2) - PACKED.variance()).abs() < 5.0 * (1.5 / count).sqrt(), "{what}: {}", moment(2));
    }
    // Two of them agree in 70 of 256 places, as chance has it, and not in all.
    for (i, one) in before.iter().enumerate() {
        for other in before[..i].iter().filter(|other| other.len() == one.len()) {
            let same = one.iter().zip(other).filter(|(a, b)| a == b).count() as f64 / one.len() as f64;
            assert!((same - 70.0 / 256.0).abs() < 0.06, "{same}");
        }
    }
}

/// The last block has fewer rows; rows may be equal, of one byte, or zero, of which nothing is packed.
#[test]
fn blocks_of_any_kind_are_packed() {
    for (rows, byte) in [
        (192, (|row, column| chance(row, column) as u8) as fn(usize, usize) -> u8),
        (64, |_, _| 0x80),
        (128, |_, column| chance(0, column) as u8),
    ] {
        let whole = whole(rows, byte);
        assert!(errors(&whole, 1, 8).iter().all(|error| error.abs() < 7_340_032.0));
    }
    let zero = whole(64, |_, _| 0);
    assert!(zero.packed.mask.iter().all(|&word| word == 0) && zero.packed.columns.iter().all(|&byte| byte == 0));
    assert_eq!(zero.packed.norms, Norms { row: 0.0, keys: 0.0, copied: 0.0 });
}

/// Numbers of P up to the largest are written in two signed bytes, and a larger one is seen.
#[test]
fn numbers_fit_in_two_bytes_or_are_refused() {
    for p in [-LARGEST, -32_768 + 128, -129, -128, -1, 0, 127, 128, 255, 32_512, LARGEST] {
        let high = (p - i32::from(p as i8)) >> 8;
        assert!((-128..128).contains(&high) && i32::from(p as i8) + 256 * high == p, "{p}");
    }
    let packed = |largest, keys| {
        let norms = Norms { row: 0.0, keys, copied: 0.0 };
        Packed { mask: Vec::new(), columns: Vec::new(), norms, largest }.is_even(&PACKED)
    };
    assert!(packed(LARGEST, 0.0) && !packed(LARGEST + 1, 0.0) && !packed(0, 1.21 * PACKED.mean_keys()));
}
