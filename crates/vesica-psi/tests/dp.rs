//! Differentially private intersection: without noise against a plain intersection, with noise against its probabilities, against hostile
//! peers, and what it does not tell.

use crate::sides;

use sides::{FRAME, POOL, SESSION};
use std::collections::BTreeSet;
use vesica_curve::{Blind, Curve25519, FourQ, Group, P256, Points, Ristretto255, Secp256k1, SecretScalar, Sm2};
use vesica_params::dp::{flip, fraction, probability};
use vesica_psi::dp::{Dp, Hide, Params};
use vesica_psi::ideal;
use vesica_session::memory::Memories;
use vesica_session::{Fault, Lines, List, SessionRng, Whole};
use vesica_testkit::{Attack, Hostile, Message, Sets, digests, fixed_rng, recorded, set_pairs, two, two_with};
use vesica_types::{Digest, TagLen};
use zeroize::Zeroizing;

fn pool() -> Hide {
    Hide::Pool(POOL.to_vec())
}

/// What bob finds, who learns.
fn found<G: Blind>(xs: &[Digest], ys: &[Digest], flip: u128, hide: &Hide, coins: u64) -> Vec<u64> {
    let (n, m) = (xs.len(), ys.len());
    let (a, b) = two(
        |lines, _| sides::dp::<G>(xs.to_vec(), (n, m), false, flip, hide.clone())(lines, &mut rng(2 * coins)),
        |lines, _| sides::dp::<G>(ys.to_vec(), (m, n), true, flip, hide.clone())(lines, &mut rng(2 * coins + 1)),
    );
    assert_eq!(a.unwrap(), None);
    b.unwrap().unwrap()
}

/// As many generators as a test takes.
fn rng(number: u64) -> SessionRng {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    SessionRng::from_seed(Zeroizing::new(seed))
}

#[test]
fn without_noise_it_finds_what_a_plain_intersection_does() {
    finds_what_a_plain_intersection_does::<FourQ>(&[pool(), Hide::Pool(vec![1]), Hide::Sample(u128::MAX)]);
    finds_what_a_plain_intersection_does::<Curve25519>(&[pool()]);
    finds_what_a_plain_intersection_does::<Ristretto255>(&[pool()]);
    finds_what_a_plain_intersection_does::<Sm2>(&[pool()]);
    finds_what_a_plain_intersection_does::<Secp256k1>(&[pool()]);
    finds_what_a_plain_intersection_does::<P256>(&[pool()]);
}

/// With no untrue answers exactly the common keys, with untrue answers only all others: never a key of the pool, never a fake.
fn finds_what_a_plain_intersection_does<G: Blind>(hides: &[Hide]) {
    for Sets { name, xs, ys } in set_pairs() {
        let want: Vec<u64> = ideal::intersection(&ys, &xs).into_iter().map(u64::from).collect();
        let others: Vec<u64> = (0..ys.len() as u64).filter(|place| !want.contains(place)).collect();
        for hide in hides {
            assert_eq!(found::<G>(&xs, &ys, 0, hide, 0), want, "{}: {name}", G::NAME);
            assert_eq!(found::<G>(&xs, &ys, u128::MAX, hide, 0), others, "{}: {name}", G::NAME);
        }
        assert_eq!(found::<G>(&xs, &ys, 0, &Hide::Sample(0), 0), [0; 0], "{}: {name}", G::NAME);
    }
}

/// One list is a thousand times the other, and longer than the blocks that keys and records come in.
#[test]
fn lists_of_very_different_lengths_are_matched() {
    for (xs, ys, want) in [(digests(0, 3100), digests(3098, 3101), 2), (digests(5, 8), digests(0, 3100), 3)] {
        assert_eq!(found::<Curve25519>(&xs, &ys, 0, &pool(), 0).len(), want);
    }
}

/// Pearson's statistic of `ones` among `all`, for this probability. A statistic of one degree of freedom is above [`RARE`] once in 10^4
/// times.
fn statistic(ones: usize, all: usize, p: f64) -> f64 {
    let (ones, all) = (ones as f64, all as f64);
    (ones - all * p).powi(2) / (all * p * (1.0 - p))
}

