//! Columns that stand beside a table: rows keep their bytes, and what is behind them is written as CSV or Arrow has it.

use arrow_array::cast::AsArray;
use vesica_table::{Beside, Error, Form, Input, Output, Picks, Selection, Table, View, Widened, create, gather, open};
use vesica_types::RowId;

/// For row n: its number, and a text that has to be quoted, nothing or the empty text.
struct Numbers(Vec<String>);

impl Beside for Numbers {
    fn names(&self) -> &[String] {
        &self.0
    }

    fn texts(&self, row: RowId) -> Result<Vec<Option<String>>, Error> {
        let odd = match row.0 % 3 {
            0 => Some("a,\"b\"".to_owned()),
            1 => None,
            _ => Some(String::new()),
        };
        Ok(vec![Some(row.0.to_string()), odd])
    }
}

fn numbers() -> Numbers {
    Numbers(vec!["n".into(), "odd, one".into()])
}

/// What is written of rows 0, 1 and 4 of `text`, and of row 4 once more.
fn written(text: &str, ending: &str, columns: Option<&[String]>) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("in.csv"), dir.path().join(format!("out.{ending}")));
    std::fs::write(&from, text).unwrap();
    let table = open(&Input::new(&from)).unwrap();
    let numbers = numbers();
    let view = columns.map(|names| View::new(&*table, names).unwrap());
    let like: &dyn Table = view.as_ref().map_or(&*table, |view| view);
    let wide = Widened::new(like, &numbers, "").unwrap();
    let mut picks = Picks::new(5, 1 << 20, dir.path()).unwrap();
    for (position, row) in [4, 0, 1, 4].into_iter().enumerate() {
        picks.push(RowId(row), position as u64).unwrap();
    }
    let mut sink = create(&Output::new(&to), &wide.facts()).unwrap();
    gather(&wide, picks, 1 << 20, 2, dir.path(), &mut *sink).unwrap();
    sink.finish().unwrap().commit().unwrap();
    std::fs::read(to).unwrap()
}

const TEXT: &str = "\u{feff}id, \"v\"\r\n\"1\",  x\r\n2,\"y,\r\nz\"\r\n3,\r\n4,u\r\n5,last";

#[test]
fn rows_of_a_csv_keep_their_bytes() {
    let want = "\u{feff}id, \"v\",n,\"odd, one\"\r\n5,last,4,\r\n\"1\",  x,0,\"a,\"\"b\"\"\"\r\n2,\"y,\r\nz\",1,\r\n5,last,4,\r\n";
    assert_eq!(String::from_utf8(written(TEXT, "csv", None)).unwrap(), want);
}

#[test]
fn some_columns_are_written_with_those_beside_them() {
    let want = "v,n,\"odd, one\"\nlast,4,\nx,0,\"a,\"\"b\"\"\"\n\"y,\r\nz\",1,\nlast,4,\n";
    let text = TEXT.replace(", \"v\"", ",v").replace("  x", "x");
    assert_eq!(String::from_utf8(written(&text, "csv", Some(&["v".into()]))).unwrap(), want);
}

#[test]
fn what_is_beside_has_its_nulls_in_parquet() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.parquet");
    std::fs::write(&path, written(TEXT, "parquet", None)).unwrap();
    let table = open(&Input::new(&path)).unwrap();
    let names: Vec<&str> = table.columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names[2..], ["n", "odd, one"]);
    let batches = table.texts(&[], &["n".into(), "odd, one".into()], 1).unwrap();
    let mut rows = Vec::new();
    for batch in batches {
        let batch = batch.unwrap();
        let text = |column: usize, row| {
            let column = batch.column(column).as_string::<i32>();
            arrow_array::Array::is_valid(column, row).then(|| column.value(row).to_owned())
        };
        rows.extend((0..batch.num_rows()).map(|row| (text(0, row), text(1, row))));
    }
    let some = |text: &str| Some(text.to_owned());
    let want = [(some("4"), None), (some("0"), some("a,\"b\"")), (some("1"), None), (some("4"), None)];
    assert_eq!(rows, want);
}

#[test]
fn a_name_that_is_there_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.csv");
    std::fs::write(&path, "id,n\n1,2\n").unwrap();
    let table = open(&Input::new(&path)).unwrap();
    let error = Widened::new(&*table, &numbers(), "").err().unwrap();
    assert!(matches!(error, Error::Ambiguous { ref name, .. } if name == "n"), "{error}");
}

/// A text of a mebibyte for each row, the longest that a service has.
struct Large(Vec<String>);

impl Beside for Large {
    fn names(&self) -> &[String] {
        &self.0
    }

    fn texts(&self, row: RowId) -> Result<Vec<Option<String>>, Error> {
        Ok(vec![Some(char::from(b'a' + (row.0 % 26) as u8).to_string().repeat(1 << 20))])
    }
}

/// 2048 rows, which come in one batch, with texts of two gibibytes: more than a column holds whose offsets have 32 bits. Before batches were
/// cut by their bytes, this panicked, and the server had chosen how long the texts are.
#[test]
fn large_texts_are_cut_into_batches_that_are_not() {
    const ROWS: u64 = 2048;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.csv");
    let text: String = (0..ROWS).map(|row| format!("{row}\n")).collect();
    std::fs::write(&path, format!("id\n{text}")).unwrap();
    let table = open(&Input::new(&path)).unwrap();
    let large = Large(vec!["text".into()]);
    let wide = Widened::new(&*table, &large, "").unwrap();
    // A line's offsets have 64 bits, so a few are enough to see that they are cut too.
    for (form, count) in [(Form::Arrow, ROWS), (Form::Verbatim, 16)] {
        let (mut next, mut most) = (0, 0);
        let mut own = 0;
        table
            .select(
                &mut (0..count).map(|row| Ok(RowId(row))),
                Selection { form, columns: &[0], workers: 1 },
                &mut |batch| {
                    own = batch.num_rows().max(own);
                    Ok(())
                },
            )
            .unwrap();
        assert_eq!(own as u64, count, "the table itself gives them all at once");
        wide.select(
            &mut (0..count).map(|row| Ok(RowId(row))),
            Selection { form, columns: &[0, 1], workers: 1 },
            &mut |batch| {
                let rows = batch.num_rows();
                most = rows.max(most);
                for row in 0..rows {
                    let letter = b'a' + (next % 26) as u8;
                    match form {
                        Form::Arrow => {
                            assert_eq!(batch.column(0).as_string::<i32>().value(row), next.to_string());
                            let text = batch.column(1).as_string::<i32>().value(row);
                            assert!(text.len() == 1 << 20 && text.starts_with(char::from(letter)));
                        }
                        Form::Verbatim => {
                            let line = batch.column(0).as_binary::<i64>().value(row);
                            let front = [format!("{next},").as_bytes(), &[letter]].concat();
                            assert!(line.starts_with(&front) && line.len() == front.len() + (1 << 20));
                        }
                    }
                    next += 1;
                }
                Ok(())
            },
        )
        .unwrap();
        assert_eq!((next, most), (count, 4), "{form:?}");
    }
}
