//! Sorted numbers in nearly as few bits as there can be, each found in a few touches of memory.
//!
//! Peter Elias, "Efficient storage and retrieval by content and address of static files", J. ACM 21 (1974), and Robert Fano's
//! memorandum of 1971. n numbers below 2^b, ascending. Each is cut into its first k = ⌈log2 n⌉ bits, its *head*, and the b - k bits
//! behind them.
//!
//! - The **low bits** stand one after the other, b - k for each number.
//! - The **high bits** say the heads in unary: for each head from 0 to 2^k - 1 as many ones as numbers have it, and a zero. The
//!   i-th number of head h is hence the one at place h + i, and n + 2^k bits say all heads.
//! - The **directory** has a word for each [`BLOCK`] heads: how many numbers stand before them. A search begins at the word of
//!   its head's block, so it reads about two lines of the cache of the high bits, and one of the low bits.
//!
//! That is b - log2 n + 2 bits a number on average, and an eighth to a quarter of a bit for the
//! directory: for 10^7 numbers of 84 bits, 62.9 bits each.
//!
//! **Whoever wrote the bytes may be hostile.** Every word is looked for within its section, and numbers are hashes: no more
//! than [`CROWD`] of them fall into an honest block (512 are expected, and with 4096 the chance is below 2^-7000). A block
//! that claims more is an error, so a search looks at 4096 numbers at most, whatever the bytes are.

use crate::error::{Error, Result};
use crate::region::Region;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

/// Heads in a block of the directory.
const BLOCK: u64 = 512;

/// The most numbers in a block.
const CROWD: u64 = 4096;

/// Bits of a word.
const WORD: u64 = 64;

/// How many numbers there are, and of how many bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Code {
    numbers: u64,
    bits: u32,
}

impl Code {
    /// At most 2^40 numbers of 1 to 128 bits.
    pub(crate) fn new(numbers: u64, bits: u32) -> Self {
        debug_assert!(numbers <= crate::MOST_TAGS && (1..=128).contains(&bits));
        Self { numbers, bits }
    }

    /// k of the header.
    fn head_bits(self) -> u32 {
        self.numbers.max(1).next_power_of_two().trailing_zeros().min(self.bits)
    }

    fn heads(self) -> u64 {
        1 << self.head_bits()
    }

    fn low_bits(self) -> u32 {
        self.bits - self.head_bits()
    }

    /// Bytes of the directory, the high and the low bits, in this order. All are whole words.
    fn sections(self) -> [u64; 3] {
        if self.numbers == 0 {
            return [0; 3];
        }
        let words = [
            self.heads().div_ceil(BLOCK) + 1,
            (self.heads() + self.numbers).div_ceil(WORD),
            (self.numbers * u64::from(self.low_bits())).div_ceil(WORD),
        ];
        words.map(|words| 8 * words)
    }

    /// Bytes of the whole code.
    pub(crate) fn bytes(self) -> u64 {
        self.sections().iter().sum()
    }

    /// Head and low bits of a number.
    fn split(self, number: u128) -> (u64, u128) {
        let low_bits = self.low_bits();
        // One number alone has no head, and a shift by 128 is none.
        let head = number.checked_shr(low_bits).unwrap_or(0) as u64;
        (head, number & mask(low_bits))
    }
}

/// The lowest `bits` bits, at most 128.
fn mask(bits: u32) -> u128 {
    u128::MAX.checked_shr(128 - bits).unwrap_or(0)
}

/// Writes numbers, the least first.
pub(crate) struct Encoder<'a> {
    code: Code,
    directory: Region<'a>,
    high: Region<'a>,
    low: Region<'a>,
    /// Numbers so far, and the last one.
    pushed: u64,
    last: Option<u128>,
    /// Blocks whose word is written, and what the last word says.
    blocks: u64,
    before: u64,
    /// Words of the high bits that are written, and the one that is not.
    high_words: u64,
    high_word: u64,
    /// Low bits that fill no word yet, and how many.
    low_word: u64,
    low_fill: u32,
}

