//! From a table to the records of an epoch; no network.

use super::epoch::{self, Epoch, Shape, copy_bytes};
use super::scheme::Scheme;
use super::{body_bytes, desk, digest_of_index, input, pad, reals};
use crate::error::Error;
use crate::offer::{Offer, hex};
use crate::prepare::{Keyed, Prepared, Product, text, texts};
use crate::values;
use arrow_array::RecordBatch;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use vesica_job::rooms::digests;
use vesica_job::{Control, Event};
use vesica_oprf::function::ServerFunction;
use vesica_pir::bucket::Buckets;
use vesica_pir::{Flat, Scatter};
use vesica_session::SessionRng;
use vesica_spec::Rule;
use vesica_spec::service::{By, Private, ServePlan, ServiceProtocol};
use vesica_table::{InOrder, Table};
use vesica_types::KeyDigest;

/// The longest that the values of a row may be: a record has at most 64 KiB with their length and seal.
const MOST_VALUES: u32 = 1 << 16;

/// What became of a table.
#[derive(Debug)]
pub struct Made {
    /// The epoch that stands in the folder now.
    pub epoch: Epoch,
}

/// Makes the next epoch of the plan's table.
///
/// # Errors
/// Faults of the plan, its files and the table. Then the service's files are what they were.
pub fn make(plan: &ServePlan, rotate: bool, ctl: &Control) -> Result<Prepared, Error> {
    let table = vesica_table::open(crate::prepare::table(plan)?)?;
    drop(table.texts(&plan.keys, &plan.service.values, 1)?);
    let before = Offer::load(&plan.store).ok();
    let keyed = match plan.service.private {
        Private::Both => Some(Keyed::take(plan, rotate, before.as_ref())?),
        Private::Client if rotate => {
            let why = "--rotate: with private = \"client\" there is no key to change; leave it out";
            return Err(Error::Setup(why.into()));
        }
        Private::Client => None,
    };
    let function = keyed.as_ref().map(|keyed| keyed.function.clone());
    let public = function.as_ref().map_or(Vec::new(), |function| function.public().to_vec());
    let are_reals = plan.service.protocol == ServiceProtocol::CkksPir;
    let value_bytes = match (plan.service.values.is_empty() || are_reals, plan.service.value_bytes) {
        (true, _) => None,
        (false, Some(bytes)) => Some(bytes),
        // A longer value makes another offer, so clients are told; a shorter one does not.
        (false, None) => {
            let now = longest(plan, &*table, ctl)?;
            let same = before.as_ref().filter(|offer| offer.public().is_ok_and(|known| known == public));
            Some(same.and_then(|offer| offer.value_bytes).map_or(now, |bytes| bytes.max(now)))
        }
    };
    if value_bytes.is_some_and(|bytes| bytes > MOST_VALUES) {
        let why =
            format!("the values of a row have up to {} bytes; the most is {MOST_VALUES}", value_bytes.unwrap_or(0));
        return Err(Error::Setup(format!("service.values: {why}. Name fewer columns, or cut them into several rows")));
    }
    let offer = Offer::new(&plan.service, plan.keys.len(), value_bytes, 0, &public);
    let number = Epoch::load(before.as_ref().unwrap_or(&offer), &plan.store).map_or(1, |epoch| epoch.number + 1);
    let mut rng =
        SessionRng::from_os().map_err(|e| Error::Setup(format!("the system has no randomness to give: {e}")))?;
    let salt = rng.bytes();
    let maker = Maker {
        function,
        by: plan.service.by,
        rules: vesica_spec::service::rules(&plan.service.rules, plan.keys.len())?,
        padded: value_bytes,
        reals: are_reals.then(|| plan.service.values.clone()),
        body: body_bytes(&offer),
        salt,
    };
    let read = read(plan, &*table, maker, ctl)?;
    ctl.event(Event::Phase { name: "place", of: "", total: None });
    let (records, width, seed, bytes) = match plan.service.by {
        By::Index => {
            let (rows, seed) = (read.keys.len() as u64, rng.bytes());
            (
                rows,
                body_bytes(&offer),
                seed,
                scattered(plan.service.protocol, rows, &seed, read.bodies, body_bytes(&offer))?,
            )
        }
        By::Key => {
            let body = body_bytes(&offer);
            let (buckets, slots) = Buckets::build(&read.keys, body, &mut rng)?;
            let of = |key: u32| &read.bodies[key as usize * body..][..body];
            let table = buckets.write(&read.keys, &slots, &mut rng, |key, out| out.extend_from_slice(of(key)));
            (buckets.count(), buckets.width(), *buckets.seed(), table)
        }
    };
    let (rows, expected, preset) = (read.keys.len() as u64, plan.service.expected_queries, plan.service.preset);
    let mut epoch = Epoch::new(&offer, number, Shape { rows, records, width, seed, salt, expected, preset });
    let flat = Flat::new(&bytes, width)?;
    ctl.event(Event::Phase { name: "hint", of: "", total: None });
    let hint = hint(&offer, &mut epoch, flat)?;
    epoch.sums = hex(blake3::hash(&epoch::sums(if hint.is_empty() { &bytes } else { &hint })).as_bytes());
    // A server takes the epoch up when its document is there, and then its files are there too.
    std::fs::create_dir_all(&plan.store).map_err(Error::file("cannot make the folder", &plan.store))?;
    vesica_job::rooms::replace(&plan.store.join(desk::table_name(number)), &bytes)?;
    if !hint.is_empty() {
        vesica_job::rooms::replace(&plan.store.join(desk::hint_name(number)), &hint)?;
    }
    vesica_job::rooms::replace(&plan.store.join(epoch::NAME), &epoch.encode())?;
    offer.save(&plan.store)?;
    let sealed = keyed.as_ref().is_none_or(|keyed| keyed.sealed);
    keyed.map_or(Ok(()), Keyed::keep)?;
    remove_others(plan, number)?;
    let offer_changed = before.is_some_and(|before| before != offer);
    let (rows, empty) = (read.rows, read.empty);
    Ok(Prepared { offer, offer_changed, rows, empty, product: Product::Table(Made { epoch }), sealed })
}

