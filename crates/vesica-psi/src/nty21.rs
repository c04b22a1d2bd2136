//! PSI of three and more parties by a star: clients, a pivot that adds what they send, and a leader.
//!
//! [NTY21] Nevo, Trieu, Yanai, "Simple, Fast Malicious Multiparty Private Set Intersection", CCS 2021, eprint 2021/1221, with
//! t = 1, semi-honest. Any parties may collude, but leader and pivot may not.
//!
//!   L, V   leader and pivot              leader, pivot   X, Z, Y_i   keys of L, of V and of client i   xs, zs, ys
//!   k_i    L's key for client i          key             D_i         store of { (y, PRF(k_i, y)) }      store
//!   v(x)   sum of PRF(k_i, x) over i     v               u(z)        Decode(sum of D_i, z)              u
//!   r      seed of the rows of a unit    r               h           hash of both to 128 bits          joined
//!
//! 1. L -> client i, once: k_i at random.
//! 2. L -> all, a unit: r at random.
//! 3. Client i -> V: D_i, cut to ℓ bits a slot.
//! 4. PSI of two from an oblivious function: L receives with { h(x, v(x)) }, V sends with { h(z, u(z)) }.
//! 5. L -> every other learner: which keys are common (`answer`).
//! Why it finds them: where all clients hold z, u(z) = v(z). Where one does not, its store gives a random value, which is equal to
//! that once in 2^ℓ. Only keys that L and V both hold can be mistaken: ℓ = σ + log2 of the fewer of their keys of the whole job.
//!
//! A client sees k_i and r. V sees stores whose values it cannot tell from random ones, as it lacks the keys: so they are random
//! stores. L sees what the PSI of two shows of V's list: V is asked for h(x, v(x)) at L's own keys alone, so no key of a client's can
//! be tested beside them. L and V together hold keys and stores, and can test any guess at any client's keys.
//!
//! Reveals: key_count to everyone, intersection to the learners, leader_and_pivot to L and V together.
//! Rounds: 1/2 + OPRF + 1/2, and 1/2 more for the others that learn.
//! Bytes: ℓ/8 a slot of each client's store; OPRF(n) between L and V, and about L - log2 m + 2 bits a key of V's.
//! Differs from the paper: clients also hide from V how many keys they have; r is drawn anew for each unit, and k_i for each attempt.

use crate::many::Params;
use crate::oprf::{self, Role, Side};
use crate::star::Star;
use vesica_oprf::Oprf;
use vesica_oprf::vole::Shape;
use vesica_session::{Lines, Protocol, Result, SessionRng, Unit};

/// A party's side, and of leader and pivot its side of the PSI of two.
struct Nty21<S> {
    star: Star<S>,
    two: Option<Box<dyn Side>>,
}

/// Opens a party's side; `oprf` is the function between L and V.
///
/// # Errors
/// Those of the channels; a peer's if it breaks the protocol.
pub fn open<O: Oprf<Key: 'static>, S: Shape + 'static>(
    oprf: &O,
    pivot: u8,
    params: Params<S>,
    lines: &mut Lines,
    rng: &mut SessionRng,
) -> Result<Box<dyn Protocol>> {
    let two = oprf::Params { tag_len: params.tag_len, both: false };
    // 1. -> client i: k_i
    let star = Star::open(pivot, params, lines, rng)?;
    let role = if star.leads() { Role::Receiver } else { Role::Sender };
    let two = star.other().map(|other| oprf::side(oprf, role, two, lines.at(other)?, rng)).transpose()?;
    Ok(Box::new(Nty21 { star, two }))
}

impl<S: Shape> Protocol for Nty21<S> {
    fn unit(&self, unit: &Unit, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let Self { star, two } = self;
        let params = &star.params;

        // 2. L -> all: r;  3. client i -> V: D_i
        let joined = star.unit(unit, lines, rng)?;

        // 4. the PSI of two
        let mut places = Vec::new();
        if let (Some(joined), Some(other), Some(two)) = (joined, star.other(), two) {
            places = two.unit(&joined, lines.at(other)?, rng)?;
        }

        // 5. L -> every other learner: which keys are common
        if star.leads() {
            params.tell(unit, &mut places, lines)?;
            return Ok(places);
        }
        params.told(unit, lines)
    }
}
