//! The store of tags: a client copies it, and finds its keys in it by what comes out of the function. Nothing else is asked for.

use crate::error::Error;
use crate::found::{Hit, Lost, Value};
use crate::look::list;
use crate::messages::{Counter, ELEMENT, Question};
use crate::offer::Offer;
use crate::prepare::reading::{Read, Reader, Values};
use crate::prepare::secret::{self, Root, Use};
use crate::prepare::{self, Before, Change, Keyed, Prepared, Product};
use crate::retrieve::copying::room_for;
use crate::retrieve::{Copying, Scheme};
use crate::stock::{Served, Stock, other_offer};
use crate::suite::{Asked, Asking, Copied, Earlier, Fetched, Suite, Was};
use crate::wants::Wants;
use crate::{reveals, rng, values};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use vesica_job::numbers::{about, count, counted, seconds, size};
use vesica_job::rooms::Clock;
use vesica_job::{Control, Event, World, cpu};
use vesica_net::{SystemClock, Time};
use vesica_oprf::function::ServerFunction;
use vesica_psi::unbalanced::BATCH;
use vesica_session::Reveal;
use vesica_spec::service::{AskPlan, Private, ServePlan};
use vesica_store::{Batch, Builder, CHUNK, Delta, Fresh, Incoming, Limits, Manifest, Part, Says, Sealer, Shape, Store};
use vesica_table::Input;
use vesica_types::KeyDigest;

/// A service with a store of tags.
pub struct Tags;

impl Suite for Tags {
    fn counts(&self) -> &'static str {
        "keys"
    }

    fn scheme(&self) -> Option<&'static dyn Scheme> {
        None
    }

    fn reveals(&self, _: Private, has_values: bool) -> Vec<Reveal> {
        reveals::of_asking(has_values)
    }

    fn prepare(&self, plan: &ServePlan, change: &Change, world: &World, ctl: &Control) -> Result<Prepared, Error> {
        match change {
            Change { rotate, append: None, remove: None } => whole(plan, *rotate, world, ctl),
            Change { rotate: false, .. } => delta(plan, change, world, ctl),
            _ => Err(Error::Setup(
                "--rotate makes a whole new store of mine.input, and --append and --remove change the one that is there: give one or the other"
                    .into(),
            )),
        }
    }

    fn document(&self) -> &'static str {
        "manifest"
    }

    fn open(&self, plan: &ServePlan, offer: &Offer) -> Result<Stock, Error> {
        let store = Store::open(&plan.store)?;
        belongs(offer, store.manifest()).map_err(|_| {
            let why = "its offer and its manifest do not belong together; run `vesica prepare` again".to_owned();
            Error::Damaged { path: plan.store.clone(), why }
        })?;
        Ok(Arc::new(store))
    }

    /// What is not there yet is fetched, and compared with the sums that the server sent.
    fn copy(&self, described: &[u8], copying: &mut Copying<'_, '_>) -> Result<Fetched, Error> {
        let Copying { plan, offer, counter, ctl, .. } = copying;
        let manifest = Manifest::decode(described, Limits { bytes: plan.cache_size, ..Limits::NONE })?;
        belongs(offer, &manifest)?;
        let incoming = Incoming::open(&plan.cache, manifest.clone())?;
        let missing = incoming.missing();
        let total = missing.iter().map(|&part| manifest.parts[part].bytes).sum();
        room_for(plan, total)?;
        ctl.event(Event::Phase { name: "fetch", of: "bytes", total: Some(total) });
        let (start, mut done) = (SystemClock.now(), 0);
        for &number in &missing {
            let sums = incoming.sums_bytes(number).unwrap_or_default();
            let mut part = incoming.resume(number, counter.sums(number, sums)?)?;
            let chunks = part.next()..part.chunks();
            done += (chunks.start * CHUNK as u64).min(manifest.parts[number].bytes);
            if !chunks.is_empty() {
                let ch = counter.put(Question::Chunks { part: number as u64, from: chunks.start })?;
                for _ in chunks {
                    let chunk = ch.recv(CHUNK)?;
                    ctl.check()?;
                    part.append(&chunk)?;
                    done += chunk.len() as u64;
                    ctl.event(Event::Done(done));
                }
            }
            part.finish()?;
        }
        ctl.event(Event::PhaseEnd { name: "fetch", of: "bytes", wall: SystemClock.since(start), bytes: (0, done) });
        offer.save(&plan.cache)?;
        incoming.finish()?;
        let news = format!("fetched {}, {}", counted(missing.len() as u64, "parts"), size(done));
        let news = Some(news).filter(|_| !missing.is_empty());
        let store = Store::open(&plan.cache)?;
        Ok(Fetched {
            rows: store.len(),
            news,
            is_silent: false,
            public: offer.public(),
            copied: Box::new(Cache { offer: (*offer).clone(), store }),
        })
    }

    fn cached(&self, offer: &Offer, cache: &Path) -> Result<(String, Option<SystemTime>), Error> {
        let store = Store::open(cache)?;
        let (keys, bytes) = (counted(store.len(), "keys"), size(store.manifest().bytes()));
        Ok((format!("{keys}, {bytes}, values: {}", list(&offer.values)), None))
    }

    fn forecast(&self, plan: &ServePlan, value: Option<u32>, rows: u64, asked: Asking) -> Result<String, Error> {
        if asked.queries.is_some() || asked.mbit.is_some() {
            let why = "--queries and --mbit are for services that retrieve; \"ecdh-oprf\" takes one element each way for a key";
            return Err(Error::Setup(why.into()));
        }
        let shape = Shape { lifetime: plan.service.lifetime_keys, value };
        let each = seconds_a_key(plan)?;
        let bits = 2 + shape.tag_bits(rows.next_power_of_two()).saturating_sub(rows.max(1).ilog2());
        let bytes = rows * u64::from(bits) / 8 + value.map_or(0, |value| rows * (u64::from(value) + 20));
        let mut text = format!(" on {}.\n", plan.service.curve.name());
        let _ = writeln!(
            text,
            "Prepare: {} in {} on {} ({:.1} µs a key, measured here with {}), and a store of about {} ({bits} bits a tag{}).",
            counted(rows, "rows"),
            about(&seconds(each * rows as f64 / plan.workers as f64)),
            counted(plan.workers as u64, "threads"),
            each * 1e6,
            cpu::Backend::chosen().name(),
            size(bytes),
            value.map_or(String::new(), |value| format!(", values padded to {value} bytes"))
        );
        let _ = writeln!(
            text,
            "Serve: about {} keys a second; clients may ask for {} keys in all before the key is to be rotated, and each guess at a key \
             counts.",
            count((plan.workers as f64 / each) as u64),
            count(plan.service.lifetime_keys)
        );
        Ok(text)
    }

    fn forecast_asking(&self, _: &AskPlan, rows: u64) -> String {
        let (each_way, batch) = (size(rows * ELEMENT), count(BATCH as u64));
        format!("Ask: {} at most {each_way} each way, in batches of {batch}.\n", counted(rows, "rows"))
    }
}

