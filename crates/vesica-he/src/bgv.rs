//! BGV: the message in the low bits of the phase, which is m + t·error.
//!
//! As every prime of our sets is 1 modulo t, the factor that a modulus switch leaves on the message is 1, and -1/t times a
//! ciphertext of BGV is one of BFV with the same message, exactly: the phase becomes -m/t - error = round(Q/t)·m - error.
//! An answer crosses over at its end, because only BFV's place can be rounded to a power of two.
//!
//! Source: Z. Brakerski, C. Gentry, V. Vaikuntanathan, "Fully Homomorphic Encryption without Bootstrapping", eprint
//! 2011/277. The view: J. Alperin-Sheriff, C. Peikert, "Practical Bootstrapping in Quasilinear Time", eprint 2013/372,
//! appendix A.

use crate::bfv;
use crate::rlwe::{Ciphertext, Rlwe};

/// What a message is multiplied by.
pub const UNIT: u64 = 1;

/// What errors are multiplied by.
pub fn step(t: u64) -> u64 {
    t
}

/// A ciphertext of BGV as one of BFV with the same message.
pub fn to_bfv(ring: &Rlwe, ciphertext: &mut Ciphertext, t: u64) {
    for words in [&mut ciphertext.b, &mut ciphertext.a] {
        for (ntt, limb) in ring.basis().each(words) {
            ntt.scale(limb, ntt.modulus().factor(bfv::unit(ntt.modulus(), t)));
        }
    }
}
