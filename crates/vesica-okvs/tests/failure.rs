//! How often there is no store or table, against the bounds, at levels low enough to be seen.
//!
//! Each bound must hold, and each count must not be zero: a bound that is never approached says nothing.

use vesica_block::Block;
use vesica_block::prg::Prg;
use vesica_okvs::{Band, Bins, Cuckoo, Okvs, Paxos};
use vesica_params::{Level, cuckoo, okvs};
use vesica_types::Digest;

fn keys(n: usize) -> Vec<Digest> {
    let mut prg = Prg::new(Block(1));
    (0..n).map(|_| Digest(prg.block().to_le_bytes())).collect()
}

/// The share of `trials` seeds that fail, as a power of two.
fn log2_failures(trials: u32, mut fails: impl FnMut(Block) -> bool) -> f64 {
    let mut seeds = Prg::new(Block(77));
    let failures = (0..trials).filter(|_| fails(seeds.block())).count();
    assert!(failures > 0, "none of {trials} fails");
    (failures as f64 / f64::from(trials)).log2()
}

fn no_store(okvs: &impl Okvs, keys: &[Digest]) -> bool {
    okvs.encode(keys, &vec![0u64; keys.len()], &mut Prg::new(Block(3))).is_err()
}

#[test]
fn peeling_fails_no_more_often_than_its_bound() {
    for (n, bins, trials, sigma) in [(1024, 1, 2000, 1), (4096, 1, 500, 1)] {
        let columns = (3..)
            .find(|&columns| okvs::PAXOS.log2_unpeeled(n as u64, bins, columns) <= -f64::from(sigma))
            .expect("enough columns");
        let shape = okvs::PaxosShape { bins: bins as u32, columns: columns as u32, dense: 48, gap: 8 };
        let keys = keys(n);
        let measured = log2_failures(trials, |seed| no_store(&Paxos::new(shape, seed), &keys));
        assert!(measured <= -f64::from(sigma), "{n} in {bins}: 2^{measured}");
    }
}

/// Below the threshold of 1.223 columns a key almost every seed fails: the fit is of the right thing.
#[test]
fn peeling_has_its_threshold() {
    let keys = keys(4096);
    for (expansion, low, high) in [(1.19, 0.5, 1.0), (1.28, 0.0, 0.02)] {
        let columns = (4096.0 * expansion) as u32;
        let shape = okvs::PaxosShape { bins: 1, columns, dense: 48, gap: 8 };
        let mut seeds = Prg::new(Block(7));
        let failed = (0..100).filter(|_| no_store(&Paxos::new(shape, seeds.block()), &keys)).count();
        assert!((low..=high).contains(&(failed as f64 / 100.0)), "{expansion}: {failed} %");
    }
}

#[test]
fn bands_fail_no_more_often_than_their_bound() {
    let wide = okvs::BandSet { epsilon: 0.1, ..okvs::BAND_3 };
    for (set, n, trials) in [(wide, 1024, 300), (wide, 4096, 100), (okvs::BAND_5, 4096, 200)] {
        let sigma = 2.0;
        let width = (1..).find(|&width| set.log2_late(n as u64, width) <= -sigma).expect("wide enough");
        let slots = ((1.0 + set.epsilon) * n as f64).ceil() as u32 + width;
        let shape = okvs::BandShape { slots, width };
        let keys = keys(n);
        let measured = log2_failures(trials, |seed| no_store(&Band::new(shape, seed), &keys));
        assert!(measured <= -sigma, "{n}, ε {}: 2^{measured}", set.epsilon);
    }
}

#[test]
fn cuckoo_tables_fail_no_more_often_than_their_bounds() {
    // The union bound, which few keys approach.
    for (n, trials, sigma) in [(8, 5000, 3), (16, 5000, 3), (16, 20_000, 6)] {
        let bins = cuckoo::bins(n as u64, 1, Level { kappa: 128, sigma }).expect("few keys");
        let keys = keys(n);
        let measured = log2_failures(trials, |seed| Cuckoo::new(bins, seed).table(&keys).is_err());
        assert!(measured <= -f64::from(sigma), "{n}: 2^{measured}");
    }
    // The fit, on fewer keys than it is used for; it only gets steeper with more.
    for (n, expansion, trials) in [(1024, 1.11, 600), (1024, 1.12, 1500), (2048, 1.11, 800)] {
        let (bins, keys) = ((expansion * n as f64) as u32, keys(n));
        let measured = log2_failures(trials, |seed| Cuckoo::new(bins, seed).table(&keys).is_err());
        let bound = cuckoo::CUCKOO.slope * (cuckoo::CUCKOO.threshold - expansion);
        assert!(measured <= bound, "{n}, {expansion}: 2^{measured}");
    }
}

/// Nine keys of ten, or of twelve, in one pair of three bins are too many: the union bound of vesica_params::bins, and how near it is.
#[test]
fn bins_fail_as_seldom_as_their_bound_says_and_not_much_less() {
    for (n, trials, bound) in [(10, 40_000, -9.36f64), (12, 5000, -4.89)] {
        let keys = keys(n);
        let measured = log2_failures(trials, |seed| Bins::new(3, seed).table(&keys).is_err());
        assert!(measured <= bound && measured > bound - 2.5, "{n}: 2^{measured}");
    }
}

/// Tables exist up to 98 % full; the bound, which counts sets of bins, asks for 1.27 slots a key and more.
#[test]
fn bins_have_their_threshold() {
    let keys = keys(4000);
    for (bins, refused) in [(1010, 20), (1040, 0)] {
        let mut seeds = Prg::new(Block(7));
        let failed = (0..20).filter(|_| Bins::new(bins, seeds.block()).table(&keys).is_err()).count();
        assert_eq!(failed, refused, "{bins} bins");
    }
}
