//! Parquet files that lie about their sizes are refused, and no others.

use crate::kit;

use arrow_array::builder::{FixedSizeBinaryBuilder, Int32Builder, ListBuilder, StringBuilder};
use arrow_array::*;
use arrow_schema::{DataType, Field, Schema};
use kit::*;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowWriter, encode_arrow_schema};
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;
use vesica_table::{Error, Fault, Form, Input, Selection, Table, open};
use vesica_types::RowId;

/// The file called `name` with `batch` in it.
fn written(dir: &TempDir, name: &str, batch: &RecordBatch, properties: WriterPropertiesBuilder) -> Box<dyn Table> {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties.build())).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    table(&file(dir, name, bytes))
}

/// Some rows of all columns of a table, as one batch.
fn selected(table: &dyn Table, rows: impl Iterator<Item = u64>) -> Result<RecordBatch, Error> {
    let columns: Vec<usize> = (0..table.columns().len()).collect();
    let mut batches = Vec::new();
    let mut emit = |batch| {
        batches.push(batch);
        Ok(())
    };
    let selection = Selection { form: Form::Arrow, columns: &columns, workers: 1 };
    table.select(&mut rows.map(|row| Ok(RowId(row))), selection, &mut emit)?;
    Ok(arrow_select::concat::concat_batches(&table.schema(), &batches).unwrap())
}

/// All rows of a file, read by the parquet crate alone.
fn alone(path: &Path) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(path).unwrap()).unwrap();
    let schema = reader.schema().clone();
    let batches: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
    arrow_select::concat::concat_batches(&schema, &batches).unwrap()
}

const ROWS: usize = 1200;

/// Columns of all kinds, nested ones among them, with many nulls or none.
fn mixed(nulls: bool) -> RecordBatch {
    let value = |i: usize| (!nulls || !i.is_multiple_of(3)).then_some(i);
    let rows = || (0..ROWS).map(value);
    let mut fixed = FixedSizeBinaryBuilder::new(5);
    let mut list = ListBuilder::new(ListBuilder::new(Int32Builder::new()));
    let mut words = ListBuilder::new(StringBuilder::new());
    for (i, row) in rows().enumerate() {
        match row {
            Some(i) => fixed.append_value(format!("{i:05}")).unwrap(),
            None => fixed.append_null(),
        }
        for j in 0..row.map_or(0, |i| i % 4) {
            (0..j).for_each(|k| list.values().values().append_option(value(k).map(|k| k as i32)));
            list.values().append(j % 2 == 0);
            words.values().append_value(format!("word {}", (i + j) % 17));
        }
        list.append(row.is_some());
        words.append(true);
    }
    let text: ArrayRef = Arc::new(StringArray::from_iter(rows().map(|i| i.map(|i| format!("common {}", i / 7)))));
    let pair = StructArray::from(vec![(Arc::new(Field::new("text", DataType::Utf8, true)), text.clone())]);
    RecordBatch::try_from_iter([
        ("text", text),
        ("few", Arc::new(StringArray::from_iter(rows().map(|i| i.map(|i| format!("{}", i % 5)))))),
        ("large", Arc::new(LargeStringArray::from_iter(rows().map(|i| i.map(|i| "x".repeat(i % 60)))))),
        ("view", Arc::new(StringViewArray::from_iter(rows().map(|i| i.map(|i| "y".repeat(i % 20)))))),
        ("int", Arc::new(Int32Array::from_iter(rows().map(|i| i.map(|i| i as i32 * 1001))))),
        ("long", Arc::new(Int64Array::from_iter(rows().map(|i| i.map(|i| (i as i64) << 40))))),
        ("flag", Arc::new(BooleanArray::from_iter(rows().map(|i| i.map(|i| i % 3 == 1))))),
        ("float", Arc::new(Float32Array::from_iter(rows().map(|i| i.map(|i| i as f32 / 3.0))))),
        ("double", Arc::new(Float64Array::from_iter(rows().map(|i| i.map(|i| i as f64 / 100.0))))),
        ("fixed", Arc::new(fixed.finish())),
        ("list", Arc::new(list.finish())),
        ("words", Arc::new(words.finish())),
        ("pair", Arc::new(pair)),
    ] as [(&str, ArrayRef); 13])
    .unwrap()
}

