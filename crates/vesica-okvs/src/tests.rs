//! What holds for every store.

use crate::{Band, Error, Okvs, Paxos, Value};
use vesica_block::prg::Prg;
use vesica_block::{Block, gf64, gf128};
use vesica_params::{Level, okvs};
use vesica_types::Digest;

pub(crate) fn keys(n: usize, seed: u128) -> Vec<Digest> {
    let mut prg = Prg::new(Block(seed));
    (0..n).map(|_| Digest(prg.block().to_le_bytes())).collect()
}

pub(crate) fn random<V: Value>(n: usize, seed: u128) -> Vec<V> {
    let mut out = vec![V::default(); n];
    V::fill(&mut Prg::new(Block(seed)), &mut out);
    out
}

fn paxos(n: usize, seed: u128) -> Paxos {
    Paxos::new(okvs::paxos(n as u64, 1, Level::STANDARD).expect("a shape"), Block(seed))
}

fn band(n: usize, seed: u128) -> Band {
    let set = if seed.is_multiple_of(2) { &okvs::BAND_3 } else { &okvs::BAND_5 };
    Band::new(okvs::band(set, n as u64, 1, Level::STANDARD).expect("a shape"), Block(seed))
}

fn decode<V: Value>(okvs: &impl Okvs, keys: &[Digest], store: &[V]) -> Vec<V> {
    let mut out = Vec::new();
    okvs.decode(keys, store, &mut out);
    out
}

fn round_trip<V: Value>(okvs: &impl Okvs, n: usize) {
    let (keys, values) = (keys(n, 1), random::<V>(n, 2));
    let store = okvs.encode(&keys, &values, &mut Prg::new(Block(3))).expect("distinct keys");
    assert_eq!(store.len(), okvs.len());
    assert!(decode(okvs, &keys, &store) == values, "{n}");
}

#[test]
fn what_is_encoded_is_decoded() {
    for n in (0..70).chain([100, 255, 256, 1000, 4097]) {
        round_trip::<Block>(&paxos(n, 7), n);
        round_trip::<u64>(&paxos(n, 8), n);
        round_trip::<Block>(&band(n, 7), n);
        round_trip::<u64>(&band(n, 8), n);
    }
    // One bin, the most keys of one, two bins, several.
    for n in [16_384, 32_767, 32_768, 70_000] {
        round_trip::<Block>(&paxos(n, 9), n);
    }
    round_trip::<Block>(&band(20_000, 9), 20_000);
}

/// Fewer pairs than planned, and decoding some keys in another order.
#[test]
fn a_store_need_not_be_full() {
    let (keys, values) = (keys(300, 1), random::<Block>(300, 2));
    let okvs = paxos(1000, 3);
    let store = okvs.encode(&keys, &values, &mut Prg::new(Block(3))).expect("distinct keys");
    assert_eq!(store.len(), okvs.len());
    for i in [299, 0, 17] {
        assert_eq!(decode(&okvs, &keys[i..=i], &store), [values[i]]);
    }
}

/// decode(a + Δ·p) = decode(a) + Δ·decode(p) over GF(2^128), and over GF(2^64) with Δ in its extension; also for keys that
/// are not in the store.
#[test]
fn decoding_is_linear() {
    fn check(okvs: &impl Okvs) {
        let (keys, delta) = (keys(200, 1), random::<Block>(1, 9)[0]);
        let values = random::<Block>(100, 2);
        let p = okvs.encode(&keys[..100], &values, &mut Prg::new(Block(3))).expect("distinct keys");
        let a = random::<Block>(okvs.len(), 4);
        let mut sum = a.clone();
        gf128::mul_add(&mut sum, &p, delta);
        let mut expected = decode(okvs, &keys, &a);
        gf128::mul_add(&mut expected, &decode(okvs, &keys, &p), delta);
        assert_eq!(decode(okvs, &keys, &sum), expected);

        let values = random::<u64>(100, 2);
        let p = okvs.encode(&keys[..100], &values, &mut Prg::new(Block(3))).expect("distinct keys");
        let mut sum = a.clone();
        gf64::mul_add(&mut sum, &p, delta);
        let mut expected = decode(okvs, &keys, &a);
        gf64::mul_add(&mut expected, &decode(okvs, &keys, &p), delta);
        assert_eq!(decode(okvs, &keys, &sum), expected);
    }
    check(&paxos(100, 5));
    check(&band(100, 5));
}

