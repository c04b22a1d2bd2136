//! Reading: keys are cut into units, and a unit is packed.
//!
//! A packed unit is two blobs. One has a record of one size for each distinct key, and is all that a lane reads to match the unit: so a
//! unit's clock is a function of its number of keys, as in a run on one machine, and names no key that very many rows have. The other has the
//! numbers of the rows, and is read when the run is over between the parties. A hash of these stands before the keys and, from there, before what
//! the unit found: so nobody counts off rows by numbers that another packing had.

use crate::cluster::secret::{PACKED, ROWS, START, Secret, Veil, damaged};
use crate::error::JobError;
use crate::input::keys::salted_digests;
use crate::meet::agree;
use crate::units::cut::unit_of;
use arrow_array::builder::{FixedSizeBinaryBuilder, Int32Builder, UInt64Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use vesica_spec::{Duplicates, Plan, Spec};
use vesica_table::{Memory, Table};
use vesica_types::Digest;

/// What the bytes of a [`Start`] are: it is sealed with them, and messages call them so.
const NAME: &str = "the start of the run";

/// Bits of a row's number within its file: callers that read several files put the file's number above them.
const IN_FILE: u32 = 40;

/// What readers need of a run: the job, the salt and the number of units.
pub struct Start {
    spec: Spec,
    plan: Plan,
    salt: [u8; 32],
    units: u32,
    lanes: u32,
    secret: Secret,
    veil: Veil,
}

/// As it travels, sealed.
#[derive(Serialize, Deserialize)]
struct Words {
    job: Spec,
    salt: [u8; 32],
    units: u32,
    lanes: u32,
}

/// Keys that were cut.
#[derive(Debug)]
pub struct Cut {
    /// A row for each that has a key: `unit` (Int32, hidden), `digest` (FixedSizeBinary(16), veiled), `row` (UInt64).
    pub keys: RecordBatch,
    /// Rows that were read.
    pub rows: u64,
    /// Those without a key.
    pub empty: u64,
}

/// A unit, ready for a lane.
#[derive(Debug)]
pub struct Packed {
    /// Its number.
    pub unit: u32,
    /// Distinct keys.
    pub keys: u64,
    /// The keys, sealed, for [`Lane::match_unit`](crate::cluster::Lane::match_unit). Its length follows from how many there are.
    pub blob: Vec<u8>,
    /// The numbers of the rows that have one of them and take part, sealed, for [`Terms::rows`](crate::cluster::Terms::rows).
    pub rows: Vec<u8>,
}

/// A key as it is packed: its digest, and how many rows it has.
const KEY: usize = 16 + 8;

/// The keys of a unit that was packed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unpacked {
    /// In ascending order of their digests, each with the number of its rows.
    pub keys: Vec<(Digest, u64)>,
    /// The hash of the rows' numbers.
    pub rows: [u8; 32],
}

impl Unpacked {
    /// A unit without keys. Nothing was packed of it.
    pub fn nothing() -> Self {
        Self { keys: Vec::new(), rows: hash(&[]) }
    }
}

/// The hash of the numbers of a unit's rows. It stands in sealed pieces alone: whoever guesses numbers could test them against it.
fn hash(numbers: &[u8]) -> [u8; 32] {
    blake3::derive_key("vesica 2026 rows of a unit of a cluster", numbers)
}

/// What a piece of a unit belongs to.
pub fn piece(salt: &[u8; 32], unit: u32) -> Vec<u8> {
    [&agree::name(salt).into_bytes()[..], &unit.to_le_bytes()].concat()
}

impl Start {
    /// The start of a run with these.
    pub(crate) fn new(spec: Spec, plan: Plan, salt: [u8; 32], units: u32, lanes: u32, secret: Secret) -> Self {
        let veil = Veil::new(&secret, &salt, units);
        Self { spec, plan, salt, units, lanes, secret, veil }
    }

