//! Correlated rows of a linear code: one party chooses a word for each row, the other holds a secret that separates words.
//!
//! [Roy22] Roy, "SoftSpokenOT: quieter OT extension from small-field silent VOLE in the Minicrypt model", CRYPTO 2022, eprint
//! 2022/192: the subspace VOLE with its consistency check (Figures 7 and 8), here for a code of distance d = 32 and a fold of 4.
//! Words in place of bits are those of [OOS17] Orrù, Orsini, Scholl, "Actively secure 1-out-of-N OT extension with application to
//! private set intersection", CT-RSA 2017, eprint 2016/933.
//!
//!   C       code, n places, k of them the message     code       D     the receiver's messages, a row each     messages
//!   Δ       n secret elements of GF(2)^4              words      V, W  W = V + C(D) ∘ Δ: a bit times an element    rows
//!
//! Extending: 1. R -> S: C(D), hidden, as in [`crate::folded`].   Malicious: 2. S -> R: χ.   3. R -> S: the hash of D's columns by
//! χ, and a digest of the hashes of V's columns; S compares with those of W, corrected by the code's word of hashes.
//! Why: two messages' words differ in 32 places, so rows at one and at the other are 128 unknown bits of Δ apart. A receiver
//! whose rows are no words passes the check only if it guesses the four bits of Δ at every place where they are not; so what it gains
//! in bits it pays in chances to go on. Soundness: blocks/2^128 for the hash, 2^-4 for each place. The hash of D is masked by
//! a block of random rows, so that χ, which the sender chooses, shows nothing of D.
//! Rounds: 1.5, then 1/2 (2 if malicious).   Bytes: those of [`crate::folded`]; 16·k + 48 more if malicious.
//! Differs from the papers: hashes are polynomials over GF(2^128), and V's hashes travel as a digest.
//!
//! One opening serves many calls, each with an id of its own, as in [`crate::softspoken`]. Once a check has failed no other call passes
//! its own, however many run at once: a receiver cannot try a guess in each of them.

use crate::bch::{Bch, STEP};
use crate::folded::{self, SecretRows, plane};
use crate::softspoken::{FOLD, digest, hash_columns};
use crate::{Against, SecretBlocks, Security, pack, receive_blocks};
use std::sync::Arc;
use vesica_block::{Block, Row};
use vesica_params::bch::BchSet;
use vesica_session::{Channel, Result, SessionRng};
use zeroize::Zeroizing;

/// The side that holds Δ.
pub struct Sender {
    code: Arc<Bch>,
    words: folded::Sender,
}

/// The side that chooses messages.
pub struct Receiver {
    code: Bch,
    words: folded::Receiver,
}

