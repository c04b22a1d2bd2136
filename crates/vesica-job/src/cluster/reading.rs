//! Reading: keys are cut into parts, and the units of a part are packed.
//!
//! A *part* is a stretch of units whose rows one task brings together. Who cuts seals the records of each part whole, and who packs opens what all
//! have cut of it: so whoever carries these pieces needs no key, sorts nothing, and learns from them how long they are and no more.
//!
//! A packed unit is two blobs. One has a record of one size for each distinct key, and is all that a lane reads to match the unit: so a
//! unit's clock is a function of its number of keys, as in a run on one machine, and names no key that very many rows have. The other has the
//! numbers of the rows, and is read when the run is over between the parties. A hash of these stands before the keys and, from there, before what
//! the unit found: so nobody counts off rows by numbers that another packing had.

use crate::cluster::secret::{CUT, PACKED, ROWS, START, Secret, Veil, damaged};
use crate::error::JobError;
use crate::input::keys::salted_digests;
use crate::meet::agree;
use crate::seal::key::{Front, TAG};
use crate::units::cut::unit_of;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};
use vesica_block::sort;
use vesica_spec::{Duplicates, Plan, Spec};
use vesica_table::{Memory, Table};
use vesica_types::Digest;
use zeroize::Zeroizing;

/// What the bytes of a [`Start`] are: it is sealed with them, and messages call them so.
const NAME: &str = "the start of the run";

/// Bits of a row's number within its file: callers that read several files put the file's number above them.
pub const IN_FILE: u32 = 40;

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
    /// For each part its records, sealed, for [`Start::pack`].
    pub pieces: Vec<Vec<u8>>,
    /// Rows that were read.
    pub rows: u64,
    /// Those that have a key.
    pub given: u64,
}

/// A unit, ready for a lane.
#[derive(Debug)]
pub struct Packed {
    /// Its number.
    pub unit: u32,
    /// Distinct keys.
    pub keys: u64,
    /// Rows that have a key of it, whether they take part or not.
    pub given: u64,
    /// The keys, sealed, for [`Lane::match_unit`](crate::cluster::Lane::match_unit). Its length follows from how many there are.
    pub blob: Vec<u8>,
    /// The numbers of the rows that have one of them and take part, sealed, for [`Terms::rows`](crate::cluster::Terms::rows).
    pub rows: Vec<u8>,
}

/// A row as it is sorted: the digest of its key, and its number with the highest byte first.
const RECORD: usize = 16 + 8;

/// A row as it is cut: the hidden number of its unit, its digest, and by how much its number is above the least of the piece, lowest bytes first. Rows
/// with numbers of their own have them whole.
const NEAR: usize = 2 + 16 + 4;
const FAR: usize = 2 + 16 + 8;

/// Before the rows of a piece stand how many bytes each has, and the least number.
const HEAD: usize = 1 + 8;

