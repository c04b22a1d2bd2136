//! What a scheme costs on this machine: both sides in one process, no connection. `vesica bench pir` prints it.

use super::epoch::{Epoch, Shape};
use super::scheme::{self, Reader, Scheme};
use crate::error::Error;
use serde::Serialize;
use std::collections::VecDeque;
use std::time::Instant;
use vesica_job::Control;
use vesica_job::rooms::Clock;
use vesica_pir::keyword::{Filter, TAG};
use vesica_pir::piano::Builder;
use vesica_pir::rlwe::{LARGEST_REAL, OFF};
use vesica_pir::{Flat, Pir};
use vesica_session::SessionRng;
use vesica_spec::service::{By, Preset, Private, Service, ServiceProtocol};

/// One measurement. Times are medians of several queries, and each answer is compared with the table.
#[derive(Serialize, Debug)]
pub struct Cell {
    /// The scheme.
    pub protocol: &'static str,
    /// What a record is asked for by.
    pub by: &'static str,
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
    /// Bytes of the server's memory for the table, as it is prepared.
    pub store_bytes: u64,
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
    /// What records are asked for by. By key there is "simple-pir" alone, and what is prepared has the filter in it: with the other protocols
    /// a key is two records, or none.
    pub by: By,
}

/// Measures `protocol` on `rows` random records of `bytes` bytes, which for `ckks-pir` are real numbers of eight bytes.
///
/// # Errors
/// If the scheme does not serve such a table, or gives a wrong record.
pub fn pir(protocol: ServiceProtocol, rows: u64, bytes: u32, choice: Choice, ctl: &Control) -> Result<Cell, Error> {
    let Choice { expected, preset, by } = choice;
    if by == By::Key && protocol != ServiceProtocol::SimplePir {
        return Err(Error::Setup(format!(
            "--by key: \"{}\" is not measured so, as it fetches two records for a key or none; measure it by index",
            protocol.name()
        )));
    }
    let mut clock = Clock::start(ctl);
    let mut rng =
        SessionRng::from_os().map_err(|e| Error::Setup(format!("the system has no randomness to give: {e}")))?;
    let size = usize::try_from(rows * u64::from(bytes)).map_err(|_| Error::Setup("the table is too large".into()))?;
    let mut values = vec![0; size];
    rng.fill(&mut values);
    if protocol == ServiceProtocol::CkksPir {
        values.chunks_exact_mut(8).for_each(real);
    }
    let start = Instant::now();
    let keyed = match by {
        By::Index => None,
        By::Key => Some(Keyed::new(&values, bytes as usize, expected, &mut rng)?),
    };
    let (records, width, table) = match &keyed {
        None => (rows, bytes as usize, &values),
        Some(keyed) => (keyed.records, keyed.filter.width(), &keyed.table),
    };
    let epoch = Epoch::new(
        &crate::offer::Offer::new(&service(protocol, expected), 0, Some(bytes), 0, &[]),
        1,
        Shape { rows, records, width, seed: rng.bytes(), salt: rng.bytes(), sealed: rng.bytes(), expected, preset },
    );
    let scheme = Scheme::new(protocol, by, &epoch)?;
    let flat = Flat::new(table, width)?;
    let wanted = Flat::new(&values, bytes as usize)?;
    let sizes = scheme.sizes();
    let mut times = Times::default();
    let (prepare_s, hint_bytes, stream_bytes);
    match &scheme {
        Scheme::Simple(simple) => {
            let store = simple.store(&flat)?;
            // By key, the filter and the layout are part of what is prepared.
            let start = if by == By::Key { start } else { Instant::now() };
            let hint = simple.hint(&store)?;
            (prepare_s, hint_bytes, stream_bytes) =
                (start.elapsed().as_secs_f64(), hint.len() as u64, hint.len() as u64);
            let mut reader = Reader::Simple(*simple, Box::new(simple.take_hint(hint)?), VecDeque::new());
            let places = |index: u64| keyed.as_ref().map_or(vec![index], |keyed| keyed.places(index));
            let open = |index: u64, record: &[u8]| match &keyed {
                None => record.to_vec(),
                Some(keyed) => keyed.filter.open(&keyed.keys[index as usize], record).unwrap_or_default().to_vec(),
            };
            for turn in 0..QUERIES {
                let index = pick(rows, turn, &mut rng);
                let query = times.query(|| reader.query(&places(index), &mut rng))?;
                let answer = times.answer(|| simple.answer(&store, &[&query]))?.concat();
                let record = times.decode(|| Ok::<_, Error>(open(index, &reader.decode(&answer)?)))?;
                compare(protocol, wanted, index, &record)?;
            }
            for _ in 0..QUERIES.div_ceil(4).min(3) {
                let queries = (0..4).map(|_| reader.query(&places(0), &mut rng)).collect::<Result<Vec<_>, _>>()?;
                let queries: Vec<&[u8]> = queries.iter().map(Vec::as_slice).collect();
                for answer in times.of_four(|| simple.answer(&store, &queries))? {
                    compare(protocol, wanted, 0, &open(0, &reader.decode(&answer)?))?;
                }
            }
        }
        Scheme::Download(download) => {
            (prepare_s, hint_bytes, stream_bytes) = (0.0, table.len() as u64, table.len() as u64);
            let table = download.take_hint(table.clone())?;
            let mut reader = Reader::Download(*download, table, VecDeque::new());
            for turn in 0..QUERIES {
                let index = pick(rows, turn, &mut rng);
                times.query(|| reader.query(&[index], &mut rng))?;
                times.answer(|| ());
                compare(protocol, wanted, index, &times.decode(|| reader.decode(&[]))?)?;
            }
        }
        Scheme::Lattice(_) => {
            let start = Instant::now();
            let store = scheme.store(&flat)?;
            (prepare_s, hint_bytes, stream_bytes) = (start.elapsed().as_secs_f64(), 0, 0);
            let none = || Error::bug("a scheme without a client");
            let mut reader = scheme.reader(Vec::new())?.ok_or_else(none)?;
            let keys = reader.session(&mut rng);
            for turn in 0..QUERIES {
                let index = pick(rows, turn, &mut rng);
                let query = times.query(|| reader.query(&[index], &mut rng))?;
                let answer = times.answer(|| scheme.answer(&store, &keys, &[&query]))?.concat();
                let record = times.decode(|| reader.decode(&answer))?;
                compare(protocol, wanted, index, &record)?;
            }
            for _ in 0..QUERIES.div_ceil(4).min(3) {
                let queries = (0..4).map(|_| reader.query(&[0], &mut rng)).collect::<Result<Vec<_>, _>>()?;
                let queries: Vec<&[u8]> = queries.iter().map(Vec::as_slice).collect();
                for answer in times.of_four(|| scheme.answer(&store, &keys, &queries))? {
                    compare(protocol, wanted, 0, &reader.decode(&answer)?)?;
                }
            }
        }
        Scheme::Piano(piano) => {
            let start = Instant::now();
            let mut builder = Builder::new(*piano, &mut rng);
            builder.push(table)?;
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
    let reads_all = matches!(scheme, Scheme::Simple(_) | Scheme::Lattice(_));
    Ok(Cell {
        protocol: protocol.name(),
        by: by.name(),
        rows,
        bytes,
        prepare_s,
        hint_bytes,
        stream_bytes,
        store_bytes: scheme.store_bytes(table.len() as u64),
        keys_bytes: scheme.keys_bytes(),
        up_bytes: sizes.query,
        down_bytes: sizes.answer,
        query_ms: median(times.query),
        answer_ms,
        answer_of_four_ms: reads_all.then(|| median(times.of_four) / 4.0),
        decode_ms: median(times.decode),
        gb_a_second: reads_all.then(|| table.len() as f64 / (answer_ms * 1e6)),
        peak_memory: clock.close().1.peak_memory.into(),
        queries: QUERIES,
    })
}

/// A table of keys.
struct Keyed {
    keys: Vec<[u8; 32]>,
    filter: Filter,
    records: u64,
    table: Vec<u8>,
}

impl Keyed {
    /// Keys for these values.
    fn new(values: &[u8], bytes: usize, expected: u32, rng: &mut SessionRng) -> Result<Self, Error> {
        let keys: Vec<[u8; 32]> = values.chunks_exact(bytes).map(|_| rng.bytes()).collect();
        let shape = scheme::shape(By::Key, keys.len() as u64, (TAG + bytes) as u32, expected)?;
        let (mut filter, members) = Filter::spread(&shape, bytes, &keys, rng)?;
        let size = filter.slots() * filter.width();
        let mut table = vec![0; members.len() * size];
        for (group, members) in members.iter().enumerate() {
            let of_group: Vec<&[u8; 32]> = members.iter().map(|&key| &keys[key as usize]).collect();
            let bodies: Vec<u8> =
                members.iter().flat_map(|&key| &values[key as usize * bytes..][..bytes]).copied().collect();
            filter.fill(group, [0; 32], &of_group, &bodies, rng, &mut table[group * size..][..size])?;
        }
        Ok(Self { keys, filter, records: shape.records, table })
    }

    fn places(&self, index: u64) -> Vec<u64> {
        self.filter.places(&self.keys[index as usize]).to_vec()
    }
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
        use ServiceProtocol::{BfvPir, BgvPir, CkksPir, Download, Piano, SimplePir};
        let choice = Choice { expected: 10, preset: Preset::Fast, by: By::Index };
        for protocol in [Download, Piano, SimplePir, BfvPir, BgvPir, CkksPir] {
            let cell = pir(protocol, 1000, 16, choice, &Control::new(())).unwrap();
            assert_eq!((cell.protocol, cell.rows, cell.bytes), (protocol.name(), 1000, 16));
            assert_eq!(cell.gb_a_second.is_some(), !matches!(protocol, Download | Piano));
            assert_eq!(cell.up_bytes == 0, protocol == ServiceProtocol::Download);
            // The lattice schemes hold polynomials, which are longer than the table.
            assert_eq!(cell.store_bytes > 16_000, matches!(protocol, BfvPir | BgvPir | CkksPir), "{protocol:?}");
        }
        let by_key = Choice { by: By::Key, ..choice };
        let cell = pir(SimplePir, 1000, 16, by_key, &Control::new(())).unwrap();
        assert_eq!((cell.by, cell.rows, cell.bytes), ("key", 1000, 16));
        assert!(pir(ServiceProtocol::EcdhOprf, 10, 1, choice, &Control::new(())).is_err());
        assert!(pir(Piano, 0, 1, choice, &Control::new(())).is_err());
        assert!(pir(Piano, 10, 1, by_key, &Control::new(())).is_err());
        assert!(pir(CkksPir, 10, 12, choice, &Control::new(())).is_err());
    }
}
