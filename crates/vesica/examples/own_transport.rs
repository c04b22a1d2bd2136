//! A transport of one's own: two programs that talk through their standard input and output, and nothing else. Whatever carries
//! bytes in both directions will do in its place: `ssh`, a tunnel, a queue.
//!
//! ```sh
//! cargo run --release --example own_transport
//! ```
//!
//! It starts itself once more as bob and is alice.

#![allow(clippy::print_stdout)] // An example talks to whoever runs it.

use std::io;
use std::process::{Command, Stdio};
use vesica::{Connection, Job, Protocol};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let job = Job::new("own-transport", &["alice", "bob"], Protocol::Ecdh, &["alice"]);
    if std::env::args().nth(1).as_deref() == Some("bob") {
        // What bob prints would go to alice, so it prints nothing.
        let connection = Connection::from_bytes(io::stdin(), io::stdout())?;
        job.side("bob").find(&["+41 44 268 12 34", "+41 31 320 00 00"], [connection])?;
        return Ok(());
    }
    let mut bob =
        Command::new(std::env::current_exe()?).arg("bob").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (from_bob, to_bob) = (bob.stdout.take().expect("piped"), bob.stdin.take().expect("piped"));
    let keys = ["+41 31 320 00 00", "+41 61 999 99 99"];
    let found = job.side("alice").find(&keys, [Connection::from_bytes(from_bob, to_bob)?])?;
    assert!(bob.wait()?.success());
    assert_eq!(found.positions, Some(vec![0]));
    println!("bob has {} too", keys[0]);
    println!("\n{}", found.report.in_words());
    Ok(())
}
