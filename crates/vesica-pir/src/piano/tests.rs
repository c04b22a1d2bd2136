use super::*;
use std::collections::BTreeMap;
use vesica_session::SessionRng;
use zeroize::Zeroizing;

fn rng(seed: u8) -> SessionRng {
    SessionRng::from_seed(Zeroizing::new([seed; 32]))
}

fn table(records: u64, width: usize) -> Vec<u8> {
    let mut bytes = vec![0; records as usize * width];
    rng(9).fill(&mut bytes);
    bytes
}

fn window(shape: Piano, table: &[u8], rng: &mut SessionRng) -> Window {
    let mut builder = Builder::new(shape, rng);
    // In pieces of an odd size: what comes at once says nothing of chunks.
    table.chunks(777).for_each(|piece| builder.push(piece).unwrap());
    builder.finish().unwrap()
}

#[test]
fn every_record_is_that_of_the_table() {
    for (records, width) in [(1u64, 1usize), (2, 3), (5, 8), (9, 1), (100, 16), (1000, 9), (1025, 8), (40, 65_536)] {
        let (mut rng, table) = (rng(1), table(records, width));
        let (shape, flat) = (Piano::new(records, width).unwrap(), Flat::new(&table, width).unwrap());
        let mut window = window(shape, &table, &mut rng);
        for turn in 0..window.left().min(150) {
            // The last record, the first ones, some in between, and those that are known already.
            let want = if turn == 0 { records - 1 } else { turn * 7 % records };
            let intent = window.intend(want, &mut rng).unwrap();
            assert_eq!(intent.query().len(), shape.query_bytes());
            let answer = shape.answer(flat, intent.query()).unwrap();
            assert_eq!(answer.len(), shape.answer_bytes());
            window.settle(&intent, &answer).unwrap();
            assert_eq!(window.known(want), Some(flat.record(want)), "{want} of {records} x {width}");
        }
    }
}

#[test]
fn a_window_serves_all_its_queries_and_then_ends() {
    let (records, width) = (1u64 << 10, 8);
    let (mut rng, table) = (rng(2), table(records, width));
    let (shape, flat) = (Piano::new(records, width).unwrap(), Flat::new(&table, width).unwrap());
    let mut window = window(shape, &table, &mut rng);
    let scatter = crate::Scatter::new(records, &[4; 32]);
    // Many at once, in the order that a user would ask in.
    for wants in (0..shape.numbers().queries).collect::<Vec<_>>().chunks(TOGETHER as usize) {
        let wants: Vec<u64> = wants.iter().map(|&want| scatter.place(want).unwrap()).collect();
        let intents: Vec<Intent> = wants.iter().map(|&want| window.intend(want, &mut rng).unwrap()).collect();
        for intent in &intents {
            window.settle(intent, &shape.answer(flat, intent.query()).unwrap()).unwrap();
        }
        assert!(wants.iter().all(|&want| window.known(want) == Some(flat.record(want))));
    }
    assert!(window.is_over() && window.left() == 0);
    assert!(window.intend(3, &mut rng).unwrap_err().to_string().contains("all 221 queries"));
}

/// A client dies before or after each step of each query, and goes on from what it wrote down. It never sends other bytes for a query
/// than it may have sent before, and loses nothing.
#[test]
fn a_client_that_dies_at_any_point_sends_the_same_bytes_again() {
    let (records, width) = (64u64, 5);
    let (mut rng, table) = (rng(3), table(records, width));
    let (shape, flat) = (Piano::new(records, width).unwrap(), Flat::new(&table, width).unwrap());
    let fresh = window(shape, &table, &mut rng);
    let base = fresh.encode();
    // What is on the disk: each query, and its answer if there was one.
    let mut log: Vec<([u8; Intent::BYTES], Option<Vec<u8>>)> = Vec::new();
    let mut sent: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let reopened = |log: &[([u8; Intent::BYTES], Option<Vec<u8>>)]| {
        let mut window = Window::decode(shape, &base).unwrap();
        let mut waiting = Vec::new();
        for (bytes, answer) in log {
            let intent = window.replay(bytes).unwrap();
            match answer {
                Some(answer) => window.settle(&intent, answer).unwrap(),
                None => waiting.push(intent),
            }
        }
        (window, waiting)
    };
    for turn in 0..50u64 {
        let want = turn * 11 % records;
        let (mut window, waiting) = reopened(&log);
        assert!(waiting.is_empty());
        let intent = window.intend(want, &mut rng).unwrap();
        if turn % 4 == 0 {
            // It dies before the query is on the disk: nothing was sent, and another query may be decided.
            continue;
        }
        log.push((intent.encode(), None));
        // It dies when the query is on the disk, once before and once after it is sent.
        for _ in 0..2 {
            let (_, waiting) = reopened(&log);
            assert_eq!(waiting, std::slice::from_ref(&intent));
            let before = sent.entry(intent.number).or_insert_with(|| waiting[0].query().to_vec());
            assert_eq!(before, waiting[0].query());
        }
        let (mut window, waiting) = reopened(&log);
        let answer = shape.answer(flat, waiting[0].query()).unwrap();
        window.settle(&waiting[0], &answer).unwrap();
        assert_eq!(window.known(want), Some(flat.record(want)));
        // It dies before the answer is on the disk: it asks again, and gets the same.
        assert_eq!(reopened(&log).1.len(), 1);
        log.last_mut().unwrap().1 = Some(answer);
    }
    // Every number was sent with one text.
    assert_eq!(sent.len(), log.len());
}

