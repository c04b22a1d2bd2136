//! Correlated rows of a linear code: one party chooses a word for each row, the other holds a secret that separates words.
//!
//! [Roy22] Roy, "SoftSpokenOT: quieter OT extension from small-field silent VOLE in the Minicrypt model", CRYPTO 2022, eprint
//! 2022/192: the small-field VOLE (Figure 5), its trees with their check (Figures 13 and 14), and the subspace VOLE with its
//! consistency check (Figures 7 and 8), here for a code of distance d = 32 and a fold of 4. Words in place of bits are those of
//! [OOS17] Orrù, Orsini, Scholl, "Actively secure 1-out-of-N OT extension with application to private set intersection", CT-RSA
//! 2017, eprint 2016/933.
//!
//!   C       code, n places, k of them the message     code       D     the receiver's messages, a row each     messages
//!   Δ       n secret elements of GF(2)^4              delta      V, W  W = V + C(D) ∘ Δ: a bit times an element    rows
//!   u'      bits that the receiver's trees give       sums       E     C(D) + u'                               wire
//!
//! Opening: 1. 4·n random OTs: the sender gets, for each tree, the sibling of every node on the path to its own four bits of Δ.
//! 2. R -> S: the sums of left and of right children of each level, under those keys; if malicious, also Roy's check.
//! Extending: 1. R -> S: E.   Malicious: 2. S -> R: χ.   3. R -> S: the hash of D's columns by χ, and a digest of the hashes of
//! V's columns; S compares with those of W, corrected by the code's word of hashes.
//! Why: two messages' words differ in 32 places, so rows at one and at the other are 128 unknown bits of Δ apart. A receiver
//! whose rows are no words passes the check only if it guesses the four bits of Δ at every place where they are not; so what it gains
//! in bits it pays in chances to go on. Soundness: blocks/2^128 for the hash, 2^-4 for each place. The hash of D is masked by
//! a block of random rows, so that χ, which the sender chooses, shows nothing of D.
//! Rounds: 1.5, then 1/2 (2 if malicious).   Bytes: 12 kB and 96·n (160·n if malicious), then n bits a row; 16·k + 48 more if malicious.
//! Differs from the papers: the receiver's words are not random but chosen, which saves a message; hashes are polynomials over
//! GF(2^128), and V's hashes travel as a digest.
//!
//! One opening serves many calls, each with an id of its own, as in [`crate::softspoken`]. Once a check has failed no other call passes
//! its own, however many run at once: a receiver cannot try a guess in each of them.

use crate::bch::{BATCH, Bch, STEP, turn};
use crate::softspoken::{self, FOLD, Shared, Streams, batches, digest, expand, expand_but_one, hash_columns};
use crate::{SecretBlocks, Security, pack, receive_blocks};
use std::sync::Arc;
use subtle::Choice;
use vesica_block::{Block, Row, large};
use vesica_params::bch::BchSet;
use vesica_session::{Channel, Result, SessionRng};
use zeroize::Zeroizing;

/// Rows that are wiped when dropped.
pub type SecretRows<const R: usize> = Zeroizing<Vec<Row<R>>>;

/// The side that holds Δ.
pub struct Sender {
    code: Arc<Bch>,
    /// Bits of Δ: those of place i from 4·i on.
    delta: Zeroizing<Vec<bool>>,
    shared: Shared,
}

/// The side that chooses messages.
pub struct Receiver {
    code: Bch,
    shared: Shared,
}

impl Sender {
    /// Opens a base with a [`Receiver`] on the other side.
    ///
    /// # Errors
    /// Those of the channel, and the peer's if it breaks the protocol.
    pub fn open(set: &'static BchSet, security: Security, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self> {
        let width = FOLD * set.length;
        // 1.
        let base = softspoken::Receiver::open(security, FOLD, ch, rng)?;
        let (choices, siblings) = base.random(0, width, ch)?;
        let delta = (0..width).map(|i| choices[i / 128].0 >> (i % 128) & 1 == 0).collect();
        let delta: Zeroizing<Vec<bool>> = Zeroizing::new(delta);
        // 2. <- sums of every level but the first, then the check
        let mut shared = Shared::new(security, FOLD, width, base.session());
        let wire = receive_blocks(ch, shared.trees() * shared.tree_blocks())?;
        let mut leaves = Zeroizing::new(Vec::with_capacity(shared.trees() << FOLD));
        for (g, message) in wire.chunks_exact(shared.tree_blocks()).enumerate() {
            let path = |level| Choice::from(u8::from(delta[g * FOLD + level]));
            let tree = expand_but_one(path, &siblings[g * FOLD..][..FOLD], message);
            leaves.extend_from_slice(&shared.seeds_but_one(&tree, path, &message[2 * (FOLD - 1)..], ch)?);
        }
        shared.leaves = leaves;
        Ok(Self { code: Arc::new(Bch::new(set)), delta, shared })
    }

