//! A run of a cluster: the calls that its machines make, each of which holds no more than a part of the table.
//!
//! One process, the *driver*, holds the [`Meeting`] with the other party. Workers read the table and [`Start::cut`] its keys into parts;
//! whoever shuffles brings the pieces of a part together, and a worker makes its units of them ([`Start::pack`]). Then workers match
//! units over lanes ([`Lane`], and [`Door`] where this side listens). What they find goes to files, and when the driver has settled
//! that it may be learned, [`Terms::rows`] opens it. See `docs/src/design/18-lanes.md`.
//!
//! The other party may be a cluster of another size, or one machine: it sees the same messages.
//!
//! What lies on disks and in object stores between these calls says nothing to who reads it without the cluster's [`Secret`]: everything is sealed whole,
//! and numbers of units go through a permutation under it before a part's number follows from them.

mod found;
mod lane;
mod meeting;
mod reading;
mod secret;
mod terms;

pub use found::Taking;
pub use lane::{Door, Lane, Matched, Missing};
pub use meeting::{Meeting, Unit};
pub use reading::{Cut, Packed, Start};
pub use secret::{Recipient, Secret};
pub use terms::{HEAD, Terms};

pub use crate::lanes::is_a_break;
pub use crate::meet::breaks::Breaks;

use crate::JobError;
use vesica_session::{Error, Fault};

/// Whether the link of the drivers broke, so that they are to meet again: at this end, or at the other one, which then says so.
pub fn is_lost(error: &JobError) -> bool {
    matches!(error, JobError::Session(Error::Net { .. } | Error::Stopped { fault: Fault::Network, .. }))
}

#[cfg(test)]
mod tests;
