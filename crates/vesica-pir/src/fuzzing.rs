//! What `fuzz/` reaches of this crate's decoders. Nothing that a run uses.

use crate::bucket::Buckets;
use crate::keyword::{Filter, TAG};
use crate::packed::{self, PackedPir};
use crate::piano::{Builder, Intent, Piano, Window};
use crate::rlwe::{self, Preset, Scheme};
use crate::simple::{SimplePir, Store};
use crate::{Flat, Pir, PublicSeed, RlwePir, Shape};
use std::sync::OnceLock;
use vesica_session::SessionRng;
use zeroize::Zeroizing;

fn rng() -> SessionRng {
    SessionRng::from_seed(Zeroizing::new([1; 32]))
}

/// The bytes as a message, behind `head` and as long as one is due if the first of them asks for it.
fn message(how: u8, head: &[u8], bytes: &[u8], due: usize) -> Vec<u8> {
    if how < 128 {
        return bytes.to_vec();
    }
    let mut message = [head, bytes].concat();
    message.resize(due, bytes.last().copied().unwrap_or(0));
    message
}

/// A table of 16 records of 4 bytes, and its hint.
fn small() -> &'static (SimplePir, Store, Vec<u8>) {
    static SMALL: OnceLock<(SimplePir, Store, Vec<u8>)> = OnceLock::new();
    SMALL.get_or_init(|| {
        let shape = Shape::new(16, 4, 1024, 1).expect("a shape");
        let scheme = SimplePir::new(shape, PublicSeed([2; 32]));
        let store = scheme.store(&Flat::new(&[7; 64], 4).expect("records")).expect("a store");
        let hint = scheme.hint(&store).expect("a hint");
        (scheme, store, hint)
    })
}

/// SimplePIR: a query, a hint, an answer, a patch.
///
/// # Panics
/// If an answer has not its length, or a patch that is refused changes a hint.
pub fn simple(bytes: &[u8]) {
    let Some((&how, rest)) = bytes.split_first() else { return };
    let (scheme, store, hint) = small();
    let (sizes, head) = (scheme.sizes(), store.epoch().to_bytes());
    let read = || scheme.take_hint(hint.clone()).expect("it is one");
    match how % 4 {
        0 => {
            if let Ok(answers) = scheme.answer(store, &[&message(how, &head, rest, sizes.query)]) {
                assert_eq!(answers[0].len(), sizes.answer);
            }
        }
        1 => drop(scheme.take_hint(message(how, &head, rest, sizes.hint as usize))),
        2 => {
            let hint = read();
            let (secret, _) = scheme.query(&hint, 3, &mut rng()).expect("a query");
            if let Ok(record) = scheme.decode(&hint, secret, &message(how, &head, rest, sizes.answer)) {
                assert_eq!(record.len(), 4);
            }
        }
        _ => {
            let (mut hint, untouched) = (read(), read());
            if scheme.patch(&mut hint, &message(how, &head, rest, head.len() + rest.len())).is_err() {
                assert!((0..scheme.shape.rows()).all(|row| hint.row(row) == untouched.row(row)));
                assert!(hint.epoch == untouched.epoch);
            }
        }
    }
}

/// A table of 16 records of 4 bytes without a hint, and its masks.
fn masked() -> &'static (PackedPir, packed::Store, Vec<u8>) {
    static MASKED: OnceLock<(PackedPir, packed::Store, Vec<u8>)> = OnceLock::new();
    MASKED.get_or_init(|| {
        let scheme = PackedPir::new(Shape::packed(16, 4, 2048).expect("a shape"), PublicSeed([2; 32]));
        let store = scheme.store(&Flat::new(&[7; 64], 4).expect("records")).expect("a store");
        let masks = scheme.hint(&store).expect("masks");
        (scheme, store, masks)
    })
}