/// A key as it is packed: its digest, and how many rows it has.
const KEY: usize = 16 + 4;

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

    /// Cuts the keys of `batches` into so many parts. Rows have the numbers from `first` on, or those that `numbers` gives them one by one.
    /// The batches hold the key columns of the job, and may hold others.
    ///
    /// # Errors
    /// Key columns that are missing, or of a type that no key has; another number of `numbers` than of rows; more parts than units, or none.
    pub fn cut(
        &self,
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
        (first, numbers): (u64, Option<&[u64]>),
        parts: u32,
    ) -> Result<Cut, JobError> {
        self.first_of(0, parts)?;
        let count: u64 = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        if numbers.is_some_and(|numbers| numbers.len() as u64 != count) {
            return Err(JobError::Setup(format!(
                "{count} rows to cut have another number of numbers; give one for each"
            )));
        }
        let table = Memory::new("the cluster's rows", schema, batches)?;
        let near = numbers.is_none() && count <= u64::from(u32::MAX);
        let (record, least) = if near { (NEAR, first) } else { (FAR, 0) };
        // A piece is as long as chance has it, and some more: then it does not grow, which would leave its records behind in memory.
        let even = count / u64::from(parts);
        let room = Front::BYTES + HEAD + (even + even / 8 + 64) as usize * record + TAG;
        let begun = || {
            let mut piece = Vec::with_capacity(room);
            piece.resize(Front::BYTES, 0);
            piece.push(record as u8);
            piece.extend_from_slice(&least.to_le_bytes());
            piece
        };
        let mut pieces: Vec<Vec<u8>> = (0..parts).map(|_| begun()).collect();
        let (mut rows, mut given) = (0, 0);
        for batch in table.keys(&self.plan.keys, 1)? {
            let batch = batch?;
            salted_digests(&self.plan.rules, &self.salt, &batch, |digest, spread, place| {
                let hidden = self.veil.hide(unit_of(spread, self.units));
                let place = rows + place as u64;
                let number = numbers.map_or(first + place, |numbers| numbers[place as usize]);
                let mut one = [0; FAR];
                one[..2].copy_from_slice(&u16::try_from(hidden).expect("there are at most 2^16 units").to_le_bytes());
                one[2..18].copy_from_slice(&digest.0);
                one[18..].copy_from_slice(&(number - least).to_le_bytes());
                // Of a number that is near the other bytes are zeros.
                pieces[self.part_of(hidden, parts)].extend_from_slice(&one[..record]);
                given += 1;
            });
            rows += batch.num_rows() as u64;
        }
        let seal = |(part, piece)| self.secret.seal_behind(CUT, &self.of_part(part, parts), piece);
        Ok(Cut { pieces: (0..).zip(pieces).map(seal).collect::<Result<_, _>>()?, rows, given })
    }

    /// The part of a unit. A part's number says nothing of a key to who has not the run's secret.
    fn part_of(&self, hidden: u32, parts: u32) -> usize {
        (u64::from(hidden) * u64::from(parts) / u64::from(self.units)) as usize
    }

    /// The least hidden number of a unit of this part, or of the one behind the last.
    fn first_of(&self, part: u32, parts: u32) -> Result<u32, JobError> {
        if parts == 0 || parts > self.units || part > parts {
            return Err(JobError::Setup(format!("part {part} of {parts}: {} units have no such part", self.units)));
        }
        Ok((u64::from(part) * u64::from(self.units)).div_ceil(parts.into()) as u32)
    }

    /// What a piece of a part belongs to.
    pub(super) fn of_part(&self, part: u32, parts: u32) -> Vec<u8> {
        [agree::name(&self.salt).as_bytes(), &part.to_le_bytes(), &parts.to_le_bytes()].concat()
    }

    /// Packs the units of a part that have any row: `pieces` are what every [`Start::cut`] gave for it, in any order. It takes about three times as
    /// much memory as these.
    ///
    /// # Errors
    /// [`JobError::Repeats`]; pieces that [`Start::cut`] does not make for this part; a row that stands in them twice.
    pub fn pack(&self, part: u32, parts: u32, pieces: &[&[u8]]) -> Result<Vec<Packed>, JobError> {
        let (first, behind) = (self.first_of(part, parts)?, self.first_of(part + 1, parts)?);
        let (what, name) = (self.of_part(part, parts), "a piece of cut rows");
        // A unit has as many rows as chance has it, and some more.
        let all: usize = pieces.iter().map(|piece| piece.len() / NEAR).sum();
        let even = all / (behind - first).max(1) as usize;
        let begun = || Vec::with_capacity(even + even / 8 + 8);
        let mut units: Vec<Vec<[u8; RECORD]>> = (first..behind).map(|_| begun()).collect();
        let mut memory = Zeroizing::default();
        for piece in pieces {
            let opened = self.secret.open_to(CUT, &what, name, piece, &mut memory)?;
            spread(opened, first, &mut units).ok_or_else(|| damaged(name))?;
        }
        drop(memory);
        let mut spare = Vec::new();
        let mut packed = Vec::new();
        for (hidden, mut of_unit) in (first..).zip(units) {
            if !of_unit.is_empty() {
                let unit = self.veil.show(hidden).ok_or_else(|| damaged(name))?;
                packed.push(self.pack_unit(unit, &mut of_unit, &mut spare)?.ok_or_else(|| twice(part))?);
            }
        }
        Ok(packed)
    }

    /// Packs the rows of one unit. None if a row is there twice: each is cut once, so its piece stands in the place of another one, whose rows are missing.
    /// As many rows came as were cut, so nothing else would see it.
    fn pack_unit(
        &self,
        unit: u32,
        records: &mut [[u8; RECORD]],
        spare: &mut Vec<[u8; RECORD]>,
    ) -> Result<Option<Packed>, JobError> {
        sort::ascending(records, spare, |record| {
            u32::from_be_bytes(*record.first_chunk().expect("a digest is longer"))
        });
        if records.array_windows().any(|[a, b]| a == b) {
            return Ok(None);
        }
        let repeats = |[a, b]: &&[[u8; RECORD]; 2]| a[..16] == b[..16];
        let many = records.array_windows().filter(repeats).count() as u64;
        if many > 0 && self.plan.shared.duplicates == Duplicates::Error {
            let row = records.array_windows().filter(repeats).map(|[_, b]| number(b)).min().unwrap_or_default();
            let row = (row & ((1 << IN_FILE) - 1)) + 1;
            let path = self.plan.input.origin.name();
            return Err(JobError::Repeats { path, row, rows: many, identifiers: false });
        }
        let each = if self.plan.shared.duplicates == Duplicates::First { 1 } else { usize::MAX };
        let keys = records.len() as u64 - many;
        let mut of_keys = Vec::with_capacity(Front::BYTES + 32 + keys as usize * KEY + TAG);
        let mut numbers = Vec::with_capacity(Front::BYTES + records.len() * 8 + TAG);
        // Before the keys stands the hash of the numbers, which are not there yet.
        of_keys.resize(Front::BYTES + 32, 0);
        numbers.resize(Front::BYTES, 0);
        for of_key in records.chunk_by(|a, b| a[..16] == b[..16]) {
            let of_key = &of_key[..of_key.len().min(each)];
            of_keys.extend_from_slice(&of_key[0][..16]);
            let count = u32::try_from(of_key.len()).map_err(|_| {
                JobError::Setup(format!("a key of unit {unit} stands in {} rows; leave them out", of_key.len()))
            })?;
            of_keys.extend_from_slice(&count.to_le_bytes());
            of_key.iter().for_each(|record| numbers.extend_from_slice(&number(record).to_le_bytes()));
        }
        of_keys[Front::BYTES..][..32].copy_from_slice(&hash(&numbers[Front::BYTES..]));
        let (what, given) = (piece(&self.salt, unit), records.len() as u64);
        let (blob, rows) =
            (self.secret.seal_behind(PACKED, &what, of_keys)?, self.secret.seal_behind(ROWS, &what, numbers)?);
        Ok(Some(Packed { unit, keys, given, blob, rows }))
    }
}

