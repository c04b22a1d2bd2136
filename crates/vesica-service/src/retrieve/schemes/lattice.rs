//! "bfv-pir", "bgv-pir" and "ckks-pir": encryption over polynomials. Nothing is copied. Where a query has to be expanded, the client sends
//! keys for that before its queries.

use super::super::epoch::Epoch;
use super::super::lookup::{Linear, Messages, first};
use super::super::{Client, Costs, Retrieval, Scheme, Server, Turn, in_turn};
use crate::error::Error;
use std::sync::Arc;
use vesica_net::{SystemClock, Time};
use vesica_pir::{Flat, PirError, RlwePir, Sizes, rlwe};
use vesica_session::SessionRng;
use vesica_spec::service::{By, Preset};

/// The scheme, with one of three ways to encrypt.
pub struct Lattice(pub rlwe::Scheme);

/// It for the records of an epoch.
struct Polynomials {
    scheme: Arc<RlwePir>,
    width: usize,
}

impl Scheme for Lattice {
    fn retrieval(&self, _: By, epoch: &Epoch) -> Result<Box<dyn Retrieval>, PirError> {
        let preset = match epoch.preset {
            Preset::Fast => rlwe::Preset::Fast,
            Preset::Seed => rlwe::Preset::Seed,
        };
        let width = epoch.width as usize;
        let scheme = Arc::new(RlwePir::new(self.0, preset, epoch.records, width)?);
        Ok(Box::new(Polynomials { scheme, width }))
    }

    fn has_reals(&self) -> bool {
        self.0 == rlwe::Scheme::Ckks
    }

    fn cannot_follow(&self) -> Option<&'static str> {
        Some("its rows are known by their numbers in the table of mine.input")
    }
}

/// Transforms that are timed to see how long one takes.
const SAMPLE: u32 = 64;

impl Retrieval for Polynomials {
    fn sizes(&self) -> Sizes {
        self.scheme.sizes()
    }

    fn copied(&self) -> u64 {
        0
    }

    fn keys_bytes(&self) -> usize {
        self.scheme.keys_bytes()
    }

    fn secret_bytes(&self) -> u64 {
        size_of::<rlwe::Secret>() as u64
    }

    fn costs(&self, _: u64, speed: f64) -> Costs {
        let start = SystemClock.now();
        (0..SAMPLE).for_each(|_| self.scheme.transform());
        let transform = SystemClock.since(start).as_secs_f64() / f64::from(SAMPLE);
        let memory = self.scheme.store_bytes() as u64;
        let seconds = self.scheme.transforms() as f64 * transform + memory as f64 / speed;
        Costs { kept: 0, seconds, memory, reads_all: true, window: None }
    }

    fn server(&self, table: Arc<Vec<u8>>, _: usize) -> Result<Box<dyn Server>, PirError> {
        let store = self.scheme.store(&Flat::new(&table, self.width)?)?;
        Ok(Box::new(Plaintexts { scheme: self.scheme.clone(), store }))
    }

    fn reader(&self, _: Vec<u8>, _: &mut SessionRng) -> Result<Box<dyn Client>, Error> {
        Ok(Box::new(Linear::new(Keyed { scheme: self.scheme.clone(), session: None })))
    }
}

/// The table as plaintexts of polynomials.
struct Plaintexts {
    scheme: Arc<RlwePir>,
    store: rlwe::Store,
}

impl Server for Plaintexts {
    fn answer(&self, keys: &[u8], queries: &[&[u8]], turn: Turn<'_>) -> Result<Vec<Vec<u8>>, PirError> {
        // Keys are held as they travel, which is a third of what they are unpacked, and unpacked only while their round is worked on.
        let answers = || self.scheme.answer(&self.store, &self.scheme.take_keys(keys)?, queries);
        in_turn(turn, answers).unwrap_or_else(|| Ok(Vec::new()))
    }
}

/// The client, with a session once that has begun.
struct Keyed {
    scheme: Arc<RlwePir>,
    session: Option<rlwe::Session>,
}

impl Messages for Keyed {
    type Secret = rlwe::Secret;

    fn session(&mut self, rng: &mut SessionRng) -> Vec<u8> {
        let (session, keys) = self.scheme.session(rng);
        self.session = Some(session);
        keys
    }

    fn query(&mut self, records: &[u64], rng: &mut SessionRng) -> Result<(rlwe::Secret, Vec<u8>), PirError> {
        let session = self.session.as_ref().ok_or_else(|| PirError::Shape("a query before its session".into()))?;
        self.scheme.query(session, first(records), rng)
    }

    fn decode(&self, secret: rlwe::Secret, answer: &[u8]) -> Result<Vec<u8>, PirError> {
        self.scheme.decode(&secret, answer)
    }
}
