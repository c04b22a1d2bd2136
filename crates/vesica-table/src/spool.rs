//! A table that can be read once becomes one that can be read twice.

use crate::collect::Spool;
use crate::ipc::IpcTable;
use crate::{Error, Source, Table};
use arrow_array::RecordBatchReader;
use std::path::Path;

/// The rows of `reader`, as a table that messages call `name`. They are kept in a file in `dir` that has no name and is
/// gone however the program ends; one batch is in memory at a time. As with a table that comes through a pipe, the rows
/// stand there in the clear while the run lasts.
///
/// # Errors
/// [`Error::Corrupt`] if the reader fails; those of writing the file.
pub fn spool(name: &Path, reader: &mut dyn RecordBatchReader, dir: &Path) -> Result<Box<dyn Table>, Error> {
    let mut spool = Spool::open(dir, &reader.schema())?;
    for batch in reader {
        let batch = batch.map_err(|error| Error::Corrupt { path: name.to_owned(), why: error.to_string() })?;
        spool.write(&batch)?;
    }
    Ok(Box::new(IpcTable::open(Source::private(name, spool.file()?)?, false)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator};
    use arrow_schema::ArrowError;
    use std::sync::Arc;

    fn batch(from: i64) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 1000));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    }

    #[test]
    fn a_stream_can_be_read_twice() {
        let dir = tempfile::tempdir().unwrap();
        let mut reader = RecordBatchIterator::new((0..5).map(|i| Ok(batch(1000 * i))), batch(0).schema());
        let table = spool(Path::new("the stream"), &mut reader, dir.path()).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the file has no name");
        for _ in 0..2 {
            let rows: usize = table.keys(&["n".into()], 1).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
            assert_eq!(rows, 5000);
        }
    }

    #[test]
    fn a_stream_that_fails_is_named_with_its_words() {
        let dir = tempfile::tempdir().unwrap();
        let broken = [Ok(batch(0)), Err(ArrowError::ComputeError("the database went away".into()))];
        let mut reader = RecordBatchIterator::new(broken, batch(0).schema());
        let error = spool(Path::new("the stream"), &mut reader, dir.path()).err().unwrap().to_string();
        assert!(error.starts_with("the stream") && error.contains("the database went away"), "{error}");
    }
}