impl Served for Store {
    fn reload(&self, offer: &Offer, make_room: &mut dyn FnMut()) -> Result<Option<Stock>, Error> {
        let Some(store) = self.reload()? else { return Ok(None) };
        make_room();
        belongs(offer, store.manifest()).map_err(|_| other_offer())?;
        Ok(Some(Arc::new(store)))
    }

    fn function(&self, root: &Root) -> Result<Arc<dyn ServerFunction>, Error> {
        root.function()
    }

    fn describe(&self) -> Vec<u8> {
        self.manifest().encode()
    }

    fn rows(&self) -> u64 {
        self.len()
    }

    fn parts(&self) -> u64 {
        self.manifest().parts.len() as u64
    }

    fn bytes(&self) -> u64 {
        self.manifest().bytes()
    }

    fn sums(&self, part: usize) -> Option<&[u8]> {
        self.sums(part)
    }

    fn chunk(&self, part: usize, number: u64) -> Option<&[u8]> {
        self.chunk(part, number)
    }

    fn named_parts(&self) -> Vec<Part> {
        self.manifest().parts.clone()
    }

    fn is_followed(&self) -> Result<bool, Error> {
        Ok(self.is_followed()?)
    }
}

/// A copy of a store that is whole.
struct Cache {
    offer: Offer,
    store: Store,
}

