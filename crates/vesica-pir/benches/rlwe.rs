//! What a retrieval by BFV, BGV or CKKS costs on one core: the server's answer, and the client's query and decoding.
//!
//! ```text
//! cargo bench -p vesica-pir --bench rlwe
//! ```

use criterion::{BenchmarkId, Criterion};
use std::hint::black_box;
use vesica_pir::rlwe::{Preset, Scheme};
use vesica_pir::{Records, RlwePir};
use vesica_session::SessionRng;

/// Records of bytes below 64, so that eight of them are a small real number.
struct Table {
    rows: u64,
    width: usize,
}

impl Records for Table {
    fn len(&self) -> u64 {
        self.rows
    }
    fn width(&self) -> usize {
        self.width
    }
    fn read(&self, index: u64, out: &mut [u8]) {
        let word =
            |i: u64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(i.wrapping_mul(0xd1b5_4a32_d192_ed03));
        (0..).zip(out).for_each(|(i, byte)| *byte = (word(i) >> 58) as u8);
    }
}

fn retrieve(c: &mut Criterion, scheme: Scheme, preset: Preset, rows: u64, width: usize) {
    let pir = RlwePir::new(scheme, preset, rows, width).expect("a table that it can serve");
    let store = pir.store(&Table { rows, width }).expect("the table");
    let mut rng = SessionRng::from_seed([1; 32].into());
    let index = rows / 2;
    let (session, wire) = pir.session(&mut rng);
    let keys = pir.take_keys(&wire).expect("keys");
    let (secret, query) = pir.query(&session, index, &mut rng).expect("a query");

    let mut bench = c.benchmark_group(format!("{scheme:?}/{preset:?}/{rows}x{width}").to_lowercase());
    bench.sample_size(10);
    let sizes = format!("{} up {} down", pir.sizes().query, pir.sizes().answer);
    bench.bench_function(BenchmarkId::new("answer", sizes), |b| {
        b.iter(|| pir.answer(&store, &keys, &[black_box(&query)]))
    });
    bench.bench_function(BenchmarkId::new("keys", wire.len()), |b| b.iter(|| pir.take_keys(black_box(&wire))));
    bench.bench_function("query", |b| b.iter(|| pir.query(&session, black_box(index), &mut rng)));
    let answer = pir.answer(&store, &keys, &[&query]).expect("an answer").remove(0);
    bench.bench_function("decode", |b| b.iter(|| pir.decode(&secret, black_box(&answer))));
    bench.finish();
}

fn main() {
    let mut c = Criterion::default().configure_from_args();
    for scheme in [Scheme::Bfv, Scheme::Bgv] {
        for preset in [Preset::Seed, Preset::Fast] {
            for (rows, width) in [(100, 2), (1000, 2), (10_000, 2), (10_000, 256)] {
                retrieve(&mut c, scheme, preset, rows, width);
            }
        }
    }
    for (rows, width) in [(100, 8), (1000, 8), (10_000, 8), (10_000, 256)] {
        retrieve(&mut c, Scheme::Ckks, Preset::Seed, rows, width);
    }
    // SealPIR's smaller table.
    retrieve(&mut c, Scheme::Bfv, Preset::Fast, 1 << 18, 288);
    c.final_summary();
}
