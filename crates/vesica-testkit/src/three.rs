use crate::two::{alice, bob, fixed_rng};
use vesica_session::{Channel, Lines, SessionRng, memory};
use vesica_types::Party;

/// The third party of every three-party test.
pub fn carol() -> Party {
    Party::new(2, "carol")
}

/// Runs the sides of three parties, each joined to both others by pipes in memory and in a thread of its own, and returns what each
/// returned, by place. Party i has the randomness of [`fixed_rng`] with seed i + 1.
///
/// # Panics
/// If a side does.
pub fn three<T: Send>(side: impl Fn(u8, &mut Lines, &mut SessionRng) -> T + Sync) -> [T; 3] {
    three_with(side, |_, channel| Box::new(channel))
}

/// [`three`], where `wrap` may put something between the party at a place and its end of a pipe.
///
/// # Panics
/// If a side does.
pub fn three_with<T: Send>(
    side: impl Fn(u8, &mut Lines, &mut SessionRng) -> T + Sync,
    mut wrap: impl FnMut(u8, memory::Memory) -> Box<dyn Channel>,
) -> [T; 3] {
    let [a, b, c] = [alice(), bob(), carol()];
    let mut ends: [Vec<Box<dyn Channel>>; 3] = Default::default();
    for (one, other) in [(&a, &b), (&b, &c), (&c, &a)] {
        let (to_other, to_one) = memory::pair(one, other);
        ends[usize::from(one.place())].push(wrap(one.place(), to_other));
        ends[usize::from(other.place())].push(wrap(other.place(), to_one));
    }
    std::thread::scope(|scope| {
        let side = &side;
        let mut place = 0;
        let sides = ends.map(|ends| {
            let at = place;
            place += 1;
            // Channels are dropped with the side, so that one that fails frees the others.
            scope.spawn(move || side(at, &mut Lines::new(ends), &mut fixed_rng(at + 1)))
        });
        sides.map(|side| side.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
