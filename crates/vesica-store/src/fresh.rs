//! Which outputs the newest parts of a store say something of, seen by the heads of tags.

/// The most bits of a head that a set tells apart: 2^29 marks take 64 MiB.
const MOST_BITS: u32 = 29;

/// Tags of some parts. It may take an output for one of them that is not, about one of sixteen.
pub struct Fresh {
    /// A mark for each value that the first `bits` bits of a tag can have.
    marks: Vec<u64>,
    bits: u32,
    /// Bits of a tag.
    tag_bits: u32,
    /// Whether every output counts: the parts contradict themselves, and whoever searches them is to meet that.
    is_everything: bool,
}

impl Fresh {
    /// A set for so many tags of so many bits.
    pub(crate) fn new(tags: u64, tag_bits: u32) -> Self {
        // Sixteen marks for each tag, and six bits at least: a word of marks.
        let bits = (tags.max(1).next_power_of_two().ilog2() + 4).clamp(6, MOST_BITS).min(tag_bits);
        let words = if tags == 0 { 0 } else { (1usize << bits).div_ceil(64) };
        Self { marks: vec![0; words], bits, tag_bits, is_everything: false }
    }

    /// The set of all outputs.
    pub(crate) fn everything() -> Self {
        Self { is_everything: true, ..Self::new(0, 128) }
    }

    pub(crate) fn add(&mut self, tag: u128) {
        let place = (tag >> (self.tag_bits - self.bits)) as usize;
        self.marks[place / 64] |= 1 << (place % 64);
    }

    /// Whether an output may be one of them whose tag has this [`head`](crate::head).
    pub fn may_have(&self, head: u64) -> bool {
        let place = (head >> (64 - self.bits)) as usize;
        self.is_everything || self.marks.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag::{first, head, tag};

    #[test]
    fn every_tag_is_seen_and_few_others_are() {
        let output = |i: u64| *blake3::hash(&i.to_le_bytes()).as_bytes();
        for (tags, bits) in [(0, 60), (1, 60), (1000, 84), (5000, 128)] {
            let mut fresh = Fresh::new(tags, bits);
            (0..tags).for_each(|i| fresh.add(first(tag(&output(i)), bits)));
            assert!((0..tags).all(|i| fresh.may_have(head(&output(i)))));
            let others = (tags..tags + 10_000).filter(|i| fresh.may_have(head(&output(*i)))).count();
            // One of sixteen to one of thirty-two is expected, and of a single tag one of sixty-four at most.
            assert!(others < 800, "{tags}: {others}");
            assert!(tags > 0 || others == 0);
        }
        assert!(Fresh::everything().may_have(7));
    }
}
