//! The count of common keys against a plain count and against hostile peers, and what it does not tell.

use crate::sides;

use sides::FRAME;
use std::collections::BTreeSet;
use vesica_curve::{Blind, Curve25519, FourQ, P256, Ristretto255, Secp256k1, Sm2};
use vesica_psi::ideal;
use vesica_session::{Fault, Lines, SessionRng};
use vesica_testkit::{Attack, Hostile, Message, Sets, digests, fixed_rng, recorded, set_pairs, two, two_with};
use vesica_types::Digest;

/// Who learns: Alice, Bob.
const LEARNERS: [(bool, bool); 3] = [(true, true), (true, false), (false, true)];

/// What both sides count in these sets.
fn counts<G: Blind>(xs: &[Digest], ys: &[Digest], (alice, bob): (bool, bool)) -> [Option<u64>; 2] {
    let (n, m) = (xs.len(), ys.len());
    let (a, b) =
        two(sides::count::<G>(xs.to_vec(), (n, m), (alice, bob)), sides::count::<G>(ys.to_vec(), (m, n), (bob, alice)));
    [a.unwrap(), b.unwrap()]
}

#[test]
fn who_learns_counts_what_a_plain_count_does() {
    counts_what_a_plain_count_does::<Curve25519>();
    counts_what_a_plain_count_does::<Ristretto255>();
    counts_what_a_plain_count_does::<FourQ>();
    counts_what_a_plain_count_does::<Sm2>();
    counts_what_a_plain_count_does::<Secp256k1>();
    counts_what_a_plain_count_does::<P256>();
}

fn counts_what_a_plain_count_does<G: Blind>() {
    for Sets { name, xs, ys } in set_pairs() {
        let want = ideal::intersection(&xs, &ys).len() as u64;
        for (alice, bob) in LEARNERS {
            let got = counts::<G>(&xs, &ys, (alice, bob));
            assert_eq!(got, [alice.then_some(want), bob.then_some(want)], "{}: {name}", G::NAME);
        }
    }
}

/// One list is a thousand times the other, and longer than the blocks that keys and records come in.
#[test]
fn lists_of_very_different_lengths_are_counted() {
    for (xs, ys, want) in [(digests(0, 3100), digests(3098, 3101), 2), (digests(5, 8), digests(0, 3100), 3)] {
        assert_eq!(counts::<Curve25519>(&xs, &ys, (true, true)), [Some(want); 2]);
    }
}

/// Every message is spoiled in every way. What can be noticed is the peer's fault. A bit that is flipped may leave a list in order
/// and its elements in the group: then the count may be wrong, which no semi-honest protocol can tell.
#[test]
fn a_hostile_peer_gets_an_error_that_names_it() {
    let (n, m) = (2 * FRAME + 4, 3 * FRAME + 1);
    for (alice, bob) in LEARNERS {
        // Bob's list in four messages, and the tags of Alice's in three if she learns.
        let messages = if alice { 7 } else { 4 };
        let mut noticed = 0;
        for at in 0..messages {
            for attack in Attack::ALL {
                let (a, _) = two_with(
                    sides::count::<Curve25519>(digests(0, n as u64), (n, m), (alice, bob)),
                    sides::count::<Curve25519>(digests(10, 10 + m as u64), (m, n), (bob, alice)),
                    |channel| Box::new(Hostile::new(channel, attack, at)),
                );
                match a {
                    Err(error) => {
                        assert_eq!(error.fault(), Fault::Peer, "message {at}, {attack:?}: {error}");
                        assert!(error.to_string().contains("bob"), "{error}");
                        noticed += 1;
                    }
                    Ok(_) => assert!(matches!(attack, Attack::Flip(_)), "message {at}, {attack:?}"),
                }
            }
        }
        assert!(noticed >= 4 * messages, "{noticed} in {messages} messages");
    }
}

/// Directions and lengths of a party's messages.
fn shape(messages: &[Message]) -> Vec<(bool, usize)> {
    messages.iter().map(|message| (message.sent, message.bytes.len())).collect()
}

