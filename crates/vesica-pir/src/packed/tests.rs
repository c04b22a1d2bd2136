//! Records by number, sums of them, patches of both kinds, and what is no message.

use super::*;
use crate::Flat;
use crate::keyword::TAG;
use crate::patch::{CELL, COPIED};

const SEED: PublicSeed = PublicSeed([3; 32]);

fn rng(seed: u8) -> SessionRng {
    SessionRng::from_seed(Zeroizing::new([seed; 32]))
}

fn bytes(seed: u8, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    rng(seed).fill(&mut bytes);
    bytes
}

fn scheme(records: u64, width: u32, columns: u32) -> PackedPir {
    PackedPir::new(Shape::packed(records, width, columns).expect("a shape"), SEED)
}

/// Which records there are after some changes.
fn compare(scheme: &PackedPir, store: &Store, hint: &Hint, table: &[u8], indices: &[u64]) {
    let width = scheme.shape.width as usize;
    for four in indices.chunks(4) {
        let asked: Vec<(Secret, Vec<u8>)> =
            four.iter().map(|&index| scheme.query(hint, index, &mut rng(index as u8)).expect("a query")).collect();
        let queries: Vec<&[u8]> = asked.iter().map(|(_, query)| query.as_slice()).collect();
        assert!(queries.iter().all(|query| query.len() == scheme.sizes().query));
        let answers = scheme.answer_on(2, store, &queries).expect("answers");
        for ((&index, (secret, _)), answer) in four.iter().zip(asked).zip(answers) {
            assert_eq!(answer.len(), scheme.sizes().answer);
            let record = scheme.decode(hint, secret, &answer).expect("a record");
            assert!(record == table[index as usize * width..][..width], "record {index}");
        }
    }
}

/// Two whole blocks and one of 192 rows; a record of 300 bytes lies in two of them. Bytes are changed by both kinds of entries.
#[test]
fn records_come_back_before_and_after_changes() {
    // 7 groups of 300 rows: 2100, of which 2112 stand there.
    let (records, width) = (6 * 4096 + 700, 300);
    let scheme = scheme(records, width, 4096);
    assert_eq!((scheme.shape.rows(), scheme.shape.hint_rows()), (2112, 3));
    let mut table = bytes(1, records as usize * width as usize);
    let mut store = scheme.prepare(2, &Flat::new(&table, width as usize).expect("records")).expect("a store");
    let mut hint = scheme.take_hint(scheme.hint(&store).expect("masks")).expect("they are");
    assert_eq!(scheme.sizes().hint, (Epoch::BYTES + 3 * 4608) as u64);
    let asked = [0, 4095, 3 * 4096 + 17, 6 * 4096 + 699, 6 * 4096, 2 * 4096 + 1];
    compare(&scheme, &store, &hint, &table, &asked);
    // 0x7f to 0x80 is -255, which is where differences of unsigned bytes would be wrong.
    let record: Vec<u8> = (0..width as usize).map(|i| [0x80, 0x7f, 0][i % 3]).collect();
    let few: Vec<u64> = vec![0, 3 * 4096 + 17, 6 * 4096];
    let many: Vec<u64> = (3 * 4096..4 * 4096).collect();
    let mut patches = Vec::new();
    // Other bytes each time, so that differences add up; the last change takes some of them back.
    for (changed, kind, by) in [(&few, CELL, 0), (&few, CELL, 77), (&many, COPIED, 3), (&few, CELL, 1), (&few, CELL, 0)]
    {
        let record: Vec<u8> = record.iter().map(|&byte| byte ^ by).collect();
        let changes: Vec<(u64, &[u8])> = changed.iter().map(|&index| (index, record.as_slice())).collect();
        for (index, record) in &changes {
            table[*index as usize * width as usize..][..width as usize].copy_from_slice(record);
        }
        let patch = scheme.change(1, &mut store, &changes).expect("a patch");
        assert_eq!(patch[Epoch::BYTES], kind);
        scheme.patch(&mut hint, &patch).expect("it is one");
        compare(&scheme, &store, &hint, &table, &asked);
        assert!(kind == CELL || patch.len() as u64 <= scheme.patch_bytes(1));
        patches.push(patch);
    }
    // A server that starts again, with the columns that it kept.
    let patches: Vec<&[u8]> = patches.iter().map(Vec::as_slice).collect();
    let kept = scheme.beside(&store);
    let flat = Flat::new(&table, width as usize).expect("records");
    let again = scheme.restore(&flat, &kept, &patches).expect("a store");
    assert!(again.matrix.lines() == store.matrix.lines() && again.epoch == store.epoch);
    compare(&scheme, &again, &hint, &table, &asked);
    assert!(scheme.hint(&again).is_err());
    // Whoever has the table finds masks and columns that are not what it makes, behind patches too.
    scheme.recompute(2, &flat, &kept, &hint, &patches).expect("they are");
    let honest = hint.masks[1][5];
    hint.masks[1][5] ^= 1 << 14;
    let error = scheme.recompute(2, &flat, &kept, &hint, &patches).expect_err("another mask").to_string();
    assert!(error.contains("mask of block 1"), "{error}");
    hint.masks[1][5] = honest;
    let mut matrix = laid_out(&scheme.shape, &flat, |_| ()).expect("a matrix");
    (0..scheme.shape.extra_columns()).for_each(|at| matrix.write(0, 4096 + at, &[at as u8; 2112]));
    let lying = scheme.beside(&Store { matrix, masks: Vec::new(), epoch: store.epoch });
    let error = scheme.recompute(2, &flat, &lying, &hint, &patches).expect_err("other columns").to_string();
    assert!(error.contains("beside the records"), "{error}");
    // What was kept is damaged, or of other records, other patches, or another number of them.
    let refused = |records: &dyn Records, kept: &[u8], patches: &[&[u8]], why: &str| {
        let error = scheme.restore(records, kept, patches).err().expect("it is refused").to_string();
        assert!(error.contains(why) && error.contains("prepare"), "{error}");
    };
    refused(&flat, &kept[1..], &patches, "bytes beside");
    for at in [HEAD - 1, HEAD, kept.len() - 1] {
        let mut other = kept.clone();
        other[at] ^= 1;
        refused(&flat, &other, &patches, "not of these records");
    }
    refused(&flat, &kept, &patches[1..], "another epoch");
    refused(&flat, &kept, &[], "another epoch");
    let mut other = table.clone();
    other[70_000] ^= 1;
    refused(&Flat::new(&other, width as usize).expect("records"), &kept, &patches, "not of these records");
}

