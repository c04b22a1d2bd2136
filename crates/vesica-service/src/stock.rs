//! What a server has to give: a store of tags, or an epoch of records. Clients copy it in the same way.
//!
//! A state may be gigabytes of memory, or files of that size that no folder names any more. So nobody holds one while it waits for a
//! client. A conversation has a [`Ticket`], by which it takes the state for as long as it copies a chunk or works on a round of queries. A
//! client that stays connected and asks nothing keeps no state for longer than [`Limits`] say.

use crate::error::Error;
use crate::offer::Offer;
use crate::prepare::secret::Root;
use crate::retrieve::desk::Desk;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant, SystemTime};
use vesica_net::Time;
use vesica_oprf::function::ServerFunction;
use vesica_store::Part;

/// A state of what is served.
pub type Stock = Arc<dyn Served>;

/// What a state of a store of tags and an epoch of records have in common.
pub trait Served: Send + Sync {
    /// The state that the folder has now, if it is another one. `make_room` is called before that takes memory.
    ///
    /// # Errors
    /// If what stands there is not of this offer.
    fn reload(&self, offer: &Offer, make_room: &mut dyn FnMut()) -> Result<Option<Stock>, Error>;

    /// The function that protects it, of a service whose functions follow from `root`.
    ///
    /// # Errors
    /// If it is another one than the one that it was made by.
    fn function(&self, root: &Root) -> Result<Arc<dyn ServerFunction>, Error>;

    /// What describes it to a client.
    fn describe(&self) -> Vec<u8>;

    /// Keys or rows that can be looked up.
    fn rows(&self) -> u64;

    /// From when on clients do not take it, if there is such a time.
    fn until(&self) -> Option<SystemTime> {
        None
    }

    /// Parts that clients copy one by one.
    fn parts(&self) -> u64;

    /// Bytes on the disk of a client that copied everything.
    fn bytes(&self) -> u64;

    /// The sums of a part's chunks, 32 bytes each.
    fn sums(&self, part: usize) -> Option<&[u8]>;

    /// A chunk of a part.
    fn chunk(&self, part: usize, number: u64) -> Option<&[u8]>;

    /// The names of the parts, if a newer state may have them too.
    fn named_parts(&self) -> Vec<Part> {
        Vec::new()
    }

    /// Whether a client that copies this state gets the rest of it from the one that the folder has now.
    ///
    /// # Errors
    /// Those of the folder.
    fn is_followed(&self) -> Result<bool, Error> {
        Ok(false)
    }

    /// The records that are retrieved from it, if any are.
    fn records(self: Arc<Self>) -> Option<Arc<Desk>> {
        None
    }
}

/// Why a state of another offer is not served.
pub fn other_offer() -> Error {
    Error::Setup("it was prepared with another offer; restart the service and tell clients the new offer".into())
}

/// How long the state before the one that is served is kept.
///
/// Each bound is there for a client that means to keep it. One that works is to finish, so long as others do not wait for it too long.
pub struct Limits {
    /// After a client was at work with it, as long as no newer state comes.
    pub idle: Duration,
    /// A client that took something of it, or had a function evaluated, so short a time ago is at work. It has a minute to take what it was
    /// sent.
    pub busy: Duration,
    /// So long clients that are at work with it keep a newer state from being loaded, from the moment on in which it is served no more.
    pub wait: Duration,
    /// In all, from that moment on.
    pub longest: Duration,
}

const LIMITS: Limits = Limits {
    idle: Duration::from_secs(60 * 60),
    busy: Duration::from_secs(2 * 60),
    wait: Duration::from_secs(60 * 60),
    longest: Duration::from_secs(24 * 60 * 60),
};

/// The state that is served, and the one before it for clients that were told of that one and are still here.
///
/// There are two states at most: the one that is served, and either the one before it or the one that is being loaded. Beyond that a state
/// lives as long as the copies and passes that had begun. The state before goes when the last client that was told of it is gone or was
/// told of a newer one, when its [`Limits`] say so, or when the next one comes, whichever is first. The next one waits for clients that are
/// at work with the state before, and no longer than [`Limits::wait`]. It does not wait if it has all parts of that state.
pub struct States {
    held: RwLock<Held>,
    time: Arc<dyn Time>,
    pub(crate) limits: Limits,
}

