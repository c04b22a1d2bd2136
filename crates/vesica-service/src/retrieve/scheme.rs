//! The schemes behind one face: which one a service has is decided once, and nothing above asks again.

use super::epoch::Epoch;
use std::collections::VecDeque;
use vesica_pir::piano::Piano;
use vesica_pir::{Download, Flat, Pir, PirError, PublicSeed, Shape, SimplePir, Sizes};
use vesica_session::SessionRng;
use vesica_spec::service::ServiceProtocol;

/// The scheme of a service, made from what its epoch says.
pub enum Scheme {
    /// One message each way, over a hint or none.
    Linear(Box<dyn Linear>),
    /// A window at the client, and √N records a query.
    Piano(Piano),
}

impl Scheme {
    /// The scheme of `protocol` over the records of an epoch.
    ///
    /// # Errors
    /// If the scheme does not serve so many records, or so long ones; if the protocol is none.
    pub fn new(protocol: ServiceProtocol, epoch: &Epoch) -> Result<Self, PirError> {
        let (records, width) = (epoch.records, epoch.width as usize);
        Ok(match protocol {
            ServiceProtocol::SimplePir => {
                // Both sides make the same shape from the epoch.
                let shape = Shape::cheapest(records, epoch.width, epoch.expected.into()).ok_or_else(|| {
                    PirError::Shape(format!(
                        "{records} records of {width} bytes are too large a table for \"simple-pir\"; cut it in two services"
                    ))
                })?;
                Scheme::Linear(Box::new(SimplePir::new(shape, PublicSeed(epoch.matrix_seed()))))
            }
            ServiceProtocol::Download => Scheme::Linear(Box::new(Download::new(records, width)?)),
            ServiceProtocol::Piano => Scheme::Piano(Piano::new(records, width)?),
            ServiceProtocol::EcdhOprf => {
                return Err(PirError::Shape("\"ecdh-oprf\" retrieves no records".into()));
            }
        })
    }

    /// How long its messages are. The hint of Piano is the table, which streams by.
    pub fn sizes(&self) -> Sizes {
        match self {
            Scheme::Linear(linear) => linear.sizes(),
            Scheme::Piano(piano) => Sizes { hint: 0, query: piano.query_bytes(), answer: piano.answer_bytes() },
        }
    }

    /// How many queries go in one round: so many that a message stays below two mebibytes, or one.
    pub fn together(&self) -> u64 {
        let Sizes { query, answer, .. } = self.sizes();
        let most = match self {
            Scheme::Linear(_) => LINEAR_TOGETHER,
            Scheme::Piano(_) => vesica_pir::piano::TOGETHER,
        };
        ((2 << 20) / query.max(answer).max(1) as u64).clamp(1, most)
    }
}

/// The most queries that a linear scheme answers in one pass over the table.
const LINEAR_TOGETHER: u64 = 4;

/// A [`Pir`] without its types.
pub trait Linear: Send + Sync {
    /// How long its messages are.
    fn sizes(&self) -> Sizes;
    /// The server's side over a table.
    fn serve(&self, table: Flat<'_>) -> Result<Box<dyn Serves>, PirError>;
    /// The client's side with its hint.
    fn read(&self, hint: &[u8]) -> Result<Box<dyn Reads>, PirError>;
}

/// The server's side of a [`Linear`].
pub trait Serves: Send + Sync {
    /// The hint, made anew.
    fn hint(&self) -> Result<Vec<u8>, PirError>;
    /// Answers to queries, in their order.
    fn answer(&self, queries: &[&[u8]]) -> Result<Vec<Vec<u8>>, PirError>;
}

/// The client's side of a [`Linear`]. Answers come in the order of queries.
pub trait Reads: Send {
    /// A query for a record.
    fn query(&mut self, index: u64, rng: &mut SessionRng) -> Result<Vec<u8>, PirError>;
    /// The record of the earliest query that has no answer yet.
    fn decode(&mut self, answer: &[u8]) -> Result<Vec<u8>, PirError>;
}

impl<P: Pir + Clone + Send + 'static> Linear for P {
    fn sizes(&self) -> Sizes {
        Pir::sizes(self)
    }

    fn serve(&self, table: Flat<'_>) -> Result<Box<dyn Serves>, PirError> {
        let store = self.store(&table)?;
        Ok(Box::new(Served { scheme: self.clone(), store }))
    }

    fn read(&self, hint: &[u8]) -> Result<Box<dyn Reads>, PirError> {
        let hint = self.take_hint(hint)?;
        Ok(Box::new(Reading { scheme: self.clone(), hint, waiting: VecDeque::new() }))
    }
}

struct Served<P: Pir> {
    scheme: P,
    store: P::Store,
}

impl<P: Pir + Send> Serves for Served<P> {
    fn hint(&self) -> Result<Vec<u8>, PirError> {
        self.scheme.hint(&self.store)
    }

    fn answer(&self, queries: &[&[u8]]) -> Result<Vec<Vec<u8>>, PirError> {
        self.scheme.answer(&self.store, queries)
    }
}

struct Reading<P: Pir> {
    scheme: P,
    hint: P::Hint,
    waiting: VecDeque<P::Secret>,
}

impl<P: Pir + Send> Reads for Reading<P> {
    fn query(&mut self, index: u64, rng: &mut SessionRng) -> Result<Vec<u8>, PirError> {
        let (secret, query) = self.scheme.query(&self.hint, index, rng)?;
        self.waiting.push_back(secret);
        Ok(query)
    }

    fn decode(&mut self, answer: &[u8]) -> Result<Vec<u8>, PirError> {
        let secret = self.waiting.pop_front().ok_or_else(|| PirError::Message("an answer to no query".into()))?;
        self.scheme.decode(&self.hint, secret, answer)
    }
}
