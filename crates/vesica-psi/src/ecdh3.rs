//! PSI from commutative masking for three parties, over the whole job.
//!
//! [SF] SecretFlow, psi/algorithm/ecdh/ecdh_3pc_psi.cc, github.com/secretflow/psi; the masking is that of [HFH99], Huberman, Franklin,
//! Hogg, EC 1999, with three scalars. Semi-honest, no two parties collude, DDH in the random-oracle model.
//! C learns, or is the first party where all learn; A is the party after C in the job's list, B the one after A.
//!
//!   X, Y, Z  keys of A, B, C           list         a, b, c  their scalars            mask
//!   H        hash to the group         mask.keys    U, V, Z  a·H(x), b·H(y), c·H(z)   u, v, z
//!   T        keyed hash of an element  mask.tag     W        { T(b·u) }               w
//!   I        { a·v : T(a·v) in W }, padded to min(n_A, n_B) elements                  common
//!
//! Reveals: key_count to everyone, intersection to the learners, pair_count (of A and B) to A.   Rounds: 4, and 1.5 if all learn.
//! Bytes: WIRE·(n_A + n_B + 2·n_C + min(n_A, n_B)) + L/8·(n_A + n_C) for n keys of each; if all learn, a bit or two a key more.
//! Two that collude: A and B learn nothing of Z but the result; A and C compare c·a·V with what B answers and learn Y ∩ Z beside |X ∩ Y|;
//! B and C compare c·b·U with it and learn X ∩ Z, and take b off I and learn |X ∩ Y|.
//! Differs from the paper, and from [SF]: lists ascend; what is only compared travels as tags; I is padded, so that C does not learn
//! |X ∩ Y|; all may learn. The padding is a·H(x) of A's first keys: C cannot tell it from a·b·H(y) without a and b (DDH), and B does not
//! see I. A copies both: from the clock B sees some tens of nanoseconds each, of matches while W travels, of padding from then to the first a·z.

use crate::marks::{self, Marking};
use crate::masked::{Mask, PLACE, no_frames, nothing};
use std::marker::PhantomData;
use vesica_curve::{Dst, Group};
use vesica_session::{Channel, Found, Lines, List, Result, SessionRng, Whole};
use vesica_types::TagLen;

/// Frames of Z under way from C over A to B and back. A and B have room for five: these never block, however small windows are.
const UNDER_WAY: u64 = 4;

/// What stands in place of a place where an element of I is padding.
const PADDING: [u8; PLACE] = [0xff; PLACE];

/// One party's side of a job, in the group `G`.
pub struct Ecdh3<G> {
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
    /// The parties' numbers of keys, by place.
    pub keys: [u64; 3],
    /// This party's place.
    pub place: u8,
    /// The place of the only party that learns; none if all do.
    pub learner: Option<u8>,
    /// Items of a message: [`crate::FRAME`] in a job.
    pub frame: usize,
}

/// The places of A, B and C, where this party learns alone or all do.
pub fn roles(learner: Option<u8>) -> [u8; 3] {
    let c = learner.unwrap_or(0);
    [(c + 1) % 3, (c + 2) % 3, c]
}

impl<G: Group> Ecdh3<G> {
    /// Opens a side.
    pub fn open(params: Params) -> Self {
        Self { params, group: PhantomData }
    }

    /// |X|, |Y| and |Z|.
    fn sizes(&self) -> [u64; 3] {
        roles(self.params.learner).map(|place| self.params.keys[usize::from(place)])
    }
}

impl<G: Group> Whole for Ecdh3<G> {
    fn elements(&self) -> u64 {
        let [x, y, z] = self.sizes();
        if self.params.place == roles(self.params.learner)[2] { z + x.min(y) } else { x + y + z }
    }

    fn whole(self: Box<Self>, list: &List<'_>, lines: &mut Lines, rng: &mut SessionRng) -> Result<Found> {
        let Params { session, tag_len, place, learner, frame, .. } = self.params;
        let tag_key = blake3::derive_key("vesica 2026 ecdh3 tag", &session);
        let mask = Mask::<G>::open(Dst::new(b"vesica-v1-ecdh3"), tag_key, tag_len, frame, list, rng);
        let [a, b, c] = roles(learner);
        match place {
            at if at == a => self.a(&mask, lines.two(b, c)?, rng),
            at if at == b => self.b(&mask, lines.two(a, c)?, rng),
            _ => self.c(&mask, lines.two(a, b)?, rng),
        }
    }
}

/// The channels to the two others, in the order of their letters.
type Others<'a> = (&'a mut dyn Channel, &'a mut dyn Channel);

