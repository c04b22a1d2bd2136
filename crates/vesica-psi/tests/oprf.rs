//! PSI from OPRFs against the ideal functionality and against hostile peers.

use crate::sides;

use sides::Side;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vesica_block::Block;
use vesica_curve::{Blind, Curve25519, FourQ, P256, P256Sec1, Ristretto255, Secp256k1, Sm2};
use vesica_oprf::rfc9497::Suite;
use vesica_oprf::vole::Field;
use vesica_oprf::{Oprf, Prf, Receiver, Sender};
use vesica_ot::Security;
use vesica_params::{Level, cuckoo};
use vesica_psi::ideal;
use vesica_psi::oprf::Role;
use vesica_session::{Channel, Fault, Lines, Result, SessionRng};
use vesica_testkit::{Attack, Hostile, Sets, digests, recorded, set_pairs, two, two_with};
use vesica_types::{Digest, TagLen, UnitId};

/// A side of RR22: its keys, its capacity and the peer's.
fn rr22<B: Field>(
    role: Role,
    security: Security,
    keys: Vec<Digest>,
    capacities: (usize, usize),
    both: bool,
) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<Vec<u32>> {
    Side::new(role, keys, capacities, both).run(sides::rr22::<B, _>(security, sides::paxos))
}

/// A side of KKRT.
fn kkrt(
    role: Role,
    keys: Vec<Digest>,
    capacities: (usize, usize),
    both: bool,
) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<Vec<u32>> {
    Side::new(role, keys, capacities, both).run(sides::kkrt::<3, 12>())
}

/// A side of Diffie-Hellman's function; only the receiver learns.
fn dh<G: Blind>(
    role: Role,
    keys: Vec<Digest>,
    capacities: (usize, usize),
) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<Vec<u32>> {
    Side::new(role, keys, capacities, false).run(sides::dh::<G>())
}

fn dh_agrees_with_the_ideal_functionality<G: Blind>() {
    for Sets { name, xs, ys } in set_pairs() {
        for pad in [0, 3] {
            let (n, m) = (xs.len() + pad, ys.len() + 2 * pad);
            let (a, b) = two(dh::<G>(Role::Receiver, xs.clone(), (n, m)), dh::<G>(Role::Sender, ys.clone(), (m, n)));
            let mut a = a.unwrap();
            a.sort_unstable();
            assert_eq!(a, ideal::intersection(&xs, &ys), "{}: {name}", G::NAME);
            assert_eq!(b.unwrap(), [0u32; 0], "{}: {name}", G::NAME);
        }
    }
}

#[test]
fn dh_finds_what_the_ideal_functionality_does() {
    dh_agrees_with_the_ideal_functionality::<Curve25519>();
    dh_agrees_with_the_ideal_functionality::<Ristretto255>();
    dh_agrees_with_the_ideal_functionality::<FourQ>();
    dh_agrees_with_the_ideal_functionality::<Sm2>();
    dh_agrees_with_the_ideal_functionality::<Secp256k1>();
    dh_agrees_with_the_ideal_functionality::<P256>();
}

/// What cannot be noticed is a bit that makes another element of an element, or another value of a value. What a receiver can
/// do wrong is one message: `vesica_oprf::dh` tests that.
#[test]
fn a_hostile_sender_of_dh_gets_an_error_that_names_it() {
    names_its_peer(
        "receiver",
        3,
        || dh::<Ristretto255>(Role::Receiver, digests(0, 30), (30, 31)),
        || dh::<Ristretto255>(Role::Sender, digests(10, 41), (31, 30)),
    );
}

fn ecdh_oprf<G: Suite>(
    role: Role,
    keys: Vec<Digest>,
    capacities: (usize, usize),
    both: bool,
) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<Vec<u32>> {
    Side::new(role, keys, capacities, both).run(sides::ecdh_oprf::<G>())
}

