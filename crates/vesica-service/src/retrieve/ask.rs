//! Looks rows up: from a client's table to its rows that were found, with their values.

use super::copy::{self, Copied, With};
use super::epoch::CHUNK;
use super::reveals;
use super::scheme::Scheme;
use super::window::Kept;
use super::{digest_of_index, reals, records_a_row, unpad};
use crate::ask::{
    Facts, Looked, Lost, Nothing, expected_rules, function, local, request, room, rules, sink, target, told, widened,
};
use crate::error::Error;
use crate::messages::{Counter, MOST_KEYS, MOST_LANES};
use crate::{link, values};
use arrow_array::cast::AsArray;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use vesica_job::report::Report;
use vesica_job::rooms::{Clock, KeyId, Share, digests};
use vesica_job::{Control, Event, Io};
use vesica_net::Link;
use vesica_pir::PirError;
use vesica_pir::piano::Intent;
use vesica_psi::unbalanced::BATCH;
use vesica_session::{Misbehaviour, SessionRng};
use vesica_spec::Rule;
use vesica_spec::service::{AskPlan, By, Private, ServiceProtocol};
use vesica_table::{Picks, Table, Written, gather};
use vesica_types::{KeyDigest, RowId};

/// What the client's table asks for: different rows of the server's, and which rows of the client's each is for.
#[derive(Default)]
struct Wants {
    /// Digests of keys or numbers.
    digests: Vec<[u8; 32]>,
    /// The numbers, where rows are looked up by number.
    numbers: Vec<u64>,
    /// Rows of the client's table, ascending, and which of the above each asks for.
    rows: Vec<(u64, u32)>,
    read: u64,
    empty: u64,
    places: HashMap<[u8; 32], u32>,
}

impl Wants {
    fn add(&mut self, row: u64, digest: [u8; 32]) -> bool {
        let next = self.digests.len() as u32;
        let place = *self.places.entry(digest).or_insert(next);
        if place == next {
            self.digests.push(digest);
        }
        self.rows.push((row, place));
        place == next
    }

    /// The numbers in the one column of the table.
    fn numbers(plan: &AskPlan, table: &dyn Table) -> Result<Self, Error> {
        let keys = plan.input.as_ref().map_or(&[][..], |(_, keys)| keys);
        let mut wants = Self::default();
        for batch in table.keys(keys, plan.workers)? {
            let batch = batch?;
            for text in batch.column(0).as_string::<i32>() {
                let (row, text) = (wants.read, text.unwrap_or_default().trim());
                wants.read += 1;
                if text.is_empty() {
                    wants.empty += 1;
                    continue;
                }
                let number = text.parse::<u64>().map_err(|_| {
                    let name = keys.first().map_or("", String::as_str);
                    Error::Setup(format!(
                        "row {} of {}: its {name:?} is no row number; write the number of a row of the server's table, from 0",
                        row + 1,
                        table.path().display()
                    ))
                })?;
                if wants.add(row, digest_of_index(number)) {
                    wants.numbers.push(number);
                }
            }
        }
        Ok(wants)
    }

    /// The keys of the table.
    fn keys(plan: &AskPlan, table: &dyn Table, rules: &[Vec<Rule>]) -> Result<Self, Error> {
        let keys = plan.input.as_ref().map_or(&[][..], |(_, keys)| keys);
        let mut wants = Self::default();
        for batch in table.keys(keys, plan.workers)? {
            let batch = batch?;
            let from = wants.read;
            let empty = digests(rules, &batch, |digest, place| {
                wants.add(from + place as u64, *digest);
            });
            wants.empty += empty;
            wants.read += batch.num_rows() as u64;
        }
        wants.rows.sort_unstable();
        Ok(wants)
    }