#[test]
fn a_log_of_another_window_is_refused() {
    let (records, width) = (256u64, 4);
    let (mut rng, table) = (rng(4), table(records, width));
    let shape = Piano::new(records, width).unwrap();
    let mut one = window(shape, &table, &mut rng);
    let mut other = window(shape, &table, &mut rng);
    let written = one.intend(17, &mut rng).unwrap().encode();
    assert!(other.replay(&written).unwrap_err().to_string().contains("not decided by this window"));
    for at in 0..written.len() {
        let mut flipped = written;
        flipped[at] ^= 1;
        assert!(window(shape, &table, &mut SessionRng::from_seed(Zeroizing::new([4; 32]))).replay(&flipped).is_err());
    }
    assert!(Window::decode(shape, &one.encode()[1..]).is_err() && Window::decode(shape, &[]).is_err());
}

/// What the server sees has one length, whatever is asked for: a record, one that is known, or nothing because none can be served.
#[test]
fn queries_have_one_length_and_differ() {
    let (records, width) = (256u64, 4);
    let (mut rng, table) = (rng(5), table(records, width));
    let (shape, flat) = (Piano::new(records, width).unwrap(), Flat::new(&table, width).unwrap());
    let mut window = window(shape, &table, &mut rng);
    let (mut queries, mut nothing) = (Vec::new(), 0);
    // All queries for one chunk use it up, and the queries behind that ask for nothing.
    for turn in 0..window.left() {
        let intent = window.intend(turn % shape.numbers().chunk, &mut rng).unwrap();
        let answer = shape.answer(flat, intent.query()).unwrap();
        nothing += u64::from(intent.real.is_none());
        queries.push(intent.query().to_vec());
        window.settle(&intent, &answer).unwrap();
    }
    assert!(queries.iter().all(|query| query.len() == shape.query_bytes()));
    queries.sort_unstable();
    queries.dedup();
    assert_eq!(queries.len() as u64, shape.numbers().queries);
    assert!(window.is_over(), "{nothing}");
}

/// A server that answers wrongly gets the same queries as one that answers rightly, for records that were fetched before too. So it does
/// not see which of its wrong answers were of use.
#[test]
fn what_is_sent_does_not_depend_on_what_was_answered() {
    let (records, width) = (256u64, 4);
    let table = table(records, width);
    let (shape, flat) = (Piano::new(records, width).unwrap(), Flat::new(&table, width).unwrap());
    let fresh = window(shape, &table, &mut rng(11)).encode();
    let sent = |spoiled: u8| {
        let (mut window, mut rng) = (Window::decode(shape, &fresh).unwrap(), rng(12));
        let queries = (0..window.left()).map(|turn| {
            let intent = window.intend(turn * 5 % 60, &mut rng).unwrap();
            let mut answer = shape.answer(flat, intent.query()).unwrap();
            answer[turn as usize % width] ^= spoiled;
            window.settle(&intent, &answer).unwrap();
            intent.query().to_vec()
        });
        queries.collect::<Vec<_>>()
    };
    assert!(sent(0) == sent(1));
}

/// The offsets of a chunk that queries are sent with are spread evenly, whichever record is wanted.
#[test]
fn offsets_say_nothing_of_the_record() {
    let (records, width) = (256u64, 1);
    let (mut rng, table) = (rng(6), table(records, width));
    let shape = Piano::new(records, width).unwrap();
    let chunk = shape.numbers().chunk;
    let mut counts = vec![0u32; chunk as usize];
    let windows = 1500;
    for _ in 0..windows {
        let mut window = window(shape, &table, &mut rng);
        let intent = window.intend(3, &mut rng).unwrap();
        counts[shape.unpack(intent.query()).unwrap()[0] as usize] += 1;
    }
    // Record 3 stands at offset 3 of chunk 0, and 3 is sent for chunk 0 no more often than any other offset.
    let mean = f64::from(windows) / chunk as f64;
    assert!(counts.iter().all(|&count| (f64::from(count) - mean).abs() < 6.0 * mean.sqrt()), "{counts:?}");
}