fn ecdh_oprf_agrees_with_the_ideal_functionality<G: Suite>() {
    for Sets { name, xs, ys } in set_pairs() {
        for (pad, both) in [(0, true), (3, false), (3, true)] {
            let (n, m) = (xs.len() + pad, ys.len() + 2 * pad);
            let (a, b) = two(
                ecdh_oprf::<G>(Role::Receiver, xs.clone(), (n, m), both),
                ecdh_oprf::<G>(Role::Sender, ys.clone(), (m, n), both),
            );
            let [mut a, mut b] = [a.unwrap(), b.unwrap()];
            a.sort_unstable();
            b.sort_unstable();
            assert_eq!(a, ideal::intersection(&xs, &ys), "{}: {name}", G::NAME);
            assert_eq!(b, if both { ideal::intersection(&ys, &xs) } else { vec![] }, "{}: {name}", G::NAME);
        }
    }
}

#[test]
fn ecdh_oprf_finds_what_the_ideal_functionality_does() {
    ecdh_oprf_agrees_with_the_ideal_functionality::<Curve25519>();
    ecdh_oprf_agrees_with_the_ideal_functionality::<Ristretto255>();
    ecdh_oprf_agrees_with_the_ideal_functionality::<FourQ>();
    ecdh_oprf_agrees_with_the_ideal_functionality::<Sm2>();
    ecdh_oprf_agrees_with_the_ideal_functionality::<Secp256k1>();
    ecdh_oprf_agrees_with_the_ideal_functionality::<P256Sec1>();
}

/// What cannot be noticed is a bit that makes another element of an element, or another value of a value. What a receiver can
/// do wrong is one message: `vesica_oprf::ecdh_oprf` tests that.
#[test]
fn a_hostile_sender_of_ecdh_oprf_gets_an_error_that_names_it() {
    names_its_peer(
        "receiver",
        2,
        || ecdh_oprf::<Ristretto255>(Role::Receiver, digests(0, 30), (30, 31), false),
        || ecdh_oprf::<Ristretto255>(Role::Sender, digests(10, 41), (31, 30), false),
    );
}

/// A side of Mini-PSI, by a polynomial or by a store; only the receiver learns.
fn mini(
    role: Role,
    keys: Vec<Digest>,
    capacities: (usize, usize),
    m: u64,
) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<Vec<u32>> {
    Side { tag_len: TagLen::new(16).unwrap(), ..Side::new(role, keys, capacities, false) }.run(sides::mini(m))
}

#[test]
fn mini_psi_finds_what_the_ideal_functionality_does() {
    let check = |name: &str, xs: Vec<Digest>, ys: Vec<Digest>, pad: usize, stored: u64| {
        let (n, m) = (xs.len() + pad, ys.len() + 2 * pad);
        let (a, b) =
            two(mini(Role::Receiver, xs.clone(), (n, m), stored), mini(Role::Sender, ys.clone(), (m, n), stored));
        let mut a = a.unwrap();
        a.sort_unstable();
        assert_eq!(a, ideal::intersection(&xs, &ys), "{name}");
        assert_eq!(b.unwrap(), [0u32; 0], "{name}");
    };
    for stored in [1, sides::STORED] {
        for Sets { name, xs, ys } in set_pairs() {
            for pad in [0, 3] {
                check(name, xs.clone(), ys.clone(), pad, stored);
            }
        }
        for (n, m) in [(900, 20), (20, 9000), (0, 300), (300, 0), (1, 500), (5000, 40)] {
            check("sizes that differ by much", digests(0, n), digests(n / 2, n / 2 + m), 0, stored);
        }
    }
}

/// Any string is a message, so what cannot be noticed is one that was changed: it makes another element of an element, or other values
/// of values. What a receiver can do wrong is one message's length: `vesica_oprf::mini` tests that.
#[test]
fn a_hostile_sender_of_mini_psi_gets_an_error_that_names_it() {
    for stored in [1, sides::STORED] {
        names_its_peer(
            "receiver",
            2,
            || mini(Role::Receiver, digests(0, 30), (30, 31), stored),
            || mini(Role::Sender, digests(10, 41), (31, 30), stored),
        );
    }
}