const RARE: f64 = 15.14;

/// Of each key, whether it is found is as probable as `vesica plan` says, for common keys and for others.
#[test]
fn answers_are_untrue_as_often_as_they_are_to_be() {
    const N: u64 = 20_000;
    for (coins, epsilon, part) in [(1, 1.0, None), (2, 3.0, None), (3, 1.0, Some(0.7))] {
        let (q, p) = (probability(flip(epsilon)), part.unwrap_or(1.0));
        let hide = part.map_or_else(pool, |part| Hide::Sample(fraction(part)));
        let (xs, ys) = (digests(0, N), digests(N / 2, N + N / 2));
        let common: BTreeSet<u64> = ideal::intersection(&ys, &xs).into_iter().map(u64::from).collect();
        let found = found::<FourQ>(&xs, &ys, flip(epsilon), &hide, coins);
        let right = found.iter().filter(|place| common.contains(place)).count();
        for (ones, expected) in [(right, p * (1.0 - q)), (found.len() - right, p * q)] {
            let at = |p: f64| statistic(ones, N as usize / 2, p);
            assert!(at(expected) < RARE, "{epsilon}: {ones}, {expected}");
            // A probability that is off by a tenth would be noticed, or one of an answer that is true by a tenth of the untrue ones.
            if expected < 0.2 {
                assert!(at(expected * 1.1) > RARE / 8.0 && at(expected * 1.5) > RARE, "{epsilon}");
            } else {
                assert!(at(expected * 0.9) > RARE, "{epsilon}");
            }
        }
    }
}

/// The messages that alice saw, who helps, and her seed's scalar: what she can compute of them.
struct View {
    received: Vec<Vec<u8>>,
    scalar: <FourQ as Group>::Scalar,
}

impl View {
    /// Of lists of n and m entries, with these coins of hers.
    fn of(messages: &[Message], coins: u64) -> Self {
        let mut rng = rng(coins);
        let _seed: [u8; 32] = rng.bytes();
        let received = messages.iter().filter(|message| !message.sent).map(|message| message.bytes.clone()).collect();
        Self { received, scalar: SecretScalar::from_uniform(&rng.bytes()) }
    }

    /// K: how many of bob's `m` elements, raised to her scalar, are among the tags that he sent.
    fn count(&self, m: usize) -> u64 {
        let (elements, tags) = self.received.split_at(m.div_ceil(FRAME));
        let points = FourQ::decode(&elements.concat(), &[1; 32]).unwrap_or_else(|_| panic!("elements"));
        let mut raised = Vec::new();
        points.mul(&self.scalar).encode(&mut raised);
        let key = blake3::derive_key("vesica 2026 dp tag", &SESSION);
        let tags: BTreeSet<Vec<u8>> = tags.concat().chunks(10).map(<[u8]>::to_vec).collect();
        let tag = |point: &[u8]| blake3::keyed_hash(&key, point).as_bytes()[..10].to_vec();
        raised.chunks(32).filter(|point| tags.contains(&tag(point))).count() as u64
    }
}

/// What alice sees of bob's keys in a run.
fn count(xs: &[Digest], ys: &[Digest], hide: &Hide, coins: u64) -> u64 {
    let (n, m) = (xs.len(), ys.len());
    let ((_, seen), _) = recorded(
        |lines, _| sides::dp::<FourQ>(xs.to_vec(), (n, m), false, 0, hide.clone())(lines, &mut rng(2 * coins)).unwrap(),
        |lines, _| {
            sides::dp::<FourQ>(ys.to_vec(), (m, n), true, 0, hide.clone())(lines, &mut rng(2 * coins + 1)).unwrap()
        },
    );
    View::of(&seen, 2 * coins).count(m + if matches!(hide, Hide::Pool(_)) { 6 } else { 0 })
}

