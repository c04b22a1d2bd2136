//! The first pass over a CSV: its key columns as text, and marks for the second.

use super::batch::Texts;
use super::{CsvTable, UNKNOWN};
use crate::format::Packing;
use crate::scan::{Fields, Mark, Scanner, Want};
use crate::source::Cursor;
use crate::{Batches, Error, InOrder, Source, table};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use memchr::memchr;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// The least bytes of a stretch, and the most that are looked at for the line feed that ends it. So a stretch stays in the
/// second-level cache.
pub(super) const STRETCH: u64 = 256 << 10;

/// Bytes that are looked at together for a line feed.
const LOOK: usize = 4 << 10;

impl CsvTable {
    /// Reads the key columns: the batches that [`Table::keys`](crate::Table::keys) promises.
    pub(super) fn first_pass(&self, columns: &[String], workers: usize) -> Result<Batches, Error> {
        let places = table::places(self.source.path(), &self.columns, columns)?;
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
