//! How the service is, on a port of its own: `/healthz`, `/readyz`, and `/metrics` in the text format of Prometheus.
//!
//! Example: `curl http://127.0.0.1:9100/readyz` says `ready` once clients are let in. A load balancer asks that; a monitor
//! asks `/metrics`. Nothing here says which client asked, let alone for what.
//!
//! The port speaks as much of HTTP/1.1 as that takes: one GET for each connection, a head of at most 4 KiB within five
//! seconds, eight connections at once. It has no TLS and knows nobody, so it belongs on an address that only the operator
//! can reach.

use crate::error::Error;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
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

/// The upper ends of the histogram's buckets, in seconds.
const BUCKETS: [f64; 8] = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0];

/// What is told of the service's state.
#[derive(Default)]
pub struct Metrics {
    ready: AtomicBool,
    links: AtomicU64,
    parts: AtomicU64,
    entries: AtomicU64,
    fetched: Requests,
    asked: Requests,
    refused: AtomicU64,
    keys_answered: AtomicU64,
    keys_refused: AtomicU64,
    bytes_fetched: AtomicU64,
    connections: AtomicUsize,
    address: Option<SocketAddr>,
}

/// How many requests of a kind were answered, and how long that took.
#[derive(Default)]
struct Requests {
    count: AtomicU64,
    microseconds: AtomicU64,
    /// How many took no longer than each of [`BUCKETS`], and longer than the one before.
    buckets: [AtomicU64; BUCKETS.len()],
}

impl Requests {
    fn add(&self, took: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.microseconds.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if let Some(bucket) = BUCKETS.iter().position(|end| took.as_secs_f64() <= *end) {
            self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn write(&self, kind: &str, out: &mut String) {
        let name = "vesica_request_seconds";
        // What comes in while this is written may be in the count and not in a bucket, so the count is read last.
        let mut sum = 0;
        for (end, bucket) in BUCKETS.iter().zip(&self.buckets) {
            sum += bucket.load(Ordering::Relaxed);
            let _ = writeln!(out, "{name}_bucket{{kind=\"{kind}\",le=\"{end}\"}} {sum}");
        }
        let count = self.count.load(Ordering::Relaxed).max(sum);
        let seconds = self.microseconds.load(Ordering::Relaxed) as f64 / 1e6;
        let _ = writeln!(out, "{name}_bucket{{kind=\"{kind}\",le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "{name}_sum{{kind=\"{kind}\"}} {seconds}");
        let _ = writeln!(out, "{name}_count{{kind=\"{kind}\"}} {count}");
    }
}

impl Metrics {
    /// Counts from zero, and opens the port at `address`, as `host:port`, if there is one. The port is closed when nobody
    /// holds the metrics any more.
    ///
    /// # Errors
    /// If the port cannot be opened.
    pub fn open(address: Option<&str>) -> Result<Arc<Self>, Error> {
        let Some(address) = address else { return Ok(Arc::default()) };
        let bad = |e: std::io::Error| {
            Error::Setup(format!(
                "mine.metrics = {address:?}: cannot listen there ({e}); give a free port of this machine, as \
                 \"127.0.0.1:9100\""
            ))
        };
        let listener = TcpListener::bind(address).map_err(bad)?;
        listener.set_nonblocking(true).map_err(bad)?;
        let metrics = Arc::new(Self { address: Some(listener.local_addr().map_err(bad)?), ..Self::default() });
        let weak = Arc::downgrade(&metrics);
        std::thread::Builder::new().name("metrics".into()).spawn(move || listen(&listener, &weak)).map_err(bad)?;
        Ok(metrics)
    }

    /// Where the port is, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Whether clients are let in.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// How many clients' connections there are.
    pub fn set_links(&self, links: usize) {
        self.links.store(links as u64, Ordering::Relaxed);
    }

    /// How many parts the store has, which grows with each change, and how many keys.
    pub fn set_store(&self, parts: u64, keys: u64) {
        self.parts.store(parts, Ordering::Relaxed);
        self.entries.store(keys, Ordering::Relaxed);
    }

    /// So many bytes of the store were copied to a client.
    pub fn fetched(&self, bytes: u64, took: Duration) {
        self.bytes_fetched.fetch_add(bytes, Ordering::Relaxed);
        self.fetched.add(took);
    }

    /// A client was refused an answer about so many keys.
    pub fn refused(&self, keys: u64) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.keys_refused.fetch_add(keys, Ordering::Relaxed);
    }

    /// A client was answered about so many keys.
    pub fn asked(&self, keys: u64, took: Duration) {
        self.keys_answered.fetch_add(keys, Ordering::Relaxed);
        self.asked.add(took);
    }

    /// All of it, in the text format of Prometheus.
    fn text(&self) -> String {
        let mut out = String::new();
        let mut family = |name: &str, kind: &str, help: &str, values: &[(&str, &AtomicU64)]| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(out, "{name}{labels} {}", value.load(Ordering::Relaxed));
            }
        };
        let requests = [
            ("{kind=\"fetch\",outcome=\"answered\"}", &self.fetched.count),
            ("{kind=\"ask\",outcome=\"answered\"}", &self.asked.count),
            ("{kind=\"ask\",outcome=\"refused\"}", &self.refused),
        ];
        family("vesica_requests_total", "counter", "Requests of clients.", &requests);
        let keys = [("{outcome=\"answered\"}", &self.keys_answered), ("{outcome=\"refused\"}", &self.keys_refused)];
        family("vesica_keys_total", "counter", "Keys that clients asked about.", &keys);
        let bytes = [("", &self.bytes_fetched)];
        family("vesica_fetched_bytes_total", "counter", "Bytes of the store that clients copied.", &bytes);
        family("vesica_links", "gauge", "Connections of clients.", &[("", &self.links)]);
        family("vesica_store_parts", "gauge", "Parts of the store.", &[("", &self.parts)]);
        family("vesica_store_keys", "gauge", "Keys in the store.", &[("", &self.entries)]);
        let ready = AtomicU64::from(u64::from(self.ready.load(Ordering::Relaxed)));
        family("vesica_ready", "gauge", "Whether clients are let in.", &[("", &ready)]);
        let name = "vesica_request_seconds";
        let _ = writeln!(out, "# HELP {name} How long answers took.\n# TYPE {name} histogram");
        self.fetched.write("fetch", &mut out);
        self.asked.write("ask", &mut out);
        out
    }

    /// The answer to a request's first line: status and body.
    fn answer(&self, request: &str) -> (&'static str, String) {
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
            "/readyz" if self.ready.load(Ordering::Relaxed) => ("200 OK", "ready\n".into()),
            "/readyz" => ("503 Service Unavailable", "no clients are let in: the service starts or stops\n".into()),
            "/metrics" => ("200 OK", self.text()),
            _ => ("404 Not Found", "there are /healthz, /readyz and /metrics\n".into()),
        }
    }
}

