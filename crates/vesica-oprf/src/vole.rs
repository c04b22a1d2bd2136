//! OPRF from vector OLE and an oblivious key-value store.
//!
//! [RR22] Raghuraman, Rindal, "Blazing fast PSI from improved OKVS and subfield VOLE", CCS 2022, eprint 2022/320, Figure 11,
//! steps 1-3; malicious as in [RS21] Rindal, Schoppmann, "VOLE-PSI", EUROCRYPT 2021, eprint 2021/266, Figure 4.
//!
//!   B ⊆ F   base field, and GF(2^128)     `B: Field`, Block     P   store of { (x, H_B(x)) }            p
//!   A', C   the receiver's VOLE           a, c                  Δ, B⃗   the sender's                     delta, k
//!   K       B⃗ + A·Δ                       key.k                 w   offset tossed by both               w
//!
//! 1. R: r at random;  P := store of { (x, H_B(x)) } under the seed r.   (Malicious: S -> R: a commitment to w_S.)
//! 2. VOLE of P's length: S gets Δ, B⃗, R gets A', C with C = A'·Δ + B⃗.
//! 3. R -> S: r, A := P + A' (and w_R).   (Malicious: S -> R: w_S.)   S: K := B⃗ + A·Δ = C + P·Δ.
//! 4. F(y) = H_o(Decode(K, y) + Δ·H_B(y) + w, y) for S;  F(x) = H_o(Decode(C, x) + w, x) for R. w = w_S + w_R, or 0.
//! Why they agree: Decode is linear, so Decode(K, y) = Decode(C, y) + Δ·Decode(P, y), and Decode(P, x) = H_B(x).
//!
//! The sender sees A, which A' pads. The receiver knows F at a y that is not its own if Decode(P, y) happens to be H_B(y),
//! once in |B| for each y: so |B| >= 2^σ·m for the m keys of the whole job (`vesica_params::vole_base_bits`). A receiver that
//! deviates fits P to more keys than it declared: docs/src/protocols/rr22.md counts how many, and says what is not proven.
//! Rounds: VOLE + 1/2 (malicious: + 1).   Bytes: VOLE(|P|) + |P|·|B|.
//! Differs from the papers: H_B and H_o are keyed by the run and the unit; H_o takes the key too in both modes.

use std::marker::PhantomData;
use vesica_block::hash::Permutation;
use vesica_block::prg::Prg;
use vesica_block::{Block, gf64, gf128};
use vesica_okvs::{Band, Okvs, Paxos, Value};
use vesica_ot::vole::Shares;
use vesica_ot::{Judge, Security, softspoken};
use vesica_params::lpn::CodeSet;
use vesica_params::okvs::{BandShape, PaxosShape};
use vesica_session::{Channel, Error, Misbehaviour, Result, SessionRng};
use vesica_types::{Digest, UnitId};
use zeroize::Zeroizing;

use crate::outer::Outer;
use crate::{Oprf, Prf, Receiver, Sender};

/// What both parties agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Params<S> {
    /// Names the run: the parties' jointly tossed salt.
    pub session: [u8; 32],
    /// The shape of a unit's store, for the receiver's keys of a unit.
    pub shape: S,
    /// The code of the VOLE.
    pub code: &'static CodeSet,
    /// Against whom.
    pub security: Security,
}

/// The function for keys in stores of shape `S` over the base field `B`.
#[derive(Clone, Debug)]
pub struct Vole<B, S> {
    params: Params<S>,
    judge: Judge,
    field: PhantomData<B>,
}

/// The sender's side.
pub struct VoleSender<B, S> {
    vole: Vole<B, S>,
    base: softspoken::Sender,
}

/// The receiver's side.
pub struct VoleReceiver<B, S> {
    vole: Vole<B, S>,
    base: softspoken::Receiver,
}

/// A unit's key; what is secret of it is wiped when it is dropped.
pub struct VoleKey<B, O> {
    okvs: O,
    hashes: Hashes,
    delta: Zeroizing<Block>,
    k: Zeroizing<Vec<Block>>,
    w: Block,
    field: PhantomData<B>,
}

