//! Changes of a table that is prepared already: a few rows are added, changed or removed, and clients follow by a patch of their hint.
//!
//! By key, a body is the sum of four slots that other keys share. So the *group* of a key that changes is drawn anew as a whole, and clients get
//! its rows of the hint. They see which groups changed, and by nothing in them which of their keys did ([`vesica_pir::keyword`]). Where rows
//! are protected, that is the least that a patch can tell.
//!
//! By row number, only what every client may see is patched: records stand at their numbers, so a patch tells which rows changed. Where rows
//! are protected, and for Piano and `download`, the whole table is prepared anew. Piano's hints are sums of records under sets that its client
//! chose; to follow, it would have to look for each changed record in all of them.
//!
//! **A patch or everything anew** is a question of bytes. The log of patches grows as long as it is shorter than what clients copy otherwise.
//! So who follows copies less than that, and who comes anew copies less than twice as much.
//!
//! The server keeps the key of each row beside the table: what comes out of the function, or the hash of the key. They are sealed under a key
//! from the service's secret where there is one, because they open the rows.

use super::changes::{self, Entry};
use super::desk::Files;
use super::epoch::{self, Epoch};
use super::make::{Bodies, Changed, Made, Maker, State, Whole, remove_others};
use super::{Retrieval, Server, body_bytes, desk, retrieval};
use crate::error::Error;
use crate::offer::{Offer, hex};
use crate::prepare::reading::{Read, Reader};
use crate::prepare::secret::{self, Root, Use};
use crate::prepare::signer::Signer;
use crate::prepare::{self, Change, Prepared, Product, agrees};
use crate::suite::Kind;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vesica_job::{Control, Event, World};
use vesica_pir::keyword::Filter;
use vesica_session::SessionRng;
use vesica_spec::service::{By, Private, ServePlan, Service};
use vesica_table::Input;

/// The file with the keys of an epoch.
pub fn keys_name(number: u64) -> String {
    format!("epoch-{number}.keys")
}

/// What seals the keys.
fn keys_key(lock: Option<&[u8; 32]>) -> [u8; 32] {
    blake3::derive_key("vesica 2026 keys of a table", lock.map_or(&[][..], |lock| lock))
}

/// The file with these keys: a salt, and they. Without a `lock` the seal keeps nothing secret, and finds damage alone.
/// `table` is the sum of the table that they are of.
pub fn lock_keys(
    lock: Option<&[u8; 32]>,
    table: &str,
    keys: &[[u8; 32]],
    rng: &mut SessionRng,
) -> Result<Vec<u8>, Error> {
    let (bytes, salt) = ([table.as_bytes(), keys.as_flattened()].concat(), rng.bytes::<32>());
    let mut file = salt.to_vec();
    let length = u32::try_from(bytes.len()).map_err(|_| {
        Error::Setup(format!("{} keys; a table that is looked up by key has up to {}", keys.len(), epoch::MOST_KEYS))
    })?;
    vesica_store::seal_value(&keys_key(lock), &salt, &bytes, length, &mut file)?;
    Ok(file)
}

/// The keys in a file.
fn unlock_keys(path: &Path, lock: Option<&[u8; 32]>, epoch: &Epoch) -> Result<Vec<[u8; 32]>, Error> {
    let file = std::fs::read(path).map_err(Error::file("cannot read", path))?;
    let keys = file
        .split_first_chunk::<32>()
        .and_then(|(salt, sealed)| vesica_store::open_value(&keys_key(lock), salt, sealed))
        .and_then(|bytes| bytes.strip_prefix(epoch.table.as_bytes()).map(<[u8]>::to_vec))
        .filter(|keys| keys.len() as u64 == 32 * epoch.rows);
    let damaged = || Error::Damaged {
        path: path.to_owned(),
        why: "it does not hold the keys of its table; run `vesica prepare` without --append and --remove".into(),
    };
    Ok(keys.ok_or_else(damaged)?.as_chunks().0.to_vec())
}