/// A store of the plan's table, in the place of what is there.
fn whole(plan: &ServePlan, rotate: bool, world: &World, ctl: &Control) -> Result<Prepared, Error> {
    let reader = Reader::open(plan, prepare::table(plan)?, true)?;
    let before = Offer::before(&plan.store)?;
    let keyed = Keyed::take(plan, rotate, before.as_ref(), world, ctl)?;
    let function = keyed.root.function()?;
    let same_key = before.as_ref().filter(|offer| offer.public().is_ok_and(|public| public == function.public()));
    let value_bytes = match (plan.service.values.is_empty(), plan.service.value_bytes) {
        (true, _) => None,
        (false, Some(bytes)) => Some(bytes),
        (false, None) => match same_key.and_then(|offer| offer.value_bytes) {
            Some(bytes) => Some(bytes),
            None => Some(reader.longest(ctl)?),
        },
    };
    let shape = Shape { lifetime: plan.service.lifetime_keys, value: value_bytes };
    let last = Store::open(&plan.store).ok();
    // Where the document of the offer before was moved away, the store says which it was.
    let last_offer = last.as_ref().map(|store| store.manifest().offer);
    let stood = last.map(|store| Before { keys: store.len(), changed: store.manifest().parts.len() > 1 });
    let salt = world.rng()?.bytes();
    let mut builder = Builder::new(&plan.store, shape, memory(plan), &plan.scratch)?.with_salt(salt);
    let entries = entries(builder.sealer(), value_bytes.is_some());
    let read = reader.each(Some(&function), entries, ctl, |batch| Ok(builder.push(&batch.made)?))?;
    let tag_bits = shape.tag_bits(builder.room());
    let offer = Offer::new(&plan.service, plan.keys.len(), value_bytes, tag_bits, function.public())?;
    ctl.event(Event::Phase { name: "sort", of: "", total: None });
    let built = builder.finish(offer.hash(), plan.workers)?;
    offer.save(&plan.store)?;
    let unsealed = prepare::unsealed(plan, [(Use::Function, Some(keyed.sealed)), (Use::Signatures, None)]);
    keyed.keep()?;
    let offer_changed =
        before.is_some_and(|before| before != offer) || last_offer.is_some_and(|last| last != offer.hash());
    let product = Product::Store(built);
    Ok(Prepared { offer, offer_changed, rows: read.rows, empty: read.empty, product, unsealed, before: stood })
}

/// A part more.
fn delta(plan: &ServePlan, change: &Change, world: &World, ctl: &Control) -> Result<Prepared, Error> {
    let offer = Offer::load(&plan.store)?;
    prepare::agrees(plan, &offer)?;
    let public = offer.public().map_err(|why| Error::Damaged { path: plan.store.clone(), why })?;
    let (root, sealed) = secret::root(plan, &public, ctl)?;
    let function = root.function()?;
    let beside = |path: &PathBuf| Input { format: None, ..Input::new(path) };
    let open = |path: &Option<PathBuf>, values| {
        path.as_ref().map(|path| Reader::open(plan, &beside(path), values)).transpose()
    };
    let (append, remove) = (open(&change.append, true)?, open(&change.remove, false)?);
    let mut delta = Delta::new(&plan.store, memory(plan), &plan.scratch)?.with_salt(world.rng()?.bytes());
    belongs(&offer, delta.store().manifest())?;
    let entries = entries(delta.sealer(), offer.value_bytes.is_some());
    let mut read = Read::default();
    if let Some(append) = append {
        read += append.each(Some(&function), entries, ctl, |batch| Ok(delta.push(&batch.made)?))?;
    }
    if let Some(remove) = remove {
        read += remove.each(
            Some(&function),
            |_, _, _| Ok(()),
            ctl,
            |batch| Ok(batch.keys.iter().try_for_each(|output| delta.remove(output))?),
        )?;
    }
    ctl.event(Event::Phase { name: "sort", of: "", total: None });
    let built = delta.finish(plan.workers)?;
    let unsealed = prepare::unsealed(plan, [(Use::Function, Some(sealed)), (Use::Signatures, None)]);
    let product = Product::Store(built);
    let (rows, empty) = (read.rows, read.empty);
    Ok(Prepared { offer, offer_changed: false, rows, empty, product, unsealed, before: None })
}

/// Memory for what is sorted; batches that threads work on take some more.
fn memory(plan: &ServePlan) -> usize {
    usize::try_from(plan.memory / 2).unwrap_or(usize::MAX)
}

