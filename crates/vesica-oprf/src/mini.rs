//! OPRF from Diffie-Hellman messages that are hidden among uniform strings (Mini-PSI).
//!
//! [RT21] Rosulek, Trieu, "Compact and malicious private set intersection for small sets", CCS 2021, eprint 2021/1159, with the ideal
//! permutation; against parties that deviate too, by gap Diffie-Hellman in the random-oracle and ideal-permutation model.
//!
//!   G      generator of Curve25519             `Curve25519`     a, A   the sender's scalar, and a·G       scalar, public
//!   Map    string to point, Elligator 2        from_messages    b, w   the receiver's secret, and its message: a uniform string with
//!   Π      Rijndael with 256-bit blocks        permutation             Map(w) = b·G + a point of small order    secrets, messages
//!   H, T   keyed hashes: of a key; of key and point             P      the encoding: a polynomial, or a store   slots
//!
//! 1. S -> R, once a job: A.
//! 2. R -> S: P, with P(x) = Π⁻¹(w) for each x.   A polynomial over GF(2^256) takes that value at H(x). A store, of random bands,
//!    holds Π⁻¹(w) + H(x) for the key x, and travels with the seed of its rows.
//! 3. F(y) = T(y, a·Map(Π(P(y)))) for S;  F(x) = T(x, b·A) for R.
//!
//! S sees P, which is uniform whatever the keys, because all w are: of the keys it learns only the number. R knows the logarithm of
//! Map(Π(P(y))) for its own keys. At any other y Π makes a point of P(y) whose logarithm it does not know. An R that deviates fits P to
//! more keys than it declared: docs/src/protocols/mini-psi.md counts how many. An S that deviates chooses F.
//! Cost: S a multiple for each of its own keys; R multiples of G, two a key because every other one has no w, and of A, all from tables.
//! Rounds: 1/2, and 1/2 once.   Bytes: 32·n as a polynomial, 16 + 32·|P| as a store, about 33 a key.
//! Differs from the paper: the store, for sets of any size; H(x) masks what the store holds, because two keys with equal rows would
//! have one message without it; Π, H and T are keyed by the run and the unit, T by A too.

use crate::{Oprf, Prf, Receiver, Sender};
use std::sync::Arc;
use vesica_block::Block;
use vesica_block::blake;
use vesica_block::gf256::Elements;
use vesica_block::rijndael256::Rijndael256;
use vesica_curve::{Blind, Curve25519, Group, Message, Points, SecretScalar, Secrets};
use vesica_okvs::{Band, Free, Okvs, polynomial};
use vesica_params::mini::Encoding;
use vesica_session::{Channel, Error, Misbehaviour, Result, SessionRng};
use vesica_types::{Digest, UnitId};

/// What both parties agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Names the run: the parties' jointly tossed salt.
    pub session: [u8; 32],
    /// How the receiver's keys of a unit are encoded.
    pub encoding: Encoding,
}

/// The function.
#[derive(Clone, Copy, Debug)]
pub struct Mini {
    params: Params,
}

impl Mini {
    /// The function with these parameters.
    pub fn new(params: Params) -> Self {
        Self { params }
    }
}

/// The sender's side.
pub struct MiniSender {
    encoding: Encoding,
    /// a, used for all the run's units and for no other run.
    scalar: Arc<<Curve25519 as Group>::Scalar>,
    run: RunKey,
}

/// The receiver's side.
pub struct MiniReceiver {
    encoding: Encoding,
    key: <Curve25519 as Blind>::Key,
    run: RunKey,
}

/// A unit's key.
pub struct MiniKey {
    scalar: Arc<<Curve25519 as Group>::Scalar>,
    encoded: Encoded,
    hashes: Hashes,
}

/// P.
enum Encoded {
    Polynomial(Elements),
    Band(Box<Band>, Vec<[Block; 2]>),
}

/// Keys that are worked on between two looks at whether the peer is still there: some work is shared among them.
const CHUNK: usize = 2048;

