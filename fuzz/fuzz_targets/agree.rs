//! The first words between parties: the hello, a commitment to coins, the coins.
#![no_main]

use std::sync::LazyLock;
use vesica_job::fuzzing;
use vesica_spec::Plan;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static PLANS: LazyLock<[Plan; 2]> = LazyLock::new(|| ["ecdh", "rr22"].map(|name| vesica_fuzz::plan("alice", name)));
    let Some((which, bytes)) = bytes.split_first() else { return };
    let pieces = vesica_fuzz::pieces(bytes);
    let piece = |i: usize| pieces.get(i).copied().unwrap_or_default();
    let plan = &PLANS[usize::from(which % 2)];
    fuzzing::agree(plan, [piece(0), piece(1), piece(2)], vesica_fuzz::scratch());
});
