//! What the suites from oblivious pseudorandom functions have in common: who is which side, and how one is opened.

use crate::{Choice, Error, Seat, Sizes, Terms};
use vesica_oprf::Oprf;
use vesica_psi::oprf::{self, Role};
use vesica_psi::reveals;
use vesica_session::{Channel, Protocol, Reveal, SessionRng};

/// What every intersection by such a function tells.
pub const REVEALS: [Reveal; 2] = [reveals::INTERSECTION, reveals::KEY_COUNT];

/// What a party does: where both learn, the first party receives and tells the other.
pub fn role(choice: &Choice, seat: &Seat) -> Role {
    match seat.learns && !(choice.all_learn() && seat.place != 0) {
        true => Role::Receiver,
        false => Role::Sender,
    }
}

/// The receiver's keys of a unit, padded.
pub fn receivers_keys(choice: &Choice, seat: &Seat, sizes: &Sizes) -> u64 {
    if role(choice, seat) == Role::Receiver { sizes.capacity } else { sizes.peer_capacity }
}

/// The sender's keys in the whole job, padded.
pub fn senders_keys(choice: &Choice, seat: &Seat, sizes: &Sizes) -> u64 {
    let unit = if role(choice, seat) == Role::Sender { sizes.capacity } else { sizes.peer_capacity };
    unit.saturating_mul(u64::from(sizes.units))
}

/// Opens a party's side of the intersection by `function`.
pub fn open<O: Oprf<Key: 'static>>(
    function: &O,
    choice: &Choice,
    seat: &Seat,
    terms: &Terms,
    ch: &mut dyn Channel,
    rng: &mut SessionRng,
) -> Result<Box<dyn Protocol>, Error> {
    let params = oprf::Params { tag_len: terms.sizes.tag_len, both: choice.all_learn() };
    Ok(oprf::open(function, role(choice, seat), params, ch, rng)?)
}