#[test]
fn what_is_no_query_or_answer_is_refused() {
    let (records, width) = (100u64, 4);
    let (mut rng, table) = (rng(7), table(records, width));
    let (shape, flat) = (Piano::new(records, width).unwrap(), Flat::new(&table, width).unwrap());
    let mut window = window(shape, &table, &mut rng);
    let intent = window.intend(3, &mut rng).unwrap();
    let query = intent.query();
    for bad in [&[][..], &query[1..], &[query, &[0]].concat()] {
        assert!(shape.answer(flat, bad).unwrap_err().to_string().contains("a query of"));
    }
    // 100 records are 4 chunks of 32: 20 bits, and the 4 bits behind them are zero.
    assert_eq!((query.len(), shape.numbers().chunks), (3, 4));
    let mut long = query.to_vec();
    long[2] |= 0x80;
    assert!(shape.answer(flat, &long).unwrap_err().to_string().contains("behind its last offset"));
    assert!(shape.answer(Flat::new(&table[..80], width).unwrap(), query).is_err());
    // All ones is a query too: the last chunk has no record there.
    assert_eq!(shape.answer(flat, &[0xff, 0xff, 0x0f]).unwrap().len(), 4);
    assert!(window.settle(&intent, &[0; 5]).unwrap_err().to_string().contains("an answer of 5 bytes"));
    window.settle(&intent, &shape.answer(flat, query).unwrap()).unwrap();
    assert!(window.settle(&intent, &[0; 4]).unwrap_err().to_string().contains("no query"));
    assert!(window.intend(100, &mut rng).unwrap_err().to_string().contains("record 100"));
    // A table that is cut or goes on is none.
    let mut builder = Builder::new(shape, &mut rng);
    assert!(builder.push(&[0; 401]).is_err());
    builder.push(&[0; 399]).unwrap();
    assert!(builder.finish().is_err());
    assert!(Piano::new(0, 1).is_err() && Piano::new(1, 0).is_err() && Piano::new((1 << 30) + 1, 1).is_err());
}

/// How often the set of a later query of a round holds the record that an earlier one asks for, and how many pairs of queries there were.
/// All queries of a round are decided before the first answer is taken.
fn pairs(windows: u32, round: usize) -> (u64, u64) {
    let records = 1u64 << 10;
    let (mut rng, table) = (rng(8), table(records, 1));
    let (shape, flat) = (Piano::new(records, 1).unwrap(), Flat::new(&table, 1).unwrap());
    let chunk = shape.numbers().chunk;
    let (mut hits, mut pairs) = (0, 0);
    for turn in 0..windows {
        let mut window = window(shape, &table, &mut rng);
        let scatter = crate::Scatter::new(records, &[turn as u8; 32]);
        let first = u64::from(turn) % records;
        let wants: Vec<u64> = (0..TOGETHER).map(|want| scatter.place((first + want) % records).unwrap()).collect();
        for wants in wants.chunks(round) {
            let intents: Vec<Intent> = wants.iter().map(|&want| window.intend(want, &mut rng).unwrap()).collect();
            let sets: Vec<Vec<u64>> = intents.iter().map(|intent| shape.unpack(intent.query()).unwrap()).collect();
            for (later, set) in sets.iter().enumerate() {
                pairs += later as u64;
                hits +=
                    wants[..later].iter().filter(|&&want| set[(want / chunk) as usize] == want % chunk).count() as u64;
            }
            for (intent, &want) in intents.iter().zip(wants) {
                window.settle(intent, &shape.answer(flat, intent.query()).unwrap()).unwrap();
                assert_eq!(window.known(want), Some(flat.record(want)));
            }
        }
    }
    (hits, pairs)
}

/// Within five standard deviations of a random set, which holds a given record with probability 1/C.
fn is_random((hits, pairs): (u64, u64)) {
    let mean = pairs as f64 / 64.0;
    assert!((hits as f64 - mean).abs() < 5.0 * mean.sqrt(), "{hits} of {pairs} pairs, and {mean} are right");
}

/// The server sees all sets of a round. If slots whose answers are on their way were left out, this would be 0.6 of what is right.
#[test]
fn later_sets_of_a_round_hold_the_earlier_records_as_random_sets_do() {
    is_random(pairs(30, TOGETHER as usize));
}

#[test]
#[ignore = "minutes in a debug build"]
fn later_sets_hold_the_earlier_records_as_random_sets_do_in_many_windows() {
    [2, 8, 64].into_iter().for_each(|round| is_random(pairs(3000, round)));
}

/// Two queries of a round go out from one slot. The second answer is of use only behind the first.
#[test]
fn a_slot_serves_two_queries_of_a_round() {
    let (records, width) = (64u64, 5);
    let (mut rng, table) = (rng(10), table(records, width));
    let (shape, flat) = (Piano::new(records, width).unwrap(), Flat::new(&table, width).unwrap());
    let mut window = window(shape, &table, &mut rng);
    let intents: Vec<Intent> = (0..60).map(|want| window.intend(want, &mut rng).unwrap()).collect();
    let mut slots: Vec<u64> = intents.iter().filter_map(|intent| Some(intent.real?.slot)).collect();
    slots.sort_unstable();
    assert!(slots.windows(2).any(|pair| pair[0] == pair[1]));
    let answer = |intent: &Intent| shape.answer(flat, intent.query()).unwrap();
    let early = window.settle(&intents[1], &answer(&intents[1])).unwrap_err();
    assert!(early.to_string().contains("not to the first"), "{early}");
    for (intent, want) in intents.iter().zip(0..) {
        window.settle(intent, &answer(intent)).unwrap();
        assert_eq!(window.known(want), Some(flat.record(want)));
    }
}
