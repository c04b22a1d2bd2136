//! CSV as RFC 4180 and real files have it.

use crate::kit;

use kit::*;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use vesica_table::{Error, Fault, Format, Input, Output, Selection, Table, open};
use vesica_types::RowId;

fn of(text: impl AsRef<[u8]>) -> Box<dyn Table> {
    let dir = dir();
    table(&file(&dir, "in.csv", text))
}

fn refused(text: impl AsRef<[u8]>) -> Error {
    let dir = dir();
    let path = file(&dir, "in.csv", text);
    let table = match open(&Input::new(&path)) {
        Ok(table) => table,
        Err(error) => return error,
    };
    let first = table.columns()[0].name.clone();
    try_keys(&*table, &[&first]).unwrap_err()
}

/// The message behind the file's name.
fn message(error: &Error) -> String {
    let text = error.to_string();
    text.split_once("in.csv").expect("messages name the file").1.trim_start_matches(':').trim_start().to_owned()
}

#[test]
fn quotes_commas_and_newlines() {
    let table = of("id,note\n\"a,1\",x\n\"b\n2\",\"y,z\"\n\"c\"\"3\",\"\"\n");
    assert_eq!(key(&*table, "id"), ["a,1", "b\n2", "c\"3"]);
    assert_eq!(keys(&*table, &["note", "id"])[1], ["y,z", "b\n2"]);
    assert_eq!(table.rows(), Some(3));
}

#[test]
fn one_key_has_one_text_however_it_is_quoted() {
    let table = of("id,n\na,1\n\"a\",2\n\"a\"\"\",3\na\",4\n");
    assert_eq!(key(&*table, "id"), ["a", "a", "a\"", "a\""]);
}

#[test]
fn two_columns_are_not_joined() {
    let table = of("x,y\n\"a,b\",c\na,\"b,c\"\n");
    assert_eq!(keys(&*table, &["x", "y"]), [["a,b", "c"], ["a", "b,c"]]);
}

#[test]
fn spaces_zeros_and_long_integers_are_kept() {
    let table = of("id\n 007 \n123456789012345678\n1e5\n");
    assert_eq!(key(&*table, "id"), [" 007 ", "123456789012345678", "1e5"]);
}

