//! A conversation with the server, from the client's side: what it copies before it asks, and what it asks for then.

use crate::client::day::Texts;
use crate::client::evaluate::{KEPT_AT_ONCE, evaluate};
use crate::client::kept::{self, Kept, Known};
use crate::client::local::{read, rules_of};
use crate::client::output::{room, takes};
use crate::error::Error;
use crate::link;
use crate::messages::{Counter, MOST_KEYS, Question};
use crate::offer::Offer;
use crate::retrieve::Copying;
use crate::suite::{Asked, Copied, Fetched};
use crate::wants::Wants;
use vesica_job::rooms::Clock;
use vesica_job::{Control, Io, World};
use vesica_net::PeerLink;
use vesica_oprf::function::ClientFunction;
use vesica_spec::Rule;
use vesica_spec::service::{AskPlan, By};
use vesica_table::Table;

/// What a client has after it fetched, in words that a user is told.
pub struct Brought {
    /// Keys or rows that can be looked up.
    pub rows: u64,
    /// Which of the two they are.
    pub of: &'static str,
    /// What was copied now; none if nothing is new.
    pub new: Option<String>,
}

/// Copies what the plan's service has for its clients into the cache; goes on where an earlier attempt stopped.
///
/// # Errors
/// Faults of the plan's files; those of connecting; a server with another offer, or one that sends what cannot be.
pub fn fetch(plan: &AskPlan, world: &World, ctl: &Control) -> Result<Brought, Error> {
    let mut clock = Clock::start(ctl);
    let link = clock.wait("connect", link::call(plan, world, ctl)?)?;
    let fetched = || {
        let (mut counter, offer, Fetched { rows, news, .. }) = update(plan, &*link, world, ctl)?;
        part(&mut counter, &*link)?;
        Ok(Brought { rows, of: offer.kind().suite().counts(), new: news })
    };
    fetched().inspect_err(|error| link::leave(&*link, error))
}

/// What is kept from run to run, and what of it is about this table.
pub type Recalled<'a> = (Kept<'a>, Known);

/// What came of the conversation.
pub struct Answered {
    /// What the service is.
    pub offer: Offer,
    /// The copy that was asked with.
    pub copied: Box<dyn Copied>,
    /// What was done to the keys of each column.
    pub rules: Vec<Vec<Rule>>,
    /// What was asked for.
    pub wants: Wants,
    /// What opens the values of each want: the function at it, or where there is none its digest.
    pub outputs: Vec<[u8; 32]>,
    /// How many lookups the server saw.
    pub lookups: u64,
    /// On how many lanes at once the function was asked for.
    pub lanes: u64,
    /// Keys or rows of the server.
    pub server_rows: u64,
}

