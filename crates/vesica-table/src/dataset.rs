//! Several files that are one table: the rows of the first, then those of the second. What folders called `word=value` say is a
//! column behind those of the files.

use crate::in_turn::in_turn;
use crate::listing::{self, Listed, Listing};
use crate::open::of_source;
use crate::table::Stored;
use crate::{
    Batches, Column, Emit, Error, Facts, Form, Format, Header, InOrder, RowIds, Selection, Source, Table, table, text,
};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use vesica_types::RowId;

/// So many of the first files stay open. The others are opened again for each pass, one at a time, however many there are.
const OPEN: usize = 64;

/// Files of so many bytes, and of so many rows, are read whole by a thread each; of larger ones several threads read one.
const SMALL_BYTES: u64 = 2 << 20;
const SMALL_ROWS: u64 = 1 << 18;

/// Several files.
pub(crate) struct Dataset {
    inner: Arc<Inner>,
    header: Option<Header>,
    stored: Option<Stored>,
}

struct Inner {
    name: PathBuf,
    source: Arc<Source>,
    listing: Arc<Listing>,
    format: Format,
    columns: Vec<Column>,
    schema: SchemaRef,
    /// How many columns are the files' own.
    own: usize,
    parts: Vec<Part>,
    /// Files whose rows are not all counted yet, and the rows of the others: a table of very many files is asked for its rows often.
    uncounted: AtomicUsize,
    total: AtomicU64,
}

/// A file of a dataset.
struct Part {
    /// The values of the folders that it stands in.
    folders: Vec<Option<String>>,
    /// The rows that it has, or that have been seen of it so far.
    rows: AtomicU64,
    /// Whether these are all.
    whole: AtomicBool,
    open: OnceLock<Arc<dyn Table>>,
}

impl Dataset {
    /// The files that `paths` stand for; messages call them `name`.
    pub(crate) fn open(name: &Path, paths: &[PathBuf], format: Option<Format>) -> Result<Self, Error> {
        let listing = Arc::new(Listing::of(paths)?);
        let format = listing::format(&listing.files, format)?;
        let (keys, values) = listing.folders()?;
        let mut parts: Vec<Part> = Vec::with_capacity(values.len());
        let mut first: Option<Arc<dyn Table>> = None;
        let mut fields: Vec<Field> = Vec::new();
        for (file, folders) in listing.files.iter().zip(values) {
            let table: Arc<dyn Table> = Arc::from(of_source(file.open()?, Some(format))?);
            let schema = table.schema();
            match &first {
                None => {
                    fields = schema.fields().iter().map(|field| Field::clone(field)).collect();
                    first = Some(table.clone());
                }
                Some(first) => {
                    same(&**first, &*table)?;
                    for (field, own) in fields.iter_mut().zip(schema.fields()) {
                        field.set_nullable(field.is_nullable() || own.is_nullable());
                    }
                }
            }
            let (rows, open) = (table.rows(), OnceLock::new());
            if parts.len() < OPEN {
                let _ = open.set(table);
            }
            let whole = AtomicBool::new(rows.is_some());
            parts.push(Part { folders, rows: AtomicU64::new(rows.unwrap_or(0)), whole, open });
        }
        let first = first.ok_or_else(|| Error::Bug("a dataset without files".into()))?;
        let (own, mut columns) = (fields.len(), first.columns().to_vec());
        for (i, key) in keys.iter().enumerate() {
            if let Some(place) = columns.iter().position(|column| column.name == *key) {
                let of_file = "stands in the files and in the names of their folders";
                let of_folders = "stands twice in the names of the folders";
                let why = if place < own { of_file } else { of_folders };
                let why = format!(
                    "{why}, so that its values have two places; rename the folders, or name the files one by one"
                );
                return Err(Error::Differs { path: first.path().to_owned(), column: key.clone(), why });
            }
            let nullable = parts.iter().any(|part| part.folders[i].is_none());
            columns.push(Column { name: key.clone(), kind: "text, of the folders".to_owned() });
            fields.push(Field::new(key, DataType::Utf8, nullable));
        }
        let schema = Arc::new(Schema::new_with_metadata(fields, first.schema().metadata().clone()));
        let (name, stored) = (name.to_owned(), first.facts().stored.cloned());
        // With columns of the folders, rows cannot be written byte for byte.
        let header = first.facts().header.filter(|_| keys.is_empty()).cloned();
        let source = Source::many(&name, listing.clone());
        let whole = || parts.iter().filter(|part| part.whole.load(Relaxed));
        let (uncounted, total) = (parts.len() - whole().count(), whole().map(|part| part.rows.load(Relaxed)).sum());
        let (uncounted, total) = (AtomicUsize::new(uncounted), AtomicU64::new(total));
        let inner = Inner { name, source, listing, format, columns, schema, own, parts, uncounted, total };
        Ok(Self { inner: Arc::new(inner), header, stored })
    }
}

