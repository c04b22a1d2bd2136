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

use crate::{Error, Source};
use csv_core::ReadRecordResult;
use memchr::{memchr, memchr_iter, memchr3};
use std::io::{self, Read};
use std::sync::Arc;
use wide::u8x64;

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

    /// The tokenizer for rows of up to 64 bytes and as many fields as there should be, in which no quote is doubled and
    /// no line end is quoted: the length of the row with its line ending, and that of the line ending.
    #[inline]
    fn short(&mut self, want: Want, spans: &mut Vec<(usize, usize)>) -> Option<(usize, usize)> {
        let [commas, quotes, ends] = self.marks.window(self.start)?;
        // Bits of quoted text, its opening quote included. They are right up to a quote within a plain field.
        let quoted = if quotes == 0 { 0 } else { parity(quotes) };
        let size = (ends & !quoted).trailing_zeros();
        let text = 1u64.checked_shl(size)? - 1;
        let size = size as usize;
        let ending = match self.buf[self.start + size..self.end] {
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            _ => return None,
        };
        let columns = want.columns()?;
        if ends & text != 0 || (size == 0 && columns > 1) || size + ending > self.max_row || self.only_exact {
            return None;
        }
        let (commas, quotes) = (commas & !quoted & text, quotes & text);
        if quotes != 0 {
            // A quote opens a field or closes it; a doubled one does neither.
            let (opens, closes) = (commas << 1 | 1, commas >> 1 | 1 << (size - 1));
            if quotes & quoted & !opens != 0 || quotes & !quoted & !closes != 0 {
                return None;
            }
        }
        if let Want::Rows { fields, .. } = want {
            if commas.count_ones() as usize + 1 != columns {
                return None;
            }
            spans.clear();
            let (mut from, mut rest) = (0, commas);
            for _ in 0..fields {
                let to = size.min(rest.trailing_zeros() as usize);
                let inner = (quotes >> from & 1) as usize;
                spans.push((from + inner, to - inner));
                from = to + 1;
                rest &= rest.wrapping_sub(1);
            }
        }
        self.row += 1;
        self.line += 1;
        self.row_line = self.line;
        Some((size + ending, ending))
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

    /// The tokenizer for rows without quotes.
    #[inline]
    fn plain(&mut self, want: Want, spans: &mut Vec<(usize, usize)>) -> Token {
        let bytes = &self.buf[self.start..self.end];
        let at = |cached: &mut usize, needle: u8| {
            if *cached < self.start {
                *cached = memchr(needle, bytes).map_or(self.end, |i| self.start + i);
            }
            *cached - self.start
        };
        let quote = at(&mut self.quote, b'"');
        let cr = at(&mut self.cr, b'\r');
        if self.only_exact && !matches!(bytes[0], b'\n' | b'\r') {
            return Token::Odd;
        }
        let newline = memchr(b'\n', &bytes[..quote.min(bytes.len())]);
        // Without a quote or a carriage return on the way, the row ends at the newline.
        let (row, len, ending) = match newline {
            Some(n) if cr > n => (n, n + 1, 1),
            Some(n) if cr + 1 == n => (cr, n + 1, 2),
            _ => {
                let end = cr.min(newline.unwrap_or(bytes.len()));
                if quote < end {
                    return self.quoted(want, spans);
                }
                match (end < bytes.len(), self.eof) {
                    // A carriage return that is the last byte so far may have a newline behind it.
                    (true, false) if end + 1 == bytes.len() => return Token::More,
                    (true, _) => (end, end + 1, 1),
                    (false, true) => (end, end, 0),
                    (false, false) => return Token::More,
                }
            }
        };
        let text = &bytes[..row];
        let fields = match want {
            Want::Bounds { .. } => 0,
            Want::Header => {
                spans.clear();
                let mut from = 0;
                for comma in memchr_iter(b',', text) {
                    spans.push((from, comma));
                    from = comma + 1;
                }
                spans.push((from, row));
                spans.len()
            }
            Want::Rows { fields, .. } => {
                spans.clear();
                let mut from = 0;
                loop {
                    if spans.len() == fields {
                        break spans.len() + 1 + memchr_iter(b',', &text[from..]).count();
                    }
                    match memchr(b',', &text[from..]) {
                        Some(i) => {
                            spans.push((from, from + i));
                            from += i + 1;
                        }
                        None => {
                            spans.push((from, row));
                            break spans.len();
                        }
                    }
                }
            }
        };
        Token::Row { len, ending, fields, by: By::Plain }
    }

    /// The tokenizer for rows with quotes of which none is doubled.
    fn quoted(&self, want: Want, spans: &mut Vec<(usize, usize)>) -> Token {
        let bytes = &self.buf[self.start..self.end];
        // An incomplete row goes to `csv-core`, which does not begin again when more bytes come.
        let short = if self.eof { Token::Odd } else { Token::More };
        let short = if bytes.len() > self.chunk { Token::Odd } else { short };
        let needed = match want {
            Want::Header => usize::MAX,
            Want::Rows { fields, .. } => fields,
            Want::Bounds { .. } => 0,
        };
        spans.clear();
        let (mut from, mut fields) = (0, 0);
        loop {
            let (span, end) = if bytes.get(from) == Some(&b'"') {
                let Some(close) = memchr(b'"', &bytes[from + 1..]).map(|i| from + 1 + i) else { return short };
                ((from + 1, close), close + 1)
            } else {
                let Some(end) = memchr3(b',', b'\n', b'\r', &bytes[from..]).map(|i| from + i) else { return short };
                ((from, end), end)
            };
            fields += 1;
            if spans.len() < needed {
                spans.push(span);
            }
            let ending = match &bytes[end..] {
                [b',', ..] => {
                    from = end + 1;
                    continue;
                }
                [b'\n', ..] => 1,
                [b'\r', b'\n', ..] => 2,
                [b'\r', _, ..] => 1,
                [b'\r'] | [] => return short,
                _ => return Token::Odd,
            };
            return Token::Row { len: end + ending, ending, fields, by: By::Quoted };
        }
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

/// Where the bytes of a buffer stand that rows are put together from: a bit each, in blocks of 64 bytes.
struct Marks(Vec<Block>);

/// Commas, quotes and line ends; the lowest bit is the first byte's.
type Block = [u64; 3];

impl Marks {
    fn set(&mut self, bytes: &[u8]) {
        let block = |bytes: &[u8; 64]| {
            let bytes = u8x64::from(*bytes);
            let is = |byte| bytes.simd_eq(u8x64::splat(byte));
            [is(b','), is(b'"'), is(b'\n') | is(b'\r')].map(u8x64::to_bitmask)
        };
        let (blocks, rest) = bytes.as_chunks();
        let mut last = [0; 64];
        last[..rest.len()].copy_from_slice(rest);
        self.0.clear();
        self.0.extend(blocks.iter().map(block));
        // A window may begin in the last block, and goes on in the one behind it.
        self.0.extend([block(&last), Block::default()]);
    }

    /// The marks of the 64 bytes from `at` on, if there are any.
    #[inline]
    fn window(&self, at: usize) -> Option<Block> {
        let (block, bit) = (at / 64, at % 64);
        let [low, high] = [self.0.get(block)?, self.0.get(block + 1)?];
        Some(std::array::from_fn(|i| low[i] >> bit | high[i] << 1 << (63 - bit)))
    }
}

/// Each bit's parity with all below it.
#[inline]
fn parity(bits: u64) -> u64 {
    (0..6).fold(bits, |bits, k| bits ^ bits << (1 << k))
}

/// `csv-core`, fed one row at a time.
struct Exact {
    reader: csv_core::Reader,
    /// Bytes of the current row that it has seen; 0 between rows.
    fed: usize,
    /// Whether it has seen the end of the row, a `\r` that may have a `\n` behind it.
    ended: bool,
    /// The fields of the current row, without quotes, one after the other: `out` bytes.
    text: Vec<u8>,
    out: usize,
    /// Where in `text` its first `done` fields end.
    ends: Vec<usize>,
    done: usize,
}

impl Exact {
    fn new() -> Self {
        let mut reader = csv_core::Reader::new();
        // It takes a byte order mark off the first bytes that it sees. Let these be a line end, which it skips: rows
        // come to it from anywhere in the file.
        let _ = reader.read_record(b"\n", &mut [0], &mut [0]);
        Self { reader, fed: 0, ended: false, text: Vec::new(), out: 0, ends: vec![0; 16], done: 0 }
    }

    /// Goes on with the row that `bytes` begin with; `eof` if there are no more than these.
    fn row(&mut self, bytes: &[u8], eof: bool, spans: &mut Vec<(usize, usize)>) -> Token {
        if self.fed == 0 {
            (self.out, self.done) = (0, 0);
        }
        let mut whole = self.ended || self.feed(&bytes[self.fed..]);
        let mut ending = usize::from(whole);
        if whole && bytes[self.fed - 1] == b'\r' {
            match bytes.get(self.fed) {
                Some(b'\n') => {
                    self.fed += 1;
                    ending = 2;
                }
                None if !eof => {
                    self.ended = true;
                    return Token::More;
                }
                _ => {}
            }
        }
        if !whole && eof {
            // A line end that is not there ends the row, unless a quote is open.
            let fed = self.fed;
            whole = self.feed(b"\n");
            self.fed = fed;
        }
        if !whole {
            return Token::More;
        }
        spans.clear();
        let mut from = 0;
        for &to in &self.ends[..self.done] {
            spans.push((from, to));
            from = to;
        }
        let len = std::mem::take(&mut self.fed);
        self.ended = false;
        Token::Row { len, ending, fields: self.done, by: By::Exact }
    }

    /// Feeds `bytes`; whether the row ended among them.
    fn feed(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            // No field is longer than its source, so the output never fills up.
            if self.text.len() < self.out + bytes.len() {
                self.text.resize(self.out + bytes.len(), 0);
            }
            let (result, read, wrote, ends) =
                self.reader.read_record(bytes, &mut self.text[self.out..], &mut self.ends[self.done..]);
            bytes = &bytes[read..];
            self.fed += read;
            self.out += wrote;
            self.done += ends;
            match result {
                ReadRecordResult::Record => return true,
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                ReadRecordResult::InputEmpty | ReadRecordResult::OutputFull | ReadRecordResult::End => {}
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;
    use proptest::prelude::*;

    /// A reader that gives little at a time.
    struct Drip(Vec<u8>, usize, usize);

    impl Read for Drip {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let n = self.2.min(buf.len()).min(self.0.len() - self.1);
            buf[..n].copy_from_slice(&self.0[self.1..self.1 + n]);
            self.1 += n;
            Ok(n)
        }
    }

    fn scanner(text: &[u8], drip: usize, chunk: usize, only_exact: bool) -> Scanner {
        let source = Source::open(&Input::new("/dev/null")).unwrap();
        let mut scanner = Scanner::new(source, Box::new(Drip(text.to_vec(), 0, drip)), false);
        scanner.buf = vec![0; 2 * chunk];
        scanner.chunk = chunk;
        scanner.only_exact = only_exact;
        scanner
    }

    type Found = (Vec<u8>, usize, (u64, u64), Vec<Vec<u8>>);

    /// All rows, and the error that ended them.
    fn rows(mut scanner: Scanner, want: Want) -> (Vec<Found>, Option<String>) {
        let mut fields = Fields::default();
        let mut rows = Vec::new();
        loop {
            match scanner.next(want, &mut fields) {
                Ok(None) => return (rows, None),
                Err(error) => return (rows, Some(error.to_string())),
                Ok(Some(row)) => {
                    let needed = match want {
                        Want::Header => row.fields(),
                        Want::Rows { fields, .. } => fields,
                        Want::Bounds { .. } => 0,
                    };
                    let fields = (0..needed).map(|i| row.field(i).to_vec()).collect();
                    rows.push((row.raw.to_vec(), row.ending, row.place, fields));
                }
            }
        }
    }

    /// What `csv-core` says by itself. It skips blank lines and takes an open quote at the end for a closed one.
    fn oracle(text: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let mut reader = csv_core::Reader::new();
        let _ = reader.read_record(b"\n", &mut [0], &mut [0]);
        let (mut out, mut ends) = (vec![0; text.len() + 1], vec![0; text.len() + 1]);
        let (mut at, mut wrote, mut done) = (0, 0, 0);
        let mut rows = Vec::new();
        loop {
            let (result, read, o, e) = reader.read_record(&text[at..], &mut out[wrote..], &mut ends[done..]);
            (at, wrote, done) = (at + read, wrote + o, done + e);
            match result {
                ReadRecordResult::Record => {
                    let mut from = 0;
                    rows.push(
                        ends[..done].iter().map(|&to| out[std::mem::replace(&mut from, to)..to].to_vec()).collect(),
                    );
                    (wrote, done) = (0, 0);
                }
                ReadRecordResult::End => return rows,
                _ => {}
            }
        }
    }

    fn nasty() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            4 => Just(&b"a"[..]),
            2 => Just(&b"bc"[..]),
            4 => Just(&b","[..]),
            4 => Just(&b"\""[..]),
            1 => Just(&b"\"\""[..]),
            2 => Just(&b"\","[..]),
            1 => Just(&b"\"\n\""[..]),
            3 => Just(&b"\n"[..]),
            1 => Just(&b"\r\n"[..]),
            1 => Just(&b"\r"[..]),
            1 => Just(&b"\0"[..]),
            1 => Just(&b"\xff"[..]),
            1 => Just(&b"\xef\xbb\xbf"[..]),
        ];
        prop::collection::vec(piece, 0..80).prop_map(|pieces| pieces.concat())
    }

    /// Rows of as many fields as there should be, of which most are for the fast tokenizers.
    fn tidy(columns: usize) -> impl Strategy<Value = Vec<u8>> {
        let field = prop_oneof![
            4 => Just("a".to_owned()),
            4 => Just("bcde".to_owned()),
            1 => Just(String::new()),
            2 => Just("\"x\"".to_owned()),
            2 => Just("\"x,y\"".to_owned()),
            1 => Just("\"\"".to_owned()),
            1 => Just("\"p\nq\"".to_owned()),
            1 => Just("\"p\r\"".to_owned()),
            1 => Just("\"p\"\"q\"".to_owned()),
            1 => Just("\"p\"q".to_owned()),
            1 => Just("a\"b".to_owned()),
            1 => Just("a\"\"".to_owned()),
            1 => (50usize..80).prop_map(|n| "z".repeat(n)),
        ];
        let ending =
            prop_oneof![12 => Just("\n"), 4 => Just("\r\n"), 1 => Just("\r"), 1 => Just("\n\n"), 1 => Just("\r\n\n")];
        let row = (prop::collection::vec(field, columns), ending).prop_map(|(row, ending)| row.join(",") + ending);
        prop::collection::vec(row, 0..60).prop_map(|rows| rows.concat().into_bytes())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn all_tokenizers_agree_on_tables(
            (columns, text) in (1usize..5).prop_flat_map(|columns| (Just(columns), tidy(columns))),
            (drip, chunk) in (1usize..400, 1usize..400),
            some in 0usize..5,
        ) {
            for want in [Want::Rows { columns, fields: some.min(columns) }, Want::Bounds { columns }] {
                let fast = rows(scanner(&text, drip, chunk, false), want);
                let exact = rows(scanner(&text, 10_000, 10_000, true), want);
                prop_assert_eq!(&fast.1, &None);
                prop_assert_eq!(&fast, &exact);
            }
        }

        #[test]
        fn all_three_tokenizers_agree(text in nasty(), drip in 1usize..40, chunk in 1usize..40, columns in 1usize..5, some in 1usize..5) {
            let fields = some.min(columns);
            for want in [Want::Header, Want::Rows { columns, fields }, Want::Bounds { columns }] {
                let fast = rows(scanner(&text, drip, chunk, false), want);
                let exact = rows(scanner(&text, 1000, 1000, true), want);
                prop_assert_eq!(&fast, &exact, "{:?}", want == Want::Header);
            }
        }

        #[test]
        fn fields_are_what_csv_core_says(text in nasty(), drip in 1usize..40, chunk in 1usize..40) {
            let (found, error) = rows(scanner(&text, drip, chunk, false), Want::Header);
            let found: Vec<_> = found.into_iter().filter(|f| f.0.len() > f.1).map(|f| f.3).collect();
            let mut expected = oracle(&text);
            if error.is_some() {
                expected.pop();
            }
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn rows_are_the_file(text in nasty(), drip in 1usize..40, chunk in 1usize..40) {
            let (found, error) = rows(scanner(&text, drip, chunk, false), Want::Header);
            let bytes: Vec<u8> = found.into_iter().flat_map(|f| f.0).collect();
            let same = if error.is_some() { text.starts_with(&bytes) } else { text == bytes };
            prop_assert!(same);
        }
    }

    #[test]
    fn which_rows_are_short() {
        let z = "z".repeat(59);
        for (row, short) in [
            ("a,b,c\n", true),
            ("a,b,c\r\n", true),
            (",,\n", true),
            ("\"a\",b,\"c,d\"\n", true),
            ("\"\",\"\",\"\"\r\n", true),
            (&format!("a,{z},c\n"), true),
            (&format!("a,z{z},c\n"), false),
            ("a,b,c\r", false),
            ("a,b,c", false),
            ("a,b\n", false),
            ("a,b,c,d\n", false),
            ("\n", false),
            ("a,\"b\nb\",c\n", false),
            ("a,\"b\"\"\",c\n", false),
            ("a,b\"b\",c\n", false),
            ("a,\"b\"b,c\n", false),
        ] {
            let mut scanner = scanner(format!("{row}1,2,3\n").as_bytes(), 100, 100, false);
            scanner.bom().unwrap();
            let mut spans = Vec::new();
            let found = scanner.short(Want::Rows { columns: 3, fields: 2 }, &mut spans);
            assert_eq!(found, short.then(|| (row.len(), row.len() - row.trim_end().len())), "{row:?}");
            assert!(!short || spans.len() == 2);
        }
    }

    #[test]
    fn lines_and_rows_are_counted_apart() {
        let text = b"a,b\n\n1,\"x\ny\"\r\n2,\"\"\"\n\"\n3,z";
        let (found, error) = rows(scanner(text, 7, 7, false), Want::Rows { columns: 2, fields: 2 });
        assert_eq!(error, None);
        let places: Vec<_> = found.iter().map(|f| f.2).collect();
        assert_eq!(places, [(1, 1), (2, 3), (3, 5), (4, 7)]);
    }

    /// A row that came whole in one reading is as long as one that came in many.
    #[test]
    fn a_row_that_is_too_long_is_refused_however_it_came() {
        for row in [format!("x{}", "y".repeat(999)), format!("\"{}\"", "y".repeat(998)), "\"\"".repeat(500)] {
            for (chunk, max_row, fits) in [(100, 1000, false), (1 << 20, 1000, false), (1 << 20, 1001, true)] {
                let mut scanner = scanner(format!("{row}\n").as_bytes(), chunk, chunk, false);
                scanner.max_row = max_row;
                let (found, error) = rows(scanner, Want::Bounds { columns: 1 });
                assert_eq!((found.len(), error.is_none()), if fits { (1, true) } else { (0, false) }, "{error:?}");
            }
        }
    }

    #[test]
    fn a_row_without_end_is_refused_before_it_fills_the_memory() {
        for text in [&b"x"[..], b"\"x", b"\"\"\"x"] {
            let mut scanner = scanner(&[text, &[b'y'; 9000]].concat(), 100, 100, false);
            scanner.max_row = 1000;
            let (found, error) = rows(scanner, Want::Bounds { columns: 1 });
            assert!(found.is_empty());
            assert_eq!(
                error.unwrap(),
                "/dev/null: row 1 (which begins on line 1) is longer than 0 MiB; is a quote left open?"
            );
        }
    }
}
