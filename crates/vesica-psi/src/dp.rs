//! Differentially private intersection, over the whole job: one party learns which of its keys are common, with some of the answers
//! untrue; the other learns how many are common, give or take a few.
//!
//! [HLKS22] "Differentially private set intersection", arXiv 2208.13249, the two-party protocol; semi-honest, DDH in the random-oracle
//! model. A helps and draws the noise of the answers, B learns. What stands in place of the paper's second step is in the last lines.
//!
//!   X, Y    keys of A and of B, n_A and n_B        lists       a, b     their scalars                          mask
//!   H       hash to the group                      mask.keys   T        keyed hash of an element               mask.tag
//!   2c      keys of the pool, from the salt        pool        Z        how many of them B takes               z
//!   X'      X and the whole pool                   Entries     Y'       Y, Z keys of the pool, 2c - Z fakes    Entries
//!   u, v    { a·H(x) }, { b·H(y) }, sorted         u, v        w        { T(b·u) }, sorted                     w
//!   q       probability of an untrue answer        flip        K        |X' ∩ Y'| = |X ∩ Y| + Z                common
//!
//! Reveals: key_count to everyone, intersection_noisy to B, count_noisy (K) to A.   Rounds: 2.5.
//! Bytes: WIRE·(n_A + n_B + 4c) + L/8·(n_A + 2c) + (n_B + 2c)/8.
//! B's guarantee: K for one common key more is K + 1. Z is drawn so that this changes no probability by more than e^ε, but for two values
//! of K that have probability δ each (vesica_params::dp::Pool). A's guarantee: an element of v tells by its answer whether one key is in
//! X; q = 1/(1 + e^ε) makes either answer at most e^ε times as probable for the one as for the other, and δ is 0.
//! Both hold against a party that follows the steps. An A that leaves the pool out of u sees |X ∩ Y| itself. A B that puts multiples of one
//! element into v, and the same multiples of some of u into w, gets several answers about one key of A's.
//! Noise is drawn once: all chance comes from a seed that is fixed before the first message, and the noise of A's answers from that seed and
//! all that B sent. Who runs again with the same seed and the same keys sends the same bytes. Neither side lets the other one have a second
//! try: where a run goes on after a break, A answers only to the same v and w, and B only to the same u (`List::same`).
//! Differs from the paper: B takes a random part of its keys there, so that A sees a count of the part. That protects nothing where few
//! keys are common, and loses the others; the pool does neither. Where a job asks for the paper's form ([`Hide::Sample`]), B puts a fake in
//! the place of each key that it leaves out, so that A sees neither how many these are nor another length. Orders are ascending ones of
//! random elements where the paper shuffles.

use crate::entries::Entries;
pub use crate::entries::Hide;
use crate::heard::Heard;
use crate::marks::{self, Marking};
use crate::masked::{Mask, PLACE, no_frames, nothing};
use crate::noise::{bit, chance};
use std::marker::PhantomData;
use vesica_curve::{Dst, Group};
use vesica_session::{Channel, Found, Lines, List, Misbehaviour, Result, SessionRng, Whole};
use vesica_types::TagLen;
use zeroize::Zeroizing;

/// One party's side of a job, in the group `G`.
pub struct Dp<G> {
    params: Params,
    group: PhantomData<G>,
}

/// What the parties agreed on.
#[derive(Clone, Debug)]
pub struct Params {
    /// Names the run: the parties' jointly tossed salt.
    pub session: [u8; 32],
    /// L.
    pub tag_len: TagLen,
    /// This party's keys.
    pub keys: u64,
    /// The peer's.
    pub peers_keys: u64,
    /// Whether this party is B.
    pub i_learn: bool,
    /// q, in 2^128ths.
    pub flip: u128,
    /// How B hides from A how many keys are common.
    pub hide: Hide,
    /// Items of a message: [`crate::FRAME`] in a job.
    pub frame: usize,
}

impl<G: Group> Dp<G> {
    /// Opens a side.
    pub fn open(params: Params) -> Self {
        Self { params, group: PhantomData }
    }
}

impl<G: Group> Whole for Dp<G> {
    fn elements(&self) -> u64 {
        self.params.keys + self.params.peers_keys + 2 * self.params.hide.extra()
    }

