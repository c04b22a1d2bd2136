//! Every message of every protocol, spoiled on its way to an honest party.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex};
use vesica_block::Block;
use vesica_curve::{Blind, Curve25519, FourQ, Group, P256, Ristretto255, Secp256k1, Sm2};
use vesica_oprf::Oprf;
use vesica_oprf::bc22::{self, Bc22};
use vesica_oprf::dh::{self, Dh};
use vesica_oprf::kkrt;
use vesica_oprf::mini::{self, Mini};
use vesica_oprf::ot::{self, Ot};
use vesica_oprf::vole::{self, Field, Shape, Vole};
use vesica_ot::Security;
use vesica_params::bch::{BchSet, NARROW, WIDE};
use vesica_params::{Level, bins, cuckoo, lpn, okvs};
use vesica_psi::ecdh::{self, Ecdh};
use vesica_psi::hash;
use vesica_psi::oprf::{self, Role};
use vesica_session::{Channel, Error, Fault, Lines, Meter, Misbehaviour, Protocol, Result, SessionRng, Unit, memory};
use vesica_testkit::{bob, digests, fixed_rng, two_with};
use vesica_types::{Party, TagLen, UnitId};

/// A protocol with its parameters; Alice is honest and has the role, Bob has the other one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Case {
    protocol: u8,
    /// Whether Alice receives, where there are roles.
    receives: bool,
    /// Whether both learn, where that is a choice.
    both: bool,
    /// Whether there are hundreds of keys and not a few.
    many: bool,
}

/// Protocols that a [`Case`] may name.
const PROTOCOLS: u8 = 22;

impl Case {
    /// Every case.
    pub fn all() -> impl Iterator<Item = Case> {
        (0..8 * PROTOCOLS).map(|n| Self::decode(n / 8, n % 8))
    }

    fn decode(protocol: u8, choices: u8) -> Self {
        let bit = |n: u8| choices >> n & 1 == 1;
        Self { protocol: protocol % PROTOCOLS, receives: bit(0), both: bit(1), many: bit(2) }
    }

    /// The bytes that say so at the beginning of an input.
    pub fn encode(self) -> [u8; 2] {
        [self.protocol, u8::from(self.receives) | u8::from(self.both) << 1 | u8::from(self.many) << 2]
    }

    /// One party's side.
    fn run(self, is_alice: bool, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let role = if self.receives == is_alice { Role::Receiver } else { Role::Sender };
        let (n, m) = if self.many { (300, 310) } else { (6, 9) };
        let (capacity, peer_capacity) = if is_alice { (n, m) } else { (m, n) };
        // About a half in common, and some of the capacity is padding.
        let first = if is_alice { 0 } else { n as u64 / 2 };
        let keys = digests(first, first + capacity as u64 - 2);
        let place = u8::from(!is_alice);
        let unit = Unit { id: UnitId(3), keys, place, capacities: vec![n, m] };
        let received = if role == Role::Receiver { capacity } else { peer_capacity } as u64;
        let side = Side { role, both: self.both, received, unit };
        let fast = || okvs::paxos(received, 1, Level::STANDARD).expect("a small store");
        let low_comm = || okvs::band(&okvs::BAND_3, received, 1, Level::STANDARD).expect("a small store");
        let (honest, malicious) = (Security::SemiHonest, Security::Malicious);
        match self.protocol {
            0 => side.ecdh::<Curve25519>(place, lines, rng),
            1 => side.ecdh::<Ristretto255>(place, lines, rng),
            2 => side.ecdh::<FourQ>(place, lines, rng),
            3 => side.ecdh::<P256>(place, lines, rng),
            4 => side.ecdh::<Sm2>(place, lines, rng),
            5 => side.dh::<Curve25519>(lines, rng),
            6 => side.dh::<Ristretto255>(lines, rng),
            7 => side.dh::<FourQ>(lines, rng),
            8 => side.dh::<Secp256k1>(lines, rng),
            9 => side.kkrt(lines, rng),
            10 => side.rr22::<u64, _>(fast(), honest, lines, rng),
            11 => side.rr22::<Block, _>(fast(), honest, lines, rng),
            12 => side.rr22::<u64, _>(low_comm(), honest, lines, rng),
            13 => side.rr22::<Block, _>(fast(), malicious, lines, rng),
            14 => side.rr22::<Block, _>(low_comm(), malicious, lines, rng),
            15 => side.ot::<2, 3, 12>(&NARROW, honest, lines, rng),
            16 => side.ot::<4, 6, 24>(&WIDE, malicious, lines, rng),
            17 => side.mini(1, lines, rng),
            18 => side.mini(u64::MAX, lines, rng),
            19 => side.bc22(honest, lines, rng),
            20 => side.bc22(malicious, lines, rng),
            _ => side.hash(lines, rng),
        }
    }
}