/// SimplePIR without a hint: a query with its key, masks, an answer, a patch, and what is kept beside the records.
///
/// # Panics
/// If an answer has not its length, a patch that is refused changes what the client has, or columns of other records are taken.
pub fn packed(bytes: &[u8]) {
    let Some((&how, rest)) = bytes.split_first() else { return };
    let (scheme, store, masks) = masked();
    let (sizes, head) = (scheme.sizes(), store.epoch().to_bytes());
    let read = || scheme.take_hint(masks.clone()).expect("they are ours");
    match how % 5 {
        0 => {
            if let Ok(answers) = scheme.answer(store, &[&message(how, &head, rest, sizes.query)]) {
                assert_eq!(answers[0].len(), sizes.answer);
            }
        }
        1 => drop(scheme.take_hint(message(how, &head, rest, sizes.hint as usize))),
        2 => {
            let hint = read();
            let (secret, _) = scheme.query(&hint, 3, &mut rng()).expect("a query");
            if let Ok(record) = scheme.decode(&hint, secret, &message(how, &head, rest, sizes.answer)) {
                assert_eq!(record.len(), 4);
            }
        }
        3 => {
            let (mut hint, untouched) = (read(), read());
            if scheme.patch(&mut hint, &message(how, &head, rest, head.len() + rest.len())).is_err() {
                assert!(hint == untouched);
            }
        }
        _ => {
            let kept = message(how, &head, rest, scheme.beside_bytes() as usize);
            assert!(scheme.restore(&Flat::new(&[8; 64], 4).expect("records"), &kept, &[]).is_err());
        }
    }
}

/// A filter's seeds, and a record.
///
/// # Panics
/// If a key stands outside of the table.
pub fn filter(bytes: &[u8]) {
    let shape = Shape::new(4 * 1024, TAG as u32 + 4, 1024, 1).expect("a shape");
    let (tries, record) = bytes.split_at(bytes.len().min(4));
    if let Ok(filter) = Filter::new(&shape, 4, [3; 32], [4; 32], tries) {
        for key in [[0; 32], [9; 32]] {
            assert!(filter.places(&key).iter().all(|&place| place < shape.records));
            let _ = filter.open(&key, record);
        }
    }
}

/// Piano: a query, a window, and a query that was written down, with its answer.
///
/// # Panics
/// If an answer has not its length.
pub fn piano(bytes: &[u8]) {
    let Some((&how, rest)) = bytes.split_first() else { return };
    let shape = Piano::new(100, 4).expect("a shape");
    if how % 2 == 0 {
        let table = Flat::new(&[5; 400], 4).expect("records");
        if let Ok(answer) = shape.answer(table, &message(how, &[], rest, shape.query_bytes())) {
            assert_eq!(answer.len(), shape.answer_bytes());
        }
        return;
    }
    static WINDOW: OnceLock<Vec<u8>> = OnceLock::new();
    let window = WINDOW.get_or_init(|| {
        let mut builder = Builder::new(shape, &mut rng());
        builder.push(&[5; 400]).expect("records");
        builder.finish().expect("a window").encode().to_vec()
    });
    drop(Window::decode(shape, rest));
    let mut window = Window::decode(shape, window).expect("it is one");
    for entry in rest.chunks(Intent::BYTES + 4) {
        let Some((intent, answer)) = entry.split_first_chunk() else { break };
        if let Ok(intent) = window.replay(intent) {
            let _ = window.settle(&intent, answer);
        }
    }
}

/// BFV: a query, an answer, and keys.
///
/// # Panics
/// If an answer has not its length.
pub fn rlwe(bytes: &[u8]) {
    static SMALL: OnceLock<(RlwePir, rlwe::Store)> = OnceLock::new();
    let Some((&how, rest)) = bytes.split_first() else { return };
    let (scheme, store) = SMALL.get_or_init(|| {
        let scheme = RlwePir::new(Scheme::Bfv, Preset::Fast, 20, 2).expect("a scheme");
        let store = scheme.store(&Flat::new(&[6; 40], 2).expect("records")).expect("a store");
        (scheme, store)
    });
    let (sizes, (session, keys)) = (scheme.sizes(), scheme.session(&mut rng()));
    match how % 3 {
        0 => {
            let keys = scheme.take_keys(&keys).expect("they are ours");
            if let Ok(answers) = scheme.answer(store, &keys, &[&message(how, &[], rest, sizes.query)]) {
                assert_eq!(answers[0].len(), sizes.answer);
            }
        }
        1 => {
            let (secret, _) = scheme.query(&session, 3, &mut rng()).expect("a query");
            drop(scheme.decode(&secret, &message(how, &[], rest, sizes.answer)));
        }
        _ => {
            // Records so long that queries are expanded, which takes keys.
            static LONG: OnceLock<RlwePir> = OnceLock::new();
            let long = LONG.get_or_init(|| RlwePir::new(Scheme::Bfv, Preset::Fast, 40, 2048).expect("a scheme"));
            drop(long.take_keys(&message(how, &[], rest, long.keys_bytes())));
        }
    }
}

