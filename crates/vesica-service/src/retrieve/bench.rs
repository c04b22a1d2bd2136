//! What a scheme costs on this machine: both sides in one process, no connection. `vesica bench pir` prints it.

use super::epoch::{Epoch, Shape};
use super::scheme::Scheme;
use crate::error::Error;
use serde::Serialize;
use std::time::Instant;
use vesica_job::Control;
use vesica_job::rooms::Clock;
use vesica_pir::Flat;
use vesica_pir::piano::Builder;
use vesica_pir::rlwe::{LARGEST_REAL, OFF};
use vesica_session::SessionRng;
use vesica_spec::service::{By, Preset, Private, Service, ServiceProtocol};

/// One measurement. Times are medians of several queries, and each answer is compared with the table.
#[derive(Serialize, Debug)]
pub struct Cell {
    /// The scheme.
    pub protocol: &'static str,
    /// Records.
    pub rows: u64,
    /// Bytes of each.
    pub bytes: u32,
    /// Seconds before anybody asks: the hint, or for Piano a client's window.
    pub prepare_s: f64,
    /// Bytes that the client keeps.
    pub hint_bytes: u64,
    /// Bytes that stream to the client once: the hint, or the table.
    pub stream_bytes: u64,
    /// Bytes of the keys that the client sends before its first query.
    pub keys_bytes: usize,
    /// Bytes of a query.
    pub up_bytes: usize,
    /// Bytes of an answer.
    pub down_bytes: usize,
    /// Milliseconds that the client takes for a query.
    pub query_ms: f64,
    /// Milliseconds that the server takes for an answer.
    pub answer_ms: f64,
    /// Milliseconds that the server takes for one of four answers that it computes together; none where that is no less.
    pub answer_of_four_ms: Option<f64>,
    /// Milliseconds that the client takes for the record.
    pub decode_ms: f64,
    /// Gigabytes (10^9) of the table a second, for schemes that read all of it.
    pub gb_a_second: Option<f64>,
    /// The most memory that this process had, in bytes.
    pub peak_memory: Option<u64>,
    /// Queries of each kind that were measured.
    pub queries: usize,
}

/// Queries that are measured.
const QUERIES: usize = 15;

/// What is measured beside the table's sizes.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// How many queries a client is to make: the shape of `simple-pir` follows from it.
    pub expected: u32,
    /// Which rings `bfv-pir` and `bgv-pir` use.
    pub preset: Preset,
}

/// Measures `protocol` on `rows` random records of `bytes` bytes, which for `ckks-pir` are real numbers of eight bytes.
///
/// # Errors
/// If the scheme does not serve such a table, or gives a wrong record.
pub fn pir(protocol: ServiceProtocol, rows: u64, bytes: u32, choice: Choice, ctl: &Control) -> Result<Cell, Error> {
    let Choice { expected, preset } = choice;
    let mut clock = Clock::start(ctl);
    let mut rng =
        SessionRng::from_os().map_err(|e| Error::Setup(format!("the system has no randomness to give: {e}")))?;
    let epoch = Epoch::new(
        &crate::offer::Offer::new(&service(protocol, expected), 0, Some(bytes), 0, &[]),
        1,
        Shape { rows, records: rows, width: bytes as usize, seed: rng.bytes(), salt: rng.bytes(), expected, preset },
    );
    let scheme = Scheme::new(protocol, &epoch)?;
    let size = usize::try_from(rows * u64::from(bytes)).map_err(|_| Error::Setup("the table is too large".into()))?;
    let mut table = vec![0; size];
    rng.fill(&mut table);
    if protocol == ServiceProtocol::CkksPir {
        table.chunks_exact_mut(8).for_each(real);
    }
    let flat = Flat::new(&table, bytes as usize)?;
    let sizes = scheme.sizes();
    let mut times = Times::default();
    let (prepare_s, hint_bytes, stream_bytes);
    match &scheme {
        Scheme::Linear(linear) => {
            let serves = linear.serve(flat)?;
            let start = Instant::now();
            let hint = serves.hint()?;
            (prepare_s, hint_bytes, stream_bytes) =
                (start.elapsed().as_secs_f64(), hint.len() as u64, hint.len() as u64);
            let mut reads = linear.read(&hint)?;
            let keys = reads.session(&mut rng);
            for turn in 0..QUERIES {
                let index = pick(rows, turn, &mut rng);
                let query = times.query(|| reads.query(index, &mut rng))?;
                let answer = times.answer(|| serves.answer(&keys, &[&query]))?.concat();
                let record = times.decode(|| reads.decode(&answer))?;
                compare(protocol, flat, index, &record)?;
            }
            for _ in 0..QUERIES.div_ceil(4).min(3) {
                let queries = (0..4).map(|_| reads.query(0, &mut rng)).collect::<Result<Vec<_>, _>>()?;
                let queries: Vec<&[u8]> = queries.iter().map(Vec::as_slice).collect();
                for answer in times.of_four(|| serves.answer(&keys, &queries))? {
                    compare(protocol, flat, 0, &reads.decode(&answer)?)?;
                }
            }
        }
        Scheme::Piano(piano) => {
            let start = Instant::now();
            let mut builder = Builder::new(*piano, &mut rng);
            builder.push(&table)?;
            let mut window = builder.finish()?;
            (prepare_s, hint_bytes, stream_bytes) =
                (start.elapsed().as_secs_f64(), piano.window_bytes(), table.len() as u64);
            for turn in 0..QUERIES {
                let index = pick(rows, turn, &mut rng);
                let intent = times.query(|| window.intend(index, &mut rng))?;
                let answer = times.answer(|| piano.answer(flat, intent.query()))?;
                times.decode(|| window.settle(&intent, &answer))?;
                compare(protocol, flat, index, window.known(index).unwrap_or_default())?;
            }
        }
    }
    let answer_ms = median(times.answer);
    let reads_all = matches!(scheme, Scheme::Linear(_)) && sizes.query > 0;
    Ok(Cell {
        protocol: protocol.name(),
        rows,
        bytes,
        prepare_s,
        hint_bytes,
        stream_bytes,
        keys_bytes: scheme.keys_bytes(),
        up_bytes: sizes.query,
        down_bytes: sizes.answer,
        query_ms: median(times.query),
        answer_ms,
        answer_of_four_ms: reads_all.then(|| median(times.of_four) / 4.0),
        decode_ms: median(times.decode),
        gb_a_second: reads_all.then(|| size as f64 / (answer_ms * 1e6)),
        peak_memory: clock.close().1.peak_memory.into(),
        queries: QUERIES,
    })
}