/// A side of a protocol.
struct Side {
    role: Role,
    both: bool,
    /// The receiver's keys, padded.
    received: u64,
    unit: Unit,
}

const SESSION: [u8; 32] = [9; 32];

impl Side {
    fn ecdh<G: Group>(self, place: u8, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let params = ecdh::Params { session: SESSION, tag_len: tag_len(), place };
        Ecdh::<G>::open(&params, rng).unit(&self.unit, lines, rng)
    }

    /// In the clear: salted hashes.
    fn hash(self, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let i_learn = self.both || self.role == Role::Receiver;
        let peer_learns = self.both || self.role == Role::Sender;
        let params = hash::Params { session: SESSION, tag_len: tag_len(), i_learn, peer_learns };
        hash::Hash::open(params).unit(&self.unit, lines, rng)
    }

    fn dh<G: Blind>(self, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let params = dh::Params { session: SESSION, keys: self.received as usize };
        // A job in which both learn takes ECDH instead.
        Self { both: false, ..self }.psi(&Dh::<G>::new(params), lines, rng)
    }

    fn kkrt(self, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let bins = cuckoo::bins(self.received, 1, Level::STANDARD).expect("a small table");
        self.psi(&kkrt::Narrow::new(kkrt::Params { session: SESSION, bins }), lines, rng)
    }

    fn bc22(self, security: Security, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let bins = bins::bins(self.received, 1, Level::STANDARD).expect("a small table");
        let params = bc22::Params { session: SESSION, bins, code: &lpn::SETS[0], security };
        // Against parties that may deviate only one can learn.
        let both = self.both && security == Security::SemiHonest;
        Self { both, ..self }.psi(&Bc22::new(params), lines, rng)
    }

    fn ot<const K: usize, const W: usize, const R: usize>(
        self,
        code: &'static BchSet,
        security: Security,
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Vec<u32>> {
        let shape = okvs::paxos(self.received, 1, Level::STANDARD).expect("a small store");
        // Against parties that may deviate only one can learn.
        let both = self.both && security == Security::SemiHonest;
        let params = ot::Params { session: SESSION, shape, code, security };
        Self { both, ..self }.psi(&Ot::<K, W, R>::new(params), lines, rng)
    }

    /// For a sender with so many keys that the receiver's are encoded in a polynomial, or in a store.
    fn mini(self, m: u64, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let encoding = vesica_params::mini::encoding(self.received, m, 1, Level::STANDARD).expect("a small set");
        let params = mini::Params { session: SESSION, encoding };
        Self { both: false, ..self }.psi(&Mini::new(params), lines, rng)
    }

    fn rr22<B: Field, S: Shape>(
        self,
        shape: S,
        security: Security,
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Vec<u32>>
    where
        Vole<B, S>: Oprf<Key: 'static>,
    {
        let params = vole::Params { session: SESSION, shape, code: &lpn::SETS[0], security };
        // Against parties that may deviate only one can learn.
        let both = self.both && security == Security::SemiHonest;
        Self { both, ..self }.psi(&Vole::<B, S>::new(params), lines, rng)
    }

    fn psi<O: Oprf<Key: 'static>>(self, oprf: &O, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let params = oprf::Params { tag_len: tag_len(), both: self.both };
        oprf::open(oprf, self.role, params, lines.peer()?, rng)?.unit(&self.unit, lines, rng)
    }
}

fn tag_len() -> TagLen {
    TagLen::new(10).expect("a length of tags")
}

/// What becomes of one of Bob's messages.
#[derive(Clone, Debug)]
pub struct Attack {
    /// The message's number, from 0.
    at: u8,
    kind: u8,
    /// Where in the message, modulo its length.
    place: u16,
    bytes: Vec<u8>,
}

impl Attack {
    /// The attacks that an input says behind its case.
    fn all(mut input: &[u8]) -> Vec<Self> {
        let mut attacks = Vec::new();
        while let Some((&[at, kind, a, b, len], rest)) = input.split_first_chunk() {
            let (bytes, rest) = rest.split_at(rest.len().min(usize::from(len)));
            attacks.push(Self { at, kind, place: u16::from_le_bytes([a, b]), bytes: bytes.to_vec() });
            input = rest;
        }
        attacks
    }