/// What stands in the folder of a service whose clients can follow.
struct Before {
    offer: Offer,
    epoch: Epoch,
    scheme: Box<dyn Retrieval>,
    table: Arc<Vec<u8>>,
    /// What is kept beside the records.
    beside: Vec<u8>,
    /// Threads that compute.
    workers: usize,
    /// Bytes that a table may take that is made anew.
    memory: u64,
    /// What clients copy: the hint of the base, and behind it how many seeds failed for each group of keys.
    copy: Vec<u8>,
    log: Vec<u8>,
}

impl Before {
    fn load(plan: &ServePlan, offer: Offer, epoch: Epoch) -> Result<Self, Error> {
        let scheme = retrieval(&offer, &epoch)?;
        // What follows from damaged files would have sums of its own, or be of no use to anybody.
        let remedy = "run `vesica prepare` without --append and --remove";
        let Files { table, beside, copy, log, .. } = Files::read(&plan.store, &epoch, &*scheme, remedy)?;
        let (table, workers, memory) = (Arc::new(table), plan.workers, plan.memory);
        Ok(Self { offer, epoch, scheme, table, beside, workers, memory, copy, log })
    }

    /// What the server answers from.
    fn server(&self) -> Result<Box<dyn Server>, Error> {
        Ok(self.scheme.resume(self.table.clone(), &self.beside, &self.log, self.workers)?)
    }

    fn entries(&self, plan: &ServePlan) -> Result<Vec<Entry<'_>>, Error> {
        changes::entries(&self.log).ok_or_else(|| Error::Damaged {
            path: plan.store.join(desk::log_name(self.epoch.number)),
            why: "it is no log of changes; run `vesica prepare` without --append and --remove".into(),
        })
    }

    /// The next epoch, with the log that leads to it; none if the log would be no shorter than what clients copy otherwise.
    fn followed(&self, rows: u64, table: &[u8], entry: &Entry<'_>) -> Option<(Epoch, Vec<u8>)> {
        let mut log = self.log.clone();
        entry.append(&mut log);
        let mut epoch = self.epoch.clone();
        epoch.number += 1;
        epoch.rows = rows;
        epoch.table = epoch::table_sum(table);
        epoch.log = log.len() as u64;
        epoch.log_sums = hex(blake3::hash(&epoch::sums(&log)).as_bytes());
        self.pays(log.len() as u64).then_some((epoch, log))
    }

    /// Whether a log of so many bytes is better than everything anew.
    fn pays(&self, log: u64) -> bool {
        log < self.epoch.copy
    }

    /// Bytes that a client with this epoch copies to get to `next`, whose log is longer: what stands behind the last whole chunk of its own.
    fn follows(&self, next: &Epoch) -> u64 {
        next.log - self.epoch.log / epoch::CHUNK as u64 * epoch::CHUNK as u64
    }
}

/// Whether [`rows`] finds what changed in a table of this service.
pub fn follows(service: &Service) -> bool {
    let scheme = Kind::from(service).suite().scheme();
    scheme.is_some_and(|scheme| scheme.cannot_follow().is_none())
        && (service.by, service.private) == (By::Index, Private::Client)
}

/// The next epoch of a table by row number that every client may see, if it has as many rows as before and few of them changed.
///
/// # Errors
/// Those of the service's files.
pub fn rows(plan: &ServePlan, offer: &Offer, last: Epoch, bodies: &[u8]) -> Result<Option<State>, Error> {
    let (service, width) = (&plan.service, last.width as usize);
    if !follows(service)
        || last.expected != service.expected_queries
        || bodies.len() as u64 != last.records * u64::from(last.width)
    {
        return Ok(None);
    }
    // Files that are damaged are made anew.
    let Ok(before) = Before::load(plan, offer.clone(), last) else { return Ok(None) };
    if before.table.len() != bodies.len() {
        return Ok(None);
    }
    let differ = before.table.chunks_exact(width).zip(bodies.chunks_exact(width)).zip(0..);
    let changed: Vec<(u64, &[u8])> =
        differ.filter(|((old, new), _)| old != new).map(|((_, new), index)| (index, new)).collect();
    // What was kept and is damaged is made anew too. A row of the hint that is rounded badly takes another matrix.
    let Ok(mut server) = before.server() else { return Ok(None) };
    let Ok(patch) = server.change(&changed) else { return Ok(None) };
    let table = [bodies, &server.beside()].concat();
    let count = changed.len() as u64;
    let entry = Entry { salt: [0; 32], drawn: Vec::new(), patch: &patch };
    let Some((epoch, log)) = before.followed(before.epoch.rows, &table, &entry) else { return Ok(None) };
    let patch = Some(before.follows(&epoch));
    let changed = Changed { rows: count, replaced: count, patch, ..Changed::default() };
    Ok(Some(State { epoch, table: Arc::new(table), copy: None, log, keys: None, changed: Some(changed) }))
}