/// Seeds that the receiver tries before it gives up: a store fails with probability 2^-40 a job at most.
const TRIES: usize = 3;

impl Oprf for Mini {
    type Key = MiniKey;
    type Sender = MiniSender;
    type Receiver = MiniReceiver;

    fn sender(&self, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<MiniSender> {
        let mut coins = zeroize::Zeroizing::new([0; 64]);
        rng.fill(coins.as_mut());
        let scalar = SecretScalar::from_uniform(&coins);
        // 1. -> A
        let public = Curve25519::public(&scalar);
        ch.send(&public)?;
        let run = RunKey::new(&self.params.session, &public);
        Ok(MiniSender { encoding: self.params.encoding, scalar: Arc::new(scalar), run })
    }

    fn receiver(&self, ch: &mut dyn Channel, _: &mut SessionRng) -> Result<MiniReceiver> {
        // 1. <- A
        let public = ch.recv_exact(Curve25519::EVALUATED)?;
        let key = Curve25519::key(&public);
        let key = key.map_err(|bad| ch.accuse(Misbehaviour::Element { index: bad.index, why: bad.why }))?;
        Ok(MiniReceiver { encoding: self.params.encoding, key, run: RunKey::new(&self.params.session, &public) })
    }
}

impl Sender for MiniSender {
    type Key = MiniKey;

    fn send(&self, unit: UnitId, ch: &mut dyn Channel, _: &mut SessionRng) -> Result<MiniKey> {
        // 2. <- P: any strings may be one
        ch.step("store");
        let slots = Block::BYTES * 2 * self.encoding.slots();
        let encoded = match self.encoding {
            Encoding::Polynomial { .. } => Encoded::Polynomial(values(&ch.recv_exact(slots)?).collect()),
            Encoding::Band(shape) => {
                let wire = ch.recv_exact(Block::BYTES + slots)?;
                let (seed, slots) = wire.split_first_chunk().expect("16 bytes and more");
                Encoded::Band(Box::new(Band::new(shape, Block::from_le_bytes(*seed))), values(slots).collect())
            }
        };
        Ok(MiniKey { scalar: Arc::clone(&self.scalar), encoded, hashes: self.run.of(unit) })
    }
}

impl Receiver for MiniReceiver {
    fn receive(&self, unit: UnitId, xs: &[Digest], ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<Block>> {
        let hashes = self.run.of(unit);
        // 2. b and w for each x
        ch.step("messages");
        let mut messages: Vec<Message> = Vec::with_capacity(xs.len());
        let mut secrets: Vec<Secrets> = Vec::with_capacity(xs.len().div_ceil(CHUNK));
        for xs in xs.chunks(CHUNK) {
            ch.alive()?;
            secrets.push(Curve25519::messages(xs.len(), &mut |bytes| rng.fill(bytes), &mut messages));
        }
        // 2. -> P
        ch.step("store");
        let mut hidden: Vec<[Block; 2]> = values(messages.as_flattened()).collect();
        drop(messages);
        hashes.permutation.decrypt_in_place(&mut hidden);
        let wire = encode(self.encoding, &hashes, xs, hidden, rng)?;
        ch.send(&wire)?;
        drop(wire);
        // 3. F(x) = T(x, b·A)
        ch.step("agree");
        let (mut values, mut wire) = (Vec::with_capacity(xs.len()), Vec::new());
        for (xs, secrets) in xs.chunks(CHUNK).zip(&secrets) {
            ch.alive()?;
            wire.clear();
            Curve25519::agree(&self.key, secrets, &mut wire);
            hashes.tags(xs, &wire, &mut values);
        }
        Ok(values)
    }
}

/// Free slots straight from ChaCha20, as messages are: the sender sees all of P, so no other cipher should stand between.
struct Drawn<'a>(&'a mut SessionRng);

impl Free for Drawn<'_> {
    fn fill(&mut self, out: &mut [Block]) {
        out.iter_mut().for_each(|block| *block = Block::from_le_bytes(self.0.bytes()));
    }
}