impl<G: Group> Ecdh3<G> {
    fn a(&self, mask: &Mask<'_, G>, (b, c): Others<'_>, rng: &mut SessionRng) -> Result<Found> {
        let [n_x, n_y, n_z] = self.sizes();
        let most = n_x.min(n_y);

        // 1. -> B: U;  <- B: V.  Keep { (T(a·v), place of v, a·v) }.
        b.step("mask");
        let u = mask.keys(n_x, b)?;
        b.step("exchange");
        let raised = mask.exchange(b, mask.elements(&u), (n_y, true), nothing, rng)?;

        // 2. <- B: W;  I := { a·v : T(a·v) in W }, with the places of v in V and of the tag in W.
        b.step("compare");
        let (mut common, mut pairs) = (mask.sorting(G::WIRE + 2 * PLACE, most)?, 0);
        mask.compare(b, no_frames(), n_x, &raised, |record, of_w| {
            pairs += 1;
            let (of_v, element) = record[mask.tag_bytes()..].split_at(PLACE);
            common.push([element, of_v, &of_w.to_be_bytes()])
        })?;
        drop(raised);

        // 3. Pad I with those of U that are of the first keys: as many as are missing.
        u.of_first(most - pairs, |element| common.push([element, &PADDING, &PADDING]))?;
        let common = common.sorted()?;

        // 4. -> C: I;  <- C: Z;  -> B: a·Z, in Z's order.
        b.step("relay");
        c.step("relay");
        mask.relay(c, mask.elements(&common), (n_z, true), |points| b.send(&points), rng)?;
        if self.params.learner.is_some() {
            return Ok(Found::Nothing);
        }

        // 5. <- C: which of I are common;  -> B: which of V and of W are;  <- B: which of U are.
        b.step("tell");
        c.step("tell");
        let [of_v, of_w] = marks::told(mask, c, common, [(G::WIRE, n_y), (G::WIRE + PLACE, n_x)], None)?;
        of_v.send(b)?;
        of_w.send(b)?;
        let [keys] = marks::told(mask, b, u, [(G::WIRE, n_x)], Some(of_w.count()))?;
        Ok(keys.found())
    }

    fn b(&self, mask: &Mask<'_, G>, (a, c): Others<'_>, rng: &mut SessionRng) -> Result<Found> {
        let [n_x, n_y, n_z] = self.sizes();

        // 1. -> A: V;  <- A: U.  W := { (T(b·u), place of u) }.
        a.step("mask");
        let v = mask.keys(n_y, a)?;
        a.step("exchange");
        let w = mask.exchange(a, mask.elements(&v), (n_x, false), nothing, rng)?;

        // 2. -> A: the tags of W.
        a.step("compare");
        mask.tags(&w).try_for_each(|tags| a.send(&tags?))?;

        // 4. <- A: a·Z;  -> C: { T(b·a·z) }, in that order.
        a.step("relay");
        c.step("relay");
        let tags = |points: Vec<u8>| points.chunks_exact(G::WIRE).flat_map(|point| mask.tag(point)).collect::<Vec<_>>();
        mask.relay(a, no_frames(), (n_z, false), |points| c.send(&tags(points)), rng)?;
        if self.params.learner.is_some() {
            return Ok(Found::Nothing);
        }

        // 5. <- A: which of V and of W are common;  -> A: which of U are.
        a.step("tell");
        let [keys] = marks::told(mask, a, v, [(G::WIRE, n_y)], None)?;
        let [of_u] = marks::told(mask, a, w, [(mask.tag_bytes(), n_x)], Some(keys.count()))?;
        of_u.send(a)?;
        Ok(keys.found())
    }

    fn c(&self, mask: &Mask<'_, G>, (a, b): Others<'_>, rng: &mut SessionRng) -> Result<Found> {
        let [n_x, n_y, n_z] = self.sizes();
        let (most, tag_bytes) = (n_x.min(n_y), mask.tag_bytes());

        // 1. Z.
        a.step("mask");
        let z = mask.keys(n_z, a)?;

        // 4. -> A: Z;  <- A: I;  <- B: { T(b·a·z) } in Z's order.  Keep these with the places of z, and { (T(c·i), place of i) }.
        a.step("relay");
        b.step("relay");
        let mut own = mask.returned(b, &z)?;
        let between = |sent: u64| own.receive(sent.saturating_sub(UNDER_WAY));
        let common = mask.exchange(a, mask.elements(&z), (most, false), between, rng)?;
        let own = own.sorted()?;
        drop(z);

        // Output { z : T(b·a·z) is in { T(c·i) } }.
        let (mut keys, mut of_i) = (Marking::open(mask, n_z, most)?, Marking::open(mask, most, most)?);
        own.meet(&common, tag_bytes, |z, i| {
            keys.push(z)?;
            of_i.push(i)
        })?;

        // 5. -> A: which of I are common.
        if self.params.learner.is_none() {
            a.step("tell");
            of_i.sorted()?.send(a)?;
        }
        Ok(keys.sorted()?.found())
    }
}
