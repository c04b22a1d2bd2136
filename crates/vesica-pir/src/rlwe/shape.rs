//! Which plan serves a table: how records lie in plaintexts, over which ring, and what a message's bytes are.

use super::{Preset, Scheme, encode};
use crate::{PirError, check_shape};
use vesica_params::rlwe::{CKKS_8192, DIGITS, RLWE_2048, RLWE_4096, RLWE_8192, RlweSet};

/// Up to how many blocks a query has a ciphertext for each. An expanded query for six blocks is shorter.
const FEW: u64 = 5;

/// From how many blocks on a second dimension costs the server less.
const MANY: u64 = 48;

/// The most blocks in one dimension, where a query takes the server about a second, and in two dimensions, where the
/// table takes 2 GiB of memory.
const MOST: u64 = 1 << 12;
const MOST_IN_TWO: u64 = 1 << 16;

/// log2 of the probability that one answer is wrong, at most. A question asks for at most 2^24 rows, so one of its answers
/// is wrong with probability at most 2^-40.
pub(super) const FAILURE: f64 = -64.0;

/// How a query says which record it wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plan {
    /// For each block a ciphertext with ones in the record's slots, or with zeros. Other slots of the answer are zero.
    Slots,
    /// For each block a ciphertext of X^-place, or of zero. The record is in the first coefficients of the answer.
    Turn,
    /// One ciphertext, of which the server makes one for each block: of one or of zero. The answer is the record's block.
    Expand,
    /// The blocks are the columns of several rows. The server makes a ciphertext for each column, sums up each row, and
    /// chooses among the rows' sums by the encrypted bits of the row's number.
    Fold,
}

/// Where everything is, by public sizes alone. Both parties compute it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Shape {
    pub scheme: Scheme,
    pub plan: Plan,
    pub set: &'static RlweSet,
    /// How many primes of the set the query has.
    pub limbs: usize,
    /// Records.
    pub rows: u64,
    /// Bytes of a record.
    pub width: usize,
    /// Words of a plaintext: coefficients or slots.
    pub capacity: usize,
    /// Words of a record.
    pub words: usize,
    /// Records of a block; 1 if a record has several plaintexts.
    pub per_block: usize,
    /// Plaintexts of a block, and ciphertexts of an answer.
    pub parts: usize,
    /// Blocks of the table.
    pub blocks: usize,
    /// Blocks of a row: all, unless rows are folded.
    pub columns: usize,
}