/// A receiver's only message is the encoding: cut, grown, flipped or sent again, it is refused or gives other values, and the sender
/// neither panics nor says anything but its list.
#[test]
fn a_hostile_receiver_of_mini_psi_is_named_or_gets_a_list_of_the_same_length() {
    for stored in [1, sides::STORED] {
        let alice = || mini(Role::Sender, digests(0, 30), (30, 31), stored);
        let bob = || mini(Role::Receiver, digests(10, 41), (31, 30), stored);
        let mut named = 0;
        for attack in Attack::ALL {
            let (a, b) = two_with(alice(), bob(), |channel| Box::new(Hostile::new(channel, attack, 0)));
            match a {
                Ok(found) => assert_eq!(found, [0u32; 0], "{attack:?}"),
                Err(error) if error.fault() == Fault::Network => assert!(b.is_err(), "{attack:?}"),
                Err(error) => {
                    assert_eq!(error.fault(), Fault::Peer, "{attack:?}: {error}");
                    assert!(error.to_string().contains("bob"), "{error}");
                    named += 1;
                }
            }
        }
        assert!(named >= 2, "{named}");
    }
}

#[test]
fn kkrt_finds_what_the_ideal_functionality_does() {
    let check = |name: &str, xs: Vec<Digest>, ys: Vec<Digest>, pad: usize, both: bool| {
        let (n, m) = (xs.len() + pad, ys.len() + 2 * pad);
        let (a, b) = two(kkrt(Role::Receiver, xs.clone(), (n, m), both), kkrt(Role::Sender, ys.clone(), (m, n), both));
        let mut a = a.unwrap();
        a.sort_unstable();
        assert_eq!(a, ideal::intersection(&xs, &ys), "{name}");
        assert_eq!(b.unwrap(), if both { ideal::intersection(&ys, &xs) } else { vec![] }, "{name}");
    };
    for Sets { name, xs, ys } in set_pairs() {
        check(name, xs.clone(), ys.clone(), 0, false);
        check(name, xs, ys, 3, true);
    }
    for (n, m) in [(20_000, 20), (20, 20_000), (0, 3000), (3000, 0), (1, 5000)] {
        check("sizes that differ by much", digests(0, n), digests(n / 2, n / 2 + m), 0, true);
    }
}

/// A bin costs the receiver a word of 192 bits, and nothing else that it sends grows with its keys.
#[test]
fn kkrt_sends_24_bytes_a_bin() {
    let sent = |n: usize| -> usize {
        let ((_, messages), _) = recorded(
            |lines, rng| kkrt(Role::Receiver, digests(0, n as u64), (n, 9), false)(lines, rng).unwrap(),
            |lines, rng| kkrt(Role::Sender, digests(0, 9), (9, n), false)(lines, rng).unwrap(),
        );
        messages.iter().filter(|message| message.sent).map(|message| message.bytes.len()).sum()
    };
    let bins = |n: usize| cuckoo::bins(n as u64, 1, Level::STANDARD).unwrap().next_multiple_of(128) as usize;
    assert_eq!(sent(6000) - sent(2000), 24 * (bins(6000) - bins(2000)));
}

/// What KKRT cannot notice is a column of wrong bits.
#[test]
fn a_hostile_peer_of_kkrt_gets_an_error_that_names_it() {
    for (role, other) in [(Role::Receiver, Role::Sender), (Role::Sender, Role::Receiver)] {
        names_its_peer(
            &format!("{role:?}"),
            5,
            || kkrt(role, digests(0, 300), (300, 310), false),
            || kkrt(other, digests(100, 400), (310, 300), false),
        );
    }
}

