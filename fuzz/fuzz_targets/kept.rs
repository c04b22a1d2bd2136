//! The units that an earlier attempt left beside its ledger: a text under honest seals, and files that are anything.
#![no_main]

use vesica_job::fuzzing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| match bytes.split_first() {
    Some((how, raw)) if how % 4 == 3 => fuzzing::kept(&[], Some(raw), vesica_fuzz::scratch()),
    Some((_, text)) => fuzzing::kept(text, None, vesica_fuzz::scratch()),
    None => {}
});