    /// The attack as a part of an input.
    pub fn encode(at: u8, kind: u8, place: u16, bytes: &[u8]) -> Vec<u8> {
        let [a, b] = place.to_le_bytes();
        [&[at, kind, a, b, bytes.len() as u8], bytes].concat()
    }

    /// The messages that are sent instead of `message`, which came after `last`.
    fn spoil(&self, message: Vec<u8>, last: &[u8]) -> Vec<Vec<u8>> {
        let place = usize::from(self.place) % (message.len() + 1);
        let (head, tail) = message.split_at(place);
        let one = match self.kind % 10 {
            0 => [head, &self.bytes, tail.get(self.bytes.len()..).unwrap_or_default()].concat(),
            1 => [head, &self.bytes, tail].concat(),
            2 => head.to_vec(),
            3 => [head, tail.get(self.bytes.len().max(1)..).unwrap_or_default()].concat(),
            4 => self.bytes.clone(),
            5 => head.iter().copied().chain(tail.iter().map(|_| self.bytes.first().copied().unwrap_or(0))).collect(),
            6 => last.to_vec(),
            7 => return Vec::new(),
            8 => return vec![message.clone(), message],
            _ => {
                let mut flipped = message.clone();
                flipped.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= 1 << (self.bytes.len() % 8));
                flipped
            }
        };
        vec![one]
    }
}

/// Bob's mouth: counts his messages and spoils those that an attack names.
struct Spoiler {
    attacks: Vec<Attack>,
    count: usize,
    last: Vec<u8>,
}

impl Spoiler {
    fn new(attacks: Vec<Attack>) -> Self {
        Self { attacks, count: 0, last: Vec::new() }
    }

    fn spoil(&mut self, message: &[u8]) -> Vec<Vec<u8>> {
        let mut out = vec![message.to_vec()];
        for attack in self.attacks.iter().filter(|attack| usize::from(attack.at) == self.count) {
            out = out.into_iter().flat_map(|message| attack.spoil(message, &self.last)).take(4).collect();
        }
        self.count += 1;
        self.last = message.to_vec();
        out
    }
}

