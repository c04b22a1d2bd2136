//! What SimplePIR costs on one core: the server's pass, the hint, the client; and a table of keys.
//!
//! ```text
//! cargo bench -p vesica-pir --bench simple                      # 1 GiB; VESICA_BENCH_MIB=256 for less
//! VESICA_CPU=avx2 cargo bench -p vesica-pir --bench simple pass # a lesser back end
//! ```
//!
//! The first group compares passes with the fastest read of the same memory in the same run: B in the manual. Throughput counts
//! database bytes times queries.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::{Duration, Instant};
use vesica_block::large;
use vesica_he::lwe::{PublicSeed, ServerMatrix};
use vesica_pir::keyword::{Key, Keyword, Rows, Table};
use vesica_pir::{Flat, Linear, Pir, Records, Shape, SimplePir};
use vesica_ring::matrix::{Line, Matrix};
use vesica_session::SessionRng;
use zeroize::Zeroizing;

/// Bytes of a record.
const WIDTH: usize = 1024;

fn mib() -> usize {
    std::env::var("VESICA_BENCH_MIB").ok().and_then(|mib| mib.parse().ok()).unwrap_or(1024)
}

fn rng() -> SessionRng {
    SessionRng::from_seed(Zeroizing::new([1; 32]))
}

/// Many samples of few iterations: on a machine that others use as well, the best of them says what the code can do.
fn brief(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.sampling_mode(SamplingMode::Flat).sample_size(60);
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(1500));
}

/// A database of random bytes in the shape of `mib()` MiB over 2^17 columns.
fn database() -> Matrix {
    let (columns, rows) = (1 << 17, mib() << 20 >> 17);
    let mut groups = large::filled([Line::ZERO; 4], Matrix::groups(rows, columns));
    let mut rng = rng();
    groups.iter_mut().flatten().for_each(|line| rng.fill(&mut line.0));
    Matrix::new(rows, columns, groups)
}

/// The server: a pass for one query and for four, beside a read; and rows of the hint.
fn server(c: &mut Criterion) {
    let matrix = database();
    let (panels, bytes) = (matrix.rows() / 64, (matrix.rows() * matrix.columns()) as u64);
    let vectors: Vec<Vec<u32>> = (0..4u32)
        .map(|v| (0..matrix.columns() as u32).map(|i| (i ^ v << 20).wrapping_mul(2_654_435_761)).collect())
        .collect();
    let vectors: Vec<&[u32]> = vectors.iter().map(Vec::as_slice).collect();
    let mut group = c.benchmark_group("pass");
    brief(&mut group);
    group.throughput(Throughput::Bytes(bytes));
    group.bench_function("read", |b| b.iter(|| black_box(matrix.read_all())));
    for k in [1, 2, 4] {
        group.throughput(Throughput::Bytes(k as u64 * bytes));
        group.bench_function(format!("queries/{k}"), |b| b.iter(|| matrix.multiply(0..panels, &vectors[..k])));
    }
    group.finish();

    let server = ServerMatrix::new(&PublicSeed([2; 32]), matrix.columns());
    let mut group = c.benchmark_group("hint");
    brief(&mut group);
    group.throughput(Throughput::Bytes(8 * matrix.columns() as u64));
    group.bench_function("rows", |b| b.iter(|| server.hint_rows(black_box(&matrix), 0)));
    group.finish();
}

