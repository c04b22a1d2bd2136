//! Totals of three to sixteen parties against a plain join and against hostile peers, and what each party is told besides.

use crate::sides::{self, Many};
use vesica_block::Block;
use vesica_psi::circuit::Total;
use vesica_session::{Channel, Error, Fault, Result};
use vesica_testkit::{Attack, Hostile, Message, Recorder, Transcript, digests, fixed_rng, many_with, messages};
use vesica_types::Digest;

/// What a job asks for: of what, the least number of common keys, and in how many units, each of which has all keys.
type Asks = (Total, Option<u64>, u32);

/// What a plain join gives, in words.
fn join(job: &Many, (total, least, units): Asks) -> String {
    let all = |key: &&Digest| job.keys.iter().all(|keys| keys.contains(key));
    let common: Vec<&Digest> = job.keys[usize::from(job.learners[0])].iter().filter(all).collect();
    let count = common.len() as u64 * u64::from(units);
    match total {
        _ if least.is_some_and(|least| count < least) => "too few".to_owned(),
        Total::Sum => {
            let sum = common.iter().fold(0, |sum: i64, key| sum.wrapping_add(sides::value(key)));
            format!("a sum of {}", sum.wrapping_mul(i64::from(units)))
        }
        _ => format!("{count} keys"),
    }
}

/// What the parties are told, by place.
fn told(job: &Many, asks: Asks) -> Vec<String> {
    let side = |place, lines: &mut _, rng: &mut _| job.tally::<u64>(asks, place, lines, rng).unwrap();
    many_with(job.keys.len() as u8, side, |_, channel| Box::new(channel))
}

/// Learners are told what a plain join gives and nobody else is told anything, but for whether there are too few.
fn tells_what_a_join_gives(name: &str, job: &Many, asks: Asks) {
    let want = join(job, asks);
    for (place, told) in (0..).zip(told(job, asks)) {
        let hears = job.learners.contains(&place) || want == "too few";
        assert_eq!(
            told,
            if hears { &want } else { "" },
            "{name}: {asks:?}, pivot {:?}, learners {:?}, party {place}",
            job.pivot,
            job.learners
        );
    }
}

fn sets(ranges: &[(u64, u64)]) -> Vec<Vec<Digest>> {
    ranges.iter().map(|&(from, to)| digests(from, to)).collect()
}

/// Sets of three parties, and what they are an example of. Keys of a unit are distinct: rows with the same key are one.
fn examples() -> Vec<(&'static str, Vec<Vec<Digest>>)> {
    let of = |name, ranges: [(u64, u64); 3]| (name, sets(&ranges));
    vec![
        of("all empty", [(0, 0), (0, 0), (0, 0)]),
        of("one key, the same", [(0, 1), (0, 1), (0, 1)]),
        of("one key each, all different", [(0, 1), (1, 2), (2, 3)]),
        of("disjoint", [(0, 15), (20, 36), (40, 57)]),
        of("equal", [(0, 33), (0, 33), (0, 33)]),
        of("overlapping", [(0, 40), (3, 42), (6, 44)]),
        of("leader and pivot alone have much in common", [(0, 40), (0, 40), (39, 60)]),
        of("the client has nothing", [(0, 40), (0, 40), (0, 0)]),
        of("the leader has nothing", [(0, 0), (0, 40), (0, 40)]),
        of("the pivot has one key", [(0, 40), (7, 8), (0, 40)]),
        of("leader and client alone have much in common", [(0, 30), (29, 50), (0, 30)]),
    ]
}

#[test]
fn three_parties_are_told_what_a_join_gives() {
    for (name, keys) in examples() {
        for (total, least) in [(Total::Count, None), (Total::Sum, None), (Total::Sum, Some(2))] {
            for (pivot, learners) in [(1, &[0][..]), (0, &[2]), (2, &[0, 1, 2])] {
                let job = Many::new(&keys, Some(pivot), learners);
                tells_what_a_join_gives(name, &job, (total, least, 1));
            }
        }
    }
}

