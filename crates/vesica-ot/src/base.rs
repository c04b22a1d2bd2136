//! Base oblivious transfers over Curve25519: the only public-key operations.
//!
//! [MRR21] McQuoid, Rosulek, Roy, "Batching base oblivious transfers", ASIACRYPT 2021, eprint 2021/682: transfers from a key agreement
//! whose messages are uniform strings, and how one sender's message may serve all of them; with the function from two strings of
//! [MR19] Masny, Rindal, "Endemic oblivious transfer", CCS 2019, eprint 2019/706, section 4. UC-secure against malicious parties, by gap
//! Diffie-Hellman in the random-oracle model, for *endemic* OT: a corrupted party may choose its own keys, which is what extension needs
//! and no more.
//!
//!   G       generator of Curve25519                   `Curve25519`   c      receiver's choice             choice
//!   Map     string to point, Elligator 2              from_messages  k, w   receiver's secret, and its message: a uniform string
//!   y, Y    sender's scalar, a multiple of 8; y·G     y, shared             with Map(w) = k·G + a point of small order    secrets, messages
//!   r0, r1  two strings, all that a receiver says     strings        H, K   random oracles: to strings, to keys    oracles
//!
//! Steps: 1. S -> R: Y.   2. R -> S, for each transfer: r_{1-c} random, r_c = w + H(c, r_{1-c}), bit by bit.
//! 3. S: K(b, y·Map(r_b + H(b, r_{1-b}))) for b = 0, 1;  R: K(c, k·Y).
//!
//! Why: of r_0 + H(0, r_1) and r_1 + H(1, r_0), whichever hash was asked for last is out of the receiver's hands. So one of the two is a
//! uniform string, which stands for a point whose logarithm nobody knows, and the order of its questions tells a simulator which. Both
//! r_0 and r_1 are uniform because w is (within 2^-120), so the sender learns nothing of c. A simulator that answers H so as to know both
//! logarithms has both keys. H and K name the session, Y and the transfer, and K both strings: without Y, the transfer and the strings a
//! batch under one Y would not be secure. The session is the job's salt, or the lane's where a run has several lanes. No two jobs have the
//! same, so what is said in one of them is of no use in another. A job may make base transfers more than once: after a break, in both
//! directions, or for each two of more than two parties. Y alone tells these apart, if the party that draws it is honest.
//! Cost: S multiplies 2·n points by one scalar, in the lanes of vectors. R takes multiples of G, two a transfer because every other one
//! has no w, and of Y, all from tables.
//! Rounds: 1.   Bytes: 32, and 64 a transfer.
//! Differs from the papers: Y goes first and is hashed everywhere, beside the session; points are hidden by Elligator 2 ([BHKL13], in
//! `vesica_curve`) where the authors' program takes points of the curve or its twist.

use crate::SecretBlocks;
use subtle::{Choice, ConditionallySelectable};
use vesica_block::{Block, blake};
use vesica_curve::{Blind, Curve25519, Group, Message, Points, SecretScalar};
use vesica_session::{Channel, Misbehaviour, Result, SessionRng};
use zeroize::Zeroizing;

/// Bytes of one of a receiver's strings, and of an encoded point.
const WIRE: usize = 32;

/// What a side ends with: its keys, and the transcript's digest, which is the same on both sides.
pub type Keys<K> = (Zeroizing<Vec<K>>, [u8; 32]);

