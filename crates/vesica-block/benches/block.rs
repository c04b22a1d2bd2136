//! What a block costs, on one core, by kernel and back end.
//!
//! ```text
//! cargo bench -p vesica-block --bench block            # every back end of this CPU, one after the other
//! VESICA_CPU=ifma cargo bench -p vesica-block          # one of them
//! ```

use criterion::{Criterion, Throughput};
use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::time::Duration;
use vesica_block::{Block, gf64, gf128, hash, prg::Prg, transpose};
use vesica_cpu::Backend;

/// 64 KiB: beyond the first-level cache, within the second.
const N: usize = 4096;

fn kernels(c: &mut Criterion) {
    let (mut a, mut b) = (vec![Block::ZERO; N], vec![Block::ZERO; N]);
    let mut prg = Prg::new(Block(7));
    prg.fill(&mut b);
    let words: Vec<u64> = b.iter().map(|b| b.low()).collect();
    let k = Block(u128::MAX / 3);

    let mut bench = c.benchmark_group(Backend::chosen().name());
    bench.throughput(Throughput::Elements(N as u64)).sample_size(10);
    bench.bench_function("prg", |bench| bench.iter(|| prg.fill(black_box(&mut a))));
    bench.bench_function("hash cr", |bench| bench.iter(|| hash::cr(black_box(&mut a))));
    bench.bench_function("hash tccr", |bench| bench.iter(|| hash::tccr(k, black_box(&mut a))));
    bench.bench_function("gf128 mul_add", |bench| bench.iter(|| gf128::mul_add(&mut a, black_box(&b), k)));
    bench.bench_function("gf128 inner", |bench| bench.iter(|| gf128::inner(&a, black_box(&b))));
    bench.bench_function("gf64 mul_add", |bench| bench.iter(|| gf64::mul_add(&mut a, black_box(&words), k)));
    bench.bench_function("transpose", |bench| bench.iter(|| transpose::transpose(black_box(&b), &mut a)));
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
    let short =
        Criterion::default().warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(500));
    let mut c = short.configure_from_args();
    kernels(&mut c);
    c.final_summary();
    ExitCode::SUCCESS
}
