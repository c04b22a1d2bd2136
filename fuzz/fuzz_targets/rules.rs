//! Keys under every rule that a job may name: mail addresses, telephone numbers, any text.
#![no_main]

use std::sync::LazyLock;
use vesica_spec::Rule;

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let phones = ["phone:CH", "phone:US"].map(|name| name.parse().expect("a rule"));
    Rule::PLAIN.iter().copied().chain(phones).collect()
});

// A rule changes nothing that it has changed before.
libfuzzer_sys::fuzz_target!(|text: &str| {
    for rule in RULES.iter() {
        let once = Rule::apply_all(&[*rule], text);
        assert_eq!(Rule::apply_all(&[*rule], &once), once, "{rule} of {text:?}");
    }
});