/// Runs the case that `input` names, with its attacks. Bob's words are those of an honest run, spoiled; or, where the input
/// says so, Bob is there and goes on from what the spoiled words led to.
///
/// # Panics
/// If Alice ends otherwise than with a result, or with an error that is Bob's fault or the connection's.
pub fn run(input: &[u8]) {
    let Some((&[protocol, choices], attacks)) = input.split_first_chunk() else { return };
    let (case, attacks) = (Case::decode(protocol, choices), Attack::all(attacks));
    let mut spoiler = Spoiler::new(attacks);
    let alice = if choices & 8 == 0 {
        let words = said(case).iter().flat_map(|message| spoiler.spoil(message)).collect();
        let mut lines = Lines::new(vec![Box::new(Script { words, peer: bob() })]);
        case.run(true, &mut lines, &mut fixed_rng(1))
    } else {
        // One message for each of Bob's: where one is missing or there is one more, both could wait for each other for ever,
        // which heartbeats cannot tell from work.
        let spoil = move |message: &[u8]| vec![spoiler.spoil(message).into_iter().next().unwrap_or_default()];
        both(case, spoil).0
    };
    if let Err(error) = alice {
        assert!(matches!(error.fault(), Fault::Peer | Fault::Network), "{case:?}: {error}");
    }
}

/// What Bob says to an honest Alice.
fn said(case: Case) -> Arc<Vec<Vec<u8>>> {
    type Transcripts = HashMap<Case, Arc<Vec<Vec<u8>>>>;
    static SAID: LazyLock<Mutex<Transcripts>> = LazyLock::new(Mutex::default);
    let mut all = SAID.lock().expect("no run panics");
    all.entry(case)
        .or_insert_with(|| {
            let said = Arc::new(Mutex::new(Vec::new()));
            let ear = said.clone();
            let listen = move |message: &[u8]| {
                ear.lock().expect("no run panics").push(message.to_vec());
                vec![message.to_vec()]
            };
            let (a, b) = both(case, listen);
            a.and(b).expect("two honest parties");
            Arc::new(std::mem::take(&mut *said.lock().expect("no run panics")))
        })
        .clone()
}

/// Both sides, where `spoil` says what is sent instead of each of Bob's messages.
fn both(case: Case, spoil: impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> (Result<Vec<u32>>, Result<Vec<u32>>) {
    two_with(
        |lines, rng| case.run(true, lines, rng),
        |lines, rng| case.run(false, lines, rng),
        |inner| Box::new(Mouth { inner, spoil }),
    )
}

/// Bob's end of the pipe, and what is made of the messages that he sends.
struct Mouth<F> {
    inner: memory::Memory,
    spoil: F,
}

impl<F: FnMut(&[u8]) -> Vec<Vec<u8>> + Send> Channel for Mouth<F> {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        (self.spoil)(message).iter().try_for_each(|message| self.inner.send(message))
    }

    fn recv(&mut self, limit: usize) -> Result<Vec<u8>> {
        self.inner.recv(limit)
    }

    fn line(&self, name: &str) -> Result<Box<dyn Channel>> {
        self.inner.line(name)
    }

    fn window(&self) -> usize {
        self.inner.window()
    }

    fn step(&mut self, name: &'static str) {
        self.inner.step(name);
    }

    fn meter(&self) -> Meter {
        self.inner.meter()
    }

    fn peer(&self) -> &Party {
        self.inner.peer()
    }
}

/// A peer that says what is written down, whatever it hears, and is gone at the end.
struct Script {
    words: VecDeque<Vec<u8>>,
    peer: Party,
}

impl Channel for Script {
    fn send(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn recv(&mut self, limit: usize) -> Result<Vec<u8>> {
        match self.words.pop_front() {
            Some(words) if words.len() > limit => {
                Err(self.accuse(Misbehaviour::TooLong { got: words.len() as u64, limit: limit as u64 }))
            }
            Some(words) => Ok(words),
            None => Err(Error::Net { peer: self.peer.clone(), why: "the script ends here".into() }),
        }
    }

    fn line(&self, name: &str) -> Result<Box<dyn Channel>> {
        Err(Error::Bug(format!("line {name:?} was opened within a unit")))
    }

    fn window(&self) -> usize {
        64 << 20
    }

    fn step(&mut self, _: &'static str) {}

    fn meter(&self) -> Meter {
        Meter::default()
    }

    fn peer(&self) -> &Party {
        &self.peer
    }
}
