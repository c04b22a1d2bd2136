//! What the machines of a cluster share, and what it protects.
//!
//! **Sealed whole**: documents, units and what was found. A piece is a front of 48 bytes, with the kind and 32 random bytes, and then
//! ChaCha20-Poly1305 under a key that is derived from the secret, the kind, the random bytes and a text that says what the piece belongs to. So
//! a piece that a retried task seals again is under another key, and pieces cannot be put in each other's places.
//!
//! **Permuted**: digests of single keys, by AES-128 as a permutation of 16 bytes, so that equal ones stay equal and can be brought
//! together without a longer record; and the numbers of units, by a permutation that is drawn under the secret. Without that, whoever knows
//! the salt, as the other party does, could find the keys by guessing.

use crate::error::JobError;
use crate::seal::key::{self, Front, Opener, Sealer, magic};
use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use vesica_types::Digest;
use zeroize::Zeroizing;

/// 32 random bytes that the machines of a cluster share, and nobody else has.
#[derive(Clone)]
pub struct Secret(Zeroizing<[u8; 32]>);

/// The job, the salt and the number of units.
pub const START: &[u8; 15] = b"vesica start 1\n";

/// What workers need for lanes.
pub const TERMS: &[u8; 15] = b"vesica terms 2\n";

/// The keys of a unit.
pub const PACKED: &[u8; 15] = b"vesica packed 1";

/// What is settled of a unit.
pub const KEPT: &[u8; 15] = b"vesica kept 2\n\n";

/// What a unit found.
pub const FOUND: &[u8; 15] = b"vesica found 1\n";

impl Secret {
    /// The secret with these bytes, which nobody can guess.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Seals `piece`, of this kind, which belongs to `what`.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub(crate) fn seal(&self, kind: &[u8; 15], what: &[u8], mut piece: Vec<u8>) -> Result<Vec<u8>, JobError> {
        let magic = magic(kind, true);
        let (mut sealer, random) = Sealer::new(&key::Secret::of_cluster(&self.0), &magic, what, 0)?;
        sealer.seal(&mut piece).map_err(|error| JobError::Setup(error.to_string()))?;
        Ok([&Front { magic, random }.to_bytes()[..], &piece].concat())
    }

    /// Opens what [`Secret::seal`] sealed; `name` is what messages call it.
    ///
    /// # Errors
    /// If it was sealed under another secret, belongs to something else or is damaged.
    pub(crate) fn open(
        &self,
        kind: &[u8; 15],
        what: &[u8],
        name: &str,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, JobError> {
        let open = || {
            let (front, piece) = sealed.split_first_chunk()?;
            let front = Front::from_bytes(front);
            if front.magic != magic(kind, true) {
                return None;
            }
            let opener = Opener::new(&key::Secret::of_cluster(&self.0), &front.magic, what, &front.random);
            let mut piece = Zeroizing::new(piece.to_vec());
            let len = opener.open(0, &mut piece)?.len();
            piece.truncate(len);
            Some(piece)
        };
        open().ok_or_else(|| damaged(name))
    }

    fn derive(&self, purpose: &str, salt: &[u8; 32]) -> Zeroizing<[u8; 32]> {
        let material = Zeroizing::new([&self.0[..], salt].concat());
        Zeroizing::new(blake3::derive_key(purpose, &material))
    }
}

/// A piece that cannot be opened or read.
pub fn damaged(name: &str) -> JobError {
    JobError::Setup(format!(
        "{name} cannot be opened: it was sealed under another secret, belongs to another run or is damaged; remove what was kept \
         of this run, and begin it anew"
    ))
}

/// What is done to digests and to the numbers of units before others than this program hold them.
pub struct Veil {
    aes: aes::Aes128,
    /// The hidden number of each unit, and the unit of each hidden number.
    hidden: Vec<u32>,
    shown: Vec<u32>,
}

