//! Arrow IPC: files and streams.
#![no_main]

use vesica_fuzz::tables;
use vesica_table::Format;

libfuzzer_sys::fuzz_target!(init: tables::let_readers_catch_panics(), |bytes: &[u8]| {
    tables::read(vesica_fuzz::file("table.arrow", bytes), Format::Ipc);
});
