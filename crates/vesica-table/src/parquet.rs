use crate::in_turn::in_turn;
use crate::ones::Ones;
use crate::parquet_sizes::{Ended, Pages, Pass, footer};
use crate::table::{Stored, StoredColumn};
use crate::{
    Batches, Column, Emit, Error, Facts, Form, Format, Piece, Pieces, RowIds, Selection, Source, Table, table, text,
};
use arrow_array::{BooleanArray, RecordBatch, UInt32Array};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take_record_batch;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, RowGroups, RowSelector,
};
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::Encoding;
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::schema::types::ColumnDescPtr;
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use vesica_types::RowId;

/// Rows, and values of rows, in a batch: a table of thousands of columns is read a few rows at a time.
const BATCH_ROWS: usize = 8 << 10;
const BATCH_VALUES: usize = 2 << 20;

/// Row groups that together have no more rows than this are one piece.
const PIECE_ROWS: u64 = 64 << 10;

/// The most rows that are asked of the file at a time.
const ASKED: usize = 1 << 20;

/// Rows that nobody asked for are passed over where there are so many one after the other. Fewer are read, which is faster.
const READ_OVER: usize = 64;

/// The most rows made of one by repetition at a time.
const REPEATED: usize = 64 << 10;

/// A Parquet file.
pub(crate) struct ParquetTable {
    source: Arc<Source>,
    metadata: ArrowReaderMetadata,
    columns: Vec<Column>,
    stored: Stored,
}

/// Some row groups as the parquet crate reads them: their pages are checked.
struct Groups {
    source: Arc<Source>,
    metadata: Arc<ParquetMetaData>,
    groups: Vec<usize>,
    pass: Arc<Pass>,
}

