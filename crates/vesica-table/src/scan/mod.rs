//! Rows and fields of a CSV.
//!
//! Three tokenizers stand here, and a row is taken by the first that can. One is for rows of up to 64 bytes: where
//! commas, quotes and line ends stand is marked by a bit each when the buffer is filled, and a few operations on words
//! of such bits make a row. One finds the same bytes with `memchr`, which is better where rows are long. `csv-core` is
//! right by definition; it is left the rows that have a quoted field with a doubled quote in it or anything else out of
//! the ordinary. Tests hold them equal on random input.
//!
//! All read as Python's `csv` module does: fields are separated by commas; a field that begins with `"` ends at the
//! next `"` that is not doubled; a `"` elsewhere is a plain character; `\n`, `\r\n` and `\r` outside quotes end a row.
//! A line without any character is a row with one empty field if the table has one column, and no row otherwise:
//! nothing that it could hold is lost, and other readers do the same. (A line with too few fields is an error.)

mod exact;
mod plain;
mod short;
#[cfg(test)]
mod tests;

use crate::{Error, Source};
use exact::Exact;
use memchr::{memchr, memchr_iter};
use short::Marks;
use std::io::{self, Read};
use std::sync::Arc;

/// The longest row, in bytes. Longer ones are almost always a quote left open.
pub(crate) const MAX_ROW: usize = 64 << 20;

/// Bytes asked from the file at a time.
const CHUNK: usize = 256 << 10;

/// Marks pay where a row has at most this many bytes on average.
const SHORT: u64 = 128;

/// Splits a stream of bytes into rows.
pub(crate) struct Scanner {
    source: Arc<Source>,
    input: Box<dyn Read + Send>,
    /// Whether the input is decompressed on the way, so that errors of its own are damage to the file.
    packed: bool,
    /// What has been read and not yet been given out is `buf[start..end]`; `buf` begins at `base` in the input.
    buf: Vec<u8>,
    base: u64,
    start: usize,
    end: usize,
    eof: bool,
    /// The marks of `buf[..end]`, or of nothing.
    marks: Marks,
    /// Rows given out when the buffer was filled.
    filled: u64,
    /// Whether marks pay, if there is no row since to tell by.
    short: bool,
    /// Where in `buf` the next `"` and `\r` stand; `end` if there is none; out of date if below `start`.
    quote: usize,
    cr: usize,
    /// Rows given out, and the number of the row under way; 0 is the header.
    row: u64,
    reading: u64,
    /// Lines begun before `start`, so the line of the next row is one more.
    line: u64,
    /// The line of the row given out last.
    row_line: u64,
    exact: Exact,
    only_exact: bool,
    chunk: usize,
    max_row: usize,
}

/// A place between two rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    /// Bytes, rows (the header not counted) and lines before it.
    pub(crate) offset: u64,
    pub(crate) row: u64,
    pub(crate) line: u64,
}

/// The row that [`Scanner::next`] found.
pub(crate) struct Row<'a> {
    /// Its bytes, with its line ending if it has one.
    pub(crate) raw: &'a [u8],
    /// Bytes of the line ending.
    pub(crate) ending: usize,
    /// The row's number and its line, both from 1.
    pub(crate) place: (u64, u64),
    /// What the spans of the fields refer to.
    text: &'a [u8],
    spans: &'a [(usize, usize)],
}

impl<'a> Row<'a> {
    /// The number of fields that were asked for and are there.
    pub(crate) fn fields(&self) -> usize {
        self.spans.len()
    }

    /// Field `i`, without its quotes. Only fields that were asked for are there.
    pub(crate) fn field(&self, i: usize) -> &'a [u8] {
        let (from, to) = self.spans[i];
        &self.text[from..to]
    }
}

/// Spans of the fields of the current row; kept by the caller, so that rows can be borrowed from the scanner.
#[derive(Default)]
pub(crate) struct Fields {
    spans: Vec<(usize, usize)>,
}

