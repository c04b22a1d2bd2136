use crate::open::{Cursor, Magic};
use crate::scan::{Fields, Mark, Scanner, Want};
use crate::table::{self, Header};
use crate::{Batches, Column, Error, Form, Format, InOrder, Source, Table};
use arrow_array::{ArrayRef, LargeBinaryArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use memchr::memchr;
use std::io::{BufReader, Read};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, LazyLock, OnceLock};
use vesica_types::RowId;

/// A batch ends at the first of these.
const BATCH_ROWS: usize = 16 << 10;
const BATCH_BYTES: usize = 2 << 20;

/// The least bytes of a stretch, and the most that are looked at for the line feed that ends it. So a stretch stays in the
/// second-level cache.
const STRETCH: u64 = 256 << 10;

/// Bytes that are looked at together for a line feed.
const LOOK: usize = 4 << 10;

/// Where more bytes than this stand between two marks, because rows are long, fewer workers read.
const LONG: usize = 2 << 20;

/// Batches that a worker may be ahead, tasks that it may have, and rows in a task.
const BATCHES: usize = 2;
const TASKS: usize = 2;
const TASK_ROWS: usize = 1 << 15;

/// The number of rows when no pass has come to the end yet.
const UNKNOWN: u64 = u64::MAX;

/// The schema of [`Form::Verbatim`].
pub(crate) static VERBATIM: LazyLock<SchemaRef> =
    LazyLock::new(|| Arc::new(Schema::new(vec![Field::new("row", DataType::LargeBinary, true)])));

/// A CSV file.
pub(crate) struct CsvTable {
    source: Arc<Source>,
    packing: Packing,
    columns: Vec<Column>,
    schema: SchemaRef,
    header: Header,
    rows: Arc<AtomicU64>,
    /// Where the rows of each stretch begin, once a pass over an uncompressed file has come to the end.
    marks: Arc<OnceLock<Vec<Mark>>>,
    stretch: u64,
}

/// Rows to take from what stands between two marks.
struct Task {
    from: Mark,
    /// Bytes that it has.
    bytes: u64,
    rows: Vec<RowId>,
}

/// What a worker answers: batches, and then `None` at the end of each task.
type Answer = Result<Option<RecordBatch>, Error>;

/// How a file is compressed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    /// What the name of a file says.
    pub(crate) fn of(path: &std::path::Path) -> Self {
        let name = path.file_name().map(|n| n.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        if name.ends_with(".gz") {
            Packing::Gzip
        } else if name.ends_with(".zst") {
            Packing::Zstd
        } else {
            Packing::None
        }
    }
}

impl CsvTable {
    pub(crate) fn open(source: Arc<Source>) -> Result<Self, Error> {
        let mut magic = [0; 4];
        let n = source.peek(&mut magic)?;
        // What the file is counts, not what it is called; but a name that promises compression and a file that has
        // none is probably a failed download.
        let packing = match Magic::of(&magic[..n]) {
            Magic::Gzip => Packing::Gzip,
            Magic::Zstd => Packing::Zstd,
            _ => Packing::None,
        };
        let named = Packing::of(source.path());
        if packing == Packing::None && named != Packing::None && n > 0 {
            let why = format!("it is no {} file", if named == Packing::Gzip { "gzip" } else { "zstd" });
            return Err(Error::Corrupt { path: source.path().to_owned(), why });
        }
        let mut scanner = scanner(&source, packing)?;
        let bom = scanner.bom()?;
        let mut fields = Fields::default();
        let no_header = || Error::NoHeader { path: source.path().to_owned() };
        let row = scanner.next(Want::Header, &mut fields)?.ok_or_else(no_header)?;
        let (text, newline) = row.raw.split_at(row.raw.len() - row.ending);
        if text.is_empty() {
            return Err(no_header());
        }
        let newline = if newline.is_empty() { b"\n" } else { newline };
        let bom: &[u8] = if bom { b"\xef\xbb\xbf" } else { b"" };
        let header = Header { bytes: [bom, text, newline].concat(), newline: newline.to_owned() };
        let columns = (0..row.fields())
            .map(|i| match std::str::from_utf8(row.field(i)) {
                Ok(name) => Ok(Column { name: name.to_owned(), kind: "text".into() }),
                Err(_) => Err(Error::HeaderText { path: source.path().to_owned(), place: i + 1 }),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let schema =
            Schema::new(columns.iter().map(|c| Field::new(&c.name, DataType::Utf8, false)).collect::<Vec<_>>());
        let rows = Arc::new(AtomicU64::new(UNKNOWN));
        let (schema, marks) = (Arc::new(schema), Arc::new(OnceLock::new()));
        Ok(Self { source, packing, columns, schema, header, rows, marks, stretch: STRETCH })
    }

    /// A scanner behind the header.
    fn scan(&self) -> Result<Scanner, Error> {
        self.source.begin()?;
        let mut scanner = scanner(&self.source, self.packing)?;
        scanner.bom()?;
        scanner.next(Want::Header, &mut Fields::default())?;
        Ok(scanner)
    }
}

fn scanner(source: &Arc<Source>, packing: Packing) -> Result<Scanner, Error> {
    let file = Cursor::new(source, 0);
    let buffered = |file| BufReader::with_capacity(256 << 10, file);
    let input: Box<dyn Read + Send> = match packing {
        Packing::None => Box::new(file),
        Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(buffered(file))),
        Packing::Zstd => {
            Box::new(zstd::Decoder::with_buffer(buffered(file)).map_err(|e| Error::reading(source.path(), e))?)
        }
    };
    Ok(Scanner::new(source.clone(), input, packing != Packing::None))
}

impl Table for CsvTable {
    fn source(&self) -> &Source {
        &self.source
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn format(&self) -> Format {
        Format::Csv
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows.load(Relaxed)).filter(|&n| n != UNKNOWN)
    }