/// Files as the parquet crate writes them, with all encodings and codecs: each is read as the crate reads it.
#[test]
fn no_valid_file_is_refused() {
    let dir = dir();
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(Default::default()),
    ];
    // No encoding: a dictionary. Some encodings suit some columns only.
    let encodings: [&[(&str, Encoding)]; 5] = [
        &[],
        &[("", Encoding::PLAIN)],
        &[
            ("text", Encoding::DELTA_BYTE_ARRAY),
            ("few", Encoding::DELTA_LENGTH_BYTE_ARRAY),
            ("large", Encoding::DELTA_BYTE_ARRAY),
            ("view", Encoding::DELTA_LENGTH_BYTE_ARRAY),
            ("fixed", Encoding::DELTA_BYTE_ARRAY),
            ("words.list.item", Encoding::DELTA_LENGTH_BYTE_ARRAY),
            ("pair.text", Encoding::DELTA_BYTE_ARRAY),
        ],
        &[
            ("int", Encoding::DELTA_BINARY_PACKED),
            ("long", Encoding::DELTA_BINARY_PACKED),
            ("flag", Encoding::RLE),
            ("double", Encoding::BYTE_STREAM_SPLIT),
            ("list.list.item.list.item", Encoding::DELTA_BINARY_PACKED),
            ("words.list.item", Encoding::DELTA_BYTE_ARRAY),
        ],
        &[
            ("int", Encoding::BYTE_STREAM_SPLIT),
            ("long", Encoding::BYTE_STREAM_SPLIT),
            ("float", Encoding::ALP),
            ("double", Encoding::ALP),
            ("fixed", Encoding::BYTE_STREAM_SPLIT),
        ],
    ];
    for (nulls, batch) in [(false, mixed(false)), (true, mixed(true))] {
        for (version, group) in [(WriterVersion::PARQUET_1_0, 500), (WriterVersion::PARQUET_2_0, 1 << 20)] {
            for (i, codec) in codecs.into_iter().enumerate() {
                for (j, own) in encodings.iter().enumerate() {
                    let mut properties = WriterProperties::builder().set_compression(codec).set_writer_version(version);
                    properties = properties.set_max_row_group_row_count(Some(group)).set_data_page_row_count_limit(200);
                    properties = properties.set_write_batch_size(100).set_write_page_header_statistics(i % 2 == 0);
                    properties = properties.set_dictionary_enabled(own.is_empty());
                    for (column, encoding) in *own {
                        properties = match column.is_empty() {
                            true => properties.set_encoding(*encoding),
                            false => properties.set_column_encoding(
                                column.split('.').map(str::to_owned).collect::<Vec<_>>().into(),
                                *encoding,
                            ),
                        };
                    }
                    let name = format!("{nulls}-{group}-{i}-{j}.parquet");
                    let table = written(&dir, &name, &batch, properties);
                    let all = selected(&*table, 0..ROWS as u64).unwrap();
                    assert_eq!(all, alone(&dir.path().join(&name)), "{name}");
                    let some = (0..ROWS as u64).filter(|row| row % 90 > 80);
                    let picked = UInt64Array::from_iter_values(some.clone());
                    let expected = arrow_select::take::take_record_batch(&all, &picked).unwrap();
                    assert_eq!(selected(&*table, some).unwrap(), expected, "{name}");
                    let keys = keys(&*table, &["view", "flag", "text", "int"]);
                    assert_eq!(keys.len(), ROWS);
                    assert_eq!(keys[7], ["yyyyyyy", "true", "common 1", "7007"], "{name}");
                }
            }
        }
    }
}

