//! A function a bin that the sender programs: the receiver gets the sender's target at a key that both have, and noise at any other.
//!
//! [PSTY19] Pinkas, Schneider, Tkachenko, Yanai, "Efficient circuit-based PSI with linear communication", EUROCRYPT 2019, eprint 2019/241,
//! Figures 5 and 7, for the bins and the hint; [KMPRT17] Kolesnikov, Matania, Pinkas, Rosulek, Trieu, CCS 2017, eprint 2017/799, section 3, for
//! programming by a store; [RR22] eprint 2022/320, Figure 11, for the function; semi-honest.
//!
//!   x_b‖j_b  R's key in bin b, and by which of three hashes  entry    r_b   S's target of bin b, l bits            targets
//!   a, c     the receiver's vector OLE                       a, c     Δ, B  the sender's: c = a·Δ + B             delta, k
//!   d        a + H_B(entries)                                wire     F_b   H_o(B_b + Δ·(d_b + H_B(y‖j)), y‖j)    outer
//!
//! 1. R puts its keys into a cuckoo table, and a random key into every bin that is empty.
//! 2. Vector OLE of a coefficient a bin.  R -> S: d_b := a_b + H_B(x_b‖j_b).   S: K_b := B_b + Δ·d_b = c_b + Δ·H_B(x_b‖j_b).
//! 3. F_b(y‖j) = H_o(K_b + Δ·H_B(y‖j), y‖j) for S at each of the three bins of y;  F_b(x_b‖j_b) = H_o(c_b, x_b‖j_b) for R.
//! 4. S -> R: the seed and the slots, cut to l bits, of a store of { (y‖j, r_b + F_b(y‖j)) }, with filler to three times the public size.
//! 5. R: z_b := F_b(x_b‖j_b) + Decode(x_b‖j_b), for empty bins too.  z_b = r_b if x_b is S's key, and else it is uniform.
//!
//! If S's keys carry numbers w(y), one or more each, then for each pair of these two more steps, with m_b, random numbers of S's for each bin:
//! 4'. S -> R: the seed and the slots of a store of { (y‖j, (w(y) - m_b mod 2^64) + F'_b(y‖j)) }, where F' is F with an H_o of the pair's own.
//! 5'. R: t_b := F'_b(x_b‖j_b) + Decode(x_b‖j_b).  t_b = w(x_b) - m_b if x_b is S's key: uniform to R, as it is if x_b is not.
//! And if they carry a row of bits u(y), once more, with m_b random bits: { (y‖j, (u(y) + m_b) + F'_b(y‖j)) }, bit by bit, so that t_b = u(x_b) + m_b.
//! F' is no part of F and is not made from it: whoever guesses a target, or a number, has F, or F', at other keys of its bin.
//!
//! The sender sees d, which a pads. The receiver knows no F_b but its own, unless H_B(y‖j) = H_B(x_b‖j_b): once in |B| for each of S's
//! three evaluations of a key (`vesica_params::vole_base_bits` of 3·m). So every value in the store but R's own is uniform, and so is the
//! store: its free slots are random and it has the same number of pairs whatever S holds.
//! Rounds: VOLE + 1.   Bytes: R to S: VOLE(bins) + |B|·bins; S to R: ⌈l/8⌉·slots(3·m), and 8·slots(3·m) for each number.
//! Differs from the papers: no store of queries, as a bin is a slot (section 1 of RR22's step 1 falls away); one store for the hint.

use crate::vole::{Field, store};
use vesica_block::{Block, hash::Permutation, prefetch};
use vesica_okvs::{Cuckoo, Entry, Okvs, Paxos, Value};
use vesica_ot::softspoken;
use vesica_params::lpn::CodeSet;
use vesica_params::okvs::PaxosShape;
use vesica_session::{Channel, Error, Result, SessionRng};
use vesica_types::{Digest, UnitId};
use zeroize::Zeroizing;

/// What both parties agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Names the run: the parties' jointly tossed salt.
    pub session: [u8; 32],
    /// Bins of a unit, for the receiver's padded keys of one.
    pub bins: u32,
    /// The store of three pairs for each of the sender's padded keys of a unit.
    pub shape: PaxosShape,
    /// l: bits of a target, at most 128.
    pub bits: u32,
    /// The code of the vector OLE.
    pub code: &'static CodeSet,
}

