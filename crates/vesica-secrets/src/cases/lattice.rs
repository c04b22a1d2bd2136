//! Lattice schemes: secrets, errors, encryption and decryption; and whole retrievals, in which the record's number is secret too.

use super::Case;
use crate::backend::{hide, reveal};
use crate::watch::Watch;
use std::hint::black_box;
use vesica_he::lwe::{ClientMatrix, PublicSeed};
use vesica_he::rlwe::{Ciphertext, Rlwe};
use vesica_he::sample::PublicStream;
use vesica_params::lwe::{LweSet, PACKED, SIMPLE};
use vesica_params::rlwe::RLWE_4096;
use vesica_pir::piano::{Builder, Piano};
use vesica_pir::rlwe::{Preset, Scheme};
use vesica_pir::{Flat, MatrixPir, PackedPir, Pir, RlwePir, Shape, SimplePir};

pub fn cases() -> Vec<Case> {
    vec![
        Case::timed("lattice/lwe", |watch| lwe(watch, &SIMPLE)),
        Case::timed("lattice/lwe-packed", |watch| lwe(watch, &PACKED)),
        Case::timed("lattice/rlwe", rlwe),
        Case::timed("lattice/rlwe-keys", rlwe_keys),
        Case::new("retrieval/simple", simple),
        Case::new("retrieval/packed", packed),
        Case::new("retrieval/bfv", |watch| by_rlwe(watch, Scheme::Bfv, Preset::Fast)),
        Case::new("retrieval/bgv", |watch| by_rlwe(watch, Scheme::Bgv, Preset::Fast)),
        Case::new("retrieval/ckks", |watch| by_rlwe(watch, Scheme::Ckks, Preset::Seed)),
        Case::new("retrieval/piano", piano),
    ]
}

/// A query's words with the key behind them, if there is one; and what decodes, a row of the hint or a mask.
fn lwe(watch: &mut Watch, set: &'static LweSet) {
    let matrix = ClientMatrix::new(set, &PublicSeed([2; 32]), set.degree as usize);
    let mut rng = watch.rng();
    let row: Vec<u32> = (0..set.degree).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let (product, words) = watch.measure(|| {
        let (secret, words) = matrix.hide_zeros(&mut rng);
        let product = match set.packing {
            None => vec![secret.times(&row)],
            Some(_) => matrix.times(&secret, &row).to_vec(),
        };
        (product, words)
    });
    watch.result(&product);
    watch.result(&words);
}

fn rlwe(watch: &mut Watch) {
    let ring = Rlwe::new(&RLWE_4096, 1, 1);
    let (mut rng, seed) = (watch.rng(), [5; 16]);
    let mut message: Vec<u64> = (0..ring.n() as u64).collect();
    hide(&mut message);
    let key = ring.secret(&mut rng);
    let b = watch.measure(|| ring.encrypt(&key, &message, &mut PublicStream::new(seed), &mut rng));
    watch.result(&b);
    reveal(&b);
    let mut wire = Vec::new();
    ring.write(&b, &mut wire);
    let fresh = ring.read_ciphertext(&wire, &mut PublicStream::new(seed)).expect("residues");
    let phase = watch.measure(|| ring.phase(&key, &fresh));
    watch.result(&phase);
    let [b_bits, a_bits] = RLWE_4096.answer_bits;
    let Ciphertext { b, a } = fresh;
    let cut = |words: Vec<u64>, bits: u32| words.into_iter().map(|word| word & ((1 << bits) - 1)).collect::<Vec<_>>();
    let (b, a) = (cut(b, b_bits), cut(a, a_bits));
    let phase = watch.measure(|| ring.short_phase(&key, &b, &a, RLWE_4096.answer_bits));
    watch.result(&phase);
}

fn rlwe_keys(watch: &mut Watch) {
    let ring = Rlwe::new(&RLWE_4096, 1, 1);
    let mut rng = watch.rng();
    let key = ring.secret(&mut rng);
    let (moved, square) = watch.measure(|| {
        let mut public = PublicStream::new([6; 16]);
        (ring.galois_key(&key, 3, &mut public, &mut rng), ring.square_key(&key, &mut public, &mut rng))
    });
    moved.iter().chain(&square).for_each(|part| watch.result(part));
}

