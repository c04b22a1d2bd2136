//! Stores by triangulation: three sparse columns a key, and dense columns for what peeling leaves over.
//!
//! [PRTY20] Pinkas, Rosulek, Trieu, Yanai, "PSI from PaXoS", EUROCRYPT 2020, eprint 2020/193; [RR22] Raghuraman, Rindal, "Blazing
//! Fast PSI from Improved OKVS and Subfield VOLE", CCS 2022, eprint 2022/320, sections 3 and 4. A key's value is the sum of
//! three slots of one bin, which stays in the cache, and of those of 48 dense slots that a mask selects.
//!
//! Encoding *peels* a bin: a column that only one row has is that row's own; take both away, and so on. Then the rows are
//! solved in reverse order. If no such column is left, a row is put aside, into the gap; the rows of the gap are reduced
//! to equations in the dense slots alone.
//!
//! Differences from [RR22]: dense columns are binary and shared by all bins, so one table of sums of them serves all rows,
//! and decoding needs no field; peeling keeps, for each column, how many rows have it and the sum of their numbers, so there
//! are no lists.

use crate::rows::{self, RowHash};
use crate::{Error, Free, Okvs, Value};
use vesica_block::{Block, large, prefetch};
use vesica_params::okvs::PaxosShape;
use vesica_types::Digest;

/// A store by triangulation.
pub struct Paxos {
    shape: PaxosShape,
    hash: RowHash<2>,
}

/// Dense columns: the bits of a mask.
const DENSE: usize = 48;

/// The row of a key: its three columns in its bin, 16 bits each.
#[derive(Clone, Copy, Default)]
struct Row(u64);

impl Row {
    #[inline(always)]
    fn new([a, b, c]: [u32; 3]) -> Self {
        Self(u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32)
    }
    #[inline(always)]
    fn columns(self) -> [usize; 3] {
        [0, 16, 32].map(|from| usize::from((self.0 >> from) as u16))
    }
}

impl Paxos {
    /// Stores of this shape under this seed, which is public and drawn after the keys are fixed.
    ///
    /// # Panics
    /// If the shape is not one of `vesica_params::okvs::paxos`.
    pub fn new(shape: PaxosShape, seed: Block) -> Self {
        assert!(shape.dense as usize == DENSE && shape.columns >= 3 && shape.bins >= 1, "{shape:?}");
        assert!(shape.columns + shape.gap <= 1 << 16, "rows and columns of a bin have numbers of 16 bits: {shape:?}");
        Self { shape, hash: RowHash::new(seed) }
    }

    /// Columns of a bin.
    fn columns(&self) -> usize {
        self.shape.columns as usize
    }

    /// Most rows of a bin: with more, more would be put aside than may be.
    fn room(&self) -> usize {
        (self.shape.columns + self.shape.gap) as usize
    }

    /// The bin of a key.
    #[inline(always)]
    fn bin(&self, sparse: Block) -> usize {
        rows::scale((sparse.0 >> 96) as u32, self.shape.bins) as usize
    }

    /// The rows of all keys, bin by bin, each with what `with` makes of the key's number and mask; keys come in order.
    fn binned<P: Copy + Default>(&self, keys: &[Digest], mut with: impl FnMut(usize, u64) -> P) -> Binned<P> {
        assert!(u32::try_from(keys.len()).is_ok(), "more keys than any shape is for");
        let mut ends = vec![0; self.shape.bins as usize];
        self.hash.batches(keys, |_, n, [sparse, _]| {
            sparse[..n].iter().for_each(|&sparse| ends[self.bin(sparse)] += 1);
        });
        // Where each bin begins; where it ends, once all its rows are there.
        let mut before = 0;
        for end in &mut ends {
            before += std::mem::replace(end, before);
        }
        let (mut rows, mut payload) =
            (large::filled(Row::default(), keys.len()), large::filled(P::default(), keys.len()));
        self.hash.batches(keys, |first, n, [sparse, masks]| {
            for i in 0..n {
                let at = &mut ends[self.bin(sparse[i])];
                rows[*at as usize] = Row::new(rows::three(sparse[i], self.shape.columns));
                payload[*at as usize] = with(first + i, mask(masks[i]));
                *at += 1;
            }
        });
        Binned { rows, payload, ends }
    }
}

/// Rows by bin: those of bin b end at `ends[b]`, where the next one's begin.
struct Binned<P> {
    rows: Vec<Row>,
    /// What belongs to each row.
    payload: Vec<P>,
    ends: Vec<u32>,
}

