//! An id for every key of two parties: equal exactly where a key is common, which nobody sees before both lists of ids lie side by side.
//!
//! [RR22] Raghuraman, Rindal, eprint 2022/320, Figure 11, steps 1-3, once in each direction; the two values together as in [GMRSS21] Garimella,
//! Mohassel, Rosulek, Sadeghian, Singh, "Private set operations from oblivious switching", PKC 2021, eprint 2021/243, whose private ids then go
//! on to the union of both sets; semi-honest.
//!
//! Example: alice has ann and bea, bob has bea and cid. alice ends with ann = 71c0…, bea = 2f9e…, and bob with bea = 2f9e…, cid = 80d3…. Neither
//! has seen an id of the other's, so neither knows that two of them are alike.
//!
//!   X        this party's keys, padded           xs       F_0, F_1   the function whose key is the first party's, and the second one's
//!   k        the key of its own function         key      id(x)      16 bytes                                        ids
//!
//! 1. The second party holds F_1, and the first receives F_1(x) for its X.   (`vesica_oprf`)
//! 2. The first party holds F_0, and the second receives F_0(x) for its X.
//! 3. Each evaluates its own function at its own X, and so has both values of every key:  id(x) := BLAKE3_c(F_0(x), F_1(x)), cut to 16 bytes,
//!    where c is made of the run and the unit.
//! 4. When all units are done: -> and <- a hash of all that was said, from the base on. Both have the ids of one attempt, or neither has any.
//! Why they agree: F_0 is one function, whether its holder evaluates it or the other party received it; and so is F_1.
//!
//! Reveals: key_count to everyone, and which keys are common to whoever has the ids of both.   Rounds: 2·OPRF a unit, 1 at the end.
//! Bytes: OPRF(n) + OPRF(m) a unit, 64 at the end.
//! No tag is ever sent. What a party receives is what the receiver of F and the sender of F receive, which neither depends on the other's keys.
//! docs/src/protocols/ids.md says why an id of the other's looks random to a party that lacks the key.
//! Differs from the papers: the values are hashed, not added; there is no union; both sides are padded.

use crate::heard::Heard;
use crate::oprf::{EVALUATED, padded};
use crate::same::of_one_attempt;
use vesica_block::blake;
use vesica_oprf::{Oprf, Prf, Receiver, Sender};
use vesica_session::{Channel, Found, Label, Lines, Result, SessionRng, Shared, Shares, Unit, Values};

/// One party's side of a job.
pub struct Ids<S, R> {
    params: Params,
    /// The function whose key this party comes to hold.
    mine: S,
    /// The function that this party learns at its keys.
    theirs: R,
    /// A hash of all that was said when both were opened.
    opened: [u8; 32],
}

/// What the parties agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Names the run.
    pub session: [u8; 32],
    /// This party's place in the job.
    pub place: u8,
}

/// Names the run to the function whose key the party at this place holds: the two functions of a run have nothing in common.
pub fn of_holder(session: &[u8; 32], place: u8) -> [u8; 32] {
    let mut hash = blake3::Hasher::new_derive_key("vesica 2026 function of a party for ids");
    *hash.update(session).update(&[place]).finalize().as_bytes()
}

impl<S: Sender, R: Receiver> Ids<S, R> {
    /// Opens a side, with the function whose key is this party's, and the peer's.
    ///
    /// # Errors
    /// Those of the channel; the peer's if it breaks the protocol.
    pub fn open<O: Oprf<Key = S::Key, Sender = S, Receiver = R>>(
        params: Params,
        [mine, theirs]: [&O; 2],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<Self> {
        const { assert!(<S::Key as Prf>::VALUES == 1, "a key has one id") };
        let ch = &mut Heard::new(ch);
        let (mine, theirs) = if params.place == 0 {
            let theirs = theirs.receiver(ch, rng)?;
            (mine.sender(ch, rng)?, theirs)
        } else {
            (mine.sender(ch, rng)?, theirs.receiver(ch, rng)?)
        };
        Ok(Self { params, mine, theirs, opened: said(params.place, ch) })
    }
}

impl<S: Sender, R: Receiver> Shared for Ids<S, R> {
    fn unit(&self, unit: &Unit, _: &Values, lines: &mut Lines, rng: &mut SessionRng) -> Result<Shares> {
        let Self { params: Params { session, place }, mine, theirs, opened } = self;
        let ch = &mut Heard::new(lines.peer()?);
        let xs = padded(unit, rng);
        // 1. and 2. The function of the other, and then the key of mine, or the other way round
        let (received, key) = if *place == 0 {
            let received = theirs.receive(unit.id, &xs, ch, rng)?;
            (received, mine.send(unit.id, ch, rng)?)
        } else {
            let key = mine.send(unit.id, ch, rng)?;
            (theirs.receive(unit.id, &xs, ch, rng)?, key)
        };
        // 3. id(x)
        ch.step("ids");
        let mut own = Vec::with_capacity(xs.len());
        for xs in xs.chunks(EVALUATED) {
            ch.alive()?;
            key.eval(xs, &mut own);
        }
        let mut context = blake3::Hasher::new_derive_key("vesica 2026 private ids");
        let context = context.update(session).update(&unit.id.0.to_le_bytes()).finalize();
        let mut pairs = Vec::with_capacity(PAIR * xs.len());
        for (own, received) in own.iter().zip(&received) {
            let [first, second] = if *place == 0 { [own, received] } else { [received, own] };
            pairs.extend(first.to_le_bytes());
            pairs.extend(second.to_le_bytes());
        }
        let mut hashes = vec![[0; 32]; xs.len()];
        blake::keyed_rows(context.as_bytes(), &pairs, PAIR, &mut hashes);
        let ids = hashes[..unit.keys.len()].iter().map(|hash| *hash.first_chunk().expect("16 bytes of 32"));
        let attempt = *blake3::keyed_hash(opened, &said(*place, ch)).as_bytes();
        Ok(Shares { unit: unit.id, attempt, sums: Vec::new(), bins: Vec::new(), ids: ids.collect() })
    }

    fn open(&self, shares: &[Shares], _: [&[Label]; 2], lines: &mut Lines, _: &mut SessionRng) -> Result<Found> {
        // 4. The attempt
        let ch = lines.peer()?;
        ch.step("open");
        of_one_attempt(shares, ch)?;
        Ok(Found::Nothing)
    }
}

/// Bytes of both values of a key.
const PAIR: usize = 32;

/// A hash of all that both have said, the first party's words first: the same on both sides if no message was changed on its way.
fn said(place: u8, ch: &Heard<'_>) -> [u8; 32] {
    let [first, second] = if place == 0 { [ch.said(), ch.hash()] } else { [ch.hash(), ch.said()] };
    let mut hash = blake3::Hasher::new_derive_key("vesica 2026 what was said for ids");
    *hash.update(&first).update(&second).finalize().as_bytes()
}
