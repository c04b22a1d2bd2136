//! A party's side of every protocol, for one unit, opening included: what the tests of the protocols run.

#![allow(dead_code, reason = "a file of tests takes what it needs")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use vesica_curve::{Blind, Group};
use vesica_oprf::Oprf;
use vesica_oprf::bc22::{self, Bc22};
use vesica_oprf::dh::{self, Dh};
use vesica_oprf::ecdh_oprf::{self, EcdhOprf};
use vesica_oprf::kkrt::{self, Kkrt};
use vesica_oprf::mini::{self, Mini};
use vesica_oprf::ot::{self, Ot};
use vesica_oprf::rfc9497::Suite;
use vesica_oprf::vole::{Field, Params, Shape, Vole, VoleReceiver, VoleSender};
use vesica_ot::Security;
use vesica_params::bch::{BchSet, NARROW, WIDE};
use vesica_params::okvs::{BandShape, PaxosShape};
use vesica_params::{Level, bins, cuckoo, lpn, okvs};
use vesica_psi::circuit::{self, Circuit, Groups, Products, Total};
use vesica_psi::count::{self, Count};
use vesica_psi::dp::{self, Dp, Hide};
use vesica_psi::ecdh::{self, Ecdh};
use vesica_psi::ecdh3::{self, Ecdh3};
use vesica_psi::hash::{self, Hash};
use vesica_psi::ids::{self, Ids};
use vesica_psi::noise::Draws;
use vesica_psi::oprf::{self, Role};
use vesica_psi::{kmprt17, many, nty21, tally};
use vesica_session::memory::Memories;
use vesica_session::{
    Found, LISTS, Label, Lines, List, Protocol, Result, Room, SessionRng, Shared, Shares, Sorted, Sorter, Unit, Values,
    Whole,
};
use vesica_types::{Digest, TagLen, UnitId};

/// Groups of one party, whose own numbers are added up.
pub const GROUPS: Groups =
    Groups { most: 6, sums: 2, of_other: 0, products: Products::NONE, least: 3, of_a_key: 6, labels: true, of_s: None };

/// The salt that the parties tossed.
pub const SESSION: [u8; 32] = [9; 32];

/// A party of a protocol from an OPRF.
#[derive(Clone)]
pub struct Side {
    pub role: Role,
    pub keys: Vec<Digest>,
    /// What this side pads its keys to, and what the peer does.
    pub capacities: (usize, usize),
    pub both: bool,
    pub tag_len: TagLen,
}

/// An OPRF for this many keys of the receiver's.
pub trait Choose<O>: Fn(usize) -> O + Copy + Send + Sync {}

impl<O, F: Fn(usize) -> O + Copy + Send + Sync> Choose<O> for F {}

impl Side {
    /// A side with these keys, padded to the first of the capacities; the peer pads its keys to the second.
    pub fn new(role: Role, keys: Vec<Digest>, capacities: (usize, usize), both: bool) -> Self {
        Self { role, keys, capacities, both, tag_len: TagLen::new(10).unwrap() }
    }

    /// What this side finds.
    pub fn run<O: Oprf<Key: 'static>>(
        self,
        choose: impl Choose<O>,
    ) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<Vec<u32>> {
        move |lines, rng| {
            let n = if self.role == Role::Receiver { self.capacities.0 } else { self.capacities.1 };
            self.by(&choose(n), lines, rng)
        }
    }

    /// What this side finds by a function.
    pub fn by<O: Oprf<Key: 'static>>(&self, oprf: &O, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let params = oprf::Params { tag_len: self.tag_len, both: self.both };
        let unit = unit(self.keys.clone(), self.capacities, lines);
        oprf::open(oprf, self.role, params, lines.peer()?, rng)?.unit(&unit, lines, rng)
    }
}

/// The only unit of a job, of the party that has these `lines`: what it pads its keys to, and what the peer does.
pub fn unit(keys: Vec<Digest>, (mine, theirs): (usize, usize), lines: &mut Lines) -> Unit {
    let place = 1 - lines.peer().expect("two parties").peer().place();
    let capacities = if place == 0 { vec![mine, theirs] } else { vec![theirs, mine] };
    Unit { id: UnitId(0), keys, place, capacities }
}

