//! A service from its start to its stop: a door, a thread for each client that came through it, and what may change meanwhile.

use crate::error::Error;
use crate::offer::spelled;
use crate::retrieve::epoch::date;
use crate::server::answer::{Answers, converse};
use crate::server::audit::Audit;
use crate::server::budget::Budget;
use crate::server::metrics::Metrics;
use crate::{link, prepare};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, SystemTime};
use vesica_job::numbers::counted;
use vesica_job::rooms::{Authorities, scope};
use vesica_job::{Control, World};
use vesica_net::{Client, ClientDoor, Endpoint, Fingerprint, Identity, Limits, PeerLink, Security};
use vesica_spec::service::{GuestPlan, ServePlan};
use vesica_spec::{KeyPlace, SpecError, TrustPlan};
use vesica_types::Party;

/// How often it is looked whether the list of clients or the store has changed.
const LOOK: Duration = Duration::from_secs(1);

/// Connections of one client at once, at most.
const LINKS_OF_ONE: usize = 4;

/// How long clients at work may go on when the service is stopped.
const GRACE: Duration = Duration::from_secs(30);

/// The shortest and the longest pause, in looks, before a private key or its certificate is read again that could not be read.
const PAUSES: (u32, u32) = (2, 300);

/// A document, read again.
pub struct Again {
    /// What it says now.
    pub plan: Result<ServePlan, SpecError>,
    /// Whether somebody asked for it. Then the private key is read again too, and not only where the document names another.
    pub asked: bool,
}

/// Serves the store of the plan until it is stopped, or a client is done where the plan says `once`. `again` reads the document again when its file
/// has changed, or when somebody asks for that. Then the list of clients is replaced. The service's own certificate and private key are read
/// again when somebody asks, when their files have changed, and when the document names others. What cannot be used of the new leaves the old
/// as it was; a private key that cannot be read is tried again, after longer and longer pauses.
///
/// # Errors
/// Faults of the plan, its files and the store; of the door. A client that fails ends nothing but its own connection.
pub fn serve(
    plan: &ServePlan,
    world: &World,
    again: &(dyn Fn() -> Option<Again> + Sync),
    ctl: &Control,
) -> Result<(), Error> {
    if plan.guests.is_empty() {
        ctl.note(
            "mine.clients names nobody, so nobody is answered; the file may be changed while the service runs".into(),
        );
    }
    let opened = prepare::open(plan, ctl)?;
    prepare::in_time(&opened, world)?;
    let metrics = Metrics::open(plan.metrics.as_deref())?;
    let budget = Budget::open(&plan.budget, &opened.offer.public().map_err(Error::Setup)?, world)?;
    budget.news.iter().for_each(|news| ctl.note(news.clone()));
    let audit = Audit::open(&plan.audit, world.time.clone())?;
    let answers = Answers::new(opened, budget, audit, metrics, (plan.workers, plan.memory), world);
    answers.set_guests(&plan.guests);
    // Before the files are read: a change in between is then seen as one.
    let mut known = Known::of(plan);
    let security = link::security(plan.identity.as_ref(), ctl);
    ctl.check()?;
    let security = security?;
    known.shown = match &security {
        Security::Tls { identity } => Some(identity.fingerprint()),
        Security::Insecure => None,
    };
    let mut endpoint = Endpoint::new(plan.me.clone(), link::name(&plan.service.id), security);
    let Some(listen) = &plan.listen else {
        let why = "say where clients may connect, for example listen = \"0.0.0.0:5400\"".to_owned();
        return Err(Error::Missing { field: "mine.listen", why });
    };
    endpoint.listen = Some(listen.clone());
    endpoint.gateways = plan.gateways.clone();
    (endpoint.window, endpoint.unasked) = (link::WINDOW, Some(link::UNASKED));
    let hard = Arc::new(Stop { ctl: ctl.clone(), now: AtomicBool::new(false) });
    let door = world.connector.door(endpoint, clients(&plan.guests)?, limits(plan), hard.clone())?;
    answers.metrics.set_ready(true);
    if let Some(address) = answers.metrics.address() {
        ctl.note(vesica_net::status::opened_in_words(address));
    }
    let what = answers.offer.kind().suite().counts();
    let until = answers.stock().until().map(|until| format!(", which clients take until {}", date(until)));
    let (rows, until) = (counted(answers.stock().rows(), what), until.unwrap_or_default());
    ctl.note(format!("serving {rows}{until}; offer {}", spelled(&answers.offer.hash())));
    let (door, answers, hard) = (&*door, &answers, &*hard);
    scope(&*world.turns, |threads| {
        threads.spawn(|| watch(door, answers, (plan, world), known, again, hard, ctl));
        let mut session = 0;
        while let Some(link) = door.next().or_else(stopped)? {
            let who = link.peer().clone();
            session += 1;
            let talked = ctl.of_session(session);
            let talk = move || converse(answers, link, &talked);
            // A system without threads to give is no reason to stop: the client's connection is dropped, and it may come again.
            if let Err(error) = threads.start(&format!("client {who}"), talk) {
                ctl.note(format!("{who} is not answered: the system gives no thread ({error})"));
            }
        }
        Ok::<(), Error>(())
    })?;
    if let Err(error) = answers.budget.mark(true) {
        ctl.note(error.to_string());
    }
    ctl.note("the service has stopped".into());
    Ok(())
}

