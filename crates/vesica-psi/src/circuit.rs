//! Whether keys are common, in shares that neither party can read; and what these add up to over the whole job: a number of keys, a sum of
//! values, or both in groups of R's.
//!
//! [PSTY19] Pinkas, Schneider, Tkachenko, Yanai, "Efficient circuit-based PSI with linear communication", EUROCRYPT 2019, eprint 2019/241,
//! Figure 7; [RR22] Raghuraman, Rindal, eprint 2022/320, section 6, for its function and transfers; [RRKCGRS20] Rathee et al., "CrypTFlow2", CCS
//! 2020, eprint 2020/1002, section 3.1.1, for the product of a bit and a number; semi-honest.
//!
//!   X, Y   keys of R and of S, n and m       xs, ys      z_b, r_b  what R and S have of bin b, l bits     targets
//!   v_b    R's number for its key in bin b   numbers     f_b       1 if that key is S's, in shares        flags
//!   m0, m1 both keys of a transfer to S      pads.both   x, m_x    S's choice and its key                 choices, one
//!
//! 1. Transfers both ways, for triples and pads (`gmw`). l of S's choices are the random bits of each of its targets r_b.
//! 2. R's keys into bins, one at most into each;  z_b = r_b exactly if the key in bin b is S's (`opprf`).
//! 3. h_b := the number of bits in which z_b and r_b differ, modulo a power of two above l, from a transfer a bit;  R -> S: a number of log l
//!    bits for each bit.   f_b := whether h_b is 0: the product of log l bits.
//! 4. S -> R: e_b := f_S + x_b.   R -> S: d_b := s - s' + v_b·(1 - 2·f_R) mod 2^64, where (s, s') is (m0, m1) or, if e_b = 1, (m1, m0).
//!    R's share of f_b·v_b is f_R·v_b - s;  S's is m_x + f_S·d_b: that is s, or s + v_b·(1 - 2·f_R).
//! 5. Each adds its shares over all bins, and over all units when these are done, and its noise if the job asks for any. Both compare names
//!    of the attempt.
//! 6. If the job sets a least number: a circuit says whether the count is below it, and both are told that bit; if it is, that is all.
//! 7. Each sends its share of the total to whoever learns.
//!
//! With groups, a bin has v_b = 1 for each group that its key is in, and the key's numbers in that group: step 4 is done for all of these
//! columns at once, whatever groups a key is in. Then, for all groups at once:
//!
//! 6'. h := 1 - [count < least], in shares, as in step 6 but not opened.  Shares of h·count and of each h·sum: both have a share of the number,
//!     so each multiplies its own as in step 4, in its own direction.  If S learns, R draws a key of two words for each group, and S is to get
//!     h·key.
//! 7'. Each sends these shares to whoever learns.  R -> S, if S learns: the label of each group, sealed under the group's key.
//!     A group with fewer keys than `least` is zeros, as one without keys is, and what seals its label is not told.
//!
//! Reveals: key_count to everyone, the total to the learners.   Rounds: COT + VOLE + 1 + 1 + log log l + 1 a unit, 2 at the end; with
//! groups 9 more.
//! Bytes: |B| + l·(log l)/8 + 8 for each column, and those of l + 2·log l transfers, for each of 1.3·n bins; ⌈l/8⌉·slots(3·m) for the hint.
//! What is sent in a unit is padded by a coefficient, a triple or a key that is used once, whatever is common: nobody is told a number or a bit
//! of a unit. A party that deviates can change the total, and R can compare keys of its choice by it: so this is semi-honest only.
//! Differs from the papers: the party with the values is R, so that they need not travel in the hint; f is never opened.

use crate::gmw::{Base, Made, NEGATIVE, Needs, Numbers};
use std::marker::PhantomData;
use vesica_oprf::opprf;
use vesica_oprf::vole::Field;
use vesica_session::{
    Channel, Error, Found, Group, LABEL, Label, Lines, Misbehaviour, Result, SessionRng, Share, Shared, Shares, Unit,
    Values,
};
use vesica_types::{Digest, UnitId};
use zeroize::Zeroizing;

