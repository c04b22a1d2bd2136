//! The simulator itself: that it is deterministic, that it finds what is put before it, and seeds that once failed.

use std::collections::BTreeSet;
use vesica_sim::case::Kind;
use vesica_sim::{kind, play, play_as, undisturbed};

/// All that happens follows from the seed: two traces are the same, bytes of messages included, and those of different seeds are not.
#[test]
fn a_seed_decides_everything() {
    let mut traces = BTreeSet::new();
    for seed in 0..40 {
        let (once, again) = (play(seed, true, true), play(seed, true, true));
        assert_eq!(once.trace.words(), again.trace.words(), "seed {seed}");
        assert_eq!(once.trace.all(), again.trace.all(), "seed {seed}");
        assert!(!once.trace.words().is_empty());
        traces.insert(once.trace.all().to_hex().to_string());
    }
    assert_eq!(traces.len(), 40);
}

#[test]
fn what_must_hold_holds() {
    for seed in 0..60 {
        let played = play(seed, true, false);
        assert_eq!(played.failures, Vec::<String>::new(), "seed {seed}, {:?}", played.kind);
    }
}

/// Seeds that failed once, each with what it was. 586: a party is killed and comes again, while its partner
/// waits for the lanes of before. It was shown their certificate, and ended with an error that named it as wrong.
#[test]
fn seeds_that_failed_once_hold() {
    assert_eq!(play(586, true, false).failures, Vec::<String>::new());
}

/// Nobody sees from what is said, when, and how long it is, which keys are common.
#[test]
fn what_is_shown_does_not_depend_on_what_is_common() {
    for seed in (0..60).filter(|seed| matches!(kind(*seed), Kind::Honest | Kind::Service | Kind::Three)) {
        let (half, none) = (play(seed, true, true), play(seed, false, true));
        assert_eq!(half.failures, none.failures, "seed {seed}");
        assert_eq!(half.trace.shown(), none.trace.shown(), "seed {seed}");
    }
}

/// Services do serve, and refuse whom they are to refuse: with what is left of a day, and of the life of a key.
#[test]
fn services_serve_and_refuse() {
    let played: Vec<_> = (0..30).map(|seed| play_as(Kind::Service, seed, true, false)).collect();
    assert!(played.iter().all(|played| played.failures.is_empty()));
    let (served, refused): (u64, usize) =
        (played.iter().map(|played| played.served).sum(), played.iter().filter(|played| played.refused).count());
    assert!(served >= 60 && refused >= 3, "{served} outputs, {refused} of 30 refused");
}

/// The faults are there: runs with them take more than runs without, and parties that are too greedy are refused.
#[test]
fn faults_disturb_and_the_greedy_are_refused() {
    let steps = |all: &dyn Fn(u64) -> u64| (0..30).map(all).sum::<u64>();
    let (without, with) =
        (steps(&|seed| undisturbed(seed, false).steps), steps(&|seed| play_as(Kind::Honest, seed, true, false).steps));
    assert!(with > without * 5 / 4, "{with} steps with faults, {without} without");
    for kind in [Kind::Greedy, Kind::Liar] {
        let refused = (0..10).filter(|seed| play_as(kind, *seed, true, false).refused).count();
        assert!(refused >= 5, "{kind:?}: {refused} of 10");
    }
    let went_back =
        |played: &vesica_sim::Played| played.trace.words().iter().any(|line| line.ends_with("of his ledger"));
    let back = (0..10).filter(|seed| went_back(&play_as(Kind::Rollback, *seed, true, true))).count();
    assert!(back >= 5, "an older copy of a ledger in {back} of 10");
}