/// Adds the rows of one table to the service's, or takes the keys of another one out of it.
///
/// # Errors
/// Faults of the plan, its files and the tables. Then the service's files are what they were. A service whose rows cannot be changed so is
/// refused by name.
pub fn change(plan: &ServePlan, change: &Change, world: &World, ctl: &Control) -> Result<Prepared, Error> {
    let service = &plan.service;
    let refused = match (prepare::kind(plan).scheme()?.cannot_follow(), service.by) {
        (None, By::Key) => None,
        (None, By::Index) => {
            Some("by = \"index\": rows are known by their numbers in the table of mine.input".to_owned())
        }
        (Some(why), _) => Some(format!("protocol = \"{}\": {why}", service.protocol.name())),
    };
    if let Some(why) = refused {
        return Err(Error::Setup(format!(
            "--append and --remove: {why}. Change that table and run `vesica prepare` without them: it makes the next epoch, and clients fetch it"
        )));
    }
    if change.rotate {
        let why = "--rotate makes a whole new table of mine.input, and --append and --remove change the one that is there: give one or the other";
        return Err(Error::Setup(why.into()));
    }
    if !plan.store.is_dir() {
        let why = "nothing was prepared there; look at mine.store, or run `vesica prepare` without --append and --remove first";
        return Err(Error::Setup(format!("{}: {why}", plan.store.display())));
    }
    let _locked = vesica_store::lock_folder(&plan.store)?;
    let _key = (service.private == Private::Both).then(|| secret::lock(&plan.secret)).transpose()?;
    let offer_changed = Offer::settle(&plan.store)?;
    let offer = Offer::load(&plan.store)?;
    agrees(plan, &offer)?;
    let epoch = Epoch::load(&offer, &plan.store)?;
    let signer = offer.kind().signs().then(|| Signer::of_offer(plan, &offer, ctl)).transpose()?;
    let before = Before::load(plan, offer, epoch)?;
    let public = before.offer.public().map_err(|why| Error::Damaged { path: plan.store.clone(), why })?;
    let (root, sealed) =
        (service.private == Private::Both).then(|| secret::root(plan, &public, ctl)).transpose()?.unzip();
    // The keys of rows are known as what came of this function, and so it stays.
    let function = root.as_ref().map(|root| before.epoch.function(root)).transpose()?;
    let lock = root.as_ref().map(Root::lock);
    let path = plan.store.join(keys_name(before.epoch.number));
    let mut changing = Changing::new(plan, &before, unlock_keys(&path, lock, &before.epoch)?)?;
    let mut rng = world.rng()?;
    let salt = rng.bytes();
    let maker = Maker::new(plan, function, &before.offer, before.epoch.salt(), salt);
    let open = |path: &PathBuf, values| Reader::open(plan, &Input { format: None, ..Input::new(path) }, values);
    let mut count = Read::default();
    if let Some(path) = &change.append {
        let added = maker.clone().read(plan, &open(path, true)?, ctl)?;
        count += added.read;
        changing.add(added);
    }
    if let Some(path) = &change.remove {
        let removed = maker.without_values().read(plan, &open(path, false)?, ctl)?;
        count += removed.read;
        changing.remove(&removed.keys);
    }
    ctl.event(Event::Phase { name: "place", of: "", total: None });
    let mut state = match changing.patched(salt, lock, &mut rng)? {
        Some(state) => state,
        None => changing.whole(salt, lock, &mut rng, ctl)?,
    };
    state.write(plan, &before.offer, signer.as_ref(), world)?;
    remove_others(plan, &state.epoch)?;
    let sealed = [(Use::Function, sealed), (Use::Signatures, signer.as_ref().map(Signer::is_sealed))];
    let changed = state.changed.unwrap_or_default();
    let product = Product::Table(Box::new(Made { epoch: state.epoch, rows: changed.rows, changed: state.changed }));
    let (rows, empty) = (count.rows, count.empty);
    let unsealed = prepare::unsealed(plan, sealed);
    Ok(Prepared { offer: before.offer, offer_changed, rows, empty, product, unsealed, before: None })
}