/// The client: a query for 1 GiB, and what it decodes.
fn client(c: &mut Criterion) {
    // 64 records a column in 64 rows: the query is that of any table of so many columns.
    let shape = Shape::new(1 << 17, 64, 1 << 17, 1).expect("a shape");
    let scheme = SimplePir::new(shape, PublicSeed([2; 32]));
    let bytes = vec![7; 64 << 17];
    let store = scheme.store(&Flat::new(&bytes, 64).expect("records")).expect("a store");
    let hint = scheme.take_hint(&scheme.hint(&store).expect("a hint")).expect("it is one");
    let mut rng = rng();
    let mut group = c.benchmark_group("client");
    brief(&mut group);
    group.bench_function("query", |b| b.iter(|| scheme.query(&hint, 5, &mut rng).expect("a query")));
    group.bench_function("decode/64", |b| {
        let (_, query) = scheme.query(&hint, 5, &mut rng).expect("a query");
        let answer = scheme.answer(&store, &[&query]).expect("an answer").remove(0);
        b.iter_batched(
            || scheme.query(&hint, 5, &mut rng).expect("a query").0,
            |secret| scheme.decode(&hint, secret, &answer).expect("bytes"),
            criterion::BatchSize::SmallInput,
        )
    });
    group.finish();
}

/// A table of as many keys as there are KiB, beside one of numbers: set-up once, and the answers of both.
fn keyword(c: &mut Criterion) {
    let count = mib() << 10;
    let mut bytes = large::zeroed(count * WIDTH);
    rng().fill(&mut bytes);
    let values = Flat::new(&bytes, WIDTH).expect("values");
    let key = |i: usize| Key::new(blake3::hash(&i.to_le_bytes()).as_bytes()).expect("32 bytes");
    let mut group = c.benchmark_group("answer");
    brief(&mut group);

    let shape = Shape::new(count as u64, WIDTH as u32, 1 << 17, 1).expect("a shape");
    let numbers = SimplePir::new(shape, PublicSeed([3; 32]));
    let start = Instant::now();
    let store = numbers.store(&values).expect("a store");
    let (stored, start) = (start.elapsed(), Instant::now());
    let hint = numbers.hint(&store).expect("a hint");
    let rate = shape.bytes() as f64 / start.elapsed().as_secs_f64() / 1e6;
    tell(&format!("by number: store {stored:?}, hint {:?}, {rate:.0} MB/s, {} bytes", start.elapsed(), hint.len()));
    let hint = numbers.take_hint(&hint).expect("it is one");
    let (secret, query) = numbers.query(&hint, 77, &mut rng()).expect("a query");
    group.bench_function("number", |b| b.iter(|| numbers.answer(&store, &[&query]).expect("an answer")));
    let answer = numbers.answer(&store, &[&query]).expect("an answer").remove(0);
    assert_eq!(numbers.decode(&hint, secret, &answer).expect("a record"), values.record(77));
    drop((store, hint));

    let start = Instant::now();
    let keys: Vec<Key> = (0..count).map(key).collect();
    let table = Table::build(&keys, &values, Rows::Public, 1 << 17, 1024, &mut rng()).expect("a table");
    let (built, layout) = (start.elapsed(), table.layout().clone());
    let shape = Shape::new(table.len(), table.width() as u32, layout.slots as u32, 1).expect("a shape");
    let scheme = SimplePir::new(shape, PublicSeed([3; 32]));
    assert_eq!(scheme.group(), layout.slots as u64);
    let store = scheme.store(&table).expect("a store");
    drop(table);
    let stored = start.elapsed();
    let hint = scheme.hint(&store).expect("a hint");
    tell(&format!(
        "by key: table {built:?}, with store {stored:?}, with hint {:?}, {} bytes",
        start.elapsed(),
        hint.len()
    ));
    let hint = scheme.take_hint(&hint).expect("it is one");
    let client = Keyword::new(scheme, layout).expect("it fits");
    let (asked, query) = client.query(&hint, Some(key(77)), &mut rng()).expect("a query");
    group.bench_function("key", |b| b.iter(|| client.scheme().answer(&store, &[&query]).expect("an answer")));
    let answer = client.scheme().answer(&store, &[&query]).expect("an answer").remove(0);
    assert_eq!(client.decode(&hint, asked, &answer).expect("an answer").as_deref(), Some(values.record(77)));
    group.finish();
}

/// What is measured once.
#[allow(clippy::print_stderr)]
fn tell(line: &str) {
    eprintln!("{line}");
}

criterion_group!(benches, server, client, keyword);
criterion_main!(benches);
