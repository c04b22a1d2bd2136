use crate::recorder::{Message, Recorder, Transcript, messages};
use vesica_session::{Channel, Lines, SessionRng, memory};
use vesica_types::Party;
use zeroize::Zeroizing;

/// The first party of every two-party test.
pub fn alice() -> Party {
    Party::new(0, "alice")
}

/// The second.
pub fn bob() -> Party {
    Party::new(1, "bob")
}

/// A generator that gives the same stream for the same `seed`.
pub fn fixed_rng(seed: u8) -> SessionRng {
    SessionRng::from_seed(Zeroizing::new([seed; 32]))
}

/// Runs both sides of a protocol over a pipe in memory, each in a thread of its own, and returns what each returned.
///
/// # Panics
/// If a side does.
pub fn two<A: Send, B: Send>(
    a: impl FnOnce(&mut Lines, &mut SessionRng) -> A + Send,
    b: impl FnOnce(&mut Lines, &mut SessionRng) -> B + Send,
) -> (A, B) {
    two_with(a, b, |channel| Box::new(channel))
}

/// [`two`], where `wrap` may put something between Bob and his end of the pipe.
///
/// # Panics
/// If a side does.
pub fn two_with<A: Send, B: Send>(
    a: impl FnOnce(&mut Lines, &mut SessionRng) -> A + Send,
    b: impl FnOnce(&mut Lines, &mut SessionRng) -> B + Send,
    wrap: impl FnOnce(memory::Memory) -> Box<dyn Channel>,
) -> (A, B) {
    let (to_bob, to_alice) = memory::pair(&alice(), &bob());
    over(a, b, Box::new(to_bob), wrap(to_alice))
}

/// [`two`], and what each side saw go over its end of the pipe.
///
/// # Panics
/// If a side does.
pub fn recorded<A: Send, B: Send>(
    a: impl FnOnce(&mut Lines, &mut SessionRng) -> A + Send,
    b: impl FnOnce(&mut Lines, &mut SessionRng) -> B + Send,
) -> ((A, Vec<Message>), (B, Vec<Message>)) {
    let (to_bob, to_alice) = memory::pair(&alice(), &bob());
    let (alices, bobs) = (Transcript::default(), Transcript::default());
    let (to_bob, to_alice) = (Recorder::new(to_bob, alices.clone()), Recorder::new(to_alice, bobs.clone()));
    let (a, b) = over(a, b, Box::new(to_bob), Box::new(to_alice));
    ((a, messages(&alices)), (b, messages(&bobs)))
}

fn over<A: Send, B: Send>(
    a: impl FnOnce(&mut Lines, &mut SessionRng) -> A + Send,
    b: impl FnOnce(&mut Lines, &mut SessionRng) -> B + Send,
    to_bob: Box<dyn Channel>,
    to_alice: Box<dyn Channel>,
) -> (A, B) {
    let (mut to_bob, mut to_alice) = (Lines::new(vec![to_bob]), Lines::new(vec![to_alice]));
    std::thread::scope(|scope| {
        // Each side's channels are dropped with its closure, so that a side that fails frees the other.
        let a = scope.spawn(move || a(&mut to_bob, &mut fixed_rng(1)));
        let b = scope.spawn(move || b(&mut to_alice, &mut fixed_rng(2)));
        let a = a.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let b = b.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (a, b)
    })
}
