//! How many keys three and more parties have in common, or what the leader's values of these add up to, and not which they are.
//!
//! [NTY21] Nevo, Trieu, Yanai, CCS 2021, eprint 2021/1221, with t = 1, up to its last step; [PSTY19] Pinkas, Schneider, Tkachenko, Yanai,
//! EUROCRYPT 2019, eprint 2019/241, in place of that; semi-honest. Any parties may collude, but leader and pivot may not.
//!
//!   L, V   leader and pivot, R and S of the circuit   star.other   x', z'  h(x, v(x)) and h(z, u(z)), as in `nty21`        joined
//!   s_L    L's share of the total, modulo 2^64        totals       s_V     V's share: s_L + s_V is the total              totals
//!
//! 1. L -> client i, once: k_i at random.
//! 2. L -> all, a unit: r at random.
//! 3. Client i -> V: D_i, as in `nty21`.   Then L has x' for each of its keys, and V has z' for each of its.
//! 4. L and V, a unit: steps 1 to 5 of `circuit`. L puts its x' into bins and has the values, V programs z'. Of each bin both hold a
//!    share of whether x' = z', and of the value if so.
//! 5. L and V, when all units are done: steps 5 and 6 of `circuit`.   If the job sets a least number, L -> clients and V -> clients: whether
//!    it is reached; if not, that is all.
//! 6. L -> every other learner: s_L.   V -> every other learner: s_V.
//!
//! Why it is right: x' = z' where x = z and all clients hold it. Else the two are equal once in 2^ℓ, as in `nty21`, and in a bin once in 2^l.
//! A client sees k_i and r, and if it learns two numbers, one of them uniform, whose sum is the total. V sees stores that it cannot tell from
//! random ones, and what the circuit shows S: nothing of x'. L sees what the circuit shows R: nothing of z', although it knows all k_i,
//! for the hint is uniform whatever V holds. So a coalition with one of them has the keys of those in it and the total. L and V together
//! hold keys and stores: they can test any guess at any client's keys, and with both shares of a bin they see which keys are common.
//!
//! Reveals: key_count to everyone, the total to the learners, leader_and_pivot to L and V together.
//! Rounds: 1/2 + circuit a unit, 2 at the end, and 1/2 more with a least number.
//! Bytes: ℓ/8 a slot of each client's store; those of `circuit` between L and V; 8 from each of them to each other learner.
//! With a least number, 1 from each of them to each client.
//! Differs from the papers: the last step of [NTY21] is a circuit, of which no bin is opened; and as `nty21` and `circuit` differ.

use crate::circuit::{Circuit, Params};
use crate::many;
use crate::star::Star;
use vesica_oprf::vole::{Field, Shape};
use vesica_session::{Error, Found, Label, Lines, Misbehaviour, Result, SessionRng, Shared, Shares, Unit, Values};

/// A party's side, and of leader and pivot its side of the circuit, over the base field `B`.
struct Tally<B, S> {
    star: Star<S>,
    circuit: Params,
    two: Option<Circuit<B>>,
}

/// Opens a party's side. `circuit` is what leader and pivot agreed on for the step between them: `puts` is of the leader, `i_learn` of this party,
/// and `fewer` of the party of all that has the fewest keys.
///
/// # Errors
/// Those of the channels; a peer's if it breaks the protocol. Of a false share that leader or pivot sent, and of their words where these differ, a
/// party that is neither accuses both, for it cannot tell which of them lied.
pub fn open<B: Field + 'static, S: Shape + 'static>(
    circuit: Params,
    pivot: u8,
    params: many::Params<S>,
    lines: &mut Lines,
    rng: &mut SessionRng,
) -> Result<Box<dyn Shared>> {
    // 1. -> client i: k_i
    let star = Star::open(pivot, params, lines, rng)?;
    let two = star.other().map(|other| Circuit::<B>::open(circuit.clone(), lines.at(other)?, rng)).transpose()?;
    Ok(Box::new(Tally { star, circuit, two }))
}