/// A base field, and how its elements travel.
pub trait Field: Shares + Value {
    /// acc[i] ← acc[i] + a[i]·k.
    fn mul_add(acc: &mut [Block], a: &[Self], k: Block);
    /// Appends the elements' bytes.
    fn pack(elements: &[Self], wire: &mut Vec<u8>);
    /// The elements of as many bytes as they take.
    fn unpack(wire: &[u8]) -> Vec<Self>;
}

/// The shape of a store, which a seed completes.
pub trait Shape: Copy + Send + Sync {
    /// The store.
    type Okvs: Okvs;
    /// Its slots.
    fn slots(&self) -> usize;
    /// With this seed.
    fn seeded(self, seed: Block) -> Self::Okvs;
}

/// Slots that are packed and unpacked together: they stay in the first-level cache.
const TOGETHER: usize = 1024;

/// Seeds that the receiver tries before it gives up: a store fails with probability 2^-40 a job at most.
const TRIES: usize = 3;

impl<B: Field, S: Shape> Vole<B, S> {
    /// The function with these parameters.
    pub fn new(params: Params<S>) -> Self {
        Self { params, judge: Judge::default(), field: PhantomData }
    }

    /// The same, as one of the bases of a run whose checks `judge` ends.
    pub fn judged(self, judge: &Judge) -> Self {
        Self { judge: judge.clone(), ..self }
    }

    fn malicious(&self) -> bool {
        self.params.security == Security::Malicious
    }

    fn hashes(&self, unit: UnitId) -> Hashes {
        Hashes::new(&self.params.session, unit, self.params.security)
    }

    /// Bytes of the receiver's message of step 3.
    fn message(&self) -> usize {
        Block::BYTES * (1 + usize::from(self.malicious())) + self.params.shape.slots() * B::BITS / 8
    }
}

impl<B: Field + 'static, S: Shape + 'static> Oprf for Vole<B, S> {
    type Key = VoleKey<B, S::Okvs>;
    type Sender = VoleSender<B, S>;
    type Receiver = VoleReceiver<B, S>;

