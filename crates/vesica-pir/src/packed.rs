//! SimplePIR without a hint: answers are packed under a key that each query brings, and a client copies a mask for each 1024 rows.
//!
//! The scheme is that of [`crate::simple`], with the packing of [`vesica_he::pack`], where the papers are named.
//!
//!   D     the database, L x M bytes    matrix     A, w   M x 2048 words, and three elements of the ring    seed
//!   mask  of each block of 1024 rows   masks      P      12,288 columns of bytes beside D                  matrix
//!   s     the client's secret          secret     k      its key, 3·2048 words                             words
//!
//! 0. S, once an epoch: H = D·A, and of each block of it a mask and its rows of P.   S -> C: the top 18 bits of each word of all masks, rounded.
//! 1. C: b = A·s + e, and 2^24 is added to b[c]; k_t = w_t·s + e_t + B_t·s(X^5).   C -> S: the top 24 to 27 bits of each word of b, rounded; k.
//! 2. S: y = D·b - P·k.   S -> C: the top 10 or 11 bits of each word of y, rounded.
//! 3. C: row r of column c is (y - mask·s)[r] / 2^24, rounded.
//!
//! Reveals: shape and seed to both; to the client a whole column for each query, and what the masks say of the table, which is not meant to hide.
//! Rounds: 1.   Bytes: masks 4608·⌈L/1024⌉, query M·(24 to 27)/8 + 24,576, answer L·(10 or 11)/8.
//! S sees words that look random under ring-LWE of degree 2048 modulo 2^32, if an encryption of s(X^5) under s is safe (circular security;
//! `vesica_params::lwe::PACKED`). A server that deviates learns s from what the client decoded, if the client shows it: with a mask of its
//! own making, that *is* s. So what is decoded is shown to nobody before its seal or tag is right, and a secret serves one query.
//!
//! **Changes.** A patch holds differences of bytes. P and the masks stay: the client subtracts δ·(A·s)[c] from row r for each byte of column c
//! that grew by δ, which is exact, and the server computes nothing. Where a block's mask is shorter than its differences, the block is prepared
//! anew and the patch holds its mask, behind which all differences before it are void.

use crate::epoch::{Epoch, HALF_CHANGED};
use crate::keyword::Filter;
use crate::patch::{self, Entry, by_row};
use crate::simple::{laid_out, message, multiplied_on, place, put, read_queries, select, sizes, unpacked};
use crate::{MatrixPir, Pir, PirError, Records, Sizes};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use vesica_he::lwe::{ClientMatrix, PublicSeed, Secret as LweSecret, ServerMatrix, round};
use vesica_he::pack::{Packed, Packer};
use vesica_params::lwe::{PACKED, Shape};
use vesica_ring::bits;
use vesica_ring::matrix::{BATCH, Matrix};
use vesica_session::SessionRng;
use zeroize::Zeroizing;

/// Bytes before the columns that are kept beside a table: their epoch, and a hash of them and the records.
const HEAD: usize = Epoch::BYTES + 32;

/// n: the degree of the ring.
const DEGREE: usize = PACKED.degree as usize;

/// γ: rows of a block.
const ROWS: usize = DEGREE / 2;

/// The scheme for one shape and seed, which are public.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackedPir {
    shape: Shape,
    seed: PublicSeed,
}

/// What the server answers from: D, and P beside it.
pub struct Store {
    matrix: Matrix,
    /// The packed masks as they were prepared; empty in a server that started from columns that were prepared before.
    masks: Vec<u8>,
    epoch: Epoch,
}

/// What the client keeps: all masks, the differences since they were made, and A.
pub struct Hint {
    masks: Vec<Vec<u32>>,
    /// For each row, the columns that differ from what its mask was made of, and by how much.
    differences: BTreeMap<usize, BTreeMap<usize, i32>>,
    epoch: Epoch,
    matrix: ClientMatrix,
}

