//! Outputs of several files: how rows are cut into them, and that the folder appears whole or not at all.

use crate::kit;

use kit::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use vesica_table::{Error, Format, Input, Memory, Output, Parts, Picks, Table, create, gather, open};
use vesica_testkit::Witness;
use vesica_types::RowId;

/// The least part that a job may ask for.
const MIB: u64 = 1 << 20;

fn output(path: impl AsRef<Path>, parts: Parts) -> Output {
    Output { parts: Some(parts), ..Output::new(path.as_ref()) }
}

/// Writes `rows` in the order of the table.
fn in_turn(table: &dyn Table, output: &Output, rows: &[u64], workers: usize) -> Result<u64, Error> {
    let dir = dir();
    let mut picks = Picks::new(1 << 20, 1 << 20, dir.path())?;
    rows.iter().try_for_each(|&row| picks.push_turn(RowId(row), 1))?;
    let mut sink = create(output, &table.facts())?;
    gather(table, picks, 64 << 20, workers, dir.path(), &mut *sink)?;
    let written = sink.finish()?.commit()?;
    assert_eq!((&written.path, written.rows), (&output.path, rows.len() as u64));
    let bytes = contents(&output.path).values().map(Vec::len).sum::<usize>();
    assert_eq!(written.bytes, bytes as u64);
    Ok(written.bytes)
}

/// What stands in a folder.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
    fs::read_dir(folder).unwrap().map(|entry| read(entry.unwrap())).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(name).collect();
    names.sort();
    names
}

/// The parts together are the file that the output would be else, and which row ends one rests on the rows alone.
#[test]
fn parts_of_a_size_are_the_rows_in_their_order() {
    let dir = dir();
    let rows: Vec<String> = (0..60_000).map(|i| format!("{i},{}\n", "x".repeat(i * 7 % 90))).collect();
    let table = table(&file(&dir, "in.csv", format!("id,v\n{}", rows.concat())));
    let picked: Vec<u64> = (0..60_000).filter(|row| row % 3 != 1).collect();
    let whole: String = picked.iter().map(|&row| rows[row as usize].as_str()).collect();
    let mut all = Vec::new();
    for (workers, name) in [(1, "one"), (3, "three.csv.gz")] {
        in_turn(&*table, &output(dir.path().join(name), Parts::Bytes(MIB)), &picked, workers).unwrap();
        let parts = contents(&dir.path().join(name));
        let numbered = (0..parts.len()).map(|i| format!("part-{i:06}.csv"));
        assert_eq!(parts.keys().cloned().collect::<Vec<_>>(), numbered.collect::<Vec<_>>());
        let bodies: Vec<&[u8]> = parts.values().map(|part| part.strip_prefix(b"id,v\n").unwrap()).collect();
        assert_eq!(bodies.concat(), whole.as_bytes());
        assert!(bodies.len() > 1 && bodies[..bodies.len() - 1].iter().all(|body| body.len() as u64 > MIB / 2));
        all.push(parts);
    }
    assert_eq!(all[0], all[1]);
    // Another format, and read as the table that it is.
    let parquet = Output { format: Some(Format::Parquet), ..output(dir.path().join("columns"), Parts::Bytes(MIB)) };
    in_turn(&*table, &parquet, &picked, 2).unwrap();
    assert!(names(&parquet.path).iter().all(|name| name.ends_with(".parquet")) && names(&parquet.path).len() > 1);
    let again = open(&Input::new(&parquet.path)).unwrap();
    let keys = again.keys(&["id".into()], 1).unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>();
    assert_eq!(keys, picked.len());
}

/// With all its parts, and without what stands in a folder that is under way.
#[test]
fn a_folder_that_was_committed_outlives_a_failure_of_power() {
    let dir = dir();
    let rows: String = (0..60_000).map(|i| format!("{i},{}\n", "x".repeat(40))).collect();
    let table = table(&file(&dir, "in.csv", format!("id,v\n{rows}")));
    let witness = Witness::of(dir.path());
    let picked: Vec<u64> = (0..60_000).collect();
    for (name, workers) in [("one", 1), ("three.csv.gz", 3)] {
        let place = dir.path().join(name);
        // An empty folder gives way.
        fs::create_dir(&place).unwrap();
        in_turn(&*table, &output(&place, Parts::Bytes(MIB)), &picked, workers).unwrap();
        assert!(names(&place).len() > 1);
        witness.is_put(&place).unwrap();
    }
}

