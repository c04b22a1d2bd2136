//! Randomness of the lattice schemes, public and secret. The two are different types, so that a secret cannot be drawn from
//! a stream that the other side can compute.

use vesica_block::Block;
use vesica_block::prg::Prg;
use vesica_ring::Ntt;
use vesica_session::SessionRng;
use zeroize::Zeroizing;

/// Bytes of a public seed.
pub const SEED_BYTES: usize = 16;

/// The stream of uniform polynomials under a seed that is sent in the clear in place of them.
///
/// One seed serves one message: the same polynomial under two messages with one secret would tell their difference.
pub struct PublicStream {
    prg: Prg,
    blocks: [Block; 64],
    /// How many of the words in `blocks` were used.
    used: usize,
}

impl PublicStream {
    /// The stream of this seed.
    pub fn new(seed: [u8; SEED_BYTES]) -> Self {
        Self { prg: Prg::new(Block::from_le_bytes(seed)), blocks: [Block::ZERO; 64], used: 128 }
    }

    /// A fresh seed.
    pub fn seed(rng: &mut SessionRng) -> [u8; SEED_BYTES] {
        rng.bytes()
    }

    fn word(&mut self) -> u64 {
        if self.used == 128 {
            self.prg.fill(&mut self.blocks);
            self.used = 0;
        }
        let block = self.blocks[self.used / 2];
        self.used += 1;
        if self.used % 2 == 1 { block.low() } else { block.high() }
    }

    /// Uniform residues modulo the limb's prime: words of the stream, cut to the prime's length, of which those that are not
    /// below it are skipped. How long this takes tells nothing but the seed, which is public.
    pub fn uniform(&mut self, ntt: &Ntt, out: &mut [u64]) {
        let p = ntt.modulus().p();
        let mask = u64::MAX >> p.leading_zeros();
        for out in out {
            *out = loop {
                let word = self.word() & mask;
                if word < p {
                    break word;
                }
            };
        }
    }
}

/// Words of a secret stream.
fn secret_words(rng: &mut SessionRng, n: usize) -> Zeroizing<Vec<u8>> {
    let mut bytes = Zeroizing::new(vec![0; 8 * n]);
    rng.fill(&mut bytes);
    bytes
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
}

/// n secrets from -1, 0 and 1. The high half of 3·x for a random word x is 0, 1 or 2, each with probability 1/3 but for
/// 2^-64. The time does not depend on them.
pub fn ternary(rng: &mut SessionRng, n: usize) -> Zeroizing<Vec<i64>> {
    let bytes = secret_words(rng, n);
    Zeroizing::new(words(&bytes).map(|x| ((u128::from(x) * 3) >> 64) as i64 - 1).collect())
}

/// n errors: the number of heads among 21 coins less the number among 21 others, which has variance 10.5
/// ([`vesica_params::rlwe::ERROR_VARIANCE`]). The time does not depend on them.
pub fn errors(rng: &mut SessionRng, n: usize) -> Zeroizing<Vec<i64>> {
    const COINS: u64 = (1 << 21) - 1;
    let bytes = secret_words(rng, n);
    let ones = |x: u64| {
        // Sums of neighbouring bits, then of pairs, and so on: the compiler's own count may look up tables on old CPUs.
        let x = x - (x >> 1 & 0x5555_5555);
        let x = (x & 0x3333_3333) + (x >> 2 & 0x3333_3333);
        let x = (x + (x >> 4)) & 0x0f0f_0f0f;
        (x.wrapping_mul(0x0101_0101) >> 24 & 0xff) as i64
    };
    Zeroizing::new(words(&bytes).map(|x| ones(x & COINS) - ones(x >> 21 & COINS)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_ring::Modulus;

    fn rng() -> SessionRng {
        SessionRng::from_seed(Zeroizing::new([1; 32]))
    }

    #[test]
    fn errors_have_their_variance_and_secrets_their_thirds() {
        let n = 1 << 16;
        let e = errors(&mut rng(), n);
        let mean = e.iter().sum::<i64>() as f64 / n as f64;
        let variance = e.iter().map(|x| x * x).sum::<i64>() as f64 / n as f64;
        // Five standard deviations of each estimate.
        assert!(mean.abs() < 5.0 * 3.24 / 256.0, "{mean}");
        assert!((variance - 10.5).abs() < 5.0 * 10.5 * 1.41 / 256.0, "{variance}");
        assert!(e.iter().any(|&x| x > 9) && e.iter().any(|&x| x < -9) && e.iter().all(|x| x.abs() <= 21));
        let s = ternary(&mut rng(), n);
        for value in [-1, 0, 1] {
            let count = s.iter().filter(|&&x| x == value).count() as f64;
            assert!((count - n as f64 / 3.0).abs() < 5.0 * 256.0 * 0.48, "{value}: {count}");
        }
    }

    #[test]
    fn a_stream_is_its_seeds() {
        let ntt = Ntt::new(Modulus::new(1125899904679937), 2048);
        let draw = |seed: u8, lengths: &[usize]| {
            let mut stream = PublicStream::new([seed; 16]);
            let mut all = vec![];
            for &length in lengths {
                let mut part = vec![0; length];
                stream.uniform(&ntt, &mut part);
                all.extend(part);
            }
            all
        };
        let a = draw(1, &[4096]);
        assert_eq!(a, draw(1, &[1, 1000, 3095]));
        assert_ne!(a, draw(2, &[4096]));
        let p = ntt.modulus().p();
        assert!(a.iter().all(|&x| x < p));
        let mean = a.iter().map(|&x| x as f64).sum::<f64>() / 4096.0 / p as f64;
        assert!((mean - 0.5).abs() < 5.0 * 0.289 / 64.0, "{mean}");
    }
}
