//! Silent oblivious transfer of random bits and words: millions for some kilobytes.
//!
//! [BCGIKS19] Boyle, Couteau, Gilboa, Ishai, Kohl, Scholl, "Efficient pseudorandom correlation generators: silent OT extension and
//! more", CRYPTO 2019, eprint 2019/448, Figures 3 and 5, over GF(2); [RRT23] eprint 2023/882 for the code; [YWLZW20] Yang, Weng, Lan, Zhang,
//! Wang, "Ferret", CCS 2020, eprint 2020/924, section 5, for the choice bits; semi-honest.
//!
//!   Δ       the sender's 128 bits, odd       delta        e      sparse bits: 1 at α_i, for each tree    noisy
//!   x, c    the receiver's outputs           choices, c   b      the sender's outputs                    b
//!   w, v    rows of correlated OTs: w = v + u·Δ (`softspoken`)              G   the code (`code`)   Matrix
//!
//! 1. R -> S: correlated OTs. Bits of u are the paths of the α_i: all random, so nothing is to be corrected.
//! 2. S -> R: punctured trees (`pprf`), with Δ added to the sum of the leaves of each tree. So R's sparse c is S's leaves b, plus
//!    Δ at α_i: c = e·Δ + b. Both clear the lowest bit of every leaf, and R sets it at α_i: Δ is odd, so this bit of c is e.
//! 3. Both multiply by G, which is a matrix of bits: c = x·Δ + b, and the lowest bit of c_j is x_j, for that of b_j is 0.
//! 4. Transfer j: S's two keys are H(j, b_j) and H(j, b_j + Δ), R's is H(j, c_j), the one that x_j chooses.
//!
//! Up to [`DIRECT`] transfers, those of `softspoken` are taken, and nothing is assumed of any code.
//! Reveals: nothing.   Rounds: 1.   Bytes for each 2^18: R to S: 11 kB; S to R: 53 kB.
//! Differs from the papers: noise is regular and every noise bit is 1; the trees are half-trees. R knows one bit of Δ, the lowest: 127
//! are unknown to it.

use crate::code::Matrix;
use crate::pprf::{self, Hashes};
use crate::softspoken::{self, Receiver, Sender};
use crate::{SecretBlocks, Security, pack, receive_blocks};
use vesica_block::{Block, hash::Permutation};
use vesica_params::Level;
use vesica_params::lpn::{self, BINARY, Noise};
use vesica_session::{Channel, Error, Result, SessionRng};
use vesica_types::UnitId;
use zeroize::{Zeroize, Zeroizing};

/// The most transfers that are made without trees and codes: about as many as cost the same traffic either way.
pub const DIRECT: usize = 2048;

/// Transfers that are handed over at once, all but the last time.
pub const BATCH: usize = 512;

/// Transfers of one sparse vector, at least if there are more: up to twice as many, for 8 to 16 MiB of noise, which are read at random
/// places. Larger vectors cost fewer bytes for each transfer, and do not stay in a cache.
const CHUNK: usize = 1 << 18;

/// Bytes of memory that each side has for n transfers, beside what it hands over: the noise, which its base keeps for the next unit, and the rows that it
/// comes from. More transfers than one sparse vector makes take it one after the other.
pub fn memory(n: usize) -> u64 {
    let Some(plan) = Plan::new(n) else { return softspoken::memory(n) };
    let Noise { trees, depth } = plan.noise;
    (Block::BYTES * plan.noise.len()) as u64 + softspoken::memory(plan.chunks * trees * depth as usize)
}

