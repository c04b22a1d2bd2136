//! "simple-pir": a client copies a hint, or without one a mask for each block of rows; and the patches of later changes. Without a hint the
//! server keeps the columns that pack its answers behind the records. Queries are for sums of records, so a table of keys is a filter.
//!
//! A server could prepare a mask that makes a wrong answer decode to the client's secret. So a client copies all masks of an epoch, whose hash
//! the epoch has, before it asks for anything; it decodes when it has parted from the server; and what came is looked at only through its seal
//! or tag. All of that is the service's, for every scheme.

use super::super::changes;
use super::super::copying::Whole;
use super::super::desk::Files;
use super::super::epoch::Epoch;
use super::super::lookup::{Held, Linear};
use super::super::pass::Line;
use super::super::{Client, Copying, Costs, Ready, Retrieval, Scheme, Server, ShapeOfKeys, Turn, in_turn};
use crate::error::Error;
use std::marker::PhantomData;
use std::sync::Arc;
use vesica_job::numbers::size;
use vesica_pir::{Flat, MatrixPir, PirError, PublicSeed, Shape, Sizes};
use vesica_session::SessionRng;
use vesica_spec::service::By;

/// The scheme, with a hint or without.
pub struct Simple<P>(PhantomData<P>);

impl<P> Simple<P> {
    /// It.
    pub const NEW: Self = Self(PhantomData);
}

impl<P: MatrixPir + 'static> Scheme for Simple<P> {
    fn retrieval(&self, by: By, epoch: &Epoch) -> Result<Box<dyn Retrieval>, PirError> {
        let (rows, width, expected) = (epoch.planned, epoch.width, epoch.expected);
        let shape = match by {
            By::Index => laid_out(P::SHAPE, rows, width, expected),
            By::Key => laid_out(P::SHAPE_OF_KEYS, rows, width, expected),
        }?;
        if shape.records != epoch.records {
            let (records, of) = (epoch.records, shape.records);
            return Err(PirError::Shape(format!("{records} records, in a table that is laid out for {of}")));
        }
        let scheme = P::new(shape, PublicSeed(epoch.matrix_seed()));
        Ok(Box::new(Matrix { scheme, by, width: width as usize }))
    }

    fn filter(&self) -> Option<ShapeOfKeys> {
        Some(|rows, width, expected| laid_out(P::SHAPE_OF_KEYS, rows, width, expected))
    }

    fn cannot_follow(&self) -> Option<&'static str> {
        None
    }
}

fn laid_out(
    shape: fn(u64, u32, u64) -> Option<Shape>,
    rows: u64,
    width: u32,
    expected: u32,
) -> Result<Shape, PirError> {
    shape(rows, width, expected.into()).ok_or_else(|| {
        PirError::Shape(format!(
            "{rows} records of {width} bytes are too large a table for \"simple-pir\"; cut it in two services"
        ))
    })
}

/// The scheme for the records of an epoch.
struct Matrix<P> {
    scheme: P,
    by: By,
    width: usize,
}

impl<P: MatrixPir + 'static> Matrix<P> {
    fn read(&self, hint: P::Hint) -> Box<dyn Client> {
        Box::new(Linear::new(Held { scheme: self.scheme, hint }))
    }

    fn answers(&self, store: P::Store, workers: usize) -> Box<dyn Server> {
        Box::new(Answers { scheme: self.scheme, store, line: Line::default(), workers })
    }
}