fn finds_what_is_common<O: Oprf<Key: 'static>>(name: &str, choose: impl sides::Choose<O>, may_both: bool) {
    let check = |case: &str, xs: Vec<Digest>, ys: Vec<Digest>, pad: usize, both: bool| {
        let (n, m) = (xs.len() + pad, ys.len() + 2 * pad);
        let (a, b) = two(
            Side::new(Role::Receiver, xs.clone(), (n, m), both).run(choose),
            Side::new(Role::Sender, ys.clone(), (m, n), both).run(choose),
        );
        let mut a = a.unwrap();
        a.sort_unstable();
        assert_eq!(a, ideal::intersection(&xs, &ys), "{name}: {case}");
        assert_eq!(b.unwrap(), if both { ideal::intersection(&ys, &xs) } else { vec![] }, "{name}: {case}");
    };
    for Sets { name, xs, ys } in set_pairs() {
        check(name, xs.clone(), ys.clone(), 0, false);
        check(name, xs, ys, 3, may_both);
    }
    for (n, m) in [(20_000, 20), (20, 20_000), (0, 3000), (3000, 0), (1, 5000)] {
        check("sizes that differ by much", digests(0, n), digests(n / 2, n / 2 + m), 0, may_both);
    }
}

#[test]
fn ot_finds_what_the_ideal_functionality_does() {
    finds_what_is_common("75 bits", sides::ot_narrow(), true);
    finds_what_is_common("248 bits", sides::ot_wide(Security::SemiHonest), true);
    finds_what_is_common("248 bits, malicious", sides::ot_wide(Security::Malicious), false);
}

#[test]
fn a_hostile_peer_of_ot_gets_an_error_that_names_it() {
    for (role, other) in [(Role::Receiver, Role::Sender), (Role::Sender, Role::Receiver)] {
        let side = |role, first| {
            let (n, m) = if role == Role::Receiver { (300, 310) } else { (310, 300) };
            Side::new(role, digests(first, first + n as u64), (n, m), false)
        };
        let honest = |role, first| side(role, first).run(sides::ot_narrow());
        names_its_peer(&format!("{role:?}"), 5, || honest(role, 0), || honest(other, 100));
        let malicious = |role, first| side(role, first).run(sides::ot_wide(Security::Malicious));
        names_its_peer(&format!("{role:?}, malicious"), 7, || malicious(role, 0), || malicious(other, 100));
    }
}

#[test]
fn bc22_finds_what_the_ideal_functionality_does() {
    finds_what_is_common("semi-honest", sides::bc22(Security::SemiHonest), true);
    finds_what_is_common("malicious", sides::bc22(Security::Malicious), false);
}

/// What cannot be noticed is a coefficient that was changed: the polynomial has other roots, no more.
#[test]
fn a_hostile_peer_of_bc22_gets_an_error_that_names_it() {
    for security in [Security::SemiHonest, Security::Malicious] {
        for (role, other) in [(Role::Receiver, Role::Sender), (Role::Sender, Role::Receiver)] {
            let side = |role, first| {
                let (n, m) = if role == Role::Receiver { (700, 710) } else { (710, 700) };
                Side::new(role, digests(first, first + n as u64), (n, m), false).run(sides::bc22(security))
            };
            names_its_peer(&format!("{role:?} {security:?}"), 6, || side(role, 0), || side(other, 100));
        }
    }
}

/// A receiver whose table holds a fifth more keys than it declared learns of all of them: the bound that is printed, one for each slot,
/// is nearly reached.
#[test]
fn a_receiver_of_bc22_that_fills_its_slots_tests_more_keys_than_it_declared() {
    let function = sides::bc22(Security::Malicious)(1000);
    let (xs, ys) = (digests(0, 1200), digests(0, 3000));
    let (found, values) = two(
        |lines, rng| {
            let ch = lines.peer().unwrap();
            function.receiver(ch, rng).unwrap().receive(UnitId(0), &xs, ch, rng).unwrap()
        },
        |lines, rng| {
            let ch = lines.peer().unwrap();
            let key = function.sender(ch, rng).unwrap().send(UnitId(0), ch, rng).unwrap();
            let mut values = Vec::new();
            key.eval(&ys, &mut values);
            values
        },
    );
    let tags: HashSet<u128> = values.iter().map(|value| value.0).collect();
    assert_eq!(found.iter().filter(|value| tags.contains(&value.0)).count(), 1200);
}

