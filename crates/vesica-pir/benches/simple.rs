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
use vesica_params::lwe::SIMPLE;
use vesica_pir::keyword::{Filter, TAG};
use vesica_pir::{Flat, MatrixPir, PackedPir, Pir, Shape, SimplePir};
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

    let server = ServerMatrix::new(&SIMPLE, &PublicSeed([2; 32]), matrix.columns());
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
    let hint = scheme.take_hint(scheme.hint(&store).expect("a hint")).expect("it is one");
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

/// Without a hint: a block of 1024 rows is prepared, and a pass with the columns that pack answers; 2^15 columns and 64 MiB. And the client.
fn packed(c: &mut Criterion) {
    let shape = Shape::packed(1 << 16, 1024, 1 << 15).expect("a shape");
    let scheme = PackedPir::new(shape, PublicSeed([2; 32]));
    let mut bytes = large::zeroed(64 << 20);
    rng().fill(&mut bytes);
    let values = Flat::new(&bytes, WIDTH).expect("records");
    let mut group = c.benchmark_group("packed");
    brief(&mut group);
    let start = Instant::now();
    let store = scheme.store(&values).expect("a store");
    tell(&format!("two blocks of 2^15 columns: {:?}", start.elapsed()));
    let hint = scheme.take_hint(scheme.hint(&store).expect("masks")).expect("they are");
    let (secret, query) = scheme.query(&hint, 77, &mut rng()).expect("a query");
    for k in [1, 4] {
        group.throughput(Throughput::Bytes(k * shape.bytes()));
        let queries = vec![query.as_slice(); k as usize];
        group.bench_function(format!("queries/{k}"), |b| b.iter(|| scheme.answer(&store, &queries).expect("answers")));
    }
    group.bench_function("query", |b| b.iter(|| scheme.query(&hint, 5, &mut rng()).expect("a query")));
    let answer = scheme.answer(&store, &[&query]).expect("an answer").remove(0);
    assert_eq!(scheme.decode(&hint, secret, &answer).expect("a record"), values.record(77));
    group.finish();
}

/// A table of as many keys as there are KiB, beside one of numbers: set-up once, and the answers of both.
fn keyword(c: &mut Criterion) {
    let count = mib() << 10;
    let mut bytes = large::zeroed(count * WIDTH);
    rng().fill(&mut bytes);
    let values = Flat::new(&bytes, WIDTH).expect("values");
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
    let hint = numbers.take_hint(hint).expect("it is one");
    let (secret, query) = numbers.query(&hint, 77, &mut rng()).expect("a query");
    group.bench_function("number", |b| b.iter(|| numbers.answer(&store, &[&query]).expect("an answer")));
    let answer = numbers.answer(&store, &[&query]).expect("an answer").remove(0);
    assert_eq!(numbers.decode(&hint, secret, &answer).expect("a record"), values.record(77));
    group.finish();
    clients(c, &numbers, &store, &query);
    let mut group = c.benchmark_group("answer");
    brief(&mut group);
    drop((store, hint));

    let start = Instant::now();
    let keys: Vec<[u8; 32]> = (0..count).map(|i| *blake3::hash(&i.to_le_bytes()).as_bytes()).collect();
    let shape = Filter::shape(count as u64, (TAG + WIDTH) as u32, 100).expect("a shape");
    let (mut filter, members) = Filter::spread(&shape, WIDTH, &keys, &mut rng()).expect("a filter");
    let size = filter.slots() * filter.width();
    let mut table = large::zeroed(filter.groups().len() * size);
    for (group, members) in members.into_iter().enumerate() {
        let bodies: Vec<u8> = members.iter().flat_map(|&i| values.record(i.into()).iter().copied()).collect();
        let members: Vec<&[u8; 32]> = members.iter().map(|&i| &keys[i as usize]).collect();
        let slots = &mut table[group * size..][..size];
        filter.fill(group, [1; 32], &members, &bodies, &mut rng(), slots).expect("it goes in");
    }
    let built = start.elapsed();
    let scheme = SimplePir::new(shape, PublicSeed([3; 32]));
    let store = scheme.store(&Flat::new(&table, filter.width()).expect("records")).expect("a store");
    drop(table);
    let stored = start.elapsed();
    let hint = scheme.hint(&store).expect("a hint");
    tell(&format!(
        "by key: table {built:?}, with store {stored:?}, with hint {:?}, {} bytes, {shape:?}",
        start.elapsed(),
        hint.len()
    ));
    let hint = scheme.take_hint(hint).expect("it is one");
    let (secret, query) = scheme.query_sum(&hint, &filter.places(&keys[77]), &mut rng()).expect("a query");
    group.bench_function("key", |b| b.iter(|| scheme.answer(&store, &[&query]).expect("an answer")));
    let answer = scheme.answer(&store, &[&query]).expect("an answer").remove(0);
    let record = scheme.decode(&hint, secret, &answer).expect("a record");
    assert_eq!(filter.open(&keys[77], &record), Some(values.record(77)));
    group.finish();
}

/// Queries a second for one client and for many, with two cores: each client by itself on a core, and all of them in passes that share the
/// cores.
fn clients(c: &mut Criterion, scheme: &SimplePir, store: &<SimplePir as Pir>::Store, query: &[u8]) {
    let mut group = c.benchmark_group("clients");
    brief(&mut group);
    let alone = || scheme.answer_on(1, store, &[query]).expect("an answer");
    group.throughput(Throughput::Elements(1));
    group.bench_function("one, on one core", |b| b.iter(alone));
    group.bench_function("one, on two cores", |b| b.iter(|| scheme.answer_on(2, store, &[query]).expect("an answer")));
    group.throughput(Throughput::Elements(2));
    group.bench_function("many, a core each", |b| {
        b.iter(|| std::thread::scope(|scope| (scope.spawn(alone), alone()).0.join().expect("an answer")))
    });
    group.throughput(Throughput::Elements(4));
    group.bench_function("many, four in a pass on two cores", |b| {
        b.iter(|| scheme.answer_on(2, store, &[query; 4]).expect("answers"))
    });
    group.finish();
}

/// What is measured once.
#[allow(clippy::print_stderr)]
fn tell(line: &str) {
    eprintln!("{line}");
}

criterion_group!(benches, server, client, packed, keyword);
criterion_main!(benches);
