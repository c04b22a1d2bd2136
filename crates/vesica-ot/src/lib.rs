//! Correlations from short seeds.
//!
//! The layers, from the bottom: [`base`] makes a few oblivious transfers with public-key operations; [`softspoken`] makes
//! many correlated ones from them; [`pprf`] turns those into punctured trees, whose leaves [`code`] compresses into what
//! looks random; [`vole`] puts all of it together for elements of a field, and [`cot`] for bits. [`ideal`] says what each of them must give.
//!
//! A job opens one base ([`softspoken::Sender`] and [`softspoken::Receiver`]) and takes from it, unit by unit, fresh
//! correlations that need no public-key operation. Both bases can be used by many threads at once.
//!
//! Δ, base keys, trees, transfers and noise are wiped when they are dropped. The noise of a unit stays in a pool of memory until the
//! next unit overwrites it or the base is dropped.

#![allow(clippy::needless_range_loop, reason = "levels, bits and symbols are numbered in the papers, and in the code")]

mod backend;
pub mod base;
pub mod bch;
pub mod code;
pub mod cot;
pub mod folded;
pub mod ideal;
pub mod pprf;
pub mod softspoken;
pub mod subspace;
mod sums;
pub mod vole;

use std::sync::{Arc, Mutex, PoisonError};
use vesica_block::Block;
use vesica_session::{Channel, Misbehaviour, Result};
use zeroize::Zeroizing;

/// Blocks that are wiped when dropped.
pub type SecretBlocks = Zeroizing<Vec<Block>>;

/// Against whom a correlation is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Security {
    /// A peer that follows the protocol. Messages of wrong lengths and bad group elements are refused all the same; wrong
    /// corrections are not noticed: they give wrong outputs, or tell the peer something of this party's choices.
    SemiHonest,
    /// A peer that does what it likes: wrong corrections are noticed, and end the run. A peer may guess a few secret bits
    /// and learn whether it was right from whether the run goes on, which the parameters allow for.
    Malicious,
}

/// Ends the checks of a run: after one that failed, all that end later fail too.
///
/// A peer that spoils a message passes its check only if it guessed some secret bits. Checks of several units and of several bases end side by
/// side, and a peer could try another guess in each of them: with m of them at once, one passes that guesses k bits with probability m·2^-k.
/// Under one judge they count as if one ended after the other, and a wrong guess ends all. So whoever opens several bases for one run gives
/// them all the same judge, which its copies are.
#[derive(Clone, Default, Debug)]
pub struct Judge {
    failed: Arc<Mutex<bool>>,
}

impl Judge {
    /// Ends a check that came out `right` or not; `what` says what is wrong then.
    pub(crate) fn end(&self, right: bool, ch: &dyn Channel, what: &'static str) -> Result<()> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed |= !right;
        if *failed { Err(contradiction(ch, what)) } else { Ok(()) }
    }
}

/// Against whom a base is opened, and who judges its checks.
#[derive(Clone, Debug)]
pub struct Against {
    security: Security,
    judge: Judge,
}

impl From<Security> for Against {
    /// The only base of its run.
    fn from(security: Security) -> Self {
        Self { security, judge: Judge::default() }
    }
}

impl From<(Security, &Judge)> for Against {
    /// One of the bases that `judge` judges.
    fn from((security, judge): (Security, &Judge)) -> Self {
        Self { security, judge: judge.clone() }
    }
}

/// Blocks as they travel.
fn pack(blocks: &[Block]) -> Vec<u8> {
    let mut wire = vec![0; blocks.len() * Block::BYTES];
    wire.as_chunks_mut().0.iter_mut().zip(blocks).for_each(|(bytes, block)| *bytes = block.to_le_bytes());
    wire
}

/// `n` blocks from the wire, exactly.
fn receive_blocks(ch: &mut dyn Channel, n: usize) -> Result<Vec<Block>> {
    let wire = ch.recv_exact(n * Block::BYTES)?;
    Ok(wire.as_chunks().0.iter().map(|bytes| Block::from_le_bytes(*bytes)).collect())
}

/// The error for a peer whose words do not agree with each other.
fn contradiction(ch: &dyn Channel, what: &'static str) -> vesica_session::Error {
    ch.accuse(Misbehaviour::Contradiction(what))
}
