//! SimplePIR over a ring, with a short hint: a query costs the server one pass over the database, at the speed of its memory.
//!
//! [HHCMV23] Henzinger, Hong, Corrigan-Gibbs, Meiklejohn, Vaikuntanathan, "One Server for the Price of Two", USENIX Security 2023,
//! eprint 2022/949, Figure 7; with the structured matrix of [MW24] Menon, Wu, "YPIR", USENIX Security 2024, eprint 2024/270, section 4.1.
//!
//!   D   the database, L x M bytes    matrix     A   M x 1024 words from a public seed         seed
//!   H   D·A modulo 2^32              hint       c   the columns that are asked for            columns
//!   s   the client's secret          secret     e   its errors, in A·s + e                    words
//!
//! 0. S, once an epoch: H = D·A.   S -> C: the top 21 bits of each word of H, rounded.
//! 1. C: b = A·s + e, and 2^24 is added to b[c].   C -> S: the top 24 to 30 bits of each word of b, rounded.
//! 2. S: y = D·b.   S -> C: the top 12 bits of each word of y, rounded.
//! 3. C: row r of column c is (y - H·s)[r] / 2^24, rounded.
//!
//! Reveals: shape and seed to both; to the client 1024 equations about each row, and a whole column for each query.
//! Rounds: 1.   Bytes: hint L·2688, query M·(24 to 30)/8, answer L·12/8; each chunk of a record has a query and an answer of its own.
//! S sees words that look random under ring-LWE of degree 1024 modulo 2^32 (`vesica_params::lwe`). A server that deviates can answer
//! wrongly; it learns the column only if the client shows what it decoded. The client must have the right to the whole database: see
//! [`crate::keyword`] for what protects other rows.
//! Differs from the paper: the ring; a byte is a plaintext, with 2^24 as its scale, so 256 counts as 0 and bytes may be read as -128 to
//! 127; hint, query and answer are rounded; a fresh secret for each chunk. The query is rounded with ties to even, because rounding
//! half up is wrong by a half on average, and a row of equal bytes would add that up to a wrong byte.

use crate::epoch::{Epoch, HALF_CHANGED};
use crate::keyword::Filter;
use crate::patch::{self, Entry};
use crate::{MatrixPir, Pir, PirError, Records, Sizes};
use std::ops::Range;
use std::sync::OnceLock;
use vesica_block::large;
use vesica_he::lwe::{ClientMatrix, Element, PublicSeed, Secret as LweSecret, ServerMatrix, add_row, round};
use vesica_params::lwe::{LweSet, Norms, SIMPLE, Shape};
use vesica_ring::bits;
use vesica_ring::matrix::{BATCH, Line, Matrix, PANEL};
use vesica_session::SessionRng;

/// The scheme for one shape and seed, which are public.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimplePir {
    shape: Shape,
    seed: PublicSeed,
}

/// What the server answers from.
pub struct Store {
    matrix: Matrix,
    epoch: Epoch,
}

/// What the client keeps: H as far as it knows it, and A.
pub struct Hint {
    /// H as it came: the epoch, and rows of packed words.
    packed: Vec<u8>,
    /// The rows that were needed so far, unpacked: a record needs few of them. A patch changes them here.
    rows: Vec<OnceLock<Vec<u32>>>,
    epoch: Epoch,
    /// Bytes of a packed row.
    row_bytes: usize,
    matrix: ClientMatrix,
}

impl Hint {
    /// A row of H.
    fn row(&self, row: usize) -> &[u32] {
        let from = Epoch::BYTES + row * self.row_bytes;
        self.rows[row].get_or_init(|| unpacked(&SIMPLE, &self.packed[from..]))
    }
}

/// A is the same where the epoch is.
impl PartialEq for Hint {
    fn eq(&self, other: &Self) -> bool {
        self.epoch == other.epoch && (0..self.rows.len()).all(|row| self.row(row) == other.row(row))
    }
}

