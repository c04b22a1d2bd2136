//! Parquet and Arrow IPC: keys as text, rows with their types.

use crate::kit;

use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::*;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kit::*;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::WriterProperties;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vesica_table::{Error, Fault, Form, Format, Input, Output, Selection, open};
use vesica_types::RowId;

const NAMES: [&str; 9] = ["text", "number", "word", "view", "large", "day", "flag", "list", "score"];

/// `n` rows from number `from` on.
fn batch(from: usize, n: usize) -> RecordBatch {
    let range = || from..from + n;
    let some = |i: usize| (!i.is_multiple_of(5)).then_some(i);
    let mut list = ListBuilder::new(Int32Builder::new());
    range().for_each(|i| match some(i) {
        Some(i) => list.append_value((0..i % 4).map(|j| Some(j as i32))),
        None => list.append_null(),
    });
    let words = ["", "red", "green", "blue"];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter(range().map(|i| some(i).map(|i| format!("t{i},\"\n"))))),
        Arc::new(Int64Array::from_iter_values(range().map(|i| i as i64 * 1_000_000_007 - 5))),
        Arc::new(range().map(|i| some(i).map(|i| words[i % 4])).collect::<DictionaryArray<Int8Type>>()),
        Arc::new(StringViewArray::from_iter(
            range().map(|i| some(i).map(|i| format!("a view longer than twelve {i}"))),
        )),
        Arc::new(LargeStringArray::from_iter(range().map(|i| some(i).map(|i| i.to_string())))),
        Arc::new(Date32Array::from_iter(range().map(|i| some(i).map(|i| i as i32)))),
        Arc::new(BooleanArray::from_iter(range().map(|i| some(i).map(|i| i % 2 == 0)))),
        Arc::new(list.finish()),
        Arc::new(Float64Array::from_iter(range().map(|i| some(i).map(|i| 1.0 / i as f64)))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn schema() -> SchemaRef {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let list = DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true)));
    let noted = HashMap::from([("unit".to_owned(), "days".to_owned())]);
    let fields = vec![
        Field::new("text", DataType::Utf8, true),
        Field::new("number", DataType::Int64, false),
        Field::new("word", dictionary, true),
        Field::new("view", DataType::Utf8View, true),
        Field::new("large", DataType::LargeUtf8, true),
        Field::new("day", DataType::Date32, true).with_metadata(noted),
        Field::new("flag", DataType::Boolean, true),
        Field::new("list", list, true),
        Field::new("score", DataType::Float64, true),
    ];
    Arc::new(Schema::new_with_metadata(fields, HashMap::from([("origin".to_owned(), "a test".to_owned())])))
}

const N: usize = 500;

/// The same rows in each of the forms that are read.
fn forms(dir: &tempfile::TempDir) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let mut parquet = |name: &str, group: usize| {
        let path = dir.path().join(name);
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group)).build();
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, schema(), Some(properties)).unwrap();
        writer.write(&batch(0, N)).unwrap();
        writer.close().unwrap();
        paths.push(path);
    };
    parquet("one.parquet", 1 << 20);
    parquet("many.parquet", 37);
    for (name, compression) in [
        ("plain.arrow", None),
        ("lz4.feather", Some(CompressionType::LZ4_FRAME)),
        ("zstd.ipc", Some(CompressionType::ZSTD)),
    ] {
        let path = dir.path().join(name);
        let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = FileWriter::try_new_with_options(file, &schema(), options).unwrap();
        writer.write(&batch(0, N)).unwrap();
        writer.finish().unwrap();
        paths.push(path);
    }
    let path = dir.path().join("stream.arrow");
    let mut writer = StreamWriter::try_new(std::fs::File::create(&path).unwrap(), &schema()).unwrap();
    for from in (0..N).step_by(50) {
        writer.write(&batch(from, 50)).unwrap();
    }
    writer.finish().unwrap();
    paths.push(path);
    paths
}