    /// The code.
    pub fn code(&self) -> &Arc<Bch> {
        &self.code
    }

    /// Δ as a row: what a row moves by if its word has a one at every place.
    pub fn delta<const R: usize>(&self) -> Zeroizing<Row<R>> {
        let mut row = Zeroizing::new(Row::ZERO);
        let n = self.code.length();
        for (i, &bit) in self.delta.iter().enumerate() {
            let at = plane(n, i);
            row.0[at / 64] |= u64::from(bit) << (at % 64);
        }
        row
    }

    /// `n` rows of W.
    ///
    /// # Errors
    /// Those of the channel; the peer's if its words fail the check; a bug if `id` was used before.
    ///
    /// # Panics
    /// If a row has not 64·R = 4·n bits.
    pub fn extend<const R: usize>(
        &self,
        id: u64,
        n: usize,
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<SecretRows<R>> {
        let (shared, length, dimension) = (&self.shared, self.code.length(), self.code.dimension());
        shared.claim(id)?;
        let blocks = blocks(n, shared.security);
        let mut made = Made::new(&self.code, shared.security, blocks);
        let mut streams = Streams::new(shared, id, BATCH);
        // 1. <- E, a message a batch
        for (_, len) in batches(blocks, BATCH) {
            let (columns, _) = streams.next(len);
            let words = receive_blocks(ch, length * len)?;
            for (i, column) in columns.chunks_exact_mut(len).enumerate() {
                let chosen = Block::mask(self.delta[i]);
                column.iter_mut().zip(&words[i / FOLD * len..][..len]).for_each(|(w, &e)| *w ^= e & chosen);
            }
            made.take(columns, len);
        }
        if shared.security == Security::Malicious {
            // 2. -> χ
            let chi = Block::from_le_bytes(rng.bytes());
            ch.send(&chi.to_le_bytes())?;
            // 3. <- hash of D's columns, digest of the hashes of V's
            let answer = ch.recv_exact(dimension * Block::BYTES + 32)?;
            let (message, theirs) = answer.split_at(dimension * Block::BYTES);
            let message = message.as_chunks().0.iter().map(|bytes| Block::from_le_bytes(*bytes));
            let word = self.word(message);
            let mut v = made.hash(chi, blocks);
            for (i, &bit) in self.delta.iter().enumerate() {
                v[plane(length, i)] ^= word[i / FOLD] & Block::mask(bit);
            }
            let right = theirs == digest(&v).as_bytes();
            shared.judge(right, ch, "the rows of its OT extension are no words of the code")?;
        }
        Ok(made.rows(n))
    }

    /// The code's word of these blocks: its rule holds for every bit of a block, so for blocks too.
    fn word(&self, message: impl Iterator<Item = Block>) -> Vec<Block> {
        let mut columns = vec![Block::ZERO; self.code.length() * STEP];
        columns.iter_mut().step_by(STEP).zip(message).for_each(|(column, block)| *column = block);
        self.code.encode(&mut columns, STEP);
        columns.into_iter().step_by(STEP).collect()
    }
}

impl Receiver {
    /// Opens a base with a [`Sender`] on the other side.
    ///
    /// # Errors
    /// Those of the channel, and the peer's if it breaks the protocol.
    pub fn open(set: &'static BchSet, security: Security, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self> {
        let width = FOLD * set.length;
        // 1.
        let base = softspoken::Sender::open(security, FOLD, ch, rng)?;
        let keys = base.random(0, width, ch, rng)?;
        // 2. -> sums of every level but the first, then the check
        let mut shared = Shared::new(security, FOLD, width, base.session());
        let mut wire = Vec::with_capacity(shared.trees() * shared.tree_blocks());
        let mut leaves = Zeroizing::new(Vec::with_capacity(shared.trees() << FOLD));
        for keys in keys.chunks_exact(FOLD) {
            let tree = expand(keys, &mut wire);
            leaves.extend_from_slice(&shared.seeds(&tree, &mut wire));
        }
        ch.send(&pack(&wire))?;
        shared.leaves = leaves;
        Ok(Self { code: Bch::new(set), shared })
    }

