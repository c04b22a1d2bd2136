//! Spills in memory and beyond it.

use super::memory::{BLOCK, SLAB};
use super::*;
use crate::sealed::Sealed;
use proptest::prelude::*;
use std::io;
use std::path::PathBuf;

fn dir() -> PathBuf {
    std::env::temp_dir()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_goes_in_comes_out_in_order(
        buckets in 1usize..20,
        record in 1usize..30,
        memory in 1usize..5000,
        pushed in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..600),
        block in 1usize..50,
    ) {
        let mut spill = Spill::new(buckets, record, memory, &dir()).unwrap();
        let mut expected = vec![Vec::new(); buckets];
        for (i, (bucket, byte)) in pushed.iter().enumerate() {
            let bucket = bucket.index(buckets);
            let bytes: Vec<u8> = (0..record).map(|j| byte ^ (i + j) as u8).collect();
            spill.push(bucket, &bytes).unwrap();
            expected[bucket].extend(bytes);
        }
        let spilled = spill.finish().unwrap();
        prop_assert_eq!(spilled.total(), pushed.len() as u64);
        for (bucket, expected) in expected.iter().enumerate() {
            prop_assert_eq!(spilled.len(bucket) * record, expected.len());
            prop_assert_eq!(&spilled.read(bucket).unwrap(), expected);
            let blocks: Vec<_> = spilled.blocks(bucket, block).map(Result::unwrap).collect();
            prop_assert!(blocks.iter().rev().skip(1).all(|b| b.len() == block * record));
            prop_assert_eq!(&blocks.concat(), expected);
        }
    }
}

#[test]
fn what_will_not_fit_takes_no_more_memory_than_long_pieces() {
    const MEMORY: usize = 64 << 20;
    for (records, most) in [(0, MEMORY), (MEMORY as u64 / 16, MEMORY), (MEMORY as u64, 3 * LONG), (u64::MAX, 3 * LONG)]
    {
        let mut spill = Spill::of(records, 3, 16, MEMORY, &dir()).unwrap();
        (0..200_000u128).for_each(|i| spill.push(i as usize % 3, &i.to_le_bytes()).unwrap());
        assert!(spill.log.runs.memory.slabs.iter().map(Vec::len).sum::<usize>() <= most);
        let spilled = spill.finish().unwrap();
        assert_eq!(spilled.disk_bytes() > 0, most < MEMORY);
        for bucket in 0..3 {
            let expected = (0..200_000u128).filter(|i| *i as usize % 3 == bucket).flat_map(u128::to_le_bytes);
            assert!(spilled.read(bucket).unwrap().into_iter().eq(expected));
        }
    }
    assert!(Spill::of(u64::MAX, 0, 16, MEMORY, &dir()).is_err());
}

#[test]
fn within_the_budget_nothing_is_written_and_beyond_it_all_is_kept() {
    for (memory, on_disk) in [(1 << 20, false), (1 << 12, true), (3 << 10, true)] {
        let mut spill = Spill::new(7, 16, memory, &dir()).unwrap();
        (0..1000u128).for_each(|i| spill.push(i as usize % 7, &i.to_le_bytes()).unwrap());
        assert!(spill.log.runs.memory.slabs.iter().map(Vec::capacity).sum::<usize>() <= memory);
        let spilled = spill.finish().unwrap();
        assert_eq!(spilled.disk_bytes() > 0, on_disk);
        // From several threads at once.
        std::thread::scope(|scope| {
            for bucket in 0..7 {
                let spilled = &spilled;
                scope.spawn(move || {
                    let expected: Vec<u8> =
                        (0..1000u128).filter(|i| *i as usize % 7 == bucket).flat_map(u128::to_le_bytes).collect();
                    assert_eq!(spilled.read(bucket).unwrap(), expected);
                });
            }
        });
    }
}

