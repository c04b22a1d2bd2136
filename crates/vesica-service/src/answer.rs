//! A conversation with one client, from the server's side.

use crate::audit::{Audit, Entry, What};
use crate::budget::Budget;
use crate::error::Error;
use crate::messages::{self, LINE, MOST_KEYS, MOST_LANES, Question, shares};
use crate::metrics::Metrics;
use crate::offer::Offer;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;
use vesica_job::Control;
use vesica_net::Link;
use vesica_oprf::function::ServerFunction;
use vesica_psi::unbalanced;
use vesica_session::{Channel, Fault, Misbehaviour, SessionRng};
use vesica_spec::service::GuestPlan;
use vesica_store::Store;

/// What all conversations share.
pub struct Answers {
    function: Arc<dyn ServerFunction>,
    offer: Offer,
    store: RwLock<Arc<Store>>,
    guests: RwLock<BTreeMap<String, GuestPlan>>,
    budget: Budget,
    audit: Audit,
    /// What is told of the service's state.
    pub metrics: Arc<Metrics>,
    /// Questions that are being answered.
    at_work: AtomicU64,
}

impl Answers {
    /// Nobody may ask yet.
    pub fn new(
        (offer, store, function): (Offer, Store, Arc<dyn ServerFunction>),
        budget: Budget,
        audit: Audit,
        metrics: Arc<Metrics>,
    ) -> Self {
        metrics.set_store(store.manifest().parts.len() as u64, store.len());
        let (store, guests) = (RwLock::new(Arc::new(store)), RwLock::default());
        Self { function, offer, store, guests, budget, audit, metrics, at_work: AtomicU64::new(0) }
    }

    /// From now on these may ask.
    pub fn set_guests(&self, guests: &[GuestPlan]) {
        let guests = guests.iter().map(|guest| (guest.name.clone(), guest.clone())).collect();
        *self.guests.write().unwrap_or_else(PoisonError::into_inner) = guests;
    }

    /// The store as it is now.
    pub fn store(&self) -> Arc<Store> {
        self.store.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the service is.
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Questions that are being answered at the moment.
    pub fn at_work(&self) -> u64 {
        self.at_work.load(Ordering::SeqCst)
    }

    /// Takes up a new state of the store, if there is one, and says how many keys it has. Whoever fetches the old one finishes.
    ///
    /// # Errors
    /// If what stands in the folder is no store of this offer.
    pub fn reload(&self) -> Result<Option<u64>, Error> {
        let Some(store) = self.store().reload()? else { return Ok(None) };
        crate::fetch::belongs(&self.offer, store.manifest()).map_err(|_| {
            Error::Setup(
                "it was prepared with another offer; restart the service and tell clients the new offer".into(),
            )
        })?;
        let keys = store.len();
        self.metrics.set_store(store.manifest().parts.len() as u64, keys);
        *self.store.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(store);
        Ok(Some(keys))
    }
}

/// Counts a question that is being answered.
struct Work<'a>(&'a AtomicU64);

impl<'a> Work<'a> {
    fn begin(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Answers a client until it says goodbye or is gone. What goes wrong ends its connection and nothing else.
pub fn converse(answers: &Answers, link: Link, ctl: &Control) {
    let mut talk = Talk { answers, store: answers.store(), link: &link, requests: 0 };
    let Err(error) = talk.hold() else { return };
    let (who, where_from) = (link.peer().clone(), link.address());
    match &error {
        // A client that goes away is no event.
        Error::Job(vesica_job::JobError::Session(
            vesica_session::Error::Net { .. }
            | vesica_session::Error::Stopped { .. }
            | vesica_session::Error::Cancelled,
        )) => tracing::debug!("{who} at {where_from} is gone: {error}"),
        error => ctl.note(format!("{who} at {where_from}: {error}")),
    }
    let (fault, words) = match error.fault() {
        Fault::Peer => (Fault::Peer, error.to_string()),
        fault => (fault, "the service has a fault; its operator sees which".to_owned()),
    };
    link.abort(fault, &words);
}

/// One client's conversation.
struct Talk<'a> {
    answers: &'a Answers,
    /// The store that it was told of: it fetches all parts of one state.
    store: Arc<Store>,
    link: &'a Link,
    requests: u64,
}

impl Talk<'_> {
    fn hold(&mut self) -> Result<(), Error> {
        let mut ch = self.link.line(LINE)?;
        loop {
            let question = Question::receive(&mut *ch)?;
            let _work = Work::begin(&self.answers.at_work);
            match question {
                Question::Describe => self.describe(&mut *ch)?,
                Question::Sums { part } => self.sums(&mut *ch, part)?,
                Question::Chunks { part, from } => self.chunks(&mut *ch, part, from)?,
                Question::Ask { keys, lanes } => self.ask(&mut *ch, keys, lanes)?,
                Question::End => {
                    messages::accept(&mut *ch)?;
                    return Ok(self.link.close()?);
                }
            }
        }
    }