    /// What the plan's table asks for. By key, it is read by the rules that are expected: if the offer has others, it is read again.
    fn read(plan: &AskPlan, table: &dyn Table, rules: &[Vec<Rule>]) -> Result<Self, Error> {
        match plan.by {
            By::Index => Self::numbers(plan, table),
            By::Key => Self::keys(plan, table, rules),
        }
    }

    /// Puts something else in the place of each row number that a table of `rows` rows does not have. They are asked for like the others:
    /// the server chose how many rows it has, and a client that left now would say how its numbers compare with that.
    fn replace_absent(&mut self, rows: u64, rng: &mut SessionRng) {
        for (number, digest) in self.numbers.iter().zip(&mut self.digests) {
            if *number >= rows {
                *digest = rng.bytes();
            }
        }
    }

    /// The rows of the client's table whose wants were lost in this way.
    fn rows_of(&self, came: &[Came], lost: Lost) -> Vec<u64> {
        let is_lost = |(_, want): &&(u64, u32)| matches!(came[*want as usize], Err(found) if found == lost);
        self.rows.iter().filter(is_lost).map(|(row, _)| *row).collect()
    }

    /// How many lookups the server sees.
    fn padded(&self, batch: u64) -> u64 {
        let least = if batch > 1 { 1 } else { 0 };
        (self.digests.len() as u64).max(least).next_multiple_of(batch)
    }
}

/// Looks the rows of the plan's table up, and writes those that were found.
///
/// # Errors
/// Faults of the plan and its files, before the server is contacted where they can be seen; those of connecting; a server that refuses,
/// or breaks the protocol. Nothing is left of the output then.
pub fn ask(plan: &AskPlan, io: &Io, ctl: &Control) -> Result<Report, Error> {
    let mut clock = Clock::start(ctl);
    local(plan, io)?;
    let endpoint = link::endpoint(plan)?;
    // The table is read before the server hears of anything: how long that takes depends on rows that the server is not told of.
    let (table, expected) = (&*io.table, expected_rules(plan)?);
    let read = clock.phase("read", "rows", table.rows(), || Wants::read(plan, table, &expected))?;
    let link = clock.wait("connect", || link::connect(endpoint, ctl))?;
    let asked = retrieve(plan, io, (expected, read), &link, &mut clock, ctl);
    let Answered { mut copied, wants, outputs, records, lookups } =
        asked.inspect_err(|error| link::leave(&link, error))?;
    // The server has parted from this side. What is found and how long that takes, it does not see. Nor does anything fail by what is found:
    // the server wrote that, and would see a user who asks again, or complains.
    let came = clock.phase("find", "rows", None, || {
        let records = decoded(&mut copied.with, records)?;
        found(&copied, &wants, &outputs, &records)
    })?;
    drop(outputs);
    let (output, matched, matched_rows) =
        clock.phase("write", "rows", None, || write(plan, io, &copied, &wants, &came))?;
    let lost = [Lost::Unreadable, Lost::Unfetched, Lost::NoSuchRow].map(|lost| (lost, wants.rows_of(&came, lost)));
    let left_out = told(lost, plan, copied.epoch.rows, ctl);
    let names = [plan.server.name().to_owned(), plan.me.name().to_owned()];
    let private = copied.offer.retrieval.map(|retrieval| retrieval.private).unwrap_or_default();
    let facts = Facts {
        offer: &copied.offer,
        rows: wants.read,
        keys: wants.digests.len() as u64,
        empty: wants.empty,
        duplicates: wants.rows.len() as u64 - wants.digests.len() as u64,
        matched,
        matched_rows,
        output,
        left_out,
        reveals: reveals::of(copied.offer.protocol, private),
        rules: if plan.by == By::Index { Vec::new() } else { rules(plan, &copied.offer)? },
        units: lookups,
        lanes: 1,
        server_keys: copied.epoch.rows,
    };
    crate::ask::report(plan, facts, &link, &names, clock)
}

/// Records, or answers with them, in the order in which they were asked for.
type Records = Vec<Result<Vec<u8>, Lost>>;