    /// For other processes of the cluster, sealed.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn to_bytes(&self) -> Result<Vec<u8>, JobError> {
        let Self { spec, salt, units, lanes, .. } = self;
        let words = Words { job: spec.clone(), salt: *salt, units: *units, lanes: *lanes };
        self.secret.seal(START, NAME.as_bytes(), serde_json::to_vec(&words).expect("it is plain data"))
    }

    /// What [`Start::to_bytes`] gave. It takes some milliseconds, so a process does it once.
    ///
    /// # Errors
    /// Bytes that cannot be opened under `secret`.
    pub fn from_bytes(bytes: &[u8], secret: &Secret) -> Result<Self, JobError> {
        let words = secret.open(START, NAME.as_bytes(), NAME, bytes)?;
        let Words { job, salt, units, lanes } = serde_json::from_slice(&words).map_err(|_| damaged(NAME))?;
        let plan = vesica_spec::plan(&job)?;
        Ok(Self::new(job, plan, salt, units, lanes, secret.clone()))
    }

    /// What the run is sealed with.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Names the run: what another run left is of no use for this one.
    pub fn run(&self) -> String {
        agree::name(&self.salt)
    }

    /// How many units there are.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Cuts the keys of `batches`, whose rows have the numbers from `first` on. The batches hold the key columns of the job, and may hold
    /// others.
    ///
    /// # Errors
    /// Key columns that are missing, or of a type that no key has.
    pub fn cut(&self, schema: SchemaRef, batches: Vec<RecordBatch>, first: u64) -> Result<Cut, JobError> {
        let table = Memory::new("the cluster's rows", schema, batches)?;
        let (mut units, mut digests, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        let (mut rows, mut empty) = (0, 0);
        for batch in table.keys(&self.plan.keys, 1)? {
            let batch = batch?;
            empty += salted_digests(&self.plan.rules, &self.salt, &batch, |digest, spread, place| {
                units.push(self.veil.hide(unit_of(spread, self.units)));
                digests.push(digest.0);
                numbers.push(first + rows + place as u64);
            });
            rows += batch.num_rows() as u64;
        }
        self.veil.veil(&mut digests);
        let mut of_units = Int32Builder::with_capacity(units.len());
        units.iter().for_each(|unit| of_units.append_value(*unit as i32));
        let mut of_digests = FixedSizeBinaryBuilder::with_capacity(digests.len(), 16);
        digests.iter().for_each(|digest| of_digests.append_value(digest).expect("it has 16 bytes"));
        let mut of_rows = UInt64Builder::with_capacity(numbers.len());
        of_rows.append_slice(&numbers);
        let schema = Schema::new(vec![
            Field::new("unit", DataType::Int32, false),
            Field::new("digest", DataType::FixedSizeBinary(16), false),
            Field::new("row", DataType::UInt64, false),
        ]);
        let columns: Vec<Arc<dyn Array>> =
            vec![Arc::new(of_units.finish()), Arc::new(of_digests.finish()), Arc::new(of_rows.finish())];
        let keys = RecordBatch::try_new(Arc::new(schema), columns).expect("the columns are those of the schema");
        Ok(Cut { keys, rows, empty })
    }

    /// Packs a unit, whose hidden number is `hidden`: `rows` has the columns `digest` and `row` as
    /// [`Start::cut`] made them, in any order.
    ///
    /// # Errors
    /// [`JobError::Repeats`]; columns or a number that [`Start::cut`] does not make.
    pub fn pack(&self, hidden: i32, rows: &RecordBatch) -> Result<Packed, JobError> {
        let wrong = |why: &str| JobError::Setup(format!("a unit to pack: {why}; give it as cut made it"));
        let unit = u32::try_from(hidden).ok().and_then(|hidden| self.veil.show(hidden));
        let unit = unit.ok_or_else(|| wrong(&format!("{hidden} is not the number of one")))?;
        let column = |name: &str| rows.column_by_name(name).ok_or_else(|| wrong(&format!("it has no column {name}")));
        let digests = column("digest")?.as_fixed_size_binary_opt().filter(|d| d.value_length() == 16);
        let digests = digests.ok_or_else(|| wrong("digest is no FixedSizeBinary(16)"))?;
        let numbers = column("row")?.as_primitive_opt::<UInt64Type>().ok_or_else(|| wrong("row is no UInt64"))?;
        if digests.null_count() + numbers.null_count() > 0 {
            return Err(wrong("it has nulls"));
        }
        let unveiled = (0..rows.num_rows()).map(|place| {
            let digest = digests.value(place).try_into().expect("it has 16 bytes");
            (self.veil.unveil(digest), numbers.value(place))
        });
        let mut rows: Vec<(Digest, u64)> = unveiled.collect();
        rows.sort_unstable();
        let repeats = rows.array_windows().filter(|[a, b]| a.0 == b.0).count() as u64;
        match self.plan.shared.duplicates {
            Duplicates::Error if repeats > 0 => {
                let row = rows.array_windows().filter(|[a, b]| a.0 == b.0).map(|[_, b]| b.1).min().unwrap_or_default();
                let row = (row & ((1 << IN_FILE) - 1)) + 1;
                let path = self.plan.input.origin.name();
                return Err(JobError::Repeats { path, row, rows: repeats, identifiers: false });
            }
            Duplicates::First => rows.dedup_by_key(|(digest, _)| *digest),
            _ => {}
        }
        let numbers: Vec<u8> = rows.iter().flat_map(|(_, row)| row.to_le_bytes()).collect();
        let (mut keys, mut of_keys) = (0, hash(&numbers).to_vec());
        for of_key in rows.chunk_by(|a, b| a.0 == b.0) {
            of_keys.extend_from_slice(&of_key[0].0.0);
            of_keys.extend_from_slice(&(of_key.len() as u64).to_le_bytes());
            keys += 1;
        }
        let what = piece(&self.salt, unit);
        let (blob, rows) = (self.secret.seal(PACKED, &what, of_keys)?, self.secret.seal(ROWS, &what, numbers)?);
        Ok(Packed { unit, keys, blob, rows })
    }
}

