//! OPRF from correlated rows of a linear code and an oblivious key-value store: oblivious transfers and hashes, nothing else.
//!
//! [PRTY20] Pinkas, Rosulek, Trieu, Yanai, "PSI from PaXoS: fast, malicious private set intersection", EUROCRYPT 2020, eprint
//! 2020/193, sections 3 and 5, over the rows of `vesica_ot::subspace` in place of the paper's OT extension.
//!
//!   C, Δ    code of ℓ-bit messages, the sender's secret    code, delta    D     store of { (x, H1(x)) }, ℓ bits a slot    store
//!   V       the receiver's rows, a slot each               rows           Q     the sender's, Q = V + C(D) ∘ Δ            rows
//!   H1      a key's digest, ℓ bits                         inner          H2    of a whole row and its key                outer
//!
//! 1. R: r at random;  D := store of { (x, H1(x)) } under the seed r.   R -> S: r.
//! 2. Rows for D: R gets V, S gets Q. (Malicious: with the check that what R sent are words of C.)
//! 3. F(y) = H2(Decode(Q, y) + C(H1(y)) ∘ Δ, y) for S;  F(x) = H2(Decode(V, x), x) for R.
//! Why they agree: Decode and C are linear, so S's row at y is Decode(V, y) + C(Decode(D, y) + H1(y)) ∘ Δ.
//!
//! For a y at which D does not decode to H1(y) the word is not zero, so it has 32 ones, and 128 bits of Δ that R does not know enter H2. It
//! must stand that correlation. It is BLAKE3 of the whole row. D decodes to H1(y) by chance once in 2^ℓ: ℓ is 75 or 248
//! (`vesica_params::bch::code`). A receiver that deviates fits D to more keys than it declared (`vesica_params::okvs::most_fitting` counts
//! how many); S commits to nothing of its own, and its list is what H2 was asked for.
//! Rounds: subspace + 1/2.   Bytes: 24 a slot for ℓ = 75, 48 for ℓ = 248.
//! Differs from the paper: a store of [RR22]'s shape; the code folded, 32 places of four bits in place of 128 places of one; the check
//! of [Roy22]; H1 and H2 keyed by the run and the unit; tags of 128 bits at most.

use crate::vole::{Shape, store};
use crate::{Oprf, Prf, Receiver, Sender, rows};
use std::sync::Arc;
use vesica_block::blake::{self, Message};
use vesica_block::{Block, Row};
use vesica_okvs::{Okvs, Paxos};
use vesica_ot::bch::Bch;
use vesica_ot::folded::SecretRows;
use vesica_ot::subspace;
use vesica_ot::{Judge, Security};
use vesica_params::bch::BchSet;
use vesica_params::okvs::PaxosShape;
use vesica_session::{Channel, Result, SessionRng};
use vesica_types::{Digest, UnitId};
use zeroize::Zeroizing;

/// What both parties agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Names the run: the parties' jointly tossed salt.
    pub session: [u8; 32],
    /// The shape of a unit's store, for the receiver's keys of a unit.
    pub shape: PaxosShape,
    /// The code, which is [`Narrow`]'s or [`Wide`]'s.
    pub code: &'static BchSet,
    /// Against whom.
    pub security: Security,
}

/// The function for digests of at most 64·K bits, words of 64·W and rows of 64·R = 4·64·W.
#[derive(Clone, Debug)]
pub struct Ot<const K: usize, const W: usize, const R: usize> {
    params: Params,
    judge: Judge,
}

/// With `vesica_params::bch::NARROW`.
pub type Narrow = Ot<2, 3, 12>;

/// With `vesica_params::bch::WIDE`.
pub type Wide = Ot<4, 6, 24>;

/// The sender's side.
pub struct OtSender<const K: usize, const W: usize, const R: usize> {
    params: Params,
    base: subspace::Sender,
}

/// The receiver's side.
pub struct OtReceiver<const K: usize, const W: usize, const R: usize> {
    params: Params,
    base: subspace::Receiver,
}

/// A unit's key; what is secret of it is wiped when it is dropped.
pub struct OtKey<const K: usize, const W: usize, const R: usize> {
    okvs: Paxos,
    hashes: Hashes,
    code: Arc<Bch>,
    delta: Zeroizing<Row<R>>,
    rows: SecretRows<R>,
}

/// Keys that are hashed at once.
const HASHED: usize = 128;

/// Keys that are decoded at once: enough that the sums of dense slots, made for each time, count for little.
const DECODED: usize = 1 << 13;

impl<const K: usize, const W: usize, const R: usize> Ot<K, W, R> {
    /// The function with these parameters.
    ///
    /// # Panics
    /// If the code is not the one that fits these lengths.
    pub fn new(params: Params) -> Self {
        let fits = params.code.length == 64 * W && params.code.dimension <= 64 * K && R == 4 * W;
        assert!(fits, "{} for digests, words and rows of {K}, {W} and {R} words", params.code.id);
        Self { params, judge: Judge::default() }
    }