    fn header(&self) -> Option<&Header> {
        Some(&self.header)
    }

    fn keys(&self, columns: &[String], workers: usize) -> Result<Batches, Error> {
        let places = table::places(&self.source, &self.columns, columns)?;
        let fields: Vec<_> = places.iter().map(|&i| Field::new(&self.columns[i].name, DataType::Utf8, false)).collect();
        let reader = Reader {
            source: self.source.clone(),
            want: Want::Rows { columns: self.columns.len(), fields: places.iter().map(|i| i + 1).max().unwrap_or(0) },
            places,
            schema: Arc::new(Schema::new(fields)),
        };
        let scanner = self.scan()?;
        let (at, size, packed) = (scanner.mark(), self.stretch, self.packing != Packing::None);
        let ahead = {
            let reader = reader.clone();
            move || reader.ahead(at.offset, size, workers)
        };
        // All of a compressed file, which cannot be read from the middle; of others, what comes behind the end that the
        // system tells, which is nothing in almost all file systems.
        let rest = Stretch { from: at.offset, to: u64::MAX, whole: false };
        let ahead = (!packed).then(|| std::iter::once_with(ahead).flatten());
        let mut keys = Keys {
            stretches: Box::new(ahead.into_iter().flatten().chain(std::iter::once(Ok((rest, None))))),
            texts: Texts::new(reader.schema.clone()),
            reader,
            rows: self.rows.clone(),
            index: (!packed).then(|| self.marks.clone()),
            marks: Vec::new(),
            at,
            until: 0,
            scanner: Some(scanner),
            fields: Fields::default(),
        };
        let mut ended = false;
        Ok(Box::new(std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let batch = keys.batch().transpose();
            ended = !matches!(batch, Some(Ok(_)));
            batch
        })))
    }

    fn select(
        &self,
        rows: &mut dyn Iterator<Item = Result<RowId, Error>>,
        form: Form,
        columns: &[usize],
        workers: usize,
        emit: &mut dyn FnMut(RecordBatch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self.marks.get() {
            Some(marks) => self.pick_everywhere(marks, rows, form, columns, workers, emit)?,
            None => self.pick(self.scan()?, rows, form, columns, emit)?,
        }
        self.source.check()
    }
}

