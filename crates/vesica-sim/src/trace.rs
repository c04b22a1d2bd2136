//! What happened in a run, as two hashes and, where asked for, as words.

use std::time::Duration;

/// What happened.
pub struct Trace {
    all: blake3::Hasher,
    shown: blake3::Hasher,
    words: Option<Vec<String>>,
}

impl Trace {
    /// Nothing yet. Words are kept if `keep` is set.
    pub fn new(keep: bool) -> Self {
        Self { all: blake3::Hasher::new(), shown: blake3::Hasher::new(), words: keep.then(Vec::new) }
    }

    /// Something that no peer sees.
    pub fn tell(&mut self, now: Duration, what: impl FnOnce() -> String) {
        let line = format!("{:>12.6} {}", now.as_secs_f64(), what());
        self.all.update(line.as_bytes()).update(b"\n");
        if let Some(words) = &mut self.words {
            words.push(line);
        }
    }

    /// Something that a peer sees: `what` is seen, and `bytes` by the length alone, for they are encrypted or chosen at random.
    pub fn show(&mut self, now: Duration, bytes: &[u8], what: impl FnOnce() -> String) {
        let line = format!("{:>12.6} {} ({} bytes)", now.as_secs_f64(), what(), bytes.len());
        self.shown.update(line.as_bytes()).update(b"\n");
        self.all.update(line.as_bytes()).update(bytes);
        if let Some(words) = &mut self.words {
            words.push(line);
        }
    }

    /// A hash of everything: two runs with one seed have the same.
    pub fn all(&self) -> blake3::Hash {
        self.all.finalize()
    }

    /// A hash of what the parties can see of each other: when what was said to whom, and how long it was.
    pub fn shown(&self) -> blake3::Hash {
        self.shown.finalize()
    }

    /// The words, if they are kept.
    pub fn words(&self) -> &[String] {
        self.words.as_deref().unwrap_or_default()
    }
}
