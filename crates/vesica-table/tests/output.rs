//! Outputs appear whole or not at all, and never over the input.

use crate::kit;

use kit::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use vesica_table::{Error, Fault, Format, Output, Selection, Table, View, create};
use vesica_testkit::Witness;

const TEXT: &str = "id,v\na,1\nb,2\nc,3\n";

fn input(dir: &TempDir) -> Box<dyn Table> {
    table(&file(dir, "in.csv", TEXT))
}

fn refused(path: impl AsRef<Path>, table: &dyn Table) -> Error {
    create(&Output::new(path.as_ref()), &table.facts()).err().expect("refused")
}

fn names(dir: &TempDir) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn nothing_stands_there_before_commit_and_nothing_is_left_without() {
    let dir = dir();
    let table = input(&dir);
    let output = Output::new(dir.path().join("out.csv"));
    // Dropped before it is finished.
    drop(create(&output, &table.facts()).unwrap());
    assert_eq!(names(&dir), ["in.csv"]);
    // Dropped before it is committed.
    let staged = create(&output, &table.facts()).unwrap().finish().unwrap();
    assert!(!output.path.exists());
    drop(staged);
    assert_eq!(names(&dir), ["in.csv"]);
    // Committed.
    let written = create(&output, &table.facts()).unwrap().finish().unwrap().commit().unwrap();
    assert_eq!(names(&dir), ["in.csv", "out.csv"]);
    assert_eq!((written.rows, written.bytes), (0, 5));
    assert_eq!(fs::read_to_string(&output.path).unwrap(), "id,v\n");
}

/// The ledger of a run is removed once its outputs are there, so they are there for good.
#[test]
fn what_was_committed_outlives_a_failure_of_power() {
    let dir = dir();
    let table = input(&dir);
    let witness = Witness::of(dir.path());
    for format in [Format::Csv, Format::Parquet] {
        let output = Output { format: Some(format), ..Output::new(dir.path().join("out")) };
        // The second time there is one to be replaced.
        for rows in [&[Some(2)][..], &[Some(0), Some(1)]] {
            write(&*table, &output, rows, 1 << 20).unwrap();
            witness.is_put(&output.path).unwrap();
        }
    }
}

#[test]
fn a_plain_file_is_replaced_and_keeps_its_mode() {
    let dir = dir();
    let table = input(&dir);
    let old = file(&dir, "out.csv", "old");
    fs::set_permissions(&old, fs::Permissions::from_mode(0o640)).unwrap();
    let out = write(&*table, &Output::new(&old), &[Some(2)], 1 << 20).unwrap();
    assert_eq!(out, b"id,v\nc,3\n");
    assert_eq!(fs::metadata(&old).unwrap().permissions().mode() & 0o777, 0o640);
    // A new file has the mode that any program's new file has.
    let usual = fs::metadata(file(&dir, "usual", "")).unwrap().permissions().mode();
    let new = dir.path().join("new.csv");
    write(&*table, &Output::new(&new), &[], 1 << 20).unwrap();
    assert_eq!(fs::metadata(&new).unwrap().permissions().mode(), usual);
}

#[test]
fn the_input_is_not_an_output_under_any_name() {
    let dir = dir();
    let table = input(&dir);
    let input = dir.path().join("in.csv");
    symlink(&input, dir.path().join("soft.csv")).unwrap();
    symlink("soft.csv", dir.path().join("softer.csv")).unwrap();
    fs::hard_link(&input, dir.path().join("hard.csv")).unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    symlink("..", dir.path().join("sub/up")).unwrap();
    for name in ["in.csv", "./in.csv", "sub/../in.csv", "sub/up/in.csv", "soft.csv", "softer.csv", "hard.csv"] {
        let error = refused(dir.path().join(name), &*table);
        assert!(matches!(error, Error::Overwrite { .. }), "{name}: {error}");
        assert_eq!(error.fault(), Fault::Config);
        assert!(error.to_string().contains("choose another output"));
    }
    assert_eq!(fs::read_to_string(&input).unwrap(), TEXT);
}

