//! A conversation with one client, from the server's side.

use crate::error::Error;
use crate::messages::{self, LINE, MOST_KEYS, MOST_LANES, MOST_REFUSALS, Question};
use crate::offer::Offer;
use crate::prepare::Opened;
use crate::prepare::secret::Root;
use crate::retrieve::desk::Desk;
use crate::retrieve::records_a_row;
use crate::retrieve::sessions::Room;
use crate::server::audit::{Audit, Entry, What};
use crate::server::budget::Budget;
use crate::server::metrics::Metrics;
use crate::server::patience::{PATIENCE, Patience};
use crate::stock::{Served, States, Stock, Ticket};
use std::collections::BTreeMap;
use std::collections::btree_map;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};
use vesica_job::rooms::scope;
use vesica_job::{Control, World};
use vesica_net::PeerLink;
use vesica_oprf::function::ServerFunction;
use vesica_psi::unbalanced;
use vesica_session::{Channel, Fault, Misbehaviour};
use vesica_spec::service::GuestPlan;

/// What all conversations share.
pub struct Answers {
    /// What functions follow from, if they protect the server's rows.
    root: Option<Root>,
    /// What the service is.
    pub offer: Offer,
    states: States,
    guests: RwLock<BTreeMap<String, GuestPlan>>,
    /// What clients were granted.
    pub budget: Budget,
    audit: Audit,
    /// What is told of the service's state.
    pub metrics: Arc<Metrics>,
    /// Questions that are being answered.
    at_work: AtomicU64,
    /// Batches that are being worked on.
    gate: Gate,
    /// Refusals that were noted last, and how many were not since, by client.
    refusals: Mutex<BTreeMap<String, (Instant, u64)>>,
    /// Clients that got what they came for.
    goodbyes: AtomicU64,
    /// For each client its windows of Piano. Kept while the server runs.
    windows: Mutex<BTreeMap<String, Windows>>,
    /// The memory of clients' keys.
    keys: Room,
    /// How long a client that has put a question may keep this side waiting.
    patience: Duration,
    world: World,
}

/// The most questions of a connection but those for keys: a store has at most 1024 parts, and two questions are put for each.
const MOST_QUESTIONS: u64 = 4096;

/// Records of a whole connection for which no key was asked: a round of queries of Piano that a client sends again after it died.
const FREE_RECORDS: u64 = vesica_pir::piano::TOGETHER;

/// How often refusals of one client are noted.
const A_MINUTE: Duration = Duration::from_secs(60);

impl Answers {
    /// Nobody may ask yet.
    pub fn new(
        Opened { offer, stock, root }: Opened,
        budget: Budget,
        audit: Audit,
        metrics: Arc<Metrics>,
        (workers, memory): (usize, u64),
        world: &World,
    ) -> Self {
        metrics.set_store(stock.parts(), stock.rows());
        let (states, guests) = (States::new(stock, world.time.clone()), RwLock::default());
        let gate = Gate { free: Mutex::new(workers.max(1)), left: Condvar::new() };
        let (at_work, goodbyes, refusals) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::default());
        let (windows, keys) = (Mutex::default(), Room::new(memory));
        Self {
            root,
            offer,
            states,
            guests,
            budget,
            audit,
            metrics,
            at_work,
            goodbyes,
            gate,
            refusals,
            windows,
            keys,
            patience: PATIENCE,
            world: world.clone(),
        }
    }

    /// From now on these may ask.
    pub fn set_guests(&self, guests: &[GuestPlan]) {
        let guests = guests.iter().map(|guest| (guest.name.clone(), guest.clone())).collect();
        *self.guests.write().unwrap_or_else(PoisonError::into_inner) = guests;
    }

    /// What is served, as it is now.
    pub fn stock(&self) -> Stock {
        self.states.now().1
    }

    /// Questions that are being answered at the moment.
    pub fn at_work(&self) -> u64 {
        self.at_work.load(Ordering::SeqCst)
    }

    /// Clients that said goodbye: none does before it has all that it came for.
    pub fn goodbyes(&self) -> u64 {
        self.goodbyes.load(Ordering::SeqCst)
    }

    /// Takes up a new state of the store, if there is one, and says how many keys it has. Lets go of the one before it in time, so it is to
    /// be called every now and then.
    ///
    /// # Errors
    /// If what stands in the folder is no store of this offer.
    pub fn reload(&self) -> Result<Option<u64>, Error> {
        let Some(stock) = self.states.reload(&self.offer)? else { return Ok(None) };
        self.metrics.set_store(stock.parts(), stock.rows());
        Ok(Some(stock.rows()))
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
pub fn converse(answers: &Answers, link: Box<dyn PeerLink>, ctl: &Control) {
    let (told, stock) = answers.states.now();
    let allowed = Allowance::new(stock.records().is_some_and(|desk| desk.scheme.has_windows()));
    let session = ctl.session();
    let fetched = BTreeMap::new();
    let mut talk = Talk { answers, session, told, link: &*link, requests: 0, refusals: 0, allowed, fetched };
    let who = link.peer().clone();
    let who = link.address().map_or_else(|| who.to_string(), |address| format!("{who} at {address}"));
    tracing::info!(session, client = who, "begin");
    let held = talk.hold();
    let held = talk.note_fetched().and(held);
    tracing::info!(session, client = who, requests = talk.requests, "end");
    let Err(error) = held else { return };
    match &error {
        // A client that goes away is no event.
        Error::Job(vesica_job::JobError::Session(
            vesica_session::Error::Net { .. }
            | vesica_session::Error::Stopped { .. }
            | vesica_session::Error::Cancelled,
        )) => tracing::debug!(session, "{who} is gone: {error}"),
        error => ctl.note(format!("{who}: {error}")),
    }
    leave(&*link, &error);
}

/// One client's conversation.
struct Talk<'a> {
    answers: &'a Answers,
    /// What it is called, where conversations have names.
    session: Option<&'a str>,
    /// The state that it was told of: it fetches all parts of one.
    told: Ticket,
    link: &'a dyn PeerLink,
    requests: u64,
    refusals: u64,
    allowed: Allowance,
    /// Parts that it has fetched, and how many bytes of each, and in how many seconds, it has fetched since that was last noted.
    fetched: BTreeMap<u64, (u64, f64)>,
}