/// A is the same where the epoch is.
impl PartialEq for Hint {
    fn eq(&self, other: &Self) -> bool {
        (&self.masks, &self.differences, self.epoch) == (&other.masks, &other.differences, other.epoch)
    }
}

/// The secret of a query, and the row at which the record begins. It is used up by [`Pir::decode`].
pub struct Secret {
    secret: LweSecret,
    row: usize,
    epoch: Epoch,
}

impl PackedPir {
    /// The epoch before any change.
    fn first_epoch(&self) -> Epoch {
        let Shape { records, width, columns, set, .. } = self.shape;
        let sizes = [records, width.into(), columns.into()].map(u64::to_le_bytes);
        Epoch::first(&[self.seed.0.as_slice(), sizes.as_flattened(), set.id.as_bytes()].concat())
    }

    /// Prepares some blocks: writes their columns, and gives their packed masks.
    fn pack(&self, workers: usize, matrix: &mut Matrix, blocks: &[usize]) -> Result<Vec<(usize, Vec<u8>)>, PirError> {
        let server = ServerMatrix::new(&PACKED, &self.seed, self.shape.columns as usize);
        let packer = Packer::new(&PACKED, &self.seed);
        let mut masks = Vec::with_capacity(blocks.len());
        // As many blocks at once as there are workers bound what is held of columns that are not written yet.
        for now in blocks.chunks(workers.max(1)) {
            let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
            let work = || {
                while let Some(&block) = now.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let end = ((block + 1) * ROWS).min(self.shape.rows());
                    let rows = (block * ROWS..end).step_by(8).flat_map(|row| server.hint_rows(matrix, row));
                    let packed = packer.pack(&rows.collect::<Vec<_>>());
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((block, packed));
                }
            };
            std::thread::scope(|scope| {
                (1..now.len()).for_each(|_| drop(scope.spawn(work)));
                work();
            });
            for (block, packed) in done.into_inner().unwrap_or_else(PoisonError::into_inner) {
                if !packed.is_even(&PACKED) {
                    return Err(PirError::Shape("this seed packs a block badly; draw another seed".into()));
                }
                masks.push((block, self.write(matrix, block, &packed)));
            }
        }
        // Workers end in any order, and two servers with the same changes make the same patch.
        masks.sort_by_key(|(block, _)| *block);
        self.prove(workers, matrix, &masks)?;
        Ok(masks)
    }

    /// Fails if a client would not read the table's bytes by these masks: one query is made, answered and decoded, and every row of their blocks is
    /// compared. P meets a key that it was not made for, so this finds what the norms do not: a machine or a kernel that computes wrongly.
    fn prove(&self, workers: usize, matrix: &Matrix, masks: &[(usize, Vec<u8>)]) -> Result<(), PirError> {
        if masks.is_empty() {
            return Ok(());
        }
        // Nobody else's secret is drawn so, and this one hides nothing.
        let mut rng =
            SessionRng::from_seed(Zeroizing::new(blake3::derive_key("vesica 2026 proof of masks", &self.seed.0)));
        let client = ClientMatrix::new(&PACKED, &self.seed, self.shape.columns as usize);
        let (secret, query) = self.words(&client, &[0], &mut rng);
        let answer = multiplied_on(workers, matrix, &[self.vector(&query)], &self.shape).remove(0);
        let (y, mut is) = (self.read_answer(&answer), vec![0; self.shape.rows()]);
        matrix.read(0, 0, &mut is);
        for (block, mask) in masks {
            let product = client.times(&secret, &unpacked(&PACKED, mask));
            let rows = block * ROWS..((block + 1) * ROWS).min(is.len());
            if rows.zip(product.iter()).any(|(row, product)| byte(y[row].wrapping_sub(*product)) != is[row]) {
                return Err(PirError::Shape(format!(
                    "block {block} of the table was packed wrongly, which this machine found when it asked for it; prepare the table again, and \
                     if that fails too, check the machine's memory"
                )));
            }
        }
        Ok(())
    }

    /// Writes the columns of a block, and gives its mask as it travels.
    fn write(&self, matrix: &mut Matrix, block: usize, packed: &Packed) -> Vec<u8> {
        let first = self.shape.columns as usize;
        let rows = packed.columns.len() / self.shape.extra_columns();
        for (column, bytes) in packed.columns.chunks_exact(rows).enumerate() {
            matrix.write(block * ROWS, first + column, bytes);
        }
        let mut mask = Vec::with_capacity(self.shape.hint_row_bytes());
        bits::pack(packed.mask.iter().map(|word| word >> (32 - PACKED.hint_bits)), PACKED.hint_bits, &mut mask);
        mask
    }

    /// How many low bits of a query's word are dropped.
    fn lost(&self) -> u32 {
        32 - PACKED.query_bits(self.shape.columns).expect("a shape has no more columns")
    }

    /// A query for the sum of these columns, without its epoch.
    fn words(&self, matrix: &ClientMatrix, columns: &[usize], rng: &mut SessionRng) -> (LweSecret, Vec<u8>) {
        let (secret, mut words) = matrix.hide_zeros(rng);
        let (b, key) = words.split_at_mut(self.shape.columns as usize);
        columns.iter().for_each(|&column| select(b, column));
        let mut out = Vec::with_capacity(self.shape.query_bytes());
        bits::pack(b.iter().map(|&word| round(word, self.lost())), 32 - self.lost(), &mut out);
        key.iter().for_each(|word| out.extend(word.to_le_bytes()));
        (secret, out)
    }

    /// The words of an answer, without its epoch.
    fn read_answer(&self, packed: &[u8]) -> Vec<u32> {
        let bits = self.shape.answer_bits();
        bits::unpack(packed, bits, self.shape.rows()).map(|word| (word as u32) << (32 - bits)).collect()
    }

    /// The vector that a query's words are for the matrix: b, and behind it for each element of the key -k and -256·k, which meet the low and
    /// the high bytes of P.
    fn vector(&self, packed: &[u8]) -> Vec<u32> {
        let (columns, lost) = (self.shape.columns as usize, self.lost());
        let (b, key) = packed.split_at(packed.len() - self.shape.key_bytes());
        let mut vector = Vec::with_capacity(columns + self.shape.extra_columns());
        vector.extend(bits::unpack(b, 32 - lost, columns).map(|word| (word as u32) << lost));
        for element in key.chunks_exact(4 * DEGREE) {
            for factor in [1, 256] {
                let words = element.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
                vector.extend(words.map(|word| word.wrapping_mul(factor).wrapping_neg()));
            }
        }
        vector
    }

    /// The blocks that the rows of the records at `row` are in.
    fn blocks(&self, row: usize) -> std::ops::RangeInclusive<usize> {
        row / ROWS..=(row + self.shape.width as usize - 1) / ROWS
    }

    /// A change begins. If it fails half way, no query of an epoch that somebody has is answered from what stands there then, and nobody gets
    /// masks of it.
    fn half_changed(store: &mut Store) {
        store.epoch = store.epoch.after(HALF_CHANGED);
        store.masks.clear();
    }

    /// What differences since the masks were made add to each row of a record: Σ_c δ_(r,c)·(A·s)[c].
    fn differences(&self, hint: &Hint, secret: &Secret) -> Zeroizing<Vec<u32>> {
        let mut sums = Zeroizing::new(vec![0u32; self.shape.width as usize]);
        let mut hidden: BTreeMap<usize, Zeroizing<Vec<u32>>> = BTreeMap::new();
        for (row, columns) in hint.differences.range(secret.row..secret.row + sums.len()) {
            for (&column, &difference) in columns {
                let words = hidden
                    .entry(column / DEGREE)
                    .or_insert_with(|| hint.matrix.hidden(&secret.secret, column / DEGREE));
                let sum = &mut sums[row - secret.row];
                *sum = sum.wrapping_add(words[column % DEGREE].wrapping_mul(difference as u32));
            }
        }
        sums
    }
}

