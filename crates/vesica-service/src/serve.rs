//! A service from its start to its stop: a door, a thread for each client that came through it, and what may change meanwhile.

use crate::answer::{Answers, converse};
use crate::audit::Audit;
use crate::budget::Budget;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::offer::spelled;
use crate::retrieve::epoch::date;
use crate::{link, prepare};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use vesica_job::numbers::counted;
use vesica_job::rooms::scope;
use vesica_job::{Control, World};
use vesica_net::{Client, ClientDoor, Endpoint, Fingerprint, Limits, PeerLink};
use vesica_spec::service::{GuestPlan, ServePlan};
use vesica_spec::{SpecError, TrustPlan};
use vesica_types::Party;

/// How often it is looked whether the list of clients or the store has changed.
const LOOK: Duration = Duration::from_secs(1);

/// Connections of one client at once, at most.
const LINKS_OF_ONE: usize = 4;

/// How long clients at work may go on when the service is stopped.
const GRACE: Duration = Duration::from_secs(30);

/// Serves the store of the plan until it is stopped, or a client is done where the plan says `once`. `again` reads the document again when its file
/// has changed, or when somebody asks for that. Then the list of clients is replaced, and the service's own certificate. The same happens when
/// the file of a certificate or of a private key has changed. What cannot be used of the new leaves the old as it was.
///
/// # Errors
/// Faults of the plan, its files and the store; of the door. A client that fails ends nothing but its own connection.
pub fn serve(
    plan: &ServePlan,
    world: &World,
    again: &(dyn Fn() -> Option<Result<ServePlan, SpecError>> + Sync),
    ctl: &Control,
) -> Result<(), Error> {
    if plan.guests.is_empty() {
        ctl.note(
            "mine.clients names nobody, so nobody is answered; the file may be changed while the service runs".into(),
        );
    }
    let opened = prepare::open(plan)?;
    prepare::in_time(&opened, world)?;
    let metrics = Metrics::open(plan.metrics.as_deref())?;
    let budget = Budget::open(&plan.budget, &opened.offer.public().map_err(Error::Setup)?, world)?;
    budget.news.iter().for_each(|news| ctl.note(news.clone()));
    let audit = Audit::open(&plan.audit, world.time.clone())?;
    let answers = Answers::new(opened, budget, audit, metrics, (plan.workers, plan.memory), world);
    answers.set_guests(&plan.guests);
    let mut endpoint =
        Endpoint::new(plan.me.clone(), link::name(&plan.service.id), link::security(plan.identity.as_ref())?);
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
    let what = answers.offer().kind().suite().counts();
    let until = answers.stock().until().map(|until| format!(", which clients take until {}", date(until)));
    let (rows, until) = (counted(answers.stock().rows(), what), until.unwrap_or_default());
    ctl.note(format!("serving {rows}{until}; offer {}", spelled(&answers.offer().hash())));
    let (door, answers, hard) = (&*door, &answers, &*hard);
    scope(&*world.turns, |threads| {
        threads.spawn(|| watch(door, answers, (plan, world), again, hard, ctl));
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
    if let Err(error) = answers.mark(true) {
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
    again: &(dyn Fn() -> Option<Result<ServePlan, SpecError>> + Sync),
    hard: &Stop,
    ctl: &Control,
) {
    let (mut wrong, mut doubted, mut unmarked, mut over) = (None, false, false, false);
    let mut known = Known::of(plan);
    let ends = || ctl.is_cancelled() || plan.once && answers.goodbyes() > 0;
    loop {
        world.time.sleep(LOOK, &ends);
        if ends() {
            break;
        }
        answers.metrics.set_links(door.links());
        let read = again();
        let asked = read.is_some();
        match read.transpose() {
            Ok(plan) => {
                let changed = known.renew(plan);
                if asked || changed.guests {
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
                if let Some(files) = known.identity.as_ref().filter(|_| asked || changed.identity) {
                    let shown = vesica_job::rooms::identity(files)
                        .map_err(Error::from)
                        .and_then(|identity| Ok(door.set_identity(&identity).map(|()| identity)?));
                    match shown {
                        // Read again, and the same: nothing to say.
                        Ok(identity) if known.shown == Some(identity.fingerprint()) => {}
                        Ok(identity) => {
                            known.shown = Some(identity.fingerprint());
                            let until =
                                identity.expires().map(|day| format!(", valid until {day}")).unwrap_or_default();
                            ctl.note(format!(
                                "new connections are shown the certificate {}{until}",
                                identity.fingerprint()
                            ));
                        }
                        Err(error) => ctl.note(format!("the certificate that is shown stays as it was: {error}")),
                    }
                }
            }
            Err(error) => ctl.note(format!("the list of clients stays as it was: {error}")),
        }
        if let Err(error) = answers.mark(false).map_err(|error| error.to_string())
            && !std::mem::replace(&mut unmarked, true)
        {
            ctl.note(error);
        }
        let doubt = answers.doubt();
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
    answers.metrics.set_ready(false);
    door.shut();
    world.time.sleep(GRACE, &|| answers.at_work() == 0);
    hard.now.store(true, Ordering::SeqCst);
}

/// By what the service and its clients are known: the files of certificates and keys, and what they were like when they were last read.
struct Known {
    identity: Option<(PathBuf, Option<PathBuf>)>,
    /// The certificate that is shown.
    shown: Option<Fingerprint>,
    guests: Vec<GuestPlan>,
    /// The files of this party, and those of authorities.
    stamps: [Vec<Stamp>; 2],
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
        let shown = plan.identity.as_ref().and_then(|files| vesica_job::rooms::identity(files).ok());
        let shown = shown.map(|identity| identity.fingerprint());
        let mut known =
            Self { identity: plan.identity.clone(), shown, guests: plan.guests.clone(), stamps: Default::default() };
        known.stamps = known.look();
        known
    }

    fn look(&self) -> [Vec<Stamp>; 2] {
        let own = self.identity.iter().flat_map(|(identity, key)| [Some(identity), key.as_ref()]).flatten();
        let authorities = self.guests.iter().filter_map(|guest| match &guest.trust {
            Some(TrustPlan::Ca(file)) => Some(file),
            _ => None,
        });
        [own.map(|path| stamp(path)).collect(), authorities.map(|path| stamp(path)).collect()]
    }

    /// From now on it is what `plan` says, if there is a new one. Says which files are not what they were.
    fn renew(&mut self, plan: Option<ServePlan>) -> Changes {
        if let Some(plan) = plan {
            (self.identity, self.guests) = (plan.identity, plan.guests);
        }
        // Looked at before they are read: a change in between is then seen as one.
        let now = self.look();
        let [own, authorities] = std::mem::replace(&mut self.stamps, now);
        Changes { identity: own != self.stamps[0], guests: authorities != self.stamps[1] }
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
    let client = |guest: &GuestPlan| {
        let trust = vesica_job::rooms::trust(guest.trust.as_ref(), &Party::new(1, &guest.name))?;
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
