//! OPRF from Diffie-Hellman, blinded by multiples of the generator.
//!
//! [JL10] Jarecki, Liu, "Fast secure computation of set intersection", SCN 2010 (2HashDH); [JKX21] Jarecki, Krawczyk, Xu, "On
//! the (in)security of the Diffie-Hellman oblivious PRF with multiplicative blinding", PKC 2021, eprint 2021/273, for the
//! blinding; semi-honest, DDH in the random-oracle model.
//!
//!   G, H   generator, and hash to the group      `G: Blind`   k, K   the sender's scalar, and k·G   scalar, public
//!   r      the receiver's, one for each key      blinds       T      keyed hash of key and element  Tag
//!
//! 1. S -> R, once a job: K.
//! 2. R -> S: { H(x) + r·G }.   S -> R: { k·(H(x) + r·G) }.
//! 3. F(y) = T(y, k·H(y)) for S;  F(x) = T(x, k·(H(x) + r·G) - r·K) for R.
//!
//! What R sends is within 2^-80 an element of uniform, whatever the keys: of them S learns only the number. R learns k·H(x)
//! and K; without k, and with H a random oracle, k·H(y) at another y looks random beside them. An R that deviates gets k·H at
//! no more keys than it sent elements, by one-more *gap* Diffie-Hellman: S's tags decide Diffie-Hellman for k.
//! Cost: a multiple a key for S, of R's keys and of its own; R takes its multiples of G and K from tables.
//! Rounds: 1, and 1/2 once.   Bytes: WIRE of the group to S, EVALUATED of it to R.
//! Differs from the papers: T is keyed by the run, the unit and K. Nothing shows that an answer is by the k of K, which is what
//! JKX21 warn of; keyed by K, functions that a sender gets by answering otherwise are independent ones (design/11). And no
//! error depends on r.

use crate::{Oprf, Prf, Receiver, Sender};
use std::marker::PhantomData;
use std::sync::Arc;
use vesica_block::Block;
use vesica_curve::{Blind, Dst, Points, SecretScalar};
use vesica_session::{Channel, Misbehaviour, Result, SessionRng};
use vesica_types::{Digest, UnitId};

/// What both parties agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Names the run: the parties' jointly tossed salt.
    pub session: [u8; 32],
    /// The receiver's keys of a unit.
    pub keys: usize,
}

/// The function in the group `G`.
#[derive(Clone, Copy, Debug)]
pub struct Dh<G> {
    params: Params,
    group: PhantomData<G>,
}

impl<G> Dh<G> {
    /// The function with these parameters.
    pub fn new(params: Params) -> Self {
        Self { params, group: PhantomData }
    }
}

/// The sender's side.
pub struct DhSender<G: Blind> {
    keys: usize,
    /// k, used for all the run's units and for no other run.
    scalar: Arc<G::Scalar>,
    tags: TagKey,
}

/// The receiver's side.
pub struct DhReceiver<G: Blind> {
    key: G::Key,
    tags: TagKey,
}

/// A unit's key.
pub struct DhKey<G: Blind> {
    scalar: Arc<G::Scalar>,
    dst: Dst,
    tag: Tag,
}

/// Keys that are worked on between two looks at whether the peer is still there: a group shares some work among them.
const CHUNK: usize = 2048;

/// Where keys are hashed to the group.
fn dst() -> Dst {
    Dst::new(b"vesica-v1-dh-oprf")
}

impl<G: Blind> Oprf for Dh<G> {
    type Key = DhKey<G>;
    type Sender = DhSender<G>;
    type Receiver = DhReceiver<G>;

