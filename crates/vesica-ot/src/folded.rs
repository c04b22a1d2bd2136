//! Correlated rows of any code, folded: one party chooses a word of n bits for each row, the other holds n secret elements.
//!
//! [Roy22] Roy, "SoftSpokenOT: quieter OT extension from small-field silent VOLE in the Minicrypt model", CRYPTO 2022, eprint
//! 2022/192: the small-field VOLE (Figure 5) and its trees with their check (Figures 13 and 14), for a fold of 4.
//!
//!   C(x)    the word of a row, n bits              words      Δ     n secret elements of GF(2)^4           delta
//!   u'      bits that the receiver's trees give    sums       V, W  W = V + C(x) ∘ Δ: a bit times an element   rows
//!   E       C(x) + u'                              wire
//!
//! Opening: 1. 4·n random OTs: the sender gets, for each tree, the sibling of every node on the path to its own four bits of Δ.
//! 2. R -> S: the sums of left and of right children of each level, under those keys; if malicious, also Roy's check.
//! Extending: R -> S: E, a message a batch.
//! Why: rows at two words that differ in d places are 4·d unknown bits of Δ apart, and a word costs n bits on the wire, not 4·n.
//! That rows are words of a code is for the caller to check ([`crate::subspace`]), or to take on trust.
//! Rounds: 1.5, then 1/2.   Bytes: 12 kB and 96·n (160·n if malicious), then n bits a row.
//! Differs from the paper: the receiver's words are not random but chosen, which saves a message.
//!
//! One opening serves many calls, each with an id of its own, as in [`crate::softspoken`].

use crate::bch::{BATCH, turn};
use crate::softspoken::{self, FOLD, Shared, Streams, batches, expand, expand_but_one};
use crate::{Against, SecretBlocks, pack, receive_blocks};
use subtle::Choice;
use vesica_block::{Block, Row, large};
use vesica_session::{Channel, Result, SessionRng};
use zeroize::Zeroizing;

/// Rows that are wiped when dropped.
pub type SecretRows<const R: usize> = Zeroizing<Vec<Row<R>>>;

/// The side that holds Δ.
pub struct Sender {
    length: usize,
    /// Bits of Δ: those of place i from 4·i on.
    pub(crate) delta: Zeroizing<Vec<bool>>,
    pub(crate) shared: Shared,
}

/// The side that chooses words.
pub struct Receiver {
    length: usize,
    pub(crate) shared: Shared,
}