impl CsvTable {
    /// Hands `rows` of what `scanner` reads to `emit`.
    fn pick(
        &self,
        mut scanner: Scanner,
        rows: &mut dyn Iterator<Item = Result<RowId, Error>>,
        form: Form,
        places: &[usize],
        emit: &mut dyn FnMut(RecordBatch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let columns = self.columns.len();
        let want = match form {
            Form::Verbatim => Want::Bounds { columns },
            Form::Arrow => Want::Rows { columns, fields: places.iter().map(|i| i + 1).max().unwrap_or(0) },
        };
        let mut fields = Fields::default();
        let mut lines = Lines::default();
        let schema = self.schema.project(places).map_err(|e| Error::Bug(e.to_string()))?;
        let mut texts = Texts::new(Arc::new(schema));
        let mut at = scanner.rows();
        let mut wanted = rows.next().transpose()?;
        while let Some(RowId(this)) = wanted {
            if this < at {
                return Err(Error::Bug("rows to select do not ascend".into()));
            }
            while at < this && scanner.next(Want::Bounds { columns }, &mut fields)?.is_some() {
                at += 1;
            }
            let Some(row) = scanner.next(want, &mut fields)?.filter(|_| at == this) else {
                let what = format!("row {} is not there any more", this + 1);
                return Err(Error::Changed { path: self.source.path().to_owned(), what });
            };
            at += 1;
            while wanted == Some(RowId(this)) {
                match form {
                    Form::Verbatim => {
                        lines.push(row.raw, if row.ending == 0 { &self.header.newline } else { b"" });
                        if lines.full() {
                            emit(lines.batch()?)?;
                        }
                    }
                    Form::Arrow => {
                        texts.push(row.place, places.iter().map(|&i| row.field(i)));
                        if texts.full() {
                            emit(texts.batch(&self.source)?)?;
                        }
                    }
                }
                wanted = rows.next().transpose()?;
            }
        }
        if !lines.is_empty() {
            emit(lines.batch()?)?;
        }
        if !texts.is_empty() {
            emit(texts.batch(&self.source)?)?;
        }
        Ok(())
    }

    /// Hands `rows` to `emit`, in `workers` segments at a time. Segments of which no row is wanted are not read.
    fn pick_everywhere(
        &self,
        marks: &[Mark],
        rows: &mut dyn Iterator<Item = Result<RowId, Error>>,
        form: Form,
        places: &[usize],
        workers: usize,
        emit: &mut dyn FnMut(RecordBatch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.source.begin()?;
        // A reader may have to hold what stands between two marks more than once.
        let longest = marks.windows(2).map(|pair| pair[1].offset - pair[0].offset).max().unwrap_or(0);
        let workers = workers * LONG / usize::try_from(longest).unwrap_or(usize::MAX).max(LONG);
        let mut tasks = Tasks { marks, wanted: rows.next().transpose()?, rows };
        std::thread::scope(|scope| {
            // A worker ends when nobody gives it tasks or takes its answers.
            let work = |todo: Receiver<Task>, done: SyncSender<Answer>| {
                for Task { from, bytes, rows } in todo {
                    let input = Box::new(Cursor::new(&self.source, from.offset).take(bytes));
                    let scanner = Scanner::at(from, self.source.clone(), input);
                    let gone = |_| Error::Bug("nobody takes the rows".into());
                    let mut emit = |batch| done.send(Ok(Some(batch))).map_err(gone);
                    let ended = self.pick(scanner, &mut rows.into_iter().map(Ok), form, places, &mut emit);
                    if done.send(ended.map(|()| None)).is_err() {
                        return;
                    }
                }
            };
            let workers: Vec<_> = (0..workers.max(1))
                .map(|_| {
                    let (task, todo) = sync_channel(TASKS);
                    let (done, answers) = sync_channel(BATCHES);
                    scope.spawn(move || work(todo, done));
                    (task, answers)
                })
                .collect();
            let dead = || Error::Bug("a worker has ended before its rows".into());
            // Tasks go round, and so do answers: batches and errors come in order of rows.
            let (mut given, mut taken) = (0, 0);
            loop {
                while given < taken + TASKS * workers.len()
                    && let Some(task) = tasks.next()?
                {
                    workers[given % workers.len()].0.send(task).map_err(|_| dead())?;
                    given += 1;
                }
                if taken == given {
                    return Ok(());
                }
                while let Some(batch) = workers[taken % workers.len()].1.recv().map_err(|_| dead())?? {
                    emit(batch)?;
                }
                taken += 1;
            }
        })
    }
}

/// Cuts the rows that are wanted into tasks.
struct Tasks<'a> {
    marks: &'a [Mark],
    wanted: Option<RowId>,
    rows: &'a mut dyn Iterator<Item = Result<RowId, Error>>,
}

impl Tasks<'_> {
    fn next(&mut self) -> Result<Option<Task>, Error> {
        let Some(first) = self.wanted else { return Ok(None) };
        // The first mark is at row 0.
        let end = self.marks.partition_point(|mark| mark.row <= first.0);
        let from = self.marks[end - 1];
        let (bytes, beyond) = self.marks.get(end).map_or((u64::MAX, u64::MAX), |to| (to.offset - from.offset, to.row));
        let mut rows = Vec::new();
        while let Some(row) = self.wanted.filter(|row| row.0 < beyond && rows.len() < TASK_ROWS) {
            rows.push(row);
            self.wanted = self.rows.next().transpose()?;
            if self.wanted.is_some_and(|next| next < row) {
                return Err(Error::Bug("rows to select do not ascend".into()));
            }
        }
        Ok(Some(Task { from, bytes, rows }))
    }
}

