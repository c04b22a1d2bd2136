//! What an intersection by an OPRF takes in memory, one thread a party, opening included: units of 2^18 keys, one after
//! the other, as a job with one worker runs them.
//!
//! ```text
//! cargo bench -p vesica-psi --bench oprf
//! VESICA_BENCH_LONG=1 cargo bench -p vesica-psi --bench oprf 2^24        # minutes, and 3 GB
//! ```

#[path = "../tests/job/mod.rs"]
mod job;

use criterion::{Criterion, Throughput};
use job::Job;
use std::time::Duration;
use vesica_block::Block;
use vesica_ot::Security;

fn main() {
    let short = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(5));
    let mut c = short.configure_from_args();
    let logs: &[u32] = if std::env::var_os("VESICA_BENCH_LONG").is_some() { &[20, 24] } else { &[20] };
    for &log in logs {
        let job = Job::new(1 << log, 1 << (log - 18), 0);
        let mut bench = c.benchmark_group(format!("2^{log}"));
        bench.throughput(Throughput::Elements(1 << log)).sample_size(10);
        bench.bench_function("rr22", |b| b.iter(|| job.run_fast()));
        bench.bench_function("rr22 malicious", |b| b.iter(|| job.run(job.fast::<Block>(Security::Malicious))));
        if log == 20 {
            bench.bench_function("rr22 low-comm", |b| b.iter(|| job.run(job.low_comm::<u64>())));
            bench.bench_function("kkrt", |b| b.iter(|| job.run(job.kkrt())));
            bench.bench_function("ot", |b| b.iter(|| job.run(job.ot::<2, 3, 12>(Security::SemiHonest))));
            bench.bench_function("ot malicious", |b| b.iter(|| job.run(job.ot::<4, 6, 24>(Security::Malicious))));
            bench.bench_function("bc22", |b| b.iter(|| job.run(job.bc22(Security::SemiHonest))));
            bench.bench_function("bc22 malicious", |b| b.iter(|| job.run(job.bc22(Security::Malicious))));
            bench.bench_function("mini-psi", |b| b.iter(|| job.run(job.mini())));
            bench.bench_function("ecdh, one learner", |b| b.iter(|| job.run(job.dh())));
        }
        bench.finish();
    }
    // The set-up of a job and one unit.
    let job = Job::new(256, 1, 0);
    c.bench_function("2^8/mini-psi", |b| b.iter(|| job.run(job.mini())));
    for rows in [100, 1_000, 10_000] {
        let job = Job::new(rows, 1, 0);
        let mut bench = c.benchmark_group(format!("{rows}"));
        bench.bench_function("ot", |b| b.iter(|| job.run(job.ot::<2, 3, 12>(Security::SemiHonest))));
        bench.bench_function("rr22", |b| b.iter(|| job.run_fast()));
        bench.finish();
    }
    c.final_summary();
}
