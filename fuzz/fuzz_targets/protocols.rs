//! Every message of every protocol, spoiled on its way to an honest party.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vesica_fuzz::protocol::run(input));