/// A key, and the number of its body if that was made anew.
type Member<'a> = (&'a [u8; 32], Option<usize>);

/// A change that is being made.
struct Changing<'a> {
    before: &'a Before,
    filter: Filter,
    /// The keys that there will be. Those that have a number got a body anew.
    keys: BTreeMap<[u8; 32], Option<usize>>,
    /// The bodies that were made for this change.
    bodies: Vec<u8>,
    /// The groups of keys that come, go, or get another body.
    touched: BTreeSet<usize>,
    changed: Changed,
}

impl<'a> Changing<'a> {
    fn new(plan: &ServePlan, before: &'a Before, keys: Vec<[u8; 32]>) -> Result<Self, Error> {
        let entries = before.entries(plan)?;
        let tries = before.copy.get(before.scheme.sizes().hint as usize..).unwrap_or_default();
        let shape = before.offer.kind().scheme()?.filter();
        let shape = shape.ok_or_else(|| Error::bug("keys without a filter are to be changed"))?;
        let shape = shape(before.epoch.planned, before.epoch.width, before.epoch.expected)?;
        let filter = changes::filter((&before.offer, &before.epoch), &shape, tries, &entries)?;
        let keys = keys.into_iter().map(|key| (key, None)).collect();
        let (bodies, touched, changed) = (Vec::new(), BTreeSet::new(), Changed::default());
        Ok(Self { before, filter, keys, bodies, touched, changed })
    }

    fn add(&mut self, read: Bodies) {
        for (number, key) in read.keys.into_iter().enumerate() {
            self.touched.insert(self.filter.group(&key));
            self.changed.rows += 1;
            self.changed.replaced += u64::from(self.keys.insert(key, Some(number)).is_some());
        }
        self.bodies = read.bodies;
    }

    fn remove(&mut self, keys: &[[u8; 32]]) {
        for key in keys {
            match self.keys.remove(key) {
                Some(_) => {
                    self.touched.insert(self.filter.group(key));
                    self.changed.removed += 1;
                }
                None => self.changed.absent += 1,
            }
        }
    }

    /// The body of a key: the one that was made for this change, or the one that it had, sealed anew.
    fn body(&self, key: &[u8; 32], number: Option<usize>, salt: &[u8; 32], out: &mut Vec<u8>) -> Result<(), Error> {
        let (offer, width) = (&self.before.offer, body_bytes(&self.before.offer));
        if let Some(number) = number {
            out.extend_from_slice(&self.bodies[number * width..][..width]);
            return Ok(());
        }
        let (group, size) = (self.filter.group(key), self.filter.slots() * self.filter.width());
        let damaged = || {
            Error::Setup(format!(
                "{}: a row that is not what it was; run `vesica prepare` without --append and --remove",
                desk::table_name(self.before.epoch.number)
            ))
        };
        let slots = self.before.table.get(group * size..(group + 1) * size).ok_or_else(damaged)?;
        let body = self.filter.find(key, slots).ok_or_else(damaged)?;
        match (offer.value_bytes, offer.retrieval.map(|retrieval| retrieval.private)) {
            (Some(padded), Some(Private::Both)) => {
                let old = &self.filter.groups()[group].salt;
                let value = vesica_store::open_value(key, old, &body).ok_or_else(damaged)?;
                vesica_store::seal_value(key, salt, &value, padded, out)?;
            }
            _ => out.extend_from_slice(&body),
        }
        Ok(())
    }

