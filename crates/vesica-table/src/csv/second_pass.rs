//! The second pass over a CSV: the rows that matched. With marks from a first pass, several threads read what stands between
//! two marks; without them, one reads from the front.

use super::CsvTable;
use super::batch::{Lines, Texts};
use crate::in_turn::in_turn;
use crate::scan::{Fields, Mark, Scanner, Want};
use crate::source::Cursor;
use crate::{Emit, Error, Form, RowIds, Selection};
use std::io::Read;
use std::sync::Arc;
use vesica_types::RowId;

/// Where more bytes than this stand between two marks, because rows are long, fewer workers read.
const LONG: usize = 2 << 20;

/// Rows in a task.
pub(super) const TASK_ROWS: usize = 1 << 15;

impl CsvTable {
    /// Hands `rows` of what `scanner` reads to `emit`.
    pub(super) fn pick(
        &self,
        mut scanner: Scanner,
        rows: &mut RowIds<'_>,
        Selection { form, columns: places, .. }: Selection<'_>,
        emit: &mut Emit<'_>,
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

    /// Hands `rows` to `emit`, in several segments at a time. Segments of which no row is wanted are not read.
    pub(super) fn pick_everywhere(
        &self,
        marks: &[Mark],
        rows: &mut RowIds<'_>,
        selection: Selection<'_>,
        emit: &mut Emit<'_>,
    ) -> Result<(), Error> {
        self.source.begin()?;
        // A reader may have to hold what stands between two marks more than once.
        let longest = marks.windows(2).map(|pair| pair[1].offset - pair[0].offset).max().unwrap_or(0);
        let workers = selection.workers * LONG / usize::try_from(longest).unwrap_or(usize::MAX).max(LONG);
        let mut tasks = Tasks { marks, wanted: rows.next().transpose()?, rows };
        let work = |Task { from, bytes, rows }, emit: &mut Emit<'_>| {
            let input = Box::new(Cursor::new(&self.source, from.offset).take(bytes));
            let scanner = Scanner::at(from, self.source.clone(), input);
            self.pick(scanner, &mut rows.into_iter().map(Ok), selection, emit)
        };
        in_turn(workers, || tasks.next(), work, emit)
    }
}

/// Rows to take from what stands between two marks.
struct Task {
    from: Mark,
    /// Bytes that it has.
    bytes: u64,
    rows: Vec<RowId>,
}

/// Cuts the rows that are wanted into tasks.
struct Tasks<'a> {
    marks: &'a [Mark],
    wanted: Option<RowId>,
    rows: &'a mut RowIds<'a>,
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
