//! OPRF from oblivious transfer, a key a bin, over cuckoo hashing.
//!
//! [KKRT16] Kolesnikov, Kumaresan, Rosulek, Trieu, "Efficient batched oblivious PRF with applications to private set
//! intersection", CCS 2016, eprint 2016/799, Figures 2 and 8, over the folded rows of `vesica_ot::folded` in place of the paper's OT
//! extension; semi-honest.
//!
//!   C      pseudorandom code, w bits           Code          Δ       the sender's secret: w times four bits     delta
//!   V, Q   the rows of both; the paper's T, Q    rows          ∘       a bit times four bits, w times             rows::shift
//!   x‖i    key x by its i-th hash              input         j       a bin                                      bin
//!
//! 1. R puts each key into one of its three bins (no stash), and a random value into every bin that is empty.
//! 2. S gets Δ, once a job.
//! 3. R -> S: a word C(what is in the bin), hidden, for each bin.   S: Q_j = V_j + C(x_j) ∘ Δ;  R: V_j.
//! 4. F_j(y) = H(j, Q_j + C(y‖i) ∘ Δ) for S, at each of the three bins of y;  F_j(x) = H(j, V_j) for R.
//!
//! If two inputs' codewords differ in 32 places, S's row at one is 128 unknown bits of Δ apart from R's: four at each place
//! (`vesica_params::code_width`). H must stand that *Hamming correlation*: it is BLAKE3 of the whole row, since sums of
//! hashes of its blocks would fall to a meet in the middle.
//! Rounds: 1/2 a unit, after an opening.   Bytes: w/8 a bin: 24, or 32 beyond 2^32 pairs.
//! Differs from the paper: no stash; one list of values for the three hash functions, as each value names its bin; the code folded
//! (Roy, SoftSpokenOT, eprint 2022/192): a quarter of the distance, and less than half of the bytes; one Δ for all units of a run.

use crate::{Oprf, Prf, Receiver, Sender, rows};
use vesica_block::aes::Aes128;
use vesica_block::transpose::transpose;
use vesica_block::{Block, Row, prefetch};
use vesica_okvs::Cuckoo;
use vesica_ot::folded::{self, SecretRows};
use vesica_ot::{SecretBlocks, Security};
use vesica_session::{Channel, Error, Result, SessionRng};
use vesica_types::{Digest, UnitId};
use zeroize::Zeroizing;

/// What both parties agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Names the run: the parties' jointly tossed salt.
    pub session: [u8; 32],
    /// Bins of a unit, for the receiver's keys of one.
    pub bins: u32,
}

/// The function for codewords of w = 64·W bits, and so rows of 64·R = 4·w.
#[derive(Clone, Copy, Debug)]
pub struct Kkrt<const W: usize, const R: usize> {
    params: Params,
}

/// With codewords of 192 bits.
pub type Narrow = Kkrt<3, 12>;

/// With codewords of 256 bits.
pub type Wide = Kkrt<4, 16>;

/// The sender's side.
pub struct KkrtSender<const W: usize, const R: usize> {
    params: Params,
    base: folded::Sender,
}

/// The receiver's side.
pub struct KkrtReceiver<const W: usize, const R: usize> {
    params: Params,
    base: folded::Receiver,
}

/// A unit's keys; what is secret of them is wiped when they are dropped.
pub struct KkrtKey<const W: usize, const R: usize> {
    unit: UnitParams<W>,
    delta: Zeroizing<Row<R>>,
    q: SecretRows<R>,
}

/// Keys that are evaluated at once: few enough that the rows of their bins, asked for together, fit in the first-level cache.
const EVALUATED: usize = 64;

/// Bins whose rows are hashed at once.
const BINS: usize = 1 << 11;

impl<const W: usize, const R: usize> Kkrt<W, R> {
    /// The function with these parameters.
    pub fn new(params: Params) -> Self {
        const { assert!(R == 4 * W) };
        Self { params }
    }
}

impl<const W: usize, const R: usize> Oprf for Kkrt<W, R> {
    type Key = KkrtKey<W, R>;
    type Sender = KkrtSender<W, R>;
    type Receiver = KkrtReceiver<W, R>;