/// A few bytes stand for a million values, and no more memory is needed than for others.
#[test]
fn a_million_equal_values_in_a_few_bytes_are_read() {
    const N: usize = 1_000_000;
    let dir = dir();
    let repeat = |word: &'static str| Arc::new(StringArray::from_iter_values(std::iter::repeat_n(word, N)));
    let list = |row: &dyn Fn(&mut ListBuilder<Int32Builder>)| {
        let mut list = ListBuilder::new(Int32Builder::new());
        row(&mut list);
        Arc::new(list.finish())
    };
    // A row with a million zeros, and the others without a list.
    let long = list(&|list| {
        (0..N).for_each(|_| list.values().append_value(0));
        list.append(true);
        (1..N).for_each(|_| list.append(false));
    });
    // A thousand rows with a thousand zeros each.
    let wide = list(&|list| {
        for i in 0..N {
            if i < 1000 {
                (0..1000).for_each(|_| list.values().append_value(0));
            }
            list.append(true);
        }
    });
    let batch = RecordBatch::try_from_iter([
        ("same", repeat("the same") as ArrayRef),
        ("empty", repeat("")),
        ("prefix", repeat("a text that is as long as others, and no longer")),
        ("none", Arc::new(StringArray::from_iter(std::iter::repeat_n(None::<&str>, N)))),
        ("number", Arc::new(Int64Array::from_iter_values(std::iter::repeat_n(7, N)))),
        ("long", long),
        ("wide", wide),
    ])
    .unwrap();
    for (version, codec) in [
        (WriterVersion::PARQUET_1_0, Compression::UNCOMPRESSED),
        (WriterVersion::PARQUET_2_0, Compression::ZSTD(Default::default())),
    ] {
        // Pages as long as the group.
        let properties = WriterProperties::builder().set_compression(codec).set_writer_version(version);
        let properties = properties.set_data_page_row_count_limit(2 * N).set_write_batch_size(N);
        let own = |properties: WriterPropertiesBuilder, column: &str, encoding| {
            let column = ColumnPath::from(column);
            properties.set_column_dictionary_enabled(column.clone(), false).set_column_encoding(column, encoding)
        };
        let properties = own(properties, "empty", Encoding::DELTA_LENGTH_BYTE_ARRAY);
        let properties = own(properties, "prefix", Encoding::DELTA_BYTE_ARRAY);
        let table = written(&dir, "same.parquet", &batch, properties);
        assert!(table.bytes().unwrap() < 300_000, "{:?}", table.bytes());
        let mut rows = 0;
        for batch in table.keys(&strings(&["same", "empty", "prefix", "none", "number"]), 1).unwrap() {
            let batch = batch.unwrap();
            for (column, word) in
                ["the same", "", "a text that is as long as others, and no longer", "", "7"].iter().enumerate()
            {
                let texts = batch.column(column).as_any().downcast_ref::<StringArray>().unwrap();
                assert!(texts.iter().all(|text| text == Some(word)));
            }
            rows += batch.num_rows();
        }
        assert_eq!(rows, N);
        assert_eq!(selected(&*table, 0..N as u64).unwrap(), batch);
    }
}

#[test]
fn groups_without_rows_are_passed_over() {
    let dir = dir();
    let batch = mixed(true);
    let path = dir.path().join("groups.parquet");
    let whole = written(&dir, "whole.parquet", &batch, WriterProperties::builder());
    // The groups of the file between groups without rows.
    let source = std::fs::File::open(dir.path().join("whole.parquet")).unwrap();
    let metadata = ParquetRecordBatchReaderBuilder::try_new(source.try_clone().unwrap()).unwrap().metadata().clone();
    let schema = metadata.file_metadata().schema_descr().root_schema_ptr();
    let target = std::fs::File::create(&path).unwrap();
    let mut writer = SerializedFileWriter::new(target, schema, Default::default()).unwrap();
    let empty = |writer: &mut SerializedFileWriter<std::fs::File>| {
        let mut group = writer.next_row_group().unwrap();
        while let Some(column) = group.next_column().unwrap() {
            column.close().unwrap();
        }
        group.close().unwrap();
    };
    empty(&mut writer);
    for group in metadata.row_groups() {
        let mut copy = writer.next_row_group().unwrap();
        for column in group.columns() {
            let result = parquet::column::writer::ColumnCloseResult {
                bytes_written: column.compressed_size() as u64,
                rows_written: group.num_rows() as u64,
                metadata: column.clone(),
                bloom_filter: None,
                column_index: None,
                offset_index: None,
            };
            copy.append_column(&source, result).unwrap();
        }
        copy.close().unwrap();
        empty(&mut writer);
    }
    writer.close().unwrap();
    let table = table(&path);
    assert_eq!(table.rows(), Some(ROWS as u64));
    assert_eq!(key(&*table, "text"), key(&*whole, "text"));
    let rows = [0, 1, 1199].into_iter();
    assert_eq!(selected(&*table, rows.clone()).unwrap().column(0), selected(&*whole, rows).unwrap().column(0));
}