    fn sender(&self, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<DhSender<G>> {
        let mut coins = zeroize::Zeroizing::new([0; 64]);
        rng.fill(coins.as_mut());
        let scalar = G::Scalar::from_uniform(&coins);
        // 1. -> K
        let public = G::public(&scalar);
        ch.send(&public)?;
        let tags = TagKey::new(&self.params.session, &public);
        Ok(DhSender { keys: self.params.keys, scalar: Arc::new(scalar), tags })
    }

    fn receiver(&self, ch: &mut dyn Channel, _: &mut SessionRng) -> Result<DhReceiver<G>> {
        // 1. <- K
        let public = ch.recv_exact(G::EVALUATED)?;
        let key = G::key(&public).map_err(|bad| ch.accuse(Misbehaviour::Element { index: bad.index, why: bad.why }))?;
        Ok(DhReceiver { key, tags: TagKey::new(&self.params.session, &public) })
    }
}

impl<G: Blind> Sender for DhSender<G> {
    type Key = DhKey<G>;

    fn send(&self, unit: UnitId, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<DhKey<G>> {
        // 2. <- { B := H(x) + r·G };  -> { k·B }: nothing is computed on elements that are not of the group
        ch.step("evaluate");
        let blinded = ch.recv_exact(self.keys * G::WIRE)?;
        let mut evaluated = Vec::with_capacity(self.keys * G::EVALUATED);
        for (chunk, blinded) in blinded.chunks(CHUNK * G::WIRE).enumerate() {
            ch.alive()?;
            G::evaluate(&self.scalar, blinded, &rng.bytes(), &mut evaluated)
                .map_err(|bad| ch.accuse(Misbehaviour::Element { index: chunk * CHUNK + bad.index, why: bad.why }))?;
        }
        ch.send(&evaluated)?;
        Ok(DhKey { scalar: Arc::clone(&self.scalar), dst: dst(), tag: self.tags.of(unit) })
    }
}

impl<G: Blind> Receiver for DhReceiver<G> {
    fn receive(&self, unit: UnitId, xs: &[Digest], ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<Block>> {
        // 2. -> { H(x) + r·G };  <- { k·(H(x) + r·G) }
        ch.step("blind");
        let mut wire = Vec::with_capacity(xs.len() * G::WIRE);
        let mut blinds = Vec::with_capacity(xs.len().div_ceil(CHUNK));
        let dst = dst();
        for xs in xs.chunks(CHUNK) {
            ch.alive()?;
            blinds.push(G::blind(&dst, xs, &mut |bytes| rng.fill(bytes), &mut wire));
        }
        ch.send(&wire)?;
        let evaluated = ch.recv_exact(xs.len() * G::EVALUATED)?;
        // 3. F(x) = T(x, k·(H(x) + r·G) - r·K)
        ch.step("unblind");
        let tag = self.tags.of(unit);
        let mut values = Vec::with_capacity(xs.len());
        let chunks = xs.chunks(CHUNK).zip(blinds).zip(evaluated.chunks(CHUNK * G::EVALUATED));
        for (chunk, ((xs, blinds), evaluated)) in chunks.enumerate() {
            ch.alive()?;
            wire.clear();
            G::unblind(&self.key, blinds, evaluated, &rng.bytes(), &mut wire)
                .map_err(|bad| ch.accuse(Misbehaviour::Element { index: chunk * CHUNK + bad.index, why: bad.why }))?;
            tag.append::<G>(xs, &wire, &mut values);
        }
        Ok(values)
    }
}

impl<G: Blind> Prf for DhKey<G> {
    const VALUES: usize = 1;

    /// 3. F(y) = T(y, k·H(y))
    fn eval(&self, ys: &[Digest], values: &mut Vec<Block>) {
        let mut wire = Vec::new();
        for ys in ys.chunks(CHUNK) {
            wire.clear();
            G::hash(&self.dst, ys).mul(&self.scalar).encode(&mut wire);
            self.tag.append::<G>(ys, &wire, values);
        }
    }
}

/// What T of every unit is keyed by: the run and K.
struct TagKey([u8; 32]);

impl TagKey {
    fn new(session: &[u8; 32], public: &[u8]) -> Self {
        let mut hash = blake3::Hasher::new_derive_key("vesica 2026 dh oprf tag");
        hash.update(session).update(public);
        Self(*hash.finalize().as_bytes())
    }

