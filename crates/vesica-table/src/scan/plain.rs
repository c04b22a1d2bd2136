//! The tokenizers for rows without quotes, and for rows in which no quote is doubled. They look for single bytes.

use super::{By, Scanner, Token, Want};
use memchr::{memchr, memchr_iter, memchr3};

impl Scanner {
    /// The tokenizer for rows without quotes.
    #[inline]
    pub(super) fn plain(&mut self, want: Want, spans: &mut Vec<(usize, usize)>) -> Token {
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
}
