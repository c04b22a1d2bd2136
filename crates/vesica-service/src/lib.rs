//! The other program: one party prepares a store and serves it, many ask.
//!
//! [`prepare`] makes the store from a table, [`serve`] answers clients, [`fetch`] copies the store to a client, [`ask`] looks keys
//! up. The steps between the two are those of [`vesica_psi::unbalanced`]; what the parties say to each other around them stands in
//! `messages`.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod client;
mod error;
mod found;
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod hostile;
mod invite;
mod link;
mod look;
mod messages;
mod offer;
mod prepare;
mod refusal;
mod retrieve;
mod reveals;
mod server;
#[cfg(test)]
mod standing;
mod stock;
mod suite;
mod tags;
mod values;
mod wants;

pub use client::ask::{Run, ask};
pub use client::local::files;
pub use client::talk::{Brought, fetch};
pub use error::Error;
pub use invite::{has_keys, offered, would_learn};
pub use look::{check_client, check_server, plan_client, plan_server};
pub use offer::{Offer, spelled};
pub use prepare::{Change, Prepared, Product, prepare};
pub use retrieve::bench::{Cell, Choice as BenchChoice, pir as bench_pir};
pub use retrieve::make::{Changed, Made};
pub use retrieve::recompute::audit_store;
pub use server::serve::{Again, serve};
pub use suite::{Kind, retrieving};
pub use vesica_store::Built;

/// Randomness of the system's, for what is only measured.
fn rng() -> Result<vesica_session::SessionRng, Error> {
    Ok(vesica_job::World::default().rng()?)
}