#[test]
fn a_part_for_each_file_has_its_rows() {
    let dir = dir();
    let of =
        |file: usize, rows: std::ops::Range<u64>| -> String { rows.map(|row| format!("{row},of {file}\n")).collect() };
    let place = |name: &str| dir.path().join("in").join(name);
    fs::create_dir_all(place("sub")).unwrap();
    // One is empty, and of one no row is taken.
    for (file, name, rows) in
        [(0, "a.csv", 0..4000), (1, "b.v2.csv", 0..0), (2, "c.csv", 4000..9000), (3, "sub/a.csv", 9000..9003)]
    {
        fs::write(place(name), format!("id,v\n{}", of(file, rows))).unwrap();
    }
    let table = open(&Input::new(dir.path().join("in"))).unwrap();
    for workers in [1, 3] {
        let out = output(dir.path().join(format!("out{workers}")), Parts::Files);
        let picked: Vec<u64> = (3000..4000).chain(9000..9003).chain([9002]).collect();
        let mut expected = BTreeMap::new();
        expected.insert("000000-a.csv".to_owned(), format!("id,v\n{}", of(0, 3000..4000)).into_bytes());
        let last = [of(3, 9000..9003), of(3, 9002..9003)].concat();
        expected.insert("000003-a.csv".to_owned(), format!("id,v\n{last}").into_bytes());
        in_turn(&*table, &out, &picked, workers).unwrap();
        assert_eq!(contents(&out.path), expected);
        // Rows of the first file alone, of the last alone, and of none.
        for (at, (rows, name)) in
            [(vec![7], "000000-a.csv"), (vec![9001], "000003-a.csv"), (vec![], "part-000000.csv")].iter().enumerate()
        {
            let out = output(dir.path().join(format!("out{workers}-{at}")), Parts::Files);
            in_turn(&*table, &out, rows, workers).unwrap();
            assert_eq!(names(&out.path), [*name]);
        }
    }
    // A single file, whose name says the format twice.
    let single = open(&Input::new(place("b.v2.csv"))).unwrap();
    let out = output(dir.path().join("single"), Parts::Files);
    in_turn(&*single, &out, &[], 1).unwrap();
    assert_eq!(fs::read(out.path.join("part-000000.csv")).unwrap(), b"id,v\n");
    // A file whose name is as long as names can be.
    let long = open(&Input::new(file(&dir, &format!("{}.csv", "é".repeat(125)), "id\na\n"))).unwrap();
    let out = output(dir.path().join("long"), Parts::Files);
    in_turn(&*long, &out, &[0], 1).unwrap();
    assert_eq!(names(&out.path), [format!("000000-{}.csv", "é".repeat(100))]);
}

/// By files, rows cannot stand in another order than that of the input.
#[test]
fn rows_in_another_order_are_not_cut_by_files() {
    let dir = dir();
    let table = table(&file(&dir, "in.csv", "id\na\nb\n"));
    let out = output(dir.path().join("out"), Parts::Files);
    let error = write(&*table, &out, &[Some(1), Some(0)], 1 << 20).unwrap_err();
    assert!(matches!(error, Error::Bug(_)), "{error}");
    assert_eq!(names(dir.path()), ["in.csv"]);
}

#[test]
fn a_folder_appears_whole_or_not_at_all() {
    let dir = dir();
    let table = table(&file(&dir, "in.csv", "id,v\na,1\n"));
    let out = output(dir.path().join("out/"), Parts::Bytes(MIB));
    drop(create(&out, &table.facts()).unwrap());
    assert_eq!(names(dir.path()), ["in.csv"]);
    let staged = create(&out, &table.facts()).unwrap().finish().unwrap();
    // While it is under way it is closed to others.
    let under_way = names(dir.path()).into_iter().find(|name| name.starts_with(".vesica-")).unwrap();
    assert_eq!(fs::metadata(dir.path().join(under_way)).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(!out.path.exists());
    drop(staged);
    assert_eq!(names(dir.path()), ["in.csv"]);
    // An empty folder gives way, and its mode stays.
    fs::create_dir(&out.path).unwrap();
    fs::set_permissions(&out.path, fs::Permissions::from_mode(0o750)).unwrap();
    let written = create(&out, &table.facts()).unwrap().finish().unwrap().commit().unwrap();
    assert_eq!((written.rows, written.bytes, names(&out.path)), (0, 5, vec!["part-000000.csv".to_owned()]));
    assert_eq!(fs::metadata(&out.path).unwrap().permissions().mode() & 0o777, 0o750);
    // One that came to hold something meanwhile does not.
    let late = output(dir.path().join("late"), Parts::Bytes(MIB));
    let staged = create(&late, &table.facts()).unwrap().finish().unwrap();
    fs::create_dir(&late.path).unwrap();
    fs::write(late.path.join("note"), "mine").unwrap();
    assert!(matches!(staged.commit().unwrap_err(), Error::NotEmpty { .. }));
    assert_eq!((names(&late.path), names(dir.path()).len()), (vec!["note".to_owned()], 3));
    // The usual mode.
    let usual = dir.path().join("usual");
    fs::create_dir(&usual).unwrap();
    let new = output(dir.path().join("new"), Parts::Bytes(MIB));
    create(&new, &table.facts()).unwrap().finish().unwrap().commit().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&new.path), mode(&usual));
}

