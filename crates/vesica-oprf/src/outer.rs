//! H_o, the last step of a function from vector OLE: it makes a tag of a value and its key.
//!
//! The values that the sender holds differ from what the receiver can compute by Δ·d, for a secret Δ and a d that is not 0. H_o hides them.

use crate::vole::split_block;
use vesica_block::Block;
use vesica_block::blake::{self, Message};
use vesica_block::hash::Permutation;
use vesica_ot::Security;
use vesica_types::Digest;

/// H_o. Against a peer that follows the protocol it must look random at points v + Δ·d, for a Δ that is not known and a d != 0 that
/// may be: correlation robustness. Against one that does not it is a random oracle of value and key.
pub(crate) enum Outer {
    /// CR(CR(v) + x), CR(x) = π(x) + x with AES under a key of the unit ([GKWY20], section 7).
    Robust(Permutation),
    /// BLAKE3 under a key of the unit.
    Oracle([u8; 32]),
}

/// Values that are hashed at once.
const HASHED: usize = 128;

impl Outer {
    /// Under this key, which is public.
    pub(crate) fn new(key: [u8; 32], security: Security) -> Self {
        match security {
            Security::SemiHonest => Outer::Robust(Permutation::new(split_block(&key).0)),
            Security::Malicious => Outer::Oracle(key),
        }
    }

    /// v[i] ← H_o(v[i], x[i]).
    pub(crate) fn hash(&self, v: &mut [Block], xs: &[Digest]) {
        match self {
            Outer::Robust(permutation) => {
                permutation.cr(v);
                v.iter_mut().zip(xs).for_each(|(v, &x)| *v ^= x.into());
                permutation.cr(v);
            }
            Outer::Oracle(key) => {
                let message = |(v, x): (&Block, &Digest)| {
                    let input = [v.to_le_bytes(), x.0];
                    Message::new(input.as_flattened()).expect("32 bytes are short enough")
                };
                let mut hashes = [[0; 32]; HASHED];
                for (v, xs) in v.chunks_mut(HASHED).zip(xs.chunks(HASHED)) {
                    let messages: Vec<Message> = v.iter().zip(xs).map(message).collect();
                    blake::keyed(key, &messages, &mut hashes);
                    v.iter_mut().zip(&hashes).for_each(|(v, hash)| *v = split_block(hash).0);
                }
            }
        }
    }
}
