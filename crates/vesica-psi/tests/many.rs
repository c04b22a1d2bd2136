//! The protocols of three to sixteen parties against a plain join and against hostile peers, and what they do not tell.

use crate::sides;

use sides::Many;
use std::sync::{Arc, Mutex};
use vesica_block::Block;
use vesica_block::hash::Permutation;
use vesica_okvs::Okvs;
use vesica_oprf::vole::Shape;
use vesica_oprf::{Oprf, Receiver};
use vesica_ot::Security;
use vesica_session::{Channel, Fault, Result, SessionRng};
use vesica_testkit::{Attack, Hostile, Message, Recorder, Transcript, digests, fixed_rng, many_with, messages};
use vesica_types::{Digest, UnitId};

/// The places in `keys` of those that all have.
fn join(keys: &[Vec<Digest>], of: usize) -> Vec<u32> {
    let all = |key: &Digest| keys.iter().all(|keys| keys.contains(key));
    (0..).zip(&keys[of]).filter(|(_, key)| all(key)).map(|(place, _)| place).collect()
}

/// What the parties of a job find, by place.
fn found(job: &Many) -> Vec<Result<Vec<u32>>> {
    let side = |place, lines: &mut _, rng: &mut _| job.side::<u64, _>(sides::paxos, place, lines, rng);
    many_with(job.keys.len() as u8, side, |_, channel| Box::new(channel))
}

/// What the parties find is what a plain join does, for those that learn.
fn finds_what_a_join_does(name: &str, job: &Many) {
    for (place, found) in (0..).zip(found(job)) {
        let learns = job.learners.contains(&place);
        let want = if learns { join(&job.keys, usize::from(place)) } else { Vec::new() };
        assert_eq!(found.unwrap(), want, "{name}, pivot {:?}, learners {:?}, party {place}", job.pivot, job.learners);
    }
}

/// The star with its pivot at each end, and the protocol against any coalition; led by the first party and by the last one.
fn ways(parties: u8) -> Vec<(Option<u8>, Vec<u8>)> {
    let last = parties - 1;
    vec![(None, vec![0]), (Some(last), vec![0]), (Some(0), vec![last])]
}

/// Sets of so many parties, and what they are an example of.
fn examples(parties: u64) -> Vec<(String, Vec<Vec<Digest>>)> {
    let sets = |name: &str, range: &dyn Fn(u64) -> (u64, u64)| {
        (name.to_owned(), (0..parties).map(range).map(|(from, to)| digests(from, to)).collect())
    };
    let mut all = vec![
        sets("all empty", &|_| (0, 0)),
        sets("one key, the same", &|_| (0, 1)),
        sets("one key each, all different", &|i| (i, i + 1)),
        sets("disjoint", &|i| (20 * i, 20 * i + 15 + i)),
        sets("equal", &|_| (0, 33)),
        sets("overlapping", &|i| (3 * i, 40 + 2 * i)),
    ];
    // Each in turn holds nothing, everything, one common key, one other key; the rest hold what is common to all but that one.
    for odd in 0..parties {
        for (what, range) in
            [("nothing", (0, 0)), ("everything", (0, 90)), ("one of them", (12, 13)), ("one other", (99, 100))]
        {
            let one = |i: u64| if i == odd { range } else { (i, 30 + i) };
            all.push(sets(&format!("{odd} holds {what}"), &one));
        }
    }
    all
}

#[test]
fn three_parties_find_what_a_join_does() {
    for (name, keys) in examples(3) {
        for (pivot, learners) in ways(3) {
            finds_what_a_join_does(&name, &Many::new(&keys, pivot, &learners));
        }
    }
}

#[test]
fn four_and_five_parties_find_what_a_join_does() {
    for parties in [4, 5] {
        for (name, keys) in examples(parties) {
            for (pivot, learners) in [(None, vec![1]), (Some(2), vec![0])] {
                finds_what_a_join_does(&name, &Many::new(&keys, pivot, &learners));
            }
        }
    }
}

#[test]
fn sixteen_parties_find_what_a_join_does() {
    let keys: Vec<Vec<Digest>> = (0..16).map(|i| digests(i, 60 + i)).collect();
    for (pivot, learners) in [(None, vec![7]), (Some(3), vec![15])] {
        finds_what_a_join_does("overlapping", &Many::new(&keys, pivot, &learners));
    }
}

