//! What a peer sends before frames: TLS records, the hello, the verdict; and what gateways and proxies send before that.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| vesica_net::fuzzing::greeting(bytes));
