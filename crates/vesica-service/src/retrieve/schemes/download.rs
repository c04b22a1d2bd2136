//! "download": a client has the whole table, and asks nothing.

use super::super::epoch::Epoch;
use super::super::lookup::{Held, Linear};
use super::super::{Client, Costs, Retrieval, Scheme, Server, Turn};
use crate::error::Error;
use std::sync::Arc;
use vesica_pir::{Download, Pir, PirError, Sizes};
use vesica_session::SessionRng;
use vesica_spec::service::By;

/// The scheme.
pub struct Whole;

impl Scheme for Whole {
    fn retrieval(&self, _: By, epoch: &Epoch) -> Result<Box<dyn Retrieval>, PirError> {
        Ok(Box::new(Download::new(epoch.records, epoch.width as usize)?))
    }

    fn asks(&self) -> bool {
        false
    }

    fn cannot_follow(&self) -> Option<&'static str> {
        Some("clients have a copy of the whole table")
    }
}

impl Retrieval for Download {
    fn sizes(&self) -> Sizes {
        Pir::sizes(self)
    }

    fn copied(&self) -> u64 {
        Pir::sizes(self).hint
    }

    fn costs(&self, table: u64, _: f64) -> Costs {
        Costs { kept: table, seconds: 0.0, memory: table, reads_all: false, window: None }
    }

    fn server(&self, table: Arc<Vec<u8>>, _: usize) -> Result<Box<dyn Server>, PirError> {
        Ok(Box::new(Table(table)))
    }

    fn reader(&self, copy: Vec<u8>, _: &mut SessionRng) -> Result<Box<dyn Client>, Error> {
        Ok(Box::new(Linear::new(Held { scheme: *self, hint: self.take_hint(copy)? })))
    }
}

/// A table that answers no queries.
struct Table(Arc<Vec<u8>>);

impl Server for Table {
    fn table(&self) -> &[u8] {
        &self.0
    }

    fn answer(&self, _: &[u8], _: &[&[u8]], _: Turn<'_>) -> Result<Vec<Vec<u8>>, PirError> {
        Err(PirError::Message("a query to a table that answers none".into()))
    }
}
