//! OPRF from Diffie-Hellman, blinded by multiplication: [`crate::rfc9497`] over a channel, unit by unit.
//!
//! \[RFC 9497\] sections 3.3.1 and 3.2.1; \[JKK14\] Jarecki, Kiayias, Krawczyk, ASIACRYPT 2014. Semi-honest, DDH in the random-oracle
//! model; a receiver that deviates: one-more gap Diffie-Hellman.
//!
//!   k    the sender's scalar, from a seed that it draws for the run     ServerFunction
//!   D    32 bytes of the run, the unit and a digest                     Inputs
//!
//! 1. R -> S: { r·H(D(x)) }, a fresh r for each 2048 keys.   S -> R: { k·r·H(D(x)) }.
//! 2. F(y) = T(D(y), k·H(D(y))), of which the first 16 bytes are used.
//!
//! Reveals: as `rfc9497`.   Rounds: 1.   Bytes: WIRE of the group a key each way.
//! Differs from the RFC: inputs are hashed with the run's salt and the unit first, so that every unit has a function of its own
//! under one k. Digests have 16 bytes before and their collisions remain; a salt was tossed, so nobody prepared any.

use crate::function::{ClientFunction, ServerFunction};
use crate::rfc9497::{self, Suite};
use crate::{Oprf, Prf, Receiver, Sender};
use std::marker::PhantomData;
use std::sync::Arc;
use vesica_block::Block;
use vesica_session::{Channel, Error, Misbehaviour, Result, SessionRng};
use vesica_types::{Digest, KeyDigest, Secret, UnitId};

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
pub struct EcdhOprf<G> {
    params: Params,
    group: PhantomData<G>,
}

impl<G> EcdhOprf<G> {
    /// The function with these parameters.
    pub fn new(params: Params) -> Self {
        Self { params, group: PhantomData }
    }
}

/// The sender's side.
pub struct EcdhOprfSender {
    params: Params,
    function: Arc<dyn ServerFunction>,
}

/// The receiver's side.
pub struct EcdhOprfReceiver {
    params: Params,
    function: Box<dyn ClientFunction>,
}

/// A unit's key.
pub struct EcdhOprfKey {
    function: Arc<dyn ServerFunction>,
    inputs: Inputs,
}

/// Keys of a request, between two of which each side looks whether the peer is still there.
const CHUNK: usize = 2048;

impl<G: Suite> Oprf for EcdhOprf<G> {
    type Key = EcdhOprfKey;
    type Sender = EcdhOprfSender;
    type Receiver = EcdhOprfReceiver;

    fn sender(&self, _: &mut dyn Channel, rng: &mut SessionRng) -> Result<EcdhOprfSender> {
        let function =
            rfc9497::server::<G>(false, &Secret::new(rng.bytes()), b"vesica").map_err(|e| Error::Bug(e.to_string()))?;
        Ok(EcdhOprfSender { params: self.params, function: function.into() })
    }

    fn receiver(&self, _: &mut dyn Channel, _: &mut SessionRng) -> Result<EcdhOprfReceiver> {
        let function = rfc9497::client::<G>(None).map_err(|e| Error::Bug(e.to_string()))?;
        Ok(EcdhOprfReceiver { params: self.params, function })
    }
}

impl Sender for EcdhOprfSender {
    type Key = EcdhOprfKey;

    fn send(&self, unit: UnitId, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<EcdhOprfKey> {
        // 1. <- { B := r·H(D(x)) };  -> { k·B }: nothing is computed on elements that are not of the group
        ch.step("evaluate");
        let Self { params, function } = self;
        let blinded = ch.recv_exact(params.keys * function.element_bytes())?;
        let mut evaluated = Vec::with_capacity(blinded.len());
        for (chunk, blinded) in blinded.chunks(CHUNK * function.element_bytes()).enumerate() {
            ch.alive()?;
            function
                .evaluate(blinded, &rng.bytes(), &mut evaluated)
                .map_err(|bad| ch.accuse(Misbehaviour::Element { index: chunk * CHUNK + bad.index, why: bad.why }))?;
        }
        ch.send(&evaluated)?;
        Ok(EcdhOprfKey { function: Arc::clone(function), inputs: Inputs::new(params, unit) })
    }
}

impl Receiver for EcdhOprfReceiver {
    fn receive(&self, unit: UnitId, xs: &[Digest], ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<Block>> {
        // 1. -> { r·H(D(x)) };  <- { k·r·H(D(x)) }
        ch.step("blind");
        let Self { params, function } = self;
        let inputs = Inputs::new(params, unit);
        let mut blinded = Vec::with_capacity(xs.len() * function.element_bytes());
        let mut requests = Vec::with_capacity(xs.len().div_ceil(CHUNK));
        for xs in xs.chunks(CHUNK) {
            ch.alive()?;
            requests.push(function.blind(&inputs.of(xs), rng, &mut blinded));
        }
        ch.send(&blinded)?;
        let evaluated = ch.recv_exact(blinded.len())?;
        // 2. F(x)
        ch.step("unblind");
        let mut values = Vec::with_capacity(xs.len());
        let chunks = requests.into_iter().zip(evaluated.chunks(CHUNK * function.element_bytes()));
        for (chunk, (request, evaluated)) in chunks.enumerate() {
            ch.alive()?;
            let outputs = request.finalize(evaluated, None, &rng.bytes()).map_err(|bad| match bad {
                crate::function::BadAnswer::Element(bad) => {
                    ch.accuse(Misbehaviour::Element { index: chunk * CHUNK + bad.index, why: bad.why })
                }
                other => Error::Bug(other.to_string()),
            })?;
            values.extend(outputs.iter().map(value));
        }
        Ok(values)
    }
}

impl Prf for EcdhOprfKey {
    const VALUES: usize = 1;

