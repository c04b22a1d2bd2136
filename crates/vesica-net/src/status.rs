//! How a program is, on a port of its own: `/healthz`, `/readyz`, and `/metrics` in the text format of Prometheus.
//!
//! Example: `curl http://127.0.0.1:9100/readyz` says `ready` once clients are let in. A load balancer asks that; a monitor
//! asks `/metrics`.
//!
//! The port speaks as much of HTTP/1.1 as that takes: one GET for each connection, a head of at most 4 KiB within five
//! seconds, eight connections at once. It has no TLS and knows nobody, so it belongs on an address that only the operator
//! can reach: a port alone is one of this machine's, 127.0.0.1.

use crate::{Error, Result};
use std::fmt::{Display, Write as _};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The longest head of a request.
const HEAD: usize = 4 << 10;

/// How long a request and its answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the port is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// The most connections at once.
const CONNECTIONS: usize = 8;

/// What the port tells.
pub trait Status: Send + Sync + 'static {
    /// Why it is not ready, in words; none if it is.
    fn not_ready(&self) -> Option<&'static str>;

    /// Numbers, in the text format of Prometheus.
    fn metrics(&self) -> String;
}

/// Opens the port at `address`, which is `host:port`, or a port of 127.0.0.1 alone, and says where it is. It is closed when nobody holds `status`
/// any more.
///
/// # Errors
/// If the port cannot be opened.
pub fn open<S: Status>(address: &str, status: &Arc<S>) -> Result<SocketAddr> {
    Ok(opened(address, status)?.0)
}

/// Whether the port can be opened.
///
/// # Errors
/// As [`open`].
pub fn try_out(address: &str) -> Result<SocketAddr> {
    bound(address).and_then(|listener| listener.local_addr().map_err(|error| bad(address, &error)))
}

/// What is said of a port that is open.
pub fn opened_in_words(at: SocketAddr) -> String {
    let whom = if at.ip().is_loopback() { "" } else { ", for whoever reaches that address: it has no TLS" };
    format!("health and metrics at http://{at}/metrics{whom}")
}

fn bad(address: &str, error: &std::io::Error) -> Error {
    Error::Setup(format!(
        "mine.metrics = {address:?}: cannot listen there ({error}); give a free port of this machine, as \"127.0.0.1:9100\""
    ))
}

fn bound(address: &str) -> Result<TcpListener> {
    let bound = match address.parse::<u16>() {
        Ok(port) => TcpListener::bind(("127.0.0.1", port)),
        Err(_) => TcpListener::bind(address),
    };
    bound.map_err(|error| bad(address, &error))
}

/// [`open`], with the number of connections that there are.
fn opened<S: Status>(address: &str, status: &Arc<S>) -> Result<(SocketAddr, Arc<AtomicUsize>)> {
    let listener = bound(address)?;
    let bad = |error| bad(address, &error);
    listener.set_nonblocking(true).map_err(bad)?;
    let at = listener.local_addr().map_err(bad)?;
    let (weak, connections) = (Arc::downgrade(status), Arc::new(AtomicUsize::new(0)));
    let counted = connections.clone();
    let started = std::thread::Builder::new().name("metrics".into()).spawn(move || listen(&listener, &weak, &counted));
    started.map_err(bad)?;
    Ok((at, connections))
}

/// A number with its labels.
pub type Labelled<'a> = (&'a [(&'a str, &'a str)], &'a dyn Display);

/// Text for Prometheus: families of numbers, a line each.
#[derive(Default)]
pub struct Families(String);

