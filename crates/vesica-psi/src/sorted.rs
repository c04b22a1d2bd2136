//! Ascending lists of random words in few bits.
//!
//! Elias, "Efficient storage and retrieval by content and address of static files", J. ACM 1974; Fano 1971. A word of L bits is
//! cut into its first b and its last L - b bits. The last bits are written one after the other; of the first, for each of
//! the 2^b values how many words have it, in unary. With b = ⌊log2 n⌋ a word costs L - log2 n + 2 bits or less. The length
//! depends on n and L alone.

/// A list of `len` words of `bits` bits.
#[derive(Clone, Copy, Debug)]
pub struct Sorted {
    /// n.
    pub len: usize,
    /// L, at most 128.
    pub bits: u32,
}

impl Sorted {
    /// b.
    fn first(self) -> u32 {
        self.len.checked_ilog2().unwrap_or(0).min(self.bits)
    }

    /// Bytes of the unary part.
    fn unary(self) -> usize {
        (self.len + (1 << self.first())).div_ceil(8)
    }

    /// Bytes that the list takes.
    pub fn bytes(self) -> usize {
        self.unary() + (self.len * (self.bits - self.first()) as usize).div_ceil(8)
    }

    /// The list of `words`, which ascend and are as many as it is for.
    pub fn encode(self, words: impl ExactSizeIterator<Item = u128>) -> Vec<u8> {
        debug_assert_eq!(words.len(), self.len);
        let last = self.bits - self.first();
        let mut out = vec![0; self.unary()];
        out.reserve(self.bytes() - out.len());
        let mut tail = Writer { out: Vec::with_capacity(self.bytes() - self.unary()), acc: 0, has: 0 };
        for (i, word) in words.enumerate() {
            // A one for each word, after as many zeros as its first part.
            let at = i + shifted(word, last) as usize;
            out[at / 8] |= 1 << (at % 8);
            tail.put(word, last);
        }
        out.extend(tail.finish());
        out
    }

    /// The words of a list.
    ///
    /// # Errors
    /// The place of the first word that does not exist or is less than the one before it.
    ///
    /// # Panics
    /// If there are not [`Sorted::bytes`] bytes.
    pub fn decode(self, wire: &[u8]) -> Result<Vec<u128>, usize> {
        assert_eq!(wire.len(), self.bytes(), "a list of another length");
        let last = self.bits - self.first();
        let (unary, tail) = wire.split_at(self.unary());
        let mut tail = Reader { bytes: tail, acc: 0, has: 0 };
        let mut words: Vec<u128> = Vec::with_capacity(self.len);
        for (byte, &bits) in unary.iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                let at = byte * 8 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let i = words.len();
                let (true, Some(first)) = (i < self.len, at.checked_sub(i)) else { return Err(i) };
                if first >> self.first() != 0 {
                    return Err(i);
                }
                let word = if last == 128 { 0 } else { (first as u128) << last } | tail.take(last);
                if words.last().is_some_and(|&before| before > word) {
                    return Err(i);
                }
                words.push(word);
            }
        }
        if words.len() == self.len { Ok(words) } else { Err(words.len()) }
    }
}

/// `word >> by`, also for a shift of all bits.
fn shifted(word: u128, by: u32) -> u128 {
    word.checked_shr(by).unwrap_or(0)
}

/// Writes bits, the lowest first.
struct Writer {
    out: Vec<u8>,
    acc: u64,
    has: u32,
}

impl Writer {
    /// The last `bits` bits of `word`.
    fn put(&mut self, word: u128, bits: u32) {
        self.put_word(word as u64, bits.min(64));
        self.put_word((word >> 64) as u64, bits.saturating_sub(64));
    }

    fn put_word(&mut self, word: u64, bits: u32) {
        if bits == 0 {
            return;
        }
        let word = word & (u64::MAX >> (64 - bits));
        self.acc |= word << self.has;
        if self.has + bits >= 64 {
            self.out.extend(self.acc.to_le_bytes());
            self.acc = word.checked_shr(64 - self.has).unwrap_or(0);
            self.has = self.has + bits - 64;
        } else {
            self.has += bits;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.out.extend(&self.acc.to_le_bytes()[..self.has.div_ceil(8) as usize]);
        self.out
    }
}

/// Reads bits, the lowest first; zeros behind the end.
struct Reader<'a> {
    bytes: &'a [u8],
    acc: u64,
    has: u32,
}

impl Reader<'_> {
    fn take(&mut self, bits: u32) -> u128 {
        let low = self.take_word(bits.min(64));
        u128::from(low) | u128::from(self.take_word(bits.saturating_sub(64))) << 64
    }

    fn take_word(&mut self, bits: u32) -> u64 {
        if bits == 0 {
            return 0;
        }
        let mask = u64::MAX >> (64 - bits);
        if self.has >= bits {
            let word = self.acc & mask;
            self.acc = self.acc.checked_shr(bits).unwrap_or(0);
            self.has -= bits;
            return word;
        }
        let n = self.bytes.len().min(8);
        let mut next = [0; 8];
        next[..n].copy_from_slice(&self.bytes[..n]);
        self.bytes = &self.bytes[n..];
        let next = u64::from_le_bytes(next);
        let word = (self.acc | next << self.has) & mask;
        let used = bits - self.has;
        self.acc = next.checked_shr(used).unwrap_or(0);
        self.has = 64 - used;
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_testkit::fixed_rng;

    fn words(n: usize, bits: u32) -> Vec<u128> {
        let mut rng = fixed_rng(7);
        let mut words: Vec<u128> = (0..n).map(|_| u128::from_le_bytes(rng.bytes()) >> (128 - bits)).collect();
        words.sort_unstable();
        words
    }

    #[test]
    fn lists_survive_and_take_as_many_bytes_as_said() {
        for bits in [8, 40, 64, 72, 80, 88, 96, 120, 128] {
            for n in [0, 1, 2, 3, 7, 8, 9, 255, 256, 1000, 5000] {
                let (list, words) = (Sorted { len: n, bits }, words(n, bits));
                let wire = list.encode(words.iter().copied());
                assert_eq!(wire.len(), list.bytes(), "{n} of {bits}");
                assert_eq!(list.decode(&wire).unwrap(), words, "{n} of {bits}");
            }
        }
        // The extremes, and equal words.
        for all in [vec![0; 9], vec![u128::MAX; 9], vec![0, u128::MAX]] {
            let list = Sorted { len: all.len(), bits: 128 };
            assert_eq!(list.decode(&list.encode(all.iter().copied())).unwrap(), all);
        }
    }

    #[test]
    fn a_million_words_of_ten_bytes_take_less_than_eight_each() {
        assert!(Sorted { len: 1 << 20, bits: 80 }.bytes() <= (1 << 20) * 31 / 4 + 1);
    }

    #[test]
    fn no_bytes_make_it_panic_and_disorder_is_refused() {
        let list = Sorted { len: 100, bits: 40 };
        let mut rng = fixed_rng(8);
        let mut refused = 0;
        for _ in 0..2000 {
            let mut wire = list.encode(words(100, 40).into_iter());
            let at = rng.bytes::<1>()[0] as usize % wire.len();
            wire[at] ^= rng.bytes::<1>()[0];
            match list.decode(&wire) {
                Ok(words) => assert!(words.is_sorted() && words.len() == 100),
                Err(index) => {
                    assert!(index <= 100);
                    refused += 1;
                }
            }
        }
        assert!(refused > 100, "{refused}");
        assert!(list.decode(&vec![0; list.bytes()]).is_err());
        assert!(list.decode(&vec![0xff; list.bytes()]).is_err());
    }
}
