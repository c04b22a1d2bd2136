//! "simple-pir": a client copies a hint, and the patches of later changes. Queries are for sums of records, so a table of keys is a filter.

use super::super::changes;
use super::super::copying::{Copying, Ready};
use super::super::epoch::Epoch;
use super::super::pass::Line;
use super::super::{Client, Costs, Retrieval, Scheme, Server, ShapeOfKeys, Turn, in_turn};
use super::linear::{Linear, Messages};
use crate::error::Error;
use std::sync::Arc;
use vesica_job::numbers::size;
use vesica_pir::keyword::Filter;
use vesica_pir::simple::{Hint, Secret, Store};
use vesica_pir::{Flat, Pir, PirError, PublicSeed, Shape, SimplePir, Sizes};
use vesica_session::SessionRng;
use vesica_spec::service::By;

/// The scheme.
pub struct Simple;

impl Scheme for Simple {
    fn retrieval(&self, by: By, epoch: &Epoch) -> Result<Box<dyn Retrieval>, PirError> {
        let (rows, width, expected) = (epoch.planned, epoch.width, epoch.expected);
        let shape = match by {
            By::Index => laid_out(Shape::cheapest(rows, width, expected.into()), rows, width),
            By::Key => shape_of_keys(rows, width, expected),
        }?;
        if shape.records != epoch.records {
            let (records, of) = (epoch.records, shape.records);
            return Err(PirError::Shape(format!("{records} records, in a table that is laid out for {of}")));
        }
        let scheme = SimplePir::new(shape, PublicSeed(epoch.matrix_seed()));
        Ok(Box::new(Hinted { scheme, by, width: width as usize }))
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
    laid_out(Filter::shape(rows, width, expected.into()), rows, width)
}

pub(super) fn laid_out(shape: Option<Shape>, rows: u64, width: u32) -> Result<Shape, PirError> {
    shape.ok_or_else(|| {
        PirError::Shape(format!(
            "{rows} records of {width} bytes are too large a table for \"simple-pir\"; cut it in two services"
        ))
    })
}

/// The scheme for the records of an epoch.
struct Hinted {
    scheme: SimplePir,
    by: By,
    width: usize,
}

impl Hinted {
    fn read(&self, hint: Hint) -> Box<dyn Client> {
        Box::new(Linear::new(Reader { scheme: self.scheme, hint: Box::new(hint) }))
    }
}

impl Retrieval for Hinted {
    fn sizes(&self) -> Sizes {
        self.scheme.sizes()
    }

    /// The hint, and by key behind it how many seeds failed for each group of keys.
    fn copied(&self) -> u64 {
        let Shape { records, .. } = *self.scheme.shape();
        let groups = if self.by == By::Key { records / self.scheme.shape().group() } else { 0 };
        self.scheme.sizes().hint + groups
    }

    fn has_hint(&self) -> bool {
        true
    }

    fn secret_bytes(&self) -> u64 {
        self.scheme.secret_bytes()
    }

    fn patch_bytes(&self, groups: usize) -> u64 {
        self.scheme.patch_bytes(groups)
    }

    fn costs(&self, table: u64, speed: f64) -> Costs {
        let kept = self.copied();
        Costs { kept, seconds: table as f64 / speed, memory: table, reads_all: true, window: None }
    }

    fn server(&self, table: Arc<Vec<u8>>, log: &[u8], workers: usize) -> Result<Box<dyn Server>, PirError> {
        let mut store = self.scheme.store(&Flat::new(&table, self.width)?)?;
        let changes = changes::entries(log).ok_or_else(|| PirError::Message("a log of changes that is none".into()))?;
        changes.iter().for_each(|entry| store.follow(entry.patch));
        Ok(Box::new(Matrix { scheme: self.scheme, store, line: Line::default(), workers }))
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
            return Err(Error::Sent("a hint that is shorter than its epoch says".into()));
        }
        let tries = copy.split_off(due);
        let mut hint = self.scheme.take_hint(copy)?;
        let wrong = |error: PirError| Error::Sent(format!("changes that cannot be ({error})"));
        changes.iter().try_for_each(|entry| self.scheme.patch(&mut hint, entry.patch)).map_err(wrong)?;
        let filter = || copying.epoch.filter(copying.offer, self.scheme.shape(), &tries, &changes);
        let filter = (self.by == By::Key).then(filter).transpose().map_err(wrong)?;
        Ok(Ready { client: self.read(hint), filter, news: in_words("hint", copied, patches, copying.epoch.copy) })
    }
}

/// What was copied of a hint, or of what else `what` is, and of the patches since then, if anything was. `whole` is the length of the hint.
pub(super) fn in_words(what: &str, hint: Option<u64>, patches: Option<u64>, whole: u64) -> Option<String> {
    Some(match (hint, patches) {
        (None, None) => return None,
        (Some(hint), None) => format!("the {what}, {}", size(hint)),
        (Some(hint), Some(patches)) => format!("the {what}, {}, and patches, {}", size(hint), size(patches)),
        (None, Some(patches)) => format!("patches of {}, in place of the {what} of {}", size(patches), size(whole)),
    })
}

/// The table as a matrix.
struct Matrix {
    scheme: SimplePir,
    store: Store,
    /// Clients whose queries wait for a pass over the table.
    line: Line,
    /// Threads of a pass.
    workers: usize,
}

impl Server for Matrix {
    fn hint(&self) -> Result<Vec<u8>, PirError> {
        self.scheme.hint(&self.store)
    }

    fn change(&mut self, changes: &[(u64, &[u8])]) -> Result<Vec<u8>, PirError> {
        self.scheme.change(&mut self.store, changes)
    }

    fn answer(&self, _: &[u8], queries: &[&[u8]], turn: Turn<'_>) -> Result<Vec<Vec<u8>>, PirError> {
        // A query that is none is refused before it gets into the line.
        queries.iter().try_for_each(|query| self.scheme.vectors(&self.store, query).map(drop))?;
        let pass = |queries: &[&[u8]]| {
            in_turn(turn, || self.scheme.answer_on(self.workers, &self.store, queries).ok()).flatten()
        };
        let round = queries.iter().map(|query| query.to_vec()).collect();
        Ok(self.line.answer(round, self.scheme.together(), pass).unwrap_or_default())
    }
}

/// The client, with its hint.
struct Reader {
    scheme: SimplePir,
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