impl RowGroups for Groups {
    fn num_rows(&self) -> usize {
        self.row_groups().map(|group| group.num_rows() as usize).sum()
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>, ParquetError> {
        let (source, metadata, pass) = (self.source.clone(), self.metadata.clone(), self.pass.clone());
        let pages = move |group: usize| -> Result<Box<dyn PageReader>, ParquetError> {
            let group = metadata.row_group(group);
            Ok(Box::new(Pages::of(&source, group.column(column), group.num_rows() as usize, &pass)?))
        };
        Ok(Box::new(Chunks(Box::new(self.groups.clone().into_iter().map(pages)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.groups.iter().map(|group| self.metadata.row_group(*group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The chunks of a column.
struct Chunks(Box<dyn Iterator<Item = Result<Box<dyn PageReader>, ParquetError>> + Send>);

impl Iterator for Chunks {
    type Item = Result<Box<dyn PageReader>, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl PageIterator for Chunks {}

/// Rows of some columns, a batch at a time.
struct Rows {
    groups: Groups,
    levels: FieldLevels,
    /// The rows of the groups before the ones that are left, and which of these are asked for.
    passed: usize,
    left: VecDeque<RowSelector>,
    /// Which of those are wanted, from this row on, if not all are.
    wanted: Option<(BooleanBuffer, usize)>,
    reader: ParquetRecordBatchReader,
}

impl Rows {
    fn of(groups: Groups, levels: FieldLevels, asked: Vec<RowSelector>) -> Result<Self, Error> {
        let left = asked.into();
        let reader = Self::reader(&groups, &levels, 0, &left)?;
        Ok(Self { groups, levels, passed: 0, left, wanted: None, reader })
    }

    /// A reader of what is left, with the rows between that are read too.
    fn reader(
        groups: &Groups,
        levels: &FieldLevels,
        passed: usize,
        left: &VecDeque<RowSelector>,
    ) -> Result<ParquetRecordBatchReader, Error> {
        let all = passed == 0 && *left == [RowSelector::select(groups.num_rows())];
        // The crate reads all rows faster than a selection of all rows.
        let selection = (!all).then(|| {
            let before = std::iter::once(RowSelector::skip(passed));
            before.chain(left.iter().map(|rows| RowSelector { skip: passed_over(rows), ..*rows })).collect()
        });
        let reader = || ParquetRecordBatchReader::try_new_with_row_groups(levels, groups, groups.pass.rows, selection);
        guarded(&groups.source, || reader().map_err(|e| reading(&groups.source, e)))
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            let source = self.groups.source.clone();
            let read = guarded(&source, || self.reader.next().transpose().map_err(|e| arrow(&source, e)));
            match (read, self.groups.pass.ended()) {
                (Ok(None), _) => return Ok(None),
                (Ok(Some(batch)), _) => {
                    let asked = self.asked(batch.num_rows())?;
                    match asked.true_count() {
                        0 => {}
                        n if n == batch.num_rows() => return Ok(Some(batch)),
                        _ => return filter_record_batch(&batch, &asked).map(Some).map_err(|e| arrow(&source, e)),
                    }
                }
                (Err(error), None) => return Err(error),
                (Err(_), Some(Ended::Wrong(why))) => return Err(corrupt(&source, why)),
                (Err(_), Some(Ended::Rows(rows))) => {
                    self.groups.pass = Arc::new(self.groups.pass.in_batches_of(*rows));
                    self.reader = Self::reader(&self.groups, &self.levels, self.passed, &self.left)?;
                }
            }
        }
    }

    /// Which of the next `count` rows that are read are asked for.
    fn asked(&mut self, count: usize) -> Result<BooleanArray, Error> {
        let mut asked = BooleanBufferBuilder::new(count);
        while asked.len() < count {
            let more = || corrupt(&self.groups.source, "it has more rows than its footer says");
            let mut rows = self.left.pop_front().ok_or_else(more)?;
            if passed_over(&rows) {
                self.passed += rows.row_count;
                continue;
            }
            let own = rows.row_count.min(count - asked.len());
            match &self.wanted {
                Some((wanted, from)) if !rows.skip => asked.append_buffer(&wanted.slice(self.passed - from, own)),
                _ => asked.append_n(own, !rows.skip),
            }
            self.passed += own;
            rows.row_count -= own;
            if rows.row_count > 0 {
                self.left.push_front(rows);
            }
        }
        Ok(BooleanArray::new(asked.finish(), None))
    }
}

/// Whether rows are passed over: fewer are read with those around them.
fn passed_over(rows: &RowSelector) -> bool {
    rows.skip && rows.row_count >= READ_OVER
}

/// What the parquet crate's errors mean here.
fn reading(source: &Source, error: ParquetError) -> Error {
    match error {
        ParquetError::External(e) => match e.downcast::<std::io::Error>() {
            Ok(e) if e.raw_os_error().is_some() => Error::reading(source.path(), *e),
            Ok(e) => corrupt(source, &e.to_string()),
            Err(e) => corrupt(source, &e.to_string()),
        },
        other => corrupt(source, &other.to_string()),
    }
}

/// Runs `read`, which decodes what the file says: the decoders panic on some damaged files where they should not.
pub(crate) fn guarded<T>(source: &Source, read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    std::panic::catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        let why = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(corrupt(source, why.unwrap_or("its decoder failed")))
    })
}

pub(crate) fn corrupt(source: &Source, why: &str) -> Error {
    Error::Corrupt { path: source.path().to_owned(), why: why.to_owned() }
}

pub(crate) fn arrow(source: &Source, error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, e) if e.raw_os_error().is_some() => Error::reading(source.path(), e),
        ArrowError::ExternalError(e) => match e.downcast::<ParquetError>() {
            Ok(e) => reading(source, *e),
            Err(e) => corrupt(source, &e.to_string()),
        },
        other => corrupt(source, &other.to_string()),
    }
}

/// Whether a chunk has no dictionary, or values beside it, as where its writer gave the dictionary up.
fn is_plain(chunk: &ColumnChunkMetaData) -> bool {
    let of_places = [Encoding::PLAIN_DICTIONARY, Encoding::RLE_DICTIONARY];
    if chunk.dictionary_page_offset().is_none() {
        return true;
    }
    match chunk.page_encoding_stats_mask() {
        Some(data) => data.encodings().any(|encoding| !of_places.contains(&encoding)),
        // Without it, PLAIN may be the encoding of the dictionary itself, unless it is the older one's.
        None => {
            let mut encodings = chunk.encodings();
            let older = chunk.encodings().any(|encoding| encoding == Encoding::PLAIN_DICTIONARY);
            older && encodings.any(|encoding| encoding == Encoding::PLAIN)
        }
    }
}

/// The columns of an Arrow schema, for people.
pub(crate) fn columns(schema: &SchemaRef) -> Vec<Column> {
    let column = |f: &Arc<arrow_schema::Field>| Column { name: f.name().clone(), kind: f.data_type().to_string() };
    schema.fields().iter().map(column).collect()
}

impl ParquetTable {
    pub(crate) fn open(source: Arc<Source>) -> Result<Self, Error> {
        let footer = footer(&source)?;
        let load = || {
            let metadata = ParquetMetaDataReader::decode_metadata(&footer)?;
            ArrowReaderMetadata::try_new(Arc::new(metadata), ArrowReaderOptions::new())
        };
        let metadata = guarded(&source, || load().map_err(|e| reading(&source, e)))?;
        let mut groups = metadata.metadata().row_groups().iter().map(RowGroupMetaData::num_rows);
        let rows = groups.try_fold(0i64, |sum, rows| sum.checked_add(rows).filter(|_| rows >= 0));
        let said = metadata.metadata().file_metadata().num_rows();
        if rows != Some(said) {
            let why = format!("its footer counts {said} rows in all, and others by group; write it again");
            return Err(corrupt(&source, &why));
        }
        let columns = columns(metadata.schema());
        let stored = stored(metadata.metadata());
        Ok(Self { source, metadata, columns, stored })
    }

    /// The columns at `places`, in the file's order, and a pass over them.
    fn columns_at(&self, places: &[usize]) -> Result<(FieldLevels, Pass), Error> {
        let schema = self.metadata.parquet_schema();
        let mask = ProjectionMask::roots(schema, places.iter().copied());
        let leaves = schema.columns().iter().enumerate().filter(|(i, _)| mask.leaf_included(*i)).map(|(_, leaf)| leaf);
        let rows = (BATCH_VALUES / self.columns.len().max(1)).clamp(64, BATCH_ROWS);
        let rows = self.rows().map_or(rows, |all| rows.min(all.max(1) as usize));
        let fields = places.iter().map(|&i| self.metadata.schema().field(i));
        let pass = Pass::over(&self.source, rows, fields, leaves)?;
        let levels = || parquet_to_arrow_field_levels(schema, mask, Some(self.metadata.schema().fields()));
        Ok((guarded(&self.source, || levels().map_err(|e| reading(&self.source, e)))?, pass))
    }

    fn first_pass(&self, keys: &[String], values: &[String]) -> Result<FirstPass, Error> {
        let places = table::places(self.source.path(), &self.columns, &[keys, values].concat())?;
        let (of_keys, of_values) = places.split_at(keys.len());
        let schema = self.metadata.schema();
        text::check_keys(self.source.path(), of_keys.iter().map(|&i| schema.field(i)))?;
        text::check_values(self.source.path(), of_values.iter().map(|&i| schema.field(i)))?;
        self.source.begin()?;
        let (levels, pass) = self.columns_at(&places)?;
        let (_, order) = table::in_file_order(&places);
        let (source, metadata) = (self.source.clone(), self.metadata.metadata().clone());
        Ok(FirstPass { source, metadata, levels, pass, order, schema: text::schema(keys, values) })
    }

    fn second_pass(&self, Selection { form, columns, .. }: Selection<'_>) -> Result<SecondPass, Error> {
        if form != Form::Arrow {
            return Err(Error::Bug("verbatim rows of a Parquet file".into()));
        }
        self.source.begin()?;
        let (levels, pass) = self.columns_at(columns)?;
        let (_, order) = table::in_file_order(columns);
        Ok(SecondPass { levels, pass, order })
    }

    fn groups(&self, groups: Vec<usize>, pass: &Pass) -> Groups {
        let (source, metadata) = (self.source.clone(), self.metadata.metadata().clone());
        Groups { source, metadata, groups, pass: Arc::new(pass.in_batches_of(pass.rows)) }
    }
}

/// A first pass over some columns.
struct FirstPass {
    source: Arc<Source>,
    metadata: Arc<ParquetMetaData>,
    levels: FieldLevels,
    pass: Pass,
    /// Where each column of the pass stands among those of the file.
    order: Vec<usize>,
    schema: SchemaRef,
}

/// A second pass over some columns.
struct SecondPass {
    levels: FieldLevels,
    pass: Pass,
    /// Where each column of the pass stands among those of the file.
    order: Vec<usize>,
}

impl FirstPass {
    /// The rows of some groups.
    fn batches(&self, groups: Range<usize>) -> Result<Batches, Error> {
        let (source, metadata, pass) = (self.source.clone(), self.metadata.clone(), &self.pass);
        let pass = Arc::new(pass.in_batches_of(pass.rows));
        let groups = Groups { source: source.clone(), metadata, groups: groups.collect(), pass };
        let total = groups.num_rows();
        let mut rows = Rows::of(groups, self.levels.clone(), vec![RowSelector::select(total)])?;
        let (order, schema) = (self.order.clone(), self.schema.clone());
        let mut ended = false;
        Ok(Box::new(std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let take = |batch: RecordBatch| {
                let columns: Vec<_> = order.iter().map(|&i| batch.column(i).clone()).collect();
                guarded(&source, || text::texts(&schema, &columns).map_err(|e| arrow(&source, e)))
            };
            let batch = match rows.next() {
                Ok(Some(batch)) => Some(take(batch)),
                Ok(None) if rows.passed != total => {
                    Some(Err(corrupt(&source, "it has fewer rows than its footer says")))
                }
                Ok(None) => source.check().err().map(Err),
                Err(error) => Some(Err(error)),
            };
            ended = !matches!(batch, Some(Ok(_)));
            batch
        })))
    }
}

/// How the leaf columns of a file are stored.
fn stored(metadata: &ParquetMetaData) -> Stored {
    let leaves = metadata.file_metadata().schema_descr().columns().iter().enumerate();
    let column = |(i, leaf): (usize, &ColumnDescPtr)| {
        let mut chunks = metadata.row_groups().iter().map(|group| group.column(i)).peekable();
        let codec = chunks.peek()?.compression();
        let (all, plain) = chunks.fold((0, 0), |(all, plain), chunk| (all + 1, plain + usize::from(is_plain(chunk))));
        Some(StoredColumn { path: leaf.path().clone(), codec, plain: 2 * plain >= all })
    };
    Stored(leaves.filter_map(column).collect())
}

impl Table for ParquetTable {
    fn facts(&self) -> Facts<'_> {
        Facts {
            path: self.source.path(),
            source: Some(&self.source),
            columns: &self.columns,
            schema: self.metadata.schema(),
            format: Format::Parquet,
            rows: u64::try_from(self.metadata.metadata().file_metadata().num_rows()).ok(),
            header: None,
            stored: Some(&self.stored),
        }
    }

    fn texts(&self, keys: &[String], values: &[String], _workers: usize) -> Result<Batches, Error> {
        self.first_pass(keys, values)?.batches(0..self.metadata.metadata().num_row_groups())
    }

    fn pieces(&self, columns: &[String], _workers: usize) -> Result<Pieces, Error> {
        let pass = self.first_pass(columns, &[])?;
        let groups = self.metadata.metadata().row_groups().iter();
        let mut rows = groups.map(|group| group.num_rows().max(0) as u64).enumerate().peekable();
        let mut pieces = Vec::new();
        let mut first = 0;
        while let Some((begin, mut of_piece)) = rows.next() {
            let mut groups = begin..begin + 1;
            while let Some((_, more)) = rows.next_if(|(_, more)| of_piece + more <= PIECE_ROWS) {
                (groups.end, of_piece) = (groups.end + 1, of_piece + more);
            }
            pieces.push((first, groups));
            first += of_piece;
        }
        Ok(Box::new(pieces.into_iter().map(move |(first, groups)| {
            let batches = pass.batches(groups).unwrap_or_else(|error| Box::new(std::iter::once(Err(error))));
            Piece { first, batches }
        })))
    }

    fn select(&self, rows: &mut RowIds<'_>, selection: Selection<'_>, emit: &mut Emit<'_>) -> Result<(), Error> {
        let SecondPass { levels, pass, order } = self.second_pass(selection)?;
        let mut wanted = Wanted { table: self, group: 0, first: 0, next: rows.next().transpose()?, rows };
        let read = |task: Task, emit: &mut Emit<'_>| {
            let groups = self.groups(vec![task.group], &pass);
            self.read(&mut Rows::of(groups, levels.clone(), task.selectors())?, &order, &task.times, emit)
        };
        in_turn(selection.workers, || wanted.next(), read, emit)?;
        match wanted.next {
            Some(RowId(row)) => Err(self.not_there(row, wanted.first)),
            None => self.source.check(),
        }
    }

    fn select_marked(&self, marked: &[u64], selection: Selection<'_>, emit: &mut Emit<'_>) -> Result<(), Error> {
        let SecondPass { levels, pass, order } = self.second_pass(selection)?;
        let mut parts = Parts { groups: self.metadata.metadata().row_groups(), group: 0, first: 0, from: 0, marked };
        let read = |part: Part, emit: &mut Emit<'_>| {
            let groups = self.groups(vec![part.group], &pass);
            let mut rows = Rows::of(groups, levels.clone(), part.selectors())?;
            rows.wanted = Some((part.wanted, part.from));
            self.read(&mut rows, &order, &[], emit)
        };
        in_turn(selection.workers, || Ok(parts.next()), read, emit)?;
        let mut behind = Ones::new(marked.iter().copied().skip((parts.first / 64) as usize));
        let mut behind = std::iter::from_fn(|| Some(behind.next_below(u64::MAX)? + parts.first / 64 * 64));
        match behind.find(|row| *row >= parts.first) {
            Some(row) => Err(self.not_there(row, parts.first)),
            None => self.source.check(),
        }
    }
}