/// Bytes of a file, from behind one line feed to behind another if `whole`.
#[derive(Clone, Copy)]
struct Stretch {
    from: u64,
    to: u64,
    whole: bool,
}

/// The rows of a stretch, if a row begins with it. `end` is where they do, counted from its beginning but for the offset.
struct Rows {
    batch: RecordBatch,
    end: Mark,
}

/// What was read of a stretch without knowing what stands before it: nothing, if that went wrong.
type Guess = Result<(Stretch, Option<Rows>), Error>;

/// The first pass.
///
/// Where rows begin cannot be known in the middle of a file: a line feed may stand in quotes. So several threads read
/// ahead, from line feed to line feed, as if a row began behind each. What is known follows them: where they guessed right,
/// which is almost everywhere, it takes what they read; where they did not, or met an error, it reads again.
struct Keys {
    stretches: Box<dyn Iterator<Item = Guess> + Send>,
    reader: Reader,
    rows: Arc<AtomicU64>,
    /// The marks of the whole file, set at its end, and those so far.
    index: Option<Arc<OnceLock<Vec<Mark>>>>,
    marks: Vec<Mark>,
    /// Where the next row begins.
    at: Mark,
    /// Nobody has read ahead the rows that begin before this place. The scanner does, from `at` on.
    until: u64,
    scanner: Option<Scanner>,
    fields: Fields,
    texts: Texts,
}

impl Keys {
    fn batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            if self.at.offset < self.until
                && let Some(batch) = self.scan()?
            {
                return Ok(Some(batch));
            }
            let Some((stretch, rows)) = self.stretches.next().transpose()? else { return self.end().map(|()| None) };
            if stretch.to <= self.at.offset {
                continue;
            }
            self.marks.push(self.at);
            let Some(Rows { batch, end }) = rows.filter(|_| stretch.from == self.at.offset) else {
                self.until = stretch.to;
                continue;
            };
            self.scanner = None;
            self.at = Mark { offset: end.offset, row: self.at.row + end.row, line: self.at.line + end.line };
            self.reader.source.has_read(end.offset);
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
    }

    /// A batch of the rows that begin before `until`, if there are more.
    fn scan(&mut self) -> Result<Option<RecordBatch>, Error> {
        let Self { at, reader: Reader { source, want, places, .. }, texts, fields, .. } = self;
        let open = || {
            source.has_read(at.offset);
            Scanner::at(*at, source.clone(), Box::new(Cursor::new(source, at.offset)))
        };
        let scanner = self.scanner.get_or_insert_with(open);
        while scanner.mark().offset < self.until && !texts.full() {
            match scanner.next(*want, fields) {
                Ok(Some(row)) => texts.push(row.place, places.iter().map(|&i| row.field(i))),
                Ok(None) => break,
                // What is wrong with the rows before is told first.
                Err(error) => return texts.batch(source).and(Err(error)),
            }
        }
        *at = scanner.mark();
        if texts.is_empty() { Ok(None) } else { texts.batch(source).map(Some) }
    }

    /// The end of the file, which must be what it was.
    fn end(&mut self) -> Result<(), Error> {
        let source = &self.reader.source;
        source.check()?;
        let rows = self.at.row;
        let before = self.rows.swap(rows, Relaxed);
        if before != UNKNOWN && before != rows {
            let what = format!("it had {before} rows and now has {rows}");
            return Err(Error::Changed { path: source.path().to_owned(), what });
        }
        if let Some(index) = &self.index {
            // A pass before this one has found the same.
            let _ = index.set(std::mem::take(&mut self.marks));
        }
        Ok(())
    }
}