/// One secret for each chunk, and the row at which the record begins. It is used up by [`Pir::decode`].
pub struct Secret {
    chunks: Vec<LweSecret>,
    row: usize,
    epoch: Epoch,
}

impl SimplePir {
    /// The epoch before any change.
    fn first_epoch(&self) -> Epoch {
        let Shape { records, width, columns, chunks, .. } = self.shape;
        let sizes = [records, width.into(), columns.into(), chunks.into()].map(u64::to_le_bytes);
        Epoch::first(&[self.seed.0.as_slice(), sizes.as_flattened()].concat())
    }

    /// 0. Rows of H as they travel: the top 21 bits of each word, rounded. Fails if rounding happened to be so uneven that of 2^20 answers one
    /// might be wrong with probability above 2^-40 ([`Shape::holds`]), which takes another seed to mend.
    fn pack_hint(&self, rows: &[Element], out: &mut Vec<u8>) -> Result<(), PirError> {
        let lost = 32 - SIMPLE.hint_bits;
        for row in rows {
            let rounded: Vec<u32> = row.iter().map(|&word| round(word, lost) << lost).collect();
            let error =
                row.iter().zip(&rounded).map(|(word, near)| f64::from(near.wrapping_sub(*word) as i32).powi(2)).sum();
            if !self.shape.holds(Norms { copied: error, ..SIMPLE.worst(self.shape.columns) }) {
                return Err(PirError::Shape("this seed rounds a row of the hint badly; draw another seed".into()));
            }
            bits::pack(rounded.iter().map(|word| word >> lost), SIMPLE.hint_bits, out);
        }
        Ok(())
    }

    /// How many low bits of a query's word are dropped.
    fn lost(&self) -> u32 {
        32 - SIMPLE.query_bits(self.shape.columns).expect("a shape has no more columns")
    }

    /// The packed vectors of a query, if it is one of this epoch.
    fn vectors<'a>(&self, store: &Store, query: &'a [u8]) -> Result<impl Iterator<Item = &'a [u8]>, PirError> {
        let packed = read_queries(&self.shape, &store.epoch, query)?;
        Ok(packed.chunks_exact(packed.len() / self.shape.chunks as usize))
    }

    /// Bytes of the entries for so many records of the same rows that changed.
    fn cells_bytes(&self, records: usize) -> usize {
        records * self.shape.chunks as usize * patch::cell_bytes(&self.shape)
    }

    /// Bytes of the entries for all rows of the hint that a record takes.
    fn rows_bytes(&self) -> usize {
        self.shape.chunk_bytes() as usize * patch::copied_bytes(&self.shape)
    }

    /// New rows of the hint as entries.
    fn patch_rows(&self, store: &Store, rows: Range<usize>, out: &mut Vec<u8>) -> Result<(), PirError> {
        let matrix = ServerMatrix::new(&SIMPLE, &self.seed, self.shape.columns as usize);
        for eight in (rows.start / 8 * 8..rows.end).step_by(8) {
            for (row, words) in (eight..).zip(matrix.hint_rows(&store.matrix, eight)) {
                if rows.contains(&row) {
                    patch::copied(row, out);
                    self.pack_hint(&[words], out)?;
                }
            }
        }
        Ok(())
    }

    /// 1. One query for the sum of some columns.
    fn ask(&self, hint: &Hint, columns: &[usize], rng: &mut SessionRng, out: &mut Vec<u8>) -> LweSecret {
        // b = A·s + e; 2^24 is added to b[c]
        let (secret, mut words) = hint.matrix.hide_zeros(rng);
        for &c in columns {
            select(&mut words, c);
        }
        // -> the top bits
        let lost = self.lost();
        bits::pack(words.into_iter().map(|word| round(word, lost)), 32 - lost, out);
        secret
    }
}

/// Bytes of the database for which another thread is worth its start.
const WORTH_A_THREAD: u64 = 4 << 20;

