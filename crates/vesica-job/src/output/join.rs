//! From common keys to rows of the output.

use crate::error::JobError;
use crate::input::keys::Keys;
use crate::tell::numbers::count;
use crate::units::cut::Units;
use crate::units::found::{Found, OfUnit};
use crate::units::marks::Marks;
use std::path::Path;
use std::sync::Mutex;
use vesica_session::Error;
use vesica_spec::{Order, Plan, Share};
use vesica_table::{Picks, on_threads};
use vesica_types::RowId;

/// The most rows of an output; the same as the most keys a party may bring.
const MOST: u64 = vesica_spec::MAX_KEYS;

/// Rows that are placed together.
const BLOCK: usize = 1 << 11;

/// Which row of the input stands at which place of the output: this party's half of the join.
///
/// A key with m rows here and n there gives m·n rows on either side, and the same place holds the two halves of one joined
/// row: the left party's rows go round slowly, the right one's fast. Behind all pairs come the left table's rows without a
/// partner, then the right table's, in their input's order; `absent` is how many of them are the peer's, rows of nulls
/// here. Keys stand in the order of their units and, in each, of their digests, which is the same on both sides. Outputs that do
/// not line up are in the order of this party's input, rows of nulls last.
///
/// # Errors
/// Those of reading and writing what is spilled; an output of an absurd size, which is also what a peer meets that lies
/// about its rows.
pub fn rows(
    plan: &Plan,
    keys: &Keys,
    units: &Units,
    found: &Found<'_>,
    absent: u64,
    dir: &Path,
) -> Result<Picks, JobError> {
    let half = plan.half();
    // The place of the first pair of each unit's keys, and the pairs of all.
    let mut pairs = 0;
    let bases = found.pairs.iter().map(|&of_unit| {
        let base = pairs;
        pairs += if half.pairs { u128::from(of_unit) } else { 0 };
        base as u64
    });
    let bases: Vec<u64> = bases.collect();
    let alone = keys.kept(plan.shared.duplicates).checked_sub(found.rows);
    let alone = if half.mine { alone.ok_or_else(|| units.changed())? } else { 0 };
    bounded(pairs + u128::from(alone) + u128::from(absent))?;

    let (aligned, pairs) = (plan.several_learn() && plan.order == Order::Aligned, pairs as u64);
    let left = plan.me.place() == 0;
    // The absent rows stand in front of mine only where the left table's do and I am right.
    let mine = if aligned { pairs + if left { 0 } else { absent } } else { 0 };
    let theirs = if aligned && !left { pairs } else { pairs + alone };
    // What was marked as units ended needs no unit to be read. Only rows in the input's order are.
    let (picks, marked) = match units.take_marks() {
        Some(Marks { picks, units }) => (picks, units),
        None => (Picks::new(keys.rows, Share::Picks.of(plan.memory), dir)?.turns_from(mine), Vec::new()),
    };
    let picks = Mutex::new(picks);
    let mut to_read = units.largest_first();
    to_read.retain(|id| !marked.get(id.0 as usize).copied().unwrap_or(false));
    let missing = Mutex::new(to_read.into_iter());
    // Where somebody waits, one thread takes all units: of several, the slowest would tell whether two keys of many rows share a unit.
    let waited = !plan.writes_apart() && units.have_others();
    let readers = if waited { 1 } else { units.readers(plan.workers, Share::Joining.of(plan.memory)) };
    on_threads(readers, || {
        let (mut common, mut placed) = (OfUnit::default(), Placed { rows: Vec::with_capacity(BLOCK), picks: &picks });
        loop {
            let next = missing.lock().expect("no worker panics").next();
            let Some(id) = next else { return placed.flush() };
            let mut base = bases[id.0 as usize];
            common.read(found, id)?;
            // Where somebody waits for the output, every unit takes its time: whether one was left out may say which key has many rows.
            if common.is_empty() && !half.mine && plan.writes_apart() {
                continue;
            }
            let (mut key, mut i, mut now) = (0, 0, None::<[u64; 2]>);
            units.each(id, |first, row| {
                if first {
                    // No overflow where pairs count; where they do not, nobody looks at a pair's place.
                    base = base.wrapping_add(now.map_or(0, |[_, times]| times.wrapping_mul(i)));
                    (i, now) = (0, common.times(key));
                    key += 1;
                }
                i += 1;
                match now {
                    None if half.mine => placed.push(row, Place::Turn(1)),
                    Some([rows, times]) if half.pairs && aligned => (0..times).try_for_each(|j| {
                        let place = if left { (i - 1) * times + j } else { j * rows + i - 1 };
                        placed.push(row, Place::At(base + place))
                    }),
                    Some([_, times]) if half.pairs => placed.push(row, Place::Turn(times)),
                    _ => Ok(()),
                }
            })?;
            common.are_below(key)?;
        }
    })?;
    units.rest();
    let mut picks = picks.into_inner().expect("no worker panics");
    if half.mine {
        units.each_empty(|row| Ok(picks.push_turn(RowId(row), 1)?))?;
    }
    for place in theirs..theirs + absent {
        picks.push_absent(place)?;
    }
    let due = pairs + alone + absent;
    if picks.len() != due {
        return Err(Error::Bug(format!("{} rows are placed where {due} were due", picks.len())).into());
    }
    Ok(picks)
}