/// A service of this protocol whose rows are public.
fn service(protocol: ServiceProtocol, expected_queries: u32) -> Service {
    Service {
        id: "bench".to_owned(),
        protocol,
        by: By::Index,
        private: Private::Client,
        accept: Vec::new(),
        preset: Preset::default(),
        expected_queries,
        curve: vesica_spec::CurveName::Ristretto255,
        values: vec!["value".to_owned()],
        value_bytes: None,
        verifiable: false,
        lifetime_keys: 1,
        rules: vesica_spec::Rules::default(),
        insecure: true,
    }
}

/// The last record, the first one, and then any.
fn pick(rows: u64, turn: usize, rng: &mut SessionRng) -> u64 {
    match turn {
        0 => rows - 1,
        1 => 0,
        _ => u64::from_le_bytes(rng.bytes()) % rows,
    }
}

/// Makes a real number from -128 to 128 of eight random bytes.
fn real(eight: &mut [u8]) {
    let bits = u32::from_le_bytes(std::array::from_fn(|i| eight[i]));
    eight.copy_from_slice(&((f64::from(bits) / f64::from(u32::MAX) * 2.0 - 1.0) * LARGEST_REAL).to_le_bytes());
}

fn compare(protocol: ServiceProtocol, table: Flat<'_>, index: u64, record: &[u8]) -> Result<(), Error> {
    let number = |eight: &[u8]| f64::from_le_bytes(std::array::from_fn(|i| eight[i]));
    let near = |(a, b): (&[u8], &[u8])| (number(a) - number(b)).abs() <= OFF;
    let wanted = table.record(index);
    let is_right = match protocol {
        ServiceProtocol::CkksPir => {
            wanted.len() == record.len() && wanted.chunks_exact(8).zip(record.chunks_exact(8)).all(near)
        }
        _ => wanted == record,
    };
    if is_right {
        return Ok(());
    }
    Err(vesica_session::Error::Bug(format!("record {index} was retrieved wrongly")).into())
}

/// Milliseconds of each step.
#[derive(Default)]
struct Times {
    query: Vec<f64>,
    answer: Vec<f64>,
    of_four: Vec<f64>,
    decode: Vec<f64>,
}

impl Times {
    fn query<T>(&mut self, work: impl FnOnce() -> T) -> T {
        timed(&mut self.query, work)
    }

    fn answer<T>(&mut self, work: impl FnOnce() -> T) -> T {
        timed(&mut self.answer, work)
    }

    fn of_four<T>(&mut self, work: impl FnOnce() -> T) -> T {
        timed(&mut self.of_four, work)
    }

    fn decode<T>(&mut self, work: impl FnOnce() -> T) -> T {
        timed(&mut self.decode, work)
    }
}

fn timed<T>(times: &mut Vec<f64>, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    times.push(start.elapsed().as_secs_f64() * 1e3);
    done
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_is_measured_and_compared_with_its_table() {
        let choice = Choice { expected: 10, preset: Preset::Fast };
        use ServiceProtocol::{BfvPir, BgvPir, CkksPir, Download, Piano, SimplePir};
        for protocol in [Download, Piano, SimplePir, BfvPir, BgvPir, CkksPir] {
            let cell = pir(protocol, 1000, 16, choice, &Control::new(())).unwrap();
            assert_eq!((cell.protocol, cell.rows, cell.bytes), (protocol.name(), 1000, 16));
            assert_eq!(cell.gb_a_second.is_some(), !matches!(protocol, Download | Piano));
            assert_eq!(cell.up_bytes == 0, protocol == ServiceProtocol::Download);
        }
        assert!(pir(ServiceProtocol::EcdhOprf, 10, 1, choice, &Control::new(())).is_err());
        assert!(pir(Piano, 0, 1, choice, &Control::new(())).is_err());
        assert!(pir(CkksPir, 10, 12, choice, &Control::new(())).is_err());
    }
}
