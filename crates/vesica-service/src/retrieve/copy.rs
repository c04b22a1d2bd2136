//! What a client has of a service before it asks: a hint, the whole table, or a window that it made while the table streamed by.

use super::changes;
use super::epoch::{self, CHUNK, Epoch};
use super::scheme::{Reader, Scheme};
use super::window::Kept;
use crate::error::Error;
use crate::fetch::{pinned, room_for};
use crate::messages::Counter;
use crate::offer::{Offer, hex};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use vesica_job::numbers::size;
use vesica_job::{Control, Event};
use vesica_pir::keyword::Filter;
use vesica_pir::piano::Builder;
use vesica_pir::{Piano, Pir, PirError};
use vesica_session::SessionRng;
use vesica_spec::service::{AskPlan, By};

/// What a client has of an epoch.
pub struct Copied {
    /// What the service is.
    pub offer: Offer,
    /// The state of its records.
    pub epoch: Epoch,
    /// What the client asks with.
    pub with: With,
    /// Where keys stand, with "simple-pir".
    pub filter: Option<Filter>,
    /// What was copied now, in words; none if nothing is new.
    new: Option<String>,
    /// Held as long as this process uses the cache.
    _lock: File,
}

impl Copied {
    /// Which epoch was fetched now and what was copied for it, in words; none if nothing is new.
    pub fn news(&self) -> Option<String> {
        self.new.as_ref().map(|what| format!("fetched {}: {what}", self.epoch.spelled()))
    }
}

/// What a client asks with.
pub enum With {
    /// A hint, or a table.
    Reader(Box<Reader>),
    /// A window.
    Window(Box<Kept>),
}

/// Brings the cache to the epoch that the server has.
///
/// # Errors
/// Faults of the plan's files; a server with another offer, or one that sends what cannot be.
pub fn update(plan: &AskPlan, counter: &mut Counter<'_>, ctl: &Control) -> Result<Copied, Error> {
    let (offer, said) = counter.describe()?;
    let offer = pinned(plan, &counter.server(), &offer)?;
    let epoch = Epoch::decode(&offer, &said).map_err(Error::Sent)?;
    let by = offer.retrieval.map(|retrieval| retrieval.by).unwrap_or_default();
    let scheme = Scheme::new(offer.protocol, by, &epoch)?;
    std::fs::create_dir_all(&plan.cache).map_err(Error::file("cannot make the folder", &plan.cache))?;
    let lock = lock(&plan.cache)?;
    let needed = match &scheme {
        Scheme::Simple(_) | Scheme::Download(_) => epoch.copy + epoch.log,
        Scheme::Piano(piano) => piano.window_bytes(),
        Scheme::Lattice(_) => 0,
    };
    if needed > plan.cache_size {
        return Err(Error::Setup(format!(
            "mine.cache_size: the service needs {needed} bytes here, and {} are allowed; allow more, or ask the server's operator",
            plan.cache_size
        )));
    }
    let mut filter = None;
    let (with, new) = match scheme {
        Scheme::Lattice(lattice) => {
            let before = Epoch::load(&offer, &plan.cache).ok();
            let reader = Reader::Lattice(lattice, None, VecDeque::new());
            (
                With::Reader(Box::new(reader)),
                (before.as_ref() != Some(&epoch)).then(|| "nothing is to be copied".into()),
            )
        }
        Scheme::Simple(simple) => {
            let (mut copy, hint) = part(plan, counter, &Part::copy(&epoch), ctl)?;
            let (mut log, mut patches) = (Vec::new(), None);
            if epoch.log > 0 {
                (log, patches) = part(plan, counter, &Part::log(&epoch), ctl)?;
            }
            let new = in_words(hint, patches, epoch.copy);
            remove_others(&plan.cache, &epoch)?;
            let changes = changes::entries(&log).ok_or_else(|| Error::Sent("a log of changes that is none".into()))?;
            let due = simple.sizes().hint as usize;
            if copy.len() < due {
                return Err(Error::Sent("a hint that is shorter than its epoch says".into()));
            }
            let tries = copy.split_off(due);
            let mut hint = simple.take_hint(copy)?;
            let wrong = |error: PirError| Error::Sent(format!("changes that cannot be ({error})"));
            changes.iter().try_for_each(|entry| simple.patch(&mut hint, entry.patch)).map_err(wrong)?;
            filter =
                (by == By::Key).then(|| epoch.filter(&offer, &simple, &tries, &changes)).transpose().map_err(wrong)?;
            (With::Reader(Box::new(Reader::Simple(simple, Box::new(hint), VecDeque::new()))), new)
        }
        Scheme::Download(download) => {
            let (table, bytes) = part(plan, counter, &Part::copy(&epoch), ctl)?;
            remove_others(&plan.cache, &epoch)?;
            let (table, new) = (download.take_hint(table)?, bytes.map(|bytes| format!("the table, {}", size(bytes))));
            (With::Reader(Box::new(Reader::Download(download, table, VecDeque::new()))), new)
        }
        Scheme::Piano(piano) => match Kept::open(&plan.cache, epoch.name(), piano)? {
            Some(kept) => (With::Window(Box::new(kept)), None),
            None => {
                let window = window(plan, counter, &epoch, piano, ctl)?;
                (
                    With::Window(Box::new(window)),
                    Some(format!("a window, for which the table streamed by, {}", size(epoch.copy))),
                )
            }
        },
    };
    // What is on the disk already is not written again: a disk takes as long for that as the rest of a lookup.
    if Offer::load(&plan.cache).ok().as_ref() != Some(&offer) {
        offer.save(&plan.cache)?;
    }
    if Epoch::load(&offer, &plan.cache).ok().as_ref() != Some(&epoch) {
        vesica_job::rooms::replace(&plan.cache.join(epoch::NAME), &epoch.encode())?;
    }
    Ok(Copied { offer, epoch, with, filter, new, _lock: lock })
}