/// P as it travels, with these values at `xs`.
fn encode(
    encoding: Encoding,
    hashes: &Hashes,
    xs: &[Digest],
    mut hidden: Vec<[Block; 2]>,
    rng: &mut SessionRng,
) -> Result<Vec<u8>> {
    let bytes = |seed: &[u8], slots: &mut dyn Iterator<Item = [Block; 2]>| {
        let mut wire = Vec::with_capacity(seed.len() + 2 * Block::BYTES * encoding.slots());
        wire.extend_from_slice(seed);
        slots.flatten().for_each(|half| wire.extend_from_slice(&half.to_le_bytes()));
        wire
    };
    let points = hashes.of_keys(xs);
    let shape = match encoding {
        Encoding::Polynomial { .. } => {
            let slots = polynomial::interpolate(&points.into_iter().collect(), &hidden.into_iter().collect());
            let slots = slots.map_err(|error| Error::Bug(error.to_string()))?;
            return Ok(bytes(&[], &mut (0..slots.len()).map(|at| slots.get(at))));
        }
        Encoding::Band(shape) => shape,
    };
    hidden.iter_mut().zip(&points).for_each(|(value, mask)| *value = vesica_okvs::Value::xor(*value, *mask));
    for _ in 0..TRIES {
        let seed: [u8; Block::BYTES] = rng.bytes();
        let store = Band::new(shape, Block::from_le_bytes(seed));
        match store.encode(xs, &hidden, &mut Drawn(rng)) {
            Ok(slots) => return Ok(bytes(&seed, &mut slots.into_iter())),
            Err(vesica_okvs::Error::Unsolvable { .. }) => {}
            Err(error) => return Err(Error::Bug(error.to_string())),
        }
    }
    Err(Error::Bug(format!("no store for {} keys under {TRIES} seeds", xs.len())))
}

impl Prf for MiniKey {
    const VALUES: usize = 1;

    /// 3. F(y) = T(y, a·Map(Π(P(y))))
    fn eval(&self, ys: &[Digest], values: &mut Vec<Block>) {
        let (mut wire, mut messages) = (Vec::new(), Vec::new());
        for ys in ys.chunks(CHUNK) {
            let mut hidden = self.decode(ys);
            self.hashes.permutation.encrypt_in_place(&mut hidden);
            messages.clear();
            messages.extend(hidden.iter().map(|halves| {
                let bytes = halves.map(Block::to_le_bytes);
                Message::try_from(bytes.as_flattened()).expect("32 bytes")
            }));
            wire.clear();
            Curve25519::from_messages(&messages).mul(&self.scalar).encode(&mut wire);
            self.hashes.tags(ys, &wire, values);
        }
    }
}

impl MiniKey {
    /// P(y).
    fn decode(&self, ys: &[Digest]) -> Vec<[Block; 2]> {
        let points = self.hashes.of_keys(ys);
        match &self.encoded {
            Encoded::Polynomial(coefficients) => {
                let values = coefficients.evaluate(&points.into_iter().collect());
                (0..values.len()).map(|at| values.get(at)).collect()
            }
            Encoded::Band(store, slots) => {
                let mut values = Vec::new();
                store.decode(ys, slots, &mut values);
                values.iter().zip(points).map(|(&value, mask)| vesica_okvs::Value::xor(value, mask)).collect()
            }
        }
    }
}

/// The values of 32 bytes each that these bytes are.
fn values(bytes: &[u8]) -> impl Iterator<Item = [Block; 2]> {
    let halves = bytes.as_chunks::<{ Block::BYTES }>().0.as_chunks::<2>().0;
    halves.iter().map(|halves| halves.map(Block::from_le_bytes))
}

/// What the keys of every unit come from: the run and A.
struct RunKey {
    session: [u8; 32],
    tags: [u8; 32],
}

