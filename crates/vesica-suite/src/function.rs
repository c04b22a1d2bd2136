//! The oblivious function of a service, by the name of its curve.

use crate::CurveName;
use crate::curve;
use std::sync::Arc;
use vesica_curve::{Curve25519, FourQ, P256Sec1, Ristretto255, Secp256k1, Sm2};
use vesica_oprf::function::{ClientFunction, ServerFunction, Unusable};
use vesica_oprf::rfc9497;
use vesica_types::Secret;

/// The id of the parameter set.
pub fn set(curve: CurveName) -> &'static str {
    curve::set(curve).id
}

/// Calls a function of `rfc9497` for the group of a curve.
macro_rules! in_group {
    ($curve:expr, $function:ident($($argument:expr),*)) => {
        match $curve {
            CurveName::Curve25519 => rfc9497::$function::<Curve25519>($($argument),*),
            CurveName::Ristretto255 => rfc9497::$function::<Ristretto255>($($argument),*),
            CurveName::FourQ => rfc9497::$function::<FourQ>($($argument),*),
            CurveName::Sm2 => rfc9497::$function::<Sm2>($($argument),*),
            CurveName::Secp256k1 => rfc9497::$function::<Secp256k1>($($argument),*),
            CurveName::P256 => rfc9497::$function::<P256Sec1>($($argument),*),
        }
    };
}

/// The server's side, whose scalar is derived from `seed`.
///
/// # Errors
/// If answers are to be proved and the group has no proofs.
pub fn server(curve: CurveName, verifiable: bool, seed: &[u8; 32]) -> Result<Arc<dyn ServerFunction>, Unusable> {
    let seed = Secret::new(*seed);
    in_group!(curve, server(verifiable, &seed)).map(Arc::from)
}

/// The client's side; `public` is the server's public key, by which answers are proved if the function is verifiable.
///
/// # Errors
/// If the group has no proofs, or the public key is none.
pub fn client(curve: CurveName, verifiable: bool, public: &[u8]) -> Result<Box<dyn ClientFunction>, Unusable> {
    let published = verifiable.then_some(public);
    in_group!(curve, client(published))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_testkit::fixed_rng;
    use vesica_types::KeyDigest;

    #[test]
    fn every_curve_has_a_function() {
        let keys = [KeyDigest([1; 32]), KeyDigest([2; 32])];
        for &curve in CurveName::ALL {
            for verifiable in [false, true] {
                let has_proofs = matches!(curve, CurveName::Ristretto255 | CurveName::P256);
                let server = match server(curve, verifiable, &[7; 32]) {
                    Err(error) => {
                        assert!(verifiable && !has_proofs, "{error}");
                        continue;
                    }
                    Ok(server) => server,
                };
                assert!(!verifiable || has_proofs);
                let client = client(curve, verifiable, server.public()).unwrap();
                let (mut rng, mut wire, mut evaluated, mut outputs) =
                    (fixed_rng(1), Vec::new(), Vec::new(), Vec::new());
                let blinded = client.blind(&keys, &mut rng, &mut wire);
                server.evaluate(&wire, &[3; 32], &mut evaluated).unwrap();
                let proof = verifiable.then(|| server.prove(&wire, &evaluated, &mut rng));
                server.eval(&keys, &mut outputs);
                assert_eq!(
                    blinded.finalize(&evaluated, proof.as_deref(), &[4; 32]).unwrap(),
                    outputs,
                    "{}",
                    curve.name()
                );
            }
        }
    }
}
