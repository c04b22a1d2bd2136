//! Sorting records that begin like random bytes.

use std::ops::Range;

/// Records in a bin on average: few enough that to sort one is a matter of a few steps.
const BIN: usize = 4;

/// The most records that are sorted in one piece.
pub const MOST: usize = u32::MAX as usize;

/// Records of a bin that are put in order one by one. Chance does not give a bin more; whoever planted digests finds it sorted
/// as anything else is.
const FEW: usize = 32;

/// Bins for records by the first bits of their heads, which are the next four bytes after those that all records share. Heads
/// are random, as those of digests are; nothing but speed rests on it. The memory is used again.
#[derive(Default)]
pub struct Bins {
    bits: u32,
    /// Where each bin's next record goes; when all have been placed, where the bin ends.
    next: Vec<u32>,
}

/// The head of `record` after the first `skip` bytes, or its last four.
#[inline(always)]
fn head<const N: usize>(record: &[u8; N], skip: usize) -> u32 {
    u32::from_be_bytes(*record[skip.min(N - 4)..].first_chunk().expect("a record has a head"))
}

impl Bins {
    /// Makes room for `records`, all of which are then to be placed, once each.
    pub fn count<const N: usize>(&mut self, records: &[[u8; N]], skip: usize) {
        assert!(records.len() <= MOST, "more records than are sorted in one piece");
        self.bits = (records.len() / BIN).max(1).ilog2();
        self.next.clear();
        self.next.resize(1 << self.bits, 0);
        records.iter().for_each(|record| self.next[bin(head(record, skip), self.bits)] += 1);
        let mut begin = 0;
        for next in &mut self.next {
            begin += std::mem::replace(next, begin);
        }
    }

    /// Where `record` goes: among those of its bin, behind those that were placed before.
    #[inline(always)]
    pub fn place<const N: usize>(&mut self, record: &[u8; N], skip: usize) -> usize {
        let next = &mut self.next[bin(head(record, skip), self.bits)];
        *next += 1;
        *next as usize - 1
    }

    /// The places of each bin, when all have been placed.
    pub fn each(&self) -> impl Iterator<Item = Range<usize>> {
        let begins = std::iter::once(0).chain(self.next.iter().copied());
        begins.zip(&self.next).map(|(begin, &end)| begin as usize..end as usize)
    }
}

#[inline(always)]
fn bin(head: u32, bits: u32) -> usize {
    (u64::from(head) << bits >> 32) as usize
}

/// The records of `records` in ascending order, put in the place of what is in `sorted`. All are the same in their first `skip`
/// bytes.
pub fn ascending<const N: usize>(records: &[[u8; N]], skip: usize, bins: &mut Bins, sorted: &mut Vec<[u8; N]>) {
    bins.count(records, skip);
    sorted.clear();
    sorted.resize(records.len(), [0; N]);
    records.iter().for_each(|record| sorted[bins.place(record, skip)] = *record);
    for bin in bins.each() {
        let bin = &mut sorted[bin];
        if bin.len() > FEW {
            bin.sort_unstable();
            continue;
        }
        for i in 1..bin.len() {
            let record = bin[i];
            let less = |other: &[u8; N]| {
                let (own, other_head) = (head(&record, skip), head(other, skip));
                own < other_head || (own == other_head && record < *other)
            };
            let mut at = i;
            while at > 0 && less(&bin[at - 1]) {
                bin[at] = bin[at - 1];
                at -= 1;
            }
            bin[at] = record;
        }
    }
}

/// Records bucket by bucket: whoever has them to himself puts them in that order, and then they are filed by few copies while
/// others wait. The memory is used again.
pub struct Grouped<const N: usize> {
    /// Where the records of each bucket end.
    ends: Vec<usize>,
    records: Vec<[u8; N]>,
}

impl<const N: usize> Default for Grouped<N> {
    fn default() -> Self {
        Self { ends: Vec::new(), records: Vec::new() }
    }
}

impl<const N: usize> Grouped<N> {
    /// Takes `records`, in the place of those that there were: `bucket` says which of so many buckets each belongs to, given its place.
    pub fn group(&mut self, buckets: usize, records: &[[u8; N]], bucket: impl Fn(usize) -> usize) {
        let Self { ends, records: grouped } = self;
        ends.clear();
        ends.resize(buckets, 0);
        (0..records.len()).for_each(|place| ends[bucket(place)] += 1);
        let mut begin = 0;
        for next in ends.iter_mut() {
            begin += std::mem::replace(next, begin);
        }
        grouped.resize(records.len(), [0; N]);
        for (place, record) in records.iter().enumerate() {
            let next = &mut ends[bucket(place)];
            grouped[*next] = *record;
            *next += 1;
        }
    }

    /// The records of each bucket that has some, in the order in which they stood.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn each<E>(&self, mut each: impl FnMut(usize, &[[u8; N]]) -> Result<(), E>) -> Result<(), E> {
        let mut begin = 0;
        self.ends.iter().enumerate().try_for_each(|(bucket, &end)| {
            let records = &self.records[std::mem::replace(&mut begin, end)..end];
            if records.is_empty() { Ok(()) } else { each(bucket, records) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn records_come_out_sorted(mut records: Vec<[u8; 6]>, few: Vec<[bool; 6]>) {
            // Some that differ in a few bits only, so that heads recur.
            records.extend(few.into_iter().map(|bits| bits.map(u8::from)));
            records.iter_mut().for_each(|record| record[0] = 7);
            let (mut bins, mut sorted) = (Bins::default(), vec![[1; 6]; 3]);
            ascending(&records, 1, &mut bins, &mut sorted);
            records.sort_unstable();
            proptest::prop_assert_eq!(&sorted, &records);
            // The same memory again.
            ascending(&records[..records.len() / 2], 1, &mut bins, &mut sorted);
            proptest::prop_assert_eq!(&sorted, &records[..records.len() / 2]);
        }
    }

    #[test]
    fn records_are_grouped_in_their_order() {
        let mut grouped = Grouped::default();
        for n in [1000u16, 0, 17] {
            let records: Vec<[u8; 2]> = (0..n).map(u16::to_be_bytes).collect();
            grouped.group(13, &records, |place| place * place % 13);
            let mut got = vec![Vec::new(); 13];
            let filed = grouped.each(|bucket, records| {
                assert!(got[bucket].is_empty() && !records.is_empty());
                got[bucket].extend(records.iter().map(|record| u16::from_be_bytes(*record)));
                Ok::<_, ()>(())
            });
            filed.unwrap();
            let expected = |bucket| (0..n).filter(|&i| usize::from(i) * usize::from(i) % 13 == bucket).collect();
            assert_eq!(got, (0..13).map(expected).collect::<Vec<Vec<_>>>());
        }
    }

    /// Somebody planted them: more than a bin has by chance.
    #[test]
    fn a_bin_of_most_records_is_sorted_too() {
        let records: Vec<[u8; 8]> = (0..5000u64).map(|i| (i * 2_654_435_761 % 5003).to_be_bytes()).collect();
        let (mut sorted, mut expected) = (Vec::new(), records.clone());
        ascending(&records, 0, &mut Bins::default(), &mut sorted);
        expected.sort_unstable();
        assert_eq!(sorted, expected);
    }
}