    fn whole(self: Box<Self>, list: &List<'_>, lines: &mut Lines, rng: &mut SessionRng) -> Result<Found> {
        let Params { session, tag_len, ref hide, frame, i_learn, .. } = self.params;
        let seed = Zeroizing::new(rng.bytes());
        let entries = Entries { keys: list.keys, hide, session, mine: i_learn.then_some(&*seed) };
        let list = &List { keys: &entries, ..*list };
        let tag_key = blake3::derive_key("vesica 2026 dp tag", &session);
        let mask = Mask::<G>::open(Dst::new(b"vesica-v1-dp"), tag_key, tag_len, frame, list, rng);
        let ch = &mut Heard::new(lines.peer()?);
        if i_learn { self.b(&mask, list, &entries, ch, rng) } else { self.a(&mask, list, &seed, ch, rng) }
    }
}

impl<G: Group> Dp<G> {
    /// n_A + 2c and n_B + 2c, of this party and of the peer.
    fn lens(&self) -> (u64, u64) {
        let Params { keys, peers_keys, ref hide, .. } = self.params;
        (keys + hide.extra(), peers_keys + hide.extra())
    }

    fn a(
        &self,
        mask: &Mask<'_, G>,
        list: &List<'_>,
        seed: &[u8; 32],
        ch: &mut Heard<'_>,
        rng: &mut SessionRng,
    ) -> Result<Found> {
        let (n_a, n_b) = self.lens();
        // 1. -> u;  <- v.  Keep { (T(a·v), place of v) }.
        ch.step("mask");
        let u = mask.keys(n_a, ch)?;
        ch.step("exchange");
        let z = mask.exchange(ch, mask.elements(&u), (n_b, false), nothing, rng)?;
        drop(u);

        // 2. <- w, sorted.  The places of those v whose tags are in it: K of them.
        ch.step("compare");
        let mut common = Marking::open(mask, n_b, n_a.min(n_b))?;
        mask.compare(ch, no_frames(), n_a, &z, |record, _| common.push(&record[mask.tag_bytes()..][..PLACE]))?;
        let common = common.sorted()?;

        // 3. -> for each v a bit: whether it matched, and with probability q the contrary.
        ch.step("answer");
        let asked = ch.hash();
        once(list, asked, ch)?;
        let mut noise = chance("vesica 2026 dp answers", blake3::keyed_hash(seed, &asked).as_bytes());
        common.send_as(ch, |matched| matched ^ bit(self.params.flip, &mut noise))?;
        Ok(Found::Nothing)
    }

    fn b(
        &self,
        mask: &Mask<'_, G>,
        list: &List<'_>,
        mine: &Entries<'_>,
        ch: &mut Heard<'_>,
        rng: &mut SessionRng,
    ) -> Result<Found> {
        let (n_b, n_a) = self.lens();
        // 1. -> v;  <- u.  w := { T(b·u) }.
        ch.step("mask");
        let v = mask.keys(n_b, ch)?;
        ch.step("exchange");
        let w = mask.exchange(ch, mask.elements(&v), (n_a, false), nothing, rng)?;

        // 2. -> w, sorted. All of u has arrived before any of it is sent, and is the u that came before a break.
        once(list, ch.hash(), ch)?;
        ch.step("compare");
        mask.tags(&w).try_for_each(|tags| ch.send(&tags?))?;
        drop(w);

        // 3. <- the answers.  Output the keys among what they mark: neither the pool's, nor fakes.
        ch.step("answer");
        let [marked] = marks::told(mask, ch, v, [(G::WIRE, n_b)], None)?;
        let mut taken = mine.taken(self.params.keys);
        Ok(marked.those(mask, self.params.keys, |place| taken.is(place))?.found())
    }
}

/// Sees that a peer asks for one answer with this run's noise: it may ask for it again after a break, and for no other one.
///
/// Why: if A's u lacked one element the second time, K would show whether that element's key is common, since Z is the same.
fn once(list: &List<'_>, asked: [u8; 32], ch: &dyn Channel) -> Result<()> {
    let again = "after a break it sent another list than before, to be answered with the same noise; it can only begin anew, and pay for it";
    if (list.same)(asked)? { Ok(()) } else { Err(ch.accuse(Misbehaviour::Contradiction(again))) }
}