/// Where record `index` begins: its first row, and the column of its first chunk. Chunk k is `group` columns further.
pub(crate) fn place(shape: &Shape, index: u64) -> (usize, usize) {
    // By the inverse, which is public: a division takes longer for some numbers than for others, and which record a client wants is
    // secret. It is too large by less than 2^-64, so the quotient is right for every index below 2^64/group.
    let group = shape.group();
    let inverse = (1u128 << 64).div_ceil(u128::from(group));
    let above = ((u128::from(index) * inverse) >> 64) as u64;
    let column = index.wrapping_sub(above.wrapping_mul(group));
    (above as usize * shape.chunk_bytes() as usize, column as usize)
}

/// The row at which some records begin, and the column of each one's first chunk. Fails if there is no record, one is not in the table, or
/// they do not lie in the same rows.
pub(crate) fn places(shape: &Shape, indices: &[u64]) -> Result<(usize, Vec<usize>), PirError> {
    let first = indices.first().copied().unwrap_or(u64::MAX);
    if let Some(bad) =
        indices.iter().chain([&first]).find(|&&i| i >= shape.records || place(shape, i).0 != place(shape, first).0)
    {
        let (records, group) = (shape.records, shape.group());
        return Err(PirError::Shape(format!("record {bad} beside {first}, of {records} in groups of {group}")));
    }
    Ok((place(shape, first).0, indices.iter().map(|&index| place(shape, index).1).collect()))
}

/// Writes a record into the database.
pub(crate) fn put(shape: &Shape, matrix: &mut Matrix, index: u64, record: &[u8]) {
    let (row, column) = place(shape, index);
    for (k, chunk) in record.chunks(shape.chunk_bytes() as usize).enumerate() {
        matrix.write(row, column + k * shape.group() as usize, chunk);
    }
}

/// The database of these records, with nothing in the columns beside it yet. `each` is shown every record.
pub(crate) fn laid_out(shape: &Shape, records: &dyn Records, mut each: impl FnMut(&[u8])) -> Result<Matrix, PirError> {
    let Shape { records: count, width, columns, .. } = *shape;
    if (records.len(), records.width()) != (count, width as usize) {
        let (is, of) = (records.len(), records.width());
        return Err(PirError::Shape(format!("{is} records of {of} bytes for a shape of {count} of {width} bytes")));
    }
    let (rows, columns) = (shape.rows(), columns as usize + shape.extra_columns());
    let mut matrix = Matrix::new(rows, columns, large::filled([Line::ZERO; 4], Matrix::groups(rows, columns)));
    let mut record = vec![0; width as usize];
    for index in 0..count {
        records.read(index, &mut record);
        each(&record);
        put(shape, &mut matrix, index, &record);
    }
    Ok(matrix)
}

/// Adds 2^24 to the word of column `c`: in every word something is added, so that no address depends on c.
pub(crate) fn select(words: &mut [u32], c: usize) {
    for (at, word) in words.iter_mut().enumerate() {
        let other = at ^ c;
        let here = std::hint::black_box(other | other.wrapping_neg()) >> (usize::BITS - 1) ^ 1;
        *word = word.wrapping_add((here as u32) << 24);
    }
}

/// What stands behind the epoch of a query, if it is one of this epoch.
pub(crate) fn read_queries<'a>(shape: &Shape, epoch: &Epoch, query: &'a [u8]) -> Result<&'a [u8], PirError> {
    let (of, packed) = message("a query", query, Epoch::BYTES + shape.query_bytes())?;
    epoch.expect(&of)?;
    Ok(packed)
}

