//! Frames of a peer, among whatever this side does meanwhile.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| vesica_net::fuzzing::frames(script));
