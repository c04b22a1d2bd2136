//! A table in Parquet with a column of each kind.

use ::parquet::arrow::ArrowWriter;
use arrow_array::{ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray};
use std::path::Path;
use std::sync::Arc;

/// Rows 0 to `rows`: row i has the key 3·i.
pub fn typed(path: &Path, rows: u32) {
    let all = || (0..rows).map(i64::from);
    let columns: [(&str, ArrayRef); 6] = [
        ("id", Arc::new(all().map(|row| 3 * row).collect::<Int64Array>())),
        ("name", Arc::new(all().map(|row| (row != 255).then(|| format!("n{row}"))).collect::<StringArray>())),
        ("price", Arc::new(all().map(|row| Some(row as f64 + 0.5)).collect::<Float64Array>())),
        ("day", Arc::new(all().map(|row| Some(20_574 + (row % 2) as i32)).collect::<Date32Array>())),
        ("sold", Arc::new(all().map(|row| Some(row % 2 == 0)).collect::<BooleanArray>())),
        ("score", Arc::new(all().map(|row| 7 * row).collect::<Int64Array>())),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(std::fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// The values of a row as they are written in CSV.
pub fn text(row: u32) -> String {
    let name = if row == 255 { String::new() } else { format!("n{row}") };
    let (day, sold) = if row.is_multiple_of(2) { ("2026-05-01", "true") } else { ("2026-05-02", "false") };
    format!(",{name},{row}.5,{day},{sold},{}", 7 * row)
}