impl Shape {
    pub fn new(scheme: Scheme, preset: Preset, rows: u64, width: usize) -> Result<Self, PirError> {
        check_shape(rows, width)?;
        if scheme == Scheme::Ckks && !width.is_multiple_of(8) {
            let why = format!("records of {width} bytes are no rows of real numbers, which have 8 bytes each");
            return Err(PirError::Shape(why));
        }
        let candidates: &[(&'static RlweSet, Plan)] = match (scheme, preset) {
            (Scheme::Ckks, _) => &[(&CKKS_8192, Plan::Slots), (&CKKS_8192, Plan::Expand)],
            (_, Preset::Seed) => &[(&RLWE_8192, Plan::Slots), (&RLWE_8192, Plan::Expand)],
            (_, Preset::Fast) => &[
                (&RLWE_2048, Plan::Turn),
                (&RLWE_4096, Plan::Expand),
                (&RLWE_4096, Plan::Fold),
                (&RLWE_8192, Plan::Expand),
            ],
        };
        let shape = |&(set, plan)| Self::lay(scheme, preset, set, plan, rows, width);
        candidates.iter().find_map(shape).ok_or_else(|| {
            let why = format!("{rows} records of {width} bytes are too many for this scheme; take simple-pir");
            PirError::Shape(why)
        })
    }

    /// The table under one set and plan, with as few primes as the noise allows, if it fits.
    fn lay(scheme: Scheme, preset: Preset, set: &'static RlweSet, plan: Plan, rows: u64, width: usize) -> Option<Self> {
        let (capacity, words) = match scheme {
            Scheme::Ckks => (set.n / 2, width.div_ceil(16)),
            _ => (set.n, (8 * width).div_ceil(set.plain.ilog2() as usize)),
        };
        let (per_block, parts) = if words <= capacity { (capacity / words, 1) } else { (1, words.div_ceil(capacity)) };
        let blocks = rows.div_ceil(per_block as u64);
        let most = match (plan, preset) {
            (Plan::Slots | Plan::Turn, _) => FEW,
            (Plan::Expand, Preset::Fast) if set.n == RLWE_4096.n => MANY,
            (Plan::Expand, _) => MOST,
            (Plan::Fold, _) => MOST_IN_TWO,
        };
        if blocks > most {
            return None;
        }
        let blocks = blocks as usize;
        let shape = |limbs, columns| Self {
            scheme,
            plan,
            set,
            limbs,
            rows,
            width,
            capacity,
            words,
            per_block,
            parts,
            blocks,
            columns,
        };
        match (scheme, plan) {
            (_, Plan::Fold) => {
                let all = (3..=10).map(|log| shape(1, 1 << log));
                all.filter(|shape| shape.fails() <= FAILURE).min_by_key(|shape| shape.switches())
            }
            _ => {
                // For CKKS the product is at the square of a scale, so a prime after the first takes one of the two away.
                let least = if scheme == Scheme::Ckks { 2 } else { 1 };
                (least..=set.primes.len()).map(|limbs| shape(limbs, blocks)).find(|shape| shape.fails() <= FAILURE)
            }
        }
    }

    /// log2 of a bound on the probability that an answer is wrong: that of a number that is off by more than
    /// [`encode::OFF`] for CKKS, and of a wrong byte for the others.
    pub fn fails(&self) -> f64 {
        let each = self.set.expanded_at_worst(self.limbs, self.leaves());
        if self.scheme == Scheme::Ckks {
            return encode::strays(self, each);
        }
        let sums = self.set.products(self.columns, each, self.set.plain as f64 / 2.0);
        // The digits of what is chosen between look random.
        let choices = self.bits() as f64 * self.set.choice(self.set.expanded(self.limbs, self.leaves()));
        // A slot is a sum of all coefficients, so all of them count.
        let coefficients = if self.plan == Plan::Slots { self.set.n * self.parts } else { self.words };
        self.set.failure(self.limbs, sums + choices, coefficients)
    }

    /// What the server computes for a query without the table's products, in key switches: one for each leaf and for each
    /// row of an encrypted bit, and two for each choice, which has as many transforms.
    fn switches(&self) -> usize {
        self.leaves() + self.bits() * DIGITS + 2 * self.table_rows()
    }

    /// Transforms that an answer takes, of which most are those of key switches: with L primes L·(L + 3) + 2 each. A choice takes
    /// twelve.
    pub fn transforms(&self) -> usize {
        let switch = self.limbs * (self.limbs + 3) + 2;
        let dropped: usize = (1..self.limbs).map(|left| 2 * (left + 1)).sum();
        let expanded = (self.leaves() - 1 + self.bits() * DIGITS) * switch;
        expanded + self.parts * (12 * (self.table_rows() - 1) + dropped + 2)
    }

    /// How many rows the table's blocks have.
    pub fn table_rows(&self) -> usize {
        self.blocks.div_ceil(self.columns)
    }

    /// Bits of the number of a row.
    pub fn bits(&self) -> usize {
        self.table_rows().next_power_of_two().ilog2() as usize
    }

    /// Ciphertexts that a query is expanded to: one for each column, and five for each bit of a row's number.
    pub fn leaves(&self) -> usize {
        match self.plan {
            Plan::Slots | Plan::Turn => 1,
            Plan::Expand | Plan::Fold => self.columns + self.bits() * DIGITS,
        }
    }

    /// Levels of the expansion, each with a key.
    pub fn levels(&self) -> usize {
        self.leaves().next_power_of_two().ilog2() as usize
    }

    /// Keys of a session: one for each level of the expansion, and one to multiply a bit's rows by the secret.
    pub fn keys(&self) -> usize {
        self.levels() + usize::from(self.plan == Plan::Fold)
    }

    /// The block of a record, and its first word there. The time does not depend on `row`, which a client keeps secret: a
    /// processor may take longer to divide some numbers than others, so `row` is multiplied by 2^64/d instead.
    ///
    /// With m = ⌊2^64/d⌋ + 1 the product row·m/2^64 exceeds row/d by at most row/2^64. That is less than 1/d for row·d < 2^64, so
    /// both have the same integer below them. There are at most 2^16 blocks of at most 2^13 records.
    pub fn place(&self, row: u64) -> (usize, usize) {
        let per_block = self.per_block as u64;
        let inverse = (1_u128 << 64) / u128::from(per_block) + 1;
        let block = ((u128::from(row) * inverse) >> 64) as u64;
        (block as usize, (row - block * per_block) as usize * self.words)
    }
}
