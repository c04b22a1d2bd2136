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
use crate::{Error, Okvs, Value};
use vesica_block::prg::Prg;
use vesica_block::{Block, prefetch};
use vesica_params::okvs::PaxosShape;
use vesica_types::Digest;

/// A store by triangulation.
pub struct Paxos {
    shape: PaxosShape,
    hash: RowHash<2>,
}

/// Dense columns: the bits of a mask.
const DENSE: usize = 48;

/// The row of a key: three columns of its bin in bits 0 to 47, its mask in bits 48 to 95, the key's number in bits 96 to 127.
#[derive(Clone, Copy, Default)]
struct Row(u128);

impl Row {
    #[inline(always)]
    fn new(columns: [u32; 3], mask: u64, key: u32) -> Self {
        let [a, b, c] = columns.map(u128::from);
        Self(a | b << 16 | c << 32 | u128::from(mask << 16) << 32 | u128::from(key) << 96)
    }
    #[inline(always)]
    fn columns(self) -> [usize; 3] {
        [0, 16, 32].map(|from| usize::from((self.0 >> from) as u16))
    }
    #[inline(always)]
    fn mask(self) -> u64 {
        (self.0 >> 32) as u64 >> 16
    }
    #[inline(always)]
    fn key(self) -> usize {
        (self.0 >> 96) as usize
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

    /// The bin, the columns within it, and the mask.
    #[inline(always)]
    fn row(&self, sparse: Block, dense: Block) -> (usize, [u32; 3], u64) {
        let bin = rows::scale((sparse.0 >> 96) as u32, self.shape.bins);
        (bin as usize, rows::three(sparse, self.shape.columns), dense.low() >> (64 - DENSE))
    }

    /// The rows of all keys, bin by bin; `None` if a bin has no room for its own.
    fn rows(&self, keys: &[Digest]) -> Option<Binned> {
        let room = self.room();
        let mut rows = vec![0u128; self.shape.bins as usize * room];
        let mut loads = vec![0; self.shape.bins as usize];
        let mut fits = true;
        self.hash.batches(keys, |first, n, [sparse, dense]| {
            for i in 0..n {
                let (bin, places, mask) = self.row(sparse[i], dense[i]);
                let load = &mut loads[bin];
                if *load < room {
                    rows[bin * room + *load] = Row::new(places, mask, (first + i) as u32).0;
                    *load += 1;
                } else {
                    fits = false;
                }
            }
        });
        fits.then_some(Binned { rows, room, loads })
    }
}

/// Rows by bin: `loads[b]` of them from b·`room` on.
struct Binned {
    rows: Vec<u128>,
    room: usize,
    loads: Vec<usize>,
}

impl Okvs for Paxos {
    fn len(&self) -> usize {
        self.shape.slots()
    }

    fn encode<V: Value>(&self, keys: &[Digest], values: &[V], free: &mut Prg) -> Result<Vec<V>, Error> {
        assert_eq!(keys.len(), values.len(), "a value for each key");
        assert!(u32::try_from(keys.len()).is_ok(), "more keys than any shape is for");
        let unsolvable = || Error::of(keys);
        let columns = self.columns();
        let binned = self.rows(keys).ok_or_else(unsolvable)?;

        // The dense slots are random if nothing is left over, which is almost always so. If something is, the first pass
        // finds it and the second solves the rows again, with the dense slots as they must be.
        let mut dense = [V::default(); DENSE];
        V::fill(free, &mut dense);
        let (mut sums, mut gap) = (Sums::new(&dense), Vec::new());
        let (mut bin, mut targets) = (Bin::new(columns), Vec::new());
        let mut store = Vec::with_capacity(self.len());
        let mut slots = vec![V::default(); columns];
        for rows in binned.each() {
            V::fill(free, &mut slots);
            bin.peel(rows, self.shape.gap as usize).ok_or_else(unsolvable)?;
            bin.reduce_gap(rows, values, &slots, &mut gap);
            bin.solve(rows, values, &sums, &mut targets, &mut slots);
            store.extend_from_slice(&slots);
        }
        if !gap.is_empty() {
            if gap.len() > self.shape.gap as usize {
                return Err(unsolvable());
            }
            solve_dense(gap, &mut dense).ok_or_else(unsolvable)?;
            sums = Sums::new(&dense);
            for (slots, rows) in store.chunks_mut(columns).zip(binned.each()) {
                bin.peel(rows, self.shape.gap as usize).ok_or_else(unsolvable)?;
                bin.solve(rows, values, &sums, &mut targets, slots);
            }
        }
        store.extend_from_slice(&dense);
        Ok(store)
    }