impl Talk<'_> {
    fn hold(&mut self) -> Result<(), Error> {
        let mut ch = self.link.line(LINE)?;
        let mut questions = 0;
        loop {
            let question = Question::receive(&mut *ch)?;
            questions += u64::from(!matches!(question, Question::Ask { .. } | Question::Retrieve { .. }));
            if questions > MOST_QUESTIONS {
                return Err(ch.accuse(Misbehaviour::Flood).into());
            }
            let _work = Work::begin(&self.answers.at_work);
            let patience = Patience::new(self.answers.patience, &self.answers.world.time);
            patience.watch(self.link, &self.answers.world, || self.answer(question, &patience, &mut *ch))?;
            if question == Question::End {
                return Ok(());
            }
        }
    }

    /// Answers a question, with patience for as long as it lasts.
    fn answer(&mut self, question: Question, patience: &Patience, ch: &mut dyn Channel) -> Result<(), Error> {
        match question {
            Question::Describe => self.describe(&mut patience.line(ch)),
            Question::Sums { part } => self.sums(&mut patience.line(ch), part),
            Question::Chunks { part, from } => self.chunks(&mut patience.line(ch), part, from),
            Question::Retrieve { epoch, queries } => self.retrieve(&mut patience.line(ch), epoch, queries),
            // The lanes are watched, and this line, which rests meanwhile, is not.
            Question::Ask { keys, lanes } => self.ask(ch, keys, lanes, patience),
            Question::End => {
                self.note_fetched()?;
                messages::accept(ch)?;
                let closed = self.link.close();
                // The client has heard that it may go, so it is gone for good even if the connection breaks now.
                self.answers.goodbyes.fetch_add(1, Ordering::SeqCst);
                Ok(closed?)
            }
        }
    }

    /// How long ago a moment was.
    fn past(&self, moment: Instant) -> Duration {
        self.now().saturating_duration_since(moment)
    }

    fn now(&self) -> Instant {
        self.answers.world.time.now()
    }

    /// Notes what was done for the client, before it is done or when it is over.
    fn note(&self, what: What<'_>) -> Result<(), Error> {
        let fingerprint = self.link.secured().fingerprint.map(|fingerprint| fingerprint.to_string());
        let client = self.link.peer().name();
        let (fingerprint, address) = (fingerprint.as_deref(), self.link.address());
        let noted = self.answers.audit.write(&Entry { session: self.session, client, fingerprint, address, what });
        // What cannot be noted is not answered, and whoever watches the service is to see that.
        noted.inspect_err(|_| self.answers.metrics.set_ready(false))
    }

    /// Notes a refusal, once a minute for each client: one that is refused on and on must not fill the disk.
    fn note_refusal(&self, keys: u64, why: &str) -> Result<(), Error> {
        let mut refusals = self.answers.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let client = self.link.peer().name();
        let more = match refusals.get_mut(client) {
            Some((noted, more)) if self.past(*noted) < A_MINUTE => {
                *more += 1;
                return Ok(());
            }
            Some((_, more)) => *more,
            None => 0,
        };
        refusals.insert(client.to_owned(), (self.now(), 0));
        drop(refusals);
        match more {
            0 => self.note(What::Refused { keys, why }),
            more => self
                .note(What::Refused { keys, why: &format!("{why} ({more} refusals before this one were not noted)") }),
        }
    }

    /// What `look` finds in the state that the client was told of; none if that is served no more. It is held meanwhile, so `look` does not
    /// wait for the client.
    fn see<T>(&self, look: impl FnOnce(&Stock) -> T) -> Option<T> {
        self.answers.states.of(&self.told).map(|stock| look(&stock))
    }

    /// The same for a part of that state, which may be a part of the state that is served too.
    fn see_part<T>(&self, part: u64, look: impl FnOnce(&Stock, usize) -> T) -> Option<T> {
        let part = usize::try_from(part).unwrap_or(usize::MAX);
        self.answers.states.part(&self.told, part).map(|(stock, part)| look(&stock, part))
    }

    /// Refuses a question about a state that is served no more. The client may ask for a description, and go on with what it says.
    fn refuse_superseded(&mut self, ch: &mut dyn Channel) -> Result<(), Error> {
        self.refuse(ch, 0, &Error::Superseded.to_string())
    }

    fn describe(&mut self, ch: &mut dyn Channel) -> Result<(), Error> {
        let (told, stock) = self.answers.states.now();
        self.told = told;
        let described = stock.describe();
        drop(stock);
        messages::accept(ch)?;
        ch.send(&self.answers.offer.encode())?;
        Ok(ch.send(&described)?)
    }

    fn sums(&mut self, ch: &mut dyn Channel, part: u64) -> Result<(), Error> {
        let found = self.see_part(part, |stock, part| stock.sums(part).map(<[u8]>::to_vec));
        let Some(found) = found else { return self.refuse_superseded(ch) };
        let Some(sums) = found else { return Err(no_such(ch, "a part")) };
        messages::accept(ch)?;
        Ok(ch.send(&sums)?)
    }

    /// A part, or the rest of it. A state that is served no more while its chunks are on their way ends the connection: a client expects
    /// chunks then, and no refusal.
    fn chunks(&mut self, ch: &mut dyn Channel, part: u64, from: u64) -> Result<(), Error> {
        let found = self.see_part(part, |stock, part| stock.sums(part).map(|sums| sums.len() as u64 / 32));
        let Some(found) = found else { return self.refuse_superseded(ch) };
        let Some(end) = found.filter(|end| from < *end) else { return Err(no_such(ch, "a chunk")) };
        let start = self.now();
        messages::accept(ch)?;
        let mut bytes = 0;
        for number in from..end {
            let found = self.see_part(part, |stock, part| stock.chunk(part, number).map(<[u8]>::to_vec));
            let chunk = found.ok_or(Error::Superseded)?.ok_or_else(|| no_such(ch, "a chunk"))?;
            ch.send(&chunk)?;
            self.told.took();
            bytes += chunk.len() as u64;
        }
        self.answers.metrics.fetched(bytes, self.past(start));
        let took = self.past(start).as_secs_f64();
        match self.fetched.entry(part) {
            btree_map::Entry::Vacant(first) => {
                first.insert((0, 0.0));
                return self.note(What::Fetched { part, bytes, seconds: took });
            }
            btree_map::Entry::Occupied(mut more) => {
                let (all, seconds) = more.get_mut();
                (*all, *seconds) = (*all + bytes, *seconds + took);
            }
        }
        Ok(())
    }

    /// Notes what was fetched besides the first copy of each part, a line a part. That is done before keys are answered and when the connection ends,
    /// and not for each copy: a client that fetches one chunk again and again must not fill the disk.
    fn note_fetched(&mut self) -> Result<(), Error> {
        let noted = (0, 0.0);
        let more: Vec<_> =
            self.fetched.iter_mut().map(|(part, more)| (*part, std::mem::replace(more, noted))).collect();
        more.into_iter()
            .filter(|(_, more)| *more != noted)
            .try_for_each(|(part, (bytes, seconds))| self.note(What::Fetched { part, bytes, seconds }))
    }

    /// Notes that keys are asked for, and before that what was fetched.
    fn note_asked(&mut self, keys: u64) -> Result<(), Error> {
        self.note_fetched()?;
        self.note(What::Asked { keys })
    }

    fn ask(&mut self, ch: &mut dyn Channel, keys: u64, lanes: u64, patience: &Patience) -> Result<(), Error> {
        if !(1..=MOST_KEYS).contains(&keys) || !(1..=MOST_LANES).contains(&lanes) {
            return Err(ch.accuse(Misbehaviour::Malformed("number of keys or lanes")).into());
        }
        let Some(root) = &self.answers.root else {
            return Err(ch
                .accuse(Misbehaviour::Contradiction("it asks for a function that this service has not"))
                .into());
        };
        // Tags have one function. Of records each epoch has its own: whoever was told of one that is served no more gets nothing that opens
        // its rows.
        let function = match self.answers.offer.retrieval {
            None => Some(root.function()?),
            Some(_) => self.see(|stock| stock.function(root)).transpose()?,
        };
        let Some(function) = function else { return self.refuse_superseded(ch) };
        let start = self.now();
        if let Err(why) = self.leave(ch.peer().name(), keys)? {
            return self.refuse(ch, keys, &why);
        }
        // Noted before it is done: what cannot be noted is not done.
        self.note_asked(keys)?;
        messages::accept(ch)?;
        let request = self.requests;
        self.requests += 1;
        let lines = messages::lines(self.link, request, keys, lanes)?;
        // For a retrieval the client needs the state afterwards. One of tags has copied it before, and searches its copy.
        let _asking = self.answers.offer.retrieval.map(|_| self.told.asking());
        self.evaluate(&*function, lines, patience)?;
        if let Some(retrieval) = self.answers.offer.retrieval {
            self.allowed.0 += keys * records_a_row(self.answers.offer.kind(), retrieval.by);
        }
        self.answers.metrics.asked(keys, self.past(start));
        self.note(What::Answered { keys, seconds: self.past(start).as_secs_f64() })
    }

    /// Refuses so many keys or records.
    fn refuse(&mut self, ch: &mut dyn Channel, keys: u64, why: &str) -> Result<(), Error> {
        self.answers.metrics.refused(keys);
        self.note_refusal(keys, why)?;
        self.refusals += 1;
        if self.refusals >= MOST_REFUSALS {
            return Err(ch.accuse(Misbehaviour::Contradiction("it asks on and on although it is refused")).into());
        }
        Ok(messages::refuse(ch, why)?)
    }

    /// Records of an epoch. Where a function protects the rows, they are allowed for by the keys that it was asked for; where nothing
    /// does, they are taken from what the client may ask for. A client that died may send a round again, so a round is free, once in a
    /// connection. Each question is one of the client's requests of the minute.
    fn retrieve(&mut self, ch: &mut dyn Channel, epoch: u64, queries: u64) -> Result<(), Error> {
        let (answers, start) = (self.answers, self.now());
        let found = self.see(|stock| {
            let desk = stock.clone().records()?;
            let scheme = &desk.scheme;
            // A table that was downloaded answers itself.
            let asks = scheme.sizes().query > 0;
            Some((asks, desk.refusal(epoch), scheme.keys_bytes() as u64, scheme.has_windows()))
        });
        let Some(found) = found else { return self.refuse_superseded(ch) };
        let Some((asks, refusal, keys_bytes, has_windows)) = found else {
            return Err(ch
                .accuse(Misbehaviour::Contradiction("it retrieves records from a service that has none"))
                .into());
        };
        if !(1..=MOST_KEYS).contains(&queries) || !asks {
            return Err(ch.accuse(Misbehaviour::Malformed("number of queries")).into());
        }
        if let Some(why) = refusal {
            return self.refuse(ch, 0, &why);
        }
        // Before anything is counted: it may come again, and loses nothing.
        let Some(_room) = answers.keys.take(keys_bytes) else {
            return self.refuse(ch, 0, "other clients' keys take all of the server's memory now; ask again later");
        };
        let keys = queries.div_ceil(records_a_row(self.answers.offer.kind(), self.answers.offer.by()));
        if self.answers.root.is_some() {
            if let Err(why) = self.leave(ch.peer().name(), 0)? {
                return self.refuse(ch, keys, &why);
            }
            if let Err(why) = self.allowed.take(queries) {
                return self.refuse(ch, keys, &why);
            }
        } else if let Err(why) = self.leave(ch.peer().name(), keys)? {
            return self.refuse(ch, keys, &why);
        } else {
            // Noted before it is done. Where there is a function, this was noted when the keys were asked for.
            self.note_asked(keys)?;
        }
        messages::accept(ch)?;
        let mut window = has_windows.then(|| self.tell_of_window(ch)).transpose()?;
        let came = |round| {
            if let Some((window, next)) = &mut window {
                *next = next.saturating_add(round);
                self.note_of_window(*window, *next);
            }
        };
        // As with chunks: a state that is served no more while answers are due ends the connection.
        let desk = || {
            let desk = answers.states.of(&self.told).and_then(Served::records).ok_or(Error::Superseded)?;
            self.told.took();
            Ok(desk)
        };
        let in_turn = |work: &mut dyn FnMut()| {
            let _turn = answers.gate.enter();
            work();
        };
        Desk::answer(desk, queries, ch, came, &in_turn)?;
        let counted = if self.answers.root.is_some() { 0 } else { keys };
        self.answers.metrics.asked(counted, self.past(start));
        self.note(What::Retrieved { records: queries, seconds: self.past(start).as_secs_f64() })
    }

    /// A client says which window its queries are of, and which is the first of them. It is told how many queries of that window it made
    /// before: if it believes that it made fewer, its files are older than its queries, and it must not use them. Gives the window and the
    /// number of that first query.
    fn tell_of_window(&self, ch: &mut dyn Channel) -> Result<([u8; 16], u64), Error> {
        let said = ch.recv_exact(messages::WINDOW_BYTES)?;
        let window: [u8; 16] = std::array::from_fn(|i| said[i]);
        let first = u64::from_le_bytes(std::array::from_fn(|i| said[16 + i]));
        let windows = self.answers.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let before = windows.get(ch.peer().name()).map_or(0, |of_client| of_client.made(window));
        drop(windows);
        ch.send(&before.to_le_bytes())?;
        Ok((window, first))
    }

    /// Remembers that so many queries of a window came. That is done for each round before its answer is sent, and not for rounds that are
    /// still to come: a client that dies between two rounds has made no more than these.
    fn note_of_window(&self, window: [u8; 16], made: u64) {
        let mut windows = self.answers.windows.lock().unwrap_or_else(PoisonError::into_inner);
        windows.entry(self.link.peer().name().to_owned()).or_default().note(window, made);
    }

    /// The steps of the protocol, a thread a lane. The first lane that fails ends the connection, and so the others.
    fn evaluate(
        &self,
        function: &dyn ServerFunction,
        lines: Vec<(Box<dyn Channel>, Range<u64>)>,
        patience: &Patience,
    ) -> Result<(), Error> {
        let (gate, link, who) = (&self.answers.gate, self.link, self.link.peer());
        let mut answered: Vec<Result<(), Error>> = lines.iter().map(|_| Ok(())).collect();
        let world = &self.answers.world;
        scope(&*world.turns, |threads| {
            for ((mut line, share), answered) in lines.into_iter().zip(&mut answered) {
                let mut lane = move || -> Result<(), Error> {
                    let line = &mut patience.line(&mut *line);
                    let mut rng = world.rng()?;
                    Ok(unbalanced::answer(function, share.end - share.start, line, &mut rng, || gate.enter())?)
                };
                let lane = move || *answered = lane().inspect_err(|error| leave(link, error));
                threads.start(&format!("lane of {who}"), lane).map_err(|error| {
                    let error = Error::Setup(format!("the system gives no thread: {error}"));
                    leave(link, &error);
                    error
                })?;
            }
            Ok::<(), Error>(())
        })?;
        // All lanes are waited for; of several errors the first that is no echo of another says what happened.
        let errors: Vec<Error> = answered.into_iter().filter_map(Result::err).collect();
        let echo = |error: &Error| {
            matches!(error, Error::Job(vesica_job::JobError::Session(vesica_session::Error::Cancelled)))
        };
        let at = errors.iter().position(|error| !echo(error)).unwrap_or(0);
        errors.into_iter().nth(at).map_or(Ok(()), Err)
    }

    /// Whether the client may ask for so many keys now: they are taken from what it may ask for. In words why not.
    fn leave(&self, client: &str, keys: u64) -> Result<Result<(), String>, Error> {
        let guests = self.answers.guests.read().unwrap_or_else(PoisonError::into_inner);
        let Some(guest) = guests.get(client).cloned() else {
            return Ok(Err("it is no longer on the list of clients".to_owned()));
        };
        drop(guests);
        // Where there is no function, no key wears out by being asked.
        let lifetime = self.answers.root.as_ref().map_or(u64::MAX, |_| self.answers.offer.lifetime_keys);
        let (allowed, a_minute) = ((guest.keys_a_day, guest.keys_at_first), guest.requests_a_minute);
        let taken = self.answers.budget.take(client, keys, allowed, a_minute, lifetime);
        let taken = taken.inspect_err(|_| self.answers.metrics.set_ready(false))?;
        Ok(taken.map_err(|refusal| refusal.to_string()))
    }
}