/// She sees how many keys are common and Z, and Z is distributed as its weights say, whatever the number of common keys: all, some, none.
#[test]
fn a_pool_hides_the_count_as_its_weights_say() {
    const RUNS: u64 = 1500;
    for (xs, ys, common) in
        [(digests(0, 2), digests(0, 2), 2), (digests(0, 2), digests(1, 4), 1), (digests(0, 0), digests(0, 2), 0)]
    {
        let mut counted = [0usize; 7];
        (0..RUNS).for_each(|coins| counted[(count(&xs, &ys, &pool(), coins) - common) as usize] += 1);
        let at = |z: usize, p: f64| statistic(counted[z], RUNS as usize, p);
        let of = |z: usize| POOL[z] as f64 / 22.0;
        assert!((0..7).all(|z| at(z, of(z)) < RARE), "{counted:?}");
        // Weights in which the middle is shifted by one.
        assert!(at(3, of(2)) > RARE && at(2, of(3)) > RARE && at(4, of(3)) > RARE);
    }
}

/// In the published form she sees a binomial number.
#[test]
fn a_sample_shows_a_binomial_count() {
    const RUNS: u64 = 1500;
    let hide = Hide::Sample(fraction(0.7));
    let mut counted = [0usize; 4];
    (0..RUNS).for_each(|coins| counted[count(&digests(0, 4), &digests(1, 6), &hide, coins) as usize] += 1);
    for (k, p) in [0.027, 0.189, 0.441, 0.343].into_iter().enumerate() {
        assert!(statistic(counted[k], RUNS as usize, p) < RARE, "{counted:?}");
        assert!(k < 2 || statistic(counted[k], RUNS as usize, p * 0.7) > RARE, "{counted:?}");
    }
}

/// Every message is spoiled in every way. What can be noticed is the peer's fault.
#[test]
fn a_hostile_peer_gets_an_error_that_names_it() {
    let (n, m) = (2 * FRAME + 4, 3 * FRAME + 1);
    for alice_learns in [false, true] {
        // Bob's list with the pool in four messages, and four more: tags of alice's list, or answers about it.
        let messages = 8;
        let mut noticed = 0;
        for at in 0..messages {
            for attack in Attack::ALL {
                let q = flip(1.0);
                let (a, _) = two_with(
                    sides::dp::<Curve25519>(digests(0, n as u64), (n, m), alice_learns, q, pool()),
                    sides::dp::<Curve25519>(digests(10, 10 + m as u64), (m, n), !alice_learns, q, pool()),
                    |channel| Box::new(Hostile::new(channel, attack, at)),
                );
                match a {
                    Err(error) => {
                        assert_eq!(error.fault(), Fault::Peer, "message {at}, {attack:?}: {error}");
                        assert!(error.to_string().contains("bob"), "{error}");
                        noticed += 1;
                    }
                    // An answer with another bit is as good as any other, and so is one that comes twice: it is noise.
                    Ok(_) => assert!(
                        matches!(attack, Attack::Flip(_)) || (alice_learns && at >= 4),
                        "message {at}, {attack:?}"
                    ),
                }
            }
        }
        assert!(noticed >= 4 * 4, "{noticed} in {messages} messages");
    }
}

/// Directions and lengths of a party's messages.
fn shape(messages: &[Message]) -> Vec<(bool, usize)> {
    messages.iter().map(|message| (message.sent, message.bytes.len())).collect()
}

#[test]
fn messages_say_nothing_by_their_lengths() {
    for hide in [pool(), Hide::Sample(fraction(0.5))] {
        let shapes = [(0, 1), (1, 2), (20, 3), (40, 4)].map(|(common, coins): (u64, u64)| {
            let side = |keys, lens, learns| sides::dp::<Curve25519>(keys, lens, learns, flip(1.0), hide.clone());
            let (a, b) = recorded(
                |lines, _| side(digests(0, 40), (40, 50), false)(lines, &mut rng(coins)).unwrap(),
                |lines, _| side(digests(40 - common, 90 - common), (50, 40), true)(lines, &mut rng(7)).unwrap(),
            );
            (shape(&a.1), shape(&b.1))
        });
        assert!(shapes[0].0.len() >= 5 + 6 + 5 + 6);
        assert!(shapes.iter().all(|shape| *shape == shapes[0]), "{shapes:?}");
    }
}

