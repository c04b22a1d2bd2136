use crate::Error;
use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use vesica_types::UnitId;
use zeroize::Zeroizing;

/// A job's source of randomness: ChaCha20 under a seed of the operating system.
///
/// Protocols are handed one and ask nowhere else for chance, so a test that passes a fixed seed pins all of it. Each
/// unit's generator is derived from the job's by the unit's number, whatever order the units run in. The seed, the cipher's state
/// and what it has made ready are wiped when the generator is dropped.
pub struct SessionRng {
    seed: Zeroizing<[u8; 32]>,
    stream: ChaCha20Rng,
    /// Units whose generator was given.
    given: Mutex<BTreeSet<UnitId>>,
}

impl SessionRng {
    /// A generator under fresh entropy of the operating system.
    ///
    /// # Errors
    /// If the operating system has none to give.
    pub fn from_os() -> Result<Self, getrandom::Error> {
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(seed.as_mut())?;
        Ok(Self::from_seed(seed))
    }

    /// A generator under a given seed: for tests, and for units.
    pub fn from_seed(seed: Zeroizing<[u8; 32]>) -> Self {
        Self { stream: ChaCha20Rng::from_seed(*seed), seed, given: Mutex::default() }
    }

    /// The generator of one unit, independent of every other unit's and of this one's own output. It is given once: a second
    /// one would give the same bytes again, and what hides a secret in one message might stand in the clear in another.
    ///
    /// # Errors
    /// [`Error::Bug`] if the unit's generator was given before.
    pub fn unit(&self, unit: UnitId) -> Result<SessionRng, Error> {
        if !self.given.lock().unwrap_or_else(PoisonError::into_inner).insert(unit) {
            return Err(Error::Bug(format!("unit {unit} asked for its randomness twice")));
        }
        let mut hash = blake3::Hasher::new_derive_key("vesica 2026 session rng unit");
        hash.update(self.seed.as_ref()).update(&unit.0.to_le_bytes());
        Ok(Self::from_seed(Zeroizing::new(*hash.finalize().as_bytes())))
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.stream.fill_bytes(bytes);
    }

    /// `N` random bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        self.fill(&mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_differ_and_do_not_depend_on_order() {
        let seed = || Zeroizing::new([7; 32]);
        let mut drawn = SessionRng::from_seed(seed());
        drawn.bytes::<64>();
        let a = drawn.unit(UnitId(3)).unwrap().bytes::<32>();
        let b = SessionRng::from_seed(seed()).unit(UnitId(3)).unwrap().bytes::<32>();
        let c = SessionRng::from_seed(seed()).unit(UnitId(4)).unwrap().bytes::<32>();
        assert_eq!(a, b);
        assert_ne!(a, c);
        assert_ne!(a, SessionRng::from_seed(seed()).bytes::<32>());
    }

    /// The stream is ChaCha20's: RFC 8439, appendix A.1, test vectors 1 and 2 (the key is zero).
    #[test]
    fn the_stream_is_that_of_the_standard() {
        let mut rng = SessionRng::from_seed(Zeroizing::new([0; 32]));
        let first = rng.bytes::<64>();
        assert_eq!(first[..8], [0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90]);
        assert_eq!(rng.bytes::<8>(), [0x9f, 0x07, 0xe7, 0xbe, 0x55, 0x51, 0x38, 0x7a]);
    }

    /// Fails to compile where the cipher is built without its feature `zeroize`.
    #[test]
    fn the_cipher_wipes_itself() {
        fn wiped<T: zeroize::ZeroizeOnDrop>(_: &T) {}
        wiped(&SessionRng::from_seed(Zeroizing::new([0; 32])).stream);
    }

    #[test]
    fn a_units_generator_is_given_once() {
        let rng = SessionRng::from_seed(Zeroizing::new([7; 32]));
        assert!(rng.unit(UnitId(3)).is_ok() && rng.unit(UnitId(4)).is_ok());
        assert!(matches!(rng.unit(UnitId(3)), Err(Error::Bug(_))));
    }

    #[test]
    fn two_generators_of_the_system_differ() {
        let (mut a, mut b) = (SessionRng::from_os().unwrap(), SessionRng::from_os().unwrap());
        assert_ne!(a.bytes::<32>(), b.bytes::<32>());
    }
}
