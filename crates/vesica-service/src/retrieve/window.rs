//! The file of a window of Piano, and the log beside it.
//!
//! A query is written to the log, and the log to the disk, before the query is sent; an answer before its rows are used. So a client that is
//! killed at any moment knows what it may have sent, and sends the same bytes again and no others. The log has an entry for each:
//!
//! ```text
//! bytes            what
//! 1                1 for a query, 2 for an answer
//! 40, or 8 + w     the query as it was decided; or its number, and the answer of w bytes
//! 8                the first bytes of the BLAKE3 hash of what stands before
//! ```
//!
//! The files belong to whoever asks, and only this user may read them: they say which rows were asked for, as the table of keys beside them
//! does. They are not sealed.
//!
//! A log that ends in the middle of an entry was torn when its client died: that entry was not sent. Anything else that is wrong with a log
//! is damage. Then the window ends, also if only the last entry is broken: its query may have been sent, and another one in its place would be a
//! second set for one hint.

use super::misused;
use crate::error::Error;
use crate::offer::unhex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vesica_job::disk::{read, replace, rewrite};
use vesica_job::worlds::{Disk, DiskFile};
use vesica_pir::Piano;
use vesica_pir::piano::{Intent, Window};
use vesica_session::SessionRng;

const NAME: &str = "window";
const NEW: &str = "window.new";
const SUM: usize = 8;

/// A window, and what of it is on the disk.
pub struct Kept {
    window: Window,
    /// Queries that may have been sent, and have no answer.
    waiting: Vec<Intent>,
    files: Option<Files>,
    id: [u8; 16],
}

/// The files of a window.
struct Files {
    disk: Arc<dyn Disk>,
    log: Box<dyn DiskFile>,
    log_path: PathBuf,
    path: PathBuf,
}

impl Kept {
    /// Puts a fresh window of an epoch in the place of the one in `folder`.
    ///
    /// # Errors
    /// Those of writing.
    pub fn create(
        disk: &Arc<dyn Disk>,
        folder: &Path,
        epoch: u64,
        window: Window,
        rng: &mut SessionRng,
    ) -> Result<Self, Error> {
        let (id, path) = (rng.bytes(), folder.join(NAME));
        let log_path = log_path(folder, &id);
        // The new window has its log before it takes the old one's place: a window without a log is used no more.
        let log = disk.open(&log_path).and_then(|log| log.sync().map(|()| log));
        let log = log.map_err(Error::file("cannot write", &log_path))?;
        let mut bytes = [&epoch.to_le_bytes()[..], &id, &window.encode()].concat();
        let sum = *blake3::hash(&bytes).as_bytes();
        bytes.extend_from_slice(&sum);
        // This brings the name of the log to the disk too: it is in the same folder.
        replace(&**disk, &folder.join(NEW), &path, &bytes).map_err(Error::file("cannot write", &path))?;
        remove_logs(&**disk, folder, Some(&log_path))?;
        let files = Some(Files { disk: disk.clone(), log, log_path, path });
        Ok(Self { window, waiting: Vec::new(), files, id })
    }

    /// A window without files, for one process that keeps it to its end: whoever measures what a query takes.
    pub fn in_memory(window: Window, rng: &mut SessionRng) -> Self {
        Self { window, waiting: Vec::new(), files: None, id: rng.bytes() }
    }

    /// The window of an epoch in `folder`, as its log left it; none if there is none that may be used: it is of another epoch, or over, or
    /// damaged.
    ///
    /// # Errors
    /// Those of reading.
    pub fn open(disk: &Arc<dyn Disk>, folder: &Path, epoch: u64, shape: Piano) -> Result<Option<Self>, Error> {
        let path = folder.join(NAME);
        let Some(bytes) = read(&**disk, &path).map_err(Error::file("cannot read", &path))? else { return Ok(None) };
        let bytes = zeroize::Zeroizing::new(bytes);
        let whole = bytes.split_last_chunk::<32>().filter(|(front, sum)| blake3::hash(front).as_bytes() == *sum);
        let Some((of, rest)) = whole.and_then(|(front, _)| front.split_first_chunk::<8>()) else { return Ok(None) };
        let Some((id, rest)) = rest.split_first_chunk::<16>() else { return Ok(None) };
        if u64::from_le_bytes(*of) != epoch {
            return Ok(None);
        }
        let Ok(window) = Window::decode(shape, rest) else { return Ok(None) };
        let log_path = log_path(folder, id);
        let Ok(Some(entries)) = read(&**disk, &log_path) else { return Ok(None) };
        let mut log = disk.open(&log_path).map_err(Error::file("cannot write", &log_path))?;
        let mut kept = Self { window, waiting: Vec::new(), files: None, id: *id };
        let Some(good) = kept.replay(&entries, shape.answer_bytes()) else { return Ok(None) };
        // A process that was killed before it had synced an entry, or whose sync failed, left one that looks like any other. It is sent now as one
        // that may have been sent, and must not be forgotten from then on.
        let good = good as u64;
        let written = log.cut(good).and_then(|()| rewrite(&mut *log, 0..good)).and_then(|()| log.sync());
        written.map_err(Error::file("cannot write", &log_path))?;
        kept.files = Some(Files { disk: disk.clone(), log, log_path, path });
        if kept.window.is_over() && kept.waiting.is_empty() {
            return Ok(None);
        }
        Ok(Some(kept))
    }

