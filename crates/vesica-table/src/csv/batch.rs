//! Batches that grow row by row: columns of text, and verbatim rows.

use crate::{Error, Source};
use arrow_array::{ArrayRef, LargeBinaryArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::{Arc, LazyLock};

/// A batch ends at the first of these.
const BATCH_ROWS: usize = 16 << 10;
const BATCH_BYTES: usize = 2 << 20;

/// The schema of [`Form::Verbatim`](crate::Form::Verbatim).
pub(crate) static VERBATIM: LazyLock<SchemaRef> =
    LazyLock::new(|| Arc::new(Schema::new(vec![Field::new("row", DataType::LargeBinary, true)])));

/// Columns of text that grow row by row.
pub(super) struct Texts {
    schema: SchemaRef,
    columns: Vec<(Vec<u8>, Vec<i32>)>,
    /// Row and line of each row, to say where a text is bad.
    places: Vec<(u64, u64)>,
    bytes: usize,
}

impl Texts {
    pub(super) fn new(schema: SchemaRef) -> Self {
        let columns = schema.fields().iter().map(|_| (Vec::new(), vec![0])).collect();
        Self { schema, columns, places: Vec::new(), bytes: 0 }
    }

    /// Appends a row. The bounds on rows and batches keep offsets within 32 bits.
    #[inline]
    pub(super) fn push<'a>(&mut self, place: (u64, u64), fields: impl Iterator<Item = &'a [u8]>) {
        self.places.push(place);
        for ((text, ends), field) in self.columns.iter_mut().zip(fields) {
            text.extend_from_slice(field);
            ends.push(text.len() as i32);
            self.bytes += field.len() + size_of::<i32>();
        }
    }

    pub(super) fn full(&self) -> bool {
        self.places.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// What has been pushed since the last batch.
    pub(super) fn batch(&mut self, source: &Source) -> Result<RecordBatch, Error> {
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
