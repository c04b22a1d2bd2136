//! Parties of a protocol whose keys and randomness are secret, and whose messages are not: what is sent is public, for the peer sees it.

use crate::backend::reveal;
use crate::watch::Watch;
use std::sync::Mutex;
use vesica_session::{Channel, Lines, Result, SessionRng, memory};
use vesica_testkit::{alice, bob, many_with};

/// A channel whose messages are public.
struct Public(Box<dyn Channel>);

impl Channel for Public {
    fn send(&mut self, msg: &[u8]) -> Result<()> {
        reveal(msg);
        self.0.send(msg)
    }

    fn recv(&mut self, limit: usize) -> Result<Vec<u8>> {
        self.0.recv(limit)
    }

    fn line(&self, name: &str) -> Result<Box<dyn Channel>> {
        Ok(Box::new(Public(self.0.line(name)?)))
    }

    vesica_session::forward_channel!(0 but line);
}

/// Runs both sides of a protocol, each with secret randomness of its own.
///
/// # Panics
/// If a side fails.
pub fn two<A: Send, B: Send>(
    watch: &mut Watch,
    a: impl FnOnce(&mut Lines, &mut SessionRng) -> Result<A> + Send,
    b: impl FnOnce(&mut Lines, &mut SessionRng) -> Result<B> + Send,
) -> (A, B) {
    let (to_bob, to_alice) = memory::pair(&alice(), &bob());
    let mut lines = [to_bob, to_alice].map(|end| Lines::new(vec![Box::new(Public(Box::new(end)))]));
    let mut rngs = [watch.rng(), watch.rng()];
    let ([to_bob, to_alice], [alices, bobs]) = (&mut lines, &mut rngs);
    std::thread::scope(|scope| {
        let a = scope.spawn(move || a(to_bob, alices).expect("alice's side"));
        let b = scope.spawn(move || b(to_alice, bobs).expect("bob's side"));
        (a.join().expect("alice's side"), b.join().expect("bob's side"))
    })
}

/// The same of more parties.
///
/// # Panics
/// If a side fails.
pub fn many<T: Send>(
    watch: &mut Watch,
    parties: u8,
    side: impl Fn(u8, &mut Lines, &mut SessionRng) -> Result<T> + Sync,
) -> Vec<T> {
    let rngs: Vec<Mutex<SessionRng>> = (0..parties).map(|_| Mutex::new(watch.rng())).collect();
    let one = |place: u8, lines: &mut Lines, _: &mut SessionRng| {
        let mut rng = rngs[usize::from(place)].lock().expect("one side has it");
        side(place, lines, &mut rng).expect("a side")
    };
    many_with(parties, one, |_, end| Box::new(Public(Box::new(end))))
}