/// Takes in whoever connects, until nobody holds the metrics any more.
fn listen(listener: &TcpListener, metrics: &Weak<Metrics>) {
    loop {
        let Some(metrics) = metrics.upgrade() else { return };
        let Ok((socket, _)) = listener.accept() else {
            drop(metrics);
            std::thread::sleep(LOOK);
            continue;
        };
        if metrics.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
            metrics.connections.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let spoken = metrics.clone();
        let started = std::thread::Builder::new().name("metrics".into()).spawn(move || {
            // Whoever cannot be answered is gone.
            let _ = speak(&spoken, &socket);
            spoken.connections.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            metrics.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Answers one request.
fn speak(metrics: &Metrics, socket: &TcpStream) -> std::io::Result<()> {
    socket.set_nonblocking(false)?;
    let until = Instant::now() + PATIENCE;
    let (status, body) = match read_head(socket, until)? {
        Head::Whole(head) => match std::str::from_utf8(&head).ok().and_then(|head| head.lines().next()) {
            Some(line) => metrics.answer(line),
            None => ("400 Bad Request", "not a request\n".into()),
        },
        Head::Long => ("431 Request Header Fields Too Large", "at most 4 KiB\n".into()),
        Head::Late => ("408 Request Timeout", "at most 5 seconds\n".into()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: \
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
        head.extend_from_slice(&some[..n]);
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

    fn opened() -> (Arc<Metrics>, SocketAddr) {
        let metrics = Metrics::open(Some("127.0.0.1:0")).unwrap();
        let address = metrics.address().unwrap();
        (metrics, address)
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
        let (metrics, address) = opened();
        assert_eq!(get(address, "/healthz"), (200, "alive\n".into()));
        assert_eq!(get(address, "/readyz").0, 503);
        metrics.set_ready(true);
        assert_eq!(get(address, "/readyz?verbose"), (200, "ready\n".into()));
        metrics.set_ready(false);
        assert_eq!(get(address, "/readyz").0, 503);
        // Nobody holds it: the port is closed.
        drop(metrics);
        let began = Instant::now();
        while TcpStream::connect(address).is_ok() {
            assert!(began.elapsed() < Duration::from_secs(5));
            std::thread::sleep(LOOK);
        }
    }

    #[test]
    fn what_happened_is_counted() {
        let (metrics, address) = opened();
        metrics.set_links(7);
        metrics.set_store(3, 1_000_000);
        metrics.fetched(1 << 30, Duration::from_secs(70));
        metrics.asked(500, Duration::from_millis(4));
        metrics.asked(20, Duration::from_millis(200));
        metrics.refused(9);
        let (status, text) = get(address, "/metrics");
        assert_eq!(status, 200);
        for line in [
            "# TYPE vesica_requests_total counter",
            "vesica_requests_total{kind=\"fetch\",outcome=\"answered\"} 1",
            "vesica_requests_total{kind=\"ask\",outcome=\"answered\"} 2",
            "vesica_requests_total{kind=\"ask\",outcome=\"refused\"} 1",
            "vesica_keys_total{outcome=\"answered\"} 520",
            "vesica_keys_total{outcome=\"refused\"} 9",
            "vesica_fetched_bytes_total 1073741824",
            "vesica_links 7",
            "vesica_store_parts 3",
            "vesica_store_keys 1000000",
            "vesica_ready 0",
            "# TYPE vesica_request_seconds histogram",
            "vesica_request_seconds_bucket{kind=\"ask\",le=\"0.001\"} 0",
            "vesica_request_seconds_bucket{kind=\"ask\",le=\"0.005\"} 1",
            "vesica_request_seconds_bucket{kind=\"ask\",le=\"0.1\"} 1",
            "vesica_request_seconds_bucket{kind=\"ask\",le=\"0.5\"} 2",
            "vesica_request_seconds_bucket{kind=\"ask\",le=\"+Inf\"} 2",
            "vesica_request_seconds_sum{kind=\"ask\"} 0.204",
            "vesica_request_seconds_bucket{kind=\"fetch\",le=\"60\"} 0",
            "vesica_request_seconds_bucket{kind=\"fetch\",le=\"+Inf\"} 1",
        ] {
            assert!(text.lines().any(|have| have == line), "no line {line:?} in\n{text}");
        }
        // Every line is a comment, or a name with labels and a number.
        for line in text.lines().filter(|line| !line.starts_with("# ")) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with("vesica_") && value.parse::<f64>().is_ok(), "{line}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let (_metrics, address) = opened();
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
        let (metrics, address) = opened();
        let silent: Vec<TcpStream> = (0..CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
        let began = Instant::now();
        while metrics.connections.load(Ordering::Relaxed) < CONNECTIONS {
            std::thread::sleep(LOOK);
        }
        // There is no room: one more is sent away at once.
        let mut more = TcpStream::connect(address).unwrap();
        more.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert!(more.read(&mut [0]).is_ok_and(|n| n == 0));
        // One that sends a byte now and then has no more time than the others.
        let mut slow = &silent[0];
        while metrics.connections.load(Ordering::Relaxed) == CONNECTIONS {
            let _ = slow.write_all(b"G");
            assert!(began.elapsed() < 2 * PATIENCE);
            std::thread::sleep(LOOK);
        }
        drop(silent);
        let began = Instant::now();
        while metrics.connections.load(Ordering::Relaxed) > 0 {
            assert!(began.elapsed() < PATIENCE);
            std::thread::sleep(LOOK);
        }
        assert_eq!(get(address, "/healthz").0, 200);
    }

    #[test]
    fn a_port_that_is_taken_is_named() {
        let (_metrics, address) = opened();
        let error = Metrics::open(Some(&address.to_string())).err().unwrap().to_string();
        assert!(error.contains(&format!("mine.metrics = \"{address}\"")), "{error}");
        assert!(Metrics::open(None).unwrap().address().is_none());
    }
}
