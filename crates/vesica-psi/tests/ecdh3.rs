//! ECDH for three parties against a plain join and against hostile peers, and what it does not tell.

use crate::sides;

use sides::FRAME;
use vesica_curve::{Blind, Curve25519, FourQ, P256, Ristretto255, Secp256k1, Sm2};
use vesica_psi::ecdh3::roles;
use vesica_session::{Fault, Result};
use vesica_testkit::{Attack, Hostile, Message, Recorder, Transcript, digests, fixed_rng, messages, three, three_with};
use vesica_types::Digest;

/// Who learns: one party, or all.
const LEARNERS: [Option<u8>; 4] = [Some(0), Some(1), Some(2), None];

/// The places in `keys` of those that all have.
fn join(keys: &[Vec<Digest>; 3], of: usize) -> Vec<u64> {
    let all = |key: &Digest| keys.iter().all(|keys| keys.contains(key));
    (0..).zip(&keys[of]).filter(|(_, key)| all(key)).map(|(place, _)| place).collect()
}

/// What the parties find is what a plain join does.
fn finds_what_a_join_does<G: Blind>(name: &str, keys: &[Vec<Digest>; 3], learner: Option<u8>) {
    let found = three(|place, lines, rng| sides::ecdh3::<G>(keys, learner, place, lines, rng).unwrap());
    for (place, found) in (0..).zip(found) {
        let want = learner.is_none_or(|learner| learner == place).then(|| join(keys, usize::from(place)));
        assert_eq!(found, want, "{}, {name}, party {place}, learner {learner:?}", G::NAME);
    }
}

/// Sets of three parties, and what they are an example of.
fn examples() -> Vec<(&'static str, [Vec<Digest>; 3])> {
    let sets = |name, ranges: [(u64, u64); 3]| (name, ranges.map(|(from, to)| digests(from, to)));
    vec![
        sets("all empty", [(0, 0); 3]),
        sets("the first empty", [(0, 0), (0, 20), (5, 15)]),
        sets("the second empty", [(0, 20), (0, 0), (5, 15)]),
        sets("the third empty", [(0, 20), (5, 15), (0, 0)]),
        sets("one key, the same", [(0, 1); 3]),
        sets("one key, of two the same", [(0, 1), (1, 2), (0, 1)]),
        sets("disjoint", [(0, 20), (20, 45), (45, 60)]),
        sets("in pairs only", [(0, 20), (10, 30), (20, 40)]),
        sets("equal", [(0, 33); 3]),
        sets("overlapping", [(0, 40), (13, 60), (5, 30)]),
        sets("one among many", [(7, 8), (0, 50), (3, 60)]),
        sets("as many as a frame", [(0, FRAME as u64), (1, 1 + FRAME as u64), (2, 2 + 2 * FRAME as u64)]),
    ]
}

#[test]
fn who_learns_finds_what_a_join_does() {
    for (name, keys) in examples() {
        for learner in LEARNERS {
            finds_what_a_join_does::<Curve25519>(name, &keys, learner);
        }
    }
}

#[test]
fn every_curve_finds_what_a_join_does() {
    let keys = [digests(0, 30), digests(10, 45), digests(5, 22)];
    for learner in [Some(1), None] {
        finds_what_a_join_does::<Ristretto255>("overlapping", &keys, learner);
        finds_what_a_join_does::<FourQ>("overlapping", &keys, learner);
        finds_what_a_join_does::<Sm2>("overlapping", &keys, learner);
        finds_what_a_join_does::<Secp256k1>("overlapping", &keys, learner);
        finds_what_a_join_does::<P256>("overlapping", &keys, learner);
    }
}

/// Each list in turn is a thousand times the others, and longer than the blocks that keys and records come in.
#[test]
fn lists_of_very_different_lengths_are_joined() {
    for long in 0..3 {
        let mut keys = [digests(0, 3), digests(1, 4), digests(2, 5)];
        keys[long] = digests(0, 3100);
        finds_what_a_join_does::<Curve25519>("lopsided", &keys, None);
        finds_what_a_join_does::<Curve25519>("lopsided", &keys, Some(2));
    }
}

/// What each party saw go over its pipe to each other one, in the order in which it saw it, by places: `seen[i][j]` is party i's.
type Seen = [[Vec<Message>; 3]; 3];