/// A receiver whose rows are no words hears nothing of the sender's keys: no tag is sent before the check.
#[test]
fn nothing_of_the_senders_list_is_sent_before_the_words_are_checked() {
    let tags = |attack: Option<Attack>| {
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = sent.clone();
        let (alice, _) = two_with(
            Side::new(Role::Sender, digests(0, 310), (310, 300), false).run(sides::ot_wide(Security::Malicious)),
            move |lines, rng| {
                let receiver = Side::new(Role::Receiver, digests(100, 400), (300, 310), false);
                let found = receiver.run(sides::ot_wide(Security::Malicious))(lines, rng);
                counted.store(usize::from(found.is_ok()), Ordering::Relaxed);
                found
            },
            |channel| match attack {
                // Base transfers, a challenge, trees, the seed, words.
                Some(attack) => Box::new(Hostile::new(channel, attack, 4)),
                None => Box::new(channel),
            },
        );
        (alice.map(|_| ()).map_err(|error| error.to_string()), sent.load(Ordering::Relaxed))
    };
    assert_eq!(tags(None), (Ok(()), 1));
    // Eight places are spoiled one by one: all eight of the guesses are right with probability 2^-32.
    let ends: Vec<_> = (0..8).map(|place| tags(Some(Attack::Flip(8 * 16 * 6 * place + 3)))).collect();
    assert!(
        ends.iter().any(|(end, _)| end.as_ref().is_err_and(|error| error.contains("no words of the code"))),
        "{ends:?}"
    );
    // Where Alice objects, Bob got no list.
    assert!(ends.iter().all(|(end, got)| end.is_ok() == (*got == 1)), "{ends:?}");
}

/// A function of three values that anybody can compute, with a receiver that gets the values that the test says.
#[derive(Clone, Default)]
struct Open3 {
    received: Vec<Block>,
    /// Keys that the sender evaluated.
    evaluated: Arc<AtomicUsize>,
}

/// The values of a key.
fn open3(y: Digest) -> [Block; 3] {
    [1, 2, 3].map(|which| Block(Block::from(y).0 ^ which << 124))
}

impl Oprf for Open3 {
    type Key = Open3;
    type Sender = Open3;
    type Receiver = Open3;

    fn sender(&self, _: &mut dyn Channel, _: &mut SessionRng) -> Result<Open3> {
        Ok(self.clone())
    }

    fn receiver(&self, _: &mut dyn Channel, _: &mut SessionRng) -> Result<Open3> {
        Ok(self.clone())
    }
}

impl Sender for Open3 {
    type Key = Open3;

    fn send(&self, _: UnitId, _: &mut dyn Channel, _: &mut SessionRng) -> Result<Open3> {
        Ok(self.clone())
    }
}

impl Receiver for Open3 {
    fn receive(&self, _: UnitId, _: &[Digest], _: &mut dyn Channel, _: &mut SessionRng) -> Result<Vec<Block>> {
        Ok(self.received.clone())
    }
}

impl Prf for Open3 {
    const VALUES: usize = 3;

    fn eval(&self, ys: &[Digest], values: &mut Vec<Block>) {
        self.evaluated.fetch_add(ys.len(), Ordering::Relaxed);
        values.extend(ys.iter().flat_map(|&y| open3(y)));
    }
}