/// Which columns are read.
#[derive(Clone)]
struct Reader {
    source: Arc<Source>,
    want: Want,
    places: Vec<usize>,
    schema: SchemaRef,
}

impl Reader {
    /// Reads ahead on `workers` threads, from byte `at` on, stretches of `size` bytes or a little more.
    fn ahead(self, at: u64, size: u64, workers: usize) -> InOrder<Guess> {
        let stretches = Stretches { source: self.source.clone(), at, size };
        InOrder::new(workers, stretches, || {
            let reader = self.clone();
            let mut scanner = Scanner::new(reader.source.clone(), Box::new(std::io::empty()), false);
            let mut texts = Texts::new(reader.schema.clone());
            move |stretch: Result<Stretch, Error>| {
                let stretch = stretch?;
                let rows = if stretch.whole { reader.guess(stretch, &mut scanner, &mut texts) } else { None };
                if rows.is_none() {
                    texts = Texts::new(reader.schema.clone());
                }
                Ok((stretch, rows))
            }
        })
    }

    /// The rows of `stretch`, if one begins with it, and nothing is wrong with them.
    fn guess(&self, Stretch { from, to, .. }: Stretch, scanner: &mut Scanner, texts: &mut Texts) -> Option<Rows> {
        let input = Cursor::ahead(&self.source, from).take(to - from);
        scanner.go_on(Mark { offset: from, row: 0, line: 0 }, Box::new(input));
        let mut fields = Fields::default();
        while let Some(row) = scanner.next(self.want, &mut fields).ok()? {
            texts.push(row.place, self.places.iter().map(|&i| row.field(i)));
        }
        let (batch, end) = (texts.batch(&self.source).ok()?, scanner.mark());
        (end.offset == to).then_some(Rows { batch, end })
    }
}

/// The stretches of a file.
struct Stretches {
    source: Arc<Source>,
    /// Where the next one begins, and the bytes that it has at least.
    at: u64,
    size: u64,
}

impl Iterator for Stretches {
    type Item = Result<Stretch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let (from, end) = (self.at, self.source.bytes());
        if from >= end {
            return None;
        }
        let stretch = self.line_feed(from + self.size - 1, end).map(|found| {
            let to = found.unwrap_or(from.saturating_add(2 * self.size)).min(end);
            Stretch { from, to, whole: found.is_some() || to == end }
        });
        self.at = stretch.as_ref().map_or(end, |stretch| stretch.to);
        Some(stretch)
    }
}

impl Stretches {
    /// The place behind the first line feed from byte `at` on, if it is within `size` bytes.
    fn line_feed(&self, at: u64, end: u64) -> Result<Option<u64>, Error> {
        let beyond = end.min(at + self.size);
        let mut look = [0; LOOK];
        let mut from = at;
        while from < beyond {
            let n = self.source.read_at(&mut look[..LOOK.min((beyond - from) as usize)], from)?;
            if let Some(found) = memchr(b'\n', &look[..n]) {
                return Ok(Some(from + found as u64 + 1));
            }
            if n == 0 {
                break;
            }
            from += n as u64;
        }
        Ok(None)
    }
}

/// Columns of text that grow row by row.
struct Texts {
    schema: SchemaRef,
    columns: Vec<(Vec<u8>, Vec<i32>)>,
    /// Row and line of each row, to say where a text is bad.
    places: Vec<(u64, u64)>,
    bytes: usize,
}

impl Texts {
    fn new(schema: SchemaRef) -> Self {
        let columns = schema.fields().iter().map(|_| (Vec::new(), vec![0])).collect();
        Self { schema, columns, places: Vec::new(), bytes: 0 }
    }

