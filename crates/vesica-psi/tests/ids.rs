//! Ids against a plain join, against hostile peers, and what is said while they are made.

use crate::sides;

use sides::SESSION;
use std::collections::{BTreeMap, BTreeSet};
use vesica_block::Block;
use vesica_oprf::vole::{Field, Shape};
use vesica_oprf::{Oprf, Prf, Receiver, Sender};
use vesica_psi::ideal;
use vesica_session::{Fault, Lines, Result, SessionRng, Shared, Shares, Unit, Values};
use vesica_testkit::{Attack, Hostile, Message, Sets, digests, fixed_rng, recorded, set_pairs, two, two_with};
use vesica_types::{Digest, UnitId};

type Id = [u8; 16];

/// The ids of both sides, padded by some keys.
fn made<B: Field + 'static, S: Shape + 'static>(xs: &[Digest], ys: &[Digest], shape: fn(u64) -> S) -> [Vec<Id>; 2] {
    let (n, m) = (xs.len() + 2, ys.len() + 3);
    let (a, b) = two(sides::ids::<B, S>(xs.to_vec(), (n, m), shape), sides::ids::<B, S>(ys.to_vec(), (m, n), shape));
    [a.unwrap(), b.unwrap()]
}

/// The join by ids is the join by keys, and no two keys of one side have one id.
fn joins(xs: &[Digest], ys: &[Digest], [a, b]: &[Vec<Id>; 2], name: &str) {
    assert_eq!([a.len(), b.len()], [xs.len(), ys.len()], "{name}");
    let of_b: BTreeMap<&Id, &Digest> = b.iter().zip(ys).collect();
    assert_eq!((of_b.len(), a.iter().collect::<BTreeSet<_>>().len()), (ys.len(), xs.len()), "{name}");
    for (id, key) in a.iter().zip(xs) {
        let theirs = ys.binary_search(key).is_ok().then_some(key);
        assert_eq!(of_b.get(id).copied(), theirs, "{name}");
    }
}

#[test]
fn ids_are_equal_exactly_where_keys_are() {
    for Sets { name, xs, ys } in set_pairs() {
        joins(&xs, &ys, &made::<u64, _>(&xs, &ys, sides::paxos), name);
        joins(&xs, &ys, &made::<Block, _>(&xs, &ys, sides::band), name);
    }
}

/// Sets of any sizes, drawn at random.
#[test]
fn random_sets_join_by_their_ids_as_by_their_keys() {
    let mut rng = fixed_rng(7);
    for _ in 0..12 {
        let mut keys = || {
            let [from, n]: [u8; 2] = rng.bytes();
            digests(from.into(), u64::from(from) + u64::from(n))
        };
        let (xs, ys) = (keys(), keys());
        let name = format!("{} and {}, {} common", xs.len(), ys.len(), ideal::intersection(&xs, &ys).len());
        joins(&xs, &ys, &made::<u64, _>(&xs, &ys, sides::paxos), &name);
        joins(&xs, &ys, &made::<u64, _>(&xs, &ys, sides::band), &name);
    }
}

/// What an id is made of is one function on both sides: at a key that both have, its holder evaluates what the other received. At one that the
/// other did not ask for, it is none of the values that the other has.
#[test]
fn whoever_holds_a_function_evaluates_what_the_other_received() {
    let (xs, ys) = (digests(0, 300), digests(200, 500));
    let function = sides::rr22::<u64, _>(vesica_ot::Security::SemiHonest, sides::paxos)(300);
    let (received, evaluated) = two(
        |lines, rng| {
            let ch = lines.peer().unwrap();
            function.receiver(ch, rng).unwrap().receive(UnitId(3), &xs, ch, rng).unwrap()
        },
        |lines, rng| {
            let ch = lines.peer().unwrap();
            let key = function.sender(ch, rng).unwrap().send(UnitId(3), ch, rng).unwrap();
            let mut values = Vec::new();
            key.eval(&ys, &mut values);
            values
        },
    );
    let received_at: BTreeMap<&Digest, Block> = xs.iter().zip(received.iter().copied()).collect();
    let mut common = 0;
    for (key, value) in ys.iter().zip(&evaluated) {
        common += usize::from(received_at.contains_key(key));
        match received_at.get(key) {
            Some(received) => assert_eq!(received, value),
            None => assert!(!received.contains(value)),
        }
    }
    assert_eq!(common, 100);
}

/// A side of a job of three units of these keys, under a salt, and of which unit's ids another attempt's are put in place.
fn units(
    keys: impl Fn(u32) -> Vec<Digest>,
    session: [u8; 32],
    mixed: Option<u32>,
) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<Vec<Vec<Id>>> {
    move |lines, rng| {
        let mut attempts = Vec::new();
        for _ in 0..=u32::from(mixed.is_some()) {
            let side = sides::open_ids::<u64, _>(session, (30, 30), sides::paxos, lines, rng)?;
            let shares: Result<Vec<Shares>> = (0..3)
                .map(|id| {
                    let unit = Unit { id: UnitId(id), ..sides::unit(keys(id), (30, 30), lines) };
                    side.unit(&unit, &Values::default(), lines, rng)
                })
                .collect();
            attempts.push((side, shares?));
        }
        let (side, mut shares) = attempts.pop().expect("there is one");
        // Bob took the other attempt's ids of a unit, as after a break.
        if let Some(id) = mixed.filter(|_| lines.peer().unwrap().peer().place() == 0) {
            shares[id as usize] = attempts[0].1[id as usize].clone();
        }
        side.open(&shares, [&[], &[]], lines, rng)?;
        Ok(shares.into_iter().map(|shares| shares.ids).collect())
    }
}