/// A bucket.
pub fn buckets(bytes: &[u8]) {
    let buckets = Buckets::new(3, 4, [8; 32]).expect("buckets");
    let _ = buckets.find(bytes, &buckets.place(&[9; 32]));
}

/// Honest messages, each as its target takes it: the name of the target's function, and bytes.
///
/// # Panics
/// Never: these are honest.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let (scheme, store, hint) = small();
    let read = scheme.take_hint(hint.clone()).expect("it is one");
    let (_, query) = scheme.query(&read, 3, &mut rng()).expect("a query");
    let answer = scheme.answer(store, &[&query]).expect("an answer").remove(0);
    let mut changed = scheme.store(&Flat::new(&[7; 64], 4).expect("records")).expect("a store");
    let patch = scheme.change(&mut changed, &[(3, b"four")]).expect("a patch");
    let (masked, of_masked, masks) = masked();
    let read = masked.take_hint(masks.clone()).expect("they are ours");
    let (_, with_key) = masked.query(&read, 3, &mut rng()).expect("a query");
    let unpacked = masked.answer(of_masked, &[&with_key]).expect("an answer").remove(0);
    let mut other = masked.store(&Flat::new(&[7; 64], 4).expect("records")).expect("a store");
    let cells = masked.change(1, &mut other, &[(3, b"four")]).expect("a patch");
    let piano = Piano::new(100, 4).expect("a shape");
    let mut builder = Builder::new(piano, &mut rng());
    builder.push(&[5; 400]).expect("records");
    let intent = builder.finish().expect("a window").intend(3, &mut rng()).expect("a query");
    vec![
        ("simple", [&[0], &query[..]].concat()),
        ("simple", [&[2], &answer[..]].concat()),
        ("simple", [&[3], &patch[..]].concat()),
        ("simple", vec![128, 1, 2, 3]),
        ("simple", vec![129, 1, 2, 3]),
        ("packed", [&[0], &with_key[..]].concat()),
        ("packed", [&[2], &unpacked[..]].concat()),
        ("packed", [&[3], &cells[..]].concat()),
        ("packed", vec![130, 1, 2, 3]),
        ("packed", vec![131, 1, 2, 3]),
        ("packed", vec![132, 1, 2, 3]),
        ("packed", vec![133, 1, 0, 0, 0, 0, 7]),
        ("packed", vec![134, 1, 2, 3]),
        ("filter", [&[0, 1, 2, 3], &[7; TAG + 4][..]].concat()),
        ("piano", [&[0], intent.query()].concat()),
        ("piano", [&[1], &intent.encode()[..], &[1, 2, 3, 4]].concat()),
        ("rlwe", vec![128, 1, 2, 3]),
        ("rlwe", vec![129, 1, 2, 3]),
        ("rlwe", vec![130, 1, 2, 3]),
        ("buckets", vec![7; 4 * (crate::bucket::TAG + 4)]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seeds, and each of them cut, go through what the fuzzer calls.
    #[test]
    fn honest_messages_go_through() {
        for (name, bytes) in seeds() {
            let target = match name {
                "simple" => simple,
                "packed" => packed,
                "filter" => filter,
                "piano" => piano,
                "rlwe" => rlwe,
                _ => buckets,
            };
            target(&bytes);
            target(&bytes[..bytes.len() / 2]);
        }
    }
}
