//! How much noise there is at each step, compared with the bound; and what happens where the bound does not hold.

use super::*;
use vesica_he::lwe::add_row;
use vesica_params::lwe::LweSet;
use zeroize::Zeroizing;

const SEED: PublicSeed = PublicSeed([3; 32]);

fn rng(seed: u8) -> SessionRng {
    SessionRng::from_seed(Zeroizing::new([seed; 32]))
}

fn database(rows: usize, columns: usize, byte: impl Fn(usize, usize) -> u8) -> Matrix {
    let mut matrix = Matrix::new(rows, columns, vec![[Line::ZERO; 4]; Matrix::groups(rows, columns)]);
    for column in 0..columns {
        let cells: Vec<u8> = (0..rows).map(|row| byte(row, column)).collect();
        matrix.write(0, column, &cells);
    }
    matrix
}

fn noisy(row: usize, column: usize) -> u8 {
    (mixed(row as u64 * 1_000_003 + column as u64) >> 20) as u8
}

fn mixed(x: u64) -> u64 {
    crate::fuse::mix(x.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// Low bits that are dropped of words of the query, the hint and the answer.
#[derive(Clone, Copy)]
struct Lost {
    query: u32,
    hint: u32,
    answer: u32,
}

/// Rounds as the scheme does, to a multiple of 2^lost.
fn near(word: u32, lost: u32) -> u32 {
    if lost == 0 { word } else { round(word, lost) << lost }
}

/// Steps 0 to 3 for one column, with any rounding: the noise of each row, and whether its byte is wrong.
fn noises(matrix: &Matrix, seed: u8, lost: Lost) -> Vec<(i32, bool)> {
    let (columns, column) = (matrix.columns(), 5);
    let server = ServerMatrix::new(&SIMPLE, &SEED, columns);
    let (secret, mut words) = ClientMatrix::new(&SIMPLE, &SEED, columns).hide_zeros(&mut rng(seed));
    words[column] = words[column].wrapping_add(1 << 24);
    let words: Vec<u32> = words.into_iter().map(|word| near(word, lost.query)).collect();
    let y = matrix.multiply(0..matrix.rows() / 64, &[&words]).remove(0);
    let mut bytes = vec![0; matrix.rows()];
    matrix.read(0, column, &mut bytes);
    let hint = (0..matrix.rows()).step_by(8).flat_map(|row| server.hint_rows(matrix, row));
    let each = y.into_iter().zip(hint).zip(bytes).map(|((y, hint), byte)| {
        let hint: Vec<u32> = hint.into_iter().map(|word| near(word, lost.hint)).collect();
        let v = near(y, lost.answer).wrapping_sub(secret.times(&hint));
        let is = (v.wrapping_add(1 << 23) >> 24) as u8;
        (v.wrapping_sub(u32::from(byte) << 24) as i32, is != byte)
    });
    each.collect()
}

fn sd(noises: &[(i32, bool)]) -> f64 {
    (noises.iter().map(|(noise, _)| f64::from(*noise).powi(2)).sum::<f64>() / noises.len() as f64).sqrt()
}

/// Each source of noise alone, and all together: 512 rows, so a measured deviation is within 3.2 % with 68 % and 13 % with 4 sigma.
#[test]
fn noise_is_as_large_as_the_bound_says_at_every_step() {
    let columns = 4096;
    let matrix = database(512, columns, noisy);
    // Mean square of a uniform byte from -128 to 127.
    let row = columns as f64 * 5461.5;
    let variance = SIMPLE.variance();
    let rounding = |lost: i32| (libm::ldexp(1.0, 2 * lost) + 2.0) / 12.0;
    let hint = |lost: i32| 1024.0 * variance * libm::ldexp(1.0, 2 * lost) / 12.0;
    for (name, lost, predicted) in [
        ("errors", Lost { query: 0, hint: 0, answer: 0 }, row * variance),
        ("query", Lost { query: 8, hint: 0, answer: 0 }, row * (variance + rounding(8))),
        ("hint", Lost { query: 0, hint: 11, answer: 0 }, row * variance + hint(11)),
        ("answer", Lost { query: 0, hint: 0, answer: 20 }, row * variance + rounding(20)),
        ("all", Lost { query: 8, hint: 11, answer: 20 }, row * (variance + rounding(8)) + hint(11) + rounding(20)),
    ] {
        let noises = noises(&matrix, 1, lost);
        let ratio = sd(&noises) / predicted.sqrt();
        assert!((0.85..1.15).contains(&ratio), "{name}: {ratio}");
        assert!(noises.iter().all(|(_, wrong)| !wrong), "{name}");
    }
}

/// The set's own bound is on top of the measured noise, for uniform bytes and for the worst ones.
#[test]
fn the_bound_of_the_parameters_holds() {
    let columns = 4096;
    let set = Lost { query: 8, hint: 11, answer: 20 };
    let hint = 1024.0 * libm::ldexp(1.0, 22) / 12.0;
    for (name, byte, norm) in [
        ("uniform", noisy as fn(usize, usize) -> u8, columns as f64 * 5461.5),
        ("0x80 or 0x7f at random", |r, c| 0x7f + (noisy(r, c) & 1), columns as f64 * 16256.5),
    ] {
        let noises = noises(&database(256, columns, byte), 2, set);
        let bound = SIMPLE.noise(columns as u32, Norms { row: norm, keys: 0.0, copied: hint }).expect("few columns")
            + libm::ldexp(1.0, 40) / 12.0;
        let ratio = sd(&noises) / bound.sqrt();
        assert!((0.8..1.2).contains(&ratio), "{name}: {ratio}");
    }
}

/// With fewer bits than the set keeps, bytes are wrong as often as the normal distribution says.
#[test]
fn with_cut_parameters_answers_are_wrong() {
    let columns = 4096;
    let matrix = database(1024, columns, noisy);
    let row = columns as f64 * 5461.5;
    for lost in [14, 15] {
        let noises = noises(&matrix, 3, Lost { query: lost, hint: 11, answer: 20 });
        let predicted = row * (SIMPLE.variance() + libm::ldexp(1.0, 2 * lost as i32) / 12.0);
        let wrong = noises.iter().filter(|(_, wrong)| *wrong).count() as f64 / 1024.0;
        // P[|noise| >= 2^23] = erfc(z/√2), z = 2^23/sd.
        let expected = libm::erfc(8_388_608.0 / predicted.sqrt() / 2f64.sqrt());
        assert!(
            (wrong - expected).abs() < 4.0 * (expected * (1.0 - expected) / 1024.0).sqrt() + 0.002,
            "{lost}: {wrong}, {expected}"
        );
        assert!(lost != 15 || wrong > 0.02, "{wrong}");
    }
}

/// Rows of equal bytes add up the mean of the rounding errors: this is what ties to even is for. 2^17 columns of 0x80, where rounding half
/// up would be wrong by 2^17·128/2 = 2^23: half of a byte's step.
#[test]
fn rows_of_equal_bytes_have_no_bias() {
    let columns = 1 << 17;
    let lost = 32 - SIMPLE.query_bits(columns as u32).expect("few columns");
    let matrix = database(64, columns, |row, _| if row % 2 == 0 { 0x80 } else { 0x7f });
    let worst = LweSet::worst_row(columns as u32);
    let hint = 1024.0 * libm::ldexp(1.0, 22) / 12.0;
    let bound =
        SIMPLE.noise(columns as u32, Norms { row: worst, keys: 0.0, copied: hint }).expect("few columns").sqrt()
            + libm::ldexp(1.0, 19);
    for seed in [4, 5] {
        let noises = noises(&matrix, seed, Lost { query: lost, hint: 11, answer: 20 });
        assert!(noises.iter().all(|(noise, wrong)| !wrong && f64::from(noise.abs()) < 5.0 * bound), "{:?}", noises[0]);
    }
}

/// A patched hint is what a hint made of the new database is, but for the rounding error that it had before. Both kinds of entries.
#[test]
fn a_patched_hint_equals_a_rebuilt_one() {
    for (width, chunks, changed, cells) in [(10, 1, vec![0, 700, 1999], true), (3, 2, (0..512).collect(), false)] {
        let shape = Shape::new(2000, width, 1024, chunks).expect("a shape");
        let scheme = SimplePir::new(shape, SEED);
        let bytes: Vec<u8> = (0..2000 * width as usize).map(|i| noisy(1, i)).collect();
        let flat = crate::Flat::new(&bytes, width as usize).expect("records");
        let mut store = scheme.store(&flat).expect("a store");
        let server = ServerMatrix::new(&SIMPLE, &SEED, 1024);
        let exact = |store: &Store| -> Vec<u32> {
            let rows = (0..shape.rows()).step_by(8).flat_map(|row| server.hint_rows(&store.matrix, row));
            rows.flatten().collect()
        };
        let take = || scheme.take_hint(scheme.hint(&store).expect("a hint")).expect("it is one");
        let error = |hint: &Hint, store: &Store| -> Vec<i32> {
            let words = (0..shape.rows()).flat_map(|row| hint.row(row));
            words.zip(exact(store)).map(|(word, exact)| word.wrapping_sub(exact) as i32).collect()
        };
        // Patches come to a hint of which no row was needed yet.
        let (before, mut hint) = (error(&take(), &store), take());
        assert!(before.iter().all(|e| e.abs() <= 1 << 10));
        // 0x7f to 0x80 is -255, which is where differences of unsigned bytes would be wrong.
        let record: Vec<u8> = (0..width as usize).map(|i| [0x80, 0x7f, 0][i % 3]).collect();
        let changes: Vec<(u64, &[u8])> = changed.iter().map(|&index| (index, record.as_slice())).collect();
        for _ in 0..2 {
            let patch = scheme.change(1, &mut store, &changes).expect("a change");
            assert_eq!(patch[Epoch::BYTES] == 0, cells);
            scheme.patch(&mut hint, &patch).expect("a patch");
            let after = error(&hint, &store);
            if cells {
                assert!(after == before);
            }
            assert!(after.iter().all(|e| e.abs() <= 1 << 10));
        }
        // And the client decodes what was changed, and what was not.
        for index in [0, 1, 700, 1999] {
            let (secret, query) = scheme.query(&hint, index, &mut rng(9)).expect("a query");
            let answer = scheme.answer(&store, &[&query]).expect("an answer").remove(0);
            let wanted = if changed.contains(&index) { record.as_slice() } else { flat.record(index) };
            assert_eq!(scheme.decode(&hint, secret, &answer).expect("a record"), wanted, "{index}");
        }
    }
}

/// How long a patch is where whole groups change is known before it is made. It is shorter than a hint as long as one group stays as it was.
#[test]
fn a_patch_of_groups_is_as_long_as_foretold() {
    for (groups, width, chunks) in [(1, 16, 1), (2, 64, 1), (3, 100, 4), (5, 300, 1)] {
        let group = 1024 / u64::from(chunks);
        let shape = Shape::new(groups * group, width, 1024, chunks).expect("a shape");
        let scheme = SimplePir::new(shape, SEED);
        let bytes: Vec<u8> = (0..shape.records as usize * width as usize).map(|i| noisy(3, i)).collect();
        let record: Vec<u8> = (0..width as usize).map(|i| noisy(4, i)).collect();
        for touched in 1..=groups {
            let mut store = scheme.store(&crate::Flat::new(&bytes, width as usize).expect("records")).expect("a store");
            let changes: Vec<(u64, &[u8])> = (0..touched * group).map(|index| (index, record.as_slice())).collect();
            let patch = scheme.change(1, &mut store, &changes).expect("a change").len() as u64;
            assert_eq!(patch, scheme.patch_bytes(touched as usize), "{touched} of {groups}");
            assert!(touched == groups || patch < scheme.sizes().hint, "{touched} of {groups}");
        }
    }
}

/// The hint of one row by the definition: a whole check of the crate below through this scheme's packing.
#[test]
fn a_packed_hint_is_the_product_rounded() {
    let shape = Shape::new(100, 5, 1024, 1).expect("a shape");
    let scheme = SimplePir::new(shape, SEED);
    let bytes: Vec<u8> = (0..500).map(|i| noisy(2, i)).collect();
    let store = scheme.store(&crate::Flat::new(&bytes, 5).expect("records")).expect("a store");
    let hint = scheme.take_hint(scheme.hint(&store).expect("a hint")).expect("it is one");
    let mut row = [0u32; DEGREE];
    for column in 0..100 {
        add_row(&SEED.element(&SIMPLE, 0), column, i32::from(bytes[5 * column + 3] as i8), &mut row);
    }
    for (is, exact) in hint.row(3).iter().zip(row) {
        assert!((is.wrapping_sub(exact) as i32).abs() <= 1 << 10);
    }
}

/// Two queries take two secrets, and so do two chunks of one query.
#[test]
fn every_query_and_chunk_has_a_fresh_secret() {
    let shape = Shape::new(10, 8, 1024, 4).expect("a shape");
    let scheme = SimplePir::new(shape, SEED);
    let bytes = [1; 80];
    let store = scheme.store(&crate::Flat::new(&bytes, 8).expect("records")).expect("a store");
    let hint = scheme.take_hint(scheme.hint(&store).expect("a hint")).expect("it is one");
    let mut rng = rng(1);
    let mut one = vec![0u32; DEGREE];
    // s·(1, 2^10, 2^20, …) tells secrets apart without showing them.
    one.iter_mut().enumerate().for_each(|(i, word)| *word = mixed(i as u64) as u32);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..5 {
        let (secret, _) = scheme.query(&hint, 3, &mut rng).expect("a query");
        secret.chunks.iter().for_each(|s| assert!(seen.insert(s.times(&one))));
    }
    assert_eq!(seen.len(), 20);
}
