//! Stores that are made, added to, opened and searched.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use vesica_session::Fault;
use vesica_store::*;

const OFFER: [u8; 32] = [5; 32];

/// The output of the function at key `i`.
fn output(i: u64) -> [u8; 32] {
    *blake3::hash(&i.to_le_bytes()).as_bytes()
}

fn shape(value: Option<u32>) -> Shape {
    Shape { lifetime: 1 << 20, value }
}

fn text(i: u64) -> Vec<u8> {
    format!("value {i}").into_bytes()
}

/// A store of `keys`; with values if the shape has them. Returns what [`Builder::finish`] does.
fn build(folder: &Path, shape: Shape, memory: usize, keys: impl Iterator<Item = u64>) -> Result<Built> {
    let mut builder = Builder::new(folder, shape, memory, &std::env::temp_dir())?;
    let mut batch = builder.sealer().batch();
    for key in keys {
        batch.add(&output(key), shape.value.map(|_| text(key)).as_deref(), 0)?;
    }
    builder.push(&batch)?;
    builder.finish(OFFER, 2)
}

/// What becomes of entries, each with its key, its value and its row.
fn push<const N: usize>(mut builder: Builder, entries: [(u64, &str, u64); N]) -> Result<Built> {
    let mut batch = builder.sealer().batch();
    for (key, value, row) in entries {
        batch.add(&output(key), Some(value.as_bytes()), row)?;
    }
    builder.push(&batch)?;
    builder.finish(OFFER, 2)
}

#[test]
fn an_entry_that_comes_again_is_there_once() {
    let dir = tempfile::tempdir().unwrap();
    let built = build(dir.path(), shape(None), 1 << 20, [3, 4, 3, 3].into_iter()).unwrap();
    assert_eq!((built.part.entries, built.repeated), (2, 2));
    let builder = Builder::new(dir.path(), shape(Some(6)), 1 << 20, &std::env::temp_dir()).unwrap();
    let built = push(builder, [(3, "x", 0), (4, "y", 1), (3, "x", 2)]).unwrap();
    assert_eq!((built.part.entries, built.repeated), (2, 1));
    let store = Store::open(dir.path()).unwrap();
    for (key, value) in [(3, "x"), (4, "y")] {
        assert_eq!(store.find(&output(key)).unwrap().unwrap().value(&output(key)).unwrap(), value.as_bytes());
    }
}

fn bytes_on_disk(folder: &Path) -> Vec<u8> {
    fs::read_dir(folder).unwrap().flat_map(|file| fs::read(file.unwrap().path()).unwrap()).collect()
}

#[test]
fn what_is_pushed_is_found_and_nothing_else_is() {
    for (entries, memory) in [(0, 1 << 20), (1, 1 << 20), (2, 0), (1000, 1 << 20), (20_000, 1 << 18)] {
        for value in [None, Some(16)] {
            let dir = tempfile::tempdir().unwrap();
            let built = build(dir.path(), shape(value), memory, 0..entries).unwrap();
            assert_eq!((built.part.entries, built.part.removed, built.absent), (entries, 0, 0));
            let store = Store::open(dir.path()).unwrap();
            store.verify(2).unwrap();
            assert_eq!((store.len(), store.is_empty()), (entries, entries == 0));
            assert_eq!((store.manifest().offer, store.manifest()), (OFFER, &built.manifest));
            let asked: Vec<[u8; 32]> = (0..entries + 500).rev().map(output).collect();
            for (i, found) in store.find_all(&asked).unwrap().into_iter().map(Says::entry).enumerate() {
                let key = entries + 499 - i as u64;
                assert_eq!(found.is_some(), key < entries, "{key}");
                assert_eq!(store.find(&asked[i]).unwrap().is_some(), key < entries);
                if let (Some(found), Some(_)) = (found, value) {
                    assert_eq!(found.value(&asked[i]).unwrap(), text(key));
                    assert!(found.value(&output(key + 1)).is_none(), "it opens for its own output alone");
                }
            }
        }
    }
}

#[test]
fn a_part_is_as_large_as_the_page_says() {
    let dir = tempfile::tempdir().unwrap();
    let n = 50_000;
    let built = build(dir.path(), shape(None), 1 << 20, 0..n).unwrap();
    // 40 + 20 + 16 bits, of which 16 are heads; docs/src/design/14-store.md.
    assert_eq!(built.manifest.tag_bits(), 76);
    let bits = 8.0 * built.part.bytes as f64 / n as f64;
    let formula = 60.0 + 1.0 + 65_536.0 / n as f64 * (1.0 + 64.0 / 512.0);
    assert!((bits - formula).abs() < 0.1, "{bits} and not {formula}");
}

