//! How long messages are.

use super::shape::{Plan, Shape};
use vesica_he::sample::SEED_BYTES;
use vesica_ring::bits::packed_bytes;

impl Shape {
    /// Ciphertexts of a query.
    pub fn ciphertexts(&self) -> usize {
        match self.plan {
            Plan::Slots | Plan::Turn => self.blocks,
            Plan::Expand | Plan::Fold => 1,
        }
    }

    /// Bytes of one polynomial of a query over `limbs` primes.
    fn polynomial(&self, limbs: usize) -> usize {
        limbs * packed_bytes(self.set.n, 50)
    }

    /// Bytes of a query.
    pub fn query_bytes(&self) -> usize {
        SEED_BYTES + self.ciphertexts() * self.polynomial(self.limbs)
    }

    /// Bytes of the keys of a session, with the seed of their uniform halves.
    pub fn keys_bytes(&self) -> usize {
        let key = self.limbs * self.polynomial(self.limbs + 1);
        if self.keys() == 0 { 0 } else { SEED_BYTES + self.keys() * key }
    }

    /// How many coefficients of b an answer's ciphertext has. They are all where the record's place is secret.
    pub fn b_words(&self) -> usize {
        if self.plan == Plan::Turn { self.words.min(self.capacity) } else { self.set.n }
    }

    /// Bytes of one ciphertext's b and a in an answer.
    pub fn part_bytes(&self) -> [usize; 2] {
        let [b_bits, a_bits] = self.set.answer_bits;
        [packed_bytes(self.b_words(), b_bits), packed_bytes(self.set.n, a_bits)]
    }

    /// Bytes of an answer.
    pub fn answer_bytes(&self) -> usize {
        let [b, a] = self.part_bytes();
        self.parts * (b + a)
    }
}
