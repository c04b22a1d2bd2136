//! What a key costs the two sides of RFC 9497's function, on one core, by curve.
//!
//! ```text
//! cargo bench -p vesica-oprf --bench function
//! ```

use criterion::{Criterion, Throughput};
use std::hint::black_box;
use vesica_curve::{Curve25519, FourQ, P256Sec1, Ristretto255, Secp256k1, Sm2};
use vesica_oprf::rfc9497::{self, Suite};
use vesica_session::SessionRng;
use vesica_types::{KeyDigest, Secret};

/// Keys of a request.
const N: usize = 4096;

fn function<G: Suite>(c: &mut Criterion, verifiable: bool) {
    let keys: Vec<KeyDigest> = (0..N as u64).map(|i| KeyDigest(*blake3::hash(&i.to_le_bytes()).as_bytes())).collect();
    let rng = || SessionRng::from_seed([1; 32].into());
    let coins = [3; 32];
    let server = rfc9497::server::<G>(verifiable, &Secret::new([7; 32]), b"vesica").expect("a suite");
    let client = rfc9497::client::<G>(verifiable.then(|| server.public())).expect("a suite");
    let (mut blinded, mut evaluated) = (Vec::new(), Vec::new());
    client.blind(&keys, &mut rng(), &mut blinded);
    server.evaluate(&blinded, &coins, &mut evaluated).expect("own elements");
    let proof = verifiable.then(|| server.prove(&blinded, &evaluated, &mut rng()));

    let mode = if verifiable { "proved" } else { "plain" };
    let mut bench = c.benchmark_group(format!("rfc9497/{}/{mode}", G::NAME));
    bench.throughput(Throughput::Elements(N as u64)).sample_size(10);
    bench.bench_function("eval", |b| b.iter(|| server.eval(black_box(&keys), &mut Vec::with_capacity(N))));
    bench.bench_function("blind", |b| b.iter(|| client.blind(black_box(&keys), &mut rng(), &mut Vec::new())));
    bench.bench_function("evaluate", |b| b.iter(|| server.evaluate(black_box(&blinded), &coins, &mut Vec::new())));
    if verifiable {
        bench.bench_function("prove", |b| b.iter(|| server.prove(black_box(&blinded), &evaluated, &mut rng())));
    }
    bench.bench_function("finalize", |b| {
        b.iter_batched(
            || client.blind(&keys, &mut rng(), &mut Vec::new()),
            |request| request.finalize(black_box(&evaluated), proof.as_deref(), &coins),
            criterion::BatchSize::LargeInput,
        )
    });
    bench.finish();
}

fn main() {
    let mut c = Criterion::default().configure_from_args();
    function::<FourQ>(&mut c, false);
    function::<Curve25519>(&mut c, false);
    function::<Ristretto255>(&mut c, false);
    function::<Ristretto255>(&mut c, true);
    function::<P256Sec1>(&mut c, false);
    function::<P256Sec1>(&mut c, true);
    function::<Secp256k1>(&mut c, false);
    function::<Sm2>(&mut c, false);
    c.final_summary();
}