/// RR22 over the base field `B`, with stores of a shape for the receiver's keys.
pub fn rr22<B: Field, S: Shape>(security: Security, shape: fn(u64) -> S) -> impl Choose<Vole<B, S>> {
    move |n| Vole::new(Params { session: SESSION, shape: shape(n as u64), code: &lpn::SETS[0], security })
}

/// The stores of RR22's fast mode.
pub fn paxos(n: u64) -> PaxosShape {
    okvs::paxos(n, 1, Level::STANDARD).unwrap()
}

/// The stores of RR22's low-communication mode.
pub fn band(n: u64) -> BandShape {
    okvs::band(&okvs::BAND_3, n, 1, Level::STANDARD).unwrap()
}

/// KKRT with codewords of W words.
pub fn kkrt<const W: usize, const R: usize>() -> impl Choose<Kkrt<W, R>> {
    |n| {
        let bins = cuckoo::bins(n as u64, 1, Level::STANDARD).unwrap();
        Kkrt::new(kkrt::Params { session: SESSION, bins })
    }
}

/// The function from transfers for digests, words and rows of so many words, which are those of `code`.
pub fn ot<const K: usize, const W: usize, const R: usize>(
    code: &'static BchSet,
    security: Security,
) -> impl Choose<Ot<K, W, R>> {
    move |n| Ot::new(ot::Params { session: SESSION, shape: paxos(n as u64), code, security })
}

/// The function from transfers with short digests.
pub fn ot_narrow() -> impl Choose<ot::Narrow> {
    ot(&NARROW, Security::SemiHonest)
}

/// The function from transfers with long digests.
pub fn ot_wide(security: Security) -> impl Choose<ot::Wide> {
    ot(&WIDE, security)
}

/// PCG-PSI's function.
pub fn bc22(security: Security) -> impl Choose<Bc22> {
    move |n| {
        let bins = bins::bins(n as u64, 1, Level::STANDARD).unwrap();
        Bc22::new(bc22::Params { session: SESSION, bins, code: &lpn::SETS[0], security })
    }
}

/// Mini-PSI's function for a sender with `m` keys, which decide with the receiver's how these are encoded.
pub fn mini(m: u64) -> impl Choose<Mini> {
    move |n| {
        let encoding = vesica_params::mini::encoding(n as u64, m, 1, Level::STANDARD).unwrap();
        Mini::new(mini::Params { session: SESSION, encoding })
    }
}

/// For Mini-PSI: so many keys of the sender's that a store takes the receiver's, however few.
pub const STORED: u64 = u64::MAX;

/// Diffie-Hellman's function in the group `G`.
pub fn dh<G: Blind>() -> impl Choose<Dh<G>> {
    |keys| Dh::new(dh::Params { session: SESSION, keys })
}

/// RFC 9497's function in the group `G`.
pub fn ecdh_oprf<G: Suite>() -> impl Choose<EcdhOprf<G>> {
    |keys| EcdhOprf::new(ecdh_oprf::Params { session: SESSION, keys })
}

/// A side of ECDH in the group `G`, where both learn.
pub fn ecdh<G: Group>(
    keys: Vec<Digest>,
    capacities: (usize, usize),
) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<Vec<u32>> {
    move |lines, rng| {
        let params = ecdh_params(1 - lines.peer()?.peer().place());
        Ecdh::<G>::open(&params, rng).unit(&unit(keys, capacities, lines), lines, rng)
    }
}

/// A side of the salted hashes, where these parties learn: this one, the peer.
pub fn hash(
    keys: Vec<Digest>,
    capacities: (usize, usize),
    (i_learn, peer_learns): (bool, bool),
) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<Vec<u32>> {
    move |lines, rng| {
        let params = hash::Params { session: SESSION, tag_len: TagLen::new(10).unwrap(), i_learn, peer_learns };
        Hash::open(params).unit(&unit(keys, capacities, lines), lines, rng)
    }
}