/// Matrices that are drawn before it is given up. One is drawn badly with a probability far below one half.
const DRAWS: u32 = 8;

/// The hint of the epoch's table, empty if there is none; sets what the epoch says of it.
fn hint(offer: &Offer, epoch: &mut Epoch, table: Flat<'_>) -> Result<Vec<u8>, Error> {
    loop {
        let scheme = Scheme::new(offer.protocol, epoch)?;
        epoch.copy = copy_bytes(&scheme, epoch);
        let linear = match &scheme {
            Scheme::Linear(linear) if linear.sizes().query > 0 && linear.sizes().hint > 0 => linear,
            _ => return Ok(Vec::new()),
        };
        match linear.serve(table).and_then(|serves| serves.hint()) {
            Err(_) if epoch.draws + 1 < DRAWS => epoch.draws += 1,
            hint => return Ok(hint?),
        }
    }
}

/// Removes the files of other epochs. A server that serves one of them has it in memory.
fn remove_others(plan: &ServePlan, number: u64) -> Result<(), Error> {
    let listed = std::fs::read_dir(&plan.store).map_err(Error::file("cannot read", &plan.store))?;
    for entry in listed {
        let entry = entry.map_err(Error::file("cannot read", &plan.store))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let of_epochs = name.starts_with("epoch-") && (name.ends_with(".table") || name.ends_with(".hint"));
        if of_epochs && name != desk::table_name(number) && name != desk::hint_name(number) {
            std::fs::remove_file(entry.path()).map_err(Error::file("cannot remove", &entry.path()))?;
        }
    }
    Ok(())
}

/// The records of rows, each in its place.
fn scattered(
    protocol: ServiceProtocol,
    rows: u64,
    seed: &[u8; 32],
    bodies: Vec<u8>,
    width: usize,
) -> Result<Vec<u8>, Error> {
    if protocol != ServiceProtocol::Piano {
        return Ok(bodies);
    }
    let (scatter, mut table) = (Scatter::new(rows, seed), vec![0; bodies.len()]);
    for (body, index) in bodies.chunks_exact(width).zip(0..) {
        let place = scatter.place(index).map_err(|error| Error::Setup(error.to_string()))?;
        table[place as usize * width..][..width].copy_from_slice(body);
    }
    Ok(table)
}

/// The most bytes that the values of a row have.
fn longest(plan: &ServePlan, table: &dyn Table, ctl: &Control) -> Result<u32, Error> {
    ctl.event(Event::Phase { name: "measure", of: "rows", total: table.rows() });
    let (mut longest, mut rows) = (1, 0);
    for batch in table.texts(&[], &plan.service.values, plan.workers)? {
        ctl.check()?;
        let batch = batch?;
        let columns = texts(&batch, 0);
        for row in 0..batch.num_rows() {
            longest = longest.max(values::encoded_bytes(columns.iter().map(|column| text(column, row))));
        }
        rows += batch.num_rows() as u64;
        ctl.event(Event::Done(rows));
    }
    u32::try_from(longest).map_err(|_| Error::Setup("the values of a row are longer than 4 GiB".into()))
}

/// What was read of a table: for each row that can be looked up what its place follows from, and its body.
#[derive(Default)]
struct Read {
    keys: Vec<[u8; 32]>,
    bodies: Vec<u8>,
    rows: u64,
    empty: u64,
}

/// What a thread needs to make bodies of rows.
#[derive(Clone)]
struct Maker {
    /// What protects the server's rows, if anything does.
    function: Option<Arc<dyn ServerFunction>>,
    by: By,
    /// Of each key column; the columns behind them are values.
    rules: Vec<Vec<Rule>>,
    padded: Option<u32>,
    /// The columns, where they are real numbers.
    reals: Option<Vec<String>>,
    body: usize,
    salt: [u8; 32],
}

/// What a thread makes of a batch.
struct Part {
    keys: Vec<[u8; 32]>,
    bodies: Vec<u8>,
    /// The number of the row of each key.
    rows: Vec<u64>,
    read: u64,
    empty: u64,
}

