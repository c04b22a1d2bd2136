//! The tokenizer that takes every row: it is `csv-core`, fed row by row.

use super::{By, Token};
use csv_core::ReadRecordResult;

/// `csv-core`, fed one row at a time.
pub(super) struct Exact {
    reader: csv_core::Reader,
    /// Bytes of the current row that it has seen; 0 between rows.
    pub(super) fed: usize,
    /// Whether it has seen the end of the row, a `\r` that may have a `\n` behind it.
    pub(super) ended: bool,
    /// The fields of the current row, without quotes, one after the other: `out` bytes.
    pub(super) text: Vec<u8>,
    out: usize,
    /// Where in `text` its first `done` fields end.
    ends: Vec<usize>,
    done: usize,
}

impl Exact {
    pub(super) fn new() -> Self {
        let mut reader = csv_core::Reader::new();
        // It takes a byte order mark off the first bytes that it sees. Let these be a line end, which it skips: rows
        // come to it from anywhere in the file.
        let _ = reader.read_record(b"\n", &mut [0], &mut [0]);
        Self { reader, fed: 0, ended: false, text: Vec::new(), out: 0, ends: vec![0; 16], done: 0 }
    }

    /// Goes on with the row that `bytes` begin with; `eof` if there are no more than these.
    pub(super) fn row(&mut self, bytes: &[u8], eof: bool, spans: &mut Vec<(usize, usize)>) -> Token {
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
