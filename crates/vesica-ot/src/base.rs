//! Base oblivious transfers over ristretto255: the only public-key operations.
//!
//! [MR19] Masny, Rindal, "Endemic oblivious transfer", CCS 2019, eprint 2019/706, section 4 (from Diffie-Hellman, in the
//! random-oracle model), made into a batch as [MRR21] McQuoid, Rosulek, Roy, "Batching base oblivious transfers", ASIACRYPT
//! 2021, eprint 2021/682, say it must be: one sender's message serves all transfers only if every hash names the transfer
//! and all of its messages. UC-secure against malicious parties, for *endemic* OT: a corrupted party may choose its own
//! keys, which is what extension needs and no more.
//!
//!   y, Y    sender's scalar and Y = y·G     y, shared    c     receiver's choice          choice
//!   r0, r1  receiver's message              r            k     receiver's scalar          k
//!   H       hash to the group               hash         K     random oracle              key
//!
//! Steps: 1. S -> R: Y.   2. R -> S, for each transfer: r_{1-c} random, r_c = k·G - H(c, r_{1-c}).
//! 3. S: K(b, y·(r_b + H(b, r_{1-b}))) for b = 0, 1; R: K(c, k·Y).
//! Why: of r_0 + H(0, r_1) and r_1 + H(1, r_0), whichever hash was asked for last is out of the receiver's hands, so it
//! knows the logarithm of at most one, and the order of its questions tells a simulator which. r_0 and r_1 are uniform, so
//! the sender learns nothing; a simulator that answers H so as to know both logarithms has both keys.
//! Rounds: 1.   Bytes: 32, and 64 a transfer.
//! Differs from the papers: Y goes first and is hashed everywhere, in place of a session identifier.

use crate::contradiction;
use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use subtle::{Choice, ConditionallySelectable};
use vesica_block::Block;
use vesica_session::{Channel, Misbehaviour, Result, SessionRng};
use zeroize::{Zeroize, Zeroizing};

/// Bytes of an encoded element.
const WIRE: usize = 32;

/// What a side ends with: its keys, and the transcript's digest, which is the same on both sides.
pub type Keys<K> = (Zeroizing<Vec<K>>, [u8; 32]);