/// A row stands twice among the pieces of a part.
fn twice(part: u32) -> JobError {
    JobError::Setup(format!(
        "part {part} of the shuffle has a row twice: a piece stands in the place of another one, or rows were cut twice; begin the run anew, and \
         if it comes again, see who can write to the storage"
    ))
}

/// Puts the rows of a piece to their units, the first of which has this hidden number. None if [`Start::cut`] makes no such piece.
fn spread(opened: &[u8], first: u32, units: &mut [Vec<[u8; RECORD]>]) -> Option<()> {
    let ([record, least @ ..], rows) = opened.split_first_chunk::<HEAD>()?;
    let least = u64::from_le_bytes(*least);
    match usize::from(*record) {
        NEAR => each(rows.as_chunks::<NEAR>(), least, first, units),
        FAR => each(rows.as_chunks::<FAR>(), least, first, units),
        _ => None,
    }
}

/// The same of rows of one size, and of no bytes behind them.
fn each<const N: usize>(
    (rows, rest): (&[[u8; N]], &[u8]),
    least: u64,
    first: u32,
    units: &mut [Vec<[u8; RECORD]>],
) -> Option<()> {
    for row in rows {
        let hidden = u32::from(u16::from_le_bytes([row[0], row[1]]));
        let mut above = [0; 8];
        above[..N - 18].copy_from_slice(&row[18..]);
        let number = least.checked_add(u64::from_le_bytes(above))?;
        let mut record = [0; RECORD];
        record[..16].copy_from_slice(&row[2..18]);
        record[16..].copy_from_slice(&number.to_be_bytes());
        units.get_mut(hidden.checked_sub(first)? as usize)?.push(record);
    }
    rest.is_empty().then_some(())
}

/// The number of the row of a record.
fn number(record: &[u8; RECORD]) -> u64 {
    u64::from_be_bytes(*record.last_chunk().expect("a record ends with it"))
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
        (Digest(*digest), u32::from_le_bytes(*rows.first_chunk().expect("a record ends with a count")).into())
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
