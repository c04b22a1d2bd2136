//! What runs a case: it hands out the secrets, and sees what becomes of them.

use crate::backend::{begin, end, hidden_bits, hide, reveal, watched};
use std::time::{Duration, Instant};
use vesica_session::SessionRng;
use vesica_types::Digest;
use zeroize::Zeroizing;

/// Runs one case once. Under Valgrind all secrets are hidden from the program; where time is measured, they are zeros or random.
pub struct Watch {
    stream: blake3::OutputReader,
    /// All ones where secrets are random, zero where they are zeros.
    mask: u8,
    /// How long [`Watch::measure`] took, all together.
    pub time: Duration,
    /// How many results were looked at, and how many bits of them are secret.
    pub results: (usize, usize),
}

impl Watch {
    /// A run in which secrets are these pseudorandom bytes under the mask.
    pub fn new(seed: u64, mask: u8) -> Self {
        let stream = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
        Self { stream, mask, time: Duration::ZERO, results: (0, 0) }
    }

    /// Fills with secrets.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.stream.fill(bytes);
        bytes.iter_mut().for_each(|byte| *byte &= self.mask);
        hide(bytes);
    }

    /// N secret bytes.
    pub fn secret<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// So many secret bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }

    /// Secret digests of keys.
    pub fn digests<const N: usize>(&mut self) -> [Digest; N] {
        std::array::from_fn(|_| Digest(self.secret()))
    }

    /// A generator with a secret seed: whatever it draws is secret.
    pub fn rng(&mut self) -> SessionRng {
        SessionRng::from_seed(Zeroizing::new(self.secret()))
    }

    /// Runs what a case is about.
    pub fn measure<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        begin();
        let made = std::hint::black_box(work());
        end();
        self.time += start.elapsed();
        made
    }

    /// Looks at what came of secrets. If Valgrind takes it for public, it has lost sight of them on the way, and would not have seen a leak.
    ///
    /// # Panics
    /// If it has.
    pub fn result<T>(&mut self, values: &[T]) {
        let bits = hidden_bits(values);
        self.results.0 += 1;
        self.results.1 += bits;
        assert!(bits > 0 || !watched(), "result {} of the case depends on no secret, says Valgrind", self.results.0);
        reveal(values);
    }
}