impl<'a> Encoder<'a> {
    /// Writes to `file`, which errors call `path`, from byte `at` on: as many bytes as [`Code::bytes`] says.
    pub(crate) fn new(code: Code, file: &'a File, path: &'a Path, at: u64) -> Self {
        let [directory, high, _] = code.sections();
        let region = |at| Region::new(file, path, at);
        Self {
            code,
            directory: region(at),
            high: region(at + directory),
            low: region(at + directory + high),
            pushed: 0,
            last: None,
            blocks: 0,
            before: 0,
            high_words: 0,
            high_word: 0,
            low_word: 0,
            low_fill: 0,
        }
    }

    /// The next number.
    ///
    /// # Errors
    /// [`Error::Twice`] for the number that was pushed before it; [`Error::Bug`] for a smaller one, one too many and one that is
    /// no hash; those of writing.
    pub(crate) fn push(&mut self, number: u128) -> Result<()> {
        match self.last {
            Some(last) if last == number => return Err(Error::Twice),
            Some(last) if last > number => return Err(Error::Bug("tags are not sorted".into())),
            _ if self.pushed == self.code.numbers => return Err(Error::Bug("more tags than were counted".into())),
            _ => self.last = Some(number),
        }
        let (head, low) = self.code.split(number);
        self.directory_to(head / BLOCK)?;
        if self.pushed - self.before >= CROWD {
            return Err(Error::Bug("tags crowd as hashes never do".into()));
        }
        let place = head + self.pushed;
        self.high_to(place / WORD)?;
        self.high_word |= 1 << (place % WORD);
        self.push_low(low)?;
        self.pushed += 1;
        Ok(())
    }

    /// Writes the directory's words up to that of `block`.
    fn directory_to(&mut self, block: u64) -> Result<()> {
        while self.blocks <= block {
            self.directory.push(&self.pushed.to_le_bytes())?;
            self.before = self.pushed;
            self.blocks += 1;
        }
        Ok(())
    }

    /// Writes the words of the high bits before `word`.
    fn high_to(&mut self, word: u64) -> Result<()> {
        while self.high_words < word {
            self.high.push(&std::mem::take(&mut self.high_word).to_le_bytes())?;
            self.high_words += 1;
        }
        Ok(())
    }

    fn push_low(&mut self, mut low: u128) -> Result<()> {
        let mut left = self.code.low_bits();
        while left > 0 {
            let now = left.min(64 - self.low_fill);
            self.low_word |= (low as u64 & mask(now) as u64) << self.low_fill;
            self.low_fill += now;
            left -= now;
            low = low.checked_shr(now).unwrap_or(0);
            if self.low_fill == 64 {
                self.low.push(&std::mem::take(&mut self.low_word).to_le_bytes())?;
                self.low_fill = 0;
            }
        }
        Ok(())
    }

    /// To be called after the last number.
    ///
    /// # Errors
    /// [`Error::Bug`] if numbers are missing; those of writing.
    pub(crate) fn finish(mut self) -> Result<()> {
        let Code { numbers, .. } = self.code;
        if self.pushed != numbers {
            return Err(Error::Bug(format!("{} tags where {numbers} were counted", self.pushed)));
        }
        if numbers == 0 {
            return Ok(());
        }
        self.directory_to(self.code.heads().div_ceil(BLOCK))?;
        self.high_to((self.code.heads() + numbers).div_ceil(WORD))?;
        if self.low_fill > 0 {
            self.low.push(&self.low_word.to_le_bytes())?;
        }
        [&mut self.directory, &mut self.high, &mut self.low].into_iter().try_for_each(Region::flush)
    }
}

/// A code whose words contradict each other, or are not what was written.
#[derive(Debug)]
pub(crate) struct Inconsistent;