/// What a caller needs of the rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// The header: any number of fields, all of them.
    Header,
    /// Rows of `columns` fields each, of which the first `fields` are needed.
    Rows { columns: usize, fields: usize },
    /// Rows of a table of `columns` columns that were checked in an earlier pass; only their bounds.
    Bounds { columns: usize },
}

impl Want {
    fn columns(self) -> Option<usize> {
        match self {
            Want::Header => None,
            Want::Rows { columns, .. } | Want::Bounds { columns } => Some(columns),
        }
    }
}

/// What a tokenizer says of the bytes before it.
enum Token {
    /// A whole row of `len` bytes, its line ending of `ending` included.
    Row { len: usize, ending: usize, fields: usize, by: By },
    /// The row goes on beyond the bytes there are.
    More,
    /// Not for this tokenizer.
    Odd,
}

/// Which tokenizer took a row: it says where the text of the fields is, and whether it may hold newlines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Short,
    Plain,
    Quoted,
    Exact,
}

impl Scanner {
    /// The rows of `input`, which comes from `source`.
    pub(crate) fn new(source: Arc<Source>, input: Box<dyn Read + Send>, packed: bool) -> Self {
        Self {
            source,
            input,
            packed,
            buf: vec![0; 2 * CHUNK],
            base: 0,
            start: 0,
            end: 0,
            eof: false,
            marks: Marks(Vec::new()),
            filled: 0,
            short: true,
            quote: 0,
            cr: 0,
            row: 0,
            reading: 0,
            line: 0,
            row_line: 0,
            exact: Exact::new(),
            only_exact: false,
            chunk: CHUNK,
            max_row: MAX_ROW,
        }
    }

    /// The rows from `mark` on; `input` begins there.
    pub(crate) fn at(mark: Mark, source: Arc<Source>, input: Box<dyn Read + Send>) -> Self {
        let mut scanner = Self::new(source, Box::new(io::empty()), false);
        scanner.go_on(mark, input);
        scanner
    }

    /// Goes on at `mark`, where `input` begins; rows are probably as long as those before.
    pub(crate) fn go_on(&mut self, mark: Mark, input: Box<dyn Read + Send>) {
        self.short = self.are_short();
        let Mark { offset, row, line } = mark;
        (self.base, self.row, self.line, self.filled) = (offset, row, line, row);
        (self.input, self.eof, self.start, self.end) = (input, false, 0, 0);
        if self.exact.fed > 0 || self.exact.ended {
            self.exact = Exact::new();
        }
        self.marks.0.clear();
    }

    /// Where the next row begins.
    pub(crate) fn mark(&self) -> Mark {
        Mark { offset: self.base + self.start as u64, row: self.row, line: self.line }
    }

    /// Takes a UTF-8 byte order mark off, if there is one.
    pub(crate) fn bom(&mut self) -> Result<bool, Error> {
        while self.end - self.start < 3 && !self.eof {
            self.fill()?;
        }
        let found = self.buf[self.start..self.end].starts_with(b"\xef\xbb\xbf");
        if found {
            self.start += 3;
        }
        Ok(found)
    }

    /// Rows given out, the header not counted.
    pub(crate) fn rows(&self) -> u64 {
        self.row
    }