/// Fails if `other` has other columns than `first`.
fn same(first: &dyn Table, other: &dyn Table) -> Result<(), Error> {
    let (ours, theirs) = (first.schema(), other.schema());
    let differs = |column: &str, why: String| {
        Err(Error::Differs { path: other.path().to_owned(), column: column.to_owned(), why })
    };
    let than = first.path().display();
    for (place, own) in ours.fields().iter().enumerate() {
        let Some(field) = theirs.fields().get(place).filter(|field| field.name() == own.name()) else {
            return match theirs.fields().iter().position(|field| field.name() == own.name()) {
                Some(there) => {
                    differs(own.name(), format!("is number {} here, and number {} in {than}", there + 1, place + 1))
                }
                None => differs(own.name(), format!("is missing, and {than} has it")),
            };
        };
        if field.data_type() != own.data_type() {
            let why = format!("has type {}, and in {than} {}", field.data_type(), own.data_type());
            return differs(own.name(), why);
        }
    }
    match theirs.fields().get(ours.fields().len()) {
        Some(more) => differs(more.name(), format!("is not in {than}")),
        None => Ok(()),
    }
}

/// A column of a pass.
#[derive(Clone, Copy)]
enum Place {
    /// One of those that are asked of the file.
    File(usize),
    /// One of the folders.
    Folder(usize),
}

impl Inner {
    /// File number `place` as a table.
    fn table(&self, place: usize) -> Result<Arc<dyn Table>, Error> {
        if let Some(table) = self.parts[place].open.get() {
            return Ok(table.clone());
        }
        Ok(Arc::from(of_source(self.listing.files[place].open()?, Some(self.format))?))
    }

    /// Where the columns at `places` are found, and what is asked of each file for them: at least one column, which tells how
    /// many rows there are.
    fn parted(&self, places: &[usize]) -> (Vec<Place>, Vec<usize>) {
        let mut asked = Vec::new();
        let found = places.iter().map(|&place| match place.checked_sub(self.own) {
            Some(folder) => Place::Folder(folder),
            None => {
                asked.push(place);
                Place::File(asked.len() - 1)
            }
        });
        let found = found.collect();
        if asked.is_empty() {
            asked.push(0);
        }
        (found, asked)
    }

    /// `batch` of file number `file`, with the columns at `places`, which `schema` describes.
    fn batch(
        &self,
        file: usize,
        batch: &RecordBatch,
        places: &[Place],
        schema: &SchemaRef,
    ) -> Result<RecordBatch, Error> {
        let rows = batch.num_rows();
        let column = |(place, field): (&Place, &Arc<Field>)| -> ArrayRef {
            match *place {
                Place::File(i) => batch.column(i).clone(),
                Place::Folder(i) => {
                    let value = self.parts[file].folders[i].as_deref();
                    let value = value.or((!field.is_nullable()).then_some(""));
                    Arc::new(StringArray::from_iter(std::iter::repeat_n(value, rows)))
                }
            }
        };
        let columns: Vec<ArrayRef> = places.iter().zip(schema.fields()).map(column).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(|e| Error::Bug(e.to_string()))
    }

    /// Rows of file number `place`, and whether these are all of them.
    fn rows(&self, place: usize) -> (u64, bool) {
        let part = &self.parts[place];
        let whole = part.whole.load(Relaxed);
        (part.rows.load(Relaxed), whole)
    }

    /// The rows of file number `place`. It is read for them where no pass has come to its end: a run that goes on after a
    /// restart takes its keys from what it kept.
    fn counted(&self, place: usize, workers: usize) -> Result<u64, Error> {
        if let (rows, true) = self.rows(place) {
            return Ok(rows);
        }
        let table = self.table(place)?;
        let (columns, schema) = (table.columns(), table.schema());
        let once = |name: &str| columns.iter().filter(|column| column.name == name).count() == 1;
        let mut readable = columns.iter().zip(schema.fields()).filter(|(_, field)| text::writable(field.data_type()));
        let Some((column, _)) = readable.find(|(column, _)| once(&column.name)) else {
            return Err(Error::Bug("a file without a column that can be read by itself".into()));
        };
        let mut rows = 0;
        for batch in table.texts(&[], std::slice::from_ref(&column.name), workers)? {
            rows += batch?.num_rows() as u64;
        }
        self.has(place, rows)?;
        Ok(rows)
    }