    fn sender(&self, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self::Sender> {
        let params = &self.params;
        let base =
            softspoken::Sender::open((params.security, &self.judge), softspoken::FOLD, &params.session, ch, rng)?;
        Ok(VoleSender { vole: self.clone(), base })
    }

    fn receiver(&self, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self::Receiver> {
        let params = &self.params;
        let base =
            softspoken::Receiver::open((params.security, &self.judge), softspoken::FOLD, &params.session, ch, rng)?;
        Ok(VoleReceiver { vole: self.clone(), base })
    }
}

impl<B: Field, S: Shape> Sender for VoleSender<B, S> {
    type Key = VoleKey<B, S::Okvs>;

    fn send(&self, unit: UnitId, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self::Key> {
        let Self { vole, base } = self;
        let (slots, hashes) = (vole.params.shape.slots(), vole.hashes(unit));
        ch.step("vole");
        // 1. -> commitment to w_S
        let opening: [u8; 48] = rng.bytes();
        if vole.malicious() {
            ch.send(&hashes.commitment(&opening))?;
        }
        // 2. B⃗
        let (code, session) = (vole.params.code, &vole.params.session);
        let mut k = vesica_ot::vole::send::<B>(base, session, unit, code, slots, ch, rng)?;
        // 3. <- r, A (and w_R);  -> w_S;  K := B⃗ + A·Δ
        ch.step("store");
        let wire = ch.recv_exact(vole.message())?;
        let (r, rest) = split_block(&wire);
        let (w, a) = if vole.malicious() {
            let (theirs, rest) = split_block(rest);
            ch.send(&opening)?;
            (split_block(&opening).0 ^ theirs, rest)
        } else {
            (Block::ZERO, rest)
        };
        let delta = Zeroizing::new(base.delta());
        for (k, a) in k.chunks_mut(TOGETHER).zip(a.chunks(TOGETHER * B::BITS / 8)) {
            B::mul_add(k, &B::unpack(a), *delta);
        }
        let okvs = vole.params.shape.seeded(r);
        Ok(VoleKey { okvs, hashes, delta, k, w, field: PhantomData })
    }
}

impl<B: Field, S: Shape> Receiver for VoleReceiver<B, S> {
    fn receive(&self, unit: UnitId, xs: &[Digest], ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<Block>> {
        let Self { vole, base } = self;
        let (slots, hashes) = (vole.params.shape.slots(), vole.hashes(unit));
        ch.step("vole");
        // 1. <- commitment to w_S
        let commitment = if vole.malicious() { ch.recv_exact(32)? } else { Vec::new() };
        // 2. A', C
        let (a, c) = vesica_ot::vole::receive::<B>(base, &vole.params.session, unit, vole.params.code, slots, ch, rng)?;
        // 1. P
        ch.step("store");
        let (r, okvs, p) = store(vole.params.shape, xs, &hashes.inner::<B>(xs), rng)?;
        // 3. -> r, A := P + A' (and w_R);  <- w_S
        let mut wire = Vec::with_capacity(vole.message());
        wire.extend(r.to_le_bytes());
        let mut w = Block::ZERO;
        if vole.malicious() {
            w = Block::from_le_bytes(rng.bytes());
            wire.extend(w.to_le_bytes());
        }
        // P with what travels shows A', so it is wiped too.
        let mut p = Zeroizing::new(p);
        for (p, a) in p.chunks_mut(TOGETHER).zip(a.chunks(TOGETHER)) {
            p.iter_mut().zip(a).for_each(|(p, &a)| *p = p.xor(a));
            B::pack(p, &mut wire);
        }
        ch.send(&wire)?;
        if vole.malicious() {
            let opening = ch.recv_exact(48)?;
            if hashes.commitment(&opening) != commitment.as_slice() {
                return Err(ch.accuse(Misbehaviour::Contradiction("its offset is not the one that it committed to")));
            }
            w ^= split_block(&opening).0;
        }
        // 4. F(x) = H_o(Decode(C, x) + w, x)
        let mut values = Vec::with_capacity(xs.len());
        okvs.decode(xs, &c, &mut values);
        hashes.outer(&mut values, w, xs);
        Ok(values)
    }
}

/// A store of this shape of `xs[i]` ↦ `values[i]`, and its seed.
pub(crate) fn store<S: Shape, V: Value>(
    shape: S,
    xs: &[Digest],
    values: &[V],
    rng: &mut SessionRng,
) -> Result<(Block, S::Okvs, Vec<V>)> {
    for _ in 0..TRIES {
        let seed = Block::from_le_bytes(rng.bytes());
        let okvs = shape.seeded(seed);
        match okvs.encode(xs, values, &mut Prg::new(Block::from_le_bytes(rng.bytes()))) {
            Ok(store) => return Ok((seed, okvs, store)),
            Err(vesica_okvs::Error::Unsolvable { .. }) => {}
            Err(error) => return Err(Error::Bug(error.to_string())),
        }
    }
    Err(Error::Bug(format!("no store for {} keys under {TRIES} seeds", xs.len())))
}

impl<B: Field, O: Okvs> Prf for VoleKey<B, O> {
    const VALUES: usize = 1;

    /// 4. F(y) = H_o(Decode(K, y) + Δ·H_B(y) + w, y)
    fn eval(&self, ys: &[Digest], values: &mut Vec<Block>) {
        let first = values.len();
        self.okvs.decode(ys, &self.k, values);
        let values = &mut values[first..];
        B::mul_add(values, &self.hashes.inner::<B>(ys), *self.delta);
        self.hashes.outer(values, self.w, ys);
    }
}

/// H_B and H_o of one unit.
struct Hashes {
    inner: Permutation,
    outer: Outer,
    commit: [u8; 32],
}

impl Hashes {
    fn new(session: &[u8; 32], unit: UnitId, security: Security) -> Self {
        let key = |context: &str| {
            let mut hash = blake3::Hasher::new_derive_key(context);
            hash.update(session).update(&unit.0.to_le_bytes());
            *hash.finalize().as_bytes()
        };
        Self {
            inner: Permutation::new(split_block(&key("vesica 2026 vole oprf inner")).0),
            outer: Outer::new(key("vesica 2026 vole oprf outer"), security),
            commit: key("vesica 2026 vole oprf offset"),
        }
    }

    /// H_B: CR of the digest, cut to B.
    fn inner<B: Field>(&self, xs: &[Digest]) -> Vec<B> {
        let mut blocks: Vec<Block> = xs.iter().map(|&x| x.into()).collect();
        self.inner.cr(&mut blocks);
        blocks.into_iter().map(B::from_block).collect()
    }

    /// v[i] ← H_o(v[i] + w, x[i]).
    fn outer(&self, v: &mut [Block], w: Block, xs: &[Digest]) {
        v.iter_mut().for_each(|v| *v ^= w);
        self.outer.hash(v, xs);
    }

    /// A commitment to the offset in the first 16 bytes of `opening`; the other 32 hide it.
    fn commitment(&self, opening: &[u8]) -> [u8; 32] {
        *blake3::keyed_hash(&self.commit, opening).as_bytes()
    }
}

impl Field for Block {
    fn mul_add(acc: &mut [Block], a: &[Self], k: Block) {
        gf128::mul_add(acc, a, k);
    }

    fn pack(elements: &[Self], wire: &mut Vec<u8>) {
        elements.iter().for_each(|e| wire.extend_from_slice(&e.to_le_bytes()));
    }

    fn unpack(wire: &[u8]) -> Vec<Self> {
        wire.as_chunks().0.iter().map(|bytes| Block::from_le_bytes(*bytes)).collect()
    }
}

impl Field for u64 {
    fn mul_add(acc: &mut [Block], a: &[Self], k: Block) {
        gf64::mul_add(acc, a, k);
    }

    fn pack(elements: &[Self], wire: &mut Vec<u8>) {
        elements.iter().for_each(|e| wire.extend_from_slice(&e.to_le_bytes()));
    }

    fn unpack(wire: &[u8]) -> Vec<Self> {
        wire.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect()
    }
}

impl Shape for PaxosShape {
    type Okvs = Paxos;

    fn slots(&self) -> usize {
        PaxosShape::slots(self)
    }

    fn seeded(self, seed: Block) -> Paxos {
        Paxos::new(self, seed)
    }
}

impl Shape for BandShape {
    type Okvs = Band;

    fn slots(&self) -> usize {
        self.slots as usize
    }

    fn seeded(self, seed: Block) -> Band {
        Band::new(self, seed)
    }
}

/// The block at the front.
pub(crate) fn split_block(bytes: &[u8]) -> (Block, &[u8]) {
    let (front, rest) = bytes.split_first_chunk().expect("16 bytes and more");
    (Block::from_le_bytes(*front), rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_params::{Level, lpn, okvs};
    use vesica_testkit::{digests, two};

    const UNIT: UnitId = UnitId(5);

    /// F as the receiver has it at xs, and as the sender has it at ys.
    fn run<B: Field + 'static>(security: Security, xs: &[Digest], ys: &[Digest]) -> [Vec<Block>; 2] {
        let shape = okvs::paxos(xs.len() as u64, 1, Level::STANDARD).unwrap();
        let params = Params { session: [3; 32], shape, code: &lpn::SETS[0], security };
        let (a, b) = two(
            |lines, rng| {
                let ch = lines.peer().unwrap();
                Vole::<B, _>::new(params).receiver(ch, rng).unwrap().receive(UNIT, xs, ch, rng).unwrap()
            },
            |lines, rng| {
                let ch = lines.peer().unwrap();
                let key = Vole::<B, _>::new(params).sender(ch, rng).unwrap().send(UNIT, ch, rng).unwrap();
                let mut values = Vec::new();
                key.eval(ys, &mut values);
                values
            },
        );
        [a, b]
    }

    #[test]
    fn both_sides_compute_one_function_and_it_looks_random() {
        for security in [Security::SemiHonest, Security::Malicious] {
            for n in [0, 1, 2, 31, 1000] {
                let xs = digests(0, n);
                let ys = [xs.clone(), digests(n, n + 100)].concat();
                for [mine, theirs] in [run::<Block>(security, &xs, &ys), run::<u64>(security, &xs, &ys)] {
                    assert_eq!(mine, theirs[..n as usize], "{security:?} {n}");
                    let mut all = theirs;
                    all.sort_unstable_by_key(|block| block.0);
                    assert!(all.windows(2).all(|w| w[0] != w[1]));
                }
            }
        }
    }
}
