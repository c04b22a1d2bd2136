//! PSI from commutative masking in a group where Diffie-Hellman is hard (ECDH-PSI), for two parties that both learn. If one
//! learns, an OPRF from the same assumption takes half of the work: `vesica_oprf::dh`.
//!
//! [Mea86] Meadows, "A more efficient cryptographic matchmaking protocol", S&P 1986; [HFH99] Huberman, Franklin, Hogg,
//! "Enhancing privacy and trust in electronic communities", EC 1999, section 2.2; semi-honest, DDH in the random-oracle
//! model. Both parties run the same steps; "I" am either of them.
//!
//!   X, Y   my keys and the peer's, padded with dummies   xs          a    my scalar                     self.scalar
//!   H      hash to the group, RFC 9380                   G::hash     u,v  { a·H(x) }, { b·H(y) }        u, v
//!   T      keyed hash of a point's encoding, L bits      mask_again  w,z  { T(ba·H(x)) }, { T(ab·H(y)) } w, z
//!   C      commitment: keyed hash of party, r, list      commitment  r    32 random bytes that open it  opened
//!
//! Reveals: key_count to everyone, intersection to both.   Rounds: 2.5 (both speak at once).
//! Bytes: each way WIRE·n for the sender's n keys, then 64 + L/8·m for the peer's m keys.
//! A party that deviates can put a tag that it computed at another place of w, so that another key of mine seems common to me; it
//! learns nothing by it, and the results are compared before anything is told about common keys (`same`).
//! Differs from the paper: both lists travel in ascending order of their bytes, which is a function of the set alone, so
//! a place in a list says nothing; T hashes what the paper compares in the clear; the lists are padded. Both commit to their
//! tags before they see the other's: a party that waited could return the tags that it got, and all keys would seem common.

use vesica_curve::{Dst, Group, Points, SecretScalar};
use vesica_session::{Channel, Lines, Misbehaviour, Protocol, Result, SessionRng, Unit};
use vesica_types::{Digest, TagLen, Tags, UnitId};

/// Elements that are masked between two looks at whether the peer is still there: a group shares some work among them.
const CHUNK: usize = 2048;

/// One party's side of a job, in the group `G`.
pub struct Ecdh<G: Group> {
    scalar: G::Scalar,
    dst: Dst,
    tag_key: [u8; 32],
    commitment_key: [u8; 32],
    tag_len: TagLen,
    place: u8,
}

/// What the parties agreed on.
pub struct Params {
    /// Names the job and this run of it: the parties' jointly tossed salt.
    pub session: [u8; 32],
    /// L.
    pub tag_len: TagLen,
    /// This party's place in the job, which the peer knows as [`vesica_types::Party::place`].
    pub place: u8,
}

/// Bytes of r.
const OPENING: usize = 32;

impl<G: Group> Ecdh<G> {
    /// Draws the scalar of this run. It is used for all the run's units, for no other run, and is wiped at the end.
    pub fn open(params: &Params, rng: &mut SessionRng) -> Self {
        let mut coins = zeroize::Zeroizing::new([0; 64]);
        rng.fill(coins.as_mut());
        Self {
            scalar: G::Scalar::from_uniform(&coins),
            dst: Dst::new(b"vesica-v1-ecdh"),
            tag_key: blake3::derive_key("vesica 2026 ecdh tag", &params.session),
            commitment_key: blake3::derive_key("vesica 2026 ecdh commitment", &params.session),
            tag_len: params.tag_len,
            place: params.place,
        }
    }

    /// { a·H(x) }, as it travels.
    fn mask(&self, xs: &[Digest], ch: &dyn Channel) -> Result<Vec<u8>> {
        let mut wire = Vec::with_capacity(xs.len() * G::WIRE);
        for xs in xs.chunks(CHUNK) {
            ch.alive()?;
            G::hash(&self.dst, xs).mul(&self.scalar).encode(&mut wire);
        }
        Ok(wire)
    }

    /// { T(a·v) }: nothing is computed on elements that are not of the group. T is keyed by the session and the unit.
    fn mask_again(&self, unit: UnitId, v: &[u8], ch: &dyn Channel, rng: &mut SessionRng) -> Result<Tags> {
        let key = blake3::keyed_hash(&self.tag_key, &unit.0.to_le_bytes());
        let mut tags = Tags::with_capacity(self.tag_len, v.len() / G::WIRE);
        let mut wire = Vec::new();
        for (chunk, v) in v.chunks(CHUNK * G::WIRE).enumerate() {
            ch.alive()?;
            let points = G::decode(v, &rng.bytes())
                .map_err(|bad| ch.accuse(Misbehaviour::Element { index: chunk * CHUNK + bad.index, why: bad.why }))?;
            wire.clear();
            points.mul(&self.scalar).encode(&mut wire);
            for point in wire.chunks_exact(G::WIRE) {
                tags.push(blake3::keyed_hash(key.as_bytes(), point).as_bytes());
            }
        }
        Ok(tags)
    }

