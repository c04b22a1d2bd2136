//! "simple-pir" with `hint = "none"`: a client copies a mask for each block of rows, and the patches of later changes. The server keeps the columns
//! that pack its answers behind the records. Queries are for sums of records, so a table of keys is a filter.
//!
//! A server could prepare a mask that makes a wrong answer decode to the client's secret. So a client copies all masks of an epoch, whose hash
//! the epoch has, before it asks for anything; it decodes when it has parted from the server; and what came is looked at only through its seal
//! or tag. All of that is the service's, for every scheme.

use super::super::changes;
use super::super::copying::{Copying, Ready};
use super::super::epoch::Epoch;
use super::super::pass::Line;
use super::super::{Client, Costs, Retrieval, Scheme, Server, ShapeOfKeys, Turn, in_turn};
use super::linear::{Linear, Messages};
use super::simple::{in_words, laid_out};
use crate::error::Error;
use std::sync::Arc;
use vesica_pir::keyword::Filter;
use vesica_pir::packed::{Hint, Secret, Store};
use vesica_pir::{Flat, PackedPir, Pir, PirError, PublicSeed, Shape, Sizes};
use vesica_session::SessionRng;
use vesica_spec::service::By;

/// The scheme.
pub struct Packed;

impl Scheme for Packed {
    fn retrieval(&self, by: By, epoch: &Epoch) -> Result<Box<dyn Retrieval>, PirError> {
        let (rows, width, expected) = (epoch.planned, epoch.width, epoch.expected);
        let shape = match by {
            By::Index => laid_out(Shape::cheapest_packed(rows, width, expected.into()), rows, width),
            By::Key => shape_of_keys(rows, width, expected),
        }?;
        if shape.records != epoch.records {
            let (records, of) = (epoch.records, shape.records);
            return Err(PirError::Shape(format!("{records} records, in a table that is laid out for {of}")));
        }
        let scheme = PackedPir::new(shape, PublicSeed(epoch.matrix_seed()));
        Ok(Box::new(Masked { scheme, by, width: width as usize }))
    }

    fn filter(&self) -> Option<ShapeOfKeys> {
        Some(shape_of_keys)
    }

    fn cannot_follow(&self) -> Option<&'static str> {
        None
    }
}

/// How a table of so many keys is laid out.
fn shape_of_keys(rows: u64, width: u32, expected: u32) -> Result<Shape, PirError> {
    laid_out(Filter::packed_shape(rows, width, expected.into()), rows, width)
}

/// The scheme for the records of an epoch.
struct Masked {
    scheme: PackedPir,
    by: By,
    width: usize,
}

impl Masked {
    fn read(&self, hint: Hint) -> Box<dyn Client> {
        Box::new(Linear::new(Reader { scheme: self.scheme, hint: Box::new(hint) }))
    }

    fn matrix(&self, store: Store, workers: usize) -> Box<dyn Server> {
        Box::new(Matrix { scheme: self.scheme, store, line: Line::default(), workers })
    }
}

impl Retrieval for Masked {
    fn sizes(&self) -> Sizes {
        self.scheme.sizes()
    }

    /// All masks, and by key behind them how many seeds failed for each group of keys.
    fn copied(&self) -> u64 {
        let Shape { records, .. } = *self.scheme.shape();
        let groups = if self.by == By::Key { records / self.scheme.shape().group() } else { 0 };
        self.scheme.sizes().hint + groups
    }

    fn has_hint(&self) -> bool {
        true
    }

    fn beside(&self) -> u64 {
        self.scheme.beside_bytes()
    }

    fn secret_bytes(&self) -> u64 {
        self.scheme.secret_bytes()
    }

    fn patch_bytes(&self, groups: usize) -> u64 {
        self.scheme.patch_bytes(groups)
    }

    fn costs(&self, _: u64, speed: f64) -> Costs {
        let (kept, table) = (self.copied(), self.scheme.shape().bytes());
        Costs { kept, seconds: table as f64 / speed, memory: table, reads_all: true, window: None }
    }