/// Everything that a side sends, and what both find, with these coins of alice and bob.
fn run(xs: &[Digest], ys: &[Digest], coins: [u64; 2]) -> (Vec<Message>, Vec<u64>) {
    run_with(xs, ys, coins, flip(0.5))
}

/// The same, with answers that are untrue with this probability, in 2^128ths.
fn run_with(xs: &[Digest], ys: &[Digest], coins: [u64; 2], flip: u128) -> (Vec<Message>, Vec<u64>) {
    let (n, m) = (xs.len(), ys.len());
    let side = |keys: &[Digest], lens, learns| sides::dp::<Ristretto255>(keys.to_vec(), lens, learns, flip, pool());
    let ((_, seen), (found, _)) = recorded(
        |lines, _| side(xs, (n, m), false)(lines, &mut rng(coins[0])).unwrap(),
        |lines, _| side(ys, (m, n), true)(lines, &mut rng(coins[1])).unwrap().unwrap(),
    );
    (seen, found)
}

/// A run that goes on after a break has the coins that it began with. It shows nothing that was not shown before: no second draw of any
/// noise.
#[test]
fn the_same_coins_give_the_same_bytes() {
    let (xs, ys) = (digests(0, 40), digests(20, 70));
    let first = run(&xs, &ys, [1, 2]);
    assert!(run(&xs, &ys, [1, 2]) == first);
    assert!(run(&xs, &ys, [3, 2]).1 != first.1 && run(&xs, &ys, [1, 4]).1 != first.1);
}

/// The answers that bob gets, of a byte for each eight of his 36 elements.
fn answers(messages: &[Message]) -> Vec<Vec<u8>> {
    messages[messages.len() - 5..].iter().map(|message| message.bytes.clone()).collect()
}

/// In how many answers two runs differ.
fn differ(a: &[Vec<u8>], b: &[Vec<u8>]) -> u32 {
    a.concat().iter().zip(b.concat()).map(|(a, b)| (a ^ b).count_ones()).sum()
}

/// Bob is told a function of his own list, of which of it is common, and of noise. Alice's other keys are not in it. Whatever is another in
/// her list or in the intersection, the noise is another too: the difference of two answers does not show what changed.
#[test]
fn the_answers_are_a_function_of_the_intersection() {
    let xs = |common: u64, others: u64| {
        let mut keys = [digests(0, common), digests(1000 * others, 1000 * others + 40 - common)].concat();
        keys.sort_unstable();
        keys
    };
    let of = |common, others, q| answers(&run_with(&xs(common, others), &digests(0, 30), [1, 2], q).0);
    let true_ones = of(15, 1, 0);
    assert!([2, 3, 4].iter().all(|&others| of(15, others, 0) == true_ones) && differ(&of(16, 1, 0), &true_ones) == 1);
    let first = of(15, 1, flip(0.5));
    for (common, others) in [(15, 2), (15, 3), (16, 1)] {
        // Of 36 answers, each untrue with probability 0.38, about 17 differ, and neither none nor one.
        let differ = differ(&of(common, others, flip(0.5)), &first);
        assert!((6..30).contains(&differ), "{common} {others}: {differ}");
    }
}

/// Alice's answers to what a bob sends who says these words, whatever she says, with the same coins of hers each time.
fn asked(words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let ((_, seen), _) = recorded(
        |lines, _| {
            let side = sides::dp::<Ristretto255>(digests(0, 40), (40, 30), false, flip(0.5), Hide::Pool(vec![1]));
            side(lines, &mut rng(1)).unwrap()
        },
        |lines, _| {
            let ch = lines.peer().unwrap();
            let (list, tags) = words.split_at(4);
            // Her list is five messages: one for each of his, and one more.
            for word in list {
                ch.send(word).unwrap();
                ch.recv(1 << 20).unwrap();
            }
            ch.recv(1 << 20).unwrap();
            tags.iter().for_each(|word| ch.send(word).unwrap());
            (0..4).for_each(|_| drop(ch.recv(1 << 20).unwrap()));
        },
    );
    seen[seen.len() - 4..].iter().map(|message| message.bytes.clone()).collect()
}

