//! Keys under every rule: mail addresses, telephone numbers, any text.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| vesica_job::fuzzing::rules(text));