/// All rows of a file written by this crate, read by the arrow crates alone.
fn read(path: &Path) -> RecordBatch {
    let file = std::fs::File::open(path).unwrap();
    let (schema, batches): (SchemaRef, Vec<RecordBatch>) = if Format::of(path) == Some(Format::Parquet) {
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        (reader.schema().clone(), reader.build().unwrap().map(Result::unwrap).collect())
    } else {
        let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
        (reader.schema(), reader.map(Result::unwrap).collect())
    };
    arrow_select::concat::concat_batches(&schema, &batches).unwrap()
}

/// Rows of the table that [`batch`] makes. Dictionaries may differ in how they number their values, so they are taken
/// apart.
fn plain(batch: &RecordBatch) -> Vec<ArrayRef> {
    let plain = |c: &ArrayRef| match c.data_type() {
        DataType::Dictionary(_, value) => arrow_cast::cast(c, value).unwrap(),
        _ => c.clone(),
    };
    batch.columns().iter().map(plain).collect()
}

fn expected(rows: &[Option<u64>]) -> Vec<ArrayRef> {
    let indices = UInt64Array::from(rows.to_vec());
    plain(&batch(0, N)).iter().map(|c| arrow_select::take::take(c, &indices, None).unwrap()).collect()
}

#[test]
fn keys_are_texts_in_every_form() {
    let dir = dir();
    for path in forms(&dir) {
        let table = table(&path);
        assert_eq!(table.columns().iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), NAMES);
        assert_eq!(table.columns()[1].kind, "Int64");
        // In the order that is asked for, whatever the order in the file.
        let keys = keys(&*table, &["flag", "large", "word", "text", "number", "day", "view", "large"]);
        assert_eq!(keys.len(), N, "{path:?}");
        assert_eq!(keys[0], ["", "", "", "", "-5", "", "", ""]);
        let seven = ["false", "7", "blue", "t7,\"\n", "7000000044", "1970-01-08", "a view longer than twelve 7", "7"];
        assert_eq!(keys[7], seven, "{path:?}");
        assert_eq!(table.rows(), Some(N as u64));
    }
}

#[test]
fn rows_keep_types_nulls_and_metadata() {
    let dir = dir();
    let orders: [Vec<Option<u64>>; 4] = [
        (0..N as u64).map(Some).collect(),
        (0..N as u64).rev().map(Some).collect(),
        (0..900).map(|i| Some(i * i % 499)).collect(),
        vec![],
    ];
    for path in forms(&dir) {
        let table = table(&path);
        for name in ["out.parquet", "out.arrow"] {
            for (rows, memory) in orders.iter().flat_map(|o| [(o, 1 << 24), (o, 1 << 14)]) {
                let out = dir.path().join(name);
                write(&*table, &Output::new(&out), rows, memory).unwrap();
                let found = read(&out);
                assert_eq!(found.schema(), schema(), "{path:?} to {name}");
                assert_eq!(plain(&found), expected(rows), "{path:?} to {name}");
                // And this crate reads what it wrote.
                let again = kit::table(&out);
                assert_eq!(key(&*again, "number").len(), rows.len());
            }
        }
    }
}

#[test]
fn absent_rows_are_nulls_in_every_column() {
    let dir = dir();
    let rows = [None, Some(3), None, None, Some(499), Some(3)];
    for path in forms(&dir) {
        let table = table(&path);
        for name in ["out.parquet", "out.arrow"] {
            let out = dir.path().join(name);
            write(&*table, &Output { null: "NULL".into(), absent: true, ..Output::new(&out) }, &rows, 1 << 20).unwrap();
            let found = read(&out);
            assert_eq!(plain(&found), expected(&rows));
            assert!(found.schema().field(1).is_nullable());
        }
    }
}

#[test]
fn the_files_own_metadata_is_kept_for_other_readers() {
    let dir = dir();
    let out = dir.path().join("out.parquet");
    write(&*table(&forms(&dir)[0]), &Output::new(&out), &[Some(1)], 1 << 20).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(out).unwrap()).unwrap();
    let metadata = reader.metadata().file_metadata().key_value_metadata().unwrap();
    assert!(metadata.iter().any(|kv| kv.key == "origin" && kv.value.as_deref() == Some("a test")));
}

