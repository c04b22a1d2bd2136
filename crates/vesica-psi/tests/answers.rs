//! What a party is told depends on its own keys, the intersection and public sizes, and on nothing else of its peer's: neither on
//! the peer's other keys nor on its randomness, bit by bit.

use crate::sides;

use sides::{Choose, Side};
use std::sync::{Arc, Mutex};
use vesica_block::Block;
use vesica_curve::{Blind, Curve25519, P256, Ristretto255};
use vesica_oprf::{Oprf, Prf, Sender};
use vesica_ot::Security;
use vesica_psi::ecdh::Ecdh;
use vesica_psi::oprf::Role;
use vesica_session::{Channel, Lines, Protocol, Result, SessionRng};
use vesica_testkit::{Message, digests, fixed_rng, recorded};
use vesica_types::{Digest, UnitId};

/// The keys of the party that is told; it pads them to [`CAPACITY`].
fn told() -> Vec<Digest> {
    digests(0, 50)
}

const CAPACITY: usize = 54;

/// `common` of those keys, and `others` that nobody else holds: another set for each `variant`. It is padded to
/// [`PEER_CAPACITY`].
fn peers(common: u64, others: u64, variant: u8) -> Vec<Digest> {
    let first = 1000 * (u64::from(variant) + 1);
    let mut keys = [digests(0, common), digests(first, first + others)].concat();
    keys.sort_unstable();
    keys
}

const PEER_CAPACITY: usize = 45;

/// Variants of the peer: how many keys it has that are not common, and the seed of its randomness.
const VARIANTS: [(u64, u8); 4] = [(10, 50), (15, 51), (0, 52), (10, 53)];

/// Common keys: most of the receiver's cuckoo table, so that a key's place in it tells much about the others.
const COMMON: u64 = 30;

/// An OPRF, or its sender, or its key, which notes the values that it gives.
struct Noted<T> {
    noted: T,
    values: Arc<Mutex<Vec<Block>>>,
}

impl<T> Noted<T> {
    fn like<U>(&self, noted: U) -> Noted<U> {
        Noted { noted, values: self.values.clone() }
    }
}

impl<O: Oprf> Oprf for Noted<O> {
    type Key = Noted<O::Key>;
    type Sender = Noted<O::Sender>;
    type Receiver = O::Receiver;

