//! BFV: the message in the high bits of the phase, which is round(Q/t)·m + error.
//!
//! Every prime of our sets is 1 modulo t, so Q is, and round(Q/t) = (Q - 1)/t = -1/t modulo Q and modulo each prime. So
//! encoding is a product with [`unit`], and a product of plaintexts that exceeds t by t·k adds an error of only k.
//!
//! Source: J. Fan, F. Vercauteren, "Somewhat Practical Fully Homomorphic Encryption", eprint 2012/144.

use vesica_ring::{Modulus, Ntt};

/// What errors are multiplied by.
pub const STEP: u64 = 1;

/// What a message is multiplied by, modulo one prime of Q.
pub fn unit(modulus: Modulus, t: u64) -> u64 {
    modulus.sub(0, modulus.inverse(t))
}

/// The number between -t/2 and t/2 that is `m` modulo t, for m below t. Halves of an even t are negative.
pub fn centred(m: u64, t: u64) -> i64 {
    // The mask is all ones if m is at least half.
    let upper = (t.div_ceil(2).wrapping_sub(m + 1) as i64) >> 63;
    m as i64 - (t as i64 & upper)
}

/// round(t·phase / 2^bits) modulo t, for a phase below 2^`bits` and t·2^bits below 2^63. The time does not depend on it.
pub fn decode(phase: u64, bits: u32, t: u64) -> u64 {
    let m = (t * phase + (1 << (bits - 1))) >> bits;
    // m is at most t; t itself stands for zero.
    m & ((m.wrapping_sub(t) as i64 >> 63) as u64)
}

/// Plaintexts as n words modulo t = 65537 that are multiplied word by word: the values of a polynomial ([`Ntt`]).
pub struct Slots(Ntt);

impl Slots {
    /// The modulus of plaintexts with slots.
    pub const T: u64 = 65537;

    /// For polynomials with n coefficients, at most 32768.
    pub fn new(n: usize) -> Self {
        Self(Ntt::new(Modulus::new(Self::T), n))
    }

    /// Words in slots to the coefficients of their polynomial, in place.
    pub fn to_coefficients(&self, words: &mut [u64]) {
        self.0.inverse(words);
    }

    /// Coefficients to the words in the slots, in place.
    pub fn to_slots(&self, words: &mut [u64]) {
        self.0.forward(words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_centred() {
        for t in [65537_u64, 4096] {
            for m in 0..t {
                let c = centred(m, t);
                assert_eq!(c.rem_euclid(t as i64) as u64, m);
                assert!(2 * c.unsigned_abs() <= t);
            }
        }
    }

    #[test]
    fn decoding_rounds() {
        for (bits, t) in [(26, 65537_u64), (21, 4096), (24, 65536)] {
            for m in [0, 1, t / 2, t - 1] {
                let middle = ((m << bits) + t / 2) / t;
                let near = (1 << bits) / (2 * t) - 1;
                for phase in [middle, middle + near, (middle + (1 << bits) - near) % (1 << bits)] {
                    assert_eq!(decode(phase, bits, t), m, "t = {t}, m = {m}");
                }
            }
        }
    }

    #[test]
    fn the_unit_is_q_over_t_rounded() {
        for (q, t) in [(1125889168998401_u64, 65537), (1125899904679937, 65536), (1125899904679937, 4096)] {
            assert_eq!(unit(Modulus::new(q), t), (q + t / 2) / t);
        }
    }
}