/// The products of a matrix with these vectors as they travel, on up to so many threads, which share its rows.
pub(crate) fn multiplied_on(workers: usize, matrix: &Matrix, vectors: &[Vec<u32>], shape: &Shape) -> Vec<Vec<u8>> {
    let panels = shape.rows() / PANEL;
    let workers = workers.clamp(1, (shape.bytes() / WORTH_A_THREAD) as usize + 1).min(panels);
    let (each, bits) = (panels.div_ceil(workers), shape.answer_bits());
    // Up to four vectors in one pass.
    let mut answers = Vec::with_capacity(vectors.len());
    for batch in vectors.chunks(BATCH) {
        let mut batch_answers = vec![Vec::with_capacity(shape.rows() * bits as usize / 8); batch.len()];
        let ranges = (0..panels).step_by(each).map(|from| from..(from + each).min(panels));
        let parts: Vec<Vec<Vec<u8>>> = std::thread::scope(|scope| {
            let mut ranges = ranges.collect::<Vec<_>>().into_iter();
            let first = ranges.next();
            let others: Vec<_> =
                ranges.map(|range| scope.spawn(move || multiplied(matrix, range, batch, bits))).collect();
            let first = first.map(|range| multiplied(matrix, range, batch, bits));
            let joined =
                others.into_iter().map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            first.into_iter().chain(joined.collect::<Vec<_>>()).collect()
        });
        for part in parts {
            batch_answers.iter_mut().zip(part).for_each(|(answer, part)| answer.extend(part));
        }
        answers.extend(batch_answers);
    }
    answers
}

/// 2. Some panels of y = D·b for up to four vectors, as they travel: the top bits of each word, rounded. A panel fills whole bytes.
fn multiplied(matrix: &Matrix, panels: Range<usize>, vectors: &[Vec<u32>], bits: u32) -> Vec<Vec<u8>> {
    let vectors: Vec<&[u32]> = vectors.iter().map(Vec::as_slice).collect();
    let products = matrix.multiply(panels, &vectors);
    let packed = products.into_iter().map(|product| {
        let mut out = Vec::new();
        bits::pack(product.into_iter().map(|word| round(word, 32 - bits)), bits, &mut out);
        out
    });
    packed.collect()
}

/// The epoch of a message, and the packed words behind it, if it is as long as it must be.
pub(crate) fn message<'a>(what: &str, bytes: &'a [u8], due: usize) -> Result<(Epoch, &'a [u8]), PirError> {
    let wrong = || PirError::Message(format!("{what} of {} bytes, where {due} are due", bytes.len()));
    Epoch::split(bytes).filter(|_| bytes.len() == due).ok_or_else(wrong)
}

/// Columns of A.
pub(crate) const DEGREE: usize = SIMPLE.degree as usize;

/// The row of H, or the mask, whose packed words these bytes begin with.
pub(crate) fn unpacked(set: &LweSet, packed: &[u8]) -> Vec<u32> {
    let words = bits::unpack(packed, set.hint_bits, set.degree as usize);
    words.map(|word| (word as u32) << (32 - set.hint_bits)).collect()
}

/// Bytes of the messages of a shape.
pub(crate) fn sizes(shape: &Shape) -> Sizes {
    Sizes {
        hint: (Epoch::BYTES + shape.hint_bytes()) as u64,
        query: Epoch::BYTES + shape.query_bytes(),
        answer: Epoch::BYTES + shape.answer_bytes(),
    }
}

impl Pir for SimplePir {
    type Store = Store;
    type Hint = Hint;
    type Secret = Secret;

    fn sizes(&self) -> Sizes {
        sizes(&self.shape)
    }

    fn store(&self, records: &dyn Records) -> Result<Store, PirError> {
        Ok(Store { matrix: laid_out(&self.shape, records, |_| ())?, epoch: self.first_epoch() })
    }

    fn hint(&self, store: &Store) -> Result<Vec<u8>, PirError> {
        if store.epoch != self.first_epoch() {
            return Err(PirError::Shape(
                "a hint is of a table before its changes, which patches follow; prepare the table anew".into(),
            ));
        }
        let matrix = ServerMatrix::new(&SIMPLE, &self.seed, self.shape.columns as usize);
        let mut out = Vec::with_capacity(self.sizes().hint as usize);
        out.extend(store.epoch.to_bytes());
        for row in (0..self.shape.rows()).step_by(8) {
            self.pack_hint(&matrix.hint_rows(&store.matrix, row), &mut out)?;
        }
        Ok(out)
    }

