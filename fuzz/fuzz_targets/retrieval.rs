//! Every message of retrieval: an epoch's document, a log of changes, a hint with its patch, queries and answers of every scheme, a window
//! of Piano. Behind the bytes of an epoch that is right, where a scheme looks for one.
#![no_main]

use vesica_pir::fuzzing as pir;
use vesica_service::fuzzing as service;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| match bytes.split_first() {
    Some((0, rest)) => service::question(rest),
    Some((1, rest)) => service::offer(rest),
    Some((2, rest)) => service::epoch(rest),
    Some((3, rest)) => service::changes(rest),
    Some((4, rest)) => service::values(rest),
    Some((5, rest)) => pir::simple(rest),
    Some((6, rest)) => pir::filter(rest),
    Some((7, rest)) => pir::piano(rest),
    Some((8, rest)) => pir::rlwe(rest),
    Some((9, rest)) => pir::buckets(rest),
    Some((_, rest)) => pir::packed(rest),
    None => {}
});
