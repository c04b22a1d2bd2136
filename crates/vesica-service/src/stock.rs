//! What a server has to give: a store of tags, or an epoch of records. Clients copy it in the same way.

use crate::error::Error;
use crate::offer::Offer;
use crate::retrieve::desk::Desk;
use std::sync::Arc;
use vesica_spec::service::ServePlan;
use vesica_store::Store;

/// A state of what is served.
#[derive(Clone)]
pub enum Stock {
    /// Tags, for `ecdh-oprf`.
    Tags(Arc<Store>),
    /// Records, for retrieval.
    Records(Arc<Desk>),
}

impl Stock {
    /// What stands in the folder of the plan.
    ///
    /// # Errors
    /// If it is not there, or is not what the offer is about.
    pub fn open(plan: &ServePlan, offer: &Offer) -> Result<Self, Error> {
        if offer.retrieval.is_some() {
            return Ok(Stock::Records(Arc::new(Desk::open(&plan.store, offer, plan.workers)?)));
        }
        let store = Store::open(&plan.store)?;
        crate::fetch::belongs(offer, store.manifest()).map_err(|_| {
            let why = "its offer and its manifest do not belong together; run `vesica prepare` again".to_owned();
            Error::Damaged { path: plan.store.clone(), why }
        })?;
        Ok(Stock::Tags(Arc::new(store)))
    }

    /// The state that the folder has now, if it is another one.
    ///
    /// # Errors
    /// If what stands there is not of this offer.
    pub fn reload(&self, offer: &Offer) -> Result<Option<Self>, Error> {
        let other = || {
            Error::Setup(
                "it was prepared with another offer; restart the service and tell clients the new offer".into(),
            )
        };
        match self {
            Stock::Tags(store) => {
                let Some(store) = store.reload()? else { return Ok(None) };
                crate::fetch::belongs(offer, store.manifest()).map_err(|_| other())?;
                Ok(Some(Stock::Tags(Arc::new(store))))
            }
            Stock::Records(desk) => {
                let now = desk.reload(offer).map_err(|error| if desk.is_foreign(offer) { other() } else { error })?;
                Ok(now.map(|desk| Stock::Records(Arc::new(desk))))
            }
        }
    }

    /// What describes it to a client.
    pub fn describe(&self) -> Vec<u8> {
        match self {
            Stock::Tags(store) => store.manifest().encode(),
            Stock::Records(desk) => desk.epoch().encode(),
        }
    }

    /// Keys or rows that can be looked up.
    pub fn len(&self) -> u64 {
        match self {
            Stock::Tags(store) => store.len(),
            Stock::Records(desk) => desk.epoch().rows,
        }
    }

    /// Parts that clients copy one by one.
    pub fn parts(&self) -> u64 {
        match self {
            Stock::Tags(store) => store.manifest().parts.len() as u64,
            Stock::Records(desk) => desk.parts() as u64,
        }
    }

    /// Bytes on the disk of a client that copied everything.
    pub fn bytes(&self) -> u64 {
        match self {
            Stock::Tags(store) => store.manifest().bytes(),
            Stock::Records(desk) => desk.epoch().copy + desk.epoch().log,
        }
    }

    /// The sums of a part's chunks, 32 bytes each.
    pub fn sums(&self, part: usize) -> Option<&[u8]> {
        match self {
            Stock::Tags(store) => store.sums(part),
            Stock::Records(desk) => desk.sums(part),
        }
    }

    /// A chunk of a part.
    pub fn chunk(&self, part: usize, number: u64) -> Option<&[u8]> {
        match self {
            Stock::Tags(store) => store.chunk(part, number),
            Stock::Records(desk) => desk.chunk(part, number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retrieve::desk::tests::house_of;
    use crate::retrieve::{desk, epoch};
    use vesica_spec::service::ServiceProtocol;

    /// Damage is told as damage, and a new offer as a new offer: an operator tells clients the second and mends the first.
    #[test]
    fn what_keeps_a_new_state_from_being_served_is_told() {
        let (dir, offer, mut next) = house_of(ServiceProtocol::Download, 20);
        let stock = Stock::Records(Arc::new(Desk::open(dir.path(), &offer, 1).unwrap()));
        let why = |next: &epoch::Epoch| {
            std::fs::write(dir.path().join(epoch::NAME), next.encode()).unwrap();
            stock.reload(&offer).err().unwrap().to_string()
        };
        (next.number, next.base) = (2, 2);
        let missing = why(&next);
        assert!(missing.contains("cannot read") && missing.contains("epoch-2.table"), "{missing}");
        std::fs::write(dir.path().join(desk::table_name(2)), "short").unwrap();
        let damaged = why(&next);
        assert!(damaged.contains("epoch-2.table is damaged") && !damaged.contains("offer"), "{damaged}");
        next.offer = "0".repeat(64);
        assert!(why(&next).contains("prepared with another offer"));
    }
}
