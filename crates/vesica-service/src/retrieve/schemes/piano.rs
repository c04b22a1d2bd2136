//! "piano": the table streams by once, and leaves a window at the client, which is used up query by query.

use super::super::copying::{Copying, Ready};
use super::super::epoch::Epoch;
use super::super::places::Place;
use super::super::window::Kept;
use super::super::{Client, Costs, Retrieval, Scheme, Server, Turn, in_turn, rounds_of};
use crate::error::Error;
use crate::output::Lost;
use std::sync::Arc;
use vesica_job::numbers::size;
use vesica_pir::piano::{Builder, Intent, TOGETHER};
use vesica_pir::{Flat, Piano, PirError, Scatter, Sizes};
use vesica_session::SessionRng;
use vesica_spec::service::By;

/// The scheme.
pub struct Windows;

impl Scheme for Windows {
    fn retrieval(&self, _: By, epoch: &Epoch) -> Result<Box<dyn Retrieval>, PirError> {
        Ok(Box::new(Piano::new(epoch.records, epoch.width as usize)?))
    }

    /// Rows that are asked for together have to stand apart.
    fn place(&self, records: u64, seed: &[u8; 32], index: u64) -> Result<u64, PirError> {
        Scatter::new(records, seed).place(index)
    }

    fn cannot_follow(&self) -> Option<&'static str> {
        Some("a client makes its hints while the whole table streams by, and they cannot follow")
    }
}

impl Retrieval for Piano {
    /// The hint is the table, which streams by.
    fn sizes(&self) -> Sizes {
        Sizes { hint: 0, query: self.query_bytes(), answer: self.answer_bytes() }
    }

    fn copied(&self) -> u64 {
        self.records() * self.answer_bytes() as u64
    }

    fn has_windows(&self) -> bool {
        true
    }

    fn together(&self) -> u64 {
        rounds_of(TOGETHER, Retrieval::sizes(self))
    }

    fn costs(&self, table: u64, speed: f64) -> Costs {
        let numbers = self.numbers();
        let seconds = (numbers.chunks * self.answer_bytes() as u64) as f64 / speed;
        let window = Some(numbers.queries);
        Costs { kept: self.window_bytes(), seconds, memory: table, reads_all: false, window }
    }

    fn kept(&self, _: u64) -> u64 {
        self.window_bytes()
    }

    fn server(&self, table: Arc<Vec<u8>>, _: &[u8], _: usize) -> Result<Box<dyn Server>, PirError> {
        Ok(Box::new(Table { scheme: *self, table }))
    }

    fn reader(&self, copy: Vec<u8>, rng: &mut SessionRng) -> Result<Box<dyn Client>, Error> {
        let mut builder = Builder::new(*self, rng);
        builder.push(&copy)?;
        Ok(Box::new(Asking::with(Kept::in_memory(builder.finish()?, rng))))
    }

    fn client(&self, copying: &mut Copying<'_, '_>) -> Result<Ready, Error> {
        let (kept, news) = match Kept::open(&copying.plan.cache, copying.epoch.name(), *self)? {
            Some(kept) => (kept, None),
            None => {
                let news = format!("a window, for which the table streamed by, {}", size(copying.epoch.copy));
                (window(*self, copying)?, Some(news))
            }
        };
        Ok(Ready { client: Box::new(Asking::with(kept)), filter: None, news })
    }
}

/// A window, made while the table streams by. It begins anew if it is cut: what was read is in no file.
fn window(scheme: Piano, copying: &mut Copying<'_, '_>) -> Result<Kept, Error> {
    let mut rng = crate::rng()?;
    let mut builder = Builder::new(scheme, &mut rng);
    copying.stream(scheme.window_bytes(), |chunk| Ok(builder.push(chunk)?))?;
    Kept::create(&copying.plan.cache, copying.epoch.name(), builder.finish()?, &mut rng)
}

/// The table as it is.
struct Table {
    scheme: Piano,
    table: Arc<Vec<u8>>,
}

impl Server for Table {
    fn table(&self) -> &[u8] {
        &self.table
    }

