//! From a key to places: keyed permutations of its digest, by the batch.

use vesica_block::Block;
use vesica_block::aes::Aes128;
use vesica_block::prg::Prg;
use vesica_types::Digest;

/// How many keys are hashed at once: their blocks stay in the first-level cache.
pub(crate) const BATCH: usize = 64;

/// `N` independent keyed permutations of digests.
///
/// For keys that were fixed before the seed, the outputs of each are random up to AES-128's distance from a random
/// permutation. The seed is no secret.
pub(crate) struct RowHash<const N: usize>([Aes128; N]);

/// The outputs for up to [`BATCH`] keys: one line a permutation.
pub(crate) type Hashed<const N: usize> = [[Block; BATCH]; N];

impl<const N: usize> RowHash<N> {
    pub(crate) fn new(seed: Block) -> Self {
        let mut prg = Prg::new(seed);
        Self(std::array::from_fn(|_| Aes128::new(prg.block())))
    }

    /// Calls `each` with every batch of keys: the place of its first key, how many there are, their hashes.
    #[inline(always)]
    pub(crate) fn batches(&self, keys: &[Digest], mut each: impl FnMut(usize, usize, &Hashed<N>)) {
        let mut hashed = [[Block::ZERO; BATCH]; N];
        for (number, keys) in keys.chunks(BATCH).enumerate() {
            for (aes, line) in self.0.iter().zip(&mut hashed) {
                let line = &mut line[..keys.len()];
                line.iter_mut().zip(keys).for_each(|(block, &key)| *block = Block::from(key));
                aes.encrypt_in_place(line);
            }
            each(number * BATCH, keys.len(), &hashed);
        }
    }
}

/// The part of [0, range) that `word` stands for: as even as 2^32 / `range` allows.
#[inline(always)]
pub(crate) fn scale(word: u32, range: u32) -> u32 {
    ((u64::from(word) * u64::from(range)) >> 32) as u32
}

/// Two different places in [0, range), all pairs alike, from 64 random bits; `range` is at least 2.
#[inline(always)]
pub(crate) fn two(random: Block, range: u32) -> [u32; 2] {
    let [a, b] = [random.0 as u32, (random.0 >> 32) as u32];
    let a = scale(a, range);
    let b = scale(b, range - 1);
    [a, b + u32::from(b >= a)]
}

/// Three different places in [0, range), all triples alike, from 96 random bits; `range` is at least 3.
#[inline(always)]
pub(crate) fn three(random: Block, range: u32) -> [u32; 3] {
    let [a, b, c] = [random.0 as u32, (random.0 >> 32) as u32, (random.0 >> 64) as u32];
    let a = scale(a, range);
    let b = scale(b, range - 1);
    let b = b + u32::from(b >= a);
    // Of the places without the first two, the c-th.
    let c = scale(c, range - 2);
    let c = c + u32::from(c >= a.min(b));
    let c = c + u32::from(c >= a.max(b));
    [a, b, c]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triples_are_different_and_all_occur_alike() {
        let mut prg = Prg::new(Block(1));
        let mut seen = [0u32; 125];
        for _ in 0..60_000 {
            let [a, b, c] = three(prg.block(), 5);
            seen[(25 * a + 5 * b + c) as usize] += 1;
        }
        for (triple, &count) in seen.iter().enumerate() {
            let [a, b, c] = [triple / 25, triple / 5 % 5, triple % 5];
            if a == b || b == c || a == c {
                assert_eq!(count, 0);
            } else {
                // 1000 expected, five deviations are 158.
                assert!((840..1160).contains(&count), "{a} {b} {c}: {count}");
            }
        }
    }

    #[test]
    fn pairs_are_different_and_all_occur_alike() {
        let mut prg = Prg::new(Block(2));
        for range in [2u32, 3, 5] {
            let mut seen = vec![0u32; (range * range) as usize];
            let pairs = range * (range - 1);
            for _ in 0..1000 * pairs {
                let [a, b] = two(prg.block(), range);
                seen[(a * range + b) as usize] += 1;
            }
            for (pair, &count) in (0..).zip(&seen) {
                // 1000 expected, five deviations are 158.
                let alike = if pair / range == pair % range { 0..1 } else { 840..1160 };
                assert!(alike.contains(&count), "{pair} of {range}: {count}");
            }
        }
    }

    #[test]
    fn three_places_of_three_are_all() {
        for random in [0, u128::MAX, 1 << 95, 0x8000_0000] {
            let mut places = three(Block(random), 3);
            places.sort_unstable();
            assert_eq!(places, [0, 1, 2]);
        }
    }
}