    /// File number `place` has so many rows in all.
    fn has(&self, place: usize, rows: u64) -> Result<(), Error> {
        let part = &self.parts[place];
        if let (before, true) = self.rows(place)
            && before != rows
        {
            let what = format!("it had {before} rows and now has {rows}");
            return Err(Error::Changed { path: self.listing.files[place].path.clone(), what });
        }
        part.rows.store(rows, Relaxed);
        if !part.whole.swap(true, AcqRel) {
            self.total.fetch_add(rows, Relaxed);
            self.uncounted.fetch_sub(1, Release);
        }
        Ok(())
    }
}

/// What is read of a file: as it is read, with the table that counts its bytes, or all of it.
type Read = (Option<Arc<dyn Table>>, Batches);

/// A pass over the files, one after the other.
struct Pass {
    inner: Arc<Inner>,
    files: Box<dyn Iterator<Item = Result<Read, Error>> + Send>,
    places: Vec<Place>,
    schema: SchemaRef,
    /// The file under way, its rows so far, and what is left of it.
    file: usize,
    rows: u64,
    now: Option<Read>,
}

impl Pass {
    /// Over these columns.
    fn new(
        inner: &Arc<Inner>,
        [keys, values]: [Vec<String>; 2],
        workers: usize,
        places: Vec<Place>,
        schema: SchemaRef,
    ) -> Self {
        let small = |file: &Listed| file.stamp.bytes() <= SMALL_BYTES;
        let together = workers > 1 && inner.listing.files.iter().all(small);
        let from = inner.clone();
        let open = move |file: usize, workers| -> Result<Read, Error> {
            let table = from.table(file)?;
            let batches = table.texts(&keys, &values, workers)?;
            Ok((Some(table), batches))
        };
        let all = 0..inner.parts.len();
        let files: Box<dyn Iterator<Item = _> + Send> = if together {
            let open = Arc::new(open);
            let whole = move |file| open(file, 1)?.1.collect::<Result<Vec<_>, Error>>();
            let read = InOrder::new(workers, all, || whole.clone());
            Box::new(read.map(|whole| whole.map(|batches| (None, Box::new(batches.into_iter().map(Ok)) as Batches))))
        } else {
            Box::new(all.map(move |file| open(file, workers)))
        };
        Self { inner: inner.clone(), files, places, schema, file: 0, rows: 0, now: None }
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        let inner = &self.inner;
        loop {
            let Some((table, batches)) = &mut self.now else {
                match self.files.next().transpose()? {
                    None => return inner.source.check().map(|()| None),
                    read => (self.rows, self.now) = (0, read),
                }
                continue;
            };
            let next = batches.next().transpose()?;
            let listed = &inner.listing.files[self.file];
            let read = table.as_ref().map_or(listed.stamp.bytes(), |table| table.bytes_read());
            inner.source.has_read(listed.start + read);
            match next {
                Some(batch) => {
                    self.rows += batch.num_rows() as u64;
                    let part = &inner.parts[self.file];
                    if !part.whole.load(Relaxed) {
                        part.rows.fetch_max(self.rows, Relaxed);
                    }
                    return inner.batch(self.file, &batch, &self.places, &self.schema).map(Some);
                }
                None => {
                    inner.has(self.file, self.rows)?;
                    (self.file, self.now) = (self.file + 1, None);
                }
            }
        }
    }
}

