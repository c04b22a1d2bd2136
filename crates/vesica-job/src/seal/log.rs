//! A file of sealed records that grows. What a process appended before it was killed is there for the next one.
//!
//! Behind the front ([`key`](crate::seal::key)) the records stand in stretches. Each process that appends begins a new
//! one, and so does an append after one that failed.
//!
//! | bytes | what |
//! |---|---|
//! | 4, all zero | a stretch begins here |
//! | 32 | random bytes: the key of the stretch is derived from them, and from the number of records before it |
//! | 4 | length of a record as it is sealed, little-endian |
//! | that many | a record, sealed under its number in the file |
//!
//! An undisturbed file has one stretch. Records can be neither changed nor moved, for a record's number is its nonce. A
//! record counts once it is on the disk.
//!
//! A process that is killed while it appends leaves a torn record. Reading ends before the first record that is not as
//! it was sealed; a new stretch begins there, and what stood behind is cut off. So the torn record's number is used
//! again, under another key.
//!
//! A process that is killed before it has synced a record, or whose sync failed, leaves one that looks like any other. The next one
//! writes it over itself and syncs it before it goes by it ([`rewrite`]). That is the last record, since nobody appends
//! behind one that is not there for good; and with the first record, and before it, the front.

use crate::disk::{Disk, DiskFile, rewrite};
use crate::error::JobError;
use crate::seal::file::{failed, remove};
use crate::seal::key::{Front, Given, HOLDS_COINS, Opener, Sealer, Secret, TAG, magic, needs_secret};
use crate::world::random;
use std::fs::TryLockError;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vesica_program::on_disk::{make_missing, sync_folder};

/// Where a record's length would stand if a stretch did not begin there. A sealed record is never empty.
const STRETCH: [u8; 4] = [0; 4];

/// The longest record as it is sealed: in a ledger, a unit of which every key matched; of a service's answers, 2^20 of 64 bytes.
const LONGEST: u32 = (64 << 20) + TAG as u32;

/// How often a file is opened whose name is another one's by the time that it is locked.
const TRIES: usize = 10;

/// The file, locked as long as this lives.
pub struct Log {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    magic: [u8; 16],
    secret: Arc<Secret>,
    /// Seals the records of the present stretch; none before it begins.
    sealer: Option<Sealer>,
    /// Records so far.
    count: u64,
    /// Where they end.
    end: u64,
}

