//! SecretFlow's launch configurations and Kuscia's task files, up to the plan that they mean.
#![no_main]

use vesica_secretflow::{Kind, Trust, read};

libfuzzer_sys::fuzz_target!(|text: &str| {
    for kind in [Kind::Launch, Kind::Kuscia] {
        for trust in [Trust::AsWritten, Trust::Insecure] {
            if let Ok(imported) = read(text, kind, &trust) {
                let _ = vesica_spec::plan(&imported.spec);
            }
        }
    }
});
