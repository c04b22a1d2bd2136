//! What a client has of an epoch: it looks rows up with that.

use super::copying::{self, Copying};
use super::epoch::{self, CHUNK, Epoch, SKEW, date};
use super::places::{Place, Places};
use super::{Client, Retrieval, Scheme, has_reals, reals, unpad};
use crate::error::Error;
use crate::messages::{Counter, MOST_KEYS};
use crate::offer::{Offer, hex};
use crate::output::{Hit, Lost, Texts, Value};
use crate::suite::{Asked, Copied, Fetched};
use crate::values;
use crate::wants::Wants;
use std::fs::File;
use vesica_job::rooms::Clock;
use vesica_job::{Control, Event, World};
use vesica_session::SessionRng;
use vesica_spec::service::AskPlan;

/// The part of its time, one in so many, in which a client's user is told that an epoch ends.
const SOON: u32 = 10;

/// What a client has of an epoch.
struct Cache {
    offer: Offer,
    epoch: Epoch,
    scheme: Box<dyn Retrieval>,
    client: Box<dyn Client>,
    places: Places,
    /// Held as long as this process uses the cache.
    _lock: File,
}

/// Brings the cache to the epoch that the server has.
///
/// # Errors
/// Faults of the plan's files; a server that sends what cannot be.
pub fn copy(
    scheme: &'static dyn Scheme,
    plan: &AskPlan,
    offer: &Offer,
    described: &[u8],
    counter: &mut Counter<'_>,
    world: &World,
    ctl: &Control,
) -> Result<Fetched, Error> {
    let epoch = Epoch::decode(offer, described).map_err(Error::Sent)?;
    let retrieval = scheme.retrieval(offer.by(), &epoch)?;
    std::fs::create_dir_all(&plan.cache).map_err(Error::file("cannot make the folder", &plan.cache))?;
    let lock = copying::lock(&plan.cache)?;
    // A server that could go back would see what a client asks of two tables, one of which it may have made up. A number names one state.
    let kept = Epoch::load(offer, &plan.cache);
    match &kept {
        Ok(kept) if kept.number > epoch.number || kept.number == epoch.number && *kept != epoch => {
            let (found, kept, cache) = (epoch.spelled(), kept.spelled(), plan.cache.clone());
            let remedy = format!("remove {} and run the command again", cache.display()).into();
            return Err(Error::Older { server: counter.server(), found, kept, cache, remedy });
        }
        Err(error) if plan.cache.join(epoch::NAME).exists() => match Epoch::named_in(&plan.cache) {
            Some((named, number)) if named != hex(&offer.hash()) => {
                // Numbers begin anew with an offer, so this is no fault; but whoever made the new one could also hide an old table behind it.
                if number > epoch.number {
                    ctl.note(format!(
                        "{} has epoch {number} of another offer, and {} serves {} of this one. So nothing here tells whether it went back to an \
                         older table",
                        plan.cache.display(),
                        counter.server(),
                        epoch.spelled()
                    ));
                }
            }
            _ => ctl.note(format!(
                "{error}. So nothing here tells whether {} went back to an older table",
                counter.server()
            )),
        },
        _ => {}
    }
    if let Some((made, until)) = epoch.times() {
        let now = world.time.wall();
        if now >= until || made > now + SKEW {
            let (server, found, times) = (counter.server(), epoch.spelled(), Box::new([made, until, now].map(date)));
            return Err(Error::NotInTime { server, found, times });
        }
        if until.duration_since(now).is_ok_and(|left| left <= until.duration_since(made).unwrap_or_default() / SOON) {
            ctl.note(format!(
                "{} serves {}, which clients take until {}: ask its operator to run `vesica prepare` before that",
                counter.server(),
                epoch.spelled(),
                date(until)
            ));
        }
    }
    let needed = retrieval.kept(epoch.copy + epoch.log);
    if needed > plan.cache_size {
        return Err(Error::Setup(format!(
            "mine.cache_size: the service needs {needed} bytes here, and {} are allowed; allow more, or ask the server's operator",
            plan.cache_size
        )));
    }
    let is_known = Offer::load(&plan.cache).is_ok_and(|known| known == *offer);
    // It was not asked for, and is an assumption more: said once.
    if plan.hint.is_none() && offer.kind().signs() && !is_known {
        ctl.note(format!(
            "{} serves {}: what is looked up stays hidden if circular security holds besides ring-LWE. Write service.hint = \"copied\" to refuse \
             services without a hint",
            counter.server(),
            offer.kind()
        ));
    }
    let copied = retrieval.client(&mut Copying { plan, offer, epoch: &epoch, counter, world, ctl })?;
    // What is on the disk already is not written again: a disk takes as long for that as the rest of a lookup.
    if !is_known {
        offer.save(&plan.cache)?;
    }
    if kept.ok().as_ref() != Some(&epoch) {
        vesica_job::rooms::replace(&plan.cache.join(epoch::NAME), &epoch.encode())?;
    }
    let places = Places::new(offer, &epoch, scheme, copied.filter)?;
    let news = copied.news.map(|what| format!("fetched {}: {what}", epoch.spelled()));
    let (rows, is_silent) = (epoch.rows, retrieval.sizes().query == 0 && !offer.has_function());
    let (offer, scheme, client) = (offer.clone(), retrieval, copied.client);
    Ok(Fetched { rows, news, is_silent, copied: Box::new(Cache { offer, epoch, scheme, client, places, _lock: lock }) })
}

