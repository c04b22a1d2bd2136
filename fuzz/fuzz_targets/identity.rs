//! PEM files: a party's identity in one file and in two, a partner's certificate, the authorities' certificates.
#![no_main]

use vesica_net::{Fingerprint, Identity, Roots};

libfuzzer_sys::fuzz_target!(|pem: &[u8]| {
    let path = vesica_fuzz::file("identity.pem", pem);
    if let Ok(identity) = Identity::load(&path) {
        let _ = (identity.fingerprint(), identity.expires());
    }
    let _ = Identity::load_pair(&path, &path);
    let _ = Fingerprint::of_file(&path);
    let _ = Roots::load(&path);
});
