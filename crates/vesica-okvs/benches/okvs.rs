//! What a store costs, on one core, by back end, number of pairs and value.
//!
//! ```text
//! cargo bench -p vesica-okvs --bench okvs
//! ```

use criterion::{BenchmarkId, Criterion, Throughput};
use std::hint::black_box;
use vesica_block::{Block, prg::Prg};
use vesica_okvs::{Okvs, Paxos, Value};
use vesica_params::{Level, okvs};
use vesica_types::Digest;

fn store<V: Value>(c: &mut Criterion, value: &str, name: &str, okvs: &impl Okvs, n: usize) {
    let mut prg = Prg::new(Block(1));
    let keys: Vec<Digest> = (0..n).map(|_| Digest(prg.block().to_le_bytes())).collect();
    let mut values = vec![V::default(); n];
    V::fill(&mut prg, &mut values);
    let store = okvs.encode(&keys, &values, &mut prg).expect("distinct keys");
    println!("{name}/{value}/{n}: {:.3} slots a pair", store.len() as f64 / n as f64);

    let mut bench = c.benchmark_group(format!("{name}/{value}"));
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

fn main() {
    let mut c = Criterion::default().configure_from_args();
    for log in [16, 20] {
        let n = 1 << log;
        let paxos = Paxos::new(okvs::paxos(n as u64, 1, Level::STANDARD).expect("a shape"), Block(5));
        store::<Block>(&mut c, "128 bits", "paxos", &paxos, n);
        store::<u64>(&mut c, "64 bits", "paxos", &paxos, n);
    }
    c.final_summary();
}
