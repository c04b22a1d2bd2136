//! A first pass in pieces gives what it gives in one.

use crate::kit;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use kit::{dir, file, keys, strings, table};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vesica_table::{Error, Table};

/// Row groups of so many rows; their keys count up.
fn parquet(path: &Path, groups: &[i64]) {
    let batch = |from: i64, rows: i64| {
        let texts = StringArray::from_iter((from..from + rows).map(|i| (i % 5 != 3).then(|| format!("key {i}"))));
        let numbers = Int64Array::from_iter_values(from..from + rows);
        RecordBatch::try_from_iter_with_nullable([
            ("t", Arc::new(texts) as _, true),
            ("n", Arc::new(numbers) as _, false),
        ])
        .unwrap()
    };
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(1 << 20)).build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch(0, 1).schema(), Some(properties)).unwrap();
    let mut from = 0;
    for &rows in groups {
        writer.write(&batch(from, rows)).unwrap();
        writer.flush().unwrap();
        from += rows;
    }
    writer.close().unwrap();
}

/// The first row of each piece, and its rows.
type Parts = Vec<(u64, Vec<Vec<String>>)>;

fn parts(table: &dyn Table, columns: &[&str]) -> Result<Parts, Error> {
    let rows = |batch: RecordBatch| {
        let texts = |row| move |c: &Arc<dyn Array>| c.as_string::<i32>().value(row).to_owned();
        (0..batch.num_rows()).map(|row| batch.columns().iter().map(texts(row)).collect()).collect::<Vec<_>>()
    };
    let pieces = table.pieces(&strings(columns), 2)?;
    pieces
        .map(|piece| Ok((piece.first, piece.batches.map(|b| Ok(rows(b?))).collect::<Result<Vec<_>, _>>()?.concat())))
        .collect()
}

#[test]
fn pieces_are_the_table_in_order() {
    let dir = dir();
    let path = |name: &str| -> PathBuf { dir.path().join(name) };
    // What is small goes together.
    for (groups, firsts) in [
        (&[70_000, 3, 40_000, 20_000, 10_000, 66_000][..], &[0, 70_000, 130_003, 140_003][..]),
        (&[10][..], &[0]),
        (&[], &[]),
    ] {
        parquet(&path("t.parquet"), groups);
        let table = table(&path("t.parquet"));
        for columns in [&["t"][..], &["n", "t"]] {
            let parts = parts(&*table, columns).unwrap();
            assert_eq!(parts.iter().map(|(first, _)| *first).collect::<Vec<_>>(), firsts);
            let mut row = 0;
            for (first, rows) in &parts {
                assert_eq!(*first, row);
                row += rows.len() as u64;
            }
            let all: Vec<Vec<String>> = parts.into_iter().flat_map(|(_, rows)| rows).collect();
            assert!(all == keys(&*table, columns));
        }
    }
    let csv = file(&dir, "t.csv", (0..1000).fold(String::from("t\n"), |csv, i| csv + &format!("{i}\n")));
    let csv = table(&csv);
    let parts = parts(&*csv, &["t"]).unwrap();
    assert_eq!((parts.len(), parts[0].0), (1, 0));
    assert!(parts[0].1 == keys(&*csv, &["t"]));
}

#[test]
fn a_piece_is_read_whatever_is_wrong_with_another() {
    let dir = dir();
    let path = dir.path().join("t.parquet");
    parquet(&path, &[70_000, 70_000, 70_000]);
    let mut bytes = std::fs::read(&path).unwrap();
    let metadata =
        parquet::file::metadata::ParquetMetaDataReader::new().parse_and_finish(&std::fs::File::open(&path).unwrap());
    let (from, len) = metadata.unwrap().row_group(1).column(0).byte_range();
    bytes[from as usize..(from + len) as usize].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    let table = table(&path);
    let pieces = table.pieces(&strings(&["t"]), 1).unwrap();
    let rows = pieces.map(|piece| {
        piece
            .batches
            .map(|batch| Ok(batch?.num_rows()))
            .sum::<Result<usize, Error>>()
            .map_err(|error| error.to_string())
    });
    let rows: Vec<_> = rows.collect();
    assert_eq!((&rows[0], &rows[2], rows.len()), (&Ok(70_000), &Ok(70_000), 3));
    assert!(rows[1].as_ref().unwrap_err().contains("t.parquet"), "{rows:?}");
}

#[test]
fn a_column_that_is_not_there_is_named_at_once() {
    let dir = dir();
    parquet(&dir.path().join("t.parquet"), &[10]);
    let table = table(&dir.path().join("t.parquet"));
    assert!(matches!(table.pieces(&strings(&["T"]), 1).err(), Some(Error::Column { .. })));
}

/// Each text stands in the file. A batch of as many as there are of short ones would have places of more than 31 bits.
#[test]
fn long_texts_are_read_a_few_at_a_time() {
    const ROWS: usize = 100;
    let dir = dir();
    let path = dir.path().join("long.parquet");
    let batch = |row: usize| {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![format!("{row:03}{}", "x".repeat(3 << 20))]));
        RecordBatch::try_from_iter([("t", texts)]).unwrap()
    };
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch(0).schema(), Some(properties)).unwrap();
    (0..ROWS).for_each(|row| writer.write(&batch(row)).unwrap());
    writer.close().unwrap();
    let (mut rows, mut most) = (0, 0);
    for batch in table(&path).keys(&strings(&["t"]), 1).unwrap() {
        let batch = batch.unwrap();
        for text in batch.column(0).as_string::<i32>().iter().flatten() {
            assert!(text.len() == 3 + (3 << 20) && text.starts_with(&format!("{rows:03}")));
            rows += 1;
        }
        most = most.max(batch.num_rows());
    }
    // A power of two that is within 256 MiB.
    assert_eq!((rows, most), (ROWS, 64));
}
