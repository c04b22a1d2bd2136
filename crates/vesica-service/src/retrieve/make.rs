//! From a table to the records of an epoch; no network.

use super::epoch::{self, Epoch, Layout};
use super::{Scheme, body_bytes, change, desk, has_reals, has_sums, pad, reals, retrieval};
use crate::error::Error;
use crate::offer::{Offer, hex};
use crate::prepare::reading::{Read, Reader, Values};
use crate::prepare::secret::{Root, Use};
use crate::prepare::signer::Signer;
use crate::prepare::{Before, Keyed, Prepared, Product};
use crate::{prepare, values};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;
use vesica_job::{Control, Event, World};
use vesica_oprf::function::ServerFunction;
use vesica_pir::bucket::{Buckets, SLOTS};
use vesica_pir::keyword::{Filter, TAG};
use vesica_program::on_disk::{self, Files};
use vesica_session::SessionRng;
use vesica_spec::service::{By, Preset, Private, ServePlan};

/// The longest that the values of a row may be: 64 KiB, and the lengths of a hundred columns.
const MOST_VALUES: u32 = (64 << 10) + 400;

/// What became of a table.
#[derive(Debug)]
pub struct Made {
    /// The epoch that stands in the folder now.
    pub epoch: Epoch,
    /// Rows that were added, with new values for those that were there.
    pub rows: u64,
    /// What changed; none if the table was made as a whole.
    pub changed: Option<Changed>,
}

/// What changed in a table.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Changed {
    /// Rows that were added, or got values.
    pub rows: u64,
    /// How many of them were there before.
    pub replaced: u64,
    /// Rows that were removed.
    pub removed: u64,
    /// Rows that were to be removed and were not there.
    pub absent: u64,
    /// Bytes by which clients follow; none if they copy everything anew.
    pub patch: Option<u64>,
}

