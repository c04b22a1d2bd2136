//! What `fuzz/` reaches of this crate's decoders. Nothing that a run uses.

use crate::bucket::Buckets;
use crate::keyword::{Filter, TAG};
use crate::piano::{Builder, Intent, Piano, Window};
use crate::rlwe::{self, Preset, Scheme};
use crate::{Epoch, Flat, MatrixPir, PackedPir, PublicSeed, RlwePir, Shape, SimplePir};
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

/// A table of 16 records of 4 bytes, and what clients copy of it.
struct Small<P: MatrixPir> {
    scheme: P,
    store: P::Store,
    copy: Vec<u8>,
}

impl<P: MatrixPir> Small<P> {
    fn new(shape: Result<Shape, String>) -> Self {
        let scheme = P::new(shape.expect("a shape"), PublicSeed([2; 32]));
        let store = Self::store(&scheme);
        let copy = scheme.hint(&store).expect("it was made here");
        Self { scheme, store, copy }
    }

    fn store(scheme: &P) -> P::Store {
        scheme.store(&Flat::new(&[7; 64], 4).expect("records")).expect("a store")
    }

    fn read(&self) -> P::Hint {
        self.scheme.take_hint(self.copy.clone()).expect("it is ours")
    }

    /// A query with its key, what clients copy, an answer, a patch, and what is kept beside the records.
    fn feed(&self, bytes: &[u8]) {
        let Some((&how, rest)) = bytes.split_first() else { return };
        let Self { scheme, store, copy } = self;
        let (sizes, head) = (scheme.sizes(), &copy[..Epoch::BYTES]);
        match how % 5 {
            0 => {
                if let Ok(answers) = scheme.answer(store, &[&message(how, head, rest, sizes.query)]) {
                    assert_eq!(answers[0].len(), sizes.answer);
                }
            }
            1 => drop(scheme.take_hint(message(how, head, rest, sizes.hint as usize))),
            2 => {
                let hint = self.read();
                let (secret, _) = scheme.query(&hint, 3, &mut rng()).expect("a query");
                if let Ok(record) = scheme.decode(&hint, secret, &message(how, head, rest, sizes.answer)) {
                    assert_eq!(record.len(), 4);
                }
            }
            3 => {
                let mut hint = self.read();
                if scheme.patch(&mut hint, &message(how, head, rest, head.len() + rest.len())).is_err() {
                    assert!(hint == self.read());
                }
            }
            _ => {
                let kept = message(how, head, rest, scheme.beside_bytes() as usize);
                let other = scheme.restore(&Flat::new(&[8; 64], 4).expect("records"), &kept, &[]);
                assert!(other.is_err() || scheme.beside_bytes() == 0);
            }
        }
    }

    /// Honest messages, as [`Small::feed`] takes them.
    fn seeds(&self, name: &'static str) -> Vec<(&'static str, Vec<u8>)> {
        let (_, query) = self.scheme.query(&self.read(), 3, &mut rng()).expect("a query");
        let answer = self.scheme.answer(&self.store, &[&query]).expect("an answer").remove(0);
        let patch = self.scheme.change(1, &mut Self::store(&self.scheme), &[(3, b"four")]).expect("a patch");
        let honest = [(0, query), (2, answer), (3, patch)].map(|(how, bytes)| [&[how], &bytes[..]].concat());
        let headed = [&[130, 1, 2, 3][..], &[131, 1, 2, 3], &[132, 1, 2, 3], &[133, 1, 0, 0, 0, 0, 7], &[134, 1, 2, 3]];
        honest.into_iter().chain(headed.map(<[u8]>::to_vec)).map(|bytes| (name, bytes)).collect()
    }
}

fn hinted() -> &'static Small<SimplePir> {
    static SMALL: OnceLock<Small<SimplePir>> = OnceLock::new();
    SMALL.get_or_init(|| Small::new(Shape::new(16, 4, 1024, 1)))
}

fn masked() -> &'static Small<PackedPir> {
    static SMALL: OnceLock<Small<PackedPir>> = OnceLock::new();
    SMALL.get_or_init(|| Small::new(Shape::packed(16, 4, 2048)))
}

/// SimplePIR with a hint: a query, a hint, an answer, a patch.
///
/// # Panics
/// If an answer has not its length, or a patch that is refused changes a hint.
pub fn simple(bytes: &[u8]) {
    hinted().feed(bytes);
}

/// The same without a hint, and what is kept beside the records.
///
/// # Panics
/// As [`simple`]; if columns of other records are taken.
pub fn packed(bytes: &[u8]) {
    masked().feed(bytes);
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
    let piano = Piano::new(100, 4).expect("a shape");
    let mut builder = Builder::new(piano, &mut rng());
    builder.push(&[5; 400]).expect("records");
    let intent = builder.finish().expect("a window").intend(3, &mut rng()).expect("a query");
    let others = vec![
        ("filter", [&[0, 1, 2, 3], &[7; TAG + 4][..]].concat()),
        ("piano", [&[0], intent.query()].concat()),
        ("piano", [&[1], &intent.encode()[..], &[1, 2, 3, 4]].concat()),
        ("rlwe", vec![128, 1, 2, 3]),
        ("rlwe", vec![129, 1, 2, 3]),
        ("rlwe", vec![130, 1, 2, 3]),
        ("buckets", vec![7; 4 * (crate::bucket::TAG + 4)]),
    ];
    [hinted().seeds("simple"), masked().seeds("packed"), others].concat()
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

    /// The bytes that travel are those of the two schemes before they were written as one.
    #[test]
    fn messages_are_what_they_were() {
        let before = [
            ("simple", 0, "4cac32ef2dbcb22f"),
            ("simple", 2, "cfdd5a0e1513437a"),
            ("simple", 3, "7f0fb50e4e6d8c1d"),
            ("packed", 0, "201f39e332c2fe7d"),
            ("packed", 2, "27f8221824d2efcd"),
            ("packed", 3, "89f57d08dc64c184"),
        ];
        let hash = |bytes: &[u8]| blake3::hash(bytes).to_string()[..16].to_owned();
        for (name, how, wanted) in before {
            let (_, bytes) =
                seeds().into_iter().find(|(of, bytes)| *of == name && bytes[0] == how).expect("it is there");
            assert_eq!(hash(&bytes), wanted, "{name}, {how}");
        }
        assert_eq!((&*hash(&hinted().copy), &*hash(&masked().copy)), ("c57b14074f95a951", "3686ab47e4859f83"));
        assert_eq!(hash(&masked().scheme.beside(&masked().store)), "ff84bc3882f1a0bc");
    }
}