/// Random sets, in which each key is with each party by chance.
#[test]
fn random_sets_are_counted_and_added_up() {
    for seed in 0..12u64 {
        let parties = 3 + seed % 3;
        // The bits of a multiple of an odd number, as good as chance for this.
        let holds = |party: u64, key: u64| {
            ((key + 1) * (2 * party + 2 * seed + 3)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 62 != 0
        };
        let keys: Vec<Vec<Digest>> = (0..parties)
            .map(|party| {
                let mut keys: Vec<Digest> =
                    (0..50).filter(|&key| holds(party, key)).flat_map(|key| digests(key, key + 1)).collect();
                keys.sort_unstable();
                keys
            })
            .collect();
        let job = Many::new(&keys, Some((seed % 2) as u8 + 1), &[0, 2 - (seed % 2) as u8]);
        tells_what_a_join_gives(&format!("seed {seed}"), &job, (Total::Sum, None, 1));
        tells_what_a_join_gives(&format!("seed {seed}"), &job, (Total::Count, Some(seed + 4), 1));
    }
}

/// The limit is compared over all units, and everybody hears the same.
#[test]
fn totals_are_over_all_units_and_nothing_is_told_below_the_least_number() {
    let keys = sets(&[(0, 30), (5, 33), (2, 25), (0, 27)]);
    for learners in [&[0][..], &[1, 3], &[3, 2], &[0, 1, 2, 3]] {
        let job = Many::new(&keys, Some(2), learners);
        for least in [None, Some(60), Some(61)] {
            for total in [Total::Count, Total::Sum] {
                tells_what_a_join_gives("in three units", &job, (total, least, 3));
            }
        }
    }
}

#[test]
fn sixteen_parties_and_the_large_field() {
    let keys: Vec<Vec<Digest>> = (0..16).map(|i| digests(i, 60 + i)).collect();
    let job = Many::new(&keys, Some(3), &[7, 15]);
    tells_what_a_join_gives("overlapping", &job, (Total::Sum, Some(45), 1));
    let job = Many::new(&keys[..4], Some(0), &[1]);
    let asks = (Total::Count, None, 1);
    let side = |place, lines: &mut _, rng: &mut _| job.tally::<Block>(asks, place, lines, rng).unwrap();
    let told = many_with(4, side, |_, channel| Box::new(channel));
    assert_eq!(told[1], join(&job, asks));
}

/// What each party saw go over its pipe to each other one, in the order in which it saw it, by places: `seen[i][j]` is party i's.
type Seen = Vec<Vec<Vec<Message>>>;

/// A run, and what was seen. The randomness of the party at `place` has the seed `seeds[place]`.
fn recorded(job: &Many, asks: Asks, seeds: &[u8]) -> (Vec<Result<String>>, Seen) {
    let parties = job.keys.len();
    let transcripts: Vec<Vec<Transcript>> =
        (0..parties).map(|_| (0..parties).map(|_| Transcript::default()).collect()).collect();
    let told = many_with(
        parties as u8,
        |place, lines, _| job.tally::<u64>(asks, place, lines, &mut fixed_rng(seeds[usize::from(place)])),
        |place, channel| {
            let peer = usize::from(channel.peer().place());
            Box::new(Recorder::new(channel, transcripts[usize::from(place)][peer].clone()))
        },
    );
    (told, transcripts.iter().map(|of| of.iter().map(messages).collect()).collect())
}

/// Messages that the party at `to` got from the one at `from`.
fn got(seen: &Seen, to: u8, from: u8) -> Vec<&[u8]> {
    let all = &seen[usize::from(to)][usize::from(from)];
    all.iter().filter(|message| !message.sent).map(|message| message.bytes.as_slice()).collect()
}

/// No message's length or order depends on the keys: not on how many are common, nor on how many there are.
#[test]
fn messages_say_nothing_by_their_lengths() {
    let worlds: [[(u64, u64); 4]; 6] = [
        [(0, 30), (0, 30), (0, 30), (0, 30)],
        [(0, 30), (0, 30), (0, 30), (100, 130)],
        [(0, 30), (40, 70), (80, 110), (120, 150)],
        [(0, 0), (0, 30), (0, 12), (0, 30)],
        [(0, 30), (5, 30), (7, 7), (29, 30)],
        [(0, 30), (0, 30), (29, 59), (0, 30)],
    ];
    for (asks, learners) in
        [((Total::Count, None, 2), &[0][..]), ((Total::Sum, Some(1), 1), &[0, 2, 3]), ((Total::Sum, None, 1), &[3])]
    {
        let mut shapes = Vec::new();
        for world in &worlds {
            let job = Many { capacities: vec![33; 4], ..Many::new(&sets(world), Some(1), learners) };
            let (told, seen) = recorded(&job, asks, &[1, 2, 3, 4]);
            // Whether there are too few is told to all, and where there are, nothing follows.
            let too_few = told.iter().all(|told| told.as_ref().unwrap() == "too few");
            let lengths =
                |of: &Vec<Message>| of.iter().map(|message| (message.sent, message.bytes.len())).collect::<Vec<_>>();
            shapes.push((too_few, seen.iter().flatten().map(lengths).collect::<Vec<_>>()));
        }
        for too_few in [false, true] {
            let of: Vec<_> = shapes.iter().filter(|(few, _)| *few == too_few).collect();
            assert!(of.iter().all(|shape| *shape == of[0]), "{asks:?} {learners:?}");
        }
        assert_eq!(shapes.iter().any(|(few, _)| *few), asks.1.is_some());
    }
}

/// Two worlds that differ in nothing but keys of the others: what a client receives is the same bytes but for the shares of the total, and where
/// the total is the same, both shares add up to the same. It sees nothing of who holds what.
#[test]
fn a_client_receives_a_function_of_the_total() {
    let client = digests(0, 30);
    let world = |leader: (u64, u64), pivot: (u64, u64)| {
        let keys = [digests(leader.0, leader.1), digests(pivot.0, pivot.1), client.clone()];
        let job = Many { capacities: vec![33; 3], ..Many::new(&keys, Some(1), &[0, 2]) };
        let (told, seen) = recorded(&job, (Total::Count, Some(1), 1), &[1, 2, 3]);
        let [leader, pivot] =
            [0, 1].map(|from| got(&seen, 2, from).into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>());
        (told[2].as_ref().unwrap().clone(), leader, pivot)
    };
    // Ten common keys: because the leader lacks the others, because the pivot does, and because each lacks half of them.
    let worlds = [world((0, 10), (0, 30)), world((0, 30), (0, 10)), world((0, 20), (10, 43)), world((20, 52), (0, 30))];
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    for (told, leader, pivot) in &worlds {
        assert_eq!(told, "10 keys");
        let [key, seed, enough, share] = &leader[..] else { panic!("the leader says four things: {}", leader.len()) };
        assert_eq!([key.len(), seed.len(), enough.len(), share.len()], [32, 16, 1, 8]);
        assert_eq!((key, seed, enough), (&worlds[0].1[0], &worlds[0].1[1], &worlds[0].1[2]));
        let [same, other] = &pivot[..] else { panic!("the pivot says two things: {}", pivot.len()) };
        assert_eq!(same, enough);
        assert_eq!(number(share).wrapping_add(number(other)), 10);
        // Each by itself is uniform: none is small.
        assert!(number(share) >> 40 != 0 && number(other) >> 40 != 0);
    }
    // Who does not learn hears less.
    let keys = [digests(0, 10), digests(0, 30), client];
    let (_, seen) = recorded(&Many::new(&keys, Some(1), &[0]), (Total::Count, None, 1), &[1, 2, 3]);
    assert_eq!(got(&seen, 2, 0).iter().map(|message| message.len()).collect::<Vec<_>>(), [32, 16]);
    assert!(got(&seen, 2, 1).is_empty());
}

/// What looks random: no byte comes much more often than another.
fn looks_random(bytes: &[u8]) -> bool {
    let mut times = [0u32; 256];
    bytes.iter().for_each(|&byte| times[usize::from(byte)] += 1);
    let each = bytes.len() as f64 / 256.0;
    let chi: f64 = times.iter().map(|&n| (f64::from(n) - each).powi(2) / each).sum();
    // 255 degrees of freedom, of which six deviations are 136.
    (119.0..391.0).contains(&chi)
}

/// What all parties of a test that looks at random bytes pad their keys to.
const PADDED: usize = 110;

/// The long messages of these, in a row, and how many of them are hints. A slot of a hint has 57 bits in eight bytes, so that its last byte, at
/// index 7, is left out: `tests/circuit.rs` looks at it.
fn long(messages: &[Vec<u8>]) -> (Vec<u8>, usize) {
    let asks = sides::Asks { total: Total::Count, puts: true, learns: (true, false), least: None, noise: None };
    let hint = 8 * sides::circuit_params((PADDED, PADDED), asks).opprf.shape.slots();
    let (mut bytes, mut hints) = (Vec::new(), 0);
    for message in messages.iter().filter(|message| message.len() >= 300) {
        if message.len() == hint {
            hints += 1;
            assert!(message.chunks(8).all(|slot| slot[7] >> (sides::TARGET - 56) == 0), "it is as long as a hint");
            bytes.extend(message.chunks(8).flat_map(|slot| &slot[..7]));
        } else {
            bytes.extend(message);
        }
    }
    (bytes, hints)
}

/// What was received in several worlds by the same parties with the same chance: it has the same lengths, and no message of at least `least`
/// bytes is the same in two of them.
fn as_long_and_never_the_same(worlds: &[Vec<Vec<u8>>], least: usize, case: &str) {
    let lengths = |messages: &[Vec<u8>]| messages.iter().map(Vec::len).collect::<Vec<_>>();
    for (at, messages) in worlds.iter().enumerate() {
        for others in &worlds[..at] {
            assert_eq!(lengths(messages), lengths(others), "{case}");
            for (one, other) in messages.iter().zip(others) {
                assert!(one.len() < least || one != other, "{case}: the same {} bytes", one.len());
            }
        }
    }
}

/// Worlds for leader and pivot: with the keys and the chance of the one fixed, the other one's and the client's keys change, and with them
/// what is common. What the one receives has the same lengths and looks random in all, and no message of 16 bytes and more is the same in two.
#[test]
fn leader_and_pivot_receive_what_looks_random_whatever_is_common() {
    // Of a hundred keys all, none, and one.
    let worlds = [
        [(0, 100); 3],
        [(0, 100), (0, 100), (200, 300)],
        [(0, 100), (99, 199), (0, 100)],
        [(99, 199), (0, 100), (0, 100)],
    ];
    for (to, from) in [(0u8, 1u8), (1, 0), (1, 2)] {
        let case = format!("to {to} from {from}");
        let mut all: Vec<Vec<Vec<u8>>> = Vec::new();
        for (world, seed) in worlds.iter().zip(0u8..) {
            let job = Many { capacities: vec![PADDED; 3], ..Many::new(&sets(world), Some(1), &[0]) };
            // The chance of the party that is looked at is the same.
            let seeds: Vec<u8> = (0..3).map(|place| if place == to { 77 } else { 10 * seed + place + 1 }).collect();
            let (_, seen) = recorded(&job, (Total::Sum, None, 2), &seeds);
            all.push(got(&seen, to, from).into_iter().map(<[u8]>::to_vec).collect());
        }
        for messages in &all {
            let (bytes, hints) = long(messages);
            // One in each unit.
            assert_eq!(hints, if to == 0 { 2 } else { 0 }, "{case}");
            assert!(bytes.len() >= 1000, "{case}: {} bytes are too few to look at", bytes.len());
            assert!(looks_random(&bytes), "{case}: {} bytes", bytes.len());
        }
        as_long_and_never_the_same(&all, 16, &case);
    }
}

/// Leader or pivot puts what it receives together with what a client receives. Both have the same keys and the same chance in all worlds and learn
/// the same total, but the keys of the two others change, and with them which ten of the coalition's hundred are common. What the two receive from
/// the others has the same lengths, and its long messages look random. No message is the same in two worlds but those of fewer than eight bytes.
/// The shares that the learning client gets are different in all worlds, and all that they say together is the total.
#[test]
fn a_client_with_the_leader_or_the_pivot_receives_what_looks_random_but_for_the_total() {
    let worlds = [[(0, 100), (0, 10)], [(0, 10), (0, 100)], [(60, 160), (0, 70)], [(40, 50), (30, 90)]];
    for with in [0u8, 1] {
        let (coalition, others) = ([with, 2], [1 - with, 3]);
        let case = format!("to {coalition:?} from {others:?}");
        let mut all = Vec::new();
        for (world, seed) in worlds.iter().zip(0u8..) {
            let mut ranges = [(0, 100); 4];
            others.iter().zip(world).for_each(|(&other, &range)| ranges[usize::from(other)] = range);
            let job = Many { capacities: vec![PADDED; 4], ..Many::new(&sets(&ranges), Some(1), &[0, 2]) };
            let seeds: Vec<u8> = (0..4)
                .map(|place| if coalition.contains(&place) { 77 + place } else { 10 * seed + place + 1 })
                .collect();
            let (told, seen) = recorded(&job, (Total::Count, Some(3), 1), &seeds);
            assert!([0, 2].iter().all(|&learner: &usize| told[learner].as_ref().unwrap() == "10 keys"), "{told:?}");
            let share = |from| u64::from_le_bytes(got(&seen, 2, from).pop().unwrap().try_into().unwrap());
            assert_eq!(share(0).wrapping_add(share(1)), 10);
            let pairs = coalition.iter().flat_map(|&to| others.map(|from| (to, from)));
            let joined = pairs.flat_map(|(to, from)| got(&seen, to, from)).map(<[u8]>::to_vec);
            all.push(joined.collect::<Vec<_>>());
        }
        for messages in &all {
            let (bytes, hints) = long(messages);
            assert_eq!(hints, if with == 0 { 1 } else { 0 }, "{case}");
            assert!(bytes.len() >= 1000 && looks_random(&bytes), "{case}: {} bytes", bytes.len());
        }
        as_long_and_never_the_same(&all, 8, &case);
    }
}

/// Each message that a hostile party sends to another one is spoiled in every way. Nobody panics or hangs. Whoever gets the message blames the
/// sender, or, where its length is right, may not notice: a semi-honest protocol promises no more.
#[test]
fn a_hostile_party_is_named_by_who_gets_its_message() {
    hostile(Some(3));
}

/// The same where there are too few common keys.
#[test]
fn a_hostile_party_is_named_below_the_least_number() {
    hostile(Some(100));
}

/// Every message of every party is spoiled, of a job with this least number.
fn hostile(least: Option<u64>) {
    let keys = sets(&[(0, 12), (2, 15), (1, 14)]);
    let names = ["alice", "bob", "carol"];
    let job = Many::new(&keys, Some(1), &[0, 1, 2]);
    let asks = (Total::Sum, least, 1);
    let too_few = join(&job, asks) == "too few";
    let (_, seen) = recorded(&job, asks, &[1, 2, 3]);
    for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2)] {
        let messages = got(&seen, to, from).len();
        // The pivot says nothing to a client but its word, and its share if there are enough.
        assert!(messages == if too_few { 1 } else { 2 } || (from, to) != (1, 2));
        for (at, attack) in (0..messages).flat_map(|at| Attack::ALL.map(|attack| (at, attack))) {
            let told = many_with(
                3,
                |place, lines, rng| job.tally::<u64>(asks, place, lines, rng),
                |place, channel| match (place, channel.peer().place()) == (from, to) {
                    true => Box::new(Hostile::new(channel, attack, at)),
                    false => Box::new(channel),
                },
            );
            let case = format!("least {least:?}, message {at} from {from} to {to}, {attack:?}");
            let shorter_or_longer = matches!(attack, Attack::Cut | Attack::Empty | Attack::Grow);
            match &told[usize::from(to)] {
                Err(error) if shorter_or_longer => {
                    assert_eq!(error.fault(), Fault::Peer, "{case}: {error}");
                    assert!(error.to_string().contains(names[usize::from(from)]), "{case}: {error}");
                }
                end => assert!(!shorter_or_longer, "{case}: {end:?}"),
            }
            assert!(
                told.iter().all(|end| end.as_ref().err().is_none_or(|error| error.fault() != Fault::Bug)),
                "{case}"
            );
        }
    }
}

