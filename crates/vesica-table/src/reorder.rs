use crate::csv::Lines;
use crate::dictionary::restored;
use crate::spill::{Log, Runs};
use crate::{Error, Form, Sink};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeBinaryArray, RecordBatch, new_null_array};
use arrow_row::{RowConverter, RowParser, SortField};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

/// Rows a batch that goes to the sink.
const BATCH_ROWS: usize = 8 << 10;

/// Bytes of encoded rows in one batch.
const BATCH_BYTES: usize = 4 << 20;

/// The most ranges of positions. One range is put in order in memory at a time.
const RANGES: u64 = 4 << 10;

/// Memory for each range: a range is read back in one piece per filling of the memory, and pieces should not be small.
const RANGE_BYTES: usize = 4 << 10;

/// Before each row in the log: its position and its length.
const PREFIX: usize = 12;

/// The length that stands for an absent row.
const ABSENT: u32 = u32::MAX;

/// Takes rows in any order, gives them to a sink in the order of their positions, within a memory budget.
///
/// Rows travel as bytes: verbatim rows as they are, others in arrow-row's encoding, which gives every value back
/// exactly. While rows come in order they pass straight through; from the first that does not, they are parted by
/// position into a spill.
pub struct Reorder<'a> {
    sink: &'a mut dyn Sink,
    codec: Codec,
    n: u64,
    /// Rows that came, and how many of them passed straight through.
    came: u64,
    passed: u64,
    /// Rows that did not, once there is one.
    log: Option<Log>,
    out: Encoded,
    ranges: u64,
    memory: usize,
    dir: &'a Path,
}

/// Rows on their way to the sink.
#[derive(Default)]
struct Encoded {
    lines: Lines,
    /// Rows of arrow-row, one after the other, and where they end.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

enum Codec {
    Verbatim,
    Rows { converter: RowConverter, parser: RowParser, null: Vec<u8>, schema: SchemaRef },
}

impl Codec {
    fn new(sink: &dyn Sink) -> Result<Self, ArrowError> {
        if sink.form() == Form::Verbatim {
            return Ok(Codec::Verbatim);
        }
        let schema = sink.schema().clone();
        let fields = schema.fields().iter().map(|f| SortField::new(f.data_type().clone())).collect();
        let converter = RowConverter::new(fields)?;
        let nulls: Vec<ArrayRef> = schema.fields().iter().map(|f| new_null_array(f.data_type(), 1)).collect();
        let null = converter.convert_columns(&nulls)?.row(0).data().to_vec();
        Ok(Codec::Rows { parser: converter.parser(), converter, null, schema })
    }

    fn encode<'b>(&self, batch: &'b RecordBatch) -> Result<Coded<'b>, ArrowError> {
        match self {
            Codec::Rows { converter, .. } => Ok(Coded::Rows(converter.convert_columns(batch.columns())?)),
            Codec::Verbatim => match batch.columns() {
                [rows] if rows.data_type() == &DataType::LargeBinary => Ok(Coded::Lines(rows.as_binary())),
                _ => Err(ArrowError::SchemaError("a batch that is not verbatim rows".into())),
            },
        }
    }
}

/// A batch as rows of bytes.
enum Coded<'a> {
    Lines(&'a LargeBinaryArray),
    Rows(arrow_row::Rows),
}

impl Coded<'_> {
    /// Row `i`; `None` if it is absent.
    fn row(&self, i: usize) -> Option<&[u8]> {
        match self {
            Coded::Lines(lines) => lines.is_valid(i).then(|| lines.value(i)),
            Coded::Rows(rows) => Some(rows.row(i).data()),
        }
    }
}