/// The keys of a unit that was packed.
///
/// # Errors
/// Bytes that [`Start::pack`] does not make.
pub fn unpack(secret: &Secret, salt: &[u8; 32], unit: u32, blob: &[u8]) -> Result<Unpacked, JobError> {
    let name = format!("the blob of unit {unit}");
    let bytes = secret.open(PACKED, &piece(salt, unit), &name, blob)?;
    let (rows, keys) = bytes.split_first_chunk().ok_or_else(|| damaged(&name))?;
    let (keys, []) = keys.as_chunks::<KEY>() else { return Err(damaged(&name)) };
    let key = |key: &[u8; KEY]| {
        let (digest, rows) = key.split_first_chunk().expect("a record begins with a digest");
        (Digest(*digest), u64::from_le_bytes(*rows.first_chunk().expect("a record ends with a count")))
    };
    Ok(Unpacked { keys: keys.iter().map(key).collect(), rows: *rows })
}

/// The numbers of a unit's rows, key by key in that order, and in the order of the table for each. `rows` is what [`Packed::rows`] was, none if
/// the unit has no keys; `expected` is the hash that stood with the keys.
///
/// # Errors
/// Bytes that [`Start::pack`] does not make, or that it made with other keys.
pub fn numbers(
    secret: &Secret,
    salt: &[u8; 32],
    unit: u32,
    rows: Option<&[u8]>,
    expected: &[u8; 32],
) -> Result<Vec<u64>, JobError> {
    let name = format!("the rows of unit {unit}");
    let bytes = rows.map(|rows| secret.open(ROWS, &piece(salt, unit), &name, rows)).transpose()?;
    let bytes = bytes.as_ref().map_or(&[][..], |bytes| &bytes[..]);
    if hash(bytes) != *expected {
        return Err(JobError::Setup(format!(
            "{name} are not those that its keys were packed with: what was kept of this run does not belong together; remove it, and begin the \
             run anew"
        )));
    }
    let (numbers, []) = bytes.as_chunks() else { return Err(damaged(&name)) };
    Ok(numbers.iter().map(|number| u64::from_le_bytes(*number)).collect())
}