/// Makes the next epoch of the plan's table.
///
/// # Errors
/// Faults of the plan, its files and the table. Then the service's files are what they were.
pub fn make(plan: &ServePlan, rotate: bool, world: &World, ctl: &Control) -> Result<Prepared, Error> {
    let reader = Reader::open(plan, prepare::table(plan)?, true)?;
    // Two at once would put the table of one beside the hint of the other.
    on_disk::make_folder(&Files, &plan.store, 0o777).map_err(Error::file("cannot make the folder", &plan.store))?;
    let _locked = vesica_store::lock_folder(&plan.store)?;
    let untold = Offer::settle(&plan.store)?;
    let plan = &prepare::settled(plan)?;
    let before = Offer::before(&plan.store)?;
    // What refuses stands in front of what writes a key that is sealed as the document says now.
    let signer =
        prepare::kind(plan).signs().then(|| Signer::take(plan, rotate, before.as_ref(), world, ctl)).transpose()?;
    let keyed = match plan.service.private {
        Private::Both => Some(Keyed::take(plan, rotate, before.as_ref(), world, ctl)?),
        Private::Client if rotate && !prepare::kind(plan).signs() => {
            let why = "--rotate: with private = \"client\" there is no key to change; leave it out";
            return Err(Error::Setup(why.into()));
        }
        Private::Client => None,
    };
    let root = keyed.as_ref().map(|keyed| &keyed.root);
    let public = root.map(Root::function).transpose()?.map_or(Vec::new(), |function| function.public().to_vec());
    let are_reals = has_reals(prepare::kind(plan));
    let value_bytes = match (plan.service.values.is_empty() || are_reals, plan.service.value_bytes) {
        (true, _) => None,
        (false, Some(bytes)) => Some(bytes),
        // A longer value makes another offer, so clients are told; a shorter one does not.
        (false, None) => {
            let now = reader.longest(ctl)?;
            let same = before.as_ref().filter(|offer| offer.public().is_ok_and(|known| known == public));
            Some(same.and_then(|offer| offer.value_bytes).map_or(now, |bytes| bytes.max(now)))
        }
    };
    let mut rng = world.rng()?;
    let mut offer = Offer::new(&plan.service, plan.keys.len(), value_bytes, 0, &public)?;
    check_length(&offer)?;
    if let Some(signer) = &signer {
        // Two stores whose documents and keys are the same have two offers: what was signed for one is of no use to the other.
        let store = before.as_ref().and_then(Offer::store).unwrap_or_else(|| rng.bytes());
        offer = offer.signed_by(signer.public(), store);
    }
    let last = Epoch::load(before.as_ref().unwrap_or(&offer), &plan.store).ok();
    let stood = last.as_ref().map(|epoch| Before { keys: epoch.rows, changed: epoch.log > 0 });
    // Tags follow from the salt: rows that did not change have the same bytes under the same one. Where a function protects rows there is
    // always a new one, and with it a new function.
    let same = last.as_ref().filter(|_| before.as_ref() == Some(&offer) && change::follows(&plan.service));
    let salt = same.map_or_else(|| rng.bytes(), Epoch::salt);
    let function = root.map(|root| root.of_epoch(&salt)).transpose()?;
    let whole = Whole {
        offer: &offer,
        // Clients refuse a number that they have had, so it goes on even where the last document is lost.
        number: last.as_ref().map_or_else(|| newest(&plan.store), |epoch| Ok(epoch.number))?.saturating_add(1),
        salt,
        public: function.as_ref().map_or(Vec::new(), |function| function.public().to_vec()),
        sealed: rng.bytes(),
        expected: plan.service.expected_queries,
        preset: plan.service.preset,
        workers: plan.workers,
        memory: plan.memory,
    };
    let read = Maker::new(plan, function, &offer, whole.salt, whole.sealed).read(plan, &reader, ctl)?;
    ctl.event(Event::Phase { name: "place", of: "", total: None });
    let last = last.filter(|_| before.as_ref() == Some(&offer));
    let mut state = match last.map(|last| super::change::rows(plan, &offer, last, &read.bodies)).transpose()?.flatten()
    {
        Some(state) => state,
        None => whole.state(&read.keys, &read.bodies, root.map(Root::lock), &mut rng, ctl)?,
    };
    // Where the document of the offer before is lost, that of its epoch says which it was.
    let offer_changed =
        untold || before.is_some_and(|before| before != offer) || Epoch::is_foreign(&offer, &plan.store);
    state.write(plan, &offer, signer.as_ref(), world)?;
    let sealed = [
        (Use::Function, keyed.as_ref().map(|keyed| keyed.sealed)),
        (Use::Signatures, signer.as_ref().map(Signer::is_sealed)),
    ];
    keyed.map_or(Ok(()), Keyed::keep)?;
    signer.map_or(Ok(()), |signer| signer.keep(plan))?;
    remove_others(plan, &state.epoch)?;
    let Read { rows, empty } = read.read;
    let made = Made {
        rows: state.changed.map_or(read.keys.len() as u64, |changed| changed.rows),
        changed: state.changed,
        epoch: state.epoch,
    };
    let (product, unsealed) = (Product::Table(Box::new(made)), prepare::unsealed(plan, sealed));
    Ok(Prepared { offer, offer_changed, rows, empty, product, unsealed, before: stood })
}

/// Fails if the values of a row are longer than a record takes, or than the part of one that a row has: a service without a filter keeps several rows
/// in a record.
fn check_length(offer: &Offer) -> Result<(), Error> {
    let bytes = offer.value_bytes.unwrap_or(0);
    let (most, rows) = if offer.by() == By::Key && !has_sums(offer.kind()) {
        let beside = body_bytes(offer) - bytes as usize;
        (
            Buckets::MOST_BODY.saturating_sub(beside),
            format!(", {SLOTS} of which are fetched at once in \"{}\"", offer.protocol.name()),
        )
    } else {
        (MOST_VALUES as usize, String::new())
    };
    if bytes as usize <= most {
        return Ok(());
    }
    Err(Error::Setup(format!(
        "service.values: the values of a row{rows} have up to {bytes} bytes; the most is {most}. Name fewer columns, cut them into several rows, or \
         give a smaller service.value_bytes where values are shorter"
    )))
}

