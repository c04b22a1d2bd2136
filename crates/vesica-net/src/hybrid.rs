//! X25519MLKEM768, a key exchange of TLS 1.3 that holds as long as one of its two halves does: X25519 (RFC 7748) against computers of today, and
//! ML-KEM-768 (FIPS 203) against a quantum computer that reads what is recorded today.
//!
//! `draft-ietf-tls-ecdhe-mlkem`, sections 3 and 4: the client's share is an encapsulation key (1,184 bytes) and a point (32), the server's a
//! ciphertext (1,088) and a point (32), and the secret that goes into the key schedule is ML-KEM's (32) and then X25519's (32). The number of the
//! group is 0x11EC. A client's X25519 half is offered by itself too, so a peer that knows no ML-KEM needs no second round.

use ml_kem::ml_kem_768::{Ciphertext, DecapsulationKey, EncapsulationKey, MlKem768};
use ml_kem::{B32, Decapsulate, Key, KeyExport, Seed};
use rustls::crypto::ring::kx_group::X25519;
use rustls::crypto::{ActiveKeyExchange, CompletedKeyExchange, GetRandomFailed, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, PeerMisbehaved, ProtocolVersion};
use zeroize::{Zeroize, Zeroizing};

/// Bytes of an encapsulation key and of a ciphertext (FIPS 203, table 3).
const KEY: usize = 1184;
const CIPHERTEXT: usize = 1088;

/// Bytes of a point.
const POINT: usize = 32;

const SHARE_IS_WRONG: Error = Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare);

/// The group.
#[derive(Debug)]
pub(crate) struct Hybrid;

/// Randomness of the system.
fn drawn<T: AsMut<[u8]> + Default + Zeroize>() -> Result<Zeroizing<T>, Error> {
    let mut drawn = Zeroizing::new(T::default());
    getrandom::fill(T::as_mut(&mut drawn)).map_err(|_| GetRandomFailed)?;
    Ok(drawn)
}

/// Both secrets, the lattice's first.
fn joined(lattice: &[u8], point: &SharedSecret) -> SharedSecret {
    SharedSecret::from([lattice, point.secret_bytes()].concat())
}

/// A share's two halves, of which the first has so many bytes.
fn halves(share: &[u8], first: usize) -> Result<(&[u8], &[u8]), Error> {
    match share.len() == first + POINT {
        true => Ok(share.split_at(first)),
        false => Err(SHARE_IS_WRONG),
    }
}