/// Where a code's bytes come from.
pub(crate) trait Bytes {
    /// The eight bytes from `at` on; none beyond the end, and where they are known not to be what was written.
    fn eight(&self, at: usize) -> Option<[u8; 8]>;
}

impl Bytes for [u8] {
    fn eight(&self, at: usize) -> Option<[u8; 8]> {
        self.get(at..)?.first_chunk().copied()
    }
}

/// Words that stand one after the other.
#[derive(Clone, Copy)]
struct Section {
    at: usize,
    words: u64,
}

/// A code to search in.
pub(crate) struct View<'a, B: ?Sized> {
    code: Code,
    bytes: &'a B,
    directory: Section,
    high: Section,
    low: Section,
}

impl<'a, B: Bytes + ?Sized> View<'a, B> {
    /// The code that stands in `range` of `bytes`; none if the range is too short.
    pub(crate) fn new(code: Code, bytes: &'a B, range: Range<u64>) -> Option<Self> {
        let mut at = range.start;
        let [directory, high, low] = code.sections().map(|bytes| {
            let section = usize::try_from(at).map(|at| Section { at, words: bytes / 8 });
            at += bytes;
            section
        });
        if at > range.end {
            return None;
        }
        Some(Self { code, bytes, directory: directory.ok()?, high: high.ok()?, low: low.ok()? })
    }

    fn word(&self, section: Section, index: u64) -> std::result::Result<u64, Inconsistent> {
        let at = (index < section.words).then(|| section.at + 8 * index as usize);
        at.and_then(|at| self.bytes.eight(at)).map(u64::from_le_bytes).ok_or(Inconsistent)
    }