/// What an epoch is that is made as a whole, besides its rows.
pub struct Whole<'a> {
    /// What the service is.
    pub offer: &'a Offer,
    /// Which epoch it becomes.
    pub number: u64,
    /// The salt of the function's key, and of tags.
    pub salt: [u8; 32],
    /// The public key of the function, if there is one.
    pub public: Vec<u8>,
    /// The salt of the keys that values were sealed under.
    pub sealed: [u8; 32],
    /// How many rows a client is expected to look up.
    pub expected: u32,
    /// Which rings are used.
    pub preset: Preset,
    /// Threads that compute.
    pub workers: usize,
    /// Bytes that the records may take, with what is kept beside them.
    pub memory: u64,
}

impl Whole<'_> {
    /// The epoch of these rows: what the place of each follows from, and its body.
    pub fn state(
        self,
        keys: &[[u8; 32]],
        bodies: &[u8],
        lock: Option<&[u8; 32]>,
        rng: &mut SessionRng,
        ctl: &Control,
    ) -> Result<State, Error> {
        let Self { offer, number, salt, public, sealed, expected, preset, workers, memory } = self;
        let (rows, body) = (keys.len() as u64, body_bytes(offer));
        if rows == 0 {
            return Err(Error::Setup("the table has no row that can be looked up; add one".into()));
        }
        let (by, scheme) = (offer.by(), offer.kind().scheme()?);
        let filter = scheme.filter().filter(|_| by == By::Key);
        if filter.is_some() && rows > epoch::MOST_KEYS {
            let (most, name) = (epoch::MOST_KEYS, offer.protocol.name());
            return Err(Error::Setup(format!(
                "{rows} keys; a table of \"{name}\" takes {most}, so cut it in two services"
            )));
        }
        let mut tries = Vec::new();
        let (records, width, seed, table) = match (by, filter) {
            (By::Index, _) => {
                let seed = rng.bytes();
                (rows, body, seed, placed(scheme, rows, &seed, bodies, body)?)
            }
            (By::Key, Some(shape)) => {
                let shape = shape(rows, (TAG + body) as u32, expected)?;
                let (filter, table) = filtered(&shape, body, keys, bodies, sealed, rng, ctl)?;
                tries = filter.groups().iter().map(|drawn| drawn.tries).collect();
                (shape.records, filter.width(), *filter.seed(), table)
            }
            (By::Key, None) => {
                let (buckets, slots) = Buckets::build(keys, body, rng)?;
                let of = |key: u32| &bodies[key as usize * body..][..body];
                let table = buckets.write(keys, &slots, rng, |key, out| out.extend_from_slice(of(key)));
                (buckets.count(), buckets.width(), *buckets.seed(), table)
            }
        };
        let made = Layout { rows, records, width, seed, salt, sealed, expected, preset };
        let mut epoch = Epoch::new(offer, number, made);
        epoch.public = hex(&public);
        ctl.event(Event::Phase { name: "hint", of: "", total: None });
        let table = Arc::new(table);
        let (mut copy, beside) = hint(offer, &mut epoch, &table, workers, memory)?;
        copy.extend_from_slice(&tries);
        let table = beside.map_or(table.clone(), |beside| Arc::new([&table[..], &beside].concat()));
        epoch.sums = hex(blake3::hash(&epoch::sums(if copy.is_empty() { &table } else { &copy })).as_bytes());
        epoch.table = epoch::table_sum(&table);
        let keys = filter.is_some().then(|| change::lock_keys(lock, &epoch.table, keys, rng)).transpose()?;
        Ok(State {
            epoch,
            table,
            copy: Some(copy).filter(|copy| !copy.is_empty()),
            log: Vec::new(),
            keys,
            changed: None,
        })
    }
}

