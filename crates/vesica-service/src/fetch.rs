//! The client's copy of a store: what is not there yet is fetched, and compared with the sums that the server sent.

use crate::error::Error;
use crate::link;
use crate::messages::Counter;
use crate::offer::{Offer, spelled};
use crate::retrieve;
use vesica_job::numbers::{counted, size};
use vesica_job::rooms::Clock;
use vesica_job::{Control, Event};
use vesica_spec::service::{AskPlan, By, Private};
use vesica_store::{Incoming, Limits, Manifest, Store};

/// What a client has after it fetched, in words that a user is told.
pub struct Brought {
    /// Keys or rows that can be looked up.
    pub rows: u64,
    /// What was copied now; none if nothing is new.
    pub new: Option<String>,
}

/// A copy that is whole, and what it took.
pub struct Fetched {
    /// What the service is.
    pub offer: Offer,
    /// Its store.
    pub store: Store,
    /// Parts that were fetched.
    parts: usize,
    /// Bytes of them.
    bytes: u64,
}

/// Copies the store of the plan's service into its cache; goes on where an earlier attempt stopped.
///
/// # Errors
/// Faults of the plan's files; those of connecting; a server with another offer, or one that sends what cannot be.
pub fn fetch(plan: &AskPlan, ctl: &Control) -> Result<Brought, Error> {
    let mut clock = Clock::start(ctl);
    let endpoint = link::endpoint(plan)?;
    let link = clock.wait("connect", || link::connect(endpoint, ctl))?;
    let copy = || {
        let mut counter = Counter::open(&link)?;
        let brought = if plan.protocol.is_retrieval() {
            let copied = retrieve::copy::update(plan, &mut counter, ctl)?;
            Brought { rows: copied.epoch.rows, new: copied.news() }
        } else {
            let fetched = update(plan, &mut counter, ctl)?;
            let new = format!("fetched {}, {}", counted(fetched.parts as u64, "parts"), size(fetched.bytes));
            Brought { rows: fetched.store.len(), new: (fetched.parts > 0).then_some(new) }
        };
        counter.end().map(|()| brought)
    };
    copy().inspect_err(|error| link::leave(&link, error))
}

/// Brings the cache to the state that the server has.
///
/// # Errors
/// As [`fetch`].
pub fn update(plan: &AskPlan, counter: &mut Counter<'_>, ctl: &Control) -> Result<Fetched, Error> {
    let (offer, manifest) = counter.describe()?;
    let offer = pinned(plan, &counter.server(), &offer)?;
    let manifest = Manifest::decode(&manifest, Limits { bytes: plan.cache_size, ..Limits::NONE })?;
    belongs(&offer, &manifest)?;
    let incoming = Incoming::open(&plan.cache, manifest.clone())?;
    let missing = incoming.missing();
    let total = missing.iter().map(|&part| manifest.parts[part].bytes).sum();
    room_for(plan, total)?;
    ctl.event(Event::Phase { name: "fetch", of: "bytes", total: Some(total) });
    let (start, mut done) = (std::time::Instant::now(), 0);
    for &number in &missing {
        let sums = incoming.sums_bytes(number).unwrap_or_default();
        let mut part = incoming.resume(number, counter.sums(number, sums)?)?;
        let (from, end) = (part.next(), part.chunks());
        done += (from * vesica_store::CHUNK as u64).min(manifest.parts[number].bytes);
        counter.chunks(number, from, end, |chunk| {
            ctl.check()?;
            part.append(chunk)?;
            done += chunk.len() as u64;
            ctl.event(Event::Done(done));
            Ok(())
        })?;
        part.finish()?;
    }
    ctl.event(Event::PhaseEnd { name: "fetch", of: "bytes", wall: start.elapsed(), bytes: (0, done) });
    offer.save(&plan.cache)?;
    incoming.finish()?;
    Ok(Fetched { offer, store: Store::open(&plan.cache)?, parts: missing.len(), bytes: done })
}

/// The offer that the server sent, if it is the one that the plan pins, or the plan takes any.
///
/// # Errors
/// [`Error::OtherOffer`], [`Error::Contradiction`], [`Error::Sent`].
pub fn pinned(plan: &AskPlan, server: &str, bytes: &[u8]) -> Result<Offer, Error> {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let found: [u8; 32] = digest.as_ref().try_into().expect("SHA-256 has 32 bytes");
    if let Some(wanted) = plan.offer.filter(|wanted| found != *wanted) {
        let (server, wanted) = (server.to_owned(), spelled(&wanted));
        return Err(Error::OtherOffer { server, found: spelled(&found), wanted });
    }
    let offer = Offer::decode(bytes).map_err(|why| Error::Sent(format!("an offer that cannot be taken: {why}")))?;
    let differ = |field, offered: &str, mine: &str| {
        Err(Error::Contradiction { field, offered: offered.to_owned(), mine: mine.to_owned() })
    };
    if offer.id != plan.id {
        // Where no offer is pinned, this is what a stranger wrote, and it is shown on a terminal.
        return differ("service.id", &format!("{:?}", offer.id), &format!("{:?}", plan.id));
    }
    if offer.protocol != plan.protocol {
        return differ("service.protocol", offer.protocol.name(), plan.protocol.name());
    }
    if let Some(retrieval) = offer.retrieval
        && retrieval.by != plan.by
    {
        return differ("service.by", retrieval.by.name(), plan.by.name());
    }
    if offer.retrieval.is_none_or(|retrieval| retrieval.private == Private::Both) && offer.curve != plan.curve {
        return differ("service.curve", offer.curve.name(), plan.curve.name());
    }
    if let Some((_, keys)) = &plan.input
        && plan.by == By::Key
        && keys.len() != offer.key_columns as usize
    {
        return differ(
            "mine.input.keys",
            &format!("{} columns", offer.key_columns),
            &format!("{} columns", keys.len()),
        );
    }
    Ok(offer)
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
