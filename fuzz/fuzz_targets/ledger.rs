//! The ledger that an earlier attempt left: records under honest seals, and files that are anything.
#![no_main]

use std::sync::LazyLock;
use vesica_job::fuzzing;
use vesica_spec::Plan;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static PLAN: LazyLock<Plan> = LazyLock::new(|| vesica_fuzz::plan("alice", "ecdh"));
    let Some((how, bytes)) = bytes.split_first() else { return };
    let mut pieces = vesica_fuzz::pieces(bytes);
    let first = match how % 2 {
        0 => None,
        _ if pieces.is_empty() => Some(&[][..]),
        _ => Some(pieces.remove(0)),
    };
    let rest = if how & 2 == 0 { None } else { pieces.pop() };
    fuzzing::ledger(&PLAN, first, &pieces, rest.unwrap_or_default(), vesica_fuzz::scratch());
});