impl Copied for Cache {
    fn public(&self) -> Result<Vec<u8>, String> {
        self.epoch.public()
    }

    fn prepare(&self, plan: &AskPlan, lookups: u64, _: &mut Clock<'_>) -> Result<(), Error> {
        room_for_answers(plan.memory, &*self.scheme, self.epoch.width, lookups * self.places.each() as u64)
    }

    fn retrieve(
        &mut self,
        asked: Asked<'_>,
        counter: &mut Counter<'_>,
        clock: &mut Clock<'_>,
        ctl: &Control,
    ) -> Result<(), Error> {
        let mut rng = asked.world.rng()?;
        let places = self.places.of(&self.epoch, asked.wants, asked.outputs, asked.lookups, &mut rng)?;
        let total = Some(places.len() as u64);
        clock.phase("retrieve", "records", total, || self.fetch(asked, &places, counter, &mut rng, ctl))
    }

    fn find<'a>(&'a mut self, wants: &Wants, outputs: &[[u8; 32]]) -> Result<Vec<Hit<'a>>, Error> {
        let records = self.client.records()?;
        let rows = outputs.iter().zip(records.chunks_exact(self.places.each())).enumerate();
        let hits = rows.filter_map(|(want, (output, records))| {
            let came = match wants.numbers.get(want) {
                Some(&number) if number >= self.epoch.rows => Err(Lost::NoSuchRow),
                _ => self.came(output, records)?,
            };
            Some(Hit { want, came: came.map(Value::Texts) })
        });
        Ok(hits.collect())
    }
}

impl Cache {
    /// Fetches records, one for each place.
    fn fetch(
        &mut self,
        Asked { plan, world, .. }: Asked<'_>,
        places: &[Place],
        counter: &mut Counter<'_>,
        rng: &mut SessionRng,
        ctl: &Control,
    ) -> Result<(), Error> {
        let Self { offer, epoch, scheme, client, .. } = self;
        let (name, sizes, together) = (epoch.name(), scheme.sizes(), scheme.together() as usize);
        let mut left = places;
        loop {
            let owed = vec![None; client.owed()];
            let part = if owed.is_empty() {
                let (part, rest) = left.split_at(left.len().min(client.left()).min(MOST_KEYS as usize));
                left = rest;
                part
            } else {
                &owed
            };
            if part.is_empty() {
                if left.is_empty() {
                    return Ok(());
                }
                client.renew(&mut Copying { plan, offer, epoch, counter, world, ctl })?;
                continue;
            }
            let begin = client.begin(rng);
            let mut ch = match sizes.query {
                0 => None,
                _ => Some(counter.retrieve(name, part.len() as u64)?),
            };
            if let Some(ch) = &mut ch {
                begin.chunks(CHUNK).try_for_each(|piece| ch.send(piece))?;
                if client.reply_bytes() > 0 {
                    client.reply(&ch.recv_exact(client.reply_bytes())?)?;
                }
            }
            for round in part.chunks(together) {
                ctl.check()?;
                let queries = client.round(round, rng)?;
                let answers = match &mut ch {
                    None => Vec::new(),
                    Some(ch) => {
                        ch.send(&queries)?;
                        ch.recv_exact(round.len() * sizes.answer)?
                    }
                };
                client.take(&answers)?;
            }
            ctl.event(Event::Done((places.len() - left.len()) as u64));
        }
    }

