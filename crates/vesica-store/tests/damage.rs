//! Files that are truncated, changed, of another version, or somebody else's.

use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use vesica_store::*;

fn output(i: u64) -> [u8; 32] {
    *blake3::hash(&i.to_le_bytes()).as_bytes()
}

/// A store of two parts, the second of which removes one entry.
fn store(folder: &Path, entries: u64) {
    let scratch = std::env::temp_dir();
    let shape = Shape { lifetime: 1 << 10, value: Some(8) };
    let mut builder = Builder::new(folder, shape, 1 << 20, &scratch).unwrap();
    let mut batch = builder.sealer().batch();
    (0..entries).for_each(|key| batch.add(&output(key), Some(&key.to_le_bytes()), 0).unwrap());
    builder.push(&batch).unwrap();
    builder.finish([1; 32], 2).unwrap();
    let mut delta = Delta::new(folder, 1 << 20, &scratch).unwrap();
    let mut batch = delta.sealer().batch();
    batch.add(&output(entries), Some(b"last"), 0).unwrap();
    delta.push(&batch).unwrap();
    delta.remove(&output(0)).unwrap();
    delta.finish(2).unwrap();
}

/// The files of a store. The one that is locked while it is written is none of them.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|path| !path.ends_with(".lock"));
    files.sort();
    files
}

fn why(folder: &Path) -> String {
    Store::open(folder).map(drop).unwrap_err().to_string()
}

#[test]
fn a_file_that_is_cut_or_grown_or_gone_is_named() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), 5);
    assert_eq!(files(dir.path()).len(), 5);
    for path in files(dir.path()) {
        let whole = fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let grown = [&whole[..], b"x"].concat();
        for bytes in (0..whole.len()).map(|length| &whole[..length]).chain([&grown[..]]) {
            fs::write(&path, bytes).unwrap();
            let why = why(dir.path());
            assert!(why.contains(name) && why.contains("damaged"), "{name}, {} bytes: {why}", bytes.len());
        }
        fs::remove_file(&path).unwrap();
        assert!(why(dir.path()).contains(&format!("{name}: no such file")));
        fs::write(&path, &whole).unwrap();
    }
    Store::open(dir.path()).unwrap();
}

#[test]
fn every_flipped_byte_of_a_small_store_is_found() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), 5);
    for path in files(dir.path()) {
        let whole = fs::read(&path).unwrap();
        for place in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[place] ^= 1 << (place % 8);
            fs::write(&path, flipped).unwrap();
            let why = why(dir.path());
            assert!(why.contains("is damaged") || why.contains("has format"), "byte {place} of {path:?}: {why}");
        }
        fs::write(&path, &whole).unwrap();
    }
    Store::open(dir.path()).unwrap().verify(2).unwrap();
}

#[test]
fn in_a_large_store_checking_names_the_chunk() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), 80_000);
    let part = files(dir.path()).into_iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let whole = fs::read(&part).unwrap();
    assert!(whole.len() > 2 * CHUNK);
    for place in [CHUNK, CHUNK + 5, whole.len() - 1] {
        let mut flipped = whole.clone();
        flipped[place] ^= 1;
        fs::write(&part, flipped).unwrap();
        let store = Store::open(dir.path()).unwrap();
        let why = store.verify(2).unwrap_err().to_string();
        assert!(why.contains(&format!("chunk {}, from byte {}", place / CHUNK, place / CHUNK * CHUNK)), "{why}");
        // A key that is there is found, and opens or is an error; or the search names the chunk. It never looks absent.
        for key in 1..2000 {
            match store.find(&output(key)) {
                Ok(found) => {
                    let value = found.expect("a key that is there").value(&output(key));
                    assert!(value.is_none_or(|value| value == key.to_le_bytes()));
                }
                Err(error) => assert!(error.to_string().contains(&format!("chunk {}", place / CHUNK)), "{error}"),
            }
        }
    }
}

#[test]
fn files_of_another_version_are_told_from_damage() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), 5);
    let manifest = dir.path().join("manifest");
    let mut bytes = fs::read(&manifest).unwrap();
    bytes[16] = 2;
    fs::write(&manifest, bytes).unwrap();
    let error = Store::open(dir.path()).map(drop).unwrap_err();
    assert!(error.to_string().contains("has format 2 and this program reads format 1"), "{error}");
    assert_eq!(error.fault(), vesica_session::Fault::Config);
}

/// A part of another store under the name that the manifest has.
#[test]
fn parts_are_not_mixed() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    store(dir.path(), 5);
    store(other.path(), 5);
    let (ours, theirs) = (files(dir.path()), files(other.path()));
    for suffix in ["", ".sums"] {
        let of = |files: &[PathBuf]| {
            let is = |path: &&PathBuf| {
                let name = path.file_name().unwrap().to_str().unwrap();
                name.starts_with("part-0000") && name.ends_with(".sums") != suffix.is_empty()
            };
            files.iter().find(is).unwrap().clone()
        };
        fs::copy(of(&theirs), of(&ours)).unwrap();
        assert!(why(dir.path()).contains("damaged"));
    }
    assert!(why(dir.path()).contains("its sums are not those of the manifest"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What the fuzzer does, on mutations of an honest part under a right checksum of the header. Nothing may panic.
    #[test]
    fn mutated_parts_are_safe_to_search(
        entries in 0u64..300,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 0..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        store(dir.path(), entries + 1);
        for path in files(dir.path()) {
            let mut bytes = fs::read(path).unwrap();
            for (at, byte, early) in &changes {
                // Half of the changes fall on the header.
                let end = if *early { bytes.len().min(96) } else { bytes.len() };
                bytes[at.index(end)] = *byte;
            }
            fuzzing::part(&bytes);
            fuzzing::resealed_part(&bytes);
            fuzzing::resealed_part(&bytes[..cut.index(bytes.len())]);
            fuzzing::manifest(&bytes);
            fuzzing::resealed_manifest(&bytes);
        }
    }
}
