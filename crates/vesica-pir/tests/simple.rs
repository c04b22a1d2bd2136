//! SimplePIR against the plain table, over all shapes; what a server sees; and what hostile bytes do.

use vesica_pir::{Epoch, Flat, MatrixPir, Pir, PirError, PublicSeed, Shape, SimplePir};
use vesica_session::SessionRng;
use zeroize::Zeroizing;

fn rng(seed: u8) -> SessionRng {
    SessionRng::from_seed(Zeroizing::new([seed; 32]))
}

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng(seed).fill(&mut bytes);
    bytes
}

fn scheme(records: u64, width: u32, columns: u32, chunks: u32) -> SimplePir {
    SimplePir::new(Shape::new(records, width, columns, chunks).expect("a shape"), PublicSeed([5; 32]))
}

/// Fetches some records in one batch, and compares them with the table.
fn fetch(scheme: &SimplePir, table: &[u8], indices: &[u64]) {
    let flat = Flat::new(table, scheme.shape().width as usize).expect("records");
    let store = scheme.store(&flat).expect("a store");
    let bytes = scheme.hint(&store).expect("a hint");
    assert_eq!(bytes.len() as u64, scheme.sizes().hint);
    let hint = scheme.take_hint(bytes).expect("it is one");
    let mut rng = rng(8);
    let (secrets, queries): (Vec<_>, Vec<_>) =
        indices.iter().map(|&index| scheme.query(&hint, index, &mut rng).expect("a query")).unzip();
    assert!(queries.iter().all(|query| query.len() == scheme.sizes().query));
    let queries: Vec<&[u8]> = queries.iter().map(Vec::as_slice).collect();
    let answers = scheme.answer(&store, &queries).expect("answers");
    assert_eq!(answers[0], scheme.answer(&store, &queries[..1]).expect("an answer")[0]);
    for ((answer, secret), &index) in answers.iter().zip(secrets).zip(indices) {
        assert_eq!(answer.len(), scheme.sizes().answer);
        let record = scheme.decode(&hint, secret, answer).expect("a record");
        assert!(record == flat.record(index), "record {index} of {:?}", scheme.shape());
    }
}

#[test]
fn every_shape_gives_the_tables_records() {
    for (records, width, columns, chunks) in [
        (1u64, 1u32, 1024, 1),
        (1, 65536, 1024, 64),
        (1000, 1, 1024, 1),
        (5000, 3, 1024, 1),
        (5000, 3, 2048, 2),
        (1500, 100, 1024, 4),
        (300, 257, 3072, 8),
        (20, 4097, 1024, 16),
        (9, 65535, 2048, 64),
        (8, 65536, 1024, 32),
    ] {
        let table = bytes(records as usize * width as usize, 1);
        fetch(&scheme(records, width, columns, chunks), &table, &[0, records - 1, records / 2, records / 3, 0]);
    }
}

/// A hundred and thirty thousand columns, the worst bytes of all, and a record in the last column.
#[test]
fn wide_tables_of_the_worst_bytes_come_back() {
    for table in [vec![0x80; 1 << 17], vec![0x7f; 1 << 17], bytes(1 << 17, 2)] {
        fetch(&scheme(1 << 17, 1, 1 << 17, 1), &table, &[0, (1 << 17) - 1]);
    }
}

/// What the server sees has one length, is never the same twice, and has as many ones as zeros at every bit's place, whatever was asked.
#[test]
fn queries_say_nothing_of_what_they_are_for() {
    let scheme = scheme(3000, 2, 1024, 2);
    let store = scheme.store(&Flat::new(&bytes(6000, 3), 2).expect("records")).expect("a store");
    let hint = scheme.take_hint(scheme.hint(&store).expect("a hint")).expect("it is one");
    let mut rng = rng(4);
    let mut queries: Vec<Vec<u8>> =
        [7, 7, 7, 0, 2999].iter().map(|&index| scheme.query(&hint, index, &mut rng).expect("a query").1).collect();
    for query in &queries {
        assert_eq!((query.len(), &query[..Epoch::BYTES]), (scheme.sizes().query, &queries[0][..Epoch::BYTES]));
        let bits = &query[Epoch::BYTES..];
        let ones: u32 = bits.iter().map(|byte| byte.count_ones()).sum();
        let mean = f64::from(ones) / (8.0 * bits.len() as f64);
        // Five standard deviations of a fair coin.
        assert!((mean - 0.5).abs() < 2.5 / (8.0 * bits.len() as f64).sqrt(), "{mean}");
    }
    // Two queries for one record agree in as many bytes as two random strings do.
    let same = queries[0][Epoch::BYTES..].iter().zip(&queries[1][Epoch::BYTES..]).filter(|(a, b)| a == b).count();
    assert!(same * 100 < queries[0].len(), "{same} of {}", queries[0].len());
    queries.sort();
    queries.dedup();
    assert_eq!(queries.len(), 5);
}

