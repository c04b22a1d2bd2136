//! Reading: keys are cut into units, and the keys of a unit made one blob.

use crate::cluster::secret::{PACKED, START, Secret, Veil, damaged};
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
    /// Rows that have one of them and take part.
    pub rows: u64,
    /// All of it, sealed.
    pub blob: Vec<u8>,
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

    /// Makes one blob of all the rows of a unit, whose hidden number is `hidden`: `rows` has the columns `digest` and `row` as
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
        let keys: Vec<Key<'_>> = rows.chunk_by(|a, b| a.0 == b.0).map(|of_key| Key { of_key }).collect();
        let blob = self.secret.seal(PACKED, &piece(&self.salt, unit), encode(&keys))?;
        Ok(Packed { unit, keys: keys.len() as u64, rows: rows.len() as u64, blob })
    }
}

/// The rows of a key.
struct Key<'a> {
    of_key: &'a [(Digest, u64)],
}

/// The keys in ascending order of their digests: each a digest, how many rows it has, and their numbers.
fn encode(keys: &[Key<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Key { of_key } in keys {
        bytes.extend_from_slice(&of_key[0].0.0);
        bytes.extend_from_slice(&(of_key.len() as u64).to_le_bytes());
        of_key.iter().for_each(|(_, row)| bytes.extend_from_slice(&row.to_le_bytes()));
    }
    bytes
}

/// The keys of a unit that was packed, in ascending order of their digests, and the numbers of the rows that have each.
///
/// # Errors
/// Bytes that [`Start::pack`] does not make.
pub fn unpack(secret: &Secret, salt: &[u8; 32], unit: u32, blob: &[u8]) -> Result<Vec<(Digest, Vec<u64>)>, JobError> {
    let name = format!("the blob of unit {unit}");
    let bytes = secret.open(PACKED, &piece(salt, unit), &name, blob)?;
    let mut rest = &bytes[..];
    let mut keys = Vec::new();
    let mut key = || {
        let (digest, behind) = rest.split_first_chunk::<16>()?;
        let (count, behind) = behind.split_first_chunk::<8>()?;
        let len = usize::try_from(u64::from_le_bytes(*count)).ok()?.checked_mul(8)?;
        let (rows, behind) = behind.split_at_checked(len)?;
        rest = behind;
        let rows = rows.as_chunks().0.iter().map(|row| u64::from_le_bytes(*row)).collect();
        Some((Digest(*digest), rows, behind.is_empty()))
    };
    if bytes.is_empty() {
        return Ok(keys);
    }
    loop {
        let (digest, rows, last) = key().ok_or_else(|| damaged(&name))?;
        keys.push((digest, rows));
        if last {
            return Ok(keys);
        }
    }
}