/// The sender's side of n transfers for a unit of the run that `session` names. `each` gets the number of the first of some
/// transfers, and for each of these both keys.
///
/// # Errors
/// Those of the channel; a bug if the base served this unit's transfers before, or is not the one of [`Sender::open_odd`] against a peer
/// that follows the protocol.
pub fn send(
    base: &Sender,
    session: &[u8; 32],
    unit: UnitId,
    n: usize,
    ch: &mut dyn Channel,
    rng: &mut SessionRng,
    mut each: impl FnMut(usize, [&[Block]; 2]),
) -> Result<()> {
    fits(base.security(), base.delta().0 & 1 == 1)?;
    let hash = base.permutation(id(unit, 0), b"keys");
    let delta = Zeroizing::new(base.delta());
    let mut others = Zeroizing::new([Block::ZERO; BATCH]);
    // 4.
    let mut hand_over = |start: usize, b: &mut [Block]| {
        let others = &mut others[..b.len()];
        others.iter_mut().zip(&*b).for_each(|(other, &b)| *other = b ^ *delta);
        hash.tccr(Block(start as u128), b);
        hash.tccr(Block(start as u128), others);
        each(start, [b, others]);
    };
    let Some(plan) = Plan::new(n) else {
        // 1. and 4.
        let mut w = base.extend(id(unit, 0), n, ch, rng)?;
        w[..n].chunks_mut(BATCH).zip((0..).step_by(BATCH)).for_each(|(w, start)| hand_over(start, w));
        return Ok(());
    };
    // 1.
    let Noise { trees, depth } = plan.noise;
    let paths = trees * depth as usize;
    let w = base.extend(id(unit, 0), plan.chunks * paths, ch, rng)?;
    for (chunk, w) in w.chunks_exact(paths).take(plan.chunks).enumerate() {
        ch.alive()?;
        // 2. -> trees
        let mut b = base.bits.take(plan.noise.len());
        let mut wire = Vec::with_capacity(trees * pprf::message(depth as usize));
        let roots: SecretBlocks = Zeroizing::new((0..trees).map(|_| Block::from_le_bytes(rng.bytes())).collect());
        let hashes = hashes(|name| base.permutation(id(unit, chunk + 1), name));
        pprf::plant(&hashes, *delta, &roots, w, depth as usize, &mut wire, |i, leaves| {
            let tree = &mut b[i << depth..][..leaves.len()];
            tree.iter_mut().zip(leaves).for_each(|(b, leaf)| *b = [even(*leaf)]);
            *delta
        });
        ch.send(&pack(&wire))?;
        // 3.
        let mut batches = Batches::new(chunk * plan.outputs, &mut hand_over);
        let seed = seed(session, &base.session(), chunk);
        Matrix::new(&BINARY, &seed, unit)
            .encode::<bool, 1>(&mut b, plan.outputs_of(chunk, n), |b| batches.push(b.as_flattened()));
        batches.end();
        base.bits.give(b);
    }
    Ok(())
}

/// The receiver's side of n transfers for a unit of the run that `session` names. `each` gets the number of the first of some transfers,
/// their random choices (the first is the lowest bit of the first word) and the keys that these choose.
///
/// # Errors
/// As [`send`].
pub fn receive(
    base: &Receiver,
    session: &[u8; 32],
    unit: UnitId,
    n: usize,
    ch: &mut dyn Channel,
    mut each: impl FnMut(usize, &[u64], &[Block]),
) -> Result<()> {
    fits(base.security(), true)?;
    let hash = base.permutation(id(unit, 0), b"keys");
    let Some(plan) = Plan::new(n) else {
        // 1. and 4.
        let made = base.extend(id(unit, 0), n, ch)?;
        let choices: Zeroizing<Vec<u64>> =
            Zeroizing::new(made.bits.iter().flat_map(|bits| [bits.low(), bits.high()]).collect());
        let mut v = made.rows;
        for (start, v) in (0..).step_by(BATCH).zip(v[..n].chunks_mut(BATCH)) {
            hash.tccr(Block(start as u128), v);
            each(start, &choices[start / 64..][..v.len().div_ceil(64)], v);
        }
        return Ok(());
    };
    // 4.
    let mut choices = Zeroizing::new([0u64; BATCH / 64]);
    let mut hand_over = |start: usize, c: &mut [Block]| {
        let choices = &mut choices[..c.len().div_ceil(64)];
        for (word, c) in choices.iter_mut().zip(c.chunks(64)) {
            *word = c.iter().rev().fold(0, |word, c| word << 1 | c.low() & 1);
        }
        hash.tccr(Block(start as u128), c);
        each(start, choices, c);
    };
    // 1.
    let Noise { trees, depth } = plan.noise;
    let paths = trees * depth as usize;
    let made = base.extend(id(unit, 0), plan.chunks * paths, ch)?;
    for (chunk, v) in made.rows.chunks_exact(paths).take(plan.chunks).enumerate() {
        // 2. <- trees
        let wire = receive_blocks(ch, trees * pprf::message(depth as usize))?;
        let mut noisy = base.bits.take(plan.noise.len());
        let u = |j: usize| made.bits[(chunk * paths + j) / 128].0 >> ((chunk * paths + j) % 128) & 1 == 1;
        let hashes = hashes(|name| base.permutation(id(unit, chunk + 1), name));
        pprf::puncture(&hashes, v, u, depth as usize, &wire, |i, leaves, hole, missing| {
            let tree = &mut noisy[i << depth..][..leaves.len()];
            tree.iter_mut().zip(leaves).for_each(|(c, leaf)| *c = [even(*leaf)]);
            tree[hole] = [Block(missing.0 | 1)];
        });
        // 3.
        let mut batches = Batches::new(chunk * plan.outputs, &mut hand_over);
        let (seed, outputs) = (seed(session, &base.session(), chunk), plan.outputs_of(chunk, n));
        Matrix::new(&BINARY, &seed, unit).encode::<bool, 1>(&mut noisy, outputs, |c| batches.push(c.as_flattened()));
        batches.end();
        base.bits.give(noisy);
    }
    Ok(())
}