/// A mask or a column that was computed wrongly is found when the table is prepared, and not by clients. Masks of a block and its columns belong
/// together: those of another secret's key would not.
#[test]
fn what_was_packed_wrongly_is_found() {
    let scheme = scheme(2048 * 3, 500, 2048);
    let table = bytes(7, 2048 * 3 * 500);
    let mut store = scheme.prepare(2, &Flat::new(&table, 500).expect("records")).expect("a store");
    let of = |store: &Store, block: usize| (block, store.masks[block * 4608..][..4608].to_vec());
    let masks = [0, 1].map(|block| of(&store, block));
    scheme.prove(1, &store.matrix, &masks).expect("they are right");
    // The top bit of a word of 18, and a mask of another block.
    let mut flipped = of(&store, 1);
    flipped.1[2] ^= 2;
    for wrong in [flipped, (1, of(&store, 0).1)] {
        let error = scheme.prove(1, &store.matrix, &[of(&store, 0), wrong]).expect_err("it is wrong").to_string();
        assert!(error.contains("block 1") && error.contains("prepare"), "{error}");
    }
    // A high byte of P in one row.
    let mut high = [0];
    store.matrix.read(1030, 2048 + 2048 + 9, &mut high);
    store.matrix.write(1030, 2048 + 2048 + 9, &[high[0] ^ 0x40]);
    assert!(scheme.prove(1, &store.matrix, &masks).is_err());
    scheme.prove(1, &store.matrix, &masks[..1]).expect("that block is right");
}

/// A change that failed half way: no query is answered, nobody gets masks, and what is kept beside the records opens no store.
#[test]
fn what_is_left_of_a_change_that_failed_is_of_no_use() {
    let scheme = scheme(100, 5, 2048);
    let table = bytes(5, 500);
    let flat = Flat::new(&table, 5).expect("records");
    let mut store = scheme.store(&flat).expect("a store");
    let hint = scheme.take_hint(scheme.hint(&store).expect("masks")).expect("they are");
    let (_, query) = scheme.query(&hint, 1, &mut rng(1)).expect("a query");
    scheme.restore(&flat, &scheme.beside(&store), &[]).expect("nothing was changed");
    PackedPir::half_changed(&mut store);
    assert!(scheme.hint(&store).is_err() && scheme.answer(&store, &[&query]).is_err());
    assert!(scheme.restore(&flat, &scheme.beside(&store), &[]).is_err());
}

