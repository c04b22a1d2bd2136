//! OPRF from oblivious transfer, a key a bin, over cuckoo hashing.
//!
//! [KKRT16] Kolesnikov, Kumaresan, Rosulek, Trieu, "Efficient batched oblivious PRF with applications to private set
//! intersection", CCS 2016, eprint 2016/799, Figures 2 and 8; semi-honest.
//!
//!   C      pseudorandom code, w bits         Code          s       the sender's w secret bits        s
//!   T, U   the receiver's columns and what it sends        t, u    Q       the sender's columns      q
//!   x‖i    key x by its i-th hash            input         j       a bin                             bin
//!
//! 1. R puts each key into one of its three bins (no stash), and a random value into every bin that is empty.
//! 2. w random OTs: S gets s and seeds k_{i,s_i}, R gets both seeds of each column; T, T' are their streams.
//! 3. R -> S: U := T + T' + C(what is in the bin), a row a bin.   S: q_j := t_j + s ∧ u_j = t^R_j + s ∧ C(x_j).
//! 4. F_j(y) = H(j, q_j + s ∧ C(y‖i)) for S, at each of the three bins of y;  F_j(x) = H(j, t_j) for R.
//!
//! If two inputs' codewords differ in 128 places, S's value at one is w-bit strings apart by s on 128 unknown bits from R's
//! (`vesica_params::code_width`). H must stand that *Hamming correlation*: it is BLAKE3 of the whole string, since sums of
//! hashes of its blocks would fall to a meet in the middle.
//! Rounds: OT + 1/2.   Bytes: w/8 a bin.
//! Differs from the paper: no stash; one list of values for the three hash functions, as each value names its bin.

use crate::{Oprf, Prf, Receiver, Sender};
use vesica_block::aes::Aes128;
use vesica_block::blake::{self, Message};
use vesica_block::prg::Prg;
use vesica_block::transpose::transpose;
use vesica_block::{Block, large, prefetch};
use vesica_okvs::Cuckoo;
use vesica_ot::{Security, softspoken};
use vesica_session::{Channel, Error, Result, SessionRng};
use vesica_types::{Digest, UnitId};
use zeroize::{DefaultIsZeroes, Zeroizing};

/// What both parties agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Names the run: the parties' jointly tossed salt.
    pub session: [u8; 32],
    /// Bins of a unit, for the receiver's keys of one.
    pub bins: u32,
    /// w: bits of a codeword, 448 or 512.
    pub width: usize,
}

/// The function.
#[derive(Clone, Copy, Debug)]
pub struct Kkrt {
    params: Params,
}

/// The sender's side. In its base transfers it is the receiver.
pub struct KkrtSender {
    params: Params,
    base: softspoken::Receiver,
}

/// The receiver's side. In its base transfers it is the sender.
pub struct KkrtReceiver {
    params: Params,
    base: softspoken::Sender,
}

/// A unit's keys; what is secret of them is wiped when they are dropped.
pub struct KkrtKey {
    unit: UnitParams,
    s: Zeroizing<Row>,
    q: Zeroizing<Vec<Line>>,
}

/// w bits; those beyond w are zero.
type Row = [Block; 4];

/// A row in a cache line of its own.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line(Row);

impl DefaultIsZeroes for Line {}

/// Blocks of every column that are made at once: a batch's columns fit in the second-level cache.
const BATCH: usize = 16;

/// Bins in a batch.
const BINS: usize = 128 * BATCH;

impl Params {
    /// Bytes of a row on the wire.
    fn row_bytes(&self) -> usize {
        self.width / 8
    }
}

impl Kkrt {
    /// The function with these parameters.
    pub fn new(params: Params) -> Self {
        Self { params }
    }
}

impl Oprf for Kkrt {
    type Key = KkrtKey;
    type Sender = KkrtSender;
    type Receiver = KkrtReceiver;