#[test]
fn a_link_is_followed() {
    let dir = dir();
    let table = input(&dir);
    fs::create_dir(dir.path().join("sub")).unwrap();
    let target = dir.path().join("sub/real.csv");
    fs::write(&target, "old").unwrap();
    let link = dir.path().join("link.csv");
    symlink("sub/real.csv", &link).unwrap();
    write(&*table, &Output::new(&link), &[Some(0)], 1 << 20).unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "id,v\na,1\n");
    assert!(link.is_symlink());
    symlink("sub/none.csv", dir.path().join("dangling.csv")).unwrap();
    let error = refused(dir.path().join("dangling.csv"), &*table);
    assert!(error.to_string().contains("a symbolic link to nothing"), "{error}");
}

#[test]
fn what_cannot_be_an_output_is_refused_at_once() {
    let dir = dir();
    let table = input(&dir);
    let error = refused(dir.path().join("no/such/out.csv"), &*table);
    assert!(matches!(&error, Error::NoFolder { folder, .. } if folder.ends_with("no/such")), "{error}");
    assert!(matches!(refused(dir.path(), &*table), Error::Folder { fault: Fault::Config, .. }));
    fs::create_dir(dir.path().join("folder.csv")).unwrap();
    assert!(matches!(refused(dir.path().join("folder.csv"), &*table), Error::Folder { fault: Fault::Config, .. }));
    let null = create(&Output { format: Some(Format::Csv), ..Output::new("/dev/null") }, &table.facts()).err().unwrap();
    assert!(null.to_string().contains("a device, a pipe or a socket"), "{null}");
    let stdout = create(&Output { format: Some(Format::Parquet), ..Output::new("-") }, &table.facts()).err().unwrap();
    assert!(matches!(stdout, Error::Stdout { format: "parquet" }));
    assert!(matches!(refused(dir.path().join("out.xlsx"), &*table), Error::Unnamed { .. }));
}

#[test]
fn a_folder_that_may_not_be_written_is_told_as_such() {
    let dir = dir();
    let table = input(&dir);
    let closed = dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    // The superuser may write it all the same.
    if let Err(error) = create(&Output::new(closed.join("out.csv")), &table.facts()) {
        assert!(matches!(error, Error::Denied { verb: "write", fault: Fault::Config, .. }), "{error}");
    }
}

#[test]
fn compressed_outputs_read_back() {
    let dir = dir();
    let table = input(&dir);
    for name in ["out.csv.gz", "out.csv.zst"] {
        let path = dir.path().join(name);
        let bytes = write(&*table, &Output::new(&path), &[Some(1), Some(0)], 1 << 20).unwrap();
        assert!(!bytes.starts_with(b"id"));
        assert_eq!(csv(&*kit::table(&path), &[0, 1]), "id,v\nb,2\na,1\n");
    }
}

#[test]
fn absent_rows_have_as_many_fields_as_the_others() {
    let dir = dir();
    let table = input(&dir);
    let path = dir.path().join("out.csv");
    let rows = [None, Some(1), None, Some(0)];
    for (absent, expected) in [
        ("NULL", "id,v\nNULL,NULL\nb,2\nNULL,NULL\na,1\n"),
        ("", "id,v\n,\nb,2\n,\na,1\n"),
        ("a,b", "id,v\n\"a,b\",\"a,b\"\nb,2\n\"a,b\",\"a,b\"\na,1\n"),
    ] {
        let output = Output { null: absent.into(), absent: true, ..Output::new(&path) };
        assert_eq!(String::from_utf8(write(&*table, &output, &rows, 1 << 20).unwrap()).unwrap(), expected);
    }
    // Of one column, an empty text in quotes: a blank line would be no row to other readers.
    let one = kit::table(&file(&dir, "one.csv", "id\r\na\r\n"));
    let output = Output { absent: true, ..Output::new(&path) };
    assert_eq!(write(&*one, &output, &[None, Some(0)], 1 << 20).unwrap(), b"id\r\n\"\"\r\na\r\n");
}