    /// Goes through the log, and says how many of its bytes are whole entries; none if it is damaged.
    fn replay(&mut self, entries: &[u8], width: usize) -> Option<usize> {
        let mut rest = entries;
        while let Some((&kind, _)) = rest.split_first() {
            let body = match kind {
                1 => Intent::BYTES,
                2 => 8 + width,
                _ => return None,
            };
            let Some((entry, behind)) = rest.split_at_checked(1 + body + SUM) else {
                return self.is_torn(rest).then(|| entries.len() - rest.len());
            };
            let (said, sum) = entry.split_at(1 + body);
            if blake3::hash(said).as_bytes()[..SUM] != *sum {
                return None;
            }
            if kind == 1 {
                let intent = self.window.replay(said[1..].try_into().ok()?).ok()?;
                self.waiting.push(intent);
            } else {
                let number = u64::from_le_bytes(std::array::from_fn(|i| said[1 + i]));
                let at = self.waiting.iter().position(|intent| intent.number == number)?;
                self.window.settle(&self.waiting.remove(at), &said[9..]).ok()?;
            }
            rest = behind;
        }
        Some(entries.len())
    }

    /// Whether a piece that is too short for an entry is the beginning of one, and not a whole query that looks like the beginning of an
    /// answer because its first byte is damaged.
    fn is_torn(&self, rest: &[u8]) -> bool {
        let is_answer = || {
            let number = rest[1..].first_chunk().map(|number| u64::from_le_bytes(*number));
            self.waiting.first().is_some_and(|intent| Some(intent.number) == number)
        };
        rest.len() < 1 + Intent::BYTES + SUM || is_answer()
    }

    /// The window.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// What the server knows the window by.
    pub fn id(&self) -> &[u8; 16] {
        &self.id
    }

    /// Queries that may have been sent and have no answer: they are sent again before any other.
    pub fn waiting(&self) -> &[Intent] {
        &self.waiting
    }

    /// The first of them, `most` at most. They wait no more.
    pub fn take_waiting(&mut self, most: usize) -> Vec<Intent> {
        self.waiting.drain(..most.min(self.waiting.len())).collect()
    }

    /// Decides queries for records, and brings them to the disk. Only then they may be sent.
    ///
    /// # Errors
    /// Those of writing, and of the window.
    pub fn decide(&mut self, wants: &[u64], rng: &mut SessionRng) -> Result<Vec<Intent>, Error> {
        let mut bytes = Vec::new();
        let mut intents = Vec::with_capacity(wants.len());
        for &want in wants {
            let intent = self.window.intend(want, rng).map_err(misused)?;
            entry(1, &[&intent.encode()], &mut bytes);
            intents.push(intent);
        }
        self.write(&bytes)?;
        Ok(intents)
    }

    /// Takes the answers to queries, and brings them to the disk.
    ///
    /// # Errors
    /// Those of writing; answers of the wrong length.
    pub fn settle(&mut self, intents: &[Intent], answers: &[u8]) -> Result<(), Error> {
        let mut bytes = Vec::new();
        for (intent, answer) in intents.iter().zip(answers.chunks_exact(self.window.shape().answer_bytes())) {
            entry(2, &[&intent.number.to_le_bytes(), answer], &mut bytes);
            self.window.settle(intent, answer).map_err(misused)?;
        }
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(Files { log, log_path, .. }) = &mut self.files else { return Ok(()) };
        log.write_all(bytes).and_then(|()| log.sync()).map_err(Error::file("cannot write", log_path))
    }