struct Held {
    now: State,
    before: Option<Before>,
}

impl Held {
    fn states(&self) -> impl Iterator<Item = &State> {
        std::iter::once(&self.now).chain(self.before.as_ref().map(|before| &before.state))
    }

    /// The state of a ticket.
    fn of(&self, ticket: &Ticket) -> Option<&State> {
        self.states().find(|state| Arc::ptr_eq(&state.ticket, &ticket.0))
    }
}

/// The state before.
struct Before {
    state: State,
    /// Since when it is not served any more.
    since: Instant,
}

struct State {
    stock: Stock,
    ticket: Arc<Told>,
}

/// What all tickets of a state share.
struct Told {
    /// When a client last took something of the state.
    taken: Mutex<Option<Instant>>,
    time: Arc<dyn Time>,
    /// Clients that have a function evaluated now, and will ask the state about what comes out.
    asking: AtomicUsize,
    /// The parts of a store of tags: a newer one may have them too.
    parts: Vec<Part>,
}

/// Stands for a state in the conversation with a client that was told of it. It keeps nothing of the state in memory but the names of its
/// parts.
pub struct Ticket(Arc<Told>);

impl Ticket {
    /// The client took a chunk of the state, or has a round answered from it.
    pub fn took(&self) {
        self.0.took();
    }

    /// Until this is dropped, the client has a function evaluated, and needs the state afterwards. That counts as work with the state.
    pub fn asking(&self) -> Asking {
        self.0.asking.fetch_add(1, Ordering::SeqCst);
        Asking(self.0.clone())
    }
}

/// A client that has a function evaluated.
pub struct Asking(Arc<Told>);