/// All rows of the table. A key that stands in several rows with the same values counts once.
fn read(plan: &ServePlan, table: &dyn Table, maker: Maker, ctl: &Control) -> Result<Read, Error> {
    ctl.event(Event::Phase { name: "evaluate", of: "rows", total: table.rows() });
    let start = std::time::Instant::now();
    let (by, body) = (maker.by, maker.body);
    let mut next = 0;
    let batches = table.texts(&plan.keys, &plan.service.values, plan.workers)?.map(move |batch| {
        let from = next;
        next += batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
        (from, batch)
    });
    let worker = || {
        let maker = maker.clone();
        move |(from, batch): (u64, Result<RecordBatch, vesica_table::Error>)| maker.make(from, &batch?)
    };
    let mut read = Read::default();
    // The place of each key among those that are kept, and its row.
    let mut places: HashMap<[u8; 32], (usize, u64)> = HashMap::new();
    for part in InOrder::new(plan.workers, batches, worker) {
        ctl.check()?;
        let part: Part = part?;
        for ((place, key), &row) in part.keys.iter().enumerate().zip(&part.rows) {
            let bytes = &part.bodies[place * body..][..body];
            if by == By::Key {
                match places.entry(*key) {
                    // A key has one salt, so the same values are the same bytes.
                    Entry::Occupied(there) => {
                        let (at, first) = *there.get();
                        if read.bodies[at * body..][..body] != *bytes {
                            return Err(vesica_store::Error::Values { first, second: row }.into());
                        }
                        continue;
                    }
                    Entry::Vacant(free) => {
                        free.insert((read.keys.len(), row));
                    }
                }
            }
            read.keys.push(*key);
            read.bodies.extend_from_slice(bytes);
        }
        read.rows += part.read;
        read.empty += part.empty;
        let most = plan.memory;
        if (read.bodies.len() + 64 * read.keys.len()) as u64 > most {
            return Err(Error::Setup(format!(
                "mine.memory: the records have more than {most} bytes, and a retrieval's table is made in memory; give it more"
            )));
        }
        ctl.event(Event::Done(read.rows));
    }
    ctl.event(Event::PhaseEnd { name: "evaluate", of: "rows", wall: start.elapsed(), bytes: (0, 0) });
    Ok(read)
}

impl Maker {
    /// What is made of a batch whose first row has the number `from`.
    fn make(&self, from: u64, batch: &RecordBatch) -> Result<Part, Error> {
        let rows = batch.num_rows() as u64;
        let (mut hashed, mut places, mut empty) = (Vec::new(), Vec::new(), 0);
        match self.by {
            By::Index => (0..rows as usize).for_each(|place| {
                hashed.push(KeyDigest(digest_of_index(from + place as u64)));
                places.push(place);
            }),
            By::Key => {
                let bug = |e: arrow_schema::ArrowError| Error::from(vesica_table::Error::Bug(e.to_string()));
                let keys = batch.project(&(0..self.rules.len()).collect::<Vec<_>>()).map_err(bug)?;
                empty = digests(&self.rules, &keys, |digest, place| {
                    hashed.push(KeyDigest(*digest));
                    places.push(place);
                });
            }
        }
        let keys: Vec<[u8; 32]> = match &self.function {
            None => hashed.iter().map(|digest| digest.0).collect(),
            Some(function) => {
                let mut outputs = Vec::with_capacity(hashed.len());
                let inputs: Vec<KeyDigest> = hashed.iter().map(|digest| input(&self.salt, &digest.0)).collect();
                function.eval(&inputs, &mut outputs);
                outputs.iter().map(|output| output.0).collect()
            }
        };
        let (columns, mut value) = (texts(batch, self.rules.len()), Vec::new());
        let mut bodies = Vec::with_capacity(keys.len() * self.body);
        for (key, &place) in keys.iter().zip(&places) {
            if let Some(names) = &self.reals {
                let texts = columns.iter().map(|column| text(column, place));
                reals::encode(&self.salt, key, texts, &mut bodies).map_err(|column| {
                    Error::Setup(format!(
                        "row {} of mine.input: its {:?} is no number from -128 to 128, and \"ckks-pir\" takes no others; scale or fill the column, \
                         or take protocol = \"bfv-pir\"",
                        from + place as u64 + 1,
                        names[column]
                    ))
                })?;
                continue;
            }
            let Some(padded) = self.padded else { continue };
            value.clear();
            values::encode(columns.iter().map(|column| text(column, place)), &mut value);
            let fits = match self.function {
                Some(_) => {
                    vesica_store::seal_value(key, &self.salt, &value, padded, &mut bodies)?;
                    true
                }
                None => pad(&self.salt, key, &value, padded as usize, &mut bodies),
            };
            if !fits {
                return Err(vesica_store::Error::TooLong { length: value.len(), most: padded }.into());
            }
        }
        let rows_of = places.iter().map(|&place| from + place as u64).collect();
        Ok(Part { keys, bodies, rows: rows_of, read: rows, empty })
    }
}
