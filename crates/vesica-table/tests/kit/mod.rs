use std::path::{Path, PathBuf};
use tempfile::TempDir;
use vesica_table::{Error, Input, Output, Picks, Table, create, gather, open};
use vesica_types::RowId;

use arrow_array::StringArray;

/// A folder for one test, removed at its end.
pub fn dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A file called `name` with the given content.
pub fn file(dir: &TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

pub fn table(path: &Path) -> Box<dyn Table> {
    open(&Input::new(path)).unwrap()
}

pub fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|&n| n.to_owned()).collect()
}

/// The keys of every row.
pub fn try_keys(table: &dyn Table, columns: &[&str]) -> Result<Vec<Vec<String>>, Error> {
    let mut rows = Vec::new();
    for batch in table.keys(&strings(columns), 2)? {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let text = |c: &arrow_array::ArrayRef| {
                let texts = c.as_any().downcast_ref::<StringArray>().expect("keys are texts");
                assert_eq!(arrow_array::Array::null_count(texts), 0);
                texts.value(row).to_owned()
            };
            rows.push(batch.columns().iter().map(text).collect());
        }
    }
    Ok(rows)
}

pub fn keys(table: &dyn Table, columns: &[&str]) -> Vec<Vec<String>> {
    try_keys(table, columns).unwrap()
}

/// The keys of a table of one key column.
pub fn key(table: &dyn Table, column: &str) -> Vec<String> {
    keys(table, &[column]).into_iter().map(|mut row| row.remove(0)).collect()
}

/// What stands at `path` once `rows` of `table`, in that order, have been written there. `None` is an absent row.
pub fn write(table: &dyn Table, output: &Output, rows: &[Option<u64>], memory: usize) -> Result<Vec<u8>, Error> {
    let temp = dir();
    let mut picks = Picks::new(table.rows().unwrap_or(10), memory, temp.path())?;
    for (position, row) in rows.iter().enumerate() {
        match row {
            Some(row) => picks.push(RowId(*row), position as u64)?,
            None => picks.push_absent(position as u64)?,
        }
    }
    let mut sink = create(output, &table.facts())?;
    assert_eq!(gather(table, picks, memory, 2, temp.path(), &mut *sink)?, rows.len() as u64);
    let written = sink.finish()?.commit()?;
    assert_eq!(written.rows, rows.len() as u64);
    let bytes = std::fs::read(&written.path).unwrap();
    assert_eq!(written.bytes, bytes.len() as u64);
    Ok(bytes)
}

/// As [`write`], to a new CSV.
pub fn csv(table: &dyn Table, rows: &[u64]) -> String {
    let dir = dir();
    let rows: Vec<_> = rows.iter().copied().map(Some).collect();
    String::from_utf8(write(table, &Output::new(dir.path().join("out.csv")), &rows, 1 << 20).unwrap()).unwrap()
}