impl<P> Binned<P> {
    /// Each bin's rows and what belongs to them.
    fn each(&self) -> impl Iterator<Item = (&[Row], &[P])> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| {
            let bin = start as usize..end as usize;
            (&self.rows[bin.clone()], &self.payload[bin])
        })
    }
}

impl Okvs for Paxos {
    fn len(&self) -> usize {
        self.shape.slots()
    }

    fn encode<V: Value>(&self, keys: &[Digest], values: &[V], free: &mut impl Free) -> Result<Vec<V>, Error> {
        assert_eq!(keys.len(), values.len(), "a value for each key");
        let unsolvable = || Error::of(keys);
        let mut store = large::filled(V::default(), self.len());
        let (sparse, dense) = store.split_at_mut(self.len() - DENSE);
        let mut bin = Bin::new(self.columns());

        // The dense slots are random if nothing is left over, which is almost always so.
        V::fill(free, dense);
        let targets = self.targets(keys, values, dense);
        if targets.each().any(|(rows, _)| rows.len() > self.room()) {
            return Err(unsolvable());
        }
        let mut left_over = 0;
        for ((rows, targets), slots) in targets.each().zip(sparse.chunks_mut(self.columns())) {
            V::fill(free, slots);
            bin.peel(rows, self.shape.gap as usize).ok_or_else(unsolvable)?;
            bin.solve(rows, targets, slots);
            left_over += bin.gap.len();
        }
        if left_over > self.shape.gap as usize {
            return Err(unsolvable());
        }
        if left_over > 0 {
            self.solve_gap(keys, values, &targets, &mut bin, sparse, dense).ok_or_else(unsolvable)?;
        }
        Ok(store)
    }

    fn decode<V: Value>(&self, keys: &[Digest], store: &[V], out: &mut Vec<V>) {
        assert_eq!(store.len(), self.len(), "a store of this shape");
        let (sparse, dense) = store.split_at(self.len() - DENSE);
        let sums = Sums::new(dense);
        large::reserve(out, keys.len());
        // A batch's slots are on their way to the cache while those of the one before are added up.
        let mut batches = [Asked::NONE; 2];
        let mut add_up = |asked: &Asked| {
            out.extend(asked.at[..asked.n].iter().zip(&asked.masks).map(|(at, &mask)| {
                let [a, b, c] = at.map(|at| sparse[at as usize]);
                a.xor(b).xor(c).xor(sums.of(mask))
            }));
        };
        self.hash.batches(keys, |first, n, [random, masks]| {
            let [even, odd] = &mut batches;
            let (now, before) = if first.is_multiple_of(2 * rows::BATCH) { (even, odd) } else { (odd, even) };
            now.n = n;
            for i in 0..n {
                let first = self.bin(random[i]) as u32 * self.shape.columns;
                now.at[i] = rows::three(random[i], self.shape.columns).map(|column| first + column);
                now.masks[i] = mask(masks[i]);
                now.at[i].into_iter().for_each(|at| prefetch(sparse, at as usize));
            }
            add_up(before);
            before.n = 0;
        });
        batches.iter().for_each(add_up);
    }
}

/// A batch of keys whose slots have been asked for.
struct Asked {
    n: usize,
    at: [[u32; 3]; rows::BATCH],
    masks: [u64; rows::BATCH],
}

impl Asked {
    const NONE: Self = Self { n: 0, at: [[0; 3]; rows::BATCH], masks: [0; rows::BATCH] };
}

/// Which dense slots a key has.
#[inline(always)]
fn mask(random: Block) -> u64 {
    random.low() >> (64 - DENSE)
}

impl Paxos {
    /// What the three sparse slots of each key must sum to.
    fn targets<V: Value>(&self, keys: &[Digest], values: &[V], dense: &[V]) -> Binned<V> {
        let sums = Sums::new(dense);
        self.binned(keys, |key, mask| values[key].xor(sums.of(mask)))
    }