/// What came of the conversation.
struct Answered {
    copied: Copied,
    wants: Wants,
    /// What opens the values of each want: the function at it, or where there is none its digest.
    outputs: Vec<[u8; 32]>,
    /// The records of each want, one behind the other.
    records: Records,
    lookups: u64,
}

fn retrieve(
    plan: &AskPlan,
    io: &Io,
    (expected, read): (Vec<Vec<Rule>>, Wants),
    link: &Link,
    clock: &mut Clock<'_>,
    ctl: &Control,
) -> Result<Answered, Error> {
    let mut counter = Counter::open(link)?;
    let mut copied = copy::update(plan, &mut counter, ctl)?;
    copied.news().into_iter().for_each(|news| ctl.note(news));
    let (protocol, private) =
        (copied.offer.protocol, copied.offer.retrieval.map(|retrieval| retrieval.private).unwrap_or_default());
    // Where everything is here already, the server goes before a row is looked up: it does not see how many there are.
    let is_silent = protocol == ServiceProtocol::Download && private == Private::Client;
    if is_silent {
        counter.end()?;
    }
    // The columns that come with a row are known now, and where they go must be good before rows are paid for.
    drop(sink(plan, io, &Nothing(copied.offer.values.clone()))?);
    let mut wants = match plan.by {
        By::Key => {
            let (table, rules) = (&*io.table, rules(plan, &copied.offer)?);
            match rules == expected {
                true => read,
                false => clock.phase("read", "rows", table.rows(), || Wants::read(plan, table, &rules))?,
            }
        }
        By::Index => read,
    };
    wants.replace_absent(copied.epoch.rows, &mut rng()?);
    let lookups = wants.padded(plan.batch);
    room(plan, io, &copied.offer, wants.rows.len() as u64)?;
    let scheme = Scheme::new(protocol, plan.by, &copied.epoch)?;
    room_for_answers(plan.memory, &scheme, copied.epoch.width, lookups * records_a_row(protocol, plan.by))?;
    let outputs = match private {
        Private::Client => wants.digests.clone(),
        Private::Both => clock.phase("ask", "keys", Some(lookups), || {
            evaluate(plan, &copied, &wants.digests, lookups, &mut counter, ctl)
        })?,
    };
    let each = records_a_row(protocol, plan.by);
    let mut places = places(plan, &copied, &wants, &outputs)?;
    // What fills the batch up asks as a row does that is looked up: for one record, or by a filter for the sum of four.
    let mut rng = rng()?;
    places.resize_with((lookups * each) as usize, || {
        copied.filter.as_ref().map(|filter| filter.places(&rng.bytes()).to_vec())
    });
    let total = Some(places.len() as u64);
    let mut records =
        clock.phase("retrieve", "records", total, || fetch(plan, &mut copied, &places, &mut counter, ctl))?;
    records.truncate(outputs.len() * each as usize);
    if !is_silent {
        counter.end()?;
    }
    Ok(Answered { copied, wants, outputs, records, lookups })
}

/// Fails if what so many queries leave at the client does not fit in memory. Answers are decoded when the server has gone, so until then all
/// of them are held, and what each is decoded with. Of each record, which has so many bytes, there are three copies at most: in a window or
/// an answer, as it was decoded, and as values.
fn room_for_answers(memory: u64, scheme: &Scheme, width: u32, queries: u64) -> Result<(), Error> {
    let answer = match scheme {
        // Its answers are taken into the window as they come.
        Scheme::Piano(_) => 0,
        scheme => scheme.sizes().answer as u64,
    };
    let bytes = queries.saturating_mul(answer + scheme.secret_bytes() + 3 * u64::from(width));
    if bytes > memory {
        return Err(Error::Setup(format!(
            "mine.memory: the answers to {queries} queries, with what they are decoded by, have {bytes} bytes, and {memory} are allowed; give it more, or \
             ask for fewer rows at a time"
        )));
    }
    Ok(())
}

