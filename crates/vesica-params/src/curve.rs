//! The groups, as named sets: what each gives and where it comes from.

/// A named group with its hash-to-curve suite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CurveSet {
    /// The set's name, as agreements and reports hold it. Never reused for other numbers.
    pub id: &'static str,
    /// The curve's name in a job.
    pub curve: &'static str,
    /// log2 of the order of the prime-order subgroup, rounded down.
    pub order_bits: u32,
    /// Computational security in bits: half the order's bits (Pollard's rho), rounded down.
    pub kappa: u32,
    /// Where the numbers come from.
    pub source: &'static str,
    /// When the set was written down.
    pub date: &'static str,
}

/// Every set.
pub const SETS: &[CurveSet] = &[
    CurveSet {
        id: "curve25519-xmd-sha512-ell2-nu-v1",
        curve: "curve25519",
        order_bits: 252,
        kappa: 126,
        source: "RFC 7748, section 4.1 (curve, order 2^252 + 27742...); RFC 9380, section 8.5 (suite curve25519_XMD:SHA-512_ELL2_NU_), which rates the curve at 128 bits",
        date: "2026-11-21",
    },
    CurveSet {
        id: "ristretto255-xmd-sha512-r255map-ro-v1",
        curve: "ristretto255",
        order_bits: 252,
        kappa: 126,
        source: "RFC 9496, section 4 (group, order 2^252 + 27742...); RFC 9380, appendix B (suite ristretto255_XMD:SHA-512_R255MAP_RO_), the hash of RFC 9497, section 4.1",
        date: "2026-11-21",
    },
    CurveSet {
        id: "fourq-xmd-sha512-ell2-ro-v1",
        curve: "fourq",
        order_bits: 245,
        kappa: 122,
        source: "Costello, Longa, FourQ, ASIACRYPT 2015, eprint 2015/565, section 2 (curve, a prime order of 246 bits, so at least 2^245; cofactor 392); hash: RFC 9380's generic Elligator 2, a suite of Vesica's own",
        date: "2026-11-21",
    },
    CurveSet {
        id: "sm2-xmd-sha256-sswu-ro-v1",
        curve: "sm2",
        order_bits: 255,
        kappa: 127,
        source: "GM/T 0003.5-2012 (curve, a prime order just below 2^256); hash: RFC 9380, section 6.6.2, with the constants that its appendix H.2 gives, a suite of Vesica's own",
        date: "2026-11-21",
    },
    CurveSet {
        id: "secp256k1-xmd-sha256-sswu-ro-v1",
        curve: "secp256k1",
        order_bits: 255,
        kappa: 127,
        source: "SEC 2, version 2.0, section 2.4.1 (curve, a prime order just below 2^256); RFC 9380, section 8.7 (suite secp256k1_XMD:SHA-256_SSWU_RO_)",
        date: "2026-11-21",
    },
    CurveSet {
        id: "p256-xmd-sha256-sswu-ro-v1",
        curve: "p256",
        order_bits: 255,
        kappa: 127,
        source: "NIST SP 800-186, section 3.2.1.3 (curve, a prime order just below 2^256); RFC 9380, section 8.2 (suite P256_XMD:SHA-256_SSWU_RO_)",
        date: "2026-11-21",
    },
];

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