/// The sender's pair of keys for each transfer of the run that `session` names.
///
/// # Errors
/// Those of the channel. Any strings of the right length may be a receiver's.
pub fn send(n: usize, session: &[u8; 32], ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Keys<[Block; 2]>> {
    // 1. -> Y
    let y = <Curve25519 as Group>::Scalar::from_uniform(&Zeroizing::new(rng.bytes()));
    let shared = Curve25519::public(&y);
    ch.send(&shared)?;
    // 2. <- r_0, r_1 of each
    let wire = ch.recv_exact(2 * WIRE * n)?;
    let strings: &[Message] = wire.as_chunks().0;
    // 3. K(b, y·Map(r_b + H(b, r_{1-b})))
    let oracles = Oracles::new(session, &shared);
    let masks = oracles.masks((0..2 * n).map(|at| (at / 2, (at % 2) as u8, &strings[at ^ 1])));
    let messages: Vec<Message> = strings.iter().zip(masks.iter()).map(|(r, mask)| sum(r, mask)).collect();
    let mut points = Zeroizing::new(Vec::with_capacity(2 * WIRE * n));
    Zeroizing::new(Curve25519::from_messages(&messages).mul(&y)).encode(&mut points);
    let keys = oracles.keys(&wire, (0..2 * n).map(|at| (at / 2, (at % 2) as u8)), &points);
    Ok((Zeroizing::new(keys.as_chunks().0.to_vec()), digest(session, &shared, &wire)))
}

/// The receiver's key for each of n choices, in the run that `session` names.
///
/// # Errors
/// Those of the channel; the peer's if what it sends is no public key.
pub fn receive(
    n: usize,
    choice: impl Fn(usize) -> Choice,
    session: &[u8; 32],
    ch: &mut dyn Channel,
    rng: &mut SessionRng,
) -> Result<Keys<Block>> {
    // 2. w of each, while Y is on its way
    let mut messages = Zeroizing::new(Vec::with_capacity(n));
    let secrets = Curve25519::messages(n, &mut |bytes| rng.fill(bytes), &mut messages);
    // Wiped like the rest: beside what was sent, it shows the choices.
    let others: Zeroizing<Vec<Message>> = Zeroizing::new((0..n).map(|_| rng.bytes()).collect());
    // 1. <- Y
    let shared = ch.recv_exact(Curve25519::EVALUATED)?;
    let key = Curve25519::key(&shared);
    let key = key.map_err(|bad| ch.accuse(Misbehaviour::Element { index: bad.index, why: bad.why }))?;
    // 2. -> r_0, r_1 of each
    let oracles = Oracles::new(session, &shared);
    let masks = oracles.masks(others.iter().enumerate().map(|(i, other)| (i, choice(i).unwrap_u8(), other)));
    let mut wire = Vec::with_capacity(2 * WIRE * n);
    for (i, ((w, mask), other)) in messages.iter().zip(masks.iter()).zip(others.iter()).enumerate() {
        let own = Zeroizing::new(sum(w, mask));
        for [first, second] in [[&*own, other], [other, &*own]] {
            wire.extend(first.iter().zip(second).map(|(a, b)| u8::conditional_select(a, b, choice(i))));
        }
    }
    ch.send(&wire)?;
    // 3. K(c, k·Y)
    let mut points = Zeroizing::new(Vec::with_capacity(WIRE * n));
    Curve25519::agree(&key, &secrets, &mut points);
    let keys = oracles.keys(&wire, (0..n).map(|i| (i, choice(i).unwrap_u8())), &points);
    Ok((keys, digest(session, &shared, &wire)))
}

/// H and K: BLAKE3 under keys that are derived from the session and from Y.
struct Oracles {
    mask: [u8; 32],
    key: [u8; 32],
}

impl Oracles {
    fn new(session: &[u8; 32], shared: &[u8]) -> Self {
        let material = [&session[..], shared].concat();
        let key = |context| blake3::derive_key(context, &material);
        Self { mask: key("vesica 2026 base ot hash to string"), key: key("vesica 2026 base ot key") }
    }

    /// H(b, other), for a transfer's number, b and the other string.
    fn masks<'a>(&self, questions: impl Iterator<Item = (usize, u8, &'a Message)>) -> Zeroizing<Vec<Message>> {
        let parts = questions.map(|(i, b, other)| (i, b, [&other[..], &[][..]]));
        hash::<{ 9 + WIRE }>(&self.mask, parts)
    }

    /// K(b, point), for a transfer's number and b, with both strings of the transfer from `wire`, and a point each.
    fn keys(&self, wire: &[u8], questions: impl Iterator<Item = (usize, u8)>, points: &[u8]) -> SecretBlocks {
        let strings = |i: usize| &wire[2 * WIRE * i..][..2 * WIRE];
        let parts = questions.zip(points.chunks_exact(WIRE)).map(|((i, b), point)| (i, b, [strings(i), point]));
        let hashes = hash::<{ 9 + 3 * WIRE }>(&self.key, parts);
        Zeroizing::new(hashes.iter().map(|hash| Block::from_le_bytes(hash.as_chunks().0[0])).collect())
    }
}