impl<'a> Reorder<'a> {
    /// Gives `n` rows, with positions 0 to `n - 1`, to `sink`; holds about `memory` bytes, and keeps the rest in `dir`.
    ///
    /// # Errors
    /// [`Error::Bug`] for a schema that cannot be encoded; none is known.
    pub fn new(sink: &'a mut dyn Sink, n: u64, memory: usize, dir: &'a Path) -> Result<Self, Error> {
        let codec = Codec::new(&*sink).map_err(bug)?;
        let ranges = ((memory / RANGE_BYTES) as u64).clamp(16, RANGES);
        Ok(Self { sink, codec, n, came: 0, passed: 0, log: None, out: Encoded::default(), ranges, memory, dir })
    }

    /// Takes the rows of `batch`, each with its position.
    ///
    /// # Errors
    /// [`Error::Bug`] for a position beyond the end; [`Error::DiskFull`]; those of the sink.
    pub fn push(&mut self, batch: &RecordBatch, positions: &[u64]) -> Result<(), Error> {
        if batch.num_rows() != positions.len() {
            return Err(Error::Bug(format!("{} positions for {} rows", positions.len(), batch.num_rows())));
        }
        let next = self.came..self.came + positions.len() as u64;
        if self.log.is_none() && next.end <= self.n && positions.iter().copied().eq(next.clone()) {
            // A batch that is in order goes on as it is.
            self.out.flush(&self.codec, self.sink, true)?;
            self.came = next.end;
            return self.sink.write(&batch.clone().with_schema(self.sink.schema().clone()).map_err(bug)?);
        }
        let coded = self.codec.encode(batch).map_err(bug)?;
        positions.iter().enumerate().try_for_each(|(row, &position)| self.put(coded.row(row), position))
    }

    /// Takes an absent row: one that the sink writes as nulls.
    ///
    /// # Errors
    /// As [`Reorder::push`].
    pub fn push_absent(&mut self, position: u64) -> Result<(), Error> {
        self.put(None, position)
    }

    #[inline]
    fn put(&mut self, row: Option<&[u8]>, position: u64) -> Result<(), Error> {
        if position >= self.n {
            return Err(Error::Bug(format!("position {position} of {} rows", self.n)));
        }
        self.came += 1;
        if self.log.is_none() {
            if position == self.came - 1 {
                self.out.push(&self.codec, row);
                return self.out.flush(&self.codec, self.sink, false);
            }
            self.passed = self.came - 1;
            self.log = Some(Log::new(self.ranges as usize, self.memory, self.dir)?);
        }
        let range = position.checked_sub(self.passed).map(|p| p / self.width());
        let (Some(range), Some(log)) = (range, &mut self.log) else { return Err(twice(position)) };
        let len = match row {
            Some(row) if row.len() >= ABSENT as usize => return Err(Error::Bug("a row of 4 GiB".into())),
            Some(row) => row.len() as u32,
            None => ABSENT,
        };
        log.push(range as usize, &[&position.to_le_bytes(), &len.to_le_bytes(), row.unwrap_or_default()])
    }

    /// Positions in a range; the ranges part what did not pass straight through.
    fn width(&self) -> u64 {
        (self.n - self.passed).div_ceil(self.ranges).max(1)
    }

    /// Gives the sink all rows that it does not have yet.
    ///
    /// # Errors
    /// [`Error::Bug`] if the positions that came are not 0 to `n - 1`, each once; those of the sink and of the disk.
    pub fn finish(mut self) -> Result<(), Error> {
        if self.came != self.n {
            return Err(Error::Bug(format!("{} rows came where {} were due", self.came, self.n)));
        }
        let width = self.width();
        if let Some(log) = self.log.take() {
            let runs = Arc::new(log.finish()?);
            for range in 0..self.ranges {
                let from = (self.passed + range * width).min(self.n);
                let to = (from + width).min(self.n);
                // A range is cut further if its rows are larger than they were thought to be.
                let limit = (self.memory as u64 / 4).max(1);
                let parts = runs.sizes[range as usize].div_ceil(limit).clamp(1, (to - from).max(1));
                let part = (to - from).div_ceil(parts).max(1);
                let mut at = from;
                while at < to {
                    let end = (at + part).min(to);
                    self.range(&runs, range as usize, at, end)?;
                    at = end;
                }
            }
        }
        self.out.flush(&self.codec, self.sink, true)
    }

