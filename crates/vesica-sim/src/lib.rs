//! A simulator: runs of parties, and a service with its clients, on virtual time, a virtual network and a virtual disk, in one process and
//! from one seed.
//!
//! `cargo xtask sim SEED COUNT` plays the cases of so many seeds. What a case is, what goes wrong in it and what must hold is in [`case`]
//! and, for a service, in [`shop`];
//! how one seed decides everything is in [`sim`]. What is covered and what is not, and why it is made this way:
//! `docs/src/design/20-simulator.md`.

pub mod case;
pub mod disk;
pub mod net;
pub mod shop;
pub mod sim;
pub mod trace;

use case::{Case, Kind};
use sim::{Dice, Killed, Sim};
use std::sync::{Once, OnceLock};
use trace::Trace;

/// What came of a seed.
pub struct Played {
    /// What did not hold.
    pub failures: Vec<String>,
    /// What happened.
    pub trace: Trace,
    /// What kind of case it was.
    pub kind: Kind,
    /// Whether it ended because a party had had enough of answering, or a service refused a client by its budget.
    pub refused: bool,
    /// Calls of time, network and disk.
    pub steps: u64,
    /// What each party answered, in tables; of a service, keys that each client was answered.
    pub answered: Vec<f64>,
    /// Times that a client of a service asked and has the right rows.
    pub served: u64,
    /// Where both learn, the keys of each output, in its order.
    pub aligned: Vec<Vec<String>>,
}

/// What kind of case a seed is.
pub fn kind(seed: u64) -> Kind {
    match seed % 16 {
        3 | 11 => Kind::Greedy,
        4 | 5 | 12 | 13 => Kind::Power,
        6 => Kind::Liar,
        7 | 15 => Kind::Service,
        9 => Kind::Three,
        14 => Kind::Rollback,
        _ => Kind::Honest,
    }
}

/// Plays the case of a seed. With `overlap` the parties have keys in common. Words are kept if `words` is set.
pub fn play(seed: u64, overlap: bool, words: bool) -> Played {
    play_as(kind(seed), seed, overlap, words)
}

/// The same with a kind of case that is given.
pub fn play_as(kind: Kind, seed: u64, overlap: bool, words: bool) -> Played {
    quietly();
    let case = Case::new(kind, &mut Dice::new(seed, "case"), overlap);
    let mut played = played(Sim::play(case, Dice::new(seed, "course"), words));
    if overlap && kind == Kind::Honest {
        // The order follows from the salt, and is another one after a run that was begun anew.
        if played.aligned.windows(2).any(|outputs| outputs[0] != outputs[1]) {
            played.failures.push("the rows of the outputs do not line up".to_owned());
        }
        if played.aligned.iter().any(|keys| sorted(keys) != common()) {
            played.failures.push("the rows are not those of an undisturbed run".to_owned());
        }
    }
    played
}

/// The common keys that two undisturbed parties write that both learn. All honest cases have the same tables.
fn common() -> &'static [String] {
    static COMMON: OnceLock<Vec<String>> = OnceLock::new();
    COMMON.get_or_init(|| {
        let found = (0..).find_map(|seed| undisturbed(seed, false).aligned.pop());
        sorted(&found.expect("in some case both learn"))
    })
}

fn sorted(keys: &[String]) -> Vec<String> {
    let mut keys = keys.to_vec();
    keys.sort_unstable();
    keys
}

/// The case of a seed, if nothing goes wrong.
pub fn undisturbed(seed: u64, words: bool) -> Played {
    quietly();
    let case = Case::new(Kind::Honest, &mut Dice::new(seed, "case"), true).undisturbed();
    played(Sim::play(case, Dice::new(seed, "course"), words))
}

fn played((case, trace, _): (Case, Trace, u64)) -> Played {
    let refused = case.refused || case.shop.as_ref().is_some_and(|shop| shop.refused);
    let (kind, steps, answered) = (case.kind, case.steps, case.answered());
    let (served, aligned) = (case.shop.as_ref().map_or(0, |shop| shop.served), case.aligned());
    Played { failures: case.failures, trace, kind, refused, steps, answered, served, aligned }
}

/// Threads of killed processes end by panics, which are not worth a word.
fn quietly() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Killed>() && !sim::is_dying() {
                tell(info);
            }
        }));
    });
}
