//! From common keys to rows of the output.

use crate::error::JobError;
use crate::input::keys::{Keys, PARTS};
use crate::tell::numbers::count;
use crate::threads::cores;
use crate::units::found::{Found, Match};
use std::path::Path;
use std::sync::Mutex;
use vesica_session::Error;
use vesica_spec::{Order, Plan, Share};
use vesica_table::{Picks, on_threads};
use vesica_types::RowId;

/// The most rows of an output; the same as the most keys a party may bring.
const MOST: u64 = vesica_spec::MAX_KEYS;

/// Matches that are read together, and rows that are placed together.
const BLOCK: usize = 1 << 11;

/// Which row of the input stands at which place of the output: this party's half of the join.
///
/// A key with m rows here and n there gives m·n rows on either side, and the same place holds the two halves of one joined
/// row: the left party's rows go round slowly, the right one's fast. Behind all pairs come the left table's rows without a
/// partner, then the right table's, in their input's order; `absent` is how many of them are the peer's, rows of nulls
/// here. Outputs that do not line up are in the order of this party's input, rows of nulls last.
///
/// # Errors
/// Those of reading and writing what is spilled; an output of an absurd size, which is also what a peer meets that lies
/// about its rows.
pub fn rows(plan: &Plan, keys: &Keys, found: &Found<'_>, absent: u64, dir: &Path) -> Result<Picks, JobError> {
    let half = plan.half();
    // The place of the first pair of each part's keys, and the pairs of all.
    let mut pairs = 0;
    let bases = found.pairs.iter().map(|&of_part| {
        let base = pairs;
        pairs += if half.pairs { u128::from(of_part) } else { 0 };
        base as u64
    });
    let bases: Vec<u64> = bases.collect();
    let alone = if half.mine { keys.kept() - found.rows } else { 0 };
    bounded(pairs + u128::from(alone) + u128::from(absent))?;

    let (aligned, pairs) = (plan.several_learn() && plan.order == Order::Aligned, pairs as u64);
    let left = plan.me.place() == 0;
    // The absent rows stand in front of mine only where the left table's do and I am right.
    let mine = if aligned { pairs + if left { 0 } else { absent } } else { 0 };
    let theirs = if aligned && !left { pairs } else { pairs + alone };
    let picks = Picks::new(keys.rows, Share::Picks.of(plan.memory), dir)?.turns_from(mine);
    let picks = Mutex::new(picks);
    let parts = Mutex::new((0..PARTS).zip(bases));
    on_threads(workers(plan, keys), || {
        let (mut matched, mut placed) = (Vec::new(), Placed { rows: Vec::with_capacity(BLOCK), picks: &picks });
        loop {
            let next = parts.lock().expect("no worker panics").next();
            let Some((part, mut base)) = next else { return placed.flush() };
            read(found, part, keys.kept_in(part), &mut matched)?;
            let mut matched = matched.iter();
            let (mut i, [mut rows, mut times]) = (0, [0u64; 2]);
            keys.each(part, |first, row| {
                if first {
                    // No overflow where pairs count; where they do not, nobody looks at a pair's place.
                    base = base.wrapping_add(rows.wrapping_mul(times));
                    (i, [rows, times]) = (0, matched.next().copied().unwrap_or_default());
                } else {
                    i += 1;
                }
                match rows {
                    0 if half.mine => placed.push(row, Place::Turn(1)),
                    1.. if half.pairs && aligned => (0..times).try_for_each(|j| {
                        let place = if left { i * times + j } else { j * rows + i };
                        placed.push(row, Place::At(base + place))
                    }),
                    1.. if half.pairs => placed.push(row, Place::Turn(times)),
                    _ => Ok(()),
                }
            })?;
        }
    })?;
    let mut picks = picks.into_inner().expect("no worker panics");
    if half.mine {
        keys.each_empty(|row| Ok(picks.push_turn(RowId(row), 1)?))?;
    }
    for place in theirs..theirs + absent {
        picks.push_absent(place)?;
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

/// Threads that join parts of the keys: as many as may work, and have memory for what has matched of a part.
fn workers(plan: &Plan, keys: &Keys) -> usize {
    // Keys stand in parts by chance, evenly; and a list that grows takes up to twice what it holds.
    let most = keys.distinct as usize / PARTS * 2 * size_of::<[u64; 2]>();
    cores(plan.workers).min(Share::Joining.of(plan.memory) / most.max(1)).max(1)
}

/// Reads the matches of `part` of the keys: for each of its first keys, of at most `keys`, the rows on this side and on the
/// other, none if it is not common. The keys behind them are not.
fn read(found: &Found<'_>, part: usize, keys: usize, matched: &mut Vec<[u64; 2]>) -> Result<(), JobError> {
    matched.clear();
    for block in found.matches.blocks(part, BLOCK) {
        for m in block?.as_chunks().0.iter().map(Match::from_bytes) {
            let place = m.key.place();
            if place >= keys {
                return Err(Error::Bug("a common key is none of this side's".into()).into());
            }
            if place >= matched.len() {
                matched.resize(place + 1, [0; 2]);
            }
            matched[place] = [m.rows, m.times];
        }
    }
    Ok(())
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
    use crate::input::keys::{FIRST, KeyId};
    use crate::local::{self, Local};
    use crate::seal::ledger::Ledger;
    use crate::seal::record::Start;
    use crate::tell::control::Control;
    use crate::units::cut::Units;
    use proptest::prelude::*;
    use std::io::Write;
    use std::process::Command;
    use vesica_spec::{Duplicates, Join};
    use vesica_suite::Sizes;
    use vesica_table::Spill;
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
        let plan = job(dir.path(), "memory = \"64 MiB\"");
        let before = peak();
        let mut local: Local = local::open(&plan, crate::io::Io::files(&plan).unwrap()).unwrap();
        let keys = Keys::extract(&*local.io.table, &plan, &local.scratch, &Control::new(())).unwrap();
        assert_eq!((keys.rows, keys.distinct), (rows, rows));
        let sizes = plan.sizes(&[rows, rows], 2, MEMORY);
        let units =
            Units::partition(&keys, &[1; 32], sizes.clone(), 0, plan.workers, plan.memory, &local.scratch).unwrap();
        let mut ledger = Ledger::new(plan.memory, &local.scratch);
        ledger.start(Start { salt: [1; 32], coins: Coins::new([0; 32]), sizes: sizes.clone() }).unwrap();
        for id in (0..sizes.units).map(UnitId) {
            let (_, found) = units.unit(id).unwrap();
            let found = found.into_iter().map(|(key, rows)| Match { key, rows, times: 1 });
            ledger.commit(id, &[0; 32], &found.collect::<Vec<_>>()).unwrap();
        }
        drop(units);
        let found = ledger.found().unwrap();
        let picks = super::rows(&plan, &keys, &found, 0, &local.scratch).unwrap();
        let sink = local.fresh_sink(&plan).unwrap().unwrap();
        let written = local.write(&plan, picks, rows, sink).unwrap().commit().unwrap();
        assert_eq!(written.rows, rows);
        let names = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(names, 2, "the input and the output, and nothing that was spilled");
        let grown = peak() - before;
        writeln!(std::io::stdout(), "{rows} rows in {} MiB", grown >> 20).unwrap();
        assert!(grown < MEMORY + (100 << 20), "{} MiB", grown >> 20);
    }

    /// A ledger with these matches, in units.
    fn ledger(matches: &[Match], memory: u64, dir: &Path) -> Ledger {
        let tag_len = TagLen::new(9).unwrap();
        let sizes = Sizes { units: 5, in_flight: 1, keys: vec![1000; 2], capacities: vec![1000; 2], tag_len };
        let mut ledger = Ledger::new(memory, dir);
        ledger.start(Start { salt: [1; 32], coins: Coins::new([0; 32]), sizes }).unwrap();
        for (unit, matches) in (0..).zip(matches.chunks(matches.len() / 5 + 1)) {
            ledger.commit(UnitId(unit), &[0; 32], matches).unwrap();
        }
        ledger
    }

    /// Every key with its rows, in the order of their numbers.
    fn groups(keys: &Keys) -> Vec<(KeyId, Vec<u64>)> {
        let mut groups: Vec<(KeyId, Vec<u64>)> = Vec::new();
        for part in 0..PARTS {
            let mut place = 0;
            let each = |first, row| {
                if first {
                    groups.push((KeyId::new(part, place), Vec::new()));
                    place += 1;
                }
                groups.last_mut().unwrap().1.push(row);
                Ok(())
            };
            keys.each(part, each).unwrap();
        }
        groups
    }

    /// The same keys, as they are when a killed run goes on.
    fn again(keys: &Keys, empties: &[u64], dir: &Path) -> Keys {
        let mut numbers = Spill::new(PARTS, 8, 1 << 20, dir).unwrap();
        for part in 0..PARTS {
            let mark = |first| if first { FIRST } else { 0 };
            keys.each(part, |first, row| Ok(numbers.push(part, &(row | mark(first)).to_be_bytes())?)).unwrap();
        }
        let mut spill = Spill::new(1, 8, 1 << 20, dir).unwrap();
        empties.iter().for_each(|row| spill.push(0, &row.to_be_bytes()).unwrap());
        Keys::cut(keys.rows, keys.distinct, numbers.finish().unwrap(), spill.finish().unwrap())
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
            table in prop::collection::vec(prop::option::weighted(0.9, 0u8..100), 0..300),
            peers in prop::collection::vec(0u64..4, 100),
            join in prop::sample::select(Join::ALL),
            (first, both, aligned, right, resumed) in any::<(bool, bool, bool, bool, bool)>(),
            workers in 1u32..4,
            memory in prop::sample::select(&[1u64 << 14, 1 << 26][..]),
            absent in 0usize..5,
        ) {
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

            let mut local = local::open(&plan, crate::io::Io::files(&plan).unwrap()).unwrap();
            let keys = Keys::extract(&*local.io.table, &plan, dir.path(), &Control::new(())).unwrap();
            let empties: Vec<u64> = (0..).zip(&table).filter(|(_, key)| key.is_none()).map(|(row, _)| row).collect();
            let keys = if resumed { again(&keys, &empties, dir.path()) } else { keys };
            let groups = groups(&keys);
            let times = |peer: u64| if plan.multiplies() { peer } else { 1 };
            let common = peers.iter().map(|&peer| (peer > 0).then(|| times(peer)));
            let sides: Vec<_> = groups.iter().map(|(_, rows)| rows.clone()).zip(common).collect();
            let matches = groups.iter().zip(&sides).filter_map(|((key, rows), (_, peer))| {
                Some(Match { key: *key, rows: rows.len() as u64, times: (*peer)? })
            });
            // In no order, as units are.
            let mut matches: Vec<Match> = matches.collect();
            matches.sort_by_key(|m| m.key.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut ledger = ledger(&matches, memory, dir.path());
            let picks = super::rows(&plan, &keys, &ledger.found().unwrap(), absent as u64, dir.path()).unwrap();

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
    fn a_peer_that_claims_too_many_rows_and_a_key_of_nobody_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.csv"), "id\nx\n").unwrap();
        let plan = job(dir.path(), "");
        let table = vesica_table::open(&plan.input).unwrap();
        let keys = Keys::extract(&*table, &plan, dir.path(), &Control::new(())).unwrap();
        let key = groups(&keys)[0].0;
        let rows = |matches: &[Match]| {
            let mut ledger = ledger(matches, plan.memory, dir.path());
            super::rows(&plan, &keys, &ledger.found().unwrap(), 0, dir.path()).map(|picks| picks.len())
        };
        let m = Match { key, rows: 1, times: 1 };
        assert_eq!(rows(&[m]).unwrap(), 1);
        for times in [MOST + 1, u64::MAX] {
            let error = rows(&[Match { times, rows: 3, ..m }]).unwrap_err();
            assert!(error.to_string().contains("remove duplicate keys"), "{error}");
        }
        let beyond = Match { key: KeyId::new(key.part(), 1), ..m };
        assert!(matches!(rows(&[beyond]), Err(JobError::Session(Error::Bug(_)))));
    }

    #[test]
    #[ignore = "takes a minute"]
    fn the_memory_is_kept() {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "output::join::tests::child_joins_in_little_memory"])
            .env("ROWS", "10000000")
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
