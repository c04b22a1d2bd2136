//! Copying a store: transfers that are cut, servers that lie.

use proptest::prelude::*;
use std::fs;
use std::path::Path;
use vesica_session::Fault;
use vesica_store::*;
use vesica_testkit::Witness;

fn output(i: u64) -> [u8; 32] {
    *blake3::hash(&i.to_le_bytes()).as_bytes()
}

fn server(folder: &Path, entries: u64) -> Store {
    let shape = Shape { lifetime: 1 << 10, value: Some(40) };
    let mut builder = Builder::new(folder, shape, 1 << 20, &std::env::temp_dir()).unwrap();
    let mut batch = builder.sealer().batch();
    (0..entries).for_each(|key| batch.add(&output(key), Some(&key.to_le_bytes()), 0).unwrap());
    builder.push(&batch).unwrap();
    builder.finish([1; 32], 2).unwrap();
    Store::open(folder).unwrap()
}

fn add(folder: &Path, key: u64) -> Store {
    let mut delta = Delta::new(folder, 1 << 20, &std::env::temp_dir()).unwrap();
    let mut batch = delta.sealer().batch();
    batch.add(&output(key), Some(b"added"), 0).unwrap();
    delta.push(&batch).unwrap();
    delta.finish(2).unwrap();
    Store::open(folder).unwrap()
}