    /// T of a unit.
    fn of(&self, unit: UnitId) -> Tag {
        Tag(*blake3::keyed_hash(&self.0, &unit.0.to_le_bytes()).as_bytes())
    }
}

/// T of one unit.
struct Tag([u8; 32]);

impl Tag {
    /// Appends T(x, element) for each of `xs`, with the element's encoding in `wire`.
    fn append<G: Blind>(&self, xs: &[Digest], wire: &[u8], values: &mut Vec<Block>) {
        let mut input = Vec::with_capacity(Digest::BYTES + G::WIRE);
        for (x, element) in xs.iter().zip(wire.chunks_exact(G::WIRE)) {
            input.clear();
            input.extend_from_slice(&x.0);
            input.extend_from_slice(element);
            let hash = blake3::keyed_hash(&self.0, &input);
            values.push(Block::from_le_bytes(hash.as_bytes().as_chunks().0[0]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_curve::{Curve25519, Ristretto255};
    use vesica_session::{Fault, Lines};
    use vesica_testkit::{digests, two};

    const UNIT: UnitId = UnitId(5);

    fn receive<G: Blind>(xs: &[Digest], lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<Block>> {
        let ch = lines.peer()?;
        let params = Params { session: [3; 32], keys: xs.len() };
        Dh::<G>::new(params).receiver(ch, rng)?.receive(UNIT, xs, ch, rng)
    }

    fn send<G: Blind>(
        n: usize,
        unit: UnitId,
        session: [u8; 32],
        ys: &[Digest],
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Vec<Block>> {
        let ch = lines.peer()?;
        let key = Dh::<G>::new(Params { session, keys: n }).sender(ch, rng)?.send(unit, ch, rng)?;
        let mut values = Vec::new();
        key.eval(ys, &mut values);
        Ok(values)
    }

    fn both_sides_compute_the_same_function<G: Blind>() {
        for n in [0, 1, 2, 31, CHUNK + 3] {
            let xs = digests(0, n as u64);
            let ys = [&xs[n / 2..], &digests(n as u64, n as u64 + 3)].concat();
            let (mine, theirs) = two(
                |lines, rng| receive::<G>(&xs, lines, rng).unwrap(),
                |lines, rng| send::<G>(n, UNIT, [3; 32], &ys, lines, rng).unwrap(),
            );
            let common = n - n / 2;
            assert_eq!(mine[n / 2..], theirs[..common], "{} {n}", G::NAME);
            let mut all: Vec<u128> = mine[..n / 2].iter().chain(&theirs).map(|value| value.0).collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), n / 2 + ys.len());
        }
    }

    #[test]
    fn the_receiver_learns_the_function_that_the_sender_holds() {
        both_sides_compute_the_same_function::<Curve25519>();
        both_sides_compute_the_same_function::<Ristretto255>();
    }

    #[test]
    fn every_unit_and_run_has_a_function_of_its_own() {
        let xs = digests(0, 5);
        for (unit, session, same) in [(UNIT, [3; 32], true), (UnitId(6), [3; 32], false), (UNIT, [4; 32], false)] {
            let (mine, theirs) = two(
                |lines, rng| receive::<Curve25519>(&xs, lines, rng).unwrap(),
                |lines, rng| send::<Curve25519>(5, unit, session, &xs, lines, rng).unwrap(),
            );
            assert!(mine.iter().zip(&theirs).all(|(a, b)| (a == b) == same));
        }
    }

    /// Two public keys with the same elements behind them must not give one function: see design/11.
    #[test]
    fn every_public_key_has_a_function_of_its_own() {
        let xs = digests(0, 2);
        let values = |byte: u8| {
            let k = Curve25519::public(&SecretScalar::from_uniform(&[byte; 64]));
            let tags = TagKey::new(&[3; 32], &k);
            let mut values = Vec::new();
            tags.of(UNIT).append::<Curve25519>(&xs, &[7; 64], &mut values);
            values
        };
        assert_eq!(values(1), values(1));
        assert!(values(1).iter().zip(values(2)).all(|(a, b)| *a != b));
    }

    /// What a sender says instead of K, and instead of what it evaluated.
    fn accused<G: Blind>(public: Option<&[u8]>, evaluated: impl Fn(&mut Vec<u8>) + Send + Sync) -> String {
        let xs = digests(0, 20);
        let (error, _) = two(
            |lines, rng| receive::<G>(&xs, lines, rng).unwrap_err(),
            |lines, _| -> Result<()> {
                let ch = lines.peer()?;
                let k = G::Scalar::from_uniform(&[1; 64]);
                let own = G::public(&k);
                ch.send(public.unwrap_or(&own))?;
                let blinded = ch.recv_exact(20 * G::WIRE)?;
                let mut wire = Vec::new();
                G::evaluate(&k, &blinded, &[0; 32], &mut wire).unwrap();
                evaluated(&mut wire);
                ch.send(&wire)
            },
        );
        assert_eq!(error.fault(), Fault::Peer, "{error}");
        error.to_string()
    }

    fn a_sender_that_breaks_the_protocol_is_named<G: Blind>() {
        // The neutral element is zeros in each of these groups; 2^255 - 1 is no element of any.
        for byte in [0, 255] {
            assert!(accused::<G>(Some(&vec![byte; G::EVALUATED]), |_| ()).contains("bob"));
            let error = accused::<G>(None, |wire| wire[7 * G::EVALUATED..][..G::EVALUATED].fill(byte));
            assert!(error.contains("bob") && error.contains('7'), "{error}");
        }
        assert!(accused::<G>(Some(&[9]), |_| ()).contains("bob"));
        assert!(accused::<G>(None, |wire| wire.truncate(5)).contains("bob"));
        assert!(accused::<G>(None, |wire| wire.push(0)).contains("bob"));
    }

    #[test]
    fn a_sender_that_breaks_the_protocol_is_named_in_every_group() {
        a_sender_that_breaks_the_protocol_is_named::<Curve25519>();
        a_sender_that_breaks_the_protocol_is_named::<Ristretto255>();
    }

    /// What a receiver says in place of its elements.
    fn accused_receiver<G: Blind>(spoil: impl Fn(&mut Vec<u8>) + Send + Sync) -> String {
        let (_, error) = two(
            |lines, _| {
                let ch = lines.peer().unwrap();
                ch.recv_exact(G::EVALUATED).unwrap();
                let (dst, k) = (Dst::new(b"any"), G::Scalar::from_uniform(&[1; 64]));
                let mut wire = Vec::new();
                G::hash(&dst, &digests(0, 20)).mul(&k).encode(&mut wire);
                spoil(&mut wire);
                ch.send(&wire).unwrap();
            },
            |lines, rng| send::<G>(20, UNIT, [3; 32], &[], lines, rng).unwrap_err(),
        );
        assert_eq!(error.fault(), Fault::Peer, "{error}");
        error.to_string()
    }

    fn a_receiver_that_breaks_the_protocol_is_named<G: Blind>() {
        for byte in [0, 255] {
            let error = accused_receiver::<G>(|wire| wire[11 * G::WIRE..][..G::WIRE].fill(byte));
            assert!(error.contains("alice") && error.contains("11"), "{error}");
        }
        assert!(accused_receiver::<G>(|wire| wire.truncate(5)).contains("alice"));
        assert!(accused_receiver::<G>(|wire| wire.push(0)).contains("alice"));
    }

    #[test]
    fn a_receiver_that_breaks_the_protocol_is_named_in_every_group() {
        a_receiver_that_breaks_the_protocol_is_named::<Curve25519>();
        a_receiver_that_breaks_the_protocol_is_named::<Ristretto255>();
    }
}