/// The table of a server.
fn table(records: usize, width: usize) -> Vec<u8> {
    let mut bytes = vec![0; records * width];
    blake3::Hasher::new().update(b"table").finalize_xof().fill(&mut bytes);
    bytes
}

/// A record's number, known to the client alone.
fn number(index: u64) -> u64 {
    let mut index = [black_box(index)];
    hide(&mut index);
    index[0]
}

fn simple(watch: &mut Watch) {
    let shape = Shape::new(5000, 8, 1024, 1).expect("a shape");
    let (scheme, bytes) = (SimplePir::new(shape, PublicSeed([2; 32])), table(5000, 8));
    let store = scheme.store(&Flat::new(&bytes, 8).expect("records")).expect("a store");
    let hint = scheme.take_hint(scheme.hint(&store).expect("a hint")).expect("a hint");
    let (secret, query) = scheme.query(&hint, number(4321), &mut watch.rng()).expect("a query");
    watch.result(&query[40..]);
    reveal(&query);
    let answer = scheme.answer(&store, &[&query]).expect("an answer").remove(0);
    let record = scheme.decode(&hint, secret, &answer).expect("a record");
    watch.result(&record);
    assert!(record == bytes[4321 * 8..][..8], "the record");
}

/// A patch comes between masks and query, so that differences are added under the secret too.
fn packed(watch: &mut Watch) {
    let (records, width) = (4321, 8);
    let scheme = PackedPir::new(Shape::packed(records, width, 2048).expect("a shape"), PublicSeed([2; 32]));
    let mut bytes = table(records as usize, width as usize);
    let mut store = scheme.store(&Flat::new(&bytes, width as usize).expect("records")).expect("a store");
    let mut hint = scheme.take_hint(scheme.hint(&store).expect("masks")).expect("masks");
    let patch = scheme.change(1, &mut store, &[(4097, b"changed!")]).expect("a patch");
    bytes[4097 * 8..][..8].copy_from_slice(b"changed!");
    scheme.patch(&mut hint, &patch).expect("a patch");
    let (secret, query) = scheme.query(&hint, number(4111), &mut watch.rng()).expect("a query");
    watch.result(&query[40..]);
    reveal(&query);
    let answer = scheme.answer(&store, &[&query]).expect("an answer").remove(0);
    let record = scheme.decode(&hint, secret, &answer).expect("a record");
    watch.result(&record);
    assert!(record == bytes[4111 * 8..][..8], "the record");
}

fn by_rlwe(watch: &mut Watch, scheme: Scheme, preset: Preset) {
    const WIDTH: usize = 64;
    let reals: Vec<u8> = (0..3000 * WIDTH / 8).flat_map(|i| f64::from(i as u8).sqrt().to_le_bytes()).collect();
    let bytes = if scheme == Scheme::Ckks { reals } else { table(3000, WIDTH) };
    let pir = RlwePir::new(scheme, preset, 3000, WIDTH).expect("a shape");
    let store = pir.store(&Flat::new(&bytes, WIDTH).expect("records")).expect("a store");
    let (session, keys) = pir.session(&mut watch.rng());
    reveal(&keys);
    let keys = pir.take_keys(&keys).expect("keys");
    let (secret, query) = pir.query(&session, number(1234), &mut watch.rng()).expect("a query");
    watch.result(&query);
    reveal(&query);
    let answer = pir.answer(&store, &keys, &[&query]).expect("an answer").remove(0);
    let record = pir.decode(&secret, &answer).expect("a record");
    watch.result(&record);
    assert!(scheme == Scheme::Ckks || record == bytes[1234 * WIDTH..][..WIDTH], "the record");
}

fn piano(watch: &mut Watch) {
    let bytes = table(1000, 8);
    let (shape, flat) = (Piano::new(1000, 8).expect("a shape"), Flat::new(&bytes, 8).expect("records"));
    let mut rng = watch.rng();
    let mut builder = Builder::new(shape, &mut rng);
    builder.push(&bytes).expect("the table");
    let mut window = builder.finish().expect("the whole table");
    let intent = window.intend(number(77), &mut rng).expect("a query");
    reveal(intent.query());
    let answer = shape.answer(flat, intent.query()).expect("an answer");
    window.settle(&intent, &answer).expect("an answer");
    reveal(window.known(number(77)).expect("a record"));
}