/// Some columns, in another order, from and to every format; what is not taken need not even be text.
#[test]
fn a_view_has_some_columns_in_its_own_order() {
    let dir = dir();
    let text = b"id,raw,v\n1,\xff,\"a,b\"\n2,\xfe,\n3,\xfd,\"q\"\"\"\n";
    let csv_table = kit::table(&file(&dir, "in.csv", text));
    let view = View::new(&*csv_table, &kit::strings(&["v", "id"])).unwrap();
    let expected = "v,id\n\"a,b\",1\n\"q\"\"\",3\n,2\n";
    assert_eq!(csv(&view, &[0, 2, 1]), expected, "fields keep their text");
    for name in ["a.parquet", "a.arrow"] {
        // A table of three columns of this format, then two of its columns.
        let three = kit::table(&file(&dir, "three.csv", "w,id,v\nx,1,\"a,b\"\ny,2,\nz,3,\"q\"\"\"\n"));
        let path = dir.path().join(name);
        write(&*three, &Output::new(&path), &[Some(0), Some(1), Some(2)], 1 << 20).unwrap();
        let table = kit::table(&path);
        let view = View::new(&*table, &kit::strings(&["v", "id"])).unwrap();
        assert_eq!(csv(&view, &[0, 2, 1]), expected.replace("\n,2", "\n\"\",2"), "{name}: an empty text is no null");
    }
    let error = View::new(&*csv_table, &kit::strings(&["vv"])).err().unwrap();
    assert!(error.to_string().contains("did you mean \"v\""), "{error}");
    let absent = Output { null: "NULL".into(), absent: true, ..Output::new(dir.path().join("out.csv")) };
    let bytes = write(&view, &absent, &[Some(1), None], 1 << 20).unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), "v,id\n,2\nNULL,NULL\n");
}

#[test]
#[ignore = "started by another test"]
fn child_writes_to_standard_output() {
    let dir = dir();
    let table = input(&dir);
    let mut sink = create(&Output::new("-"), &table.facts()).unwrap();
    let mut rows = [0, 2].map(|r| Ok(vesica_types::RowId(r))).into_iter();
    let columns: Vec<usize> = (0..table.columns().len()).collect();
    table
        .select(&mut rows, Selection { form: sink.form(), columns: &columns, workers: 2 }, &mut |batch| {
            sink.write(&batch)
        })
        .unwrap();
    let staged = sink.finish().unwrap();
    assert_eq!(staged.rows(), 2);
    staged.commit().unwrap();
}

#[test]
fn standard_output_takes_csv() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "output::child_writes_to_standard_output"])
        .output()
        .unwrap();
    let text = String::from_utf8(child.stdout).unwrap();
    assert!(text.contains("id,v\na,1\nc,3\n"), "{text}");
}

/// The process that [`a_full_disk_is_an_error_and_leaves_nothing`] starts, under a limit on the size of files.
#[test]
#[ignore = "started by another test"]
fn child_fills_the_disk() {
    // From the parent, for this process may not write so much; without one, there is no limit to meet.
    let Ok(input) = std::env::var("VESICA_TEST_IN") else { return };
    let dir = dir();
    let table = table(Path::new(&input));
    let rows: Vec<_> = (0..200_000).map(Some).collect();
    for name in ["out.csv", "out.csv.gz", "out.csv.zst", "out.parquet", "out.arrow"] {
        let path = dir.path().join(name);
        let error = write(&*table, &Output::new(&path), &rows, 256 << 20).unwrap_err();
        assert!(matches!(&error, Error::DiskFull { path: named } if *named == path), "{name}: {error}");
        assert_eq!(error.fault(), Fault::Config);
        assert!(names(&dir).is_empty(), "{:?}", names(&dir));
    }
    // And of spills, when the memory is small.
    let reversed: Vec<_> = (0..200_000).rev().map(Some).collect();
    let error = write(&*table, &Output::new(dir.path().join("out.csv")), &reversed, 1 << 16).unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
}

#[test]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    let dir = dir();
    let text: String = (0..200_000u64).map(|i| format!("{},{}\n", i * i, i ^ 0x5555)).collect();
    let input = file(&dir, "in.csv", format!("id,v\n{text}"));
    // 64 blocks of 512 or 1024 bytes; without the signal, writing beyond is an error like a full disk's.
    let child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" --ignored --exact output::child_fills_the_disk"])
        .arg(std::env::current_exe().unwrap())
        .env("VESICA_TEST_IN", &input)
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    assert!(String::from_utf8_lossy(&child.stdout).contains("1 passed"));
}
