//! Making a store of 10^6 entries, and finding 10^5 outputs in one of 10^7: `cargo bench -p vesica-store`.
//!
//! What is measured is the processor's time of all threads, so that other programs do not count. The outputs are hashes of
//! numbers, made before. Half of those that are asked for are there.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::time::Duration;
use vesica_store::{Builder, Shape, Store};

const MADE: u64 = 1_000_000;
const SEARCHED: u64 = 10_000_000;
const ASKED: u64 = 100_000;
const MEMORY: usize = 256 << 20;

fn outputs(from: u64, n: u64) -> Vec<[u8; 32]> {
    (from..from + n).map(|i| *blake3::hash(&i.to_le_bytes()).as_bytes()).collect()
}

/// The processor's time that `runs` of `work` take.
fn cpu(runs: u64, mut work: impl FnMut()) -> Duration {
    let now = || Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("a clock"));
    let before = now();
    (0..runs).for_each(|_| work());
    now() - before
}

/// Bytes of an entry in the store that was made.
fn make(folder: &Path, value: Option<u32>, outputs: impl Iterator<Item = Vec<[u8; 32]>>) -> f64 {
    let mut builder = Builder::new(folder, Shape { lifetime: 1 << 20, value }, MEMORY, &std::env::temp_dir()).unwrap();
    let text = value.map(|value| vec![7; value as usize]);
    for outputs in outputs {
        let mut batch = builder.sealer().batch();
        outputs.iter().for_each(|output| batch.add(output, text.as_deref(), 0).unwrap());
        builder.push(&batch).unwrap();
    }
    let part = builder.finish([0; 32], 2).unwrap().part;
    part.bytes as f64 / part.entries as f64
}

fn store(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let mut group = c.benchmark_group("store");
    group.sample_size(10);
    let made = outputs(0, MADE);
    group.throughput(Throughput::Elements(MADE));
    for (name, value) in [("make/tags", None), ("make/values of 32 bytes", Some(32))] {
        let run = || {
            make(dir.path(), value, made.chunks(1 << 16).map(<[_]>::to_vec));
        };
        group.bench_function(name, |b| b.iter_custom(|runs| cpu(runs, run)));
    }

    let stretch = |from| outputs(from, (SEARCHED - from).min(1 << 20));
    let bytes = make(dir.path(), None, (0..SEARCHED).step_by(1 << 20).map(stretch));
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.len(), SEARCHED);
    let asked = outputs(SEARCHED - ASKED / 2, ASKED);
    group.throughput(Throughput::Elements(ASKED));
    let all =
        || assert_eq!(store.find_all(&asked).unwrap().iter().filter_map(|says| says.entry()).count() as u64, ASKED / 2);
    group.bench_function(format!("find all, {bytes:.2} bytes a tag"), |b| b.iter_custom(|runs| cpu(runs, all)));
    let is_there = |output: &&[u8; 32]| store.find(output).unwrap().is_some();
    let each = || assert_eq!(asked.iter().filter(is_there).count() as u64, ASKED / 2);
    group.bench_function("find one by one", |b| b.iter_custom(|runs| cpu(runs, each)));
    group.finish();
}

criterion_group!(benches, store);
criterion_main!(benches);