    fn sender(&self, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self::Sender> {
        Ok(self.like(self.noted.sender(ch, rng)?))
    }

    fn receiver(&self, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<O::Receiver> {
        self.noted.receiver(ch, rng)
    }
}

impl<S: Sender> Sender for Noted<S> {
    type Key = Noted<S::Key>;

    fn send(&self, unit: UnitId, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self::Key> {
        Ok(self.like(self.noted.send(unit, ch, rng)?))
    }
}

impl<K: Prf> Prf for Noted<K> {
    const VALUES: usize = K::VALUES;

    fn eval(&self, ys: &[Digest], values: &mut Vec<Block>) {
        let first = values.len();
        self.noted.eval(ys, values);
        self.values.lock().unwrap().extend(&values[first..]);
    }
}

/// The answer that the sender of an OPRF gets where both learn, and the values of its keys.
fn answer<O: Oprf<Key: 'static>>(choose: impl Choose<O>, (others, seed): (u64, u8)) -> (Vec<u8>, Vec<Block>) {
    let values = Arc::new(Mutex::new(Vec::new()));
    let receiver = Side::new(Role::Receiver, peers(COMMON, others, seed), (PEER_CAPACITY, CAPACITY), true);
    let sender = Side::new(Role::Sender, told(), (CAPACITY, PEER_CAPACITY), true);
    let noted = |n| Noted { noted: choose(n), values: values.clone() };
    let (receiver, (found, mut messages)) = recorded(
        |lines, _| receiver.run(choose)(lines, &mut fixed_rng(seed)),
        |lines, _| sender.run(&noted)(lines, &mut fixed_rng(1)),
    );
    assert_eq!([receiver.0.unwrap().len(), found.unwrap().len()], [COMMON as usize; 2]);
    let answer = messages.pop().unwrap();
    assert!(!answer.sent, "the answer ends the unit");
    let values = values.lock().unwrap().clone();
    (answer.bytes, values)
}

/// The answer of KKRT and of PCG-PSI is the same bytes.
#[test]
fn the_answer_of_kkrt_and_of_bc22_is_a_function_of_the_intersection() {
    fn check<O: Oprf<Key: 'static>>(choose: impl Choose<O>) {
        let answers = VARIANTS.map(|variant| answer(choose, variant).0);
        assert!(answers.iter().all(|answer| *answer == answers[0]), "the answer depends on more than the intersection");
    }
    check(sides::kkrt::<3, 12>());
    check(sides::bc22(Security::SemiHonest));
}

/// The answer of RR22, and of transfers with a store, is a bit for each place of the sender's own list, whose order depends on the function that both drew. Read
/// against that list, it says of each key whether it is common.
#[test]
fn the_answer_of_rr22_and_of_ot_is_a_function_of_the_intersection() {
    fn check<O: Oprf<Key: 'static>>(choose: impl Choose<O>) {
        for variant in VARIANTS {
            let (answer, values) = answer(choose, variant);
            let mut order: Vec<usize> = (0..CAPACITY).collect();
            order.sort_unstable_by_key(|&key| values[key]);
            let mut read = vec![false; answer.len() * 8];
            for (at, key) in order.into_iter().enumerate() {
                read[key] = answer[at / 8] >> (at % 8) & 1 == 1;
            }
            let common = peers(COMMON, 0, 0);
            let want: Vec<bool> = told().iter().map(|key| common.contains(key)).collect();
            assert_eq!(read[..want.len()], want);
            assert!(!read[want.len()..].contains(&true));
        }
    }
    check(sides::rr22::<u64, _>(Security::SemiHonest, sides::paxos));
    check(sides::rr22::<Block, _>(Security::SemiHonest, sides::band));
    check(sides::ot_narrow());
}

/// The tags in the last message of ECDH that was sent, or received: 10 bytes each, after the 32 of the opening.
fn list(messages: &[Message], sent: bool) -> Vec<Vec<u8>> {
    let message = messages.iter().rfind(|message| message.sent == sent).unwrap();
    message.bytes[32..].chunks(10).map(<[u8]>::to_vec).collect()
}

/// The tags of one's own masked keys do not depend on the peer's keys; and which of them are among those of the peer's does
/// not depend on its scalar either.
fn the_answer_of_ecdh_in<G: Blind>() {
    let run = |(others, seed): (u64, u8), scalar: u8| {
        let peer = |lines: &mut Lines| sides::unit(peers(COMMON, others, seed), (PEER_CAPACITY, CAPACITY), lines);
        let params = sides::ecdh_params(0);
        let (_, (found, messages)) = recorded(
            |lines, _| Ecdh::<G>::open(&params, &mut fixed_rng(scalar)).unit(&peer(lines), lines, &mut fixed_rng(seed)),
            |lines, _| sides::ecdh::<G>(told(), (CAPACITY, PEER_CAPACITY))(lines, &mut fixed_rng(1)),
        );
        assert_eq!(found.unwrap().len(), COMMON as usize);
        let (w, z) = (list(&messages, false), list(&messages, true));
        assert_eq!([w.len(), z.len()], [CAPACITY, PEER_CAPACITY]);
        let equal: Vec<bool> = w.iter().map(|tag| z.contains(tag)).collect();
        (w, equal)
    };
    let fixed = VARIANTS.map(|variant| run(variant, 70).0);
    assert!(fixed.iter().all(|w| *w == fixed[0]), "{}: the answer depends on the peer's keys", G::NAME);
    let fresh = VARIANTS.map(|variant| run(variant, 70 + variant.1));
    assert!(fresh.iter().all(|(w, _)| *w != fixed[0]));
    assert!(fresh.iter().all(|(_, equal)| *equal == fresh[0].1), "{}: equal tags depend on more", G::NAME);
}

#[test]
fn the_answer_of_ecdh_is_a_function_of_the_intersection() {
    the_answer_of_ecdh_in::<Curve25519>();
    the_answer_of_ecdh_in::<P256>();
}

