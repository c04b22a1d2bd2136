//! What a scheme costs on this machine: both sides in one process, no connection. `vesica bench pir` prints it.

use super::Costs;
use super::epoch::{Epoch, Layout};
use super::make::filtered;
use crate::error::Error;
use crate::offer::{Offer, sample};
use crate::rng;
use crate::suite::Kind;
use serde::Serialize;
use std::sync::Arc;
use vesica_job::Control;
use vesica_job::rooms::Clock;
use vesica_net::{SystemClock, Time};
use vesica_pir::keyword::{Filter, TAG};
use vesica_pir::rlwe::{LARGEST_REAL, OFF};
use vesica_pir::{Flat, Shape};
use vesica_session::SessionRng;
use vesica_spec::service::{By, Hint, Preset, Private};

/// One measurement. Times are medians of several queries, and each answer is compared with the table.
#[derive(Serialize, Debug)]
pub struct Cell {
    /// The scheme.
    pub protocol: &'static str,
    /// For `simple-pir`: whether clients copy a hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<&'static str>,
    /// What a record is asked for by.
    pub by: &'static str,
    /// Records.
    pub rows: u64,
    /// Bytes of each.
    pub bytes: u32,
    /// Threads that prepared and answered.
    pub workers: usize,
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
    /// Threads that prepare the table and answer.
    pub workers: usize,
    /// What records are asked for by. By key there is "simple-pir" alone, and what is prepared has the filter in it: with the other
    /// protocols a key is two records, or none.
    pub by: By,
}

/// Measures a scheme on `rows` random records of `bytes` bytes, which for `ckks-pir` are real numbers of eight bytes.
///
/// # Errors
/// If the scheme does not serve such a table, or gives a wrong record.
pub fn pir(kind: Kind, rows: u64, bytes: u32, choice: Choice, ctl: &Control) -> Result<Cell, Error> {
    let Choice { expected, preset, workers, by } = choice;
    let suite = kind.scheme()?;
    let shape = suite.filter();
    if by == By::Key && shape.is_none() {
        return Err(Error::Setup(format!(
            "--by key: \"{}\" is not measured so, as it fetches two records for a key or none; measure it by index",
            kind.protocol.name()
        )));
    }
    let (mut clock, mut rng) = (Clock::start(ctl), rng()?);
    let size = usize::try_from(rows * u64::from(bytes)).map_err(|_| Error::Setup("the table is too large".into()))?;
    let mut values = vec![0; size];
    rng.fill(&mut values);
    if suite.has_reals() {
        values.chunks_exact_mut(8).for_each(real);
    }
    let start = SystemClock.now();
    let shape = shape.filter(|_| by == By::Key).map(|shape| shape(rows, (TAG + bytes as usize) as u32, expected));
    let keyed =
        shape.transpose()?.map(|shape| Keyed::new(&shape, &values, bytes as usize, &mut rng, ctl)).transpose()?;
    let (records, width, table) = match &keyed {
        None => (rows, bytes as usize, Arc::new(values.clone())),
        Some(keyed) => (keyed.records, keyed.filter.width(), keyed.table.clone()),
    };
    let places = |index: u64| vec![Some(keyed.as_ref().map_or(vec![index], |keyed| keyed.places(index)))];
    let open = |index: u64, record: Vec<u8>| match &keyed {
        None => record,
        Some(keyed) => keyed.filter.open(&keyed.keys[index as usize], &record).unwrap_or_default().to_vec(),
    };
    let epoch = Epoch::new(
        &Offer::new(&sample(kind, By::Index, Private::Client), 0, Some(bytes), 0, &[])?,
        1,
        Layout { rows, records, width, seed: rng.bytes(), salt: rng.bytes(), sealed: rng.bytes(), expected, preset },
    );
    let scheme = suite.retrieval(by, &epoch)?;
    let (sizes, wanted) = (scheme.sizes(), Flat::new(&values, bytes as usize)?);
    let table_bytes = table.len() as u64;
    let [mut query_ms, mut answer_ms, mut of_four_ms, mut decode_ms] = <[Vec<f64>; 4]>::default();
    // What is prepared before anybody asks: by key, the filter and the layout are part of it.
    let before = if by == By::Key { start } else { SystemClock.now() };
    let server = scheme.server(table, workers)?;
    let before = if scheme.has_hint() && scheme.beside() == 0 && by == By::Index { SystemClock.now() } else { before };
    let hint = server.hint()?;
    let (hinted_s, copy) =
        (SystemClock.since(before).as_secs_f64(), if hint.is_empty() { server.table().to_vec() } else { hint });
    let start = SystemClock.now();
    let mut client = scheme.reader(copy, &mut rng)?;
    let read_s = if scheme.has_windows() { SystemClock.since(start).as_secs_f64() } else { 0.0 };
    let keys = client.begin(&mut rng);
    let now = |work: &mut dyn FnMut()| work();
    for turn in 0..QUERIES {
        let index = pick(rows, turn, &mut rng);
        let query = timed(&mut query_ms, || client.round(&places(index), &mut rng))?;
        let answer = match sizes.query {
            0 => Vec::new(),
            _ => timed(&mut answer_ms, || server.answer(&keys, &[&query], &now))?.concat(),
        };
        let record = timed(&mut decode_ms, || {
            client.take(&answer)?;
            Ok::<_, Error>(client.records()?.into_iter().flatten().next().map(|record| open(index, record)))
        })?;
        compare(suite.has_reals(), wanted, index, &record.unwrap_or_default())?;
    }
    let Costs { kept, memory, reads_all, .. } = scheme.costs(table_bytes, 1.0);
    for _ in 0..if reads_all { QUERIES.div_ceil(4).min(3) } else { 0 } {
        let queries = client.round(&vec![places(0).remove(0); 4], &mut rng)?;
        let queries: Vec<&[u8]> = queries.chunks_exact(sizes.query).collect();
        client.take(&timed(&mut of_four_ms, || server.answer(&keys, &queries, &now))?.concat())?;
        for record in client.records()?.into_iter().flatten() {
            compare(suite.has_reals(), wanted, 0, &open(0, record))?;
        }
    }
    let answer_ms = median(answer_ms);
    Ok(Cell {
        protocol: kind.protocol.name(),
        hint: kind.hint.map(Hint::name),
        by: by.name(),
        rows,
        bytes,
        workers,
        prepare_s: hinted_s + read_s,
        hint_bytes: kept,
        stream_bytes: scheme.copied(),
        store_bytes: memory,
        keys_bytes: scheme.keys_bytes(),
        up_bytes: sizes.query,
        down_bytes: sizes.answer,
        query_ms: median(query_ms),
        answer_ms,
        answer_of_four_ms: reads_all.then(|| median(of_four_ms) / 4.0),
        decode_ms: median(decode_ms),
        gb_a_second: reads_all.then(|| table_bytes as f64 / (answer_ms * 1e6)),
        peak_memory: clock.close().1.peak_memory.into(),
        queries: QUERIES,
    })
}

