//! MB/s of the two passes over a CSV, and of the first over the same rows in Parquet: `cargo bench -p vesica-table`.
//!
//! The file: an 18-digit key and a value of 1 to 6 digits, plain, with both fields in quotes, or with a doubled quote in
//! every row, which leaves all rows to `csv-core`; or the key and 100 such values, plain and in quotes.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::fmt::Write;
use std::path::Path;
use vesica_table::{Form, Input, Output, Picks, Selection, Spill, Table, create, gather, open};
use vesica_types::RowId;

const ROWS: u64 = 1_000_000;
const WIDE_ROWS: u64 = 50_000;

/// An 18-digit number that looks like no other.
fn id(i: u64) -> u64 {
    100_000_000_000_000_000 + i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 900_000_000_000_000_000
}

fn table(dir: &Path, name: &str, rows: u64, row: impl Fn(&mut String, u64)) -> (Box<dyn Table>, u64, u64) {
    let mut text = String::new();
    row(&mut text, 0);
    // The header is like a row of other names.
    let columns = text.matches(',').count();
    text = format!("id{}\n", (0..columns).fold(String::new(), |names, i| format!("{names},v{i}")));
    (0..rows).for_each(|i| row(&mut text, i));
    let path = dir.join(name);
    std::fs::write(&path, &text).unwrap();
    (open(&Input::new(path)).unwrap(), rows, text.len() as u64)
}

/// A row of 101 columns.
fn wide(text: &mut String, i: u64, quote: &str) {
    write!(text, "{quote}{}{quote}", id(i)).unwrap();
    (0..100).for_each(|k| write!(text, ",{quote}{}{quote}", id(i + k) % 999_983).unwrap());
    text.push('\n');
}

fn passes(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let forms = [
        ("plain", table(dir.path(), "plain.csv", ROWS, |t, i| writeln!(t, "{},{}", id(i), i % 999_983).unwrap())),
        ("crlf", table(dir.path(), "crlf.csv", ROWS, |t, i| write!(t, "{},{}\r\n", id(i), i % 999_983).unwrap())),
        (
            "quoted",
            table(dir.path(), "quoted.csv", ROWS, |t, i| writeln!(t, "\"{}\",\"{}\"", id(i), i % 999_983).unwrap()),
        ),
        (
            "doubled",
            table(dir.path(), "doubled.csv", ROWS, |t, i| writeln!(t, "\"{}\",\"\"\"{}\"", id(i), i % 999).unwrap()),
        ),
        ("wide", table(dir.path(), "wide.csv", WIDE_ROWS, |t, i| wide(t, i, ""))),
        ("wide quoted", table(dir.path(), "wide_quoted.csv", WIDE_ROWS, |t, i| wide(t, i, "\""))),
    ];
    let key = ["id".to_owned()];
    for (name, (table, n, bytes)) in &forms {
        let mut group = c.benchmark_group(format!("csv/{name}"));
        group.sample_size(20).throughput(Throughput::Bytes(*bytes));
        for workers in [1, 2] {
            group.bench_function(format!("keys, {workers} workers"), |b| {
                b.iter(|| {
                    let rows: usize = table.keys(&key, workers).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
                    assert_eq!(rows as u64, *n);
                });
            });
            group.bench_function(format!("select half, {workers} workers"), |b| {
                b.iter(|| {
                    let mut rows = (0..*n).step_by(2).map(|r| Ok(RowId(r)));
                    table
                        .select(&mut rows, Selection { form: Form::Verbatim, columns: &[], workers }, &mut |_| Ok(()))
                        .unwrap();
                });
            });
        }
        group.finish();
    }
    let (table, _, bytes) = &forms[0].1;
    let mut group = c.benchmark_group("csv/plain");
    group.sample_size(10).throughput(Throughput::Bytes(*bytes));
    for (name, memory) in [("gather half, shuffled, in memory", 256 << 20), ("gather half, shuffled, spilled", 4 << 20)]
    {
        group.bench_function(name, |b| {
            let picked = || {
                let mut picks = Picks::new(ROWS, memory, dir.path()).unwrap();
                // 499,979 is prime to half the rows, so this is a permutation.
                let half = ROWS / 2;
                (0..half).for_each(|i| picks.push(RowId(2 * i), i * 499_979 % half).unwrap());
                (picks, create(&Output::new(dir.path().join("out.csv")), &table.facts()).unwrap())
            };
            let run = |(picks, mut sink): (Picks, Box<dyn vesica_table::Sink>)| {
                gather(&**table, picks, memory, 2, dir.path(), &mut *sink).unwrap();
            };
            b.iter_batched(picked, run, BatchSize::PerIteration);
        });
    }
    group.finish();

    let parquet = dir.path().join("plain.parquet");
    let mut picks = Picks::new(ROWS, 256 << 20, dir.path()).unwrap();
    (0..ROWS).for_each(|i| picks.push(RowId(i), i).unwrap());
    let mut sink = create(&Output::new(&parquet), &table.facts()).unwrap();
    gather(&**table, picks, 256 << 20, 2, dir.path(), &mut *sink).unwrap();
    let parquet = open(&Input::new(sink.finish().unwrap().commit().unwrap().path)).unwrap();
    let mut group = c.benchmark_group("parquet");
    group.throughput(Throughput::Bytes(parquet.bytes().unwrap()));
    group.bench_function("keys", |b| {
        b.iter(|| parquet.keys(&key, 1).unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>());
    });
    group.finish();
}

fn spill(c: &mut Criterion) {
    const BYTES: usize = 24;
    let dir = std::env::temp_dir();
    let mut group = c.benchmark_group("spill");
    group.sample_size(10).throughput(Throughput::Bytes(ROWS * BYTES as u64));
    for (name, memory) in [("in memory", 256 << 20), ("spilled", 4 << 20)] {
        group.bench_function(format!("2^10 buckets, {name}"), |b| {
            b.iter(|| {
                let mut spill = Spill::new(1 << 10, BYTES, memory, &dir).unwrap();
                for i in 0..ROWS {
                    let mut record = [0; BYTES];
                    record[..8].copy_from_slice(&i.to_le_bytes());
                    spill.push((id(i) >> 20) as usize % (1 << 10), &record).unwrap();
                }
                let spilled = spill.finish().unwrap();
                (0..1 << 10).map(|bucket| spilled.read(bucket).unwrap().len()).sum::<usize>()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, passes, spill);
criterion_main!(benches);