    /// C: what the party at `place` commits to. It names the party, so that a commitment sent back is none of the peer's.
    fn commitment(&self, unit: UnitId, place: u8, opened: &[u8]) -> [u8; 32] {
        let mut hash = blake3::Hasher::new_keyed(&self.commitment_key);
        hash.update(&unit.0.to_le_bytes()).update(&[place]).update(opened);
        *hash.finalize().as_bytes()
    }
}

impl<G: Group> Protocol for Ecdh<G> {
    fn unit(&self, unit: &Unit, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let ch = lines.peer()?;

        // 1. u := { a·H(x) : x in X }, with dummies up to the public size.
        ch.step("mask");
        let mut xs = unit.keys.clone();
        xs.resize_with(unit.capacity(), || Digest(rng.bytes()));
        let (u, order) = ascending::<G>(&self.mask(&xs, ch)?);

        // 2. -> u;  <- v = { b·H(y) : y in Y }
        ch.step("exchange");
        let v = ch.swap_exact(&u, unit.capacity_of(ch.peer()) * G::WIRE)?;
        check_ascending::<G>(&v).map_err(|index| ch.accuse(Misbehaviour::Order { index }))?;

        // 3. z := { T(a·v) }
        ch.step("mask again");
        let z = self.mask_again(unit.id, &v, ch, rng)?;

        // 4. -> C(r, z);  <- C(r', w), with w = { T(b·u) }
        ch.step("compare");
        let mut opened = rng.bytes::<OPENING>().to_vec();
        opened.extend_from_slice(z.as_bytes());
        let committed = ch.swap_exact(&self.commitment(unit.id, self.place, &opened), 32)?;

        // 5. -> r, z;  <- r', w, which must be what was committed to
        let mut theirs = ch.swap_exact(&opened, OPENING + unit.capacity() * self.tag_len.bytes())?;
        if self.commitment(unit.id, ch.peer().place(), &theirs) != committed.as_slice() {
            return Err(ch.accuse(Misbehaviour::Contradiction("its tags are not those that it committed to")));
        }
        let w = Tags::from_bytes(self.tag_len, theirs.split_off(OPENING));
        let w = w.unwrap_or(Tags::with_capacity(self.tag_len, 0));

        // 6. Output { x : its w is in z }, in ascending order of w: the same order on both sides.
        let mine = w.words().zip(order).filter(|&(_, place)| (place as usize) < unit.keys.len());
        Ok(matches(mine.collect(), z.words().collect()))
    }
}

/// The elements of `wire` in ascending order, and the place that each came from.
fn ascending<G: Group>(wire: &[u8]) -> (Vec<u8>, Vec<u32>) {
    let at = |place: u32| &wire[place as usize * G::WIRE..][..G::WIRE];
    let head = |place: u32| u128::from_be_bytes(at(place)[..16].try_into().expect("an element has 16 bytes and more"));
    let n = (wire.len() / G::WIRE) as u32;
    let mut order: Vec<(u128, u32)> = (0..n).map(|place| (head(place), place)).collect();
    order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| at(a.1).cmp(at(b.1))));
    let sorted = order.iter().flat_map(|&(_, place)| at(place)).copied().collect();
    (sorted, order.into_iter().map(|(_, place)| place).collect())
}

/// The place of the first element that is not above the one before it, if any.
fn check_ascending<G: Group>(wire: &[u8]) -> std::result::Result<(), usize> {
    let pairs = wire.chunks_exact(G::WIRE).zip(wire.chunks_exact(G::WIRE).skip(1));
    match pairs.into_iter().position(|(a, b)| a >= b) {
        Some(before) => Err(before + 1),
        None => Ok(()),
    }
}

/// The places of those of `mine` whose tag is among `theirs`, in ascending order of the tag.
fn matches(mut mine: Vec<(u128, u32)>, mut theirs: Vec<u128>) -> Vec<u32> {
    mine.sort_unstable();
    theirs.sort_unstable();
    let mut theirs = theirs.into_iter().peekable();
    let mut found = Vec::new();
    for (tag, place) in mine {
        while theirs.next_if(|&t| t < tag).is_some() {}
        // A tag of theirs stands for one key: a peer that repeats a tag of mine does not make several of my keys match.
        if theirs.next_if_eq(&tag).is_some() {
            found.push(place);
        }
    }
    found
}