    /// Solves for the dense slots too, as the rows put aside will have it, and for all rows again. `targets` are those for
    /// the dense slots as they are; of the sparse ones those count that no row owns.
    fn solve_gap<V: Value>(
        &self,
        keys: &[Digest],
        values: &[V],
        targets: &Binned<V>,
        bin: &mut Bin,
        sparse: &mut [V],
        dense: &mut [V],
    ) -> Option<()> {
        let masks = self.binned(keys, |_, mask| mask);
        let mut equations = Vec::new();
        let bins = targets.each().zip(masks.each());
        for (((rows, targets), (_, masks)), slots) in bins.zip(sparse.chunks(self.columns())) {
            bin.peel(rows, self.shape.gap as usize)?;
            bin.reduce_gap(rows, targets, masks, slots, &mut equations);
        }
        let sums = Sums::new(dense);
        equations.iter_mut().for_each(|(mask, sum)| *sum = sum.xor(sums.of(*mask)));
        solve_dense(equations, dense)?;
        let targets = self.targets(keys, values, dense);
        for ((rows, targets), slots) in targets.each().zip(sparse.chunks_mut(self.columns())) {
            bin.peel(rows, self.shape.gap as usize)?;
            bin.solve(rows, targets, slots);
        }
        Some(())
    }
}

/// What peeling a bin needs, allocated once.
struct Bin {
    /// For each column: how many rows have it, times 2^16, plus the exclusive or of their numbers.
    columns: Vec<u32>,
    /// Columns that had one row when they were put here, in the order in which they are taken.
    queue: Vec<u16>,
    /// The rows in the order in which they were peeled, times 2^16, plus the column that each owns.
    order: Vec<u32>,
    /// The rows put aside.
    gap: Vec<u16>,
}

impl Bin {
    fn new(columns: usize) -> Self {
        Self { columns: vec![0; columns], queue: vec![0; columns + 1], order: vec![0; columns], gap: Vec::new() }
    }

    /// Finds for each row a column of its own, or puts it aside; `None` if more than `most` have to be.
    fn peel(&mut self, rows: &[Row], most: usize) -> Option<()> {
        let Self { columns, queue, order, gap } = self;
        let (columns, queue) = (columns.as_mut_slice(), queue.as_mut_slice());
        columns.fill(0);
        for (number, row) in rows.iter().enumerate() {
            for column in row.columns() {
                columns[column] = columns[column].wrapping_add(1 << 16) ^ number as u32;
            }
        }
        let (mut taken, mut put) = (0, 0);
        for (number, &column) in columns.iter().enumerate() {
            queue[put] = number as u16;
            put += usize::from(column >> 16 == 1);
        }
        order.clear();
        gap.clear();
        loop {
            while taken < put {
                let owned = queue[taken];
                taken += 1;
                let column = columns[usize::from(owned)];
                // The row may have been peeled by another of its columns since.
                if column >> 16 == 1 {
                    order.push(column << 16 | u32::from(owned));
                    remove(rows, column & 0xffff, columns, queue, &mut put);
                }
            }
            if order.len() + gap.len() == rows.len() {
                return Some(());
            }
            if gap.len() == most {
                return None;
            }
            let aside = left_over(rows.len(), order, gap);
            gap.push(aside as u16);
            remove(rows, aside, columns, queue, &mut put);
        }
    }

    /// Appends an equation in the dense slots for each row put aside: the mask of its slots, and their sum.
    ///
    /// The row's own columns are replaced by the rest of the row that owns each, in the order of peeling, in which no row has
    /// a column of an earlier one; what remains are slots that nobody owns, whose values stand.
    fn reduce_gap<V: Value>(
        &self,
        rows: &[Row],
        targets: &[V],
        masks: &[u64],
        slots: &[V],
        equations: &mut Vec<(u64, V)>,
    ) {
        for &aside in &self.gap {
            let mut left = vec![false; slots.len()];
            let (mut mask, mut sum) = (0, V::default());
            let mut add = |row: usize, left: &mut [bool]| {
                rows[row].columns().into_iter().for_each(|column| left[column] ^= true);
                mask ^= masks[row];
                sum = sum.xor(targets[row]);
            };
            add(usize::from(aside), &mut left);
            for &step in &self.order {
                let (row, owned) = peeled(step);
                if left[owned] {
                    add(row, &mut left);
                }
            }
            for (slot, _) in slots.iter().zip(left).filter(|(_, left)| *left) {
                sum = sum.xor(*slot);
            }
            equations.push((mask, sum));
        }
    }

    /// Gives every slot that a row owns the value with which the row's slots sum to its target, last peeled first; all
    /// others stand.
    fn solve<V: Value>(&self, rows: &[Row], targets: &[V], slots: &mut [V]) {
        for &step in self.order.iter().rev() {
            let (row, owned) = peeled(step);
            let [a, b, c] = rows[row].columns().map(|column| slots[column]);
            // One of the three is what the slot held before.
            let others = a.xor(b).xor(c).xor(slots[owned]);
            slots[owned] = targets[row].xor(others);
        }
    }
}