impl RunKey {
    fn new(session: &[u8; 32], public: &[u8]) -> Self {
        let mut hash = blake3::Hasher::new_derive_key("vesica 2026 mini-psi tag");
        hash.update(session).update(public);
        Self { session: *session, tags: *hash.finalize().as_bytes() }
    }

    /// Π, H and T of a unit.
    fn of(&self, unit: UnitId) -> Hashes {
        let unit = unit.0.to_le_bytes();
        let key = |context: &str| {
            let mut hash = blake3::Hasher::new_derive_key(context);
            hash.update(&self.session).update(&unit);
            *hash.finalize().as_bytes()
        };
        Hashes {
            permutation: Rijndael256::new(&key("vesica 2026 mini-psi permutation")),
            keys: key("vesica 2026 mini-psi key"),
            tags: *blake3::keyed_hash(&self.tags, &unit).as_bytes(),
        }
    }
}

/// Π, H and T of one unit.
struct Hashes {
    permutation: Rijndael256,
    keys: [u8; 32],
    tags: [u8; 32],
}

impl Hashes {
    /// H of each key.
    fn of_keys(&self, xs: &[Digest]) -> Vec<[Block; 2]> {
        let mut hashes = vec![[0; 32]; xs.len()];
        for (xs, hashes) in xs.chunks(CHUNK).zip(hashes.chunks_mut(CHUNK)) {
            let messages: Vec<_> = xs.iter().map(|x| blake_message(&x.0)).collect();
            blake::keyed(&self.keys, &messages, hashes);
        }
        values(hashes.as_flattened()).collect()
    }

    /// Appends T(x, point) for each of `xs`, with the points' encodings in `wire`: at most [`CHUNK`].
    fn tags(&self, xs: &[Digest], wire: &[u8], values: &mut Vec<Block>) {
        let mut input = [0; Digest::BYTES + Curve25519::WIRE];
        let messages: Vec<_> = xs
            .iter()
            .zip(wire.chunks_exact(Curve25519::WIRE))
            .map(|(x, point)| {
                input[..Digest::BYTES].copy_from_slice(&x.0);
                input[Digest::BYTES..].copy_from_slice(point);
                blake_message(&input)
            })
            .collect();
        let mut hashes = vec![[0; 32]; messages.len()];
        blake::keyed(&self.tags, &messages, &mut hashes);
        values.extend(hashes.iter().map(|hash| Block::from_le_bytes(hash.as_chunks().0[0])));
    }
}