    /// The next epoch, which clients reach by a patch; none if they are better off with everything anew.
    fn patched(&self, salt: [u8; 32], lock: Option<&[u8; 32]>, rng: &mut SessionRng) -> Result<Option<State>, Error> {
        let mut members: HashMap<usize, Vec<Member<'_>>> = HashMap::new();
        for (key, number) in &self.keys {
            let group = self.filter.group(key);
            if self.touched.contains(&group) {
                members.entry(group).or_default().push((key, *number));
            }
        }
        let full = members.values().any(|members| members.len() > self.filter.capacity());
        let log = self.before.log.len() as u64
            + Entry::bytes(self.touched.len(), self.before.scheme.patch_bytes(self.touched.len()));
        if full || self.keys.is_empty() || !self.before.pays(log) {
            return Ok(None);
        }
        let (mut filter, mut table) = (self.filter.clone(), self.before.table.to_vec());
        let (size, width) = (filter.slots() * filter.width(), filter.width());
        let mut drawn = Vec::new();
        for &group in &self.touched {
            let members = members.remove(&group).unwrap_or_default();
            let (mut keys, mut bodies) = (Vec::with_capacity(members.len()), Vec::new());
            for (key, number) in members {
                self.body(key, number, &salt, &mut bodies)?;
                keys.push(key);
            }
            filter.fill(group, salt, &keys, &bodies, rng, &mut table[group * size..][..size])?;
            drawn.push((group as u32, filter.groups()[group].tries));
        }
        let slots = self.touched.iter().flat_map(|&group| (group * filter.slots()..).take(filter.slots()));
        let changes: Vec<(u64, &[u8])> = slots.map(|slot| (slot as u64, &table[slot * width..][..width])).collect();
        // A row of the hint that is rounded badly takes another matrix.
        let mut server = self.before.server()?;
        let Ok(patch) = server.change(&changes) else { return Ok(None) };
        table.extend(server.beside());
        let entry = Entry { salt, drawn, patch: &patch };
        let Some((epoch, log)) = self.before.followed(self.keys.len() as u64, &table, &entry) else { return Ok(None) };
        let keys: Vec<[u8; 32]> = self.keys.keys().copied().collect();
        let changed = Changed { patch: Some(self.before.follows(&epoch)), ..self.changed };
        let keys = Some(lock_keys(lock, &epoch.table, &keys, rng)?);
        let table = Arc::new(table);
        Ok(Some(State { epoch, table, copy: None, log, keys, changed: Some(changed) }))
    }

    /// The next epoch, of which clients copy everything anew. What opened a row opens it on.
    fn whole(
        &self,
        sealed: [u8; 32],
        lock: Option<&[u8; 32]>,
        rng: &mut SessionRng,
        ctl: &Control,
    ) -> Result<State, Error> {
        let Epoch { number, expected, preset, .. } = self.before.epoch;
        let (mut keys, mut bodies) = (Vec::with_capacity(self.keys.len()), Vec::new());
        for (key, made) in &self.keys {
            self.body(key, *made, &sealed, &mut bodies)?;
            keys.push(*key);
        }
        let (offer, salt) = (&self.before.offer, self.before.epoch.salt());
        let public = self.before.epoch.public().map_err(Error::Setup)?;
        let Before { workers, memory, .. } = *self.before;
        let number = number + 1;
        let whole = Whole { offer, number, salt, public, sealed, expected, preset, workers, memory };
        let state = whole.state(&keys, &bodies, lock, rng, ctl)?;
        Ok(State { changed: Some(self.changed), ..state })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most keys that a table may have are the most that can be sealed in one file.
    #[test]
    fn as_many_keys_as_are_taken_can_be_sealed() {
        let sum = epoch::table_sum(&[]).len() as u64;
        assert!(sum + 32 * epoch::MOST_KEYS <= u64::from(u32::MAX));
        assert!(sum + 32 * (epoch::MOST_KEYS + 1) > u64::from(u32::MAX));
    }
}