/// What the party at `place` agreed on for ECDH.
pub fn ecdh_params(place: u8) -> ecdh::Params {
    ecdh::Params { session: SESSION, tag_len: TagLen::new(10).unwrap(), place }
}

/// Items of a message of the protocols over a whole job: so few that small lists take several messages.
pub const FRAME: usize = 8;

/// What a side of a protocol over a whole job finds with these keys, on three threads. It says of as many elements that they were
/// worked on as it announced.
pub fn whole(side: impl Whole + 'static, keys: Vec<Digest>, lines: &mut Lines, rng: &mut SessionRng) -> Result<Found> {
    let (elements, done) = (side.elements(), AtomicU64::new(0));
    let advance = |n| {
        done.fetch_add(n, Ordering::Relaxed);
    };
    let room = Counting::default();
    let list = List { keys: &keys, room: &room, threads: 3, advance: &advance, same: &|_| Ok(true) };
    let found = Box::new(side).whole(&list, lines, rng)?;
    assert_eq!(done.into_inner(), elements);
    assert!(room.most.into_inner() <= LISTS, "more lists at once than a job has memory for");
    Ok(found)
}

/// Room that counts the lists in it.
#[derive(Default)]
struct Counting {
    now: Arc<AtomicUsize>,
    most: AtomicUsize,
}

impl Room for Counting {
    fn sorter(&self, bytes: usize, records: u64) -> Result<Box<dyn Sorter>> {
        self.most.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        Ok(Box::new(Counted { list: Memories.sorter(bytes, records)?, one: One(self.now.clone()) }))
    }
}

/// A list that is counted until it is dropped.
struct Counted<T> {
    list: T,
    one: One,
}

/// One list of so many.
struct One(Arc<AtomicUsize>);

impl Drop for One {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Sorter for Counted<Box<dyn Sorter>> {
    fn push(&mut self, record: &[u8]) -> Result<()> {
        self.list.push(record)
    }

    fn sorted(self: Box<Self>) -> Result<Box<dyn Sorted>> {
        let Counted { list, one } = *self;
        Ok(Box::new(Counted { list: list.sorted()?, one }))
    }
}

impl Sorted for Counted<Box<dyn Sorted>> {
    fn records(&self) -> u64 {
        self.list.records()
    }

    fn blocks(&self) -> Box<dyn Iterator<Item = Result<Vec<u8>>> + Send + '_> {
        self.list.blocks()
    }
}

/// A side of the count in the group `G`, of lists of these lengths, where these parties learn: this one, the peer.
pub fn count<G: Group>(
    keys: Vec<Digest>,
    (n, m): (usize, usize),
    (i_learn, peer_learns): (bool, bool),
) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<Option<u64>> {
    move |lines, rng| {
        let (keys_here, peers_keys) = (n as u64, m as u64);
        let tag_len = TagLen::new(10).unwrap();
        let params = count::Params {
            session: SESSION,
            tag_len,
            keys: keys_here,
            peers_keys,
            i_learn,
            peer_learns,
            frame: FRAME,
        };
        Ok(match whole(Count::<G>::open(params), keys, lines, rng)? {
            Found::Count(n) => Some(n),
            Found::Nothing => None,
            _ => panic!("a count names no keys and adds up no values"),
        })
    }
}

/// Weights of Z for a pool of six, in proportions that are easily told apart.
pub const POOL: [u128; 7] = [1, 2, 4, 8, 4, 2, 1];

/// A side of differentially private intersection in the group `G`, of lists of these lengths: with untrue answers of this probability, in
/// 2^128ths, and counts hidden in this way.
pub fn dp<G: Group>(
    keys: Vec<Digest>,
    (n, m): (usize, usize),
    i_learn: bool,
    flip: u128,
    hide: Hide,
) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<Option<Vec<u64>>> {
    move |lines, rng| {
        let (mine, peers_keys, tag_len) = (n as u64, m as u64, TagLen::new(10).unwrap());
        let params =
            dp::Params { session: SESSION, tag_len, keys: mine, peers_keys, i_learn, flip, hide, frame: FRAME };
        Ok(places(whole(Dp::<G>::open(params), keys, lines, rng)?))
    }
}