impl Table for Dataset {
    fn facts(&self) -> Facts<'_> {
        let inner = &*self.inner;
        Facts {
            path: &inner.name,
            source: Some(&inner.source),
            columns: &inner.columns,
            schema: &inner.schema,
            format: inner.format,
            rows: (inner.uncounted.load(Acquire) == 0).then(|| inner.total.load(Relaxed)),
            header: self.header.as_ref(),
            stored: self.stored.as_ref(),
        }
    }

    fn file_ends(&self, workers: usize) -> Result<Vec<u64>, Error> {
        let mut end = 0;
        let ends = (0..self.inner.parts.len()).map(|file| {
            end += self.inner.counted(file, workers)?;
            Ok(end)
        });
        ends.collect()
    }

    fn texts(&self, keys: &[String], values: &[String], workers: usize) -> Result<Batches, Error> {
        let inner = &self.inner;
        let places = table::places(&inner.name, &inner.columns, &[keys, values].concat())?;
        let (of_keys, of_values) = places.split_at(keys.len());
        text::check_keys(&inner.name, of_keys.iter().map(|&i| inner.schema.field(i)))?;
        text::check_values(&inner.name, of_values.iter().map(|&i| inner.schema.field(i)))?;
        inner.source.begin()?;
        let own = |places: &[usize]| -> Vec<String> {
            let own = places.iter().filter(|&&place| place < inner.own);
            own.map(|&place| inner.columns[place].name.clone()).collect()
        };
        let (own_keys, own_values) = (own(of_keys), own(of_values));
        if own_keys.is_empty() {
            let why =
                "gives all rows of a file one key, as its key columns are folders; name a column of the files, too";
            return Err(Error::Listing { path: inner.name.clone(), why: why.to_owned() });
        }
        let (places, _) = inner.parted(&places);
        let mut pass = Pass::new(inner, [own_keys, own_values], workers, places, text::schema(keys, values));
        let mut ended = false;
        Ok(Box::new(std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let batch = pass.batch().transpose();
            ended = !matches!(batch, Some(Ok(_)));
            batch
        })))
    }

    fn select(&self, rows: &mut RowIds<'_>, selection: Selection<'_>, emit: &mut Emit<'_>) -> Result<(), Error> {
        let Selection { form, columns, workers } = selection;
        let inner = &*self.inner;
        if form == Form::Verbatim && self.header.is_none() {
            return Err(Error::Bug("verbatim rows of files that have none".into()));
        }
        inner.source.begin()?;
        let schema = Arc::new(inner.schema.project(columns).map_err(|e| Error::Bug(e.to_string()))?);
        let (places, asked) = inner.parted(columns);
        let mut left = Left { next: rows.next().transpose()?, rows, first: 0, end: 0 };
        let read = |file: usize, rows: &mut RowIds<'_>, workers, emit: &mut Emit<'_>| {
            inner.table(file)?.select(rows, Selection { form, columns: &asked, workers }, &mut |batch| match form {
                Form::Verbatim => emit(batch),
                Form::Arrow => emit(inner.batch(file, &batch, &places, &schema)?),
            })
        };
        let all = 0..inner.parts.len();
        let small = |(rows, whole)| whole && rows <= SMALL_ROWS;
        if workers > 1 && all.clone().all(|file| small(inner.rows(file))) {
            let mut all = all;
            let next = || -> Result<Option<(usize, Vec<RowId>)>, Error> {
                for file in all.by_ref() {
                    left.turn(inner.rows(file).0);
                    let rows: Vec<RowId> = left.by_ref().collect::<Result<_, _>>()?;
                    if !rows.is_empty() {
                        return Ok(Some((file, rows)));
                    }
                }
                Ok(None)
            };
            let work = |(file, rows): (usize, Vec<RowId>), emit: &mut Emit<'_>| {
                read(file, &mut rows.into_iter().map(Ok), 1, emit)
            };
            in_turn(workers, next, work, emit)?;
        } else {
            for file in all {
                if left.next.is_none() {
                    break;
                }
                left.turn(inner.counted(file, workers)?);
                if left.next.is_some_and(|row| row.0 < left.end) {
                    read(file, &mut left, workers, &mut *emit)?;
                }
            }
        }
        if let Some(RowId(row)) = left.next {
            let what = format!("row {} is not there any more", row + 1);
            return Err(Error::Changed { path: inner.name.clone(), what });
        }
        inner.source.check()
    }
}

/// The rows that are left, of which a file is given its own.
struct Left<'a> {
    next: Option<RowId>,
    rows: &'a mut dyn Iterator<Item = Result<RowId, Error>>,
    /// The first row of the file, and the first behind it.
    first: u64,
    end: u64,
}

impl Left<'_> {
    /// Turns to the next file, which has so many rows.
    fn turn(&mut self, rows: u64) {
        (self.first, self.end) = (self.end, self.end + rows);
    }
}

impl Iterator for Left<'_> {
    type Item = Result<RowId, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let RowId(row) = self.next.filter(|row| row.0 < self.end)?;
        let Some(own) = row.checked_sub(self.first) else {
            return Some(Err(Error::Bug("rows to select do not ascend".into())));
        };
        match self.rows.next().transpose() {
            Ok(next) => self.next = next,
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(RowId(own)))
    }
}
