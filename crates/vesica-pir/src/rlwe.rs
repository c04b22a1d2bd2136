//! Retrieval by lattice encryption over polynomials: BFV, BGV, and CKKS for rows of real numbers.
//!
//! Source: S. Angel, H. Chen, K. Laine, S. Setty, "PIR with Compressed Queries and Amortized Query Processing" (SealPIR),
//!   eprint 2017/1142: figure 3 for the expansion, one dimension of figure 2 for the answer. Two dimensions: M. Mughees,
//!   H. Chen, L. Ren, "OnionPIR", eprint 2021/1081. Without expansion it is the scheme of J. Stern, ASIACRYPT 1998.
//! Symbols: n coefficients of a polynomial; m blocks of the table, each a plaintext P_k (or several, if a record is longer);
//!   the record is in block k* from word `at` on.
//!
//!   client                                                      server
//!   few blocks:  s fresh for each query
//!   more blocks: s fresh for each session, keys under s
//!                                     -- seed, keys -->         once
//!   few blocks:  c_k = Enc(k = k* ? selector(at) : 0)
//!   more blocks: c = Enc(X^k* / 2^⌈log2 m⌉)
//!   many blocks: k* is column i* of row j*: c holds X^i* and
//!                the bits of j*, times powers of 2^10
//!                                     -- seed, c -->
//!                                                               more blocks: c_k = Expand(c), which holds 1 if k = k*
//!                                                               r = Σ c_k·P_k
//!                                                               many blocks: r_j = Σ c_i·P_ij for each row j;
//!                                                                 r = the one of the r_j that the bits choose
//!                                                               switch r to few bits
//!                                     <-- r --
//!   Dec(r): block k*, or the record alone
//!
//! Reveals: nothing of the index to the server, which sees encryptions under a secret that it does not know. To the
//! client: with few
//!   blocks the record and what the noise tells of others; with more, the record's whole block. A client that deviates may ask for
//!   any sums of records of its choice. Where rows are not public, encrypt them first.
//! Rounds: one. Bytes by public sizes alone ([`Pir::sizes`]).
//! Errors: an answer is wrong with probability at most 2^-64, so that one of the 2^24 answers of a job is with at most 2^-40.
//! Differences: keys are sent anew in each session, so that sessions cannot be linked; BGV and CKKS beside BFV; a node of the
//!   expansion without right leaves is doubled in place of switched; the selector is divided modulo Q, which loses nothing.
//!
//! **Approximate numbers** (CKKS): what is decoded must never go back to the server, nor to anybody who saw the answer
//! ([`vesica_he::ckks`]). The fresh secret of each session bounds what a mistake costs to that session.

mod answer;
mod encode;
mod query;
mod shape;
mod sizes;

pub use answer::Store;
pub use encode::{LARGEST_REAL, OFF};

use crate::{PirError, Sizes, check_index};
use encode::Encoding;
use query::{due, wrong};
use shape::Shape;
use vesica_he::rlwe::{Ciphertext, Rlwe as Ring, Secret as Key, SwitchKey};
use vesica_he::{HeError, bfv, bgv};
use vesica_ring::bits::unpack;
use vesica_session::SessionRng;
use zeroize::Zeroizing;

/// Where a message stands in a ciphertext.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// In the high bits.
    Bfv,
    /// In the low bits.
    Bgv,
    /// In the high bits, with the error in its low digits: real numbers of 8 bytes each, as `f64` has them.
    Ckks,
}

/// Which rings are used. CKKS has one for both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preset {
    /// The smallest ring that holds the table.
    Fast,
    /// n = 8192, primes of 50 bits, of which as many as the noise needs and at most three, t = 65537, scale 2^40.
    Seed,
}

/// Retrieval by one of the schemes for one table's sizes.
pub struct RlwePir {
    shape: Shape,
    ring: Ring,
    encoding: Encoding,
}

/// What a secret polynomial is drawn from. A client that has asked for many records keeps one for each, and no polynomials.
type Seed = Zeroizing<[u8; 32]>;

/// What a client keeps for the queries of a session: their common secret, if there are keys under it. Otherwise each query has its
/// own.
pub struct Session(Option<Seed>);

/// The keys of a session as the server has them.
pub struct Keys(Vec<SwitchKey>);

/// What a client keeps of one query: the secret, and the place of the record in its block. Both are wiped when they are dropped.
pub struct Secret {
    seed: Seed,
    at: Zeroizing<usize>,
}