/// What is asked for: a sum of records, or anything, where nothing is wanted.
type Place = Option<Vec<u64>>;

/// The records of each want.
fn places(plan: &AskPlan, copied: &Copied, wants: &Wants, outputs: &[[u8; 32]]) -> Result<Vec<Place>, Error> {
    let (protocol, rows) = (copied.offer.protocol, copied.epoch.rows);
    match (plan.by, &copied.filter) {
        (By::Index, _) => {
            let place = |&number: &u64| {
                let there = number < rows;
                there.then(|| copied.epoch.place(protocol, number).map(|place| vec![place])).transpose()
            };
            wants.numbers.iter().map(place).collect()
        }
        (By::Key, Some(filter)) => Ok(outputs.iter().map(|output| Some(filter.places(output).to_vec())).collect()),
        (By::Key, None) => {
            let buckets = copied.epoch.buckets(&copied.offer)?;
            Ok(outputs
                .iter()
                .flat_map(|output| buckets.place(output).buckets.map(|bucket| Some(vec![bucket])))
                .collect())
        }
    }
}

/// The function at each want, and at random ones up to `lookups`.
fn evaluate(
    plan: &AskPlan,
    copied: &Copied,
    wants: &[[u8; 32]],
    lookups: u64,
    counter: &mut Counter<'_>,
    ctl: &Control,
) -> Result<Vec<[u8; 32]>, Error> {
    let function = function(&copied.offer, copied.epoch.public())?;
    let mut rng = rng()?;
    let fillers = std::iter::repeat_with(|| rng.bytes()).take(lookups as usize - wants.len());
    let keys = wants.iter().copied().chain(fillers).map(KeyDigest);
    let asked: Vec<(KeyDigest, KeyId)> = keys.zip((0..).map(KeyId)).collect();
    let done = AtomicU64::new(0);
    let mut outputs = Vec::with_capacity(asked.len());
    for part in asked.chunks(MOST_KEYS as usize) {
        let lanes = (part.len() as u64).div_ceil(BATCH as u64).min(plan.workers as u64).min(MOST_LANES);
        let answered = request(&*function, part, lanes, counter, &done, ctl)?;
        outputs.extend(answered.iter().map(|asked| asked.output.0));
    }
    outputs.truncate(wants.len());
    Ok(outputs)
}