/// Any set of parties that learn: all, two, the pivot among them.
#[test]
fn whoever_learns_finds_what_a_join_does_and_nobody_else_does() {
    let keys: Vec<Vec<Digest>> = (0..4).map(|i| digests(2 * i, 30 + i)).collect();
    for pivot in [None, Some(2), Some(3)] {
        for learners in [vec![0, 1, 2, 3], vec![0, 3], vec![1, 2], vec![0, 2, 3]] {
            finds_what_a_join_does("overlapping", &Many::new(&keys, pivot, &learners));
        }
    }
}

#[test]
fn bands_and_the_large_field_find_what_a_join_does() {
    let keys: Vec<Vec<Digest>> = (0..4).map(|i| digests(2 * i, 300 + i)).collect();
    for (pivot, learners) in [(None, vec![0]), (Some(2), vec![3])] {
        let job = Many::new(&keys, pivot, &learners);
        let side = |place, lines: &mut _, rng: &mut _| job.side::<Block, _>(sides::band, place, lines, rng).unwrap();
        let found = many_with(4, side, |_, channel| Box::new(channel));
        let leader = usize::from(learners[0]);
        assert_eq!(found[leader], join(&keys, leader));
    }
}

/// What each party saw go over its pipe to each other one, in the order in which it saw it, by places: `seen[i][j]` is party i's.
type Seen = Vec<Vec<Vec<Message>>>;

/// A run, and what was seen. The randomness of the party at `place` has the seed `seed + place`.
fn recorded(job: &Many, seed: u8) -> (Vec<Vec<u32>>, Seen) {
    let parties = job.keys.len();
    let transcripts: Vec<Vec<Transcript>> =
        (0..parties).map(|_| (0..parties).map(|_| Transcript::default()).collect()).collect();
    let found = many_with(
        parties as u8,
        |place, lines, _| job.side::<u64, _>(sides::paxos, place, lines, &mut fixed_rng(seed + place)).unwrap(),
        |place, channel| {
            let peer = usize::from(channel.peer().place());
            Box::new(Recorder::new(channel, transcripts[usize::from(place)][peer].clone()))
        },
    );
    (found, transcripts.iter().map(|of| of.iter().map(messages).collect()).collect())
}

/// Messages that the party at `to` got from the one at `from`.
fn got(seen: &Seen, to: u8, from: u8) -> Vec<&[u8]> {
    let all = &seen[usize::from(to)][usize::from(from)];
    all.iter().filter(|message| !message.sent).map(|message| message.bytes.as_slice()).collect()
}

/// No message's length or order depends on the keys: not on how many any parties have in common, nor on how many there are.
#[test]
fn messages_say_nothing_by_their_lengths() {
    let shape = |seen: &Seen| -> Vec<Vec<(bool, usize)>> {
        let lengths = |of: &Vec<Message>| of.iter().map(|message| (message.sent, message.bytes.len())).collect();
        seen.iter().flatten().map(lengths).collect()
    };
    let sets: [[(u64, u64); 4]; 5] = [
        [(0, 30), (0, 30), (0, 30), (0, 30)],
        [(0, 30), (0, 30), (0, 30), (100, 130)],
        [(0, 30), (40, 70), (80, 110), (120, 150)],
        [(0, 0), (0, 30), (0, 12), (0, 30)],
        [(0, 30), (5, 30), (7, 7), (29, 30)],
    ];
    for (pivot, learners) in [(None, vec![0]), (None, vec![1, 3]), (Some(2), vec![0]), (Some(2), vec![0, 1, 2, 3])] {
        let shapes = sets.map(|sets| {
            let keys = sets.map(|(from, to)| digests(from, to));
            shape(&recorded(&Many { capacities: vec![33; 4], ..Many::new(&keys, pivot, &learners) }, 1).1)
        });
        assert!(shapes[0].iter().any(|of| of.len() > 3));
        assert!(shapes.iter().all(|shape| *shape == shapes[0]), "{pivot:?} {learners:?}");
    }
}

