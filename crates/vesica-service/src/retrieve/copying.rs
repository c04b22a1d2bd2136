//! From a server to a client's cache: a hint and the changes since then, a table, or a table that streams by.

use super::Client;
use super::epoch::{self, CHUNK, Epoch};
use crate::error::Error;
use crate::messages::Counter;
use crate::offer::{Offer, hex};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use vesica_job::{Control, Event, World};
use vesica_net::{SystemClock, Time};
use vesica_pir::keyword::Filter;
use vesica_spec::service::AskPlan;

/// A client's side that has what it copies.
pub struct Ready {
    /// It.
    pub client: Box<dyn Client>,
    /// Where keys stand, if the scheme has a filter for them.
    pub filter: Option<Filter>,
    /// What was copied now, in words; none if nothing is new.
    pub news: Option<String>,
}

/// What a client copies an epoch by.
pub struct Copying<'a, 'c> {
    /// The client's plan.
    pub plan: &'a AskPlan,
    /// What the service is.
    pub offer: &'a Offer,
    /// The state of its records.
    pub epoch: &'a Epoch,
    /// The line to the server.
    pub counter: &'a mut Counter<'c>,
    /// The machine around it.
    pub world: &'a World,
    /// What is told of the progress.
    pub ctl: &'a Control,
}

impl Copying<'_, '_> {
    /// Whether the cache has another epoch, or none.
    pub fn is_new(&self) -> bool {
        Epoch::load(self.offer, &self.plan.cache).ok().as_ref() != Some(self.epoch)
    }

    /// What clients copy, from the cache or the server; and how many bytes came from the server, if it was not all in the cache.
    ///
    /// # Errors
    /// Those of the cache and the connection; a server that sends something else than its epoch says.
    pub fn copy(&mut self) -> Result<(Vec<u8>, Option<u64>), Error> {
        self.part(&Part::copy(self.epoch))
    }

    /// The same of the log of changes since the base.
    ///
    /// # Errors
    /// As [`Copying::copy`].
    pub fn log(&mut self) -> Result<(Vec<u8>, Option<u64>), Error> {
        self.part(&Part::log(self.epoch))
    }

    /// A part of an epoch, and how many bytes of it were copied from the server; none if the cache had it. A copy that was cut, and a log that has
    /// grown, go on behind the last whole chunk that is right.
    fn part(&mut self, wanted: &Part<'_>) -> Result<(Vec<u8>, Option<u64>), Error> {
        let Self { plan, counter, ctl, .. } = self;
        let path = plan.cache.join(&wanted.name);
        if let Ok(bytes) = std::fs::read(&path)
            && hex(blake3::hash(&epoch::sums(&bytes)).as_bytes()) == wanted.sums
        {
            return Ok((bytes, None));
        }
        let sums = sums(counter, wanted)?;
        let part = path.with_extension("part");
        // A log that was whole is the beginning of the one that is wanted.
        if !part.exists() && path.exists() {
            std::fs::rename(&path, &part).map_err(Error::file("cannot write", &part))?;
        }
        let failed = |what: &'static str| Error::file(what, &part);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&part)
            .map_err(failed("cannot write"))?;
        let (mut bytes, mut chunk) = (Vec::new(), vec![0; CHUNK]);
        let mut from = 0;
        for sum in sums.chunks_exact(32) {
            let length = (wanted.bytes - bytes.len() as u64).min(CHUNK as u64) as usize;
            let whole = file.read_exact_at(&mut chunk[..length], bytes.len() as u64);
            if whole.is_err() || check(&chunk[..length], sum).is_err() {
                break;
            }
            bytes.extend_from_slice(&chunk[..length]);
            from += 1;
        }
        let before = bytes.len() as u64;
        room_for(plan, wanted.bytes - before)?;
        ctl.event(Event::Phase { name: "fetch", of: "bytes", total: Some(wanted.bytes) });
        let start = SystemClock.now();
        file.set_len(before).map_err(failed("cannot write"))?;
        std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).map_err(failed("cannot write"))?;
        let mut next = from as usize;
        counter.chunks(wanted.number, from, sums.len() as u64 / 32, |chunk| {
            ctl.check()?;
            check(chunk, &sums[32 * next..][..32])?;
            next += 1;
            file.write_all(chunk).map_err(failed("cannot write"))?;
            bytes.extend_from_slice(chunk);
            ctl.event(Event::Done(bytes.len() as u64));
            Ok(())
        })?;
        file.sync_all().map_err(failed("cannot write"))?;
        std::fs::rename(&part, &path).map_err(Error::file("cannot write", &path))?;
        ctl.event(Event::PhaseEnd {
            name: "fetch",
            of: "bytes",
            wall: SystemClock.since(start),
            bytes: (0, wanted.bytes - before),
        });
        let copied = bytes.len() as u64 - before;
        Ok((bytes, Some(copied)))
    }

    /// The table in pieces as it streams by, which begins anew if it is cut.
    ///
    /// # Errors
    /// Those of `each` and the connection; a server that sends something else than its epoch says.
    pub fn stream(&mut self, mut each: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        let Self { epoch, counter, ctl, .. } = self;
        let sums = sums(counter, &Part::copy(epoch))?;
        ctl.event(Event::Phase { name: "stream", of: "bytes", total: Some(epoch.copy) });
        let start = SystemClock.now();
        let (mut next, mut done) = (0, 0);
        counter.chunks(0, 0, sums.len() as u64 / 32, |chunk| {
            ctl.check()?;
            check(chunk, &sums[32 * next..][..32])?;
            next += 1;
            each(chunk)?;
            done += chunk.len() as u64;
            ctl.event(Event::Done(done));
            Ok(())
        })?;
        ctl.event(Event::PhaseEnd { name: "stream", of: "bytes", wall: SystemClock.since(start), bytes: (0, done) });
        Ok(())
    }

    /// Removes the copies of other bases.
    ///
    /// # Errors
    /// Those of removing.
    pub fn remove_others(&self) -> Result<(), Error> {
        let cache = &self.plan.cache;
        let kept: [PathBuf; 2] = [Part::copy(self.epoch), Part::log(self.epoch)].map(|part| cache.join(part.name));
        for entry in std::fs::read_dir(cache).map_err(Error::file("cannot read", cache))? {
            let other = entry.map_err(Error::file("cannot read", cache))?.path();
            let name = other.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if (name.starts_with("copy-") || name.starts_with("changes-")) && !kept.contains(&other) {
                std::fs::remove_file(&other).map_err(Error::file("cannot remove", &other))?;
            }
        }
        Ok(())
    }
}