/// A run with these keys, and what was seen. Party i's randomness has seed `seeds[i]`.
fn recorded(keys: &[Vec<Digest>; 3], learner: Option<u8>, seeds: [u8; 3]) -> ([Option<Vec<u64>>; 3], Seen) {
    let transcripts: [[Transcript; 3]; 3] = Default::default();
    let found = three_with(
        |place, lines, _| {
            let mut rng = fixed_rng(seeds[usize::from(place)]);
            sides::ecdh3::<Curve25519>(keys, learner, place, lines, &mut rng).unwrap()
        },
        |place, channel| {
            let peer = usize::from(vesica_session::Channel::peer(&channel).place());
            Box::new(Recorder::new(channel, transcripts[usize::from(place)][peer].clone()))
        },
    );
    (found, transcripts.each_ref().map(|of| of.each_ref().map(messages)))
}

/// Directions and lengths of a party's messages.
fn shape(seen: &Seen) -> Vec<Vec<(bool, usize)>> {
    let lengths = |of: &Vec<Message>| of.iter().map(|message| (message.sent, message.bytes.len())).collect();
    seen.iter().flatten().map(lengths).collect()
}

/// No message's length or order depends on the keys: not on how many any two parties have in common, nor on the result.
#[test]
fn messages_say_nothing_by_their_lengths() {
    let sets = [
        [digests(0, 30), digests(0, 40), digests(0, 50)],
        [digests(0, 30), digests(0, 40), digests(100, 150)],
        [digests(0, 30), digests(100, 140), digests(0, 50)],
        [digests(100, 130), digests(0, 40), digests(0, 50)],
        [digests(0, 30), digests(40, 80), digests(100, 150)],
        [digests(0, 30), digests(20, 60), digests(10, 60)],
    ];
    for learner in LEARNERS {
        let shapes = sets.each_ref().map(|keys| shape(&recorded(keys, learner, [1, 2, 3]).1));
        assert!(shapes[0].iter().filter(|of| of.len() > 3).count() == 6, "six ends of pipes");
        assert!(shapes.iter().all(|shape| *shape == shapes[0]), "{learner:?}: {shapes:?}");
    }
}

/// Messages that the party at `to` got from the one at `from`.
fn got(seen: &Seen, to: u8, from: u8) -> Vec<&[u8]> {
    let all = &seen[usize::from(to)][usize::from(from)];
    all.iter().filter(|message| !message.sent).map(|message| message.bytes.as_slice()).collect()
}

/// The learner gets a list of min(|X|, |Y|) distinct elements in ascending order, however many of them are common to A and B.
#[test]
fn the_learner_does_not_see_how_many_keys_the_two_others_share() {
    let [a, b, c] = roles(Some(2));
    for shared in [0, 1, 17, 30] {
        let mut keys: [Vec<Digest>; 3] = Default::default();
        keys[usize::from(a)] = digests(0, 30);
        keys[usize::from(b)] = digests(30 - shared, 75 - shared);
        keys[usize::from(c)] = digests(1000, 1020);
        let (_, seen) = recorded(&keys, Some(c), [1, 2, 3]);
        let list = got(&seen, c, a).concat();
        let elements: Vec<&[u8]> = list.chunks(32).collect();
        assert_eq!(elements.len(), 30);
        assert!(elements.is_sorted_by(|one, next| one < next));
        // B, which alone could tell the padding by it, knows which of these it got from A.
        let known = got(&seen, b, a).concat();
        let padding = elements.iter().filter(|element| known.chunks(32).any(|known| known == **element)).count();
        assert_eq!(padding as u64, 30 - shared);
    }
}

/// Padding is spread over the list as the rest is: it is of A's first keys, and not of its first elements.
#[test]
fn padding_is_spread_over_the_list() {
    let [a, b, c] = roles(Some(2));
    let mut keys: [Vec<Digest>; 3] = Default::default();
    keys[usize::from(a)] = digests(0, 2000);
    keys[usize::from(b)] = digests(5000, 5200);
    keys[usize::from(c)] = digests(0, 5);
    let (_, seen) = recorded(&keys, Some(c), [1, 2, 3]);
    let list = got(&seen, c, a).concat();
    let above = list.chunks(32).filter(|element| element[0] >= 128).count();
    // 200 elements, all of them padding: six standard deviations.
    assert!((58..=142).contains(&above), "{above}");
}

