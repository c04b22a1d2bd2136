//! Making a store of 10^6 tags, and finding 10^5 outputs in one of 10^7: `cargo bench -p vesica-store`.
//!
//! The outputs are hashes of numbers; hashing them is not measured. Half of those that are asked for are there.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::path::Path;
use vesica_store::{Builder, Shape, Store};

const MADE: u64 = 1_000_000;
const SEARCHED: u64 = 10_000_000;
const ASKED: u64 = 100_000;
const MEMORY: usize = 256 << 20;

fn outputs(from: u64, n: u64) -> Vec<[u8; 32]> {
    (from..from + n).map(|i| *blake3::hash(&i.to_le_bytes()).as_bytes()).collect()
}

fn build(folder: &Path, value: Option<u32>, outputs: impl Iterator<Item = Vec<[u8; 32]>>) -> f64 {
    let mut builder = Builder::new(folder, Shape { lifetime: 1 << 20, value }, MEMORY, &std::env::temp_dir()).unwrap();
    for outputs in outputs {
        let mut batch = builder.sealer().batch();
        let text = value.map(|value| vec![7; value as usize]);
        outputs.iter().for_each(|output| batch.add(output, text.as_deref(), 0).unwrap());
        builder.push(&batch).unwrap();
    }
    let part = builder.finish([0; 32], 2).unwrap().part;
    part.bytes as f64 / part.entries as f64
}

fn store(c: &mut Criterion) {
    let mut group = c.benchmark_group("store");
    group.sample_size(10);
    let made = outputs(0, MADE);
    group.throughput(Throughput::Elements(MADE));
    for (name, value) in [("make/tags", None), ("make/values of 32 bytes", Some(32))] {
        let run = |dir: tempfile::TempDir| {
            build(dir.path(), value, made.chunks(1 << 16).map(<[_]>::to_vec));
            dir
        };
        group.bench_function(name, |b| b.iter_batched(|| tempfile::tempdir().unwrap(), run, BatchSize::PerIteration));
    }

    let dir = tempfile::tempdir().unwrap();
    let bytes = build(
        dir.path(),
        None,
        (0..SEARCHED).step_by(1 << 20).map(|from| outputs(from, (SEARCHED - from).min(1 << 20))),
    );
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.len(), SEARCHED);
    let asked = outputs(SEARCHED - ASKED / 2, ASKED);
    group.throughput(Throughput::Elements(ASKED));
    // The second name has the size of the file in it, which is no time.
    group.bench_function(format!("find all in 10^7, {bytes:.2} bytes a tag"), |b| {
        b.iter(|| {
            let found = store.find_all(&asked).unwrap().iter().flatten().count();
            assert_eq!(found as u64, ASKED / 2);
        })
    });
    group.bench_function("find one by one in 10^7", |b| {
        b.iter(|| asked.iter().filter(|output| store.find(output).unwrap().is_some()).count())
    });
    group.finish();
}

criterion_group!(benches, store);
criterion_main!(benches);
