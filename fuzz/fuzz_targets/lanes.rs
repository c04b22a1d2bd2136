//! What a peer says of its lanes: where its doors are, and which units of a lane it has finished.
#![no_main]

use std::sync::LazyLock;
use vesica_job::fuzzing;
use vesica_spec::Plan;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static PLAN: LazyLock<Plan> = LazyLock::new(|| vesica_fuzz::plan("alice", "rr22"));
    let Some((how, bytes)) = bytes.split_first() else { return };
    let pieces = vesica_fuzz::pieces(bytes);
    let piece = |i: usize| pieces.get(i).copied().unwrap_or_default();
    let mine: Vec<bool> = piece(1).iter().map(|digit| digit & 1 == 1).collect();
    fuzzing::lanes(&PLAN, how % 2 == 1, piece(0), &mine, piece(2));
});