/// What came for `places`, of which those that are none are asked for for the looks alone: records, or answers that [`decoded`] takes.
fn fetch(
    plan: &AskPlan,
    copied: &mut Copied,
    places: &[Place],
    counter: &mut Counter<'_>,
    ctl: &Control,
) -> Result<Records, Error> {
    let scheme = Scheme::new(copied.offer.protocol, plan.by, &copied.epoch)?;
    let (name, sizes, mut rng) = (copied.epoch.name(), scheme.sizes(), rng()?);
    let mut records = Vec::with_capacity(places.len());
    if let With::Reader(reader) = &mut copied.with {
        for part in places.chunks(MOST_KEYS as usize) {
            let mut ch = match sizes.query {
                0 => None,
                _ => Some(counter.retrieve(name, part.len() as u64)?),
            };
            let keys = reader.session(&mut rng);
            for piece in keys.chunks(CHUNK) {
                if let Some(ch) = &mut ch {
                    ch.send(piece)?;
                }
            }
            for round in part.chunks(scheme.together() as usize) {
                ctl.check()?;
                let mut wire = Vec::with_capacity(round.len() * sizes.query);
                for place in round {
                    wire.extend_from_slice(&reader.query(place.as_deref().unwrap_or(&[0]), &mut rng).map_err(misused)?);
                }
                let answers = match &mut ch {
                    None => Vec::new(),
                    Some(ch) => {
                        ch.send(&wire)?;
                        ch.recv_exact(round.len() * sizes.answer)?
                    }
                };
                records.extend(
                    (0..round.len()).map(|number| Ok(answers[number * sizes.answer..][..sizes.answer].to_vec())),
                );
                ctl.event(Event::Done(records.len() as u64));
            }
        }
        return Ok(records);
    }
    let Scheme::Piano(shape) = scheme else { return Err(Error::bug("a window of a scheme that has none")) };
    let round = scheme.together() as usize;
    // Piano asks for one record at a time.
    let indexes: Vec<Option<u64>> = places.iter().map(|place| place.as_ref()?.first().copied()).collect();
    let mut left = &indexes[..];
    loop {
        let With::Window(kept) = &mut copied.with else { return Err(Error::bug("no window to ask with")) };
        let waiting = kept.take_waiting();
        let mut is_newest = waiting.is_empty() || again(kept, &waiting, name, round, counter)?;
        let now = (kept.window().left() as usize).min(left.len());
        if is_newest && now > 0 {
            let (part, rest) = left.split_at(now);
            left = rest;
            is_newest = windowed(kept, part, name, round, &mut rng, counter, ctl)?;
            for index in part {
                let known = index.and_then(|index| kept.window().known(index).map(<[u8]>::to_vec));
                records.push(known.ok_or(Lost::Unfetched));
            }
            ctl.event(Event::Done(records.len() as u64));
        }
        if !is_newest {
            kept.end()?;
            return Err(Error::Setup(
                "the window of queries in mine.cache was older than the queries that it had made, because it was restored from a copy. It is \
                 thrown away; ask again, with a new one"
                    .into(),
            ));
        }
        if left.is_empty() {
            // A window that could not serve a row is kept to its last query: the server sees when a client streams the table anew.
            return Ok(records);
        }
        let next = copy::window(plan, counter, &copied.epoch, shape, ctl)?;
        copied.with = With::Window(Box::new(next));
    }
}

/// The records in what [`fetch`] brought. The server has parted from this side when it is called: whether an answer decodes, and how long
/// that takes, it does not see.
fn decoded(with: &mut With, came: Records) -> Result<Records, Error> {
    let With::Reader(reader) = with else { return Ok(came) };
    let decoded = |answer: &Vec<u8>| match reader.decode(answer) {
        Ok(record) => Ok(Ok(record)),
        Err(PirError::Message(_)) => Ok(Err(Lost::Unreadable)),
        Err(error) => Err(misused(error)),
    };
    came.iter().flatten().map(decoded).collect()
}

/// What a scheme says of a client that uses it wrongly. Epoch and scheme were compared when the epoch came, so this program did that.
pub fn misused(error: PirError) -> Error {
    match error {
        PirError::Shape(what) => Error::bug(what),
        message => message.into(),
    }
}

/// Sends queries again that may have been sent before. False if the server knows of more queries than the window does: then it was
/// restored from a copy, and its hints were used before.
fn again(
    kept: &mut Kept,
    waiting: &[Intent],
    name: u64,
    round: usize,
    counter: &mut Counter<'_>,
) -> Result<bool, Error> {
    let first = waiting[0].number;
    let ch = counter.retrieve(name, waiting.len() as u64)?;
    ch.send(&[&kept.id()[..], &first.to_le_bytes()].concat())?;
    let made = made(ch)?;
    // These bytes were decided before, and go out as they are: the server sees nothing that it has not seen.
    for part in waiting.chunks(round) {
        exchange(kept, part, ch)?;
    }
    Ok(made <= first + waiting.len() as u64)
}

