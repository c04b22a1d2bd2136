//! Rows are looked up with what a client has of an epoch.
//!
//! They stand among the records at their numbers, in two buckets each, or in a filter, as the sum of four. So a row is one query or two, and what
//! comes for these is searched for it when the server has gone.

use super::epoch::{CHUNK, Epoch};
use super::{Client, Copying, Retrieval, Scheme, has_reals, misused, reals, unpad};
use crate::error::Error;
use crate::found::{Hit, Lost, Texts, Value};
use crate::messages::{Counter, MOST_KEYS, Question};
use crate::offer::Offer;
use crate::suite::{Asked, Copied, Earlier};
use crate::values;
use crate::wants::Wants;
use std::fs::File;
use vesica_job::rooms::Clock;
use vesica_job::{Control, Event};
use vesica_pir::bucket::Buckets;
use vesica_pir::keyword::Filter;
use vesica_pir::{Pir, PirError};
use vesica_session::SessionRng;
use vesica_spec::service::AskPlan;

/// What a client has of an epoch.
pub struct Cache {
    /// What the service is.
    pub offer: Offer,
    /// The state of its records.
    pub epoch: Epoch,
    /// What they are fetched by.
    pub scheme: Box<dyn Retrieval>,
    /// What asks with what was copied.
    pub client: Box<dyn Client>,
    /// Where rows stand.
    pub places: Places,
    /// Held as long as this process uses the cache.
    pub _lock: File,
}

impl Copied for Cache {
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

    fn find<'a>(
        &'a mut self,
        wants: &Wants,
        outputs: &[[u8; 32]],
        _: Option<Earlier<'_>>,
    ) -> Result<Vec<Hit<'a>>, Error> {
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
                client.renew(epoch, &mut Copying { plan, offer, counter, world, ctl })?;
                continue;
            }
            let begin = client.begin(rng);
            let mut ch = match sizes.query {
                0 => None,
                _ => Some(counter.put(Question::Retrieve { epoch: name, queries: part.len() as u64 })?),
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

/// What one query asks for: a sum of records, or anything, where nothing is wanted.
pub type Place = Option<Vec<u64>>;

/// Where rows stand.
pub enum Places {
    /// By number, each where its scheme puts it.
    Numbers(&'static dyn Scheme),
    /// By key, in one of two buckets.
    Buckets(Buckets),
    /// By key, as a sum of records.
    Filter(Box<Filter>),
}

impl Places {
    /// Queries that one row takes.
    pub fn each(&self) -> usize {
        if matches!(self, Places::Buckets(_)) { 2 } else { 1 }
    }

    /// What is asked for, for all wants in their order and then for what fills them up to `lookups`. That asks as a row does that is
    /// looked up: for one record, or by a filter for the sum of four.
    ///
    /// # Errors
    /// A bug if the table lacks a row that it says it has.
    pub fn of(
        &self,
        epoch: &Epoch,
        wants: &Wants,
        outputs: &[[u8; 32]],
        lookups: u64,
        rng: &mut SessionRng,
    ) -> Result<Vec<Place>, Error> {
        let all = lookups as usize * self.each();
        let mut places: Vec<Place> = Vec::with_capacity(all);
        match self {
            Places::Numbers(scheme) => {
                for &number in &wants.numbers {
                    let place = || scheme.place(epoch.records, &epoch.seed(), number);
                    let place = (number < epoch.rows).then(place).transpose();
                    places.push(place.map_err(|error| Error::bug(error.to_string()))?.map(|place| vec![place]));
                }
            }
            Places::Buckets(buckets) => {
                places.extend(outputs.iter().flat_map(|output| buckets.place(output).buckets).map(|at| Some(vec![at])));
            }
            Places::Filter(filter) => {
                places.extend(outputs.iter().map(|output| Some(filter.places(output).to_vec())));
            }
        }
        places.resize_with(all, || match self {
            Places::Filter(filter) => Some(filter.places(&rng.bytes()).to_vec()),
            _ => None,
        });
        Ok(places)
    }

    /// The bodies in the records of a row that may be its own.
    pub fn bodies<'a>(&self, output: &[u8; 32], records: impl Iterator<Item = &'a [u8]>) -> Vec<&'a [u8]> {
        match self {
            Places::Numbers(_) => records.collect(),
            Places::Buckets(buckets) => {
                let place = buckets.place(output);
                records.filter_map(|bucket| buckets.find(bucket, &place)).collect()
            }
            Places::Filter(filter) => records.filter_map(|sum| filter.open(output, sum)).collect(),
        }
    }

    /// The salt of the keys that the values of a row are sealed under.
    pub fn salt(&self, epoch: &Epoch, output: &[u8; 32]) -> [u8; 32] {
        match self {
            Places::Filter(filter) => filter.groups()[filter.group(output)].salt,
            _ => epoch.sealed(),
        }
    }
}

