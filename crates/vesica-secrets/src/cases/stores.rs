//! Stores and tables of bins: once with secret values under public keys, once with this party's own keys secret too.

use super::Case;
use crate::backend::reveal;
use crate::watch::Watch;
use vesica_block::gf256::Elements;
use vesica_block::{Block, prg::Prg};
use vesica_okvs::{Band, Bins, Cuckoo, Okvs, Paxos, polynomial};
use vesica_params::{Level, bins, cuckoo, okvs};
use vesica_testkit::digests;
use vesica_types::Digest;

/// So many that a store puts rows aside only by chance, and a table moves entries.
const MANY: usize = 300;

pub fn cases() -> Vec<Case> {
    vec![
        Case::timed("stores/paxos", |watch| values_of(&paxos(), watch)),
        Case::timed("stores/band", |watch| values_of(&band(), watch)),
        Case::timed("stores/polynomial", polynomial),
        Case::new("own-keys/paxos", |watch| keys_of(&paxos(), watch)),
        Case::new("own-keys/band", |watch| keys_of(&band(), watch)),
        Case::new("own-keys/cuckoo", cuckoos),
        Case::new("own-keys/bins", binned),
    ]
}

fn paxos() -> Paxos {
    Paxos::new(okvs::paxos(MANY as u64, 1, Level::STANDARD).expect("few keys"), Block(7))
}

fn band() -> Band {
    Band::new(okvs::band(&okvs::BAND_3, MANY as u64, 1, Level::STANDARD).expect("few keys"), Block(7))
}

fn values(watch: &mut Watch) -> Vec<Block> {
    (0..MANY).map(|_| Block::from_le_bytes(watch.secret())).collect()
}

/// Values and what fills the free slots are secret, and keys are not.
fn values_of(okvs: &impl Okvs, watch: &mut Watch) {
    let (keys, values) = (digests(0, MANY as u64), values(watch));
    let mut free = Prg::new(Block::from_le_bytes(watch.secret()));
    let store = watch.measure(|| okvs.encode(&keys, &values, &mut free)).expect("distinct keys");
    let mut decoded = Vec::new();
    watch.measure(|| okvs.decode(&keys, &store, &mut decoded));
    watch.result(&decoded);
    watch.result(&store);
}

fn own_keys(watch: &mut Watch) -> Vec<Digest> {
    (0..MANY).map(|_| Digest(watch.secret())).collect()
}

fn keys_of(okvs: &impl Okvs, watch: &mut Watch) {
    let (keys, values) = (own_keys(watch), values(watch));
    let mut free = Prg::new(Block::from_le_bytes(watch.secret()));
    let store = okvs.encode(&keys, &values, &mut free).expect("distinct keys");
    let mut decoded = Vec::new();
    okvs.decode(&keys, &store, &mut decoded);
    watch.result(&decoded);
    watch.result(&store);
}

fn polynomial(watch: &mut Watch) {
    let mut element = || [Block::from_le_bytes(watch.secret()), Block::from_le_bytes(watch.secret())];
    // Distinct, also where secrets are zeros.
    let points: Elements = (0..20).map(|i| element().map(|block| Block(block.0 >> 8 << 8 | i))).collect();
    let values: Elements = (0..20).map(|_| element()).collect();
    let made = watch.measure(|| polynomial::interpolate(&points, &values)).expect("distinct points");
    (0..20).for_each(|i| watch.result(&made.get(i)));
}

fn cuckoos(watch: &mut Watch) {
    let cuckoo = Cuckoo::new(cuckoo::bins(MANY as u64, 1, Level::STANDARD).expect("few keys"), Block(7));
    let keys = own_keys(watch);
    let (table, simple) = (cuckoo.table(&keys).expect("distinct keys"), cuckoo.simple(&keys));
    // Entries are numbers of keys: it is where they stand that is secret.
    reveal(&table);
    reveal(simple.bin(0));
}

fn binned(watch: &mut Watch) {
    let bins = Bins::new(bins::bins(MANY as u64, 1, Level::STANDARD).expect("few keys"), Block(7));
    let table = bins.table(&own_keys(watch)).expect("distinct keys");
    reveal(std::slice::from_ref(&table));
}