impl Log {
    /// Opens the file, and makes it if it is not there. Hands over the records that are whole, with their numbers.
    ///
    /// # Errors
    /// [`JobError::Resume`] if another process has the file open, or it is no log of this kind, was begun with another
    /// key or is damaged at its first record; errors of the file, and of `each`.
    pub fn open(
        disk: &Arc<dyn Disk>,
        path: &Path,
        kind: &[u8; 15],
        given: &Given,
        each: impl FnMut(u64, &[u8]) -> Result<(), JobError>,
    ) -> Result<Self, JobError> {
        let folder = path.parent().expect("a file in a folder");
        make_missing(&**disk, folder, 0o700).map_err(failed("cannot make the folder of", path))?;
        let mut file = locked(&**disk, path)?;
        let Front { magic, random } = front(path, kind, given, &mut *file)?;
        let secret = Arc::new(given.secret(&random));
        let (path, end) = (path.into(), Front::BYTES as u64);
        let mut log = Self { disk: disk.clone(), path, file, magic, secret, sealer: None, count: 0, end };
        let last = log.read(each)?;
        if !log.is_empty() {
            let written = rewrite(&mut *log.file, last..log.end).and_then(|()| log.file.sync());
            written.map_err(failed("cannot write", &log.path))?;
        }
        Ok(log)
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What its keys are derived from, and those of the files beside it.
    pub fn secret(&self) -> &Arc<Secret> {
        &self.secret
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends a record. On return it is there for good.
    ///
    /// # Errors
    /// Those of writing. A record that was not written whole is none: the next one takes its place.
    pub fn append(&mut self, mut record: Vec<u8>) -> Result<(), JobError> {
        let len = u32::try_from(record.len() + TAG).ok().filter(|&len| len <= LONGEST);
        let len =
            len.ok_or_else(|| failed("cannot write", &self.path)(io::Error::other("a record of an absurd size")))?;
        // The sealer is put back when the record is on the disk. If that fails, the stretch ends.
        let (mut sealer, mut bytes) = match self.sealer.take() {
            Some(sealer) => (sealer, Vec::new()),
            None => self.begin()?,
        };
        let written = sealer.seal(&mut record).and_then(|()| {
            bytes.extend(len.to_le_bytes());
            bytes.extend(record);
            self.file.write_all(&bytes)?;
            self.file.sync()
        });
        written.map_err(failed("cannot write", &self.path))?;
        self.end += bytes.len() as u64;
        self.count += 1;
        self.sealer = Some(sealer);
        Ok(())
    }

    /// Removes the file.
    ///
    /// # Errors
    /// Those of removing it.
    pub fn remove(self) -> Result<(), JobError> {
        remove(&*self.disk, &self.path)?;
        // What it was needed for is over, and an error would say that it is not. Only a failure of the power would bring it back.
        let _ = self.disk.sync_name(&self.path);
        Ok(())
    }

    /// Begins a stretch behind the records that are whole. Returns its first bytes, which are to be written with a
    /// record.
    ///
    /// The file's name is brought to the disk here, and not where the file is made: a process that was killed before it came
    /// to that leaves a file that looks like any other, and with its name all records would be lost. So it is with its folder, and with the
    /// front: they may have been left by whoever failed to sync them, and the first record has that synced again.
    fn begin(&mut self) -> Result<(Sealer, Vec<u8>), JobError> {
        let folder = self.path.parent().expect("a file in a folder");
        let front = if self.is_empty() { 0..self.end } else { 0..0 };
        let cut = self.file.cut(self.end).and_then(|()| rewrite(&mut *self.file, front));
        let named = cut.and_then(|()| sync_folder(&*self.disk, folder)).and_then(|()| self.disk.sync_name(&self.path));
        named.map_err(failed("cannot write", &self.path))?;
        let (sealer, random) = Sealer::new(&self.secret, &self.magic, &self.count.to_le_bytes(), self.count)?;
        Ok((sealer, [&STRETCH[..], &random].concat()))
    }

    /// Hands over the records, and says where the last one begins that may not be there for good, with what stands before it that may not
    /// either: its stretch, and the front.
    fn read(&mut self, mut each: impl FnMut(u64, &[u8]) -> Result<(), JobError>) -> Result<u64, JobError> {
        let mut reader = BufReader::new(&mut self.file);
        let (mut opener, mut end, mut bytes, mut last) = (None, self.end, Vec::new(), 0);
        while let Some(len) = next(&mut reader, &mut bytes).map_err(failed("cannot read", &self.path))? {
            end += (len.len() + bytes.len()) as u64;
            if let (STRETCH, Ok(random)) = (len, bytes.as_slice().try_into()) {
                opener = Some(Opener::new(&self.secret, &self.magic, &self.count.to_le_bytes(), random));
                continue;
            }
            match opener.as_ref().and_then(|opener| opener.open(self.count, &mut bytes)) {
                Some(record) => each(self.count, record)?,
                // It is whole and says nothing: no killed process left it so.
                None if self.is_empty() && self.secret.is_secret() => {
                    let why = "it cannot be read with this key; give the one that it was begun with, or remove it";
                    return Err(refused(&self.path, why));
                }
                None if self.is_empty() => {
                    return Err(refused(&self.path, "it is damaged: remove it, and the run begins anew"));
                }
                None => break,
            }
            last = if self.count == 0 { 0 } else { self.end };
            self.count += 1;
            self.end = end;
        }
        Ok(last)
    }
}

/// The file at `path`, locked. Whoever had it before may have removed it after this opened it: then the lock is one of a file that others no
/// longer find, and is taken again.
fn locked(disk: &dyn Disk, path: &Path) -> Result<Box<dyn DiskFile>, JobError> {
    let busy = || refused(path, "another run is at work on it; wait for its end, or stop it");
    for _ in 0..TRIES {
        let file = disk.open(path).map_err(failed("cannot open", path))?;
        file.lock().map_err(|error| match error {
            TryLockError::WouldBlock => busy(),
            TryLockError::Error(error) => failed("cannot lock", path)(error),
        })?;
        let there = disk.read(path).and_then(|there| there.identity());
        match (there, file.identity()) {
            (Ok(there), Ok(mine)) if there == mine => return Ok(file),
            (Err(error), _) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("cannot open", path)(error));
            }
            (_, Err(error)) => return Err(failed("cannot lock", path)(error)),
            _ => {}
        }
    }
    Err(busy())
}