    fn sender(&self, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self::Sender> {
        // 2.
        let Self { params } = *self;
        let base = folded::Sender::open(64 * W, Security::SemiHonest, &params.session, ch, rng)?;
        Ok(KkrtSender { params, base })
    }

    fn receiver(&self, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self::Receiver> {
        let Self { params } = *self;
        let base = folded::Receiver::open(64 * W, Security::SemiHonest, &params.session, ch, rng)?;
        Ok(KkrtReceiver { params, base })
    }
}

impl<const W: usize, const R: usize> Sender for KkrtSender<W, R> {
    type Key = KkrtKey<W, R>;

    fn send(&self, unit: UnitId, ch: &mut dyn Channel, _rng: &mut SessionRng) -> Result<Self::Key> {
        ch.step("code");
        // 3. Q
        let q = self.base.extend(unit.0.into(), self.params.bins as usize, ch)?;
        Ok(KkrtKey { unit: UnitParams::new(&self.params, unit), delta: self.base.delta(), q })
    }
}

impl<const W: usize, const R: usize> Receiver for KkrtReceiver<W, R> {
    fn receive(&self, unit: UnitId, xs: &[Digest], ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<Block>> {
        let own = UnitParams::<W>::new(&self.params, unit);
        // 1. What is in each bin
        let table = own.cuckoo.table(xs).map_err(|error| Error::Bug(error.to_string()))?;
        // 3. -> C(x_j), hidden;  V
        ch.step("code");
        let v: SecretRows<R> = self.base.extend(unit.0.into(), table.len(), ch, |start, len| {
            let bins = 128 * start..128 * (start + len);
            let inputs = bins.map(|bin| match table.get(bin).copied().flatten() {
                Some(entry) => input(xs[entry.key()], entry.which()),
                None => Block::from_le_bytes(rng.bytes()),
            });
            own.code.columns(&inputs.collect::<Vec<_>>())
        })?;
        // 4. F_j(x) = H(j, V_j)
        let mut values = vec![Block::ZERO; xs.len()];
        let (mut rows, mut bins, mut hashes) = (Zeroizing::new(Vec::new()), Vec::new(), Vec::new());
        for first in (0..table.len()).step_by(BINS) {
            let entries = &table[first..table.len().min(first + BINS)];
            let full = || (first..).zip(entries).filter_map(|(bin, entry)| Some((bin, (*entry)?)));
            bins.clear();
            bins.extend(full().map(|(bin, _)| bin as u32));
            rows.clear();
            rows.extend(full().map(|(bin, _)| v[bin]));
            hashes.clear();
            own.hash(&rows, &bins, &mut hashes);
            full().zip(&hashes).for_each(|((_, entry), &hash)| values[entry.key()] = hash);
        }
        Ok(values)
    }
}

impl<const W: usize, const R: usize> Prf for KkrtKey<W, R> {
    const VALUES: usize = 3;

    /// 4. F_j(y) = H(j, Q_j + C(y‖i) ∘ Δ) for the three bins of y
    fn eval(&self, ys: &[Digest], values: &mut Vec<Block>) {
        let mut rows = Zeroizing::new(Vec::with_capacity(3 * EVALUATED));
        for ys in ys.chunks(EVALUATED) {
            let places = self.unit.cuckoo.places(ys);
            let bins = places.as_flattened();
            bins.iter().for_each(|&bin| prefetch(&self.q, bin as usize));
            let inputs: Vec<Block> = ys.iter().flat_map(|&y| [0, 1, 2].map(|which| input(y, which))).collect();
            let words = self.unit.code.words(&inputs);
            rows.clear();
            for (word, &bin) in words.iter().zip(bins) {
                let mut row = self.q[bin as usize];
                rows::shift(&mut row, word, &self.delta);
                rows.push(row);
            }
            self.unit.hash(&rows, bins, values);
        }
    }
}

/// x‖i.
fn input(x: Digest, which: usize) -> Block {
    Block::from(x) ^ Block((which as u128 + 1) << 126)
}

/// What both sides derive for a unit from the run's salt, which was tossed after the keys were fixed.
struct UnitParams<const W: usize> {
    cuckoo: Cuckoo,
    code: Code<W>,
    hash: [u8; 32],
}

impl<const W: usize> UnitParams<W> {
    fn new(params: &Params, unit: UnitId) -> Self {
        let mut seed = [0; 48];
        let mut hash = blake3::Hasher::new_derive_key("vesica 2026 kkrt unit");
        hash.update(&params.session).update(&unit.0.to_le_bytes()).finalize_xof().fill(&mut seed);
        let block = |i: usize| Block::from_le_bytes(seed.as_chunks().0[i]);
        Self {
            cuckoo: Cuckoo::new(params.bins, block(0)),
            code: Code { aes: [1, 2].map(|i| Aes128::new(block(i))) },
            hash: blake3::derive_key("vesica 2026 kkrt hash", &seed),
        }
    }

    /// Appends H(j, row) for each row and its bin.
    fn hash<const R: usize>(&self, rows: &[Row<R>], bins: &[u32], values: &mut Vec<Block>) {
        rows::hash(&self.hash, rows, bins.iter().map(|&bin| u64::from(bin).to_le_bytes()), values);
    }
}

/// C(x) = AES_1(x) ‖ AES_2(x), cut to w bits, under keys of the unit.
struct Code<const W: usize> {
    aes: [Aes128; 2],
}

impl<const W: usize> Code<W> {
    /// Both blocks of every input's codeword: all first ones, then all second ones.
    fn blocks(&self, inputs: &[Block]) -> [Vec<Block>; 2] {
        self.aes.each_ref().map(|aes| {
            let mut blocks = inputs.to_vec();
            aes.encrypt_in_place(&mut blocks);
            blocks
        })
    }

    /// The codewords.
    fn words(&self, inputs: &[Block]) -> Vec<Row<W>> {
        let [first, second] = self.blocks(inputs);
        let word = |(first, second): (Block, Block)| {
            let words = [first.low(), first.high(), second.low(), second.high()];
            Row(std::array::from_fn(|i| words[i]))
        };
        first.into_iter().zip(second).map(word).collect()
    }

    /// The columns of the codewords of a multiple of 128 inputs: bit j of block t of column i is bit i of the codeword of input
    /// 128·t + j.
    fn columns(&self, inputs: &[Block]) -> SecretBlocks {
        let blocks = inputs.len() / 128;
        let mut columns = Zeroizing::new(Vec::with_capacity(64 * W * blocks));
        let [mut rows, mut turned] = [0, 1].map(|_| Zeroizing::new(vec![Block::ZERO; inputs.len()]));
        for (half, words) in self.blocks(inputs).iter().enumerate() {
            // Row j of the matrix has the words of inputs j, 128 + j, …
            for (t, words) in words.chunks_exact(128).enumerate() {
                words.iter().enumerate().for_each(|(j, &word)| rows[j * blocks + t] = word);
            }
            transpose(&rows, &mut turned);
            let bits = (64 * W - 128 * half).min(128);
            columns.extend((0..bits).flat_map(|i| (0..blocks).map(move |t| 128 * t + i)).map(|at| turned[at]));
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use vesica_params::{Level, cuckoo};
    use vesica_testkit::{digests, two};

    const UNIT: UnitId = UnitId(5);

    /// F as the receiver has it at xs, and as the sender has it at ys, three values each.
    fn run<const W: usize, const R: usize>(xs: &[Digest], ys: &[Digest]) -> [Vec<Block>; 2] {
        let bins = cuckoo::bins(xs.len() as u64, 1, Level::STANDARD).unwrap();
        let function = Kkrt::<W, R>::new(Params { session: [3; 32], bins });
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
    fn the_receivers_value_is_one_of_the_senders_three_and_all_look_random() {
        for n in [0, 1, 2, 31, 3000] {
            let xs = digests(0, n);
            let ys = [xs.clone(), digests(n, n + 100)].concat();
            for [mine, theirs] in [run::<3, 12>(&xs, &ys), run::<4, 16>(&xs, &ys)] {
                assert_eq!([mine.len(), theirs.len()], [xs.len(), 3 * ys.len()]);
                for (x, values) in mine.iter().zip(theirs.chunks_exact(3)) {
                    assert_eq!(values.iter().filter(|v| *v == x).count(), 1, "{n}");
                }
                let all: HashSet<u128> = theirs.iter().map(|v| v.0).collect();
                assert_eq!(all.len(), theirs.len());
            }
        }
    }

    fn unit<const W: usize>() -> UnitParams<W> {
        UnitParams::new(&Params { session: [1; 32], bins: 9 }, UNIT)
    }

    #[test]
    fn rows_are_hashed_whole_with_their_bin() {
        let (own, row) = (unit::<3>(), Row::<12>(std::array::from_fn(|i| u64::MAX / (i as u64 + 1))));
        let mut values = Vec::new();
        own.hash(&[row, row], &[7, 8], &mut values);
        for (bin, value) in [7u64, 8].into_iter().zip(values) {
            let bytes: Vec<u8> = row.0.iter().flat_map(|word| word.to_le_bytes()).chain(bin.to_le_bytes()).collect();
            assert_eq!(value.to_le_bytes(), blake3::keyed_hash(&own.hash, &bytes).as_bytes()[..16]);
        }
    }

    /// Words of 192 bits differ in 96 places on average, with a deviation of 7; those of 256 in 128, with 8.
    #[test]
    fn codewords_of_different_keys_are_far_apart() {
        let inputs: Vec<Block> = digests(0, 300).into_iter().flat_map(|x| [0, 1, 2].map(|i| input(x, i))).collect();
        let weight = |words: &[u64]| words.iter().map(|word| word.count_ones()).sum::<u32>();
        let (narrow, wide) = (unit::<3>().code.words(&inputs), unit::<4>().code.words(&inputs));
        for i in 1..inputs.len() {
            let distances = [weight(&(narrow[0] ^ narrow[i]).0), weight(&(wide[0] ^ wide[i]).0)];
            assert!((60..132).contains(&distances[0]) && (84..172).contains(&distances[1]), "{distances:?}");
        }
    }

    #[test]
    fn columns_are_those_of_the_words() {
        fn check<const W: usize>() {
            let inputs: Vec<Block> = (0..384).map(|i| Block(i * i)).collect();
            let (words, columns) = (unit::<W>().code.words(&inputs), unit::<W>().code.columns(&inputs));
            assert_eq!(columns.len(), 64 * W * 3);
            for (n, word) in words.iter().enumerate() {
                for i in 0..64 * W {
                    let bit = columns[3 * i + n / 128].0 >> (n % 128) & 1;
                    assert_eq!(bit as u64, word.0[i / 64] >> (i % 64) & 1, "{n} {i}");
                }
            }
        }
        check::<3>();
        check::<4>();
    }
}
