/// The places of the bits that are set in some words, in order.
pub(crate) struct Ones<W> {
    words: W,
    /// What is left of the word under way, and the place of its first bit.
    word: u64,
    place: u64,
}

impl<W: Iterator<Item = u64>> Ones<W> {
    pub(crate) fn new(words: W) -> Self {
        Self { words, word: 0, place: 0u64.wrapping_sub(64) }
    }

    /// The next one that is less than `end`.
    #[inline]
    pub(crate) fn next_below(&mut self, end: u64) -> Option<u64> {
        while self.word == 0 {
            self.word = self.words.next()?;
            self.place = self.place.wrapping_add(64);
        }
        let place = self.place + u64::from(self.word.trailing_zeros());
        if place >= end {
            return None;
        }
        self.word &= self.word - 1;
        Some(place)
    }
}