/// Being stopped while nobody is there is no error.
fn stopped(error: vesica_net::Error) -> Result<Option<Box<dyn PeerLink>>, Error> {
    match error {
        vesica_net::Error::Session(vesica_session::Error::Cancelled) => Ok(None),
        error => Err(error.into()),
    }
}

/// Looks for changes until the service ends; then closes the door, and after a while ends those who are still at work.
fn watch(
    door: &dyn ClientDoor,
    answers: &Answers,
    (plan, world): (&ServePlan, &World),
    mut known: Known,
    again: &(dyn Fn() -> Option<Again> + Sync),
    hard: &Stop,
    ctl: &Control,
) {
    let (mut wrong, mut doubted, mut unmarked, mut over) = (None, false, false, false);
    let ends = || ctl.is_cancelled() || plan.once && answers.goodbyes() > 0;
    thread::scope(|programs| {
        let mut renewal = Renewal::default();
        loop {
            world.time.sleep(LOOK, &ends);
            if ends() {
                break;
            }
            answers.metrics.set_links(door.links());
            let read = again();
            let asked = read.as_ref().is_some_and(|read| read.asked);
            let read = read.map(|read| read.plan);
            let edited = read.is_some();
            match read.transpose() {
                Ok(plan) => {
                    let changed = known.renew(plan);
                    if edited || changed.guests {
                        let taken = clients(&known.guests).and_then(|clients| Ok(door.set_clients(clients)?));
                        ctl.note(match taken {
                            Ok(()) => {
                                answers.set_guests(&known.guests);
                                let clients = counted(known.guests.len() as u64, "names");
                                format!(
                                    "the list of clients has {clients} now; whatever else the file says takes a restart"
                                )
                            }
                            Err(error) => format!("the list of clients stays as it was: {error}"),
                        });
                    }
                    if asked || changed.identity {
                        renewal.is_due();
                    }
                }
                Err(error) => {
                    ctl.note(format!("the list of clients stays as it was: {error}"));
                    // What was asked for does not wait for a file that can be read.
                    if asked {
                        renewal.is_due();
                    }
                }
            }
            if let Some(files) = &known.identity
                && let Some(read) = renewal.look(programs, files, &ends)
            {
                let shown = read.and_then(|identity| Ok(door.set_identity(&identity).map(|()| identity)?));
                renewal.note(shown, &mut known.shown, ctl);
            }
            if let Err(error) = answers.budget.mark(false).map_err(|error| error.to_string())
                && !std::mem::replace(&mut unmarked, true)
            {
                ctl.note(error);
            }
            let doubt = answers.budget.doubt();
            if let Some(words) = doubt.as_ref().filter(|_| !doubted) {
                ctl.note(words.clone());
            }
            doubted = doubt.is_some();
            let past = answers.stock().until().filter(|until| world.time.wall() >= *until);
            if let Some(until) = past.filter(|_| !over) {
                let until = date(until);
                ctl.note(format!(
                    "clients took what is served until {until}, and refuse it now; run `vesica prepare` again"
                ));
            }
            over = past.is_some();
            match answers.reload() {
                Ok(None) => wrong = None,
                Ok(Some(keys)) => ctl.note(format!("a new state of the store is served, with {keys} keys")),
                // Said once, and not every second.
                Err(error) => {
                    let words = format!("the store stays as it was: {error}");
                    if wrong.as_ref() != Some(&words) {
                        ctl.note(words.clone());
                        wrong = Some(words);
                    }
                }
            }
        }
    });
    answers.metrics.set_ready(false);
    door.shut();
    world.time.sleep(GRACE, &|| answers.at_work() == 0);
    hard.now.store(true, Ordering::SeqCst);
}

/// By what the service and its clients are known: the files of certificates and keys, and what they were like when they were last read.
struct Known {
    identity: Option<(PathBuf, Option<KeyPlace>)>,
    /// The certificate that is shown, once there is one.
    shown: Option<Fingerprint>,
    guests: Vec<GuestPlan>,
    /// The files of this party, and those of authorities.
    stamps: [Vec<Stamp>; 2],
}

/// When the private key and its certificate are read again, and what came of it.
#[derive(Default)]
struct Renewal<'scope> {
    /// In how many looks they are read, if they are to be.
    due: Option<u32>,
    /// How many looks that were after the last failure.
    pause: u32,
    /// The last failure, until they could be read again.
    failed: Option<String>,
    /// A program that is to print the key. It may take a minute, and holds nothing else up.
    program: Option<ScopedJoinHandle<'scope, Result<Identity, Error>>>,
}

impl<'scope> Renewal<'scope> {
    /// They are to be read now.
    fn is_due(&mut self) {
        (self.due, self.pause) = (Some(0), 0);
    }