/// What a learner is told by the leader is the same bytes, whatever the others hold beside what is common, and whatever their chance.
#[test]
fn what_a_learner_is_told_is_a_function_of_the_result() {
    for pivot in [None, Some(2)] {
        let told = [(0, 1), (5, 10), (11, 20)].map(|(others, seed)| {
            let mut keys: Vec<Vec<Digest>> =
                (1..5).map(|i| [digests(0, 20), digests(1000 * i, 1000 * i + others)].concat()).collect();
            keys.iter_mut().for_each(|keys| keys.sort_unstable());
            keys[3] = digests(0, 31);
            let job = Many { capacities: vec![35; 4], ..Many::new(&keys, pivot, &[1, 3]) };
            let (found, seen) = recorded(&job, seed);
            assert_eq!(found[3], (0..31).filter(|&at| keys[0].contains(&keys[3][at as usize])).collect::<Vec<u32>>());
            got(&seen, 3, 1).last().unwrap().to_vec()
        });
        assert!(told.iter().all(|one| *one == told[0]), "{pivot:?}: it depends on more than the intersection");
    }
}

/// A client sees nothing but random bytes that nobody else's keys are in: with the same chance of all, they are the same for other keys
/// of the others; only what hides the leader's store in the function changes with its keys.
#[test]
fn a_client_of_the_star_sees_nothing_of_the_others_keys() {
    let run = |others: u64| {
        let keys = [digests(others, others + 30), digests(others, others + 30), digests(0, 30), digests(0, 30)];
        let (_, seen) = recorded(&Many { capacities: vec![33; 4], ..Many::new(&keys, Some(1), &[0]) }, 1);
        [2, 3].map(|client| [0, 1].map(|from| got(&seen, client, from).concat()))
    };
    let [one, other] = [run(0), run(500)];
    assert_eq!(one, other);
    assert!(one.iter().all(|[leader, pivot]| leader.len() == 48 && pivot.is_empty()));
}

/// Without a pivot, too: what a client gets of the other clients is the same for other keys of the others. Of the leader it gets the
/// same messages but for what hides the leader's keys in the function, which changes with these and has the same lengths.
#[test]
fn a_client_sees_nothing_of_the_others_keys() {
    let run = |others: u64| {
        let keys = [digests(others, others + 30), digests(others, others + 30), digests(0, 30), digests(0, 30)];
        let (_, seen) = recorded(&Many { capacities: vec![33; 4], ..Many::new(&keys, None, &[0]) }, 1);
        let of = |client: u8, from: u8| -> Vec<Vec<u8>> {
            got(&seen, client, from).into_iter().map(|message| message.to_vec()).collect()
        };
        ([of(2, 1), of(2, 3), of(3, 1), of(3, 2)], [of(2, 0), of(3, 0)])
    };
    let [(clients, leader), (others_clients, others_leader)] = [run(0), run(500)];
    assert_eq!(clients, others_clients);
    for (one, other) in leader.iter().zip(&others_leader) {
        let lengths = |messages: &[Vec<u8>]| messages.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(one), lengths(other));
        let differ = one.iter().zip(other).filter(|(one, other)| one != other).count();
        assert_eq!(differ, 1, "only the function's store of the leader's keys differs");
    }
}

/// The stores of a unit that arrive at a party, decoded at `keys`, client by client. `seen` begins before the unit does.
fn decoded(job: &Many, unit: u32, seen: &Seen, at: u8, clients: &[u8], keys: &[Digest]) -> Vec<Vec<Block>> {
    let leader = job.learners[0];
    let sent = &seen[usize::from(clients[0])][usize::from(leader)];
    // The star's clients get a key of 32 bytes and the seed of 16; against any coalition the seed is the first of 16 bytes, too.
    let r = sent.iter().find(|message| !message.sent && message.bytes.len() == 16).unwrap();
    let capacity = clients.iter().map(|&client| job.capacities[usize::from(client)]).max().unwrap();
    let mut hash = blake3::Hasher::new_derive_key("vesica 2026 many parties rows");
    hash.update(&sides::SESSION).update(&unit.to_le_bytes()).update(&[leader]).update(&r.bytes);
    let seed = Block::from_le_bytes(*hash.finalize().as_bytes().first_chunk().unwrap());
    let okvs = sides::paxos(capacity as u64).seeded(seed);
    let one = |&client: &u8| {
        let wire = got(seen, at, client).into_iter().rfind(|message| message.len() == 7 * okvs.len()).unwrap();
        let slot = |bytes: &[u8]| {
            let mut slot = [0; 16];
            slot[..7].copy_from_slice(bytes);
            Block::from_le_bytes(slot)
        };
        assert!(wire.chunks(7).all(|slot| slot != [0; 7]), "a slot that nothing depends on is zero");
        let slots: Vec<Block> = wire.chunks(7).map(slot).collect();
        let mut values = Vec::new();
        okvs.decode(keys, &slots, &mut values);
        values
    };
    clients.iter().map(one).collect()
}

