//! Parquet out: the same bytes whoever writes them, stored as the input is.

use crate::kit;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray, StringViewArray,
};
use kit::*;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnPath;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vesica_table::{Error, Output, Picks, Table, create, gather};
use vesica_types::RowId;

fn metadata(path: &Path) -> ParquetMetaData {
    SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap().metadata().clone()
}

/// A Parquet file of `rows` rows in row groups of `group`.
fn parquet(dir: &Path, rows: i64, group: usize, how: WriterPropertiesBuilder) -> PathBuf {
    let path = dir.join("in.parquet");
    let mut lists = ListBuilder::new(StringBuilder::new());
    (0..rows).for_each(|i| lists.append_value((0..i % 4).map(|j| Some(format!("{i} {j}")))));
    let long = |i: i64| (i % 7 != 3).then(|| "long ".repeat((i * 7919 % 40) as usize));
    let words = ["red", "green", "blue", ""];
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "id",
            Arc::new(StringArray::from_iter_values((0..rows).map(|i| format!("{:018}", i * 7_919_777 % rows.max(1))))),
        ),
        ("n", Arc::new(Int64Array::from_iter((0..rows).map(|i| (i % 5 != 1).then_some(i * i))))),
        ("few", Arc::new(Int64Array::from_iter_values((0..rows).map(|i| i % 3)))),
        ("yes", Arc::new(BooleanArray::from_iter((0..rows).map(|i| Some(i % 3 == 0))))),
        ("f", Arc::new(Float64Array::from_iter_values((0..rows).map(|i| i as f64 / 7.0)))),
        ("view", Arc::new(StringViewArray::from_iter((0..rows).map(long)))),
        ("lists", Arc::new(lists.finish())),
        ("word", Arc::new((0..rows).map(|i| Some(words[(i % 4) as usize])).collect::<DictionaryArray<Int8Type>>())),
    ];
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)));
    let batch = batch.unwrap();
    let how = how.set_max_row_group_row_count(Some(group)).build();
    let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), batch.schema(), Some(how)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    path
}

/// The bytes of an output with these rows.
fn written(table: &dyn Table, path: &Path, rows: &[Option<u64>], memory: usize, workers: usize) -> Vec<u8> {
    let temp = dir();
    let mut picks = Picks::new(table.rows().unwrap_or(10), memory, temp.path()).unwrap();
    for (position, row) in (0..).zip(rows) {
        match row {
            Some(row) => picks.push(RowId(*row), position).unwrap(),
            None => picks.push_absent(position).unwrap(),
        }
    }
    let output = Output { absent: rows.contains(&None), ..Output::new(path) };
    let mut sink = create(&output, &table.facts()).unwrap();
    gather(table, picks, memory, workers, temp.path(), &mut *sink).unwrap();
    assert_eq!(sink.finish().unwrap().commit().unwrap().rows, rows.len() as u64);
    std::fs::read(path).unwrap()
}

/// Memory that lets 4 threads read, and 4 row groups be under way.
const MUCH: usize = 1 << 30;

#[test]
fn bytes_depend_neither_on_workers_nor_on_memory() {
    const ROWS: i64 = 60_000;
    let dir = dir();
    let table = table(&parquet(dir.path(), ROWS, 7000, WriterProperties::builder()));
    let n = ROWS as u64;
    let rows: [Vec<Option<u64>>; 4] = [
        (0..n).map(Some).collect(),
        (0..n)
            .filter(|i| i * i % 7 < 3)
            .flat_map(|i| std::iter::repeat_n(Some(i), 1 + (i % 900 == 0) as usize))
            .collect(),
        (0..n).map(|i| Some(i * 7919 % n)).collect(),
        (0..n / 3).map(|i| (i % 11 != 5).then_some(n - 1 - i)).collect(),
    ];
    let out = dir.path().join("out.parquet");
    for rows in &rows {
        let expected = written(&*table, &out, rows, MUCH, 1);
        let back = kit::table(&out);
        assert_eq!(back.rows(), Some(rows.len() as u64));
        let ids = key(&*back, "id");
        let all = rows.iter().zip(&ids).all(|(row, id)| match row {
            Some(row) => *id == format!("{:018}", row * 7_919_777 % n),
            None => id.is_empty(),
        });
        assert!(all);
        for (memory, workers) in [(MUCH, 2), (MUCH, 4), (1 << 16, 3), (16 << 20, 2)] {
            assert!(written(&*table, &out, rows, memory, workers) == expected, "{memory} bytes, {workers} workers");
        }
    }
}