fn blake_message(bytes: &[u8]) -> blake::Message {
    blake::Message::new(bytes).expect("48 bytes are short enough")
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_params::Level;
    use vesica_params::mini::encoding;
    use vesica_session::{Fault, Lines};
    use vesica_testkit::{digests, fixed_rng, two};

    const UNIT: UnitId = UnitId(5);
    const SESSION: [u8; 32] = [3; 32];

    /// Both encodings of `n` keys.
    fn encodings(n: u64) -> [Encoding; 2] {
        let level = Level::STANDARD;
        [encoding(n, 1, 1, level).unwrap(), encoding(n, u64::MAX, 1, level).unwrap()]
    }

    fn receive(encoding: Encoding, xs: &[Digest], lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<Block>> {
        let ch = lines.peer()?;
        Mini::new(Params { session: SESSION, encoding }).receiver(ch, rng)?.receive(UNIT, xs, ch, rng)
    }

    fn send(
        encoding: Encoding,
        (unit, session): (UnitId, [u8; 32]),
        ys: &[Digest],
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Vec<Block>> {
        let ch = lines.peer()?;
        let key = Mini::new(Params { session, encoding }).sender(ch, rng)?.send(unit, ch, rng)?;
        let mut values = Vec::new();
        key.eval(ys, &mut values);
        Ok(values)
    }

    #[test]
    fn both_sides_compute_one_function_and_it_looks_random() {
        for n in [1, 2, 31, 1000, CHUNK + 3] {
            let xs = digests(0, n as u64);
            let ys = [&xs[n / 2..], &digests(n as u64, n as u64 + 40)].concat();
            for encoding in encodings(n as u64) {
                let (mine, theirs) = two(
                    |lines, rng| receive(encoding, &xs, lines, rng).unwrap(),
                    |lines, rng| send(encoding, (UNIT, SESSION), &ys, lines, rng).unwrap(),
                );
                let common = n - n / 2;
                assert_eq!(mine[n / 2..], theirs[..common], "{n}, {encoding:?}");
                let mut all: Vec<u128> = mine[..n / 2].iter().chain(&theirs).map(|value| value.0).collect();
                all.sort_unstable();
                all.dedup();
                assert_eq!(all.len(), n / 2 + ys.len());
            }
        }
    }

    #[test]
    fn without_keys_there_is_nothing_to_learn() {
        for encoding in encodings(0) {
            let (mine, theirs) = two(
                |lines, rng| receive(encoding, &[], lines, rng).unwrap(),
                |lines, rng| send(encoding, (UNIT, SESSION), &digests(0, 3), lines, rng).unwrap(),
            );
            assert_eq!((mine.len(), theirs.len()), (0, 3));
        }
    }

    /// The sender may look at P for as long as it likes. All of it is ChaCha20's, as M2 and M4 of SECURITY.md have it: a store without
    /// keys is what the generator gives. Once the slots were AES's, under a key that a search of 2^128 finds.
    #[test]
    fn free_slots_come_from_the_generator_itself() {
        let [_, band] = encodings(1200);
        let hashes = RunKey::new(&SESSION, &[1; 32]).of(UNIT);
        let wire = encode(band, &hashes, &[], Vec::new(), &mut fixed_rng(5)).expect("a store");
        let mut drawn = vec![0; wire.len()];
        fixed_rng(5).fill(&mut drawn);
        assert!(wire.len() > 32 * 1200 && wire == drawn);
    }

    /// What is replayed from another unit, or another run, matches nothing.
    #[test]
    fn every_unit_and_run_has_a_function_of_its_own() {
        let xs = digests(0, 5);
        for encoding in encodings(5) {
            for (unit, session, same) in [(UNIT, SESSION, true), (UnitId(6), SESSION, false), (UNIT, [4; 32], false)] {
                let (mine, theirs) = two(
                    |lines, rng| receive(encoding, &xs, lines, rng).unwrap(),
                    |lines, rng| send(encoding, (unit, session), &xs, lines, rng).unwrap(),
                );
                assert!(mine.iter().zip(&theirs).all(|(a, b)| (a == b) == same), "{encoding:?}");
            }
        }
    }

    /// Two public keys with the same points behind them do not give one function.
    #[test]
    fn every_public_key_has_a_function_of_its_own() {
        let tags = |public: [u8; 32]| {
            let mut values = Vec::new();
            RunKey::new(&SESSION, &public).of(UNIT).tags(&digests(0, 2), &[7; 64], &mut values);
            values
        };
        assert_eq!(tags([1; 32]), tags([1; 32]));
        assert!(tags([1; 32]).iter().zip(tags([2; 32])).all(|(a, b)| *a != b));
    }

    /// What the sender gets, from a receiver with these keys and this randomness.
    fn encoded(encoding: Encoding, xs: &[Digest], seed: u8) -> Vec<u8> {
        let (_, wire) = two(
            |lines, _| receive(encoding, xs, lines, &mut fixed_rng(seed)).unwrap(),
            |lines, _| {
                let ch = lines.peer().unwrap();
                ch.send(&Curve25519::public(&SecretScalar::from_uniform(&[1; 64]))).unwrap();
                let bytes = 32 * encoding.slots() + if matches!(encoding, Encoding::Band(_)) { 16 } else { 0 };
                ch.recv_exact(bytes).unwrap()
            },
        );
        wire
    }

    /// Each bit of what the sender sees is set in half of the messages, whatever the keys: few or many are real, which does not show.
    #[test]
    fn the_encoding_is_uniform_bit_by_bit() {
        for encoding in encodings(100) {
            let mut ones = vec![0u32; 8 * 32 * encoding.slots()];
            let runs = 64;
            for seed in 0..runs {
                let wire = encoded(encoding, &digests(0, 100), seed);
                let slots = &wire[wire.len() - 32 * encoding.slots()..];
                for (bit, ones) in ones.iter_mut().enumerate() {
                    *ones += u32::from(slots[bit / 8] >> (bit % 8) & 1);
                }
            }
            // A deviation is 4: of some 26,000 and 150,000 bits none is seven of them away, and all together are half.
            assert!(ones.iter().all(|ones| ones.abs_diff(u32::from(runs) / 2) < 28), "{encoding:?}");
            let (all, half) = (ones.iter().sum::<u32>() as f64, ones.len() as f64 * f64::from(runs) / 2.0);
            assert!((all - half).abs() < 5.0 * (half / 2.0).sqrt(), "{encoding:?}: {all} of {half}");
        }
    }

    /// Equal rows of a store, as a party could search for them, would give two keys one message but for H.
    #[test]
    fn equal_values_of_the_store_are_other_messages_for_other_keys() {
        let hashes = RunKey::new(&SESSION, &[1; 32]).of(UNIT);
        let [_, Encoding::Band(shape)] = encodings(10) else { panic!("a store") };
        let scalar = Arc::new(SecretScalar::from_uniform(&[1; 64]));
        let slots = vec![[Block::ZERO; 2]; shape.slots as usize];
        let key = MiniKey { scalar, encoded: Encoded::Band(Box::new(Band::new(shape, Block::ZERO)), slots), hashes };
        let mut values = key.decode(&digests(0, 1000));
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len(), 1000);
    }

    /// A point of small order in place of a message: the sender's multiple of it is neutral, and the key is in the tag all the same.
    #[test]
    fn messages_of_small_order_give_a_tag_a_key() {
        let hashes = RunKey::new(&SESSION, &[1; 32]).of(UNIT);
        // The polynomial is constant, so every key has this message: t = 0, which stands for u = 0, a point of order 2.
        let mut zero = [[Block::ZERO; 2]];
        hashes.permutation.decrypt_in_place(&mut zero);
        let scalar = Arc::new(SecretScalar::from_uniform(&[1; 64]));
        let key = MiniKey { scalar, encoded: Encoded::Polynomial(zero.into_iter().collect()), hashes };
        let mut values = Vec::new();
        key.eval(&digests(0, 100), &mut values);
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len(), 100);
    }

    #[test]
    fn a_sender_whose_public_key_is_none_is_named() {
        for public in [vec![0; 32], vec![255; 32], vec![9], vec![9; 33]] {
            let (error, _) = two(
                |lines, rng| receive(encodings(20)[0], &digests(0, 20), lines, rng).unwrap_err(),
                |lines, _| lines.peer()?.send(&public),
            );
            assert_eq!(error.fault(), Fault::Peer, "{error}");
            assert!(error.to_string().contains("bob"), "{error}");
        }
    }

    #[test]
    fn a_receiver_whose_encoding_has_another_length_is_named() {
        for encoding in encodings(20) {
            for change in [-1, 1] {
                let bytes = encoded(encoding, &digests(0, 20), 1).len();
                let (_, error) = two(
                    |lines, _| {
                        let ch = lines.peer().unwrap();
                        ch.recv_exact(32).unwrap();
                        ch.send(&vec![7; bytes.checked_add_signed(change).unwrap()]).unwrap();
                    },
                    |lines, rng| send(encoding, (UNIT, SESSION), &[], lines, rng).unwrap_err(),
                );
                assert_eq!(error.fault(), Fault::Peer, "{error}");
                assert!(error.to_string().contains("alice"), "{error}");
            }
        }
    }
}