/// What both parties see has the same lengths in the same order whatever the keys and however many are common.
#[test]
fn messages_say_nothing_by_their_lengths() {
    for (alice, bob) in LEARNERS {
        let shapes = [0, 1, 20, 40].map(|common: u64| {
            let (a, b) = recorded(
                sides::count::<Curve25519>(digests(0, 40), (40, 50), (alice, bob)),
                sides::count::<Curve25519>(digests(40 - common, 90 - common), (50, 40), (bob, alice)),
            );
            assert_eq!(a.0.unwrap(), alice.then_some(common));
            assert_eq!(b.0.unwrap(), bob.then_some(common));
            (shape(&a.1), shape(&b.1))
        });
        assert!(shapes[0].0.len() >= 12 + if alice { 5 } else { 0 } + if bob { 7 } else { 0 });
        assert!(shapes.iter().all(|shape| *shape == shapes[0]), "{shapes:?}");
    }
}

/// The order of a party's own keys is nowhere in what it sends.
#[test]
fn the_order_of_keys_does_not_show() {
    let bytes = |xs: Vec<Digest>| {
        let (a, b) = recorded(
            |lines, _| sides::count::<P256>(xs, (40, 50), (true, true))(lines, &mut fixed_rng(1)).unwrap(),
            |lines, _| sides::count::<P256>(digests(20, 70), (50, 40), (true, true))(lines, &mut fixed_rng(2)).unwrap(),
        );
        assert_eq!([a.0, b.0], [Some(20); 2]);
        (a.1, b.1)
    };
    let mut xs = digests(0, 40);
    let in_order = bytes(xs.clone());
    xs.reverse();
    assert!(bytes(xs) == in_order);
}

/// All tags that a learner gets, and all elements, are in one ascending order over all frames: nothing is sorted by the frame.
#[test]
fn lists_ascend_over_all_frames() {
    let (_, (_, messages)) = recorded(
        sides::count::<Ristretto255>(digests(0, 40), (40, 50), (true, false)),
        sides::count::<Ristretto255>(digests(20, 70), (50, 40), (false, true)),
    );
    let items = |messages: &[&Message], bytes: usize| -> Vec<Vec<u8>> {
        messages.iter().flat_map(|message| message.bytes.chunks(bytes)).map(<[u8]>::to_vec).collect()
    };
    let (sent, received): (Vec<&Message>, Vec<&Message>) = messages.iter().partition(|message| message.sent);
    let (elements, tags) = sent.split_at(50usize.div_ceil(FRAME));
    for (list, n) in [(items(elements, 32), 50), (items(tags, 10), 40), (items(&received, 32), 40)] {
        assert_eq!(list.len(), n);
        assert!(list.is_sorted());
        assert_eq!(list.iter().collect::<BTreeSet<_>>().len(), n);
    }
}

/// A learner that sends an element twice would get its tag twice, and so could tell which tag belongs to it.
#[test]
fn a_repeated_element_is_refused() {
    let (a, _) = two(
        sides::count::<Curve25519>(digests(0, 4), (4, 2), (false, true)),
        |lines: &mut Lines, _: &mut SessionRng| {
            let ch = lines.peer().unwrap();
            let mine = ch.recv(1 << 20).unwrap();
            ch.send(&mine[..32].repeat(2)).unwrap();
            let _ = ch.recv(1 << 20);
        },
    );
    let error = a.unwrap_err();
    assert_eq!(error.fault(), Fault::Peer);
    assert!(error.to_string().contains("element 1 of a list is out of order"), "{error}");
}

/// A party whose table has another number of keys than was agreed on says so instead of sending another length.
#[test]
fn another_number_of_keys_than_agreed_is_a_bug() {
    let (a, b) = two(
        sides::count::<Curve25519>(digests(0, 4), (5, 3), (true, true)),
        sides::count::<Curve25519>(digests(0, 3), (3, 5), (true, true)),
    );
    assert_eq!(a.unwrap_err().fault(), Fault::Bug);
    assert_eq!(b.unwrap_err().fault(), Fault::Network);
}