/// What the receiver of `xs` and the sender of `ys` end with, if the receiver's values are these.
fn with_values(xs: &[Digest], ys: &[Digest], received: Vec<Block>) -> (Result<Vec<u32>>, Result<Vec<u32>>) {
    let (n, m) = (xs.len(), ys.len());
    let open = Open3 { received, ..Open3::default() };
    two(
        |lines, rng| {
            let side = Side::new(Role::Receiver, xs.to_vec(), (n, m), true);
            side.by(&open, lines, rng)
        },
        |lines, rng| {
            let side = Side::new(Role::Sender, ys.to_vec(), (m, n), true);
            side.by(&open, lines, rng)
        },
    )
}

/// So the time that a sender takes says nothing about how many keys fell into its unit.
#[test]
fn a_sender_evaluates_as_many_keys_as_its_capacity() {
    for m in [0, 1, 19, 20] {
        let open = Open3::default();
        let (a, b) = two(
            |lines, rng| {
                let side = Side::new(Role::Receiver, vec![], (0, 20), false);
                side.by(&Open3::default(), lines, rng)
            },
            |lines, rng| {
                let side = Side::new(Role::Sender, digests(0, m), (20, 0), false);
                side.by(&open, lines, rng)
            },
        );
        assert_eq!([a.unwrap().len(), b.unwrap().len()], [0, 0]);
        assert_eq!(open.evaluated.load(Ordering::Relaxed), 20, "{m} keys");
    }
}

#[test]
fn an_answer_that_names_a_key_that_the_sender_does_not_have_is_refused() {
    let (xs, ys) = (digests(0, 20), digests(10, 30));
    let mut values: Vec<Block> = xs.iter().map(|&x| open3(x)[1]).collect();
    let (a, b) = with_values(&xs, &ys, values.clone());
    assert_eq!([a.unwrap().len(), b.unwrap().len()], [10, 10]);
    // Of a key that Bob does not have, Alice says that its value is one of his.
    let own = xs.iter().position(|x| !ys.contains(x)).unwrap();
    values[own] = open3(*ys.iter().find(|y| !xs.contains(y)).unwrap())[0];
    let (_, b) = with_values(&xs, &ys, values);
    let error = b.unwrap_err();
    assert_eq!(error.fault(), Fault::Peer);
    assert!(error.to_string().contains("alice") && error.to_string().contains("none of this side's keys"), "{error}");
}

#[test]
fn a_sender_of_more_keys_than_it_said_is_refused() {
    let (xs, ys) = (digests(0, 3), digests(7, 8));
    let (a, _) = with_values(&xs, &ys, open3(ys[0]).to_vec());
    let error = a.unwrap_err();
    assert_eq!(error.fault(), Fault::Peer);
    assert!(error.to_string().contains("bob") && error.to_string().contains("more keys than it said"), "{error}");
}

fn every_spoiled_answer_is_noticed<O: Oprf<Key: 'static>>(choose: impl sides::Choose<O>) {
    let alice = || Side::new(Role::Sender, digests(0, 50), (52, 45), true).run(choose);
    let bob = || Side::new(Role::Receiver, digests(20, 60), (45, 52), true).run(choose);
    let (_, (_, messages)) = recorded(alice(), bob());
    let answer = messages.iter().filter(|message| message.sent).count() - 1;
    for attack in Attack::ALL {
        let (a, _) = two_with(alice(), bob(), |channel| Box::new(Hostile::new(channel, attack, answer)));
        let error = a.unwrap_err();
        assert_eq!(error.fault(), Fault::Peer, "{attack:?}: {error}");
        assert!(error.to_string().contains("bob"), "{error}");
    }
}

/// The sender can compute the whole answer, so no change of it goes unnoticed.
#[test]
fn every_spoiled_answer_of_kkrt_and_of_bc22_is_noticed() {
    every_spoiled_answer_is_noticed(sides::kkrt::<3, 12>());
    every_spoiled_answer_is_noticed(sides::bc22(Security::SemiHonest));
}