    /// A row of V for each of the messages. Bits of a message beyond what a word says are passed over.
    ///
    /// # Errors
    /// Those of the channel; a bug if `id` was used before.
    ///
    /// # Panics
    /// If a row has not 64·R = 4·n bits.
    pub fn extend<const K: usize, const R: usize>(
        &self,
        id: u64,
        messages: &[Row<K>],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<SecretRows<R>> {
        let (shared, dimension) = (&self.shared, self.code.dimension());
        shared.claim(id)?;
        let malicious = shared.security == Security::Malicious;
        let blocks = blocks(messages.len(), shared.security);
        let mut made = Made::new(&self.code, shared.security, blocks);
        let mut streams = Streams::new(shared, id, BATCH);
        let mut said: Vec<SecretBlocks> = Vec::new();
        // 1. -> E, a message a batch
        for (start, len) in batches(blocks, BATCH) {
            let here = messages.get(128 * start..).unwrap_or_default();
            let here = &here[..here.len().min(128 * len)];
            let mut words = match malicious && start + len == blocks {
                // The last block masks what the check says of the others.
                true => self.code.columns(&masked(here, len, rng), len),
                false => self.code.columns(here, len),
            };
            if malicious {
                said.push(Zeroizing::new(words[..dimension * len].to_vec()));
            }
            let (columns, sums) = streams.next(len);
            words.iter_mut().zip(sums).for_each(|(e, &u)| *e ^= u);
            ch.send(&pack(&words))?;
            made.take(columns, len);
        }
        if malicious {
            // 2. <- χ
            let chi = receive_blocks(ch, 1)?[0];
            // 3. -> hash of D's columns, digest of the hashes of V's
            let mut answer = pack(&hash_columns(chi, said.iter().map(|part| &part[..]), dimension, blocks));
            answer.extend(digest(&made.hash(chi, blocks)).as_bytes());
            ch.send(&answer)?;
        }
        Ok(made.rows(messages.len()))
    }
}

/// Messages of `len` blocks of rows: these, zeros, and a last block of random ones.
fn masked<const K: usize>(messages: &[Row<K>], len: usize, rng: &mut SessionRng) -> Zeroizing<Vec<Row<K>>> {
    let mut all = Zeroizing::new(messages.to_vec());
    all.resize(128 * len, Row::ZERO);
    for row in &mut all[128 * (len - 1)..] {
        row.0.iter_mut().for_each(|word| *word = u64::from_le_bytes(rng.bytes()));
    }
    all
}

/// Blocks of a column for n rows; against a malicious receiver, one more, which masks the hash of D.
fn blocks(n: usize, security: Security) -> usize {
    (n.div_ceil(128).max(1) + usize::from(security == Security::Malicious)).next_multiple_of(STEP)
}

/// Where column `i` of the trees stands in a row: the first bits of all places, then the second ones, and so on.
fn plane(length: usize, i: usize) -> usize {
    i % FOLD * length + i / FOLD
}

/// What an extension has made so far.
struct Made<const R: usize> {
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
    fn new(code: &Bch, security: Security, blocks: usize) -> Self {
        let length = code.length();
        assert_eq!(64 * R, FOLD * length, "bits of a row");
        let mut rows = Zeroizing::new(Vec::new());
        large::reserve(&mut *rows, 128 * blocks);
        let batch = Zeroizing::new(vec![Block::ZERO; FOLD * length * BATCH]);
        let (keep, mut kept) = (security == Security::Malicious, Zeroizing::new(Vec::new()));
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

    /// The hashes of all columns.
    fn hash(&self, chi: Block, blocks: usize) -> SecretBlocks {
        hash_columns(chi, self.kept.chunks(self.batch.len()), FOLD * self.length, blocks)
    }

    /// The first n rows.
    fn rows(mut self, n: usize) -> SecretRows<R> {
        for batch in self.kept.chunks(self.batch.len()) {
            turn(batch, batch.len() / (FOLD * self.length), &mut self.rows);
        }
        self.rows.truncate(n);
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_params::bch::{NARROW, WIDE};
    use vesica_session::{Error, Fault};
    use vesica_testkit::{Attack, Hostile, two, two_with};

    const BOTH: [Security; 2] = [Security::SemiHonest, Security::Malicious];

    fn messages<const K: usize>(n: usize) -> Vec<Row<K>> {
        (0..n as u64)
            .map(|i| Row(std::array::from_fn(|word| (i * 5 + word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))))
            .collect()
    }

    /// V + C(D) ∘ Δ, row by row.
    fn ideal<const K: usize, const W: usize, const R: usize>(
        code: &Bch,
        delta: &Row<R>,
        messages: &[Row<K>],
        v: &[Row<R>],
    ) -> Vec<Row<R>> {
        let words: Vec<Row<W>> = code.words(messages);
        let row = |(v, word): (&Row<R>, &Row<W>)| Row(std::array::from_fn(|i| v.0[i] ^ (word.0[i % W] & delta.0[i])));
        v.iter().zip(&words).map(row).collect()
    }

    fn rows_are_correlated<const K: usize, const W: usize, const R: usize>(set: &'static BchSet) {
        for security in BOTH {
            let sizes = [0, 1, 127, 128, 129, 384, 5000];
            let (sent, got) = two(
                |lines, rng| {
                    let base = Sender::open(set, security, lines.peer().unwrap(), rng).unwrap();
                    let mut extend = |id, n| base.extend::<R>(id, n, lines.peer().unwrap(), rng).unwrap();
                    let w: Vec<_> = (0..).zip(sizes).map(|(id, n)| extend(id, n)).collect();
                    (base.delta::<R>(), w)
                },
                |lines, rng| {
                    let base = Receiver::open(set, security, lines.peer().unwrap(), rng).unwrap();
                    let mut extend = |id, n| base.extend::<K, R>(id, &messages(n), lines.peer().unwrap(), rng).unwrap();
                    (0..).zip(sizes).map(|(id, n)| extend(id, n)).collect::<Vec<_>>()
                },
            );
            let code = Bch::new(set);
            for ((w, v), n) in sent.1.iter().zip(&got).zip(sizes) {
                assert_eq!([w.len(), v.len()], [n; 2]);
                assert_eq!(**w, ideal::<K, W, R>(&code, &sent.0, &messages(n), v), "{security:?} {n}");
            }
            let ones: u32 = sent.0.0.iter().map(|word| word.count_ones()).sum();
            assert!(ones.abs_diff(32 * R as u32) < 10 * R as u32, "{ones} of Δ's {} bits", 64 * R);
            // Calls are independent: no row of one is a row of another.
            let mut all: Vec<[u64; R]> = got.iter().flat_map(|v| v.iter().map(|row| row.0)).collect();
            all.sort_unstable();
            assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
        }
    }

    #[test]
    fn rows_are_correlated_by_words_of_the_code() {
        rows_are_correlated::<2, 3, 12>(&NARROW);
        rows_are_correlated::<4, 6, 24>(&WIDE);
    }

    #[test]
    fn an_id_serves_once() {
        let (sender, receiver) = two(
            |lines, rng| {
                let base = Sender::open(&NARROW, Security::SemiHonest, lines.peer().unwrap(), rng).unwrap();
                base.extend::<12>(3, 1, lines.peer().unwrap(), rng).unwrap();
                base.extend::<12>(3, 1, lines.peer().unwrap(), rng).unwrap_err()
            },
            |lines, rng| {
                let base = Receiver::open(&NARROW, Security::SemiHonest, lines.peer().unwrap(), rng).unwrap();
                base.extend::<2, 12>(3, &messages(1), lines.peer().unwrap(), rng).unwrap();
                base.extend::<2, 12>(3, &messages(1), lines.peer().unwrap(), rng).unwrap_err()
            },
        );
        assert_eq!([sender.fault(), receiver.fault()], [Fault::Bug; 2]);
    }

    /// What a sender gets from a receiver whose messages are spoiled on their way; and what it would get from an honest one.
    fn spoiled(security: Security, attack: Attack, at: usize) -> Result<(Row<24>, SecretRows<24>, Vec<Row<24>>)> {
        let (sent, got) = two_with(
            |lines, rng| {
                let base = Sender::open(&WIDE, security, lines.peer()?, rng)?;
                let w = base.extend::<24>(0, 1000, lines.peer()?, rng)?;
                Ok::<_, Error>((*base.delta(), w))
            },
            |lines, rng| {
                let base = Receiver::open(&WIDE, security, lines.peer()?, rng)?;
                base.extend::<4, 24>(0, &messages(1000), lines.peer()?, rng)
            },
            |channel| Box::new(Hostile::new(channel, attack, at)),
        );
        let (delta, w) = sent?;
        let want = ideal::<4, 6, 24>(&Bch::new(&WIDE), &delta, &messages(1000), &got?);
        Ok((delta, w, want))
    }

    /// The receiver's messages: its side of the base transfers, a challenge to the random ones, the trees, the words, the answer to the
    /// challenge.
    #[test]
    fn a_malicious_receiver_is_noticed_in_every_message() {
        let mut noticed = 0;
        for (at, attack) in (0..5).flat_map(|at| Attack::ALL.map(|attack| (at, attack))) {
            match spoiled(Security::Malicious, attack, at) {
                Err(error) => {
                    assert!(matches!(error.fault(), Fault::Peer | Fault::Network), "{at} {attack:?}: {error}");
                    noticed += 1;
                }
                // A right guess: the four bits of Δ at the place that was spoiled are zeros.
                Ok((_, w, want)) => assert_eq!(*w, want, "{at} {attack:?}"),
            }
        }
        assert!(noticed > 20, "{noticed}");
    }

    /// A receiver that flips one bit of a word guesses that four bits of Δ are zero: it is right once in sixteen times, and the run goes
    /// on only then. Without the check it always goes on, and the row is wrong where Δ has ones.
    #[test]
    fn a_row_that_is_no_word_is_noticed_but_for_a_right_guess() {
        let bits =
            |delta: &Row<24>, place: usize| (0..4).any(|b| delta.0[(b * 384 + place) / 64] >> (place % 64) & 1 == 1);
        let mut went_on = 0;
        for place in 0..48 {
            // Row 3 of the only batch of eight blocks and a mask, rounded up: ten blocks a column.
            let flip = Attack::Flip(8 * 16 * 10 * place + 3);
            if let Ok((delta, w, want)) = spoiled(Security::Malicious, flip, 3) {
                assert!(!bits(&delta, place), "{place}");
                assert_eq!(*w, want);
                went_on += 1;
            }
        }
        // 3 are expected; 48 tests that are all caught have probability 4.5 %, more than 12 below 10^-4.
        assert!(went_on <= 12, "{went_on} of 48 went on");
        let (delta, w, want) = spoiled(Security::SemiHonest, Attack::Flip(8 * 16 * 8 * 7 + 3), 2).unwrap();
        let wrong: Vec<usize> = (0..1000).filter(|&j| w[j] != want[j]).collect();
        assert_eq!(wrong, if bits(&delta, 7) { vec![3] } else { vec![] });
    }

    /// Two calls at once: after the one has failed its check, the other one fails too, though its words are right.
    #[test]
    fn after_a_check_that_failed_no_call_goes_on() {
        let (sent, _) = two_with(
            |lines, rng| {
                let base = Sender::open(&NARROW, Security::Malicious, lines.peer()?, rng)?;
                let wrong = base.extend::<12>(0, 300, lines.peer()?, rng).err();
                let right = base.extend::<12>(1, 300, lines.peer()?, rng).err();
                Ok::<_, Error>((wrong, right))
            },
            |lines, rng| {
                let base = Receiver::open(&NARROW, Security::Malicious, lines.peer()?, rng)?;
                base.extend::<2, 12>(0, &messages(300), lines.peer()?, rng)?;
                base.extend::<2, 12>(1, &messages(300), lines.peer()?, rng)
            },
            // The answer to the first challenge.
            |channel| Box::new(Hostile::new(channel, Attack::Flip(0), 4)),
        );
        let (wrong, right) = sent.unwrap();
        assert_eq!([wrong, right].map(|error| error.map(|error| error.fault())), [Some(Fault::Peer); 2]);
    }

    /// What is secret of either side wipes itself.
    #[test]
    fn what_is_secret_is_wiped() {
        fn wiped_when_dropped(_: &impl zeroize::ZeroizeOnDrop) {}
        two(
            |lines, rng| {
                let base = Sender::open(&NARROW, Security::SemiHonest, lines.peer().unwrap(), rng).unwrap();
                wiped_when_dropped(&base.delta);
                wiped_when_dropped(&base.shared.leaves);
                wiped_when_dropped(&base.extend::<12>(0, 1, lines.peer().unwrap(), rng).unwrap());
            },
            |lines, rng| {
                let base = Receiver::open(&NARROW, Security::SemiHonest, lines.peer().unwrap(), rng).unwrap();
                wiped_when_dropped(&base.shared.leaves);
                wiped_when_dropped(&base.extend::<2, 12>(0, &messages(1), lines.peer().unwrap(), rng).unwrap());
            },
        );
    }
}