impl Families {
    /// Adds a family of this `kind` (`counter`, `gauge`), with a number for each list of labels.
    pub fn add(&mut self, name: &str, kind: &str, help: &str, values: &[Labelled<'_>]) {
        self.head(name, kind, help);
        values.iter().for_each(|(labels, value)| self.line(name, labels, value));
    }

    /// Says what `name` is.
    pub fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Adds a number.
    pub fn line(&mut self, name: &str, labels: &[(&str, &str)], value: &dyn Display) {
        let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> = labels.iter().map(|(name, of)| format!("{name}=\"{}\"", escaped(of))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    /// The text.
    pub fn text(self) -> String {
        self.0
    }
}

/// The answer to a request's first line: status and body.
fn answer(status: &impl Status, request: &str) -> (&'static str, String) {
    let words: Vec<&str> = request.split(' ').collect();
    let [method, target, version] = words[..] else { return ("400 Bad Request", "not a request\n".into()) };
    if !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return ("400 Bad Request", "not a request of HTTP/1.1\n".into());
    }
    if method != "GET" {
        return ("405 Method Not Allowed", "only GET is answered\n".into());
    }
    match target.split('?').next().unwrap_or_default() {
        "/healthz" => ("200 OK", "alive\n".into()),
        "/readyz" => match status.not_ready() {
            None => ("200 OK", "ready\n".into()),
            Some(why) => ("503 Service Unavailable", format!("{why}\n")),
        },
        "/metrics" => ("200 OK", status.metrics()),
        _ => ("404 Not Found", "there are /healthz, /readyz and /metrics\n".into()),
    }
}

/// Takes in whoever connects, until nobody holds the status any more.
fn listen<S: Status>(listener: &TcpListener, status: &Weak<S>, connections: &Arc<AtomicUsize>) {
    loop {
        let Some(status) = status.upgrade() else { return };
        let Ok((socket, _)) = listener.accept() else {
            drop(status);
            std::thread::sleep(LOOK);
            continue;
        };
        if connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
            connections.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let counted = connections.clone();
        let started = std::thread::Builder::new().name("metrics".into()).spawn(move || {
            // Whoever cannot be answered is gone.
            let _ = speak(&*status, &socket);
            counted.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Answers one request.
fn speak(status: &impl Status, socket: &TcpStream) -> std::io::Result<()> {
    socket.set_nonblocking(false)?;
    let until = Instant::now() + PATIENCE;
    let (code, body) = match read_head(socket, until)? {
        Head::Whole(head) => match std::str::from_utf8(&head).ok().and_then(|head| head.lines().next()) {
            Some(line) => answer(status, line),
            None => ("400 Bad Request", "not a request\n".into()),
        },
        Head::Long => ("431 Request Header Fields Too Large", "at most 4 KiB\n".into()),
        Head::Late => ("408 Request Timeout", "at most 5 seconds\n".into()),
    };
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: \
         close\r\n\r\n",
        body.len()
    );
    socket.set_write_timeout(Some(PATIENCE))?;
    (&*socket).write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
    // A socket that is closed with unread bytes in it takes back what it has sent, so the rest is read, but not much of it.
    socket.shutdown(Shutdown::Write)?;
    let until = Instant::now() + PATIENCE / 5;
    let mut rest = [0; HEAD];
    while read_until(socket, &mut rest, until)? > 0 {}
    Ok(())
}

/// The head of a request, with whatever came after it.
enum Head {
    Whole(Vec<u8>),
    Long,
    Late,
}

fn read_head(socket: &TcpStream, until: Instant) -> std::io::Result<Head> {
    let mut head = Vec::with_capacity(HEAD);
    let mut some = [0; 1024];
    loop {
        let n = match read_until(socket, &mut some, until) {
            Ok(n) => n,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(Head::Late),
            Err(e) => return Err(e),
        };
        head.extend_from_slice(some.get(..n).unwrap_or_default());
        // One that ends before its head does is answered like one that makes no sense.
        if n == 0 || head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(Head::Whole(head));
        }
        if head.len() > HEAD {
            return Ok(Head::Long);
        }
    }
}

fn read_until(mut socket: &TcpStream, bytes: &mut [u8], until: Instant) -> std::io::Result<usize> {
    match until.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(ErrorKind::TimedOut.into()),
        left => {
            socket.set_read_timeout(Some(left))?;
            socket.read(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[derive(Default)]
    struct Ready(AtomicBool);

    impl Status for Ready {
        fn not_ready(&self) -> Option<&'static str> {
            (!self.0.load(Ordering::Relaxed)).then_some("not yet")
        }

        fn metrics(&self) -> String {
            let mut families = Families::default();
            families.add("vesica_a", "gauge", "An a.", &[(&[], &1), (&[("of", "a \"b\"\\\n"), ("x", "y")], &2.5)]);
            families.text()
        }
    }

    fn here() -> (Arc<Ready>, SocketAddr, Arc<AtomicUsize>) {
        let status = Arc::<Ready>::default();
        let (address, connections) = opened("0", &status).unwrap();
        assert!(address.ip().is_loopback());
        (status, address, connections)
    }

    /// What comes back for these bytes: the status line's code, and the body.
    fn say(address: SocketAddr, words: &[u8]) -> (u16, String) {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.write_all(words).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let length = format!("\r\nContent-Length: {}\r\n", body.len());
        assert!(head.starts_with("HTTP/1.1 ") && head.contains(&length), "{head}");
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    fn get(address: SocketAddr, path: &str) -> (u16, String) {
        say(address, format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").as_bytes())
    }

    #[test]
    fn health_and_readiness() {
        let (status, address, _) = here();
        assert_eq!(get(address, "/healthz"), (200, "alive\n".into()));
        assert_eq!(get(address, "/readyz"), (503, "not yet\n".into()));
        status.0.store(true, Ordering::Relaxed);
        assert_eq!(get(address, "/readyz?verbose"), (200, "ready\n".into()));
        status.0.store(false, Ordering::Relaxed);
        assert_eq!(get(address, "/readyz").0, 503);
        // Nobody holds it: the port is closed.
        drop(status);
        let began = Instant::now();
        while TcpStream::connect(address).is_ok() {
            assert!(began.elapsed() < Duration::from_secs(5));
            std::thread::sleep(LOOK);
        }
    }

    #[test]
    fn a_family_is_a_line_for_each_number() {
        let (_status, address, _) = here();
        let lines = "# HELP vesica_a An a.\n# TYPE vesica_a gauge\nvesica_a 1\nvesica_a{of=\"a \\\"b\\\"\\\\\\n\",x=\"y\"} 2.5\n";
        assert_eq!(get(address, "/metrics"), (200, lines.into()));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let (_status, address, _) = here();
        for (words, status) in [
            (&b"GET /metrics\r\n\r\n"[..], 400),
            (b"\r\n\r\n", 400),
            (b"GET /metrics SPDY/3\r\n\r\n", 400),
            (b"GET metrics HTTP/1.1\r\n\r\n", 400),
            (b"GET /metrics HTTP/1.1 \r\n\r\n", 400),
            (b"\xff\xfe / HTTP/1.1\r\n\r\n", 400),
            (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
            (b"get /metrics HTTP/1.1\r\n\r\n", 405),
            (b"GET / HTTP/1.1\r\n\r\n", 404),
            (b"GET /metrics/../secret HTTP/1.1\r\n\r\n", 404),
            (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
        ] {
            assert_eq!(say(address, words).0, status, "{}", String::from_utf8_lossy(words));
        }
        assert_eq!(say(address, &[b'x'; HEAD + 1]).0, 431);
        let long = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 100_000]].concat();
        assert_eq!(say(address, &long).0, 431);
        // One that ends in the middle, and one that goes away without a word.
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(b"GET /hea").unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        drop(TcpStream::connect(address).unwrap());
        assert_eq!(get(address, "/healthz").0, 200);
    }

    #[test]
    fn those_who_say_nothing_hold_nobody_up_for_long() {
        let (_status, address, connections) = here();
        let silent: Vec<TcpStream> = (0..CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
        let began = Instant::now();
        while connections.load(Ordering::Relaxed) < CONNECTIONS {
            std::thread::sleep(LOOK);
        }
        // There is no room: one more is sent away at once.
        let mut more = TcpStream::connect(address).unwrap();
        more.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert!(more.read(&mut [0]).is_ok_and(|n| n == 0));
        // One that sends a byte now and then has no more time than the others.
        let mut slow = &silent[0];
        while connections.load(Ordering::Relaxed) == CONNECTIONS {
            let _ = slow.write_all(b"G");
            assert!(began.elapsed() < 2 * PATIENCE);
            std::thread::sleep(LOOK);
        }
        drop(silent);
        let began = Instant::now();
        while connections.load(Ordering::Relaxed) > 0 {
            assert!(began.elapsed() < PATIENCE);
            std::thread::sleep(LOOK);
        }
        assert_eq!(get(address, "/healthz").0, 200);
    }

    #[test]
    fn a_port_that_is_taken_is_named() {
        let (status, address, _) = here();
        for error in [open(&address.to_string(), &status).map(drop), try_out(&address.to_string()).map(drop)] {
            let error = error.unwrap_err().to_string();
            assert!(error.contains(&format!("mine.metrics = \"{address}\"")), "{error}");
        }
        assert!(opened_in_words(address).ends_with("/metrics"));
        assert!(opened_in_words("0.0.0.0:9".parse().unwrap()).ends_with("it has no TLS"));
    }
}
