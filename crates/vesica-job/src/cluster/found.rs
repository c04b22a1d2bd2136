//! What a unit found: of each of its keys, how many rows it has and how often each stands in the join.
//!
//! On the side that learns, every key of the unit is among them, and those that are not common stand in the join zero times. So what is
//! sealed, written and synced has one size, whatever matched and however many rows the keys have: neither its length nor the time that it takes
//! says anything of that. Row numbers, which the units were packed with, come to it when the run is over between the parties.

use crate::cluster::reading::{self, IN_FILE, piece};
use crate::cluster::secret::{FOUND, Secret, TAKEN, damaged};
use crate::error::JobError;
use crate::meet::agree;
use crate::seal::key::{Front, TAG};
use arrow_array::{Array, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use std::sync::Arc;
use zeroize::Zeroizing;

/// A key of a unit, in the order of their digests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OfKey {
    /// How many rows it has.
    pub rows: u64,
    /// How often each of them stands in the join: zero times if the key is not common.
    pub times: u64,
}

/// How often a row stands in the join, and so what is kept of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Once, where one party learns: then a byte says of a key whether it is common, and nobody asks for its pair.
    Once,
    /// As often as the other side has rows of its key, where both learn: 8 bytes say it of a key, and stand beside a row with the pair.
    Joined,
}

impl Form {
    /// Bytes of a key: how many rows it has, and how often each stands in the join.
    pub const fn key(self) -> usize {
        match self {
            Form::Once => 4 + 1,
            Form::Joined => 4 + 8,
        }
    }

    /// How many of [`COLUMNS`] there are of a row on the way to its file.
    const fn columns(self) -> usize {
        match self {
            Form::Once => 1,
            Form::Joined => 3,
        }
    }
}

/// What a unit found, sealed. `rows` is the hash of the numbers of the rows of these keys ([`Unpacked::rows`](reading::Unpacked::rows)).
///
/// # Errors
/// A key of more rows than a unit packs, or whose rows stand in the join more often than the form has it; if the system has no randomness.
pub fn seal(
    secret: &Secret,
    salt: &[u8; 32],
    unit: u32,
    (form, rows): (Form, &[u8; 32]),
    keys: &[OfKey],
) -> Result<Vec<u8>, JobError> {
    let mut bytes = Vec::with_capacity(Front::BYTES + 32 + form.key() * keys.len() + TAG);
    bytes.resize(Front::BYTES, 0);
    bytes.extend_from_slice(rows);
    for key in keys {
        let (Ok(rows), true) = (u32::try_from(key.rows), form == Form::Joined || key.times <= 1) else {
            return Err(vesica_session::Error::Bug(format!("a key of unit {unit} has {key:?}")).into());
        };
        bytes.extend_from_slice(&rows.to_le_bytes());
        bytes.extend_from_slice(&key.times.to_le_bytes()[..form.key() - 4]);
    }
    secret.seal_behind(FOUND, &piece(salt, unit), bytes)
}

/// Gives the rows of each common key of a unit: their numbers, the number of the key, which is the same on both sides (the unit, and the place among the
/// unit's common keys), and how often each row stands in the join. `numbers` is what [`Packed::rows`](reading::Packed::rows) was.
///
/// # Errors
/// Bytes that [`seal`] or packing does not make, or that do not belong together; what `give` says.
fn each(
    secret: &Secret,
    salt: &[u8; 32],
    unit: u32,
    form: Form,
    (found, numbers): (&[u8], Option<&[u8]>),
    mut give: impl FnMut(&[u64], u64, u64) -> Option<()>,
) -> Result<(), JobError> {
    let name = format!("what unit {unit} found");
    let bytes = secret.open(FOUND, &piece(salt, unit), &name, found)?;
    let (rows, keys) = bytes.split_first_chunk().ok_or_else(|| damaged(&name))?;
    if !keys.len().is_multiple_of(form.key()) {
        return Err(damaged(&name));
    }
    let numbers = reading::numbers(secret, salt, unit, numbers, rows)?;
    let mut rest = &numbers[..];
    let mut common = 0;
    let mut of_keys = || {
        for key in keys.chunks_exact(form.key()) {
            let (rows, kept) = key.split_first_chunk()?;
            let mut times = [0; 8];
            times[..kept.len()].copy_from_slice(kept);
            let times = u64::from_le_bytes(times);
            let of_key = rest.split_off(..u32::from_le_bytes(*rows) as usize)?;
            if times > 0 {
                give(of_key, u64::from(unit) << 32 | common, times)?;
                common += 1;
            }
        }
        rest.is_empty().then_some(())
    };
    of_keys().ok_or_else(|| damaged(&name))
}