/// What was copied of a hint and of the patches since then, if anything was. `whole` is the length of the hint.
fn in_words(hint: Option<u64>, patches: Option<u64>, whole: u64) -> Option<String> {
    Some(match (hint, patches) {
        (None, None) => return None,
        (Some(hint), None) => format!("the hint, {}", size(hint)),
        (Some(hint), Some(patches)) => format!("the hint, {}, and patches, {}", size(hint), size(patches)),
        (None, Some(patches)) => format!("patches of {}, in place of the hint of {}", size(patches), size(whole)),
    })
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
fn lock(cache: &Path) -> Result<File, Error> {
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

/// A part of an epoch, and how many bytes of it were copied from the server; none if the cache had it. A copy that was cut, and a log that has
/// grown, go on behind the last whole chunk that is right.
fn part(
    plan: &AskPlan,
    counter: &mut Counter<'_>,
    wanted: &Part<'_>,
    ctl: &Control,
) -> Result<(Vec<u8>, Option<u64>), Error> {
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
    let start = std::time::Instant::now();
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
    ctl.event(Event::PhaseEnd { name: "fetch", of: "bytes", wall: start.elapsed(), bytes: (0, wanted.bytes - before) });
    let copied = bytes.len() as u64 - before;
    Ok((bytes, Some(copied)))
}

/// Removes the copies of other bases.
fn remove_others(cache: &Path, epoch: &Epoch) -> Result<(), Error> {
    let kept: [PathBuf; 2] = [Part::copy(epoch), Part::log(epoch)].map(|part| cache.join(part.name));
    for entry in std::fs::read_dir(cache).map_err(Error::file("cannot read", cache))? {
        let other = entry.map_err(Error::file("cannot read", cache))?.path();
        let name = other.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if (name.starts_with("copy-") || name.starts_with("changes-")) && !kept.contains(&other) {
            std::fs::remove_file(&other).map_err(Error::file("cannot remove", &other))?;
        }
    }
    Ok(())
}

/// A window, made while the table streams by. It begins anew if it is cut: what was read is in no file.
///
/// # Errors
/// As [`update`].
pub fn window(
    plan: &AskPlan,
    counter: &mut Counter<'_>,
    epoch: &Epoch,
    shape: Piano,
    ctl: &Control,
) -> Result<Kept, Error> {
    let mut rng =
        SessionRng::from_os().map_err(|e| Error::Setup(format!("the system has no randomness to give: {e}")))?;
    room_for(plan, shape.window_bytes())?;
    let sums = sums(counter, &Part::copy(epoch))?;
    ctl.event(Event::Phase { name: "stream", of: "bytes", total: Some(epoch.copy) });
    let start = std::time::Instant::now();
    let mut builder = Builder::new(shape, &mut rng);
    let (mut next, mut done) = (0, 0);
    counter.chunks(0, 0, sums.len() as u64 / 32, |chunk| {
        ctl.check()?;
        check(chunk, &sums[32 * next..][..32])?;
        next += 1;
        builder.push(chunk)?;
        done += chunk.len() as u64;
        ctl.event(Event::Done(done));
        Ok(())
    })?;
    let window = builder.finish()?;
    ctl.event(Event::PhaseEnd { name: "stream", of: "bytes", wall: start.elapsed(), bytes: (0, done) });
    Kept::create(&plan.cache, epoch.name(), window, &mut rng)
}