/// What both sides compute from n.
struct Plan {
    chunks: usize,
    /// Outputs of each chunk: a multiple of [`BATCH`], and no fewer than a code is used for.
    outputs: usize,
    noise: Noise,
}

impl Plan {
    /// `None` if n transfers are made without a code.
    fn new(n: usize) -> Option<Self> {
        if n <= DIRECT {
            return None;
        }
        let outputs = n.div_ceil((n / CHUNK).max(1)).next_multiple_of(BATCH).max(lpn::LEAST);
        // Chunks were made longer than n asks for, so that fewer of them may be enough.
        let chunks = n.div_ceil(outputs);
        Some(Self { chunks, outputs, noise: BINARY.noise(outputs, Level::STANDARD) })
    }

    /// How many of the n transfers a chunk makes: the last one makes what is left.
    fn outputs_of(&self, chunk: usize, n: usize) -> usize {
        self.outputs.min(n - chunk * self.outputs)
    }
}

/// Outputs on their way to whoever takes them, a batch at a time.
struct Batches<F> {
    start: usize,
    blocks: SecretBlocks,
    hand_over: F,
}

impl<F: FnMut(usize, &mut [Block])> Batches<F> {
    fn new(start: usize, hand_over: F) -> Self {
        Self { start, blocks: Zeroizing::new(Vec::with_capacity(BATCH)), hand_over }
    }

    /// Takes as many as divide [`BATCH`], and fewer the last time.
    #[inline]
    fn push(&mut self, blocks: &[Block]) {
        self.blocks.extend_from_slice(blocks);
        if self.blocks.len() == BATCH {
            self.end();
        }
    }

    fn end(&mut self) {
        if !self.blocks.is_empty() {
            (self.hand_over)(self.start, &mut self.blocks);
            self.start += self.blocks.len();
            self.blocks.zeroize();
        }
    }
}

/// Names the matrix of a chunk: each has its own, in each direction.
fn seed(session: &[u8; 32], base: &[u8; 32], chunk: usize) -> [u8; 32] {
    let mut hash = blake3::Hasher::new_derive_key("vesica 2026 matrix of silent transfers");
    hash.update(session).update(base).update(&(chunk as u64).to_le_bytes());
    *hash.finalize().as_bytes()
}

/// The lowest bit cleared.
fn even(leaf: Block) -> Block {
    Block(leaf.0 & !1)
}

/// Names what belongs to a unit's chunk, from 1; 0 is the unit. Vector OLE under the same base uses the numbers of the units alone.
fn id(unit: UnitId, chunk: usize) -> u64 {
    (chunk as u64 + 1) << 32 | u64::from(unit.0)
}

fn hashes(permutation: impl Fn(&[u8]) -> Permutation) -> Hashes {
    Hashes { nodes: permutation(b"nodes"), keys: permutation(b"leaves") }
}

