//! An open port, and those who stand before it: everybody gets a thread and a little time to say who they are, and nobody
//! waits for a stranger.

use crate::endpoint::split;
use crate::greet::{Guest, Host, Keeper};
use crate::spawn::spawn;
use crate::{Error, Result};
use socket2::SockRef;
use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// How many connections the system keeps until they are taken in.
const BACKLOG: i32 = 1024;

/// An open port, and those who stand before it.
pub(crate) struct Port {
    keeper: Arc<Keeper>,
    listener: TcpListener,
    at: SocketAddr,
    /// The most handshakes at once.
    room: usize,
    /// Those whose handshake is under way, oldest first.
    guests: VecDeque<Waiting>,
}

/// Somebody whose handshake is under way.
struct Waiting {
    guest: Arc<Guest>,
    from: IpAddr,
    socket: TcpStream,
}

impl Waiting {
    /// From where it comes: behind a gateway, for whom that calls.
    fn from(&self) -> IpAddr {
        self.guest.from().unwrap_or(self.from)
    }

    /// Ends the handshake, unless it came to an end by itself.
    fn send_away(self) {
        if self.guest.settle() {
            let _ = self.socket.shutdown(Shutdown::Both);
        }
    }
}

impl Port {
    /// The port that `listener` is, with at most `room` handshakes at once.
    ///
    /// # Errors
    /// If the system does not let it be asked without waiting.
    pub fn new(keeper: Arc<Keeper>, listener: TcpListener, room: usize) -> Result<Self> {
        let system = |source| Error::System { what: "listening", source };
        listener.set_nonblocking(true).map_err(system)?;
        let at = listener.local_addr().map_err(system)?;
        Ok(Self { keeper, listener, at, room, guests: VecDeque::new() })
    }

    /// The address that is listened on.
    pub fn address(&self) -> SocketAddr {
        self.at
    }

    /// Takes in those who have knocked since the last call, and does not wait for others; says how many there were. What
    /// becomes of each is told to `host`.
    ///
    /// # Errors
    /// If the system has no more threads.
    pub fn answer(&mut self, host: &Arc<dyn Host>) -> Result<usize> {
        self.guests.retain(|waiting| !waiting.guest.settled());
        for answered in 0..self.room {
            let (socket, from) = match self.listener.accept() {
                Ok(guest) => guest,
                // Whatever went wrong with one guest (it left, or there are no more file handles for now) is over with
                // the next turn.
                Err(_) => return Ok(answered),
            };
            if self.guests.len() >= self.room {
                self.make_room();
            }
            let Ok(handle) = socket.try_clone() else { continue };
            if socket.set_nonblocking(false).is_err() {
                continue;
            }
            let guest = Arc::new(Guest::default());
            self.guests.push_back(Waiting { guest: guest.clone(), from: from.ip(), socket: handle });
            let (keeper, host) = (self.keeper.clone(), host.clone());
            let started = spawn("guest", move || {
                keeper.greet(&*host, &guest, socket, from);
                guest.settle();
            });
            if let Err(error) = started {
                self.guests.pop_back();
                return Err(error);
            }
        }
        Ok(self.room)
    }

    /// Sends somebody away. A partner's handshake takes milliseconds, and a silent stranger's all the time that it is
    /// given: so it is the oldest guest of the address from which most have come, and over IPv6 of the network of 64 bits.
    fn make_room(&mut self) {
        self.guests.retain(|waiting| !waiting.guest.settled());
        if self.guests.len() < self.room {
            return;
        }
        let mut of: HashMap<IpAddr, usize> = HashMap::new();
        let mut most = 0;
        for waiting in &self.guests {
            let count = of.entry(neighbours(waiting.from())).or_default();
            *count += 1;
            most = most.max(*count);
        }
        let oldest = self.guests.iter().position(|waiting| of.get(&neighbours(waiting.from())) == Some(&most));
        if let Some(waiting) = oldest.and_then(|at| self.guests.remove(at)) {
            waiting.send_away();
        }
    }

    /// Ends every handshake that is under way.
    pub fn clear(&mut self) {
        self.guests.drain(..).for_each(Waiting::send_away);
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// By what strangers are counted: an address of IPv4, and of IPv6 the first 64 bits, since whoever has one address there has all that
/// begin so (RFC 4291, section 2.5.4). An address of IPv4 that a port for both shows as one of IPv6 is what it is.
fn neighbours(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

/// Opens the port at `address`.
///
/// # Errors
/// If it cannot be opened.
pub(crate) fn listen(address: &str) -> Result<TcpListener> {
    let bad = |why: String, remedy| Error::Listen { address: address.to_owned(), why, remedy };
    split(address).map_err(|why| bad(why, "for example mine.listen = \"0.0.0.0:7744\""))?;
    let all: Vec<SocketAddr> = address
        .to_socket_addrs()
        .map_err(|e| bad(e.to_string(), "use an address of this machine, or 0.0.0.0 for all of them"))?
        .collect();
    // The standard library sets SO_REUSEADDR, so a run may follow another on the same port at once.
    let listener = TcpListener::bind(all.as_slice()).map_err(|e| match e.kind() {
        ErrorKind::AddrInUse => bad(
            "the port is in use".into(),
            "stop the program that has it (another run of this job?), or choose another port",
        ),
        ErrorKind::AddrNotAvailable => bad(
            "that is no address of this machine".into(),
            "use an address of this machine, or 0.0.0.0 for all of them",
        ),
        ErrorKind::PermissionDenied => bad("this user may not open that port".into(), "choose a port above 1023"),
        _ => bad(e.to_string(), "use an address of this machine, or 0.0.0.0 for all of them"),
    })?;
    // The standard library has the system keep 128, and a service's clients may all come back at once.
    SockRef::from(&listener).listen(BACKLOG).map_err(|source| Error::System { what: "listening", source })?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_network_of_ipv6_is_one_stranger() {
        let of = |ip: &str| neighbours(ip.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_ne!(of("::ffff:192.0.2.1"), of("::ffff:192.0.2.2"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