#[test]
fn messages_of_another_length_are_refused() {
    let scheme = scheme(100, 4, 1024, 2);
    let store = scheme.store(&Flat::new(&bytes(400, 3), 4).expect("records")).expect("a store");
    let bytes = scheme.hint(&store).expect("a hint");
    let hint = scheme.take_hint(bytes.clone()).expect("it is one");
    let refused = |what: Result<(), PirError>| match what {
        Err(PirError::Message(why)) => assert!(why.contains("bytes"), "{why}"),
        other => panic!("{other:?}"),
    };
    let (secret, query) = scheme.query(&hint, 1, &mut rng(1)).expect("a query");
    let answer = scheme.answer(&store, &[&query]).expect("an answer").remove(0);
    let lengths = |bytes: &[u8]| {
        let longer = [bytes, &[0]].concat();
        vec![Vec::new(), bytes[..1].to_vec(), bytes[..Epoch::BYTES].to_vec(), bytes[..bytes.len() - 1].to_vec(), longer]
    };
    lengths(&bytes).into_iter().for_each(|bytes| refused(scheme.take_hint(bytes).map(|_| ())));
    lengths(&query).iter().for_each(|query| refused(scheme.answer(&store, &[query]).map(|_| ())));
    for answer in lengths(&answer) {
        let (secret, _) = scheme.query(&hint, 1, &mut rng(2)).expect("a query");
        refused(scheme.decode(&hint, secret, &answer).map(|_| ()));
    }
    // One bad query of a batch: nothing is computed.
    refused(scheme.answer(&store, &[&query, &query[1..]]).map(|_| ()));
    assert!(scheme.decode(&hint, secret, &answer).is_ok());
}

/// Whatever bytes stand behind an honest epoch: an answer of the right length, and a record of the right length. No error depends on them.
#[test]
fn hostile_bytes_are_numbers_like_others() {
    let scheme = scheme(100, 4, 1024, 1);
    let store = scheme.store(&Flat::new(&bytes(400, 3), 4).expect("records")).expect("a store");
    let hint = scheme.take_hint(scheme.hint(&store).expect("a hint")).expect("it is one");
    for fill in [0, 0xff, 0x80] {
        let (secret, mut query) = scheme.query(&hint, 1, &mut rng(1)).expect("a query");
        query[Epoch::BYTES..].fill(fill);
        let mut answer = scheme.answer(&store, &[&query]).expect("an answer").remove(0);
        assert_eq!(answer.len(), scheme.sizes().answer);
        answer[Epoch::BYTES..].fill(fill);
        assert_eq!(scheme.decode(&hint, secret, &answer).expect("some bytes").len(), 4);
    }
}

