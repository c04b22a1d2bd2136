//! How many keys two parties have in common, and not which: commutative masking over the whole job (PSI-CA).
//!
//! [AES03] Agrawal, Evfimievski, Srikant, "Information sharing across private databases", SIGMOD 2003, the protocol for the size of an
//! intersection; semi-honest, DDH in the random-oracle model. Both parties run the same steps; "I" am either of them, whether I
//! learn or help.
//!
//!   X, Y   my n keys and the peer's m             list, sizes    a    my scalar, b the peer's          mask
//!   H      hash to the group, RFC 9380            mask.keys      u,v  { a·H(x) }, { b·H(y) }, sorted   u, v
//!   T      keyed hash of a point's encoding       mask.tag       w,z  { T(ba·H(x)) }, { T(ab·H(y)) }   w, z
//!
//! Reveals: key_count to everyone, intersection_size to the learners.   Rounds: 2 (both speak at once).
//! Bytes: each way WIRE for each of the sender's keys, then L/8 for each key of a party that learns.
//! A learner computes z from v, and is sent w *sorted over the whole job*: so it can tell how many tags are in both lists, and b hides
//! which x a tag of w is from. That is why there are no units: a sorted list a unit would tell a count a unit, and in a sparse job
//! that is nearly the membership of single keys. It is also why it is semi-honest only: a learner that raises parts of its list to
//! scalars of their own gets the count of each part.
//! Differs from the paper: the tags that the paper compares in the clear are hashed; orders are ascending ones where it shuffles;
//! both may learn: then each also sends its z, sorted.

use crate::masked::{Mask, nothing};
use std::marker::PhantomData;
use vesica_curve::{Dst, Group};
use vesica_session::{Found, Lines, List, Result, SessionRng, Whole};
use vesica_types::TagLen;

/// One party's side of a job, in the group `G`.
pub struct Count<G> {
    params: Params,
    group: PhantomData<G>,
}

/// What the parties agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Names the run: the parties' jointly tossed salt.
    pub session: [u8; 32],
    /// L.
    pub tag_len: TagLen,
    /// n: this party's keys.
    pub keys: u64,
    /// m: the peer's.
    pub peers_keys: u64,
    /// Whether this party learns.
    pub i_learn: bool,
    /// Whether the peer learns.
    pub peer_learns: bool,
    /// Items of a message: [`crate::FRAME`] in a job.
    pub frame: usize,
}

impl<G: Group> Count<G> {
    /// Opens a side.
    pub fn open(params: Params) -> Self {
        Self { params, group: PhantomData }
    }
}

impl<G: Group> Whole for Count<G> {
    fn elements(&self) -> u64 {
        self.params.keys + self.params.peers_keys
    }

    fn whole(self: Box<Self>, list: &List<'_>, lines: &mut Lines, rng: &mut SessionRng) -> Result<Found> {
        let Params { session, tag_len, keys: n, peers_keys: m, i_learn, peer_learns, frame } = self.params;
        let ch = lines.peer()?;
        let tag_key = blake3::derive_key("vesica 2026 count tag", &session);
        let mask = Mask::<G>::open(Dst::new(b"vesica-v1-count"), tag_key, tag_len, frame, list, rng);

        // 1. u := { a·H(x) : x in X }, sorted.
        ch.step("mask");
        let u = mask.keys(n, ch)?;

        // 2. -> u;  <- v;  z := { T(a·v) }, sorted.
        ch.step("exchange");
        let z = mask.exchange(ch, mask.elements(&u), (m, false), nothing, rng)?;
        drop(u);

        // 3. -> z, if the peer learns;  <- w, if I do. All of u has arrived before any of w is sent.
        ch.step("compare");
        let mine = peer_learns.then(|| mask.tags(&z)).into_iter().flatten();
        let mut common = 0;
        mask.compare(ch, mine, if i_learn { n } else { 0 }, &z, |_, _| {
            common += 1;
            Ok(())
        })?;

        // 4. Output |w ∩ z|.
        Ok(if i_learn { Found::Count(common) } else { Found::Nothing })
    }
}