/// The word to a client of leader or pivot, whether there are enough common keys, is spoiled in every way: a 1 that becomes 0, and a 0 that becomes
/// 1. The client sees that the two differ, whether it learns or not, and names both. Nobody is told a total but the right one.
#[test]
fn a_false_word_about_the_least_number_is_seen() {
    let keys = sets(&[(0, 12), (2, 15), (1, 14), (0, 13)]);
    for (least, learners) in [3, 100].into_iter().flat_map(|least| [&[0][..], &[0, 2], &[3, 2]].map(|of| (least, of))) {
        let job = Many::new(&keys, Some(1), learners);
        let (leader, asks) = (learners[0], (Total::Sum, Some(least), 1));
        let want = join(&job, asks);
        let too_few = want == "too few";
        assert_eq!(too_few, least == 100);
        let (_, seen) = recorded(&job, asks, &[1, 2, 3, 4]);
        for (from, attack) in [leader, 1].into_iter().flat_map(|from| Attack::ALL.map(|attack| (from, attack))) {
            let words = got(&seen, 2, from);
            let at = words.iter().position(|message| message.len() == 1).unwrap();
            assert_eq!(words[at], [u8::from(!too_few)]);
            let told = many_with(
                4,
                |place, lines, rng| job.tally::<u64>(asks, place, lines, rng),
                |place, channel| match (place, channel.peer().place()) == (from, 2) {
                    true => Box::new(Hostile::new(channel, attack, at)),
                    false => Box::new(channel),
                },
            );
            for (place, told) in (0u8..).zip(&told) {
                let case =
                    format!("least {least}, learners {learners:?}, {attack:?} of {from}, party {place}: {told:?}");
                let learns = learners.contains(&place);
                match (place, attack, told) {
                    (2, Attack::Flip(0), Err(Error::Either { peers, .. })) => {
                        assert_eq!([0, 1].map(|i: usize| peers[i].place()), [leader, 1], "{case}");
                    }
                    // What comes after the word is not read.
                    (2, Attack::Replay, Ok(told)) if from == 1 && (too_few || !learns) => {
                        assert_eq!(told, if too_few { "too few" } else { "" }, "{case}");
                    }
                    (2, _, told) => assert_eq!(told.as_ref().unwrap_err().fault(), Fault::Peer, "{case}"),
                    (_, _, Ok(told)) => assert_eq!(told, if learns || too_few { &want } else { "" }, "{case}"),
                    (_, _, Err(error)) => assert_ne!(error.fault(), Fault::Bug, "{case}"),
                }
            }
        }
    }
}