/// v / 2^24, rounded.
fn byte(v: u32) -> u8 {
    (v.wrapping_add(1 << 23) >> 24) as u8
}

impl Pir for PackedPir {
    type Store = Store;
    type Hint = Hint;
    type Secret = Secret;

    fn sizes(&self) -> Sizes {
        sizes(&self.shape)
    }

    /// The table and what packs its answers. That is the work before anybody asks, so a server that starts again takes [`MatrixPir::restore`].
    fn store(&self, records: &dyn Records) -> Result<Store, PirError> {
        self.prepare(1, records)
    }

    /// The masks.
    fn hint(&self, store: &Store) -> Result<Vec<u8>, PirError> {
        if store.masks.is_empty() {
            return Err(PirError::Shape("the masks of this table were not made here; prepare it".into()));
        }
        Ok([&store.epoch.to_bytes()[..], &store.masks].concat())
    }

    fn take_hint(&self, bytes: Vec<u8>) -> Result<Hint, PirError> {
        let (epoch, packed) = message("masks", &bytes, self.sizes().hint as usize)?;
        self.first_epoch().expect(&epoch)?;
        let masks = packed.chunks_exact(self.shape.hint_row_bytes()).map(|mask| unpacked(&PACKED, mask)).collect();
        let matrix = ClientMatrix::new(&PACKED, &self.seed, self.shape.columns as usize);
        Ok(Hint { masks, differences: BTreeMap::new(), epoch, matrix })
    }