/// The pivot, even with a client that joins it, sees nothing that tells a client's key from any other: no value comes twice, in one
/// client's store, in another's, or in a second attempt at the same unit.
#[test]
fn no_value_comes_twice_for_who_adds_the_stores() {
    let keys = vec![digests(0, 40); 5];
    let (probe, clients) = (digests(0, 80), [1, 2, 4]);
    let star = Many::new(&keys, Some(3), &[0]);
    let any = Many::new(&keys, None, &[0]);
    for (job, at) in [(&star, 3), (&any, 0)] {
        let mut values = Vec::new();
        for attempt in [1, 100] {
            let (_, seen) = recorded(job, attempt);
            values.extend(decoded(job, 0, &seen, at, &clients, &probe).concat());
        }
        let all = values.len();
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len(), all, "of {all} values of 56 bits two are equal");
    }
}

/// A function whose receiver notes what it learns, client after client.
struct Noted<T>(T, Arc<Mutex<Vec<Vec<Block>>>>);

impl<O: Oprf> Oprf for Noted<O> {
    type Key = O::Key;
    type Sender = O::Sender;
    type Receiver = Noted<O::Receiver>;

    fn sender(&self, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<O::Sender> {
        self.0.sender(ch, rng)
    }

    fn receiver(&self, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self::Receiver> {
        Ok(Noted(self.0.receiver(ch, rng)?, self.1.clone()))
    }
}

impl<R: Receiver> Receiver for Noted<R> {
    fn receive(&self, unit: UnitId, xs: &[Digest], ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<Block>> {
        let values = self.0.receive(unit, xs, ch, rng)?;
        self.1.lock().unwrap().push(values.clone());
        Ok(values)
    }
}

/// PRF(k, x) for the only unit, as the parties compute it.
fn mask(key: &[u8], leader: u8, xs: &[Digest]) -> Vec<Block> {
    let mut hash = blake3::Hasher::new_derive_key("vesica 2026 many parties mask");
    hash.update(&sides::SESSION).update(&0u32.to_le_bytes()).update(&[leader]).update(key);
    let aes = Permutation::new(Block::from_le_bytes(*hash.finalize().as_bytes().first_chunk().unwrap()));
    let mut values: Vec<Block> = xs.iter().map(|&x| x.into()).collect();
    aes.cr(&mut values);
    values
}

/// The leader takes the function's values off the clients' stores: shares of zero are left, as all hold all keys. Only the sum over all
/// clients is zero; whichever are left out, what remains is random. So it is for a leader that one client joins, with that client's
/// keys taken off: only the sum over all clients outside says anything.
#[test]
fn shares_of_some_clients_say_nothing() {
    let keys = vec![digests(0, 40); 5];
    let job = Many::new(&keys, None, &[0]);
    let noted = Arc::new(Mutex::new(Vec::new()));
    let transcripts: Vec<Vec<Transcript>> = (0..5).map(|_| (0..5).map(|_| Transcript::default()).collect()).collect();
    let found = many_with(
        5,
        |place, lines, rng| {
            let function = sides::rr22::<u64, _>(Security::SemiHonest, sides::paxos)(job.capacities[0]);
            job.by(&Noted(function, noted.clone()), sides::paxos, place, lines, rng).unwrap()
        },
        |place, channel| {
            let peer = usize::from(channel.peer().place());
            Box::new(Recorder::new(channel, transcripts[usize::from(place)][peer].clone()))
        },
    );
    assert_eq!(found[0].len(), 40);
    let seen: Seen = transcripts.iter().map(|of| of.iter().map(messages).collect()).collect();
    let cut = |value: Block| Block(value.0 & ((1 << 56) - 1));
    let add = |to: &mut Vec<Block>, of: &[Block]| to.iter_mut().zip(of).for_each(|(to, of)| *to = cut(*to ^ *of));
    let mut shares = decoded(&job, 0, &seen, 0, &[1, 2, 3, 4], &keys[0]);
    shares.iter_mut().zip(noted.lock().unwrap().iter()).for_each(|(share, values)| add(share, values));
    let zero_where_all_are_in = |shares: &[Vec<Block>]| {
        let all = (1 << shares.len()) - 1;
        for some in 1..=all {
            let mut sum = vec![Block::ZERO; 40];
            let chosen = shares.iter().zip(0..).filter(|(_, bit)| some >> bit & 1 == 1);
            chosen.for_each(|(share, _)| add(&mut sum, share));
            let zeros = sum.iter().filter(|&&value| value == Block::ZERO).count();
            assert_eq!(zeros, if some == all { 40 } else { 0 }, "{some:b} of {all:b}");
        }
    };
    zero_where_all_are_in(&shares);
    // The first client joins the leader: its key with each other client is the only message of 32 bytes between these.
    let mut outside = shares.split_off(1);
    for (share, other) in outside.iter_mut().zip(2..) {
        let [key] = got(&seen, other, 1)[..] else { panic!("clients exchange one message") };
        add(share, &mask(key, 0, &keys[0]));
    }
    zero_where_all_are_in(&outside);
}

/// The same seeds give the same bytes, and other seeds share not one message: keys, rows and stores are drawn anew for each attempt.
#[test]
fn a_second_attempt_uses_nothing_of_the_first() {
    for pivot in [None, Some(2)] {
        let job = Many::new(&vec![digests(0, 40); 4], pivot, &[0]);
        let all = |seed| {
            let (_, seen) = recorded(&job, seed);
            seen.into_iter().flatten().flatten().map(|message| message.bytes).collect::<Vec<_>>()
        };
        let (first, again, second) = (all(1), all(1), all(101));
        assert!(first == again && first.len() == second.len());
        assert!(first.iter().zip(&second).all(|(one, other)| one != other), "{pivot:?}");
    }
}

/// Two units of one opened side, as a job runs them: the seed of the rows, the clients' masks and their stores are others in each.
#[test]
fn units_of_one_attempt_share_no_seed_no_mask_and_no_store() {
    let keys = vec![digests(0, 40); 5];
    for pivot in [None, Some(3)] {
        let job = Many::new(&keys, pivot, &[0]);
        let noted = Arc::new(Mutex::new(Vec::new()));
        let transcripts: Vec<Vec<Transcript>> =
            (0..5).map(|_| (0..5).map(|_| Transcript::default()).collect()).collect();
        let lengths =
            |place: u8| transcripts[usize::from(place)].iter().map(|one| messages(one).len()).collect::<Vec<_>>();
        let found = many_with(
            5,
            |place, lines, rng| {
                let function = sides::rr22::<u64, _>(Security::SemiHonest, sides::paxos)(job.capacities[0]);
                let side = job.open(&Noted(function, noted.clone()), sides::paxos, place, lines, rng).unwrap();
                [0, 1].map(|id| {
                    let before = lengths(place);
                    let mut rng = rng.unit(UnitId(id)).unwrap();
                    (side.unit(&job.unit(id, place), lines, &mut rng).unwrap(), before)
                })
            },
            |place, channel| {
                let peer = usize::from(channel.peer().place());
                Box::new(Recorder::new(channel, transcripts[usize::from(place)][peer].clone()))
            },
        );
        assert!(found[0].iter().all(|(found, _)| found.len() == 40), "all hold all keys");
        let at = pivot.unwrap_or(0);
        let clients: Vec<u8> = (1..5).filter(|&place| Some(place) != pivot).collect();
        let (mut seeds, mut stores, mut masks) = (Vec::new(), Vec::new(), Vec::new());
        for unit in [0, 1] {
            let of = |place: usize, peer: usize| {
                let from = |unit: usize| found[place].get(unit).map_or(usize::MAX, |(_, before)| before[peer]);
                let mut all = messages(&transcripts[place][peer]);
                all.truncate(from(unit as usize + 1));
                all.split_off(from(unit as usize))
            };
            let seen: Seen = (0..5).map(|place| (0..5).map(|peer| of(place, peer)).collect()).collect();
            seeds.push(got(&seen, clients[0], 0)[0].to_vec());
            stores.extend(clients.iter().map(|&client| got(&seen, at, client).last().unwrap().to_vec()));
            let mut values = decoded(&job, unit, &seen, at, &clients, &keys[0]);
            if pivot.is_none() {
                // The leader takes the function's values off, so that only the masks are left.
                let noted = noted.lock().unwrap();
                for (values, function) in values.iter_mut().zip(&noted[4 * unit as usize..]) {
                    values
                        .iter_mut()
                        .zip(function)
                        .for_each(|(value, &of)| value.0 = (*value ^ of).0 & ((1 << 56) - 1));
                }
            }
            if pivot.is_none() {
                let sum = |at: usize| values.iter().fold(Block::ZERO, |sum, of| sum ^ of[at]);
                assert!((0..40).all(|at| sum(at) == Block::ZERO), "shares of zero are left");
            }
            masks.extend(values.concat());
        }
        assert!(seeds[0].len() == 16 && seeds[0] != seeds[1], "{pivot:?}");
        let all = (stores.len(), masks.len());
        assert_eq!(all, (2 * clients.len(), 80 * clients.len()));
        stores.sort_unstable();
        stores.dedup();
        masks.sort_unstable();
        masks.dedup();
        assert_eq!((stores.len(), masks.len()), all, "{pivot:?}: a store or a mask comes twice");
    }
}

/// Under one key a client of the star makes one store of a unit, whoever asks for another one.
#[test]
fn a_client_of_the_star_serves_a_unit_once() {
    let job = Many::new(&vec![digests(0, 12); 3], Some(1), &[0]);
    let ends = many_with(
        3,
        |place, lines, rng| {
            let function = sides::rr22::<u64, _>(Security::SemiHonest, sides::paxos)(job.capacities[0]);
            let side = job.open(&function, sides::paxos, place, lines, rng).unwrap();
            for id in [0, 1] {
                side.unit(&job.unit(id, place), lines, rng).unwrap();
            }
            (place == 2).then(|| side.unit(&job.unit(0, place), lines, rng).unwrap_err())
        },
        |_, channel| Box::new(channel),
    );
    let error = ends[2].as_ref().unwrap();
    assert_eq!(error.fault(), Fault::Bug);
    assert!(error.to_string().contains("unit 0 twice"), "{error}");
}

/// Each message that a hostile party sends to another one is spoiled in every way. Nobody panics or hangs. Whoever gets the message blames
/// the sender, or, where its length is right, may not notice: a semi-honest protocol promises no more.
#[test]
fn a_hostile_party_is_named_by_who_gets_its_message() {
    let keys = [digests(0, 12), digests(2, 15), digests(1, 14)];
    let names = ["alice", "bob", "carol"];
    for pivot in [None, Some(1)] {
        let job = Many::new(&keys, pivot, &[0, 1, 2]);
        let (_, seen) = recorded(&job, 1);
        for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2)] {
            for (at, attack) in (0..got(&seen, to, from).len()).flat_map(|at| Attack::ALL.map(|attack| (at, attack))) {
                let found = many_with(
                    3,
                    |place, lines, rng| job.side::<u64, _>(sides::paxos, place, lines, rng),
                    |place, channel| match (place, channel.peer().place()) == (from, to) {
                        true => Box::new(Hostile::new(channel, attack, at)),
                        false => Box::new(channel),
                    },
                );
                let case = format!("pivot {pivot:?}, message {at} from {from} to {to}, {attack:?}");
                let shorter_or_longer = matches!(attack, Attack::Cut | Attack::Empty | Attack::Grow);
                match &found[usize::from(to)] {
                    Err(error) if shorter_or_longer => {
                        assert_eq!(error.fault(), Fault::Peer, "{case}: {error}");
                        assert!(error.to_string().contains(names[usize::from(from)]), "{case}: {error}");
                    }
                    end => assert!(!shorter_or_longer, "{case}: {end:?}"),
                }
                assert!(
                    found.iter().all(|end| end.as_ref().err().is_none_or(|error| error.fault() != Fault::Bug)),
                    "{case}"
                );
            }
        }
    }
}
