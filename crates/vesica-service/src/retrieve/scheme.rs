//! The schemes behind one face: which one a service has is decided once, and nothing above asks again.

use super::epoch::Epoch;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use vesica_pir::piano::Piano;
use vesica_pir::{Download, Flat, Pir, PirError, PublicSeed, RlwePir, Shape, SimplePir, Sizes, rlwe};
use vesica_session::SessionRng;
use vesica_spec::service::{Preset, ServiceProtocol};

/// The scheme of a service, made from what its epoch says.
pub enum Scheme {
    /// One message each way, over a hint or none, and before them keys or none.
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
            ServiceProtocol::BfvPir => lattice(rlwe::Scheme::Bfv, epoch)?,
            ServiceProtocol::BgvPir => lattice(rlwe::Scheme::Bgv, epoch)?,
            ServiceProtocol::CkksPir => lattice(rlwe::Scheme::Ckks, epoch)?,
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

    /// Bytes of the keys that a client sends before its queries; zero for most schemes.
    pub fn keys_bytes(&self) -> usize {
        match self {
            Scheme::Linear(linear) => linear.keys_bytes(),
            Scheme::Piano(_) => 0,
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

/// Retrieval by encryption over polynomials.
fn lattice(scheme: rlwe::Scheme, epoch: &Epoch) -> Result<Scheme, PirError> {
    let preset = match epoch.preset {
        Preset::Fast => rlwe::Preset::Fast,
        Preset::Seed => rlwe::Preset::Seed,
    };
    let scheme = RlwePir::new(scheme, preset, epoch.records, epoch.width as usize)?;
    Ok(Scheme::Linear(Box::new(Lattice(Arc::new(scheme)))))
}

/// The most queries that a linear scheme answers in one pass over the table.
const LINEAR_TOGETHER: u64 = 4;

/// A [`Pir`] without its types.
pub trait Linear: Send + Sync {
    /// How long its messages are.
    fn sizes(&self) -> Sizes;
    /// Bytes of the keys that a client sends before its queries.
    fn keys_bytes(&self) -> usize {
        0
    }
    /// Bytes of the server's memory for a table of so many bytes, without the hint.
    fn store_bytes(&self, table: u64) -> u64 {
        table
    }
    /// Seconds that the server takes for a query to a table of so many bytes, where `speed` bytes are read in a second.
    fn seconds(&self, table: u64, speed: f64) -> f64 {
        table as f64 / speed
    }
    /// The server's side over a table.
    fn serve(&self, table: Flat<'_>) -> Result<Box<dyn Serves>, PirError>;
    /// The client's side with its hint.
    fn read(&self, hint: &[u8]) -> Result<Box<dyn Reads>, PirError>;
}

/// The server's side of a [`Linear`].
pub trait Serves: Send + Sync {
    /// The hint, made anew.
    fn hint(&self) -> Result<Vec<u8>, PirError>;
    /// Answers to queries under the keys that came before them, in their order.
    fn answer(&self, keys: &[u8], queries: &[&[u8]]) -> Result<Vec<Vec<u8>>, PirError>;
}

/// The client's side of a [`Linear`]. Answers come in the order of queries.
pub trait Reads: Send {
    /// Begins a session: what follows until the next one is asked under the keys that this gives, if the scheme has any.
    fn session(&mut self, _rng: &mut SessionRng) -> Vec<u8> {
        Vec::new()
    }
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

    fn answer(&self, _keys: &[u8], queries: &[&[u8]]) -> Result<Vec<Vec<u8>>, PirError> {
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

/// Retrieval by encryption over polynomials. It has no hint, and keys where a query has to be expanded.
struct Lattice(Arc<RlwePir>);

/// Transforms that are timed to see how long one takes.
const SAMPLE: u32 = 64;

impl Linear for Lattice {
    fn sizes(&self) -> Sizes {
        self.0.sizes()
    }

    fn keys_bytes(&self) -> usize {
        self.0.keys_bytes()
    }

    fn store_bytes(&self, _table: u64) -> u64 {
        self.0.store_bytes() as u64
    }

    fn seconds(&self, _table: u64, speed: f64) -> f64 {
        let start = Instant::now();
        (0..SAMPLE).for_each(|_| self.0.transform());
        let transform = start.elapsed().as_secs_f64() / f64::from(SAMPLE);
        self.0.transforms() as f64 * transform + self.0.store_bytes() as f64 / speed
    }

    fn serve(&self, table: Flat<'_>) -> Result<Box<dyn Serves>, PirError> {
        Ok(Box::new(Selecting { scheme: self.0.clone(), store: self.0.store(&table)? }))
    }

    fn read(&self, _hint: &[u8]) -> Result<Box<dyn Reads>, PirError> {
        Ok(Box::new(Encrypting { scheme: self.0.clone(), session: None, waiting: VecDeque::new() }))
    }
}

struct Selecting {
    scheme: Arc<RlwePir>,
    store: rlwe::Store,
}

impl Serves for Selecting {
    fn hint(&self) -> Result<Vec<u8>, PirError> {
        Ok(Vec::new())
    }

    fn answer(&self, keys: &[u8], queries: &[&[u8]]) -> Result<Vec<Vec<u8>>, PirError> {
        // Keys are held as they travel, which is a third of what they are unpacked, and unpacked only while their round is worked on.
        self.scheme.answer(&self.store, &self.scheme.take_keys(keys)?, queries)
    }
}

struct Encrypting {
    scheme: Arc<RlwePir>,
    session: Option<rlwe::Session>,
    waiting: VecDeque<rlwe::Secret>,
}

impl Reads for Encrypting {
    fn session(&mut self, rng: &mut SessionRng) -> Vec<u8> {
        let (session, keys) = self.scheme.session(rng);
        self.session = Some(session);
        keys
    }

    fn query(&mut self, index: u64, rng: &mut SessionRng) -> Result<Vec<u8>, PirError> {
        let session = self.session.as_ref().ok_or_else(|| PirError::Message("a query before its session".into()))?;
        let (secret, query) = self.scheme.query(session, index, rng)?;
        self.waiting.push_back(secret);
        Ok(query)
    }

    fn decode(&mut self, answer: &[u8]) -> Result<Vec<u8>, PirError> {
        let secret = self.waiting.pop_front().ok_or_else(|| PirError::Message("an answer to no query".into()))?;
        self.scheme.decode(&secret, answer)
    }
}