/// The filter of these keys, and the table of their bodies, which have so many bytes each.
pub fn filtered(
    shape: &vesica_pir::Shape,
    body: usize,
    keys: &[[u8; 32]],
    bodies: &[u8],
    sealed: [u8; 32],
    rng: &mut SessionRng,
    ctl: &Control,
) -> Result<(Filter, Vec<u8>), Error> {
    let (mut filter, members) = Filter::spread(shape, body, keys, rng)?;
    let size = filter.slots() * filter.width();
    let mut table = vec![0; members.len() * size];
    for (group, members) in members.iter().enumerate() {
        ctl.check()?;
        let of_group: Vec<&[u8; 32]> = members.iter().map(|&key| &keys[key as usize]).collect();
        let bodies: Vec<u8> = members.iter().flat_map(|&key| &bodies[key as usize * body..][..body]).copied().collect();
        filter.fill(group, sealed, &of_group, &bodies, rng, &mut table[group * size..][..size])?;
    }
    Ok((filter, table))
}

/// An epoch and its files.
pub struct State {
    /// What clients are told.
    pub epoch: Epoch,
    /// The records, and behind them what is kept beside them.
    pub table: Arc<Vec<u8>>,
    /// What clients copy, if it is not the table and was made for this epoch.
    pub copy: Option<Vec<u8>>,
    /// The changes since the base.
    pub log: Vec<u8>,
    /// The keys of the rows, which later changes need.
    pub keys: Option<Vec<u8>>,
    /// What changed, if not everything is new.
    pub changed: Option<Changed>,
}

impl State {
    /// Writes the files. A server takes the epoch up when its document is there, and then its files are there too. Whoever is killed in between
    /// leaves the epoch before, or this one.
    pub fn write(
        &mut self,
        plan: &ServePlan,
        offer: &Offer,
        signer: Option<&Signer>,
        world: &World,
    ) -> Result<(), Error> {
        let (store, number) = (&plan.store, self.epoch.number);
        vesica_job::rooms::replace(&store.join(desk::table_name(number)), &self.table)?;
        if let Some(copy) = &self.copy {
            vesica_job::rooms::replace(&store.join(desk::hint_name(number)), copy)?;
        }
        if !self.log.is_empty() {
            vesica_job::rooms::replace(&store.join(desk::log_name(number)), &self.log)?;
        }
        if let Some(keys) = &self.keys {
            vesica_job::rooms::replace_privately(&store.join(change::keys_name(number)), keys)?;
        }
        offer.save_next(store)?;
        if let Some(signer) = signer {
            signer.sign(&mut self.epoch, world.time.wall());
        }
        vesica_job::rooms::replace(&store.join(epoch::NAME), &self.epoch.encode())?;
        Offer::become_current(store)
    }
}

/// Matrices that are drawn before it is given up. One is drawn badly with a probability far below one half.
const DRAWS: u32 = 8;

/// The hint of the epoch's table, empty if there is none, and what is to be kept beside the records, if anything is; sets what the epoch says
/// of it.
fn hint(
    offer: &Offer,
    epoch: &mut Epoch,
    table: &Arc<Vec<u8>>,
    workers: usize,
    memory: u64,
) -> Result<(Vec<u8>, Option<Vec<u8>>), Error> {
    loop {
        let scheme = retrieval(offer, epoch)?;
        epoch.copy = scheme.copied();
        if !scheme.has_hint() {
            return Ok((Vec::new(), None));
        }
        let (records, beside) = (table.len() as u64, scheme.beside());
        if beside > 0 && records.saturating_add(beside) > memory {
            return Err(Error::Setup(format!(
                "mine.memory: the records have {records} bytes and what packs answers {beside} beside them, and {memory} are allowed; give it \
                 more, or take hint = \"copied\""
            )));
        }
        let made = scheme
            .server(table.clone(), workers)
            .and_then(|server| Ok((server.hint()?, (scheme.beside() > 0).then(|| server.beside()))));
        match made {
            Err(_) if epoch.draws + 1 < DRAWS => epoch.draws += 1,
            made => return Ok(made?),
        }
    }
}

/// The largest number of an epoch of which there is a file in the service's folder; 0 if there is none.
fn newest(store: &Path) -> Result<u64, Error> {
    let mut newest = 0;
    for entry in std::fs::read_dir(store).map_err(Error::file("cannot read", store))? {
        let name = entry.map_err(Error::file("cannot read", store))?.file_name();
        newest = newest.max(name.to_str().and_then(epoch::number_of).unwrap_or(0));
    }
    Ok(newest)
}