impl ParquetTable {
    fn not_there(&self, row: u64, rows: u64) -> Error {
        let what = format!("row {} of {rows} was asked for", row + 1);
        Error::Changed { path: self.source.path().to_owned(), what }
    }

    /// Hands on what `rows` reads, with the columns in this order, each row as often as `times` says: once if it is empty.
    fn read(&self, rows: &mut Rows, order: &[usize], times: &[u32], emit: &mut Emit<'_>) -> Result<(), Error> {
        let mut left = times;
        while let Some(batch) = rows.next()? {
            let batch = batch.project(order).map_err(|e| arrow(&self.source, e))?;
            if times.is_empty() {
                emit(batch)?;
                continue;
            }
            let Some((these, rest)) = left.split_at_checked(batch.num_rows()) else {
                return Err(corrupt(&self.source, "it has more rows than its footer says"));
            };
            left = rest;
            if these.iter().all(|&n| n == 1) {
                emit(batch)?;
                continue;
            }
            let repeated = these.iter().zip(0..).flat_map(|(&n, i)| std::iter::repeat_n(i, n as usize));
            let repeated: Vec<u32> = repeated.collect();
            for rows in repeated.chunks(REPEATED) {
                let rows = UInt32Array::from(rows.to_vec());
                emit(take_record_batch(&batch, &rows).map_err(|e| arrow(&self.source, e))?)?;
            }
        }
        match rows.left.iter().any(|rows| !rows.skip) {
            true => Err(corrupt(&self.source, "it has fewer rows than its footer says")),
            false => Ok(()),
        }
    }
}

