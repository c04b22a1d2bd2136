//! The tokenizer for short rows. It works on words with a bit for each byte of the buffer.

use super::{Scanner, Want};
use wide::u8x64;

impl Scanner {
    /// The tokenizer for rows of up to 64 bytes and as many fields as there should be, in which no quote is doubled and
    /// no line end is quoted: the length of the row with its line ending, and that of the line ending.
    #[inline]
    pub(super) fn short(&mut self, want: Want, spans: &mut Vec<(usize, usize)>) -> Option<(usize, usize)> {
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
}

/// Where the bytes of a buffer stand that rows are put together from: a bit each, in blocks of 64 bytes.
pub(super) struct Marks(pub(super) Vec<Block>);

/// Commas, quotes and line ends; the lowest bit is the first byte's.
type Block = [u64; 3];

impl Marks {
    pub(super) fn set(&mut self, bytes: &[u8]) {
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
