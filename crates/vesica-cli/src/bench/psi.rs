//! An intersection of made-up keys: both parties in this process, and a local socket without TLS between them.

use crate::failure::Failure;
use crate::flags::BenchPsi;
use crate::{crash, interrupt, progress};
use serde::Serialize;
use std::fmt::Write;
use std::time::Instant;
use vesica::{Accept, Connection, Control, Error, Extra, Found, Job, Protocol};
use vesica_job::rooms::Clock;
use vesica_spec::Noise;

/// The noise of `dp`, where it is measured: what an answer may tell, and no key left out.
const NOISE: Noise = Noise { epsilon: 3.0, sampling: None, largest: None };

/// The most bytes that the keys of both parties may take, which are in memory, with the places of each.
const MOST: u64 = 32 << 30;

/// One measurement. Time, CPU and memory are those of both parties together, the making of the keys left out of the first two.
#[derive(Serialize)]
pub struct Cell {
    protocol: &'static str,
    /// Nothing where the protocol has none to choose.
    curve: Option<&'static str>,
    mode: &'static str,
    security: &'static str,
    /// Rows of alice's table, and of bob's.
    rows: [u64; 2],
    /// Bytes of a key.
    bytes: u32,
    /// The parties that learn the result.
    learns: Vec<String>,
    wall_s: f64,
    cpu_s: f64,
    /// Bytes from alice to bob, with framing.
    up_bytes: u64,
    /// Bytes from bob to alice, with framing.
    down_bytes: u64,
    /// The most memory that this process had, with the keys of both parties.
    peak_memory: u64,
    /// Keys that both tables hold.
    expected: u64,
    /// Rows that alice was told of.
    found: u64,
    /// Whether these are the rows that they should be. Else the protocol is one that adds noise: any other that is wrong is an error.
    exact: bool,
    /// The instruction set that the arithmetic ran on.
    cpu: String,
    version: String,
}

pub fn measure(args: BenchPsi) -> Result<Cell, Failure> {
    let [rows, others] = args.rows.both();
    if rows.saturating_add(others).saturating_mul(u64::from(args.bytes) + 32) > MOST {
        return Err(Failure::usage(format!(
            "--rows: {rows} and {others} keys of {} bytes are too many to be held in memory; use `vesica gen` and `vesica run`",
            args.bytes
        )));
    }
    let overlap = args.overlap.unwrap_or(rows.min(others) / 2);
    if overlap > rows.min(others) {
        return Err(Failure::usage(format!("--overlap: {overlap} keys are more than the smaller table has")));
    }
    // alice has the first numbers and bob the last ones.
    let mine = Keys::new(0..rows, args.bytes)?;
    let theirs = Keys::new(rows - overlap..rows - overlap + others, args.bytes)?;
    let job = job(&args);

    let screen = progress::begin(progress::How::Quiet);
    interrupt::stops(screen.control())?;
    let (start, before) = (Instant::now(), Clock::start(screen.control()).close().1);
    let [alice, bob] = both(&job, &mine.all(), &theirs.all(), screen.control())?;
    let (wall, after) = (start.elapsed(), Clock::start(screen.control()).close().1);
    drop(screen);

    let exact = right(&alice, rows - overlap, overlap) && right(&bob, 0, overlap);
    let cell = Cell {
        protocol: args.protocol.name(),
        curve: args.protocol.has_curve().then_some(args.curve.name()),
        mode: args.mode.name(),
        security: args.security.name(),
        rows: [rows, others],
        bytes: args.bytes,
        learns: job.shared.learns,
        wall_s: wall.as_secs_f64(),
        cpu_s: after.cpu.saturating_sub(before.cpu).as_secs_f64(),
        up_bytes: alice.report.total.sent,
        down_bytes: alice.report.total.received,
        peak_memory: after.peak_memory,
        expected: overlap,
        found: alice.positions.map_or(0, |positions| positions.len() as u64),
        exact,
        cpu: alice.report.chosen.cpu,
        version: alice.report.host.version,
    };
    if !exact && args.protocol != Protocol::Dp {
        let why = format!("WRONG RESULT: {} rows of {overlap}. This is a bug in Vesica; please report it", cell.found);
        return Err(Failure::new(crash::EXIT, why));
    }
    Ok(cell)
}