/// One party's side of a job, over the base field `B`.
pub struct Circuit<B> {
    params: Params,
    base: Base,
    field: PhantomData<B>,
}

/// What a job asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Total {
    /// The number of common keys.
    Count,
    /// The sum of their values.
    Sum,
    /// Both in each group of R's.
    Groups(Groups),
    /// No total: each party keeps its shares of every bin.
    Shares,
}

/// In which groups keys are counted and numbers are added up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Groups {
    /// How many there are, with those that no key is in.
    pub most: u32,
    /// Sums of each.
    pub sums: u32,
    /// The number of common keys below which nothing is told of a group.
    pub least: u64,
    /// Whether S learns, who does not know what the groups are called.
    pub labels: bool,
}

/// What a column of numbers is.
#[derive(Clone, Copy)]
enum Column {
    /// 1 for each key.
    Keys,
    /// 1 for each key of a group.
    KeysOf(u32),
    /// A number of each key of a group.
    Numbers(u32, u32),
}

/// What the parties agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Of the bins and their targets.
    pub opprf: opprf::Params,
    /// Whether this party is R.
    pub puts: bool,
    /// Whether R has values.
    pub values: bool,
    /// What is asked for.
    pub total: Total,
    /// The number of common keys below which nothing is told.
    pub least: Option<u64>,
    /// Whether this party learns.
    pub i_learn: bool,
    /// Whether the peer learns.
    pub peer_learns: bool,
    /// Keys of the party with fewer.
    pub fewer: u64,
    /// Where a job hides single keys: what this party adds to its shares of the sum of values and of the number of keys.
    pub noise: Option<[u64; 2]>,
}

/// Names the transfers that are made when all units are done: no unit has this number.
const END: UnitId = UnitId(u32::MAX);

