//! Two tables that are read once, a batch at a time, and a result that is read in the same way. Here the batches are made up; in
//! your program they come from a database, a queue or a file of any format that Arrow knows.
//!
//! ```sh
//! cargo run --release --example streaming               # 100,000 rows a side
//! cargo run --release --example streaming -- 100000000
//! ```

#![allow(clippy::print_stdout)] // An example talks to whoever runs it.

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StringArray};
use arrow_schema::{DataType, Field, Schema};
use std::sync::Arc;
use vesica::{Connection, Job, Protocol};

/// Rows of a batch.
const BATCH: u64 = 8192;

/// A table of `rows` rows whose keys are the multiples of `step`.
fn table(rows: u64, step: u64) -> impl RecordBatchReader {
    let fields = vec![Field::new("id", DataType::Utf8, false), Field::new("amount", DataType::Int64, false)];
    let schema = Arc::new(Schema::new(fields));
    let of = schema.clone();
    let batches = (0..rows).step_by(BATCH as usize).map(move |from| {
        let rows = from..(from + BATCH).min(rows);
        let ids: StringArray = rows.clone().map(|i| Some(format!("{:012}", i * step))).collect();
        let amounts = Int64Array::from_iter_values(rows.map(|i| i as i64 % 1000));
        RecordBatch::try_new(of.clone(), vec![Arc::new(ids) as ArrayRef, Arc::new(amounts)])
    });
    RecordBatchIterator::new(batches, schema)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rows: u64 = std::env::args().nth(1).map_or(Ok(100_000), |rows| rows.parse())?;
    let job = Job::new("streaming", &["alice", "bob"], Protocol::Rr22, &["alice"]);
    let (here, there) = Connection::pair()?;
    let theirs = job.clone();
    let bob = std::thread::spawn(move || theirs.side("bob").memory(256 << 20).stream(table(rows, 3), &["id"], [there]));
    let joined = job.side("alice").memory(256 << 20).stream(table(rows, 2), &["id"], [here])?;
    bob.join().expect("bob does not panic")?;

    let mut found = 0;
    for batch in joined.rows.expect("alice learns") {
        found += batch?.num_rows() as u64;
    }
    // Multiples of 2 and of 3 that both have: the multiples of 6 below 2 * rows.
    assert_eq!(found, (2 * rows).div_ceil(6));
    println!("{found} of {rows} rows matched; {} MiB at most", joined.report.total.peak_memory >> 20);
    Ok(())
}