/// A batch of rows with a long value in each would take gigabytes.
#[test]
fn a_long_value_that_many_rows_have_is_read_a_few_rows_at_a_time() {
    const N: usize = 4500;
    let dir = dir();
    let long: Vec<String> = ["a", "b"].map(|letter| letter.repeat(128 << 10)).to_vec();
    // The first group has no long value, and its rows are not read again for the second one's.
    let value = |i: usize| match i {
        0..2100 => "short",
        _ => long[i % 7 / 6].as_str(),
    };
    let ids: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..N as u64));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..N).map(value)));
    let batch = RecordBatch::try_from_iter([("id", ids), ("text", texts)]).unwrap();
    let plain = || WriterProperties::builder().set_compression(Compression::SNAPPY);
    let prefixes = plain().set_dictionary_enabled(false).set_column_encoding("text".into(), Encoding::DELTA_BYTE_ARRAY);
    let dictionary = plain().set_dictionary_page_size_limit(4 << 20);
    for (name, properties, small) in [("dictionary", dictionary, true), ("prefixes", prefixes, false)] {
        let table =
            written(&dir, &format!("{name}.parquet"), &batch, properties.set_max_row_group_row_count(Some(2000)));
        assert_eq!(table.bytes().unwrap() < 1 << 20, small, "{:?}", table.bytes());
        let (mut rows, mut batches) = (0, 0);
        for batch in table.keys(&strings(&["text", "id"]), 1).unwrap() {
            let batch = batch.unwrap();
            let column = |i: usize| batch.column(i).as_any().downcast_ref::<StringArray>().unwrap().clone();
            for (text, id) in column(0).iter().zip(column(1).iter()) {
                assert!(text == Some(value(rows)) && id == Some(&rows.to_string()), "{name}: row {rows}");
                rows += 1;
            }
            assert!(batch.get_array_memory_size() < 300 << 20);
            batches += 1;
        }
        assert_eq!(rows, N, "{name}");
        assert!(batches > 2, "{name}: {batches}");
        let wanted = |i: &u64| i % 10 < 3 && (i / 1000).is_multiple_of(2);
        let mut expected = (0..N as u64).filter(wanted);
        let mut emit = |batch: RecordBatch| {
            let ids = batch.column(1).as_any().downcast_ref::<UInt64Array>().unwrap();
            let texts = batch.column(0).as_any().downcast_ref::<StringArray>().unwrap();
            for (id, text) in ids.iter().zip(texts) {
                assert!(id == expected.next() && text == Some(value(id.unwrap() as usize)), "{name}: {id:?}");
            }
            Ok(())
        };
        let mut rows = (0..N as u64).filter(wanted).map(|row| Ok(RowId(row)));
        table.select(&mut rows, Selection { form: Form::Arrow, columns: &[1, 0], workers: 1 }, &mut emit).unwrap();
        assert_eq!(expected.next(), None, "{name}");
    }
}

/// A structure in Thrift's compact protocol.
#[derive(Clone, Default)]
struct Thrift {
    bytes: Vec<u8>,
    last: u8,
}

