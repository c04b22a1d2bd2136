//! Tables, read whole as a run reads them.

use std::path::PathBuf;
use vesica_table::{Error, Fault, Form, Format, Input, Selection, Table, open};
use vesica_types::RowId;

/// Batches that are read of a file: a compressed one of a few kilobytes can stand for gigabytes.
const BATCHES: usize = 64;

/// Decoders of other projects panic on some damaged files; the reader catches that and calls the file corrupt. Here such a panic
/// must not end the process, as every panic does by default. One that is not caught still does.
///
/// With `VESICA_FUZZ_PANICS` in the environment, each panic is told.
pub fn let_readers_catch_panics() {
    let tell = std::env::var_os("VESICA_FUZZ_PANICS").is_some();
    std::panic::set_hook(Box::new(move |panic| {
        if tell {
            eprintln!("{panic}");
        }
    }));
}

/// Opens the table in a file and reads it twice: its keys, by one column, by another and by all, and then some of its rows.
pub fn read(path: PathBuf, format: Format) {
    let input = Input { format: Some(format), ..Input::new(path) };
    let Some(table) = refused(open(&input)) else { return };
    let names: Vec<String> = table.columns().iter().map(|column| column.name.clone()).collect();
    let mut rows = 0;
    for keys in names.chunks(1).take(4).chain([names.as_slice()]) {
        rows = rows.max(refused(count(&*table, keys)).unwrap_or(0));
    }
    // The first row, the last one twice, and one that is not there.
    let picks = [0, rows.saturating_sub(1), rows.saturating_sub(1), rows];
    let all: Vec<usize> = (0..names.len()).collect();
    let forms = if format == Format::Csv { &[Form::Verbatim, Form::Arrow][..] } else { &[Form::Arrow] };
    for form in forms {
        let mut picks = picks.iter().map(|row| Ok(RowId(*row)));
        refused(table.select(&mut picks, Selection { form: *form, columns: &all, workers: 1 }, &mut |_| Ok(())));
    }
}

/// The rows of a pass over the keys.
fn count(table: &dyn Table, keys: &[String]) -> Result<u64, Error> {
    table.keys(keys, 1)?.take(BATCHES).map(|batch| Ok(batch?.num_rows() as u64)).sum()
}

/// What was read. A file is refused for its own fault, never for a bug of this program's.
pub fn refused<T>(read: Result<T, Error>) -> Option<T> {
    read.inspect_err(|error| assert_ne!(error.fault(), Fault::Bug, "{error}")).ok()
}