fn fits(security: Security, odd: bool) -> Result<()> {
    match (security, odd) {
        (Security::SemiHonest, true) => Ok(()),
        (Security::Malicious, _) => Err(Error::Bug("silent transfers of bits have no check against deviation".into())),
        (_, false) => Err(Error::Bug("silent transfers of bits need an odd offset".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ideal;
    use crate::softspoken::FOLD;
    use vesica_session::{Fault, Lines};
    use vesica_testkit::{Attack, Hostile, two, two_with};

    const SESSION: [u8; 32] = [5; 32];
    const SEMI: Security = Security::SemiHonest;

    /// Chunks cover what is asked for, each makes some, and none makes more than its outputs.
    #[test]
    fn chunks_make_as_many_as_are_asked_for() {
        for n in (1..60)
            .map(|i| DIRECT + i * i * i * 7919)
            .chain((28..32).flat_map(|log| [(1 << log) - 1, 1 << log, 3 << (log - 1)]))
        {
            let plan = Plan::new(n).unwrap();
            let made: Vec<usize> = (0..plan.chunks).map(|chunk| plan.outputs_of(chunk, n)).collect();
            assert_eq!(made.iter().sum::<usize>(), n);
            assert!(made.iter().all(|&made| (1..=plan.outputs).contains(&made)), "{n}");
        }
    }

    type Sent = (Block, Vec<Vec<[Block; 2]>>);
    type Got = Vec<(Vec<bool>, Vec<Block>)>;

    fn sends(lines: &mut Lines, rng: &mut SessionRng, sizes: &[usize]) -> Result<Sent> {
        let base = Sender::open_odd(SEMI, FOLD, &SESSION, lines.peer()?, rng)?;
        let mut units = Vec::new();
        for (unit, &n) in (0..).zip(sizes) {
            let mut pairs = Vec::new();
            send(&base, &SESSION, UnitId(unit), n, lines.peer()?, rng, |start, [zero, one]| {
                assert!(start == pairs.len() && start % BATCH == 0);
                pairs.extend(zero.iter().zip(one).map(|(&zero, &one)| [zero, one]));
            })?;
            units.push(pairs);
        }
        Ok((base.delta(), units))
    }

    fn receives(lines: &mut Lines, rng: &mut SessionRng, sizes: &[usize]) -> Result<Got> {
        let base = Receiver::open(SEMI, FOLD, &SESSION, lines.peer()?, rng)?;
        let mut units = Vec::new();
        for (unit, &n) in (0..).zip(sizes) {
            let (mut bits, mut keys) = (Vec::new(), Vec::new());
            receive(&base, &SESSION, UnitId(unit), n, lines.peer()?, |start, choices, chosen| {
                assert!(start == keys.len() && choices.len() == chosen.len().div_ceil(64));
                bits.extend((0..chosen.len()).map(|j| choices[j / 64] >> (j % 64) & 1 == 1));
                keys.extend_from_slice(chosen);
            })?;
            units.push((bits, keys));
        }
        Ok(units)
    }

    fn run(sizes: &[usize]) -> (Sent, Got) {
        two(|lines, rng| sends(lines, rng, sizes).unwrap(), |lines, rng| receives(lines, rng, sizes).unwrap())
    }

    #[test]
    fn the_receiver_gets_the_key_of_its_choice_at_every_size() {
        let sizes = [0, 1, 63, 64, 513, DIRECT, DIRECT + 1, lpn::LEAST, 20_001];
        let ((delta, sent), got) = run(&sizes);
        assert_eq!(delta.0 & 1, 1);
        for ((pairs, (bits, keys)), n) in sent.iter().zip(&got).zip(sizes) {
            assert_eq!([pairs.len(), bits.len(), keys.len()], [n; 3]);
            assert_eq!(*keys, ideal::chosen(pairs, bits), "{n}");
        }
        // No key is used twice, in one unit or in two.
        let all: Vec<Block> = sent.concat().concat();
        assert!(ideal::all_differ(&all));
    }

    /// Several sparse vectors in one unit.
    #[test]
    #[ignore = "half a million transfers"]
    fn chunks_are_one_list() {
        let n = 2 * CHUNK + 77;
        let ((_, sent), got) = run(&[n]);
        assert_eq!(got[0].1, ideal::chosen(&sent[0], &got[0].0));
        assert!(ideal::all_differ(sent[0].as_flattened()));
    }

    /// Choices and the lowest bits of keys, whose numbers, pairs and runs of eight are as frequent as those of coins.
    #[test]
    fn choices_and_keys_are_balanced() {
        let n = 1 << 16;
        let ((_, sent), got) = run(&[n]);
        let (pairs, (choices, keys)) = (&sent[0], &got[0]);
        let lowest = |blocks: Vec<Block>| blocks.iter().map(|key| key.0 & 1 == 1).collect::<Vec<_>>();
        let streams = [
            choices.clone(),
            lowest(keys.clone()),
            lowest(pairs.iter().map(|pair| pair[0]).collect()),
            lowest(pairs.iter().map(|pair| pair[0] ^ pair[1]).collect()),
            // A choice says nothing of the sender's bits.
            choices.iter().zip(pairs).map(|(x, pair)| x ^ (pair[0].0 & 1 == 1)).collect(),
            choices.iter().zip(pairs).map(|(x, pair)| x ^ ((pair[0] ^ pair[1]).0 & 1 == 1)).collect(),
        ];
        for (which, bits) in streams.iter().enumerate() {
            let mut counted = [0u32; 256];
            bits.chunks_exact(8)
                .for_each(|byte| counted[byte.iter().fold(0, |sum, &bit| sum << 1 | usize::from(bit))] += 1);
            let expected = (n / 8) as f64 / 256.0;
            let chi: f64 = counted.iter().map(|&c| (f64::from(c) - expected).powi(2) / expected).sum();
            // 255 degrees of freedom: below 160 or above 370 once in 10^6.
            assert!((160.0..370.0).contains(&chi), "{which}: {chi}");
            let ones = bits.iter().filter(|bit| **bit).count() as f64 - n as f64 / 2.0;
            assert!(ones.abs() < 5.0 * (n as f64).sqrt() / 2.0, "{which}: {ones}");
        }
    }

    #[test]
    fn a_base_that_does_not_fit_is_refused() {
        for (security, odd) in [(Security::Malicious, true), (SEMI, false)] {
            let (refused, _) = two(
                |lines, rng| {
                    let open = if odd { Sender::open_odd } else { even_delta };
                    let base = open(security, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                    send(&base, &SESSION, UnitId(0), 9, lines.peer().unwrap(), rng, |_, _| ()).unwrap_err().fault()
                },
                |lines, rng| drop(Receiver::open(security, FOLD, &SESSION, lines.peer().unwrap(), rng)),
            );
            assert_eq!(refused, Fault::Bug);
        }
    }

    /// A base whose Δ is even, which one in two is.
    fn even_delta(
        security: Security,
        fold: usize,
        session: &[u8; 32],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<Sender> {
        let delta = Block(Block::from_le_bytes(rng.bytes()).0 & !1);
        Sender::with(delta, security, fold, session, ch, rng)
    }

    /// Wrong lengths are refused. A flipped bit gives wrong keys or is not seen at all, as with any semi-honest protocol, and nothing
    /// worse.
    #[test]
    fn a_hostile_peer_is_refused_or_changes_keys() {
        for n in [100, 2500] {
            for attack in Attack::ALL {
                // The receiver's messages: keys of the base, sums of trees, corrections; the sender's: choices, and trees
                // where there are any.
                for at in 0..3 {
                    let (sent, got) = two_with(
                        |lines, rng| sends(lines, rng, &[n]),
                        |lines, rng| receives(lines, rng, &[n]),
                        |ch| Box::new(Hostile::new(ch, attack, at)),
                    );
                    told(sent.err(), got.err(), attack);
                }
                for at in 0..if n > DIRECT { 2 } else { 1 } {
                    let (got, sent) = two_with(
                        |lines, rng| receives(lines, rng, &[n]),
                        |lines, rng| sends(lines, rng, &[n]),
                        |ch| Box::new(Hostile::new(ch, attack, at)),
                    );
                    told(got.err(), sent.err(), attack);
                }
            }
        }
    }

    /// Whoever is wronged blames the peer, and nobody else is blamed.
    fn told(wronged: Option<Error>, hostile: Option<Error>, attack: Attack) {
        if matches!(attack, Attack::Cut | Attack::Empty | Attack::Grow) {
            assert!(wronged.is_some() || hostile.is_some(), "{attack:?}");
        }
        if let Some(error) = wronged {
            assert!(matches!(error.fault(), Fault::Peer | Fault::Network), "{attack:?}: {error}");
        }
    }
}
