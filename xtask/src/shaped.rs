//! A slow network on one machine: a TCP relay with a rate and a delay, so that what a job takes over 100 Mbit/s can be
//! measured without a second machine and without privileges.
//!
//! Each direction is one link, which all connections share: bytes leave it at the rate, one after the other, and arrive half
//! a round trip later. What does not fit waits with the sender, as TCP has it.

use crate::{Chore, say};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// The most bytes that leave at once: 1.3 ms at 100 Mbit/s.
const PIECE: usize = 16 << 10;

/// The most pieces under way on a connection: a delay of a second at 100 Mbit/s.
const UNDER_WAY: usize = 800;

/// One direction.
struct Link {
    bytes_per_second: f64,
    delay: Duration,
    /// When its last byte has left.
    busy_until: Mutex<Instant>,
}

/// A piece, and when it arrives.
type Piece = (Instant, Vec<u8>);

/// Listens on `listen` and relays every connection to `target`, at `mbit` million bits a second each way and with a round
/// trip of `round_trip_ms`, until it is killed.
pub fn relay(listen: &str, target: &str, mbit: &str, round_trip_ms: &str) -> Chore {
    let number = |text: &str| text.parse().ok().filter(|n| *n > 0.0).ok_or(format!("{text:?} is no positive number"));
    let (mbit, round_trip_ms): (f64, f64) = (number(mbit)?, number(round_trip_ms)?);
    let link = || {
        Arc::new(Link {
            bytes_per_second: mbit * 1e6 / 8.0,
            delay: Duration::from_secs_f64(round_trip_ms / 2e3),
            busy_until: Mutex::new(Instant::now()),
        })
    };
    let links = [link(), link()];
    let listener = TcpListener::bind(listen).map_err(|e| format!("cannot listen on {listen}: {e}"))?;
    say(&format!("{listen} -> {target}: {mbit} Mbit/s each way, a round trip of {round_trip_ms} ms"));
    for near in listener.incoming() {
        // A connection that fails is for its ends to notice: they see it closed.
        let Ok((near, far)) = near.and_then(|near| Ok((near, TcpStream::connect(target)?))) else { continue };
        for ((from, to), link) in [(&near, &far), (&far, &near)].into_iter().zip(&links) {
            let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { continue };
            let (pieces, arriving) = sync_channel(UNDER_WAY);
            let link = link.clone();
            spawn(move || link.take(from, &pieces));
            spawn(move || deliver(to, &arriving));
        }
    }
    Ok(())
}

impl Link {
    /// Takes bytes in as fast as they leave.
    fn take(&self, mut from: TcpStream, pieces: &SyncSender<Piece>) {
        let mut buffer = vec![0; PIECE];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            let left = {
                let mut busy_until = self.busy_until.lock().expect("no thread panics while it holds this");
                *busy_until =
                    (*busy_until).max(Instant::now()) + Duration::from_secs_f64(n as f64 / self.bytes_per_second);
                *busy_until
            };
            sleep(left.saturating_duration_since(Instant::now()));
            if pieces.send((left + self.delay, buffer[..n].to_vec())).is_err() {
                return;
            }
        }
    }
}

/// Hands pieces over when they have arrived, and then says that there are no more.
fn deliver(mut to: TcpStream, arriving: &Receiver<Piece>) {
    let _ = to.set_nodelay(true);
    for (at, bytes) in arriving {
        sleep(at.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 250 kB at 10 Mbit/s take 200 ms, and a round trip of 40 ms is the least that a question and its answer take.
    #[test]
    fn the_rate_and_the_delay_are_those_asked_for() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = server.local_addr().unwrap().to_string();
        spawn(move || {
            let (mut peer, _) = server.accept().unwrap();
            let mut message = vec![0; 250_000];
            loop {
                let Ok(()) = peer.read_exact(&mut message) else { return };
                peer.write_all(b"!").unwrap();
            }
        });
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let listen = free.clone();
        spawn(move || relay(&listen, &target, "10", "40"));
        let mut client = loop {
            match TcpStream::connect(&free) {
                Ok(client) => break client,
                Err(_) => sleep(Duration::from_millis(5)),
            }
        };
        let start = Instant::now();
        client.write_all(&vec![7; 250_000]).unwrap();
        client.read_exact(&mut [0]).unwrap();
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(235), "{took:?}");
    }

    #[test]
    fn what_is_no_number_is_refused() {
        assert!(relay("127.0.0.1:0", "127.0.0.1:1", "fast", "10").unwrap_err().contains("fast"));
        assert!(relay("127.0.0.1:0", "127.0.0.1:1", "0", "10").is_err());
    }
}