/// Rows that are only marked are asked for in another way.
#[test]
fn rows_in_their_turn_are_written_as_rows_with_a_position() {
    let dir = dir();
    let marked = |table: &dyn Table, path: &Path, rows: &[Option<u64>], guess: u64, workers| {
        let temp = kit::dir();
        let mut picks = Picks::new(guess, MUCH, temp.path()).unwrap();
        rows.iter().rev().flatten().for_each(|row| picks.push_turn(RowId(*row), 1).unwrap());
        let mut sink = create(&Output::new(path), &table.facts()).unwrap();
        gather(table, picks, MUCH, workers, temp.path(), &mut *sink)?;
        assert_eq!(sink.finish().unwrap().commit().unwrap().rows, rows.len() as u64);
        Ok::<_, Error>(std::fs::read(path).unwrap())
    };
    let out = dir.path().join("out.parquet");
    const ROWS: u64 = 20_000;
    let small = table(&parquet(dir.path(), ROWS as i64, 7001, WriterProperties::builder()));
    let choices: [fn(&u64) -> bool; 6] = [
        |_| true,
        |_| false,
        |row| row * row % 7 < 3,
        |row| row % 1000 == 999 || (7001..7010).contains(row),
        |row| row / 64 % 3 == 0,
        |row| *row == 0 || row + 1 == ROWS,
    ];
    for wanted in choices {
        let rows: Vec<Option<u64>> = (0..ROWS).filter(wanted).map(Some).collect();
        let expected = written(&*small, &out, &rows, MUCH, 1);
        for workers in [1, 3] {
            assert!(marked(&*small, &out, &rows, ROWS, workers).unwrap() == expected, "{} rows", rows.len());
        }
    }
    for row in [ROWS, ROWS + 100] {
        let error = marked(&*small, &out, &[Some(3), Some(row)], ROWS + 101, 2).unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{error}");
    }
    // More rows of a group than are asked for at once.
    const MANY: u64 = 1_100_000;
    let path = dir.path().join("many.parquet");
    let batch = RecordBatch::try_from_iter([(
        "n",
        Arc::new(Int64Array::from_iter_values((0..MANY as i64).map(|i| i % 5))) as ArrayRef,
    )]);
    let how = WriterProperties::builder().set_max_row_group_row_count(Some(MANY as usize)).build();
    let batch = batch.unwrap();
    let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), batch.schema(), Some(how)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let many = table(&path);
    let rows = [0, 7, 100_001, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, MANY - 1].map(Some);
    assert!(marked(&*many, &out, &rows, MANY, 2).unwrap() == written(&*many, &out, &rows, MUCH, 1));
}

#[test]
fn a_row_group_ends_at_32_mib_however_many_threads_there_are() {
    const ROWS: u64 = 5000;
    let dir = dir();
    let texts: StringArray = (0..ROWS).map(|i| Some(format!("{i:09}").repeat(2500))).collect();
    let batch = RecordBatch::try_from_iter([("t", Arc::new(texts) as ArrayRef)]).unwrap();
    let path = dir.path().join("in.parquet");
    let how = WriterProperties::builder().set_compression(Compression::LZ4_RAW).build();
    let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), batch.schema(), Some(how)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let table = table(&path);
    let rows: Vec<_> = (0..ROWS).map(Some).collect();
    let out = dir.path().join("out.parquet");
    let expected = written(&*table, &out, &rows, MUCH, 1);
    // 22,504 bytes a row.
    let groups: Vec<i64> = metadata(&out).row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(groups.iter().sum::<i64>(), ROWS as i64);
    assert!(groups.len() == 4 && groups[0] * 22_504 >= 32 << 20 && groups[0] * 22_504 < 37 << 20, "{groups:?}");
    assert!(written(&*table, &out, &rows, MUCH, 4) == expected);
}

