//! CSV, plain and compressed, by one thread and by several that begin in the middle of the file.
#![no_main]

use vesica_fuzz::tables;
use vesica_table::{Format, fuzzing};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&how, text)) = bytes.split_first() else { return };
    let name = ["table.csv", "table.csv.gz", "table.csv.zst"][usize::from(how % 3)];
    let path = vesica_fuzz::file(name, text);
    tables::read(path.clone(), Format::Csv);
    // Threads cost more than all the rest, so that only some inputs get them.
    if how >= 0xc0 && name == "table.csv" {
        fuzzing::csv_in_stretches(&path, u64::from(how & 0x1f) + 1);
    }
});