    /// The place of `number` among the numbers, from 0; none if it is not there.
    ///
    /// # Errors
    /// [`Inconsistent`] where what it reads cannot be. It does not read everything: other numbers' words may be wrong still.
    pub(crate) fn find(&self, number: u128) -> std::result::Result<Option<u64>, Inconsistent> {
        if self.code.numbers == 0 {
            return Ok(None);
        }
        let (head, low) = self.code.split(number);
        let block = head / BLOCK;
        let (before, end) = (self.word(self.directory, block)?, self.word(self.directory, block + 1)?);
        if before > end || end > self.code.numbers || end - before > CROWD {
            return Err(Inconsistent);
        }
        // The block's bits begin behind a zero for each head before it, and a one for each number.
        let mut at = block * BLOCK + before;
        // Behind so many zeros begin the ones of this head.
        let mut skip = (head % BLOCK) as u32;
        if skip > 0 {
            let mut index = at / WORD;
            let mut zeros = !self.word(self.high, index)? & (u64::MAX << (at % WORD));
            let last = ((block + 1) * BLOCK + end) / WORD;
            while zeros.count_ones() < skip {
                skip -= zeros.count_ones();
                index += 1;
                if index > last {
                    return Err(Inconsistent);
                }
                zeros = !self.word(self.high, index)?;
            }
            for _ in 1..skip {
                zeros &= zeros - 1;
            }
            at = index * WORD + u64::from(zeros.trailing_zeros()) + 1;
        }
        let place = at.checked_sub(head).ok_or(Inconsistent)?;
        if place < before {
            return Err(Inconsistent);
        }
        for place in place..=end {
            let at = head + place;
            if self.word(self.high, at / WORD)? >> (at % WORD) & 1 == 0 {
                return Ok(None);
            }
            if place == end {
                break;
            }
            match self.low(place)?.cmp(&low) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Ok(Some(place)),
                std::cmp::Ordering::Greater => return Ok(None),
            }
        }
        Err(Inconsistent)
    }

    /// Hands over all numbers, ascending as far as their heads go: at least those that [`View::find`] finds, which passes over one that does not ascend
    /// within its head. It compares the directory with them, for whoever wrote a part could else make it say something of a number to a search that it
    /// does not say here.
    ///
    /// # Errors
    /// [`Inconsistent`] where the words cannot be those of so many numbers.
    pub(crate) fn each(&self, mut take: impl FnMut(u128)) -> std::result::Result<(), Inconsistent> {
        if self.code.numbers == 0 {
            return Ok(());
        }
        let (low_bits, mut place) = (self.code.low_bits(), 0);
        // Blocks whose words were compared, and what the last word says.
        let (mut blocks, mut before) = (0, 0);
        let mut directory_to = |block: u64, place: u64| {
            while blocks <= block {
                if self.word(self.directory, blocks)? != place || place - before > CROWD {
                    return Err(Inconsistent);
                }
                (before, blocks) = (place, blocks + 1);
            }
            Ok(())
        };
        for index in 0..self.high.words {
            let mut ones = self.word(self.high, index)?;
            while ones != 0 {
                let at = index * WORD + u64::from(ones.trailing_zeros());
                ones &= ones - 1;
                let head = at.checked_sub(place).filter(|head| *head < self.code.heads() && place < self.code.numbers);
                let head = head.ok_or(Inconsistent)?;
                directory_to(head / BLOCK, place)?;
                // One number alone has no head, and a shift by 128 is none.
                take(u128::from(head).checked_shl(low_bits).unwrap_or(0) | self.low(place)?);
                place += 1;
            }
        }
        directory_to(self.code.heads().div_ceil(BLOCK), place)?;
        if place == self.code.numbers { Ok(()) } else { Err(Inconsistent) }
    }

    /// The low bits of the number at `place`.
    fn low(&self, place: u64) -> std::result::Result<u128, Inconsistent> {
        let bits = self.code.low_bits();
        let at = place * u64::from(bits);
        let (index, shift) = (at / WORD, (at % WORD) as u32);
        let mut low = 0;
        // Up to three words: the second one's bits belong from bit 64 - shift on, the third one's from 128 - shift.
        for i in 0..(shift + bits).div_ceil(64) {
            let word = u128::from(self.word(self.low, index + u64::from(i))?);
            low |= if i == 0 { word >> shift } else { word << (64 * i - shift) };
        }
        Ok(low & mask(bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn encoded(numbers: &BTreeSet<u128>, bits: u32) -> (Code, Vec<u8>) {
        let code = Code::new(numbers.len() as u64, bits);
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut encoder = Encoder::new(code, file.as_file(), file.path(), 0);
        numbers.iter().for_each(|&number| encoder.push(number).unwrap());
        encoder.finish().unwrap();
        let bytes = std::fs::read(file.path()).unwrap();
        assert_eq!(bytes.len() as u64, code.bytes());
        (code, bytes)
    }

    fn spread(i: u128, bits: u32) -> u128 {
        crate::tag::first(crate::tag::tag(blake3::hash(&i.to_le_bytes()).as_bytes()), bits)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn a_search_finds_what_a_sorted_set_holds_and_where(
            bits in 1u32..=128,
            raw in prop::collection::btree_set(any::<u128>(), 0..3000),
            near in prop::collection::vec((any::<prop::sample::Index>(), 0u32..128), 0..50),
            others in prop::collection::vec(any::<u128>(), 0..50),
        ) {
            let numbers: BTreeSet<u128> = raw.iter().map(|number| number >> (128 - bits)).collect();
            let (code, bytes) = encoded(&numbers, bits);
            let view = View::new(code, &bytes[..], 0..bytes.len() as u64).unwrap();
            for (place, &number) in numbers.iter().enumerate() {
                prop_assert_eq!(view.find(number).unwrap(), Some(place as u64));
            }
            let sorted: Vec<u128> = numbers.iter().copied().collect();
            let mut all = Vec::new();
            view.each(|number| all.push(number)).unwrap();
            prop_assert_eq!(&all, &sorted);
            let near = near.iter().filter(|_| !sorted.is_empty()).map(|(i, bit)| i.get(&sorted) ^ 1 << (bit % bits));
            for number in near.chain(others.iter().map(|number| number >> (128 - bits))) {
                prop_assert_eq!(view.find(number).unwrap().is_some(), numbers.contains(&number));
            }
        }

        /// Nothing is read beyond the bytes, and nothing takes long, whatever the bytes say.
        #[test]
        fn bytes_of_any_kind_give_an_answer(
            numbers in 0u64..5000, bits in 1u32..=128, seed in any::<u64>(), ones in 0u8..4, asked in any::<u128>(),
        ) {
            let code = Code::new(numbers, bits);
            let mut bytes = vec![0; code.bytes() as usize];
            blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
            // The directory is believed only if it is ascending and small.
            let directory = code.sections()[0] as usize;
            match ones {
                0 => {}
                1 => bytes[directory..].fill(255),
                2 => bytes[directory..].fill(0),
                _ => bytes[..directory].fill(0),
            }
            for word in bytes[..directory].chunks_mut(8) {
                word[2..].fill(0);
                word[1] &= 15;
            }
            let view = View::new(code, &bytes[..], 0..bytes.len() as u64).unwrap();
            for i in 0..50 {
                if let Ok(Some(place)) = view.find(asked.wrapping_mul(2 * i + 1) >> (128 - bits)) {
                    prop_assert!(place < numbers);
                }
            }
        }
    }

    /// Whatever bit is turned: what a search finds is among the numbers that are handed over, or they are not.
    #[test]
    fn a_search_finds_nothing_that_is_not_handed_over() {
        let bits = 11;
        let numbers: BTreeSet<u128> = (0..700).map(|i| spread(i, bits)).collect();
        let (code, whole) = encoded(&numbers, bits);
        assert!(code.heads() == 1024, "there are two blocks");
        let mut passed = 0;
        for place in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[place / 8] ^= 1 << (place % 8);
            let view = View::new(code, &bytes[..], 0..bytes.len() as u64).unwrap();
            let mut all = Vec::new();
            if view.each(|number| all.push(number)).is_ok() {
                passed += 1;
                assert!((0..1 << bits).all(|number| view.find(number).unwrap().is_none() || all.contains(&number)));
            }
        }
        // Low bits may be any.
        assert_eq!(passed, 8 * code.sections()[2] as usize);
    }

    #[test]
    fn the_size_is_that_of_the_formula() {
        for n in [1000, 1024, 1500, 2000] {
            let numbers: BTreeSet<u128> = (0..n).map(|i| spread(i, 84)).collect();
            let (_, bytes) = encoded(&numbers, 84);
            let a_number = 8.0 * bytes.len() as f64 / n as f64;
            let bound = 84.0 - (n as f64).log2() + 2.0 + 0.125 * 2.0 + 3.0 * 64.0 / n as f64;
            assert!(a_number < bound, "{n}: {a_number} bits");
        }
    }

    #[test]
    fn a_code_that_is_cut_anywhere_is_none() {
        let numbers: BTreeSet<u128> = (0..100).map(|i| spread(i, 70)).collect();
        let (code, bytes) = encoded(&numbers, 70);
        assert!((0..bytes.len()).all(|length| View::new(code, &bytes[..], 0..length as u64).is_none()));
    }

    #[test]
    fn numbers_that_are_no_sorted_hashes_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let encoder = |n| Encoder::new(Code::new(n, 64), file.as_file(), file.path(), 0);
        let mut twice = encoder(3);
        twice.push(5).unwrap();
        assert!(matches!(twice.push(5), Err(Error::Twice)));
        assert!(matches!(twice.push(4), Err(Error::Bug(_))));
        assert!(matches!(twice.finish(), Err(Error::Bug(_))), "two are missing");
        let mut many = encoder(1 << 20);
        let crowded = (0..1 << 20).position(|i| many.push(i).is_err());
        assert_eq!(crowded, Some(CROWD as usize));
    }
}
