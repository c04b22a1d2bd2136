//! Values in ascending order, each with the place that it came from.

use vesica_block::{Block, sort};

/// Bits of a place in a list.
const PLACE: u32 = 32;

/// Values in ascending order, of which the first L bits are compared: their *tags*.
pub struct Ordered {
    values: Vec<Block>,
    /// Of each value the upper bits, and in the last [`PLACE`] bits where it stands. Half as long as a list of values with
    /// their places, and sorted in half the time.
    order: Vec<u128>,
    bits: u32,
}

impl Ordered {
    /// These values, of which `bits` bits are compared.
    pub fn new(values: Vec<Block>, bits: u32) -> Self {
        let mut order: Vec<u128> = values.iter().zip(0..).map(|(v, place)| v.0 >> PLACE << PLACE | place).collect();
        sort::ascending(&mut order, &mut Vec::new(), |entry| (entry >> 96) as u32);
        // Those that differ in the last bits only: as rare as a false match.
        for alike in order.chunk_by_mut(|a, b| a >> PLACE == b >> PLACE).filter(|alike| alike.len() > 1) {
            alike.sort_unstable_by_key(|&entry| values[entry as u32 as usize]);
        }
        Self { values, order, bits }
    }

    /// The tags, which ascend, and the place that each came from.
    pub fn tags(&self) -> impl ExactSizeIterator<Item = (u128, u32)> {
        self.order.iter().map(|&entry| self.tag(entry))
    }

    #[inline(always)]
    fn tag(&self, entry: u128) -> (u128, u32) {
        let whole = if self.bits <= 128 - PLACE { entry } else { self.values[entry as u32 as usize].0 };
        (whole >> (128 - self.bits), entry as u32)
    }

    /// Those whose tag is in `theirs`, which ascend: the place that each came from, and where its tag is in `theirs`.
    pub fn common(&self, theirs: &[u128]) -> Vec<(u32, usize)> {
        // No CPU can guess which of the two comes next, nor whether they are equal. So nothing branches on it: each pair is
        // written, and the next one is written over it if it was none.
        let mut found = vec![(0, 0); self.order.len() + 1];
        let (mut n, mut i, mut at) = (0, 0, 0);
        while let (Some(&entry), Some(&their)) = (self.order.get(i), theirs.get(at)) {
            let (tag, place) = self.tag(entry);
            found[n] = (place, at);
            n += usize::from(tag == their);
            let behind = usize::from(their < tag);
            at += behind;
            i += 1 - behind;
        }
        found.truncate(n);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_testkit::digests;

    #[test]
    fn each_of_mine_that_is_among_theirs_is_found_where_it_stands_first() {
        let values = |of: &[u128]| of.iter().map(|&value| Block(value << 64)).collect::<Vec<_>>();
        let mine = Ordered::new(values(&[9, 3, 5, 3, 0, 7]), 64);
        let of = |theirs: &[u128]| {
            let mut common = mine.common(theirs);
            common.sort_unstable();
            common
        };
        assert_eq!(of(&[1, 3, 3, 6, 9]), [(0, 4), (1, 1), (3, 1)]);
        assert_eq!(of(&[0, 3, 5, 7, 9]), [(0, 4), (1, 1), (2, 2), (3, 1), (4, 0), (5, 3)]);
        assert_eq!(of(&[9, 9]), [(0, 0)]);
        assert_eq!((of(&[]), of(&[10]), of(&[4])), (vec![], vec![], vec![]));
    }

    #[test]
    fn values_ascend_also_where_they_differ_in_the_last_bits_only() {
        let mut values: Vec<Block> = digests(0, 1000).into_iter().rev().map(Block::from).collect();
        for i in (1..values.len()).step_by(3) {
            values[i] = Block(values[i - 1].0 ^ 0xff);
        }
        let mut want = values.clone();
        want.sort_unstable();
        for bits in [80, 96, 104, 128] {
            let ordered = Ordered::new(values.clone(), bits);
            let got: Vec<Block> = ordered.tags().map(|(_, place)| values[place as usize]).collect();
            assert_eq!(got, want);
            assert!(ordered.tags().zip(&want).all(|((tag, _), value)| tag == value.0 >> (128 - bits)));
        }
    }
}
