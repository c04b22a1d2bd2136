//! What a worker needs for lanes, sealed: with it, and with its units, it can be any lane of the run.

use crate::cluster::found;
use crate::cluster::lane::Matched;
use crate::cluster::meeting::Unit;
use crate::cluster::reading::piece;
use crate::cluster::secret::{KEPT, Secret, TERMS, damaged};
use crate::error::JobError;
use crate::lanes::links::{Certificates, Meeting};
use crate::meet::agree;
use crate::seal::key::{Front, TAG};
use arrow_array::RecordBatch;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use vesica_net::Identity;
use vesica_spec::{Plan, Spec};
use vesica_suite::Sizes;
use vesica_types::TagLen;

/// Bytes of what is settled of a unit, sealed: a digest, the number of keys and that of rows.
const HEAD: usize = Front::BYTES + 48 + TAG;

/// What a worker needs for lanes.
#[derive(Clone)]
pub struct Terms(Arc<Inner>);

struct Inner {
    words: Words,
    plan: Plan,
    sizes: Sizes,
    certificates: Certificates,
    secret: Secret,
}

/// As they travel, sealed.
#[derive(Serialize, Deserialize)]
pub(crate) struct Words {
    pub job: Spec,
    pub salt: [u8; 32],
    pub keys: Vec<u64>,
    pub capacities: Vec<u64>,
    pub units: u32,
    pub in_flight: u32,
    pub tag: usize,
    pub lanes: u32,
    pub at_once: u32,
    pub doors: Vec<String>,
    /// Whether every unit was finished when the parties met.
    pub whole: bool,
    /// The private key and certificate of this side's lanes.
    pub identity: Option<String>,
    /// The fingerprint of the other side's.
    pub theirs: Option<String>,
}

impl Terms {
    pub(crate) fn new(words: Words, secret: &Secret) -> Result<Self, JobError> {
        let plan = vesica_spec::plan(&words.job)?;
        let tag_len = TagLen::new(words.tag).ok_or_else(|| damaged("the terms of the lanes"))?;
        let sizes = Sizes {
            keys: words.keys.clone(),
            units: words.units,
            in_flight: words.in_flight,
            capacities: words.capacities.clone(),
            tag_len,
        };
        let mine = words.identity.as_ref().map(|pem| Identity::from_pem("certificate of the lanes", pem.as_bytes()));
        let theirs = words
            .theirs
            .as_ref()
            .map(|text| text.parse::<vesica_net::Fingerprint>().map_err(|_| damaged("the terms of the lanes")));
        let certificates = Certificates { mine: mine.transpose()?, theirs: theirs.transpose()? };
        Ok(Self(Arc::new(Inner { words, plan, sizes, certificates, secret: secret.clone() })))
    }

    /// For the workers, sealed. The private key of the lanes' certificate is among it.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn to_bytes(&self) -> Result<Vec<u8>, JobError> {
        let words = serde_json::to_vec(&self.0.words).expect("it is plain data");
        self.0.secret.seal(TERMS, b"", words)
    }

    /// What [`Terms::to_bytes`] gave.
    ///
    /// # Errors
    /// Bytes that cannot be opened under `secret`.
    pub fn from_bytes(bytes: &[u8], secret: &Secret) -> Result<Self, JobError> {
        let name = "the terms of the lanes";
        let words = secret.open(TERMS, b"", name, bytes)?;
        Self::new(serde_json::from_slice(&words).map_err(|_| damaged(name))?, secret)
    }

    /// Names the run.
    pub fn run(&self) -> String {
        agree::name(self.salt())
    }

    /// How many units there are.
    pub fn units(&self) -> u32 {
        self.0.words.units
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> u32 {
        self.0.words.lanes
    }

    /// Lanes that are under way at once: the smaller of what both sides said.
    pub fn at_once(&self) -> u32 {
        self.0.words.at_once
    }

    /// Units of a lane that are to be under way at once.
    pub fn in_lane(&self) -> u32 {
        (self.0.words.in_flight / self.0.words.at_once.max(1)).max(1)
    }

    /// Where the other side's doors are, if this side dials: lane k goes to number k modulo their number.
    pub fn addresses(&self) -> &[String] {
        &self.0.words.doors
    }

    /// Whether every unit was finished on both sides when they met: then there is nothing for lanes to do, and neither side opens one.
    pub fn is_whole(&self) -> bool {
        self.0.words.whole
    }

    /// What a unit found, as a table with the columns `row`, `pair` and `times`, all UInt64. `pair` is the same number for the same key
    /// on both sides. A row stands `times` times in the join.
    ///
    /// # Errors
    /// Bytes that cannot be opened, or belong to another unit.
    pub fn rows(&self, unit: u32, found: &[u8]) -> Result<RecordBatch, JobError> {
        found::open(&self.0.secret, self.salt(), unit, found)
    }

    /// What is to be kept of a unit: the driver settles the run with it, after a restart too, and it holds the rows.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn keep(&self, unit: u32, matched: &Matched) -> Result<Vec<u8>, JobError> {
        let Matched { found, digest, keys, rows } = matched;
        let head = [&digest[..], &keys.to_le_bytes(), &rows.to_le_bytes()].concat();
        let head = self.0.secret.seal(KEPT, &piece(self.salt(), unit), head)?;
        Ok([&head[..], found].concat())
    }

    /// What is settled of a unit that was kept, and the rows for [`Terms::rows`], still sealed.
    ///
    /// # Errors
    /// Bytes that [`Terms::keep`] does not give for this unit.
    pub fn kept<'a>(&self, unit: u32, kept: &'a [u8]) -> Result<(Unit, &'a [u8]), JobError> {
        let name = format!("what was kept of unit {unit}");
        let (head, found) = kept.split_at_checked(HEAD).ok_or_else(|| damaged(&name))?;
        let head = self.0.secret.open(KEPT, &piece(self.salt(), unit), &name, head)?;
        let (digest, numbers) = head.split_first_chunk::<32>().ok_or_else(|| damaged(&name))?;
        let [keys, rows] = *numbers.as_chunks::<8>().0 else { return Err(damaged(&name)) };
        let [keys, rows] = [keys, rows].map(u64::from_le_bytes);
        Ok((Unit { id: unit, digest: *digest, keys, rows }, found))
    }

    /// Rows of any units, as [`Terms::rows`] gave them, sealed: for whoever brings them together by something else than units.
    ///
    /// # Errors
    /// Another table; if the system has no randomness.
    pub fn seal_rows(&self, rows: &RecordBatch) -> Result<Vec<u8>, JobError> {
        found::seal_again(&self.0.secret, self.salt(), rows)
    }

    /// What [`Terms::seal_rows`] sealed.
    ///
    /// # Errors
    /// Bytes that cannot be opened.
    pub fn open_rows(&self, sealed: &[u8]) -> Result<RecordBatch, JobError> {
        found::open_again(&self.0.secret, self.salt(), sealed)
    }

    pub(crate) fn salt(&self) -> &[u8; 32] {
        &self.0.words.salt
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.0.plan
    }

    pub(crate) fn sizes(&self) -> &Sizes {
        &self.0.sizes
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.0.secret
    }

    pub(crate) fn meeting(&self) -> Meeting<'_> {
        Meeting { plan: &self.0.plan, salt: &self.0.words.salt, certificates: &self.0.certificates }
    }
}
