//! Where the rows that are looked up stand among the records: at their numbers, in two buckets each, or in a filter, as the sum of four.

use super::Scheme;
use super::epoch::Epoch;
use crate::error::Error;
use crate::offer::Offer;
use crate::wants::Wants;
use vesica_pir::bucket::Buckets;
use vesica_pir::keyword::Filter;
use vesica_session::SessionRng;
use vesica_spec::service::By;

/// What one query asks for: a sum of records, or anything, where nothing is wanted.
pub type Place = Option<Vec<u64>>;

/// Where rows stand.
pub enum Places {
    /// By number, each where its scheme puts it.
    Numbers(&'static dyn Scheme),
    /// By key, in one of two buckets.
    Buckets(Buckets),
    /// By key, as a sum of records.
    Filter(Box<Filter>),
}

impl Places {
    /// The places of an epoch. There is a filter where the scheme has sums of records.
    ///
    /// # Errors
    /// If no table of buckets has these sizes.
    pub fn new(
        offer: &Offer,
        epoch: &Epoch,
        scheme: &'static dyn Scheme,
        filter: Option<Filter>,
    ) -> Result<Self, Error> {
        Ok(match (offer.by(), filter) {
            (By::Index, _) => Places::Numbers(scheme),
            (By::Key, Some(filter)) => Places::Filter(Box::new(filter)),
            (By::Key, None) => Places::Buckets(epoch.buckets(offer)?),
        })
    }

    /// Queries that one row takes.
    pub fn each(&self) -> usize {
        if matches!(self, Places::Buckets(_)) { 2 } else { 1 }
    }

    /// What is asked for, for all wants in their order and then for what fills them up to `lookups`. That asks as a row does that is
    /// looked up: for one record, or by a filter for the sum of four.
    ///
    /// # Errors
    /// A bug if the table lacks a row that it says it has.
    pub fn of(
        &self,
        epoch: &Epoch,
        wants: &Wants,
        outputs: &[[u8; 32]],
        lookups: u64,
        rng: &mut SessionRng,
    ) -> Result<Vec<Place>, Error> {
        let all = lookups as usize * self.each();
        let mut places: Vec<Place> = Vec::with_capacity(all);
        match self {
            Places::Numbers(scheme) => {
                for &number in &wants.numbers {
                    let place = || scheme.place(epoch.records, &epoch.seed(), number);
                    let place = (number < epoch.rows).then(place).transpose();
                    places.push(place.map_err(|error| Error::bug(error.to_string()))?.map(|place| vec![place]));
                }
            }
            Places::Buckets(buckets) => {
                places.extend(outputs.iter().flat_map(|output| buckets.place(output).buckets).map(|at| Some(vec![at])));
            }
            Places::Filter(filter) => {
                places.extend(outputs.iter().map(|output| Some(filter.places(output).to_vec())));
            }
        }
        places.resize_with(all, || match self {
            Places::Filter(filter) => Some(filter.places(&rng.bytes()).to_vec()),
            _ => None,
        });
        Ok(places)
    }

    /// The bodies in the records of a row that may be its own.
    pub fn bodies<'a>(&self, output: &[u8; 32], records: impl Iterator<Item = &'a [u8]>) -> Vec<&'a [u8]> {
        match self {
            Places::Numbers(_) => records.collect(),
            Places::Buckets(buckets) => {
                let place = buckets.place(output);
                records.filter_map(|bucket| buckets.find(bucket, &place)).collect()
            }
            Places::Filter(filter) => records.filter_map(|sum| filter.open(output, sum)).collect(),
        }
    }

    /// The salt of the keys that the values of a row are sealed under.
    pub fn salt(&self, epoch: &Epoch, output: &[u8; 32]) -> [u8; 32] {
        match self {
            Places::Filter(filter) => filter.groups()[filter.group(output)].salt,
            _ => epoch.sealed(),
        }
    }
}
