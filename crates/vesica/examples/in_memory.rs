//! Two lists of keys in memory, matched by two threads of one process:
//!
//! ```sh
//! cargo run --release --example in_memory            # 1000 keys a side
//! cargo run --release --example in_memory -- 1000000
//! ```

#![allow(clippy::print_stdout)] // An example talks to whoever runs it.

use std::time::Instant;
use vesica::{Connection, Job, Protocol};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let keys: u64 = std::env::args().nth(1).map_or(Ok(1000), |keys| keys.parse())?;
    // Every second key of alice's is bob's too.
    let alices: Vec<String> = (0..keys).map(|i| format!("customer-{i}")).collect();
    let bobs: Vec<String> = (0..keys).map(|i| format!("customer-{}", 2 * i)).collect();

    let job = Job::new("in-memory", &["alice", "bob"], Protocol::Rr22, &["alice"]);
    let (here, there) = Connection::pair()?;
    let start = Instant::now();
    let theirs = job.clone();
    let bob = std::thread::spawn(move || theirs.side("bob").find(&bobs, [there]));
    let found = job.side("alice").find(&alices, [here])?;
    bob.join().expect("bob does not panic")?;

    let positions = found.positions.expect("alice learns");
    assert!(positions.iter().copied().eq((0..keys).step_by(2)));
    let first: Vec<&String> = positions.iter().take(3).map(|&i| &alices[i as usize]).collect();
    println!("{} of {keys} keys are common, in {:.2?}; the first: {first:?}", positions.len(), start.elapsed());
    println!("\n{}", found.report.in_words());
    Ok(())
}