/// The front of the file at `path`. It is written anew if it is not whole. It is also written anew if nothing stands
/// behind it, and it says that a key was given and none is given now, or the other way round.
fn front(path: &Path, kind: &[u8; 15], given: &Given, file: &mut dyn DiskFile) -> Result<Front, JobError> {
    let (magic, other) = (magic(kind, given.is_secret()), magic(kind, !given.is_secret()));
    let mut bytes = [0; Front::BYTES];
    let has = read_up_to(&mut *file, &mut bytes).map_err(failed("cannot read", path))?;
    let holds_nothing = file.size().map_err(failed("cannot read", path))? <= Front::BYTES as u64;
    let front = Front::from_bytes(&bytes);
    if has < bytes.len() || (holds_nothing && front.magic == other) {
        // New, or killed while it was being made, or of an attempt that met nobody.
        let front = Front { magic, random: random()? };
        let made = file.cut(0).and_then(|()| file.write_all(&front.to_bytes()));
        let synced = made.and_then(|()| file.sync());
        return synced.map(|()| front).map_err(failed("cannot write", path));
    }
    let why = match front.magic {
        begin if begin == magic => return Ok(front),
        // Words about ledgers are for those who know that they have one.
        _ if !kind.starts_with(b"vesica ledger") => {
            "it is not of this program, or of another version of it; remove it if nothing needs it, or choose another name"
        }
        begin if begin == other && given.is_secret() => {
            "it was begun without a key; leave out mine.resume_key, or remove it, and the run begins anew"
        }
        begin if begin == other => "it is sealed; give mine.resume_key, or the passphrase in VESICA_RESUME_PASSPHRASE",
        begin if named(&begin) == named(kind) => {
            let coins = match needs_secret(&begin) {
                true => String::new(),
                false => format!(". It is not sealed: if its job has shared.dp, it {HOLDS_COINS}"),
            };
            let why = "it is of a run with another version of Vesica, whose format this one does not read; take that one, or remove the \
                       ledger, and the run begins anew on every side";
            return Err(refused(path, &format!("{why}{coins}")));
        }
        _ => "it is not a ledger; choose another folder for mine.resume",
    };
    Err(refused(path, why))
}

/// The first bytes of a file without the number of its format, before which a space stands if it has one digit.
pub fn named(magic: &[u8]) -> &[u8] {
    let end = magic.iter().position(u8::is_ascii_digit).unwrap_or(magic.len());
    magic[..end].trim_ascii_end()
}

fn refused(path: &Path, why: &str) -> JobError {
    JobError::Resume { path: path.into(), why: why.into() }
}

