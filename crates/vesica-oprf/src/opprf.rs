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
//! The sender sees d, which a pads. The receiver knows no F_b but its own, unless H_B(y‖j) = H_B(x_b‖j_b): once in |B| for each of S's
//! three evaluations of a key (`vesica_params::vole_base_bits` of 3·m). So every value in the store but R's own is uniform, and so is the
//! store: its free slots are random and it has the same number of pairs whatever S holds.
//! Rounds: VOLE + 1.   Bytes: R to S: VOLE(bins) + |B|·bins; S to R: ⌈l/8⌉·slots(3·m).
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

/// The sender's side of a unit. `targets` are random, one a bin; `ys` are distinct, and as many as the store was shaped for.
///
/// # Errors
/// Those of the channel; the peer's if it breaks the protocol.
pub fn send<B: Field>(
    params: &Params,
    base: &softspoken::Sender,
    unit: UnitId,
    targets: &[Block],
    ys: &[Digest],
    ch: &mut dyn Channel,
    rng: &mut SessionRng,
) -> Result<()> {
    let own = Own::new(params, unit);
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
        own.outer(values, entries);
        values.iter_mut().zip(places).for_each(|(value, &bin)| *value ^= targets[bin as usize]);
    }
    // -> the hint
    if params.bits <= 64 {
        params.send_hint::<u64>(&entries, &values, ch, rng)
    } else {
        params.send_hint::<Block>(&entries, &values, ch, rng)
    }
}

/// The receiver's side of a unit: what is in each bin, by its place in `xs`, and what the function gives there. `xs` are distinct, and no
/// more than the bins were counted for.
///
/// # Errors
/// As [`send`].
pub fn receive<B: Field>(
    params: &Params,
    base: &softspoken::Receiver,
    unit: UnitId,
    xs: &[Digest],
    ch: &mut dyn Channel,
    rng: &mut SessionRng,
) -> Result<(Vec<Option<Entry>>, Targets)> {
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
    own.outer(&mut z, &entries);
    // 5. <- the hint
    let decoded = if params.bits <= 64 {
        params.receive_hint::<u64>(&entries, ch)?
    } else {
        params.receive_hint::<Block>(&entries, ch)?
    };
    z.iter_mut().zip(&*decoded).for_each(|(z, &value)| *z = (*z ^ value) & Block(params.mask()));
    Ok((table, z))
}

impl Params {
    /// The lowest l bits.
    fn mask(&self) -> u128 {
        u128::MAX >> (128 - self.bits)
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
        let block = |what: &[u8]| {
            let mut hash = blake3::Hasher::new_derive_key("vesica 2026 opprf");
            hash.update(&params.session).update(&unit.0.to_le_bytes()).update(what);
            Block::from_le_bytes(hash.finalize().as_bytes().as_chunks().0[0])
        };
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

    /// H_o: v[i] ← CR(CR(v[i]) + entry[i]), correlation robust as in `vole`.
    fn outer(&self, v: &mut [Block], entries: &[Digest]) {
        self.outer.cr(v);
        v.iter_mut().zip(entries).for_each(|(v, &entry)| *v ^= Block::from(entry));
        self.outer.cr(v);
    }
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
        let ((table, z), r) = two(
            |lines, rng| {
                let ch = lines.peer().unwrap();
                let base = softspoken::Receiver::open(Security::SemiHonest, softspoken::FOLD, &params.session, ch, rng)
                    .unwrap();
                receive::<B>(&params, &base, UNIT, xs, ch, rng).unwrap()
            },
            |lines, rng| {
                let ch = lines.peer().unwrap();
                let base =
                    softspoken::Sender::open(Security::SemiHonest, softspoken::FOLD, &params.session, ch, rng).unwrap();
                let mask = u128::MAX >> (128 - params.bits);
                let targets: Vec<Block> =
                    (0..params.bins).map(|_| Block(u128::from_le_bytes(rng.bytes()) & mask)).collect();
                send::<B>(&params, &base, UNIT, &targets, ys, ch, rng).unwrap();
                targets
            },
        );
        (table, z.to_vec(), r)
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
        let (receiver, _) = recorded(
            |lines, rng| {
                let ch = lines.peer().unwrap();
                let base = softspoken::Receiver::open(Security::SemiHonest, softspoken::FOLD, &params.session, ch, rng)
                    .unwrap();
                receive::<B>(&params, &base, UNIT, &digests(0, 50), ch, rng).map(drop)
            },
            |lines, rng| {
                let ch = lines.peer().unwrap();
                let base =
                    softspoken::Sender::open(Security::SemiHonest, softspoken::FOLD, &params.session, ch, rng).unwrap();
                let targets = vec![Block(5); params.bins as usize];
                send::<B>(&params, &base, UNIT, &targets, ys, ch, rng)
            },
        );
        receiver.0.unwrap();
        receiver.1.into_iter().rfind(|message| !message.sent).expect("the hint").bytes
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
