//! From a curve's name to the function of RFC 9497 in its group, for services. The RFC's encoding of P-256 has the sign of y.

use crate::CurveName;
use crate::curve::with_group;
use vesica_oprf::function::{ClientFunction, ServerFunction, Unusable};
use vesica_oprf::rfc9497;
use vesica_types::Secret;

/// The id of a curve's parameter set.
pub fn set(curve: CurveName) -> &'static str {
    crate::curve::set(curve).id
}

/// The server's side on a curve, for the key that a seed and `info` name.
///
/// # Errors
/// [`Unusable::NotVerifiable`] if that is asked of a curve without proofs.
pub fn server(
    curve: CurveName,
    verifiable: bool,
    seed: &Secret<[u8; 32]>,
    info: &[u8],
) -> Result<Box<dyn ServerFunction>, Unusable> {
    with_group!(curve, P256Sec1, G => rfc9497::server::<G>(verifiable, seed, info))
}

/// A client's side on a curve: for answers that are proved by `published`, a server's public key, or for answers that are not.
///
/// # Errors
/// [`Unusable::NotVerifiable`] if the curve has no proofs; [`Unusable::PublicKey`] if the key is not one element of the group.
pub fn client(curve: CurveName, published: Option<&[u8]>) -> Result<Box<dyn ClientFunction>, Unusable> {
    with_group!(curve, P256Sec1, G => rfc9497::client::<G>(published))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_session::SessionRng;
    use vesica_types::KeyDigest;

    #[test]
    fn every_curve_has_the_function_and_two_can_prove_it() {
        let seed = Secret::new([5; 32]);
        for &curve in CurveName::ALL {
            let provable = matches!(curve, CurveName::Ristretto255 | CurveName::P256);
            for verifiable in [false, true] {
                let server = server(curve, verifiable, &seed, b"vesica");
                assert_eq!(server.is_ok(), provable || !verifiable, "{}", curve.name());
                let Ok(server) = server else { continue };
                assert_eq!(server.proof_bytes().is_some(), verifiable);
                let client = client(curve, verifiable.then(|| server.public())).unwrap();
                let keys = [[1; 32], [2; 32]].map(KeyDigest);
                let (mut want, mut blinded, mut answer) = (Vec::new(), Vec::new(), Vec::new());
                server.eval(&keys, &mut want);
                let mut rng = SessionRng::from_seed([1; 32].into());
                let request = client.blind(&keys, &mut rng, &mut blinded);
                server.evaluate(&blinded, &[0; 32], &mut answer).unwrap();
                let proof = verifiable.then(|| server.prove(&blinded, &answer, &mut rng));
                assert_eq!(request.finalize(&answer, proof.as_deref(), &[0; 32]).unwrap(), want, "{}", curve.name());
            }
        }
    }
}