#[test]
fn every_line_ending_and_a_last_line_without_one() {
    for text in ["id,v\na,1\nb,2\n", "id,v\r\na,1\r\nb,2\r\n", "id,v\ra,1\rb,2\r", "id,v\na,1\r\nb,2"] {
        assert_eq!(key(&*of(text), "id"), ["a", "b"], "{text:?}");
    }
    assert_eq!(csv(&*of("id,v\r\na,1\r\nb,2"), &[1, 0]), "id,v\r\nb,2\r\na,1\r\n");
    assert_eq!(csv(&*of("id,v\na,1\nb,2"), &[1, 0]), "id,v\nb,2\na,1\n");
    assert_eq!(csv(&*of("id,v\ra,1\rb,2"), &[1, 0]), "id,v\rb,2\ra,1\r");
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_name_and_stays_in_the_output() {
    let table = of("\u{feff}id,v\na,1\n\u{feff}b,2\n");
    assert_eq!(table.columns()[0].name, "id");
    assert_eq!(key(&*table, "id"), ["a", "\u{feff}b"]);
    assert_eq!(csv(&*table, &[1]), "\u{feff}id,v\n\u{feff}b,2\n");
    assert_eq!(of("\u{feff}\"id\",v\na,1\n").columns()[0].name, "id");
}

#[test]
fn rows_keep_every_byte() {
    let text = b"\"id\",note\n\"a\",\"x\"\"\n\",\n"
        .iter()
        .chain(b" b ,\xff\xfe\0\r\n\"c\"d,e\"f\n")
        .copied()
        .collect::<Vec<_>>();
    // The header has two columns, the first row three fields.
    let error = refused(&text);
    assert_eq!(
        (message(&error).as_str(), error.fault()),
        (
            "row 1 (line 2) has 3 fields where the header has 2; quote fields that contain commas, quotes or newlines",
            Fault::Input,
        )
    );
    let dir = dir();
    let header = b"\"id\", note\r\n".as_slice();
    let rows = [b"\"a\",\"x\"\"\n\"\n".as_slice(), b" b ,\xff\xfe\0\r\n", b"\"c\"d,e\"f\n"];
    let path = file(&dir, "in.csv", [header, &rows.concat()].concat());
    let table = table(&path);
    assert_eq!(key(&*table, "id"), ["a", " b ", "cd"]);
    let out = write(&*table, &Output::new(dir.path().join("out.csv")), &[Some(2), Some(1), Some(0)], 1 << 20).unwrap();
    assert_eq!(out, [header, rows[2], rows[1], rows[0]].concat());
}

#[test]
fn a_file_without_a_header_is_refused() {
    for text in ["", "\u{feff}", "\n", "\na,b\n", "\r\n"] {
        let error = refused(text);
        assert!(matches!(error, Error::NoHeader { .. }), "{text:?}: {error}");
        assert_eq!(error.fault(), Fault::Input);
    }
}

#[test]
fn a_header_alone_is_a_table_of_no_rows() {
    for text in ["id,v\n", "id,v", "id,v\r\n"] {
        let table = of(text);
        assert_eq!(key(&*table, "id"), [""; 0], "{text:?}");
        assert_eq!(table.rows(), Some(0));
        assert_eq!(csv(&*table, &[]).trim_end(), "id,v");
    }
}

#[test]
fn a_name_that_stands_twice_cannot_be_a_key() {
    let table = of("id,v,id\na,1,b\n");
    let error = try_keys(&*table, &["id"]).unwrap_err();
    assert_eq!(message(&error), "2 columns are called \"id\" (columns 1, 3); rename all but one");
    assert_eq!(error.fault(), Fault::Config);
    assert_eq!(key(&*table, "v"), ["1"]);
}

#[test]
fn an_unknown_column_names_the_nearest_and_all() {
    let table = of("Customer_Id,name\na,b\n");
    let error = try_keys(&*table, &["customer id"]).unwrap_err();
    assert_eq!(
        message(&error),
        "has no column \"customer id\"; did you mean \"Customer_Id\"? Its columns are \"Customer_Id\", \"name\""
    );
    let error = try_keys(&*of("id;name\n1;a\n"), &["id"]).unwrap_err();
    assert!(message(&error).ends_with("its columns are \"id;name\" (fields must be separated by commas, not ';')"));
}

#[test]
fn a_wrong_number_of_fields_is_placed() {
    for (text, row, line, got) in [
        ("a,b\n1,2\n3\n", 2, 3, 1),
        ("a,b\n1,2,3\n", 1, 2, 3),
        ("a,b\n1,\"x\n\ny\"\n1,2,3\n", 2, 5, 3),
        ("a,b\n1,2\n3,\"4\",\"5\"", 2, 3, 3),
        ("a,b\n\n \n", 1, 3, 1),
    ] {
        match refused(text) {
            Error::Fields { row: r, line: l, got: g, want: 2, .. } => {
                assert_eq!((r, l, g), (row, line, got), "{text:?}")
            }
            other => panic!("{text:?}: {other}"),
        }
    }
}

#[test]
fn an_open_quote_is_placed() {
    for text in ["a,b\n1,2\n\"3,4\n5,6\n", "a,b\n1,2\n3,\"4\"\"", "a,b\n1,2\n3,\""] {
        let error = refused(text);
        assert_eq!(message(&error), "a quote opened in row 2 (which begins on line 3) is never closed", "{text:?}");
    }
    assert_eq!(message(&refused("a,\"b\n1,2\n")), "a quote opened in the header is never closed");
}

#[test]
fn bytes_that_are_not_text_are_refused_in_keys_only() {
    let text = b"id,v\na,1\n\xe9\xe8,2\nb,\xff\n";
    let error = refused(text);
    assert_eq!(message(&error), "column \"id\" of row 2 (line 3) is not UTF-8; convert the file to UTF-8");
    let dir = dir();
    let table = table(&file(&dir, "in.csv", b"v,id\n\xff,a\n\xe9,b\n"));
    assert_eq!(key(&*table, "id"), ["a", "b"]);
    let out = write(&*table, &Output::new(dir.path().join("out.csv")), &[Some(1)], 1 << 20).unwrap();
    assert_eq!(out, b"v,id\n\xe9,b\n");
    // Two halves of a character side by side are two bad keys, not one good text.
    assert!(matches!(refused(b"id,v\n\xc3,1\n\xa9,2\n"), Error::NotText { row: 1, line: 2, .. }));
}

#[test]
fn a_header_that_is_not_text_is_refused() {
    let error = refused(b"id,caf\xe9\na,b\n");
    assert_eq!(message(&error), "the name of column 2 is not UTF-8; convert the file to UTF-8");
}

#[test]
fn utf_16_is_told_apart() {
    let error = refused(b"\xff\xfei\0d\0\n\0");
    assert_eq!(message(&error), "is read as csv but holds UTF-16 text; save it as UTF-8");
}

#[test]
fn blank_lines() {
    // Of one column, each is a row with an empty key; of several, none is a row.
    assert_eq!(key(&*of("id\na\n\nb\n\n"), "id"), ["a", "", "b", ""]);
    assert_eq!(csv(&*of("id\na\n\nb\n"), &[1, 2]), "id\n\nb\n");
    let table = of("id,v\n\na,1\n\r\n\nb,2\n\n\n");
    assert_eq!(key(&*table, "id"), ["a", "b"]);
    assert_eq!(csv(&*table, &[1, 0]), "id,v\nb,2\na,1\n");
}

#[test]
fn nul_bytes_pass() {
    assert_eq!(key(&*of("id,v\na\0b,\0\n"), "id"), ["a\0b"]);
}

#[test]
fn the_same_column_may_be_asked_for_twice() {
    assert_eq!(keys(&*of("id,v\na,1\n"), &["v", "id", "v"]), [["1", "a", "1"]]);
}

#[test]
fn long_fields_cross_every_buffer() {
    let long = "x,\"\n".repeat(300_000);
    let text = format!("id,v\na,1\n\"{}\",2\nb,3\n", long.replace('"', "\"\""));
    let table = of(&text);
    assert_eq!(key(&*table, "id"), ["a", long.as_str(), "b"]);
    assert_eq!(csv(&*table, &[0, 1, 2]), text);
}

#[test]
fn many_rows_in_order() {
    let text: String = (0..100_000).map(|i| format!("{i},\"v{i}\"\n")).collect();
    let table = of(format!("id,v\n{text}"));
    let keys = key(&*table, "id");
    assert!(keys.iter().enumerate().all(|(i, k)| *k == i.to_string()));
    assert_eq!(keys.len(), 100_000);
    assert_eq!(table.bytes_read(), table.bytes().unwrap());
}

#[test]
fn unreadable_files_are_told_apart() {
    let dir = dir();
    let open = |path: &Path| open(&Input::new(path)).err().unwrap();
    let missing = open(&dir.path().join("none.csv"));
    assert!(missing.to_string().ends_with("none.csv: no such file"), "{missing}");
    let folder = open(dir.path());
    assert!(folder.to_string().contains("no file is there; put files into the folder"), "{folder}");
    let unnamed = open(&file(&dir, "in.txt", "id\n"));
    assert!(unnamed.to_string().contains("set format to csv, parquet or arrow"), "{unnamed}");
    assert_eq!(unnamed.fault(), Fault::Config);
    for error in [missing, folder] {
        assert_eq!(error.fault(), Fault::Input);
    }
    let parquet = open(&file(&dir, "in.csv", "PAR1...."));
    assert!(parquet.to_string().ends_with("is read as csv but holds Parquet; set format = \"parquet\""), "{parquet}");
}

#[test]
fn a_file_one_may_not_read_is_told_as_such() {
    use std::os::unix::fs::PermissionsExt;
    let dir = dir();
    let path = file(&dir, "in.csv", "id\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser may read it all the same.
    if let Err(error) = open(&Input::new(&path)) {
        assert!(matches!(error, Error::Denied { verb: "read", fault: Fault::Input, .. }), "{error}");
    }
}

#[test]
fn a_format_that_is_said_beats_the_name() {
    let dir = dir();
    let path = file(&dir, "in.txt", "id\na\n");
    let table = open(&Input { format: Some(Format::Csv), ..Input::new(path) }).unwrap();
    assert_eq!(key(&*table, "id"), ["a"]);
}

#[test]
fn a_path_is_a_path_and_no_command() {
    let dir = dir();
    let path = file(&dir, "a b;echo $HOME|'\".csv", "id\na\n");
    assert_eq!(key(&*table(&path), "id"), ["a"]);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compressed_files_of_several_members() {
    let dir = dir();
    let rows: String = (0..50_000).map(|i| format!("{i},x\n")).collect();
    let gz = file(&dir, "in.csv.gz", [gzip(b"id,v\na,"), gzip(b"1\n"), gzip(rows.as_bytes())].concat());
    let frame = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
    let zst = file(&dir, "in.csv.zst", [frame("id,v\na,"), frame("1\n"), frame(&rows)].concat());
    // Whatever it is called.
    let plain = file(&dir, "in.csv", gzip(b"id,v\na,1\n"));
    assert_eq!(key(&*table(&plain), "id"), ["a"]);
    for path in [gz, zst] {
        let table = table(&path);
        assert_eq!(key(&*table, "id").len(), 50_001);
        assert_eq!(csv(&*table, &[50_000, 0]), "id,v\n49999,x\na,1\n");
    }
}

#[test]
fn compressed_files_that_are_damaged_are_named() {
    let dir = dir();
    let rows: String = (0..50_000).map(|i| format!("{i},{}\n", i * 7919 % 100_003)).collect();
    let text = format!("id,v\n{rows}");
    for (name, whole) in
        [("in.csv.gz", gzip(text.as_bytes())), ("in.csv.zst", zstd::encode_all(text.as_bytes(), 1).unwrap())]
    {
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 0x55;
        for damaged in [&whole[..whole.len() / 2], &whole[..whole.len() - 3], &flipped, b"id,v\n1,2\n"] {
            let path = file(&dir, name, damaged);
            let error = match open(&Input::new(&path)) {
                Ok(table) => try_keys(&*table, &["id"]).unwrap_err(),
                Err(error) => error,
            };
            // A flipped bit may make another error first, but never a result.
            let named = error.to_string().contains(name);
            assert!(named && error.fault() == Fault::Input, "{error}");
        }
        let error = open(&Input::new(file(&dir, name, b"id,v\n1,2\n"))).err().unwrap();
        assert!(error.to_string().contains("is damaged or incomplete: it is no "), "{error}");
    }
}

#[test]
fn a_file_that_changes_between_the_passes_is_refused() {
    let dir = dir();
    let first = |table: &dyn Table| {
        let mut rows = [RowId(0)].into_iter().map(Ok);
        table.select(&mut rows, Selection { form: vesica_table::Form::Verbatim, columns: &[], workers: 2 }, &mut |_| {
            Ok(())
        })
    };
    // Grown.
    let path = file(&dir, "in.csv", "id\na\nb\n");
    let table = table(&path);
    assert_eq!(key(&*table, "id"), ["a", "b"]);
    File::options().append(true).open(&path).unwrap().write_all(b"c\n").unwrap();
    let error = first(&*table).unwrap_err();
    assert!(error.to_string().contains("changed while it was being read (it had 7 bytes and now has 9)"), "{error}");
    assert!(try_keys(&*table, &["id"]).is_err());
    // Same size.
    let path = file(&dir, "same.csv", "id\na\nb\n");
    let table = kit::table(&path);
    assert_eq!(key(&*table, "id"), ["a", "b"]);
    std::fs::write(&path, "id\nx\ny\n").unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(2);
    File::options().append(true).open(&path).unwrap().set_modified(later).unwrap();
    assert!(matches!(first(&*table).unwrap_err(), Error::Changed { .. }));
    // Replaced by another file of the same name: both passes see the one that was opened.
    let path = file(&dir, "replaced.csv", "id\na\nb\n");
    let table = kit::table(&path);
    assert_eq!(key(&*table, "id"), ["a", "b"]);
    std::fs::rename(file(&dir, "other.csv", "id\nx\ny\n"), &path).unwrap();
    assert_eq!(csv(&*table, &[0]), "id\na\n");
}

#[test]
fn a_row_that_is_not_there_is_a_change() {
    let table = of("id\na\n");
    let mut rows = [RowId(3)].into_iter().map(Ok);
    let error = table
        .select(&mut rows, Selection { form: vesica_table::Form::Verbatim, columns: &[], workers: 2 }, &mut |_| Ok(()))
        .unwrap_err();
    assert!(matches!(error, Error::Changed { .. }));
}

/// The process that [`standard_input_is_read_twice`] starts: its input is the table.
#[test]
#[ignore = "started by another test"]
fn child_reads_standard_input() {
    // By itself, in a process with others, there is nothing to read.
    let Ok(out) = std::env::var("VESICA_TEST_OUT") else { return };
    let table = open(&Input::new("-")).unwrap();
    let keys = key(&*table, "id").join("|");
    let again = csv(&*table, &[1, 0]);
    std::fs::write(out, format!("{keys}\n{again}")).unwrap();
}

#[test]
fn standard_input_is_read_twice() {
    let dir = dir();
    for (n, input) in [b"id,v\na,1\nb,2\n".to_vec(), gzip(b"id,v\na,1\nb,2\n")].into_iter().enumerate() {
        let out = dir.path().join(format!("out{n}"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "csv::child_reads_standard_input"])
            .env("VESICA_TEST_OUT", &out)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&input).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(std::fs::read_to_string(out).unwrap(), "a|b\nid,v\nb,2\na,1\n");
    }
}
