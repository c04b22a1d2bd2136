//! What the suites from oblivious pseudorandom functions have in common: who is which side, and how one is opened.

use crate::{Choice, Error, Opened, Seat, Sizes, Terms};
use vesica_oprf::Oprf;
use vesica_params::Level;
use vesica_psi::oprf::{self, Role};
use vesica_psi::reveals;
use vesica_session::{Lines, Reveal, SessionRng};

/// What every intersection by such a function tells.
pub const REVEALS: [Reveal; 2] = [reveals::INTERSECTION, reveals::KEY_COUNT];

/// What a party does: where both learn, the first party receives and tells the other.
pub fn role(choice: &Choice, seat: &Seat) -> Role {
    if seat.place == receiver(choice) { Role::Receiver } else { Role::Sender }
}

/// The place of the party that receives: the first that learns.
fn receiver(choice: &Choice) -> u8 {
    choice.learners.iter().copied().min().unwrap_or(0)
}

/// The receiver's keys of a unit, padded.
pub fn receivers_keys(choice: &Choice, sizes: &Sizes) -> u64 {
    sizes.capacity(receiver(choice))
}

/// The sender's keys of a unit, padded.
pub fn senders_keys_of_a_unit(choice: &Choice, sizes: &Sizes) -> u64 {
    sizes.capacity(1 - receiver(choice))
}

/// The sender's keys in the whole job, padded.
pub fn senders_keys(choice: &Choice, sizes: &Sizes) -> u64 {
    sizes.padded(1 - receiver(choice))
}

/// The length of a tag where as many values are compared. Against parties that deviate it is that of a value, so that what such a party can have
/// meant is determined.
pub fn tag_bytes(choice: &Choice, more: u64, fewer: u64) -> usize {
    if choice.malicious() { 16 } else { vesica_params::tag_bytes(more, fewer, Level::STANDARD) }
}

/// Opens a party's side of the intersection by `function`.
pub fn open<O: Oprf<Key: 'static>>(
    function: &O,
    choice: &Choice,
    seat: &Seat,
    terms: &Terms,
    lines: &mut Lines,
    rng: &mut SessionRng,
) -> Result<Opened, Error> {
    let params = oprf::Params { tag_len: terms.sizes.tag_len, both: choice.all_learn() };
    Ok(Opened::Units(oprf::open(function, role(choice, seat), params, lines.peer()?, rng)?))
}