impl RlwePir {
    /// Retrieval from `records` records of `width` bytes.
    ///
    /// # Errors
    /// [`PirError::Shape`] if the scheme cannot serve them.
    pub fn new(scheme: Scheme, preset: Preset, records: u64, width: usize) -> Result<Self, PirError> {
        let shape = Shape::new(scheme, preset, records, width)?;
        let step = if scheme == Scheme::Bgv { bgv::step(shape.set.plain) } else { bfv::STEP };
        Ok(Self { ring: Ring::new(shape.set, shape.limbs, step), encoding: Encoding::new(&shape), shape })
    }

    /// Bytes of the server's memory for the table. In two dimensions the last row is filled up with zeros.
    pub fn store_bytes(&self) -> usize {
        let Shape { parts, columns, limbs, set, .. } = self.shape;
        parts * self.shape.table_rows() * columns * limbs * set.n * 8
    }

    /// Transforms of n points that an answer takes: with the products, which read [`RlwePir::store_bytes`], they are its time.
    pub fn transforms(&self) -> u64 {
        self.shape.transforms() as u64
    }

    /// One such transform, for whoever wants to know how long it takes on this machine.
    pub fn transform(&self) {
        self.ring.basis().limb(0).forward(std::hint::black_box(&mut vec![1; self.shape.set.n]));
    }

    /// How long a query and its answer are.
    pub fn sizes(&self) -> Sizes {
        Sizes { hint: 0, query: self.shape.query_bytes(), answer: self.shape.answer_bytes() }
    }

    /// Bytes of the keys that a client sends once, before the queries of a session. Zero where queries need none.
    pub fn keys_bytes(&self) -> usize {
        self.shape.keys_bytes()
    }

    /// A session, and the keys that the client sends before its first query.
    pub fn session(&self, rng: &mut SessionRng) -> (Session, Vec<u8>) {
        if self.keys_bytes() == 0 {
            return (Session(None), vec![]);
        }
        let seed = Zeroizing::new(rng.bytes());
        let keys = query::write_keys(self, &self.key(&seed), rng);
        (Session(Some(seed)), keys)
    }

    /// The secret polynomial of a seed.
    fn key(&self, seed: &Seed) -> Key {
        self.ring.secret(&mut SessionRng::from_seed(seed.clone()))
    }

    /// The keys of a session as they came.
    ///
    /// # Errors
    /// [`PirError::Message`] if there are more or fewer bytes, or a number is no residue.
    pub fn take_keys(&self, keys: &[u8]) -> Result<Keys, PirError> {
        query::read_keys(self, keys).map(Keys)
    }

    /// A query for record `index`. Two for one record are different bytes.
    ///
    /// # Errors
    /// [`PirError::Shape`] if there is no such record.
    pub fn query(&self, session: &Session, index: u64, rng: &mut SessionRng) -> Result<(Secret, Vec<u8>), PirError> {
        check_index(index, self.shape.rows)?;
        let seed = session.0.clone().unwrap_or_else(|| Zeroizing::new(rng.bytes()));
        let query = query::write(self, &self.key(&seed), index, rng);
        Ok((Secret { seed, at: Zeroizing::new(self.shape.place(index).1) }, query))
    }

    /// The record, or an error. Whether it could be decoded is not to be told to the server.
    ///
    /// # Errors
    /// [`PirError::Message`] if the answer is none.
    pub fn decode(&self, secret: &Secret, answer: &[u8]) -> Result<Vec<u8>, PirError> {
        let Self { shape, ring, encoding } = self;
        due(answer, shape.answer_bytes())?;
        let key = self.key(&secret.seed);
        let [b_bytes, a_bytes] = shape.part_bytes();
        let parts = answer.chunks(b_bytes + a_bytes).map(|part| part.split_at(b_bytes));
        if shape.scheme == Scheme::Ckks {
            let phase = |(b, a)| Ok(ring.phase(&key, &Ciphertext { b: ring.read(1, b)?, a: ring.read(1, a)? }));
            let phases = parts.map(phase).collect::<Result<Vec<_>, HeError>>().map_err(wrong)?;
            return Ok(encoding.reals(shape, &phases, *secret.at));
        }
        let [b_bits, a_bits] = shape.set.answer_bits;
        let part = |(b, a)| {
            let b: Vec<u64> = unpack(b, b_bits, shape.b_words()).collect();
            let a: Vec<u64> = unpack(a, a_bits, shape.set.n).collect();
            let phase = ring.short_phase(&key, &b, &a, shape.set.answer_bits);
            phase.iter().map(|&phase| encode::coefficient(shape, phase)).collect()
        };
        Ok(encoding.record(shape, parts.map(part).collect(), *secret.at))
    }
}

#[cfg(test)]
mod tests;