/// The hash of each: a number, a bit and two parts, LEN bytes together.
fn hash<'a, const LEN: usize>(
    key: &[u8; 32],
    inputs: impl Iterator<Item = (usize, u8, [&'a [u8]; 2])>,
) -> Zeroizing<Vec<[u8; 32]>> {
    let mut rows = Zeroizing::new(Vec::with_capacity(inputs.size_hint().0 * LEN));
    for (i, b, parts) in inputs {
        rows.extend((i as u64).to_le_bytes());
        rows.push(b);
        parts.iter().for_each(|part| rows.extend_from_slice(part));
    }
    let mut hashes = Zeroizing::new(vec![[0; 32]; rows.len() / LEN]);
    blake::keyed_rows(key, &rows, LEN, &mut hashes);
    hashes
}

fn sum(a: &Message, b: &Message) -> Message {
    std::array::from_fn(|i| a[i] ^ b[i])
}

fn digest(session: &[u8; 32], shared: &[u8], wire: &[u8]) -> [u8; 32] {
    let mut hash = blake3::Hasher::new_derive_key("vesica 2026 base ot transcript");
    hash.update(session).update(shared).update(wire);
    *hash.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ideal;
    use vesica_session::Fault;
    use vesica_testkit::{Attack, Hostile, recorded, two, two_with};

    const SESSION: [u8; 32] = [5; 32];

    /// The two strings of a transfer are independent and uniform: a bit of either is one half of the time, and so is a bit of their sum.
    /// If w were a point's number and no uniform string, its highest bits would be zero.
    #[test]
    fn what_a_receiver_says_looks_uniform_whatever_it_chooses() {
        let n = 2000;
        for chosen in [0, 1] {
            let ((_, seen), _) = recorded(
                |lines, rng| _ = send(n, &SESSION, lines.peer().unwrap(), rng).unwrap(),
                move |lines, rng| {
                    _ = receive(n, |_| Choice::from(chosen), &SESSION, lines.peer().unwrap(), rng).unwrap()
                },
            );
            let wire = &seen[1].bytes;
            assert_eq!(wire.len(), 2 * WIRE * n);
            let mut ones = [[0usize; 256]; 3];
            for transfer in wire.chunks(2 * WIRE) {
                for bit in 0..256 {
                    let [a, b] = [0, WIRE].map(|from| usize::from(transfer[from + bit / 8] >> (bit % 8) & 1));
                    [a, b, a ^ b].iter().zip(&mut ones).for_each(|(value, ones)| ones[bit] += value);
                }
            }
            // Six standard deviations: 768 counts are all nearer with probability 1 - 2^-19.
            let far = (6.0 * (n as f64 / 4.0).sqrt()) as usize;
            assert!(ones.as_flattened().iter().all(|ones| ones.abs_diff(n / 2) < far), "{chosen}: {ones:?}");
        }
    }

    /// A sender computes its keys by the steps as the header has them: with BLAKE3 of another implementation, and a transfer at a time.
    #[test]
    fn keys_are_those_of_the_header() {
        let y = <Curve25519 as Group>::Scalar::from_uniform(&[7; 64]);
        let shared = Curve25519::public(&y);
        let oracles = Oracles::new(&SESSION, &shared);
        let of = |context: &str, parts: &[&[u8]]| {
            let key = blake3::derive_key(context, &[&SESSION[..], &shared].concat());
            *blake3::keyed_hash(&key, &parts.concat()).as_bytes()
        };
        let wire: Vec<u8> = (0..5 * 2 * WIRE as u32).map(|i| ((i * i) >> 4) as u8).collect();
        let strings: &[Message] = wire.as_chunks().0;
        for i in 0..5 {
            for b in [0, 1] {
                let (own, other) = (&strings[2 * i + b], &strings[2 * i + 1 - b]);
                let name = [&(i as u64).to_le_bytes()[..], &[b as u8]].concat();
                let mask = of("vesica 2026 base ot hash to string", &[&name, other]);
                assert_eq!(oracles.masks([(i, b as u8, other)].into_iter())[0], mask);
                let mut point = Vec::new();
                Curve25519::from_messages(&[sum(own, &mask)]).mul(&y).encode(&mut point);
                let key = of("vesica 2026 base ot key", &[&name, &strings[2 * i], &strings[2 * i + 1], &point]);
                assert_eq!(oracles.keys(&wire, [(i, b as u8)].into_iter(), &point)[0].to_le_bytes(), key[..16]);
            }
        }
    }

    fn choice(i: usize) -> Choice {
        Choice::from((i * i % 7 % 2) as u8)
    }

    #[test]
    fn the_receiver_gets_the_key_of_its_choice() {
        for n in [0, 1, 2, 3, 7, 8, 9, 128] {
            let (sent, got) = two(
                |lines, rng| send(n, &SESSION, lines.peer().unwrap(), rng).unwrap(),
                |lines, rng| receive(n, choice, &SESSION, lines.peer().unwrap(), rng).unwrap(),
            );
            assert_eq!(sent.1, got.1);
            let bits: Vec<bool> = (0..n).map(choice).map(bool::from).collect();
            assert_eq!(*got.0, ideal::chosen(&sent.0, &bits));
            assert!(ideal::all_differ(sent.0.as_flattened()));
        }
    }

    /// What is said in one session is no transfer in another.
    #[test]
    fn the_keys_of_two_sessions_have_nothing_in_common() {
        for (session, same) in [(SESSION, true), ([6; 32], false)] {
            let (sent, got) = two(
                |lines, rng| send(9, &SESSION, lines.peer().unwrap(), rng).unwrap(),
                |lines, rng| receive(9, choice, &session, lines.peer().unwrap(), rng).unwrap(),
            );
            assert!(got.0.iter().all(|key| sent.0.as_flattened().contains(key) == same));
            assert_eq!(sent.1 == got.1, same);
        }
    }

    #[test]
    fn a_hostile_receiver_is_refused() {
        for attack in Attack::ALL {
            let run = || {
                two_with(
                    |lines, rng| send(3, &SESSION, lines.peer().unwrap(), rng).map(|(keys, _)| keys.to_vec()),
                    |lines, rng| {
                        receive(3, choice, &SESSION, lines.peer().unwrap(), rng).map(|(keys, _)| keys.to_vec())
                    },
                    |channel| Box::new(Hostile::new(channel, attack, 0)),
                )
            };
            match run() {
                (Err(error), _) => assert_eq!(error.fault(), Fault::Peer, "{attack:?}"),
                // Any strings may be a receiver's; after a bit was flipped the keys have nothing to do with each other.
                (Ok(sent), Ok(got)) => {
                    let bits: Vec<bool> = (0..3).map(choice).map(bool::from).collect();
                    assert!(attack == Attack::Replay || got != ideal::chosen(&sent, &bits), "{attack:?}");
                }
                // Said twice, and nobody was there any more to hear it the second time.
                (Ok(_), Err(error)) => assert!(attack == Attack::Replay && error.fault() == Fault::Network, "{error}"),
            }
        }
    }

    /// Encodings that are not canonical, points of order 1, 2, 4 and 8, a point of the twist, and wrong lengths.
    #[test]
    fn a_hostile_sender_is_refused() {
        let order_8 = [
            0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda, 0x09,
            0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00,
        ];
        let small = |u: u8| {
            let mut bytes = vec![0; 32];
            bytes[0] = u;
            bytes
        };
        for bytes in [small(0), small(1), order_8.to_vec(), small(2), vec![255; 32], vec![0; 31], vec![]] {
            let (_, got) = two(
                |lines, _| lines.peer().unwrap().send(&bytes).unwrap(),
                |lines, rng| receive(3, choice, &SESSION, lines.peer().unwrap(), rng).map(|_| ()),
            );
            assert_eq!(got.unwrap_err().fault(), Fault::Peer, "{bytes:?}");
        }
    }
}