impl<B: Field> Circuit<B> {
    /// Opens a side.
    ///
    /// # Errors
    /// Those of the channel; the peer's if it breaks the protocol.
    pub fn open(params: Params, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self> {
        let base = Base::open(params.puts, params.opprf.session, ch, rng)?;
        Ok(Self { params, base, field: PhantomData })
    }

    /// The numbers that a bin has.
    fn columns(&self) -> Vec<Column> {
        let of_group = |group, sums| {
            std::iter::once(Column::KeysOf(group)).chain((0..sums).map(move |number| Column::Numbers(group, number)))
        };
        let mut columns: Vec<Column> = match self.params.total {
            Total::Groups(Groups { most, sums, .. }) => (0..most).flat_map(|group| of_group(group, sums)).collect(),
            _ if self.params.values => vec![Column::Numbers(0, 0)],
            _ => Vec::new(),
        };
        columns.extend(self.counts().then_some(Column::Keys));
        columns
    }

    fn counts(&self) -> bool {
        self.params.total == Total::Count || self.params.least.is_some()
    }
}

impl<B: Field> Shared for Circuit<B> {
    fn unit(&self, unit: &Unit, values: &Values, lines: &mut Lines, rng: &mut SessionRng) -> Result<Shares> {
        let Self { params, base, .. } = self;
        let groups = if let Total::Groups(groups) = params.total { groups.most } else { 1 };
        if values.entries().iter().any(|&(key, group)| key as usize >= unit.keys.len() || group >= groups) {
            return Err(Error::Bug("values of a key or a group that is not there".into()));
        }
        let ch = lines.peer()?;
        let bins = params.opprf.bins as usize;
        let columns = self.columns();
        // 1. Triples, pads and r
        ch.step("transfers");
        let pads = if columns.is_empty() { 0 } else { bins };
        let mut made = base.make(unit.id, Needs::of_targets(bins, params.opprf.bits as usize, pads), ch, rng)?;
        // 2. z
        let (table, z) = if params.puts {
            opprf::receive::<B>(&params.opprf, &base.receives, unit.id, &unit.keys, ch, rng)?
        } else {
            let mut ys = unit.keys.clone();
            ys.resize_with(unit.capacity(), || Digest(rng.bytes()));
            opprf::send::<B>(&params.opprf, &base.sends, unit.id, &made.targets(), &ys, ch, rng)?;
            Default::default()
        };
        // 3. f
        ch.step("equality");
        let flags = made.meets(&z, ch)?;
        // 4. f·v
        ch.step("values");
        let key = |b: usize| table.get(b).copied().flatten().map(|entry| entry.key());
        let entries = in_bins(values, unit.keys.len(), (0..bins).map(key));
        // The same work for each column, however many keys are in its group.
        let of_group = |wanted: u32, number: &dyn Fn(usize) -> u64| {
            let mut numbers = vec![0; bins];
            for &InBin { bin, group, entry } in &entries {
                numbers[bin as usize] |= number(entry as usize) & u64::from(group == wanted).wrapping_neg();
            }
            numbers
        };
        let numbers = |column: usize| match columns[column] {
            Column::Keys => (0..bins).map(|b| u64::from(key(b).is_some())).collect(),
            Column::KeysOf(group) => of_group(group, &|_| 1),
            Column::Numbers(group, which) => of_group(group, &|entry| values.numbers(entry)[which as usize]),
        };
        // 5. Their sums
        let kept = params.total == Total::Shares;
        let (mut sums, mut values_of_bins) = (Vec::with_capacity(columns.len()), Vec::new());
        let numbers: Option<Numbers<'_>> = if params.puts { Some(&numbers) } else { None };
        made.times(&flags, columns.len(), bins, numbers, ch, |column, shares| {
            sums.push(shares.iter().fold(0u64, |sum, &share| sum.wrapping_add(share)));
            if kept && column == 0 {
                values_of_bins = shares;
            }
        })?;
        let bins = if kept { 0..bins } else { 0..0 };
        let bins = bins.map(|b| Share {
            key: key(b).map(|key| key as u32),
            common: flags[b / 64] >> (b % 64) & 1 == 1,
            value: values_of_bins.get(b).copied().unwrap_or(0),
        });
        Ok(Shares { unit: unit.id, attempt: made.attempt(), sums, bins: bins.collect() })
    }

