//! The client of a scheme that answers a query with one message, and whose queries do not depend on each other.

use super::super::places::Place;
use super::super::{Client, misused};
use crate::error::Error;
use crate::output::Lost;
use vesica_pir::PirError;
use vesica_session::SessionRng;

/// The messages of a scheme.
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

/// Queries that were made, and their answers.
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