    /// Reads them if it is time to. What was read, if that came to its end.
    fn look(
        &mut self,
        programs: &'scope Scope<'scope, '_>,
        files: &(PathBuf, Option<KeyPlace>),
        stop: &'scope (dyn Fn() -> bool + Sync),
    ) -> Option<Result<Identity, Error>> {
        if let Some(program) = self.program.take_if(|program| program.is_finished()) {
            return Some(
                program.join().unwrap_or_else(|_| Err(Error::bug("the thread of a key's program has panicked"))),
            );
        }
        self.due = self.due.map(|looks| looks.saturating_sub(1));
        if self.program.is_some() || self.due.take_if(|looks| *looks == 0).is_none() {
            return None;
        }
        let read = |files: &_| Ok(vesica_job::rooms::identity(files, stop)?);
        if !matches!(files.1, Some(KeyPlace::By(_))) {
            return Some(read(files));
        }
        let files = files.clone();
        match thread::Builder::new().name("key".into()).spawn_scoped(programs, move || read(&files)) {
            Ok(program) => self.program = Some(program),
            Err(error) => return Some(Err(Error::Setup(format!("the system gives no thread ({error})")))),
        }
        None
    }

    /// Tells what came of it. After a failure they are read again later: a vault may be away for a moment, and no file changes when it is back.
    fn note(&mut self, read: Result<Identity, Error>, shown: &mut Option<Fingerprint>, ctl: &Control) {
        match read {
            Ok(identity) => {
                let failed = self.failed.take().is_some();
                let print = identity.fingerprint();
                let until = identity.expires().map(|day| format!(", valid until {day}")).unwrap_or_default();
                match shown.replace(print) == Some(print) {
                    // Read again, and the same: nothing to say.
                    true if !failed => {}
                    true => ctl.note(format!("the certificate could be read again, and is still {print}{until}")),
                    false => ctl.note(format!("new connections are shown the certificate {print}{until}")),
                }
            }
            Err(error) => {
                self.pause = (2 * self.pause).clamp(PAUSES.0, PAUSES.1);
                self.due.get_or_insert(self.pause);
                let error = error.to_string();
                // Said once, and not each time.
                if self.failed.as_ref() != Some(&error) {
                    ctl.note(format!("the certificate that is shown stays as it was, and is tried again: {error}"));
                    self.failed = Some(error);
                }
            }
        }
    }
}

/// What tells one state of a file from the next: none if it is not there.
type Stamp = Option<(SystemTime, u64, u64)>;

/// Which files have changed.
struct Changes {
    identity: bool,
    guests: bool,
}

impl Known {
    fn of(plan: &ServePlan) -> Self {
        let (identity, guests) = (plan.identity.clone(), plan.guests.clone());
        let mut known = Self { identity, shown: None, guests, stamps: Default::default() };
        known.stamps = known.look();
        known
    }

    fn look(&self) -> [Vec<Stamp>; 2] {
        let own = self
            .identity
            .iter()
            .flat_map(|(identity, key)| [Some(identity.as_path()), key.as_ref().and_then(KeyPlace::file)]);
        let authorities = self.guests.iter().filter_map(|guest| match &guest.trust {
            Some(TrustPlan::Ca(file)) => Some(file),
            _ => None,
        });
        [own.flatten().map(stamp).collect(), authorities.map(|path| stamp(path)).collect()]
    }

    /// From now on it is what `plan` says, if there is a new one. Says which files are not what they were.
    fn renew(&mut self, plan: Option<ServePlan>) -> Changes {
        let mut identity = false;
        if let Some(plan) = plan {
            identity = self.identity != plan.identity;
            (self.identity, self.guests) = (plan.identity, plan.guests);
        }
        // Looked at before they are read: a change in between is then seen as one.
        let now = self.look();
        let [own, authorities] = std::mem::replace(&mut self.stamps, now);
        Changes { identity: identity || own != self.stamps[0], guests: authorities != self.stamps[1] }
    }
}

fn stamp(path: &Path) -> Stamp {
    let file = path.metadata().ok()?;
    Some((file.modified().ok()?, file.len(), file.ino()))
}

/// How many the door lets in.
pub fn limits(plan: &ServePlan) -> Limits {
    Limits { links: plan.connections, links_of_one: LINKS_OF_ONE, ..Limits::default() }
}

/// The clients as the door knows them.
///
/// # Errors
/// Certificates of authorities that cannot be read.
pub fn clients(guests: &[GuestPlan]) -> Result<Vec<Client>, Error> {
    let mut authorities = Authorities::default();
    let client = |guest: &GuestPlan| {
        let trust = authorities.trust(guest.trust.as_ref(), &Party::new(1, &guest.name))?;
        Ok(Client { name: guest.name.clone(), trust })
    };
    guests.iter().map(client).collect()
}

/// What the door's connections ask whether to end at once, and tell what happens.
struct Stop {
    ctl: Control,
    now: AtomicBool,
}

impl vesica_net::Control for Stop {
    fn event(&self, event: &vesica_net::Event) {
        self.ctl.note(event.to_string());
    }

    fn cancelled(&self) -> bool {
        self.now.load(Ordering::SeqCst)
    }
}