/// Places that were found; none if this party does not learn.
fn places(found: Found) -> Option<Vec<u64>> {
    match found {
        Found::Places(places) => {
            let bytes = places.blocks().map(Result::unwrap).collect::<Vec<_>>().concat();
            Some(bytes.chunks(8).map(|place| u64::from_be_bytes(place.try_into().unwrap())).collect())
        }
        Found::Nothing => None,
        Found::Count(_) | Found::Sum(_) | Found::Groups(_) | Found::TooFew => panic!("it finds which keys are common"),
    }
}

/// A side of ECDH for three in the group `G`, where one party learns or all do.
pub fn ecdh3<G: Group>(
    keys: &[Vec<Digest>; 3],
    learner: Option<u8>,
    place: u8,
    lines: &mut Lines,
    rng: &mut SessionRng,
) -> Result<Option<Vec<u64>>> {
    let (mine, tag_len) = (keys[usize::from(place)].clone(), TagLen::new(10).unwrap());
    let keys = keys.each_ref().map(|keys| keys.len() as u64);
    let params = ecdh3::Params { session: SESSION, tag_len, keys, place, learner, frame: FRAME };
    Ok(places(whole(Ecdh3::<G>::open(params), mine, lines, rng)?))
}

/// A job of three and more parties by RR22's function.
#[derive(Clone, Debug)]
pub struct Many {
    /// The parties' keys, by place.
    pub keys: Vec<Vec<Digest>>,
    /// What each pads them to.
    pub capacities: Vec<usize>,
    /// The pivot of the star; against any coalition where there is none.
    pub pivot: Option<u8>,
    /// The places of those that learn. The first of them leads.
    pub learners: Vec<u8>,
}

impl Many {
    /// A job with a few dummies, others for each party.
    pub fn new(keys: &[Vec<Digest>], pivot: Option<u8>, learners: &[u8]) -> Self {
        let capacities = keys.iter().zip(2..).map(|(keys, more)| keys.len() + more).collect();
        Self { keys: keys.to_vec(), capacities, pivot, learners: learners.to_vec() }
    }

