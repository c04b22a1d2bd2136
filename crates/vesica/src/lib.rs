//! Private set intersection for programs: two parties find what their keys have in common, and neither shows its keys.
//!
//! Each party runs its [`Side`] of the same [`Job`], over a [`Connection`] that it brings. Example: two parties in one
//! process, of which alice alone learns the result.
//!
//! ```
//! use vesica::{Connection, Job, Protocol};
//!
//! let job = Job::new("newsletter", &["alice", "bob"], Protocol::Rr22, &["alice"]);
//! let (alices, bobs) = Connection::pair()?;
//!
//! let theirs = job.clone();
//! let bob = std::thread::spawn(move || theirs.side("bob").find(&["ben@x.example", "ann@x.example"], [bobs]));
//! let found = job.side("alice").find(&["ann@x.example", "carl@x.example"], [alices])?;
//! bob.join().unwrap()?;
//!
//! assert_eq!(found.positions, Some(vec![0])); // alice's key number 0 is bob's too
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | you have | call | you get |
//! |---|---|---|
//! | a list of keys | [`Side::find`] | positions in that list |
//! | a reader of Arrow batches, of any length | [`Side::stream`] | a reader of the rows that matched, with all their columns |
//! | Arrow batches in memory | [`Side::table`] | the same |
//! | both tables, in one process | [`Job::here`] | the rows of both, which line up |
//! | a job file | [`run`] | what the command would do |
//!
//! # The connection
//!
//! A [`Connection`] is made of a socket ([`Connection::from_socket`]), or of anything that reads and writes bytes
//! ([`Connection::from_bytes`]). It must give every byte, in order, and must not give them to others: by default a side trusts it
//! as it is. With [`Side::tls`], TLS runs over it from end to end, and the connection may pass through hands that you do not trust.
//! A connection that breaks ends the run with [`Fault::Network`]; what was learned until then is nothing.
//!
//! # Who learns what
//!
//! [`Report::revealed`](vesica_job::Report) lists it for the job that was run. It is what the command's `vesica plan` prints for
//! the same job; `SECURITY.md` has the table for all of them.

#![forbid(unsafe_code)]

mod job;
mod positions;
mod run;
mod side;

pub use job::Job;
pub use run::{Given, Ran, run};
pub use side::{Found, Joined, Side};
pub use vesica_job::{Connection, Control, Event, Fault, JobError as Error, Report, RunId, Watch, report};
pub use vesica_spec::{
    Accept, CurveName as Curve, Duplicates, Extra, Join, Limits, Mode, Plan, ProtocolName as Protocol, ResultKind,
    Rules, Security, Shared, Tls,
};
pub use vesica_table::{Facts, Memory, Rows, Table};
