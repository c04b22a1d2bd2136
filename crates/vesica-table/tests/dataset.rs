//! Several files that are one table.

use crate::kit;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use kit::*;
use nix::sys::stat::Mode;
use parquet::arrow::ArrowWriter;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vesica_table::{Error, Fault, Form, Format, Input, Origin, Output, Selection, Table, View, create, open};
use vesica_types::RowId;

/// Files called `names` below `dir`, with `text` of each number.
fn files(dir: &Path, names: &[&str], text: impl Fn(usize) -> String) {
    for (i, name) in names.iter().enumerate() {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text(i)).unwrap();
    }
}

fn parquet(path: &Path, ids: std::ops::Range<i64>) {
    let texts: StringArray = ids.clone().map(|i| Some(format!("t{i}"))).collect();
    let columns: [(_, ArrayRef); 2] = [("id", Arc::new(Int64Array::from_iter_values(ids))), ("t", Arc::new(texts))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn input(paths: &[PathBuf]) -> Input {
    match paths {
        [path] => Input::new(path),
        paths => Input { origin: Origin::Paths(paths.to_vec()), format: None, temp: None },
    }
}

fn refused(path: &Path) -> Error {
    open(&Input::new(path)).err().expect("refused")
}

/// What is written of all rows, in order.
fn all(table: &dyn Table, name: &str) -> Vec<u8> {
    let dir = dir();
    let rows = keys(table, &[&table.columns()[0].name.clone()]).len() as u64;
    assert_eq!(table.rows(), Some(rows));
    write(table, &Output::new(dir.path().join(name)), &(0..rows).map(Some).collect::<Vec<_>>(), 1 << 20).unwrap()
}

#[test]
fn a_folder_a_pattern_and_a_list_are_read_in_the_order_of_names() {
    let dir = dir();
    let names =
        ["b/2.csv", "a/9.csv", "b/10.csv", "c.csv", "a/.hidden.csv", "_temporary/x.csv", "_SUCCESS", "a/_x.csv"];
    files(dir.path(), &names, |i| format!("id,v\n{i}0,x\n{i}1,\"y\"\n"));
    let of = |paths: &[&str]| {
        let paths: Vec<_> = paths.iter().map(|path| dir.path().join(path)).collect();
        let table = open(&input(&paths)).unwrap();
        (key(&*table, "id"), String::from_utf8(all(&*table, "out.csv")).unwrap())
    };
    let lines = |of: &[usize]| of.iter().fold("id,v\n".to_owned(), |text, i| text + &format!("{i}0,x\n{i}1,\"y\"\n"));
    for (paths, expected) in [
        (&["."][..], &[1, 2, 0, 3][..]),
        (&["a"], &[1]),
        (&["*.csv"], &[3]),
        (&["*/*.csv"], &[1, 2, 0]),
        (&["**/*.csv"], &[1, 2, 0, 3]),
        (&["**"], &[1, 2, 0, 3]),
        (&["[bc]*"], &[2, 0, 3]),
        (&["?/1?.csv"], &[2]),
        // A pattern may name what a folder passes over.
        (&["a/_*.csv"], &[7]),
        (&["c.csv", "b", "a/9.*"], &[1, 2, 0, 3]),
        (&["_temporary"], &[5]),
    ] {
        let (ids, text) = of(paths);
        assert_eq!(text, lines(expected), "{paths:?}");
        let wanted: Vec<_> = expected.iter().flat_map(|i| [format!("{i}0"), format!("{i}1")]).collect();
        assert_eq!(ids, wanted, "{paths:?}");
    }
    // A name that is there is no pattern.
    fs::create_dir(dir.path().join("[ab]")).unwrap();
    files(dir.path(), &["[ab]/1.csv"], |_| "id,v\nz,z\n".into());
    assert_eq!(of(&["[ab]"]).1, "id,v\nz,z\n");
}

#[test]
fn parts_are_read_by_all_formats_and_rows_come_from_each() {
    let dir = dir();
    for i in 0..5 {
        parquet(&dir.path().join(format!("p{i}.parquet")), 1000 * i..1000 * i + 300 * i);
    }
    let table = open(&Input::new(dir.path().join("*.parquet"))).unwrap();
    assert_eq!((table.rows(), table.format()), (Some(3000), Format::Parquet));
    let expected: Vec<String> =
        (0..5i64).flat_map(|i| (1000 * i..1000 * i + 300 * i).map(|id| id.to_string())).collect();
    for _ in 0..2 {
        assert_eq!(key(&*table, "id"), expected);
    }
    // A few rows, some of them twice, in the order of the table, by workers or by one.
    let rows = [0, 299, 299, 300, 301, 899, 900, 2999].map(RowId);
    for workers in [1, 3] {
        let mut got = Vec::new();
        let asked = &mut rows.iter().map(|row| Ok(*row));
        table
            .select(asked, Selection { form: Form::Arrow, columns: &[1, 0], workers }, &mut |batch| {
                let texts = batch.column(0).as_any().downcast_ref::<StringArray>().unwrap();
                got.extend(texts.iter().map(|text| text.unwrap()[1..].to_owned()));
                Ok(())
            })
            .unwrap();
        assert_eq!(got, rows.map(|row| expected[row.0 as usize].clone()));
    }
    let beyond = &mut [RowId(3000)].into_iter().map(Ok);
    let error =
        table.select(beyond, Selection { form: Form::Arrow, columns: &[0], workers: 1 }, &mut |_| Ok(())).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
    // Another format out, and Arrow in.
    let out = dir.path().join("one.arrow");
    fs::write(&out, all(&*table, "x.arrow")).unwrap();
    fs::create_dir(dir.path().join("arrow")).unwrap();
    (0..3).for_each(|i| _ = fs::copy(&out, dir.path().join(format!("arrow/{i}.arrow"))).unwrap());
    let arrow = open(&Input::new(dir.path().join("arrow"))).unwrap();
    assert_eq!(arrow.rows(), None);
    assert_eq!(key(&*arrow, "id"), [&expected[..], &expected, &expected].concat());
    assert_eq!(arrow.rows(), Some(9000));
    assert_eq!(all(&*arrow, "out.csv").iter().filter(|byte| **byte == b'\n').count(), 9001);
}

/// A run that goes on after a restart has its keys, and no pass over the files that are open now.
#[test]
fn rows_are_found_where_no_pass_has_come_to_the_end() {
    let dir = dir();
    files(dir.path(), &["1.csv", "2.csv", "3.csv"], |i| {
        (0..50_000).fold("id,id,v\n".to_owned(), |text, row| text + &format!("x,y,{i}-{row}\n"))
    });
    for looks in [0, 1, 2] {
        let table = open(&Input::new(dir.path())).unwrap();
        // A look at the first rows, which ends before the first file does, or in the second.
        let rows = table.keys(&strings(&["v"]), 1).unwrap().map(|batch| batch.unwrap().num_rows());
        let looked = rows.scan(0, |sum, rows| Some(std::mem::replace(sum, *sum + rows)));
        assert!(looked.take_while(|sum| *sum < [0, 1, 60_000][looks]).count() >= looks.min(1));
        assert_eq!(table.rows(), None);
        assert_eq!(
            csv(&*table, &[3, 49_999, 50_000, 149_999]),
            "id,id,v\nx,y,0-3\nx,y,0-49999\nx,y,1-0\nx,y,2-49999\n"
        );
        assert_eq!(table.rows(), Some(150_000));
        let beyond = &mut [RowId(150_000)].into_iter().map(Ok);
        let error = table
            .select(beyond, Selection { form: Form::Verbatim, columns: &[0], workers: 1 }, &mut |_| Ok(()))
            .unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{error}");
    }
    // Arrow says no number of rows beforehand, either.
    let arrow = kit::dir();
    for i in 0..2 {
        let source = kit::dir();
        let one = table(&file(&source, "one.csv", format!("v\n{i}-0\n{i}-1\n")));
        write(&*one, &Output::new(arrow.path().join(format!("{i}.arrow"))), &[Some(0), Some(1)], 1 << 20).unwrap();
    }
    assert_eq!(csv(&*table(arrow.path()), &[1, 2]), "v\n0-1\n1-0\n");
}

#[test]
fn folders_with_values_are_columns() {
    let dir = dir();
    let names =
        ["year=2025/zone=a%2Fb/1.csv", "year=2026/zone=__HIVE_DEFAULT_PARTITION__/1.csv", "year=2026/zone=c/x/1.csv"];
    files(dir.path(), &names, |i| format!("id,v\n{i},\"q\"\n"));
    let table = open(&Input::new(dir.path())).unwrap();
    let columns: Vec<_> = table.columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(columns, ["id", "v", "year", "zone"]);
    assert!(
        table.facts().header.is_none()
            && table.schema().field(3).is_nullable()
            && !table.schema().field(2).is_nullable()
    );
    assert_eq!(keys(&*table, &["zone", "id", "year"]), [["a/b", "0", "2025"], ["", "1", "2026"], ["c", "2", "2026"]]);
    assert_eq!(all(&*table, "out.csv"), b"id,v,year,zone\n0,q,2025,a/b\n1,q,2026,\n2,q,2026,c\n");
    // Of these columns alone, and of a pattern from its first star on.
    let pattern = open(&Input::new(dir.path().join("year=202?/**/*.csv"))).unwrap();
    let view = View::new(&*pattern, &strings(&["year"])).unwrap();
    assert_eq!(keys(&*pattern, &["id"]).len(), 3);
    let out = dir.path().join("../out-of-years.csv");
    assert_eq!(write(&view, &Output::new(&out), &[Some(0), Some(2)], 1 << 20).unwrap(), b"year\n2025\n2026\n");
    fs::remove_file(out).unwrap();
    let error = try_keys(&*table, &["year", "zone"]).unwrap_err();
    assert!(error.to_string().contains("name a column of the files, too"), "{error}");
    let below = open(&Input::new(dir.path().join("year=2026"))).unwrap();
    assert_eq!(keys(&*below, &["id", "zone"]), [["1", ""], ["2", "c"]]);

    // What is no escape stays.
    let odd = kit::dir();
    files(odd.path(), &["zone=%+5%2/1.csv"], |_| "id\n1\n".into());
    assert_eq!(keys(&*open(&Input::new(odd.path())).unwrap(), &["id", "zone"]), [["1", "%+5%2"]]);

    files(dir.path(), &["year=2027/1.csv"], |_| "id,v\n9,9\n".into());
    let error = refused(dir.path());
    assert!(error.to_string().contains("year=2027/1.csv does not stand in folders of the same names as"), "{error}");
    let other = kit::dir();
    files(other.path(), &["v=1/1.csv", "v=2/1.csv"], |i| format!("id,v\n{i},3\n"));
    let error = refused(other.path());
    assert!(
        error.to_string().contains("column \"v\" stands in the files and in the names of their folders"),
        "{error}"
    );
}

#[test]
fn files_of_other_columns_are_refused_by_file_and_column() {
    for (second, column, why) in [
        ("id,w\n", "v", "is missing, and"),
        ("v,id\n", "id", "is number 2 here, and number 1 in"),
        ("id,v,w\n", "w", "is not in"),
        ("id\n", "v", "is missing, and"),
    ] {
        let dir = dir();
        files(dir.path(), &["1.csv", "2.csv", "3.csv"], |i| if i == 2 { second.into() } else { "id,v\n".into() });
        let error = refused(dir.path());
        let text = error.to_string();
        assert!(text.contains("3.csv: column") && text.contains(&format!("{column:?} {why}")), "{text}");
        assert_eq!(error.fault(), Fault::Input);
    }
    let dir = dir();
    parquet(&dir.path().join("1.parquet"), 0..3);
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
    let batch = RecordBatch::try_from_iter([("id", texts.clone()), ("t", texts)]).unwrap();
    let file = fs::File::create(dir.path().join("2.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let text = refused(dir.path()).to_string();
    assert!(text.contains("2.parquet: column \"id\" has type Utf8, and in") && text.contains("Int64"), "{text}");
    // Nor may the formats differ, or a name say none.
    fs::remove_file(dir.path().join("2.parquet")).unwrap();
    files(dir.path(), &["2.csv"], |_| "id,t\n".into());
    let text = refused(dir.path()).to_string();
    assert!(text.contains("1.parquet is parquet, and") || text.contains("2.csv is csv, and"), "{text}");
    fs::rename(dir.path().join("2.csv"), dir.path().join("notes.txt")).unwrap();
    let error = refused(dir.path());
    assert!(matches!(&error, Error::Unnamed { path } if path.ends_with("notes.txt")), "{error}");
}

#[test]
fn what_is_no_plain_file_or_not_there_is_refused() {
    let dir = dir();
    let error = refused(&dir.path().join("no/*.csv"));
    assert!(matches!(&error, Error::Missing { path } if path.ends_with("no")), "{error}");
    for path in [dir.path().to_owned(), dir.path().join("*.csv")] {
        let error = refused(&path);
        assert!(matches!(&error, Error::NoFiles { path: named, .. } if *named == path), "{error}");
        assert_eq!(error.fault(), Fault::Input);
    }
    files(dir.path(), &["a.csv", "b.csv"], |_| "id\n1\n".into());
    // An empty file has no header.
    fs::write(dir.path().join("c.csv"), "").unwrap();
    assert!(matches!(refused(dir.path()), Error::NoHeader { path } if path.ends_with("c.csv")));
    fs::remove_file(dir.path().join("c.csv")).unwrap();
    // A pipe: nothing waits for somebody to write there.
    let pipe = dir.path().join("c.csv");
    nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    assert!(matches!(refused(dir.path()), Error::NotPlain { path } if path == pipe));
    fs::remove_file(&pipe).unwrap();
    // A link to nothing, to another of the files, and to a folder above.
    symlink("nothing", &pipe).unwrap();
    assert!(matches!(refused(dir.path()), Error::Missing { path } if path == pipe));
    fs::remove_file(&pipe).unwrap();
    symlink("a.csv", &pipe).unwrap();
    let twice = refused(dir.path()).to_string();
    assert!(twice.contains("c.csv is the same file as") && twice.contains("a.csv"), "{twice}");
    fs::remove_file(&pipe).unwrap();
    for twice in ["./a.csv", "[a]*"] {
        let error = open(&input(&[dir.path().join("a.csv"), dir.path().join(twice)])).err().unwrap();
        assert!(error.to_string().contains("a.csv is named twice"), "{error}");
    }
    let error = open(&input(&[dir.path().join("a.csv"), dir.path().to_owned()])).err().unwrap();
    assert!(
        error.to_string().contains("is the same file as") || error.to_string().contains("is named twice"),
        "{error}"
    );
    fs::create_dir(dir.path().join("sub")).unwrap();
    symlink("..", dir.path().join("sub/up")).unwrap();
    symlink("../sub", dir.path().join("sub/round")).unwrap();
    for path in [dir.path().to_owned(), dir.path().join("**/*.csv"), dir.path().join("**")] {
        let error = refused(&path).to_string();
        assert!(error.contains("its files would never end"), "{error}");
    }
    fs::remove_dir_all(dir.path().join("sub")).unwrap();
    // What may be a folder, and cannot be looked at, is not passed over.
    symlink("sub", dir.path().join("sub")).unwrap();
    for pattern in ["*/*.csv", "**/*.csv"] {
        let error = refused(&dir.path().join(pattern));
        assert!(matches!(&error, Error::Io { path, .. } if path.ends_with("sub")), "{error}");
    }
    fs::remove_file(dir.path().join("sub")).unwrap();
    // A link to a folder elsewhere is followed.
    let other = kit::dir();
    files(other.path(), &["z.csv"], |_| "id\n2\n".into());
    symlink(other.path(), dir.path().join("sub")).unwrap();
    assert_eq!(key(&*open(&Input::new(dir.path())).unwrap(), "id"), ["1", "1", "2"]);
}

#[test]
fn two_thousand_files_need_few_handles() {
    let dir = dir();
    const FILES: usize = 2000;
    for i in 0..FILES {
        fs::write(dir.path().join(format!("{i:04}.csv")), format!("id,v\n{i},a\nx{i},b\n")).unwrap();
    }
    let handles = || fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let before = handles();
    let table = open(&Input::new(dir.path())).unwrap();
    assert!(handles() < before + 100, "{before} and then {}", handles());
    let mut most = 0;
    let mut rows = 0;
    for batch in table.keys(&strings(&["id"]), 2).unwrap() {
        rows += batch.unwrap().num_rows();
        most = most.max(handles());
    }
    assert!(rows == 2 * FILES && most < before + 100, "{most}");
    let out = dir.path().join("../of-two-thousand.csv");
    let picked = [Some(0), Some(1), Some(2047), Some(3999)];
    assert_eq!(write(&*table, &Output::new(&out), &picked, 1 << 20).unwrap(), b"id,v\n0,a\nx0,b\nx1023,b\nx1999,b\n");
    fs::remove_file(out).unwrap();
}

/// Everything that may change between two reads of a folder.
#[test]
fn a_folder_that_changes_is_noticed() {
    type Change<'a> = &'a dyn Fn(&Path);
    let changes: [(Change<'_>, &str); 6] = [
        (&|dir| fs::write(dir.join("1.csv"), "id\n1\n1\n").unwrap(), "1.csv"),
        (&|dir| fs::write(dir.join("3.csv"), "id\n7\n").unwrap(), "3.csv"),
        (&|dir| fs::write(dir.join("0.csv"), "id\n7\n").unwrap(), "0.csv"),
        (&|dir| fs::remove_file(dir.join("2.csv")).unwrap(), "2.csv"),
        (&|dir| fs::rename(dir.join("2.csv"), dir.join("4.csv")).unwrap(), "csv"),
        (
            &|dir| {
                fs::write(dir.join("x"), "id\n2\n").unwrap();
                fs::rename(dir.join("x"), dir.join("2.csv")).unwrap();
            },
            "2.csv",
        ),
    ];
    for (change, named) in changes {
        for between in [false, true] {
            let dir = dir();
            files(dir.path(), &["1.csv", "2.csv"], |i| format!("id\n{i}\n"));
            let table = open(&Input::new(dir.path())).unwrap();
            if between {
                assert_eq!(key(&*table, "id"), ["0", "1"]);
            }
            std::thread::sleep(Duration::from_millis(20));
            change(dir.path());
            let error = match between {
                false => try_keys(&*table, &["id"]).unwrap_err(),
                true => {
                    let rows = &mut [RowId(1)].into_iter().map(Ok);
                    table
                        .select(rows, Selection { form: Form::Verbatim, columns: &[0], workers: 1 }, &mut |_| Ok(()))
                        .unwrap_err()
                }
            };
            let text = error.to_string();
            assert!(matches!(error, Error::Changed { .. }) && text.contains(named), "{text}");
        }
    }
}

#[test]
fn an_output_is_none_of_the_files_and_does_not_become_one() {
    let dir = dir();
    files(dir.path(), &["in/1.csv", "in/sub/2.csv"], |i| format!("id\n{i}\n"));
    let inputs = |path: &str| open(&Input::new(dir.path().join(path))).unwrap();
    let refused =
        |table: &dyn Table, path: &str| create(&Output::new(dir.path().join(path)), &table.facts()).err().unwrap();
    assert!(matches!(refused(&*inputs("in"), "in/1.csv"), Error::Overwrite { .. }));
    assert!(matches!(refused(&*inputs("in"), "in/new.csv"), Error::Within { .. }));
    assert!(matches!(refused(&*inputs("in"), "in/sub/../new.csv"), Error::Within { .. }));
    assert!(matches!(refused(&*inputs("in/**/*.csv"), "in/sub/new.csv"), Error::Within { .. }));
    assert!(create(&Output::new(dir.path().join("in/sub/new.csv")), &inputs("in/*.csv").facts()).is_ok());
    assert!(create(&Output::new(dir.path().join("in/_new.csv")), &inputs("in").facts()).is_ok());
    assert!(create(&Output::new(dir.path().join("new.csv")), &inputs("in").facts()).is_ok());
    let folder = refused(&*inputs("in"), "out/");
    assert!(matches!(folder, Error::Folder { fault: Fault::Config, .. }), "{folder}");
}

/// What names a run that goes on: the bytes of all files, and their names.
#[test]
fn several_files_are_told_apart_by_their_bytes_and_names() {
    let whole = |names: &[&str]| {
        let dir = dir();
        files(dir.path(), names, |i| format!("id\n{i}\n"));
        let table = open(&Input::new(dir.path())).unwrap();
        let (source, mut all, mut buf) = (table.source().unwrap(), Vec::new(), [0; 3]);
        loop {
            match source.read_at(&mut buf, all.len() as u64).unwrap() {
                0 => break,
                n => all.extend_from_slice(&buf[..n]),
            }
        }
        assert_eq!(all.len() as u64, source.bytes());
        String::from_utf8(all).unwrap()
    };
    assert_eq!(whole(&["1.csv", "x/2.csv"]), "id\n0\nid\n1\n\n5 bytes: 1.csv\n5 bytes: x/2.csv");
    assert_ne!(whole(&["1.csv", "x/2.csv"]), whole(&["1.csv", "x/3.csv"]));
}