/// Whoever else may write there takes a part away, while rows are written and behind that. What a desktop puts there harms nobody.
#[test]
fn a_folder_that_lacks_parts_is_no_output() {
    let dir = dir();
    let rows: String = (0..60_000).map(|i| format!("{i},{}\n", "x".repeat(60))).collect();
    let table = table(&file(&dir, "in.csv", format!("id,v\n{rows}")));
    let out = output(dir.path().join("out"), Parts::Bytes(MIB));
    let under_way = || {
        let name = names(dir.path()).into_iter().find(|name| name.starts_with(".vesica-"));
        dir.path().join(name.unwrap())
    };
    let written = || {
        let mut picks = Picks::new(1 << 20, 1 << 20, dir.path()).unwrap();
        (0..60_000).try_for_each(|row| picks.push_turn(RowId(row), 1)).unwrap();
        let mut sink = create(&out, &table.facts()).unwrap();
        gather(&*table, picks, 64 << 20, 1, dir.path(), &mut *sink).unwrap();
        fs::write(under_way().join(".DS_Store"), "").unwrap();
        fs::create_dir_all(under_way().join("@eaDir/of a desktop")).unwrap();
        sink
    };
    let take = || fs::remove_file(under_way().join("part-000001.csv")).unwrap();
    let early = written();
    take();
    let early = early.finish().err().unwrap().to_string();
    assert_eq!(names(dir.path()), ["in.csv"]);
    let late = written().finish().unwrap();
    take();
    let late = late.commit().unwrap_err().to_string();
    assert_eq!(names(dir.path()), ["in.csv"]);
    written().finish().unwrap().commit().unwrap();
    assert_eq!(names(&out.path)[..3], [".DS_Store", "@eaDir", "part-000000.csv"]);
    let parts = names(&out.path).len() - 2;
    let told = format!("has {} of {parts} parts; see that nobody else writes there, and run again", parts - 1);
    assert!(parts > 2 && early.contains(&told) && late.contains(&told), "{early}; {late}");
}

/// Somebody who may rename things there puts a folder of results under the name that the output has meanwhile, and its part keeps what it has.
#[test]
fn a_part_takes_no_place_in_another_folder() {
    let dir = dir();
    let table = table(&file(&dir, "in.csv", "id,v\n1,x\n"));
    let out = output(dir.path().join("out"), Parts::Bytes(MIB));
    let mut picks = Picks::new(1 << 20, 1 << 20, dir.path()).unwrap();
    picks.push_turn(RowId(0), 1).unwrap();
    let mut sink = create(&out, &table.facts()).unwrap();
    gather(&*table, picks, 64 << 20, 1, dir.path(), &mut *sink).unwrap();
    let name = names(dir.path()).into_iter().find(|name| name.starts_with(".vesica-")).unwrap();
    let (name, away) = (dir.path().join(name), dir.path().join("away"));
    fs::rename(&name, &away).unwrap();
    fs::create_dir(&name).unwrap();
    fs::write(name.join("part-000000.csv"), "mine").unwrap();
    let error = sink.finish().err().unwrap().to_string();
    assert!(error.contains("nobody else writes there"), "{error}");
    assert_eq!((fs::read_to_string(name.join("part-000000.csv")).unwrap(), names(&away)), ("mine".to_owned(), vec![]));
}

#[test]
fn what_cannot_be_a_folder_of_parts_is_refused_at_once() {
    let dir = dir();
    fs::create_dir_all(dir.path().join("in/full")).unwrap();
    fs::write(dir.path().join("in/1.csv"), "id\n1\n").unwrap();
    fs::write(dir.path().join("in/full/2.csv"), "id\n1\n").unwrap();
    let table = open(&Input::new(dir.path().join("in"))).unwrap();
    let refused = |path: &str, parts| create(&output(dir.path().join(path), parts), &table.facts()).err().expect(path);
    let size = Parts::Bytes(MIB);
    assert!(matches!(refused("in", size), Error::NotEmpty { .. }));
    assert!(matches!(refused("in/1.csv", size), Error::NotAFolder { what: "a file", .. }));
    assert!(matches!(refused("no/such/out", size), Error::NoFolder { .. }));
    assert!(matches!(refused("in/out", size), Error::Within { .. }));
    fs::create_dir(dir.path().join("in/empty")).unwrap();
    assert!(matches!(refused("in/empty", size), Error::Within { .. }));
    let pattern = open(&Input::new(dir.path().join("in/**/*.csv"))).unwrap();
    let error = create(&output(dir.path().join("in/out"), size), &pattern.facts()).err().unwrap();
    assert!(matches!(error, Error::Within { .. }), "{error}");
    assert!(matches!(create(&output("-", size), &table.facts()).err().unwrap(), Error::NotAFolder { .. }));
    let batch = arrow_array::RecordBatch::new_empty(table.schema());
    let memory = Memory::new("rows", table.schema(), vec![batch]).unwrap();
    let error = create(&output(dir.path().join("out"), Parts::Files), &memory.facts()).err().unwrap();
    assert!(matches!(error, Error::NoParts { .. }), "{error}");
    assert_eq!(names(dir.path()), ["in"]);
}