impl<B, S> Tally<B, S> {
    /// What one of leader and pivot did, as a party sees it that is neither.
    fn either(&self, lines: &mut Lines, what: &'static str) -> Error {
        match lines.two(self.star.params.leader, self.star.pivot) {
            Ok((leader, pivot)) => {
                let peers = [leader.peer().clone(), pivot.peer().clone()];
                Error::Either { peers, fault: Misbehaviour::Contradiction(what) }
            }
            Err(error) => error,
        }
    }
}

impl<B: Field, S: Shape> Shared for Tally<B, S> {
    fn unit(&self, unit: &Unit, values: &Values, lines: &mut Lines, rng: &mut SessionRng) -> Result<Shares> {
        // 2. L -> all: r;  3. client i -> V: D_i
        let joined = self.star.unit(unit, lines, rng)?;
        // 4. Shares of what is common
        match (joined, self.star.other(), &self.two) {
            (Some(joined), Some(other), Some(two)) => two.shares(&joined, values, lines.at(other)?, rng),
            _ => Ok(Shares { unit: unit.id, attempt: [0; 32], sums: Vec::new(), bins: Vec::new(), ids: Vec::new() }),
        }
    }

    fn open(&self, shares: &[Shares], _: [&[Label]; 2], lines: &mut Lines, rng: &mut SessionRng) -> Result<Found> {
        let Self { star, circuit, two } = self;
        let (place, leader, pivot) = (star.params.place, star.params.leader, star.pivot);
        lines.all().for_each(|ch| ch.step("open"));
        // 5. s_L and s_V, unless there are too few
        let mut mine = None;
        if let (Some(other), Some(two)) = (star.other(), two) {
            let totals = two.totals(shares, lines.at(other)?, rng)?;
            if circuit.least.is_some() {
                for client in star.params.clients(Some(pivot)) {
                    lines.at(client)?.send(&[u8::from(totals.is_some())])?;
                }
            }
            let Some((totals, _)) = totals else { return Ok(Found::TooFew) };
            let [share] = totals[..] else { return Err(Error::Bug("a tally has one total".into())) };
            mine = Some(share);
        } else if circuit.least.is_some() {
            let mut enough = [false; 2];
            for (enough, from) in enough.iter_mut().zip([leader, pivot]) {
                let ch = lines.at(from)?;
                *enough = match ch.recv_exact(1)?[..] {
                    [0] => false,
                    [1] => true,
                    _ => return Err(ch.accuse(Misbehaviour::Malformed("whether there are enough common keys"))),
                };
            }
            match enough {
                [true, true] => {}
                [false, false] => return Ok(Found::TooFew),
                _ => {
                    let what =
                        "one of them says that there are too few common keys, and the other one that there are enough";
                    return Err(self.either(lines, what));
                }
            }
        }
        // 6. -> every other learner: my share;  <- L and V: theirs
        if let Some(share) = mine {
            for &learner in star.params.learners.iter().filter(|&&learner| learner != place) {
                lines.at(learner)?.send(&share.to_le_bytes())?;
            }
        }
        if !circuit.i_learn {
            return Ok(Found::Nothing);
        }
        let mut total = mine.unwrap_or(0);
        for from in [leader, pivot].into_iter().filter(|&from| from != place) {
            let share = lines.at(from)?.recv_exact(8)?;
            total = total.wrapping_add(u64::from_le_bytes(share.try_into().expect("its length was checked")));
        }
        // A learner that is neither cannot tell whose share is false, and accuses neither of the two alone.
        circuit.told(total).or_else(|fault| {
            if let Some(other) = star.other() {
                return Err(lines.at(other)?.accuse(fault));
            }
            Err(self.either(lines, "by their two shares, one of which is false, more keys are common than there are"))
        })
    }
}