/// A table of keys.
struct Keyed {
    keys: Vec<[u8; 32]>,
    filter: Filter,
    records: u64,
    table: Arc<Vec<u8>>,
}

impl Keyed {
    /// Keys for these values.
    fn new(shape: &Shape, values: &[u8], bytes: usize, rng: &mut SessionRng, ctl: &Control) -> Result<Self, Error> {
        let keys: Vec<[u8; 32]> = values.chunks_exact(bytes).map(|_| rng.bytes()).collect();
        let (filter, table) = filtered(shape, bytes, &keys, values, [0; 32], rng, ctl)?;
        Ok(Self { keys, filter, records: shape.records, table: Arc::new(table) })
    }

    fn places(&self, index: u64) -> Vec<u64> {
        self.filter.places(&self.keys[index as usize]).to_vec()
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

fn compare(are_reals: bool, table: Flat<'_>, index: u64, record: &[u8]) -> Result<(), Error> {
    let number = |eight: &[u8]| f64::from_le_bytes(std::array::from_fn(|i| eight[i]));
    let near = |(a, b): (&[u8], &[u8])| (number(a) - number(b)).abs() <= OFF;
    let wanted = table.record(index);
    let is_right = match are_reals {
        true => wanted.len() == record.len() && wanted.chunks_exact(8).zip(record.chunks_exact(8)).all(near),
        false => wanted == record,
    };
    if is_right {
        return Ok(());
    }
    Err(vesica_session::Error::Bug(format!("record {index} was retrieved wrongly")).into())
}

/// Does some work, and adds the milliseconds that it took.
fn timed<T>(times: &mut Vec<f64>, work: impl FnOnce() -> T) -> T {
    let start = SystemClock.now();
    let done = work();
    times.push(SystemClock.since(start).as_secs_f64() * 1e3);
    done
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite;
    use vesica_spec::service::ServiceProtocol;

    #[test]
    fn every_scheme_is_measured_and_compared_with_its_table() {
        use ServiceProtocol::{BfvPir, BgvPir, CkksPir, Download, EcdhOprf, Piano, SimplePir};
        let choice = Choice { expected: 10, preset: Preset::Fast, workers: 1, by: By::Index };
        let of = |protocol| Kind::of(protocol, None);
        for kind in suite::retrieving().filter(|kind| kind.protocol != ServiceProtocol::Null) {
            let protocol = kind.protocol;
            let cell = pir(kind, 1000, 16, choice, &Control::new(())).unwrap();
            assert_eq!((cell.protocol, cell.rows, cell.bytes), (protocol.name(), 1000, 16));
            assert_eq!((cell.hint, cell.workers), (kind.hint.map(Hint::name), 1));
            assert_eq!(cell.gb_a_second.is_some(), !matches!(protocol, Download | Piano));
            assert_eq!(cell.up_bytes == 0, protocol == ServiceProtocol::Download);
            // The lattice schemes hold polynomials, which are longer than the table, or columns beside it.
            let is_longer = kind.hint == Some(Hint::None) || matches!(protocol, BfvPir | BgvPir | CkksPir);
            assert_eq!(cell.store_bytes > 16_000, is_longer, "{kind}");
        }
        let by_key = Choice { by: By::Key, workers: 2, ..choice };
        for hint in [Hint::None, Hint::Copied] {
            let cell = pir(Kind::of(SimplePir, Some(hint)), 1000, 16, by_key, &Control::new(())).unwrap();
            assert_eq!((cell.by, cell.rows, cell.bytes), ("key", 1000, 16));
        }
        assert!(pir(of(EcdhOprf), 10, 1, choice, &Control::new(())).is_err());
        assert!(pir(of(Piano), 0, 1, choice, &Control::new(())).is_err());
        assert!(pir(of(Piano), 10, 1, by_key, &Control::new(())).is_err());
        assert!(pir(of(CkksPir), 10, 12, choice, &Control::new(())).is_err());
    }
}
