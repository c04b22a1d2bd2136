use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// A port that nobody has. Below the range from which the system takes ports for outgoing connections, and another for every call, so that
/// tests do not meet, whichever process they are in.
pub fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % 100) as u16 * 200;
    loop {
        let port = 10_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
