//! A public permutation of a table's records.
//!
//! Piano serves queries well that fall into all parts of the table alike. People ask for rows 0 to 999. So the server puts record i at
//! place π(i), under a seed that is drawn after the table is fixed, and clients ask for π(i). The seed is public: the permutation balances
//! load, and hides nothing.

use crate::PirError;
use vesica_block::Block;
use vesica_block::aes::Aes128;

/// Rounds of the Feistel network. Four make a pseudorandom permutation of large domains (Luby, Rackoff, 1988); small ones take more.
const ROUNDS: u64 = 10;

/// A permutation of the numbers below a bound: a Feistel network on the least even number of bits, applied again while the result is out
/// of range (Black, Rogaway, CT-RSA 2002, section 3). At most four times on average.
pub struct Scatter {
    aes: Aes128,
    bound: u64,
    half: u32,
}

impl Scatter {
    /// The permutation of the numbers below `bound` under `seed`.
    pub fn new(bound: u64, seed: &[u8; 32]) -> Self {
        let key = blake3::keyed_hash(seed, b"vesica 2026 places of records");
        let key: [u8; 16] = std::array::from_fn(|i| key.as_bytes()[i]);
        let bits = 64 - bound.saturating_sub(1).leading_zeros();
        Self { aes: Aes128::new(Block::from_le_bytes(key)), bound, half: bits.div_ceil(2).max(1) }
    }

    /// The place of number `index`.
    ///
    /// # Errors
    /// [`PirError::Shape`] if it is not below the bound.
    pub fn place(&self, index: u64) -> Result<u64, PirError> {
        crate::check_index(index, self.bound)?;
        let mut place = self.network(index);
        while place >= self.bound {
            place = self.network(place);
        }
        Ok(place)
    }

    fn network(&self, number: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        let (mut left, mut right) = (number >> self.half, number & mask);
        for round in 0..ROUNDS {
            let mixed = self.aes.encrypt(Block::from_halves(right, round)).low() & mask;
            (left, right) = (right, left ^ mixed);
        }
        left << self.half | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_one_place() {
        for bound in [1u64, 2, 3, 4, 5, 100, 1024, 4097] {
            let scatter = Scatter::new(bound, &[3; 32]);
            let mut places: Vec<u64> = (0..bound).map(|i| scatter.place(i).unwrap()).collect();
            places.sort_unstable();
            assert_eq!(places, (0..bound).collect::<Vec<_>>(), "{bound}");
            assert!(scatter.place(bound).is_err());
        }
    }

    /// Neighbours come to lie in all chunks alike: the load of 64 chunks by the first 6400 of 2^16 numbers stays near 100.
    #[test]
    fn neighbours_are_spread() {
        let scatter = Scatter::new(1 << 16, &[7; 32]);
        let mut load = [0u32; 64];
        (0..6400).for_each(|i| load[(scatter.place(i).unwrap() >> 10) as usize] += 1);
        assert!(load.iter().all(|&load| (50..160).contains(&load)), "{load:?}");
        assert_ne!(scatter.place(5).unwrap(), Scatter::new(1 << 16, &[8; 32]).place(5).unwrap());
    }
}