impl<P: MatrixPir + 'static> Retrieval for Matrix<P> {
    fn sizes(&self) -> Sizes {
        self.scheme.sizes()
    }

    /// The hint or all masks, and by key behind them how many seeds failed for each group of keys.
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

    fn costs(&self, table: u64, speed: f64) -> Costs {
        // What packs answers stands beside every row of the matrix; a hint leaves the table as it is.
        let table = if self.beside() > 0 { self.scheme.shape().bytes() } else { table };
        Costs { kept: self.copied(), seconds: table as f64 / speed, memory: table, reads_all: true, window: None }
    }

    fn server(&self, table: Arc<Vec<u8>>, workers: usize) -> Result<Box<dyn Server>, PirError> {
        Ok(self.answers(self.scheme.prepare(workers, &Flat::new(&table, self.width)?)?, workers))
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
        Ok(self.answers(self.scheme.restore(&Flat::new(&table, self.width)?, beside, &patches)?, workers))
    }

    fn recompute(&self, files: &Files, workers: usize) -> Result<Option<&'static str>, Error> {
        let Files { table, beside, copy, log, .. } = files;
        // Nobody sent it here.
        let cannot_be = |error: PirError| match error {
            PirError::Message(what) | PirError::Shape(what) => Error::Setup(what),
        };
        let changes = changes::entries(log).unwrap_or_default();
        let patches: Vec<&[u8]> = changes.iter().map(|entry| entry.patch).collect();
        let copy = copy.get(..self.scheme.sizes().hint as usize).unwrap_or_default();
        let mut hint = self.scheme.take_hint(copy.to_vec()).map_err(cannot_be)?;
        patches.iter().try_for_each(|patch| self.scheme.patch(&mut hint, patch)).map_err(cannot_be)?;
        let records = Flat::new(table, self.width).map_err(cannot_be)?;
        self.scheme.recompute(workers, &records, beside, &hint, &patches).map_err(cannot_be)?;
        Ok(Some(P::COPY))
    }

    fn reader(&self, mut copy: Vec<u8>, _: &mut SessionRng) -> Result<Box<dyn Client>, Error> {
        copy.truncate(self.scheme.sizes().hint as usize);
        Ok(self.read(self.scheme.take_hint(copy)?))
    }

    fn client(
        &self,
        epoch: &Epoch,
        [(mut copy, copied), (log, patches)]: [Whole; 2],
        copying: &mut Copying<'_, '_>,
    ) -> Result<Ready, Error> {
        let changes = changes::entries(&log).ok_or_else(|| Error::Sent("a log of changes that is none".into()))?;
        let due = self.scheme.sizes().hint as usize;
        if copy.len() < due {
            return Err(Error::Sent(format!("a copy of the {} that is shorter than its epoch says", P::COPY)));
        }
        let tries = copy.split_off(due);
        let cannot_be = |what: &str, error: PirError| Error::Sent(format!("{what} that cannot be ({error})"));
        let mut hint = self.scheme.take_hint(copy).map_err(|error| cannot_be(P::COPY, error))?;
        let wrong = |error: PirError| cannot_be("changes", error);
        changes.iter().try_for_each(|entry| self.scheme.patch(&mut hint, entry.patch)).map_err(wrong)?;
        let filter = || changes::filter((copying.offer, epoch), self.scheme.shape(), &tries, &changes);
        let filter = (self.by == By::Key).then(filter).transpose().map_err(wrong)?;
        Ok(Ready { client: self.read(hint), filter, news: in_words(P::COPY, copied, patches, epoch.copy) })
    }
}

/// What was copied of a hint, or of what else `what` is, and of the patches since then, if anything was. `whole` is the length of the hint.
fn in_words(what: &str, hint: Option<u64>, patches: Option<u64>, whole: u64) -> Option<String> {
    Some(match (hint, patches) {
        (None, None) => return None,
        (Some(hint), None) => format!("the {what}, {}", size(hint)),
        (Some(hint), Some(patches)) => format!("the {what}, {}, and patches, {}", size(hint), size(patches)),
        (None, Some(patches)) => format!("patches of {}, in place of the {what} of {}", size(patches), size(whole)),
    })
}

/// The table as a matrix, with the columns that pack its answers if there is no hint.
struct Answers<P: MatrixPir> {
    scheme: P,
    store: P::Store,
    /// Clients whose queries wait for a pass over the table.
    line: Line,
    /// Threads of a pass, and of blocks that are prepared.
    workers: usize,
}

impl<P: MatrixPir> Server for Answers<P> {
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