/// Large pieces go past the page cache, in whole pages.
#[test]
fn large_pieces_come_back_whole_and_block_by_block() {
    const RECORD: usize = 24;
    let record = |i: u64| [i.to_le_bytes(), (i * i).to_le_bytes(), [7; 8]].concat();
    let mut spill = Spill::new(3, RECORD, 3 * 100_000, &dir()).unwrap();
    (0..60_000).for_each(|i| spill.push((i * i % 3) as usize, &record(i)).unwrap());
    let spilled = spill.finish().unwrap();
    assert!(spilled.disk_bytes().is_multiple_of(4096) && spilled.runs.indexes.len() > 3);
    for bucket in 0..3 {
        let expected: Vec<u8> = (0..60_000).filter(|i| i * i % 3 == bucket).flat_map(record).collect();
        assert!(spilled.read(bucket as usize).unwrap() == expected);
        for records in [1, 100, 6000, 40_000] {
            let blocks: Vec<_> = spilled.blocks(bucket as usize, records).map(Result::unwrap).collect();
            assert!(blocks.iter().rev().skip(1).all(|block| block.len() == records * RECORD));
            assert!(blocks.concat() == expected, "blocks of {records}");
        }
    }
}

#[test]
fn records_are_pushed_together() {
    for memory in [1 << 9, 1 << 20] {
        let mut spill = Spill::new(4, 2, memory, &dir()).unwrap();
        spill.push_all(3, &[]).unwrap();
        let all: Vec<u8> = (0..3000u32).map(|i| ((i * i) >> 3) as u8).collect();
        for (bucket, records) in all.chunks(500).enumerate() {
            spill.push_all(bucket % 4, records).unwrap();
        }
        assert!(matches!(spill.push_all(0, &[1; 3]), Err(Error::Bug(_))), "half a record");
        let spilled = spill.finish().unwrap();
        let expected = |bucket| all.chunks(500).skip(bucket).step_by(4).flatten().copied().collect::<Vec<u8>>();
        assert_eq!([0, 1, 2, 3].map(|bucket| spilled.read(bucket).unwrap()), [0, 1, 2, 3].map(expected));
    }
}

#[test]
fn the_last_slab_is_as_large_as_the_budget_allows() {
    let budget = SLAB + 3 * BLOCK + 1;
    let mut memory = Memory::new(2, budget);
    for i in 0..SLAB / BLOCK + 3 {
        assert_eq!(memory.take(i % 2), (i / (SLAB / BLOCK), i % (SLAB / BLOCK) * BLOCK));
    }
    assert_eq!(memory.slabs.iter().map(Vec::len).collect::<Vec<_>>(), [SLAB, 3 * BLOCK]);
}

/// One spill after the other has the slabs of the one before, whether that fitted in memory or not, and no more than its own budget beside them.
#[test]
fn memory_is_used_again() {
    const MEMORY: usize = 2 * SLAB;
    let slabs = Slabs::default();
    let left = || slabs.slabs().iter().map(|slab| slab.as_ptr().addr()).collect::<std::collections::BTreeSet<_>>();
    let spilled = |memory: usize, bytes: usize| {
        let mut spill = Spill::new(3, 1 << 10, memory, &dir()).unwrap().reusing(&slabs);
        let record = |i: usize| [i as u8; 1 << 10];
        (0..bytes >> 10).for_each(|i| spill.push(i % 3, &record(i)).unwrap());
        let spilled = spill.finish().unwrap();
        let whole = (0..3).all(|bucket| {
            spilled.read(bucket).unwrap().chunks(1 << 10).eq((bucket..bytes >> 10).step_by(3).map(record))
        });
        assert!(whole, "{memory} {bytes}");
        spilled
    };
    let first = spilled(MEMORY, MEMORY - SLAB / 2);
    assert!(left().is_empty());
    drop(first);
    let two = left();
    assert_eq!(two.len(), 2);
    // What goes to the file is in memory no more.
    let second = spilled(MEMORY, 2 * MEMORY);
    assert!(second.disk_bytes() > 0 && left() == two);
    drop(second);
    let third = spilled(MEMORY, SLAB / 2);
    assert_eq!(left().len(), 1);
    assert!(left().is_subset(&two));
    drop(third);
    assert_eq!(left(), two);
    // Of one that needs smaller ones no more is held than that has, and of one that needs larger ones they are in nobody's way.
    let held = || slabs.slabs().iter().map(Vec::capacity).sum::<usize>();
    drop(spilled(SLAB / 4, SLAB / 8));
    assert_eq!(held(), SLAB + SLAB / 4);
    slabs.slabs().retain(|slab| slab.len() < SLAB);
    let fourth = spilled(MEMORY, SLAB / 2);
    assert_eq!(held(), 0);
    drop(fourth);
    assert_eq!(held(), SLAB);
    slabs.release();
    assert_eq!(held(), 0);
}