    fn take_hint(&self, bytes: Vec<u8>) -> Result<Hint, PirError> {
        let (epoch, _) = message("a hint", &bytes, self.sizes().hint as usize)?;
        self.first_epoch().expect(&epoch)?;
        let rows = vec![OnceLock::new(); self.shape.rows()];
        let matrix = ClientMatrix::new(&SIMPLE, &self.seed, self.shape.columns as usize);
        Ok(Hint { packed: bytes, rows, epoch, row_bytes: self.shape.hint_row_bytes(), matrix })
    }

    fn query(&self, hint: &Hint, index: u64, rng: &mut SessionRng) -> Result<(Secret, Vec<u8>), PirError> {
        self.query_sum(hint, &[index], rng)
    }

    fn query_sum(&self, hint: &Hint, indices: &[u64], rng: &mut SessionRng) -> Result<(Secret, Vec<u8>), PirError> {
        let (row, places) = places(&self.shape, indices)?;
        let mut out = Vec::with_capacity(self.sizes().query);
        out.extend(hint.epoch.to_bytes());
        let chunks = (0..self.shape.chunks as usize).map(|k| {
            let columns: Vec<usize> = places.iter().map(|column| column + k * self.shape.group() as usize).collect();
            self.ask(hint, &columns, rng, &mut out)
        });
        let chunks = chunks.collect();
        Ok((Secret { chunks, row, epoch: hint.epoch }, out))
    }

    fn answer(&self, store: &Store, queries: &[&[u8]]) -> Result<Vec<Vec<u8>>, PirError> {
        self.answer_on(1, store, queries)
    }

    fn decode(&self, hint: &Hint, secret: Secret, answer: &[u8]) -> Result<Vec<u8>, PirError> {
        let (epoch, packed) = message("an answer", answer, self.sizes().answer)?;
        secret.epoch.expect(&epoch)?;
        hint.epoch.expect(&epoch)?;
        let (rows, bits) = (self.shape.rows(), self.shape.answer_bits());
        let mut record = Vec::with_capacity(self.shape.width as usize);
        for (packed, s) in packed.chunks_exact(packed.len() / secret.chunks.len()).zip(&secret.chunks) {
            let y: Vec<u32> = bits::unpack(packed, bits, rows).map(|word| (word as u32) << (32 - bits)).collect();
            // 3. (y - H·s) / 2^24, rounded
            for row in secret.row..secret.row + self.shape.chunk_bytes() as usize {
                let v = y[row].wrapping_sub(s.times(hint.row(row)));
                record.push((v.wrapping_add(1 << 23) >> 24) as u8);
            }
        }
        record.truncate(self.shape.width as usize);
        Ok(record)
    }
}

impl MatrixPir for SimplePir {
    const COPY: &str = "hint";
    const SHAPE: fn(u64, u32, u64) -> Option<Shape> = Shape::cheapest;
    const SHAPE_OF_KEYS: fn(u64, u32, u64) -> Option<Shape> = Filter::shape;

    fn new(shape: Shape, seed: PublicSeed) -> Self {
        Self { shape, seed }
    }

    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn secret_bytes(&self) -> u64 {
        u64::from(self.shape.chunks) * (DEGREE * size_of::<u32>()) as u64
    }

    fn together(&self) -> usize {
        (BATCH / self.shape.chunks as usize).max(1)
    }

    fn restore(&self, records: &dyn Records, _: &[u8], patches: &[&[u8]]) -> Result<Store, PirError> {
        let mut store = self.store(records)?;
        store.epoch = patches.iter().fold(store.epoch, |epoch, patch| epoch.after(patch));
        Ok(store)
    }