/// The rows that were found, as a table: `row`, `pair` and `times`, all UInt64. `pair` names the common key, with the same number on both
/// sides.
///
/// # Errors
/// Bytes that [`seal`] or packing does not make, or that do not belong together.
pub fn open(
    secret: &Secret,
    salt: &[u8; 32],
    unit: u32,
    form: Form,
    files: (&[u8], Option<&[u8]>),
) -> Result<RecordBatch, JobError> {
    let mut columns = [const { Vec::new() }; 3];
    each(secret, salt, unit, form, files, |rows, pair, times| {
        let [row, pairs, each] = &mut columns;
        row.extend_from_slice(rows);
        pairs.resize(row.len(), pair);
        each.resize(row.len(), times);
        Some(())
    })?;
    Ok(table(columns.into()))
}

/// The names of the columns of found rows.
const COLUMNS: [&str; 3] = ["row", "pair", "times"];

/// A table of the first of [`COLUMNS`].
fn table(columns: Vec<Vec<u64>>) -> RecordBatch {
    let fields = COLUMNS.iter().zip(&columns).map(|(name, _)| Field::new(*name, DataType::UInt64, false));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = columns.into_iter().map(|column| Arc::new(UInt64Array::from(column)) as Arc<dyn Array>);
    RecordBatch::try_new(schema, columns.collect()).expect("columns of one length")
}

/// Found rows on the way to their files: part n has every file whose number is n modulo the parts.
pub struct Taking {
    parts: Vec<Vec<u8>>,
    rows: u64,
}

impl Taking {
    /// None yet, for so many parts.
    pub fn new(parts: u32) -> Self {
        Self { parts: (0..parts).map(|_| vec![0; Front::BYTES]).collect(), rows: 0 }
    }

    /// Adds what a unit found.
    ///
    /// # Errors
    /// Those of [`open`].
    pub fn add(
        &mut self,
        (secret, salt): (&Secret, &[u8; 32]),
        unit: u32,
        form: Form,
        files: (&[u8], Option<&[u8]>),
    ) -> Result<(), JobError> {
        let parts = self.parts.len() as u64;
        each(secret, salt, unit, form, files, |rows, pair, times| {
            for &row in rows {
                let part = self.parts.get_mut((row >> IN_FILE).checked_rem(parts)? as usize)?;
                part.extend_from_slice([row, pair, times].map(u64::to_le_bytes)[..form.columns()].as_flattened());
            }
            self.rows += rows.len() as u64;
            Some(())
        })
    }

    /// The piece of each part, sealed for [`taken`], and how many rows these are.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn seal(self, secret: &Secret, salt: &[u8; 32]) -> Result<(Vec<Vec<u8>>, u64), JobError> {
        let seal = |piece| secret.seal_behind(TAKEN, agree::name(salt).as_bytes(), piece);
        Ok((self.parts.into_iter().map(seal).collect::<Result<_, _>>()?, self.rows))
    }
}

/// The rows of a part, of which [`Taking::seal`] gave these pieces: `row` and, where rows are joined, `pair` and `times`.
///
/// # Errors
/// Bytes that it does not make.
pub fn taken(secret: &Secret, salt: &[u8; 32], form: Form, pieces: &[&[u8]]) -> Result<RecordBatch, JobError> {
    let (name, columns) = ("rows on the way to their file", form.columns());
    let rows = pieces.iter().map(|piece| piece.len() / (8 * columns)).sum();
    let mut found: Vec<Vec<u64>> = (0..columns).map(|_| Vec::with_capacity(rows)).collect();
    let mut memory = Zeroizing::default();
    for piece in pieces {
        let bytes = secret.open_to(TAKEN, agree::name(salt).as_bytes(), name, piece, &mut memory)?;
        let (words, []) = bytes.as_chunks::<8>() else { return Err(damaged(name)) };
        if !words.len().is_multiple_of(columns) {
            return Err(damaged(name));
        }
        for row in words.chunks_exact(columns) {
            found.iter_mut().zip(row).for_each(|(column, word)| column.push(u64::from_le_bytes(*word)));
        }
    }
    Ok(table(found))
}
