//! SecretFlow's launch configurations and Kuscia's task files, up to the plan that they mean.
#![no_main]

use vesica_secretflow::{Kind, Trust, What, read};

libfuzzer_sys::fuzz_target!(|text: &str| {
    for kind in [Kind::Launch, Kind::Kuscia] {
        for trust in [Trust::AsWritten, Trust::Insecure] {
            if let Ok(imported) = read(text, kind, &trust) {
                match imported.what {
                    What::Job(spec) => drop(vesica_spec::plan(&spec)),
                    What::Server(server) => drop(server.plan()),
                    What::Client(client) => drop(client.plan()),
                }
            }
        }
    }
});