    /// The same, as one of the bases of a run whose checks `judge` ends.
    pub fn judged(self, judge: &Judge) -> Self {
        Self { judge: judge.clone(), ..self }
    }
}

impl<const K: usize, const W: usize, const R: usize> Oprf for Ot<K, W, R> {
    type Key = OtKey<K, W, R>;
    type Sender = OtSender<K, W, R>;
    type Receiver = OtReceiver<K, W, R>;

    fn sender(&self, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self::Sender> {
        let Self { params, judge } = self;
        let base = subspace::Sender::open(params.code, (params.security, judge), &params.session, ch, rng)?;
        Ok(OtSender { params: *params, base })
    }

    fn receiver(&self, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self::Receiver> {
        let Self { params, judge } = self;
        let base = subspace::Receiver::open(params.code, (params.security, judge), &params.session, ch, rng)?;
        Ok(OtReceiver { params: *params, base })
    }
}

impl<const K: usize, const W: usize, const R: usize> Sender for OtSender<K, W, R> {
    type Key = OtKey<K, W, R>;

    fn send(&self, unit: UnitId, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self::Key> {
        let Self { params, base } = self;
        ch.step("ot");
        // 1. <- r
        let seed = ch.recv_exact(Block::BYTES)?;
        let okvs = params.shape.seeded(Block::from_le_bytes(seed.as_chunks().0[0]));
        // 2. Q
        let rows = base.extend(unit.0.into(), params.shape.slots(), ch, rng)?;
        let hashes = Hashes::new(params, unit);
        Ok(OtKey { okvs, hashes, code: base.code().clone(), delta: base.delta(), rows })
    }
}

impl<const K: usize, const W: usize, const R: usize> Receiver for OtReceiver<K, W, R> {
    fn receive(&self, unit: UnitId, xs: &[Digest], ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<Block>> {
        let Self { params, base } = self;
        let hashes = Hashes::new(params, unit);
        ch.step("ot");
        // 1. -> r;  D
        let (seed, okvs, slots) = store(params.shape, xs, &hashes.inner::<K>(xs), rng)?;
        ch.send(&seed.to_le_bytes())?;
        // 2. V
        let rows: SecretRows<R> = base.extend(unit.0.into(), &slots, ch, rng)?;
        // 3. F(x) = H2(Decode(V, x), x)
        let mut values = Vec::with_capacity(xs.len());
        for xs in xs.chunks(DECODED) {
            let mut decoded = Vec::new();
            okvs.decode(xs, &rows, &mut decoded);
            hashes.outer(&Zeroizing::new(decoded), xs, &mut values);
        }
        Ok(values)
    }
}

impl<const K: usize, const W: usize, const R: usize> Prf for OtKey<K, W, R> {
    const VALUES: usize = 1;

    /// 3. F(y) = H2(Decode(Q, y) + C(H1(y)) ∘ Δ, y)
    fn eval(&self, ys: &[Digest], values: &mut Vec<Block>) {
        for ys in ys.chunks(DECODED) {
            let mut decoded = Vec::new();
            self.okvs.decode(ys, &self.rows, &mut decoded);
            let mut rows = Zeroizing::new(decoded);
            let words: Vec<Row<W>> = self.code.words(&self.hashes.inner::<K>(ys));
            rows.iter_mut().zip(&words).for_each(|(row, word)| rows::shift(row, word, &self.delta));
            self.hashes.outer(&rows, ys, values);
        }
    }
}

/// H1 and H2 of one unit: BLAKE3 under keys that are derived from the run's salt, which was tossed after the keys were fixed.
struct Hashes {
    inner: [u8; 32],
    outer: [u8; 32],
    /// ℓ.
    bits: usize,
}

impl Hashes {
    fn new(params: &Params, unit: UnitId) -> Self {
        let key = |context: &str| {
            let mut hash = blake3::Hasher::new_derive_key(context);
            hash.update(&params.session).update(&unit.0.to_le_bytes());
            *hash.finalize().as_bytes()
        };
        let (inner, outer) = (key("vesica 2026 ot oprf inner"), key("vesica 2026 ot oprf outer"));
        Self { inner, outer, bits: params.code.dimension }
    }

    /// H1: ℓ bits for each key.
    fn inner<const K: usize>(&self, xs: &[Digest]) -> Vec<Row<K>> {
        let mut digests = Vec::with_capacity(xs.len());
        let mut hashes = [[0; 32]; HASHED];
        for xs in xs.chunks(HASHED) {
            let message = |x: &Digest| Message::new(&x.0).expect("16 bytes are short enough");
            blake::keyed(&self.inner, &xs.iter().map(message).collect::<Vec<_>>(), &mut hashes);
            digests.extend(hashes[..xs.len()].iter().map(|hash| {
                Row(std::array::from_fn(|i| {
                    let word = u64::from_le_bytes(hash.as_chunks().0[i]);
                    let bits = self.bits.saturating_sub(64 * i);
                    if bits < 64 { word & ((1 << bits) - 1) } else { word }
                }))
            }));
        }
        digests
    }

    /// H2: appends a value for each row and its key.
    fn outer<const R: usize>(&self, rows: &[Row<R>], xs: &[Digest], values: &mut Vec<Block>) {
        rows::hash(&self.outer, rows, xs.iter().map(|x| x.0), values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use vesica_params::bch::{NARROW, WIDE};
    use vesica_params::{Level, okvs};
    use vesica_testkit::{digests, two};

    const UNIT: UnitId = UnitId(5);

    /// F as the receiver has it at xs, and as the sender has it at ys.
    fn run<const K: usize, const W: usize, const R: usize>(
        code: &'static BchSet,
        security: Security,
        xs: &[Digest],
        ys: &[Digest],
    ) -> [Vec<Block>; 2] {
        let shape = okvs::paxos(xs.len() as u64, 1, Level::STANDARD).unwrap();
        let function = Ot::<K, W, R>::new(Params { session: [3; 32], shape, code, security });
        let (a, b) = two(
            |lines, rng| {
                let ch = lines.peer().unwrap();
                function.receiver(ch, rng).unwrap().receive(UNIT, xs, ch, rng).unwrap()
            },
            |lines, rng| {
                let ch = lines.peer().unwrap();
                let key = function.sender(ch, rng).unwrap().send(UNIT, ch, rng).unwrap();
                let mut values = Vec::new();
                key.eval(ys, &mut values);
                values
            },
        );
        [a, b]
    }

    #[test]
    fn both_sides_compute_one_function_and_it_looks_random() {
        for n in [0, 1, 2, 31, 5000] {
            let xs = digests(0, n);
            let ys = [xs.clone(), digests(n, n + 100)].concat();
            for [mine, theirs] in [
                run::<2, 3, 12>(&NARROW, Security::SemiHonest, &xs, &ys),
                run::<4, 6, 24>(&WIDE, Security::SemiHonest, &xs, &ys),
                run::<4, 6, 24>(&WIDE, Security::Malicious, &xs, &ys),
            ] {
                assert_eq!(theirs[..mine.len()], mine, "{n}");
                assert_eq!([mine.len(), theirs.len()], [xs.len(), ys.len()]);
                let all: HashSet<u128> = theirs.iter().map(|v| v.0).collect();
                assert_eq!(all.len(), theirs.len());
            }
        }
    }

    /// Keys that differ in one bit have digests and values that have nothing in common.
    #[test]
    fn neighbouring_keys_have_other_digests_and_values() {
        let neighbours: Vec<Digest> = (0..128)
            .map(|bit| {
                let mut x = [7; 16];
                x[bit / 8] ^= 1 << (bit % 8);
                Digest(x)
            })
            .collect();
        let params = Params {
            session: [3; 32],
            shape: okvs::paxos(1, 1, Level::STANDARD).unwrap(),
            code: &WIDE,
            security: Security::Malicious,
        };
        let hashes = Hashes::new(&params, UNIT);
        let inner = hashes.inner::<4>(&neighbours);
        for (i, a) in inner.iter().enumerate() {
            assert_eq!(a.0[3] >> 56, 0, "248 bits");
            let distance = |b: &Row<4>| (*a ^ *b).0.iter().map(|word| word.count_ones()).sum::<u32>();
            assert!(inner[..i].iter().all(|b| (70..180).contains(&distance(b))));
        }
        let mut values = Vec::new();
        hashes.outer(&vec![Row::<24>::ZERO; 128], &neighbours, &mut values);
        assert!(vesica_ot::ideal::all_differ(&values));
    }

    /// H2 is BLAKE3 of the row's bytes and the key's.
    #[test]
    fn rows_are_hashed_whole_with_their_key() {
        let params = Params {
            session: [3; 32],
            shape: okvs::paxos(1, 1, Level::STANDARD).unwrap(),
            code: &NARROW,
            security: Security::SemiHonest,
        };
        let hashes = Hashes::new(&params, UNIT);
        let (row, x) = (Row::<12>(std::array::from_fn(|i| i as u64 + 1)), Digest([9; 16]));
        let mut values = Vec::new();
        hashes.outer(&[row], &[x], &mut values);
        let bytes: Vec<u8> = row.0.iter().flat_map(|word| word.to_le_bytes()).chain(x.0).collect();
        assert_eq!(values[0].to_le_bytes(), blake3::keyed_hash(&hashes.outer, &bytes).as_bytes()[..16]);
    }
}
