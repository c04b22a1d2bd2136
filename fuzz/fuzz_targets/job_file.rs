//! Job files and documents of servers and clients, as TOML and as JSON, up to the plan that they mean.
#![no_main]

use vesica_spec::service::{plan_ask_any, plan_serve};
use vesica_spec::{Document, document, parse, plan};

libfuzzer_sys::fuzz_target!(|text: &str| {
    for read in [document(text, false), document(text, true)].into_iter().flatten() {
        match read {
            Document::Job(spec) => {
                if plan(&spec).is_ok() {
                    // What is written again means the same.
                    assert_eq!(parse(&spec.text()).as_ref(), Ok(&*spec));
                }
            }
            Document::Server(spec) => {
                if plan_serve(&spec).is_ok() {
                    assert_eq!(document(&spec.text(), false), Ok(Document::Server(spec)));
                }
            }
            Document::Client(spec) => {
                if plan_ask_any(&spec).is_ok() {
                    assert_eq!(document(&spec.text(), false), Ok(Document::Client(spec)));
                }
            }
        }
    }
});