/// Rows to take of a row group.
struct Task {
    group: usize,
    /// Runs of rows: how many are passed over, and how many are then taken. Half of all rows, by chance, are a run for four rows.
    runs: Vec<[u32; 2]>,
    /// How often each row is taken; empty if all are once.
    times: Vec<u32>,
}

impl Task {
    fn selectors(&self) -> Vec<RowSelector> {
        let parts = |&[skip, take]: &[u32; 2]| [RowSelector::skip(skip as usize), RowSelector::select(take as usize)];
        self.runs.iter().flat_map(parts).filter(|rows| rows.row_count > 0).collect()
    }
}

/// Cuts the rows that are wanted into tasks.
struct Wanted<'a> {
    table: &'a ParquetTable,
    /// The row group that the next row may be in, and its first row.
    group: usize,
    first: u64,
    next: Option<RowId>,
    rows: &'a mut dyn Iterator<Item = Result<RowId, Error>>,
}

impl Wanted<'_> {
    fn next(&mut self) -> Result<Option<Task>, Error> {
        let groups = self.table.metadata.metadata().row_groups();
        let end = loop {
            let (Some(group), Some(next)) = (groups.get(self.group), self.next) else { return Ok(None) };
            let end = self.first + group.num_rows().max(0) as u64;
            if next.0 < end {
                break end;
            }
            (self.group, self.first) = (self.group + 1, end);
        };
        let (mut runs, mut times): (Vec<[u32; 2]>, Vec<u32>) = (Vec::new(), Vec::new());
        let (mut asked, mut taken) = (0, 0);
        let mut at = self.first;
        while let Some(RowId(row)) = self.next.filter(|row| row.0 < end && asked < ASKED) {
            match (row.checked_sub(at), runs.last_mut()) {
                (Some(0), Some(run)) => run[1] += 1,
                (Some(mut skip), _) => {
                    while let Some(rest) = skip.checked_sub(u64::from(u32::MAX)).filter(|&rest| rest > 0) {
                        runs.push([u32::MAX, 0]);
                        skip = rest;
                    }
                    runs.push([skip as u32, 1]);
                }
                (None, Some(_)) if row + 1 == at => {
                    times.resize(taken, 1);
                    times[taken - 1] += 1;
                    taken -= 1;
                }
                (None, _) => return Err(Error::Bug("rows to select do not ascend".into())),
            }
            taken += 1;
            asked += 1;
            at = row + 1;
            self.next = self.rows.next().transpose()?;
        }
        if !times.is_empty() {
            times.resize(taken, 1);
        }
        Ok(Some(Task { group: self.group, runs, times }))
    }
}