    /// Appends a row. The bounds on rows and batches keep offsets within 32 bits.
    #[inline]
    fn push<'a>(&mut self, place: (u64, u64), fields: impl Iterator<Item = &'a [u8]>) {
        self.places.push(place);
        for ((text, ends), field) in self.columns.iter_mut().zip(fields) {
            text.extend_from_slice(field);
            ends.push(text.len() as i32);
            self.bytes += field.len() + size_of::<i32>();
        }
    }

    fn full(&self) -> bool {
        self.places.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// What has been pushed since the last batch.
    fn batch(&mut self, source: &Source) -> Result<RecordBatch, Error> {
        let take = |column: &mut (Vec<u8>, Vec<i32>)| {
            // The next batch will be about as large as this one.
            let mut next =
                (Vec::with_capacity(column.0.len() + column.0.len() / 8), Vec::with_capacity(column.1.len()));
            next.1.push(0);
            let (text, ends) = std::mem::replace(column, next);
            (OffsetBuffer::new(ScalarBuffer::from(ends)), Buffer::from_vec(text))
        };
        let columns: Vec<_> = self.columns.iter_mut().map(take).collect();
        let array = |(ends, text): &(OffsetBuffer<i32>, Buffer)| {
            StringArray::try_new(ends.clone(), text.clone(), None).map(|array| Arc::new(array) as ArrayRef)
        };
        let arrays =
            columns.iter().map(array).collect::<Result<_, _>>().map_err(|_| self.not_text(&columns, source))?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.places.len()));
        self.places.clear();
        self.bytes = 0;
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options).map_err(|e| Error::Bug(e.to_string()))
    }

    /// The error for the first row that has a text which is none.
    fn not_text(&self, columns: &[(OffsetBuffer<i32>, Buffer)], source: &Source) -> Error {
        for (row, &place) in self.places.iter().enumerate() {
            for ((ends, text), field) in columns.iter().zip(self.schema.fields()) {
                if std::str::from_utf8(&text[ends[row] as usize..ends[row + 1] as usize]).is_err() {
                    let (path, column) = (source.path().to_owned(), field.name().clone());
                    return Error::NotText { path, row: place.0, line: place.1, column };
                }
            }
        }
        Error::Bug("texts that are UTF-8 one by one but not together".into())
    }
}

/// Verbatim rows that grow one by one.
pub(crate) struct Lines {
    bytes: Vec<u8>,
    ends: Vec<i64>,
    /// Which rows are there; empty if all are.
    present: Vec<bool>,
}

impl Default for Lines {
    fn default() -> Self {
        Self { bytes: Vec::new(), ends: vec![0], present: Vec::new() }
    }
}

impl Lines {
    /// Appends a row and what is to stand behind it.
    #[inline]
    pub(crate) fn push(&mut self, row: &[u8], newline: &[u8]) {
        self.bytes.extend_from_slice(row);
        self.bytes.extend_from_slice(newline);
        self.ends.push(self.bytes.len() as i64);
        if !self.present.is_empty() {
            self.present.push(true);
        }
    }

    /// Appends an absent row.
    pub(crate) fn push_absent(&mut self) {
        if self.present.is_empty() {
            self.present.resize(self.ends.len() - 1, true);
        }
        self.ends.push(self.bytes.len() as i64);
        self.present.push(false);
    }

    pub(crate) fn full(&self) -> bool {
        self.ends.len() > BATCH_ROWS || self.bytes.len() >= BATCH_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.len() == 1
    }

