//! What `fuzz/` reaches of this crate's decoders. Nothing that a run uses.

use crate::messages::Question;
use crate::offer::{Offer, sample};
use crate::prepare::signer::Signer;
use crate::retrieve::changes::{self, Entry};
use crate::retrieve::epoch::{Epoch, Layout};
use crate::retrieve::{body_bytes, reals, retrieval, tag, unpad};
use crate::{suite, values};
use vesica_spec::service::{By, Preset, Private};

/// A client's question.
pub fn question(bytes: &[u8]) {
    let _ = Question::decode(bytes);
}

/// A server's offer.
///
/// # Panics
/// If it is taken, and is not the one text of what it says.
pub fn offer(bytes: &[u8]) {
    if let Ok(offer) = Offer::decode(bytes) {
        assert_eq!(offer.encode(), bytes);
        let _ = offer.public();
    }
}

/// Services by their number.
fn service(number: u8) -> Offer {
    let kinds: Vec<_> = suite::retrieving().collect();
    let by = if number & 1 == 0 { By::Index } else { By::Key };
    let private = if number & 2 == 0 { Private::Client } else { Private::Both };
    let service = sample(kinds[usize::from(number / 4) % kinds.len()], by, private);
    let offer = Offer::new(&service, 1, Some(20), 0, &[]).expect("it says whether there is a hint");
    if offer.kind().signs() { offer.signed_by(signer().public(), [7; 16]) } else { offer }
}

/// What signs epochs here.
fn signer() -> Signer {
    Signer::new(&zeroize::Zeroizing::new([7; 32]), std::time::Duration::from_secs(60))
}

/// An epoch with a signature in place of the one that is wanted, which no fuzzer guesses.
fn signed(offer: &Offer, text: &[u8]) -> Vec<u8> {
    match serde_json::from_slice::<Epoch>(text) {
        Ok(mut epoch) if offer.kind().signs() => {
            signer().sign(&mut epoch, std::time::SystemTime::UNIX_EPOCH);
            epoch.encode()
        }
        _ => text.to_vec(),
    }
}

/// The numbers of all services that there can be.
fn numbers() -> impl Iterator<Item = u8> {
    let all = 0..4 * suite::retrieving().count() as u8;
    all.filter(|&number| {
        let offer = service(number);
        offer.retrieval.is_some_and(|retrieval| offer.protocol.takes(retrieval.by, retrieval.private))
    })
}

/// The description of an epoch of one of the services.
///
/// # Panics
/// If it is taken, and nothing can be made of it.
pub fn epoch(bytes: &[u8]) {
    let Some((&number, text)) = bytes.split_first() else { return };
    let offer = service(number);
    if let Ok(epoch) = Epoch::decode(&offer, &signed(&offer, text)) {
        let scheme = retrieval(&offer, &epoch).expect("it was checked");
        assert_eq!(epoch.copy, scheme.copied());
        assert!(scheme.together() > 0);
    }
}

/// A log of changes, and the filter that follows them.
pub fn changes(bytes: &[u8]) {
    let Some(entries) = changes::entries(bytes) else { return };
    let (offer, epoch) = honest(1);
    let shape = offer.kind().suite().scheme().and_then(|scheme| scheme.filter());
    if let Some(Ok(shape)) = shape.map(|shape| shape(epoch.planned, epoch.width, epoch.expected)) {
        let tries = vec![0; (epoch.records / shape.group()) as usize];
        drop(changes::filter((&offer, &epoch), &shape, &tries, &entries));
    }
}

/// The values of a row, behind what tells that they are of it, which no fuzzer guesses.
///
/// # Panics
/// If a row has other than its columns.
pub fn values(bytes: &[u8]) {
    let (salt, digest) = ([1; 32], [2; 32]);
    let tagged = [&tag(&salt, &digest, bytes)[..], bytes].concat();
    let mut numbers = Vec::new();
    reals::encode(&salt, &digest, std::iter::empty(), &mut numbers).expect("there is none");
    numbers.extend_from_slice(bytes);
    for columns in 0..4 {
        for text in [Some(bytes), unpad(&salt, &digest, &tagged)].into_iter().flatten() {
            assert!(values::decode(text, columns).is_none_or(|values| values.len() == columns));
        }
        let read = reals::decode(&salt, &digest, &numbers, columns);
        assert!(read.is_none_or(|values| values.len() == columns));
    }
}

/// A service, and an epoch of it.
fn honest(number: u8) -> (Offer, Epoch) {
    let (offer, rows) = (service(number), 40);
    let body = body_bytes(&offer);
    let filter = offer.kind().suite().scheme().and_then(|scheme| scheme.filter());
    let (records, width) = match (offer.by(), filter) {
        (By::Index, _) => (rows, body),
        (By::Key, Some(shape)) => {
            let width = vesica_pir::keyword::TAG + body;
            (shape(rows, width as u32, 10).map_or(0, |shape| shape.records), width)
        }
        (By::Key, None) => (12, vesica_pir::bucket::SLOTS * (vesica_pir::bucket::TAG + body)),
    };
    let (seed, salt, sealed, expected) = ([1; 32], [2; 32], [3; 32], 10);
    let mut epoch =
        Epoch::new(&offer, 1, Layout { rows, records, width, seed, salt, sealed, expected, preset: Preset::Fast });
    if let Ok(scheme) = retrieval(&offer, &epoch) {
        epoch.copy = scheme.copied();
    }
    epoch.sums = "0".repeat(64);
    epoch.table = "0".repeat(64);
    if offer.kind().signs() {
        signer().sign(&mut epoch, std::time::SystemTime::UNIX_EPOCH);
    }
    (offer, epoch)
}

/// Honest messages, each as its target takes it: the name of the target's function, and bytes.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = vec![("question", Question::Retrieve { epoch: 7, queries: 3 }.encode().to_vec())];
    for number in numbers() {
        let (offer, epoch) = honest(number);
        seeds.push(("offer", offer.encode()));
        seeds.push(("epoch", [&[number][..], &epoch.encode()].concat()));
    }
    let mut log = Vec::new();
    Entry { salt: [4; 32], drawn: vec![(0, 1)], patch: b"patch" }.append(&mut log);
    seeds.push(("changes", log));
    let mut text = Vec::new();
    values::encode([Some("one"), None].into_iter(), &mut text);
    seeds.push(("values", text));
    seeds.push(("values", [&3u32.to_le_bytes(), &b"abc\0\0"[..]].concat()));
    seeds.push(("values", [1.5f64, -127.25].map(f64::to_le_bytes).concat()));
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn honest_messages_go_through() {
        for (name, bytes) in seeds() {
            let target = match name {
                "question" => question,
                "offer" => offer,
                "epoch" => epoch,
                "changes" => changes,
                _ => values,
            };
            target(&bytes);
            target(&bytes[..bytes.len() / 2]);
        }
        for number in numbers() {
            let (offer, epoch) = honest(number);
            assert_eq!(Epoch::decode(&offer, &epoch.encode()).unwrap(), epoch, "{number}");
        }
    }
}