/// Reads what stands behind a length into `bytes`, and returns the length as it stands in the file; none if it is not
/// whole.
fn next(file: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<Option<[u8; 4]>> {
    let mut len = [0; 4];
    let has = read_up_to(file, &mut len)?;
    let wanted = if len == STRETCH { 32 } else { u32::from_le_bytes(len) };
    if has < len.len() || wanted > LONGEST {
        return Ok(None);
    }
    bytes.clear();
    let has = file.take(wanted.into()).read_to_end(bytes)?;
    Ok((has == wanted as usize).then_some(len))
}

/// Reads until `buf` is full or there is no more.
fn read_up_to(file: &mut (impl Read + ?Sized), buf: &mut [u8]) -> io::Result<usize> {
    let mut has = 0;
    while has < buf.len() {
        match file.read(&mut buf[has..])? {
            0 => break,
            n => has += n,
        }
    }
    Ok(has)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Files, Folders};
    use crate::frail::Frail;
    use crate::seal::ledger::KIND;
    use crate::world::World;
    use std::fs;
    use std::sync::atomic::{AtomicBool, Ordering};
    use zeroize::Zeroizing;

    fn key(byte: u8) -> Given {
        Given::Key(Zeroizing::new(vec![byte; 32]))
    }

    /// The log at `path`, and the records in it.
    fn open(path: &Path, given: &Given) -> Result<(Log, Vec<Vec<u8>>), JobError> {
        let mut records = Vec::new();
        let log = Log::open(&World::default().disk, path, KIND, given, |number, record| {
            assert_eq!(number, records.len() as u64);
            records.push(record.to_vec());
            Ok(())
        })?;
        Ok((log, records))
    }

    /// A new log of three records, the last of them empty.
    fn written(path: &Path, given: &Given) -> Vec<u8> {
        let _ = fs::remove_file(path);
        let (mut log, _) = open(path, given).unwrap();
        for record in [&b"first record"[..], b"second", b""] {
            log.append(record.to_vec()).unwrap();
        }
        fs::read(path).unwrap()
    }

    fn why(path: &Path, given: &Given) -> String {
        open(path, given).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn what_was_appended_is_there_again_in_one_stretch_a_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("resume/log");
        let first = written(&path, &Given::Nothing);
        let stretch = 4 + 32;
        assert_eq!(first.len(), Front::BYTES + stretch + 3 * (4 + TAG) + 12 + 6);
        let (mut log, records) = open(&path, &Given::Nothing).unwrap();
        assert_eq!(records, [&b"first record"[..], b"second", b""]);
        assert_eq!(fs::read(&path).unwrap(), first, "reading changes nothing");
        log.append(b"fourth".to_vec()).unwrap();
        log.append(b"fifth".to_vec()).unwrap();
        assert_eq!(fs::read(&path).unwrap().len(), first.len() + stretch + 2 * (4 + TAG) + 6 + 5);
        drop(log);
        let (log, records) = open(&path, &Given::Nothing).unwrap();
        assert_eq!(records[2..], [&b""[..], b"fourth", b"fifth"]);
        log.remove().unwrap();
        assert!(!path.exists());
    }

    /// Whatever byte the process was killed at: the records that were whole are there, and more can be appended.
    #[test]
    fn a_log_cut_anywhere_has_what_was_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let whole = written(&path, &Given::Nothing);
        let mut most = 0;
        for end in 0..whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            let (mut log, records) = open(&path, &Given::Nothing).unwrap_or_else(|error| panic!("{end}: {error}"));
            assert!(records.len() >= most, "{end}");
            most = records.len();
            log.append(b"another".to_vec()).unwrap();
            log.append(b"and one more".to_vec()).unwrap();
            drop(log);
            let (_, records) = open(&path, &Given::Nothing).unwrap();
            assert_eq!(records[most..], [&b"another"[..], b"and one more"], "{end}");
        }
        assert_eq!(most, 2, "the last record was never whole");
    }

    /// Another record in the place of one that was cut off must not be sealed as that one was: whoever saw both would
    /// have the difference of what they say.
    #[test]
    fn what_takes_the_place_of_a_torn_record_is_sealed_another_way() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let old = written(&path, &key(3));
        let last = 4 + TAG;
        fs::write(&path, &old[..old.len() - 1]).unwrap();
        let (mut log, records) = open(&path, &key(3)).unwrap();
        assert_eq!(records.len(), 2);
        log.append(Vec::new()).unwrap();
        let new = fs::read(&path).unwrap();
        assert_eq!(new.len(), old.len() + 4 + 32, "a stretch of its own");
        assert_eq!(new[..old.len() - last], old[..old.len() - last]);
        assert_ne!(new[new.len() - TAG..], old[old.len() - TAG..]);
    }

    /// A disk that was full for a while.
    #[test]
    fn a_record_that_could_not_be_written_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        written(&path, &Given::Nothing);
        let (mut log, _) = open(&path, &Given::Nothing).unwrap();
        log.append(b"fourth".to_vec()).unwrap();
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let good = std::mem::replace(&mut log.file, Box::new(full));
        let error = log.append(b"lost".to_vec()).unwrap_err().to_string();
        assert!(error.contains("cannot write"), "{error}");
        log.file = good;
        log.file.write_all(b"what arrived of it").unwrap();
        log.append(b"fifth".to_vec()).unwrap();
        drop(log);
        let (_, records) = open(&path, &Given::Nothing).unwrap();
        assert_eq!(records[3..], [&b"fourth"[..], b"fifth"]);
    }

    #[test]
    fn a_record_of_an_absurd_size_is_refused_and_the_log_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        written(&path, &Given::Nothing);
        let (mut log, _) = open(&path, &Given::Nothing).unwrap();
        let longest = LONGEST as usize - TAG;
        assert!(log.append(vec![0; longest + 1]).unwrap_err().to_string().contains("absurd size"));
        log.append(vec![5; longest]).unwrap();
        drop(log);
        assert_eq!(open(&path, &Given::Nothing).unwrap().1[3].len(), longest);
    }

    #[test]
    fn a_flipped_byte_loses_its_record_and_those_behind_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let whole = written(&path, &Given::Nothing);
        let first = Front::BYTES + 4 + 32;
        let second = first + 4 + 12 + TAG;
        let flipped = |place: usize| {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            fs::write(&path, bytes).unwrap();
        };
        for place in second..whole.len() {
            flipped(place);
            let expected = if place < second + 4 + 6 + TAG { 1 } else { 2 };
            assert_eq!(open(&path, &Given::Nothing).unwrap().1.len(), expected, "{place}");
        }
        // A first record that is damaged is no wrong key.
        for place in [first - 1, first + 4, second - 1] {
            flipped(place);
            assert!(why(&path, &Given::Nothing).contains("it is damaged: remove it"), "{place}");
        }
    }

    /// Whoever can write the folder may have several files that a run left, one of them after the other.
    #[test]
    fn records_are_neither_moved_nor_taken_from_another_log() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let whole = written(&path, &key(3));
        let first = Front::BYTES + 4 + 32;
        let second = first + 4 + 12 + TAG;
        let third = second + 4 + 6 + TAG;
        let count = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            open(&path, &key(3)).map_or(0, |(_, records)| records.len())
        };
        assert_eq!(count(&[&whole[..first], &whole[second..third], &whole[first..second]].concat()), 0, "swapped");
        assert_eq!(count(&[&whole[..second], &whole[first..second]].concat()), 1, "twice");
        assert_eq!(count(&[&whole[..second], &whole[Front::BYTES..]].concat()), 1, "its stretch again");
        // Two processes go on behind the first record; the second stretch of one is put behind all of the other.
        fs::write(&path, &whole[..second]).unwrap();
        open(&path, &key(3)).unwrap().0.append(b"fork".to_vec()).unwrap();
        let fork = fs::read(&path).unwrap();
        assert_eq!(count(&fork), 2);
        assert_eq!(count(&[&whole[..third], &fork[second..]].concat()), 2, "a stretch begins at its own number");
        let other = written(&path, &key(3));
        assert_eq!(count(&[&whole[..second], &other[second..]].concat()), 1, "another log's");
    }

    #[test]
    fn a_log_is_opened_once_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let _first = open(&path, &Given::Nothing).unwrap();
        assert!(why(&path, &Given::Nothing).contains("another run is at work"));
    }

    /// A disk on which another run ends, and removes its log, just when this one has opened it.
    #[derive(Debug, Default)]
    struct Ends(AtomicBool);

    impl Folders for Ends {
        fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
            Files.make_folder(path, mode)
        }

        fn is_folder(&self, path: &Path) -> bool {
            Files.is_folder(path)
        }

        fn sync_name(&self, path: &Path) -> io::Result<()> {
            Files.sync_name(path)
        }
    }

    impl Disk for Ends {
        fn has(&self, path: &Path) -> bool {
            Files.has(path)
        }

        fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
            let file = Files.open(path)?;
            if !self.0.swap(true, Ordering::SeqCst) {
                Files.remove(path)?;
            }
            Ok(file)
        }

        fn read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
            Files.read(path)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            Files.rename(from, to)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            Files.remove(path)
        }

        fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
            Files.list(folder)
        }
    }

    #[test]
    fn a_lock_is_of_the_file_that_others_find() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let disk: Arc<dyn Disk> = Arc::new(Ends::default());
        let mut log = Log::open(&disk, &path, KIND, &Given::Nothing, |_, _| Ok(())).unwrap();
        log.append(b"first".to_vec()).unwrap();
        assert!(why(&path, &Given::Nothing).contains("another run is at work"));
        drop(log);
        assert_eq!(open(&path, &Given::Nothing).unwrap().1, [b"first"]);
    }

    /// The records of the log on a disk.
    fn found(disk: &Arc<dyn Disk>, path: &Path) -> (Log, Vec<Vec<u8>>) {
        let mut records = Vec::new();
        let log = Log::open(disk, path, KIND, &Given::Nothing, |_, record| {
            records.push(record.to_vec());
            Ok(())
        });
        (log.unwrap(), records)
    }

    /// Also where the process that made the file was killed, or failed, just before its name was on the disk: the next one cannot see that.
    #[test]
    fn a_record_is_there_for_good_with_the_name_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/log");
        let (world, disk) = Frail::world(1000);
        let open = || found(&world.disk, &path);
        drop(open());
        assert!(disk.is_synced(&path), "the front");
        // The folder's name, and the file's.
        for fails in [path.parent().unwrap(), &path] {
            let (mut log, _) = open();
            disk.name_fails(fails);
            assert!(log.append(b"lost".to_vec()).is_err() && !disk.is_for_good(&path));
        }
        let (mut log, _) = open();
        for record in [&b"first record"[..], b"second"] {
            log.append(record.to_vec()).unwrap();
            assert!(disk.is_for_good(&path));
        }
        drop(log);
        disk.power_fails();
        assert_eq!(open().1, [&b"first record"[..], b"second"]);
    }

    /// The folders of the file too, whichever of them a process was killed behind.
    #[test]
    fn a_record_is_there_for_good_with_the_folders_of_its_file() {
        // The folder above, of each of two that it is made and named, and the file: opened, cut, written and synced.
        Frail::at_each_write(9, |world, disk, writes| {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("one/two/log");
            let is_killed = Log::open(&world.disk, &path, KIND, &Given::Nothing, |_, _| Ok(())).is_err();
            disk.revive(1000);
            found(&world.disk, &path).0.append(b"first".to_vec()).unwrap();
            assert!(disk.is_for_good(&path), "{writes} writes");
            disk.power_fails();
            assert_eq!(found(&world.disk, &path).1, [b"first"], "{writes} writes");
            is_killed
        });
    }

    /// A record that is handed over is there for good, also where its writer could not sync it: the system may call such bytes clean, and syncs
    /// them no more.
    #[test]
    fn a_record_whose_sync_failed_is_there_for_good_when_it_is_found() {
        let whole: [&[u8]; 4] = [b"first", b"second", b"third", b"fourth"];
        // The records that are there before, the one that is not synced, and whether one process writes them all.
        for (before, is_one) in (0..3).flat_map(|before| [(before, false), (before, true)]) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("log");
            let (world, disk) = Frail::world(10_000);
            let mut log = found(&world.disk, &path).0;
            for record in &whole[..before] {
                log.append(record.to_vec()).unwrap();
                if !is_one {
                    log = {
                        drop(log);
                        found(&world.disk, &path).0
                    };
                }
            }
            // Also if the next one cannot sync it either.
            disk.sync_fails();
            assert!(log.append(whole[before].to_vec()).is_err() && !disk.is_synced(&path));
            drop(log);
            disk.sync_fails();
            assert!(Log::open(&world.disk, &path, KIND, &Given::Nothing, |_, _| Ok(())).is_err());
            let (log, records) = found(&world.disk, &path);
            assert!(records == whole[..=before] && disk.is_for_good(&path), "{before} before it, {is_one}");
            drop(log);
            disk.power_fails();
            let (mut log, records) = found(&world.disk, &path);
            assert_eq!(records, whole[..=before]);
            // And what follows it.
            log.append(b"more".to_vec()).unwrap();
            drop(log);
            disk.power_fails();
            assert_eq!(found(&world.disk, &path).1.len(), before + 2);
        }
    }

    /// A front whose sync failed looks like any other, and without it no record can be read.
    #[test]
    fn a_front_whose_sync_failed_is_there_for_good_with_the_first_record() {
        // Whether the first record's sync fails too, whether the same process goes on, and whether somebody finds the record before the power fails.
        for (fails, goes_on, is_found) in
            [(false, false, false), (false, false, true), (true, false, true), (true, true, false), (true, true, true)]
        {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("log");
            let (world, disk) = Frail::world(1000);
            disk.sync_fails();
            assert!(Log::open(&world.disk, &path, KIND, &Given::Nothing, |_, _| Ok(())).is_err());
            let (mut log, _) = found(&world.disk, &path);
            if fails {
                disk.sync_fails();
                assert!(log.append(b"lost".to_vec()).is_err());
            }
            if !fails || goes_on {
                log.append(b"first".to_vec()).unwrap();
            }
            drop(log);
            let records = if is_found { found(&world.disk, &path).1 } else { vec![b"first".to_vec()] };
            disk.power_fails();
            let after = found(&world.disk, &path).1;
            assert!(after == records && after.len() == 1, "{fails}, {goes_on}, {is_found}");
        }
    }

    /// A ledger of a run that is over is not there again: the next run would take its result for its own.
    #[test]
    fn a_log_that_was_removed_is_gone_for_good() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let (world, disk) = Frail::world(1000);
        let mut log = found(&world.disk, &path).0;
        log.append(b"first".to_vec()).unwrap();
        log.remove().unwrap();
        disk.power_fails();
        assert!(!path.exists());
        // Nobody is told of it where that could not be synced.
        let log = found(&world.disk, &path).0;
        disk.name_fails(&path);
        log.remove().unwrap();
    }

    #[test]
    fn a_sealed_log_needs_its_key_and_shows_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let sealed = written(&path, &key(3));
        assert!(!sealed.windows(6).any(|w| w == b"second"), "a record is in the clear");
        assert_eq!(open(&path, &key(3)).unwrap().1.len(), 3);
        assert!(why(&path, &Given::Nothing).contains("it is sealed; give mine.resume_key"));
        assert!(why(&path, &key(4)).contains("it cannot be read with this key"));
        written(&path, &Given::Nothing);
        assert!(why(&path, &key(3)).contains("it was begun without a key"));
    }

    /// A file of another format is told from one that is no log at all.
    #[test]
    fn another_format_is_refused_as_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut bytes = written(&path, &key(3));
        for (begin, word) in [
            (&b"vesica ledger 4s"[..], "another version of Vesica, whose format"),
            (b"vesica ledger 4\n", "another version of Vesica, whose format"),
            (b"vesica ledger12s", "another version of Vesica, whose format"),
            (b"vesica ledger14s", "another version of Vesica, whose format"),
            (b"vesica units 3\ns", "it is not a ledger"),
            (b"something that is", "it is not a ledger"),
        ] {
            bytes[..begin.len()].copy_from_slice(begin);
            fs::write(&path, &bytes).unwrap();
            let error = open(&path, &key(3)).map(drop).unwrap_err();
            assert_eq!(error.fault(), vesica_session::Fault::Config);
            assert!(error.to_string().contains(word), "{error}");
            // What an older program kept without a key, of a job with noise, is not to lie about unnoticed.
            let coins = "if its job has shared.dp, it holds the coins of its run's noise";
            assert_eq!(error.to_string().contains(coins), begin == b"vesica ledger 4\n", "{error}");
            assert_eq!(fs::read(&path).unwrap(), bytes, "and is left as it is");
        }
        // Whoever has no ledger reads nothing of ledgers.
        let other = Log::open(&World::default().disk, &path, b"vesica asked 1\n", &key(3), |_, _| Ok(()));
        let error = other.map(drop).unwrap_err().to_string();
        assert!(error.contains("not of this program") && !error.contains("ledger;"), "{error}");
    }
}