    /// Notes what was done for the client, before it is done or when it is over.
    fn note(&self, what: What<'_>) -> Result<(), Error> {
        let fingerprint = self.link.secured().fingerprint.map(|fingerprint| fingerprint.to_string());
        let client = self.link.peer().name();
        self.answers.audit.write(&Entry {
            client,
            fingerprint: fingerprint.as_deref(),
            address: self.link.address(),
            what,
        })
    }

    fn describe(&mut self, ch: &mut dyn Channel) -> Result<(), Error> {
        self.store = self.answers.store();
        messages::accept(ch)?;
        ch.send(&self.answers.offer.encode())?;
        Ok(ch.send(&self.store.manifest().encode())?)
    }

    fn sums(&self, ch: &mut dyn Channel, part: u64) -> Result<(), Error> {
        let sums = usize::try_from(part).ok().and_then(|part| self.store.sums(part));
        let Some(sums) = sums else { return Err(no_such(ch, "a part")) };
        messages::accept(ch)?;
        Ok(ch.send(sums)?)
    }

    fn chunks(&self, ch: &mut dyn Channel, part: u64, from: u64) -> Result<(), Error> {
        let sums = usize::try_from(part).ok().and_then(|part| Some((part, self.store.sums(part)?.len() as u64 / 32)));
        let Some((part, end)) = sums.filter(|(_, end)| from < *end) else { return Err(no_such(ch, "a chunk")) };
        let start = Instant::now();
        messages::accept(ch)?;
        let mut bytes = 0;
        for number in from..end {
            let chunk = self.store.chunk(part, number).ok_or_else(|| no_such(ch, "a chunk"))?;
            ch.send(chunk)?;
            bytes += chunk.len() as u64;
        }
        self.answers.metrics.fetched(bytes, start.elapsed());
        self.note(What::Fetched { part: part as u64, bytes, seconds: start.elapsed().as_secs_f64() })
    }

    fn ask(&mut self, ch: &mut dyn Channel, keys: u64, lanes: u64) -> Result<(), Error> {
        if !(1..=MOST_KEYS).contains(&keys) || !(1..=MOST_LANES).contains(&lanes) {
            return Err(ch.accuse(Misbehaviour::Malformed("number of keys or lanes")).into());
        }
        let start = Instant::now();
        if let Err(why) = self.leave(ch.peer().name(), keys)? {
            self.answers.metrics.refused(keys);
            self.note(What::Refused { keys, why: &why })?;
            return Ok(messages::refuse(ch, &why)?);
        }
        // Noted before it is done: what cannot be noted is not done.
        self.note(What::Asked { keys })?;
        messages::accept(ch)?;
        let request = self.requests;
        self.requests += 1;
        let lines = (0..lanes).map(|lane| self.link.line(&messages::lane(request, lane)));
        let lines: Vec<Box<dyn Channel>> = lines.collect::<Result<_, _>>()?;
        let function = &*self.answers.function;
        std::thread::scope(|scope| {
            let on_a_lane = |(mut line, share): (Box<dyn Channel>, std::ops::Range<u64>)| {
                scope.spawn(move || -> Result<(), Error> {
                    let rng = SessionRng::from_os();
                    let mut rng =
                        rng.map_err(|e| Error::Setup(format!("the system has no randomness to give: {e}")))?;
                    Ok(unbalanced::answer(function, share.end - share.start, &mut *line, &mut rng)?)
                })
            };
            let working: Vec<_> = lines.into_iter().zip(shares(keys, lanes)).map(on_a_lane).collect();
            working
                .into_iter()
                .try_for_each(|lane| lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
        self.answers.metrics.asked(keys, start.elapsed());
        self.note(What::Answered { keys, seconds: start.elapsed().as_secs_f64() })
    }

    /// Whether the client may ask for so many keys now: they are taken from what it may ask for. In words why not.
    fn leave(&self, client: &str, keys: u64) -> Result<Result<(), String>, Error> {
        let guests = self.answers.guests.read().unwrap_or_else(PoisonError::into_inner);
        let Some(guest) = guests.get(client).cloned() else {
            return Ok(Err("it is no longer on the list of clients".to_owned()));
        };
        drop(guests);
        let lifetime = self.answers.offer.lifetime_keys;
        Ok(self
            .answers
            .budget
            .take(client, keys, guest.keys_a_day, guest.requests_a_minute, lifetime)?
            .map_err(|refusal| refusal.to_string()))
    }
}

fn no_such(ch: &dyn Channel, what: &'static str) -> Error {
    ch.accuse(Misbehaviour::Malformed(match what {
        "a part" => "number of a part",
        _ => "number of a chunk",
    }))
    .into()
}
