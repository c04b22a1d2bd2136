//! How the service is, for the port of [`vesica_net::status`]. Nothing here says which client asked, let alone for what.

use crate::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use vesica_net::status::{self, Families, Status};

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
    address: OnceLock<SocketAddr>,
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

    fn write(&self, kind: &str, out: &mut Families) {
        let name = "vesica_request_seconds";
        // What comes in while this is written may be in the count and not in a bucket, so the count is read last.
        let mut sum = 0;
        for (end, bucket) in BUCKETS.iter().zip(&self.buckets) {
            sum += bucket.load(Ordering::Relaxed);
            out.line(&format!("{name}_bucket"), &[("kind", kind), ("le", &end.to_string())], &sum);
        }
        let count = self.count.load(Ordering::Relaxed).max(sum);
        let seconds = self.microseconds.load(Ordering::Relaxed) as f64 / 1e6;
        out.line(&format!("{name}_bucket"), &[("kind", kind), ("le", "+Inf")], &count);
        out.line(&format!("{name}_sum"), &[("kind", kind)], &seconds);
        out.line(&format!("{name}_count"), &[("kind", kind)], &count);
    }
}

impl Metrics {
    /// Counts from zero, and opens the port at `address`, as `host:port`, if there is one. The port is closed when nobody
    /// holds the metrics any more.
    ///
    /// # Errors
    /// If the port cannot be opened.
    pub fn open(address: Option<&str>) -> Result<Arc<Self>, Error> {
        let metrics = Arc::<Self>::default();
        if let Some(address) = address {
            let _ = metrics.address.set(status::open(address, &metrics)?);
        }
        Ok(metrics)
    }

    /// Where the port is, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address.get().copied()
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
}

impl Status for Metrics {
    fn not_ready(&self) -> Option<&'static str> {
        (!self.ready.load(Ordering::Relaxed)).then_some("no clients are let in: the service starts or stops")
    }

    fn metrics(&self) -> String {
        let mut out = Families::default();
        let of = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let (answered, refused) = (("outcome", "answered"), ("outcome", "refused"));
        let requests: [(&[_], &dyn std::fmt::Display); 3] = [
            (&[("kind", "fetch"), answered], &of(&self.fetched.count)),
            (&[("kind", "ask"), answered], &of(&self.asked.count)),
            (&[("kind", "ask"), refused], &of(&self.refused)),
        ];
        out.add("vesica_requests_total", "counter", "Requests of clients.", &requests);
        let keys: [(&[_], &dyn std::fmt::Display); 2] =
            [(&[answered], &of(&self.keys_answered)), (&[refused], &of(&self.keys_refused))];
        out.add("vesica_keys_total", "counter", "Keys that clients asked about.", &keys);
        let mut one = |name, kind, help, value| out.add(name, kind, help, &[(&[], &value)]);
        let bytes = of(&self.bytes_fetched);
        one("vesica_fetched_bytes_total", "counter", "Bytes of the store that clients copied.", bytes);
        one("vesica_links", "gauge", "Connections of clients.", of(&self.links));
        one("vesica_store_parts", "gauge", "Parts of the store.", of(&self.parts));
        one("vesica_store_keys", "gauge", "Keys in the store.", of(&self.entries));
        one("vesica_ready", "gauge", "Whether clients are let in.", self.ready.load(Ordering::Relaxed).into());
        out.head("vesica_request_seconds", "histogram", "How long answers took.");
        self.fetched.write("fetch", &mut out);
        self.asked.write("ask", &mut out);
        out.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_is_counted() {
        let metrics = Metrics::open(None).unwrap();
        assert!(metrics.address().is_none() && metrics.not_ready().is_some());
        metrics.set_links(7);
        metrics.set_store(3, 1_000_000);
        metrics.fetched(1 << 30, Duration::from_secs(70));
        metrics.asked(500, Duration::from_millis(4));
        metrics.asked(20, Duration::from_millis(200));
        metrics.refused(9);
        let text = metrics.metrics();
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
}