impl Drop for Asking {
    fn drop(&mut self) {
        // In this order, so that nobody sees the client idle between the two.
        self.0.took();
        self.0.asking.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Told {
    fn took(&self) {
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.time.now());
    }

    /// When a client last was at work with the state: at this moment, if one has a function evaluated.
    fn last_work(&self) -> Option<Instant> {
        if self.asking.load(Ordering::SeqCst) > 0 {
            return Some(self.time.now());
        }
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(stock: Stock, time: Arc<dyn Time>) -> Self {
        let parts = stock.named_parts();
        Self { stock, ticket: Arc::new(Told { taken: Mutex::default(), time, asking: AtomicUsize::new(0), parts }) }
    }

    /// Whether a client that was told of it is still here.
    fn is_wanted(&self) -> bool {
        Arc::strong_count(&self.ticket) > 1
    }
}

impl Before {
    fn stock(&self) -> Stock {
        self.state.stock.clone()
    }

    /// How long no client has been at work with it, counted from the moment in which it was served no more, at the earliest.
    fn idle(&self) -> Duration {
        self.past(self.state.ticket.last_work().map_or(self.since, |last| last.max(self.since)))
    }

    /// How long ago a moment was.
    fn past(&self, moment: Instant) -> Duration {
        self.state.ticket.time.now().saturating_duration_since(moment)
    }

    /// Whether it is to go, even if no newer one comes.
    fn is_over(&self, limits: &Limits) -> bool {
        !self.state.is_wanted() || self.idle() >= limits.idle || self.past(self.since) >= limits.longest
    }

    /// Whether a newer one that does not follow this one is to wait, because a client is at work with this one.
    fn is_waited_for(&self, limits: &Limits) -> bool {
        let last = self.state.ticket.last_work();
        let is_busy =
            Arc::strong_count(&self.state.stock) > 1 || last.is_some_and(|last| self.past(last) < limits.busy);
        is_busy && self.past(self.since) < limits.wait
    }
}

impl States {
    /// This one is served.
    pub fn new(stock: Stock, time: Arc<dyn Time>) -> Self {
        let held = Held { now: State::new(stock, time.clone()), before: None };
        Self { held: RwLock::new(held), time, limits: LIMITS }
    }

    /// The state that is served, and the ticket for a client that is told of it.
    pub fn now(&self) -> (Ticket, Stock) {
        let held = self.read();
        (Ticket(held.now.ticket.clone()), held.now.stock.clone())
    }

    /// The state of a ticket; none if it is served no more. Whoever takes it waits for no client before it is dropped.
    pub fn of(&self, ticket: &Ticket) -> Option<Stock> {
        self.read().of(ticket).map(|state| state.stock.clone())
    }

    /// A state that has this part of the state of a ticket, and which part it is there. A store of tags to which a part was added has the
    /// parts of the one before, so they can be copied when that one is gone. None if no state has it.
    pub fn part(&self, ticket: &Ticket, part: usize) -> Option<(Stock, usize)> {
        let held = self.read();
        if let Some(state) = held.of(ticket) {
            return Some((state.stock.clone(), part));
        }
        let wanted = ticket.0.parts.get(part)?;
        held.states().find_map(|state| {
            // Parts that are equal have the same sums, and so the same bytes.
            let place = state.ticket.parts.iter().position(|part| part == wanted)?;
            Some((state.stock.clone(), place))
        })
    }

    /// Lets go of the state before if it is time, and serves the state that the folder has now, if it is another one: that one is
    /// returned. While clients are at work with the state before, that one keeps its place, unless they get the rest of it from the
    /// newer one.
    ///
    /// # Errors
    /// Those of [`Served::reload`]. Then the same state is served, and the one before it may be gone.
    pub fn reload(&self, offer: &Offer) -> Result<Option<Stock>, Error> {
        // What is taken out is dropped when the lock is free again: gigabytes take a while.
        let over = self.write().before.take_if(|before| before.is_over(&self.limits));
        drop(over);
        let at_work =
            self.read().before.as_ref().filter(|before| before.is_waited_for(&self.limits)).map(Before::stock);
        if let Some(stock) = at_work
            && !stock.is_followed()?
        {
            return Ok(None);
        }
        let mut make_room = || {
            let before = self.write().before.take();
            drop(before);
        };
        let last = self.read().now.stock.clone();
        let Some(next) = last.reload(offer, &mut make_room)? else { return Ok(None) };
        let mut held = self.write();
        let before = std::mem::replace(&mut held.now, State::new(next.clone(), self.time.clone()));
        // `last` still holds what goes here, until the lock is free.
        held.before = before.is_wanted().then(|| Before { state: before, since: self.time.now() });
        drop(held);
        Ok(Some(next))
    }

    fn read(&self) -> RwLockReadGuard<'_, Held> {
        self.held.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Held> {
        self.held.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retrieve::desk::tests::{NO_HINT, follow, house_of, house_with, put, value};
    use crate::retrieve::epoch::Epoch;
    use crate::retrieve::{desk, epoch, retrieval, unpad};
    use crate::values::digest_of_index;
    use std::path::Path;
    use vesica_session::SessionRng;
    use vesica_spec::service::ServiceProtocol;
    use vesica_store::{Builder, Delta, Shape, Store};

    /// Tells whether a state is dropped.
    fn watched(stock: &Stock) -> Box<dyn Fn() -> bool> {
        let stock = Arc::downgrade(stock);
        Box::new(move || stock.strong_count() == 0)
    }

    /// A client is told of the state that is served: its ticket, and what tells whether the state is dropped.
    fn told(states: &States) -> (Ticket, Box<dyn Fn() -> bool>) {
        let (ticket, stock) = states.now();
        (ticket, watched(&stock))
    }

    /// `next` puts another state into the folder. One that is served no more is there for whoever was told of it, and goes in each of the
    /// ways in which it may.
    fn goes_in_time(stock: Stock, offer: &Offer, mut next: impl FnMut()) {
        let is_gone = watched(&stock);
        let mut states = States::new(stock, Arc::new(vesica_net::SystemClock));
        // Nobody was told of it.
        next();
        assert!(states.reload(offer).unwrap().is_some() && is_gone());
        // Whoever was told of it leaves.
        let (ticket, is_gone) = told(&states);
        next();
        assert!(states.reload(offer).unwrap().is_some());
        assert!(states.reload(offer).unwrap().is_none());
        assert!(states.of(&ticket).is_some() && !is_gone());
        drop(ticket);
        assert!(states.reload(offer).unwrap().is_none() && is_gone());
        // Two newer ones come, and nobody was told of the first of them.
        let (ticket, is_gone) = told(&states);
        for is_last in [false, true] {
            next();
            assert!(states.reload(offer).unwrap().is_some());
            assert_eq!((states.of(&ticket).is_none(), is_gone()), (is_last, is_last));
        }
        // Somebody has a function evaluated, for longer than anything that was taken counts.
        let (ticket, is_gone) = told(&states);
        let asking = ticket.asking();
        states.limits.busy = Duration::from_millis(50);
        next();
        assert!(states.reload(offer).unwrap().is_some());
        std::thread::sleep(2 * states.limits.busy);
        next();
        assert!(states.reload(offer).unwrap().is_none() && !is_gone());
        states.limits.busy = LIMITS.busy;
        drop(asking);
        assert!(states.reload(offer).unwrap().is_none() && !is_gone(), "what comes next is waited for too");
        states.limits.busy = Duration::ZERO;
        assert!(states.reload(offer).unwrap().is_some() && is_gone());
        states.limits.busy = LIMITS.busy;
        // Somebody is at work with it, and the newer one waits, but not for ever.
        let (ticket, is_gone) = told(&states);
        ticket.took();
        for _ in 0..2 {
            next();
            states.reload(offer).unwrap();
        }
        assert!(states.reload(offer).unwrap().is_none() && states.of(&ticket).is_some() && !is_gone());
        states.limits.wait = Duration::ZERO;
        assert!(states.reload(offer).unwrap().is_some() && states.of(&ticket).is_none() && is_gone());
        // Nobody has taken anything for as long as that may be; or somebody works with it for longer than anybody may.
        for (idle, longest) in [(Duration::ZERO, LIMITS.longest), (LIMITS.idle, Duration::ZERO)] {
            let (ticket, is_gone) = told(&states);
            next();
            assert!(states.reload(offer).unwrap().is_some() && !is_gone());
            ticket.took();
            assert!(states.reload(offer).unwrap().is_none() && !is_gone());
            (states.limits.idle, states.limits.longest) = (idle, longest);
            assert!(states.reload(offer).unwrap().is_none() && is_gone());
            (states.limits.idle, states.limits.longest) = (LIMITS.idle, LIMITS.longest);
        }
        assert!(states.of(&ticket).is_none() && states.of(&states.now().0).is_some());
    }

    #[test]
    fn an_epoch_that_is_served_no_more_goes_in_time() {
        let (dir, offer, mut epoch) = house_of(ServiceProtocol::Download, 20);
        let stock = Arc::new(Desk::open(dir.path(), &offer, 1).unwrap());
        goes_in_time(stock, &offer, || follow(dir.path(), &mut epoch));
    }

    /// The next epoch has more rows, so that what the server keeps beside them, and what clients copy, have another length. It is served; and
    /// whoever was told of the one before copies its masks and is answered from it, until he has gone.
    #[test]
    fn an_epoch_of_another_shape_is_served_beside_the_one_before() {
        let mut rng = SessionRng::from_os().unwrap();
        let mut fetched = |offer: &Offer, stock: Stock, row: u64| {
            let epoch = Epoch::decode(offer, &stock.describe()).unwrap();
            let scheme = retrieval(offer, &epoch).unwrap();
            let masks: Vec<u8> = (0..).map_while(|number| stock.chunk(0, number)).flatten().copied().collect();
            let mut client = scheme.reader(masks, &mut rng).unwrap();
            let query = client.round(&[Some(vec![row])], &mut rng).unwrap();
            let answered = vesica_testkit::two(
                |lines, _| {
                    let ch = lines.peer().unwrap();
                    ch.send(&query).unwrap();
                    ch.recv_exact(scheme.sizes().answer).unwrap()
                },
                |lines, _| {
                    let desk = || Ok(stock.clone().records().unwrap());
                    Desk::answer(desk, 1, lines.peer().unwrap(), |_| (), &|work| work()).unwrap();
                },
            );
            client.take(&answered.0).unwrap();
            let record = client.records().unwrap().remove(0).unwrap();
            unpad(&epoch.salt(), &digest_of_index(row), &record).map(<[u8]>::to_vec)
        };
        // 2000 rows of 32 bytes stand in one column of 64 rows, 90,000 in more columns and more rows.
        let (dir, offer, _) = house_with(NO_HINT, 2000, 20);
        let states =
            States::new(Arc::new(Desk::open(dir.path(), &offer, 1).unwrap()), Arc::new(vesica_net::SystemClock));
        let (ticket, is_gone) = told(&states);
        let before = std::fs::metadata(dir.path().join(desk::table_name(1))).unwrap().len();
        put(dir.path(), &offer, 2, 90_000);
        let now = std::fs::metadata(dir.path().join(desk::table_name(2))).unwrap().len();
        assert!(now - before > 10 << 20, "{before}, {now}");
        let next = states.reload(&offer).unwrap().expect("it is served");
        assert_eq!(next.rows(), 90_000);
        assert_eq!(fetched(&offer, next.clone(), 89_999), Some(value(89_999, 20)));
        let old = states.of(&ticket).expect("a client of the epoch before is here");
        assert_eq!(old.rows(), 2000);
        assert_eq!(fetched(&offer, old, 1999), Some(value(1999, 20)));
        // Back to fewer rows, which is another shape again; then the client goes.
        put(dir.path(), &offer, 3, 2000);
        drop(ticket);
        assert!(states.reload(&offer).unwrap().is_some() && is_gone());
        // A file that is cut where the columns stand is found before room is made.
        let (ticket, _) = states.now();
        put(dir.path(), &offer, 4, 90_000);
        let path = dir.path().join(desk::table_name(4));
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        let why = states.reload(&offer).err().expect("it is damaged").to_string();
        assert!(why.contains("epoch-4.table is damaged"), "{why}");
        assert!(states.of(&ticket).is_some());
    }

    /// An offer of a store of tags alone.
    fn offer_of_tags() -> Offer {
        let (_, mut offer, _) = house_of(ServiceProtocol::Download, 20);
        let shape = Shape { lifetime: offer.lifetime_keys, value: None };
        let scratch = tempfile::tempdir().unwrap();
        let room = Builder::new(scratch.path(), shape, 1 << 20, scratch.path()).unwrap().room();
        (offer.value_bytes, offer.tag_bits) = (None, shape.tag_bits(room));
        offer
    }

    /// Makes the whole store in `folder` anew, with one key.
    fn prepare(folder: &Path, offer: &Offer, key: u8) {
        let shape = Shape { lifetime: offer.lifetime_keys, value: None };
        let mut builder = Builder::new(folder, shape, 1 << 20, &std::env::temp_dir()).unwrap();
        let mut batch = builder.sealer().batch();
        batch.add(&[key; 32], None, 0).unwrap();
        builder.push(&batch).unwrap();
        builder.finish(offer.hash(), 1).unwrap();
    }

    /// Adds a part to that store, with one key.
    fn append(folder: &Path, key: u8) {
        let mut delta = Delta::new(folder, 1 << 20, &std::env::temp_dir()).unwrap();
        let mut batch = delta.sealer().batch();
        batch.add(&[key; 32], None, 0).unwrap();
        delta.push(&batch).unwrap();
        delta.finish(1).unwrap();
    }

    /// What a store of tags holds are its files, which a whole `vesica prepare` removes from the folder.
    #[test]
    fn a_store_of_tags_that_is_served_no_more_goes_in_time() {
        let (dir, offer) = (tempfile::tempdir().unwrap(), offer_of_tags());
        prepare(dir.path(), &offer, 0);
        let mut key = 0;
        let next = || {
            key += 1;
            prepare(dir.path(), &offer, key);
        };
        goes_in_time(Arc::new(Store::open(dir.path()).unwrap()), &offer, next);
    }

    /// Whoever copies the parts of a store to which others were added gets all of them, although its own state is gone.
    #[test]
    fn parts_that_a_newer_store_has_too_are_found_there() {
        let (dir, offer) = (tempfile::tempdir().unwrap(), offer_of_tags());
        prepare(dir.path(), &offer, 1);
        append(dir.path(), 2);
        let states = States::new(Arc::new(Store::open(dir.path()).unwrap()), Arc::new(vesica_net::SystemClock));
        let (ticket, stock) = states.now();
        let sums = [0, 1].map(|part| stock.sums(part).unwrap().to_vec());
        drop(stock);
        // It is copying them, and nothing waits for that, for it loses nothing.
        ticket.took();
        for key in [3, 4] {
            append(dir.path(), key);
            assert!(states.reload(&offer).unwrap().is_some());
        }
        assert!(states.of(&ticket).is_none());
        for (part, sums) in sums.iter().enumerate() {
            let (stock, place) = states.part(&ticket, part).unwrap();
            assert_eq!(stock.sums(place), Some(&sums[..]));
        }
        assert!(states.part(&ticket, 2).is_none(), "it was not told of that part");
        // A whole store comes, and the one before it, which a client was told of, still has the parts.
        let (other, _) = states.now();
        prepare(dir.path(), &offer, 5);
        assert!(states.reload(&offer).unwrap().is_some());
        // What was added to that one does not have the parts of the one before, and waits for a client that copies them.
        other.took();
        append(dir.path(), 6);
        assert!(states.reload(&offer).unwrap().is_none());
        let (stock, place) = states.part(&ticket, 0).unwrap();
        assert_eq!(stock.sums(place), Some(&sums[0][..]));
        drop((stock, other));
        assert!(states.reload(&offer).unwrap().is_some());
        assert!(states.part(&ticket, 0).is_none(), "no state has that part any more");
    }

    /// The state before makes room for the next one before that is loaded, so that three are never in memory. If the next one cannot be
    /// served, the one that is served stays.
    #[test]
    fn the_state_before_goes_before_another_one_is_loaded() {
        let (dir, offer, mut epoch) = house_of(ServiceProtocol::Download, 20);
        let states =
            States::new(Arc::new(Desk::open(dir.path(), &offer, 1).unwrap()), Arc::new(vesica_net::SystemClock));
        let (_ticket, is_gone) = told(&states);
        follow(dir.path(), &mut epoch);
        assert!(states.reload(&offer).unwrap().is_some() && !is_gone());
        let served = epoch.encode();
        follow(dir.path(), &mut epoch);
        let path = dir.path().join(desk::table_name(epoch.number));
        let mut table = std::fs::read(&path).unwrap();
        // A file without its length is found before room is made for it, and other bytes only when it is read.
        std::fs::write(&path, "short").unwrap();
        assert!(states.reload(&offer).is_err() && !is_gone());
        table[7] ^= 1;
        std::fs::write(&path, table).unwrap();
        assert!(states.reload(&offer).is_err() && is_gone());
        assert_eq!(states.now().1.describe(), served);
    }

    /// Damage is told as damage, and a new offer as a new offer: an operator tells clients the second and mends the first.
    #[test]
    fn what_keeps_a_new_state_from_being_served_is_told() {
        let (dir, offer, mut next) = house_of(ServiceProtocol::Download, 20);
        let stock = Arc::new(Desk::open(dir.path(), &offer, 1).unwrap());
        let why = |next: &epoch::Epoch| {
            std::fs::write(dir.path().join(epoch::NAME), next.encode()).unwrap();
            stock.reload(&offer, &mut || ()).err().unwrap().to_string()
        };
        (next.number, next.base) = (2, 2);
        let missing = why(&next);
        assert!(missing.contains("cannot read") && missing.contains("epoch-2.table"), "{missing}");
        std::fs::write(dir.path().join(desk::table_name(2)), "short").unwrap();
        let damaged = why(&next);
        assert!(damaged.contains("epoch-2.table is damaged") && !damaged.contains("offer"), "{damaged}");
        next.offer = "0".repeat(64);
        assert!(why(&next).contains("prepared with another offer"));
    }
}