/// A bob who deviates sends the same list twice, and the second time one other tag, which matches none of his. If he got the same noise,
/// equal answers would tell him that the tag which he left out matched none either: which of alice's keys are not his.
#[test]
fn the_noise_belongs_to_one_list_with_one_list_of_tags() {
    let side = |keys, lens, learns| sides::dp::<Ristretto255>(keys, lens, learns, flip(0.5), Hide::Pool(vec![1]));
    let ((_, seen), _) = recorded(
        |lines, _| side(digests(0, 40), (40, 30), false)(lines, &mut rng(1)).unwrap(),
        |lines, _| side(digests(100, 130), (30, 40), true)(lines, &mut rng(2)).unwrap(),
    );
    let words: Vec<Vec<u8>> =
        seen.iter().filter(|message| !message.sent).map(|message| message.bytes.clone()).collect();
    let first = asked(&words);
    assert_eq!(asked(&words), first);
    let mut other = words.clone();
    let last = other.last_mut().unwrap();
    let tag = last.len() - 10;
    last[tag..].fill(0xff);
    let differ = differ(&asked(&other), &first);
    // Of 30 answers, each untrue with probability 0.38, about 14 differ.
    assert!((4..26).contains(&differ), "{differ}");
}

/// A party that is asked for a second answer with one run's noise names the peer, before it says anything that this noise hides.
#[test]
fn a_second_question_is_refused() {
    for alice_learns in [false, true] {
        let (n, m) = (20, 30);
        let ((refused, sent), _) = recorded(
            |lines, rng| {
                let keys = digests(0, n);
                let tag_len = TagLen::new(10).unwrap();
                let (flip, hide) = (flip(1.0), pool());
                let params = Params {
                    session: SESSION,
                    tag_len,
                    keys: n,
                    peers_keys: m,
                    i_learn: alice_learns,
                    flip,
                    hide,
                    frame: FRAME,
                };
                let list = List { keys: &keys, room: &Memories, threads: 1, advance: &|_| (), same: &|_| Ok(false) };
                Box::new(Dp::<Curve25519>::open(params)).whole(&list, lines, rng).err().unwrap()
            },
            sides::dp::<Curve25519>(digests(0, m), (m as usize, n as usize), !alice_learns, flip(1.0), pool()),
        );
        assert_eq!(refused.fault(), Fault::Peer);
        assert!(refused.to_string().contains("bob") && refused.to_string().contains("after a break"), "{refused}");
        assert_eq!(sent.iter().filter(|message| message.sent).count(), (n as usize + 6).div_ceil(FRAME));
    }
}

/// What alice gets of her own list does not depend on bob's keys; and of his list she sees how many match and no more.
#[test]
fn the_helper_is_told_a_count() {
    let tags = |ys: &[Digest]| {
        let received: Vec<Vec<u8>> =
            run(&digests(0, 40), ys, [1, 2]).0.into_iter().filter(|m| !m.sent).map(|m| m.bytes).collect();
        let (elements, tags) = received.split_at(36usize.div_ceil(FRAME));
        (elements.concat(), tags.concat())
    };
    let all = [digests(0, 30), digests(10, 40), digests(30, 60)].map(|ys| tags(&ys));
    assert!(all.iter().all(|(elements, tags)| *tags == all[0].1 && elements.chunks(32).is_sorted()));
    assert!(all[0].1.chunks(10).is_sorted() && all[0].0 != all[1].0);
}

/// A learner that sends an element twice would get its answer twice, with another draw of noise.
#[test]
fn a_repeated_element_is_refused() {
    let (a, _) = two(
        sides::dp::<Curve25519>(digests(0, 4), (4, 2), false, flip(1.0), Hide::Pool(vec![1])),
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
        |lines, _| sides::dp::<P256>(digests(0, 4), (5, 3), false, 0, pool())(lines, &mut fixed_rng(1)),
        sides::dp::<P256>(digests(0, 3), (3, 5), true, 0, pool()),
    );
    assert_eq!(a.unwrap_err().fault(), Fault::Bug);
    assert_eq!(b.unwrap_err().fault(), Fault::Network);
}