/// Keys that are evaluated together: the rows of their bins fit in half of the first-level cache.
const TOGETHER: usize = 128;

/// Slots of the hint in a message.
const MESSAGE: usize = 1 << 20;

/// In the lowest l bits of a block, a target or what looks like one, for each bin.
pub type Targets = Zeroizing<Vec<Block>>;

/// What the sender programs.
#[derive(Default)]
pub struct Program {
    /// A random target for each bin.
    pub targets: Targets,
    /// For each of the numbers that its keys carry, w of each key.
    pub numbers: Vec<Zeroizing<Vec<u64>>>,
    /// And m of each bin.
    pub masks: Vec<Zeroizing<Vec<u64>>>,
    /// And the rows of bits that they carry, if they do.
    pub rows: Option<Rows>,
}

/// A row of bits for each key, in the lowest bits of a word.
pub struct Rows {
    /// How many bits, from 1 to 64.
    pub bits: u32,
    /// u of each key.
    pub of_keys: Zeroizing<Vec<u64>>,
    /// And m of each bin.
    pub masks: Zeroizing<Vec<u64>>,
}

/// What the sender's keys carry besides their targets.
#[derive(Clone, Copy, Default)]
pub struct Carries {
    /// How many numbers.
    pub numbers: usize,
    /// How many bits the rows of bits have, at most 64; none if there are no rows.
    pub bits: u32,
}

/// What the receiver has of a unit.
#[derive(Default)]
pub struct Received {
    /// What is in each bin, by its place in the receiver's keys.
    pub table: Vec<Option<Entry>>,
    /// What the function gives there.
    pub z: Targets,
    /// For each number that the sender's keys carry, t of each bin.
    pub carried: Vec<Zeroizing<Vec<u64>>>,
    /// And of the row of bits.
    pub rows: Zeroizing<Vec<u64>>,
}

/// The sender's side of a unit. `ys` are distinct, and as many as the store was shaped for. They carry as many numbers as the receiver expects.
///
/// # Errors
/// Those of the channel; the peer's if it breaks the protocol.
pub fn send<B: Field>(
    params: &Params,
    base: &softspoken::Sender,
    unit: UnitId,
    program: &Program,
    ys: &[Digest],
    ch: &mut dyn Channel,
    rng: &mut SessionRng,
) -> Result<()> {
    let own = Own::new(params, unit);
    let Program { targets, numbers, masks, rows } = program;
    let carries_none = numbers.is_empty() && rows.is_none();
    let bins = params.bins as usize;
    // 2. B;  <- d;  K := B + Δ·d
    ch.step("vole");
    let mut k = vesica_ot::vole::send::<B>(base, &params.session, unit, params.code, bins, ch, rng)?;
    ch.step("hint");
    let d = B::unpack(&ch.recv_exact(bins * B::BITS / 8)?);
    let delta = Zeroizing::new(base.delta());
    B::mul_add(&mut k, &d, *delta);
    // 3. and 4. { (y‖j, r_b + F_b(y‖j)) }
    let mut entries = Vec::with_capacity(3 * ys.len());
    let mut values = Zeroizing::new(Vec::with_capacity(3 * ys.len()));
    let mut inside = Zeroizing::new(Vec::with_capacity(if carries_none { 0 } else { 3 * ys.len() }));
    for ys in ys.chunks(TOGETHER) {
        let places = own.cuckoo.places(ys);
        let places = places.as_flattened();
        places.iter().for_each(|&bin| prefetch(&k, bin as usize));
        let first = entries.len();
        own.entries(ys, &mut entries);
        let entries = &entries[first..];
        values.extend(places.iter().map(|&bin| k[bin as usize]));
        let values = &mut values[first..];
        B::mul_add(values, &inner::<B>(entries), *delta);
        if !carries_none {
            inside.extend_from_slice(values);
        }
        outer(&own.outer, values, entries);
        values.iter_mut().zip(places).for_each(|(value, &bin)| *value ^= targets[bin as usize]);
    }
    // -> the hint
    if params.bits <= 64 {
        params.send_hint::<u64>(&entries, &values, ch, rng)?;
    } else {
        params.send_hint::<Block>(&entries, &values, ch, rng)?;
    }
    // 4'. { (y‖j, w(y) - m_b + F'_b(y‖j)) }
    let hide = |values: &mut [Block], pair: usize, of: &dyn Fn(usize, usize) -> Block| {
        values.copy_from_slice(&inside);
        outer(&params.of_pair(unit, pair), values, &entries);
        for (nth, (values, ys)) in values.chunks_mut(3 * TOGETHER).zip(ys.chunks(TOGETHER)).enumerate() {
            let places = own.cuckoo.places(ys);
            for (i, (value, &bin)) in values.iter_mut().zip(places.as_flattened()).enumerate() {
                *value ^= of(nth * TOGETHER + i / 3, bin as usize);
            }
        }
    };
    // -> the stores
    for (pair, (numbers, masks)) in numbers.chunks(2).zip(masks.chunks(2)).enumerate() {
        hide(&mut values, pair, &|key, bin| {
            let less = |which: usize| match (numbers.get(which), masks.get(which)) {
                (Some(w), Some(m)) => w[key].wrapping_sub(m[bin]),
                _ => 0,
            };
            Block::from_halves(less(0), less(1))
        });
        match numbers {
            [_] => params.in_bits(64).send_hint::<u64>(&entries, &values, ch, rng)?,
            _ => params.in_bits(128).send_hint::<Block>(&entries, &values, ch, rng)?,
        }
    }
    if let Some(Rows { bits, of_keys, masks }) = rows {
        hide(&mut values, numbers.len().div_ceil(2), &|key, bin| Block((of_keys[key] ^ masks[bin]).into()));
        params.in_bits(*bits).send_hint::<u64>(&entries, &values, ch, rng)?;
    }
    Ok(())
}