    /// The next row; `None` at the end of the file.
    #[inline]
    pub(crate) fn next<'a>(&'a mut self, want: Want, fields: &'a mut Fields) -> Result<Option<Row<'a>>, Error> {
        let (len, ending, by) = match self.short(want, &mut fields.spans) {
            Some((len, ending)) => (len, ending, By::Short),
            None => match self.any(want, fields)? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let raw = &self.buf[self.start..self.start + len];
        self.start += len;
        let text = if by == By::Exact { self.exact.text.as_slice() } else { raw };
        Ok(Some(Row { raw, ending, place: (self.row, self.row_line), text, spans: &fields.spans }))
    }

    /// The next row by the other tokenizers: its length with its line ending, that of the line ending, and who took it.
    fn any(&mut self, want: Want, fields: &mut Fields) -> Result<Option<(usize, usize, By)>, Error> {
        loop {
            if self.start == self.end {
                if self.eof {
                    return Ok(None);
                }
                self.fill()?;
                continue;
            }
            self.reading = if want == Want::Header { 0 } else { self.row + 1 };
            match self.token(want, &mut fields.spans)? {
                Token::Row { len, .. } if len > self.max_row => return Err(self.too_long()),
                Token::Row { len, ending, fields, by } => {
                    self.row_line = self.line + 1;
                    self.line += 1;
                    if by != By::Plain {
                        let text = &self.buf[self.start..self.start + len - ending];
                        self.line += memchr_iter(b'\n', text).count() as u64;
                    }
                    if len == ending && want.columns().is_some_and(|columns| columns > 1) {
                        self.start += len;
                        continue;
                    }
                    self.row += u64::from(want != Want::Header);
                    if let Want::Rows { columns, .. } = want
                        && fields != columns
                    {
                        return Err(Error::Fields {
                            path: self.source.path().to_owned(),
                            row: self.row,
                            line: self.row_line,
                            got: fields,
                            want: columns,
                        });
                    }
                    return Ok(Some((len, ending, by)));
                }
                Token::More | Token::Odd => self.fill()?,
            }
        }
    }

    /// What the row before the cursor is, as far as the bytes that are there tell.
    #[inline]
    fn token(&mut self, want: Want, spans: &mut Vec<(usize, usize)>) -> Result<Token, Error> {
        // A row that `csv-core` has begun is its to finish.
        if self.exact.fed == 0 {
            let token = self.plain(want, spans);
            if !matches!(token, Token::Odd) {
                return Ok(token);
            }
        }
        let token = self.exact.row(&self.buf[self.start..self.end], self.eof, spans);
        if self.eof && matches!(token, Token::More) {
            return Err(Error::Quote { path: self.source.path().to_owned(), row: self.reading, line: self.line + 1 });
        }
        Ok(token)
    }

    /// Reads more, making room by moving what is left to the front or by growing.
    fn fill(&mut self) -> Result<(), Error> {
        let kept = self.end - self.start;
        if kept > self.max_row {
            return Err(self.too_long());
        }
        // Rows are probably as long as those since the buffer was filled the last time.
        self.short = self.are_short();
        self.filled = self.row;
        if self.buf.len() - self.end < self.chunk {
            self.buf.copy_within(self.start..self.end, 0);
            self.base += self.start as u64;
            self.start = 0;
            self.end = kept;
            if self.buf.len() - self.end < self.chunk {
                self.buf.resize(2 * self.buf.len(), 0);
            }
        }
        // Filled to the end, for a decompressor gives little at a time and every look at a long row begins at its front.
        while !self.eof && self.end < self.buf.len() {
            match self.input.read(&mut self.buf[self.end..]) {
                Ok(0) => self.eof = true,
                Ok(n) => self.end += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if self.packed && e.raw_os_error().is_none() => {
                    return Err(Error::Corrupt { path: self.source.path().to_owned(), why: e.to_string() });
                }
                Err(e) => return Err(Error::reading(self.source.path(), e)),
            }
        }
        self.marks.set(if self.short { &self.buf[..self.end] } else { b"" });
        self.quote = self.find(b'"');
        self.cr = self.find(b'\r');
        Ok(())
    }

    /// Whether the rows since the buffer was filled are so short that marks pay.
    fn are_short(&self) -> bool {
        if self.start == 0 { self.short } else { (self.row - self.filled + 1) * SHORT >= self.start as u64 }
    }

    /// The error for the row before the cursor.
    fn too_long(&self) -> Error {
        let path = self.source.path().to_owned();
        Error::TooLong { path, row: self.reading, line: self.line + 1, limit: self.max_row }
    }

    fn find(&self, needle: u8) -> usize {
        memchr(needle, &self.buf[self.start..self.end]).map_or(self.end, |i| self.start + i)
    }
}
