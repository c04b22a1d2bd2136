//! The client's copy of what a service has before it asks: a store of tags, a hint, a table, or a window.

use crate::error::Error;
use crate::link;
use crate::messages::Counter;
use crate::offer::{Offer, spelled};
use crate::suite::Fetched;
use vesica_job::rooms::Clock;
use vesica_job::{Control, World};
use vesica_spec::service::{AskPlan, By};

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
    let endpoint = link::endpoint(plan, ctl)?;
    let link = clock.wait("connect", || link::connect(endpoint, world, ctl))?;
    let fetched = || {
        let mut counter = Counter::open(&*link)?;
        let (offer, Fetched { rows, news, .. }) = update(plan, &mut counter, world, ctl)?;
        counter.end()?;
        Ok(Brought { rows, of: offer.kind().suite().counts(), new: news })
    };
    fetched().inspect_err(|error| link::leave(&*link, error))
}

/// Brings the cache to the state that the server has. Gives what the service is, and the copy.
///
/// # Errors
/// As [`fetch`].
pub fn update(
    plan: &AskPlan,
    counter: &mut Counter<'_>,
    world: &World,
    ctl: &Control,
) -> Result<(Offer, Fetched), Error> {
    let (offer, described) = counter.describe()?;
    let offer = pinned(plan, &counter.server(), &offer)?;
    let fetched = offer.kind().suite().copy(plan, &offer, &described, counter, world, ctl)?;
    Ok((offer, fetched))
}

/// The offer that the server sent, if it is the one that the plan pins, or the plan takes any.
///
/// # Errors
/// [`Error::OtherOffer`], [`Error::Contradiction`], [`Error::Sent`].
fn pinned(plan: &AskPlan, server: &str, bytes: &[u8]) -> Result<Offer, Error> {
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
    if let (Some(offered), Some(mine)) = (offer.kind().hint, plan.hint)
        && offered != mine
    {
        return differ("service.hint", offered.name(), mine.name());
    }
    if let Some(retrieval) = offer.retrieval
        && retrieval.by != plan.by
    {
        return differ("service.by", retrieval.by.name(), plan.by.name());
    }
    if offer.has_function() && offer.curve != plan.curve {
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
