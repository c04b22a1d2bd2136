//! How far each curve is from what the CPU's ports allow: clock cycles an element, on one core, of every step that a protocol takes.
//!
//! ```text
//! cargo bench -p vesica-curve --bench limit                       # the back end that a run would take
//! VESICA_CPU=avx2 cargo bench -p vesica-curve --bench limit fourq # another one, one curve
//! ```
//!
//! Of many repeats the least time is printed, in time of this thread, which other work on the machine changes little; and the median of the
//! cycles. The clock changes while a machine is used, by a third on some, so it is timed before and behind each repeat, by multiplications
//! of which each waits for the last; that takes three cycles on every x86 since 2013. The page of the book about machines says how many
//! instructions there are, and how many the ports take in a cycle.

#![allow(clippy::print_stdout, reason = "what it measures is what it is for")]

use nix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::Duration;
use vesica_cpu::Backend;
use vesica_curve::{Blind, Curve25519, Dst, FourQ, P256, Points, Ristretto255, Secp256k1, SecretScalar, Sm2};
use vesica_types::Digest;

/// As many as a protocol works on at a time.
const N: usize = 2048;

/// How long this thread has run.
fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a thread has a clock").into()
}

/// What a step takes.
struct Cost {
    /// The least time.
    least: Duration,
    /// The median of the clock cycles.
    cycles: f64,
}

/// What `work` takes in so many repeats, after `ready` made its input.
fn cost<T, U>(repeats: usize, mut ready: impl FnMut() -> T, mut work: impl FnMut(T) -> U) -> Cost {
    let mut least = Duration::MAX;
    let mut cycles = Vec::with_capacity(repeats);
    for _ in 0..repeats {
        let input = ready();
        let before = clock();
        let start = now();
        let out = work(black_box(input));
        let time = now() - start;
        drop(black_box(out));
        cycles.push(time.as_nanos() as f64 * (before + clock()) / 2.0);
        least = least.min(time);
    }
    cycles.sort_by(f64::total_cmp);
    Cost { least, cycles: cycles[repeats / 2] }
}

/// Clock cycles in a nanosecond.
fn clock() -> f64 {
    const STEPS: u32 = 100_000;
    let start = now();
    let mut x = black_box(3u64);
    for _ in 0..STEPS {
        x = x.wrapping_mul(x);
    }
    black_box(x);
    3.0 * f64::from(STEPS) / (now() - start).as_nanos() as f64
}

fn measure<G: Blind>(only: Option<&str>) {
    if only.is_some_and(|only| !G::NAME.contains(only)) {
        return;
    }
    let dst = Dst::new(b"vesica-curve benches, limit");
    let digests: Vec<Digest> = (0..N as u128).map(|i| Digest(i.to_le_bytes())).collect();
    let k = G::Scalar::from_uniform(&[7; 64]);
    let coins = [3; 32];
    let mut bytes = blake3::Hasher::new().update(b"blinds").finalize_xof();
    let mut blind = |wire: &mut Vec<u8>| G::blind(&dst, &digests, &mut |out| bytes.fill(out), wire);
    let (mut wire, mut evaluated) = (Vec::new(), Vec::new());
    blind(&mut wire);
    G::evaluate(&k, &wire, &coins, &mut evaluated).expect("own blinded elements");
    let key = G::key(&G::public(&k)).expect("an own key");

    let repeats = 40;
    let points = || G::hash(&dst, &digests);
    let steps = [
        ("hash", cost(repeats, || (), |()| G::hash(&dst, &digests))),
        ("multiply", cost(repeats, points, |points| points.mul(&k))),
        ("encode", cost(repeats, || points().mul(&k), |points| points.encode(&mut Vec::with_capacity(N * G::WIRE)))),
        ("decode", cost(repeats, || (), |()| G::decode(&wire, &coins).expect("own elements"))),
        ("blind", cost(repeats, || (), |()| blind(&mut Vec::with_capacity(N * G::WIRE)))),
        (
            "evaluate",
            cost(
                repeats,
                || Vec::with_capacity(N * G::EVALUATED),
                |mut out| G::evaluate(&k, &wire, &coins, &mut out).expect("own elements"),
            ),
        ),
    ];
    for (step, spent) in steps {
        print(G::NAME, step, &spent);
    }
    let mut last = None;
    let spent = cost(
        repeats,
        || {
            let mut wire = Vec::new();
            let blinds = G::blind(&dst, &digests, &mut |out| out.fill(5), &mut wire);
            evaluated.clear();
            G::evaluate(&k, &wire, &coins, &mut evaluated).expect("own blinded elements");
            (blinds, std::mem::take(&mut evaluated))
        },
        |(blinds, evaluated)| {
            let mut out = Vec::with_capacity(N * G::WIRE);
            G::unblind(&key, blinds, &evaluated, &coins, &mut out).expect("own elements");
            last = Some(out);
        },
    );
    print(G::NAME, "unblind", &spent);
}

fn print(curve: &str, step: &str, spent: &Cost) {
    let each = |whole: f64| whole / N as f64;
    println!("{curve:14} {step:10} {:9.1} ns {:9.0} cycles", each(spent.least.as_nanos() as f64), each(spent.cycles));
}

fn main() {
    let only = std::env::args().skip(1).find(|word| !word.starts_with("--"));
    println!("back end {}, {:.2} GHz now, {N} elements at a time", Backend::chosen(), clock());
    measure::<Curve25519>(only.as_deref());
    measure::<Ristretto255>(only.as_deref());
    measure::<FourQ>(only.as_deref());
    measure::<P256>(only.as_deref());
    measure::<Sm2>(only.as_deref());
    measure::<Secp256k1>(only.as_deref());
}