#[test]
fn an_output_is_stored_as_its_input() {
    let dir = dir();
    let out = dir.path().join("out.parquet");
    let rows: Vec<_> = (0..3000).map(Some).collect();
    let stored = |column: usize| {
        let metadata = metadata(&out);
        let chunk = metadata.row_group(0).column(column);
        (chunk.compression(), chunk.dictionary_page_offset().is_some())
    };
    let zstd = Compression::ZSTD(ZstdLevel::default());
    // A dictionary of 1 KiB: "id" gives it up, and "few" does not.
    let how = WriterProperties::builder()
        .set_compression(zstd)
        .set_column_compression(ColumnPath::from("n"), Compression::GZIP(Default::default()))
        .set_column_compression(ColumnPath::from("few"), Compression::UNCOMPRESSED)
        .set_column_compression(ColumnPath::from("f"), Compression::LZ4)
        .set_column_dictionary_enabled(ColumnPath::from("f"), false)
        .set_dictionary_page_size_limit(1 << 10);
    let input = table(&parquet(dir.path(), 3000, 1000, how));
    written(&*input, &out, &rows, MUCH, 2);
    assert_eq!(stored(0), (zstd, false));
    assert_eq!(stored(1), (Compression::GZIP(Default::default()), false));
    assert_eq!(stored(2), (Compression::UNCOMPRESSED, true));
    assert_eq!(stored(4), (Compression::LZ4_RAW, false));
    // Of a leaf within another column.
    assert_eq!(stored(6), (zstd, false));
    let encodings: Vec<Encoding> = metadata(&out).row_group(0).column(0).encodings().collect();
    assert!(!encodings.contains(&Encoding::RLE_DICTIONARY), "{encodings:?}");
    // What is no Parquet says nothing.
    let csv = table(&file(&dir, "in.csv", "id,v\na,1\nb,2\n"));
    written(&*csv, &out, &[Some(0), Some(1)], MUCH, 2);
    assert_eq!(stored(0), (zstd, true));
    // Nor has a file without rows chunks to go by.
    let none = table(&parquet(dir.path(), 0, 1000, WriterProperties::builder()));
    written(&*none, &out, &[], MUCH, 2);
    assert_eq!(metadata(&out).num_row_groups(), 0);
}

/// Each batch brings a dictionary of its own, as full as its keys allow.
#[test]
fn dictionaries_that_are_too_many_for_one_are_written_as_values() {
    let dir = dir();
    let batch = |from: i64| {
        let words: DictionaryArray<Int8Type> =
            (0..100).map(|i| format!("{}", from + i)).collect::<Vec<_>>().iter().map(|w| Some(w.as_str())).collect();
        RecordBatch::try_from_iter([("word", Arc::new(words) as ArrayRef)]).unwrap()
    };
    let path = dir.path().join("in.arrow");
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(file, &batch(0).schema()).unwrap();
    (0..5).for_each(|i| writer.write(&batch(100 * i)).unwrap());
    writer.finish().unwrap();
    let table = table(&path);
    assert_eq!(key(&*table, "word").len(), 500);
    let out = dir.path().join("out.parquet");
    let rows: Vec<_> = (0..500).map(Some).collect();
    written(&*table, &out, &rows, MUCH, 2);
    let reader = SerializedFileReader::new(std::fs::File::open(&out).unwrap()).unwrap();
    let words = reader.into_iter().map(|row| row.unwrap().to_string());
    assert!(words.zip(0..).all(|(row, i)| row == format!("{{word: \"{i}\"}}")));
}
