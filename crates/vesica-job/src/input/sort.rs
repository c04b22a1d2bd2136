//! Sorting records that begin like random bytes.

/// Records in a bin: few enough that sorting one is a matter of a few steps.
const BIN: usize = 4;

/// The most records that are sorted in one piece.
pub const MOST: usize = 1 << 32;

/// The places of `records` in ascending order. Records are the same in their first `skip` bytes, and random in the next four,
/// as digests are: by the first bits of those they go into bins of a few each. Nothing but speed rests on randomness.
pub fn ascending<const N: usize>(records: &[[u8; N]], skip: usize) -> impl Iterator<Item = usize> {
    assert!(records.len() <= MOST, "more records than are sorted in one piece");
    let head = |record: &[u8; N]| u32::from_be_bytes(*record[skip..].first_chunk().expect("a record has a head"));
    let bits = (records.len() / BIN).max(1).ilog2();
    let bin = |head: u32| (u64::from(head) << bits >> 32) as usize;
    // Where each bin begins; as it is filled, where its next record goes.
    let mut next = vec![0; (1 << bits) + 1];
    records.iter().for_each(|record| next[bin(head(record)) + 1] += 1);
    for i in 0..1 << bits {
        next[i + 1] += next[i];
    }
    // A head with its place behind it is a number, and numbers sort faster than records.
    let mut order = vec![0; records.len()];
    for (record, place) in records.iter().zip(0..) {
        let head = head(record);
        let next = &mut next[bin(head)];
        order[*next] = u64::from(head) << 32 | place;
        *next += 1;
    }
    let place = |head_and_place: u64| head_and_place as u32 as usize;
    let mut from = 0;
    for &to in &next[..1 << bits] {
        order[from..to].sort_unstable_by(|&a, &b| {
            (a >> 32).cmp(&(b >> 32)).then_with(|| records[place(a)].cmp(&records[place(b)]))
        });
        from = to;
    }
    order.into_iter().map(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn places_are_those_of_sorting(mut records: Vec<[u8; 6]>, few: Vec<[bool; 6]>) {
            // Some that differ in a few bits only, so that heads recur.
            records.extend(few.into_iter().map(|bits| bits.map(u8::from)));
            records.iter_mut().for_each(|record| record[0] = 7);
            let sorted: Vec<_> = ascending(&records, 1).map(|place| records[place]).collect();
            records.sort_unstable();
            proptest::prop_assert_eq!(sorted, records);
        }
    }
}