    /// Gives the sink the rows with positions `from` to `to`, which are among those of `range`.
    fn range(&mut self, runs: &Arc<Runs>, range: usize, from: u64, to: u64) -> Result<(), Error> {
        let reading = |e| Error::reading(runs.dir(), e);
        let mut stream = BufReader::with_capacity(64 << 10, runs.stream(range));
        let mut left = runs.sizes[range];
        let mut bytes = Vec::new();
        // For each position, where its row stands in `bytes`.
        let mut slots: Vec<Option<(usize, u32)>> = vec![None; (to - from) as usize];
        while left > 0 {
            let (mut position, mut len) = ([0; 8], [0; 4]);
            stream.read_exact(&mut position).and_then(|()| stream.read_exact(&mut len)).map_err(reading)?;
            let (position, len) = (u64::from_le_bytes(position), u32::from_le_bytes(len));
            let size = if len == ABSENT { 0 } else { len as usize };
            left -= (PREFIX + size) as u64;
            if !(from..to).contains(&position) {
                io::copy(&mut stream.by_ref().take(size as u64), &mut io::sink()).map_err(reading)?;
                continue;
            }
            let at = bytes.len();
            bytes.resize(at + size, 0);
            stream.read_exact(&mut bytes[at..]).map_err(reading)?;
            if slots[(position - from) as usize].replace((at, len)).is_some() {
                return Err(twice(position));
            }
        }
        for slot in slots {
            // As many came as were due and none twice, so this one came.
            let (at, len) = slot.ok_or_else(|| Error::Bug("a position that did not come".into()))?;
            self.out.push(&self.codec, (len != ABSENT).then(|| &bytes[at..at + len as usize]));
            self.out.flush(&self.codec, self.sink, false)?;
        }
        Ok(())
    }
}

impl Encoded {
    #[inline]
    fn push(&mut self, codec: &Codec, row: Option<&[u8]>) {
        match (codec, row) {
            (Codec::Verbatim, Some(row)) => self.lines.push(row, b""),
            (Codec::Verbatim, None) => self.lines.push_absent(),
            (Codec::Rows { null, .. }, row) => {
                self.bytes.extend_from_slice(row.unwrap_or(null));
                self.ends.push(self.bytes.len());
            }
        }
    }

    /// Gives the sink what has been pushed, if that is a batch or `all` must go.
    #[inline]
    fn flush(&mut self, codec: &Codec, sink: &mut dyn Sink, all: bool) -> Result<(), Error> {
        match codec {
            Codec::Verbatim if self.lines.full() || (all && !self.lines.is_empty()) => sink.write(&self.lines.batch()?),
            Codec::Rows { converter, parser, schema, .. }
                if self.bytes.len() >= BATCH_BYTES
                    || self.ends.len() >= BATCH_ROWS
                    || (all && !self.ends.is_empty()) =>
            {
                let mut from = 0;
                let rows = self.ends.iter().map(|&to| parser.parse(&self.bytes[std::mem::replace(&mut from, to)..to]));
                let batch = decode(converter, schema, rows).map_err(bug)?;
                self.bytes.clear();
                self.ends.clear();
                sink.write(&batch)
            }
            _ => Ok(()),
        }
    }
}

fn decode<'r>(
    converter: &RowConverter,
    schema: &SchemaRef,
    rows: impl Iterator<Item = arrow_row::Row<'r>>,
) -> Result<RecordBatch, ArrowError> {
    let columns = converter.convert_rows(rows)?;
    // Dictionaries come back as what they stood for.
    let columns = columns.iter().zip(schema.fields()).map(|(column, field)| restored(column, field.data_type()));
    RecordBatch::try_new(schema.clone(), columns.collect::<Result<_, _>>()?)
}

fn bug(error: ArrowError) -> Error {
    Error::Bug(error.to_string())
}

fn twice(position: u64) -> Error {
    Error::Bug(format!("position {position} came twice"))
}
