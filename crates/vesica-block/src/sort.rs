//! Sorting what begins like random bits, as digests and tags do.

/// The most records that fall to one bin by chance, of 2^23 at most. A bin that has more, because there are more records or somebody planted them,
/// is sorted as anything else is.
const FEW: u32 = 32;

/// Bins of a level, the most: as many places as are written to by turns stay in the first-level cache.
const MOST: u32 = 10;

/// Puts `records` in ascending order. Their *heads* ascend as they do: of two records, the one with the lesser head is the
/// lesser one. Heads are random, as those of digests are; nothing but speed rests on it. What is in `spare` is lost: memory of
/// the same size, to be used again.
///
/// Records go to bins by the first half of a head's bits, and from each bin to smaller ones by the second half; then few of
/// them stand behind a greater one. So every write goes to one of a thousand places at most, and every bin of the first level
/// is sorted while it is in the cache.
///
/// Example: `ascending(&mut values, &mut Vec::new(), |value: &u64| (value >> 32) as u32)`.
pub fn ascending<T: Copy + Ord>(records: &mut [T], spare: &mut Vec<T>, head: impl Fn(&T) -> u32 + Copy) {
    let (Some(any), len) = (records.first().copied(), records.len()) else { return };
    if len <= FEW as usize {
        return records.sort_unstable();
    }
    spare.resize(len.max(spare.len()), any);
    let bits = len.ilog2().min(2 * MOST);
    let outer = bits / 2;
    let inner = bits - outer;
    let mut ends = vec![0; 1 << outer];
    let mut ends_inside = vec![0; 1 << inner];
    spread(records, spare, &mut ends, |record| bin(head(record), outer));
    let mut begin = 0;
    for end in ends {
        let (from, to) = (&spare[begin..end], &mut records[begin..end]);
        begin = end;
        if spread(from, to, &mut ends_inside, |record| bin(head(record) << outer, inner)) <= FEW as usize {
            insert(to, head);
        } else {
            to.sort_unstable();
        }
    }
}

/// Which of 2^`bits` bins a head belongs to; all to one, if there is but one.
#[inline(always)]
fn bin(head: u32, bits: u32) -> usize {
    (u64::from(head) << bits >> 32) as usize
}

/// Puts `from` to `to` by bins, whose ends it writes to `ends`; tells how many are in the largest one.
#[inline(always)]
fn spread<T: Copy>(from: &[T], to: &mut [T], ends: &mut [usize], bin: impl Fn(&T) -> usize) -> usize {
    ends.fill(0);
    from.iter().for_each(|record| ends[bin(record)] += 1);
    let (mut begin, mut most) = (0, 0);
    for end in &mut *ends {
        most = most.max(*end);
        begin += std::mem::replace(end, begin);
    }
    for record in from {
        let end = &mut ends[bin(record)];
        to[*end] = *record;
        *end += 1;
    }
    most
}

/// Sorts records few of which stand behind a greater one.
#[inline(always)]
fn insert<T: Copy + Ord>(records: &mut [T], head: impl Fn(&T) -> u32) {
    let mut greatest = 0;
    for i in 0..records.len() {
        let record = records[i];
        let own = head(&record);
        if own > greatest {
            greatest = own;
            continue;
        }
        let less = |other: &T| {
            let of_other = head(other);
            own < of_other || (own == of_other && record < *other)
        };
        let mut at = i;
        while at > 0 && less(&records[at - 1]) {
            records[at] = records[at - 1];
            at -= 1;
        }
        records[at] = record;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(record: &[u8; 6]) -> u32 {
        u32::from_be_bytes(*record.first_chunk().expect("a record has a head"))
    }

    /// Of any number; of these, some are alike in their heads, and some in all.
    #[test]
    fn records_come_out_sorted() {
        let mut spare = vec![[1; 6]; 3];
        for len in [0, 1, 2, 31, 32, 33, 34, 63, 64, 500, 4096, 50_000] {
            let mut random = vec![0; 6 * len];
            blake3::Hasher::new().finalize_xof().fill(&mut random);
            for kept in [[0xff; 6], [0xff, 0xff, 3, 0, 0xff, 0], [0, 1, 0, 0, 3, 1]] {
                let mut records: Vec<[u8; 6]> =
                    random.as_chunks().0.iter().map(|r: &[u8; 6]| std::array::from_fn(|i| r[i] & kept[i])).collect();
                let mut expected = records.clone();
                expected.sort_unstable();
                ascending(&mut records, &mut spare, head);
                assert_eq!(records, expected);
            }
        }
    }

    /// Somebody planted them: more than a bin has by chance, at either level.
    #[test]
    fn bins_of_most_records_are_sorted_too() {
        for shift in [0, 12, 24, 31, 32] {
            let mut records: Vec<u64> = (0..5000u64).map(|i| (i * 2_654_435_761 % 5003) << shift).collect();
            let mut expected = records.clone();
            expected.sort_unstable();
            ascending(&mut records, &mut Vec::new(), |record| (record >> 32) as u32);
            assert_eq!(records, expected);
        }
    }

    #[test]
    fn there_may_be_more_than_bins_are_for() {
        let mut records: Vec<u32> = (0..1 << 22).map(|i: u32| i.wrapping_mul(2_654_435_761)).collect();
        let mut expected = records.clone();
        expected.sort_unstable();
        ascending(&mut records, &mut Vec::new(), |record| *record);
        assert_eq!(records, expected);
    }
}