/// One query for a key, with one key of the client's.
#[test]
fn a_key_is_one_query() {
    let keys: Vec<[u8; 32]> = (0..3000u32).map(|i| *blake3::hash(&i.to_le_bytes()).as_bytes()).collect();
    let body = 20;
    let shape = Filter::packed_shape(keys.len() as u64, (TAG + body) as u32, 10).expect("a shape");
    assert!(shape.columns.is_multiple_of(2048) && shape.chunks == 1, "{shape:?}");
    let (mut filter, members) = Filter::spread(&shape, body, &keys, &mut rng(1)).expect("they spread");
    let (bodies, size) = (bytes(2, keys.len() * body), filter.slots() * filter.width());
    let mut table = vec![0; members.len() * size];
    for (group, members) in members.iter().enumerate() {
        let of: Vec<u8> = members.iter().flat_map(|&i| &bodies[i as usize * body..][..body]).copied().collect();
        let members: Vec<&[u8; 32]> = members.iter().map(|&i| &keys[i as usize]).collect();
        filter.fill(group, [1; 32], &members, &of, &mut rng(3), &mut table[group * size..][..size]).expect("it fits");
    }
    let scheme = PackedPir::new(shape, SEED);
    let store = scheme.store(&Flat::new(&table, filter.width()).expect("slots")).expect("a store");
    let hint = scheme.take_hint(scheme.hint(&store).expect("masks")).expect("they are");
    for i in [0, 1, 2999] {
        let (secret, query) = scheme.query_sum(&hint, &filter.places(&keys[i]), &mut rng(4)).expect("a query");
        let answer = scheme.answer(&store, &[&query]).expect("an answer").remove(0);
        let record = scheme.decode(&hint, secret, &answer).expect("a record");
        assert_eq!(filter.open(&keys[i], &record), Some(&bodies[i * body..][..body]));
    }
    assert!(scheme.query_sum(&hint, &[], &mut rng(4)).is_err());
}

/// Masks of another table or seed, cut ones, and those of a later epoch, are refused before a query is made with them. A mask with one bit
/// flipped decodes to something else; who copies masks compares their hash.
#[test]
fn what_is_no_message_is_refused() {
    let scheme = scheme(100, 5, 2048);
    let table = bytes(5, 500);
    let flat = Flat::new(&table, 5).expect("records");
    let mut store = scheme.store(&flat).expect("a store");
    let masks = scheme.hint(&store).expect("masks");
    let other = PackedPir::new(scheme.shape, PublicSeed([4; 32]));
    for bad in [masks[1..].to_vec(), Vec::new(), other.hint(&other.store(&flat).expect("a store")).expect("masks")] {
        assert!(scheme.take_hint(bad).is_err());
    }
    let mut later = masks.clone();
    later[0] ^= 1;
    assert!(scheme.take_hint(later).is_err());
    let mut hint = scheme.take_hint(masks).expect("they are");
    let (_, query) = scheme.query(&hint, 1, &mut rng(1)).expect("a query");
    assert!(scheme.query(&hint, 100, &mut rng(1)).is_err());
    assert!(scheme.answer(&store, &[&query[1..]]).is_err() && scheme.answer(&store, &[&[]]).is_err());
    let patch = scheme.change(1, &mut store, &[(7, &[1; 5])]).expect("a patch");
    assert!(scheme.answer(&store, &[&query]).is_err(), "a query of the epoch before");
    let mut unknown = patch.clone();
    unknown[Epoch::BYTES] = 2;
    let mut outside = patch.clone();
    outside[Epoch::BYTES + 1..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
    let mask = [&patch[..Epoch::BYTES], &[COPIED, 1, 0, 0, 0], &[0; 4608]].concat();
    for bad in [&patch[..patch.len() - 1], &patch[1..], &unknown, &outside, &mask] {
        assert!(scheme.patch(&mut hint, bad).is_err());
    }
    scheme.patch(&mut hint, &patch).expect("it is one");
    assert!(scheme.patch(&mut hint, &patch).is_err(), "twice");
    assert!(scheme.change(1, &mut store, &[(100, &[1; 5])]).is_err());
    assert!(scheme.change(1, &mut store, &[(7, &[1; 4])]).is_err());
}

/// Why nothing that was decoded may be shown: with a mask that is one constant and an answer of zeros, the record is the client's secret.
#[test]
fn a_poisoned_mask_decodes_to_the_secret() {
    let scheme = scheme(2048, 512, 2048);
    let mut masks = scheme.first_epoch().to_bytes().to_vec();
    let one: Vec<u32> = (0..DEGREE).map(|i| u32::from(i == 0) << 24).collect();
    bits::pack(one.iter().map(|word| word >> 14), 18, &mut masks);
    let hint = scheme.take_hint(masks).expect("they are");
    let (secret, query) = scheme.query(&hint, 9, &mut rng(6)).expect("a query");
    let mut first = vec![0; DEGREE];
    first[0] = 1;
    let s = hint.matrix.times(&secret.secret, &first);
    let answer = [&query[..Epoch::BYTES], &vec![0; scheme.shape.answer_bytes()]].concat();
    let record = scheme.decode(&hint, secret, &answer).expect("bytes");
    assert!(record.iter().zip(s.iter()).all(|(&byte, &s)| byte == s.wrapping_neg() as u8));
}