/// Records that a connection may still retrieve where a function protects the rows: for the keys that it was answered, and those that are
/// free.
struct Allowance(u64);

impl Allowance {
    /// What is free, which only clients with windows have a use for.
    fn new(has_windows: bool) -> Self {
        Self(if has_windows { FREE_RECORDS } else { 0 })
    }

    /// Uses up so many records. In words why not.
    fn take(&mut self, queries: u64) -> Result<(), String> {
        let left = self.0.checked_sub(queries);
        self.0 = left.ok_or_else(|| {
            format!("{queries} records, and the keys of this connection allow {}; ask for the keys first", self.0)
        })?;
        Ok(())
    }
}

/// The windows of a client, and how many queries of each came, the one that was used last at the end.
#[derive(Default)]
struct Windows(Vec<([u8; 16], u64)>);

impl Windows {
    /// How many are remembered.
    const MOST: usize = 8;

    /// How many queries of a window came.
    fn made(&self, window: [u8; 16]) -> u64 {
        self.0.iter().find(|(known, _)| *known == window).map_or(0, |(_, made)| *made)
    }

    /// Remembers that so many came.
    fn note(&mut self, window: [u8; 16], made: u64) {
        let made = made.max(self.made(window));
        self.0.retain(|(known, _)| *known != window);
        self.0.push((window, made));
        let first = self.0.len().saturating_sub(Self::MOST);
        self.0.drain(..first);
    }
}

