//! "piano": the table streams by once, and leaves a window at the client, which is used up query by query.

use super::super::copying::{Whole, room_for};
use super::super::epoch::Epoch;
use super::super::lookup::Place;
use super::super::window::Kept;
use super::super::{Client, Copying, Costs, Ready, Retrieval, Scheme, Server, Turn, in_turn, rounds_of};
use crate::error::Error;
use crate::found::Lost;
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

    fn server(&self, table: Arc<Vec<u8>>, _: usize) -> Result<Box<dyn Server>, PirError> {
        Ok(Box::new(Table { scheme: *self, table }))
    }

    fn reader(&self, copy: Vec<u8>, rng: &mut SessionRng) -> Result<Box<dyn Client>, Error> {
        let mut builder = Builder::new(*self, rng);
        builder.push(&copy)?;
        Ok(Box::new(Asking::with(Kept::in_memory(builder.finish()?, rng))))
    }

    fn client(&self, epoch: &Epoch, _: [Whole; 2], copying: &mut Copying<'_, '_>) -> Result<Ready, Error> {
        let (kept, news) = match Kept::open(&copying.world.disk, &copying.plan.cache, epoch.name(), *self)? {
            Some(kept) => (kept, None),
            None => {
                let news = format!("a window, for which the table streamed by, {}", size(epoch.copy));
                (window(*self, epoch, copying)?, Some(news))
            }
        };
        Ok(Ready { client: Box::new(Asking::with(kept)), filter: None, news })
    }
}

/// A window, made while the table streams by. It begins anew if it is cut: what was read is in no file.
fn window(scheme: Piano, epoch: &Epoch, copying: &mut Copying<'_, '_>) -> Result<Kept, Error> {
    let mut rng = copying.world.rng()?;
    // The server chose how large a window is. Whether the disk has room for it is asked before it takes memory.
    room_for(copying.plan, scheme.window_bytes())?;
    let mut builder = Builder::new(scheme, &mut rng);
    copying.stream(epoch, |chunk| Ok(builder.push(chunk)?))?;
    Kept::create(&copying.world.disk, &copying.plan.cache, epoch.name(), builder.finish()?, &mut rng)
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

    fn renew(&mut self, epoch: &Epoch, copying: &mut Copying<'_, '_>) -> Result<(), Error> {
        self.close();
        self.kept = window(self.kept.window().shape(), epoch, copying)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use vesica_job::World;

    const RECORDS: u64 = 300;
    const WIDTH: usize = 6;

    /// A client that wrote four queries down in a folder, and died before an answer came; and what answers them.
    struct House {
        dir: tempfile::TempDir,
        scheme: Piano,
        table: Vec<u8>,
        server: Box<dyn Server>,
        rng: SessionRng,
        /// The bytes of the four.
        sent: Vec<u8>,
    }

    impl House {
        fn new() -> Self {
            let mut rng = SessionRng::from_seed(zeroize::Zeroizing::new([8; 32]));
            let mut table = vec![0; RECORDS as usize * WIDTH];
            rng.fill(&mut table);
            let (dir, scheme) = (tempfile::tempdir().unwrap(), Piano::new(RECORDS, WIDTH).unwrap());
            let server = Retrieval::server(&scheme, Arc::new(table.clone()), 1).unwrap();
            let mut asking = fresh(dir.path(), scheme, &table, &mut rng);
            let places: Vec<Place> = (3..7).map(|index| Some(vec![index])).collect();
            let sent = asking.round(&places, &mut rng).unwrap();
            Self { dir, scheme, table, server, rng, sent }
        }

        /// The client of the next run.
        fn open(&self) -> Asking {
            Asking::with(Kept::open(&World::default().disk, self.dir.path(), 7, self.scheme).unwrap().unwrap())
        }

        fn answers(&self, wire: &[u8]) -> Vec<u8> {
            let queries: Vec<&[u8]> = wire.chunks_exact(self.scheme.query_bytes()).collect();
            self.server.answer(&[], &queries, &|work| work()).unwrap().concat()
        }
    }

    fn fresh(folder: &Path, scheme: Piano, table: &[u8], rng: &mut SessionRng) -> Asking {
        let mut builder = Builder::new(scheme, rng);
        builder.push(table).unwrap();
        Asking::with(Kept::create(&World::default().disk, folder, 7, builder.finish().unwrap(), rng).unwrap())
    }

    /// It is killed twice: before any answer, and behind half of them. What it owes goes out as it did before, and what is new behind it.
    #[test]
    fn what_is_owed_is_asked_again_with_the_same_bytes() {
        let mut house = House::new();
        let half = 2 * house.scheme.query_bytes();
        for (owed, first, sent) in [(4, 0u64, 0..half), (2, 2, half..2 * half)] {
            let mut asking = house.open();
            assert_eq!(asking.owed(), owed);
            assert_eq!(asking.begin(&mut house.rng)[16..], first.to_le_bytes());
            // The server has heard all four.
            asking.reply(&4u64.to_le_bytes()).unwrap();
            let again = asking.round(&[None, None], &mut house.rng).unwrap();
            assert_eq!(again, house.sent[sent]);
            asking.take(&house.answers(&again)).unwrap();
            assert_eq!(asking.owed(), owed - 2);
        }
        let mut asking = house.open();
        assert_eq!(asking.owed(), 0);
        assert_eq!(asking.begin(&mut house.rng)[16..], 4u64.to_le_bytes());
        asking.reply(&4u64.to_le_bytes()).unwrap();
        let new = asking.round(&[Some(vec![9]), None], &mut house.rng).unwrap();
        asking.take(&house.answers(&new)).unwrap();
        let record = house.table[9 * WIDTH..][..WIDTH].to_vec();
        assert_eq!(asking.records().unwrap(), [Ok(record), Err(Lost::Unfetched)]);
    }

    /// The server knows of more queries than the window does. What is owed was sent before, so it may go again; nothing else goes.
    #[test]
    fn a_window_that_is_old_ends_behind_what_it_owes() {
        let mut house = House::new();
        let mut asking = house.open();
        asking.reply(&5u64.to_le_bytes()).unwrap();
        let again = asking.round(&[None, None, None, None], &mut house.rng).unwrap();
        assert_eq!(again, house.sent);
        let why = asking.take(&house.answers(&again)).unwrap_err().to_string();
        assert!(why.contains("restored from a copy"), "{why}");
        assert!(Kept::open(&World::default().disk, house.dir.path(), 7, house.scheme).unwrap().is_none());
        // Where nothing is owed, nothing goes.
        let mut asking = fresh(house.dir.path(), house.scheme, &house.table, &mut house.rng);
        let why = asking.reply(&1u64.to_le_bytes()).unwrap_err().to_string();
        assert!(why.contains("restored from a copy"), "{why}");
        assert!(Kept::open(&World::default().disk, house.dir.path(), 7, house.scheme).unwrap().is_none());
    }
}