#[test]
fn neither_values_nor_outputs_stand_in_the_files() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), shape(Some(20)), 1 << 20, 0..200).unwrap();
    let files = bytes_on_disk(dir.path());
    let holds = |needle: &[u8]| files.windows(needle.len()).any(|window| window == needle);
    assert!(holds(&OFFER), "what is there is seen");
    for key in 0..200 {
        assert!(!holds(b"value ") && !holds(&output(key)[..8]) && !holds(&output(key)[24..]));
    }
    // Values of one text look like others, and all are of one length.
    let again = tempfile::tempdir().unwrap();
    build(again.path(), shape(Some(20)), 1 << 20, 0..200).unwrap();
    let other = bytes_on_disk(again.path());
    let same = files.windows(16).filter(|window| other.windows(16).any(|other| other == *window)).count();
    // The tags are the same, for the outputs are.
    assert!(same < 10 * 200 + 300, "{same} of {} bytes recur", files.len());
}

#[test]
fn what_cannot_be_stored_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let builder = Builder::new(dir.path(), shape(Some(6)), 1 << 20, &std::env::temp_dir()).unwrap();
    let twice = push(builder, [(3, "x", 0), (4, "x", 1), (3, "y", 2)]).unwrap_err();
    assert!(matches!(twice, Error::Values { first: 0, second: 2 }) && twice.fault() == Fault::Input, "{twice}");
    let long = build(dir.path(), shape(Some(6)), 1 << 20, 0..1).unwrap_err();
    assert!(long.to_string().contains("has 7 bytes and the service pads values to 6"), "{long}");
    assert!(matches!(Store::open(dir.path()), Err(Error::Missing { .. })), "nothing was made");
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, [".lock"], "and nothing else is left");
    for (lifetime, value, word) in [(0, None, "lifetime"), (1 << 49, None, "lifetime"), (1, Some(1 << 21), "padded")] {
        let error = Builder::new(dir.path(), Shape { lifetime, value }, 0, dir.path()).map(drop).unwrap_err();
        assert!(error.to_string().contains(word) && error.fault() == Fault::Config, "{error}");
    }
    let builder = Builder::new(dir.path(), shape(None), 0, dir.path()).unwrap();
    assert!(matches!(Builder::new(dir.path(), shape(None), 0, dir.path()), Err(Error::Busy { .. })));
    let mut batch = builder.sealer().batch();
    assert!(batch.add(&output(1), Some(b"x"), 0).is_err());
    drop(builder);
    let mut other = Builder::new(dir.path(), shape(None), 0, dir.path()).unwrap();
    batch.add(&output(1), None, 0).unwrap();
    assert!(matches!(other.push(&batch), Err(Error::Bug(_))), "it was sealed under another salt");
}

/// Who knows a folder by another path or by a link meets the lock that there is.
#[test]
fn a_folder_has_one_lock_whatever_it_is_called() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, link) = (dir.path().join("store"), dir.path().join("current"));
    assert!(matches!(lock_folder(&folder), Err(Error::Missing { .. })));
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&folder, &link).unwrap();
    let locked = lock_folder(&folder).unwrap();
    for other in [folder.clone(), link.clone(), dir.path().join("store/../current/")] {
        let busy = Builder::new(&other, shape(None), 0, dir.path()).map(drop);
        assert!(matches!(busy, Err(Error::Busy { .. })), "{}", other.display());
    }
    drop(locked);
    let locked = lock_folder(&link).unwrap();
    assert!(matches!(lock_folder(&folder), Err(Error::Busy { .. })));
    drop(locked);
    assert_eq!(fs::read(folder.join(".lock")).unwrap(), b"", "the file that is locked stays");
}

#[test]
fn a_store_without_room_says_so_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), shape(None), 1 << 20, 0..10).unwrap();
    let mut delta = Delta::new(dir.path(), 1 << 20, &std::env::temp_dir()).unwrap();
    let mut batch = delta.sealer().batch();
    (10..1025).for_each(|key| batch.add(&output(key), None, 0).unwrap());
    delta.push(&batch).unwrap();
    let full = delta.finish(2).unwrap_err();
    assert!(full.to_string().contains("would hold 1025 tags") && full.to_string().contains("for 1024"), "{full}");
    assert_eq!(Store::open(dir.path()).unwrap().len(), 10);
    // Removed tags take room too.
    let mut delta = Delta::new(dir.path(), 1 << 20, &std::env::temp_dir()).unwrap();
    let mut batch = delta.sealer().batch();
    (10..1024).for_each(|key| batch.add(&output(key), None, 0).unwrap());
    delta.push(&batch).unwrap();
    delta.remove(&output(0)).unwrap();
    assert!(matches!(delta.finish(2), Err(Error::Full { tags: 1025, .. })));
}