/// The receiver's side of a unit. `xs` are distinct, and no more than the bins were counted for; the sender's keys carry what both expect.
///
/// # Errors
/// As [`send`].
pub fn receive<B: Field>(
    params: &Params,
    base: &softspoken::Receiver,
    unit: UnitId,
    xs: &[Digest],
    Carries { numbers, bits }: Carries,
    ch: &mut dyn Channel,
    rng: &mut SessionRng,
) -> Result<Received> {
    let own = Own::new(params, unit);
    let bins = params.bins as usize;
    // 1. x_b‖j_b
    let table = own.cuckoo.table(xs).map_err(|error| Error::Bug(error.to_string()))?;
    let mut of_keys = Vec::with_capacity(3 * xs.len());
    own.entries(xs, &mut of_keys);
    let entries: Vec<Digest> = table
        .iter()
        .map(|entry| {
            // Drawn for a full bin too, so that filling one takes no other time.
            let random = Digest(rng.bytes());
            entry.map_or(random, |entry| of_keys[3 * entry.key() + entry.which()])
        })
        .collect();
    // 2. a, c;  -> d
    ch.step("vole");
    let (mut a, mut z) = vesica_ot::vole::receive::<B>(base, &params.session, unit, params.code, bins, ch, rng)?;
    ch.step("hint");
    a.iter_mut().zip(inner::<B>(&entries)).for_each(|(a, h)| *a = a.xor(h));
    let mut wire = Vec::with_capacity(bins * B::BITS / 8);
    B::pack(&a, &mut wire);
    ch.send(&wire)?;
    // 3. F_b(x_b‖j_b)
    let inside = Zeroizing::new(if numbers > 0 || bits > 0 { z.to_vec() } else { Vec::new() });
    outer(&own.outer, &mut z, &entries);
    // 5. <- the hint
    let decoded = if params.bits <= 64 {
        params.receive_hint::<u64>(&entries, ch)?
    } else {
        params.receive_hint::<Block>(&entries, ch)?
    };
    z.iter_mut().zip(&*decoded).for_each(|(z, &value)| *z = (*z ^ value) & Block(params.mask()));
    // 5'. <- the stores
    let mut carried = Vec::with_capacity(numbers);
    let decode = |pair: usize, bits: u32, ch: &mut dyn Channel| -> Result<Targets> {
        let (mut t, params) = (inside.clone(), params.in_bits(bits));
        outer(&params.of_pair(unit, pair), &mut t, &entries);
        let decoded = match bits {
            ..=64 => params.receive_hint::<u64>(&entries, ch)?,
            _ => params.receive_hint::<Block>(&entries, ch)?,
        };
        t.iter_mut().zip(&*decoded).for_each(|(t, &value)| *t = (*t ^ value) & Block(params.mask()));
        Ok(t)
    };
    for (pair, first) in (0..numbers).step_by(2).enumerate() {
        let two = first + 1 < numbers;
        let t = decode(pair, if two { 128 } else { 64 }, ch)?;
        carried.push(Zeroizing::new(t.iter().map(|t| t.low()).collect()));
        if two {
            carried.push(Zeroizing::new(t.iter().map(|t| t.high()).collect()));
        }
    }
    let rows = match bits {
        0 => Zeroizing::default(),
        _ => Zeroizing::new(decode(numbers.div_ceil(2), bits, ch)?.iter().map(|t| t.low()).collect()),
    };
    Ok(Received { table, z, carried, rows })
}