fn number(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn signed(number: i64) -> Vec<u8> {
    self::number((number << 1 ^ number >> 63) as u64)
}

impl Thrift {
    fn field(mut self, id: u8, tag: u8, value: impl AsRef<[u8]>) -> Self {
        match id.checked_sub(self.last) {
            Some(step @ 1..16) => self.bytes.push(step << 4 | tag),
            _ => self.bytes.extend([tag, 2 * id]),
        }
        self.bytes.extend(value.as_ref());
        self.last = id;
        self
    }

    fn int(self, id: u8, value: i64) -> Self {
        self.field(id, 6, signed(value))
    }

    fn text(self, id: u8, text: &str) -> Self {
        self.field(id, 8, [&number(text.len() as u64), text.as_bytes()].concat())
    }

    fn node(self, id: u8, of: Self) -> Self {
        self.field(id, 12, of.end())
    }

    fn list(self, id: u8, of: &[Self]) -> Self {
        let elements: Vec<u8> = of.iter().flat_map(|element| element.clone().end()).collect();
        self.field(id, 9, [&[0xfc][..], &number(of.len() as u64), &elements].concat())
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

fn thrift() -> Thrift {
    Thrift::default()
}

const MOST: i64 = i32::MAX as i64;

/// A file with one column, written by hand.
#[derive(Clone)]
struct File {
    /// INT32 is 1, BYTE_ARRAY 6, FIXED_LEN_BYTE_ARRAY 7.
    kind: i64,
    width: i64,
    /// Whether the column is a list.
    list: bool,
    codec: i64,
    rows: i64,
    /// The rows by the footer, and where the column begins.
    total: i64,
    at: i64,
    pages: Vec<u8>,
    /// Groups around the column.
    groups: Vec<Thrift>,
    footer: Thrift,
    /// What Arrow type the file says that the column had.
    arrow: Option<DataType>,
}

const INT32: i64 = 1;
const BYTE_ARRAY: i64 = 6;
const FIXED: i64 = 7;
const SNAPPY: i64 = 1;

impl File {
    fn new(kind: i64, rows: i64, pages: impl Into<Vec<u8>>) -> Self {
        let footer = thrift().int(1, 2);
        let pages = pages.into();
        Self {
            kind,
            width: 8,
            list: false,
            codec: 0,
            rows,
            total: rows,
            at: 4,
            pages,
            groups: vec![],
            footer,
            arrow: None,
        }
    }

    fn list(mut self) -> Self {
        self.list = true;
        self
    }

    /// The name of the outermost group.
    fn outer(&self) -> &str {
        if self.groups.is_empty() { "c" } else { "g" }
    }

    fn bytes(&self) -> Vec<u8> {
        let leaf = thrift().int(1, self.kind).int(2, self.width).int(3, if self.list { 2 } else { 0 }).text(4, "c");
        // Texts, not bytes.
        let leaf = if self.kind == BYTE_ARRAY { leaf.int(6, 0) } else { leaf };
        let mut schema = vec![thrift().text(4, "root").int(5, 1)];
        schema.extend(self.groups.iter().cloned());
        schema.push(leaf);
        let len = self.pages.len() as i64;
        let column = thrift().int(1, self.kind).field(2, 9, [0x15, 0]).int(4, self.codec).int(5, self.rows);
        let column = column.int(6, len).int(7, len).int(9, self.at);
        let group = thrift().list(1, &[thrift().int(2, 0).node(3, column)]).int(2, len).int(3, self.rows);
        let mut footer = self.footer.clone().list(2, &schema).int(3, self.total).list(4, &[group]);
        if let Some(kind) = &self.arrow {
            let schema = encode_arrow_schema(&Schema::new(vec![Field::new(self.outer(), kind.clone(), true)]));
            footer = footer.list(5, &[thrift().text(1, ARROW_SCHEMA_META_KEY).text(2, &schema)]);
        }
        let footer = footer.end();
        let end = (footer.len() as u32).to_le_bytes();
        [&b"PAR1"[..], &self.pages, &footer, &end, b"PAR1"].concat()
    }
}

/// A page: of data, or a dictionary.
fn page(dictionary: bool, values: i64, encoding: i64, plain: i64, body: &[u8]) -> Vec<u8> {
    let head = thrift().int(1, if dictionary { 2 } else { 0 }).int(2, plain).int(3, body.len() as i64);
    let own = thrift().int(1, values).int(2, encoding);
    let head = if dictionary { head.node(7, own) } else { head.node(5, own.int(3, 3).int(4, 3)) };
    [&head.end(), body].concat()
}

fn data(values: i64, encoding: i64, body: &[u8]) -> Vec<u8> {
    page(false, values, encoding, body.len() as i64, body)
}

const PLAIN: i64 = 0;
const DELTA_LENGTH: i64 = 6;
const DELTA_BYTES: i64 = 7;
const DICTIONARY: i64 = 8;

/// A run of `count` levels.
fn run(count: u64, level: u8) -> Vec<u8> {
    [number(count << 1), vec![level]].concat()
}

/// Levels of a page of the first version: their length stands before them.
fn levels(runs: &[Vec<u8>]) -> Vec<u8> {
    let runs = runs.concat();
    [&(runs.len() as u32).to_le_bytes()[..], &runs].concat()
}

/// `count` zeros as differences, in blocks of as many values as 2^30, all in parts of no bits.
fn zeros(count: u64) -> Vec<u8> {
    let head = [number(1 << 30), number(4), number(count), vec![0]].concat();
    let block = [0; 5];
    (0..count.saturating_sub(1).div_ceil(1 << 30).min(10)).fold(head, |bytes, _| [&bytes[..], &block].concat())
}

/// A run of places in a dictionary of one value, which take no bits.
fn zeros_of(count: u64) -> Vec<u8> {
    [vec![0], number(count << 1)].concat()
}

/// What reading the keys and the first rows of a file ends in: the rows.
fn read(path: &Path) -> Result<u64, Error> {
    let table = open(&Input::new(path))?;
    match table.keys(&[table.columns()[0].name.clone()], 1) {
        // What has no one spelling is no key.
        Err(error) if error.fault() == Fault::Config => {}
        keys => keys?.try_for_each(|batch| batch.map(drop))?,
    }
    let columns: Vec<usize> = (0..table.columns().len()).collect();
    let mut rows = 0;
    let mut emit = |batch: RecordBatch| {
        rows += batch.num_rows() as u64;
        Ok(())
    };
    let mut asked = (0..table.rows().unwrap().min(5000)).map(|row| Ok(RowId(row)));
    table.select(&mut asked, Selection { form: Form::Arrow, columns: &columns, workers: 1 }, &mut emit)?;
    Ok(rows)
}

/// Two nulls in a column of lists of `len` numbers each.
fn fixed_lists(len: i32) -> File {
    let nulls = levels(&[run(2, 0)]);
    let mut file = File::new(INT32, 2, data(2, PLAIN, &[&nulls[..], &nulls].concat()));
    // An optional list, and its repeated values.
    file.groups =
        vec![thrift().int(3, 1).text(4, "g").int(5, 1).int(6, 3), thrift().int(3, 2).text(4, "list").int(5, 1)];
    file.arrow = Some(DataType::FixedSizeList(Arc::new(Field::new("c", DataType::Int32, false)), len));
    file
}

/// Files with a lie each, and what is told of it.
fn lies() -> Vec<(File, &'static str)> {
    let numbers = || File::new(INT32, 2, data(2, PLAIN, &[1, 0, 0, 0, 2, 0, 0, 0]));
    let with = |change: &dyn Fn(&mut File)| {
        let mut file = numbers();
        change(&mut file);
        file
    };
    let optional = |children: i64| thrift().int(3, 1).text(4, "g").int(5, children);
    let words = |encoding, body: &[u8]| File::new(BYTE_ARRAY, MOST, data(MOST, encoding, body));
    let endless = |count: u64| [number(128), number(4), number(count), vec![0]].concat();
    vec![
        (
            with(&|f| f.groups = vec![optional(MOST)]),
            "a group has 2147483647 columns, for which the footer is too short",
        ),
        (with(&|f| f.groups = vec![optional(1); 100_000]), "columns are nested more than 100 levels deep"),
        // In a field that nobody knows: a list of 2^31 - 1 truth values, and one in each of a thousand lists.
        (
            with(&|f| {
                f.footer = thrift().field(1, 5, [4]).field(1 + 15, 9, [&[0xf1][..], &number(MOST as u64)].concat())
            }),
            "a list in it has more elements than bytes",
        ),
        (with(&|f| f.footer = thrift().text(1, "two")), "a type that the format does not give it"),
        (with(&|f| f.total = 3), "its footer counts 3 rows in all, and others by group"),
        (with(&|f| f.total = -1), "its footer counts -1 rows"),
        (with(&|f| (f.rows, f.total) = (3, 3)), "it has fewer rows than its footer says"),
        (with(&|f| f.at = MOST), "which the file has not"),
        (with(&|f| f.at = -9), "bytes at -9, which the file has not"),
        (with(&|f| (f.kind, f.width) = (FIXED, MOST)), "values of column \"c\" take 2147483647 bytes each"),
        (fixed_lists(MOST as i32), "values of column \"g\" take 8589934588 bytes each"),
        // A page that becomes 2 GiB, is as long, or has a head that is.
        (
            with(&|f| (f.codec, f.pages) = (SNAPPY, page(false, 2, PLAIN, MOST, &[8, 0, 0, 0]))),
            "is said to become 2147483647 bytes, and has 4",
        ),
        (with(&|f| (f.codec, f.pages) = (SNAPPY, page(false, 2, PLAIN, -1, &[8, 0]))), "is said to become -1 bytes"),
        (
            with(&|f| f.pages = thrift().int(1, 0).int(2, 8).int(3, MOST).node(5, thrift().int(1, 2)).end()),
            "is said to have 2147483647 bytes, of 0 that are left",
        ),
        (
            with(&|f| f.pages = [&thrift().int(1, 0).field(9, 8, number(1 << 40)).bytes[..], &f.pages].concat()),
            "the head of the page at 4 is longer than its column",
        ),
        (
            with(&|f| {
                f.pages =
                    [&thrift().field(9, 9, [&[0xf1][..], &number(MOST as u64)].concat()).end()[..], &f.pages].concat()
            }),
            "a list in it has more elements than bytes",
        ),
        // A dictionary of two values that is said to have 2^31 - 1.
        (with(&|f| f.pages = page(true, MOST, PLAIN, 8, &[0; 8])), "is said to have 2147483647 values in 8 bytes"),
        (File::new(BYTE_ARRAY, 2, page(true, MOST, PLAIN, 8, &[0; 8])), "is said to have 2147483647 values in 8 bytes"),
        // Lengths of texts.
        (words(DELTA_LENGTH, &endless(MOST as u64)), "is said to have 2147483647 lengths"),
        (words(DELTA_LENGTH, &zeros(MOST as u64)), "is said to have 2147483647 lengths"),
        (words(DELTA_LENGTH, &endless(1 << 40)), "is said to have 1099511627776 lengths"),
        (words(DELTA_BYTES, &zeros(1 << 32)), "is said to have 4294967296 lengths"),
        (words(DELTA_BYTES, &[zeros(1 << 20), endless(1 << 40)].concat()), "is said to have 1099511627776 lengths"),
        // A row with 2^31 - 1 numbers, in one page and in a hundred.
        (
            File::new(
                INT32,
                1,
                [
                    page(true, 1, PLAIN, 4, &[0; 4]),
                    data(
                        MOST,
                        DICTIONARY,
                        &[levels(&[run(1, 0), run(MOST as u64, 1)]), levels(&[run(1 << 32, 1)]), vec![0]].concat(),
                    ),
                ]
                .concat(),
            )
            .list(),
            "a list of column \"c\" takes",
        ),
        (
            File::new(
                INT32,
                1,
                [
                    page(true, 1, PLAIN, 4, &[0; 4]),
                    data(
                        1 << 20,
                        DICTIONARY,
                        &[levels(&[run(1 << 20, 1)]), levels(&[run(1 << 20, 1)]), zeros_of(1 << 20)].concat(),
                    )
                    .repeat(100),
                ]
                .concat(),
            )
            .list(),
            "a list of column \"c\" takes",
        ),
    ]
}

/// Runs the test called `name`, which is ignored otherwise, as a process that may not have more than a gigabyte of memory.
fn limited(name: &str) {
    let child = Command::new("sh")
        .args(["-c", "ulimit -d 1048576 && exec \"$0\" --ignored --exact \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg(format!("parquet_sizes::{name}"))
        .output()
        .unwrap();
    let [out, error] = [&child.stdout, &child.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(child.status.success() && out.contains("1 passed"), "{out}{error}");
}

#[test]
fn sizes_that_a_file_cannot_hold_are_refused_before_memory_is_asked_for() {
    limited("child_reads_lies");
}

#[test]
#[ignore = "a child of another test"]
fn child_reads_lies() {
    let dir = dir();
    for (i, (lie, told)) in lies().into_iter().enumerate() {
        let path = file(&dir, &format!("lie-{i}.parquet"), lie.bytes());
        let error = read(&path).unwrap_err();
        assert!(matches!(&error, Error::Corrupt { path: named, .. } if *named == path), "{i}: {error}");
        assert!(error.to_string().contains(told), "{i}: {error}");
    }
    // The same files without a lie are read.
    let numbers = data(2, PLAIN, &[1, 0, 0, 0, 2, 0, 0, 0]);
    let dictionary = [page(true, 2, PLAIN, 8, &[0; 8]), data(2, DICTIONARY, &[1, 4, 1])].concat();
    let words = data(1 << 20, DELTA_LENGTH, &zeros(1 << 20));
    let prefixes = data(1 << 20, DELTA_BYTES, &[zeros(1 << 20), zeros(1 << 20)].concat());
    let list = [&levels(&[run(1, 0), run(999, 1)])[..], &levels(&[run(1000, 1)]), &[0, 0xd0, 0x0f, 0]].concat();
    let list = [page(true, 1, PLAIN, 4, &[0; 4]), data(1000, DICTIONARY, &list)].concat();
    let nested = vec![thrift().int(3, 1).text(4, "g").int(5, 1); 98];
    // A thousand lists of 2^16 zeros each, which take half a gigabyte.
    let lists = levels(&[[run(1, 0), run(65535, 1)].concat().repeat(1000)]);
    let lists = [lists, levels(&[run(65_536_000, 1)]), zeros_of(65_536_000)].concat();
    let lists = [page(true, 1, PLAIN, 4, &[0; 4]), data(65_536_000, DICTIONARY, &lists)].concat();
    for (truth, rows) in [
        (File::new(INT32, 2, numbers.clone()), 2),
        (
            File {
                groups: nested,
                ..File::new(INT32, 2, data(2, PLAIN, &[&levels(&[run(2, 98)])[..], &[0; 8]].concat()))
            },
            2,
        ),
        (File { codec: SNAPPY, ..File::new(INT32, 2, page(false, 2, PLAIN, 8, &[8, 28, 1, 0, 0, 0, 2, 0, 0, 0])) }, 2),
        (File::new(INT32, 2, dictionary), 2),
        (File::new(BYTE_ARRAY, 1 << 20, words), 5000),
        (File::new(BYTE_ARRAY, 1 << 20, prefixes), 5000),
        (File::new(INT32, 1, list).list(), 1),
        (File::new(INT32, 1000, lists).list(), 1000),
        (fixed_lists(1 << 25), 2),
    ] {
        let read = read(&file(&dir, "truth.parquet", truth.bytes()));
        assert_eq!(read.map_err(|error| error.to_string()), Ok(rows), "{} {}", truth.kind, truth.groups.len());
    }
}

/// A bit of each byte of small files is flipped.
#[test]
fn a_damaged_file_ends_in_an_error_or_in_rows_within_little_memory() {
    limited("child_flips_a_bit");
}

#[test]
#[ignore = "a child of another test"]
fn child_flips_a_bit() {
    // Panics of the parquet crate are errors here.
    std::panic::set_hook(Box::new(|_| {}));
    let dir = dir();
    let batch = mixed(true).slice(0, 20);
    let batch = batch.project(&[0, 4, 9, 10]).unwrap();
    let (mut errors, mut files) = (0, 0);
    for (version, encoding, codec) in [
        (WriterVersion::PARQUET_1_0, None, Compression::UNCOMPRESSED),
        (WriterVersion::PARQUET_2_0, Some(Encoding::DELTA_BYTE_ARRAY), Compression::SNAPPY),
    ] {
        let mut properties = WriterProperties::builder().set_writer_version(version).set_compression(codec);
        if let Some(encoding) = encoding {
            properties = properties.set_dictionary_enabled(false).set_column_encoding("text".into(), encoding);
        }
        let table = written(&dir, "whole.parquet", &batch, properties);
        drop(table);
        let whole = std::fs::read(dir.path().join("whole.parquet")).unwrap();
        for byte in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[byte] ^= 1 << (5 * byte % 8);
            let path = file(&dir, "flipped.parquet", bytes);
            match read(&path) {
                Ok(rows) => assert_eq!(rows, 20, "byte {byte}"),
                Err(error) => {
                    assert_ne!(error.fault(), Fault::Bug, "byte {byte}: {error}");
                    errors += 1;
                }
            }
            files += 1;
        }
    }
    assert!(errors > files / 20, "{errors} of {files}");
}