    /// 2. F(y)
    fn eval(&self, ys: &[Digest], values: &mut Vec<Block>) {
        let mut outputs = Vec::with_capacity(ys.len());
        self.function.eval(&self.inputs.of(ys), &mut outputs);
        values.extend(outputs.iter().map(value));
    }
}

fn value(output: &crate::function::Output) -> Block {
    Block::from_le_bytes(output.0.as_chunks().0[0])
}

/// D of one unit.
struct Inputs([u8; 32]);

impl Inputs {
    fn new(params: &Params, unit: UnitId) -> Self {
        let mut hash = blake3::Hasher::new_derive_key("vesica 2026 ecdh-oprf input");
        hash.update(&params.session).update(&unit.0.to_le_bytes());
        Self(*hash.finalize().as_bytes())
    }

    fn of(&self, digests: &[Digest]) -> Vec<KeyDigest> {
        digests.iter().map(|digest| KeyDigest(*blake3::keyed_hash(&self.0, &digest.0).as_bytes())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_curve::{FourQ, P256Sec1, Ristretto255};
    use vesica_session::{Fault, Lines};
    use vesica_testkit::{digests, two};

    const UNIT: UnitId = UnitId(5);

    fn receive<G: Suite>(xs: &[Digest], lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<Block>> {
        let ch = lines.peer()?;
        let params = Params { session: [3; 32], keys: xs.len() };
        EcdhOprf::<G>::new(params).receiver(ch, rng)?.receive(UNIT, xs, ch, rng)
    }

    fn send<G: Suite>(
        n: usize,
        (unit, session): (UnitId, [u8; 32]),
        ys: &[Digest],
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Vec<Block>> {
        let ch = lines.peer()?;
        let key = EcdhOprf::<G>::new(Params { session, keys: n }).sender(ch, rng)?.send(unit, ch, rng)?;
        let mut values = Vec::new();
        key.eval(ys, &mut values);
        Ok(values)
    }

    fn both_sides_compute_the_same_function<G: Suite>() {
        for n in [0, 1, 31, CHUNK + 3] {
            let xs = digests(0, n as u64);
            let ys = [&xs[n / 2..], &digests(n as u64, n as u64 + 3)].concat();
            let (mine, theirs) = two(
                |lines, rng| receive::<G>(&xs, lines, rng).unwrap(),
                |lines, rng| send::<G>(n, (UNIT, [3; 32]), &ys, lines, rng).unwrap(),
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
        both_sides_compute_the_same_function::<Ristretto255>();
        both_sides_compute_the_same_function::<P256Sec1>();
        both_sides_compute_the_same_function::<FourQ>();
    }

    #[test]
    fn every_unit_and_run_has_a_function_of_its_own() {
        let xs = digests(0, 5);
        for (unit, session, same) in [(UNIT, [3; 32], true), (UnitId(6), [3; 32], false), (UNIT, [4; 32], false)] {
            let (mine, theirs) = two(
                |lines, rng| receive::<Ristretto255>(&xs, lines, rng).unwrap(),
                |lines, rng| send::<Ristretto255>(5, (unit, session), &xs, lines, rng).unwrap(),
            );
            assert!(mine.iter().zip(&theirs).all(|(a, b)| (a == b) == same));
        }
    }

    /// Elements of two chunks, of which one is spoilt.
    #[test]
    fn who_breaks_the_protocol_is_named() {
        const N: usize = CHUNK + 20;
        const W: usize = 32;
        let spoil = |wire: &mut Vec<u8>, at: usize| wire[at * W..][..W].fill(255);
        for at in [7, CHUNK + 7] {
            let (error, _) = two(
                |lines, rng| receive::<Ristretto255>(&digests(0, N as u64), lines, rng).unwrap_err(),
                |lines, _| {
                    let ch = lines.peer().unwrap();
                    let mut wire = ch.recv_exact(N * W).unwrap();
                    spoil(&mut wire, at);
                    ch.send(&wire).unwrap();
                },
            );
            assert_eq!(error.fault(), Fault::Peer, "{error}");
            let error = error.to_string();
            assert!(error.contains("bob") && error.contains(&at.to_string()), "{error}");
            let (_, error) = two(
                |lines, rng| {
                    let mut wire = Vec::new();
                    let keys = Inputs([1; 32]).of(&digests(0, N as u64));
                    rfc9497::client::<Ristretto255>(None).unwrap().blind(&keys, rng, &mut wire);
                    spoil(&mut wire, at);
                    lines.peer().unwrap().send(&wire).unwrap();
                },
                |lines, rng| send::<Ristretto255>(N, (UNIT, [3; 32]), &[], lines, rng).unwrap_err(),
            );
            assert_eq!(error.fault(), Fault::Peer, "{error}");
            let error = error.to_string();
            assert!(error.contains("alice") && error.contains(&at.to_string()), "{error}");
        }
    }

    /// A receiver that sends an element more than a unit has would be answered for a key more than `answers` counts.
    #[test]
    fn who_sends_more_elements_than_keys_is_answered_none() {
        const N: usize = 20;
        let (answered, error) = two(
            |lines, rng| {
                let mut wire = Vec::new();
                let keys = Inputs([1; 32]).of(&digests(0, N as u64 + 1));
                rfc9497::client::<Ristretto255>(None).unwrap().blind(&keys, rng, &mut wire);
                let ch = lines.peer().unwrap();
                ch.send(&wire).unwrap();
                ch.recv(1 << 20).is_ok()
            },
            |lines, rng| send::<Ristretto255>(N, (UNIT, [3; 32]), &[], lines, rng).unwrap_err(),
        );
        assert_eq!(error.fault(), Fault::Peer, "{error}");
        assert!(error.to_string().contains("alice") && !answered, "{error}");
    }
}
