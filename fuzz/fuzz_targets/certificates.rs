//! A peer's chain of certificates, and an authority's certificate: DER.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let pieces = vesica_fuzz::pieces(bytes);
    if let Some((authority, chain)) = pieces.split_first() {
        vesica_net::fuzzing::certificates(authority, chain);
    }
});