/// A part of an epoch that clients copy, and its file in their cache. Epochs of one base share both files: the log of a later one begins with
/// that of an earlier one.
struct Part<'a> {
    number: usize,
    bytes: u64,
    sums: &'a str,
    name: String,
}

impl<'a> Part<'a> {
    fn copy(epoch: &'a Epoch) -> Self {
        Self { number: 0, bytes: epoch.copy, sums: &epoch.sums, name: format!("copy-{}", &epoch.sums[..16]) }
    }

    fn log(epoch: &'a Epoch) -> Self {
        Self { number: 1, bytes: epoch.log, sums: &epoch.log_sums, name: format!("changes-{}", &epoch.sums[..16]) }
    }
}

/// Keeps another process from using the cache: two that used one window would send two sets for one hint.
///
/// # Errors
/// If another process has it.
pub fn lock(cache: &Path) -> Result<File, Error> {
    let path = cache.join("lock");
    let file = File::create(&path).map_err(Error::file("cannot write", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(Error::Setup(format!("{}: another process asks with this cache; wait for it to end", cache.display())))
        }
        Err(TryLockError::Error(error)) => Err(Error::file("cannot lock", &path)(error)),
    }
}

/// The sums of a part's chunks, which are those of the epoch.
fn sums(counter: &mut Counter<'_>, part: &Part<'_>) -> Result<Vec<u8>, Error> {
    let sums = counter.sums(part.number, part.bytes.div_ceil(CHUNK as u64) * 32)?;
    if hex(blake3::hash(&sums).as_bytes()) != part.sums {
        return Err(Error::Sent("sums that are not those of its epoch".into()));
    }
    Ok(sums)
}

/// Fails if a chunk is not the one of its sum.
fn check(chunk: &[u8], sum: &[u8]) -> Result<(), Error> {
    match blake3::hash(chunk).as_bytes() == sum {
        true => Ok(()),
        false => Err(Error::Sent("a chunk that is not the one of its sum".into())),
    }
}

/// Fails if so many bytes will not fit on the disk of the cache.
///
/// # Errors
/// If the disk has less room.
pub fn room_for(plan: &AskPlan, need: u64) -> Result<(), Error> {
    let folder = plan.cache.ancestors().find(|folder| folder.is_dir());
    let folder = folder.map_or_else(|| std::path::PathBuf::from("."), ToOwned::to_owned);
    match vesica_table::free_bytes(&folder) {
        Ok(free) if free < need => {
            Err(vesica_job::JobError::Space { folder, what: "what is to be fetched", need, free }.into())
        }
        _ => Ok(()),
    }
}