fn job(args: &BenchPsi) -> Job {
    let parties = ["alice", "bob"];
    let learns = if args.both { &parties[..] } else { &parties[..1] };
    let mut job = Job::new("bench", &parties, args.protocol, learns);
    job.shared.curve = args.curve;
    job.shared.mode = args.mode;
    job.shared.security = args.security;
    job.shared.dp = (args.protocol == Protocol::Dp).then_some(NOISE);
    if args.protocol == Protocol::Hash {
        // These keys are nobody's.
        job.shared.accept = Accept::Named(vec![Extra::GuessableKeys]);
    }
    job
}

/// Both sides, each in a thread. Of two errors it is the one that says more.
fn both(job: &Job, mine: &[&str], theirs: &[&str], ctl: &Control) -> Result<[Found; 2], Failure> {
    let (here, there) = Connection::pair()
        .map_err(|error| Failure::from(Error::Setup(format!("the system has no sockets to give: {error}"))))?;
    // What noisy runs tell is added up in files; these runs tell nobody anything.
    let budgets = tempfile::tempdir().map_err(Failure::file("cannot make a folder in", std::env::temp_dir()))?;
    let side = |name: &str| match job.shared.dp {
        Some(noise) => job.side(name).budget(budgets.path().join(name), noise.epsilon),
        None => job.side(name),
    };
    let (alice, bob) = std::thread::scope(|scope| {
        let bob = scope.spawn(|| side("bob").watched(&ctl.unwatched()).find(theirs, [there]));
        let alice = side("alice").watched(ctl).find(mine, [here]);
        (alice, bob.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    match (alice, bob) {
        (Ok(alice), Ok(bob)) => Ok([alice, bob]),
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error.into()),
        (Err(alice), Err(bob)) => Err(if alice.is_an_echo() { bob } else { alice }.into()),
    }
}

/// Whether a party was told exactly the `overlap` rows from `first` on; one that does not learn must be told none.
fn right(found: &Found, first: u64, overlap: u64) -> bool {
    let Some(mut positions) = found.positions.clone() else { return found.report.outcome.matched.is_none() };
    positions.sort_unstable();
    positions.into_iter().eq(first..first + overlap)
}

/// Keys of one length, one after the other.
struct Keys {
    text: String,
    bytes: usize,
}

impl Keys {
    /// The numbers of a range, in hexadecimal.
    fn new(numbers: std::ops::Range<u64>, bytes: u32) -> Result<Self, Failure> {
        let bytes = bytes as usize;
        let needed = format!("{:x}", numbers.end.saturating_sub(1)).len();
        if needed > bytes {
            return Err(Failure::usage(format!(
                "--bytes: so many distinct keys need {needed} bytes each, and not {bytes}"
            )));
        }
        let mut text = String::with_capacity(bytes * (numbers.end - numbers.start) as usize);
        numbers.for_each(|number| _ = write!(text, "{number:0bytes$x}"));
        Ok(Self { text, bytes })
    }

    fn all(&self) -> Vec<&str> {
        (0..self.text.len() / self.bytes).map(|i| &self.text[i * self.bytes..(i + 1) * self.bytes]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_distinct_and_of_one_length() {
        let keys = Keys::new(14..18, 3).ok().unwrap();
        assert_eq!(keys.all(), ["00e", "00f", "010", "011"]);
        assert!(Keys::new(0..17, 1).is_err() && Keys::new(0..16, 1).is_ok());
        assert!(Keys::new(0..0, 1).ok().unwrap().all().is_empty());
    }
}
