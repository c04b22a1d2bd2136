//! From a server to a client's cache: its epoch, and of that a hint and the changes since then, a table, or a table that streams by.

use super::epoch::{self, CHUNK, Epoch, SKEW, date};
use super::lookup::{Cache, Places};
use super::{Copying, Ready, Scheme};
use crate::error::Error;
use crate::messages::Question;
use crate::offer::{Offer, hex, unhex};
use crate::suite::Fetched;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use vesica_job::Event;
use vesica_net::{SystemClock, Time};
use vesica_program::on_disk::{self, Files};
use vesica_spec::service::{AskPlan, By};

/// The part of its time, one in so many, in which a client's user is told that an epoch ends.
const SOON: u32 = 10;

/// Brings the cache to the epoch that the server has.
///
/// # Errors
/// Faults of the plan's files; a server that sends what cannot be.
pub fn copy(scheme: &'static dyn Scheme, described: &[u8], copying: &mut Copying<'_, '_>) -> Result<Fetched, Error> {
    let (plan, offer) = (copying.plan, copying.offer);
    let unmade = || Error::file("cannot make the folder", &plan.cache);
    on_disk::make_missing(&Files, &plan.cache, 0o777).map_err(unmade())?;
    let lock = lock(&plan.cache)?;
    let kept = Epoch::load(offer, &plan.cache);
    // Whoever wrote an epoch there had the folder there for good before: so each lookup need not wait for the disk.
    if kept.is_err() {
        on_disk::sync_folder(&Files, &plan.cache).map_err(unmade())?;
    }
    let epoch = Epoch::decode(offer, described).map_err(Error::Sent)?;
    let retrieval = scheme.retrieval(offer.by(), &epoch)?;
    check_state(copying, &kept, &epoch)?;
    let needed = retrieval.kept(epoch.copy + epoch.log);
    if needed > plan.cache_size {
        return Err(Error::Setup(format!(
            "mine.cache_size: the service needs {needed} bytes here, and {} are allowed; allow more, or ask the server's operator",
            plan.cache_size
        )));
    }
    let copies = retrieval.copied() > 0 && !retrieval.has_windows();
    let parts = if copies { copying.copy(&epoch)? } else { Default::default() };
    let Ready { client, filter, news } = retrieval.client(&epoch, parts, copying)?;
    let is_known = Offer::load(&plan.cache).is_ok_and(|known| known == *offer);
    // It was not asked for, and is an assumption more: said once.
    if plan.hint.is_none() && offer.kind().signs() && !is_known {
        copying.ctl.note(format!(
            "{} serves {}: what is looked up stays hidden if circular security holds besides ring-LWE. Write service.hint = \"copied\" to refuse \
             services without a hint",
            copying.counter.server(),
            offer.kind()
        ));
    }
    // What is on the disk already is not written again: a disk takes as long for that as the rest of a lookup.
    if !is_known {
        offer.save(&plan.cache)?;
    }
    let is_new = kept.ok().as_ref() != Some(&epoch);
    if is_new {
        vesica_job::rooms::replace(&plan.cache.join(epoch::NAME), &epoch.encode())?;
    }
    // Each of the two brings all names of the cache to the disk. Whoever wrote what is here already may have been killed before it did: its epoch
    // would be asked under, and after a failure of power an older one would be the newest that this cache knows.
    if is_known && !is_new {
        let path = plan.cache.join(epoch::NAME);
        on_disk::name(&path).map_err(Error::file("cannot write", &path))?;
    }
    let places = match (offer.by(), filter) {
        (By::Index, _) => Places::Numbers(scheme),
        (By::Key, Some(filter)) => Places::Filter(Box::new(filter)),
        (By::Key, None) => Places::Buckets(epoch.buckets(offer)?),
    };
    let news = news.or_else(|| (is_new && retrieval.copied() == 0).then(|| "nothing is to be copied".to_owned()));
    let news = news.map(|what| format!("fetched {}: {what}", epoch.spelled()));
    let (rows, is_silent) = (epoch.rows, retrieval.sizes().query == 0 && !offer.has_function());
    let (offer, public) = (offer.clone(), epoch.public());
    let copied = Box::new(Cache { offer, epoch, scheme: retrieval, client, places, _lock: lock });
    Ok(Fetched { rows, news, is_silent, public, copied })
}