    fn query(&self, hint: &Hint, index: u64, rng: &mut SessionRng) -> Result<(Secret, Vec<u8>), PirError> {
        self.query_sum(hint, &[index], rng)
    }

    fn query_sum(&self, hint: &Hint, indices: &[u64], rng: &mut SessionRng) -> Result<(Secret, Vec<u8>), PirError> {
        let (row, places) = crate::simple::places(&self.shape, indices)?;
        let (secret, words) = self.words(&hint.matrix, &places, rng);
        let query = [&hint.epoch.to_bytes()[..], &words].concat();
        Ok((Secret { secret, row, epoch: hint.epoch }, query))
    }

    fn answer(&self, store: &Store, queries: &[&[u8]]) -> Result<Vec<Vec<u8>>, PirError> {
        self.answer_on(1, store, queries)
    }

    fn decode(&self, hint: &Hint, secret: Secret, answer: &[u8]) -> Result<Vec<u8>, PirError> {
        let (epoch, packed) = message("an answer", answer, self.sizes().answer)?;
        secret.epoch.expect(&epoch)?;
        hint.epoch.expect(&epoch)?;
        let y = self.read_answer(packed);
        let differences = self.differences(hint, &secret);
        // 3. (y - mask·s) / 2^24, rounded
        let mut record = Vec::with_capacity(differences.len());
        for block in self.blocks(secret.row) {
            let product = hint.matrix.times(&secret.secret, &hint.masks[block]);
            let rows = secret.row.max(block * ROWS)..(secret.row + differences.len()).min((block + 1) * ROWS);
            for row in rows {
                let v = y[row].wrapping_sub(product[row % ROWS]).wrapping_sub(differences[row - secret.row]);
                record.push(byte(v));
            }
        }
        Ok(record)
    }
}

impl MatrixPir for PackedPir {
    const COPY: &str = "masks";
    const SHAPE: fn(u64, u32, u64) -> Option<Shape> = Shape::cheapest_packed;
    const SHAPE_OF_KEYS: fn(u64, u32, u64) -> Option<Shape> = Filter::packed_shape;

    /// # Panics
    /// If the shape has a hint.
    fn new(shape: Shape, seed: PublicSeed) -> Self {
        assert!(shape.set == &PACKED, "a shape of {}", shape.set.id);
        Self { shape, seed }
    }

    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn beside_bytes(&self) -> u64 {
        (HEAD + self.shape.rows() * self.shape.extra_columns()) as u64
    }