    fn server(&self, table: Arc<Vec<u8>>, _: &[u8], workers: usize) -> Result<Box<dyn Server>, PirError> {
        Ok(self.matrix(self.scheme.prepare(workers, &Flat::new(&table, self.width)?)?, workers))
    }

    fn resume(
        &self,
        table: Arc<Vec<u8>>,
        beside: &[u8],
        log: &[u8],
        workers: usize,
    ) -> Result<Box<dyn Server>, PirError> {
        let changes = changes::entries(log).ok_or_else(|| PirError::Message("a log of changes that is none".into()))?;
        let patches: Vec<&[u8]> = changes.iter().map(|entry| entry.patch).collect();
        Ok(self.matrix(self.scheme.restore(&Flat::new(&table, self.width)?, beside, &patches)?, workers))
    }

    fn reader(&self, mut copy: Vec<u8>, _: &mut SessionRng) -> Result<Box<dyn Client>, Error> {
        copy.truncate(self.scheme.sizes().hint as usize);
        Ok(self.read(self.scheme.take_hint(copy)?))
    }

    fn client(&self, copying: &mut Copying<'_, '_>) -> Result<Ready, Error> {
        let (mut copy, copied) = copying.copy()?;
        let (log, patches) = if copying.epoch.log > 0 { copying.log()? } else { (Vec::new(), None) };
        copying.remove_others()?;
        let changes = changes::entries(&log).ok_or_else(|| Error::Sent("a log of changes that is none".into()))?;
        let due = self.scheme.sizes().hint as usize;
        if copy.len() < due {
            return Err(Error::Sent("masks that are shorter than their epoch says".into()));
        }
        let tries = copy.split_off(due);
        let mut hint =
            self.scheme.take_hint(copy).map_err(|error| Error::Sent(format!("masks that cannot be ({error})")))?;
        let wrong = |error: PirError| Error::Sent(format!("changes that cannot be ({error})"));
        changes.iter().try_for_each(|entry| self.scheme.patch(&mut hint, entry.patch)).map_err(wrong)?;
        let filter = || copying.epoch.filter(copying.offer, self.scheme.shape(), &tries, &changes);
        let filter = (self.by == By::Key).then(filter).transpose().map_err(wrong)?;
        Ok(Ready { client: self.read(hint), filter, news: in_words("masks", copied, patches, copying.epoch.copy) })
    }
}

/// The table as a matrix, with the columns that pack its answers.
struct Matrix {
    scheme: PackedPir,
    store: Store,
    /// Clients whose queries wait for a pass over the table.
    line: Line,
    /// Threads of a pass, and of blocks that are prepared.
    workers: usize,
}

impl Server for Matrix {
    fn hint(&self) -> Result<Vec<u8>, PirError> {
        self.scheme.hint(&self.store)
    }

    fn beside(&self) -> Vec<u8> {
        self.scheme.beside(&self.store)
    }

    fn change(&mut self, changes: &[(u64, &[u8])]) -> Result<Vec<u8>, PirError> {
        self.scheme.change(self.workers, &mut self.store, changes)
    }

    fn answer(&self, _: &[u8], queries: &[&[u8]], turn: Turn<'_>) -> Result<Vec<Vec<u8>>, PirError> {
        // A query that is none is refused before it gets into the line.
        queries.iter().try_for_each(|query| self.scheme.check(&self.store, query))?;
        let pass = |queries: &[&[u8]]| {
            in_turn(turn, || self.scheme.answer_on(self.workers, &self.store, queries).ok()).flatten()
        };
        let round = queries.iter().map(|query| query.to_vec()).collect();
        Ok(self.line.answer(round, self.scheme.together(), pass).unwrap_or_default())
    }
}

/// The client, with its masks.
struct Reader {
    scheme: PackedPir,
    hint: Box<Hint>,
}

impl Messages for Reader {
    type Secret = Secret;

    fn query(&mut self, records: &[u64], rng: &mut SessionRng) -> Result<(Secret, Vec<u8>), PirError> {
        self.scheme.query_sum(&self.hint, records, rng)
    }

    fn decode(&self, secret: Secret, answer: &[u8]) -> Result<Vec<u8>, PirError> {
        self.scheme.decode(&self.hint, secret, answer)
    }
}