#[test]
fn another_epoch_is_told() {
    let scheme = scheme(100, 4, 1024, 1);
    let table = bytes(400, 3);
    let mut store = scheme.store(&Flat::new(&table, 4).expect("records")).expect("a store");
    let mut hint = scheme.take_hint(scheme.hint(&store).expect("a hint")).expect("it is one");
    let mut rng = rng(6);
    let (old_secret, old_query) = scheme.query(&hint, 1, &mut rng).expect("a query");
    let old_answer = scheme.answer(&store, &[&old_query]).expect("an answer").remove(0);
    let first = scheme.change(1, &mut store, &[(1, b"four")]).expect("a change");
    let second = scheme.change(1, &mut store, &[(1, b"five"), (99, b"last")]).expect("a change");
    let told = |result: Result<(), PirError>, here: &str| match result {
        Err(PirError::Message(why)) => assert!(why.contains(here) && why.contains("anew"), "{why}"),
        other => panic!("{other:?}"),
    };
    told(scheme.answer(&store, &[&old_query]).map(|_| ()), "a message of epoch 0, where this side is at epoch 2");
    told(scheme.patch(&mut hint, &second), "epoch 1, where this side is at epoch 0");
    scheme.patch(&mut hint, &first).expect("in order");
    told(scheme.decode(&hint, old_secret, &old_answer).map(|_| ()), "epoch");
    scheme.patch(&mut hint, &second).expect("in order");
    // A table of the same shape and another seed is another table.
    let other = SimplePir::new(*scheme.shape(), PublicSeed([6; 32]));
    let strange = other.store(&Flat::new(&table, 4).expect("records")).expect("a store");
    let (_, query) = scheme.query(&hint, 1, &mut rng).expect("a query");
    told(other.answer(&strange, &[&query]).map(|_| ()), "epoch 2, where this side is at epoch 0");
    // A copy is of a table before its changes: that of another table, or of a later state, is not taken.
    told(scheme.take_hint(other.hint(&strange).expect("a hint")).map(|_| ()), "but of another table");
    let mut later = other.hint(&strange).expect("a hint");
    later[0] = 2;
    told(other.take_hint(later).map(|_| ()), "epoch 2, where this side is at epoch 0");
    let error = scheme.hint(&store).expect_err("it has changed").to_string();
    assert!(error.contains("prepare the table anew"), "{error}");
    for (index, wanted) in [(1, b"five".as_slice()), (99, b"last"), (2, &table[8..12])] {
        let (secret, query) = scheme.query(&hint, index, &mut rng).expect("a query");
        let answer = scheme.answer(&store, &[&query]).expect("an answer").remove(0);
        assert_eq!(scheme.decode(&hint, secret, &answer).expect("a record"), wanted);
    }
}

#[test]
fn hostile_patches_are_refused_and_change_nothing() {
    let scheme = scheme(100, 4, 1024, 1);
    let mut store = scheme.store(&Flat::new(&bytes(400, 3), 4).expect("records")).expect("a store");
    let mut hint = scheme.take_hint(scheme.hint(&store).expect("a hint")).expect("it is one");
    let patch = scheme.change(1, &mut store, &[(1, b"four"), (2, b"five")]).expect("a change");
    let at = Epoch::BYTES;
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bad = patch.clone();
        change(&mut bad);
        bad
    };
    for bad in [
        Vec::new(),
        patch[..at - 1].to_vec(),
        patch[..at + 1].to_vec(),
        patch[..patch.len() - 1].to_vec(),
        with(&|bad| bad[at] = 2),
        with(&|bad| bad[at] = 1),
        with(&|bad| bad[at + 1..at + 5].fill(0xff)),
        with(&|bad| bad[at + 5..at + 9].fill(0xff)),
        with(&|bad| bad[0] ^= 1),
    ] {
        match scheme.patch(&mut hint, &bad) {
            Err(PirError::Message(why)) => assert!(why.contains("anew"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    scheme.patch(&mut hint, &patch).expect("the hint is what it was");
    let err = scheme.change(1, &mut store, &[(100, b"four")]).expect_err("no such record");
    assert!(err.to_string().contains("record 100"), "{err}");
    let err = scheme.change(1, &mut store, &[(0, b"long one")]).expect_err("too long");
    assert!(err.to_string().contains("8 bytes"), "{err}");
}

#[test]
fn records_that_are_not_there_are_refused() {
    let scheme = scheme(100, 4, 1024, 1);
    let store = scheme.store(&Flat::new(&bytes(400, 3), 4).expect("records")).expect("a store");
    let hint = scheme.take_hint(scheme.hint(&store).expect("a hint")).expect("it is one");
    let err = scheme.query(&hint, 100, &mut rng(1)).map(|_| ()).expect_err("no such record");
    assert!(err.to_string().contains("record 100"), "{err}");
    let err = scheme.store(&Flat::new(&[0; 99], 1).expect("records")).map(|_| ()).expect_err("other records");
    assert!(err.to_string().contains("99 records"), "{err}");
}
