//! PSI of three and more parties against any coalition: clients share zeros, and hide them under a function that the leader learns.
//!
//! [KMPRT17] Kolesnikov, Matania, Pinkas, Rosulek, Trieu, "Practical Multi-party Private Set Intersection from Symmetric-Key
//! Techniques", CCS 2017, eprint 2017/799, with unconditional shares of zero. "Augmented" semi-honest, whoever colludes.
//!
//!   L      leader                             leader   X, Y_j  keys of L and of client j                       xs, ys
//!   k_ij   key of the clients i and j         keys     S_j(y)  sum of PRF(k_ij, y) over the other clients i    share
//!   F_j    L's oblivious function of client j oprf     D_j     store of { (y, S_j(y) + F_j(y)) }               store
//!   r      seed of the rows of a unit         r        D       sum of D_j, slot by slot                        decode_sum
//!
//! 1. Client i -> client j > i, once: k_ij at random.
//! 2. L -> clients, a unit: r at random.
//! 3. OPRF of L with each client: client j gets the key of F_j, L gets F_j(x) for x in X.
//! 4. Client j -> L: D_j, cut to ℓ bits a slot.
//! 5. L: x is common where Decode(D, x) is the sum of F_j(x) over all j.
//! 6. L -> every other learner: which keys are common (`answer`).
//! Why it finds them: the S_j(x) add up to zero, for each k_ij is in two of them. Where a client does not hold x, D is random there, and
//! the two are equal once in 2^ℓ: the leader tests each of its keys once, so ℓ = σ + log2 n for its n keys of the whole job.
//!
//! A client sees what the OPRF shows it of X: a random string. L sees stores whose values it cannot tell from random ones but at X, and
//! there but for their sum. So a coalition without L learns nothing. One with L knows the keys k_ij of those in it, so it learns for each
//! x in X whether all clients *outside* hold it: as if those who joined had given X for their lists. That is what *augmented* says.
//! The paper's conditional shares hide that too, by p·(p-1) more OPRFs between clients, which is the price of all else many times over. It
//! buys little, since a party that joins the leader may hand over its list, or give another one, in either variant.
//!
//! Reveals: key_count to everyone, intersection to the learners, joined_lists to L.
//! Rounds: 1/2 + OPRF + 1/2, and 1/2 more for the others that learn.
//! Bytes: OPRF(n) between L and each client, and ℓ/8 a slot of each client's store.
//! Differs from the paper: the function and the stores are those of [RR22]; r is drawn anew for each unit, and k_ij for each attempt.

use crate::many::{Key, Params, SEED};
use crate::oprf::{EVALUATED, padded};
use vesica_block::Block;
use vesica_oprf::vole::Shape;
use vesica_oprf::{Oprf, Prf, Receiver, Sender};
use vesica_session::{Lines, Protocol, Result, SessionRng, Unit};
use zeroize::Zeroizing;

/// L's side: the function with each client, by the clients' places.
struct Leads<S, R> {
    params: Params<S>,
    functions: Vec<(u8, R)>,
}

/// A client's side: its key with each other client, and its side of the function.
struct Client<S, K> {
    params: Params<S>,
    keys: Vec<Key>,
    function: K,
}

/// Opens a party's side; `oprf` is the function between L and each client.
///
/// # Errors
/// Those of the channels; a peer's if it breaks the protocol.
pub fn open<O: Oprf<Key: 'static>, S: Shape + 'static>(
    oprf: &O,
    params: Params<S>,
    lines: &mut Lines,
    rng: &mut SessionRng,
) -> Result<Box<dyn Protocol>> {
    const { assert!(O::Key::VALUES == 1, "a key with several values has several sums") };
    let clients = params.clients(None);
    if params.place == params.leader {
        let function = |client| Ok((client, oprf.receiver(lines.at(client)?, rng)?));
        let functions = clients.into_iter().map(function).collect::<Result<_>>()?;
        return Ok(Box::new(Leads { params, functions }));
    }
    // 1. -> client j > i: k_ij;  <- client j < i: k_ji
    let mut keys = Vec::new();
    for &other in clients.iter().filter(|&&other| other > params.place) {
        let key = Zeroizing::new(rng.bytes());
        lines.at(other)?.send(&*key)?;
        keys.push(key);
    }
    for &other in clients.iter().filter(|&&other| other < params.place) {
        let mut key = Key::default();
        key.copy_from_slice(&Zeroizing::new(lines.at(other)?.recv_exact(32)?));
        keys.push(key);
    }
    let function = oprf.sender(lines.at(params.leader)?, rng)?;
    Ok(Box::new(Client { params, keys, function }))
}

impl<S: Shape, R: Receiver> Protocol for Leads<S, R> {
    fn unit(&self, unit: &Unit, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let Self { params, functions } = self;
        let clients = params.clients(None);

        // 2. -> clients: r
        let r: [u8; SEED] = rng.bytes();
        for ch in lines.all() {
            ch.step("seed");
            ch.send(&r)?;
        }

        // 3. The sum of F_j(x), with dummies up to the public size
        let xs = padded(unit, rng);
        let mut sum = vec![Block::ZERO; xs.len()];
        for (client, function) in functions {
            let values = function.receive(unit.id, &xs, lines.at(*client)?, rng)?;
            sum.iter_mut().zip(values).for_each(|(sum, value)| *sum ^= value);
        }

        // 4. <- client j: D_j
        let decoded = params.stores(unit.id, &r).decode_sum(&clients, &xs, lines)?;

        // 5. Output { x : Decode(D, x) is that sum }
        let places = (0..).zip(decoded.into_iter().zip(sum)).take(unit.keys.len());
        let zero = |(decoded, sum)| params.cut(decoded ^ sum) == Block::ZERO;
        let mut places: Vec<u32> = places.filter(|&(_, pair)| zero(pair)).map(|(place, _)| place).collect();

        // 6. -> every other learner: which keys are common
        params.tell(unit, &mut places, lines)?;
        Ok(places)
    }
}

impl<S: Shape, K: Sender> Protocol for Client<S, K> {
    fn unit(&self, unit: &Unit, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let Self { params, keys, function } = self;
        let ch = lines.at(params.leader)?;

        // 2. <- L: r
        ch.step("seed");
        let r = ch.recv_exact(SEED)?;

        // 3. The key of F_j
        let function = function.send(unit.id, ch, rng)?;

        // 4. -> L: D_j, with dummies up to the public size
        ch.step("store");
        let ys = padded(unit, rng);
        let mut values = Vec::with_capacity(ys.len());
        for ys in ys.chunks(EVALUATED) {
            ch.alive()?;
            function.eval(ys, &mut values);
        }
        keys.iter().for_each(|key| params.mask(key, unit.id).add(&ys, &mut values));
        ch.send(&params.stores(unit.id, &r).encode(&ys, &values, rng)?)?;

        // 6. <- L: which keys are common, if I learn
        params.told(unit, lines)
    }
}