    /// What the party at `place` finds in the only unit, with stores of these shapes over the base field `B`.
    pub fn side<B: Field + 'static, S: Shape + 'static>(
        &self,
        shape: fn(u64) -> S,
        place: u8,
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Vec<u32>> {
        let leader = self.learners[0];
        let function = rr22::<B, S>(Security::SemiHonest, shape)(self.capacities[usize::from(leader)]);
        self.by(&function, shape, place, lines, rng)
    }

    /// The same by this function.
    pub fn by<O: Oprf<Key: 'static>, S: Shape + 'static>(
        &self,
        function: &O,
        shape: fn(u64) -> S,
        place: u8,
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Vec<u32>> {
        self.open(function, shape, place, lines, rng)?.unit(&self.unit(0, place), lines, rng)
    }

    /// The side of the party at `place`, opened.
    pub fn open<O: Oprf<Key: 'static>, S: Shape + 'static>(
        &self,
        function: &O,
        shape: fn(u64) -> S,
        place: u8,
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Box<dyn Protocol>> {
        let params = self.params(shape, place);
        match self.pivot {
            Some(pivot) => nty21::open(function, pivot, params, lines, rng),
            None => kmprt17::open(function, params, lines, rng),
        }
    }

    /// What the parties agreed on.
    fn params<S>(&self, shape: fn(u64) -> S, place: u8) -> many::Params<S> {
        let leader = self.learners[0];
        let others = (0..).zip(&self.capacities).filter(|&(place, _)| place != leader && Some(place) != self.pivot);
        let clients = others.map(|(_, &capacity)| capacity).max().unwrap();
        many::Params {
            session: SESSION,
            tag_len: TagLen::new(10).unwrap(),
            shape: shape(clients as u64),
            slot_bytes: 7,
            parties: self.keys.len() as u8,
            place,
            leader,
            learners: self.learners.clone(),
        }
    }

    /// The side of the party at `place` of a total, opened: over the base field `B`.
    pub fn open_tally<B: Field + 'static>(
        &self,
        total: Total,
        least: Option<u64>,
        place: u8,
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Box<dyn Shared>> {
        let (leader, pivot) = (self.learners[0], self.pivot.expect("a total takes a pivot"));
        let of = |place: u8| self.capacities[usize::from(place)];
        let asks =
            Asks { total, puts: place == leader, learns: (self.learners.contains(&place), false), least, noise: None };
        let two = if asks.puts { (of(leader), of(pivot)) } else { (of(pivot), of(leader)) };
        let circuit = circuit_params(two, asks);
        tally::open::<B, _>(circuit, pivot, self.params(paxos, place), lines, rng)
    }

    /// What the party at `place` is told of so many units, each of which has all keys, in words.
    pub fn tally<B: Field + 'static>(
        &self,
        asks: (Total, Option<u64>, u32),
        place: u8,
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<String> {
        self.total::<B>(asks, place, lines, rng).map(told)
    }

    /// The same.
    pub fn total<B: Field + 'static>(
        &self,
        (total, least, units): (Total, Option<u64>, u32),
        place: u8,
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Found> {
        let side = self.open_tally::<B>(total, least, place, lines, rng)?;
        let mut shares = Vec::new();
        for id in 0..units {
            let unit = self.unit(id, place);
            let has_values = total == Total::Sum && place == self.learners[0];
            let values = if has_values { values(&unit.keys, total, true) } else { Values::default() };
            shares.push(side.unit(&unit, &values, lines, rng)?);
        }
        side.open(&shares, [&[], &[]], lines, rng)
    }

    /// The unit with this number, of the party at `place`: every unit has all keys.
    pub fn unit(&self, id: u32, place: u8) -> Unit {
        let keys = self.keys[usize::from(place)].clone();
        Unit { id: UnitId(id), keys, place, capacities: self.capacities.clone() }
    }
}

/// What a job of the circuit asks for, from one party's side.
#[derive(Clone, Copy)]
pub struct Asks {
    pub total: Total,
    /// Whether this party puts its keys into bins, and has the values.
    pub puts: bool,
    pub learns: (bool, bool),
    pub least: Option<u64>,
    /// What this party adds to its share of each number, and the other one to its own.
    pub noise: Option<[&'static [u64]; 2]>,
}

impl Asks {
    /// The other party's side of it.
    pub fn other(self) -> Self {
        let noise = self.noise.map(|[mine, theirs]| [theirs, mine]);
        Self { puts: !self.puts, learns: (self.learns.1, self.learns.0), noise, ..self }
    }
}

/// The value of a key: of either sign, and sometimes large.
pub fn value(key: &Digest) -> i64 {
    i64::from_le_bytes(*key.0.first_chunk().unwrap()) >> (8 + key.0[9] % 50)
}

/// The groups that a key is in, and its numbers there: one to three groups, and sometimes none.
pub fn groups(key: &Digest, groups: Groups) -> Vec<(u32, Vec<i64>)> {
    let (many, first) = (u32::from(key.0[10] % 4).min(groups.of_a_key), u32::from(key.0[11]));
    let number = |group: u32, which: u32| {
        let number = value(key).rotate_left(3 * group + which) >> (20 + which);
        // No longer than its products allow.
        let bits = groups.products.each().iter().filter(|product| u32::from(product.of_r) == which);
        bits.fold(number, |number, product| number << (64 - product.bits) >> (64 - product.bits))
    };
    let of = |i| {
        let group = (first + 5 * i) % groups.most;
        (group, (0..groups.widths()[0]).map(|which| number(group, which)).collect())
    };
    let mut all: Vec<(u32, Vec<i64>)> = (0..many).map(of).collect();
    all.sort();
    all.dedup_by_key(|(group, _)| *group);
    all
}

/// The numbers that a key of the party without the groups has, in whatever groups it is.
pub fn others(key: &Digest, groups: Groups) -> Vec<i64> {
    (0..groups.widths()[1]).map(|which| value(key).rotate_left(11 + 5 * which) >> (18 + which)).collect()
}

/// The groups of S's that a key of it is in, if S has groups: none to two, or one if its numbers are added up.
pub fn groups_of_s(key: &Digest, groups: Groups) -> Vec<u32> {
    let (many, first) = (u32::from(key.0[12] % 3), u32::from(key.0[13]));
    let many = if groups.widths()[1] > 0 { 1 } else { many };
    let mut all: Vec<u32> = (0..many).map(|i| (first + 3 * i) % groups.most_of_s()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// What a key adds to the sums of a group in which it has these numbers.
pub fn added(key: &Digest, numbers: &[i64], groups: Groups) -> Vec<i64> {
    let (others, products) = (others(key, groups), groups.products);
    let of_r = &numbers[..numbers.len() - products.untold()[0] as usize];
    let of_s = &others[..others.len() - products.untold()[1] as usize];
    let times = products.each().iter().map(|product| {
        let [v, w] = [numbers[usize::from(product.of_r)], others[usize::from(product.of_s)]];
        v.wrapping_mul(w)
    });
    of_r.iter().chain(of_s).copied().chain(times).collect()
}

/// What R's groups are called (0), or S's (1).
pub fn labels(groups: Groups, of: usize) -> Vec<Label> {
    (0..[groups.most, groups.most_of_s()][of])
        .map(|group| std::array::from_fn(|byte| (group as usize * 7 + byte) as u8))
        .collect()
}

/// What these keys bring to a total, as those of the party that puts its keys into bins or of the other one.
pub fn values(keys: &[Digest], total: Total, puts: bool) -> Values {
    let Total::Groups(of) = total else {
        return keys.iter().map(|key| value(key) as u64).collect::<Vec<_>>().into();
    };
    let (mut entries, mut numbers) = (Vec::new(), Vec::new());
    for (place, key) in (0..).zip(keys) {
        let of_s = || match of.of_s {
            None => vec![(0, others(key, of))],
            Some(_) => groups_of_s(key, of).into_iter().map(|group| (group, others(key, of))).collect(),
        };
        for (group, of_key) in if puts { groups(key, of) } else { of_s() } {
            entries.push((place, group));
            numbers.extend(of_key.into_iter().map(|number| number as u64));
        }
    }
    let width = of.widths()[usize::from(!puts)];
    Values::new(width as usize, entries, numbers).expect("they are in order")
}

/// Bits of a target in these tests.
pub const TARGET: u32 = 57;

/// A party's side of the circuit, opened, for keys padded to this size and the peer's padded to the other.
pub fn open_circuit<B: Field>(
    capacities: (usize, usize),
    asks: Asks,
    lines: &mut Lines,
    rng: &mut SessionRng,
) -> Result<Circuit<B>> {
    Circuit::open(circuit_params(capacities, asks), lines.peer()?, rng)
}

/// Its parameters.
pub fn circuit_params((mine, theirs): (usize, usize), asks: Asks) -> circuit::Params {
    let (n, m) = if asks.puts { (mine, theirs) } else { (theirs, mine) };
    let opprf = vesica_oprf::opprf::Params {
        session: SESSION,
        bins: cuckoo::bins(n as u64, 1, Level::STANDARD).unwrap(),
        shape: okvs::paxos(3 * m as u64, 1, Level::STANDARD).unwrap(),
        bits: TARGET,
        code: &lpn::SETS[0],
    };
    circuit::Params {
        opprf,
        puts: asks.puts,
        values: asks.total != Total::Count,
        total: asks.total,
        least: asks.least,
        i_learn: asks.learns.0,
        peer_learns: asks.learns.1,
        // The keys of all units.
        fewer: 1000,
        noise: asks.noise.map(|[mine, _]| Draws::new(mine.len(), mine.iter().copied())),
    }
}

/// A party's shares of unit number `id` of these keys.
pub fn share<B: Field>(
    side: &Circuit<B>,
    id: u32,
    keys: Vec<Digest>,
    capacities: (usize, usize),
    asks: Asks,
    lines: &mut Lines,
    rng: &mut SessionRng,
) -> Result<Shares> {
    let unit = Unit { id: UnitId(id), ..unit(keys, capacities, lines) };
    let values = values(&unit.keys, asks.total, asks.puts);
    side.unit(&unit, &values, lines, rng)
}

/// What the shares of all units come to.
pub fn open<B: Field>(
    side: &Circuit<B>,
    asks: Asks,
    shares: &[Shares],
    lines: &mut Lines,
    rng: &mut SessionRng,
) -> Result<Found> {
    let labels = match asks.total {
        Total::Groups(groups) => {
            let under_keys = [groups.labels, groups.of_s.is_some_and(|of_s| of_s.labels)];
            [0, 1].map(|of| if asks.puts == (of == 0) || !under_keys[of] { labels(groups, of) } else { Vec::new() })
        }
        _ => Default::default(),
    };
    side.open(shares, labels.each_ref().map(|labels| &labels[..]), lines, rng)
}

/// A party's side of a job of one unit: what it finds, in words.
pub fn circuit<B: Field>(
    keys: Vec<Digest>,
    capacities: (usize, usize),
    asks: Asks,
) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<String> {
    move |lines, rng| {
        let side = open_circuit::<B>(capacities, asks, lines, rng)?;
        let shares = share(&side, 0, keys, capacities, asks, lines, rng)?;
        Ok(told(open(&side, asks, &[shares], lines, rng)?))
    }
}

/// A group, in words: which it is by its number, and by its label or labels.
fn group(group: &vesica_session::Group) -> String {
    // 183 is the inverse of 7 modulo 256: there are no more groups in these tests.
    let called = |label: &Label| {
        let called = label[0].wrapping_mul(183);
        let whole = (0..label.len()).all(|byte| label[byte] == (called as usize * 7 + byte) as u8);
        if whole { format!(" ({called})") } else { " (no label)".to_owned() }
    };
    let labels = called(&group.label) + &group.other.as_ref().map(called).unwrap_or_default();
    format!("{}{labels}: {} keys, {:?}", group.number, group.keys, group.sums)
}

/// A party's side of ids by RR22, of the run that `session` names.
pub type IdsSide<B, S> = Ids<VoleSender<B, S>, VoleReceiver<B, S>>;

/// The same, opened, for keys padded to this size and the peer's padded to the other.
pub fn open_ids<B: Field + 'static, S: Shape + 'static>(
    session: [u8; 32],
    (mine, theirs): (usize, usize),
    shape: fn(u64) -> S,
    lines: &mut Lines,
    rng: &mut SessionRng,
) -> Result<IdsSide<B, S>> {
    let ch = lines.peer()?;
    let place = 1 - ch.peer().place();
    let held_by = |holder: u8, keys: usize| {
        let (session, shape) = (ids::of_holder(&session, holder), shape(keys as u64));
        Vole::<B, S>::new(Params { session, shape, code: &lpn::SETS[0], security: Security::SemiHonest })
    };
    // The store of a function has the keys of the party that asks.
    let (mine, theirs) = (held_by(place, theirs), held_by(1 - place, mine));
    Ids::open(ids::Params { session, place }, [&mine, &theirs], ch, rng)
}

/// A party's side of a job of one unit: the ids of its keys.
pub fn ids<B: Field + 'static, S: Shape + 'static>(
    keys: Vec<Digest>,
    capacities: (usize, usize),
    shape: fn(u64) -> S,
) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<Vec<[u8; 16]>> {
    move |lines, rng| {
        let side = open_ids::<B, S>(SESSION, capacities, shape, lines, rng)?;
        let unit = unit(keys, capacities, lines);
        let shares = side.unit(&unit, &Values::default(), lines, rng)?;
        assert_eq!(told(side.open(std::slice::from_ref(&shares), [&[], &[]], lines, rng)?), "");
        Ok(shares.ids)
    }
}

/// What was found, in words.
pub fn told(found: Found) -> String {
    match found {
        Found::Nothing => String::new(),
        Found::Count(keys) => format!("{keys} keys"),
        Found::Sum(sum) => format!("a sum of {sum}"),
        Found::TooFew => "too few".to_owned(),
        Found::Groups(groups) => groups.iter().map(group).collect::<Vec<_>>().join("; "),
        Found::Places(_) => panic!("a circuit names no keys"),
    }
}