    fn sender(&self, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<KkrtSender> {
        let base = softspoken::Receiver::open(Security::SemiHonest, softspoken::FOLD, ch, rng)?;
        Ok(KkrtSender { params: self.params, base })
    }

    fn receiver(&self, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<KkrtReceiver> {
        let base = softspoken::Sender::open(Security::SemiHonest, softspoken::FOLD, ch, rng)?;
        Ok(KkrtReceiver { params: self.params, base })
    }
}

impl Sender for KkrtSender {
    type Key = KkrtKey;

    fn send(&self, unit: UnitId, ch: &mut dyn Channel, _rng: &mut SessionRng) -> Result<KkrtKey> {
        let width = self.params.width;
        // 2. s and k_{i,s_i}
        ch.step("ot");
        let (bits, seeds) = self.base.random(unit.0.into(), width, ch)?;
        let bits = Zeroizing::new(bits);
        let mut s = Zeroizing::new([Block::ZERO; 4]);
        s.iter_mut().zip(bits.iter()).for_each(|(s, &bits)| *s = bits);
        if width == 448 {
            s[3].0 &= u128::from(u64::MAX);
        }
        let mut columns: Vec<Prg> = seeds.iter().map(|&seed| Prg::new(seed)).collect();
        // 3. <- U;  q_j := t_j + s ∧ u_j
        ch.step("code");
        let bins = self.params.bins as usize;
        let mut q = Zeroizing::new(Vec::new());
        large::reserve(&mut *q, bins);
        let mut t = Zeroizing::new(vec![Block::ZERO; 4 * BINS]);
        while q.len() < bins {
            let n = BINS.min(bins - q.len());
            let wire = ch.recv_exact(n * self.params.row_bytes())?;
            rows(&mut columns, &mut t);
            for (j, u) in wire.chunks_exact(self.params.row_bytes()).enumerate() {
                let u = unpack(u);
                q.push(Line(std::array::from_fn(|b| t[b * BINS + j] ^ (u[b] & s[b]))));
            }
        }
        Ok(KkrtKey { unit: UnitParams::new(&self.params, unit), s, q })
    }
}

impl Receiver for KkrtReceiver {
    fn receive(&self, unit: UnitId, xs: &[Digest], ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<Block>> {
        let own = UnitParams::new(&self.params, unit);
        // 1. What is in each bin
        let table = own.cuckoo.table(xs).map_err(|error| Error::Bug(error.to_string()))?;
        // 2. Both seeds of each column
        ch.step("ot");
        let pairs = self.base.random(unit.0.into(), self.params.width, ch, rng)?;
        let [mut first, mut second] =
            [0, 1].map(|side| pairs.iter().map(|pair| Prg::new(pair[side])).collect::<Vec<Prg>>());
        // 3. -> U := T + T' + C(x_j)
        ch.step("code");
        let mut values = vec![Block::ZERO; xs.len()];
        let [mut t, mut other] = [0, 1].map(|_| Zeroizing::new(vec![Block::ZERO; 4 * BINS]));
        let mut wire = Vec::with_capacity(BINS * self.params.row_bytes());
        let mut hashes = Vec::with_capacity(BINS);
        for (batch, entries) in table.chunks(BINS).enumerate() {
            rows(&mut first, &mut t);
            rows(&mut second, &mut other);
            let inputs: Vec<Block> = entries
                .iter()
                .map(|entry| match entry {
                    Some(entry) => input(xs[entry.key()], entry.which()),
                    None => Block::from_le_bytes(rng.bytes()),
                })
                .collect();
            let code = own.code.words(&inputs);
            let row = |j: usize| -> Row { std::array::from_fn(|b| t[b * BINS + j]) };
            wire.clear();
            for j in 0..entries.len() {
                let t = row(j);
                let u: Row = std::array::from_fn(|b| t[b] ^ other[b * BINS + j] ^ code[b][j]);
                pack(&u, self.params.width, &mut wire);
            }
            ch.send(&wire)?;
            // 4. F_j(x) = H(j, t_j)
            let full = || entries.iter().enumerate().filter_map(|(j, entry)| Some((j, (*entry)?)));
            hashes.clear();
            own.hash(full().map(|(j, _)| (batch * BINS + j, row(j))), &mut hashes);
            full().zip(&hashes).for_each(|((_, entry), &hash)| values[entry.key()] = hash);
        }
        Ok(values)
    }
}

impl Prf for KkrtKey {
    const VALUES: usize = 3;

    /// 4. F_j(y) = H(j, q_j + s ∧ C(y‖i)) for the three bins of y
    fn eval(&self, ys: &[Digest], values: &mut Vec<Block>) {
        // Few enough that the rows of their bins, asked for at once, fit in half of the first-level cache.
        for ys in ys.chunks(128) {
            let places = self.unit.cuckoo.places(ys);
            places.as_flattened().iter().for_each(|&bin| prefetch(&self.q, bin as usize));
            let inputs: Vec<Block> = ys.iter().flat_map(|&y| [0, 1, 2].map(|which| input(y, which))).collect();
            let code = self.unit.code.words(&inputs);
            let rows = places.as_flattened().iter().enumerate().map(|(i, &bin)| {
                let Line(q) = &self.q[bin as usize];
                (bin as usize, std::array::from_fn(|b| q[b] ^ (code[b][i] & self.s[b])))
            });
            self.unit.hash(rows, values);
        }
    }
}

/// x‖i.
fn input(x: Digest, which: usize) -> Block {
    Block::from(x) ^ Block((which as u128 + 1) << 126)
}

/// The next rows of the columns' streams: block b of row j at b·[`BINS`] + j.
fn rows(columns: &mut [Prg], out: &mut [Block]) {
    let mut streams = Zeroizing::new([Block::ZERO; 128 * BATCH]);
    for (columns, out) in columns.chunks_mut(128).zip(out.chunks_exact_mut(BINS)) {
        streams[columns.len() * BATCH..].fill(Block::ZERO);
        columns.iter_mut().zip(streams.chunks_exact_mut(BATCH)).for_each(|(prg, stream)| prg.fill(stream));
        transpose(&*streams, out);
    }
}

/// The first `width` bits of a row.
fn pack(row: &Row, width: usize, wire: &mut Vec<u8>) {
    let bytes = row.map(Block::to_le_bytes);
    wire.extend_from_slice(&bytes.as_flattened()[..width / 8]);
}

fn unpack(wire: &[u8]) -> Row {
    let mut bytes = [0; 64];
    bytes[..wire.len()].copy_from_slice(wire);
    std::array::from_fn(|b| Block::from_le_bytes(bytes.as_chunks().0[b]))
}

/// What both sides derive for a unit from the run's salt, which was tossed after the keys were fixed.
struct UnitParams {
    cuckoo: Cuckoo,
    code: Code,
    hash: [u8; 32],
    width: usize,
}

impl UnitParams {
    fn new(params: &Params, unit: UnitId) -> Self {
        let mut seed = [0; 96];
        let mut hash = blake3::Hasher::new_derive_key("vesica 2026 kkrt unit");
        hash.update(&params.session).update(&unit.0.to_le_bytes()).finalize_xof().fill(&mut seed);
        let block = |i: usize| Block::from_le_bytes(seed.as_chunks().0[i]);
        Self {
            cuckoo: Cuckoo::new(params.bins, block(0)),
            code: Code { aes: [1, 2, 3, 4].map(|i| Aes128::new(block(i))), width: params.width },
            hash: blake3::derive_key("vesica 2026 kkrt hash", &seed),
            width: params.width,
        }
    }

    /// Appends H(j, row) for each of them.
    fn hash(&self, rows: impl Iterator<Item = (usize, Row)>, values: &mut Vec<Block>) {
        let value = |hash: &[u8; 32]| Block::from_le_bytes(hash.as_chunks().0[0]);
        let bytes = self.width / 8 + 8;
        let input = |(bin, row): (usize, Row)| {
            let mut input = [0; 72];
            input[..64].copy_from_slice(row.map(Block::to_le_bytes).as_flattened());
            input[bytes - 8..bytes].copy_from_slice(&(bin as u64).to_le_bytes());
            input
        };
        if bytes > Message::LONGEST {
            values.extend(rows.map(|row| value(blake3::keyed_hash(&self.hash, &input(row)[..bytes]).as_bytes())));
            return;
        }
        let message = |row| Message::new(&input(row)[..bytes]).expect("it is short enough");
        let messages: Vec<Message> = rows.map(message).collect();
        let mut hashes = vec![[0; 32]; messages.len()];
        blake::keyed(&self.hash, &messages, &mut hashes);
        values.extend(hashes.iter().map(value));
    }
}

/// C(x) = AES_1(x) ‖ … ‖ AES_4(x), cut to w bits, under keys of the unit.
struct Code {
    aes: [Aes128; 4],
    width: usize,
}

impl Code {
    /// Block b of the codeword of `inputs[i]` at [b][i].
    fn words(&self, inputs: &[Block]) -> [Vec<Block>; 4] {
        let mut words = [0, 1, 2, 3].map(|b| {
            let mut blocks = inputs.to_vec();
            self.aes[b].encrypt_in_place(&mut blocks);
            blocks
        });
        if self.width == 448 {
            words[3].iter_mut().for_each(|block| block.0 &= u128::from(u64::MAX));
        }
        words
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
    fn run(width: usize, xs: &[Digest], ys: &[Digest]) -> [Vec<Block>; 2] {
        let bins = cuckoo::bins(xs.len() as u64, 1, Level::STANDARD).unwrap();
        let params = Params { session: [3; 32], bins, width };
        let (a, b) = two(
            |lines, rng| {
                let ch = lines.peer().unwrap();
                Kkrt::new(params).receiver(ch, rng).unwrap().receive(UNIT, xs, ch, rng).unwrap()
            },
            |lines, rng| {
                let ch = lines.peer().unwrap();
                let key = Kkrt::new(params).sender(ch, rng).unwrap().send(UNIT, ch, rng).unwrap();
                let mut values = Vec::new();
                key.eval(ys, &mut values);
                values
            },
        );
        [a, b]
    }

    #[test]
    fn the_receivers_value_is_one_of_the_senders_three_and_all_look_random() {
        for width in [448, 512] {
            for n in [0, 1, 2, 31, 3000] {
                let xs = digests(0, n);
                let ys = [xs.clone(), digests(n, n + 100)].concat();
                let [mine, theirs] = run(width, &xs, &ys);
                assert_eq!(theirs.len(), 3 * ys.len());
                for (x, values) in mine.iter().zip(theirs.chunks_exact(3)) {
                    assert_eq!(values.iter().filter(|v| *v == x).count(), 1, "{width} {n}");
                }
                let all: HashSet<u128> = theirs.iter().map(|v| v.0).collect();
                assert_eq!(all.len(), theirs.len());
            }
        }
    }

    #[test]
    fn rows_are_hashed_whole_with_their_bin() {
        for width in [448, 512] {
            let own = UnitParams::new(&Params { session: [1; 32], bins: 9, width }, UNIT);
            let mut row = [Block(1), Block(2), Block(3), Block(u128::MAX / 5)];
            if width == 448 {
                row[3].0 >>= 64;
            }
            let mut values = Vec::new();
            own.hash([(7, row), (8, row)].into_iter(), &mut values);
            for (bin, value) in [7u64, 8].into_iter().zip(values) {
                let bytes = row.map(Block::to_le_bytes);
                let input = [&bytes.as_flattened()[..width / 8], &bin.to_le_bytes()].concat();
                let want = blake3::keyed_hash(&own.hash, &input);
                assert_eq!(value.to_le_bytes(), want.as_bytes()[..16], "{width}");
            }
        }
    }

    #[test]
    fn codewords_of_different_keys_are_far_apart() {
        let code = UnitParams::new(&Params { session: [1; 32], bins: 9, width: 448 }, UNIT).code;
        let inputs: Vec<Block> = digests(0, 300).into_iter().flat_map(|x| [0, 1, 2].map(|i| input(x, i))).collect();
        let words = code.words(&inputs);
        for i in 1..inputs.len() {
            let distance: u32 = (0..4).map(|b| (words[b][0] ^ words[b][i]).0.count_ones()).sum();
            assert!((150..300).contains(&distance), "{distance}");
        }
    }
}