    fn recompute(
        &self,
        _: usize,
        records: &dyn Records,
        beside: &[u8],
        hint: &Hint,
        patches: &[&[u8]],
    ) -> Result<(), PirError> {
        let store = self.restore(records, beside, patches)?;
        hint.epoch.expect(&store.epoch)?;
        let matrix = ServerMatrix::new(&SIMPLE, &self.seed, self.shape.columns as usize);
        let most = 1 << (31 - SIMPLE.hint_bits);
        for eight in (0..self.shape.rows()).step_by(8) {
            for (row, exact) in (eight..).zip(matrix.hint_rows(&store.matrix, eight)) {
                let off = |(is, exact): (&u32, &u32)| (is.wrapping_sub(*exact) as i32).unsigned_abs();
                if hint.row(row).iter().zip(exact.iter()).map(off).any(|off| off > most) {
                    return Err(PirError::Shape(format!("row {row} of the hint is not what the table makes of it")));
                }
            }
        }
        Ok(())
    }

    fn check(&self, store: &Store, query: &[u8]) -> Result<(), PirError> {
        read_queries(&self.shape, &store.epoch, query).map(drop)
    }

    fn answer_on(&self, workers: usize, store: &Store, queries: &[&[u8]]) -> Result<Vec<Vec<u8>>, PirError> {
        let columns = self.shape.columns as usize;
        let mut vectors = Vec::with_capacity(queries.len() * self.shape.chunks as usize);
        for query in queries {
            for packed in self.vectors(store, query)? {
                let words = bits::unpack(packed, 32 - self.lost(), columns);
                vectors.push(words.map(|word| (word as u32) << self.lost()).collect::<Vec<u32>>());
            }
        }
        // 2. y = D·b
        let answers = multiplied_on(workers, &store.matrix, &vectors, &self.shape);
        let of_query = |answers: &[Vec<u8>]| [&store.epoch.to_bytes()[..], &answers.concat()].concat();
        Ok(answers.chunks(self.shape.chunks as usize).map(of_query).collect())
    }

    fn patch_bytes(&self, groups: usize) -> u64 {
        let group = self.cells_bytes(self.shape.group() as usize).min(self.rows_bytes());
        (Epoch::BYTES + groups * group) as u64
    }

    fn change(&self, _: usize, store: &mut Store, changes: &[(u64, &[u8])]) -> Result<Vec<u8>, PirError> {
        let by_row = patch::by_row(&self.shape, changes)?;
        let before = store.epoch;
        let mut patch = before.to_bytes().to_vec();
        // If this fails half way, no query of an epoch that somebody has is answered from what stands there then.
        store.epoch = before.after(HALF_CHANGED);
        for (row, records) in by_row {
            if self.cells_bytes(records.len()) < self.rows_bytes() {
                for (index, record) in records {
                    patch::cells(&self.shape, &mut store.matrix, index, record, &mut patch);
                }
            } else {
                records.into_iter().for_each(|(index, record)| put(&self.shape, &mut store.matrix, index, record));
                self.patch_rows(store, row..row + self.shape.chunk_bytes() as usize, &mut patch)?;
            }
        }
        store.epoch = before.after(&patch);
        Ok(patch)
    }

    fn patch(&self, hint: &mut Hint, patch: &[u8]) -> Result<(), PirError> {
        for entry in patch::entries(&self.shape, &hint.epoch, Self::COPY, patch)? {
            match entry {
                Entry::Copied(row, packed) => hint.rows[row] = unpacked(&SIMPLE, packed).into(),
                Entry::Cell(first, column, bytes) => {
                    let a = self.seed.element(&SIMPLE, column / DEGREE);
                    for (row, difference) in Entry::differences(first, bytes) {
                        hint.row(row); // unpacks it
                        let words = hint.rows[row].get_mut().expect("it was unpacked");
                        add_row(&a, column % DEGREE, difference, words);
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
