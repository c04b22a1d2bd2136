//! The groups, as named sets: what each gives and where it comes from.

/// A named group with its hash-to-curve suite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CurveSet {
    /// The set's name, as agreements and reports hold it. Never reused for other numbers.
    pub id: &'static str,
    /// The curve's name in a job.
    pub curve: &'static str,
    /// log2 of the order of the prime-order subgroup, rounded down to a tenth of a bit below an integer at most.
    pub order_bits: u32,
    /// Computational security in bits: half the order's bits (Pollard's rho), rounded down.
    pub kappa: u32,
    /// Where the numbers come from.
    pub source: &'static str,
    /// When the set was written down.
    pub date: &'static str,
}

/// Every set.
pub const SETS: &[CurveSet] = &[CurveSet {
    id: "curve25519-xmd-sha512-ell2-ro-v1",
    curve: "curve25519",
    order_bits: 252,
    kappa: 126,
    source: "RFC 7748, section 4.1 (curve, order 2^252 + 27742...); RFC 9380, section 8.5 (suite curve25519_XMD:SHA-512_ELL2_RO_), which rates the curve at 128 bits",
    date: "2026-11-21",
}];

/// The current set of the curve that a job calls `curve`.
pub fn set(curve: &str) -> Option<&'static CurveSet> {
    SETS.iter().rev().find(|s| s.curve == curve)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_has_a_source_and_a_date_and_a_name_of_its_own() {
        for (i, s) in SETS.iter().enumerate() {
            assert!(s.source.len() > 20 && s.date.len() == 10, "{}", s.id);
            assert!(SETS[..i].iter().all(|other| other.id != s.id), "{} twice", s.id);
            assert!(s.kappa <= s.order_bits / 2, "{}", s.id);
        }
    }
}