/// The messages of a scheme that answers a query with one message, and whose queries do not depend on each other.
pub trait Messages {
    /// What is kept of a query until its answer is decoded.
    type Secret;

    /// Begins a session: what follows until the next one is asked under the keys that this gives, if the scheme has any.
    fn session(&mut self, _: &mut SessionRng) -> Vec<u8> {
        Vec::new()
    }

    /// A query for the sum of some records, byte by byte modulo 256. Where there is no such sum, for the first of them.
    fn query(&mut self, records: &[u64], rng: &mut SessionRng) -> Result<(Self::Secret, Vec<u8>), PirError>;

    /// The record in an answer.
    fn decode(&self, secret: Self::Secret, answer: &[u8]) -> Result<Vec<u8>, PirError>;
}

/// A scheme that has no sessions, with what its client copied.
pub struct Held<P: Pir> {
    /// The scheme.
    pub scheme: P,
    /// What was copied.
    pub hint: P::Hint,
}

impl<P: Pir> Messages for Held<P> {
    type Secret = P::Secret;

    fn query(&mut self, records: &[u64], rng: &mut SessionRng) -> Result<(P::Secret, Vec<u8>), PirError> {
        self.scheme.query_sum(&self.hint, records, rng)
    }

    fn decode(&self, secret: P::Secret, answer: &[u8]) -> Result<Vec<u8>, PirError> {
        self.scheme.decode(&self.hint, secret, answer)
    }
}

/// The client of a scheme that has [`Messages`]: queries that were made, and their answers.
pub struct Linear<M: Messages> {
    messages: M,
    /// The secrets of each round, and the answers to it, one behind the other.
    rounds: Vec<(Vec<M::Secret>, Vec<u8>)>,
}

impl<M: Messages> Linear<M> {
    /// Nothing was asked yet.
    pub fn new(messages: M) -> Self {
        Self { messages, rounds: Vec::new() }
    }
}

impl<M: Messages> Client for Linear<M> {
    fn begin(&mut self, rng: &mut SessionRng) -> Vec<u8> {
        self.messages.session(rng)
    }

    fn round(&mut self, places: &[Place], rng: &mut SessionRng) -> Result<Vec<u8>, Error> {
        let (mut secrets, mut wire) = (Vec::with_capacity(places.len()), Vec::new());
        for place in places {
            let (secret, query) = self.messages.query(place.as_deref().unwrap_or(&[0]), rng).map_err(misused)?;
            secrets.push(secret);
            wire.extend_from_slice(&query);
        }
        self.rounds.push((secrets, Vec::new()));
        Ok(wire)
    }

    fn take(&mut self, answers: &[u8]) -> Result<(), Error> {
        let round = self.rounds.last_mut().ok_or_else(|| Error::bug("answers to no round"))?;
        round.1 = answers.to_vec();
        Ok(())
    }

    fn records(&mut self) -> Result<Vec<Result<Vec<u8>, Lost>>, Error> {
        let mut records = Vec::new();
        for (secrets, answers) in std::mem::take(&mut self.rounds) {
            let width = answers.len() / secrets.len();
            for (number, secret) in secrets.into_iter().enumerate() {
                records.push(match self.messages.decode(secret, &answers[number * width..][..width]) {
                    Ok(record) => Ok(record),
                    Err(PirError::Message(_)) => Err(Lost::Unreadable),
                    Err(error) => return Err(misused(error)),
                });
            }
        }
        Ok(records)
    }
}

/// A number that no record has, if none is asked for.
pub fn first(records: &[u64]) -> u64 {
    records.first().copied().unwrap_or(u64::MAX)
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