/// A share of a count that cannot be is seen by each learner. Of leader and pivot, who gets it names its sender; a learner that is neither names
/// both, for it cannot tell which of them lied.
#[test]
fn a_count_that_cannot_be_is_refused() {
    let keys = sets(&[(0, 12), (2, 15), (1, 14)]);
    let job = Many::new(&keys, Some(1), &[0, 2]);
    let (_, seen) = recorded(&job, (Total::Count, None, 1), &[1, 2, 3]);
    let both = "alice or bob broke the protocol, and it cannot be told which of them: by ";
    for (from, to, named) in [(1, 0, "bob broke the protocol: by "), (1, 2, both), (0, 2, both)] {
        let last = got(&seen, to, from).len() - 1;
        let told = many_with(
            3,
            |place, lines, rng| job.tally::<u64>((Total::Count, None, 1), place, lines, rng),
            |place, channel| match (place, channel.peer().place()) == (from, to) {
                true => Box::new(Hostile::new(channel, Attack::Flip(usize::MAX), last)),
                false => Box::new(channel),
            },
        );
        let error = told[usize::from(to)].as_ref().unwrap_err();
        assert_eq!(error.fault(), Fault::Peer);
        let error = error.to_string();
        assert!(error.starts_with(named), "{error}");
        assert!(error.contains("more keys are common than there are"), "{error}");
    }
}

/// A client makes one store of a unit under one key, whoever asks for another one.
#[test]
fn a_client_serves_a_unit_once() {
    let job = Many::new(&vec![digests(0, 12); 3], Some(1), &[0]);
    let ends = many_with(
        3,
        |place, lines, rng| {
            let side = job.open_tally::<u64>(Total::Count, None, place, lines, rng).unwrap();
            side.unit(&job.unit(0, place), &Default::default(), lines, rng).unwrap();
            (place == 2).then(|| side.unit(&job.unit(0, place), &Default::default(), lines, rng).unwrap_err())
        },
        |_, channel| Box::new(channel),
    );
    let error = ends[2].as_ref().unwrap();
    assert!(error.fault() == Fault::Bug && error.to_string().contains("unit 0 twice"), "{error}");
}