    /// The rows since the last batch.
    pub(crate) fn batch(&mut self) -> Result<RecordBatch, Error> {
        let lines = std::mem::take(self);
        let nulls = (!lines.present.is_empty()).then(|| NullBuffer::from(lines.present));
        let ends = OffsetBuffer::new(ScalarBuffer::from(lines.ends));
        let bug = |e: arrow_schema::ArrowError| Error::Bug(e.to_string());
        let rows = LargeBinaryArray::try_new(ends, Buffer::from_vec(lines.bytes), nulls).map_err(bug)?;
        RecordBatch::try_new(VERBATIM.clone(), vec![Arc::new(rows)]).map_err(bug)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;
    use arrow_array::cast::AsArray;
    use proptest::prelude::*;

    fn table(path: &std::path::Path, stretch: u64) -> CsvTable {
        CsvTable { stretch, ..CsvTable::open(Source::open(&Input::new(path)).unwrap()).unwrap() }
    }

    /// Reads the table whole, which leaves an index.
    fn index(table: &CsvTable) -> u64 {
        table.keys(&["k".into()], 3).unwrap().map(|batch| batch.unwrap().num_rows() as u64).sum()
    }

    /// The rows, or the error instead of them.
    fn select(table: &CsvTable, rows: &[u64], form: Form, workers: usize) -> Result<Vec<Vec<u8>>, String> {
        let mut out = Vec::new();
        let mut emit = |batch: RecordBatch| {
            let columns = batch.columns().iter().map(|c| arrow_cast::cast(c, &DataType::LargeBinary).unwrap());
            let columns: Vec<_> = columns.collect();
            let cell = |c: &ArrayRef, i| c.as_binary::<i64>().value(i).to_vec();
            out.extend((0..batch.num_rows()).flat_map(|i| columns.iter().map(move |c| cell(c, i)).collect::<Vec<_>>()));
            Ok(())
        };
        let columns: &[usize] = if form == Form::Arrow { &[1, 0] } else { &[] };
        let mut rows = rows.iter().map(|&row| Ok(RowId(row)));
        let selected = table.select(&mut rows, form, columns, workers, &mut emit);
        selected.map(|()| out).map_err(|e| e.to_string())
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let field = prop_oneof![
            8 => Just(&b"v"[..]),
            2 => Just(&b""[..]),
            2 => Just(&b"\"x\ny,\""[..]),
            2 => Just(&b"\"x\r\n\"\"y\""[..]),
            1 => Just(&b"a \" b"[..]),
            1 => Just(&[b'z'; 100][..]),
        ];
        let last = prop_oneof![8 => field.clone(), 1 => Just(&b"\xff"[..])];
        let ending = prop_oneof![4 => Just(&b"\n"[..]), 2 => Just(&b"\r\n"[..]), 1 => Just(&b"\n\n"[..])];
        let row = (field, last, ending).prop_map(|(key, value, ending)| [key, b",", value, ending].concat());
        (prop::collection::vec(row, 1..40), any::<bool>()).prop_map(|(rows, cut)| {
            let mut text = [&b"k,v\n"[..], &rows.concat()].concat();
            if cut {
                text.truncate(text.trim_ascii_end().len());
            }
            text
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn an_index_changes_nothing_but_the_time(
            text in text(),
            mut picks in prop::collection::vec(any::<prop::sample::Index>(), 0..100),
            stretch in 1u64..400,
            workers in 1usize..5,
            beyond in prop::bool::weighted(0.1),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("in.csv");
            std::fs::write(&path, &text).unwrap();
            let plain = table(&path, stretch);
            let indexed = table(&path, stretch);
            let n = index(&indexed);
            let marks = indexed.marks.get().unwrap();
            prop_assert!(marks.is_sorted_by_key(|mark| (mark.row, mark.offset)) && marks.iter().all(|mark| mark.row <= n));
            prop_assert!(n == 0 || marks[0].row == 0);
            picks.sort_by_key(|pick| pick.index(n as usize));
            let mut picks: Vec<u64> = picks.iter().map(|pick| pick.index(n as usize) as u64).collect();
            if beyond {
                picks.push(n);
            }
            for form in [Form::Verbatim, Form::Arrow] {
                let (indexed, plain) = (select(&indexed, &picks, form, workers), select(&plain, &picks, form, workers));
                if beyond && form == Form::Arrow {
                    // A value that is not UTF-8 may be told first.
                    prop_assert!(indexed.is_err() && plain.is_err());
                } else {
                    prop_assert_eq!(&indexed, &plain);
                    prop_assert_eq!(indexed.is_err_and(|e| e.contains("not there any more")), beyond);
                }
            }
        }
    }

    /// The keys of all rows, and the error that ended them, by the file's name.
    fn keys(table: &CsvTable, columns: &[&str], workers: usize) -> (Vec<String>, Option<String>) {
        let columns: Vec<String> = columns.iter().map(|&name| name.to_owned()).collect();
        let mut found = Vec::new();
        for batch in table.keys(&columns, workers).unwrap() {
            match batch {
                Ok(batch) => {
                    let text = |column: &ArrayRef, row| column.as_string::<i32>().value(row).to_owned();
                    let row =
                        |row| batch.columns().iter().map(|column| text(column, row)).collect::<Vec<_>>().join("|");
                    found.extend((0..batch.num_rows()).map(row));
                }
                Err(error) => return (found, Some(error.to_string().replace(".zst", ""))),
            }
        }
        (found, None)
    }

    /// A table that may have anything in it.
    fn nasty() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            6 => Just(&b"a"[..]),
            6 => Just(&b","[..]),
            6 => Just(&b"b,c\n"[..]),
            2 => Just(&b"\n"[..]),
            2 => Just(&b"\r\n"[..]),
            1 => Just(&b"\r"[..]),
            1 => Just(&b"d,\"\n\n\"\n"[..]),
            1 => Just(&b"\"\n"[..]),
            1 => Just(&b"\"x,\r\n\"\"\","[..]),
            1 => Just(&b"\xff,\n"[..]),
            1 => Just(&b"\"d\ne\",\n"[..]),
        ];
        prop::collection::vec(piece, 0..60).prop_map(|pieces| [&b"k,v\n"[..], &pieces.concat()].concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// A compressed file is read from its front to its end.
        #[test]
        fn reading_ahead_changes_nothing_but_the_time(
            text in prop_oneof![nasty(), text()],
            stretch in 1u64..100,
            workers in 1usize..4,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let [plain, packed] = ["in.csv", "in.csv.zst"].map(|name| dir.path().join(name));
            std::fs::write(&plain, &text).unwrap();
            std::fs::write(&packed, zstd::encode_all(text.as_slice(), 1).unwrap()).unwrap();
            let [ahead, front] = [&plain, &packed].map(|path| table(path, stretch));
            let (mut found, error) = keys(&ahead, &["v", "k"], workers);
            let (mut expected, expected_error) = keys(&front, &["v", "k"], 1);
            if error.is_some() {
                // Batches before an error are given; how many is nobody's business.
                let both = found.len().min(expected.len());
                found.truncate(both);
                expected.truncate(both);
            }
            prop_assert_eq!((found, error), (expected, expected_error));
            prop_assert_eq!(ahead.rows(), front.rows());
        }
    }

    #[test]
    fn a_guess_that_is_wrong_costs_time_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in.csv");
        // Every stretch begins within quotes, with what looks like rows.
        let row = |i: u64| format!("{i},\"{}\"\n", "x,y\n".repeat(25));
        std::fs::write(&path, format!("k,v\n{}", (0..100).map(row).collect::<String>())).unwrap();
        let table = table(&path, 50);
        let (found, error) = keys(&table, &["k"], 3);
        assert_eq!(error, None);
        assert_eq!(found, (0..100).map(|i| i.to_string()).collect::<Vec<_>>());
        // And the rows can be found again.
        let rows = select(&table, &[0, 57, 99], Form::Verbatim, 2).unwrap();
        assert_eq!(rows, [0, 57, 99].map(|i| row(i).into_bytes()));
    }

    #[test]
    fn rows_come_in_order_however_often_they_are_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in.csv");
        let row = |i: u64| format!("{i},\"{i}\n\"\n");
        std::fs::write(&path, format!("k,v\n{}", (0..1000).map(row).collect::<String>())).unwrap();
        let table = table(&path, 50);
        assert_eq!(index(&table), 1000);
        let times = |i: u64| if i == 500 { 3 * TASK_ROWS } else { i as usize % 3 };
        let picks: Vec<u64> = (0..1000).flat_map(|i| std::iter::repeat_n(i, times(i))).collect();
        for workers in [1, 2, 3] {
            let rows = select(&table, &picks, Form::Verbatim, workers).unwrap();
            assert_eq!(rows.len(), picks.len());
            assert!(rows.iter().zip(&picks).all(|(found, &i)| found == row(i).as_bytes()));
        }
        let error = select(&table, &[3, 2], Form::Verbatim, 2).unwrap_err();
        assert!(error.contains("do not ascend"), "{error}");
        // An error of whoever takes the rows ends the workers too.
        let mut rows = (0..1000).map(|i| Ok(RowId(i)));
        let mut full = |_| Err(Error::Bug("full".into()));
        let error = table.select(&mut rows, Form::Verbatim, &[], 3, &mut full).unwrap_err();
        assert!(error.to_string().contains("full"), "{error}");
    }

    #[test]
    fn segments_without_wanted_rows_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in.csv");
        std::fs::write(&path, format!("k,v\n{}", (0..1000).map(|i| format!("{i},x\n")).collect::<String>())).unwrap();
        let table = table(&path, 50);
        index(&table);
        let rows = select(&table, &[15, 995], Form::Verbatim, 2).unwrap();
        assert_eq!(rows, [&b"15,x\n"[..], b"995,x\n"]);
        // Ten rows of five bytes, and the last seven of six.
        assert_eq!(table.bytes_read(), 92);
    }
}