/// Ends the connection after `error`, and tells the client no more than what is its own fault.
fn leave(link: &dyn PeerLink, error: &Error) {
    let (fault, words) = match error.fault() {
        Fault::Peer => (Fault::Peer, error.to_string()),
        fault => (fault, "the service has a fault; its operator sees which".to_owned()),
    };
    link.abort(fault, &words);
}

/// Lets so many in at once.
struct Gate {
    free: Mutex<usize>,
    left: Condvar,
}

impl Gate {
    /// Waits for a place, which is free again when what is returned is dropped.
    fn enter(&self) -> Inside<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.left.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Inside(self)
    }
}

/// A place at a [`Gate`].
struct Inside<'a>(&'a Gate);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.left.notify_one();
    }
}

fn no_such(ch: &dyn Channel, what: &'static str) -> Error {
    ch.accuse(Misbehaviour::Malformed(match what {
        "a part" => "number of a part",
        _ => "number of a chunk",
    }))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{UNASKED, WINDOW, name};
    use crate::messages::Counter;
    use crate::prepare;
    use crate::retrieve::desk::tests::{LONG, follow, house_of, house_with, value};
    use crate::retrieve::desk::{hint_name, table_name};
    use crate::retrieve::epoch::{CHUNK, Epoch};
    use crate::retrieve::retrieval;
    use crate::retrieve::unpad;
    use crate::values::digest_of_index;
    use vesica_job::Event;
    use vesica_net::{Connection, Endpoint, PeerSpec, Quiet, Security};
    use vesica_session::SessionRng;
    use vesica_spec::service::{ServePlan, ServiceProtocol};
    use vesica_types::{KeyDigest, Party};

    #[test]
    fn free_records_are_free_once_in_a_connection() {
        let mut piano = Allowance::new(true);
        piano.take(FREE_RECORDS - 1).unwrap();
        assert!(piano.take(2).unwrap_err().contains("allow 1"));
        piano.take(1).unwrap();
        piano.0 += 10;
        piano.take(10).unwrap();
        assert!(piano.take(1).is_err());
        assert!(Allowance::new(false).take(1).is_err());
    }

    /// The window that was used longest ago is forgotten, whatever it is called.
    #[test]
    fn a_window_that_is_in_use_is_remembered() {
        let mut windows = Windows::default();
        for other in 1..20 {
            windows.note([0; 16], 64 * other);
            windows.note([other as u8; 16], 1);
        }
        assert_eq!(windows.made([0; 16]), 64 * 19);
        windows.note([0; 16], 3);
        assert_eq!(windows.made([0; 16]), 64 * 19);
        assert_eq!((windows.0.len(), windows.made([19; 16]), windows.made([12; 16])), (Windows::MOST, 1, 0));
    }

    /// What the service notes.
    #[derive(Clone, Default)]
    struct Notes(Arc<Mutex<Vec<String>>>);

    impl vesica_job::Watch for Notes {
        fn event(&self, event: Event) {
            if let Event::Note(note) = event {
                self.0.lock().unwrap().push(note);
            }
        }
    }

    type Link = Box<dyn PeerLink>;

    /// Both ends of a connection between the service and a client.
    fn link(client: &str) -> (Link, Link) {
        let (here, there) = Connection::pair().unwrap();
        let (bob, client) = (Party::new(0, "bob"), Party::new(1, client));
        let end = |me: &Party, peer: &Party, connection| {
            let mut endpoint = Endpoint::new(me.clone(), name("list"), Security::Insecure);
            (endpoint.window, endpoint.unasked) = (WINDOW, Some(UNASKED));
            endpoint.peers.push(PeerSpec { party: peer.clone(), connect: None, trust: None, road: Default::default() });
            endpoint.carry(vec![connection], Arc::new(Quiet)).unwrap().remove(0)
        };
        std::thread::scope(|scope| {
            let theirs = scope.spawn(|| end(&client, &bob, there));
            (end(&bob, &client, here), theirs.join().unwrap())
        })
    }

    /// A service in `folder`, which alice, mallory and trudy may ask. A newer state of the store waits for none of them.
    fn service(folder: &std::path::Path, opened: Opened, memory: u64, patience: Duration) -> Answers {
        let budget = Budget::open(&folder.join("budget"), &[], &World::default()).unwrap();
        let audit = Audit::open(&folder.join("audit"), World::default().time).unwrap();
        let mut answers =
            Answers::new(opened, budget, audit, Metrics::open(None).unwrap(), (2, memory), &World::default());
        (answers.patience, answers.states.limits.wait) = (patience, Duration::ZERO);
        let guest = |name: &str| GuestPlan {
            name: name.into(),
            trust: None,
            keys_a_day: 100,
            keys_at_first: 0,
            requests_a_minute: 100,
        };
        answers.set_guests(&["alice", "mallory", "trudy"].map(guest));
        answers
    }

    /// Clients send their keys and then no query. Others are served meanwhile if there is memory for their keys too. When the time of the
    /// silent ones is over they are named, their connections end, and there is memory again.
    #[test]
    fn a_client_that_falls_silent_gives_its_memory_back() {
        let (dir, offer, epoch) = house_of(ServiceProtocol::BfvPir, LONG);
        let scheme = retrieval(&offer, &epoch).unwrap();
        let stock = Arc::new(Desk::open(dir.path(), &offer, 2).unwrap());
        let memory = 2 * scheme.keys_bytes() as u64;
        // Both silent ones are to be there when somebody else comes, also on a busy machine.
        let patience = Duration::from_secs(4);
        let answers = &service(dir.path(), Opened { offer, stock, root: None }, memory, patience);
        let mut rng = SessionRng::from_os().unwrap();
        let mut reader = scheme.reader(Vec::new(), &mut rng).unwrap();
        let keys = &reader.begin(&mut rng);
        let query = reader.round(&[Some(vec![7])], &mut rng).unwrap();
        let notes = Notes::default();
        let ctl = &Control::new(notes.clone());
        let answer = std::thread::scope(|scope| {
            let visit = |client: &str| {
                let (here, there) = link(client);
                (there, scope.spawn(move || converse(answers, here, ctl)))
            };
            let fetch = || -> Result<Vec<u8>, Error> {
                let (link, _) = visit("alice");
                let mut counter = Counter::open(&*link)?;
                let ch = counter.put(Question::Retrieve { epoch: epoch.name(), queries: 1 })?;
                ch.send(keys)?;
                ch.send(&query)?;
                let answer = ch.recv_exact(scheme.sizes().answer)?;
                counter.put(Question::End)?;
                link.close()?;
                Ok(answer)
            };
            // Does something while these clients are silent, and waits for their end.
            let beside = |silent: &[&str], work: &dyn Fn() -> Result<Vec<u8>, Error>| {
                let links: Vec<_> = silent.iter().map(|client| visit(client)).collect();
                let mut counters: Vec<_> = links.iter().map(|(link, _)| Counter::open(&**link).unwrap()).collect();
                let mut lines: Vec<_> = counters
                    .iter_mut()
                    .map(|counter| counter.put(Question::Retrieve { epoch: epoch.name(), queries: 1 }).unwrap())
                    .collect();
                lines.iter_mut().for_each(|line| line.send(keys).unwrap());
                let worked = work();
                for line in lines {
                    let heard = line.recv(1 << 20).unwrap_err().to_string();
                    assert!(heard.contains("kept this side waiting"), "{heard}");
                }
                drop(counters);
                links.into_iter().for_each(|(_, talk)| talk.join().unwrap());
                worked
            };
            let answer = beside(&["mallory"], &fetch).unwrap();
            let refused = beside(&["mallory", "trudy"], &fetch).unwrap_err();
            assert!(refused.to_string().contains("ask again later"), "{refused}");
            assert_eq!(fetch().unwrap(), answer);
            answer
        });
        reader.take(&answer).unwrap();
        let record = reader.records().unwrap().remove(0).unwrap();
        assert_eq!(unpad(&epoch.salt(), &digest_of_index(7), &record), Some(&value(7, LONG)[..]));
        let mut notes = notes.0.lock().unwrap().clone();
        notes.sort();
        let named: Vec<&str> = notes.iter().filter_map(|note| note.split(" broke the protocol").next()).collect();
        assert_eq!(named, ["mallory: mallory", "mallory: mallory", "trudy: trudy"], "{notes:?}");
    }

    /// A client is told of a state, and then it is only there, while two newer ones come: nobody holds the first one any more. What it asks
    /// of that one is refused with the remedy, and when it asks what there is now, it is served again.
    #[test]
    fn a_client_that_asks_nothing_keeps_no_old_state() {
        let (dir, offer, mut epoch) = house_of(ServiceProtocol::SimplePir, 20);
        let scheme = retrieval(&offer, &epoch).unwrap();
        let hint = std::fs::read(dir.path().join(hint_name(1))).unwrap();
        let desk = Arc::new(Desk::open(dir.path(), &offer, 2).unwrap());
        let (first, stock, sums) = (Arc::downgrade(&desk), desk as Stock, epoch.copy.div_ceil(CHUNK as u64) * 32);
        let answers = &service(dir.path(), Opened { offer, stock, root: None }, 0, PATIENCE);
        let ctl = &Control::new(());
        std::thread::scope(|scope| {
            let (here, there) = link("mallory");
            scope.spawn(move || converse(answers, here, ctl));
            let mut counter = Counter::open(&*there).unwrap();
            let told = epoch.name();
            assert_eq!(counter.describe().unwrap().1, epoch.encode());
            // A client in the middle of its work goes on with the state that it was told of.
            follow(dir.path(), &mut epoch);
            assert_eq!(answers.reload().unwrap(), Some(epoch.rows));
            counter.sums(0, sums).unwrap();
            assert!(first.upgrade().is_some());
            follow(dir.path(), &mut epoch);
            assert_eq!(answers.reload().unwrap(), Some(epoch.rows));
            assert!(first.upgrade().is_none());
            let refused = [
                counter.sums(0, sums).unwrap_err(),
                counter.put(Question::Chunks { part: 0, from: 0 }).err().unwrap(),
                counter.put(Question::Retrieve { epoch: told, queries: 1 }).err().unwrap(),
            ];
            for error in refused {
                assert!(matches!(error, Error::Refused { .. }), "{error}");
                assert!(error.to_string().contains("served no more; run the command again"), "{error}");
            }
            assert_eq!(counter.describe().unwrap().1, epoch.encode());
            counter.sums(0, sums).unwrap();
            let mut rng = SessionRng::from_os().unwrap();
            let mut reader = scheme.reader(hint, &mut rng).unwrap();
            let ch = counter.put(Question::Retrieve { epoch: epoch.name(), queries: 1 }).unwrap();
            ch.send(&reader.round(&[Some(vec![7])], &mut rng).unwrap()).unwrap();
            reader.take(&ch.recv_exact(scheme.sizes().answer).unwrap()).unwrap();
            let record = reader.records().unwrap().remove(0).unwrap();
            assert_eq!(unpad(&epoch.salt(), &digest_of_index(7), &record), Some(&value(7, 20)[..]));
            counter.put(Question::End).unwrap();
            there.close().unwrap();
        });
    }

    /// A client that is being answered, and lets the server wait, keeps no old state either: when two newer ones have come, its connection
    /// ends and it is told the remedy.
    #[test]
    fn a_client_that_dawdles_over_its_queries_keeps_no_old_state() {
        let (dir, offer, mut epoch) = house_of(ServiceProtocol::SimplePir, 20);
        let scheme = retrieval(&offer, &epoch).unwrap();
        let hint = std::fs::read(dir.path().join(hint_name(1))).unwrap();
        let mut rng = SessionRng::from_os().unwrap();
        let query = scheme.reader(hint, &mut rng).unwrap().round(&[Some(vec![7])], &mut rng).unwrap();
        let desk = Arc::new(Desk::open(dir.path(), &offer, 2).unwrap());
        let (first, stock) = (Arc::downgrade(&desk), desk as Stock);
        let answers = &service(dir.path(), Opened { offer, stock, root: None }, 0, PATIENCE);
        let notes = Notes::default();
        let ctl = &Control::new(notes.clone());
        std::thread::scope(|scope| {
            let (here, there) = link("mallory");
            scope.spawn(move || converse(answers, here, ctl));
            let mut counter = Counter::open(&*there).unwrap();
            let round = scheme.together();
            let ch = counter.put(Question::Retrieve { epoch: epoch.name(), queries: round + 1 }).unwrap();
            ch.send(&query.repeat(round as usize)).unwrap();
            ch.recv_exact(round as usize * scheme.sizes().answer).unwrap();
            for is_last in [false, true] {
                follow(dir.path(), &mut epoch);
                assert_eq!(answers.reload().unwrap(), Some(epoch.rows));
                assert_eq!(first.upgrade().is_none(), is_last);
            }
            ch.send(&query).unwrap();
            let heard = ch.recv(1 << 20).unwrap_err().to_string();
            assert!(heard.contains("served no more; run the command again"), "{heard}");
        });
        let notes = notes.0.lock().unwrap();
        assert!(notes.len() == 1 && notes[0].contains("mallory") && notes[0].contains("served no more"), "{notes:?}");
    }

    /// The same for a client that takes a part, of which more chunks are left than fit on the way.
    #[test]
    fn a_client_that_dawdles_over_a_part_keeps_no_old_state() {
        let (dir, offer, mut epoch) = house_with(ServiceProtocol::Download, 256, 60_000);
        let desk = Arc::new(Desk::open(dir.path(), &offer, 2).unwrap());
        let (first, stock) = (Arc::downgrade(&desk), desk as Stock);
        let answers = &service(dir.path(), Opened { offer, stock, root: None }, 0, PATIENCE);
        let ctl = &Control::new(());
        std::thread::scope(|scope| {
            let (here, there) = link("mallory");
            scope.spawn(move || converse(answers, here, ctl));
            let mut counter = Counter::open(&*there).unwrap();
            let (end, mut came) = (epoch.copy.div_ceil(CHUNK as u64), 0);
            assert!(end * CHUNK as u64 > 3 * u64::from(WINDOW));
            let ch = counter.put(Question::Chunks { part: 0, from: 0 }).unwrap();
            let cut = (0..end).try_for_each(|_| {
                ch.recv(CHUNK)?;
                came += 1;
                if came == 1 {
                    for _ in 0..2 {
                        follow(dir.path(), &mut epoch);
                        assert_eq!(answers.reload().unwrap(), Some(epoch.rows));
                    }
                    // The server may be copying a chunk at this moment.
                    let is_gone = (0..500).any(|_| {
                        std::thread::sleep(Duration::from_millis(10));
                        first.upgrade().is_none()
                    });
                    assert!(is_gone);
                }
                Ok::<_, Error>(())
            });
            let heard = cut.unwrap_err().to_string();
            assert!(heard.contains("served no more; run the command again"), "{heard}");
            assert!(came < end);
        });
    }

    /// However often a client copies a part, a connection has two lines for it: of the first copy at once, and of all others.
    #[test]
    fn a_client_that_copies_again_and_again_does_not_fill_the_audit() {
        let (dir, offer, epoch) = house_of(ServiceProtocol::Download, 20);
        let desk = Arc::new(Desk::open(dir.path(), &offer, 2).unwrap());
        let answers = &service(dir.path(), Opened { offer, stock: desk, root: None }, 0, PATIENCE);
        let ctl = &Control::new(());
        let noted = || std::fs::read_to_string(dir.path().join("audit")).unwrap_or_default();
        std::thread::scope(|scope| {
            let (here, there) = link("mallory");
            scope.spawn(move || converse(answers, here, ctl));
            let mut counter = Counter::open(&*there).unwrap();
            for _ in 0..5 {
                let ch = counter.put(Question::Chunks { part: 0, from: 0 }).unwrap();
                (0..epoch.copy.div_ceil(CHUNK as u64)).for_each(|_| drop(ch.recv(CHUNK).unwrap()));
            }
            assert_eq!(noted().matches("fetched").count(), 1);
            counter.put(Question::End).unwrap();
            let noted = noted();
            let lines: Vec<&str> = noted.lines().filter(|line| line.contains("fetched")).collect();
            let has = |line: &str, copies: u64| line.contains(&format!("\"bytes\":{}", copies * epoch.copy));
            assert!(lines.len() == 2 && has(lines[0], 1) && has(lines[1], 4), "{noted}");
        });
    }

    /// A client has leave to ask on two lines. As long as it sends on one of them it is answered, and when it stops it is ended.
    #[test]
    fn a_client_that_sends_no_keys_is_ended_on_all_its_lines() {
        let (dir, plan) = sealed("one");
        let opened = prepare::open(&plan, &Control::new(())).unwrap();
        // A public key is an element of the group.
        let element = opened.offer.public().unwrap();
        let patience = Duration::from_secs(4);
        let answers = &service(dir.path(), opened, 0, patience);
        let notes = Notes::default();
        let ctl = &Control::new(notes.clone());
        std::thread::scope(|scope| {
            let (here, there) = link("mallory");
            scope.spawn(move || converse(answers, here, ctl));
            let mut counter = Counter::open(&*there).unwrap();
            let mut lines = counter.ask(2, 2).unwrap();
            // Nearly too late, and the other line has sent nothing meanwhile.
            std::thread::sleep(patience / 2);
            let began = Instant::now();
            lines[0].0.send(&element).unwrap();
            assert_eq!(lines[0].0.recv(1 << 10).unwrap().len(), element.len());
            let heard = lines[1].0.recv(1 << 10).unwrap_err().to_string();
            assert!(heard.contains("kept this side waiting"), "{heard}");
            assert!(began.elapsed() > patience * 3 / 4, "{:?}", began.elapsed());
        });
        let notes = notes.0.lock().unwrap();
        assert!(notes.len() == 1 && notes[0].contains("mallory broke the protocol"), "{notes:?}");
    }

    /// A service that retrieves, with one row of this value, which is sealed.
    fn sealed(value: &str) -> (tempfile::TempDir, ServePlan) {
        let dir = tempfile::tempdir().unwrap();
        let mine = "input = { path = \"FOLDER/list.csv\", keys = [] }";
        let service =
            "protocol = \"download\"\nby = \"index\"\ncurve = \"ristretto255\"\nverifiable = true\nvalue_bytes = 16";
        let plan = prepare::tests::plan(dir.path(), "list", [service, mine]);
        next(&plan, value);
        (dir, plan)
    }

    /// Prepares the whole table with another value. Gives the epoch, and its table.
    fn next(plan: &ServePlan, value: &str) -> (Epoch, Vec<u8>) {
        std::fs::write(plan.input.as_ref().unwrap().origin.name(), format!("name\n{value}\n")).unwrap();
        prepare::prepare(plan, &prepare::Change::default(), &World::default(), &Control::new(())).unwrap();
        kept(plan)
    }

    /// What a client that copies everything has.
    fn kept(plan: &ServePlan) -> (Epoch, Vec<u8>) {
        let epoch = Epoch::load(&Offer::load(&plan.store).unwrap(), &plan.store).unwrap();
        let table = std::fs::read(plan.store.join(table_name(epoch.number))).unwrap();
        (epoch, table)
    }

    /// A client keeps what it copied of an epoch, and asks after the table was prepared as a whole again. Before, the answer opened the row of
    /// the old epoch too: values that had been changed or taken away since were given to whoever had kept the sealed ones.
    #[test]
    fn what_is_answered_in_an_epoch_opens_rows_of_no_other() {
        let (dir, plan) = sealed("one");
        let one = kept(&plan);
        let opened = prepare::open(&plan, &Control::new(())).unwrap();
        let offer = opened.offer.clone();
        let answers = &service(dir.path(), opened, 0, PATIENCE);
        let ctl = &Control::new(());
        let opens = |output: &[u8; 32], (epoch, table): &(Epoch, Vec<u8>), value: &str| {
            let opened = vesica_store::open_value(output, &epoch.sealed(), table);
            assert!(opened.iter().all(|opened| opened.ends_with(value.as_bytes())));
            opened.is_some()
        };
        std::thread::scope(|scope| {
            let visit = |client: &str| {
                let (here, there) = link(client);
                scope.spawn(move || converse(answers, here, ctl));
                there
            };
            // r·H(x), for the row that there is in both epochs.
            let ask = |counter: &mut Counter<'_>, epoch: &Epoch| -> Result<[u8; 32], Error> {
                let function = crate::client::talk::function(&offer, epoch.public())?;
                let asked = [KeyDigest(digest_of_index(0))];
                Ok(crate::client::evaluate::request(
                    &*function,
                    &asked,
                    1,
                    counter,
                    (&AtomicU64::new(0), &World::default()),
                    ctl,
                )?[0])
            };
            let (mallory, trudy) = (visit("mallory"), visit("trudy"));
            let mut counter = Counter::open(&*mallory).unwrap();
            counter.describe().unwrap();
            let two = next(&plan, "two");
            answers.reload().unwrap();
            // A client in the middle of its work goes on with the epoch that it was told of, and gets the function of that one.
            let first = ask(&mut counter, &one.0).unwrap();
            assert!(opens(&first, &one, "one") && !opens(&first, &two, "two"));
            counter.describe().unwrap();
            let second = ask(&mut counter, &two.0).unwrap();
            assert!(opens(&second, &two, "two") && !opens(&second, &one, "one"));
            // Answers are proved by the key of the epoch: those of another epoch's are none.
            let mut counter = Counter::open(&*trudy).unwrap();
            counter.describe().unwrap();
            assert!(ask(&mut counter, &one.0).unwrap_err().to_string().contains("proof"));
            let trudy = visit("trudy");
            let mut counter = Counter::open(&*trudy).unwrap();
            counter.describe().unwrap();
            // Whoever was told of an epoch that is served no more gets no function, and spends nothing.
            for value in ["three", "four"] {
                next(&plan, value);
                answers.reload().unwrap();
            }
            let spent = answers.budget.granted("trudy");
            let refused = ask(&mut counter, &two.0).unwrap_err();
            assert!(
                matches!(refused, Error::Refused { .. }) && refused.to_string().contains("served no more"),
                "{refused}"
            );
            assert_eq!(answers.budget.granted("trudy"), spent);
        });
    }

    /// How many rows a second one service of "simple-pir" answers for 1, 4 and 16 clients, each of which asks for one row after the other. Their
    /// queries are made beforehand, so what is measured is the server, with its budget and its audit on the disk.
    ///
    /// `cargo test --release -p vesica-service --lib shared_passes -- --ignored --nocapture`
    #[test]
    #[ignore = "a table of 256 MiB, for a release build"]
    #[allow(clippy::print_stderr)]
    fn shared_passes_serve_many_clients() {
        let (dir, offer, epoch) = house_with(ServiceProtocol::SimplePir, 1 << 20, 244);
        let scheme = retrieval(&offer, &epoch).unwrap();
        let hint = std::fs::read(dir.path().join(hint_name(1))).unwrap();
        let mut rng = SessionRng::from_os().unwrap();
        let query = scheme.reader(hint, &mut rng).unwrap().round(&[Some(vec![7])], &mut rng).unwrap();
        let stock = Arc::new(Desk::open(dir.path(), &offer, 2).unwrap());
        let answers = service(dir.path(), Opened { offer, stock, root: None }, 0, PATIENCE);
        let guest = |client: usize| GuestPlan {
            name: format!("client {client}"),
            trust: None,
            keys_a_day: u64::MAX,
            keys_at_first: 0,
            requests_a_minute: u32::MAX,
        };
        answers.set_guests(&(0..16).map(guest).collect::<Vec<_>>());
        let (answers, query, scheme, name) = (&answers, &query, &scheme, epoch.name());
        for clients in [1, 4, 16] {
            let rows = AtomicU64::new(0);
            let (rows, until) = (&rows, Instant::now() + Duration::from_secs(5));
            std::thread::scope(|scope| {
                for client in 0..clients {
                    let (here, there) = link(&format!("client {client}"));
                    scope.spawn(move || converse(answers, here, &Control::new(())));
                    scope.spawn(move || {
                        let mut counter = Counter::open(&*there).unwrap();
                        while Instant::now() < until {
                            let ch = counter.put(Question::Retrieve { epoch: name, queries: 1 }).unwrap();
                            ch.send(query).unwrap();
                            ch.recv_exact(scheme.sizes().answer).unwrap();
                            rows.fetch_add(1, Ordering::Relaxed);
                        }
                        counter.put(Question::End).unwrap();
                        there.close().unwrap();
                    });
                }
            });
            eprintln!("{clients} clients: {:.0} rows a second", rows.load(Ordering::Relaxed) as f64 / 5.0);
        }
    }
}
