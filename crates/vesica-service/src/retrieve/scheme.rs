//! The schemes behind one face: which one a service has is decided once.

use super::epoch::Epoch;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use vesica_pir::keyword::Filter;
use vesica_pir::piano::Piano;
use vesica_pir::{Download, Flat, Pir, PirError, PublicSeed, RlwePir, Shape, SimplePir, Sizes, rlwe, simple};
use vesica_session::SessionRng;
use vesica_spec::service::{By, Preset, ServiceProtocol};

/// The scheme of a service, made from what its epoch says.
pub enum Scheme {
    /// One message each way, over a hint.
    Simple(SimplePir),
    /// The whole table, and no messages.
    Download(Download),
    /// A window at the client, and √N records a query.
    Piano(Piano),
    /// Encryption over polynomials: no hint, and keys where a query has to be expanded.
    Lattice(Arc<RlwePir>),
}

impl Scheme {
    /// The scheme of `protocol` over the records of an epoch.
    ///
    /// # Errors
    /// If the scheme does not serve so many records, or so long ones; if the protocol is none.
    pub fn new(protocol: ServiceProtocol, by: By, epoch: &Epoch) -> Result<Self, PirError> {
        let (records, width) = (epoch.records, epoch.width as usize);
        Ok(match protocol {
            ServiceProtocol::SimplePir => {
                let shape = shape(by, epoch.planned, epoch.width, epoch.expected)?;
                if shape.records != records {
                    let of = shape.records;
                    return Err(PirError::Shape(format!("{records} records, in a table that is laid out for {of}")));
                }
                Scheme::Simple(SimplePir::new(shape, PublicSeed(epoch.matrix_seed())))
            }
            ServiceProtocol::Download => Scheme::Download(Download::new(records, width)?),
            ServiceProtocol::Piano => Scheme::Piano(Piano::new(records, width)?),
            ServiceProtocol::BfvPir => lattice(rlwe::Scheme::Bfv, epoch)?,
            ServiceProtocol::BgvPir => lattice(rlwe::Scheme::Bgv, epoch)?,
            ServiceProtocol::CkksPir => lattice(rlwe::Scheme::Ckks, epoch)?,
            ServiceProtocol::EcdhOprf => {
                return Err(PirError::Shape("\"ecdh-oprf\" retrieves no records".into()));
            }
        })
    }

    /// A table as the server answers from it.
    ///
    /// # Errors
    /// If the table is not of the scheme's shape.
    pub fn store(&self, table: &Flat<'_>) -> Result<Stored, PirError> {
        Ok(match self {
            Scheme::Simple(simple) => Stored::Simple(simple.store(table)?),
            Scheme::Lattice(lattice) => Stored::Lattice(lattice.store(table)?),
            Scheme::Download(_) | Scheme::Piano(_) => Stored::Plain,
        })
    }

    /// Answers to queries under the keys that came before them, in their order. What is refused depends on the bytes of both alone.
    ///
    /// # Errors
    /// Keys or queries that are none; a scheme that has no such queries.
    pub fn answer(&self, store: &Stored, keys: &[u8], queries: &[&[u8]]) -> Result<Vec<Vec<u8>>, PirError> {
        match (self, store) {
            (Scheme::Simple(simple), Stored::Simple(store)) => simple.answer(store, queries),
            // Keys are held as they travel, which is a third of what they are unpacked, and unpacked only while their round is worked on.
            (Scheme::Lattice(lattice), Stored::Lattice(store)) => {
                lattice.answer(store, &lattice.take_keys(keys)?, queries)
            }
            _ => Err(PirError::Message("a query to a table that answers none".into())),
        }
    }

    /// The client's side with what it copied; none for Piano, whose client has a window.
    ///
    /// # Errors
    /// A hint that is none.
    pub fn reader(&self, copy: Vec<u8>) -> Result<Option<Reader>, PirError> {
        Ok(match self {
            Scheme::Simple(simple) => Some(Reader::Simple(*simple, Box::new(simple.take_hint(copy)?), VecDeque::new())),
            Scheme::Download(download) => Some(Reader::Download(*download, download.take_hint(copy)?, VecDeque::new())),
            Scheme::Lattice(lattice) => Some(Reader::Lattice(lattice.clone(), None, VecDeque::new())),
            Scheme::Piano(_) => None,
        })
    }

    /// How long its messages are. The hint of Piano is the table, which streams by.
    pub fn sizes(&self) -> Sizes {
        match self {
            Scheme::Simple(simple) => simple.sizes(),
            Scheme::Download(download) => download.sizes(),
            Scheme::Piano(piano) => Sizes { hint: 0, query: piano.query_bytes(), answer: piano.answer_bytes() },
            Scheme::Lattice(lattice) => lattice.sizes(),
        }
    }

    /// Bytes that a client keeps of a query until it decodes the answer.
    pub fn secret_bytes(&self) -> u64 {
        match self {
            Scheme::Simple(simple) => simple.secret_bytes(),
            Scheme::Lattice(_) => size_of::<rlwe::Secret>() as u64,
            Scheme::Download(_) | Scheme::Piano(_) => 0,
        }
    }

    /// Bytes of the keys that a client sends before its queries; zero for most schemes.
    pub fn keys_bytes(&self) -> usize {
        match self {
            Scheme::Lattice(lattice) => lattice.keys_bytes(),
            _ => 0,
        }
    }