    fn decode<V: Value>(&self, keys: &[Digest], store: &[V], out: &mut Vec<V>) {
        assert_eq!(store.len(), self.len(), "a store of this shape");
        let (sparse, dense) = store.split_at(self.len() - DENSE);
        let sums = Sums::new(dense);
        out.reserve(keys.len());
        // A batch's slots are on their way to the cache while those of the one before are added up.
        let mut batches = [Asked::NONE; 2];
        let mut add_up = |asked: &Asked| {
            out.extend(asked.at[..asked.n].iter().zip(&asked.masks).map(|(at, &mask)| {
                let [a, b, c] = at.map(|at| sparse[at as usize]);
                a.xor(b).xor(c).xor(sums.of(mask))
            }));
        };
        self.hash.batches(keys, |first, n, [random, dense]| {
            let [even, odd] = &mut batches;
            let (now, before) = if first.is_multiple_of(2 * rows::BATCH) { (even, odd) } else { (odd, even) };
            now.n = n;
            for i in 0..n {
                let (bin, places, mask) = self.row(random[i], dense[i]);
                now.at[i] = places.map(|place| bin as u32 * self.shape.columns + place);
                now.masks[i] = mask;
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

impl Binned {
    /// Each bin's rows.
    fn each(&self) -> impl Iterator<Item = &[u128]> {
        self.rows.chunks(self.room).zip(&self.loads).map(|(rows, &load)| &rows[..load])
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
    fn peel(&mut self, rows: &[u128], most: usize) -> Option<()> {
        let Self { columns, queue, order, gap } = self;
        let (columns, queue) = (columns.as_mut_slice(), queue.as_mut_slice());
        columns.fill(0);
        for (number, &row) in rows.iter().enumerate() {
            for column in Row(row).columns() {
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
    fn reduce_gap<V: Value>(&self, rows: &[u128], values: &[V], slots: &[V], equations: &mut Vec<(u64, V)>) {
        for &aside in &self.gap {
            let mut left = vec![false; slots.len()];
            let (mut mask, mut sum) = (0, V::default());
            let mut add = |row: Row, left: &mut [bool]| {
                row.columns().into_iter().for_each(|column| left[column] ^= true);
                mask ^= row.mask();
                sum = sum.xor(values[row.key()]);
            };
            add(Row(rows[usize::from(aside)]), &mut left);
            for &step in &self.order {
                let (row, owned) = peeled(rows, step);
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

    /// Gives every slot that a row owns its value, last peeled first; all others stand.
    fn solve<V: Value>(&self, rows: &[u128], values: &[V], sums: &Sums<V>, targets: &mut Vec<V>, slots: &mut [V]) {
        // What the three sparse slots of each row must sum to: loads that wait for nothing, before those that do.
        targets.clear();
        targets.extend(rows.iter().map(|&row| values[Row(row).key()].xor(sums.of(Row(row).mask()))));
        for &step in self.order.iter().rev() {
            let (row, owned) = peeled(rows, step);
            let [a, b, c] = row.columns().map(|column| slots[column]);
            // One of the three is what the slot held before.
            let others = a.xor(b).xor(c).xor(slots[owned]);
            slots[owned] = targets[step as usize >> 16].xor(others);
        }
    }
}

/// Takes a row out of its columns, and queues those that have one row left.
#[inline(always)]
fn remove(rows: &[u128], row: u32, columns: &mut [u32], queue: &mut [u16], put: &mut usize) {
    for column in Row(rows[row as usize]).columns() {
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

/// A row and the column that it owns.
#[inline(always)]
fn peeled(rows: &[u128], step: u32) -> (Row, usize) {
    (Row(rows[step as usize >> 16]), step as usize & 0xffff)
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