impl Veil {
    /// That of a run of `units` units under this salt.
    pub fn new(secret: &Secret, salt: &[u8; 32], units: u32) -> Self {
        let key = secret.derive("vesica 2026 digests of a cluster", salt);
        let aes = aes::Aes128::new(&Array(*key.first_chunk::<16>().expect("it has 32 bytes")));
        // Fisher and Yates. Multiply and shift is uneven by less than 2^-47, for there are at most 2^16 units.
        let seed = secret.derive("vesica 2026 units of a cluster", salt);
        let mut stream = blake3::Hasher::new_keyed(&seed).finalize_xof();
        let mut hidden: Vec<u32> = (0..units).collect();
        for last in (1..hidden.len()).rev() {
            let mut bytes = [0; 8];
            stream.fill(&mut bytes);
            let place = (u128::from(u64::from_le_bytes(bytes)) * (last as u128 + 1)) >> 64;
            hidden.swap(last, place as usize);
        }
        let mut shown = vec![0; hidden.len()];
        (0..units).for_each(|unit| shown[hidden[unit as usize] as usize] = unit);
        Self { aes, hidden, shown }
    }

    /// The hidden number of a unit.
    pub fn hide(&self, unit: u32) -> u32 {
        self.hidden[unit as usize]
    }

    /// The unit with this hidden number, if there is one.
    pub fn show(&self, hidden: u32) -> Option<u32> {
        self.shown.get(hidden as usize).copied()
    }

    /// Veils digests where they stand.
    pub fn veil(&self, digests: &mut [[u8; 16]]) {
        self.aes.encrypt_blocks(Array::cast_slice_from_core_mut(digests));
    }

    /// Takes the veil off again.
    pub fn unveil(&self, digest: [u8; 16]) -> Digest {
        let mut block = Array(digest);
        self.aes.decrypt_block(&mut block);
        Digest(block.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_opens_under_its_secret_kind_and_place_alone() {
        let secret = Secret::new([1; 32]);
        let sealed = secret.seal(PACKED, b"run unit 7", b"keys".to_vec()).unwrap();
        assert_eq!(**secret.open(PACKED, b"run unit 7", "unit 7", &sealed).unwrap(), b"keys"[..]);
        let other = secret.seal(PACKED, b"run unit 7", b"keys".to_vec()).unwrap();
        assert_ne!(sealed, other, "sealed twice, under two keys");
        assert!(!sealed.windows(4).any(|w| w == b"keys"));
        let mut flipped = sealed.clone();
        *flipped.last_mut().unwrap() ^= 1;
        for result in [
            Secret::new([2; 32]).open(PACKED, b"run unit 7", "unit 7", &sealed),
            secret.open(FOUND, b"run unit 7", "unit 7", &sealed),
            secret.open(PACKED, b"run unit 8", "unit 7", &sealed),
            secret.open(PACKED, b"run unit 7", "unit 7", &flipped),
            secret.open(PACKED, b"run unit 7", "unit 7", &sealed[..60]),
            secret.open(PACKED, b"run unit 7", "unit 7", b""),
        ] {
            assert!(result.unwrap_err().to_string().starts_with("unit 7 cannot be opened"));
        }
    }

    #[test]
    fn a_veil_is_a_permutation_that_its_secret_alone_takes_off() {
        let (veil, other) =
            (Veil::new(&Secret::new([1; 32]), &[3; 32], 100), Veil::new(&Secret::new([2; 32]), &[3; 32], 100));
        let mut seen: Vec<u32> = (0..100).map(|unit| veil.hide(unit)).collect();
        assert!((0..100).all(|unit| veil.show(veil.hide(unit)) == Some(unit)));
        assert_eq!(veil.show(100), None);
        assert_ne!(seen, (0..100).map(|unit| other.hide(unit)).collect::<Vec<_>>());
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        let mut digests = [[7; 16], [8; 16], [7; 16]];
        veil.veil(&mut digests);
        assert!(digests[0] == digests[2] && digests[0] != digests[1] && digests[0] != [7; 16]);
        assert_eq!((veil.unveil(digests[0]), veil.unveil(digests[1])), (Digest([7; 16]), Digest([8; 16])));
        assert_ne!(other.unveil(digests[0]), Digest([7; 16]));
    }
}