    /// Ends the window: it is never used again.
    ///
    /// # Errors
    /// Those of removing.
    pub fn end(&self) -> Result<(), Error> {
        let Some(Files { disk, log_path, path, .. }) = &self.files else { return Ok(()) };
        // The log goes first: a window without a log is used no more.
        for path in [log_path, path] {
            disk.remove(path).map_err(Error::file("cannot remove", path))?;
        }
        disk.sync_name(path).map_err(Error::file("cannot remove", path))
    }
}

fn entry(kind: u8, parts: &[&[u8]], out: &mut Vec<u8>) {
    let from = out.len();
    out.push(kind);
    parts.iter().for_each(|part| out.extend_from_slice(part));
    let sum = blake3::hash(&out[from..]);
    out.extend_from_slice(&sum.as_bytes()[..SUM]);
}

fn log_path(folder: &Path, id: &[u8; 16]) -> PathBuf {
    folder.join(format!("{NAME}-{}.log", crate::offer::hex(id)))
}

/// Removes the logs of other windows.
fn remove_logs(disk: &dyn Disk, folder: &Path, but: Option<&Path>) -> Result<(), Error> {
    for path in disk.list(folder).map_err(Error::file("cannot read", folder))? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let id = name.strip_prefix("window-").and_then(|of| of.strip_suffix(".log")).unwrap_or_default();
        // Other programs may have a log there too.
        let is_ours = unhex(id).is_some_and(|id| id.len() == 16);
        if is_ours && Some(&*path) != but {
            disk.remove(&path).map_err(Error::file("cannot remove", &path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_job::World;
    use vesica_job::worlds::Frail;
    use vesica_pir::Flat;
    use vesica_pir::piano::Builder;

    const RECORDS: u64 = 300;
    const WIDTH: usize = 6;

    struct House {
        dir: tempfile::TempDir,
        table: Vec<u8>,
        shape: Piano,
        rng: SessionRng,
    }

    impl House {
        fn new() -> Self {
            Self::of(WIDTH)
        }

        /// With records of so many bytes.
        fn of(width: usize) -> Self {
            let mut rng = SessionRng::from_seed(zeroize::Zeroizing::new([8; 32]));
            let mut table = vec![0; RECORDS as usize * width];
            rng.fill(&mut table);
            let dir = tempfile::tempdir().unwrap();
            Self { dir, table, shape: Piano::new(RECORDS, width).unwrap(), rng }
        }

        fn make(&mut self) -> Kept {
            self.make_on(&World::default().disk).unwrap()
        }

        fn make_on(&mut self, disk: &Arc<dyn Disk>) -> Result<Kept, Error> {
            let mut builder = Builder::new(self.shape, &mut self.rng);
            builder.push(&self.table).unwrap();
            Kept::create(disk, self.dir.path(), 7, builder.finish().unwrap(), &mut self.rng)
        }

        fn open(&self) -> Option<Kept> {
            Kept::open(&World::default().disk, self.dir.path(), 7, self.shape).unwrap()
        }

        fn answers(&self, intents: &[Intent]) -> Vec<u8> {
            let flat = Flat::new(&self.table, self.shape.answer_bytes()).unwrap();
            intents.iter().flat_map(|intent| self.shape.answer(flat, intent.query()).unwrap()).collect()
        }

        fn record(&self, index: u64) -> &[u8] {
            &self.table[index as usize * WIDTH..][..WIDTH]
        }
    }

    fn files(kept: &Kept) -> &Files {
        kept.files.as_ref().unwrap()
    }

    #[test]
    fn a_window_goes_on_where_it_was() {
        let mut house = House::new();
        let mut kept = house.make();
        let intents = kept.decide(&[3, 4, 5], &mut house.rng).unwrap();
        kept.settle(&intents[..1], &house.answers(&intents[..1])).unwrap();
        drop(kept);
        // Two of three have no answer: they are sent again, the same bytes.
        let mut kept = house.open().unwrap();
        assert_eq!(kept.window().known(3), Some(house.record(3)));
        let waiting = kept.take_waiting(usize::MAX);
        assert_eq!(waiting, intents[1..]);
        kept.settle(&waiting, &house.answers(&waiting)).unwrap();
        let more = kept.decide(&[6], &mut house.rng).unwrap();
        assert_eq!(more[0].number, 3);
        drop(kept);
        let mut kept = house.open().unwrap();
        assert_eq!(kept.window().known(5), Some(house.record(5)));
        assert_eq!(kept.take_waiting(usize::MAX), more);
        // Of another epoch there is none.
        assert!(Kept::open(&World::default().disk, house.dir.path(), 8, house.shape).unwrap().is_none());
    }

    /// The power fails behind each write. A query that was decided is known then, or its window is used no more: else another query would have its
    /// hint.
    #[test]
    fn a_failure_of_power_forgets_no_query() {
        for (writes, is_second) in (0..40).flat_map(|writes| [(writes, false), (writes, true)]) {
            let mut house = House::new();
            let mut before = None;
            if is_second {
                let mut kept = house.make();
                before = Some((*kept.id(), kept.decide(&[1], &mut house.rng).unwrap()));
            }
            let (world, disk) = Frail::world(writes);
            let mut sent = Vec::new();
            let made = house.make_on(&world.disk);
            let id = made.as_ref().map(|kept| *kept.id()).ok();
            let mut goes_on = |mut kept: Kept| {
                for round in 0..3 {
                    let intents = kept.decide(&[3 * round, 3 * round + 1], &mut house.rng)?;
                    sent.extend(intents.clone());
                    kept.settle(&intents[..1], &house.answers(&intents[..1]))?;
                }
                Ok::<_, Error>(())
            };
            let is_whole = made.and_then(&mut goes_on).is_ok();
            // Another process may go on before that.
            disk.revive(1000);
            let next = Kept::open(&world.disk, house.dir.path(), 7, house.shape).unwrap();
            if let Some(mut kept) = next.filter(|kept| Some(*kept.id()) == id) {
                let waiting = kept.take_waiting(usize::MAX);
                sent.extend(waiting.into_iter().filter(|intent| !sent.contains(intent)).collect::<Vec<_>>());
            }
            disk.power_fails();
            let after = house.open();
            assert!(!is_whole || after.is_some(), "a window is lost");
            let Some(mut after) = after else { continue };
            let must = match before {
                Some((old, intents)) if old == *after.id() => intents,
                _ => {
                    assert_eq!(id.unwrap_or(*after.id()), *after.id());
                    sent
                }
            };
            assert!(after.window().asked() as usize >= must.len(), "{writes} writes");
            // Those that have no answer are sent again as they were.
            let waiting = after.take_waiting(usize::MAX);
            assert!(
                waiting.iter().filter(|intent| (intent.number as usize) < must.len()).all(|one| must.contains(one))
            );
        }
    }

    /// A window whose end is not there for good would be used again, and its hints a second time.
    #[test]
    fn a_window_that_has_ended_is_not_there_again() {
        let mut house = House::new();
        let (world, disk) = Frail::world(1000);
        let mut kept = house.make_on(&world.disk).unwrap();
        let _ = kept.decide(&[3], &mut house.rng).unwrap();
        disk.name_fails(&files(&kept).path);
        assert!(kept.end().is_err());
        disk.power_fails();
        assert!(house.open().is_some(), "its end was not synced");
        kept.end().unwrap();
        disk.power_fails();
        assert!(house.open().is_none());
    }

    /// A query whose sync failed is not sent. Whoever finds it sends it as one that may have been, and does not forget it from then on.
    #[test]
    fn a_query_whose_sync_failed_is_not_forgotten_once_it_is_sent() {
        let mut house = House::new();
        let (world, disk) = Frail::world(1000);
        let mut kept = house.make_on(&world.disk).unwrap();
        let first = kept.decide(&[3], &mut house.rng).unwrap();
        kept.settle(&first, &house.answers(&first)).unwrap();
        disk.sync_fails();
        assert!(kept.decide(&[4, 5], &mut house.rng).is_err());
        let log = files(&kept).log_path.clone();
        drop(kept);
        let open = || Kept::open(&world.disk, house.dir.path(), 7, house.shape).map(Option::unwrap);
        // It is not sent by one that cannot sync it either.
        disk.sync_fails();
        assert!(open().is_err());
        let sent = open().unwrap().take_waiting(usize::MAX);
        assert!(sent.len() == 2 && disk.is_for_good(&log));
        disk.power_fails();
        assert_eq!(open().unwrap().take_waiting(usize::MAX), sent);
    }

    /// The log is cut at every byte, as a death in the middle of a write leaves it. Whatever was on the disk before a query was sent is
    /// still known, and no query is decided anew under a number whose entry is whole.
    #[test]
    fn a_log_that_is_cut_anywhere_loses_nothing_that_was_sent() {
        let mut house = House::new();
        let mut kept = house.make();
        let mut ends = vec![(0, 0)];
        let mut sent = Vec::new();
        let log = files(&kept).log_path.clone();
        for round in 0..4u64 {
            let intents = kept.decide(&[round, 100 + round], &mut house.rng).unwrap();
            ends.push((std::fs::metadata(&log).unwrap().len() as usize, intents.len()));
            kept.settle(&intents, &house.answers(&intents)).unwrap();
            sent.extend(intents);
        }
        drop(kept);
        let whole = std::fs::read(&log).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&log, &whole[..cut]).unwrap();
            let mut kept = house.open().unwrap();
            // All queries whose entries were whole are known, in their bytes or by their answers.
            let must = ends.iter().filter(|(end, _)| *end <= cut).map(|(_, n)| n).sum::<usize>();
            assert!(kept.window().asked() as usize >= must, "{cut}");
            let asked = kept.window().asked() as usize;
            let waiting = kept.take_waiting(usize::MAX);
            assert!(waiting.iter().all(|intent| sent[intent.number as usize] == *intent));
            let next = kept.decide(&[250], &mut house.rng).unwrap();
            assert_eq!(next[0].number as usize, asked);
        }
    }

    /// Each byte of a log is damaged once, with queries at its end that were sent, or answers. Either the window is used no more, or it knows
    /// all queries that were sent. One that had forgotten some would send other sets for the same hints, and the server would see in which
    /// chunk the records lie.
    #[test]
    fn a_log_that_is_damaged_anywhere_forgets_no_query_that_was_sent() {
        for (width, is_answered) in [(1, false), (1, true), (100, false), (100, true)] {
            let mut house = House::of(width);
            let mut kept = house.make();
            let mut sent = kept.decide(&[3, 4], &mut house.rng).unwrap();
            kept.settle(&sent, &house.answers(&sent)).unwrap();
            let last = kept.decide(&[5, 6, 7], &mut house.rng).unwrap();
            if is_answered {
                kept.settle(&last, &house.answers(&last)).unwrap();
            }
            sent.extend(last);
            let log = files(&kept).log_path.clone();
            drop(kept);
            let whole = std::fs::read(&log).unwrap();
            // The first change makes a query of an answer, and an answer of a query.
            for (at, flip) in (0..whole.len()).flat_map(|at| [3, 0x80].map(|flip| (at, flip))) {
                let mut damaged = whole.clone();
                damaged[at] ^= flip;
                std::fs::write(&log, &damaged).unwrap();
                if let Some(mut kept) = house.open() {
                    assert_eq!(kept.window().asked(), sent.len() as u64, "width {width}, byte {at}, {flip}");
                    assert!(kept.take_waiting(usize::MAX).iter().all(|intent| sent[intent.number as usize] == *intent));
                }
            }
        }
    }

    #[test]
    fn a_damaged_window_is_used_no_more() {
        let mut house = House::new();
        let mut kept = house.make();
        for want in 0..90 {
            let intents = kept.decide(&[want], &mut house.rng).unwrap();
            kept.settle(&intents, &house.answers(&intents)).unwrap();
        }
        let (log, path) = (files(&kept).log_path.clone(), files(&kept).path.clone());
        drop(kept);
        let whole = std::fs::read(&log).unwrap();
        assert!(house.open().is_some());
        let mut bad = whole.clone();
        bad[10] ^= 1;
        std::fs::write(&log, bad).unwrap();
        assert!(house.open().is_none());
        // Without its log, nobody knows what was sent.
        std::fs::remove_file(&log).unwrap();
        assert!(house.open().is_none());
        std::fs::write(&log, whole).unwrap();
        assert!(house.open().is_some());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[40] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(house.open().is_none());
        let kept = house.make();
        kept.end().unwrap();
        assert!(house.open().is_none());
    }

    #[test]
    fn others_cannot_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let mut house = House::new();
        let kept = house.make();
        for path in [&files(&kept).path, &files(&kept).log_path] {
            assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o077, 0, "{}", path.display());
        }
    }
}