    fn open(&self, shares: &[Shares], labels: &[Label], lines: &mut Lines, rng: &mut SessionRng) -> Result<Found> {
        let params = &self.params;
        let ch = lines.peer()?;
        // 5. The attempt;  totals
        ch.step("open");
        let mut names = blake3::Hasher::new_derive_key("vesica 2026 shares of one attempt");
        for shares in shares {
            names.update(&shares.unit.0.to_le_bytes()).update(&shares.attempt);
        }
        let names = names.finalize();
        if ch.swap_exact(names.as_bytes(), 32)? != names.as_bytes() {
            return Err(ch.accuse(Misbehaviour::Contradiction("its shares are of another attempt than this side's")));
        }
        let mut totals = vec![0u64; self.columns().len()];
        for shares in shares {
            totals.iter_mut().zip(&shares.sums).for_each(|(total, sum)| *total = total.wrapping_add(*sum));
        }
        let [of_sum, of_count] = params.noise.unwrap_or_default();
        let count = totals.pop_if(|_| self.counts()).map_or(0, |count| count.wrapping_add(of_count));
        let groups = match params.total {
            Total::Groups(groups) => Some(groups),
            _ => None,
        };
        // 6. Whether the count is less than the least
        let of_groups = groups.map_or(0, |groups| groups.most as usize);
        let words = NEGATIVE * (usize::from(params.least.is_some()) + of_groups);
        let mut made = match words {
            0 => None,
            _ => Some(base_of_end(&self.base, words, of_groups, ch, rng)?),
        };
        if let (Some(least), Some(made)) = (params.least, &mut made) {
            let mine = made.negative(&[params.below(count, least)], ch)?[0];
            let theirs = ch.swap_exact(&[mine.into()], 1)?;
            if theirs[0] > 1 {
                return Err(ch.accuse(Misbehaviour::Malformed("share of a bit")));
            }
            if mine ^ (theirs[0] == 1) {
                return Ok(Found::TooFew);
            }
        }
        if let (Some(groups), Some(made)) = (groups, made) {
            return self.open_groups(groups, made, &totals, labels, ch, rng);
        }
        // 7. -> and <- shares of the total
        let mine = match params.total {
            Total::Sum => totals[0].wrapping_add(of_sum),
            Total::Shares => return Ok(Found::Nothing),
            _ => count,
        };
        if params.peer_learns {
            ch.send(&mine.to_le_bytes())?;
        }
        if !params.i_learn {
            return Ok(Found::Nothing);
        }
        let theirs = ch.recv_exact(8)?;
        let total = mine.wrapping_add(u64::from_le_bytes(theirs.try_into().expect("its length was checked")));
        match params.total {
            Total::Sum => Ok(Found::Sum(total as i64)),
            // With noise, a number that no count can be is told as the nearest that one can.
            _ if params.noise.is_some() => Ok(Found::Count((total as i64).clamp(0, params.fewer as i64) as u64)),
            _ if total <= params.fewer => Ok(Found::Count(total)),
            _ => Err(ch.accuse(Misbehaviour::Contradiction("by its share, more keys are common than there are"))),
        }
    }
}

/// An entry of a party's values, and the bin that its key is in.
struct InBin {
    bin: u32,
    group: u32,
    entry: u32,
}

/// Entries in the order of bins, so that a column is written from its beginning to its end. `bins` has the place of each bin's key.
fn in_bins(values: &Values, keys: usize, bins: impl Iterator<Item = Option<usize>>) -> Vec<InBin> {
    let entries = values.entries();
    let mut starts = vec![0; keys + 1];
    entries.iter().for_each(|&(key, _)| starts[key as usize + 1] += 1);
    (0..keys).for_each(|key| starts[key + 1] += starts[key]);
    let mut sorted = Vec::with_capacity(entries.len());
    for (bin, key) in (0..).zip(bins) {
        let of_key = key.map_or(0..0, |key| starts[key]..starts[key + 1]);
        sorted.extend(of_key.map(|entry| InBin { bin, group: entries[entry].1, entry: entry as u32 }));
    }
    sorted
}

/// What the end of a job is made of: so many words of products, and as many pads each way.
fn base_of_end(base: &Base, words: usize, pads: usize, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Made> {
    base.make(END, Needs { words, pads, back: pads, ..Needs::default() }, ch, rng)
}

impl Params {
    /// This party's share of by how much a count exceeds `least`, of its share of the count.
    fn below(&self, count: u64, least: u64) -> u64 {
        // No job has 2^62 keys, so that a larger limit means the same and the difference is a number with a sign.
        if self.puts { count.wrapping_sub(least.min(1 << 62)) } else { count }
    }
}

impl<B: Field> Circuit<B> {
    /// Steps 6' and 7'. `totals` are this party's shares of the number of keys and of the sums of one group, then of the next one.
    fn open_groups(
        &self,
        groups: Groups,
        made: Made,
        totals: &[u64],
        labels: &[Label],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<Found> {
        let (params, mut made) = (&self.params, made);
        let (most, width) = (groups.most as usize, groups.sums as usize + 1);
        if params.puts && labels.len() != most {
            return Err(Error::Bug("there is not a label for each group".into()));
        }
        // 6'. h
        let above: Vec<u64> = totals.chunks_exact(width).map(|group| params.below(group[0], groups.least)).collect();
        let mut told = vec![0u64; most.div_ceil(64)];
        for (group, less) in made.negative(&above, ch)?.into_iter().enumerate() {
            told[group / 64] |= u64::from(less ^ params.puts) << (group % 64);
        }
        // h times R's share of each number, and its keys;  h times S's
        let mut keys = Zeroizing::new(vec![0u64; if params.puts && groups.labels { 2 * most } else { 0 }]);
        keys.iter_mut().for_each(|word| *word = u64::from_le_bytes(rng.bytes()));
        let own = |column: usize| match column.checked_sub(width) {
            None => (0..most).map(|group| totals[group * width + column]).collect(),
            Some(word) => (0..most).map(|group| keys[2 * group + word]).collect::<Vec<u64>>(),
        };
        let own: Numbers<'_> = &own;
        let (mut mine, mut mine_of_keys) = (vec![0u64; most * width], Zeroizing::new(vec![0u64; 2 * most]));
        for of_r in [true, false] {
            let columns = if of_r && groups.labels { width + 2 } else { width };
            let numbers = (of_r == params.puts).then_some(own);
            made.times(&told, columns, most, numbers, ch, |column, shares| {
                for (group, share) in shares.into_iter().enumerate() {
                    let sum = match column.checked_sub(width) {
                        None => &mut mine[group * width + column],
                        Some(word) => &mut mine_of_keys[2 * group + word],
                    };
                    *sum = sum.wrapping_add(share);
                }
            })?;
        }
        // 7'. -> and <- shares;  -> or <- labels
        if params.peer_learns {
            let of_keys = if params.puts { &mine_of_keys[..] } else { &[] };
            ch.send(&bytes(mine.iter().chain(of_keys)))?;
            if params.puts {
                let sealed = labels.iter().zip(keys.as_chunks().0).map(|(label, key)| self.seal(*key, label));
                ch.send(sealed.collect::<Vec<_>>().as_flattened())?;
            }
        }
        if !params.i_learn {
            return Ok(Found::Nothing);
        }
        let words = if params.puts { most * width } else { most * (width + 2) };
        let theirs = ch.recv_exact(8 * words)?;
        let mut all = theirs.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        mine.iter_mut().zip(&mut all).for_each(|(mine, theirs)| *mine = mine.wrapping_add(theirs));
        mine_of_keys.iter_mut().zip(all).for_each(|(mine, theirs)| *mine = mine.wrapping_add(theirs));
        let mut called = labels.to_vec();
        if !params.puts {
            let sealed = ch.recv_exact(most * LABEL)?;
            let sealed = sealed.as_chunks().0.iter().zip(mine_of_keys.as_chunks().0);
            called = sealed.map(|(label, key)| self.seal(*key, label)).collect();
        }
        let mut found = Vec::new();
        for (number, (group, label)) in mine.chunks_exact(width).zip(called).enumerate() {
            let (keys, sums) = (group[0], &group[1..]);
            if keys == 0 && sums.iter().all(|sum| *sum == 0) {
                continue;
            }
            if keys < groups.least || keys > params.fewer {
                let why = "by its shares, a group has a number of common keys that none can have";
                return Err(ch.accuse(Misbehaviour::Contradiction(why)));
            }
            let sums = sums.iter().map(|sum| *sum as i64).collect();
            found.push(Group { number: number as u32, label, keys, sums });
        }
        Ok(Found::Groups(found))
    }

    /// A label under a key that is used once, or what it is without.
    fn seal(&self, key: [u64; 2], label: &Label) -> Label {
        let mut stream = blake3::Hasher::new_derive_key("vesica 2026 label of a group");
        stream.update(&self.params.opprf.session).update(&bytes(&key));
        let mut sealed = [0; LABEL];
        stream.finalize_xof().fill(&mut sealed);
        sealed.iter_mut().zip(label).for_each(|(sealed, byte)| *sealed ^= byte);
        sealed
    }
}

/// The bytes of words.
fn bytes<'a>(words: impl IntoIterator<Item = &'a u64>) -> Vec<u8> {
    words.into_iter().flat_map(|word| word.to_le_bytes()).collect()
}
