//! Correlated oblivious transfers, as many as wanted, from 128 base ones.
//!
//! [Roy22] Roy, "SoftSpokenOT: quieter OT extension from small-field silent VOLE in the Minicrypt model", CRYPTO 2022,
//! eprint 2022/192: the small-field VOLE (Figure 5), its trees with their check (Figures 13 and 14), and the extension with
//! its consistency check (Figures 7 and 8), for the repetition code. With a fold of one it is IKNP (Ishai, Kilian, Nissim,
//! Petrank, CRYPTO 2003).
//!
//!   Δ     128 secret bits of the sender          delta       k      fold: bits of Δ a tree covers     fold
//!   u     random bits of the receiver            bits        F_x    leaves of a tree, x in {0,1}^k    leaves
//!   V, W  W = V + u ⊗ Δ, the rows of both        rows        d_g    corrections u_g + u_0             message 1
//!
//! Opening: 1. 128 base OTs: the sender gets, for each tree, the sibling of every node on the path to its own k bits of Δ;
//! 2. R -> S: the sums of left and of right children of each level, under those keys; if malicious, also Roy's check.
//! So S knows every leaf but the one at Δ's bits.
//! Extending: 1. R -> S: d_g for every tree but the first.   Malicious: 2. S -> R: χ.   3. R -> S: the hash of u by χ, and a
//! digest of the hashes of V's columns; S compares with those of W.
//! Rounds: 1.5, then 1/2 (2 if malicious).   Bytes: 12 kB, then n·(128/k - 1)/8; 64 more if malicious.
//! Differs from the paper: the check is on polynomial hashes over GF(2^128) of each column (soundness n/128·2^-128 rather
//! than 2^-128), and V's hashes travel as a digest.
//!
//! One base serves many calls, each with an id of its own: what a call draws from a leaf is AES of the call's id and a counter under
//! that leaf, so calls are independent as far as anyone can tell who lacks a leaf, and the one that S lacks stays the same, Δ's. (If all
//! calls together draw q blocks from a leaf, these are within q²/2^129 of random; 2^40 rows take 2^33 blocks.) That is many extensions
//! under one Δ, as always in OT extension; a check that fails ends all of them, so a malicious receiver that guesses k bits of Δ, in
//! however many calls, gets on with probability 2^-k (`vole` says what that is worth). An id cannot be used twice.

use crate::code::Pool;
use crate::sums::{self, sum};
use crate::{Against, Judge, SecretBlocks, Security, base, pack, receive_blocks};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use subtle::Choice;
use vesica_block::{Block, aes::Aes128, gf128, hash::Permutation, large, prg::Prg, transpose::transpose};
use vesica_session::{Channel, Error, Result, SessionRng};
use zeroize::{Zeroize, Zeroizing};

/// Bits of Δ: the security of everything that is correlated by it.
pub const WIDTH: usize = 128;

/// Bits of Δ that a tree covers, if nothing else is asked: four times less traffic than IKNP, and hardly more work.
pub const FOLD: usize = 4;

/// Blocks of every leaf's stream that are made at once: 16 leaves fill a third of the first-level cache.
const BATCH: usize = 64;

/// Blocks of every tree's corrections that travel together, so that the sender can begin: 512 kB at a fold of 4.
const MESSAGE: usize = 16 * BATCH;

/// Bytes of memory that a side has for n transfers against a peer that follows the protocol, at a fold of [`FOLD`]: their rows, the choices, and a message of
/// corrections with its copy on the way.
pub(crate) fn memory(n: usize) -> u64 {
    let blocks = n.div_ceil(WIDTH).max(1);
    (Block::BYTES * (WIDTH * blocks + blocks + 2 * (WIDTH / FOLD - 1) * blocks.min(MESSAGE))) as u64
}

/// The side that holds Δ.
pub struct Sender {
    delta: Zeroizing<Block>,
    shared: Shared,
    /// Memory for vector OLE.
    pub(crate) pool: Pool<1>,
    /// Memory for silent transfers.
    pub(crate) bits: Pool<1>,
}

/// The side that holds the bits.
pub struct Receiver {
    shared: Shared,
    /// Memory for vector OLE.
    pub(crate) pool: Pool<2>,
    /// Memory for silent transfers.
    pub(crate) bits: Pool<1>,
}

