//! Rows leave in order of position, whatever the order of arrival and however small the memory.

use crate::kit;

use kit::*;
use proptest::prelude::*;
use std::fmt::Write;
use vesica_table::{Error, Fault, Form, Output, Picks, Selection, create, gather};
use vesica_types::RowId;

/// A table of `n` rows of very different lengths, some with newlines.
fn rows(n: u64) -> Vec<String> {
    let row = |i: u64| match i % 7 {
        0 => format!("{i},\"x\n{}\"\n", "y".repeat((i * 37 % 400) as usize)),
        1 => format!("{i},\r\n"),
        _ => format!("{i},{}\n", i * i),
    };
    (0..n).map(row).collect()
}

fn text(rows: &[String]) -> String {
    format!("id,v\n{}", rows.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_choice_in_any_order_in_any_memory(
        n in 1u64..300,
        chosen in prop::collection::vec(prop::option::weighted(0.9, any::<prop::sample::Index>()), 0..600),
        memory in 300usize..40_000,
    ) {
        let dir = dir();
        let rows = rows(n);
        let table = table(&file(&dir, "in.csv", text(&rows)));
        let chosen: Vec<_> = chosen.into_iter().map(|c| c.map(|i| i.index(n as usize) as u64)).collect();
        let output = Output { null: "-".into(), absent: true, ..Output::new(dir.path().join("out.csv")) };
        let out = write(&*table, &output, &chosen, memory).unwrap();
        let row = |c: &Option<u64>| c.map_or("-,-\n", |i| rows[i as usize].as_str()).to_owned();
        prop_assert_eq!(String::from_utf8(out).unwrap(), text(&chosen.iter().map(row).collect::<Vec<_>>()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn rows_in_turn_stand_in_the_order_of_the_table(
        times in prop::collection::vec(0u64..4, 1..300),
        placed in prop::collection::vec(any::<prop::sample::Index>(), 0..100),
        in_front: bool,
        memory in 300usize..40_000,
    ) {
        let dir = dir();
        let n = times.len();
        let rows = rows(n as u64);
        let table = table(&file(&dir, "in.csv", text(&rows)));
        let turns: Vec<usize> = (0..n).flat_map(|row| (0..times[row]).map(move |_| row)).collect();
        let placed: Vec<usize> = placed.into_iter().map(|row| row.index(n)).collect();
        let (turns_from, placed_from) = if in_front { (placed.len(), 0) } else { (0, turns.len()) };
        let mut picks = Picks::new(n as u64, memory, dir.path()).unwrap().turns_from(turns_from as u64);
        // All in some other order: the table's, backwards.
        times.iter().enumerate().rev().for_each(|(row, &times)| picks.push_turn(RowId(row as u64), times).unwrap());
        for (place, &row) in placed.iter().enumerate().rev() {
            picks.push(RowId(row as u64), (placed_from + place) as u64).unwrap();
        }
        let all = if in_front { [placed, turns].concat() } else { [turns, placed].concat() };
        prop_assert_eq!(picks.len(), all.len() as u64);
        let mut sink = create(&Output::new(dir.path().join("out.csv")), &table.facts()).unwrap();
        gather(&*table, picks, memory, 1, dir.path(), &mut *sink).unwrap();
        let out = std::fs::read(sink.finish().unwrap().commit().unwrap().path).unwrap();
        let all: Vec<String> = all.into_iter().map(|row| rows[row].clone()).collect();
        prop_assert_eq!(String::from_utf8(out).unwrap(), text(&all));
    }
}

#[test]
fn a_row_picked_a_million_times_needs_no_memory() {
    let dir = dir();
    let rows = rows(1000);
    let table = table(&file(&dir, "in.csv", text(&rows)));
    let chosen: Vec<_> = (0..1_000_000u64).map(|i| Some(if i % 10 == 0 { i / 10 % 1000 } else { 501 })).collect();
    let out = write(&*table, &Output::new(dir.path().join("out.csv")), &chosen, 1 << 16).unwrap();
    let expected: Vec<String> = chosen.iter().map(|c| rows[c.unwrap() as usize].clone()).collect();
    assert!(out == text(&expected).as_bytes());
}

#[test]
fn an_estimate_of_the_rows_may_be_wrong() {
    let dir = dir();
    let rows = rows(20_000);
    let table = table(&file(&dir, "in.csv", text(&rows)));
    assert_eq!(table.rows(), None);
    for guess in [0, 1, 100, 1 << 40] {
        let mut picks = Picks::new(guess, 1 << 14, dir.path()).unwrap();
        (0..20_000).for_each(|i| picks.push(RowId(i), 19_999 - i).unwrap());
        assert_eq!(picks.len(), 20_000);
        let mut sink = create(&Output::new(dir.path().join("out.csv")), &table.facts()).unwrap();
        gather(&*table, picks, 1 << 14, 2, dir.path(), &mut *sink).unwrap();
        let path = sink.finish().unwrap().commit().unwrap().path;
        let expected: Vec<String> = rows.iter().rev().cloned().collect();
        assert!(std::fs::read(path).unwrap() == text(&expected).as_bytes());
    }
}

/// What is taken once is a bit. A row may be taken again, and may be one that nobody counted on.
#[test]
fn rows_in_turn_may_come_again_and_be_more_than_were_said() {
    let dir = dir();
    let rows = rows(3000);
    let table = table(&file(&dir, "in.csv", text(&rows)));
    for guess in [0, 1, 64, 1000, 3000, 1 << 40] {
        let mut picks = Picks::new(guess, 1 << 14, dir.path()).unwrap();
        (0..3000).rev().filter(|row| row % 3 != 0).for_each(|row| picks.push_turn(RowId(row), 1).unwrap());
        (0..3000).step_by(7).for_each(|row| picks.push_turn(RowId(row), 1 + row % 3).unwrap());
        let times =
            |row: usize| usize::from(!row.is_multiple_of(3)) + if row.is_multiple_of(7) { 1 + row % 3 } else { 0 };
        let expected: Vec<String> = (0..3000).flat_map(|row| vec![rows[row].clone(); times(row)]).collect();
        assert_eq!(picks.len(), expected.len() as u64);
        let mut sink = create(&Output::new(dir.path().join("out.csv")), &table.facts()).unwrap();
        gather(&*table, picks, 1 << 14, 2, dir.path(), &mut *sink).unwrap();
        let path = sink.finish().unwrap().commit().unwrap().path;
        assert!(std::fs::read(path).unwrap() == text(&expected).as_bytes(), "{guess}");
    }
}

/// Of many rows some are taken, as if each of these had come by itself.
#[test]
fn rows_that_are_taken_of_many_stand_in_their_turn_and_not_twice() {
    let dir = dir();
    let rows = rows(3000);
    let table = table(&file(&dir, "in.csv", text(&rows)));
    let given: Vec<u64> = (0..3000).map(|i| i * 1001 % 3000).collect();
    let is_taken = |row: u64| !row.is_multiple_of(3);
    for guess in [0, 64, 1000, 3000, 1 << 40] {
        let mut picks = Picks::new(guess, 1 << 14, dir.path()).unwrap();
        for given in given.chunks(700) {
            let word = |rows: &[u64]| (0..).zip(rows).fold(0, |word, (i, row)| word | u64::from(is_taken(*row)) << i);
            picks.push_turns(given, &given.chunks(64).map(word).collect::<Vec<_>>()).unwrap();
        }
        let expected: Vec<String> =
            (0..3000).filter(|row| is_taken(*row)).map(|row| rows[row as usize].clone()).collect();
        assert_eq!(picks.len(), expected.len() as u64);
        let mut sink = create(&Output::new(dir.path().join("out.csv")), &table.facts()).unwrap();
        gather(&*table, picks, 1 << 14, 2, dir.path(), &mut *sink).unwrap();
        let path = sink.finish().unwrap().commit().unwrap().path;
        assert!(std::fs::read(path).unwrap() == text(&expected).as_bytes(), "{guess}");
    }
    let mut picks = Picks::new(10, 1 << 14, dir.path()).unwrap();
    picks.push_turns(&[3, 4], &[0b01]).unwrap();
    picks.push_turns(&[3, 4], &[0b10]).unwrap();
    assert_eq!(picks.len(), 2);
    assert_eq!(picks.push_turns(&[5, 4], &[0b10]).unwrap_err().fault(), Fault::Bug);
}

#[test]
fn positions_that_are_no_permutation_are_a_bug_and_no_output() {
    let dir = dir();
    let table = table(&file(&dir, "in.csv", "id\na\nb\nc\n"));
    for positions in [[0, 0, 1], [0, 1, 3], [2, 1, 1], [1, 2, 3]] {
        let mut picks = Picks::new(3, 1 << 20, dir.path()).unwrap();
        (0..3).for_each(|i| picks.push(RowId(i), positions[i as usize]).unwrap());
        let mut sink = create(&Output::new(dir.path().join("out.csv")), &table.facts()).unwrap();
        let error = gather(&*table, picks, 1 << 20, 2, dir.path(), &mut *sink).unwrap_err();
        assert_eq!(error.fault(), Fault::Bug, "{positions:?}: {error}");
    }
}

#[test]
fn a_row_that_is_not_there_is_a_changed_file() {
    let dir = dir();
    let table = table(&file(&dir, "in.csv", "id\na\nb\nc\n"));
    assert!(matches!(
        write(&*table, &Output::new(dir.path().join("out.csv")), &[Some(0), Some(3)], 1 << 20),
        Err(Error::Changed { .. })
    ));
    assert!(!dir.path().join("out.csv").exists());
}

#[test]
fn selected_rows_must_ascend_and_may_repeat() {
    let dir = dir();
    let table = table(&file(&dir, "in.csv", "id\na\nb\nc\n"));
    let select = |rows: &[u64]| {
        let mut text = String::new();
        let mut rows = rows.iter().map(|&r| Ok(RowId(r)));
        table
            .select(&mut rows, Selection { form: Form::Arrow, columns: &[0], workers: 2 }, &mut |batch| {
                let column = batch.column(0).as_any().downcast_ref::<arrow_array::StringArray>().unwrap();
                column.iter().for_each(|t| write!(text, "{}", t.unwrap()).unwrap());
                Ok(())
            })
            .map(|()| text)
    };
    assert_eq!(select(&[0, 0, 2, 2, 2]).unwrap(), "aaccc");
    assert_eq!(select(&[]).unwrap(), "");
    assert_eq!(select(&[1, 0]).unwrap_err().fault(), Fault::Bug);
}

/// Peak memory of this process, in bytes.
#[cfg(target_os = "linux")]
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// The process that [`the_memory_is_kept`] starts.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "started by another test"]
fn child_gathers_in_little_memory() {
    let dir = dir();
    let path = dir.path().join("in.csv");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    std::io::Write::write_all(&mut file, b"id,v\n").unwrap();
    const N: u64 = 1_500_000;
    for i in 0..N {
        std::io::Write::write_all(&mut file, format!("{i},{}\n", "z".repeat(90)).as_bytes()).unwrap();
    }
    drop(file);
    let table = table(&path);
    let before = peak();
    let memory = 16 << 20;
    assert_eq!(table.keys(&strings(&["id"]), 2).unwrap().map(|b| b.unwrap().num_rows() as u64).sum::<u64>(), N);
    for name in ["out.csv", "out.parquet"] {
        let mut sink = create(&Output::new(dir.path().join(name)), &table.facts()).unwrap();
        let mut picks = Picks::new(N, memory, dir.path()).unwrap();
        (0..N).for_each(|i| picks.push(RowId(i * 1_000_003 % N), i).unwrap());
        gather(&*table, picks, memory, 2, dir.path(), &mut *sink).unwrap();
        sink.finish().unwrap().commit().unwrap();
        let grown = peak() - before;
        std::io::Write::write_all(&mut std::io::stdout(), format!("{name}: {} MiB\n", grown >> 20).as_bytes()).unwrap();
        // The budget of the picks, of the reordering, and what buffers and one row group take.
        assert!(grown < 110 << 20, "{name}: {} MiB", grown >> 20);
    }
    // Row groups that several threads read and write at once take what they are given, and no more.
    let table = kit::table(&dir.path().join("out.parquet"));
    for memory in [64 << 20, 256 << 20] {
        let mut sink = create(&Output::new(dir.path().join("again.parquet")), &table.facts()).unwrap();
        let mut picks = Picks::new(N, memory, dir.path()).unwrap();
        (0..N).for_each(|i| picks.push_turn(RowId(i), 1).unwrap());
        gather(&*table, picks, memory, 4, dir.path(), &mut *sink).unwrap();
        assert_eq!(sink.finish().unwrap().commit().unwrap().rows, N);
        let grown = peak() - before;
        std::io::Write::write_all(&mut std::io::stdout(), format!("again: {} MiB\n", grown >> 20).as_bytes()).unwrap();
        assert!(grown < (110 << 20) + memory as u64, "{} MiB", grown >> 20);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_memory_is_kept() {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "gather::child_gathers_in_little_memory"])
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && out.contains("1 passed"), "{out}");
}
