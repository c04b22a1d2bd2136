//! What the other program, the service, shares with a run: how keys are read, files are sealed and written, and costs are counted.

pub use crate::check::tried;
pub use crate::input::keys::digests;
pub use crate::meet::peers::{Authorities, Listening, identity, road};
pub use crate::output::part::{probe, replace, replace_privately, save};
pub use crate::output::places::Places;
pub use crate::seal::blocks;
pub use crate::seal::key;
pub use crate::seal::log::Log;
pub use crate::tell::clock::{Clock, Times};
pub use crate::threads::cores;
pub use crate::world::{AtEnd, fill, random, scope};
pub use vesica_program::on_disk;
pub use vesica_spec::Share;