/// Copies what the cache lacks, and asks. When it returns, the server has heard goodbye, and nothing that came was looked at.
///
/// # Errors
/// Those of the connection and the kept file; a server that refuses, or breaks the protocol; an output that cannot have the columns of the values,
/// or whose disk has no room for them.
pub fn converse(
    plan: &AskPlan,
    (io, removed): (&Io, Option<&dyn Table>),
    (mut rules, mut wants, kept): (Vec<Vec<Rule>>, Wants, &mut Option<Recalled<'_>>),
    link: &dyn PeerLink,
    clock: &mut Clock<'_>,
    ctl: &Control,
) -> Result<Answered, Error> {
    let (mut counter, offer, fetched) = update(plan, link, &io.world, ctl)?;
    let Fetched { rows: server_rows, news, is_silent, public, mut copied } = fetched;
    news.into_iter().for_each(|news| ctl.note(news));
    if let Some((kept, _)) = kept {
        kept.check(&counter.server(), &copied.state())?;
    }
    // Where everything is here already, the server goes before a row is looked up: it does not see how many there are.
    if is_silent {
        part(&mut counter, link)?;
    }
    // The columns that come with a row are known, and where they go must be good before the table is read again, and before rows are paid for.
    takes(plan, io, &offer.values)?;
    if plan.by == By::Key {
        let now = rules_of(plan, &offer.rules)?;
        if now != rules {
            let past = kept.as_ref().map(|(kept, _)| kept.past());
            let (anew, recalled) = read(plan, (&*io.table, removed), &now, past, clock, ctl)?;
            (wants, rules) = (anew, now);
            if let (Some((_, known)), Some(recalled)) = (kept.as_mut(), recalled) {
                *known = recalled;
            }
        }
    } else {
        wants.replace_absent(server_rows, &mut io.world.rng()?);
    }
    kept.as_mut().map_or(Ok(()), |(_, known)| known.judged(ctl))?;
    let lookups = padded(kept.as_ref().map_or(wants.digests.len(), |(_, known)| known.new.len()), plan.batch);
    let texts = kept.as_ref().and_then(|(_, known)| known.texts.as_ref()).map_or(0, Texts::bytes);
    let kept_bytes =
        if kept.is_some() { texts.saturating_add(kept::bytes(wants.digests.len() as u64, lookups)) } else { 0 };
    let bytes = if plan.day.is_some() { texts } else { io.table.bytes().unwrap_or(0) };
    room(plan, io, &offer, (wants.rows - wants.empty, bytes), kept_bytes)?;
    copied.prepare(plan, lookups, clock)?;
    let (outputs, lanes) = if offer.has_function() {
        let function = function(&offer, public)?;
        // Where answers are kept, what was asked for before is not asked for again.
        let (mut log, new, mut outputs, most) = match kept {
            None => (None, None, vec![[0; 32]; wants.digests.len()], MOST_KEYS),
            Some((kept, known)) => {
                kept.recalled();
                kept.begin(&offer)?;
                (Some(kept), Some(&known.new[..]), std::mem::take(&mut known.outputs), KEPT_AT_ONCE)
            }
        };
        let want = |at: usize| new.map_or(at, |new| new[at] as usize);
        let mut places = 0..new.map_or(wants.digests.len(), <[_]>::len);
        let keys = places.clone().map(|at| wants.digests[want(at)]);
        // Made-up keys and their answers are written like others: the server sees how long that takes.
        let take = |keys: &[_], answers: &[[u8; 32]]| {
            log.as_mut().map_or(Ok(()), |kept| kept.answered(keys, answers))?;
            answers.iter().zip(&mut places).for_each(|(answer, at)| outputs[want(at)] = *answer);
            Ok(())
        };
        let all = (keys, lookups, most);
        let evaluate = || evaluate((plan, &io.world), &*function, all, &mut counter, take, ctl);
        let lanes = clock.phase("ask", "keys", Some(lookups), evaluate)?;
        (outputs, lanes)
    } else {
        (wants.digests.clone(), 1)
    };
    copied.retrieve(
        Asked { plan, wants: &wants, outputs: &outputs, lookups, world: &io.world },
        &mut counter,
        clock,
        ctl,
    )?;
    if !is_silent {
        part(&mut counter, link)?;
    }
    Ok(Answered { offer, copied, rules, wants, outputs, lookups, lanes, server_rows })
}

/// Brings the cache to the state that the server has. Gives the line to the server, what the service is, and the copy.
///
/// # Errors
/// As [`fetch`].
fn update<'a>(
    plan: &AskPlan,
    link: &'a dyn PeerLink,
    world: &World,
    ctl: &Control,
) -> Result<(Counter<'a>, Offer, Fetched), Error> {
    let mut counter = Counter::open(link)?;
    let (offer, described) = counter.describe()?;
    let offer = Offer::taken(plan, &counter.server(), &offer)?;
    let mut copying = Copying { plan, offer: &offer, counter: &mut counter, world, ctl };
    let fetched = offer.kind().suite().copy(&described, &mut copying)?;
    Ok((counter, offer, fetched))
}

/// Says goodbye, and closes the connection in good order. No question can be put behind it.
///
/// # Errors
/// Those of the connection.
fn part(counter: &mut Counter<'_>, link: &dyn PeerLink) -> Result<(), Error> {
    counter.put(Question::End)?;
    Ok(link.close()?)
}

/// How many lookups the server sees of a client that has so many, and makes them a multiple of `batch`.
pub fn padded(lookups: usize, batch: u64) -> u64 {
    let least = if batch > 1 { 1 } else { 0 };
    (lookups as u64).max(least).next_multiple_of(batch)
}

/// The client's side of the function of an offer, with the public key of the state that is served.
///
/// # Errors
/// If its public key is none.
pub fn function(offer: &Offer, public: Result<Vec<u8>, String>) -> Result<Box<dyn ClientFunction>, Error> {
    let public = public.map_err(Error::Sent)?;
    vesica_suite::function::client(offer.curve, offer.verifiable.then_some(&public[..]))
        .map_err(|why| Error::Sent(format!("an offer that cannot be used: {why}")))
}