    fn secret_bytes(&self) -> u64 {
        (DEGREE * size_of::<i32>()) as u64
    }

    fn together(&self) -> usize {
        BATCH
    }

    /// Each block is prepared by one of the threads.
    fn prepare(&self, workers: usize, records: &dyn Records) -> Result<Store, PirError> {
        let mut matrix = laid_out(&self.shape, records, |_| ())?;
        let blocks: Vec<usize> = (0..self.shape.hint_rows()).collect();
        let masks = self.pack(workers, &mut matrix, &blocks)?.into_iter().flat_map(|(_, mask)| mask).collect();
        Ok(Store { matrix, masks, epoch: self.first_epoch() })
    }

    /// The epoch, a hash of the records and the columns, and the bytes of each column from the first row on.
    fn beside(&self, store: &Store) -> Vec<u8> {
        let (rows, first) = (self.shape.rows(), self.shape.columns as usize);
        let mut bytes = vec![0; self.beside_bytes() as usize];
        for (column, out) in bytes[HEAD..].chunks_exact_mut(rows).enumerate() {
            store.matrix.read(0, first + column, out);
        }
        let (mut hash, mut record) = (blake3::Hasher::new(), vec![0; self.shape.width as usize]);
        for index in 0..self.shape.records {
            let (row, column) = place(&self.shape, index);
            store.matrix.read(row, column, &mut record);
            hash.update(&record);
        }
        hash.update(&bytes[HEAD..]);
        bytes[..Epoch::BYTES].copy_from_slice(&store.epoch.to_bytes());
        bytes[Epoch::BYTES..HEAD].copy_from_slice(hash.finalize().as_bytes());
        bytes
    }

    fn restore(&self, records: &dyn Records, beside: &[u8], patches: &[&[u8]]) -> Result<Store, PirError> {
        let wrong = |why: String| Err(PirError::Shape(format!("{why}; prepare the table again")));
        if beside.len() as u64 != self.beside_bytes() {
            let (is, due) = (beside.len(), self.beside_bytes());
            return wrong(format!("{is} bytes beside the records, where {due} are due"));
        }
        let epoch = patches.iter().fold(self.first_epoch(), |epoch, patch| epoch.after(patch));
        let (head, columns) = beside.split_at(HEAD);
        if head[..Epoch::BYTES] != epoch.to_bytes() {
            return wrong(format!(
                "the columns beside the records are of another epoch than their {} changes",
                epoch.changes
            ));
        }
        let mut hash = blake3::Hasher::new();
        let mut matrix = laid_out(&self.shape, records, |record| {
            hash.update(record);
        })?;
        if head[Epoch::BYTES..] != *hash.update(columns).finalize().as_bytes() {
            return wrong("the columns beside the records are not of these records, or damaged".into());
        }
        for (column, bytes) in columns.chunks_exact(self.shape.rows()).enumerate() {
            matrix.write(0, self.shape.columns as usize + column, bytes);
        }
        Ok(Store { matrix, masks: Vec::new(), epoch })
    }

    fn recompute(
        &self,
        workers: usize,
        records: &dyn Records,
        beside: &[u8],
        hint: &Hint,
        patches: &[&[u8]],
    ) -> Result<(), PirError> {
        let wrong = |what: String| PirError::Shape(format!("{what} is not what the table makes of it"));
        let Store { mut matrix, epoch, .. } = self.restore(records, beside, patches)?;
        hint.epoch.expect(&epoch)?;
        // Back to the table that the masks are of: what differs from it now stands in the patches. The columns beside it are written anew.
        for (&row, columns) in &hint.differences {
            for (&column, difference) in columns {
                let mut cell = [0];
                matrix.read(row, column, &mut cell);
                let before = i8::try_from(i32::from(cell[0] as i8).wrapping_sub(*difference));
                let before = before.map_err(|_| wrong(format!("a patch of row {row} and column {column}")))?;
                matrix.write(row, column, &[before as u8]);
            }
        }
        let blocks: Vec<usize> = (0..self.shape.hint_rows()).collect();
        for (block, mask) in self.pack(workers, &mut matrix, &blocks)? {
            if unpacked(&PACKED, &mask) != hint.masks[block] {
                return Err(wrong(format!("the mask of block {block}")));
            }
        }
        let (first, mut now) = (self.shape.columns as usize, vec![0; self.shape.rows()]);
        for (at, kept) in beside[HEAD..].chunks_exact(self.shape.rows()).enumerate() {
            matrix.read(0, first + at, &mut now);
            if now != kept {
                return Err(wrong(format!("column {at} beside the records")));
            }
        }
        Ok(())
    }

