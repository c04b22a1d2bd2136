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
    /// That order, in decimal digits.
    pub order: &'static str,
    /// The greatest divisor up to 2^30 of the order less one, and the greatest up to 2^29 of the order and one: what somebody uses who
    /// gets 2^30 answers under one key.
    pub divisors: [u32; 2],
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
        order: "7237005577332262213973186563042994240857116359379907606001950938285454250989",
        divisors: [132, 7_210],
        kappa: 126,
        source: "RFC 7748, section 4.1 (curve, order 2^252 + 27742...); RFC 9380, section 8.5 (suite curve25519_XMD:SHA-512_ELL2_NU_), which rates the curve at 128 bits",
        date: "2026-11-21",
    },
    CurveSet {
        id: "ristretto255-xmd-sha512-r255map-ro-v1",
        curve: "ristretto255",
        order_bits: 252,
        order: "7237005577332262213973186563042994240857116359379907606001950938285454250989",
        divisors: [132, 7_210],
        kappa: 126,
        source: "RFC 9496, section 4 (group, order 2^252 + 27742...); RFC 9380, appendix B (suite ristretto255_XMD:SHA-512_R255MAP_RO_), the hash of RFC 9497, section 4.1",
        date: "2026-11-21",
    },
    CurveSet {
        id: "fourq-xmd-sha512-ell2-ro-v1",
        curve: "fourq",
        order_bits: 245,
        order: "73846995687063900142583536357581573884798075859800097461294096333596429543",
        divisors: [132_401_394, 728],
        kappa: 122,
        source: "Costello, Longa, FourQ, ASIACRYPT 2015, eprint 2015/565, section 2 (curve, a prime order of 246 bits, so at least 2^245; cofactor 392); hash: RFC 9380's generic Elligator 2, a suite of Vesica's own",
        date: "2026-11-21",
    },
    CurveSet {
        id: "sm2-xmd-sha256-sswu-ro-v1",
        curve: "sm2",
        order_bits: 255,
        order: "115792089210356248756420345214020892766061623724957744567843809356293439045923",
        divisors: [654_409_578, 400_561_076],
        kappa: 127,
        source: "GM/T 0003.5-2012 (curve, a prime order just below 2^256); hash: RFC 9380, section 6.6.2, with the constants that its appendix H.2 gives, a suite of Vesica's own",
        date: "2026-11-21",
    },
    CurveSet {
        id: "secp256k1-xmd-sha256-sswu-ro-v1",
        curve: "secp256k1",
        order_bits: 255,
        order: "115792089237316195423570985008687907852837564279074904382605163141518161494337",
        divisors: [18_051_648, 98_730_658],
        kappa: 127,
        source: "SEC 2, version 2.0, section 2.4.1 (curve, a prime order just below 2^256); RFC 9380, section 8.7 (suite secp256k1_XMD:SHA-256_SSWU_RO_)",
        date: "2026-11-21",
    },
    CurveSet {
        id: "p256-xmd-sha256-sswu-ro-v1",
        curve: "p256",
        order_bits: 255,
        order: "115792089210356248762697446949407573529996955224135760342422259061068512044369",
        divisors: [1_065_587_667, 352_675_222],
        kappa: 127,
        source: "NIST SP 800-186, section 3.2.1.3 (curve, a prime order just below 2^256); RFC 9380, section 8.2 (suite P256_XMD:SHA-256_SSWU_RO_)",
        date: "2026-11-21",
    },
];

/// The answers under one key that [`CurveSet::after_answers`] counts: what a service gives in the lifetime of a key, unless it says otherwise.
pub const ANSWERS: u64 = 1 << 30;

impl CurveSet {
    /// How many points cost no more than one to look at, because each is a known multiple of it: P and -P, and on secp256k1, where y² = x³ + 7,
    /// those with x times a cube root of one too (Wiener, Zuccherato, SAC 1998; Duursma, Gaudry, Morain, ASIACRYPT 1999).
    pub fn symmetries(&self) -> u32 {
        if self.curve == "secp256k1" { 6 } else { 2 }
    }

    /// log2 of the steps of Pollard's rho, √(π·p/(2·m)), for the order p and m symmetries.
    pub fn rho(&self) -> f64 {
        let order: f64 = self.order.parse().unwrap_or_default();
        libm::log2(order * core::f64::consts::FRAC_PI_2 / f64::from(self.symmetries())) / 2.0
    }

    /// log2 of the steps that are left to whoever gets k·P, k·(k·P) and so on, [`ANSWERS`] times in all, for elements P of its choice.
    ///
    /// The last of d answers is k^d·P. If d divides p - 1, k is found in √(p/d) + √d steps. If d divides p + 1, 2·d answers and √(p/d) + d
    /// steps are enough (Brown, Gallant, eprint 2004/306; Cheon, EUROCRYPT 2006). So the greatest divisor takes log2(d)/2 bits away.
    pub fn after_answers(&self) -> f64 {
        self.rho() - libm::log2(f64::from(self.divisors[0].max(self.divisors[1]))) / 2.0
    }
}

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

    /// The order modulo m.
    fn rest(set: &CurveSet, m: u64) -> u64 {
        set.order.bytes().fold(0, |rest, digit| (rest * 10 + u64::from(digit - b'0')) % m)
    }

    /// What answers under one key take away rests on divisors, and these divide. That there are no greater ones is what
    /// `strength.py curves` finds, and strength.rs compares.
    #[test]
    fn the_divisors_divide() {
        for set in SETS {
            let [less, more] = set.divisors.map(u64::from);
            assert!(less <= ANSWERS && 2 * more <= ANSWERS, "{}", set.id);
            assert_eq!((rest(set, less), rest(set, more)), (1, more - 1), "{}", set.id);
            let log: f64 = libm::log2(set.order.parse::<f64>().expect("digits"));
            // Those just below 2^256 are 2^256 as floating-point numbers.
            assert!(log as u32 == set.order_bits || log == 256.0 && set.order_bits == 255, "{}: {log}", set.id);
        }
    }
}