/// One set of keys has other ids in every unit, in every run, and in every attempt at one run.
#[test]
fn ids_of_units_runs_and_attempts_have_nothing_in_common() {
    let keys = |_| digests(0, 20);
    let run = |session: [u8; 32], seed: u8| {
        let (a, b) = two(
            |lines, _| units(keys, session, None)(lines, &mut fixed_rng(seed)).unwrap(),
            |lines, _| units(keys, session, None)(lines, &mut fixed_rng(seed + 1)).unwrap(),
        );
        assert_eq!(a, b);
        a.concat()
    };
    let runs = [run([1; 32], 1), run([2; 32], 1), run([1; 32], 3)];
    let all: BTreeSet<Id> = runs.concat().into_iter().collect();
    assert_eq!(all.len(), 3 * 3 * 20);
    assert_eq!(run([1; 32], 1), runs[0], "one run and its chance decide all");
}

#[test]
fn ids_of_another_attempt_are_refused_on_both_sides() {
    for id in [0, 2] {
        let side = |from| units(move |_| digests(from, from + 20), SESSION, Some(id));
        let (a, b) = two(side(0), side(15));
        for error in [a.unwrap_err(), b.unwrap_err()] {
            assert!(matches!(error.fault(), Fault::Peer | Fault::Network), "{error}");
        }
    }
}

/// Every message, those of the base too, is spoiled in every way. All of it is seen, also what gives other ids and no error in the function: a
/// side that has ids has those of the run that both saw.
#[test]
fn a_hostile_peer_gets_an_error_that_names_it() {
    let (xs, ys) = (digests(0, 40), digests(20, 60));
    let side = |keys: &[Digest]| sides::ids::<u64, _>(keys.to_vec(), (40, 40), sides::paxos);
    let messages = {
        let (_, (_, messages)) = recorded(side(&xs), side(&ys));
        messages.iter().filter(|message| message.sent).count()
    };
    assert!(messages >= 6, "{messages}");
    for at in 0..messages {
        for attack in Attack::ALL {
            // The first message has none before it, and is there twice. What follows is then out of step.
            let (a, _) = two_with(side(&xs), side(&ys), |channel| Box::new(Hostile::new(channel, attack, at)));
            let error = a.expect_err("it is seen");
            assert_eq!(error.fault(), Fault::Peer, "message {at} of {messages}, {attack:?}: {error}");
            assert!(error.to_string().contains("bob"), "{error}");
        }
    }
}

/// Directions and lengths of a party's messages.
fn shape(messages: &[Message]) -> Vec<(bool, usize)> {
    messages.iter().map(|message| (message.sent, message.bytes.len())).collect()
}

/// What a party receives is a function of the public sizes and of chance: the lengths are the same whatever is common and however full a unit
/// is, and long messages look random. So neither party can tell from a run how many keys are common.
#[test]
fn what_is_received_is_random_and_as_long_whatever_the_keys() {
    let mut shapes = Vec::new();
    for (common, keys) in [(0, 500), (1, 1), (500, 500), (0, 0)] {
        let (a, b) = recorded(
            sides::ids::<u64, _>(digests(0, 500), (500, 500), sides::paxos),
            sides::ids::<u64, _>(digests(500 - common, 500 - common + keys), (500, 500), sides::paxos),
        );
        let equal = a.0.unwrap().iter().filter(|id| b.0.as_ref().unwrap().contains(id)).count();
        assert_eq!(equal as u64, common);
        for messages in [&a.1, &b.1] {
            let long: Vec<&Message> = messages.iter().filter(|m| !m.sent && m.bytes.len() >= 2048).collect();
            assert!(!long.is_empty(), "{:?}", shape(messages));
            for received in long {
                let expected = received.bytes.len() as f64 / 256.0;
                let mut counted = [0f64; 256];
                received.bytes.iter().for_each(|&byte| counted[usize::from(byte)] += 1.0);
                let chi: f64 = counted.iter().map(|c| (c - expected).powi(2) / expected).sum();
                assert!((150.0..385.0).contains(&chi), "{chi} in a message of {}", received.bytes.len());
            }
        }
        shapes.push((shape(&a.1), shape(&b.1)));
    }
    assert!(shapes.iter().all(|shape| *shape == shapes[0]), "{shapes:?}");
}

/// What alice says is the same, byte by byte, whether bob has her keys or others, up to the name of the attempt: a hash of what both said, in
/// which his padded store is another one.
#[test]
fn what_one_side_says_does_not_depend_on_the_keys_of_the_other() {
    let said = |ys: Vec<Digest>| {
        let (_, (_, messages)) =
            recorded(sides::ids::<u64, _>(digests(0, 100), (100, 100), sides::paxos), |lines, _| {
                sides::ids::<u64, _>(ys, (100, 100), sides::paxos)(lines, &mut fixed_rng(5))
            });
        messages.into_iter().filter(|message| !message.sent).map(|message| message.bytes).collect::<Vec<_>>()
    };
    let (equal, disjoint) = (said(digests(0, 100)), said(digests(100, 200)));
    let last = equal.len() - 1;
    assert_eq!(equal[..last], disjoint[..last]);
    assert_eq!(equal[last].len(), 32, "the name of the attempt");
}