#[test]
fn duplicates_are_refused_whatever_their_values() {
    fn check(okvs: &impl Okvs, n: usize) {
        let (mut keys, values) = (keys(n, 1), vec![Block(5); n]);
        keys[n - 2] = keys[1];
        let error = okvs.encode(&keys, &values, &mut Prg::new(Block(3))).expect_err("two equal keys");
        assert_eq!(error, Error::Duplicate { first: 1, second: n - 2 });
    }
    for n in [4, 10, 1000] {
        check(&paxos(n, 5), n);
        check(&band(n, 5), n);
    }
}

/// What an owner of keys who knows the seed can do is to fail, soon: one key 70,000 times, or far too many keys.
#[test]
fn hostile_keys_fail_and_nothing_else() {
    fn check(okvs: &impl Okvs, keys: &[Digest]) -> Error {
        let values = vec![1u64; keys.len()];
        okvs.encode(keys, &values, &mut Prg::new(Block(3))).expect_err("hostile keys")
    }
    let same = vec![Digest([7; 16]); 70_000];
    assert_eq!(check(&paxos(70_000, 1), &same), Error::Duplicate { first: 0, second: 1 });
    assert_eq!(check(&paxos(10, 1), &same), Error::Duplicate { first: 0, second: 1 });
    let many = keys(70_000, 1);
    for n in [0, 10, 1000, 40_000] {
        assert_eq!(check(&paxos(n, 1), &many), Error::Unsolvable { keys: 70_000 });
    }
    assert_eq!(check(&band(1000, 1), &many[..2500]), Error::Unsolvable { keys: 2500 });
}

/// Other seeds of the free slots give other stores of the same pairs, that differ in every free slot; the pairs say what they
/// said.
#[test]
fn what_is_free_is_random() {
    fn check(okvs: &impl Okvs, n: usize) {
        let (keys, values) = (keys(n, 1), vec![Block(5); n]);
        let [a, b] = [3, 4].map(|seed| okvs.encode(&keys, &values, &mut Prg::new(Block(seed))).expect("distinct"));
        assert_eq!(decode(okvs, &keys, &a), decode(okvs, &keys, &b));
        let same = a.iter().zip(&b).filter(|(a, b)| a == b).count();
        assert_eq!(same, 0, "of {}", a.len());
        assert!(a.iter().all(|&slot| slot != Block::ZERO));
    }
    check(&paxos(1000, 5), 1000);
    check(&band(1000, 5), 1000);
}

/// With random values, the bits of a store are fair and neighbouring slots independent, whatever the keys: here keys that
/// count up. 48 statistics of one set of keys, each within six deviations.
#[test]
fn a_store_of_random_values_looks_random() {
    fn check(okvs: &impl Okvs, n: usize) {
        let keys: Vec<Digest> = (0..n as u128).map(|i| Digest(i.to_le_bytes())).collect();
        let store = okvs.encode(&keys, &random::<Block>(n, 2), &mut Prg::new(Block(3))).expect("distinct keys");
        let fair = |ones: u32, of: usize, what: &str| {
            let deviations = (f64::from(ones) - of as f64 / 2.0) / (of as f64 / 4.0).sqrt();
            assert!(deviations.abs() < 6.0, "{what}: {deviations} deviations");
        };
        for bit in (0..128).step_by(8) {
            let ones = store.iter().map(|slot| (slot.0 >> bit & 1) as u32).sum();
            fair(ones, store.len(), "a bit");
        }
        for distance in 1..=16 {
            let ones = store.windows(distance + 1).map(|w| (w[0] ^ w[distance]).0.count_ones()).sum();
            fair(ones, 128 * (store.len() - distance), "a sum of two slots");
            let ones = store.windows(distance + 1).map(|w| (w[0] & w[distance]).0.count_ones()).sum::<u32>();
            let (mean, of) = (0.25, 128.0 * (store.len() - distance) as f64);
            let deviations = (f64::from(ones) - mean * of) / (mean * (1.0 - mean) * of).sqrt();
            assert!(deviations.abs() < 6.0, "a product of two slots: {deviations} deviations");
        }
    }
    check(&paxos(3000, 5), 3000);
    check(&band(3000, 5), 3000);
}

/// Keys that are not in the store decode to what looks random, even if all values are equal.
#[test]
fn other_keys_decode_to_noise() {
    fn check(okvs: &impl Okvs) {
        let keys = keys(2000, 1);
        let store = okvs.encode(&keys[..1000], &[Block(5); 1000], &mut Prg::new(Block(3))).expect("distinct keys");
        let mut others = decode(okvs, &keys[1000..], &store);
        others.push(Block(5));
        others.sort();
        assert!(others.windows(2).all(|pair| pair[0] != pair[1]));
    }
    check(&paxos(1000, 5));
    check(&band(1000, 5));
}
