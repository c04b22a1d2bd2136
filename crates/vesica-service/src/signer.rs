//! The key that signs epochs of which clients copy masks (Ed25519, RFC 8032).
//!
//! Clients pin the offer, and the offer has the public key. The key stands apart from the store and from the key of the function: `vesica serve`
//! does not need it. So it may be kept where `vesica prepare` runs, and whoever breaks into the machine that serves has no masks of their own
//! making that a client would take. A signature does not prove that masks are those of the table: see [`crate::audit_store`].

use crate::error::Error;
use crate::offer::Offer;
use crate::retrieve::epoch::Epoch;
use crate::secret::{self, Seed};
use ring::signature::{Ed25519KeyPair, KeyPair};
use std::time::{Duration, SystemTime};
use vesica_job::World;
use vesica_params::lwe;
use vesica_spec::service::ServePlan;

/// What signs the epochs of a service.
pub struct Signer {
    key: Ed25519KeyPair,
    /// How long clients take what was signed.
    valid_for: Duration,
}

impl Signer {
    /// The signer of the plan's service, with a new key where there is none. A new key makes another offer.
    ///
    /// # Errors
    /// Those of the file with the key; if other users may read it.
    pub fn take(plan: &ServePlan, world: &World) -> Result<Self, Error> {
        match secret::load(&plan.signer)? {
            Some(seed) => Self::checked(plan, &seed),
            None => {
                let seed = world.chance.seed()?;
                // On the disk before anybody hears of it.
                secret::save(&plan.signer, &seed)?;
                Ok(Self::new(&seed, plan.valid_for))
            }
        }
    }

    /// The signer whose key the offer of the plan's store has.
    ///
    /// # Errors
    /// As [`Signer::take`]; if the file is not there, or holds another key.
    pub fn of_offer(plan: &ServePlan, offer: &Offer) -> Result<Self, Error> {
        let signer = secret::load(&plan.signer)?.map(|seed| Self::checked(plan, &seed)).transpose()?;
        signer.filter(|signer| offer.signer().as_deref() == Some(signer.public())).ok_or_else(|| {
            Error::Setup(format!(
                "{} does not hold the key that signed {}. Restore it; or run `vesica prepare` without --append and --remove, and tell clients the \
                 new offer",
                plan.signer.path.display(),
                plan.store.display()
            ))
        })
    }

    fn checked(plan: &ServePlan, seed: &Seed) -> Result<Self, Error> {
        let path = &plan.signer.path;
        let meta = std::fs::metadata(path).map_err(Error::file("cannot read", path))?;
        match vesica_net::exposed(&meta, path, "key that signs epochs") {
            None => Ok(Self::new(seed, plan.valid_for)),
            Some((why, remedy)) => Err(Error::Setup(format!("{}: {why}; {remedy}", path.display()))),
        }
    }

    /// The signer with this seed.
    pub fn new(seed: &Seed, valid_for: Duration) -> Self {
        // So the file may be the one with the key of the function.
        let seed = zeroize::Zeroizing::new(blake3::derive_key("vesica 2026 signer of epochs", &seed[..]));
        let key = Ed25519KeyPair::from_seed_unchecked(&seed[..]).expect("a seed has 32 bytes");
        Self { key, valid_for }
    }

    /// The public key.
    pub fn public(&self) -> &[u8] {
        self.key.public_key().as_ref()
    }

    /// The signature of these bytes.
    pub fn of(&self, bytes: &[u8]) -> Vec<u8> {
        self.key.sign(bytes).as_ref().to_vec()
    }

    /// Signs an epoch that is made now.
    pub fn sign(&self, epoch: &mut Epoch, now: SystemTime) {
        let made = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        epoch.sign(lwe::PACKED.id, (made, made + self.valid_for), |bytes| self.of(bytes));
    }
}