/// What makes entries of rows.
fn entries(
    sealer: Sealer,
    has_values: bool,
) -> impl Fn(&[[u8; 32]], &[u64], &Values<'_>) -> Result<Batch, Error> + Clone + Send + 'static {
    move |outputs, rows, columns| {
        let (mut entries, mut value) = (sealer.batch(), Vec::new());
        for (at, (output, &row)) in outputs.iter().zip(rows).enumerate() {
            value.clear();
            values::encode(columns.texts(at), &mut value);
            entries.add(output, has_values.then_some(&value), row)?;
        }
        Ok(entries)
    }
}

/// Fails if a manifest is not of the store that the offer is about.
///
/// # Errors
/// [`Error::Sent`].
pub fn belongs(offer: &Offer, manifest: &Manifest) -> Result<(), Error> {
    let same = manifest.offer == offer.hash()
        && manifest.shape.lifetime == offer.lifetime_keys
        && manifest.shape.value == offer.value_bytes
        && manifest.tag_bits() == offer.tag_bits;
    if same { Ok(()) } else { Err(Error::Sent("a store that is not the one of its offer".into())) }
}

/// Keys that are looked up together: they go through the store in the order of tags.
const TOGETHER: usize = 1 << 16;

impl Copied for Cache {
    fn state(&self) -> Vec<u8> {
        self.store.manifest().encode()
    }

    /// All of the copy is compared with its sums before a key is looked up. So whether it has to be fetched again depends on no key,
    /// and what is wrong with an entry is the server's doing.
    fn prepare(&self, plan: &AskPlan, _: u64, clock: &mut Clock<'_>) -> Result<(), Error> {
        let bytes = Some(self.store.manifest().bytes());
        Ok(clock.phase("check", "bytes", bytes, || self.store.verify(plan.workers))?)
    }

    fn retrieve(&mut self, _: Asked<'_>, _: &mut Counter<'_>, _: &mut Clock<'_>, _: &Control) -> Result<(), Error> {
        Ok(())
    }

    /// What no part has that came since the earlier state is as it was then, so it is searched for only where its value is needed.
    fn find<'a>(
        &'a mut self,
        _: &Wants,
        outputs: &[[u8; 32]],
        earlier: Option<Earlier<'_>>,
    ) -> Result<Vec<Hit<'a>>, Error> {
        let columns = self.offer.values.len();
        let earlier = match earlier {
            Some(Earlier { state, known }) => self.since(state)?.map(|fresh| (fresh, known)),
            None => None,
        };
        let stands = |want: usize| -> Option<Was> {
            let (fresh, known) = earlier.as_ref()?;
            known.was(want).filter(|(_, head)| !fresh.may_have(*head)).map(|(was, _)| was)
        };
        let (mut hits, mut places, mut asked) = (Vec::new(), Vec::new(), Vec::new());
        for (number, outputs) in outputs.chunks(TOGETHER).enumerate() {
            let wants = number * TOGETHER..number * TOGETHER + outputs.len();
            places.clear();
            asked.clear();
            for (want, output) in wants.zip(outputs) {
                let was = stands(want);
                let is_asked = match was {
                    None => true,
                    Some(Was::Found) => columns > 0,
                    Some(Was::Unreadable | Was::Nothing) => false,
                };
                if is_asked {
                    asked.push(*output);
                }
                if is_asked || matches!(was, Some(Was::Found | Was::Unreadable)) {
                    places.push((want, was, is_asked));
                }
            }
            let (found, mut at) = (self.store.find_all(&asked)?, 0);
            for &(want, was, is_asked) in &places {
                if !is_asked {
                    let came =
                        if was == Some(Was::Found) { Ok(Value::Texts(Vec::new())) } else { Err(Lost::Unreadable) };
                    hits.push(Hit { want, came });
                    continue;
                }
                let (says, output) = (found[at], asked[at]);
                at += 1;
                let came = match says {
                    Says::Nothing => continue,
                    Says::Nonsense => None,
                    Says::Entry(entry) => Some(Value::Entry(entry, output)),
                };
                // What could be read then can be read now: it is the same part, and all of it was compared with its sums.
                let is_read = |value: &Value<'_>| was == Some(Was::Found) || value.texts(columns).is_some();
                hits.push(Hit { want, came: came.filter(is_read).ok_or(Lost::Unreadable) });
            }
        }
        Ok(hits)
    }

    fn units(&self, lookups: u64) -> u64 {
        lookups.div_ceil(BATCH as u64)
    }
}

impl Cache {
    /// What the parts say something of that came since the store was in this state; none if it is another one that was prepared as a whole.
    fn since(&self, state: &[u8]) -> Result<Option<Fresh>, Error> {
        let (Ok(then), now) = (Manifest::decode(state, Limits::NONE), self.store.manifest()) else { return Ok(None) };
        Ok(if now.follows(&then) { Some(self.store.fresh(then.parts.len())?) } else { None })
    }
}

/// Keys that are evaluated to see how long one takes.
const SAMPLE: usize = 2048;

/// Seconds of one thread that the function takes at one key, measured.
fn seconds_a_key(plan: &ServePlan) -> Result<f64, Error> {
    let function = secret::Root::new(&plan.service, secret::fresh()?).function()?;
    let mut rng = rng()?;
    let keys: Vec<KeyDigest> = (0..SAMPLE).map(|_| KeyDigest(rng.bytes())).collect();
    let once = || {
        let (start, mut outputs) = (SystemClock.now(), Vec::with_capacity(SAMPLE));
        function.eval(&keys, &mut outputs);
        SystemClock.since(start).as_secs_f64() / SAMPLE as f64
    };
    once();
    Ok((0..3).map(|_| once()).fold(f64::INFINITY, f64::min))
}
