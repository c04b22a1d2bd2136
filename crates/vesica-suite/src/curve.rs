//! From a curve's name to its type: the one place that knows all of them.

use crate::CurveName;
use vesica_params::curve::CurveSet;

/// `work`, in which `G` is the group called `name`. The group of P-256 is `P256`, whose elements travel without the sign of y, unless another one of
/// that curve is named.
macro_rules! with_group {
    ($name:expr, $G:ident => $work:expr) => {
        crate::curve::with_group!($name, P256, $G => $work)
    };
    ($name:expr, $P256:ident, $G:ident => $work:expr) => {{
        macro_rules! with {
            ($Group:ident) => {{
                type $G = vesica_curve::$Group;
                $work
            }};
        }
        match $name {
            crate::CurveName::Curve25519 => with!(Curve25519),
            crate::CurveName::Ristretto255 => with!(Ristretto255),
            crate::CurveName::FourQ => with!(FourQ),
            crate::CurveName::Sm2 => with!(Sm2),
            crate::CurveName::Secp256k1 => with!(Secp256k1),
            crate::CurveName::P256 => with!($P256),
        }
    }};
}
pub(crate) use with_group;

/// The parameter set of the group called `name`.
pub fn set(name: CurveName) -> &'static CurveSet {
    vesica_params::curve::set(name.name()).expect("every curve of a job has a set; a test holds it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_curve::Group;

    #[test]
    fn every_name_leads_to_its_group() {
        for &curve in CurveName::ALL {
            assert_eq!(with_group!(curve, G => <G as Group>::NAME), curve.name());
            assert_eq!(set(curve).curve, curve.name());
        }
    }
}