/// The order of the parties' keys is nowhere in what they send, but in which keys the padding is of.
#[test]
fn the_order_of_keys_does_not_show() {
    for learner in LEARNERS {
        // All of A's keys are common to A and B, so that there is no padding.
        let [a, b, c] = roles(learner).map(usize::from);
        let mut keys: [Vec<Digest>; 3] = Default::default();
        (keys[a], keys[b], keys[c]) = (digests(0, 30), digests(0, 40), digests(5, 50));
        let (_, in_order) = recorded(&keys, learner, [1, 2, 3]);
        keys.iter_mut().for_each(|keys| keys.reverse());
        let (_, reversed) = recorded(&keys, learner, [1, 2, 3]);
        assert!(in_order == reversed, "{learner:?}");
    }
}

/// What a party that does not learn gets does not depend on the others' keys but for their masks: the same keys under other scalars
/// give other lists, and other keys lists of the same shape; and it finds nothing.
#[test]
fn who_does_not_learn_finds_nothing() {
    let keys = [digests(0, 30), digests(0, 40), digests(5, 50)];
    let (found, seen) = recorded(&keys, Some(1), [1, 2, 3]);
    assert!(found[0].is_none() && found[2].is_none() && found[1].as_ref().is_some_and(|found| found.len() == 25));
    let (_, other) = recorded(&keys, Some(1), [4, 5, 6]);
    let all = |seen: &Seen| seen.iter().flatten().flatten().map(|message| message.bytes.clone()).collect::<Vec<_>>();
    assert!(all(&seen).iter().zip(&all(&other)).all(|(one, other)| one != other));
}

/// Each message that a hostile party sends to another one is spoiled in every way. Nobody panics or hangs. Whoever gets the message
/// blames the sender, or, where a bit is flipped, may not notice: a semi-honest protocol promises no more. So may others, whom a
/// wrong message does not reach; and a party whose partner gave up says that the connection ended.
#[test]
fn a_hostile_party_is_named_by_who_gets_its_message() {
    let keys = [digests(0, 20), digests(5, 30), digests(8, 28)];
    let names = ["alice", "bob", "carol"];
    for learner in [Some(2), None] {
        let (_, seen) = recorded(&keys, learner, [1, 2, 3]);
        for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2)] {
            let sent = got(&seen, to, from).len();
            let mut noticed = 0;
            for (at, attack) in (0..sent).flat_map(|at| Attack::ALL.map(|attack| (at, attack))) {
                let found = three_with(
                    |place, lines, rng| sides::ecdh3::<Curve25519>(&keys, learner, place, lines, rng),
                    |place, channel| match (place, vesica_session::Channel::peer(&channel).place()) == (from, to) {
                        true => Box::new(Hostile::new(channel, attack, at)),
                        false => Box::new(channel),
                    },
                );
                let case = format!("learner {learner:?}, message {at} from {from} to {to}, {attack:?}");
                let told: &Result<_> = &found[usize::from(to)];
                match told {
                    Err(error) => {
                        assert_eq!(error.fault(), Fault::Peer, "{case}: {error}");
                        assert!(error.to_string().contains(names[usize::from(from)]), "{case}: {error}");
                        noticed += 1;
                    }
                    Ok(_) => assert!(unnoticed(attack, learner, (from, to)), "{case}"),
                }
                // The third party blames nobody who is honest.
                let third = &found[usize::from(3 - from - to)];
                if let Err(error) = third {
                    assert_ne!(error.fault(), Fault::Bug, "{case}: {error}");
                }
            }
            assert!(noticed >= 3 * sent, "{noticed} of {sent} messages from {from} to {to}");
        }
    }
}

/// Whether who gets a message may fail to notice that it was spoiled so.
fn unnoticed(attack: Attack, learner: Option<u8>, (from, to): (u8, u8)) -> bool {
    let [a, b, c] = roles(learner);
    match attack {
        Attack::Flip(_) => true,
        // What is in the order of a third party's list need not ascend: a·Z and its tags; nor do marks.
        Attack::Replay => [(a, b), (b, c)].contains(&(from, to)) || learner.is_none(),
        Attack::Cut | Attack::Empty | Attack::Grow => false,
    }
}