    /// Bytes of the server's memory for a table of so many bytes, without what clients copy.
    pub fn store_bytes(&self, table: u64) -> u64 {
        match self {
            Scheme::Lattice(lattice) => lattice.store_bytes() as u64,
            _ => table,
        }
    }

    /// Seconds that the server takes for a query that reads a whole table of so many bytes, where `speed` bytes are read in a second.
    pub fn seconds(&self, table: u64, speed: f64) -> f64 {
        match self {
            Scheme::Lattice(lattice) => {
                let start = Instant::now();
                (0..SAMPLE).for_each(|_| lattice.transform());
                let transform = start.elapsed().as_secs_f64() / f64::from(SAMPLE);
                lattice.transforms() as f64 * transform + lattice.store_bytes() as f64 / speed
            }
            _ => table as f64 / speed,
        }
    }

    /// How many queries go in one round: so many that a message stays below two mebibytes, or one.
    pub fn together(&self) -> u64 {
        let Sizes { query, answer, .. } = self.sizes();
        let most = match self {
            Scheme::Simple(_) | Scheme::Download(_) | Scheme::Lattice(_) => LINEAR_TOGETHER,
            Scheme::Piano(_) => vesica_pir::piano::TOGETHER,
        };
        ((2 << 20) / query.max(answer).max(1) as u64).clamp(1, most)
    }
}

/// Transforms that are timed to see how long one takes.
const SAMPLE: u32 = 64;

/// Retrieval by encryption over polynomials.
fn lattice(scheme: rlwe::Scheme, epoch: &Epoch) -> Result<Scheme, PirError> {
    let preset = match epoch.preset {
        Preset::Fast => rlwe::Preset::Fast,
        Preset::Seed => rlwe::Preset::Seed,
    };
    Ok(Scheme::Lattice(Arc::new(RlwePir::new(scheme, preset, epoch.records, epoch.width as usize)?)))
}

/// The most queries that a client of a linear scheme has on their way at once.
const LINEAR_TOGETHER: u64 = 4;

/// How "simple-pir" lays out a table of `rows` rows, with records of `width` bytes. Both sides compute it.
///
/// # Errors
/// If no shape holds so large a table.
pub fn shape(by: By, rows: u64, width: u32, expected: u32) -> Result<Shape, PirError> {
    let shape = match by {
        By::Index => Shape::cheapest(rows, width, expected.into()),
        By::Key => Filter::shape(rows, width, expected.into()),
    };
    shape.ok_or_else(|| {
        PirError::Shape(format!(
            "{rows} records of {width} bytes are too large a table for \"simple-pir\"; cut it in two services"
        ))
    })
}

/// A table as its scheme laid it out.
pub enum Stored {
    /// As it is.
    Plain,
    /// For "simple-pir".
    Simple(simple::Store),
    /// As plaintexts of polynomials.
    Lattice(rlwe::Store),
}

/// The client's side of a scheme that answers a query with one message. Answers come in the order of queries.
pub enum Reader {
    /// With a hint, and the secrets of queries that have no answer yet.
    Simple(SimplePir, Box<simple::Hint>, VecDeque<simple::Secret>),
    /// With the table, and the records that were asked for.
    Download(Download, Vec<u8>, VecDeque<u64>),
    /// With a session, once that has begun.
    Lattice(Arc<RlwePir>, Option<rlwe::Session>, VecDeque<rlwe::Secret>),
}

impl Reader {
    /// Begins a session: what follows until the next one is asked under the keys that this gives, if the scheme has any.
    pub fn session(&mut self, rng: &mut SessionRng) -> Vec<u8> {
        match self {
            Reader::Lattice(scheme, session, _) => {
                let (begun, keys) = scheme.session(rng);
                *session = Some(begun);
                keys
            }
            _ => Vec::new(),
        }
    }

    /// A query for the sum of some records, byte by byte modulo 256. Where there is no such sum, for the first of them.
    pub fn query(&mut self, records: &[u64], rng: &mut SessionRng) -> Result<Vec<u8>, PirError> {
        match self {
            Reader::Simple(scheme, hint, waiting) => {
                let (secret, query) = scheme.query_sum(hint, records, rng)?;
                waiting.push_back(secret);
                Ok(query)
            }
            Reader::Download(scheme, table, waiting) => {
                let (index, query) = scheme.query(table, first(records), rng)?;
                waiting.push_back(index);
                Ok(query)
            }
            Reader::Lattice(scheme, session, waiting) => {
                let session = session.as_ref().ok_or_else(|| PirError::Shape("a query before its session".into()))?;
                let (secret, query) = scheme.query(session, first(records), rng)?;
                waiting.push_back(secret);
                Ok(query)
            }
        }
    }

    /// The record of the earliest query that has no answer yet.
    pub fn decode(&mut self, answer: &[u8]) -> Result<Vec<u8>, PirError> {
        let unasked = || PirError::Shape("an answer to no query".into());
        match self {
            Reader::Simple(scheme, hint, waiting) => {
                scheme.decode(hint, waiting.pop_front().ok_or_else(unasked)?, answer)
            }
            Reader::Download(scheme, table, waiting) => {
                scheme.decode(table, waiting.pop_front().ok_or_else(unasked)?, answer)
            }
            Reader::Lattice(scheme, _, waiting) => scheme.decode(&waiting.pop_front().ok_or_else(unasked)?, answer),
        }
    }
}

/// A number that no record has, if none is asked for.
fn first(records: &[u64]) -> u64 {
    records.first().copied().unwrap_or(u64::MAX)
}
