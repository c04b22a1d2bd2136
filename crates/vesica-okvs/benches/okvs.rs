//! What stores and tables cost, on one core, by number of pairs and value.
//!
//! ```text
//! cargo bench -p vesica-okvs --bench okvs
//! VESICA_CPU=avx2 cargo bench -p vesica-okvs --bench okvs        # a lesser back end
//! ```

use criterion::{BenchmarkId, Criterion, Throughput};
use std::hint::black_box;
use std::time::Duration;
use vesica_block::{Block, prg::Prg};
use vesica_okvs::{Band, Cuckoo, Okvs, Paxos, Value};
use vesica_params::{Level, cuckoo, okvs};
use vesica_types::Digest;

fn keys(n: usize) -> Vec<Digest> {
    let mut prg = Prg::new(Block(1));
    (0..n).map(|_| Digest(prg.block().to_le_bytes())).collect()
}

fn store<V: Value>(c: &mut Criterion, name: &str, okvs: &impl Okvs, n: usize) {
    let (keys, mut prg) = (keys(n), Prg::new(Block(2)));
    let mut values = vec![V::default(); n];
    V::fill(&mut prg, &mut values);
    let store = okvs.encode(&keys, &values, &mut prg).expect("distinct keys");

    let mut bench = c.benchmark_group(format!("{name}/{} bits", 8 * size_of::<V>()));
    bench.throughput(Throughput::Elements(n as u64)).sample_size(10);
    bench.bench_function(BenchmarkId::new("encode", n), |b| {
        b.iter(|| okvs.encode(black_box(&keys), &values, &mut prg).expect("distinct keys"))
    });
    let mut out = Vec::with_capacity(n);
    bench.bench_function(BenchmarkId::new("decode", n), |b| {
        b.iter(|| {
            out.clear();
            okvs.decode(black_box(&keys), &store, &mut out);
        })
    });
    bench.finish();
}

fn tables(c: &mut Criterion, n: usize) {
    let keys = keys(n);
    let bins = cuckoo::bins(n as u64, 1, Level::STANDARD).expect("few keys");
    let cuckoo = Cuckoo::new(bins, Block(5));
    let mut bench = c.benchmark_group("cuckoo");
    bench.throughput(Throughput::Elements(n as u64)).sample_size(10);
    bench.bench_function(BenchmarkId::new("table", n), |b| b.iter(|| cuckoo.table(black_box(&keys)).expect("a table")));
    bench.bench_function(BenchmarkId::new("simple", n), |b| b.iter(|| cuckoo.simple(black_box(&keys))));
    bench.finish();
}

fn main() {
    let short = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    let mut c = short.configure_from_args();
    for n in [1 << 14, 1 << 17, 1 << 20] {
        let paxos = Paxos::new(okvs::paxos(n as u64, 1, Level::STANDARD).expect("a shape"), Block(5));
        store::<Block>(&mut c, "paxos", &paxos, n);
        store::<u64>(&mut c, "paxos", &paxos, n);
    }
    for (name, set) in [("band-3", okvs::BAND_3), ("band-5", okvs::BAND_5)] {
        let n = 1 << 17;
        let band = Band::new(okvs::band(&set, n as u64, 1, Level::STANDARD).expect("a shape"), Block(5));
        store::<u64>(&mut c, name, &band, n);
    }
    tables(&mut c, 1 << 17);
    c.final_summary();
}
