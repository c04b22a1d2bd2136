//! Whether the time of a multiplication depends on the scalar, or that of hashing on what is hashed, as in O. Reparaz,
//! J. Balasch, I. Verbauwhede, "Dude, is my code constant time?", DATE 2017: Welch's t between a fixed input and random
//! ones, in random order, without the slowest tenth. A leak makes |t| grow with the number of measurements; noise does not.
//!
//! ```text
//! cargo test --release -p vesica-curve timing -- --ignored --test-threads 1
//! ```

use crate::{Blind, Curve25519, Dst, FourQ, P256, Points, Ristretto255, Secp256k1, SecretScalar, Sm2};
use std::hint::black_box;
use std::time::{Duration, Instant};
use vesica_cpu::Backend;
use vesica_types::Digest;

/// Measurements of each kind.
const EACH: usize = 10_000;

/// Welch's t between the times of what is measured for zeros and for random bytes, which come from the same instructions.
#[allow(clippy::print_stderr, reason = "what was measured")]
fn takes_as_long_for_every_input(name: &str, mut measure: impl FnMut(&[u8; 64]) -> Duration) {
    let mut random = blake3::Hasher::new().update(b"timing").finalize_xof();
    let mut times: Vec<(f64, bool)> = (0..2 * EACH)
        .map(|_| {
            let mut bytes = [0; 65];
            random.fill(&mut bytes);
            let [class, input @ ..] = bytes;
            let mask = black_box(class & 1).wrapping_neg();
            (measure(&input.map(|byte| byte & mask)).as_nanos() as f64, mask == 0)
        })
        .collect();
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    times.truncate(times.len() * 9 / 10);
    let [a, b] = [true, false].map(|class| {
        let of: Vec<f64> = times.iter().filter(|time| time.1 == class).map(|time| time.0).collect();
        let n = of.len() as f64;
        let mean = of.iter().sum::<f64>() / n;
        (mean, of.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (n - 1.0) / n)
    });
    let t = (a.0 - b.0) / (a.1 + b.1).sqrt();
    let result = format!("{name} on {}: t = {t:.1}, means {:.0} and {:.0} ns", Backend::chosen(), a.0, b.0);
    assert!(t.abs() < 10.0, "{result}");
    // Shown by --nocapture.
    eprintln!("{result}");
}

/// Multiplication by the scalar 1, which zeros make, or a random one; hashing of zeros or random digests; blinding by the
/// multiplier that zeros make, or random ones.
fn check<G: Blind>() {
    let dst = Dst::new(b"vesica test of timing");
    let digests: Vec<Digest> = (0..16u128).map(|i| Digest(i.to_le_bytes())).collect();
    takes_as_long_for_every_input(&format!("{}, multiplication", G::NAME), |uniform| {
        let k = G::Scalar::from_uniform(uniform);
        let points = G::hash(&dst, &digests);
        let start = Instant::now();
        black_box(points.mul(&k));
        start.elapsed()
    });
    takes_as_long_for_every_input(&format!("{}, hashing", G::NAME), |bytes| {
        let (own, _) = bytes.as_chunks::<{ Digest::BYTES }>();
        let digests: [Digest; 16] = std::array::from_fn(|i| Digest(own[i % 4]));
        let start = Instant::now();
        black_box(G::hash(&dst, &digests));
        start.elapsed()
    });
    takes_as_long_for_every_input(&format!("{}, blinding", G::NAME), |bytes| {
        let mut random = |out: &mut [u8]| out.iter_mut().zip(bytes.iter().cycle()).for_each(|(out, byte)| *out = *byte);
        let start = Instant::now();
        black_box(G::blind(&dst, &digests, &mut random, &mut Vec::new()));
        start.elapsed()
    });
}

/// The points of zeros or of random messages. (How long messages are drawn says how many points had none, and nothing of those that had.)
#[test]
#[ignore = "a measurement: wants a quiet machine"]
fn curve25519_messages() {
    takes_as_long_for_every_input("curve25519, messages", |bytes| {
        let (own, _) = bytes.as_chunks::<32>();
        let messages: [[u8; 32]; 16] = std::array::from_fn(|i| own[i % 2]);
        let start = Instant::now();
        black_box(Curve25519::from_messages(&messages));
        start.elapsed()
    });
}

macro_rules! tests {
    ($($name:ident: $group:ty,)*) => {$(
        #[test]
        #[ignore = "a measurement: wants a quiet machine"]
        fn $name() {
            check::<$group>();
        }
    )*};
}

tests! {
    curve25519: Curve25519,
    ristretto255: Ristretto255,
    fourq: FourQ,
    secp256k1: Secp256k1,
    sm2: Sm2,
    p256: P256,
}
