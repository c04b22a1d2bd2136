//! What an element costs, on one core, by curve and back end; beside one multiplication of an ordinary library.
//!
//! ```text
//! cargo bench -p vesica-curve --bench group            # every back end of this CPU, one after the other
//! VESICA_CPU=ifma cargo bench -p vesica-curve          # one of them
//! ```

use criterion::{BatchSize, Criterion, Throughput};
use std::hint::black_box;
use std::process::{Command, ExitCode};
use vesica_cpu::Backend;
use vesica_curve::{Blind, Curve25519, Dst, FourQ, Group, P256, Points, Ristretto255, Secp256k1, SecretScalar, Sm2};
use vesica_types::Digest;

/// As many received elements as the protocol masks at a time: they share inversions and tests.
const N: usize = 2048;

fn group<G: Group>(c: &mut Criterion) {
    let dst = Dst::new(b"vesica-curve benches, group");
    let digests: Vec<Digest> = (0..N as u128).map(|i| Digest(i.to_le_bytes())).collect();
    let k = G::Scalar::from_uniform(&[7; 64]);
    let mut wire = Vec::new();
    G::hash(&dst, &digests).mul(&k).encode(&mut wire);
    let coins = [3; 32];

    let mut bench = c.benchmark_group(format!("{}/{}", G::NAME, Backend::chosen()));
    bench.throughput(Throughput::Elements(N as u64)).sample_size(10);
    bench.bench_function("hash", |b| b.iter(|| G::hash(&dst, black_box(&digests))));
    bench.bench_function("hash+mul+encode", |b| {
        b.iter_batched_ref(
            Vec::new,
            |out| G::hash(&dst, black_box(&digests)).mul(&k).encode(out),
            BatchSize::SmallInput,
        )
    });
    bench.bench_function("decode+mul+encode", |b| {
        b.iter_batched_ref(
            Vec::new,
            |out| G::decode(black_box(&wire), &coins).expect("an own encoding").mul(&k).encode(out),
            BatchSize::SmallInput,
        )
    });
    bench.finish();
}

/// What blinding costs the receiver, and evaluation the owner of the key.
fn blinding<G: Blind>(c: &mut Criterion) {
    let dst = Dst::new(b"vesica-curve benches, blinding");
    let digests: Vec<Digest> = (0..N as u128).map(|i| Digest(i.to_le_bytes())).collect();
    let k = G::Scalar::from_uniform(&[7; 64]);
    let coins = [3; 32];
    let blind = |wire: &mut Vec<u8>| {
        let mut bytes = blake3::Hasher::new().update(b"blinds").finalize_xof();
        G::blind(&dst, black_box(&digests), &mut |out| bytes.fill(out), wire)
    };
    let (mut wire, mut evaluated) = (Vec::new(), Vec::new());
    blind(&mut wire);
    G::evaluate(&k, &wire, &coins, &mut evaluated).expect("own blinded elements");
    let key = G::key(&G::public(&k)).expect("an own key");

    let mut bench = c.benchmark_group(format!("{}/{}", G::NAME, Backend::chosen()));
    bench.throughput(Throughput::Elements(N as u64)).sample_size(10);
    bench.bench_function("blind", |b| b.iter_batched_ref(Vec::new, blind, BatchSize::SmallInput));
    bench.bench_function("evaluate", |b| {
        b.iter_batched_ref(Vec::new, |out| G::evaluate(&k, black_box(&wire), &coins, out), BatchSize::SmallInput)
    });
    bench.bench_function("unblind", |b| {
        b.iter_batched(
            || (blind(&mut Vec::new()), Vec::new()),
            |(blinds, mut out)| G::unblind(&key, blinds, black_box(&evaluated), &coins, &mut out),
            BatchSize::SmallInput,
        )
    });
    bench.finish();
}

macro_rules! single_weierstrass {
    ($bench:ident, $library:ident, $name:literal) => {
        let point = $library::ProjectivePoint::GENERATOR * $library::Scalar::from(0x0123_4567_89ab_cdef_u64);
        let k = -$library::Scalar::from(7u64);
        $bench.bench_function($name, |b| b.iter(|| (black_box(point) * black_box(k)).to_affine()));
    };
}

/// One multiplication at a time, by the libraries that others use.
fn single(c: &mut Criterion) {
    let mut bench = c.benchmark_group("single");
    let point = curve25519_dalek::MontgomeryPoint::mul_base_clamped([5; 32]);
    bench.bench_function("curve25519-dalek x25519", |b| b.iter(|| black_box(point).mul_clamped(black_box([7; 32]))));
    single_weierstrass!(bench, k256, "k256 secp256k1");
    single_weierstrass!(bench, sm2, "sm2");
    single_weierstrass!(bench, p256, "p256");
    bench.finish();
}

fn main() -> ExitCode {
    if std::env::var_os("VESICA_CPU").is_none() {
        // The back end is chosen once per process, so each gets one.
        let exe = std::env::current_exe().expect("this program has a path");
        for backend in Backend::available() {
            let status =
                Command::new(&exe).args(std::env::args_os().skip(1)).env("VESICA_CPU", backend.name()).status();
            if !status.is_ok_and(|status| status.success()) {
                return ExitCode::FAILURE;
            }
        }
        return ExitCode::SUCCESS;
    }
    let mut c = Criterion::default().configure_from_args();
    group::<Curve25519>(&mut c);
    group::<Ristretto255>(&mut c);
    group::<FourQ>(&mut c);
    group::<Secp256k1>(&mut c);
    group::<Sm2>(&mut c);
    group::<P256>(&mut c);
    blinding::<Curve25519>(&mut c);
    blinding::<Ristretto255>(&mut c);
    blinding::<FourQ>(&mut c);
    blinding::<Secp256k1>(&mut c);
    blinding::<Sm2>(&mut c);
    blinding::<P256>(&mut c);
    if Backend::chosen() == Backend::Portable {
        single(&mut c);
    }
    c.final_summary();
    ExitCode::SUCCESS
}