impl Params {
    /// Bytes of memory that a unit takes of the receiver, which has so many keys at most, and of the sender: what [`receive`] and [`send`] hold when they
    /// come to their end, with what they are given and hand over but for the keys.
    pub fn memory<B: Field>(&self, [xs, ys]: [u64; 2], carries: Carries) -> [u64; 2] {
        let (bins, pairs, slots) = (u64::from(self.bins), 3 * ys, self.shape.slots() as u64);
        let (block, field) = (Block::BYTES as u64, B::BITS as u64 / 8);
        // A slot as it is in memory, of the widest store.
        let value = if self.bits > 64 || carries.numbers > 1 { block } else { block / 2 };
        let [numbers, rows] = [carries.numbers as u64, u64::from(carries.bits > 0)];
        let further = (numbers + rows).min(1);
        // A store, a message of it and its copy on the way.
        let store = slots * value + 2 * slots.min(MESSAGE as u64) * value;
        let [sends, receives] = vesica_ot::vole::memory::<B>(self.code, self.bins as usize);
        // The place of the key in a bin, its entry, z and what the hint has there, in a block and as it was decoded; a, on the wire and on its way too.
        let of_hint = 8 + 4 * block + value + 3 * field;
        // What F' is made from, and t: in a block, and as it is handed over.
        let of_stores = 2 * block * further + 8 * (numbers + rows);
        let receiver = receives + 3 * block * xs + (of_hint + of_stores) * bins + store;
        // K, a target, and d; the masks.
        let of_a_bin = 2 * block + 2 * field + 8 * (numbers + rows);
        // An entry, its value, and what F' is made from; the value as it is stored, twice, and its row.
        let of_a_pair = 2 * block + block * further + 2 * value + 8;
        let sender = sends + of_a_pair * pairs + 8 * (numbers + rows) * ys + of_a_bin * bins + store;
        [receiver, sender]
    }

    /// The lowest l bits.
    fn mask(&self) -> u128 {
        u128::MAX >> (128 - self.bits)
    }

    /// The same with targets of so many bits.
    fn in_bits(&self, bits: u32) -> Self {
        Self { bits, ..*self }
    }

    /// What H_o of a pair of numbers is made from.
    fn of_pair(&self, unit: UnitId, pair: usize) -> Permutation {
        Permutation::new(self.block(unit, &[b"pair", &pair.to_le_bytes()[..]].concat()))
    }

    /// A key of the unit's own, which is public.
    fn block(&self, unit: UnitId, what: &[u8]) -> Block {
        let mut hash = blake3::Hasher::new_derive_key("vesica 2026 opprf");
        hash.update(&self.session).update(&unit.0.to_le_bytes()).update(what);
        Block::from_le_bytes(hash.finalize().as_bytes().as_chunks().0[0])
    }

    /// Bytes of a slot.
    fn slot(&self) -> usize {
        self.bits.div_ceil(8) as usize
    }