/// Directions and lengths of a party's messages.
fn shape(messages: &[Message]) -> Vec<(bool, usize)> {
    messages.iter().map(|message| (message.sent, message.bytes.len())).collect()
}

/// Both parties' messages have the same lengths in the same order, whatever the sets and the randomness, the intersection
/// and how full the units are included.
fn keeps_its_shape<A, B>(
    case: &str,
    alice: impl Fn(Vec<Digest>, (usize, usize)) -> A,
    bob: impl Fn(Vec<Digest>, (usize, usize)) -> B,
) where
    A: FnOnce(&mut Lines, &mut SessionRng) -> Result<Vec<u32>> + Send,
    B: FnOnce(&mut Lines, &mut SessionRng) -> Result<Vec<u32>> + Send,
{
    let mut shapes = Vec::new();
    for (common, others, seed) in [(30, 10, 60), (0, 45, 61), (45, 0, 62), (0, 0, 63)] {
        for own in [told(), vec![]] {
            let alice = alice(peers(common, others, seed), (PEER_CAPACITY, CAPACITY));
            let bob = bob(own, (CAPACITY, PEER_CAPACITY));
            let (a, b) = recorded(
                |lines, _| alice(lines, &mut fixed_rng(seed)).unwrap(),
                |lines, _| bob(lines, &mut fixed_rng(seed + 10)).unwrap(),
            );
            shapes.push((shape(&a.1), shape(&b.1)));
        }
    }
    assert!(!shapes[0].0.is_empty(), "{case}");
    assert!(shapes.iter().all(|shape| *shape == shapes[0]), "{case}: {shapes:?}");
}

fn an_oprf_keeps_its_shape<O: Oprf<Key: 'static>>(case: &str, choose: impl Choose<O>, both: bool) {
    let case = format!("{case}, both: {both}");
    let side = |role| move |keys, capacities| Side::new(role, keys, capacities, both).run(choose);
    keeps_its_shape(&case, side(Role::Receiver), side(Role::Sender));
}

#[test]
fn messages_have_the_same_lengths_in_the_same_order() {
    keeps_its_shape("ecdh", sides::ecdh::<Curve25519>, sides::ecdh::<Curve25519>);
    keeps_its_shape("ecdh", sides::ecdh::<P256>, sides::ecdh::<P256>);
    for (alice, bob) in [(true, true), (true, false)] {
        let side = |learn| move |keys, capacities| sides::hash(keys, capacities, learn);
        keeps_its_shape("hash", side((alice, bob)), side((bob, alice)));
    }
    an_oprf_keeps_its_shape("dh", sides::dh::<Curve25519>(), false);
    an_oprf_keeps_its_shape("dh", sides::dh::<Ristretto255>(), false);
    an_oprf_keeps_its_shape("mini-psi, polynomial", sides::mini(1), false);
    an_oprf_keeps_its_shape("mini-psi, store", sides::mini(sides::STORED), false);
    an_oprf_keeps_its_shape("malicious rr22", sides::rr22::<Block, _>(Security::Malicious, sides::paxos), false);
    an_oprf_keeps_its_shape("malicious bc22", sides::bc22(Security::Malicious), false);
    an_oprf_keeps_its_shape("malicious ot", sides::ot_wide(Security::Malicious), false);
    for both in [false, true] {
        an_oprf_keeps_its_shape("ot", sides::ot_narrow(), both);
        an_oprf_keeps_its_shape("ot, wide", sides::ot_wide(Security::SemiHonest), both);
        an_oprf_keeps_its_shape("fast", sides::rr22::<u64, _>(Security::SemiHonest, sides::paxos), both);
        an_oprf_keeps_its_shape("low-comm", sides::rr22::<Block, _>(Security::SemiHonest, sides::band), both);
        an_oprf_keeps_its_shape("kkrt", sides::kkrt::<3, 12>(), both);
        an_oprf_keeps_its_shape("bc22", sides::bc22(Security::SemiHonest), both);
        an_oprf_keeps_its_shape("ecdh-oprf", sides::ecdh_oprf::<Ristretto255>(), both);
    }
}
