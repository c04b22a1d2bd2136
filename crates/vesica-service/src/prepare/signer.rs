//! The key that signs epochs of which clients copy masks (Ed25519, RFC 8032).
//!
//! Clients pin the offer, and the offer has the public key. The key stands apart from the store and from the key of the function: `vesica serve`
//! does not need it. So it may be kept where `vesica prepare` runs, and whoever breaks into the machine that serves has no masks of their own
//! making that a client would take. A signature does not prove that masks are those of the table: see [`crate::audit_store`].

use crate::error::Error;
use crate::offer::Offer;
use crate::prepare::secret::{self, Seed, Use};
use crate::retrieve::epoch::Epoch;
use ring::signature::{Ed25519KeyPair, KeyPair};
use std::fs::File;
use std::time::{Duration, SystemTime};
use vesica_job::{Control, World};
use vesica_params::lwe;
use vesica_spec::service::{Secret as Place, ServePlan};

/// What signs the epochs of a service. A new key is on the disk before anything is signed, and the old one until [`Signer::keep`].
pub struct Signer {
    key: Ed25519KeyPair,
    /// How long clients take what was signed.
    valid_for: Duration,
    is_new: bool,
    /// Whether its file is sealed by a key or a passphrase.
    sealed: bool,
    /// Held until the end.
    _locked: Option<File>,
}

impl Signer {
    /// The signer of the plan's service: the one that there is, or a new one where there is none or it is to be rotated. A new key makes another
    /// offer. `before` is the offer that stands in the folder.
    ///
    /// # Errors
    /// Those of the file with the key; if other users may read it, it is the file of another key or stands in the store; if the offer before is
    /// signed by another key, and that is not to be rotated.
    pub fn take(
        plan: &ServePlan,
        rotate: bool,
        before: Option<&Offer>,
        world: &World,
        ctl: &Control,
    ) -> Result<Self, Error> {
        let wanted = before.and_then(Offer::signer).filter(|_| !rotate);
        if wanted.is_some() {
            Self::is_mounted(plan)?;
        }
        let _locked = Some(Self::lock(plan, before, ctl)?);
        let known = match rotate {
            true => {
                Self::is_no_others(plan, before, ctl)?;
                None
            }
            false => Self::load(&plan.signer, plan.valid_for, ctl)?,
        };
        match (known, wanted) {
            (Some(signer), wanted) if wanted.as_deref().is_none_or(|key| key == signer.public()) => {
                Ok(Self { _locked, ..signer })
            }
            (None, None) => {
                // On the disk before anybody hears of it.
                let draw = || Ok(world.chance.seed()?);
                let (seed, sealed) = secret::save_next(&plan.signer, Use::Signatures, (None, draw), ctl)?;
                Ok(Self { _locked, sealed, is_new: true, ..Self::new(&seed, plan.valid_for) })
            }
            _ => Err(lost(plan)),
        }
    }

    /// The signer whose key the offer of the plan's store has. Nothing is written where it stands: a `vesica prepare` that was killed just before its
    /// end may have left it under its first name, and the next one that makes a whole table gives it its own.
    ///
    /// # Errors
    /// As [`Signer::take`]; if the file is not there, or holds another key.
    pub fn of_offer(plan: &ServePlan, offer: &Offer, ctl: &Control) -> Result<Self, Error> {
        Self::is_mounted(plan)?;
        secret::apart(plan, Use::Signatures)?;
        let wanted = offer.signer();
        let of = |place: &Place| {
            let signer = Self::load(place, plan.valid_for, ctl)?;
            Ok(signer.filter(|signer| wanted.as_deref() == Some(signer.public())))
        };
        secret::either(&plan.signer, of)?.ok_or_else(|| lost(plan))
    }

    /// Fails if the folder of the key that there must be is not there, which may be a disk of its own: none is made in its place.
    fn is_mounted(plan: &ServePlan) -> Result<(), Error> {
        if vesica_table::folder(&plan.signer.path).is_dir() { Ok(()) } else { Err(lost(plan)) }
    }

    /// Fails if the file holds the key of another store, which a new one would take from it, or anything that is no key which signs epochs.
    fn is_no_others(plan: &ServePlan, before: Option<&Offer>, ctl: &Control) -> Result<(), Error> {
        let own = before.and_then(Offer::signer);
        match secret::replaced(&plan.signer, Use::Signatures, ctl)?.map(|seed| Self::new(&seed, plan.valid_for)) {
            Some(known) if own.as_deref() != Some(known.public()) => Err(Error::Setup(format!(
                "mine.signer: {} holds the key of another store, or of this one before its offer was moved away. Another store could sign no \
                 more if it were replaced; name a file of its own, or run without --rotate to sign with this key",
                plan.signer.path.display()
            ))),
            _ => Ok(()),
        }
    }

    /// What was signed stands: a new key becomes the service's.
    ///
    /// # Errors
    /// Those of renaming.
    pub fn keep(self, plan: &ServePlan) -> Result<(), Error> {
        if self.is_new { secret::become_current(&plan.signer) } else { Ok(()) }
    }

    /// Keeps others from making or changing the key meanwhile, and ends what an earlier `vesica prepare` was killed in.
    fn lock(plan: &ServePlan, offer: Option<&Offer>, ctl: &Control) -> Result<File, Error> {
        let locked = secret::lock_apart(plan, Use::Signatures)?;
        let is_stores =
            |seed| Ok(offer.and_then(Offer::signer).as_deref() == Some(Self::new(&seed, plan.valid_for).public()));
        secret::settle(&plan.signer, Use::Signatures, is_stores, ctl)?;
        Ok(locked)
    }

    fn load(place: &Place, valid_for: Duration, ctl: &Control) -> Result<Option<Self>, Error> {
        let Some(seed) = secret::load(place, Use::Signatures, ctl)? else { return Ok(None) };
        let path = &place.path;
        let meta = std::fs::metadata(path).map_err(Error::file("cannot read", path))?;
        match vesica_net::exposed(&meta, path, Use::Signatures.what()) {
            None => Ok(Some(Self { sealed: secret::is_sealed(place)?, ..Self::new(&seed, valid_for) })),
            Some((why, remedy)) => Err(Error::Setup(format!("{}: {why}; {remedy}", path.display()))),
        }
    }

    /// Whether its file is sealed by a key or a passphrase.
    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// The signer with this seed.
    pub fn new(seed: &Seed, valid_for: Duration) -> Self {
        // The seed of one use is none of another.
        let seed = zeroize::Zeroizing::new(blake3::derive_key("vesica 2026 signer of epochs", &seed[..]));
        let key = Ed25519KeyPair::from_seed_unchecked(&seed[..]).expect("a seed has 32 bytes");
        Self { key, valid_for, is_new: false, sealed: false, _locked: None }
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

fn lost(plan: &ServePlan) -> Error {
    Error::Setup(format!(
        "{} does not hold the key that signed {}. Restore it; or run `vesica prepare --rotate`, which makes another one, and tell clients the \
         new offer",
        plan.signer.path.display(),
        plan.store.display()
    ))
}