    fn send_hint<V: Slot>(
        &self,
        entries: &[Digest],
        values: &[Block],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<()> {
        let cut: Vec<V> = values.iter().map(|&value| V::cut(value)).collect();
        let (seed, _, slots) = store(self.shape, entries, &cut, rng)?;
        ch.send(&seed.to_le_bytes())?;
        for slots in slots.chunks(MESSAGE) {
            let mut wire = Vec::with_capacity(slots.len() * self.slot());
            // A slot travels in whole bytes. Bits above l would be the function alone, without a target, and the receiver would see
            // them meet its own.
            let cut = |slot: &V| (slot.widen() & Block(self.mask())).to_le_bytes();
            slots.iter().for_each(|slot| wire.extend_from_slice(&cut(slot)[..self.slot()]));
            ch.send(&wire)?;
        }
        Ok(())
    }

    fn receive_hint<V: Slot>(&self, entries: &[Digest], ch: &mut dyn Channel) -> Result<Targets> {
        let seed = ch.recv_exact(Block::BYTES)?;
        let okvs = Paxos::new(self.shape, Block::from_le_bytes(seed.as_chunks().0[0]));
        let mut slots: Vec<V> = Vec::with_capacity(self.shape.slots());
        while slots.len() < self.shape.slots() {
            let n = MESSAGE.min(self.shape.slots() - slots.len());
            let wire = ch.recv_exact(n * self.slot())?;
            slots.extend(wire.chunks_exact(self.slot()).map(|bytes| {
                let mut block = [0; Block::BYTES];
                block[..bytes.len()].copy_from_slice(bytes);
                V::cut(Block::from_le_bytes(block))
            }));
        }
        let mut decoded = Vec::with_capacity(entries.len());
        okvs.decode(entries, &slots, &mut decoded);
        Ok(Zeroizing::new(decoded.into_iter().map(V::widen).collect()))
    }
}

/// What a slot of the hint is in memory.
trait Slot: Value {
    /// The lowest bits.
    fn cut(block: Block) -> Self;
    /// With zeros above.
    fn widen(self) -> Block;
}

impl Slot for u64 {
    fn cut(block: Block) -> Self {
        block.low()
    }
    fn widen(self) -> Block {
        Block(self.into())
    }
}

impl Slot for Block {
    fn cut(block: Block) -> Self {
        block
    }
    fn widen(self) -> Block {
        self
    }
}

/// What is a unit's own: its bins and its hashes.
struct Own {
    cuckoo: Cuckoo,
    /// y‖j: one for each j.
    entries: [Permutation; 3],
    outer: Permutation,
}

impl Own {
    fn new(params: &Params, unit: UnitId) -> Self {
        let block = |what: &[u8]| params.block(unit, what);
        Self {
            cuckoo: Cuckoo::new(params.bins, block(b"bins")),
            entries: [b"first", b"other", b"third"].map(|what| Permutation::new(block(what))),
            outer: Permutation::new(block(b"outer")),
        }
    }

