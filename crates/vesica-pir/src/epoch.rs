//! Which state of a table a message is about.

use crate::PirError;

/// What a store whose change failed half way has as its last patch.
pub(crate) const HALF_CHANGED: &[u8] = b"half of a change";

/// A state of a table: how many changes led to it, and a hash of all that is public about it and them. It stands at the head of each hint,
/// query, answer and patch, so a client with an old hint is told, and never decodes garbage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epoch {
    /// Changes since the table was prepared.
    pub changes: u64,
    /// What tells two tables of as many changes apart.
    pub hash: [u8; 16],
}

impl Epoch {
    /// Bytes as it travels.
    pub const BYTES: usize = 24;

    /// The state before any change of a table of this description.
    pub fn first(description: &[u8]) -> Self {
        Self { changes: 0, hash: hash(description) }
    }

    /// The state after a patch.
    pub fn after(&self, patch: &[u8]) -> Self {
        Self { changes: self.changes + 1, hash: hash(&[&self.to_bytes(), patch].concat()) }
    }

    /// As it travels.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.changes.to_le_bytes());
        bytes[8..].copy_from_slice(&self.hash);
        bytes
    }

    /// The epoch at the head of a message, and what stands behind it; none if the message is too short.
    pub fn split(message: &[u8]) -> Option<(Self, &[u8])> {
        let (changes, rest) = message.split_first_chunk()?;
        let (hash, rest) = rest.split_first_chunk()?;
        Some((Self { changes: u64::from_le_bytes(*changes), hash: *hash }, rest))
    }

    /// Fails if the other side is in another epoch than this one.
    pub(crate) fn expect(&self, other: &Self) -> Result<(), PirError> {
        if self == other {
            return Ok(());
        }
        let same = if self.changes == other.changes { ", but of another table or other changes" } else { "" };
        let (here, there) = (self.changes, other.changes);
        Err(PirError::Message(format!(
            "a message of epoch {there}, where this side is at epoch {here}{same}; fetch the patches between them, or the whole copy anew"
        )))
    }
}

fn hash(bytes: &[u8]) -> [u8; 16] {
    let hash = blake3::derive_key("vesica 2026 retrieval epoch", bytes);
    hash[..16].try_into().expect("16 bytes of 32")
}