/// Fetches records with a window that has queries enough. False, and nothing was sent, if the server knows of more queries than the
/// window does.
fn windowed(
    kept: &mut Kept,
    indexes: &[Option<u64>],
    name: u64,
    round: usize,
    rng: &mut SessionRng,
    counter: &mut Counter<'_>,
    ctl: &Control,
) -> Result<bool, Error> {
    let first = kept.window().asked();
    let ch = counter.retrieve(name, indexes.len() as u64)?;
    ch.send(&[&kept.id()[..], &first.to_le_bytes()].concat())?;
    if made(ch)? > first {
        return Ok(false);
    }
    let records = kept.window().shape().records();
    for part in indexes.chunks(round) {
        ctl.check()?;
        // A query for the looks asks for some record.
        let wants: Vec<u64> =
            part.iter().map(|index| index.unwrap_or_else(|| u64::from_le_bytes(rng.bytes()) % records)).collect();
        let intents = kept.decide(&wants, rng)?;
        exchange(kept, &intents, ch)?;
    }
    Ok(true)
}

/// How many queries of the window the server knows of.
fn made(ch: &mut dyn vesica_session::Channel) -> Result<u64, Error> {
    let said = ch.recv_exact(8)?;
    let said = said.as_slice().try_into().map_err(|_| ch.accuse(Misbehaviour::Malformed("number of queries")))?;
    Ok(u64::from_le_bytes(said))
}

fn exchange(kept: &mut Kept, intents: &[Intent], ch: &mut dyn vesica_session::Channel) -> Result<(), Error> {
    let wire: Vec<u8> = intents.iter().flat_map(|intent| intent.query().iter().copied()).collect();
    ch.send(&wire)?;
    let answers = ch.recv_exact(intents.len() * kept.window().shape().answer_bytes())?;
    kept.settle(intents, &answers)
}

/// What came of a want: its values, or none if it is not there.
type Came = Result<Option<Vec<Option<String>>>, Lost>;

/// What came of each want.
fn found(copied: &Copied, wants: &Wants, outputs: &[[u8; 32]], records: &Records) -> Result<Vec<Came>, Error> {
    let (offer, epoch) = (&copied.offer, &copied.epoch);
    let (by, private) = offer.retrieval.map(|retrieval| (retrieval.by, retrieval.private)).unwrap_or_default();
    let open = |output: &[u8; 32], body: &[u8]| -> Option<Vec<Option<String>>> {
        if offer.values.is_empty() {
            return Some(Vec::new());
        }
        if offer.protocol == ServiceProtocol::CkksPir {
            return reals::decode(&epoch.salt(), output, body, offer.values.len());
        }
        let value = match private {
            Private::Both => {
                let salt = match &copied.filter {
                    Some(filter) => filter.groups()[filter.group(output)].salt,
                    None => epoch.sealed(),
                };
                vesica_store::open_value(output, &salt, body)?
            }
            Private::Client => unpad(&epoch.salt(), output, body)?.to_vec(),
        };
        values::decode(&value, offer.values.len())
    };
    let buckets = match (by, &copied.filter) {
        (By::Key, None) => Some(epoch.buckets(offer)?),
        _ => None,
    };
    let came = |number: usize, output: &[u8; 32], records: &[Result<Vec<u8>, Lost>]| {
        if wants.numbers.get(number).is_some_and(|number| *number >= epoch.rows) {
            return Err(Lost::NoSuchRow);
        }
        let bodies: Vec<&[u8]> = match (&buckets, &copied.filter) {
            (Some(buckets), _) => {
                let place = buckets.place(output);
                records.iter().flatten().filter_map(|bucket| buckets.find(bucket, &place)).collect()
            }
            (None, Some(filter)) => records.iter().flatten().filter_map(|sum| filter.open(output, sum)).collect(),
            (None, None) => records.iter().flatten().map(Vec::as_slice).collect(),
        };
        let lost = records.iter().find_map(|record| record.as_ref().err().copied());
        match bodies.iter().find_map(|body| open(output, body)) {
            Some(texts) => Ok(Some(texts)),
            None if !bodies.is_empty() => Err(Lost::Unreadable),
            None => lost.map_or(Ok(None), Err),
        }
    };
    let each = records_a_row(offer.protocol, by) as usize;
    let answered = outputs.iter().zip(records.chunks_exact(each)).enumerate();
    Ok(answered.map(|(number, (output, records))| came(number, output, records)).collect())
}