#[test]
fn what_has_no_one_spelling_is_no_key() {
    let dir = dir();
    for path in forms(&dir) {
        let table = table(&path);
        for (column, remedy) in
            [("score", "a float has no one spelling"), ("list", "a nested value has no one spelling")]
        {
            let error = try_keys(&*table, &["text", column]).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(&format!("{:?}", column)) && text.contains(remedy), "{text}");
            assert!(matches!(error, Error::KeyType { .. }));
        }
        let error = try_keys(&*table, &["Numbr"]).unwrap_err();
        assert!(error.to_string().contains("did you mean \"number\"?"), "{error}");
    }
}

#[test]
fn csv_becomes_parquet_and_arrow() {
    let dir = dir();
    let csv = table(&file(&dir, "in.csv", "id,note\n007,\"a,\"\"b\"\"\"\n8,x\n"));
    for name in ["out.parquet", "out.arrow"] {
        let out = dir.path().join(name);
        write(&*csv, &Output::new(&out), &[Some(1), Some(0)], 1 << 20).unwrap();
        let found = read(&out);
        assert_eq!(found.schema().field(0), &Field::new("id", DataType::Utf8, false));
        assert_eq!(keys(&*table(&out), &["id", "note"]), [["8", "x"], ["007", "a,\"b\""]]);
    }
    // What is not text cannot become text.
    let bad = table(&file(&dir, "bad.csv", b"id,v\na,1\nb,\xff\n"));
    let error = write(&*bad, &Output::new(dir.path().join("bad.parquet")), &[Some(0), Some(1)], 1 << 20).unwrap_err();
    assert!(matches!(&error, Error::NotText { row: 2, line: 3, column, .. } if column == "v"), "{error}");
    let twice = table(&file(&dir, "twice.csv", "id,v,v\na,1,2\n"));
    let error = write(&*twice, &Output::new(dir.path().join("twice.parquet")), &[], 1 << 20).unwrap_err();
    assert!(matches!(error, Error::Ambiguous { .. }));
}

#[test]
fn parquet_and_arrow_become_csv() {
    let dir = dir();
    let fields = vec![
        Field::new("a,b", DataType::Utf8, true),
        Field::new("n", DataType::Int32, true),
        Field::new("f", DataType::Float64, true),
    ];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec![Some("plain"), Some("q\"u,o\nte"), Some(""), None, Some("NULL")])),
        Arc::new(Int32Array::from(vec![Some(1), None, Some(-3), None, Some(5)])),
        Arc::new(Float64Array::from(vec![0.1, 1e300, -0.0, f64::NAN, 2.0])),
    ];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let path = dir.path().join("in.parquet");
    let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let table = table(&path);
    let out = dir.path().join("out.csv");
    let rows: Vec<_> = (0..5).map(Some).collect();
    let text = |output: &Output| String::from_utf8(write(&*table, output, &rows, 1 << 20).unwrap()).unwrap();
    // An empty text and a null are kept apart by quotes.
    assert_eq!(
        text(&Output::new(&out)),
        "\"a,b\",n,f\nplain,1,0.1\n\"q\"\"u,o\nte\",,1e300\n\"\",-3,-0.0\n,,NaN\nNULL,5,2.0\n"
    );
    let output = Output { null: "NULL".into(), absent: true, ..Output::new(&out) };
    assert_eq!(
        text(&output),
        "\"a,b\",n,f\nplain,1,0.1\n\"q\"\"u,o\nte\",NULL,1e300\n,-3,-0.0\nNULL,NULL,NaN\n\"NULL\",5,2.0\n"
    );
    let error = write(&*kit::table(&forms(&dir)[0]), &Output::new(&out), &[], 1 << 20).unwrap_err();
    assert!(matches!(&error, Error::OutputType { column, format: "CSV", .. } if column == "list"), "{error}");
    assert_eq!(error.fault(), Fault::Config);
}