    fn check(&self, store: &Store, query: &[u8]) -> Result<(), PirError> {
        read_queries(&self.shape, &store.epoch, query).map(drop)
    }

    fn answer_on(&self, workers: usize, store: &Store, queries: &[&[u8]]) -> Result<Vec<Vec<u8>>, PirError> {
        let read = |query: &&[u8]| Ok(self.vector(read_queries(&self.shape, &store.epoch, query)?));
        let vectors = queries.iter().map(read).collect::<Result<Vec<_>, PirError>>()?;
        let answers = multiplied_on(workers, &store.matrix, &vectors, &self.shape);
        Ok(answers.into_iter().map(|answer| [&store.epoch.to_bytes()[..], &answer].concat()).collect())
    }

    fn patch_bytes(&self, groups: usize) -> u64 {
        // Rows of a group begin anywhere in a block.
        let blocks = (self.shape.width as usize + ROWS - 2) / ROWS + 1;
        let masks = (groups * blocks).min(self.shape.hint_rows()) * patch::copied_bytes(&self.shape);
        let cells = groups * self.shape.group() as usize * patch::cell_bytes(&self.shape);
        (Epoch::BYTES + masks.min(cells)) as u64
    }

    fn change(&self, workers: usize, store: &mut Store, changes: &[(u64, &[u8])]) -> Result<Vec<u8>, PirError> {
        let by_row = by_row(&self.shape, changes)?;
        let before = store.epoch;
        let mut patch = before.to_bytes().to_vec();
        // Rows that change so much that the masks of their blocks are shorter.
        let mut anew = BTreeSet::new();
        for (&row, records) in &by_row {
            let masks = self.blocks(row).count() * patch::copied_bytes(&self.shape);
            if records.len() * patch::cell_bytes(&self.shape) >= masks {
                anew.extend(self.blocks(row));
            }
        }
        Self::half_changed(store);
        for (row, records) in by_row {
            let is_anew = self.blocks(row).all(|block| anew.contains(&block));
            for (index, record) in records {
                match is_anew {
                    true => put(&self.shape, &mut store.matrix, index, record),
                    false => patch::cells(&self.shape, &mut store.matrix, index, record, &mut patch),
                }
            }
        }
        // Behind the differences: those of rows in a block that is prepared anew are void.
        for (block, mask) in self.pack(workers, &mut store.matrix, &Vec::from_iter(anew))? {
            patch::copied(block, &mut patch);
            patch.extend(&mask);
        }
        store.epoch = before.after(&patch);
        Ok(patch)
    }

    fn patch(&self, hint: &mut Hint, patch: &[u8]) -> Result<(), PirError> {
        for entry in patch::entries(&self.shape, &hint.epoch, Self::COPY, patch)? {
            match entry {
                Entry::Copied(block, packed) => {
                    hint.masks[block] = unpacked(&PACKED, packed);
                    (block * ROWS..(block + 1) * ROWS).for_each(|row| drop(hint.differences.remove(&row)));
                }
                Entry::Cell(first, column, bytes) => {
                    for (row, difference) in Entry::differences(first, bytes) {
                        let sum = hint.differences.entry(row).or_default().entry(column).or_default();
                        *sum = sum.wrapping_add(difference);
                    }
                }
            }
        }
        hint.epoch = hint.epoch.after(patch);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