    /// What came of a row, by what opens it and its records; none if it is not there.
    fn came(&self, output: &[u8; 32], records: &[Result<Vec<u8>, Lost>]) -> Option<Result<Texts, Lost>> {
        let bodies = self.places.bodies(output, records.iter().flatten().map(Vec::as_slice));
        let lost = records.iter().find_map(|record| record.as_ref().err().copied());
        match bodies.iter().find_map(|body| self.open(output, body)) {
            Some(texts) => Some(Ok(texts)),
            None if !bodies.is_empty() => Some(Err(Lost::Unreadable)),
            None => lost.map(Err),
        }
    }

    /// The values in a body; none if it is not the body of this row, or cannot be read.
    fn open(&self, output: &[u8; 32], body: &[u8]) -> Option<Texts> {
        let Self { offer, epoch, places, .. } = self;
        let columns = offer.values.len();
        if columns == 0 {
            return Some(Vec::new());
        }
        if has_reals(offer.kind()) {
            return reals::decode(&epoch.salt(), output, body, columns);
        }
        if offer.has_function() {
            let value = vesica_store::open_value(output, &places.salt(epoch, output), body)?;
            return values::decode(&value, columns);
        }
        values::decode(unpad(&epoch.salt(), output, body)?, columns)
    }
}

/// Fails if what so many queries leave at the client does not fit in memory. Answers are decoded when the server has gone, so until then all
/// of them are held, and what each is decoded with. Of each record, which has `width` bytes, there are three copies at most: in a window or
/// an answer, as it was decoded, and as values.
fn room_for_answers(memory: u64, scheme: &dyn Retrieval, width: u32, queries: u64) -> Result<(), Error> {
    // Answers are taken into a window as they come.
    let answer = if scheme.has_windows() { 0 } else { scheme.sizes().answer as u64 };
    let bytes = queries.saturating_mul(answer + scheme.secret_bytes() + 3 * u64::from(width));
    if bytes > memory {
        return Err(Error::Setup(format!(
            "mine.memory: the answers to {queries} queries, with what they are decoded by, have {bytes} bytes, and {memory} are allowed; give it more, or \
             ask for fewer rows at a time"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::desk::tests::house_of;
    use super::super::retrieval;
    use super::*;
    use vesica_spec::service::ServiceProtocol;

    /// A table of 1000 rows, whose answers have some hundred bytes, and the secrets of its queries four kibibytes.
    #[test]
    fn a_client_counts_the_secrets_that_it_holds() {
        let (_dir, offer, epoch) = house_of(ServiceProtocol::SimplePir, 20);
        let scheme = retrieval(&offer, &epoch).unwrap();
        assert!(scheme.sizes().answer < 200);
        let memory = 1 << 30;
        room_for_answers(memory, &*scheme, epoch.width, 200_000).unwrap();
        let why = room_for_answers(memory, &*scheme, epoch.width, 1_000_000).unwrap_err().to_string();
        assert!(why.contains("1000000 queries") && why.contains("mine.memory"), "{why}");
    }

    /// Records of a mebibyte, of a table that a client has a copy of, or a window into: they were held without being counted, and the server
    /// chooses how long they are.
    #[test]
    fn a_client_counts_the_records_that_it_holds() {
        for protocol in [ServiceProtocol::Download, ServiceProtocol::Piano] {
            let (_dir, offer, epoch) = house_of(protocol, 20);
            let scheme = retrieval(&offer, &epoch).unwrap();
            room_for_answers(1 << 30, &*scheme, 1 << 20, 340).unwrap();
            let why = room_for_answers(1 << 30, &*scheme, 1 << 20, 342).unwrap_err().to_string();
            assert!(why.contains("342 queries"), "{why}");
        }
    }
}