/// Writes the rows that were found, and says how many wants and how many rows there are.
fn write(plan: &AskPlan, io: &Io, copied: &Copied, wants: &Wants, came: &[Came]) -> Result<(Written, u64, u64), Error> {
    let mut picks = Picks::new(wants.read, Share::Picks.of(plan.memory), &plan.scratch)?;
    let mut rows = Vec::new();
    for &(row, want) in &wants.rows {
        if matches!(came[want as usize], Ok(Some(_))) {
            picks.push_turn(RowId(row), 1)?;
            rows.push((row, want));
        }
    }
    let (matched, matched_rows) = (came.iter().flatten().flatten().count() as u64, rows.len() as u64);
    let texts_of = |want: u32| Ok(came[want as usize].clone().ok().flatten().unwrap_or_default());
    let looked = Looked { names: &copied.offer.values, rows, texts: &texts_of };
    let written = widened(plan, &*io.table, &looked, |wide| {
        let mut sink = target(io)?.sink(wide)?;
        gather(wide, picks, Share::Output.of(plan.memory), plan.workers, &plan.scratch, &mut *sink)?;
        Ok(sink.finish()?.commit()?)
    })?;
    Ok((written, matched, matched_rows))
}

fn rng() -> Result<SessionRng, Error> {
    SessionRng::from_os().map_err(|e| Error::Setup(format!("the system has no randomness to give: {e}")))
}

#[cfg(test)]
mod tests {
    use super::super::desk::tests::house_of;
    use super::*;

    /// A table of 1000 rows, whose answers have some hundred bytes, and the secrets of its queries four kibibytes.
    #[test]
    fn a_client_counts_the_secrets_that_it_holds() {
        let (_dir, offer, epoch) = house_of(ServiceProtocol::SimplePir, 20);
        let scheme = Scheme::new(offer.protocol, By::Index, &epoch).unwrap();
        assert!(scheme.sizes().answer < 200);
        let memory = 1 << 30;
        room_for_answers(memory, &scheme, epoch.width, 200_000).unwrap();
        let why = room_for_answers(memory, &scheme, epoch.width, 1_000_000).unwrap_err().to_string();
        assert!(why.contains("1000000 queries") && why.contains("mine.memory"), "{why}");
    }

    /// Records of a mebibyte, of a table that a client has a copy of, or a window into: they were held without being counted, and the server
    /// chooses how long they are.
    #[test]
    fn a_client_counts_the_records_that_it_holds() {
        for protocol in [ServiceProtocol::Download, ServiceProtocol::Piano] {
            let (_dir, offer, epoch) = house_of(protocol, 20);
            let scheme = Scheme::new(offer.protocol, By::Index, &epoch).unwrap();
            room_for_answers(1 << 30, &scheme, 1 << 20, 340).unwrap();
            let why = room_for_answers(1 << 30, &scheme, 1 << 20, 342).unwrap_err().to_string();
            assert!(why.contains("342 queries"), "{why}");
        }
    }

    #[test]
    fn rows_that_are_lost_are_those_of_the_clients_table() {
        let mut wants = Wants::default();
        for row in 0..13 {
            wants.add(row, [row as u8 / 2; 32]);
        }
        let mut came: Vec<Came> = vec![Ok(None); 7];
        (came[0], came[2], came[3]) = (Err(Lost::Unreadable), Err(Lost::Unfetched), Err(Lost::Unreadable));
        assert_eq!(wants.rows_of(&came, Lost::Unreadable), [0, 1, 6, 7]);
        assert_eq!(wants.rows_of(&came, Lost::Unfetched), [4, 5]);
        assert!(wants.rows_of(&came, Lost::NoSuchRow).is_empty());
    }
}
