//! Both passes give the same on several threads as on one, and with marks as without.

use super::second_pass::TASK_ROWS;
use super::*;
use crate::Form;
use arrow_array::ArrayRef;
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use proptest::prelude::*;
use vesica_types::RowId;

fn table(path: &std::path::Path, stretch: u64) -> CsvTable {
    CsvTable { stretch, ..CsvTable::open(Source::plain(path).unwrap()).unwrap() }
}

/// Reads the table whole, which leaves an index.
fn index(table: &CsvTable) -> u64 {
    table.keys(&["k".into()], 3).unwrap().map(|batch| batch.unwrap().num_rows() as u64).sum()
}

/// The rows, or the error instead of them.
fn select(table: &CsvTable, rows: &[u64], form: Form, workers: usize) -> Result<Vec<Vec<u8>>, String> {
    let mut out = Vec::new();
    let mut emit = |batch: RecordBatch| {
        let columns = batch.columns().iter().map(|c| arrow_cast::cast(c, &DataType::LargeBinary).unwrap());
        let columns: Vec<_> = columns.collect();
        let cell = |c: &ArrayRef, i| c.as_binary::<i64>().value(i).to_vec();
        out.extend((0..batch.num_rows()).flat_map(|i| columns.iter().map(move |c| cell(c, i)).collect::<Vec<_>>()));
        Ok(())
    };
    let columns: &[usize] = if form == Form::Arrow { &[1, 0] } else { &[] };
    let mut rows = rows.iter().map(|&row| Ok(RowId(row)));
    let selected = table.select(&mut rows, Selection { form, columns, workers }, &mut emit);
    selected.map(|()| out).map_err(|e| e.to_string())
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        8 => Just(&b"v"[..]),
        2 => Just(&b""[..]),
        2 => Just(&b"\"x\ny,\""[..]),
        2 => Just(&b"\"x\r\n\"\"y\""[..]),
        1 => Just(&b"a \" b"[..]),
        1 => Just(&[b'z'; 100][..]),
    ];
    let last = prop_oneof![8 => field.clone(), 1 => Just(&b"\xff"[..])];
    let ending = prop_oneof![4 => Just(&b"\n"[..]), 2 => Just(&b"\r\n"[..]), 1 => Just(&b"\n\n"[..])];
    let row = (field, last, ending).prop_map(|(key, value, ending)| [key, b",", value, ending].concat());
    (prop::collection::vec(row, 1..40), any::<bool>()).prop_map(|(rows, cut)| {
        let mut text = [&b"k,v\n"[..], &rows.concat()].concat();
        if cut {
            text.truncate(text.trim_ascii_end().len());
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn an_index_changes_nothing_but_the_time(
        text in text(),
        mut picks in prop::collection::vec(any::<prop::sample::Index>(), 0..100),
        stretch in 1u64..400,
        workers in 1usize..5,
        beyond in prop::bool::weighted(0.1),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in.csv");
        std::fs::write(&path, &text).unwrap();
        let plain = table(&path, stretch);
        let indexed = table(&path, stretch);
        let n = index(&indexed);
        let marks = indexed.marks.get().unwrap();
        prop_assert!(marks.is_sorted_by_key(|mark| (mark.row, mark.offset)) && marks.iter().all(|mark| mark.row <= n));
        prop_assert!(n == 0 || marks[0].row == 0);
        picks.sort_by_key(|pick| pick.index(n as usize));
        let mut picks: Vec<u64> = picks.iter().map(|pick| pick.index(n as usize) as u64).collect();
        if beyond {
            picks.push(n);
        }
        for form in [Form::Verbatim, Form::Arrow] {
            let (indexed, plain) = (select(&indexed, &picks, form, workers), select(&plain, &picks, form, workers));
            if beyond && form == Form::Arrow {
                // A value that is not UTF-8 may be told first.
                prop_assert!(indexed.is_err() && plain.is_err());
            } else {
                prop_assert_eq!(&indexed, &plain);
                prop_assert_eq!(indexed.is_err_and(|e| e.contains("not there any more")), beyond);
            }
        }
    }
}

/// The keys of all rows, and the error that ended them, by the file's name.
fn keys(table: &CsvTable, columns: &[&str], workers: usize) -> (Vec<String>, Option<String>) {
    let columns: Vec<String> = columns.iter().map(|&name| name.to_owned()).collect();
    let mut found = Vec::new();
    for batch in table.keys(&columns, workers).unwrap() {
        match batch {
            Ok(batch) => {
                let text = |column: &ArrayRef, row| column.as_string::<i32>().value(row).to_owned();
                let row = |row| batch.columns().iter().map(|column| text(column, row)).collect::<Vec<_>>().join("|");
                found.extend((0..batch.num_rows()).map(row));
            }
            Err(error) => return (found, Some(error.to_string().replace(".zst", ""))),
        }
    }
    (found, None)
}

/// A table that may have anything in it.
fn nasty() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => Just(&b"a"[..]),
        6 => Just(&b","[..]),
        6 => Just(&b"b,c\n"[..]),
        2 => Just(&b"\n"[..]),
        2 => Just(&b"\r\n"[..]),
        1 => Just(&b"\r"[..]),
        1 => Just(&b"d,\"\n\n\"\n"[..]),
        1 => Just(&b"\"\n"[..]),
        1 => Just(&b"\"x,\r\n\"\"\","[..]),
        1 => Just(&b"\xff,\n"[..]),
        1 => Just(&b"\"d\ne\",\n"[..]),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| [&b"k,v\n"[..], &pieces.concat()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// A compressed file is read from its front to its end.
    #[test]
    fn reading_ahead_changes_nothing_but_the_time(
        text in prop_oneof![nasty(), text()],
        stretch in 1u64..100,
        workers in 1usize..4,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let [plain, packed] = ["in.csv", "in.csv.zst"].map(|name| dir.path().join(name));
        std::fs::write(&plain, &text).unwrap();
        std::fs::write(&packed, zstd::encode_all(text.as_slice(), 1).unwrap()).unwrap();
        let [ahead, front] = [&plain, &packed].map(|path| table(path, stretch));
        let (mut found, error) = keys(&ahead, &["v", "k"], workers);
        let (mut expected, expected_error) = keys(&front, &["v", "k"], 1);
        if error.is_some() {
            // Batches before an error are given; how many is nobody's business.
            let both = found.len().min(expected.len());
            found.truncate(both);
            expected.truncate(both);
        }
        prop_assert_eq!((found, error), (expected, expected_error));
        prop_assert_eq!(ahead.rows(), front.rows());
    }
}

#[test]
fn a_guess_that_is_wrong_costs_time_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.csv");
    // Every stretch begins within quotes, with what looks like rows.
    let row = |i: u64| format!("{i},\"{}\"\n", "x,y\n".repeat(25));
    std::fs::write(&path, format!("k,v\n{}", (0..100).map(row).collect::<String>())).unwrap();
    let table = table(&path, 50);
    let (found, error) = keys(&table, &["k"], 3);
    assert_eq!(error, None);
    assert_eq!(found, (0..100).map(|i| i.to_string()).collect::<Vec<_>>());
    // And the rows can be found again.
    let rows = select(&table, &[0, 57, 99], Form::Verbatim, 2).unwrap();
    assert_eq!(rows, [0, 57, 99].map(|i| row(i).into_bytes()));
}

#[test]
fn rows_come_in_order_however_often_they_are_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.csv");
    let row = |i: u64| format!("{i},\"{i}\n\"\n");
    std::fs::write(&path, format!("k,v\n{}", (0..1000).map(row).collect::<String>())).unwrap();
    let table = table(&path, 50);
    assert_eq!(index(&table), 1000);
    let times = |i: u64| if i == 500 { 3 * TASK_ROWS } else { i as usize % 3 };
    let picks: Vec<u64> = (0..1000).flat_map(|i| std::iter::repeat_n(i, times(i))).collect();
    for workers in [1, 2, 3] {
        let rows = select(&table, &picks, Form::Verbatim, workers).unwrap();
        assert_eq!(rows.len(), picks.len());
        assert!(rows.iter().zip(&picks).all(|(found, &i)| found == row(i).as_bytes()));
    }
    let error = select(&table, &[3, 2], Form::Verbatim, 2).unwrap_err();
    assert!(error.contains("do not ascend"), "{error}");
    // An error of whoever takes the rows ends the workers too.
    let mut rows = (0..1000).map(|i| Ok(RowId(i)));
    let mut full = |_| Err(Error::Bug("full".into()));
    let error =
        table.select(&mut rows, Selection { form: Form::Verbatim, columns: &[], workers: 3 }, &mut full).unwrap_err();
    assert!(error.to_string().contains("full"), "{error}");
}

#[test]
fn segments_without_wanted_rows_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.csv");
    std::fs::write(&path, format!("k,v\n{}", (0..1000).map(|i| format!("{i},x\n")).collect::<String>())).unwrap();
    let table = table(&path, 50);
    index(&table);
    let rows = select(&table, &[15, 995], Form::Verbatim, 2).unwrap();
    assert_eq!(rows, [&b"15,x\n"[..], b"995,x\n"]);
    // Ten rows of five bytes, and the last seven of six.
    assert_eq!(table.bytes_read(), 92);
}
