//! From a curve's name to its type: the one place that knows all of them.

use crate::CurveName;
use vesica_curve::Blind;
use vesica_params::curve::CurveSet;

/// Something to do with a group that is known by name only at run time.
pub trait WithGroup {
    /// What comes of it.
    type Out;

    /// Does it.
    fn with<G: Blind>(self) -> Self::Out;
}

/// Does `work` with the group called `name`.
pub fn with_group<W: WithGroup>(name: CurveName, work: W) -> W::Out {
    match name {
        CurveName::Curve25519 => work.with::<vesica_curve::Curve25519>(),
        CurveName::Ristretto255 => work.with::<vesica_curve::Ristretto255>(),
        CurveName::FourQ => work.with::<vesica_curve::FourQ>(),
        CurveName::Sm2 => work.with::<vesica_curve::Sm2>(),
        CurveName::Secp256k1 => work.with::<vesica_curve::Secp256k1>(),
        CurveName::P256 => work.with::<vesica_curve::P256>(),
    }
}

/// The parameter set of the group called `name`.
pub fn set(name: CurveName) -> &'static CurveSet {
    vesica_params::curve::set(name.name()).expect("every curve of a job has a set; a test holds it")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Name;

    impl WithGroup for Name {
        type Out = &'static str;

        fn with<G: Blind>(self) -> &'static str {
            G::NAME
        }
    }

    #[test]
    fn every_name_leads_to_its_group() {
        for &curve in CurveName::ALL {
            assert_eq!(with_group(curve, Name), curve.name());
            assert_eq!(set(curve).curve, curve.name());
        }
    }
}
