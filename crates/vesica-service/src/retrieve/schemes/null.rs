//! "null": a scheme for tests alone, in which each answer is the whole table. It shows what a scheme has to say, and that nothing else of
//! the service knows of it.

use super::super::epoch::Epoch;
use super::super::lookup::{Linear, Messages, first};
use super::super::{Client, Costs, Retrieval, Scheme, Server, Turn, in_turn};
use crate::error::Error;
use std::sync::Arc;
use vesica_pir::{PirError, Sizes};
use vesica_session::SessionRng;
use vesica_spec::service::By;

/// The scheme.
pub struct Null;

/// It for the records of an epoch.
#[derive(Clone, Copy)]
struct Sent {
    records: u64,
    width: usize,
}

impl Scheme for Null {
    fn retrieval(&self, _: By, epoch: &Epoch) -> Result<Box<dyn Retrieval>, PirError> {
        Ok(Box::new(Sent { records: epoch.records, width: epoch.width as usize }))
    }

    fn cannot_follow(&self) -> Option<&'static str> {
        Some("clients keep nothing that could follow")
    }
}

impl Retrieval for Sent {
    fn sizes(&self) -> Sizes {
        Sizes { hint: 0, query: 1, answer: self.records as usize * self.width }
    }

    fn copied(&self) -> u64 {
        0
    }

    fn costs(&self, table: u64, speed: f64) -> Costs {
        Costs { kept: 0, seconds: table as f64 / speed, memory: table, reads_all: true, window: None }
    }

    fn server(&self, table: Arc<Vec<u8>>, _: usize) -> Result<Box<dyn Server>, PirError> {
        Ok(Box::new(Table(table)))
    }

    fn reader(&self, _: Vec<u8>, _: &mut SessionRng) -> Result<Box<dyn Client>, Error> {
        Ok(Box::new(Linear::new(*self)))
    }
}

struct Table(Arc<Vec<u8>>);

impl Server for Table {
    fn answer(&self, _: &[u8], queries: &[&[u8]], turn: Turn<'_>) -> Result<Vec<Vec<u8>>, PirError> {
        match queries.iter().all(|query| **query == [0]) {
            true => Ok(in_turn(turn, || vec![self.0.to_vec(); queries.len()]).unwrap_or_default()),
            false => Err(PirError::Message("a query that is none".into())),
        }
    }
}

impl Messages for Sent {
    type Secret = u64;

    fn query(&mut self, records: &[u64], _: &mut SessionRng) -> Result<(u64, Vec<u8>), PirError> {
        Ok((first(records), vec![0]))
    }

    fn decode(&self, index: u64, answer: &[u8]) -> Result<Vec<u8>, PirError> {
        Ok(answer[index as usize * self.width..][..self.width].to_vec())
    }
}