impl Sender {
    /// Opens a base with a [`Receiver`] on the other side, for words of `length` bits, in the run that `session` names.
    ///
    /// # Errors
    /// Those of the channel, and the peer's if it breaks the protocol.
    pub fn open(
        length: usize,
        against: impl Into<Against>,
        session: &[u8; 32],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<Self> {
        let (against, width) = (against.into(), FOLD * length);
        // 1.
        let base = softspoken::Receiver::open(against.clone(), FOLD, session, ch, rng)?;
        let (choices, siblings) = base.random(0, width, ch)?;
        let delta = (0..width).map(|i| choices[i / 128].0 >> (i % 128) & 1 == 0).collect();
        let delta: Zeroizing<Vec<bool>> = Zeroizing::new(delta);
        // 2. <- sums of every level but the first, then the check
        let mut shared = Shared::new(against, FOLD, width, base.session());
        let wire = receive_blocks(ch, shared.trees() * shared.tree_blocks())?;
        let mut leaves = Zeroizing::new(Vec::with_capacity(shared.trees() << FOLD));
        for (g, message) in wire.chunks_exact(shared.tree_blocks()).enumerate() {
            let path = |level| Choice::from(u8::from(delta[g * FOLD + level]));
            let tree = expand_but_one(path, &siblings[g * FOLD..][..FOLD], message);
            leaves.extend_from_slice(&shared.seeds_but_one(tree, path, &message[2 * (FOLD - 1)..], ch)?);
        }
        shared.leaves = leaves;
        Ok(Self { length, delta, shared })
    }

    /// Δ as a row: what a row moves by if its word has a one at every place.
    pub fn delta<const R: usize>(&self) -> Zeroizing<Row<R>> {
        let mut row = Zeroizing::new(Row::ZERO);
        for (i, &bit) in self.delta.iter().enumerate() {
            let at = plane(self.length, i);
            row.0[at / 64] |= u64::from(bit) << (at % 64);
        }
        row
    }

    /// `n` rows of W, whatever words the receiver chose.
    ///
    /// # Errors
    /// Those of the channel; a bug if `id` was used before.
    ///
    /// # Panics
    /// If a row has not 64·R = 4·n bits.
    pub fn extend<const R: usize>(&self, id: u64, n: usize, ch: &mut dyn Channel) -> Result<SecretRows<R>> {
        Ok(self.made(id, blocks(n), false, ch)?.rows(n))
    }

    /// W in as many blocks of a column; with the columns, if they are to be hashed.
    pub(crate) fn made<const R: usize>(
        &self,
        id: u64,
        blocks: usize,
        keep: bool,
        ch: &mut dyn Channel,
    ) -> Result<Made<R>> {
        let Self { length, delta, shared } = self;
        shared.claim(id)?;
        let mut made = Made::new(*length, keep, blocks);
        let mut streams = Streams::new(shared, id, BATCH.min(blocks));
        // <- E
        for (_, len) in batches(blocks, BATCH) {
            let (columns, _) = streams.next(len);
            let words = receive_blocks(ch, length * len)?;
            for (i, column) in columns.chunks_exact_mut(len).enumerate() {
                let chosen = Block::mask(delta[i]);
                column.iter_mut().zip(&words[i / FOLD * len..][..len]).for_each(|(w, &e)| *w ^= e & chosen);
            }
            made.take(columns, len);
        }
        Ok(made)
    }
}

impl Receiver {
    /// Opens a base with a [`Sender`] on the other side, for words of `length` bits, in the run that `session` names.
    ///
    /// # Errors
    /// Those of the channel, and the peer's if it breaks the protocol.
    pub fn open(
        length: usize,
        against: impl Into<Against>,
        session: &[u8; 32],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<Self> {
        let (against, width) = (against.into(), FOLD * length);
        // 1.
        let base = softspoken::Sender::open(against.clone(), FOLD, session, ch, rng)?;
        let keys = base.random(0, width, ch, rng)?;
        // 2. -> sums of every level but the first, then the check
        let mut shared = Shared::new(against, FOLD, width, base.session());
        let mut wire = Vec::with_capacity(shared.trees() * shared.tree_blocks());
        let mut leaves = Zeroizing::new(Vec::with_capacity(shared.trees() << FOLD));
        for keys in keys.chunks_exact(FOLD) {
            let tree = expand(keys, &mut wire);
            leaves.extend_from_slice(&shared.seeds(tree, &mut wire));
        }
        ch.send(&pack(&wire))?;
        shared.leaves = leaves;
        Ok(Self { length, shared })
    }

    /// `n` rows of V, for the words that `words` gives: of the rows from 128·start on the columns, `len` blocks each, for a start and a
    /// len. Words of rows beyond n may be any.
    ///
    /// # Errors
    /// Those of the channel; a bug if `id` was used before.
    ///
    /// # Panics
    /// If a row has not 64·R = 4·n bits.
    pub fn extend<const R: usize>(
        &self,
        id: u64,
        n: usize,
        ch: &mut dyn Channel,
        words: impl FnMut(usize, usize) -> SecretBlocks,
    ) -> Result<SecretRows<R>> {
        Ok(self.made(id, blocks(n), false, ch, words)?.rows(n))
    }

    /// V in as many blocks of a column; with the columns, if they are to be hashed.
    pub(crate) fn made<const R: usize>(
        &self,
        id: u64,
        blocks: usize,
        keep: bool,
        ch: &mut dyn Channel,
        mut words: impl FnMut(usize, usize) -> SecretBlocks,
    ) -> Result<Made<R>> {
        let Self { length, shared } = self;
        shared.claim(id)?;
        let mut made = Made::new(*length, keep, blocks);
        let mut streams = Streams::new(shared, id, BATCH.min(blocks));
        // -> E
        for (start, len) in batches(blocks, BATCH) {
            let mut words = words(start, len);
            let (columns, sums) = streams.next(len);
            assert_eq!(words.len(), sums.len(), "columns of words");
            words.iter_mut().zip(sums).for_each(|(e, &u)| *e ^= u);
            ch.send(&pack(&words))?;
            made.take(columns, len);
        }
        Ok(made)
    }
}

/// Blocks of a column for n rows.
fn blocks(n: usize) -> usize {
    n.div_ceil(128).max(1)
}

/// Where column `i` of the trees stands in a row: the first bits of all places, then the second ones, and so on.
pub(crate) fn plane(length: usize, i: usize) -> usize {
    i % FOLD * length + i / FOLD
}

/// What an extension has made so far.
pub(crate) struct Made<const R: usize> {
    rows: SecretRows<R>,
    /// The columns, batch after batch, if they are to be hashed before they become rows.
    kept: SecretBlocks,
    keep: bool,
    /// Places of a word.
    length: usize,
    /// Memory for a batch.
    batch: SecretBlocks,
}

impl<const R: usize> Made<R> {
    fn new(length: usize, keep: bool, blocks: usize) -> Self {
        assert_eq!(64 * R, FOLD * length, "bits of a row");
        let mut rows = Zeroizing::new(Vec::new());
        large::reserve(&mut *rows, 128 * blocks);
        let batch = Zeroizing::new(vec![Block::ZERO; FOLD * length * BATCH.min(blocks)]);
        let mut kept = Zeroizing::new(Vec::new());
        large::reserve(&mut *kept, if keep { FOLD * length * blocks } else { 0 });
        Self { rows, kept, keep, length, batch }
    }

    /// Takes `len` blocks of every column.
    fn take(&mut self, columns: &[Block], len: usize) {
        for (i, column) in columns.chunks_exact(len).enumerate() {
            self.batch[plane(self.length, i) * len..][..len].copy_from_slice(column);
        }
        let batch = &self.batch[..columns.len()];
        if self.keep {
            self.kept.extend_from_slice(batch);
        } else {
            turn(batch, len, &mut self.rows);
        }
    }

    /// The columns that were kept, batch after batch.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &[Block]> {
        self.kept.chunks(self.batch.len())
    }

    /// The first n rows.
    pub(crate) fn rows(mut self, n: usize) -> SecretRows<R> {
        for batch in self.kept.chunks(self.batch.len()) {
            turn(batch, batch.len() / (FOLD * self.length), &mut self.rows);
        }
        self.rows.truncate(n);
        self.rows
    }
}