/// Removes the files of other epochs. A server that serves one of them has it in memory.
pub fn remove_others(plan: &ServePlan, epoch: &Epoch) -> Result<(), Error> {
    let (number, base) = (epoch.number, epoch.base);
    let kept = [desk::table_name(number), desk::hint_name(base), desk::log_name(number), change::keys_name(number)];
    let listed = std::fs::read_dir(&plan.store).map_err(Error::file("cannot read", &plan.store))?;
    for entry in listed {
        let entry = entry.map_err(Error::file("cannot read", &plan.store))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if epoch::number_of(name).is_some() && !kept.iter().any(|kept| kept == name) {
            std::fs::remove_file(entry.path()).map_err(Error::file("cannot remove", &entry.path()))?;
        }
    }
    Ok(())
}

/// The records of rows, each in its place.
fn placed(scheme: &dyn Scheme, rows: u64, seed: &[u8; 32], bodies: &[u8], width: usize) -> Result<Vec<u8>, Error> {
    let mut table = vec![0; bodies.len()];
    for (body, index) in bodies.chunks_exact(width).zip(0..) {
        let place = scheme.place(rows, seed, index)?;
        table[place as usize * width..][..width].copy_from_slice(body);
    }
    Ok(table)
}

/// What was read of a table: for each row that can be looked up what its place follows from, and its body.
#[derive(Default)]
pub struct Bodies {
    /// What the place of each follows from.
    pub keys: Vec<[u8; 32]>,
    /// Their bodies, one behind the other.
    pub bodies: Vec<u8>,
    /// How much was read.
    pub read: Read,
}

/// How bodies are made of rows.
#[derive(Clone)]
pub struct Maker {
    /// What protects the server's rows, if anything does.
    function: Option<Arc<dyn ServerFunction>>,
    padded: Option<u32>,
    /// The columns, where they are real numbers.
    reals: Option<Vec<String>>,
    body: usize,
    /// Of tags.
    salt: [u8; 32],
    /// Of the keys that values are sealed under.
    sealed: [u8; 32],
}

impl Maker {
    /// Makes bodies for `offer`.
    pub fn new(
        plan: &ServePlan,
        function: Option<Arc<dyn ServerFunction>>,
        offer: &Offer,
        salt: [u8; 32],
        sealed: [u8; 32],
    ) -> Self {
        let reals = has_reals(prepare::kind(plan)).then(|| plan.service.values.clone());
        Self { function, padded: offer.value_bytes, reals, body: body_bytes(offer), salt, sealed }
    }

    /// The same, without values: bodies are empty.
    pub fn without_values(self) -> Self {
        Self { padded: None, reals: None, body: 0, ..self }
    }

    /// All rows of a table. A key that stands in several rows with the same values counts once.
    pub fn read(self, plan: &ServePlan, reader: &Reader<'_>, ctl: &Control) -> Result<Bodies, Error> {
        let (function, body, most) = (self.function.clone(), self.body, plan.memory);
        let Bodies { mut keys, mut bodies, .. } = Bodies::default();
        // The place of each key among those that are kept, and its row.
        let mut places: HashMap<[u8; 32], (usize, u64)> = HashMap::new();
        let make = move |keys: &[[u8; 32]], rows: &[u64], columns: &Values<'_>| self.bodies(keys, rows, columns);
        let read = reader.each(function.as_ref(), make, ctl, |batch| {
            for (place, (key, &row)) in batch.keys.iter().zip(&batch.rows).enumerate() {
                let bytes = &batch.made[place * body..][..body];
                if plan.service.by == By::Key {
                    match places.entry(*key) {
                        // A key has one salt, so the same values are the same bytes.
                        Entry::Occupied(there) => {
                            let (at, first) = *there.get();
                            if bodies[at * body..][..body] != *bytes {
                                return Err(vesica_store::Error::Values { first, second: row }.into());
                            }
                            continue;
                        }
                        Entry::Vacant(free) => {
                            free.insert((keys.len(), row));
                        }
                    }
                }
                keys.push(*key);
                bodies.extend_from_slice(bytes);
            }
            if (bodies.len() + 64 * keys.len()) as u64 > most {
                return Err(Error::Setup(format!(
                    "mine.memory: the records have more than {most} bytes, and a retrieval's table is made in memory; give it more"
                )));
            }
            Ok(())
        })?;
        Ok(Bodies { keys, bodies, read })
    }

