//! The files of a store: a manifest as a server sends it, a part with its header and what is searched behind it, a sealed value. With
//! checksums as they come, and with right ones and under right seals, which no fuzzer guesses.
#![no_main]

use vesica_store::fuzzing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| match bytes.split_first() {
    Some((how, manifest)) if how % 5 == 0 => fuzzing::manifest(manifest),
    Some((how, manifest)) if how % 5 == 1 => fuzzing::resealed_manifest(manifest),
    Some((how, part)) if how % 5 == 2 => fuzzing::part(part),
    Some((how, part)) if how % 5 == 3 => fuzzing::resealed_part(part),
    Some((_, text)) => fuzzing::value(text),
    None => {}
});