/// Sees that a join of `total` rows is not larger than an output may be.
///
/// # Errors
/// If it is, which is also what a peer meets that lies about its rows.
pub fn bounded(total: u128) -> Result<(), JobError> {
    if total <= u128::from(MOST) {
        return Ok(());
    }
    Err(JobError::Setup(format!(
        "the join has {total} rows, because a key with m rows here and n there gives m times n; the most is {}: remove \
         duplicate keys on one side",
        count(MOST)
    )))
}

/// Where a row stands in the output.
#[derive(Clone, Copy)]
enum Place {
    At(u64),
    /// So many times in its turn: in the order of the input.
    Turn(u64),
}

/// Rows that a thread has placed, on their way to the picks of all.
struct Placed<'a> {
    rows: Vec<(RowId, Place)>,
    picks: &'a Mutex<Picks>,
}

impl Placed<'_> {
    #[inline]
    fn push(&mut self, row: u64, place: Place) -> Result<(), JobError> {
        self.rows.push((RowId(row), place));
        if self.rows.len() < BLOCK { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), JobError> {
        let mut picks = self.picks.lock().expect("no worker panics");
        self.rows.drain(..).try_for_each(|(row, place)| match place {
            Place::At(place) => Ok(picks.push(row, place)?),
            Place::Turn(times) => Ok(picks.push_turn(row, times)?),
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::input::keys::KeyId;
    use crate::local::{self, Local};
    use crate::seal::ledger::Ledger;
    use crate::seal::record::Start;
    use crate::tell::control::Control;
    use crate::units::cut::Records;
    use crate::units::found::{Match, matches};
    use proptest::prelude::*;
    use std::collections::HashSet;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;
    use std::process::Command;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;
    use vesica_spec::{Duplicates, Join};
    use vesica_suite::Sizes;
    use vesica_table::{Spill, Spilled, Table};
    use vesica_types::{Coins, Party, TagLen, UnitId};

    /// The memory that the job promises to keep to.
    const MEMORY: u64 = 64 << 20;

    /// A job over the table `a.csv` in `dir`.
    fn job(dir: &Path, mine: &str) -> Plan {
        let job = format!(
            "[shared]\nid = \"j\"\nparties = [\"a\", \"b\"]\nprotocol = \"ecdh\"\nlearns = [\"a\", \"b\"]\ninsecure = true\n\
             [mine]\nname = \"a\"\nlisten = \"127.0.0.1:0\"\ninput = {{ path = \"{0}/a.csv\", keys = [\"id\"] }}\n\
             output = {{ path = \"{0}/out.csv\" }}\nscratch = \"{0}\"\n{mine}\n",
            dir.display()
        );
        vesica_spec::plan(&vesica_spec::parse(&job).unwrap()).unwrap()
    }

    /// Peak memory of this process, in bytes.
    fn peak() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    /// Looks now and again at what files without a name take on the disk.
    struct Scratch {
        peak: Arc<AtomicU64>,
        looking: std::thread::JoinHandle<()>,
    }

    impl Scratch {
        /// Those in `dir` that this process has open.
        fn watch(dir: &Path) -> Self {
            let (dir, peak) = (dir.to_owned(), Arc::new(AtomicU64::new(0)));
            let shared = peak.clone();
            let bytes = move || {
                let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten().filter(|entry| {
                    let name = std::fs::read_link(entry.path()).unwrap_or_default();
                    name.starts_with(&dir) && name.to_string_lossy().ends_with("(deleted)")
                });
                open.filter_map(|entry| Some(512 * std::fs::metadata(entry.path()).ok()?.blocks())).sum()
            };
            let looking = std::thread::spawn(move || {
                // Nobody else has it when the watch is over.
                while Arc::strong_count(&shared) > 1 {
                    shared.fetch_max(bytes(), Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(3));
                }
            });
            Self { peak, looking }
        }

        /// The most bytes that they took.
        fn peak(self) -> u64 {
            let bytes = self.peak.load(Ordering::SeqCst);
            drop(self.peak);
            self.looking.join().unwrap();
            bytes
        }
    }

    /// All of a run but the protocol, over as many rows as the environment says: read, cut into units, find every key
    /// common, join, write in another order.
    #[test]
    #[ignore = "started by other tests"]
    fn child_joins_in_little_memory() {
        // By itself, in a process with others, there is nothing to measure.
        let Ok(rows) = std::env::var("ROWS") else { return };
        let rows: u64 = rows.parse().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut file = std::io::BufWriter::new(std::fs::File::create(dir.path().join("a.csv")).unwrap());
        file.write_all(b"id,v\n").unwrap();
        (0..rows).for_each(|i| writeln!(file, "{},some more text", i * 1_000_003 % rows).unwrap());
        drop(file);
        let mut plan = job(dir.path(), "memory = \"64 MiB\"");
        let aligned = std::env::var_os("ALIGNED").is_some();
        plan.order = if aligned { Order::Aligned } else { Order::Input };
        let before = peak();
        // The output stands in a file without a name too, until it gets one.
        let apart = dir.path().join("scratch");
        std::fs::create_dir(&apart).unwrap();
        plan.scratch = Some(apart.clone());
        let scratch = Scratch::watch(&apart);
        let mut local: Local =
            local::open(&plan, crate::io::Io::files(&plan).unwrap(), &crate::Control::new(())).unwrap();
        let (table, dir_of, ctl) = (&*local.io.table, &local.scratch, Control::new(()));
        let keys = Keys::count(table, &plan, dir_of, &ctl).unwrap();
        assert_eq!((keys.rows, keys.distinct), (rows, rows));
        let sizes = plan.sizes(&[rows, rows], 2, MEMORY);
        let mut units = Units::cut(table, &plan, &keys, None, &[1; 32], sizes.clone(), 0, dir_of, &ctl).unwrap();
        let mut ledger = Ledger::new(plan.memory, &local.scratch);
        ledger
            .start(Start { salt: [1; 32], coins: Coins::new([0; 32]), sizes: sizes.clone(), lists: vec![0; 2] })
            .unwrap();
        // Every other unit ends in this process, and the others did before.
        units.mark_rows(&plan, &keys, &local.scratch).unwrap();
        for id in (0..sizes.units).map(UnitId) {
            let (unit, counts, firsts) = units.unit_to_mark(id).unwrap();
            let found: Vec<Match> = matches(&counts, &(0..unit.keys.len() as u32).collect::<Vec<_>>()).collect();
            ledger.commit(id, &[0; 32], &found).unwrap();
            if id.0.is_multiple_of(2) {
                units.mark(id, &found, &firsts).unwrap();
            }
        }
        let found = ledger.found().unwrap();
        let cut = scratch.peak.load(Ordering::SeqCst);
        let picks = super::rows(&plan, &keys, &units, &found, 0, &local.scratch).unwrap();
        drop(units);
        let sink = local.fresh_sink(&plan).unwrap().unwrap();
        let written = local.write(&plan, picks, rows, sink).unwrap().commit().unwrap();
        assert_eq!(written.rows, rows);
        let names = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(names, 3, "the input, the output and a folder for what was spilled");
        assert_eq!(std::fs::read_dir(&apart).unwrap().count(), 0);
        let grown = peak() - before;
        let [cut, all] = [cut, scratch.peak()].map(|bytes| bytes as f64 / rows as f64);
        writeln!(
            std::io::stdout(),
            "{rows} rows in {} MiB; {cut:.1} bytes of scratch a row until there are units, {all:.1} until the end",
            grown >> 20
        )
        .unwrap();
        assert!(grown < MEMORY + (100 << 20), "{} MiB", grown >> 20);
        // What is to stand in another order than the input's is spilled with all its bytes.
        assert!(cut <= 22.0 && (aligned || all <= 22.0), "{cut} and {all} bytes of scratch a row");
    }

    /// The keys of a table, cut into five units.
    fn cut(table: &dyn Table, plan: &Plan) -> (Keys, Units) {
        let (dir, ctl, tag_len) = (plan.scratch.as_ref().unwrap(), Control::new(()), TagLen::new(9).unwrap());
        let sizes = Sizes { units: 5, in_flight: 1, keys: vec![1000; 2], capacities: vec![1000; 2], tag_len };
        let keys = Keys::count(table, plan, dir, &ctl).unwrap();
        (keys, Units::cut(table, plan, &keys, None, &[1; 32], sizes, 0, dir, &ctl).unwrap())
    }

    /// A ledger with these matches, which come in no order.
    fn ledger(matches: &[Match], sizes: &Sizes, memory: u64, dir: &Path) -> Ledger {
        let mut ledger = Ledger::new(memory, dir);
        ledger
            .start(Start { salt: [1; 32], coins: Coins::new([0; 32]), sizes: sizes.clone(), lists: vec![0; 2] })
            .unwrap();
        for id in (0..sizes.units).rev().map(UnitId) {
            let of_unit: Vec<Match> = matches.iter().filter(|m| m.key.unit() == id).copied().collect();
            ledger.commit(id, &[0; 32], &of_unit).unwrap();
        }
        ledger
    }

    /// Every key with its rows, in the order of their numbers.
    fn groups(units: &Units) -> Vec<(KeyId, Vec<u64>)> {
        let mut groups: Vec<(KeyId, Vec<u64>)> = Vec::new();
        for id in (0..units.sizes.units).map(UnitId) {
            let mut place = 0;
            let each = |first, row| {
                if first {
                    groups.push((KeyId::new(id, place), Vec::new()));
                    place += 1;
                }
                groups.last_mut().unwrap().1.push(row);
                Ok(())
            };
            units.each(id, each).unwrap();
        }
        groups
    }

    /// The same units with their records the other way round: their order has no meaning.
    fn turned(units: &Units, plan: &Plan, dir: &Path) -> Units {
        let turned = |spilled: &Spilled| {
            let record = spilled.record_bytes();
            let mut spill = Spill::new(spilled.buckets(), record, 1 << 12, dir).unwrap();
            for bucket in 0..spilled.buckets() {
                spilled.read(bucket).unwrap().chunks(record).rev().for_each(|r| spill.push(bucket, r).unwrap());
            }
            spill.finish().unwrap()
        };
        let (firsts, others, empties) = units.records();
        let others = others.map(turned);
        let records = Records { firsts: turned(firsts), others, empties: turned(empties) };
        Units::new(units.sizes.clone(), units.place, &plan.into(), records, Path::new("a.csv"), dir)
    }

    /// The output by its definition: a key's rows on this side, and how many the peer has of it, if it is common; this
    /// side's rows without a key; rows of nulls.
    fn defined(plan: &Plan, keys: &[(Vec<u64>, Option<u64>)], empties: &[u64], absent: usize) -> Vec<Option<u64>> {
        let half = plan.half();
        let common = || keys.iter().filter_map(|(rows, peer)| Some((rows, (*peer)?)));
        let unmatched = keys.iter().filter(|(_, peer)| peer.is_none()).flat_map(|(rows, _)| rows);
        let mut alone: Vec<u64> = unmatched.chain(empties).copied().filter(|_| half.mine).collect();
        let nulls = std::iter::repeat_n(None, absent);
        if plan.several_learn() && plan.order == Order::Aligned {
            alone.sort_unstable();
            let (left, right): (Vec<_>, Vec<_>) = common()
                .flat_map(|(rows, peer)| {
                    let left = rows.iter().flat_map(move |&row| (0..peer).map(move |_| row));
                    left.zip((0..peer).flat_map(|_| rows.iter().copied()))
                })
                .filter(|_| half.pairs)
                .unzip();
            let alone = alone.into_iter().map(Some);
            return match plan.me.place() {
                0 => left.into_iter().map(Some).chain(alone).chain(nulls).collect(),
                _ => right.into_iter().map(Some).chain(nulls).chain(alone).collect(),
            };
        }
        let mut rows: Vec<u64> = common()
            .filter(|_| half.pairs)
            .flat_map(|(rows, peer)| (0..peer).flat_map(move |_| rows.iter().copied()))
            .chain(alone)
            .collect();
        rows.sort_unstable();
        rows.into_iter().map(Some).chain(nulls).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn rows_stand_where_the_join_has_them(
            mut table in prop::collection::vec(prop::option::weighted(0.9, 0u8..100), 0..300),
            peers in prop::collection::vec(0u64..4, 100),
            join in prop::sample::select(Join::ALL),
            (first, both, aligned, right, resumed) in any::<(bool, bool, bool, bool, bool)>(),
            alone in any::<bool>(),
            marked in prop::option::of(0u32..32),
            workers in 1u32..4,
            memory in prop::sample::select(&[1u64 << 14, 1 << 26][..]),
            absent in 0usize..5,
        ) {
            if alone {
                let mut seen = HashSet::new();
                table.retain(|key| key.is_none_or(|key| seen.insert(key)));
            }
            let dir = tempfile::tempdir().unwrap();
            let row = |(i, key): (usize, &Option<u8>)| format!("{},{i}\n", key.map_or(String::new(), |k| k.to_string()));
            let text: String = table.iter().enumerate().map(row).collect();
            std::fs::write(dir.path().join("a.csv"), format!("id,row\n{text}")).unwrap();
            let mut plan = job(dir.path(), "");
            (plan.shared.join, plan.memory, plan.workers) = (join, memory, workers);
            plan.shared.duplicates = if first { Duplicates::First } else { Duplicates::Join };
            plan.order = if aligned { Order::Aligned } else { Order::Input };
            plan.me = Party::new(u8::from(right), "a");
            plan.learners = if both { plan.parties.clone() } else { vec![plan.me.clone()] };
            let output = plan.output.as_mut().unwrap();
            (output.absent, output.null) = (true, "-".into());

            let mut local = local::open(&plan, crate::io::Io::files(&plan).unwrap(), &crate::Control::new(())).unwrap();
            let (keys, units) = cut(&*local.io.table, &plan);
            let empties: Vec<u64> = (0..).zip(&table).filter(|(_, key)| key.is_none()).map(|(row, _)| row).collect();
            let mut units = if resumed { turned(&units, &plan, dir.path()) } else { units };
            let groups = groups(&units);
            let times = |peer: u64| if plan.multiplies() { peer } else { 1 };
            let common = peers.iter().map(|&peer| (peer > 0).then(|| times(peer)));
            let sides: Vec<_> = groups.iter().map(|(_, rows)| rows.clone()).zip(common).collect();
            let matches = groups.iter().zip(&sides).filter_map(|((key, rows), (_, peer))| {
                Some(Match { key: *key, rows: rows.len() as u64, times: (*peer)? })
            });
            // In no order, as units are.
            let mut matches: Vec<Match> = matches.collect();
            matches.sort_by_key(|m| m.key.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut ledger = ledger(&matches, &units.sizes, memory, dir.path());
            // Some units ended in this process, and some before.
            if let Some(ended) = marked {
                units.mark_rows(&plan, &keys, dir.path()).unwrap();
                for id in (0..units.sizes.units).filter(|id| ended >> id & 1 == 1).map(UnitId) {
                    let of_unit: Vec<Match> = matches.iter().filter(|m| m.key.unit() == id).copied().collect();
                    let (_, _, firsts) = units.unit_to_mark(id).unwrap();
                    units.mark(id, &of_unit, &firsts).unwrap();
                }
            }
            let found = ledger.found().unwrap();
            let picks = super::rows(&plan, &keys, &units, &found, absent as u64, dir.path()).unwrap();

            let defined = defined(&plan, &sides, &empties, absent);
            prop_assert_eq!(picks.len(), defined.len() as u64);
            let sink = local.fresh_sink(&plan).unwrap().unwrap();
            local.write(&plan, picks, keys.rows, sink).unwrap().commit().unwrap();
            let written = std::fs::read_to_string(dir.path().join("out.csv")).unwrap();
            let row = |line: &str| line.split_once(',').unwrap().1.parse().ok();
            let written: Vec<Option<u64>> = written.lines().skip(1).map(row).collect();
            prop_assert_eq!(written, defined);
        }
    }

    #[test]
    fn marks_that_are_not_what_the_ledger_has_are_no_output() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.csv"), "id\nx\ny\nz\n").unwrap();
        let plan = Plan { order: Order::Input, ..job(dir.path(), "") };
        let (keys, mut units) = cut(&*vesica_table::open(&plan.input).unwrap(), &plan);
        let matches: Vec<Match> = groups(&units).into_iter().map(|(key, _)| Match { key, rows: 1, times: 1 }).collect();
        let mut rows = |lost: usize| {
            units.mark_rows(&plan, &keys, dir.path()).unwrap();
            for id in (0..units.sizes.units).map(UnitId) {
                let (_, _, firsts) = units.unit_to_mark(id).unwrap();
                let of_unit: Vec<Match> = matches[lost..].iter().filter(|m| m.key.unit() == id).copied().collect();
                units.mark(id, &of_unit, &firsts).unwrap();
            }
            let mut ledger = ledger(&matches, &units.sizes, plan.memory, dir.path());
            super::rows(&plan, &keys, &units, &ledger.found().unwrap(), 0, dir.path()).map(|picks| picks.len())
        };
        assert_eq!(rows(0).unwrap(), 3);
        assert!(matches!(rows(1), Err(JobError::Session(Error::Bug(_)))));
        // A match that is none of the unit's keys.
        units.mark_rows(&plan, &keys, dir.path()).unwrap();
        let id = matches[0].key.unit();
        let beyond = Match { key: KeyId::new(id, 3), ..matches[0] };
        let (_, _, firsts) = units.unit_to_mark(id).unwrap();
        assert!(units.mark(id, &[beyond], &firsts).is_err());
    }

    /// Which rows repeat a key is kept in the memory that marks would have.
    #[test]
    fn rows_of_a_table_whose_keys_repeat_are_not_marked() {
        let dir = tempfile::tempdir().unwrap();
        for (text, marked) in [("id\nx\ny\n", true), ("id\nx\ny\nx\n", false)] {
            std::fs::write(dir.path().join("a.csv"), text).unwrap();
            for duplicates in [Duplicates::Join, Duplicates::First] {
                let mut plan = Plan { order: Order::Input, ..job(dir.path(), "") };
                plan.shared.duplicates = duplicates;
                let (keys, mut units) = cut(&*vesica_table::open(&plan.input).unwrap(), &plan);
                units.mark_rows(&plan, &keys, dir.path()).unwrap();
                assert_eq!(units.take_marks().is_some(), marked, "{duplicates:?}");
            }
        }
    }

    #[test]
    fn a_peer_that_claims_too_many_rows_and_a_key_of_nobody_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.csv"), "id\nx\n").unwrap();
        let plan = job(dir.path(), "");
        let table = vesica_table::open(&plan.input).unwrap();
        let (keys, units) = cut(&*table, &plan);
        let key = groups(&units)[0].0;
        let rows = |matches: &[Match]| {
            let mut ledger = ledger(matches, &units.sizes, plan.memory, dir.path());
            super::rows(&plan, &keys, &units, &ledger.found().unwrap(), 0, dir.path()).map(|picks| picks.len())
        };
        let m = Match { key, rows: 1, times: 1 };
        assert_eq!(rows(&[m]).unwrap(), 1);
        for times in [MOST + 1, u64::MAX] {
            let error = rows(&[Match { times, rows: 3, ..m }]).unwrap_err();
            assert!(error.to_string().contains("remove duplicate keys"), "{error}");
        }
        let beyond = Match { key: KeyId::new(key.unit(), 1), ..m };
        assert!(matches!(rows(&[beyond]), Err(JobError::Session(Error::Bug(_)))));
    }

    #[test]
    #[ignore = "takes a minute"]
    fn the_memory_is_kept() {
        for aligned in [None, Some(("ALIGNED", ""))] {
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--ignored", "--exact", "--nocapture", "output::join::tests::child_joins_in_little_memory"])
                .env("ROWS", "10000000")
                .envs(aligned)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&child.stdout);
            assert!(
                child.status.success() && said.contains(" rows in "),
                "{said}\n{}",
                String::from_utf8_lossy(&child.stderr)
            );
        }
    }
}