/// Fails if a client does not take the epoch: its cache has a later one, or another one of the same number, or its time is over or is to come. What
/// the user is to know of it is told.
///
/// # Errors
/// The same.
fn check_state(copying: &Copying<'_, '_>, kept: &Result<Epoch, Error>, epoch: &Epoch) -> Result<(), Error> {
    let Copying { plan, offer, counter, world, ctl } = copying;
    let server = counter.server();
    // A server that could go back would see what a client asks of two tables, one of which it may have made up. A number names one state.
    match kept {
        Ok(kept) if kept.number > epoch.number || kept.number == epoch.number && kept != epoch => {
            let (found, kept, cache) = (epoch.spelled(), kept.spelled(), plan.cache.clone());
            let remedy = format!("remove {} and run the command again", cache.display()).into();
            return Err(Error::Older { server, found, kept, cache, remedy });
        }
        Err(error) if plan.cache.join(epoch::NAME).exists() => match Epoch::named_in(&plan.cache) {
            Some((named, number)) if named != hex(&offer.hash()) => {
                // Numbers begin anew with an offer, so this is no fault; but whoever made the new one could also hide an old table behind it.
                if number > epoch.number {
                    ctl.note(format!(
                        "{} has epoch {number} of another offer, and {server} serves {} of this one. So nothing here tells whether it went \
                         back to an older table",
                        plan.cache.display(),
                        epoch.spelled()
                    ));
                }
            }
            _ => ctl.note(format!("{error}. So nothing here tells whether {server} went back to an older table")),
        },
        _ => {}
    }
    if let Some((made, until)) = epoch.times() {
        let now = world.time.wall();
        if now >= until || made > now + SKEW {
            let (found, times) = (epoch.spelled(), Box::new([made, until, now].map(date)));
            return Err(Error::NotInTime { server, found, times });
        }
        if until.duration_since(now).is_ok_and(|left| left <= until.duration_since(made).unwrap_or_default() / SOON) {
            ctl.note(format!(
                "{server} serves {}, which clients take until {}: ask its operator to run `vesica prepare` before that",
                epoch.spelled(),
                date(until)
            ));
        }
    }
    Ok(())
}

/// A part of an epoch, and how many bytes of it came from the server, if it was not all in the cache.
pub type Whole = (Vec<u8>, Option<u64>);

impl Copying<'_, '_> {
    /// What clients copy, and the log of changes since the base, which is empty where there is none: each from the cache or the server, with how many
    /// bytes came from the server, if it was not all in the cache. The copies of other bases are gone then.
    ///
    /// # Errors
    /// Those of the cache and the connection; a server that sends something else than its epoch says.
    fn copy(&mut self, epoch: &Epoch) -> Result<[Whole; 2], Error> {
        let parts = [Part::copy(epoch), Part::log(epoch)];
        let copy = self.part(&parts[0])?;
        let log = if epoch.log > 0 { self.part(&parts[1])? } else { Default::default() };
        let cache = &self.plan.cache;
        let kept = parts.map(|part| cache.join(part.name));
        for entry in std::fs::read_dir(cache).map_err(Error::file("cannot read", cache))? {
            let other = entry.map_err(Error::file("cannot read", cache))?.path();
            let name = other.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if is_ours(name) && !kept.contains(&other) {
                std::fs::remove_file(&other).map_err(Error::file("cannot remove", &other))?;
            }
        }
        Ok([copy, log])
    }