/// The sender's pair of keys for each transfer.
///
/// # Errors
/// Those of the channel; the peer's if what it sends are not elements of the group.
pub fn send(n: usize, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Keys<[Block; 2]>> {
    // 1. -> Y
    let mut y = scalar(rng);
    let shared = RistrettoPoint::mul_base(&y).compress().0;
    ch.send(&shared)?;
    // 2. <- r_0, r_1 of each
    let wire = ch.recv_exact(2 * WIRE * n)?;
    // 3.
    let mut keys = Zeroizing::new(Vec::with_capacity(n));
    for (i, r) in wire.as_chunks::<{ 2 * WIRE }>().0.iter().enumerate() {
        let [r0, r1] = [0, 1].map(|b| decode(&r[b * WIRE..][..WIRE], 2 * i + b));
        let [r0, r1] = [r0.map_err(|fault| ch.accuse(fault))?, r1.map_err(|fault| ch.accuse(fault))?];
        let other = r.as_chunks::<WIRE>().0;
        let mut secret = [(0, r0, other[1]), (1, r1, other[0])]
            .map(|(b, own, other)| y * (own + hash(&shared, i, Choice::from(b), &other)));
        keys.push([0, 1].map(|b| key(&shared, i, Choice::from(b as u8), r, &secret[b])));
        secret.zeroize();
    }
    y.zeroize();
    Ok((keys, digest(&shared, &wire)))
}

/// The receiver's key for each of n choices.
///
/// # Errors
/// Those of the channel; the peer's if what it sends is no public key.
pub fn receive(
    n: usize,
    choice: impl Fn(usize) -> Choice,
    ch: &mut dyn Channel,
    rng: &mut SessionRng,
) -> Result<Keys<Block>> {
    // 1. <- Y
    let shared: [u8; WIRE] = ch.recv_exact(WIRE)?.try_into().expect("its length was checked");
    let y = decode(&shared, 0).map_err(|fault| ch.accuse(fault))?;
    if y == RistrettoPoint::default() {
        return Err(contradiction(ch, "it sent the neutral element as its public key"));
    }
    // 2. -> r_0, r_1 of each
    let mut wire = Vec::with_capacity(2 * WIRE * n);
    let mut scalars = Zeroizing::new(Vec::with_capacity(n));
    for i in 0..n {
        let (c, k) = (choice(i), scalar(rng));
        let other = RistrettoPoint::from_uniform_bytes(&rng.bytes());
        let own = RistrettoPoint::mul_base(&k) - hash(&shared, i, c, &other.compress().0);
        wire.extend(RistrettoPoint::conditional_select(&own, &other, c).compress().0);
        wire.extend(RistrettoPoint::conditional_select(&other, &own, c).compress().0);
        scalars.push(k);
    }
    ch.send(&wire)?;
    // 3.
    let mut keys = Zeroizing::new(Vec::with_capacity(n));
    for (i, (r, k)) in wire.as_chunks().0.iter().zip(scalars.iter()).enumerate() {
        let mut secret = k * y;
        keys.push(key(&shared, i, choice(i), r, &secret));
        secret.zeroize();
    }
    Ok((keys, digest(&shared, &wire)))
}

fn scalar(rng: &mut SessionRng) -> Scalar {
    Scalar::from_bytes_mod_order_wide(&Zeroizing::new(rng.bytes()))
}

fn decode(wire: &[u8], index: usize) -> std::result::Result<RistrettoPoint, Misbehaviour> {
    CompressedRistretto::from_slice(wire)
        .ok()
        .and_then(|wire| wire.decompress())
        .ok_or(Misbehaviour::Element { index, why: "no canonical encoding of ristretto255" })
}

/// H: to the group, so that nobody knows the logarithm.
fn hash(shared: &[u8; WIRE], i: usize, b: Choice, other: &[u8; WIRE]) -> RistrettoPoint {
    let mut oracle = blake3::Hasher::new_derive_key("vesica 2026 base ot hash to group");
    oracle.update(shared).update(&(i as u64).to_le_bytes()).update(&[b.unwrap_u8()]).update(other);
    let mut uniform = [0; 64];
    oracle.finalize_xof().fill(&mut uniform);
    RistrettoPoint::from_uniform_bytes(&uniform)
}

/// K: what both parties can compute of the chosen transfer, and the receiver of no other.
fn key(shared: &[u8; WIRE], i: usize, b: Choice, r: &[u8; 2 * WIRE], secret: &RistrettoPoint) -> Block {
    let mut oracle = blake3::Hasher::new_derive_key("vesica 2026 base ot key");
    oracle.update(shared).update(&(i as u64).to_le_bytes()).update(&[b.unwrap_u8()]).update(r);
    oracle.update(&*Zeroizing::new(secret.compress().0));
    let key = oracle.finalize();
    Block::from_le_bytes(key.as_bytes().as_chunks().0[0])
}

fn digest(shared: &[u8; WIRE], wire: &[u8]) -> [u8; 32] {
    let mut hash = blake3::Hasher::new_derive_key("vesica 2026 base ot transcript");
    hash.update(shared).update(wire);
    *hash.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ideal;
    use vesica_session::Fault;
    use vesica_testkit::{Attack, Hostile, two, two_with};

    fn choice(i: usize) -> Choice {
        Choice::from((i * i % 7 % 2) as u8)
    }

    #[test]
    fn the_receiver_gets_the_key_of_its_choice() {
        for n in [0, 1, 2, 3, 128] {
            let (sent, got) = two(
                |lines, rng| send(n, lines.peer().unwrap(), rng).unwrap(),
                |lines, rng| receive(n, choice, lines.peer().unwrap(), rng).unwrap(),
            );
            assert_eq!(sent.1, got.1);
            let bits: Vec<bool> = (0..n).map(choice).map(bool::from).collect();
            assert_eq!(*got.0, ideal::chosen(&sent.0, &bits));
            assert!(ideal::all_differ(sent.0.as_flattened()));
        }
    }

    #[test]
    fn a_hostile_receiver_is_refused() {
        for attack in Attack::ALL {
            let run = || {
                two_with(
                    |lines, rng| send(3, lines.peer().unwrap(), rng).map(|(keys, _)| keys.to_vec()),
                    |lines, rng| receive(3, choice, lines.peer().unwrap(), rng).map(|(keys, _)| keys.to_vec()),
                    |channel| Box::new(Hostile::new(channel, attack, 0)),
                )
            };
            match run() {
                (Err(error), _) => assert_eq!(error.fault(), Fault::Peer, "{attack:?}"),
                // A flipped bit may leave an element of the group: then the keys have nothing to do with each other.
                (Ok(sent), Ok(got)) => {
                    let bits: Vec<bool> = (0..3).map(choice).map(bool::from).collect();
                    assert!(attack == Attack::Replay || got != ideal::chosen(&sent, &bits), "{attack:?}");
                }
                // Said twice, and nobody was there any more to hear it the second time.
                (Ok(_), Err(error)) => assert!(attack == Attack::Replay && error.fault() == Fault::Network, "{error}"),
            }
        }
    }

    #[test]
    fn a_hostile_sender_is_refused() {
        for bytes in [vec![0; 32], vec![255; 32], vec![0; 31], vec![]] {
            let (_, got) = two(
                |lines, _| lines.peer().unwrap().send(&bytes).unwrap(),
                |lines, rng| receive(3, choice, lines.peer().unwrap(), rng).map(|_| ()),
            );
            assert_eq!(got.unwrap_err().fault(), Fault::Peer, "{bytes:?}");
        }
    }
}