fn agrees_with_the_ideal_functionality<B: Field>(security: Security, both: bool) {
    for Sets { name, xs, ys } in set_pairs() {
        for pad in [0, 3] {
            let (n, m) = (xs.len() + pad, ys.len() + 2 * pad);
            let (a, b) = two(
                rr22::<B>(Role::Receiver, security, xs.clone(), (n, m), both),
                rr22::<B>(Role::Sender, security, ys.clone(), (m, n), both),
            );
            let (mut a, b) = (a.unwrap(), b.unwrap());
            a.sort_unstable();
            assert_eq!(a, ideal::intersection(&xs, &ys), "{name} {security:?}");
            assert_eq!(b, if both { ideal::intersection(&ys, &xs) } else { vec![] }, "{name} {security:?}");
        }
    }
}

#[test]
fn rr22_finds_what_the_ideal_functionality_does() {
    agrees_with_the_ideal_functionality::<u64>(Security::SemiHonest, true);
    agrees_with_the_ideal_functionality::<Block>(Security::SemiHonest, false);
    agrees_with_the_ideal_functionality::<Block>(Security::Malicious, false);
}

/// Large enough for trees and codes, and for several bins of a store.
#[test]
fn rr22_at_sizes_that_differ_by_much() {
    for (n, m) in [(40_000, 40), (40, 40_000), (0, 3000), (3000, 0), (1, 5000)] {
        let (xs, ys) = (digests(0, n), digests(n / 2, n / 2 + m));
        let (a, b) = two(
            rr22::<u64>(Role::Receiver, Security::SemiHonest, xs.clone(), (n as usize, m as usize), true),
            rr22::<u64>(Role::Sender, Security::SemiHonest, ys.clone(), (m as usize, n as usize), true),
        );
        let mut a = a.unwrap();
        a.sort_unstable();
        assert_eq!(a, ideal::intersection(&xs, &ys), "{n} {m}");
        assert_eq!(b.unwrap(), ideal::intersection(&ys, &xs), "{n} {m}");
    }
}

#[test]
fn a_hostile_peer_gets_an_error_that_names_it() {
    for security in [Security::SemiHonest, Security::Malicious] {
        for (role, other) in [(Role::Receiver, Role::Sender), (Role::Sender, Role::Receiver)] {
            names_its_peer(
                &format!("{role:?} {security:?}"),
                6,
                || rr22::<Block>(role, security, digests(0, 700), (700, 710), false),
                || rr22::<Block>(other, security, digests(100, 800), (710, 700), false),
            );
        }
    }
}

/// Each of Bob's first messages is spoiled in every way: Alice either notices and names him, or a bit that says nothing on
/// its own was flipped, and only the result is another. Nobody panics or hangs.
fn names_its_peer<A, B>(case: &str, messages: usize, alice: impl Fn() -> A, bob: impl Fn() -> B)
where
    A: FnOnce(&mut Lines, &mut SessionRng) -> Result<Vec<u32>> + Send,
    B: FnOnce(&mut Lines, &mut SessionRng) -> Result<Vec<u32>> + Send,
{
    let mut noticed = 0;
    for at in 0..messages {
        for attack in Attack::ALL {
            let (a, b) = two_with(alice(), bob(), |channel| Box::new(Hostile::new(channel, attack, at)));
            let Err(error) = a else { continue };
            // Bob's side, which does not know what became of its words, may notice first that the two no longer agree; then
            // it says so and is gone.
            if error.fault() == Fault::Network {
                assert_eq!(b.unwrap_err().fault(), Fault::Peer, "{case} {at} {attack:?}");
            } else {
                assert_eq!(error.fault(), Fault::Peer, "{case} {at} {attack:?}: {error}");
                assert!(error.to_string().contains("bob"), "{error}");
                noticed += 1;
            }
        }
    }
    assert!(noticed >= 6, "{case}: {noticed}");
}