/// Takes a row out of its columns, and queues those that have one row left.
#[inline(always)]
fn remove(rows: &[Row], row: u32, columns: &mut [u32], queue: &mut [u16], put: &mut usize) {
    for column in rows[row as usize].columns() {
        let left = columns[column].wrapping_sub(1 << 16) ^ row;
        columns[column] = left;
        queue[*put] = column as u16;
        *put += usize::from(left >> 16 == 1);
    }
}

/// The first of `n` rows that has been neither peeled nor put aside.
fn left_over(n: usize, order: &[u32], gap: &[u16]) -> u32 {
    let mut done = vec![false; n];
    order.iter().for_each(|&step| done[step as usize >> 16] = true);
    gap.iter().for_each(|&row| done[usize::from(row)] = true);
    done.iter().position(|done| !done).expect("some row is left over") as u32
}

/// The number of a row, and the column that it owns.
#[inline(always)]
fn peeled(step: u32) -> (usize, usize) {
    (step as usize >> 16, step as usize & 0xffff)
}

/// Solves for as many dense slots as there are equations and leaves the others; `None` if the equations are dependent.
fn solve_dense<V: Value>(equations: Vec<(u64, V)>, dense: &mut [V]) -> Option<()> {
    let has = |mask: u64, bit: u32| mask >> bit & 1 == 1;
    // Each has a slot of its own, which no other has.
    let mut solved: Vec<(u32, u64, V)> = Vec::new();
    for (mut mask, mut sum) in equations {
        for &(own, other_mask, other_sum) in &solved {
            if has(mask, own) {
                (mask, sum) = (mask ^ other_mask, sum.xor(other_sum));
            }
        }
        if mask == 0 {
            return None;
        }
        let own = mask.trailing_zeros();
        for (_, other_mask, other_sum) in &mut solved {
            if has(*other_mask, own) {
                (*other_mask, *other_sum) = (*other_mask ^ mask, other_sum.xor(sum));
            }
        }
        solved.push((own, mask, sum));
    }
    for (own, mask, sum) in solved {
        let others = (0..DENSE as u32).filter(|&bit| bit != own && has(mask, bit));
        dense[own as usize] = others.fold(sum, |sum, bit| sum.xor(dense[bit as usize]));
    }
    Some(())
}

/// The sums of the dense slots that each value of each byte of a mask selects (Arlazarov, Dinic, Kronrod, Faradzhev, 1970).
struct Sums<V>(Box<[[V; 256]; DENSE / 8]>);

impl<V: Value> Sums<V> {
    fn new(dense: &[V]) -> Self {
        let mut tables = Box::new([[V::default(); 256]; DENSE / 8]);
        for (table, dense) in tables.iter_mut().zip(dense.chunks(8)) {
            for byte in 1..256usize {
                table[byte] = table[byte & (byte - 1)].xor(dense[byte.trailing_zeros() as usize]);
            }
        }
        Self(tables)
    }

    /// The sum of the dense slots that `mask` selects.
    #[inline(always)]
    fn of(&self, mask: u64) -> V {
        let mut sum = V::default();
        for (i, table) in self.0.iter().enumerate() {
            sum = sum.xor(table[usize::from((mask >> (8 * i)) as u8)]);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{keys, random};
    use vesica_block::prg::Prg;

    /// Shapes so short that rows are put aside, in one bin and in several: then either all is right or it is an error.
    #[test]
    fn short_stores_use_their_dense_slots_or_fail() {
        let (mut gaps, mut failures) = (0, 0);
        for seed in 0..600 {
            for (bins, columns, n) in [(1, 20, 12), (1, 130, 100), (4, 40, 110), (1, 3, 8), (1, 3, 12)] {
                let shape = PaxosShape { bins, columns, dense: 48, gap: 8 };
                let okvs = Paxos::new(shape, Block(seed));
                let (keys, values) = (keys(n, seed + 1), random::<Block>(n, 2));
                match okvs.encode(&keys, &values, &mut Prg::new(Block(3))) {
                    Ok(store) => {
                        let mut decoded = Vec::new();
                        okvs.decode(&keys, &store, &mut decoded);
                        assert!(decoded == values, "{seed}, {shape:?}");
                        // With random dense slots, the first of a stream.
                        gaps += usize::from(store[okvs.len() - DENSE..] != random::<Block>(DENSE, 3));
                    }
                    Err(error) => {
                        assert_eq!(error, Error::Unsolvable { keys: n });
                        failures += 1;
                    }
                }
            }
        }
        assert!(gaps > 300 && failures > 300, "{gaps} gaps, {failures} failures of 3000");
    }
}
