//! Boolean circuits on bits that two parties hold in shares: each has a bit, and the shared one is their sum modulo 2.
//!
//! [GMW87] Goldreich, Micali, Wigderson, STOC 1987; [Beaver91] Beaver, CRYPTO 1991, for triples; [ALSZ13] Asharov, Lindell, Schneider,
//! Zohner, CCS 2013, eprint 2013/552, section 5.1, for triples from two transfers of random bits; semi-honest.
//!
//! A triple is three shared bits a, b, c with c = a·b. Of one transfer each way: a party's own a is the sum of the two keys' bits m0, m1
//! that it sends, its own b the choice that it makes as a receiver, and its c is a·b + m0 + the bit that it received: for m0 + (what the peer
//! got of it) is its a times the peer's b.
//! An addition takes no message. A product x·y takes a triple, and a bit for each of x + a and y + b, which are opened; every triple is
//! used once, so what is opened is uniform.
//!
//! Bits stand in words of 64, and a word is one operation. Beside the triples a unit gets *pads*: transfers of random blocks, from which a
//! bit is multiplied by numbers of the party that sends them. Up to two numbers take the halves of the block. For more of them it is
//! stretched by a hash ([GKWY20] eprint 2019/074, section 7), of which a pair of columns is the tweak.
//!
//! Whether two numbers of l bits are the same takes l - 1 products, of two transfers each. One transfer a bit is enough to add up in how many
//! bits they differ, modulo a power of two above l, and then it is asked whether that number of 6 or 7 bits is zero ([Couteau18] Couteau, ACNS
//! 2018, eprint 2016/544, section 4.1). Differs from the paper: one of the two numbers is random, so its owner takes the choices of its
//! transfers for it, and need not say how they differ.

use std::ops::Range;
use vesica_block::hash::Permutation;
use vesica_block::{Block, transpose::transpose};
use vesica_ot::softspoken::{FOLD, Receiver, Sender};
use vesica_ot::{Security, cot};
use vesica_session::{Channel, Result, SessionRng};
use vesica_types::UnitId;
use zeroize::{Zeroize, Zeroizing};

/// What both kinds of transfers are made from, for all units of a job.
pub struct Base {
    /// Whether this is the party that sends pads; it also counts for one where a constant is added.
    pub first: bool,
    /// For the transfers that this party sends.
    pub sends: Sender,
    /// For those that it receives.
    pub receives: Receiver,
    /// Names the run.
    session: [u8; 32],
}

/// What a unit is made for.
#[derive(Clone, Copy, Default)]
pub struct Needs {
    /// Words of products.
    pub words: usize,
    /// Random numbers that the party which receives pads compares with the peer's: as many as there are bins.
    pub targets: usize,
    /// Bits of each of them, at most 128.
    pub bits: usize,
    /// Pads.
    pub pads: usize,
    /// Pads in the other direction: sent by the party that receives the others.
    pub back: usize,
}

impl Needs {
    /// What it takes to compare so many targets, and so many pads.
    pub fn of_targets(targets: usize, bits: usize, pads: usize) -> Self {
        Self { words: (width(bits) - 1) * words(targets), targets, bits, pads, back: 0 }
    }

    /// Bits of targets, in [`words`].
    fn planes(&self) -> usize {
        self.bits * words(self.targets)
    }

    /// Transfers from the party that sends pads, and to it.
    fn transfers(&self) -> [usize; 2] {
        [64 * (self.words + self.planes()) + self.pads, 64 * self.words + self.back]
    }

    /// Bytes of memory that [`Made`] takes, with what the transfers are made from, of the party that sends pads and of the other one.
    pub fn memory(&self) -> [u64; 2] {
        let (planes, row) = (self.planes(), 64 * words(self.targets));
        let noise: u64 = self.transfers().map(cot::memory).iter().sum();
        // Both keys of what a party sends, and of what it receives one and the choice.
        let keys = |sends: usize, receives: usize| 2 * Block::BYTES * sends + Block::BYTES * receives + receives / 8;
        // A byte for each target, and its bits; the bits of the other party's numbers, and those of how many of them differ, in blocks and flipped.
        let sends = 64 * planes + 8 * planes + keys(self.pads, self.back);
        let receives = 8 * planes + keys(self.back, self.pads);
        [sends, receives].map(|bytes| noise + (24 * self.words + row + 3 * Block::BYTES * row + bytes) as u64)
    }
}

/// What a unit uses up: triples, word by word, transfers for the bits of targets, and pads.
pub struct Made {
    first: bool,
    needs: Needs,
    a: Zeroizing<Vec<u64>>,
    b: Zeroizing<Vec<u64>>,
    c: Zeroizing<Vec<u64>>,
    /// Words of triples that were used.
    used: usize,
    /// A byte for each target: of the party that receives pads the sum of the bytes that it received for the bits of the target, and of
    /// the other one minus the sum of those that it would have sent for zeros.
    sums: Zeroizing<Vec<u8>>,
    /// Of the party that sends pads: by how much its byte for a zero exceeds that for a one. The lowest bits of all targets come first, then
    /// the next ones, each in [`words`].
    steps: Zeroizing<Vec<u8>>,
    /// Of the other one: the bits of its targets, in the same order.
    targets: Zeroizing<Vec<u64>>,
    /// [`LOT`], but in tests of what happens from the second lot on.
    lot: usize,
    /// What was opened: the same on both sides, and other in each attempt.
    opened: blake3::Hasher,
    /// Stretches the pads that this party sends, and those that it receives.
    stretch: [Permutation; 2],
    /// Of the pads that this party sends: their keys for a choice of 0, and those for 1.
    pub both: [Zeroizing<Vec<Block>>; 2],
    /// Of the pads that it receives: the keys that it has.
    pub one: Zeroizing<Vec<Block>>,
    /// And its choices, in words.
    pub choices: Zeroizing<Vec<u64>>,
}

