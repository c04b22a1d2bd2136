//! From a plan to a report: the only room that sees everyone.
//!
//! [`run`] does what a [`vesica_spec::Plan`] says and [`Report`] says what happened. [`check`] finds what can be found
//! before contact, [`forecast`] says what a run will cost.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod check;
pub mod cluster;
pub mod compare;
mod cost;
mod difference;
pub mod disk;
pub mod doctor;
mod error;
mod forecast;
mod frail;
#[doc(hidden)]
pub mod fuzzing;
mod input;
mod invite;
mod io;
mod lanes;
mod local;
mod meet;
mod output;
mod rehearse;
pub mod rooms;
mod run;
pub mod sample;
pub mod schema;
mod seal;
mod session;
mod tell;
mod threads;
mod units;
mod world;

pub use check::{Checked, Finding, check};
pub use difference::Difference;
pub use error::JobError;
pub use forecast::{Forecast, forecast};
pub use invite::{fresh_number, has_keys, would_learn};
pub use io::{Io, Target};
pub use run::run;
pub use tell::control::{Control, Event, RunId, Watch};
pub use tell::page::{Audience, Page, ReportFile};
pub use tell::report::Report;
pub use tell::{numbers, report};
pub use vesica_session::Fault;
pub use vesica_suite::Sizes;

/// The parties' certificates.
pub mod identity {
    pub use vesica_net::{Error, Fingerprint, Identity};
}

pub use vesica_net::Connection;
pub use world::World;

/// What a world is made of: for the service, and for tests that bring their own.
pub mod worlds {
    pub use crate::disk::{Disk, DiskFile, Folders};
    #[doc(hidden)]
    pub use crate::frail::Frail;
    pub use crate::world::{Chance, Turns};
    pub use vesica_net::{Boot, ClientDoor, Connector, LaneDoor, PeerLink, Time};
}

/// The instruction sets that kernels are compiled for.
pub mod cpu {
    pub use vesica_cpu::{Backend, requested};
}

/// The version of the format on the wire: both sides must have the same.
pub use vesica_net::WIRE_VERSION;