    /// A part of an epoch, and how many bytes of it were copied from the server; none if the cache had it. A copy that was cut, and a log that has
    /// grown, go on behind the last whole chunk that is right.
    fn part(&mut self, wanted: &Part<'_>) -> Result<Whole, Error> {
        let plan = self.plan;
        let path = plan.cache.join(&wanted.name);
        if let Ok(bytes) = std::fs::read(&path)
            && hex(blake3::hash(&epoch::sums(&bytes)).as_bytes()) == wanted.sums
        {
            return Ok((bytes, None));
        }
        let part = path.with_extension("part");
        let failed = |what: &'static str| Error::file(what, &part);
        let begin = |sums: &[u8]| {
            // A log that was whole is the beginning of the one that is wanted.
            if !part.exists() && path.exists() {
                std::fs::rename(&path, &part).map_err(failed("cannot write"))?;
            }
            let mut options = OpenOptions::new();
            let mut file = options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&part)
                .map_err(failed("cannot write"))?;
            let (mut bytes, mut chunk) = (Vec::new(), vec![0; CHUNK]);
            for sum in sums.chunks_exact(32) {
                let length = (wanted.bytes - bytes.len() as u64).min(CHUNK as u64) as usize;
                let whole = file.read_exact_at(&mut chunk[..length], bytes.len() as u64);
                if whole.is_err() || check(&chunk[..length], sum).is_err() {
                    break;
                }
                bytes.extend_from_slice(&chunk[..length]);
            }
            let before = bytes.len() as u64;
            room_for(plan, wanted.bytes - before)?;
            file.set_len(before).map_err(failed("cannot write"))?;
            file.seek(SeekFrom::End(0)).map_err(failed("cannot write"))?;
            Ok::<_, Error>((before, (file, bytes)))
        };
        let (copied, (file, bytes)) = self.take("fetch", wanted, begin, |(file, bytes), chunk| {
            file.write_all(chunk).map_err(failed("cannot write"))?;
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        on_disk::contents(&file).map_err(failed("cannot write"))?;
        std::fs::rename(&part, &path).map_err(Error::file("cannot write", &path))?;
        Ok((bytes, Some(copied)))
    }

    /// The table in pieces as it streams by, which begins anew if it is cut.
    ///
    /// # Errors
    /// Those of `each` and the connection; a server that sends something else than its epoch says.
    pub fn stream(&mut self, epoch: &Epoch, mut each: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        self.take("stream", &Part::copy(epoch), |_| Ok((0, ())), |(), chunk| each(chunk)).map(drop)
    }

    /// Takes the chunks of a part, each of which is the one of its sum, and gives how many bytes came. `begin` gets the sums, and says how many bytes
    /// are here already, in whole chunks, and what chunks are added to.
    fn take<W>(
        &mut self,
        phase: &'static str,
        wanted: &Part<'_>,
        begin: impl FnOnce(&[u8]) -> Result<(u64, W), Error>,
        mut each: impl FnMut(&mut W, &[u8]) -> Result<(), Error>,
    ) -> Result<(u64, W), Error> {
        let Self { counter, ctl, .. } = self;
        let sums = counter.sums(wanted.number, wanted.bytes.div_ceil(CHUNK as u64) * 32)?;
        if hex(blake3::hash(&sums).as_bytes()) != wanted.sums {
            return Err(Error::Sent("sums that are not those of its epoch".into()));
        }
        let (before, mut whole) = begin(&sums)?;
        ctl.event(Event::Phase { name: phase, of: "bytes", total: Some(wanted.bytes) });
        let (start, mut done) = (SystemClock.now(), before);
        let from = before.div_ceil(CHUNK as u64);
        let missing = sums.chunks_exact(32).skip(from as usize);
        if missing.len() > 0 {
            let ch = counter.put(Question::Chunks { part: wanted.number as u64, from })?;
            for sum in missing {
                let chunk = ch.recv(CHUNK)?;
                ctl.check()?;
                // What is kept is as long as the epoch says, whatever the sums are of.
                if chunk.len() as u64 != (wanted.bytes - done).min(CHUNK as u64) {
                    return Err(Error::Sent("a chunk that is not the one of its sum".into()));
                }
                check(&chunk, sum)?;
                each(&mut whole, &chunk)?;
                done += chunk.len() as u64;
                ctl.event(Event::Done(done));
            }
        }
        let copied = done - before;
        ctl.event(Event::PhaseEnd { name: phase, of: "bytes", wall: SystemClock.since(start), bytes: (0, copied) });
        Ok((copied, whole))
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

/// Whether a cache calls a copy or a log of changes so, whole or on its way. Other programs have files of the name `copy-of-alice.pem`.
fn is_ours(name: &str) -> bool {
    let of = ["copy-", "changes-"].iter().find_map(|kind| name.strip_prefix(kind));
    let of = of.map(|of| of.strip_suffix(".part").unwrap_or(of));
    of.and_then(unhex).is_some_and(|of| of.len() == 8)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile::{COPIED, House};
    use vesica_job::{Control, World};
    use vesica_testkit::Witness;

    /// An epoch that a client has asked under is there for good: an older one in its place would let the server go back to that.
    #[test]
    fn the_epoch_of_a_client_outlives_a_failure_of_power() {
        let mut house = House::with(COPIED, 50, "");
        house.serve();
        let plan = house.plan("cache");
        let fetch = || crate::fetch(&plan, &World::default(), &Control::new(())).unwrap();
        let witness = Witness::of(house.dir.path());
        let [epoch, offer] = [epoch::NAME, "offer.json"].map(|name| plan.cache.join(name));
        assert!(fetch().new.is_some());
        let mut files: Vec<_> = std::fs::read_dir(&plan.cache).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| !path.ends_with("lock"));
        assert!(files.contains(&epoch) && files.contains(&offer) && files.len() == 3, "{files:?}");
        files.iter().for_each(|path| witness.is_put(path).unwrap());
        // Whoever wrote what is there, one of the two or both, may have been killed before its name was on the disk.
        for gone in [None, Some(&epoch), Some(&offer)] {
            gone.into_iter().for_each(|path| std::fs::remove_file(path).unwrap());
            witness.forget();
            fetch();
            files.iter().for_each(|path| witness.is_named(path).unwrap());
            // So may whoever made the folder, if there is no epoch in it.
            assert_eq!(witness.is_named(&plan.cache).is_ok(), gone == Some(&epoch));
            gone.into_iter().for_each(|path| witness.is_put(path).unwrap());
        }
    }

    #[test]
    fn only_what_a_cache_calls_so_is_its_own() {
        for kind in ["copy", "changes"] {
            for name in [format!("{kind}-0123456789abcdef"), format!("{kind}-0123456789abcdef.part")] {
                assert!(is_ours(&name), "{name}");
                assert!(!is_ours(&format!("{name}.pem")) && !is_ours(&name.replace('a', "x")) && !is_ours(&name[1..]));
            }
            assert!(!is_ours(&format!("{kind}-of-alice.pem")) && !is_ours(&format!("{kind}-01234567")));
        }
    }
}