#[test]
fn dictionaries_of_many_batches_become_one() {
    // The stream replaces its dictionary with every batch; a file may not.
    let dir = dir();
    let path = dir.path().join("in.arrow");
    let array =
        |words: &[&str]| -> ArrayRef { Arc::new(words.iter().copied().collect::<DictionaryArray<Int32Type>>()) };
    let batches = [array(&["x", "y", "x"]), array(&["z", "y"]), array(&["w", "x", "z"])];
    let schema = Arc::new(Schema::new(vec![Field::new("d", batches[0].data_type().clone(), false)]));
    let mut writer = StreamWriter::try_new(std::fs::File::create(&path).unwrap(), &schema).unwrap();
    for array in &batches {
        writer.write(&RecordBatch::try_new(schema.clone(), vec![array.clone()]).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    let table = table(&path);
    let all = ["x", "y", "x", "z", "y", "w", "x", "z"];
    assert_eq!(key(&*table, "d"), all);
    let out = dir.path().join("out.arrow");
    // In the order of the file, batches pass as they are.
    let mut sink = vesica_table::create(&Output::new(&out), &table.facts()).unwrap();
    let mut rows = (0..8).map(|r| Ok(RowId(r)));
    let columns: Vec<usize> = (0..table.columns().len()).collect();
    table
        .select(&mut rows, Selection { form: sink.form(), columns: &columns, workers: 2 }, &mut |batch| {
            sink.write(&batch)
        })
        .unwrap();
    sink.finish().unwrap().commit().unwrap();
    assert_eq!(key(&*kit::table(&out), "d"), all);
    // Many small batches with dictionaries of their own.
    let rows: Vec<_> = (0..30_000u64).map(|i| Some(i * 5 % 8)).collect();
    write(&*table, &Output::new(&out), &rows, 1 << 16).unwrap();
    let found = key(&*kit::table(&out), "d");
    assert!(found.iter().zip(&rows).all(|(f, r)| f == all[r.unwrap() as usize]));
}

#[test]
fn one_huge_batch_is_taken_in_slices() {
    let dir = dir();
    let path = dir.path().join("in.arrow");
    let batch = batch(0, 40_000);
    let mut writer = FileWriter::try_new(std::fs::File::create(&path).unwrap(), &schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let table = table(&path);
    let sizes: Vec<usize> = table.keys(&strings(&["number"]), 1).unwrap().map(|b| b.unwrap().num_rows()).collect();
    assert!(sizes.len() > 4 && sizes.iter().sum::<usize>() == 40_000);
    let out = dir.path().join("out.arrow");
    let rows: Vec<_> = (0..40_000u64).map(|i| Some(i * 7 % 40_000)).collect();
    write(&*table, &Output::new(&out), &rows, 1 << 20).unwrap();
    let indices = UInt64Array::from(rows);
    let expected: Vec<_> = plain(&batch).iter().map(|c| arrow_select::take::take(c, &indices, None).unwrap()).collect();
    assert_eq!(plain(&read(&out)), expected);
}

#[test]
fn empty_tables() {
    let dir = dir();
    let parquet = dir.path().join("in.parquet");
    ArrowWriter::try_new(std::fs::File::create(&parquet).unwrap(), schema(), None).unwrap().close().unwrap();
    let arrow = dir.path().join("in.arrow");
    FileWriter::try_new(std::fs::File::create(&arrow).unwrap(), &schema()).unwrap().finish().unwrap();
    for path in [parquet, arrow] {
        let table = table(&path);
        assert_eq!(key(&*table, "text"), [""; 0]);
        write(&*table, &Output::new(dir.path().join("out.arrow")), &[], 1 << 20).unwrap();
        assert_eq!(read(&dir.path().join("out.arrow")).num_rows(), 0);
    }
}

#[test]
fn damaged_files_are_errors_that_name_them() {
    let dir = dir();
    for path in forms(&dir) {
        let whole = std::fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let mut damaged: Vec<(bool, Vec<u8>)> = Vec::new();
        for cut in [0, 3, 9, whole.len() / 2, whole.len() - 9] {
            damaged.push((true, whole[..cut].to_vec()));
        }
        for i in 0..200 {
            let mut bytes = whole.clone();
            bytes[i * 7919 % whole.len()] ^= 1 << (i % 8);
            damaged.push((false, bytes));
        }
        if name == "stream.arrow" {
            // Cut behind a batch, a stream looks whole but for its end marker.
            damaged.push((true, whole[..whole.len() - 8].to_vec()));
        }
        for (must_fail, bytes) in damaged {
            let path = file(&dir, &format!("bad-{name}"), bytes);
            let result = open(&Input::new(&path)).and_then(|table| {
                try_keys(&*table, &["text", "number", "word", "view"])?;
                let mut rows = [0, 250, 499].map(|r| Ok(RowId(r))).into_iter();
                let columns: Vec<usize> = (0..table.columns().len()).collect();
                table.select(&mut rows, Selection { form: Form::Arrow, columns: &columns, workers: 2 }, &mut |_| Ok(()))
            });
            match result {
                // A flipped bit in a value is another value: the formats carry no checksums by default.
                Ok(_) => assert!(!must_fail, "{name}"),
                Err(error) => {
                    let named = error.to_string().contains(&format!("bad-{name}"));
                    assert!(named || error.fault() != Fault::Input, "{error}");
                }
            }
        }
    }
}

/// A reader makes room for as many bytes as a file says, and a process that asks the system for too many is ended.
#[test]
fn lengths_beyond_what_a_file_can_hold_are_refused_before_memory_is_asked_for() {
    let dir = dir();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7; 1000]));
    let batch = RecordBatch::try_from_iter([("number", numbers)]).unwrap();
    for (compression, magic) in
        [(CompressionType::ZSTD, [0x28, 0xb5, 0x2f, 0xfd]), (CompressionType::LZ4_FRAME, [0x04, 0x22, 0x4d, 0x18])]
    {
        let options = || IpcWriteOptions::default().try_with_compression(Some(compression)).unwrap();
        let (mut stream, mut whole) = (Vec::new(), Vec::new());
        let mut writer = StreamWriter::try_new_with_options(&mut stream, &batch.schema(), options()).unwrap();
        writer.write(&batch).and_then(|()| writer.finish()).unwrap();
        let mut writer = FileWriter::try_new_with_options(&mut whole, &batch.schema(), options()).unwrap();
        writer.write(&batch).and_then(|()| writer.finish()).unwrap();
        for (name, bytes) in [("stream.arrow", &stream), ("file.arrow", &whole)] {
            let refused = |from: &[u8], to: &[u8]| {
                let at = bytes.windows(from.len()).rposition(|window| window == from).unwrap();
                let bytes = [&bytes[..at], to, &bytes[at + to.len()..]].concat();
                let path = file(&dir, name, bytes);
                let error = open(&Input::new(&path)).and_then(|table| try_keys(&*table, &["number"])).unwrap_err();
                assert!(error.to_string().contains("larger than the file allows"), "{name}: {error}");
            };
            // The length of the numbers before compression, which stands before them.
            let prefix = [&8000i64.to_le_bytes()[..], &magic].concat();
            refused(&prefix, &(1i64 << 46).to_le_bytes());
            // The length of the body: in the message of the stream, and in the footer of the file.
            let body = i64::try_from(bytes.windows(12).position(|window| window == prefix).unwrap()).unwrap();
            let end = bytes.windows(8).position(|window| window == [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]).unwrap();
            refused(&(end as i64 - body).to_le_bytes(), &(1i64 << 46).to_le_bytes());
            if name == "file.arrow" {
                let footer = bytes.last_chunk::<10>().unwrap();
                refused(footer, &[&i32::MAX.to_le_bytes()[..], b"ARROW1"].concat());
            }
        }
    }
}

#[test]
fn labels_that_lie_are_told() {
    let dir = dir();
    let paths = forms(&dir);
    let (parquet, arrow) = (std::fs::read(&paths[0]).unwrap(), std::fs::read(&paths[2]).unwrap());
    for (name, bytes, message) in [
        ("a.arrow", &parquet, "is read as arrow but holds Parquet; set format = \"parquet\""),
        ("a.parquet", &arrow, "is read as parquet but holds Arrow IPC"),
        ("a.csv", &arrow, "is read as csv but holds Arrow IPC; set format = \"arrow\""),
    ] {
        let error = open(&Input::new(file(&dir, name, bytes))).err().unwrap();
        assert!(error.to_string().contains(message), "{error}");
    }
}