    /// Appends y‖j for each y and j, hashed: a block that no other key and no other j gives.
    fn entries(&self, ys: &[Digest], entries: &mut Vec<Digest>) {
        for ys in ys.chunks(TOGETHER) {
            let hashed = [0, 1, 2].map(|which| {
                let mut blocks = [Block::ZERO; TOGETHER];
                blocks.iter_mut().zip(ys).for_each(|(block, &y)| *block = y.into());
                self.entries[which].cr(&mut blocks[..ys.len()]);
                blocks
            });
            entries.extend((0..ys.len()).flat_map(|i| [0, 1, 2].map(|which| Digest(hashed[which][i].to_le_bytes()))));
        }
    }
}

/// H_o: v[i] ← CR(CR(v[i]) + entry[i]), correlation robust as in `vole`.
fn outer(permutation: &Permutation, v: &mut [Block], entries: &[Digest]) {
    permutation.cr(v);
    v.iter_mut().zip(entries).for_each(|(v, &entry)| *v ^= Block::from(entry));
    permutation.cr(v);
}

/// H_B: an entry is a hash already.
fn inner<B: Field>(entries: &[Digest]) -> Vec<B> {
    entries.iter().map(|&entry| B::from_block(entry.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_ot::Security;
    use vesica_params::{Level, cuckoo, lpn, okvs};
    use vesica_testkit::{digests, recorded, two};

    const UNIT: UnitId = UnitId(3);

    fn params(n: u64, m: u64, bits: u32) -> Params {
        let bins = cuckoo::bins(n, 1, Level::STANDARD).unwrap();
        let shape = okvs::paxos(3 * m, 1, Level::STANDARD).unwrap();
        Params { session: [7; 32], bins, shape, bits, code: &lpn::SETS[0] }
    }

    type Made = (Vec<Option<Entry>>, Vec<Block>, Vec<Block>);

    /// What both sides make of these keys.
    fn run<B: Field>(params: Params, xs: &[Digest], ys: &[Digest]) -> Made {
        let (Received { table, z, .. }, program) = run_carrying::<B>(params, xs, ys, Carries::default());
        (table, z.to_vec(), program.targets.to_vec())
    }

    /// The number `which` that a key carries.
    fn number(y: &Digest, which: usize) -> u64 {
        u64::from_le_bytes(*y.0.first_chunk().unwrap()).rotate_left(7 * which as u32)
    }

    /// What the receiver has, and what the sender programs, where keys carry all that.
    fn run_carrying<B: Field>(params: Params, xs: &[Digest], ys: &[Digest], carries: Carries) -> (Received, Program) {
        let Carries { numbers, bits } = carries;
        two(
            |lines, rng| {
                let ch = lines.peer().unwrap();
                let base = softspoken::Receiver::open(Security::SemiHonest, softspoken::FOLD, &params.session, ch, rng)
                    .unwrap();
                receive::<B>(&params, &base, UNIT, xs, carries, ch, rng).unwrap()
            },
            |lines, rng| {
                let ch = lines.peer().unwrap();
                let base =
                    softspoken::Sender::open(Security::SemiHonest, softspoken::FOLD, &params.session, ch, rng).unwrap();
                let mask = u128::MAX >> (128 - params.bits);
                let targets: Vec<Block> =
                    (0..params.bins).map(|_| Block(u128::from_le_bytes(rng.bytes()) & mask)).collect();
                let targets = Zeroizing::new(targets);
                let of_keys = |which| Zeroizing::new(ys.iter().map(|y| number(y, which)).collect());
                let mut drawn = || Zeroizing::new((0..params.bins).map(|_| u64::from_le_bytes(rng.bytes())).collect());
                let masks: Vec<_> = (0..numbers).map(|_| drawn()).collect();
                let rows = (bits > 0).then(|| Rows { bits, of_keys: of_keys(9), masks: drawn() });
                let program = Program { targets, numbers: (0..numbers).map(of_keys).collect(), masks, rows };
                send::<B>(&params, &base, UNIT, &program, ys, ch, rng).unwrap();
                program
            },
        )
    }

    /// A row of bits comes out in the same way, bit by bit, beside numbers and without them.
    #[test]
    fn rows_of_bits_come_out_under_masks_where_keys_are_common() {
        let (xs, ys) = (digests(0, 300), digests(200, 500));
        for (numbers, bits) in [(0, 1), (1, 11), (2, 16), (3, 64)] {
            let (received, program) = run_carrying::<u64>(params(310, 300, 57), &xs, &ys, Carries { numbers, bits });
            let (mask, mut common, mut ones) = (u64::MAX >> (64 - bits), 0, 0);
            let masks = program.rows.unwrap().masks;
            for (entry, (t, m)) in received.table.iter().zip(received.rows.iter().zip(&*masks)) {
                let key = entry.map(|entry| &xs[entry.key()]).filter(|key| ys.binary_search(key).is_ok());
                match key {
                    Some(key) => {
                        assert_eq!((t ^ m) & mask, number(key, 9) & mask);
                        common += 1;
                    }
                    None => ones += t.count_ones(),
                }
                assert_eq!(t & !mask, 0);
            }
            assert_eq!((common, received.carried.len()), (100, numbers));
            let all = f64::from(bits) * (masks.len() - 100) as f64;
            assert!((f64::from(ones) - all / 2.0).abs() < 5.0 * all.sqrt() / 2.0, "{ones} of {all}");
        }
    }

    /// What a key carries comes out under the mask of its bin where it is common, and nothing that looks like it elsewhere: whatever the number of
    /// targets' bits, and of one number as of several.
    #[test]
    fn numbers_come_out_under_masks_where_keys_are_common() {
        let (xs, ys) = (digests(0, 300), digests(200, 500));
        for (numbers, bits) in [(1, 57), (2, 64), (3, 77), (4, 128)] {
            let params = params(310, 300, bits);
            let (received, Program { masks, .. }) = run_carrying::<u64>(params, &xs, &ys, Carries { numbers, bits: 0 });
            assert_eq!([received.carried.len(), masks.len()], [numbers; 2]);
            let (mut common, mut halves) = (0, [0u32; 4]);
            for (which, (carried, masks)) in received.carried.iter().zip(&masks).enumerate() {
                for (entry, (t, m)) in received.table.iter().zip(carried.iter().zip(&**masks)) {
                    let key = entry.map(|entry| &xs[entry.key()]);
                    match key.filter(|key| ys.binary_search(key).is_ok()) {
                        Some(key) => {
                            assert_eq!(t.wrapping_add(*m), number(key, which), "{numbers} {which}");
                            common += 1;
                        }
                        None => {
                            assert_ne!(Some(t.wrapping_add(*m)), key.map(|key| number(key, which)));
                            halves[which] += t.count_ones();
                        }
                    }
                }
                let bits = (64 * (params.bins - 100)) as f64;
                assert!((f64::from(halves[which]) - bits / 2.0).abs() < 5.0 * bits.sqrt() / 2.0, "{halves:?} {bits}");
            }
            assert_eq!(common, 100 * numbers);
        }
    }

    /// F' of a pair of numbers is not F, nor that of another pair: with empty masks and numbers the stores have nothing in common.
    #[test]
    fn each_pair_of_numbers_has_a_function_of_its_own() {
        let params = params(300, 100, 128);
        let block = |key: &Permutation| {
            let mut blocks = [Block(5), Block(6)];
            outer(key, &mut blocks, &digests(0, 2));
            blocks
        };
        let own = block(&Own::new(&params, UNIT).outer);
        let pairs = [0, 1, 2].map(|pair| block(&params.of_pair(UNIT, pair)));
        let other = block(&params.of_pair(UnitId(4), 0));
        let all = [own, pairs[0], pairs[1], pairs[2], other].concat();
        assert_eq!(all.iter().map(|block| block.0).collect::<std::collections::BTreeSet<_>>().len(), 10);
    }

    #[test]
    fn targets_come_out_where_keys_are_common_and_nowhere_else() {
        for bits in [57, 64, 77, 128] {
            for (xs, ys) in
                [(digests(0, 300), digests(200, 500)), (digests(0, 5), digests(5, 6)), (vec![], digests(0, 9))]
            {
                let params = params(xs.len() as u64 + 9, ys.len() as u64, bits);
                let made = if bits > 64 { run::<Block>(params, &xs, &ys) } else { run::<u64>(params, &xs, &ys) };
                let (table, z, r) = made;
                assert_eq!([table.len(), z.len(), r.len()], [params.bins as usize; 3]);
                assert_eq!(table.iter().flatten().count(), xs.len());
                for ((entry, z), r) in table.iter().zip(&z).zip(&r) {
                    let common = entry.is_some_and(|entry| ys.binary_search(&xs[entry.key()]).is_ok());
                    assert_eq!(z == r, common);
                    assert!(z.0 >> bits.min(127) <= 1 && (bits == 128 || (z.0 | r.0) >> bits == 0));
                }
            }
        }
    }

    /// At keys that are not common, every bit of z + r is as often 0 as 1.
    #[test]
    fn what_is_not_common_gives_what_looks_random() {
        let (xs, ys) = (digests(0, 3000), digests(3000, 3500));
        for bits in [61, 64] {
            let (_, z, r) = run::<u64>(params(3000, 500, bits), &xs, &ys);
            for bit in 0..bits {
                let ones = z.iter().zip(&r).filter(|(z, r)| (z.0 ^ r.0) >> bit & 1 == 1).count() as f64;
                let n = z.len() as f64;
                assert!((ones - n / 2.0).abs() < 5.0 * n.sqrt() / 2.0, "bit {bit} of {bits}: {ones} of {n}");
            }
        }
    }

    /// No target covers bits above l. If they travelled, the receiver would find its own function in them where a key is common, and know
    /// which keys are before anything is opened.
    #[test]
    fn a_hint_has_nothing_above_the_targets() {
        for bits in [41, 57, 61, 62, 64, 65, 77, 127, 128] {
            let params = params(50, 100, bits);
            let bytes =
                if bits > 64 { hint::<Block>(params, &digests(0, 100)) } else { hint::<u64>(params, &digests(0, 100)) };
            let width = bits.div_ceil(8) as usize;
            assert_eq!(bytes.len(), params.shape.slots() * width);
            let above = |slot: &[u8]| u32::from(slot[width - 1]) >> (bits - 8 * (width as u32 - 1));
            assert!(bytes.chunks_exact(width).all(|slot| above(slot) == 0), "{bits} bits");
        }
    }

    /// The hint of these keys, as the receiver sees it.
    fn hint<B: Field>(params: Params, ys: &[Digest]) -> Vec<u8> {
        let targets = Zeroizing::new(vec![Block(5); params.bins as usize]);
        sent::<B>(params, &Program { targets, ..Program::default() }, ys).pop().expect("the hint")
    }

    /// What the receiver is sent with a program for these keys.
    fn sent<B: Field>(params: Params, program: &Program, ys: &[Digest]) -> Vec<Vec<u8>> {
        let bits = program.rows.as_ref().map_or(0, |rows| rows.bits);
        let carries = Carries { numbers: program.numbers.len(), bits };
        let (receiver, _) = recorded(
            |lines, rng| {
                let ch = lines.peer().unwrap();
                let base = softspoken::Receiver::open(Security::SemiHonest, softspoken::FOLD, &params.session, ch, rng)
                    .unwrap();
                receive::<B>(&params, &base, UNIT, &digests(0, 50), carries, ch, rng).map(drop)
            },
            |lines, rng| {
                let ch = lines.peer().unwrap();
                let base =
                    softspoken::Sender::open(Security::SemiHonest, softspoken::FOLD, &params.session, ch, rng).unwrap();
                send::<B>(&params, &base, UNIT, program, ys, ch, rng)
            },
        );
        receiver.0.unwrap();
        receiver.1.into_iter().filter(|message| !message.sent).map(|message| message.bytes).collect()
    }

    /// Where targets, numbers, rows and masks are all 0, a store has nothing but its function at each key. No two stores have the same one: F, F' of
    /// each pair of numbers, and F' of the rows of bits. Or who guesses a number would have what hides the groups.
    #[test]
    fn each_store_is_under_a_function_of_its_own() {
        let (ys, params) = (digests(0, 100), params(50, 100, 64));
        let mut entries = Vec::new();
        Own::new(&params, UNIT).entries(&ys, &mut entries);
        for numbers in 0..5usize {
            let zeros = |len: usize| Zeroizing::new(vec![0; len]);
            let (bins, all) = (params.bins as usize, |len: usize| (0..numbers).map(|_| zeros(len)).collect::<Vec<_>>());
            let program = Program {
                targets: Zeroizing::new(vec![Block::ZERO; bins]),
                numbers: all(ys.len()),
                masks: all(bins),
                rows: Some(Rows { bits: 64, of_keys: zeros(ys.len()), masks: zeros(bins) }),
            };
            let messages = sent::<u64>(params, &program, &ys);
            // A seed and slots of each: the hint, a store for each pair of numbers, and the rows.
            let stores = 2 + numbers.div_ceil(2);
            let mut values = Vec::new();
            for store in messages[messages.len() - 2 * stores..].as_chunks::<2>().0 {
                let slot = store[1].len() / params.shape.slots();
                let slots: Vec<Block> = store[1]
                    .chunks_exact(slot)
                    .map(|bytes| {
                        let mut block = [0; Block::BYTES];
                        block[..slot].copy_from_slice(bytes);
                        Block::from_le_bytes(block)
                    })
                    .collect();
                let mut decoded = Vec::new();
                let seed = Block::from_le_bytes(store[0].as_chunks().0[0]);
                Paxos::new(params.shape, seed).decode(&entries, &slots, &mut decoded);
                values.extend(decoded.iter().map(|value| value.low()));
                if slot > 8 {
                    values.extend(decoded.iter().map(|value| value.high()));
                }
            }
            assert_eq!(values.len(), entries.len() * (2 + numbers));
            values.sort_unstable();
            assert!(values.windows(2).all(|two| two[0] != two[1]), "{numbers} numbers");
        }
    }

    /// The hint of keys and the hint of fillers: as long, and none has more zero slots than chance gives.
    #[test]
    fn a_hint_does_not_show_what_is_in_it() {
        let params = params(50, 400, 64);
        let hint = |ys: Vec<Digest>| hint::<u64>(params, &ys);
        for bytes in [hint(digests(0, 400)), hint(digests(1000, 1400))] {
            assert_eq!(bytes.len(), params.shape.slots() * 8);
            assert!(bytes.as_chunks::<8>().0.iter().all(|slot| *slot != [0; 8]));
            let mut counted = [0f64; 256];
            bytes.iter().for_each(|&byte| counted[usize::from(byte)] += 1.0);
            let expected = bytes.len() as f64 / 256.0;
            let chi: f64 = counted.iter().map(|c| (c - expected).powi(2) / expected).sum();
            assert!((160.0..370.0).contains(&chi), "{chi}");
        }
    }
}