impl Sender {
    /// Opens a base with a [`Receiver`] on the other side, for the run that `session` names.
    ///
    /// # Errors
    /// Those of the channel, and the peer's if it breaks the protocol.
    pub fn open(
        set: &'static BchSet,
        against: impl Into<Against>,
        session: &[u8; 32],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<Self> {
        let words = folded::Sender::open(set.length, against, session, ch, rng)?;
        Ok(Self { code: Arc::new(Bch::new(set)), words })
    }

    /// The code.
    pub fn code(&self) -> &Arc<Bch> {
        &self.code
    }

    /// Δ as a row: what a row moves by if its word has a one at every place.
    pub fn delta<const R: usize>(&self) -> Zeroizing<Row<R>> {
        self.words.delta()
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
        let Self { code, words } = self;
        let malicious = words.shared.security == Security::Malicious;
        let blocks = blocks(n, words.shared.security);
        // 1.
        let made = words.made(id, blocks, malicious, ch)?;
        if malicious {
            // 2. -> χ
            let chi = Block::from_le_bytes(rng.bytes());
            ch.send(&chi.to_le_bytes())?;
            // 3. <- hash of D's columns, digest of the hashes of V's
            let answer = ch.recv_exact(code.dimension() * Block::BYTES + 32)?;
            let (message, theirs) = answer.split_at(code.dimension() * Block::BYTES);
            let message = message.as_chunks().0.iter().map(|bytes| Block::from_le_bytes(*bytes));
            let word = self.word(message);
            let mut v = hash_columns(chi, made.kept(), FOLD * code.length(), blocks);
            for (i, &bit) in words.delta.iter().enumerate() {
                v[plane(code.length(), i)] ^= word[i / FOLD] & Block::mask(bit);
            }
            let right = theirs == digest(&v).as_bytes();
            words.shared.judge.end(right, ch, "the rows of its OT extension are no words of the code")?;
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
    /// Opens a base with a [`Sender`] on the other side, for the run that `session` names.
    ///
    /// # Errors
    /// Those of the channel, and the peer's if it breaks the protocol.
    pub fn open(
        set: &'static BchSet,
        against: impl Into<Against>,
        session: &[u8; 32],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<Self> {
        let words = folded::Receiver::open(set.length, against, session, ch, rng)?;
        Ok(Self { code: Bch::new(set), words })
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
        let Self { code, words } = self;
        let dimension = code.dimension();
        let malicious = words.shared.security == Security::Malicious;
        let blocks = blocks(messages.len(), words.shared.security);
        let mut said: Vec<SecretBlocks> = Vec::new();
        // 1.
        let made = words.made(id, blocks, malicious, ch, |start, len| {
            let here = messages.get(128 * start..).unwrap_or_default();
            let here = &here[..here.len().min(128 * len)];
            let words = Zeroizing::new(match malicious && start + len == blocks {
                // The last block masks what the check says of the others.
                true => code.columns(&masked(here, len, rng), len),
                false => code.columns(here, len),
            });
            if malicious {
                said.push(Zeroizing::new(words[..dimension * len].to_vec()));
            }
            words
        })?;
        if malicious {
            // 2. <- χ
            let chi = receive_blocks(ch, 1)?[0];
            // 3. -> hash of D's columns, digest of the hashes of V's
            let mut answer = pack(&hash_columns(chi, said.iter().map(|part| &part[..]), dimension, blocks));
            answer.extend(digest(&hash_columns(chi, made.kept(), FOLD * code.length(), blocks)).as_bytes());
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

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_params::bch::{NARROW, WIDE};
    use vesica_session::{Error, Fault};
    use vesica_testkit::{Attack, Hostile, two, two_with};

    const BOTH: [Security; 2] = [Security::SemiHonest, Security::Malicious];

    const SESSION: [u8; 32] = [5; 32];

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
                    let base = Sender::open(set, security, &SESSION, lines.peer().unwrap(), rng).unwrap();
                    let mut extend = |id, n| base.extend::<R>(id, n, lines.peer().unwrap(), rng).unwrap();
                    let w: Vec<_> = (0..).zip(sizes).map(|(id, n)| extend(id, n)).collect();
                    (base.delta::<R>(), w)
                },
                |lines, rng| {
                    let base = Receiver::open(set, security, &SESSION, lines.peer().unwrap(), rng).unwrap();
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
                let base = Sender::open(&NARROW, Security::SemiHonest, &SESSION, lines.peer().unwrap(), rng).unwrap();
                base.extend::<12>(3, 1, lines.peer().unwrap(), rng).unwrap();
                base.extend::<12>(3, 1, lines.peer().unwrap(), rng).unwrap_err()
            },
            |lines, rng| {
                let base = Receiver::open(&NARROW, Security::SemiHonest, &SESSION, lines.peer().unwrap(), rng).unwrap();
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
                let base = Sender::open(&WIDE, security, &SESSION, lines.peer()?, rng)?;
                let w = base.extend::<24>(0, 1000, lines.peer()?, rng)?;
                Ok::<_, Error>((*base.delta(), w))
            },
            |lines, rng| {
                let base = Receiver::open(&WIDE, security, &SESSION, lines.peer()?, rng)?;
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
                let base = Sender::open(&NARROW, Security::Malicious, &SESSION, lines.peer()?, rng)?;
                let wrong = base.extend::<12>(0, 300, lines.peer()?, rng).err();
                let right = base.extend::<12>(1, 300, lines.peer()?, rng).err();
                Ok::<_, Error>((wrong, right))
            },
            |lines, rng| {
                let base = Receiver::open(&NARROW, Security::Malicious, &SESSION, lines.peer()?, rng)?;
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
                let base = Sender::open(&NARROW, Security::SemiHonest, &SESSION, lines.peer().unwrap(), rng).unwrap();
                wiped_when_dropped(&base.words.delta);
                wiped_when_dropped(&base.words.shared.leaves);
                wiped_when_dropped(&base.extend::<12>(0, 1, lines.peer().unwrap(), rng).unwrap());
            },
            |lines, rng| {
                let base = Receiver::open(&NARROW, Security::SemiHonest, &SESSION, lines.peer().unwrap(), rng).unwrap();
                wiped_when_dropped(&base.words.shared.leaves);
                wiped_when_dropped(&base.extend::<2, 12>(0, &messages(1), lines.peer().unwrap(), rng).unwrap());
            },
        );
    }
}