#[test]
fn a_newer_store_is_taken_up_while_the_old_one_is_read() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), shape(Some(20)), 1 << 20, 0..100).unwrap();
    let old = Store::open(dir.path()).unwrap();
    assert!(old.reload().unwrap().is_none());
    let mut delta = Delta::new(dir.path(), 1 << 20, &std::env::temp_dir()).unwrap();
    let mut batch = delta.sealer().batch();
    batch.add(&output(7), Some(b"another"), 0).unwrap();
    batch.add(&output(200), Some(b"new"), 0).unwrap();
    delta.push(&batch).unwrap();
    delta.remove(&output(8)).unwrap();
    delta.remove(&output(999)).unwrap();
    let built = delta.finish(2).unwrap();
    assert_eq!((built.part.entries, built.part.removed, built.part.replaced, built.absent), (2, 1, 1, 1));
    let new = old.reload().unwrap().unwrap();
    assert!(new.manifest().follows(old.manifest()) && new.len() == 100);
    assert!(new.find(&output(8)).unwrap().is_none() && old.find(&output(8)).unwrap().is_some());
    let value = |store: &Store, key| store.find(&output(key)).unwrap().unwrap().value(&output(key)).unwrap();
    assert_eq!((value(&new, 7), value(&old, 7)), (b"another".to_vec(), text(7)));
    // A new store in the old one's place: its files go, and readers keep them.
    build(dir.path(), shape(Some(20)), 1 << 20, 500..510).unwrap();
    let rotated = new.reload().unwrap().unwrap();
    assert!(!rotated.manifest().follows(new.manifest()) && rotated.len() == 10);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4, "a manifest, a part, its sums and the lock");
    assert_eq!(value(&new, 9), text(9));
    new.verify(1).unwrap();
}

#[derive(Clone, Debug)]
enum Change {
    Push(u64, u64),
    Remove(u64),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        (0u64..40, any::<u64>()).prop_map(|(key, value)| Change::Push(key, value)),
        (0u64..40).prop_map(Change::Remove),
    ];
    prop::collection::vec(change, 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A store and its deltas against a map. Within a delta, a key is pushed once, and a push wins.
    #[test]
    fn deltas_do_what_a_map_does(first in prop::collection::btree_set(0u64..40, 0..40), deltas in prop::collection::vec(changes(), 0..5)) {
        let dir = tempfile::tempdir().unwrap();
        build(dir.path(), shape(Some(20)), 1 << 16, first.iter().copied()).unwrap();
        let mut model: BTreeMap<u64, Vec<u8>> = first.iter().map(|&key| (key, text(key))).collect();
        for changes in deltas {
            let mut delta = Delta::new(dir.path(), 1 << 16, &std::env::temp_dir()).unwrap();
            let (mut batch, mut pushed) = (delta.sealer().batch(), BTreeMap::new());
            let (mut gone, mut absent) = (std::collections::BTreeSet::new(), 0);
            for change in &changes {
                match change {
                    Change::Push(key, value) if !pushed.contains_key(key) => {
                        batch.add(&output(*key), Some(&text(*value)), 0).unwrap_or_default();
                        if text(*value).len() <= 20 {
                            pushed.insert(*key, text(*value));
                        }
                    }
                    Change::Push(..) => {}
                    Change::Remove(key) => {
                        delta.remove(&output(*key)).unwrap();
                        absent += u64::from(gone.insert(*key) && !model.contains_key(key));
                    }
                }
            }
            delta.push(&batch).unwrap();
            let built = delta.finish(2).unwrap();
            prop_assert_eq!(built.absent, absent);
            model.retain(|key, _| !gone.contains(key));
            model.extend(pushed);
            let store = Store::open(dir.path()).unwrap();
            prop_assert_eq!(store.len(), model.len() as u64);
            let asked: Vec<[u8; 32]> = (0..45).map(output).collect();
            for (key, found) in store.find_all(&asked).unwrap().into_iter().enumerate() {
                let value = found.entry().map(|found| found.value(&asked[key]).unwrap());
                prop_assert_eq!(value.as_ref(), model.get(&(key as u64)));
            }
        }
    }
}