/// Rows to take of a row group: some of those from row `from` on.
struct Part {
    group: usize,
    from: usize,
    wanted: BooleanBuffer,
}

impl Part {
    /// The rows of the group that are read: where none of 64 in a line is wanted, these are passed over.
    fn selectors(&self) -> Vec<RowSelector> {
        let mut selectors = vec![RowSelector::skip(self.from)];
        let mut push = |rows: usize, skip: bool| match selectors.last_mut() {
            Some(last) if last.skip == skip => last.row_count += rows,
            _ => selectors.push(RowSelector { row_count: rows, skip }),
        };
        let chunks = self.wanted.bit_chunks();
        chunks.iter().for_each(|chunk| push(READ_OVER, chunk == 0));
        push(chunks.remainder_len(), chunks.remainder_bits() == 0);
        selectors.retain(|rows| rows.row_count > 0);
        selectors
    }
}

/// Cuts rows that are marked into parts of row groups.
struct Parts<'a> {
    groups: &'a [RowGroupMetaData],
    /// The row group of the next part, its first row, and how many rows of it are parted.
    group: usize,
    first: u64,
    from: usize,
    marked: &'a [u64],
}

impl Parts<'_> {
    /// The next part that has a row.
    fn next(&mut self) -> Option<Part> {
        while let Some(group) = self.groups.get(self.group) {
            let rows = group.num_rows().max(0) as usize;
            let (number, from, to) = (self.group, self.from, rows.min(self.from + ASKED));
            let (begin, end) = (self.first + from as u64, self.first + to as u64);
            self.from = to;
            if to == rows {
                (self.group, self.first, self.from) = (self.group + 1, end, 0);
            }
            let words = (begin / 64) as usize..end.div_ceil(64) as usize;
            let len = words.len();
            let mut words: Vec<u64> = self.marked.iter().skip(words.start).take(len).map(|word| word.to_le()).collect();
            words.resize(len, 0);
            let wanted = BooleanBuffer::new(Buffer::from_vec(words), (begin % 64) as usize, to - from);
            if wanted.count_set_bits() > 0 {
                return Some(Part { group: number, from, wanted });
            }
        }
        None
    }
}