    fn answer(&self, _: &[u8], queries: &[&[u8]], turn: Turn<'_>) -> Result<Vec<Vec<u8>>, PirError> {
        let table = Flat::new(&self.table, self.scheme.answer_bytes())?;
        let answers = || queries.iter().map(|query| self.scheme.answer(table, query)).collect();
        in_turn(turn, answers).unwrap_or_else(|| Ok(Vec::new()))
    }
}

/// The client: a window, and what was asked with it.
struct Asking {
    kept: Kept,
    /// The queries of this round.
    sent: Vec<Intent>,
    /// Records that were asked for with this window.
    asked: Vec<Option<u64>>,
    /// The records of earlier windows.
    records: Vec<Result<Vec<u8>, Lost>>,
    /// Whether the server knows of more queries of this window than the window does.
    is_old: bool,
}

impl Asking {
    fn with(kept: Kept) -> Self {
        Self { kept, sent: Vec::new(), asked: Vec::new(), records: Vec::new(), is_old: false }
    }

    /// Ends a window that was restored from a copy: its hints were used before.
    fn end(&self) -> Error {
        let old = "the window of queries in mine.cache was older than the queries that it had made, because it was restored from a copy. It is \
             thrown away; ask again, with a new one";
        self.kept.end().err().unwrap_or_else(|| Error::Setup(old.into()))
    }

    /// Puts down what came by this window. One that could not serve a row is kept to its last query all the same: the server sees when a
    /// client streams the table anew.
    fn close(&mut self) {
        let window = self.kept.window();
        let known = |index: Option<u64>| index.and_then(|index| window.known(index)).map(<[u8]>::to_vec);
        self.records.extend(self.asked.drain(..).map(|index| known(index).ok_or(Lost::Unfetched)));
    }
}

impl Client for Asking {
    fn owed(&self) -> usize {
        self.kept.waiting().len()
    }

    fn left(&self) -> usize {
        self.kept.window().left() as usize
    }

    fn renew(&mut self, copying: &mut Copying<'_, '_>) -> Result<(), Error> {
        self.close();
        self.kept = window(self.kept.window().shape(), copying)?;
        Ok(())
    }

    /// Which window it is, and the number of the first query.
    fn begin(&mut self, _: &mut SessionRng) -> Vec<u8> {
        let first = self.kept.waiting().first().map_or(self.kept.window().asked(), |intent| intent.number);
        [&self.kept.id()[..], &first.to_le_bytes()].concat()
    }

    fn reply_bytes(&self) -> usize {
        8
    }

    /// How many queries of the window the server knows of. What may have been sent before is sent again in any case: the server sees
    /// nothing in it that it has not seen.
    fn reply(&mut self, said: &[u8]) -> Result<(), Error> {
        let made = u64::from_le_bytes(std::array::from_fn(|i| said[i]));
        let waiting = self.kept.waiting();
        let first = waiting.first().map_or(self.kept.window().asked(), |intent| intent.number);
        self.is_old = made > first + waiting.len() as u64;
        if self.is_old && waiting.is_empty() { Err(self.end()) } else { Ok(()) }
    }

    fn round(&mut self, places: &[Place], rng: &mut SessionRng) -> Result<Vec<u8>, Error> {
        self.sent = self.kept.take_waiting(places.len());
        if self.sent.is_empty() {
            // Piano asks for one record at a time. A query for the looks asks for some record.
            let records = self.kept.window().shape().records();
            let from = self.asked.len();
            self.asked.extend(places.iter().map(|place| place.as_ref()?.first().copied()));
            let any = |index: &Option<u64>| index.unwrap_or_else(|| u64::from_le_bytes(rng.bytes()) % records);
            let wants: Vec<u64> = self.asked[from..].iter().map(any).collect();
            self.sent = self.kept.decide(&wants, rng)?;
        }
        Ok(self.sent.iter().flat_map(|intent| intent.query().iter().copied()).collect())
    }

    fn take(&mut self, answers: &[u8]) -> Result<(), Error> {
        self.kept.settle(&self.sent, answers)?;
        if self.is_old && self.kept.waiting().is_empty() { Err(self.end()) } else { Ok(()) }
    }

    fn records(&mut self) -> Result<Vec<Result<Vec<u8>, Lost>>, Error> {
        self.close();
        Ok(std::mem::take(&mut self.records))
    }
}
