//! Job files, as TOML and as JSON, up to the plan that they mean; and invitations to jobs.
#![no_main]

use vesica_spec::{Invitation, parse, parse_json, plan};

libfuzzer_sys::fuzz_target!(|text: &str| {
    for spec in [parse(text), parse_json(text)].into_iter().flatten() {
        if plan(&spec).is_ok() {
            // What is written again means the same.
            assert_eq!(parse(&spec.text()).as_ref(), Ok(&spec));
        }
    }
    if let Ok(invitation) = Invitation::parse(text) {
        assert!(Invitation::parse(&invitation.text()).is_ok());
    }
});