    /// The bodies of rows, one behind the other.
    fn bodies(&self, keys: &[[u8; 32]], rows: &[u64], columns: &Values<'_>) -> Result<Vec<u8>, Error> {
        let (mut value, mut bodies) = (Vec::new(), Vec::with_capacity(keys.len() * self.body));
        for (at, key) in keys.iter().enumerate() {
            if let Some(names) = &self.reals {
                reals::encode(&self.salt, key, columns.texts(at), &mut bodies).map_err(|column| {
                    Error::Setup(format!(
                        "row {} of mine.input: its {:?} is no number from -128 to 128, and \"ckks-pir\" takes no others; scale or fill the column, \
                         or take protocol = \"bfv-pir\"",
                        rows[at] + 1,
                        names[column]
                    ))
                })?;
                continue;
            }
            let Some(padded) = self.padded else { continue };
            value.clear();
            values::encode(columns.texts(at), &mut value);
            if self.function.is_some() {
                vesica_store::seal_value(key, &self.sealed, &value, padded, &mut bodies)?;
            } else if !pad(&self.salt, key, &value, padded as usize, &mut bodies) {
                return Err(vesica_store::Error::TooLong { length: value.len(), most: padded }.into());
            }
        }
        Ok(bodies)
    }
}

#[cfg(test)]
mod tests {
    use crate::hostile::{House, Kind};
    use vesica_job::{Control, World};
    use vesica_spec::service::{By, Private};
    use vesica_testkit::Witness;

    /// With the new folders that they are the first in, which may be those of two disks.
    #[test]
    fn a_new_store_and_its_key_outlive_a_failure_of_power() {
        let house = House::new(Kind { protocol: "simple-pir", by: By::Key, private: Private::Both }, 30);
        let at = |name| house.dir.path().join(name);
        let mut plan = house.server.clone();
        (plan.store, plan.secret.path) = (at("new/list.store"), at("keys/of the list/list.secret"));
        let witness = Witness::of(house.dir.path());
        crate::prepare(&plan, &Default::default(), &World::default(), &Control::new(())).unwrap();
        let stored = std::fs::read_dir(&plan.store).unwrap().map(|entry| entry.unwrap().path());
        let stored: Vec<_> = stored.filter(|path| !path.ends_with(".lock")).collect();
        assert!(stored.len() > 3, "{stored:?}");
        stored.iter().chain([&plan.secret.path]).for_each(|path| witness.is_put(path).unwrap());
    }

    /// Before anything is computed, with what the user may change.
    #[test]
    fn values_that_no_record_takes_are_refused_by_their_name() {
        let named = |protocol, private| Kind { protocol, by: By::Key, private };
        let kinds = [
            // A bucket is a record of four rows: 66560 / 4 bytes, less a tag of the place, a tag of the row and a length.
            (named("piano", Private::Client), 16_616),
            (named("download", Private::Client), 16_616),
            (named("simple-pir", Private::Client), 65_936),
        ];
        for (kind, most) in kinds {
            let house = House::new(kind, 30);
            let mut plan = house.server.clone();
            let mut prepare = |bytes| {
                plan.service.value_bytes = Some(bytes);
                crate::prepare(&plan, &Default::default(), &World::default(), &Control::new(()))
            };
            let why = prepare(most + 1).unwrap_err().to_string();
            assert!(why.contains("service.values: ") && why.contains(&format!("{} bytes", most + 1)), "{why}");
            assert!(why.contains(&format!("the most is {most}. ")), "{why}");
            prepare(most).unwrap();
        }
    }
}
