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
    wrap: impl FnMut(u8, memory::Memory) -> Box<dyn Channel>,
) -> [T; 3] {
    let sides = many_with(3, side, wrap);
    sides.try_into().unwrap_or_else(|_| unreachable!("three sides return three times"))
}

/// [`three_with`] for so many parties: those after carol are called by their places.
///
/// # Panics
/// If a side does.
pub fn many_with<T: Send>(
    parties: u8,
    side: impl Fn(u8, &mut Lines, &mut SessionRng) -> T + Sync,
    mut wrap: impl FnMut(u8, memory::Memory) -> Box<dyn Channel>,
) -> Vec<T> {
    let named = |place| match place {
        0 => alice(),
        1 => bob(),
        2 => carol(),
        _ => Party::new(place, &format!("party-{place}")),
    };
    let mut ends: Vec<Vec<Box<dyn Channel>>> = (0..parties).map(|_| Vec::new()).collect();
    for one in 0..parties {
        for other in one + 1..parties {
            let (to_other, to_one) = memory::pair(&named(one), &named(other));
            ends[usize::from(one)].push(wrap(one, to_other));
            ends[usize::from(other)].push(wrap(other, to_one));
        }
    }
    std::thread::scope(|scope| {
        let side = &side;
        let start = |(at, ends)| {
            // Channels are dropped with the side, so that one that fails frees the others.
            scope.spawn(move || side(at, &mut Lines::new(ends), &mut fixed_rng(at + 1)))
        };
        let sides: Vec<_> = (0..parties).zip(ends).map(start).collect();
        let ended = |side: std::thread::ScopedJoinHandle<'_, T>| side.join();
        sides.into_iter().map(ended).map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}