impl Base {
    /// Opens a side.
    ///
    /// # Errors
    /// Those of the channel; the peer's if it breaks the protocol.
    pub fn open(first: bool, session: [u8; 32], ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self> {
        let semi = Security::SemiHonest;
        let (sends, receives) = if first {
            let sends = Sender::open_odd(semi, FOLD, &session, ch, rng)?;
            (sends, Receiver::open(semi, FOLD, &session, ch, rng)?)
        } else {
            let receives = Receiver::open(semi, FOLD, &session, ch, rng)?;
            (Sender::open_odd(semi, FOLD, &session, ch, rng)?, receives)
        };
        Ok(Self { first, sends, receives, session })
    }

    /// The permutations by which trees grow, and by which their leaves become numbers, where the party that receives pads plants them.
    pub fn trees(&self, unit: UnitId) -> [Permutation; 2] {
        let names: [&[u8]; 2] = [b"trees", b"leaves of trees"];
        names.map(|name| match self.first {
            true => self.receives.permutation(unit.0.into(), name),
            false => self.sends.permutation(unit.0.into(), name),
        })
    }

    /// What a unit needs.
    ///
    /// # Errors
    /// Those of the channel; the peer's if it breaks the protocol; a bug if the unit was made before.
    pub fn make(&self, unit: UnitId, needs: Needs, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Made> {
        let word = || Zeroizing::new(vec![0; needs.words]);
        let planes = needs.planes();
        let [steps, targets] = if self.first { [64 * planes, 0] } else { [0, planes] };
        let mut made = Made {
            first: self.first,
            needs,
            a: word(),
            b: word(),
            c: word(),
            used: 0,
            sums: Zeroizing::new(vec![0; 64 * words(needs.targets)]),
            steps: Zeroizing::new(vec![0; steps]),
            targets: Zeroizing::new(vec![0; targets]),
            lot: LOT,
            opened: blake3::Hasher::new_derive_key("vesica 2026 what a circuit opened"),
            stretch: [
                self.sends.permutation(unit.0.into(), b"columns"),
                self.receives.permutation(unit.0.into(), b"columns"),
            ],
            both: Default::default(),
            one: Zeroizing::default(),
            choices: Zeroizing::default(),
        };
        // Triples take as many transfers each way. Bits of targets take transfers in one direction only, and pads as many in each as it needs.
        if self.first {
            self.send(&mut made, unit, 64 * planes, needs.pads, ch, rng)?;
            self.receive(&mut made, unit, 0, needs.back, ch)?;
        } else {
            self.receive(&mut made, unit, 64 * planes, needs.pads, ch)?;
            self.send(&mut made, unit, 0, needs.back, ch, rng)?;
        }
        for ((c, a), b) in made.c.iter_mut().zip(&*made.a).zip(&*made.b) {
            *c ^= a & b;
        }
        Ok(made)
    }

    /// Sends the transfers for the triples, for so many bits of targets, and for pads.
    fn send(
        &self,
        made: &mut Made,
        unit: UnitId,
        bits: usize,
        pads: usize,
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<()> {
        let Made { a, c, both, sums, steps, .. } = made;
        both.iter_mut().for_each(|both| both.reserve_exact(pads));
        let (row, steps) = (sums.len(), &mut **steps);
        cot::send(&self.sends, &self.session, unit, 64 * a.len() + bits + pads, ch, rng, |start, [zero, one]| {
            for (word, (zero, one)) in (start / 64..).zip(zero.chunks(64).zip(one.chunks(64))) {
                let Some(place) = word.checked_sub(a.len()).map(|word| 64 * word) else {
                    let m0 = lowest(zero);
                    a[word] = m0 ^ lowest(one);
                    c[word] ^= m0;
                    continue;
                };
                let Some(steps) = steps.get_mut(place..place + 64) else {
                    both.iter_mut().zip([zero, one]).for_each(|(both, keys)| both.extend_from_slice(keys));
                    continue;
                };
                let sums = &mut sums[place % row..][..64];
                for (((sum, step), zero), one) in sums.iter_mut().zip(steps).zip(zero).zip(one) {
                    *sum = sum.wrapping_sub(zero.0 as u8);
                    *step = (zero.0 as u8).wrapping_sub(one.0 as u8);
                }
            }
        })
    }

    /// Receives the transfers for the triples, for so many bits of targets, and for pads.
    fn receive(&self, made: &mut Made, unit: UnitId, bits: usize, pads: usize, ch: &mut dyn Channel) -> Result<()> {
        let Made { b, c, one, choices, sums, targets, .. } = made;
        one.reserve_exact(pads);
        choices.reserve_exact(pads.div_ceil(64));
        let (row, targets) = (sums.len(), &mut **targets);
        cot::receive(&self.receives, &self.session, unit, 64 * b.len() + bits + pads, ch, |start, chosen, keys| {
            for (word, (&chosen, keys)) in (start / 64..).zip(chosen.iter().zip(keys.chunks(64))) {
                let Some(place) = word.checked_sub(b.len()) else {
                    b[word] = chosen;
                    c[word] ^= lowest(keys);
                    continue;
                };
                let Some(target) = targets.get_mut(place) else {
                    choices.push(chosen);
                    one.extend_from_slice(keys);
                    continue;
                };
                *target = chosen;
                let sums = &mut sums[64 * place % row..][..64];
                sums.iter_mut().zip(keys).for_each(|(sum, key)| *sum = sum.wrapping_add(key.0 as u8));
            }
        })
    }
}

impl Made {
    /// The products of words of shared bits.
    ///
    /// # Errors
    /// Those of the channel; the peer's if its message has another length.
    ///
    /// # Panics
    /// If there are fewer triples left, or not as many words on both sides.
    pub fn and(&mut self, x: &[u64], y: &[u64], ch: &mut dyn Channel) -> Result<Vec<u64>> {
        assert_eq!(x.len(), y.len(), "products are of pairs");
        let n = x.len();
        let [a, b, c] = [&self.a, &self.b, &self.c].map(|all| &all[self.used..][..n]);
        self.used += n;
        // x + a and y + b, in shares
        let mut mine = Vec::with_capacity(16 * n);
        x.iter().zip(a).for_each(|(x, a)| mine.extend((x ^ a).to_le_bytes()));
        y.iter().zip(b).for_each(|(y, b)| mine.extend((y ^ b).to_le_bytes()));
        let theirs = ch.swap_exact(&mine, mine.len())?;
        let opened: Vec<u64> = mine
            .as_chunks()
            .0
            .iter()
            .zip(theirs.as_chunks().0)
            .map(|(mine, theirs)| u64::from_le_bytes(*mine) ^ u64::from_le_bytes(*theirs))
            .collect();
        mine.iter_mut().zip(&theirs).for_each(|(mine, theirs)| *mine ^= theirs);
        self.opened.update(&mine);
        let one = u64::from(self.first).wrapping_neg();
        let (d, e) = opened.split_at(n);
        Ok((0..n).map(|i| c[i] ^ d[i] & b[i] ^ e[i] & a[i] ^ d[i] & e[i] & one).collect())
    }

    /// Whether all of `planes` vectors of bits are 1, place by place: a tree of products. The vectors stand one after the other.
    ///
    /// # Errors
    /// As [`Made::and`].
    pub fn all(&mut self, planes: Vec<u64>, len: usize, ch: &mut dyn Channel) -> Result<Vec<u64>> {
        let mut planes = planes;
        while planes.len() > len {
            let half = planes.len() / len / 2 * len;
            let mut next = self.and(&planes[..half], &planes[half..2 * half], ch)?;
            next.extend_from_slice(&planes[2 * half..]);
            planes = next;
        }
        Ok(planes)
    }

    /// Whether the lowest `bits` bits of this party's block and of the peer's are the same, for each of some blocks: shared bits, in
    /// [`words`]. It takes one word less than there are bits for each of these.
    ///
    /// # Errors
    /// As [`Made::and`].
    pub fn equal(&mut self, blocks: &[Block], bits: usize, ch: &mut dyn Channel) -> Result<Vec<u64>> {
        // Bits are the same where their sum is 0.
        let flip = Block::mask(self.first);
        let flipped: Zeroizing<Vec<Block>> = Zeroizing::new(blocks.iter().map(|&block| block ^ flip).collect());
        self.all(planes(&flipped, bits), words(blocks.len()), ch)
    }

    /// The targets of the party that receives pads: random numbers in the lowest bits of blocks.
    pub fn targets(&self) -> Zeroizing<Vec<Block>> {
        let row = words(self.needs.targets);
        let mut blocks = Zeroizing::new(Vec::with_capacity(64 * row));
        for tile in 0..row / 2 {
            let mut columns = Zeroizing::new([Block::ZERO; 128]);
            for (column, plane) in columns.iter_mut().zip(self.targets.chunks_exact(row)) {
                *column = Block(u128::from(plane[2 * tile]) | u128::from(plane[2 * tile + 1]) << 64);
            }
            let mut rows = Zeroizing::new([Block::ZERO; 128]);
            transpose(&*columns, &mut *rows);
            blocks.extend_from_slice(&*rows);
        }
        blocks.truncate(self.needs.targets);
        blocks
    }

    /// Where the peer's targets are, whether they are the same as the blocks of the party that sends pads, which the other one has none of:
    /// shared bits, in [`words`]. It takes [`width`] - 1 words for each of these.
    ///
    /// # Errors
    /// As [`Made::and`].
    pub fn meets(&mut self, blocks: &[Block], ch: &mut dyn Channel) -> Result<Vec<u64>> {
        let Needs { targets, bits, .. } = self.needs;
        let (width, row) = (width(bits), self.sums.len());
        // Eight numbers of some bits are as many bytes.
        let plane = row / 8 * width;
        let at_once = (MESSAGE / plane.max(1)).clamp(1, bits);
        if self.first {
            // With d = m0 - m1 + 1 - 2·z the peer has m0 if its bit x is 0, and else m1 + d = m0 + 1 - 2·z. With z - m0 on this side that
            // is z or 1 - z in shares, which is 1 exactly if x and z differ.
            let bits_of = planes(blocks, bits);
            let both = bits_of.chunks(at_once * row / 64).zip(self.steps.chunks(at_once * row));
            for (bits_of, steps) in both {
                let mut wire = Vec::with_capacity(steps.len() / 8 * width);
                for (i, (steps, z)) in steps.as_chunks::<8>().0.iter().zip(bytes(bits_of)).enumerate() {
                    let (z, sums) = (spread(z), &mut self.sums[8 * i % row..][..8]);
                    let mut d = [0; 8];
                    for j in 0..8 {
                        d[j] = steps[j].wrapping_add(1).wrapping_sub(2 * z[j]);
                        sums[j] = sums[j].wrapping_add(z[j]);
                    }
                    wire.extend_from_slice(&squeeze(d, width)[..width]);
                }
                ch.send(&wire)?;
            }
        } else {
            for x in self.targets.chunks(at_once * row / 64) {
                let wire = ch.recv_exact(8 * x.len() * width)?;
                for (i, (d, x)) in wire.chunks_exact(width).zip(bytes(x)).enumerate() {
                    let (d, x, sums) = (stretch(d), spread(x), &mut self.sums[8 * i % row..][..8]);
                    for j in 0..8 {
                        sums[j] = sums[j].wrapping_add(d[j] & x[j].wrapping_neg());
                    }
                }
            }
        }
        // The sum of both is zero where one is minus the other.
        let share = |&sum: &u8| if self.first { sum } else { sum.wrapping_neg() };
        let shares: Zeroizing<Vec<Block>> = Zeroizing::new(
            self.sums[..targets].iter().map(|sum| Block(u128::from(share(sum)) & ((1 << width) - 1))).collect(),
        );
        self.equal(&shares, width, ch)
    }

    /// Shares modulo 2^64 of f·v for each of `n` shared bits f and some columns of numbers v, which one of the parties has. Step 4 of
    /// [`crate::circuit`]. Who has the numbers gives them: it is asked for each part of a column once, in turn. `each` gets a column's number, the
    /// place of the first of some of its shares, and these. It uses up the first `n` of the pads that whoever has the numbers sends: all of them, or
    /// a multiple of 64.
    ///
    /// # Errors
    /// As [`Made::and`].
    pub fn times(
        &mut self,
        flags: &[u64],
        columns: usize,
        n: usize,
        numbers: Option<Numbers<'_>>,
        ch: &mut dyn Channel,
        mut each: impl FnMut(usize, usize, &[u64]),
    ) -> Result<()> {
        if columns == 0 {
            return Ok(());
        }
        // A pad serves two columns. Of more than two, each pair has blocks of its own, and the keys that these are made from are pads of none:
        // who can guess two numbers of a bin would else have its key, and all its other numbers.
        let [to_send, to_receive] = &self.stretch;
        let pairs = (0..columns).step_by(2).map(|first| first..columns.min(first + 2));
        // A part of a column at a time, so that all that is made for it stays in the cache; and a message for each lot of it.
        let parts = |lot: &Range<usize>| {
            let end = lot.end;
            lot.clone().step_by(PART).map(move |start| start..end.min(start + PART))
        };
        let most = self.lot;
        let lots = || (0..n).step_by(most).map(move |start| start..n.min(start + most));
        let [mut pads, mut others] = [(); 2].map(|()| Zeroizing::new(vec![Block::ZERO; PART.min(n)]));
        let [mut masks, mut shares] = [(); 2].map(|()| Zeroizing::new(vec![0u64; PART.min(n)]));
        let flags_of = |part: Range<usize>, masks: &mut [u64]| {
            let mask = |j: usize| (flags[j / 64] >> (j % 64) & 1).wrapping_neg();
            masks.iter_mut().zip(part).for_each(|(f, j)| *f = mask(j));
        };
        if let Some(numbers) = numbers {
            // <- e;  -> d
            let mut e = Vec::with_capacity(n.div_ceil(8));
            for lot in lots() {
                e.extend_from_slice(&ch.recv_exact(lot.len().div_ceil(8))?);
            }
            // s and s': the keys change places, where they do, before they are stretched.
            let [mut keys, mut other_keys] = self.both.each_mut().map(|both| first_of(both, n));
            for (j, (key, other)) in keys.iter_mut().zip(&mut *other_keys).enumerate() {
                let swap = (*key ^ *other) & Block::mask(std::hint::black_box(e[j / 8] >> (j % 8) & 1 == 1));
                (*key, *other) = (*key ^ swap, *other ^ swap);
            }
            let [keys, other_keys] = [keys, other_keys].map(|keys| Pads::new(to_send, columns, keys));
            let (mut v, mut wire) = (Zeroizing::new(vec![0u64; PART.min(n)]), vec![0; 16 * most.min(n)]);
            for (pair, lot) in pairs.flat_map(|pair| lots().map(move |lot| (pair.clone(), lot))) {
                for part in parts(&lot) {
                    let len = part.len();
                    keys.of(pair.start / 2, part.clone(), &mut pads);
                    other_keys.of(pair.start / 2, part.clone(), &mut others);
                    flags_of(part.clone(), &mut masks);
                    for (column, wire) in pair.clone().zip(wire.chunks_exact_mut(8 * lot.len())) {
                        numbers(column, part.clone(), &mut v[..len]);
                        let wire = wire[8 * (part.start - lot.start)..].as_chunks_mut().0;
                        let of = pads.iter().zip(&*others).zip(&*v).zip(&*masks).zip(wire);
                        for (share, ((((&s, &other), &v), &f), d)) in shares[..len].iter_mut().zip(of) {
                            let [s, other] = [s, other].map(|pad| half(pad, column));
                            // v, or -v if this side's share of the bit is 1
                            let signed = (v ^ f).wrapping_sub(f);
                            *d = s.wrapping_sub(other).wrapping_add(signed).to_le_bytes();
                            *share = (f & v).wrapping_sub(s);
                        }
                        each(column, part.start, &shares[..len]);
                    }
                }
                ch.send(&wire[..8 * lot.len() * pair.len()])?;
            }
            return Ok(());
        }
        // -> e;  <- d
        let e = flags.iter().zip(&*self.choices).flat_map(|(f, x)| (f ^ x).to_le_bytes());
        let mut e: Vec<u8> = e.take(n.div_ceil(8)).collect();
        // The last bits belong to nothing.
        let last = e.len() - 1;
        e[last] &= u8::MAX >> (8 * e.len() - n);
        for lot in e.chunks(most / 8) {
            ch.send(lot)?;
        }
        first_of(&mut self.choices, n.div_ceil(64));
        let keys = Pads::new(to_receive, columns, first_of(&mut self.one, n));
        for (pair, lot) in pairs.flat_map(|pair| lots().map(move |lot| (pair.clone(), lot))) {
            let wire = ch.recv_exact(8 * lot.len() * pair.len())?;
            for part in parts(&lot) {
                let len = part.len();
                keys.of(pair.start / 2, part.clone(), &mut pads);
                flags_of(part.clone(), &mut masks);
                for (column, wire) in pair.clone().zip(wire.chunks_exact(8 * lot.len())) {
                    let wire = wire[8 * (part.start - lot.start)..].as_chunks().0;
                    let of = pads.iter().zip(&*masks).zip(wire);
                    for (share, ((&pad, &f), d)) in shares[..len].iter_mut().zip(of) {
                        *share = half(pad, column).wrapping_add(u64::from_le_bytes(*d) & f);
                    }
                    each(column, part.start, &shares[..len]);
                }
            }
        }
        Ok(())
    }

    /// Whether the sums modulo 2^64 of this party's numbers and the peer's are negative, as shared bits; it takes [`NEGATIVE`] words for each
    /// of them. The carries are a prefix sum (Kogge, Stone 1973).
    ///
    /// # Errors
    /// As [`Made::and`].
    pub fn negative(&mut self, numbers: &[u64], ch: &mut dyn Channel) -> Result<Vec<bool>> {
        // The peer's shares of these numbers are zero, and this side's of the peer's.
        let zeros = vec![0; numbers.len()];
        let (x, y) = if self.first { (numbers, &zeros[..]) } else { (&zeros[..], numbers) };
        let (mut carries, mut all) = (self.and(x, y, ch)?, numbers.to_vec());
        for shift in [1, 2, 4, 8, 16, 32] {
            let shifted = carries.iter().chain(&all).map(|word| word << shift).collect::<Vec<u64>>();
            let made = self.and(&[&all[..], &all].concat(), &shifted, ch)?;
            let (carried, both) = made.split_at(numbers.len());
            carries.iter_mut().zip(carried).for_each(|(carry, more)| *carry ^= more);
            all.copy_from_slice(both);
        }
        Ok(numbers.iter().zip(carries).map(|(number, carry)| (number >> 63 ^ carry >> 62) & 1 == 1).collect())
    }

    /// Names the attempt: a hash of all that was opened.
    pub fn attempt(&self) -> [u8; 32] {
        *self.opened.finalize().as_bytes()
    }
}

/// Writes the numbers of a column that are in a part of it.
pub type Numbers<'a> = &'a dyn Fn(usize, Range<usize>, &mut [u64]);

/// Numbers of a column that are worked on at once.
const PART: usize = 1 << 10;

/// Numbers of a column in a message, at most, and bits: more than a unit has bins, in whole words.
pub const LOT: usize = 3 << 19;

/// Takes the first `n` out of some.
fn first_of<T: Zeroize>(all: &mut Zeroizing<Vec<T>>, n: usize) -> Zeroizing<Vec<T>> {
    let n = n.min(all.len());
    let others = all.split_off(n);
    std::mem::replace(all, Zeroizing::new(others))
}

/// A column's half of a block.
fn half(block: Block, column: usize) -> u64 {
    if column.is_multiple_of(2) { block.low() } else { block.high() }
}

/// Pads of one transfer each, stretched to as many blocks as there are pairs of columns.
struct Pads<'a> {
    blocks: Zeroizing<Vec<Block>>,
    stretch: Option<&'a Permutation>,
}

impl<'a> Pads<'a> {
    fn new(stretch: &'a Permutation, columns: usize, keys: Zeroizing<Vec<Block>>) -> Self {
        let (stretch, mut blocks) = ((columns > 2).then_some(stretch), keys);
        if let Some(stretch) = stretch {
            stretch.images(&mut blocks);
        }
        Self { blocks, stretch }
    }

    /// Writes those of a pair of columns that are in a part of them.
    fn of(&self, pair: usize, part: Range<usize>, out: &mut [Block]) {
        let (blocks, out) = (&self.blocks[part.clone()], &mut out[..part.len()]);
        match self.stretch {
            None => out.copy_from_slice(blocks),
            Some(stretch) => stretch.tccr_to(Block(pair as u128), blocks, out),
        }
    }
}

/// Cuts a part of numbers that stand in rows of `row` into one for each row: which it is, where that is in the part, and its first place in the row.
pub fn by_row(part: Range<usize>, row: usize) -> impl Iterator<Item = (usize, Range<usize>, usize)> {
    (part.start / row..part.end.div_ceil(row)).map(move |of| {
        let (start, end) = (part.start.max(of * row), part.end.min((of + 1) * row));
        (of, start - part.start..end - part.start, start - of * row)
    })
}

/// Writes bit `bit` of each of some numbers, a bit each.
pub fn plane_of(numbers: &[u64], bit: usize, out: &mut [u64]) {
    for (word, numbers) in out.iter_mut().zip(numbers.chunks(64)) {
        *word = numbers.iter().zip(0..).fold(0, |word, (number, j)| word | (number >> bit & 1) << j);
    }
}

/// Words for so many bits, in whole squares of 128 × 128.
pub fn words(bits: usize) -> usize {
    2 * bits.div_ceil(128)
}

/// Bits of a number from 0 to `bits`.
pub fn width(bits: usize) -> usize {
    (bits + 1).next_power_of_two().ilog2() as usize
}

/// The most bytes of a message about the bits of targets, if those of one bit are fewer.
const MESSAGE: usize = 1 << 20;

/// Some lowest bits of blocks: those of all lowest ones first, in [`words`].
fn planes(blocks: &[Block], bits: usize) -> Vec<u64> {
    let row = words(blocks.len());
    let mut planes = vec![0; bits * row];
    let mut columns = Zeroizing::new([Block::ZERO; 128]);
    for (tile, blocks) in blocks.chunks(128).enumerate() {
        let mut rows = Zeroizing::new([Block::ZERO; 128]);
        rows[..blocks.len()].copy_from_slice(blocks);
        transpose(&*rows, &mut *columns);
        for (plane, column) in planes.chunks_exact_mut(row).zip(&*columns) {
            plane[2 * tile..2 * tile + 2].copy_from_slice(&[column.low(), column.high()]);
        }
    }
    planes
}

/// The bytes of words.
fn bytes(words: &[u64]) -> impl Iterator<Item = u8> {
    words.iter().flat_map(|word| word.to_le_bytes())
}

/// A byte of 0 or 1 for each bit.
fn spread(bits: u8) -> [u8; 8] {
    let each = u64::from_le_bytes([bits; 8]) & 0x8040_2010_0804_0201;
    // What is not zero carries into the highest bit of its byte, and not beyond.
    ((each + 0x7f7f_7f7f_7f7f_7f7f) >> 7 & 0x0101_0101_0101_0101).to_le_bytes()
}

/// The lowest `width` bits of eight bytes, one after the other: `width` bytes.
fn squeeze(each: [u8; 8], width: usize) -> [u8; 8] {
    let gap = 8 - width;
    let mut word = u64::from_le_bytes(each) & u64::from_le_bytes([u8::MAX >> gap; 8]);
    // Neighbours close up: bytes, then pairs of them, then fours.
    for (size, lower) in [(1, 0x00ff_00ff_00ff_00ff), (2, 0x0000_ffff_0000_ffff), (4, 0x0000_0000_ffff_ffff)] {
        word = word & lower | (word & !lower) >> (gap * size);
    }
    word.to_le_bytes()
}

/// What [`squeeze`] made of eight numbers of as many bits as there are bytes.
fn stretch(squeezed: &[u8]) -> [u8; 8] {
    let (width, mut all) = (squeezed.len(), [0; 8]);
    all[..width].copy_from_slice(squeezed);
    let mut word = u64::from_le_bytes(all);
    for (size, lanes) in [(4, 1), (2, 0x0000_0001_0000_0001), (1, 0x0001_0001_0001_0001)] {
        let lower = ((1 << (size * width)) - 1) * lanes;
        word = word & lower | (word & !lower) << ((8 - width) * size);
    }
    word.to_le_bytes()
}

/// Words of products that [`Made::negative`] takes.
pub const NEGATIVE: usize = 1 + 2 * 6;

/// The lowest bits of at most 64 blocks.
fn lowest(blocks: &[Block]) -> u64 {
    blocks.iter().rev().fold(0, |word, block| word << 1 | block.low() & 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_session::{Fault, Lines};
    use vesica_testkit::{Attack, Hostile, recorded, two, two_with};

    const SESSION: [u8; 32] = [4; 32];

    /// Both sides of a unit with so many words and pads.
    fn both<T: Send>(
        words: usize,
        pads: usize,
        then: impl Fn(&mut Made, &mut dyn Channel) -> Result<T> + Sync,
    ) -> [T; 2] {
        let side = |first: bool| {
            let then = &then;
            move |lines: &mut Lines, rng: &mut SessionRng| {
                let ch = lines.peer().unwrap();
                let base = Base::open(first, SESSION, ch, rng).unwrap();
                let mut made = base.make(UnitId(0), Needs { words, pads, ..Needs::default() }, ch, rng).unwrap();
                then(&mut made, ch).unwrap()
            }
        };
        let (a, b) = two(side(true), side(false));
        [a, b]
    }

    #[test]
    fn parts_are_cut_where_a_row_ends() {
        let cut = |part| by_row(part, 128).collect::<Vec<_>>();
        assert_eq!(cut(0..128), [(0, 0..128, 0)]);
        assert_eq!(cut(100..300), [(0, 0..28, 100), (1, 28..156, 0), (2, 156..200, 0)]);
        assert_eq!(cut(256..260), [(2, 0..4, 0)]);
    }

    #[test]
    fn triples_are_products_and_their_bits_are_balanced() {
        let [x, y] = both(1000, 70, |made, _| Ok((made.a.to_vec(), made.b.to_vec(), made.c.to_vec())));
        let mut ones = [0u32; 3];
        for i in 0..1000 {
            let [a, b, c] = [x.0[i] ^ y.0[i], x.1[i] ^ y.1[i], x.2[i] ^ y.2[i]];
            assert_eq!(c, a & b);
            ones.iter_mut().zip([a, b, c]).for_each(|(ones, word)| *ones += word.count_ones());
        }
        // 64,000 bits, of which a quarter are products; five deviations.
        for (ones, (mean, deviation)) in ones.iter().zip([(32_000.0, 126.5), (32_000.0, 126.5), (16_000.0, 109.6)]) {
            assert!((f64::from(*ones) - mean).abs() < 5.0 * deviation, "{ones}");
        }
    }

    /// What is opened is padded by what the other side has of a triple. That is balanced, and so is its sum with anything that this side
    /// has of it.
    #[test]
    fn the_other_sides_part_of_a_triple_is_unknown() {
        let [x, y] = both(1000, 0, |made, _| Ok([made.a.to_vec(), made.b.to_vec(), made.c.to_vec()]));
        for (mine, theirs) in [(&x, &y), (&y, &x)] {
            for theirs in &theirs[..2] {
                for mine in [&mine[0], &mine[1], &mine[2], &vec![0; 1000]] {
                    let ones: u32 = theirs.iter().zip(mine).map(|(theirs, mine)| (theirs ^ mine).count_ones()).sum();
                    // Of 64,000 bits; five deviations.
                    assert!((f64::from(ones) - 32_000.0).abs() < 632.5, "{ones}");
                }
            }
        }
    }

    #[test]
    fn pads_are_one_of_two() {
        for (words, pads) in [(0, 5), (8, 0), (3, 130), (60, 700)] {
            let [sent, got] = both(words, pads, |made, _| {
                Ok((made.both.each_ref().map(|keys| keys.to_vec()), made.one.to_vec(), made.choices.to_vec()))
            });
            assert_eq!([sent.0[0].len(), sent.0[1].len(), got.1.len()], [pads; 3]);
            assert!(sent.1.is_empty() && got.0[0].is_empty() && got.2.len() == pads.div_ceil(64));
            for (j, key) in got.1.iter().enumerate() {
                assert_eq!(sent.0[(got.2[j / 64] >> (j % 64) & 1) as usize][j], *key);
            }
        }
    }

    /// Trees of every number of planes, against the plain product.
    #[test]
    fn all_of_some_bits_is_their_product() {
        let len = 2;
        let bits = |first: bool, i: usize| {
            (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(if first { 7 } else { 31 })
        };
        // Three in four are 1, so that products are not all zero.
        let whole = |i: usize| bits(true, i) | bits(false, i);
        let words = (1..=9).map(|planes| (planes - 1) * len).sum();
        let [x, y] = both(words, 0, |made, ch| {
            let first = made.first;
            let mine = |i: usize| if first { whole(i) ^ bits(false, i) } else { bits(false, i) };
            (1..=9).map(|planes| made.all((0..planes * len).map(mine).collect(), len, ch)).collect::<Result<Vec<_>>>()
        });
        for planes in 1..=9 {
            for at in 0..len {
                let want = (0..planes).fold(u64::MAX, |all, plane| all & whole(plane * len + at));
                assert_eq!(x[planes - 1][at] ^ y[planes - 1][at], want, "{planes}");
            }
        }
    }

    #[test]
    fn a_sum_is_negative_exactly_if_it_is() {
        let mine = [0i64, 1, -1, 5, -5, i64::MAX, i64::MIN, 1 << 40, -(1 << 40), 0x5555_5555_5555_5555, -0x5555_5555];
        let theirs = [0i64, 1, -1, 4, i64::MAX, 0x2aaa_aaaa_aaaa_aaaa, -(1 << 39)];
        let pairs: Vec<(i64, i64)> = mine.iter().flat_map(|&x| theirs.map(|y| (x, y))).collect();
        let [x, y] = both(pairs.len() * NEGATIVE, 0, |made, ch| {
            let one = |&(x, y): &(i64, i64)| if made.first { x } else { y } as u64;
            let numbers: Vec<u64> = pairs.iter().map(one).collect();
            // One alone, and the others together.
            let (first, others) = numbers.split_at(1);
            Ok([made.negative(first, ch)?, made.negative(others, ch)?].concat())
        });
        for ((mine, theirs), (x, y)) in pairs.into_iter().zip(x.into_iter().zip(y)) {
            assert_eq!(x ^ y, mine.wrapping_add(theirs) < 0, "{mine} {theirs}");
        }
    }

    /// A number where the bits differ and zero where not, in every column, whatever the numbers, and whoever has them.
    #[test]
    fn a_bit_times_numbers_is_shared() {
        for (n, columns) in [(203, 2), (203, 1), (64, 3), (1, 4), (130, 7), (PART, 2), (2 * PART + 77, 3)] {
            let value = |column: usize, j: usize| match column {
                1 => u64::MAX - j as u64,
                _ => (j as u64 + 7 * column as u64).wrapping_mul(0xd134_2543_de82_ef95),
            };
            let bits = |first: bool| {
                (0..words(n)).map(move |i| if first { 0x1234_5678_9abc_def0 << (i % 3) } else { 0x0ff0_3cc3 << i })
            };
            let side = |first: bool| {
                move |lines: &mut Lines, rng: &mut SessionRng| {
                    let ch = lines.peer().unwrap();
                    let base = Base::open(first, SESSION, ch, rng).unwrap();
                    let needs = Needs { pads: n, back: n, ..Needs::default() };
                    let mut made = base.make(UnitId(0), needs, ch, rng).unwrap();
                    let flags: Vec<u64> = bits(first).collect();
                    [true, false].map(|of_first| {
                        let numbers = |column, part: Range<usize>, out: &mut [u64]| {
                            assert_eq!(part.len(), out.len());
                            out.iter_mut().zip(part).for_each(|(v, j)| *v = value(column, j));
                        };
                        let numbers: Option<Numbers<'_>> = if of_first == first { Some(&numbers) } else { None };
                        let mut all = vec![Vec::new(); columns];
                        made.times(&flags, columns, n, numbers, ch, |column, start, shares| {
                            assert_eq!(start, all[column].len());
                            all[column].extend_from_slice(shares);
                        })
                        .unwrap();
                        all
                    })
                }
            };
            let (x, y) = two(side(true), side(false));
            let flags: Vec<u64> = bits(true).zip(bits(false)).map(|(x, y)| x ^ y).collect();
            for (x, y) in x.iter().zip(&y) {
                assert_eq!([x.len(), y.len()], [columns; 2]);
                for column in 0..columns {
                    for j in 0..n {
                        let want = if flags[j / 64] >> (j % 64) & 1 == 1 { value(column, j) } else { 0 };
                        assert_eq!(x[column][j].wrapping_add(y[column][j]), want, "{column} {j}");
                    }
                }
            }
        }
    }

    /// No message grows with the number of bits: a unit's products of numbers have more of these than a message may have.
    #[test]
    fn bits_and_numbers_go_in_messages_of_a_lot_each() {
        let n = 2 * LOT + 70;
        let side = |first: bool| {
            move |lines: &mut Lines, rng: &mut SessionRng| -> Result<Vec<usize>> {
                let ch = lines.peer()?;
                let base = Base::open(first, SESSION, ch, rng)?;
                let mut made = base.make(UnitId(0), Needs { pads: n, ..Needs::default() }, ch, rng)?;
                let none = |_, _: Range<usize>, out: &mut [u64]| out.fill(0);
                let numbers: Option<Numbers<'_>> = if first { Some(&none) } else { None };
                let mut lengths = Vec::new();
                made.times(&vec![0; words(n)], 1, n, numbers, ch, |_, _, shares| lengths.push(shares.len()))?;
                Ok(lengths)
            }
        };
        let ((all, messages), _) = recorded(side(true), side(false));
        assert_eq!(all.unwrap().iter().sum::<usize>(), n);
        let last = messages[messages.len() - 6..].iter().map(|message| (message.sent, message.bytes.len()));
        let lots = [LOT, LOT, 70];
        let want = lots.map(|lot| (false, lot.div_ceil(8))).into_iter().chain(lots.map(|lot| (true, 8 * lot)));
        assert_eq!(last.collect::<Vec<_>>(), want.collect::<Vec<_>>());
    }

    /// A peer that changes its second lot, of bits as of numbers, whoever of both it is: another length is its fault, and what it changed within the length
    /// makes no other total wrong than those of that lot, of a flipped bit those of its place.
    #[test]
    fn a_hostile_peer_spoils_its_second_lot_and_nothing_else() {
        let (lot, columns) = (256, 2);
        let n = 2 * lot + 70;
        let value = |column: usize, j: usize| (j as u64 + 7 * column as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95);
        let flags = |first: bool| -> Vec<u64> {
            (0..words(n) as u64).map(|i| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> u32::from(first)).collect()
        };
        let side = |first: bool, of_first: bool| {
            move |lines: &mut Lines, rng: &mut SessionRng| -> Result<Vec<Vec<u64>>> {
                let ch = lines.peer()?;
                let base = Base::open(first, SESSION, ch, rng)?;
                let mut made = base.make(UnitId(0), Needs { pads: n, back: n, ..Needs::default() }, ch, rng)?;
                made.lot = lot;
                let numbers = |column, part: Range<usize>, out: &mut [u64]| {
                    out.iter_mut().zip(part).for_each(|(v, j)| *v = value(column, j));
                };
                let numbers: Option<Numbers<'_>> = if of_first == first { Some(&numbers) } else { None };
                let mut all = vec![vec![0; n]; columns];
                made.times(&flags(first), columns, n, numbers, ch, |column, start, shares| {
                    all[column][start..][..shares.len()].copy_from_slice(shares);
                })?;
                Ok(all)
            }
        };
        let bits: Vec<u64> = flags(true).iter().zip(flags(false)).map(|(x, y)| x ^ y).collect();
        let wrong = |x: &[Vec<u64>], y: &[Vec<u64>]| -> Vec<usize> {
            let is = |column: usize, j: usize| {
                let want = if bits[j / 64] >> (j % 64) & 1 == 1 { value(column, j) } else { 0 };
                x[column][j].wrapping_add(y[column][j]) == want
            };
            (0..n).filter(|&j| !(0..columns).all(|column| is(column, j))).collect()
        };
        for (first, has_numbers) in [(true, true), (true, false), (false, true), (false, false)] {
            let of_first = first == has_numbers;
            let ((x, _), (y, sent)) = recorded(side(first, of_first), side(!first, of_first));
            assert!(wrong(&x.unwrap(), &y.unwrap()).is_empty(), "{first} {has_numbers}");
            let sent: Vec<usize> =
                sent.iter().filter(|message| message.sent).map(|message| message.bytes.len()).collect();
            let lots = [lot, lot, 70].map(|lot| if has_numbers { lot.div_ceil(8) } else { 8 * lot * columns });
            assert_eq!(sent[sent.len() - 3..], lots, "the peer's last messages are its lots");
            let second = sent.len() - 2;
            for attack in Attack::ALL {
                let (alice, bob) = (side(first, of_first), side(!first, of_first));
                let (x, y) = two_with(alice, bob, |channel| Box::new(Hostile::new(channel, attack, second)));
                let case = format!("{first} {has_numbers} {attack:?}");
                let spoiled = match (attack, &x) {
                    (Attack::Cut | Attack::Empty | Attack::Grow, Err(error)) => {
                        assert_eq!(error.fault(), Fault::Peer, "{case}");
                        assert!(error.to_string().contains("bob"), "{case}: {error}");
                        continue;
                    }
                    (Attack::Cut | Attack::Empty | Attack::Grow, Ok(_)) => {
                        panic!("{case}: a lot of another length was taken")
                    }
                    (Attack::Flip(bit), _) if has_numbers => lot + bit % lot..lot + bit % lot + 1,
                    (Attack::Flip(bit), _) => {
                        let j = lot + bit / 64 % lot;
                        j..j + 1
                    }
                    (Attack::Replay, _) => lot..2 * lot,
                };
                let wrong = wrong(&x.expect(&case), &y.expect(&case));
                assert!(wrong.iter().all(|j| spoiled.contains(j)), "{case}: {wrong:?}");
                // Another bit takes the pads of the other choice, which look random; a bit of a number counts where the peer's own share of the bit is 1.
                assert!(!has_numbers || !wrong.is_empty(), "{case}");
            }
        }
    }

    /// A multiplication takes the first pads, and the next one those behind them; columns may be longer than a message.
    #[test]
    fn bits_are_multiplied_in_lots_and_pads_are_used_once() {
        let flags = |first: bool, n: usize| -> Vec<u64> {
            (0..words(n) as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> u32::from(first)).collect()
        };
        let value = |column: usize, j: usize| (j as u64 + 7 * column as u64).wrapping_mul(0xd134_2543_de82_ef95);
        for (lots, columns) in [([128, 77], 2), ([192, 64], 3), ([LOT + PART + 64, 5], 3)] {
            let [x, y] = both(0, lots[0] + lots[1], |made, ch| {
                let numbers = |column, part: Range<usize>, out: &mut [u64]| {
                    out.iter_mut().zip(part).for_each(|(v, j)| *v = value(column, j));
                };
                lots.map(|n| {
                    let mut shares = vec![vec![0; n]; columns];
                    let numbers: Option<Numbers<'_>> = if made.first { Some(&numbers) } else { None };
                    let flags = flags(made.first, n);
                    made.times(&flags, columns, n, numbers, ch, |column, start, part| {
                        shares[column][start..][..part.len()].copy_from_slice(part);
                    })?;
                    Ok(shares)
                })
                .into_iter()
                .collect::<Result<Vec<_>>>()
            });
            for ((n, x), y) in lots.into_iter().zip(&x).zip(&y) {
                let bits: Vec<u64> = flags(true, n).iter().zip(flags(false, n)).map(|(x, y)| x ^ y).collect();
                for (column, j) in (0..columns).flat_map(|column| (0..n).map(move |j| (column, j))) {
                    let want = if bits[j / 64] >> (j % 64) & 1 == 1 { value(column, j) } else { 0 };
                    assert_eq!(x[column][j].wrapping_add(y[column][j]), want, "{column} {j} of {lots:?}");
                }
            }
        }
    }

    /// With more than two columns, no pad is the key that the others are made from, and no two pads are the same: who has the pads of some
    /// columns has none of another one.
    #[test]
    fn pads_of_many_columns_are_made_from_a_key_that_is_none_of_them() {
        let key = Block(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
        let stretch = Permutation::new(Block(9));
        let pads = Pads::new(&stretch, 9, Zeroizing::new(vec![key]));
        let mut seen = std::collections::BTreeSet::from([key.low(), key.high()]);
        let mut pad = [Block::ZERO];
        for column in 0..9 {
            pads.of(column / 2, 0..1, &mut pad);
            assert!(seen.insert(half(pad[0], column)), "{column}");
        }
        let two = Pads::new(&stretch, 2, Zeroizing::new(vec![key]));
        two.of(0, 0..1, &mut pad);
        assert_eq!([0, 1].map(|column| half(pad[0], column)), [key.low(), key.high()]);
    }

    #[test]
    fn blocks_are_equal_exactly_if_they_are() {
        let (n, bits) = (300, 61);
        let block = |first: bool, j: usize| {
            let same = u128::from(blake3_word(j));
            // Every third differs, in one bit.
            let other = if first && j.is_multiple_of(3) { 1 << (j % bits) } else { 0 };
            Block((same ^ other) & ((1 << bits) - 1))
        };
        let [x, y] = both((bits - 1) * words(n), 0, |made, ch| {
            let blocks: Vec<Block> = (0..n).map(|j| block(made.first, j)).collect();
            made.equal(&blocks, bits, ch)
        });
        for j in 0..n {
            assert_eq!((x[j / 64] ^ y[j / 64]) >> (j % 64) & 1 == 1, j % 3 != 0, "{j}");
        }
    }

    /// Targets and blocks that are the same, that differ in one bit, in all, and in random ones.
    #[test]
    fn targets_meet_blocks_that_are_the_same() {
        for (n, bits) in [(1, 41), (300, 57), (129, 63), (200, 64), (70, 127), (140, 128)] {
            let mask = u128::MAX >> (128 - bits);
            let needs = Needs::of_targets(n, bits, 3);
            let side = |first: bool| {
                move |lines: &mut Lines, rng: &mut SessionRng| {
                    let ch = lines.peer().unwrap();
                    let base = Base::open(first, SESSION, ch, rng).unwrap();
                    let mut made = base.make(UnitId(0), needs, ch, rng).unwrap();
                    // The peer gets the targets for this test only.
                    if first {
                        let targets = ch.recv_exact(16 * n).unwrap();
                        let block = |(j, bytes): (usize, &[u8; 16])| {
                            let other = match j % 4 {
                                0 => 0,
                                1 => 1 << (j % bits),
                                2 => u128::MAX,
                                _ => u128::from(blake3_word(j)) << (j % 64),
                            };
                            Block((u128::from_le_bytes(*bytes) ^ other) & mask)
                        };
                        let blocks: Vec<Block> = targets.as_chunks().0.iter().enumerate().map(block).collect();
                        (blocks.clone(), made.meets(&blocks, ch).unwrap(), made.both[0].len())
                    } else {
                        let targets = made.targets().to_vec();
                        assert!(targets.iter().all(|target| target.0 & !mask == 0));
                        ch.send(&targets.iter().flat_map(|target| target.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
                        (targets, made.meets(&[], ch).unwrap(), made.one.len())
                    }
                }
            };
            let (x, y) = two(side(true), side(false));
            assert_eq!([x.2, y.2], [3; 2]);
            for j in 0..n {
                assert_eq!((x.1[j / 64] ^ y.1[j / 64]) >> (j % 64) & 1 == 1, x.0[j] == y.0[j], "{bits} {j}");
            }
        }
    }

    #[test]
    fn numbers_of_some_bits_are_packed_and_unpacked() {
        let each = [0x12, 0xff, 0x00, 0x8c, 0x3f, 0x40, 0x7e, 0xa5];
        for width in 1..=8 {
            let squeezed = squeeze(each, width);
            assert!(squeezed[width..].iter().all(|byte| *byte == 0));
            assert_eq!(stretch(&squeezed[..width]), each.map(|byte| byte & u8::MAX >> (8 - width)), "{width}");
        }
        for bits in 0..=255u8 {
            assert_eq!(spread(bits), std::array::from_fn(|j| bits >> j & 1));
        }
        assert_eq!([40, 57, 63, 64, 77, 127, 128].map(width), [6, 6, 6, 7, 7, 7, 8]);
    }

    fn blake3_word(j: usize) -> u64 {
        u64::from_le_bytes(*blake3::hash(&j.to_le_bytes()).as_bytes().first_chunk().unwrap())
    }

    #[test]
    fn attempts_have_names_of_their_own_that_both_know() {
        let [x, y] = both(2, 0, |made, ch| {
            made.and(&[1, 2], &[3, 4], ch)?;
            Ok(made.attempt())
        });
        assert_eq!(x, y);
        let [z, _] = both(2, 0, |made, _| Ok(made.attempt()));
        assert_ne!(x, z);
    }

    #[test]
    fn messages_of_another_length_are_the_peers_fault() {
        for attack in [Attack::Cut, Attack::Empty, Attack::Grow] {
            // The peer's messages: two of its receiving base and one of its sending one, then corrections and openings.
            for at in 2..5 {
                let side = |first: bool| {
                    move |lines: &mut Lines, rng: &mut SessionRng| -> Result<()> {
                        let ch = lines.peer()?;
                        let base = Base::open(first, SESSION, ch, rng)?;
                        let mut made = base.make(UnitId(0), Needs { words: 2, ..Needs::default() }, ch, rng)?;
                        made.and(&[1, 2], &[3, 4], ch).map(drop)
                    }
                };
                let (mine, _) = two_with(side(true), side(false), |ch| Box::new(Hostile::new(ch, attack, at)));
                assert_eq!(mine.unwrap_err().fault(), Fault::Peer, "{attack:?} {at}");
            }
        }
    }
}
