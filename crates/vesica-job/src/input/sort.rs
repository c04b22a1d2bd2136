//! Grouping records by bucket.

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
}
