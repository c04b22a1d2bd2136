//! Doors to the decoders of this crate for the fuzzing targets, which stand outside the workspace and see only what is public.
//! Nothing else uses them, and they are no part of what this crate promises.

use crate::csv::CsvTable;
use crate::{Error, Source, Table};
use arrow_array::cast::AsArray;
use std::path::Path;

/// Reads the keys of a CSV in stretches of so many bytes by several threads, as is done with large files, and as one stretch by
/// one thread.
///
/// # Panics
/// If the two do not find the same. Before an error, one of them may give more rows than the other: batches end elsewhere.
pub fn csv_in_stretches(path: &Path, bytes: u64) {
    let open = || CsvTable::open(Source::plain(path)?);
    let (Ok(one), Ok(many)) = (open(), open()) else { return };
    let ((mut one, why), (mut many, as_well)) = (keys(&one, 1), keys(&many.in_stretches(bytes), 3));
    if why.is_some() {
        let both = one.len().min(many.len());
        one.truncate(both);
        many.truncate(both);
    }
    assert_eq!((one, why), (many, as_well));
}

/// The keys of all rows by all columns, and the error that ended them.
fn keys(table: &CsvTable, workers: usize) -> (Vec<String>, Option<String>) {
    let names: Vec<String> = table.columns().iter().map(|column| column.name.clone()).collect();
    let mut found = Vec::new();
    let mut read = || -> Result<(), Error> {
        for batch in table.keys(&names, workers)? {
            let batch = batch?;
            let texts: Vec<_> = batch.columns().iter().map(|column| column.as_string::<i32>()).collect();
            let row = |row| texts.iter().map(|text| text.value(row)).collect::<Vec<_>>().join("|");
            found.extend((0..batch.num_rows()).map(row));
        }
        Ok(())
    };
    let error = read().err().map(|error| error.to_string());
    (found, error)
}