/// A file that is somebody else's.
struct Bytes(Vec<u8>);

impl ReadAt for Bytes {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let from = self.0.get(offset as usize..).ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(from.get(..bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

#[test]
fn records_that_stand_in_a_file_are_read_where_they_stand() {
    let placed = |bounds: [u64; 4], text: &[u8]| {
        let words = bounds.map(u64::to_le_bytes);
        let bytes = [b"-", words.as_flattened(), text].concat();
        Spilled::placed(Arc::new(Bytes(bytes)), Path::new("f"), 1, 3, 2)
    };
    let spilled = placed([33, 35, 35, 41], b"aabbccdd").unwrap();
    assert_eq!((spilled.buckets(), spilled.total(), spilled.len(2), spilled.disk_bytes()), (3, 4, 3, 8));
    assert_eq!([0, 1, 2].map(|i| spilled.read(i).unwrap()), [&b"aa"[..], b"", b"bbccdd"]);
    let blocks: Vec<_> = spilled.blocks(2, 2).map(Result::unwrap).collect();
    assert_eq!(blocks, [&b"bbcc"[..], b"dd"]);
    assert!(placed([33, 35, 35, 41], b"aabbccd").is_err(), "it is too short");
    assert!(Spilled::placed(Arc::new(Bytes(vec![0; 8])), Path::new("f"), 0, 0, 2).is_err(), "no bucket");
    // A bucket would be read into memory of this size.
    assert!(placed([33, 35, 35, 33 + (1 << 50)], b"aabbccdd").is_err(), "it is far too short");
    assert!(placed([33, 35, 34, 41], b"aabbccdd").is_err(), "a bucket ends before it begins");
    assert!(placed([33, 34, 35, 41], b"aabbccdd").is_err(), "half a record");
}

#[test]
fn the_most_buckets_work_and_one_more_is_a_bug() {
    let mut spill = Spill::new(MAX_BUCKETS, 8, 1 << 16, &dir()).unwrap();
    (0..MAX_BUCKETS).for_each(|i| spill.push(i, &(i as u64).to_le_bytes()).unwrap());
    let spilled = spill.finish().unwrap();
    assert!((0..MAX_BUCKETS).all(|i| spilled.read(i).unwrap() == (i as u64).to_le_bytes()));
    assert!(Spill::new(MAX_BUCKETS + 1, 8, 1 << 16, &dir()).is_err());
    assert!(Spill::new(0, 8, 1 << 16, &dir()).is_err());
    let mut spill = Spill::new(2, 8, 1 << 16, &dir()).unwrap();
    assert!(spill.push(2, &[0; 8]).is_err());
    assert!(spill.push(0, &[0; 7]).is_err());
}

#[test]
fn the_file_has_no_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut spill = Spill::new(3, 8, 64, dir.path()).unwrap();
    (0..1000u64).for_each(|i| spill.push(0, &i.to_le_bytes()).unwrap());
    assert!(spill.log.runs.disk > 0);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let mut spill = Spill::new(3, 8, 64, Path::new("/no/such/folder")).unwrap();
    let error = (0..1000u64).find_map(|i| spill.push(0, &i.to_le_bytes()).err()).unwrap();
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
    assert_eq!(error.fault(), crate::Fault::Config);
}

#[test]
fn a_full_disk_is_an_error() {
    let mut spill = Spill::new(3, 8, 64, &dir()).unwrap();
    spill.log.runs.file = Some(Sealed::full());
    let error = (0..1000u64).find_map(|i| spill.push(0, &i.to_le_bytes()).err()).unwrap();
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    // Another thread may not know yet, and go on: what it writes is masked by the bytes of another place.
    let used = spill.log.runs.disk;
    assert!(used > 0);
    let error = (0..1000u64).find_map(|i| spill.push(0, &i.to_le_bytes()).err()).unwrap();
    assert!(matches!(error, Error::DiskFull { .. }) && spill.log.runs.disk > used, "{error}");
}