/// What both sides keep of the opening.
pub(crate) struct Shared {
    /// Tree after tree, 2^fold leaves each; the sender's in the order x + Δ, so that what it lacks stands first.
    pub(crate) leaves: SecretBlocks,
    pub(crate) fold: usize,
    pub(crate) security: Security,
    /// Bits of Δ, a multiple of the fold.
    width: usize,
    /// Names the base: a digest of the run's session and of the base OTs' transcript.
    session: [u8; 32],
    used: Mutex<BTreeSet<u64>>,
    /// Ends checks, of this base and of the run's others.
    pub(crate) judge: Judge,
}

/// The receiver's part of some correlated transfers.
pub struct Correlated {
    /// u: bit j of it is bit j mod 128 of block j / 128.
    pub bits: SecretBlocks,
    /// The rows of V.
    pub rows: SecretBlocks,
}

impl Sender {
    /// Opens a base with a [`Receiver`] on the other side, for the run that `session` names; Δ is drawn at random, and its lowest bit is as
    /// random as the rest.
    ///
    /// # Errors
    /// Those of the channel, and the peer's if it breaks the protocol.
    pub fn open(
        against: impl Into<Against>,
        fold: usize,
        session: &[u8; 32],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<Self> {
        Self::with(Block::from_le_bytes(rng.bytes()), against, fold, session, ch, rng)
    }

    /// The same with a Δ whose lowest bit is 1, as [`crate::cot`] needs it: 127 bits of it are unknown to the other side.
    ///
    /// # Errors
    /// As [`Sender::open`].
    pub fn open_odd(
        against: impl Into<Against>,
        fold: usize,
        session: &[u8; 32],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<Self> {
        Self::with(Block(Block::from_le_bytes(rng.bytes()).0 | 1), against, fold, session, ch, rng)
    }

    pub(crate) fn with(
        delta: Block,
        against: impl Into<Against>,
        fold: usize,
        session: &[u8; 32],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<Self> {
        let delta = Zeroizing::new(delta);
        let bit = |i: usize| Choice::from((delta.0 >> i & 1) as u8);
        // 1.
        let (keys, name) = base::receive(WIDTH, |i| !bit(i), session, ch, rng)?;
        // 2. <- sums of every level but the first, then the check
        let shared = Shared::new(against, fold, WIDTH, name);
        let wire = receive_blocks(ch, shared.trees() * shared.tree_blocks())?;
        let mut leaves = Zeroizing::new(Vec::with_capacity(shared.trees() << fold));
        for g in 0..shared.trees() {
            let message = &wire[g * shared.tree_blocks()..][..shared.tree_blocks()];
            let path = |level| bit(g * fold + level);
            let tree = expand_but_one(path, &keys[g * fold..][..fold], message);
            leaves.extend_from_slice(&shared.seeds_but_one(tree, path, &message[2 * (fold - 1)..], ch)?);
        }
        Ok(Self { delta, shared: Shared { leaves, ..shared }, pool: Pool::default(), bits: Pool::default() })
    }

    /// Δ.
    pub fn delta(&self) -> Block {
        *self.delta
    }

    /// At least n rows of W, in a whole number of blocks of 128.
    ///
    /// # Errors
    /// Those of the channel; the peer's if its corrections fail the check; a bug if `id` was used before.
    pub fn extend(&self, id: u64, n: usize, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<SecretBlocks> {
        let shared = &self.shared;
        shared.claim(id)?;
        let blocks = shared.blocks(n);
        let mut made = Made::new(shared, blocks);
        let mut streams = Streams::new(shared, id, BATCH.min(blocks));
        // 1. <- d_g, a message for each few batches
        for (_, message) in batches(blocks, MESSAGE) {
            let mut corrections = &receive_blocks(ch, (shared.trees() - 1) * message)?[..];
            for (_, len) in batches(message, BATCH) {
                let (columns, _) = streams.next(len);
                for (i, column) in columns.chunks_exact_mut(len).enumerate().skip(shared.fold) {
                    let chosen = Block::mask(self.delta.0 >> i & 1 == 1);
                    let correction = &corrections[(i / shared.fold - 1) * len..][..len];
                    column.iter_mut().zip(correction).for_each(|(w, &d)| *w ^= d & chosen);
                }
                corrections = &corrections[(shared.trees() - 1) * len..];
                made.take(columns);
            }
        }
        if shared.security == Security::Malicious {
            // 2. -> χ
            let chi = Block::from_le_bytes(rng.bytes());
            ch.send(&chi.to_le_bytes())?;
            // 3. <- hash of u, digest of the hashes of V's columns
            let answer = ch.recv_exact(Block::BYTES + 32)?;
            let u = Block::from_le_bytes(answer.as_chunks().0[0]);
            let mut v = hash_columns(chi, made.columns.chunks(WIDTH * BATCH), WIDTH, blocks);
            (0..).zip(v.iter_mut()).for_each(|(i, w)| *w ^= u & Block::mask(self.delta.0 >> i & 1 == 1));
            let right = answer[Block::BYTES..] == *digest(&v).as_bytes();
            shared.judge.end(right, ch, "the corrections of its OT extension contradict each other")?;
        }
        Ok(made.rows(n))
    }

    /// n pairs of random keys, of which the receiver knows one each.
    ///
    /// # Errors
    /// As [`Sender::extend`].
    pub fn random(
        &self,
        id: u64,
        n: usize,
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<Zeroizing<Vec<[Block; 2]>>> {
        let w = self.extend(id, n, ch, rng)?;
        let permutation = self.shared.permutation(id, b"keys");
        let mut pairs = Zeroizing::new(Vec::new());
        large::reserve(&mut pairs, n);
        // Batch by batch: in memory that is not in the cache yet, only the pairs are written.
        for (start, w) in (0..).step_by(BATCH).zip(w[..n].chunks(BATCH)) {
            let mut keys = Zeroizing::new([[Block::ZERO; BATCH]; 2]);
            for (keys, offset) in keys.iter_mut().zip([Block::ZERO, *self.delta]) {
                keys.iter_mut().zip(w).for_each(|(key, &w)| *key = w ^ offset);
                permutation.tccr(Block(start), &mut keys[..w.len()]);
            }
            pairs.extend(w.iter().enumerate().map(|(i, _)| [keys[0][i], keys[1][i]]));
        }
        Ok(pairs)
    }

    /// A permutation for the hashes of call `id`, for the use named.
    pub fn permutation(&self, id: u64, name: &[u8]) -> Permutation {
        self.shared.permutation(id, name)
    }

    /// A digest of the base transfers.
    pub(crate) fn session(&self) -> [u8; 32] {
        self.shared.session
    }

    /// Against whom the base was opened.
    pub fn security(&self) -> Security {
        self.shared.security
    }
}

impl Receiver {
    /// Opens a base with a [`Sender`] on the other side, for the run that `session` names.
    ///
    /// # Errors
    /// Those of the channel, and the peer's if it breaks the protocol.
    pub fn open(
        against: impl Into<Against>,
        fold: usize,
        session: &[u8; 32],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<Self> {
        // 1.
        let (keys, name) = base::send(WIDTH, session, ch, rng)?;
        // 2. -> sums of every level but the first, then the check
        let shared = Shared::new(against, fold, WIDTH, name);
        let mut wire = Vec::with_capacity(shared.trees() * shared.tree_blocks());
        let mut leaves = Zeroizing::new(Vec::with_capacity(shared.trees() << fold));
        for keys in keys.chunks_exact(fold) {
            let tree = expand(keys, &mut wire);
            leaves.extend_from_slice(&shared.seeds(tree, &mut wire));
        }
        ch.send(&pack(&wire))?;
        Ok(Self { shared: Shared { leaves, ..shared }, pool: Pool::default(), bits: Pool::default() })
    }

    /// Ends a check of what the sender sent, as [`Judge::end`] does.
    pub(crate) fn judge(&self, right: bool, ch: &dyn Channel, what: &'static str) -> Result<()> {
        self.shared.judge.end(right, ch, what)
    }

    /// At least n random bits and rows of V, in a whole number of blocks of 128.
    ///
    /// # Errors
    /// Those of the channel; a bug if `id` was used before.
    pub fn extend(&self, id: u64, n: usize, ch: &mut dyn Channel) -> Result<Correlated> {
        let shared = &self.shared;
        shared.claim(id)?;
        let blocks = shared.blocks(n);
        let mut made = Made::new(shared, blocks);
        let mut streams = Streams::new(shared, id, BATCH.min(blocks));
        let mut bits = Zeroizing::new(Vec::with_capacity(blocks));
        // 1. -> d_g, a message for each few batches
        for (_, message) in batches(blocks, MESSAGE) {
            let mut corrections = Vec::with_capacity((shared.trees() - 1) * message);
            for (_, len) in batches(message, BATCH) {
                let (columns, sums) = streams.next(len);
                let (u, others) = sums.split_at(len);
                corrections.extend(others.chunks_exact(len).flat_map(|sums| sums.iter().zip(u).map(|(&a, &b)| a ^ b)));
                bits.extend_from_slice(u);
                made.take(columns);
            }
            ch.send(&pack(&corrections))?;
        }
        if shared.security == Security::Malicious {
            // 2. <- χ
            let chi = receive_blocks(ch, 1)?[0];
            // 3. -> hash of u, digest of the hashes of V's columns
            let u = hash_columns(chi, bits.chunks(BATCH), 1, blocks)[0];
            let v = hash_columns(chi, made.columns.chunks(WIDTH * BATCH), WIDTH, blocks);
            ch.send(&[&u.to_le_bytes()[..], digest(&v).as_bytes()].concat())?;
        }
        bits.truncate(n.div_ceil(128));
        Ok(Correlated { bits, rows: made.rows(n) })
    }

    /// n random choices and the keys that they choose.
    ///
    /// # Errors
    /// As [`Receiver::extend`].
    pub fn random(&self, id: u64, n: usize, ch: &mut dyn Channel) -> Result<(SecretBlocks, SecretBlocks)> {
        let Correlated { bits, rows: mut v } = self.extend(id, n, ch)?;
        v.truncate(n);
        self.shared.permutation(id, b"keys").tccr(Block::ZERO, &mut v);
        Ok((bits, v))
    }

    /// A permutation for the hashes of call `id`, for the use named.
    pub fn permutation(&self, id: u64, name: &[u8]) -> Permutation {
        self.shared.permutation(id, name)
    }

    /// A digest of the base transfers.
    pub(crate) fn session(&self) -> [u8; 32] {
        self.shared.session
    }

    /// Against whom the base was opened.
    pub fn security(&self) -> Security {
        self.shared.security
    }
}

impl Shared {
    pub(crate) fn new(against: impl Into<Against>, fold: usize, width: usize, session: [u8; 32]) -> Self {
        let Against { security, judge } = against.into();
        assert!(matches!(fold, 1 | 2 | 4 | 8) && width.is_multiple_of(fold), "a fold of {fold} for {width} bits");
        Self { leaves: Zeroizing::default(), fold, security, width, session, used: Mutex::default(), judge }
    }

    pub(crate) fn trees(&self) -> usize {
        self.width / self.fold
    }

    /// Blocks that the opening sends for a tree.
    pub(crate) fn tree_blocks(&self) -> usize {
        let check = if self.security == Security::Malicious { 4 } else { 0 };
        2 * (self.fold - 1) + check
    }

    /// Blocks of a column for n rows; against a malicious receiver, one more, which masks the hash of u.
    fn blocks(&self, n: usize) -> usize {
        n.div_ceil(128).max(1) + usize::from(self.security == Security::Malicious)
    }

    pub(crate) fn claim(&self, id: u64) -> Result<()> {
        if self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(id) {
            Ok(())
        } else {
            Err(Error::Bug(format!("correlation {id} was asked for twice")))
        }
    }

    /// The key is fixed after everything that it hashes was seeded, and each use has its own.
    fn permutation(&self, id: u64, name: &[u8]) -> Permutation {
        let mut hash = blake3::Hasher::new_derive_key("vesica 2026 softspoken permutation");
        hash.update(&self.session).update(&id.to_le_bytes()).update(name);
        Permutation::new(Block::from_le_bytes(hash.finalize().as_bytes().as_chunks().0[0]))
    }

    /// What a tree's leaves seed. That is the leaves themselves, or against a malicious receiver a block that each of them makes: each also
    /// makes two blocks of which the sum and a digest are sent, so that the sender notices any leaf that is not what it must be.
    pub(crate) fn seeds(&self, tree: SecretBlocks, wire: &mut Vec<Block>) -> SecretBlocks {
        if self.security == Security::SemiHonest {
            return tree;
        }
        let (seeds, checks) = leaf_outputs(&tree);
        wire.extend([0, 1].map(|half| checks.iter().fold(Block::ZERO, |sum, check| sum ^ check[half])));
        wire.extend(digest_blocks(digest(checks.as_flattened())));
        seeds
    }

    /// The same for one who lacks the first leaf of `tree`, in the order x + Δ: it is zero.
    pub(crate) fn seeds_but_one(
        &self,
        tree: SecretBlocks,
        path: impl Fn(usize) -> Choice,
        check: &[Block],
        ch: &dyn Channel,
    ) -> Result<SecretBlocks> {
        if self.security == Security::SemiHonest {
            return Ok(tree);
        }
        let (mut seeds, mut checks) = leaf_outputs(&tree);
        seeds[0] = Block::ZERO;
        checks[0] = [0, 1].map(|half| checks[1..].iter().fold(check[half], |sum, check| sum ^ check[half]));
        // The digest is over the tree's own order.
        for level in 0..self.fold {
            exchange(&mut checks, level, path(level));
        }
        let right = digest_blocks(digest(checks.as_flattened())) == check[2..];
        self.judge.end(right, ch, "the trees of its OT extension contradict their check")?;
        Ok(seeds)
    }
}

/// The start and the length of each part of at most `most` of `blocks`.
pub(crate) fn batches(blocks: usize, most: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..blocks).step_by(most).map(move |start| (start, most.min(blocks - start)))
}

/// V and u_g, or W before its corrections, as they come.
pub(crate) struct Streams {
    /// AES under each leaf.
    ciphers: Vec<Aes128>,
    /// What is encrypted next: the call's id, and below it a counter of 64 bits.
    at: u128,
    fold: usize,
    width: usize,
    leaves: SecretBlocks,
    columns: SecretBlocks,
    sums: SecretBlocks,
}

impl Streams {
    /// Streams of which at most `batch` blocks are made at once.
    pub(crate) fn new(shared: &Shared, id: u64, batch: usize) -> Self {
        Self {
            ciphers: shared.leaves.iter().map(|&leaf| Aes128::new(leaf)).collect(),
            at: u128::from(id) << 64,
            fold: shared.fold,
            width: shared.width,
            leaves: Zeroizing::new(vec![Block::ZERO; batch << shared.fold]),
            columns: Zeroizing::new(vec![Block::ZERO; shared.width * batch]),
            sums: Zeroizing::new(vec![Block::ZERO; shared.trees() * batch]),
        }
    }

    /// The next `len` blocks of all columns, one after the other, and of the sum of each tree.
    pub(crate) fn next(&mut self, len: usize) -> (&mut [Block], &[Block]) {
        let at = self.at;
        self.at += len as u128;
        let leaves = &mut self.leaves[..len << self.fold];
        let columns = &mut self.columns[..self.width * len];
        let sums = &mut self.sums[..self.width / self.fold * len];
        let trees = self.ciphers.chunks_exact(1 << self.fold).zip(columns.chunks_exact_mut(self.fold * len));
        for ((ciphers, columns), sum) in trees.zip(sums.chunks_exact_mut(len)) {
            for (cipher, leaf) in ciphers.iter().zip(leaves.chunks_exact_mut(len)) {
                (at..).zip(leaf.iter_mut()).for_each(|(at, block)| *block = Block(at));
                cipher.encrypt_in_place(leaf);
            }
            // Σ_x r_x, and for each bit of x the sum of r_x over the x that have it, by halving.
            for (bit, column) in columns.chunks_exact_mut(len).enumerate().rev() {
                let (without, with) = leaves[..len << (bit + 1)].split_at_mut(len << bit);
                column.fill(Block::ZERO);
                for (without, with) in without.chunks_exact_mut(len).zip(with.chunks_exact(len)) {
                    sums::add_to_both(column, without, with);
                }
            }
            sum.copy_from_slice(&leaves[..len]);
        }
        (columns, sums)
    }
}

/// What an extension has made so far.
struct Made {
    rows: SecretBlocks,
    /// The columns, batch after batch, if they are to be hashed.
    columns: SecretBlocks,
    keep: bool,
}

impl Made {
    fn new(shared: &Shared, blocks: usize) -> Self {
        let keep = shared.security == Security::Malicious;
        let mut made = Self { rows: Zeroizing::default(), columns: Zeroizing::default(), keep };
        large::reserve(&mut made.rows, WIDTH * blocks);
        large::reserve(&mut made.columns, if keep { WIDTH * blocks } else { 0 });
        made
    }

    fn take(&mut self, columns: &[Block]) {
        let start = self.rows.len();
        self.rows.resize(start + columns.len(), Block::ZERO);
        transpose(columns, &mut self.rows[start..]);
        if self.keep {
            self.columns.extend_from_slice(columns);
        }
    }

    /// The first n rows, rounded up to 128.
    fn rows(mut self, n: usize) -> SecretBlocks {
        self.rows.truncate(n.next_multiple_of(128));
        self.rows
    }
}

/// The leaves of the tree whose first level is `keys[0]`, in the order of x (level 0 is its lowest bit); the sums of the
/// other levels go out under their keys.
pub(crate) fn expand(keys: &[[Block; 2]], wire: &mut Vec<Block>) -> SecretBlocks {
    let mut tree = Zeroizing::new(keys[0].to_vec());
    for keys in &keys[1..] {
        let children = Zeroizing::new(tree.iter().map(|&node| children(node)).collect::<Vec<_>>());
        for side in 0..2 {
            wire.push(children.iter().fold(keys[side], |sum, pair| sum ^ pair[side]));
        }
        tree = Zeroizing::new([0, 1].iter().flat_map(|&side| children.iter().map(move |pair| pair[side])).collect());
    }
    tree
}

/// The same tree for one who lacks the path to a leaf, in the order x + path: what it lacks is the first at every level.
pub(crate) fn expand_but_one(path: impl Fn(usize) -> Choice, siblings: &[Block], wire: &[Block]) -> SecretBlocks {
    let mut tree = Zeroizing::new(vec![Block::ZERO, siblings[0]]);
    for (level, &key) in siblings.iter().enumerate().skip(1) {
        let sums = &wire[2 * (level - 1)..][..2];
        let on_path = Block::mask(path(level).into());
        let mut same = Zeroizing::new(Vec::with_capacity(2 * tree.len()));
        let mut other = Zeroizing::new(Vec::with_capacity(tree.len()));
        for &node in tree.iter() {
            let [left, right] = children(node);
            let exchanged = (left ^ right) & on_path;
            same.push(left ^ exchanged);
            other.push(right ^ exchanged);
        }
        // The sibling of the path's node, from the sum of the side that the path does not take.
        let sum_of_side = sums[1] ^ ((sums[0] ^ sums[1]) & on_path);
        same[0] = Block::ZERO;
        other[0] = sum_of_side ^ key ^ sum(&other[1..]);
        same.extend_from_slice(&other);
        tree = same;
    }
    tree
}

/// A node's children in the small trees.
fn children(node: Block) -> [Block; 2] {
    let mut out = [Block::ZERO; 2];
    Prg::new(node).fill(&mut out);
    out
}

/// What each leaf makes: a seed, and two blocks for the check.
fn leaf_outputs(tree: &[Block]) -> (SecretBlocks, Zeroizing<Vec<[Block; 2]>>) {
    let mut seeds = Zeroizing::new(Vec::with_capacity(tree.len()));
    let mut checks = Zeroizing::new(Vec::with_capacity(tree.len()));
    for &leaf in tree {
        let mut out = [Block::ZERO; 3];
        Prg::new(leaf).fill(&mut out);
        seeds.push(out[0]);
        checks.push([out[1], out[2]]);
        out.zeroize();
    }
    (seeds, checks)
}

/// Exchanges what differs in bit `level` of its place, if `bit`, without a branch.
fn exchange(items: &mut [[Block; 2]], level: usize, bit: Choice) {
    let mask = Block::mask(bit.into());
    for i in (0..items.len()).filter(|i| i >> level & 1 == 0) {
        let j = i | 1 << level;
        for half in 0..2 {
            let t = (items[i][half] ^ items[j][half]) & mask;
            items[i][half] ^= t;
            items[j][half] ^= t;
        }
    }
}

/// Of each of `width` columns, whose parts come one after the other: Σ_i χ^(i+1)·block_i, plus its last block.
pub(crate) fn hash_columns<'a>(
    chi: Block,
    parts: impl Iterator<Item = &'a [Block]>,
    width: usize,
    blocks: usize,
) -> SecretBlocks {
    let mut powers = vec![Block::ZERO; blocks];
    gf128::powers(chi, &mut powers);
    powers.rotate_left(1);
    powers[blocks - 1] = Block::ONE;
    let mut powers = &powers[..];
    let mut sums = Zeroizing::new(vec![Block::ZERO; width]);
    for part in parts {
        let (here, rest) = powers.split_at(part.len() / width);
        let columns = part.chunks_exact(here.len());
        sums.iter_mut().zip(columns).for_each(|(sum, column)| *sum ^= gf128::inner(column, here));
        powers = rest;
    }
    sums
}

pub(crate) fn digest(blocks: &[Block]) -> blake3::Hash {
    let mut hash = blake3::Hasher::new_derive_key("vesica 2026 softspoken check");
    hash.update(&pack(blocks)).finalize()
}

fn digest_blocks(digest: blake3::Hash) -> [Block; 2] {
    [0, 1].map(|half| Block::from_le_bytes(digest.as_bytes().as_chunks().0[half]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ideal;
    use vesica_session::Fault;
    use vesica_testkit::{Attack, Hostile, two, two_with};

    const BOTH: [Security; 2] = [Security::SemiHonest, Security::Malicious];

    const SESSION: [u8; 32] = [5; 32];

    fn bits(blocks: &[Block]) -> Vec<bool> {
        blocks.iter().flat_map(|block| (0..128).map(|i| block.0 >> i & 1 == 1)).collect()
    }

    #[test]
    fn rows_are_correlated_for_every_fold_and_size() {
        for security in BOTH {
            for fold in [1, 2, 4, 8] {
                let sizes = [0, 1, 2, 127, 128, 129, 20_000];
                let (sent, got) = two(
                    |lines, rng| {
                        let base = Sender::open(security, fold, &SESSION, lines.peer().unwrap(), rng).unwrap();
                        let w = (0..).zip(sizes).map(|(id, n)| base.extend(id, n, lines.peer().unwrap(), rng).unwrap());
                        (base.delta(), w.collect::<Vec<_>>())
                    },
                    |lines, rng| {
                        let base = Receiver::open(security, fold, &SESSION, lines.peer().unwrap(), rng).unwrap();
                        let got = (0..).zip(sizes).map(|(id, n)| base.extend(id, n, lines.peer().unwrap()).unwrap());
                        got.collect::<Vec<_>>()
                    },
                );
                for ((w, got), n) in sent.1.iter().zip(&got).zip(sizes) {
                    assert_eq!(w.len(), n.next_multiple_of(128));
                    assert_eq!(**w, ideal::correlated(sent.0, &bits(&got.bits), &got.rows), "{security:?} {fold} {n}");
                }
                let all: Vec<Block> = sent.1.iter().flat_map(|w| w.iter().copied()).collect();
                assert!(ideal::all_differ(&all), "calls are independent");
                let ones = bits(&got[6].bits).iter().filter(|&&bit| bit).count();
                assert!((9_400..10_600).contains(&ones), "{ones} of 20,000 random bits");
            }
        }
    }

    #[test]
    fn random_transfers_are_the_ideal_ones() {
        let (sent, (choices, got)) = two(
            |lines, rng| {
                let base = Sender::open(Security::Malicious, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                base.random(7, 500, lines.peer().unwrap(), rng).unwrap()
            },
            |lines, rng| {
                let base = Receiver::open(Security::Malicious, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                base.random(7, 500, lines.peer().unwrap()).unwrap()
            },
        );
        assert_eq!(*got, ideal::chosen(&sent, &bits(&choices)));
        assert!(ideal::all_differ(sent.as_flattened()));
    }

    /// All that a call makes, and what the opening leaves, wipes itself.
    #[test]
    fn what_is_secret_is_wiped() {
        fn wiped_when_dropped(_: &impl zeroize::ZeroizeOnDrop) {}
        two(
            |lines, rng| {
                let base = Sender::open(Security::Malicious, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                wiped_when_dropped(&base.delta);
                wiped_when_dropped(&base.shared.leaves);
                wiped_when_dropped(&base.extend(0, 1, lines.peer().unwrap(), rng).unwrap());
                wiped_when_dropped(&base.random(1, 1, lines.peer().unwrap(), rng).unwrap());
            },
            |lines, rng| {
                let base = Receiver::open(Security::Malicious, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                wiped_when_dropped(&base.shared.leaves);
                let Correlated { bits, rows } = base.extend(0, 1, lines.peer().unwrap()).unwrap();
                wiped_when_dropped(&bits);
                wiped_when_dropped(&rows);
                let (choices, keys) = base.random(1, 1, lines.peer().unwrap()).unwrap();
                wiped_when_dropped(&choices);
                wiped_when_dropped(&keys);
            },
        );
    }

    #[test]
    fn an_id_serves_once() {
        let (sender, receiver) = two(
            |lines, rng| {
                let base = Sender::open(Security::SemiHonest, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                base.extend(3, 1, lines.peer().unwrap(), rng).unwrap();
                base.extend(3, 1, lines.peer().unwrap(), rng).unwrap_err()
            },
            |lines, rng| {
                let base = Receiver::open(Security::SemiHonest, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                base.extend(3, 1, lines.peer().unwrap()).unwrap();
                base.extend(3, 1, lines.peer().unwrap()).err().unwrap()
            },
        );
        assert_eq!([sender.fault(), receiver.fault()], [Fault::Bug; 2]);
    }

    /// The receiver's messages: its public key, the trees, the corrections, the answer to the challenge.
    #[test]
    fn a_malicious_receiver_is_noticed_in_every_message() {
        for (at, attack) in (1..4).flat_map(|at| Attack::ALL.map(|attack| (at, attack))) {
            let (sent, got) = two_with(
                |lines, rng| {
                    let base = Sender::open(Security::Malicious, FOLD, &SESSION, lines.peer()?, rng)?;
                    let w = base.extend(0, 1000, lines.peer()?, rng)?;
                    Ok::<_, Error>((base.delta(), w))
                },
                |lines, rng| {
                    let base = Receiver::open(Security::Malicious, FOLD, &SESSION, lines.peer()?, rng)?;
                    base.extend(0, 1000, lines.peer()?)
                },
                |channel| Box::new(Hostile::new(channel, attack, at)),
            );
            match sent {
                Err(error) => assert_eq!(error.fault(), Fault::Peer, "{at} {attack:?}: {error}"),
                // A right guess: a wrong sum that the sender does not need, a correction where Δ has only zeros.
                Ok((delta, w)) => {
                    let Correlated { bits: u, rows: v } = got.unwrap();
                    assert_eq!(*w, ideal::correlated(delta, &bits(&u), &v), "{at} {attack:?}");
                }
            }
        }
    }

    /// Two lanes of a run have two bases. Before they had one judge, a receiver could try a guess at Δ in each lane that was under way.
    #[test]
    fn a_check_that_fails_on_one_base_fails_those_of_the_runs_other_bases() {
        let judge = Judge::default();
        let calls = |judge: &Judge, spoil: bool| {
            let against = Against::from((Security::Malicious, judge));
            let (sent, _) = two_with(
                |lines, rng| {
                    let base = Sender::open(against, FOLD, &SESSION, lines.peer()?, rng)?;
                    base.extend(0, 1000, lines.peer()?, rng)
                },
                |lines, rng| {
                    let base = Receiver::open(Security::Malicious, FOLD, &SESSION, lines.peer()?, rng)?;
                    base.extend(0, 1000, lines.peer()?)
                },
                // The answer to the challenge.
                |channel| Box::new(Hostile::new(channel, Attack::Flip(0), if spoil { 3 } else { usize::MAX })),
            );
            sent.map(drop).map_err(|error| error.fault())
        };
        assert_eq!(calls(&judge, false), Ok(()));
        assert_eq!(calls(&judge, true), Err(Fault::Peer));
        assert_eq!(calls(&judge, false), Err(Fault::Peer));
        assert_eq!(calls(&Judge::default(), false), Ok(()));
    }

    /// What semi-honest security means: a wrong correction is not seen, and spoils rows where Δ has a one.
    #[test]
    fn a_wrong_correction_goes_unnoticed_without_the_check() {
        let (sent, got) = two_with(
            |lines, rng| {
                let base = Sender::open(Security::SemiHonest, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                (base.delta(), base.extend(0, 1000, lines.peer().unwrap(), rng).unwrap())
            },
            |lines, rng| {
                let base = Receiver::open(Security::SemiHonest, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                base.extend(0, 1000, lines.peer().unwrap()).unwrap()
            },
            |channel| Box::new(Hostile::new(channel, Attack::Flip(3), 2)),
        );
        let honest = ideal::correlated(sent.0, &bits(&got.bits), &got.rows);
        let wrong: Vec<usize> = (0..honest.len()).filter(|&j| honest[j] != sent.1[j]).collect();
        assert!(wrong.is_empty() || wrong == [3]);
        assert_eq!(wrong.is_empty(), sent.0.0 >> FOLD & 0xf == 0);
    }
}