impl SupportedKxGroup for Hybrid {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let point = X25519.start()?;
        let seed = drawn::<Seed>()?;
        let key = DecapsulationKey::from_seed(*seed);
        let share = [&key.encapsulation_key().to_bytes()[..], point.pub_key()].concat();
        Ok(Box::new(Active { point, key, share }))
    }

    fn start_and_complete(&self, share: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let (key, point) = halves(share, KEY)?;
        // Checks that each coefficient is below the modulus (FIPS 203, section 7.2).
        let key = Key::<EncapsulationKey>::try_from(key).ok().and_then(|key| EncapsulationKey::new(&key).ok());
        let key = key.ok_or(SHARE_IS_WRONG)?;
        let point = X25519.start_and_complete(point)?;
        let (ciphertext, secret) = key.encapsulate_deterministic(&*drawn::<B32>()?);
        let secret = Zeroizing::new(secret);
        Ok(CompletedKeyExchange {
            group: self.name(),
            pub_key: [&ciphertext[..], &point.pub_key].concat(),
            secret: joined(&secret[..], &point.secret),
        })
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

/// What a client has begun.
struct Active {
    point: Box<dyn ActiveKeyExchange>,
    /// It is zeroized when it is dropped.
    key: ml_kem::DecapsulationKey<MlKem768>,
    share: Vec<u8>,
}

impl ActiveKeyExchange for Active {
    fn complete(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        let (ciphertext, point) = halves(share, CIPHERTEXT)?;
        let point = self.point.complete(point)?;
        let ciphertext = Ciphertext::try_from(ciphertext).map_err(|_| SHARE_IS_WRONG)?;
        // A ciphertext that was not made for this key gives a secret that nobody else has (implicit rejection), and the handshake ends.
        let secret = Zeroizing::new(self.key.decapsulate(&ciphertext));
        Ok(joined(&secret[..], &point))
    }

    fn hybrid_component(&self) -> Option<(NamedGroup, &[u8])> {
        Some((self.point.group(), self.point.pub_key()))
    }

    fn complete_hybrid_component(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        self.point.complete(share)
    }

    fn pub_key(&self) -> &[u8] {
        &self.share
    }

    fn group(&self) -> NamedGroup {
        Hybrid.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use curve25519_dalek::{MontgomeryPoint, constants::X25519_BASEPOINT};
    use fips203::ml_kem_768 as other;
    use fips203::traits::{Decaps, Encaps, KeyGen, SerDes};

    /// A secret scalar, and its point.
    fn point(scalar: u8) -> ([u8; 32], [u8; 32]) {
        let scalar = [scalar; 32];
        (scalar, X25519_BASEPOINT.mul_clamped(scalar).to_bytes())
    }

    #[test]
    fn both_sides_have_the_same_secret_and_no_two_exchanges_have() {
        let mut all = std::collections::BTreeSet::new();
        for _ in 0..20 {
            let client = Hybrid.start().unwrap();
            assert_eq!((client.pub_key().len(), client.group()), (KEY + POINT, NamedGroup::X25519MLKEM768));
            let server = Hybrid.start_and_complete(client.pub_key()).unwrap();
            assert_eq!((server.pub_key.len(), server.group), (CIPHERTEXT + POINT, NamedGroup::X25519MLKEM768));
            let secret = client.complete(&server.pub_key).unwrap();
            assert_eq!(secret.secret_bytes(), server.secret.secret_bytes());
            assert_eq!(secret.secret_bytes().len(), 64);
            all.insert(secret.secret_bytes().to_vec());
        }
        assert_eq!(all.len(), 20);
    }

    /// Beside an implementation of FIPS 203 and one of X25519 that are nobody's here.
    #[test]
    fn an_independent_client_and_an_independent_server_have_the_same_secret() {
        for seed in 0..8u8 {
            let (scalar, mine) = point(seed + 1);
            let (key, secret) = other::KG::keygen_from_seed([seed; 32], [!seed; 32]);
            let server = Hybrid.start_and_complete(&[&key.into_bytes()[..], &mine].concat()).unwrap();
            let (ciphertext, theirs) = server.pub_key.split_at(CIPHERTEXT);
            let ciphertext = other::CipherText::try_from_bytes(ciphertext.try_into().unwrap()).unwrap();
            let lattice = secret.try_decaps(&ciphertext).unwrap().into_bytes();
            let shared = MontgomeryPoint(theirs.try_into().unwrap()).mul_clamped(scalar).to_bytes();
            assert_eq!(server.secret.secret_bytes(), [lattice, shared].concat());

            let client = Hybrid.start().unwrap();
            let (key, theirs) = client.pub_key().split_at(KEY);
            let key = other::EncapsKey::try_from_bytes(key.try_into().unwrap()).unwrap();
            let (lattice, ciphertext) = key.encaps_from_seed(&[seed; 32]);
            let shared = MontgomeryPoint(theirs.try_into().unwrap()).mul_clamped(scalar).to_bytes();
            let secret = client.complete(&[&ciphertext.into_bytes()[..], &mine].concat()).unwrap();
            assert_eq!(secret.secret_bytes(), [lattice.into_bytes(), shared].concat());
        }
    }

    #[test]
    fn a_share_that_is_none_is_refused_and_a_changed_one_gives_another_secret() {
        let client = Hybrid.start().unwrap();
        let good = client.pub_key().to_vec();
        let server = Hybrid.start_and_complete(&good).unwrap();
        let refused = |share: &[u8]| Hybrid.start_and_complete(share).is_err();
        assert!(refused(&[]) && refused(&good[..KEY]) && refused(&good[1..]) && refused(&[&good[..], &[0]].concat()));
        // A coefficient that is not below 3329, and a point of small order.
        assert!(refused(&[&[0xff; 3][..], &good[3..]].concat()));
        assert!(refused(&[&good[..KEY], &[0; POINT]].concat()));
        for share in [&server.pub_key[1..], &[&server.pub_key[..], &[0]].concat(), &[], &server.pub_key[..CIPHERTEXT]] {
            assert!(Hybrid.start().unwrap().complete(share).is_err());
        }
        assert!(Hybrid.start().unwrap().complete(&[&server.pub_key[..CIPHERTEXT], &[0; POINT]].concat()).is_err());
        for place in [0, CIPHERTEXT - 1, CIPHERTEXT] {
            let client = Hybrid.start().unwrap();
            let server = Hybrid.start_and_complete(client.pub_key()).unwrap();
            let mut share = server.pub_key;
            share[place] ^= 1;
            assert_ne!(client.complete(&share).unwrap().secret_bytes(), server.secret.secret_bytes());
        }
    }

    #[test]
    fn the_half_that_others_know_is_the_point() {
        let client = Hybrid.start().unwrap();
        let (group, share) = client.hybrid_component().unwrap();
        assert_eq!((group, share), (NamedGroup::X25519, &client.pub_key()[KEY..]));
        let server = X25519.start_and_complete(share).unwrap();
        let secret = client.complete_hybrid_component(&server.pub_key).unwrap();
        assert_eq!(secret.secret_bytes(), server.secret.secret_bytes());
    }
}