/// Copies at most `most` chunks, as the client of `server` would. Returns how many, and whether the copy is whole.
fn fetch(server: &Store, folder: &Path, most: usize) -> (usize, bool) {
    let manifest = Manifest::decode(&server.manifest().encode(), Limits::NONE).unwrap();
    let incoming = Incoming::open(folder, manifest).unwrap();
    let mut copied = 0;
    for number in incoming.missing() {
        let mut part = incoming.resume(number, server.sums(number).unwrap().to_vec()).unwrap();
        while part.next() < part.chunks() {
            if copied == most {
                return (copied, false);
            }
            part.append(server.chunk(number, part.next()).unwrap()).unwrap();
            copied += 1;
        }
        part.finish().unwrap();
    }
    incoming.finish().unwrap();
    (copied, true)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn same(a: &Path, b: &Path) -> bool {
    names(a) == names(b)
        && names(a).iter().all(|name| fs::read(a.join(name)).unwrap() == fs::read(b.join(name)).unwrap())
}

#[test]
fn a_copy_is_the_store_byte_for_byte_and_only_what_is_new_is_copied_again() {
    let (theirs, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = ours.path().join("cache");
    let store = server(theirs.path(), 40_000);
    let chunks = store.manifest().parts[0].bytes.div_ceil(CHUNK as u64) as usize;
    assert!(chunks > 2);
    assert_eq!(fetch(&store, &folder, usize::MAX), (chunks, true));
    assert!(same(theirs.path(), &folder));
    assert_eq!(fetch(&store, &folder, usize::MAX), (0, true));
    let newer = add(theirs.path(), 50_000);
    assert_eq!(fetch(&newer, &folder, usize::MAX), (1, true), "the new part alone");
    assert!(same(theirs.path(), &folder));
    let copy = Store::open(&folder).unwrap();
    copy.verify(2).unwrap();
    assert_eq!(copy.find(&output(50_000)).unwrap().unwrap().value(&output(50_000)).unwrap(), b"added");
    // The server goes back to what it was.
    let error = Incoming::open(&folder, store.manifest().clone()).map(drop).unwrap_err();
    assert!(error.to_string().contains("it has 1 parts, and an earlier one of the same offer had 2"), "{error}");
    // Another store takes the place of this one.
    let rotated = server(theirs.path(), 10);
    assert_eq!(fetch(&rotated, &folder, usize::MAX), (1, true));
    assert!(same(theirs.path(), &folder));
    assert!(copy.find(&output(50_000)).unwrap().is_some(), "whoever has it open keeps it");
}

/// What is named is there for good: a part when it is whole, before the next is asked for, and the manifest when all parts are.
#[test]
fn a_store_and_its_copy_outlive_a_failure_of_power() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [made, copied] = [0, 1].map(|of| Witness::of(dirs[of].path()));
    // With the folders that they are the first in.
    let [theirs, ours] = [0, 1].map(|of| dirs[of].path().join("new"));
    server(&theirs, 40_000);
    let store = add(&theirs, 50_000);
    let all: Vec<String> = names(&theirs).into_iter().filter(|name| !name.starts_with('.')).collect();
    assert_eq!(all.len(), 5);
    all.iter().for_each(|name| made.is_put(&theirs.join(name)).unwrap());

    let incoming = Incoming::open(&ours, store.manifest().clone()).unwrap();
    let parts = &store.manifest().parts;
    for number in incoming.missing() {
        let mut part = incoming.resume(number, store.sums(number).unwrap().to_vec()).unwrap();
        while part.next() < part.chunks() {
            part.append(store.chunk(number, part.next()).unwrap()).unwrap();
        }
        part.finish().unwrap();
        let whole = [parts[number].file_name(), parts[number].sums_name()];
        whole.iter().for_each(|name| copied.is_put(&ours.join(name)).unwrap());
    }
    incoming.finish().unwrap();
    all.iter().for_each(|name| copied.is_put(&ours.join(name)).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// The transfer ends after some chunks, and the process is killed at any byte of writing the next one.
    #[test]
    fn a_transfer_that_is_cut_anywhere_goes_on(
        cuts in prop::collection::vec((0usize..3, any::<prop::sample::Index>(), any::<bool>()), 0..4),
    ) {
        let (theirs, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = server(theirs.path(), 60_000);
        let store = { drop(store); add(theirs.path(), 70_000) };
        for (chunks, torn, garbage) in cuts {
            let (_, whole) = fetch(&store, ours.path(), chunks);
            let is_partial = |name: &&String| name.ends_with(".partial");
            if let Some(partial) = names(ours.path()).iter().find(is_partial).filter(|_| !whole) {
                let path = ours.path().join(partial);
                let length = fs::metadata(&path).unwrap().len();
                let file = fs::File::options().write(true).open(&path).unwrap();
                if garbage {
                    // A file that is longer than what was written of it, as after a crash of the system.
                    file.set_len(length + torn.index(2 * CHUNK) as u64).unwrap();
                } else {
                    file.set_len(torn.index(length as usize + 1) as u64).unwrap();
                }
            }
        }
        prop_assert!(fetch(&store, ours.path(), usize::MAX).1);
        prop_assert!(same(theirs.path(), ours.path()));
    }
}

#[test]
fn what_a_server_should_not_send_is_refused_and_what_was_good_stays() {
    let (theirs, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = server(theirs.path(), 40_000);
    let incoming = Incoming::open(ours.path(), store.manifest().clone()).unwrap();
    let sums = store.sums(0).unwrap().to_vec();
    assert_eq!(incoming.sums_bytes(0), Some(sums.len() as u64));
    for wrong in [&sums[1..], &[&sums[..], &[0; 32]].concat(), &[7; 96], &[]] {
        let error = incoming.resume(0, wrong.to_vec()).map(drop).unwrap_err();
        assert_eq!(error.fault(), Fault::Peer);
        assert!(error.to_string().contains("sums of part 0"), "{error}");
    }
    assert!(incoming.resume(1, sums.clone()).is_err());
    let mut part = incoming.resume(0, sums.clone()).unwrap();
    part.append(store.chunk(0, 0).unwrap()).unwrap();
    let mut flipped = store.chunk(0, 1).unwrap().to_vec();
    flipped[77] ^= 4;
    let long = [store.chunk(0, 1).unwrap(), b"x"].concat();
    for wrong in [store.chunk(0, 0).unwrap(), &store.chunk(0, 1).unwrap()[1..], &flipped, &long, &[]] {
        let error = part.append(wrong).unwrap_err();
        assert_eq!(error.fault(), Fault::Peer);
        assert!(error.to_string().contains("chunk 1 of part 0"), "{error}");
    }
    assert_eq!(part.next(), 1);
    assert!(matches!(part.finish(), Err(Error::Unfetched { part: 0, .. })));
    assert!(matches!(Incoming::open(ours.path(), store.manifest().clone()), Err(Error::Busy { .. })));
    assert!(matches!(incoming.finish(), Err(Error::Unfetched { part: 0, .. })));
    assert!(matches!(Store::open(ours.path()), Err(Error::Missing { .. })));
    let last = store.manifest().parts[0].bytes.div_ceil(CHUNK as u64);
    assert!(store.chunk(0, last).is_none() && store.chunk(0, u64::MAX).is_none() && store.chunk(1, 0).is_none());
    assert_eq!(
        fetch(&store, ours.path(), usize::MAX),
        (last as usize - 1, true),
        "what was good is not asked for again"
    );
}

/// The folder holds files of other programs besides, called like parts, and what an earlier copy left of its own.
#[test]
fn what_other_programs_have_there_stays() {
    let (theirs, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let others = [
        "part-00000.parquet",
        "part-00000-0123456789abcdef.snappy.parquet",
        "part-time.kept",
        "part-1-0123456789abcdef",
    ];
    let left = [
        "part-0000-0123456789abcdef",
        "part-0000-0123456789abcdef.sums",
        "part-10000-0123456789abcdef.partial",
        ".writing-Ab3xYz",
    ];
    let store = server(theirs.path(), 100);
    for folder in [&theirs, &ours] {
        others.iter().chain(&left).for_each(|name| fs::write(folder.path().join(name), "mine").unwrap());
    }
    let added = add(theirs.path(), 1000);
    assert!(fetch(&store, ours.path(), usize::MAX).1 && fetch(&added, ours.path(), usize::MAX).1);
    for folder in [&theirs, &ours] {
        let names = names(folder.path());
        assert!(others.iter().all(|name| names.contains(&(*name).to_owned())), "{names:?}");
        assert!(left.iter().all(|name| !names.contains(&(*name).to_owned())), "{names:?}");
    }
    Store::open(ours.path()).unwrap();
}
